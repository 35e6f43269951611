"""A statement's digest has none of its values and is its own digest; its form has the values in their places."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.slow_log import statement_cache
from bufferlab.slow_log.digest import UnreadableError, Value, digest, read_statement, written
from bufferlab.slow_log.statement_cache import StatementReader
from bufferlab.slow_log.tokens import KEYWORDS, words

_WORDS = "t `t` `in` _x `_x` _utf8 x count a.b @@a @ ? ... ( ) , . ; = - + * / < : -> 5 -5 1.5e3 .5 0x1F NULL"
_TEXTS = ("`a b`", "'a'", "'it''s'", "'a\\'b'", '"q"', "N'n'", "x'0a'", "b'01'", "IN (1, NULL)", "VALUES (1), (2)")
_COMMENTS = ("-- c\n", "# c\n", "/* c */", "/*!50000", "/*+ h(1) */", "*/", "\n", " ")
_PIECES = st.sampled_from([*sorted(KEYWORDS), *sorted(words(_WORDS)), *_TEXTS, *_COMMENTS])


def _digest(sql: str) -> str | None:
    try:
        return digest(sql)
    except UnreadableError:
        return None


@given(st.lists(_PIECES, max_size=14).map(" ".join) | st.lists(_PIECES, max_size=8).map("".join) | st.text(max_size=40))
@settings(max_examples=300)
def test_a_digest_is_its_own_digest(sql: str) -> None:
    made = _digest(sql)
    if made is not None:
        assert digest(made) == made


_SECRET = "zq81zq"
_LITERALS = st.sampled_from(
    [
        f"'{_SECRET}'", f'"{_SECRET}"', f"'it''s {_SECRET}'", f"'\\'{_SECRET}\\\\'", f"N'{_SECRET}'",
        f"_latin1'{_SECRET}'", f"'a' '{_SECRET}'", f"'{_SECRET}\n# {_SECRET}'", f"'{_SECRET}' COLLATE utf8_bin",
        "8181818181", "-8181818181", "8181818181.81", "8181e8", "0x8181818181", "x'8181818181'", "- 8181818181",
    ]
)  # fmt: skip
_FRAMES = st.sampled_from(
    [
        "SELECT {} FROM t", "SELECT a AS {} FROM t", "SELECT count(*) {} FROM t WHERE b = {} AND c < {}",
        "SELECT {} {}",
        "SELECT a FROM t WHERE b IN ({}, {}, NULL) ORDER BY {} LIMIT {}", "INSERT INTO t VALUES ({}, NULL), ({}, {})",
        "INSERT INTO t SET a = {}", "UPDATE t SET a = {} WHERE b LIKE {} ESCAPE {}", "SELECT DATE {}, j->{} FROM t",
        "SELECT GROUP_CONCAT(a SEPARATOR {}) FROM t", "SELECT CAST(a AS DECIMAL(8181, {})), NOW({}) -- {}", "{}",
        "SELECT a /* {} */ FROM t # {}", "SELECT a /*!50000 , {} */ FROM t", "SELECT /*+ MAX_EXECUTION_TIME({}) */ a",
        "DELETE FROM t WHERE (a, b) IN (({}, {}), ({}, {}))", "INSERT INTO t VALUES (f({}), {}), (f({}), {})",
    ]
)  # fmt: skip


@given(_FRAMES, st.lists(_LITERALS, min_size=6, max_size=6))
def test_no_literal_and_no_comment_is_in_a_digest(frame: str, literals: list[str]) -> None:
    made = digest(frame.format(*literals))
    assert _SECRET not in made
    assert not re.search("81", made)


_READER = StatementReader()
_FASTER = st.sampled_from(
    [
        "'a'", "'b c'", "''", "5", "-7", "- 08", "1.5", "'it''s'", "'a\\'b'", "'\\\\', '", "x'0a'", "N'n'",
        "_binary 'b'", "0x1F", "`a 5`", '"it\'s 5"', "/* 5 'a' */", "/*!50000 9 */", "918273645500000000", "'\ue0000'",
        "'Z\udcfc'", "t5", "é5", "5e3", "12345678901234567890", "@x", "'a' 'b'", "x '0a'", "1 'a'", "'\\'', '",
    ]
)  # fmt: skip


@given(_FRAMES, st.lists(_FASTER, min_size=6, max_size=6))
@settings(max_examples=200)
def test_the_fast_way_reads_what_the_slow_way_reads(frame: str, literals: list[str]) -> None:
    sql = frame.format(*literals)
    try:
        expected = read_statement(sql)
    except UnreadableError:
        with pytest.raises(UnreadableError):
            _READER.read(sql, "")
        return
    for _ in range(2):
        read = _READER.read(sql, "")
        assert read == expected
        assert list(map(type, read.values)) == list(map(type, expected.values))


def test_forms_of_many_values_push_out_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_cache, "_MOST_PLACES", 1_000)
    reader = StatementReader()
    for number in range(40):
        sql = f"SELECT c{number}" + ", 5" * 100
        assert reader.read(sql, "") == read_statement(sql)
        held = sum(len(form.places) for form in reader._forms.values() if form)
        assert held == reader._places == min(1_000, 100 * (number + 1))


_VALUES = (
    st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False, width=32) | st.binary(max_size=20)
)


@given(st.lists(_VALUES, min_size=1, max_size=5))
def test_a_value_written_is_read_again(values: list[Value]) -> None:
    values = [value for value in values if not isinstance(value, str) or _is_utf8(value)]
    sql = "SELECT " + ", ".join(map(written, values)) + ";"
    read = read_statement(sql).values
    assert [_comparable(value) for value in read] == [_comparable(value) for value in values]


def _is_utf8(text: str) -> bool:
    return not re.search("[\ud800-\udfff]", text)


def _comparable(value: Value) -> object:
    # A number that neither a signed BIGINT nor a double holds exactly is passed as a text.
    if isinstance(value, int | float) or (isinstance(value, str) and re.fullmatch(r"-?[0-9][0-9.e+-]*", value)):
        return float(value)
    return value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("select a from t where b=5", "SELECT  a\nFROM t WHERE b = 'x' -- why"),
        ("SELECT a FROM t WHERE b IN (1)", "SELECT a FROM `t` WHERE b IN (1, 2, NULL, 'x')"),
        ("INSERT INTO t (a, b) VALUES (1, 2)", "INSERT INTO t(a,b) VALUES (NULL,'x'),(3,4),(5,6)"),
        ("SELECT a - 5 FROM t WHERE b = -5", "SELECT a-0x5 FROM t WHERE b=+5.0"),
        ("SELECT a FROM t WHERE b = 'x' 'y'", 'SELECT a FROM t WHERE b = "x"'),
    ],
)
def test_statements_that_differ_in_values_alone_have_one_digest(one: str, other: str) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT a FROM t WHERE b IS NULL", "SELECT a FROM t WHERE b IS NOT NULL"),
        ("UPDATE t SET a = NULL", "UPDATE t SET a = 5"),
        ("SELECT a FROM t", "SELECT a FROM u"),
        ("SELECT `select` FROM t", "SELECT `SELECT` FROM t"),
        ("SELECT a FROM t WHERE (a, b) IN (SELECT 1, 2)", "SELECT a FROM t WHERE (a, b) IN (1, 2)"),
    ],
)
def test_statements_that_differ_otherwise_have_two(one: str, other: str) -> None:
    assert digest(one) != digest(other)


def _read(sql: str, schema: str = "") -> tuple[str, tuple[Value, ...]]:
    statement = read_statement(sql, schema)
    return "{}".join(statement.parts), statement.values


@pytest.mark.parametrize(
    ("sql", "form", "values"),
    [
        ("SELECT a FROM t WHERE b IN (1, 2, 3)", "SELECT a FROM t WHERE b IN ({}, {}, {}, {})", (1, 2, 3, 3)),
        ("SELECT 1 FROM t ORDER BY 2, b LIMIT 3", "SELECT {} FROM t ORDER BY 2, b LIMIT {}", (1, 3)),
        ("SELECT a x, count(*) 'n' FROM t", "SELECT a x, count(*) 'n' FROM t", ()),
        ("SELECT CAST(a AS CHAR(3)) = 'x'", "SELECT CAST(a AS CHAR(3)) = {}", ("x",)),
        ("SELECT j->>'$.a' FROM t WHERE d = DATE '2020-01-31'", "SELECT j ->> '$.a' FROM t WHERE d = DATE({})",
         ("2020-01-31",)),
        ("INSERT t VALUES (NULL, 2)", "INSERT IGNORE t VALUES ({}, {})", (None, 2)),
        ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2",
         "INSERT INTO t VALUES ({}) ON DUPLICATE KEY UPDATE a = {}", (1, 2)),
        ("SELECT b'', b'1" + "0" * 63 + "', 0b" + "1" * 16_000, "SELECT {}, {}, {}",
         (0, b"\x80" + bytes(7), b"\xff" * 2_000)),
        ("DELETE LOW_PRIORITY FROM t WHERE a = b'101'", "DELETE LOW_PRIORITY IGNORE FROM t WHERE a = {}", (5,)),
        ("SELECT 'a\\n\\'\\\\\\%' FROM t", "SELECT {} FROM t", ("a\n'\\\\%",)),
        ("SELECT 18446744073709551615, 1.23456789012345678", "SELECT {}, {}",
         ("18446744073709551615", "1.23456789012345678")),
        ("SELECT _binary'ab', x'00FF', 'Z\udcfcrich'", "SELECT {}, {}, {}", (b"ab", b"\0\xff", b"Z\xfcrich")),
        ("SELECT /*! SQL_NO_CACHE */ a /* c */ FROM t", "SELECT SQL_NO_CACHE a FROM t", ()),
        ("SELECT 'a' 'Z\udcfc', 'Z\udcfc' 'a', 'a' 'b'", "SELECT {}, {}, {}", (b"aZ\xfc", b"Z\xfca", "ab")),
        ("SELECT a$b FROM t", "SELECT `a$b` FROM t", ()),
        ("SELECT /*+ MAX_EXECUTION_TIME(5)\n */ a", "SELECT /*+ MAX_EXECUTION_TIME(5) */ a", ()),
        ("SELECT @@sql_mode, @@a$$ FROM t", "SELECT @@sql_mode, @@a `$$` FROM t", ()),
    ],
)  # fmt: skip
def test_a_form_has_places_where_the_server_takes_parameters(sql: str, form: str, values: tuple[Value, ...]) -> None:
    assert _read(sql) == (form, values)


def test_the_statements_own_schema_is_taken_off_its_tables() -> None:
    sql = "SELECT shop.a, shop.sale.id FROM shop.sale JOIN `shop`.product JOIN other.t"
    assert _read(sql, "shop")[0] == "SELECT shop.a, sale.id FROM sale JOIN product JOIN other.t"


def test_double_quotes_are_names_where_the_server_says_so() -> None:
    assert "".join(read_statement('SELECT "a`b" FROM t', ansi_quotes=True).parts) == "SELECT `a``b` FROM t"


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 'a", "a quote without an end"),
        ("SELECT 'a\\'", "a quote without an end"),
        ("SELECT `a", "a quote without an end"),
        ("SELECT 1 /* a", "a comment without an end"),
        ("SELECT @a", "a session's own @variable"),
        ("SELECT a FROM t WHERE b = ?", "a placeholder in place of a value"),
        ("SELECT 1; SELECT 2", "several statements in one entry"),
        ("SELECT `a\x1b[31m`", "a name that is not printable UTF-8"),
        ("SELECT /*+ a\udcff */ 1", "a hint that is not printable UTF-8"),
        ("SELECT \udcff", "a character that SQL has not"),
        ("SELECT sleep(5)", "a function that waits"),
        ("SELECT `Sleep` (5)", "a function that waits"),
        ("INSERT INTO t VALUES (LOAD_FILE('/etc/passwd'))", "a file of the server's"),
        ("SELECT a INTO OUTFILE '/tmp/x' FROM t", "a file of the server's"),
        ("SELECT " + "1," * 901 + "1", "more than 900 values"),
    ],
)
def test_what_no_script_can_hold_is_refused_without_a_word_of_it(sql: str, why: str) -> None:
    with pytest.raises(UnreadableError, match=f"^{re.escape(why)}$"):
        read_statement(sql)


def test_long_and_nested_statements_take_time_in_proportion() -> None:
    before = time.process_time()
    for piece in ("(", "- ", "/*!", "IN (", "VALUES (", "IN (NULL, "):
        read_statement(piece * 8_000)
    read_statement("IN (" * 5_000 + ")" * 5_000)
    for quoted in ("'" * 20_001, "`a" * 20_000, "/* " * 20_000):
        _digest(quoted)
    # It takes a third of a second; quadratic time in the length would be minutes.
    assert time.process_time() - before < 10
