"""The places of an account's password, their order, and refusals: no test shows or sends a password."""

from __future__ import annotations

import getpass
import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bufferlab.engines.innodb import connection
from bufferlab.engines.innodb.connection import FORM, OptionLine
from bufferlab.engines.postgres.connection import FORM as POSTGRES
from bufferlab.engines.postgres.connection import password_of_service
from bufferlab.engines.servers.existing.address import Form, parse
from bufferlab.engines.servers.existing.passwords import DeniedError, Password, find, logged_in, source_words
from bufferlab.errors import EnvironmentLackingError

MYSQL_URL, POSTGRES_URL = "mysql://me@db.example/lab", "postgres://me@db.example/lab"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty home, and unset the variables that hold passwords."""
    for name in os.environ:
        if name.startswith(("BUFFERLAB_", "PG")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def found(url: str, form: Form = FORM) -> tuple[str, str | None]:
    password = find(parse(url, form), form)
    return password.text, password.source


def test_the_first_place_in_the_documented_order_wins_on_mysql(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(MYSQL_URL) == ("", None)
    usual = write(home / ".my.cnf", "[client]\npassword=of the client\n")
    assert found(MYSQL_URL) == ("of the client", str(usual))
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "of the environment")
    assert found(MYSQL_URL) == ("of the environment", "the environment variable BUFFERLAB_PASSWORD")
    named = write(home / "named.cnf", "[client]\npassword=of the file\n")
    assert found(f"{MYSQL_URL}?password_file={named}") == ("of the file", str(named))


def test_the_first_place_in_the_documented_order_wins_on_postgresql(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(POSTGRES_URL, POSTGRES) == ("", None)
    usual = write(home / ".pgpass", "db.example:5432:lab:me:of pgpass\n")
    assert found(POSTGRES_URL, POSTGRES) == ("of pgpass", str(usual))
    monkeypatch.setenv("PGPASSFILE", str(write(home / "other", "*:*:*:*:of the other\n")))
    assert found(POSTGRES_URL, POSTGRES) == ("of the other", str(home / "other"))
    monkeypatch.setenv("PGPASSWORD", "of libpq")
    assert found(POSTGRES_URL, POSTGRES) == ("of libpq", "the environment variable PGPASSWORD")
    services = write(home / ".pg_service.conf", "[mine]\nhost=db\npassword=of the service\n")
    monkeypatch.setenv("PGSERVICE", "mine")
    assert found(POSTGRES_URL, POSTGRES) == ("of the service", str(services))
    monkeypatch.setenv("PGSERVICE", "another")
    assert found(POSTGRES_URL, POSTGRES)[0] == "of libpq"
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "")
    assert found(POSTGRES_URL, POSTGRES) == ("", "the environment variable BUFFERLAB_PASSWORD")


def test_reports_say_where_the_password_is_and_no_password(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert source_words(parse(MYSQL_URL, FORM), FORM) == "none"
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "secret")
    assert source_words(parse(MYSQL_URL, FORM), FORM) == "from the environment variable BUFFERLAB_PASSWORD"
    file = write(home / "named.cnf", "[client]\npassword=secret\n")
    assert source_words(parse(f"{MYSQL_URL}?password_file={file}", FORM), FORM) == f"from {file}"
    monkeypatch.setenv("BUFFERLAB_TYPED", "1")
    assert source_words(parse(MYSQL_URL, FORM), FORM) == "from the terminal"


@pytest.mark.parametrize(
    ("name", "text", "url", "form"),
    [
        (".my.cnf", "[bufferlab]\npassword=secret\n", MYSQL_URL, FORM),
        (".pgpass", "*:*:*:*:secret\n", POSTGRES_URL, POSTGRES),
    ],
)
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused_only_when_the_password_would_come_from_it(
    home: Path, name: str, text: str, url: str, form: Form, mode: int
) -> None:
    usual = write(home / name, text, mode)
    with pytest.raises(EnvironmentLackingError, match="others may read") as caught:
        found(url, form)
    assert (caught.value.where, caught.value.hint) == (str(usual), f"chmod 600 {usual}")
    assert "secret" not in caught.value.render()
    write(usual, "# nothing\n", mode)
    assert found(url, form) == ("", None)


def test_an_included_file_gives_the_password_and_it_is_that_file_which_others_must_not_read(home: Path) -> None:
    folder = home / "more"
    folder.mkdir()
    write(home / ".my.cnf", f"!includedir {folder}\n[client]\nuser=me\n", 0o644)
    write(folder / "a.cnf", "[client]\npassword=a\n")
    inner = write(folder / "b.cnf", "[client]\npassword='b # c'\n")
    write(folder / "c.txt", "[client]\npassword=not read\n")
    write(folder / "d.cnf", "[client]\npassword=everybody may write this\n", 0o606)
    assert found(MYSQL_URL) == ("b # c", str(inner))
    inner.chmod(0o644)
    with pytest.raises(EnvironmentLackingError, match="others may read") as caught:
        found(MYSQL_URL)
    assert caught.value.where == str(inner)


def test_a_file_that_includes_itself_ends(home: Path) -> None:
    usual = home / ".my.cnf"
    write(usual, f"[client]\npassword=once\n!include {usual}\n!include {home}/missing\n")
    assert found(MYSQL_URL)[0] == "once"


def test_a_password_beside_another_users_name_is_not_used(home: Path) -> None:
    write(home / ".my.cnf", "[client]\nuser=root\npassword=roots\n")
    assert found(MYSQL_URL) == ("", None)
    write(home / ".my.cnf", "[client]\nuser=root\npassword=roots\n[bufferlab]\nuser=me\npassword=mine\n")
    assert found(MYSQL_URL)[0] == "mine"


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("[client]\npassword=a#b", "a"),
        ("[client]\npassword='a#b' # c", "a#b"),
        ('[client]\npassword="a\\"#b"', 'a"#b'),
        ("[client]\npassword=a\\sb\\\\", "a b\\"),
        ("[client]\npassword = a b ", "a b"),
        ("[client]\npassword=", ""),
        ("[client]\npassword", None),
        ("[client]\npassword=a\npassword", None),
        ("[mysqld]\npassword=no", None),
        ("[ client]\npassword=no", None),
        ("[client ]\npassword=yes", "yes"),
        ("; no\n#no\n[client]\n;password=no\npassword=yes\n", "yes"),
        ("password=no\n[client]\npassword=no", None),
        ("[client]\npassword=yes\n[broken\npassword=no", "yes"),
        ("[client]\npassword=a=b", "a=b"),
        ("[client]\npassword='", "'"),
        ("[client]\npassword='a\"", "'a\""),
        ("[client]\r\npassword=a\r\n", "a"),
    ],
)
def test_an_option_file_is_read_as_the_clients_read_it(home: Path, text: str, password: str | None) -> None:
    path = write(home / "client.cnf", text)
    told = connection.password_in(path, parse(MYSQL_URL, FORM))
    assert (told and told[0]) == password


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_no_text_of_an_option_file_makes_the_parser_fail(text: str) -> None:
    assert all(isinstance(line, OptionLine) for line in connection.lines(text))


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Zs")) | st.just(" "), min_size=1))
@example('it\'s "both" \\ and # more')
def test_what_is_quoted_and_escaped_comes_back(value: str) -> None:
    written = value.replace("\\", "\\\\").replace('"', '\\"')
    assert [*connection.lines(f'[client]\npassword = "{written}"  # mine')] == [OptionLine("client", "password", value)]


def test_a_service_ends_where_the_next_begins() -> None:
    assert password_of_service("[a]\nuser=x\n[b]\npassword=b\n", "a") is None
    assert password_of_service("[a]\npassword = spaced\npassword=first\npassword=second", "a") == "first"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_prompt_asks_once_and_only_when_the_server_refuses_an_account_without_a_password(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(getpass, "getpass", lambda prompt: asked.append(prompt) or "typed")
    # The test restores at its end the variables that `logged_in` sets.
    for name in ("BUFFERLAB_PASSWORD", "BUFFERLAB_TYPED"):
        monkeypatch.setenv(name, "")
        del os.environ[name]
    address = parse(MYSQL_URL, FORM)

    def server(password: str) -> str:
        if password != "typed":
            raise DeniedError("the server refuses it")
        return "a connection"

    with pytest.raises(DeniedError):
        logged_in(address, FORM, server)
    assert asked == []
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert logged_in(address, FORM, lambda password: f"without: {password!r}") == "without: ''"
    assert asked == []
    assert logged_in(address, FORM, server) == "a connection"
    assert logged_in(address, FORM, server) == "a connection"
    assert asked == ["Password of me on db.example:3306: "]
    # So a worker finds it, and its results say where it came from.
    assert found(MYSQL_URL) == ("typed", "the terminal")
    assert "typed" not in repr(Password("typed", "the terminal"))
    os.environ["BUFFERLAB_PASSWORD"] = "wrong"
    with pytest.raises(DeniedError):
        logged_in(address, FORM, server)
    assert len(asked) == 1
