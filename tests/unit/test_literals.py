"""Values and names in statements: the server reads any text back completely, and executes no part of it as SQL."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.innodb.control import quoted
from bufferlab.engines.postgres.control import identifier
from bufferlab.engines.servers.client import with_values

TEXTS = st.text() | st.text(alphabet="'\\\0\"`%s\n E€", max_size=12)
QUERY = "SELECT '100', %s, 7 WHERE x = %s"
READ = ("SELECT '100', ", ", 7 WHERE x = ")
Reader = Callable[[str], tuple[str, str]]


def plain(sql: str, quote: str = "'") -> tuple[str, str]:
    """Return the text of a literal at the start of `sql`, and the rest: a doubled quote is one quote, all other
    characters stand for themselves."""
    assert sql[0] == quote
    text, place = "", 1
    while True:
        if sql[place] != quote:
            text, place = text + sql[place], place + 1
        elif sql[place + 1 : place + 2] == quote:
            text, place = text + quote, place + 2
        else:
            return text, sql[place + 1 :]


def escaped(sql: str) -> tuple[str, str]:
    """Return the same if a backslash escapes; only quotes and backslashes need one before them."""
    assert sql[0] == "'"
    text, place = "", 1
    while True:
        if sql[place] == "\\":
            assert sql[place + 1] in "'\\", sql[place + 1]
            text, place = text + sql[place + 1], place + 2
        elif sql[place : place + 2] == "''":
            text, place = text + "'", place + 2
        elif sql[place] == "'":
            return text, sql[place + 1 :]
        else:
            text, place = text + sql[place], place + 1


def conforming(sql: str) -> tuple[str, str]:
    """Read like PostgreSQL with standard_conforming_strings = on: only E'...' has escapes."""
    sql = sql.lstrip(" ")
    return escaped(sql[1:]) if sql[0] in "eE" else plain(sql)


def old(sql: str) -> tuple[str, str]:
    """Read like PostgreSQL with standard_conforming_strings = off: every text has escapes."""
    return escaped(sql.lstrip(" ").removeprefix("E"))


@pytest.mark.parametrize(
    ("engine", "read"),
    [("mysql", escaped), ("postgres", conforming), ("postgres", old)],
    ids=["mysql", "postgres", "postgres, not conforming"],
)
@given(first=TEXTS, second=TEXTS)
def test_a_text_never_ends_its_literal(engine: str, read: Reader, first: str, second: str) -> None:
    rest = with_values(QUERY, (first, second), engine)
    for words, value in zip(READ, (first, second), strict=True):
        assert rest.startswith(words)
        told, rest = read(rest[len(words) :])
        # PostgreSQL's texts cannot contain the character NUL, and MySQL's need no escape for it.
        assert told == value.replace("\0", "")
    assert rest == ""


@pytest.mark.parametrize("engine", ["mysql", "postgres"])
def test_numbers_and_no_value_are_written_without_quotes(engine: str) -> None:
    values = (None, -(2**63), 2**64 - 1, 1.5, 1e-300, Decimal("12.30"), True)
    written = with_values(", ".join(["%s"] * len(values)), values, engine)
    assert written == "NULL, -9223372036854775808, 18446744073709551615, 1.5, 1e-300, 12.30, True"
    assert with_values("SELECT '100%'", None, engine) == "SELECT '100%'"


@given(names=st.lists(TEXTS, min_size=1, max_size=2))
def test_a_name_never_ends_its_quotes(names: list[str]) -> None:
    rest = identifier(*names)
    for name in names:
        told, rest = plain(rest, '"')
        assert told == name.replace("\0", "")
        rest = rest.removeprefix(".")
    assert rest == ""
    assert plain(quoted(names[0]), "`") == (names[0], "")
