"""The work of statements: differences that are never negative, and no value in a text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import NotTold
from bufferlab.live import digests
from bufferlab.live.digests import DigestEntry, Digests, Snapshot, is_monitoring, shown

MYSQL: Flavour = "mysql"
POSTGRES: Flavour = "postgres"
BORN = datetime(2026, 11, 25, 10, 52, 23, 24553)
SELECT, SHOW, OURS, INSERT = "a" * 64, "b" * 64, "c" * 64, "d" * 64
TEXTS = {
    SELECT: "SELECT `v` FROM `lab` . `t` WHERE `id` = ? ",
    SHOW: "SHOW GLOBAL STATUS ",
    OURS: "SELECT DIGEST AS `id` FROM `performance_schema` . `events_statements_summary_by_digest`",
    INSERT: "INSERT INTO `lab` . `t` ( `v` ) SELECT `v` FROM `lab` . `t` ",
}


def mysql_row(digest: str | None, calls: int, time_ps: int, examined: int, since: datetime = BORN) -> dict[str, object]:
    """Return a row in the form of MySQL's answer to the question for counts."""
    return {"place": "lab", "id": digest, "since": since, "calls": calls, "time": time_ps,
            "rows_examined": examined, "rows_returned": Decimal(calls)}  # fmt: skip


class FakeMysql:
    """A server whose table of digests is a list."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.is_on, self.off = 1, list[dict[str, object]]()
        self.sent: list[str] = []

    def query(self, sql: str) -> list[dict[str, object]]:
        self.sent.append(sql)
        if "@@global.performance_schema" in sql:
            return [{"is_on": self.is_on}]
        if "setup_consumers" in sql:
            return self.off
        if "MAX(digest_text)" in sql:
            return [{"id": digest, "text": text} for digest, text in TEXTS.items() if f"'{digest}'" in sql]
        return self.rows

    def window(self, before: list[dict[str, object]], after: list[dict[str, object]]) -> Digests:
        self.rows = before
        first = digests.start(self.query, MYSQL)
        assert not isinstance(first, NotTold)
        self.rows = after
        told = digests.finish(self.query, MYSQL, first)
        assert not isinstance(told, NotTold)
        return told


def test_a_window_has_the_differences_and_only_texts_that_may_be_shown() -> None:
    server = FakeMysql()
    before = [mysql_row(SELECT, 10, 5 * 10**12, 100), mysql_row(SHOW, 1, 10**12, 5), mysql_row(OURS, 1, 10**12, 5)]
    after = [mysql_row(SELECT, 30, 7 * 10**12, 500), mysql_row(SHOW, 3, 4 * 10**12, 9),
             mysql_row(OURS, 2, 2 * 10**12, 6), mysql_row(INSERT, 4, 10**12, 4000)]  # fmt: skip
    told = server.window(before, after)
    assert [(one.text[:6], one.calls, one.seconds, one.rows_examined) for one in told.first("time")] == [
        ("SELECT", 20, pytest.approx(2), 400),
        ("INSERT", 4, pytest.approx(1), 4000),
    ]
    assert [one.text[:6] for one in told.first("rows")] == ["INSERT", "SELECT"]
    assert told.first("reads") == (), "MySQL counts no page reads by statement"
    assert (told.calls, told.seconds) == (27, pytest.approx(7))
    assert (told.utility_calls, told.utility_seconds) == (2, pytest.approx(3))
    assert (told.monitoring_calls, told.monitoring_seconds) == (1, pytest.approx(1))
    assert told.notes == ()
    assert not any("query_sample_text" in sql.lower() for sql in server.sent)


def test_entries_that_were_reset_count_from_their_new_beginning_and_that_is_said() -> None:
    later = datetime(2026, 11, 25, 11, 0, 0)
    told = FakeMysql().window(
        [mysql_row(SELECT, 10, 10**12, 100), mysql_row(INSERT, 9, 10**12, 9), mysql_row(SHOW, 1, 1, 1)],
        [mysql_row(SELECT, 12, 3 * 10**12, 101, later), mysql_row(INSERT, 3, 10**12, 3)],
    )
    assert {one.text[:6]: one.calls for one in told.statements} == {"SELECT": 12, "INSERT": 3}
    assert "2 statements began to count anew" in told.notes[0]
    assert "1 statements left" in told.notes[1]


def test_prepared_statements_without_a_digest_are_one_row_that_says_so() -> None:
    before, after = mysql_row("prepared", 100, 10**12, 300), mysql_row("prepared", 300, 3 * 10**12, 900)
    told = FakeMysql().window([mysql_row(SELECT, 1, 1, 1), before], [mysql_row(SELECT, 2, 2, 2), after])
    first, _ = told.first("time")
    assert (first.calls, first.seconds, first.rows_examined) == (200, pytest.approx(2), 600)
    assert "no digests of them" in first.text
    assert told.calls == 201


def test_a_prepared_statement_with_a_digest_is_shown_as_what_was_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TEXTS, SELECT, f"EXECUTE {TEXTS[SELECT]}")
    told = FakeMysql().window([], [mysql_row(SELECT, 2, 2, 2)])
    assert [one.text[:6] for one in told.statements] == ["SELECT"]


def test_a_full_table_is_said() -> None:
    told = FakeMysql().window([mysql_row(None, 5, 1, 1)], [mysql_row(None, 25, 1, 1)])
    assert told.statements == ()
    assert "20 calls" in told.notes[0]
    assert "performance_schema_digests_size" in told.notes[0]


@pytest.mark.parametrize(
    ("is_on", "off", "remedy"),
    [(0, [], "performance_schema = ON"), (1, [{"name": "statements_digest"}], "UPDATE performance_schema")],
)
def test_digests_that_are_not_collected_are_not_told(is_on: int, off: list[dict[str, object]], remedy: str) -> None:
    server = FakeMysql()
    server.is_on, server.off = is_on, off
    told = digests.start(server.query, MYSQL)
    assert isinstance(told, NotTold)
    assert remedy in str(told.remedy)


def postgres_row(queryid: int | None, account: int, calls: int, time_ms: float, **more: object) -> dict[str, object]:
    return {"place": "lab", "id": queryid, "account": account, "since": None, "calls": calls, "time": time_ms,
            "rows_returned": calls, "hit_pages": 10 * calls, "read_pages": calls, "read_time": 0.0, **more}  # fmt: skip


def test_accounts_of_one_statement_are_added_and_reads_without_times_have_none() -> None:
    counts = {"calls": 1, "time": 1.0, "rows_returned": 1, "hit_pages": 0, "read_pages": 1, "read_time": 0.0}
    before = {("lab", "-7", "10"): DigestEntry(None, counts)}
    first = Snapshot(before, {"place": "public", "version": "1.10"}, evictions=3)

    def query(sql: str) -> list[dict[str, object]]:
        if "pg_stat_statements_info" in sql:
            return [{"evictions": 5, "reset": BORN}]
        if "min(query)" in sql:
            assert "-7, 8" in sql
            return [{"id": -7, "text": "SELECT $1"}, {"id": 8, "text": "ALTER USER me PASSWORD 'secret'"}]
        return [postgres_row(-7, 10, 3, 1001.0), postgres_row(-7, 11, 4, 500.0), postgres_row(8, 10, 1, 1.0),
                postgres_row(None, 12, 6, 1.0), postgres_row(None, 13, 1, 1.0)]  # fmt: skip

    told = digests.finish(query, POSTGRES, first)
    assert not isinstance(told, NotTold)
    (one,) = told.statements
    assert (one.text, one.calls, one.read_pages, one.read_seconds, one.rows_examined) == ("SELECT $1", 6, 6, None, None)
    assert told.utility_calls == 1
    assert "evicted statements from its full table 2 times" in told.notes[0]
    assert "7 calls" in told.notes[1]
    assert "pg_monitor" in told.notes[1]


@pytest.mark.parametrize(
    ("where", "remedy"),
    [
        ([], "CREATE EXTENSION pg_stat_statements"),
        ([{"place": "public", "version": "1.8", "track": "top"}], "ALTER EXTENSION pg_stat_statements UPDATE"),
        ([{"place": "public", "version": "1.11", "track": "none"}], "pg_stat_statements.track"),
    ],
)
def test_an_extension_that_cannot_tell_is_said(where: list[dict[str, object]], remedy: str) -> None:
    told = digests.start(lambda sql: where, POSTGRES)
    assert isinstance(told, NotTold)
    assert remedy in str(told.remedy)


@pytest.mark.parametrize(("version", "column"), [("1.10", "s.blk_read_time"), ("1.11", "s.shared_blk_read_time")])
def test_columns_follow_the_extension(version: str, column: str) -> None:
    sent: list[str] = []

    def query(sql: str) -> list[dict[str, object]]:
        sent.append(sql)
        return [{"place": "public", "version": version, "track": "top"}] if "extname" in sql else []

    assert isinstance(digests.start(query, POSTGRES), Snapshot)
    assert any(column in sql for sql in sent)
    assert all("pg_stat_statements(true)" not in sql for sql in sent), "texts are read at the end alone"


counts = st.fixed_dictionaries({"calls": st.integers(0, 2**63), "time": st.floats(0, 1e12)})
tables = st.dictionaries(
    st.tuples(st.sampled_from([None, "a"]), st.sampled_from(["x", "y", "z", None]), st.none()),
    st.builds(DigestEntry, st.sampled_from(["monday", "friday"]), counts),
)


@given(first=tables, last=tables)
def test_differences_are_never_negative_and_every_entry_of_the_end_has_one(
    first: Mapping[digests.Key, DigestEntry], last: Mapping[digests.Key, DigestEntry]
) -> None:
    growth = digests.grown(first, last)
    assert growth.counts.keys() == last.keys()
    for key, grew in growth.counts.items():
        assert all(0 <= value <= last[key].counts[name] for name, value in grew.items())
    assert growth.gone + len(last.keys() & first.keys()) == len(first)


@given(first=tables, more=counts)
def test_what_an_entry_did_is_its_difference(
    first: Mapping[digests.Key, DigestEntry], more: Mapping[str, float]
) -> None:
    last = {key: DigestEntry(one.since, {n: v + more[n] for n, v in one.counts.items()}) for key, one in first.items()}
    growth = digests.grown(first, last)
    assert (growth.restarted, growth.gone) == (0, 0)
    assert all(grew["calls"] == more["calls"] for grew in growth.counts.values())


@pytest.mark.parametrize(
    "utility",
    [
        "ALTER USER me PASSWORD 'secret'",
        "CREATE USER `me`@`%` IDENTIFIED BY 'secret'",
        "SET password = 'secret'",
        "/* SELECT */ SET x = 'secret'",
        "-- SELECT\nGRANT ALL ON t TO me IDENTIFIED BY 'secret'",
        "SHOW GLOBAL STATUS",
        "CALL secret('secret')",
        "COPY (SELECT 'secret') TO STDOUT",
        "PREPARE p AS SELECT 'secret'",
        "DO $$ secret $$",
        "/* a /* nested */ SELECT secret */ ALTER USER me PASSWORD 'secret'",
        "",
        "'secret'",
    ],
)
def test_utility_statements_are_never_shown(utility: str) -> None:
    assert shown(utility) is None


@pytest.mark.parametrize(
    "kept",
    [
        "SELECT * FROM t WHERE a = 'secret'",
        "SELECT * FROM t WHERE a = 'it''s secret' AND b = $1",
        "SELECT * FROM t WHERE a = 'ends\\' AND b = 'secret'",
        "SELECT * FROM t WHERE a = E'\\'secret'",
        "SELECT /* user secret */ 1",
        "SELECT 1 -- secret\n",
        "SELECT $tag$secret$tag$, $$secret$$",
        "(SELECT 'secret",
        "SELECT /* secret",
        "WITH x AS (SELECT 'secret') SELECT * FROM x",
        "SELECT 'secret' INTO t",
        "SELECT -4711.5e3, 0.5, 4711",
    ],
)
def test_no_literal_and_no_comment_is_left_in_a_text(kept: str) -> None:
    words = shown(kept)
    assert words is not None
    assert "secret" not in words
    assert "4711" not in words


def test_names_with_numbers_and_parameters_stay() -> None:
    assert shown('SELECT t1."a 2", `b 3` FROM t1 WHERE c4 = $12') == 'SELECT t1."a 2", `b 3` FROM t1 WHERE c4 = $12'


@given(secret=st.text("abc'\\\"-/*$ \n", max_size=20), before=st.text("abc'\\\"-/*$ \n;", max_size=20))
def test_a_quoted_literal_never_shows_wherever_it_stands(secret: str, before: str) -> None:
    """The literal's quotes are doubled as by a client; the text before it may be anything that a server normalised."""
    quoted = "'SECRET" + secret.replace("\\", "").replace("'", "''") + "'"
    clean = before.replace("'", "").replace('"', "").replace("$", "").replace("\\", "")
    words = shown(f"SELECT {clean} FROM t WHERE a = {quoted}")
    assert words is None or "SECRET" not in words


def test_control_characters_are_escaped() -> None:
    assert shown('SELECT "\x1b[31m"') == 'SELECT "\\x1b[31m"'


def test_questions_of_monitors_are_known() -> None:
    assert is_monitoring("SELECT * FROM `information_schema` . `innodb_trx`")
    assert is_monitoring("SELECT sum(x) FROM pg_stat_database")
    assert not is_monitoring("SELECT pg_advisory_xact_lock($1)")
