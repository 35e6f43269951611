"""URLs of servers that run already: their allowed parts, and that a password appears in no other place."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bufferlab.cli.options import refuse_password, server_setting
from bufferlab.engines import registry
from bufferlab.engines.innodb.connection import FORM
from bufferlab.engines.postgres.connection import FORM as POSTGRES
from bufferlab.engines.servers.existing.address import Address, Form, Security, is_url, private
from bufferlab.engines.servers.existing.address import parse as parse_as
from bufferlab.engines.servers.existing.passwords import find
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.units import UnitError

SOCKET = "mysql://me@localhost/lab?socket=/run/mysqld.sock"
POSTGRES_SOCKET = "postgres://me@localhost/lab?socket=/run/postgresql"


def parse(url: str, form: Form = FORM) -> Address:
    return parse_as(url, form)


def password(address: Address, form: Form = FORM) -> str:
    return find(address, form).text


def test_a_url_says_where_and_as_whom() -> None:
    address = parse("mysql://me@db.example:3307/lab")
    assert (address.user, address.host, address.port, address.schema) == ("me", "db.example", 3307, "lab")
    assert parse(SOCKET).socket == "/run/mysqld.sock"
    assert parse("mariadb://me@localhost/lab").port == 3306
    assert not is_url("mysql-5.7")
    other = parse("postgresql://me@db.example/lab", POSTGRES)
    assert (other.user, other.host, other.port, other.schema) == ("me", "db.example", 5432, "lab")
    assert parse(POSTGRES_SOCKET, POSTGRES).socket == "/run/postgresql"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://localhost/lab",
        "mysql://me@localhost/",
        "mysql://me@localhost/lab;drop",
        "mysql://me@localhost/mysql",
        "mysql://me@localhost:0/lab",
        "mysql://me@localhost/lab?ssl=1",
        "mysql://[@h/d",
        "mysql://a\x1b[31m@h/d",
        f"mysql://me@{'a' * 64}/lab",
        f"mysql://{'a' * 65}@h/lab",
        "mysql://me@h\udcff/lab",
        "mysql://me@localhost/lab?socket=/a&socket",
        "postgres://me@localhost/lab",
    ],
)
def test_a_url_that_says_anything_else_is_refused(url: str) -> None:
    with pytest.raises(EnvironmentLackingError):
        parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgres://localhost/lab",
        "postgres://me@localhost/",
        "postgres://me@localhost/postgres",
        "postgres://me@localhost/template1",
        f"postgres://me@localhost/{'x' * 64}",
        "postgres://me@localhost/lab?get_server_public_key=true",
        "mysql://me@localhost/lab",
    ],
)
def test_a_url_that_is_not_of_postgresql_is_refused(url: str) -> None:
    with pytest.raises(EnvironmentLackingError):
        parse(url, POSTGRES)


@pytest.mark.parametrize(
    ("url", "form", "said"),
    [
        ("mysql://me@h/lab?ssl=true", FORM, 'no option "ssl"'),
        ("mysql://me@h/lab?login_path=mine", FORM, "login_path=mine: bufferlab does not read .mylogin.cnf"),
        ("mysql://me@h/lab?sslmode=allow", FORM, "sslmode=allow is none of disable, prefer"),
        ("mysql://me@h/lab?sslmode=verify-full", FORM, "sslmode=verify-full needs sslrootcert"),
        ("mysql://me@h/lab?sslrootcert=ca.pem", FORM, "sslrootcert=ca.pem is not an absolute path"),
        ("mysql://me@h/lab?sslcert=/a", FORM, "sslcert and sslkey go together"),
        ("mysql://me@h/lab?allow_unverified_password=1", FORM, "is neither true nor false"),
        ("postgres://me@h/lab?server_public_key=/a", POSTGRES, 'no option "server_public_key"'),
    ],
)
def test_a_word_that_is_not_understood_is_named_and_a_knob_leaves_that_to_the_parser(
    url: str, form: Form, said: str
) -> None:
    with pytest.raises(EnvironmentLackingError, match=re.escape(said)) as caught:
        parse(url, form)
    assert caught.value.hint
    engine = "postgres" if form is POSTGRES else "mysql"
    assert registry.declaration(engine).by_name()["server"].parse(url).asked == url


def test_the_words_for_tls_and_logins_reach_the_core_over_tcp_and_on_a_socket_only_when_they_were_given() -> None:
    files = "sslrootcert=/ca&sslcert=/c&sslkey=/k&server_public_key=/s"
    given = parse(f"mysql://me@h/lab?sslmode=verify-full&{files}&get_server_public_key=true")
    assert given.target("pw", None)["security"] == {
        "mode": "verify-full", "root_cert": "/ca", "cert": "/c", "key": "/k", "server_public_key": "/s",
        "get_server_public_key": True, "allow_unverified_password": False,
    }  # fmt: skip
    assert parse("mysql://me@h/lab").target("pw", None)["security"] == Security().job()
    assert "security" not in parse(SOCKET).target("pw", "/run/mysqld.sock")
    assert "security" in parse(f"{SOCKET}&sslmode=require").target("pw", "/run/mysqld.sock")
    assert "security" not in private("/s", "me", "pw").target("pw", "/s")


def test_a_host_may_be_an_address_of_ipv6() -> None:
    address = parse("mysql://me@[2001:db8::7]:3307/lab")
    assert (address.host, address.port, address.server) == ("2001:db8::7", 3307, "[2001:db8::7]:3307")
    assert registry.declaration("mysql").by_name()["server"].parse(address.url).asked == address.url
    with pytest.raises(EnvironmentLackingError):
        parse("mysql://me@2001:db8::7/lab")


def test_a_url_without_a_host_means_the_usual_socket_that_there_is(tmp_path: Path) -> None:
    folder = tmp_path / "second"
    folder.mkdir()
    form = replace(POSTGRES, usual_sockets=(str(tmp_path / "first"), str(folder)))
    assert parse("postgres://me@/lab", form).socket == str(tmp_path / "first")
    (folder / ".s.PGSQL.5432").touch()
    assert parse("postgres://me@/lab", form).socket == str(folder)
    assert parse("mysql://me@/lab").socket in FORM.usual_sockets
    assert registry.declaration("mysql").by_name()["server"].parse("mysql://me@/lab").asked == "mysql://me@/lab"


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    url = "mysql://me:s3cret@localhost/lab"
    with pytest.raises(EnvironmentLackingError) as of_engine:
        parse(url)
    with pytest.raises(SpecError) as of_command:
        server_setting(url)
    for caught in (of_engine.value, of_command.value):
        assert "s3cret" not in caught.render()
        assert "BUFFERLAB_PASSWORD" in caught.render()
    with pytest.raises(SpecError):
        refuse_password(f"server={url}")
    for word in ("password", "admin_password", "pw", "ssl_passphrase"):
        with pytest.raises(UnitError):
            registry.declaration("mysql").by_name()["server"].parse(f"mysql://me@localhost/lab?{word}=s3cret")
    knob = registry.declaration("mysql").by_name()["server"]
    with pytest.raises(UnitError):
        knob.parse(url)
    assert knob.parse(SOCKET).asked == SOCKET
    knob = registry.declaration("postgres").by_name()["server"]
    assert knob.parse(POSTGRES_SOCKET).asked == POSTGRES_SOCKET
    for refused in ("postgres://me:s3cret@localhost/lab", SOCKET):
        with pytest.raises(UnitError):
            knob.parse(refused)


def test_a_path_is_made_absolute_and_a_url_is_not() -> None:
    assert server_setting(SOCKET) == (("server", SOCKET),)
    assert server_setting("./bin/mysqld") == (("server", str(Path.cwd() / "bin/mysqld")),)


def test_the_password_comes_from_the_environment_or_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BUFFERLAB_PASSWORD", raising=False)
    assert password(parse(SOCKET)) == ""
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "of the environment")
    assert password(parse(SOCKET)) == "of the environment"
    file = tmp_path / "client.cnf"
    address = parse(f"{SOCKET}&password_file={file}")
    with pytest.raises(EnvironmentLackingError, match="cannot be read"):
        password(address)
    file.write_text("[mysqld]\npassword = wrong\n[client]\nuser = x\npassword = 'of # the file'\n")
    file.chmod(0o644)
    with pytest.raises(EnvironmentLackingError, match="others may read"):
        password(address)
    file.chmod(0o600)
    assert password(address) == "of # the file"
    file.write_text("[client]\nuser = x\n")
    with pytest.raises(EnvironmentLackingError, match="no password"):
        password(address)


@pytest.mark.parametrize(
    ("url", "text", "found"),
    [
        ("postgres://me@db/lab", "db:5432:lab:me:one", "one"),
        ("postgres://me@db/lab", "# a comment\ndb:5432:lab:you:no\n*:*:*:me:two\n*:*:*:*:three", "two"),
        ("postgres://me@db:5433/lab", "db:5432:lab:me:no\ndb:5433:lab:me:yes", "yes"),
        ("postgres://me@db/lab", r"db:5432:lab:me:a\:b\\c", r"a:b\c"),
        (POSTGRES_SOCKET, "localhost:5432:lab:me:of the socket", "of the socket"),
        (POSTGRES_SOCKET, "/run/postgresql:5432:lab:me:of the folder", "of the folder"),
        ("postgres://me@db/lab", "other:5432:lab:me:no\ndb:5432:lab:me\n", None),
        ("postgres://me@db/lab", "", None),
    ],
)
def test_a_password_file_of_postgresql_is_read_as_its_own_clients_read_it(
    url: str, text: str, found: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "pgpass"
    file.write_text(text)
    file.chmod(0o600)
    address = parse(f"{url}{'&' if '?' in url else '?'}password_file={file}", POSTGRES)
    if found is None:
        with pytest.raises(EnvironmentLackingError, match="no password") as caught:
            password(address, POSTGRES)
        assert "host:port:database:user:password" in str(caught.value.hint)
    else:
        assert password(address, POSTGRES) == found
