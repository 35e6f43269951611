"""The bound of twice the pool: its formula against convex curves, the families' queries, and each reason without a
bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.innodb.look import InnodbLook
from bufferlab.engines.postgres.look import PostgresLook
from bufferlab.engines.servers.client import ServerError
from bufferlab.engines.servers.look import DataSize, Facts, LargeObject, NotTold, PoolLevels, Refused, Unpublished
from bufferlab.live import constants, observe_page, sentence
from bufferlab.live.confounds import Confound
from bufferlab.live.double_pool import bound, misses_at_most
from bufferlab.live.look_result import InsideFindings, LookCost, Seen, TwiceThePool
from bufferlab.live.observation import Observation
from bufferlab.live.session import Session, address_of, family_of
from bufferlab.live.window import LookWindow, SampledRow
from bufferlab.report import terminal
from bufferlab.units import GIB, MIB
from support import fake_mysql
from support.advised_server import Clock
from support.fake_mysql import FakeMysql

POOL = 64 * MIB
PAGE = 16384
FACTS = Facts("mysql", "9.7.4", (9, 7, 4), "a", PAGE, POOL, "transaction", "", 100.0)
POSTGRES = replace(FACTS, flavour="postgres", version="17.2", numbers=(17, 2), page_size_bytes=8192)

sizes = st.floats(0, 1e15)


# The formula.


@given(sizes, sizes, sizes)
def test_the_bound_is_a_share(data: float, held: float, added: float) -> None:
    assert 0 <= misses_at_most(data, held, added) <= 1


@given(sizes, sizes, sizes, sizes)
def test_more_data_raise_the_bound_and_more_memory_lowers_it(
    data: float, held: float, added: float, more: float
) -> None:
    first = misses_at_most(data, held, added)
    assert misses_at_most(data + more, held, added) >= first
    assert misses_at_most(data, held + more, added) <= first
    assert misses_at_most(data, held, added + more) <= first


@given(st.integers(1, 10**12), st.integers(0, 10**12))
def test_a_pool_that_would_hold_all_data_misses_nothing(data: int, held: int) -> None:
    assert misses_at_most(data, held, data) == 0


hinges = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1000)), min_size=1)


@given(hinges, st.integers(0, 999), st.integers(1, 1000))
def test_no_convex_curve_that_ends_where_the_data_end_is_above_the_bound(
    hinges: Sequence[tuple[int, int]], held: int, added: int
) -> None:
    """Each such curve on whole sizes is a sum of hinges: misses fall by a fixed number with each page until a part is
    held."""

    def misses(size: int) -> int:
        return sum(weight * max(0, end - size) for end, weight in hinges)

    data = max(end for end, _ in hinges)
    if misses(held):
        assert misses(held + added) / misses(held) <= misses_at_most(data, held, added) + 1e-12


def test_uniform_accesses_miss_as_much_as_the_bound_says() -> None:
    data, pool = 3000, 1000
    assert misses_at_most(data, pool, pool) == pytest.approx((1 - 2 * pool / data) / (1 - pool / data))


# The reasons.


def seen(
    begin: DataSize | NotTold | None = None,
    end: DataSize | None = None,
    *,
    facts: Facts = FACTS,
    pool: Mapping[str, float] | None = None,
    confounds: tuple[Confound, ...] = (),
    unpublished: int = 0,
    **counts: float,
) -> Seen:
    """Return a look of a minute at a full pool, with three times as many data as the pool holds."""
    seconds = 60.0
    begin = begin or DataSize(3 * POOL, {})
    totals = {"page_gets": 6e5, "misses": 6000.0, "pages_read": 6000.0, "statements": 6e4, "pages_created": 1e6}
    if facts.flavour == "postgres":
        totals["evicted_pages"] = 6000.0
    totals |= counts
    made = LookWindow(dict, 0.0)
    made.totals, made.seconds, made.seconds_of = totals, seconds, dict.fromkeys(totals, seconds)
    made.rows = [SampledRow(t_s, 1.0, {name: one / 60 for name, one in totals.items()}, {}) for t_s in range(60)]
    frames = POOL / facts.page_size_bytes
    levels = PoolLevels({"pool_pages": frames, "data_pages": frames, "free_pages": 0.0} | dict(pool or {}), {})
    data = begin if isinstance(begin, NotTold) else (begin, end or begin)
    inside = InsideFindings(NotTold(""), NotTold(""), confounds, (), NotTold(""), data)
    cost = LookCost(20, 0.05, None, seconds)
    found = Seen("host:3306", facts, made, levels, levels, "whole", cost, inside, Unpublished(unpublished))
    return replace(found, twice_the_pool=bound(found))


@pytest.mark.parametrize("facts", [FACTS, POSTGRES])
def test_the_bound_is_told_in_every_view(facts: Facts) -> None:
    made = seen(facts=facts)
    assert bound(made) == TwiceThePool(2 * POOL, 3 * POOL, 0.5, 50.0)
    words = "Twice the pool (128 MiB) would leave at most 50 % of these misses, if its curve has no steps."
    assert words in sentence.observed(made)
    report = observe_page.as_report(made)
    shown = terminal.text(report)
    assert words in shown
    (row,) = (line for line in shown.splitlines() if "Misses of twice the pool, at most" in line)
    assert ("50.0" in row, "0.050" in row) == (True, True), row
    assert "is not bounded" not in shown


def test_a_pool_that_would_hold_all_data_is_said_to_miss_new_pages_alone() -> None:
    words = "Twice the pool (128 MiB) would hold all 96 MiB of data, and miss new pages alone."
    assert words in sentence.observed(seen(DataSize(96 * MIB, {})))


def test_pages_of_the_pool_that_hold_no_data_raise_the_bound() -> None:
    found = bound(seen(pool={"data_pages": POOL / PAGE / 2}))
    assert isinstance(found, TwiceThePool)
    assert found.misses_ratio_at_most == 1.5 / 2.5


def _grown(pages: int, data: int = 3 * POOL) -> tuple[DataSize, DataSize]:
    return DataSize(data, {}), DataSize(data + pages * PAGE, {})


LARGE = DataSize(3 * POOL, {"shop/orders": LargeObject(500, 4096)})


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (seen(NotTold("the account may not ask", "GRANT it")), "the account may not ask; GRANT it"),
        (seen(page_gets=60.0), "the server was idle"),
        (seen(confounds=(Confound("backup", "session 5 dumps"),)), "a backup ran in the window"),
        (seen(unpublished=1), "the counts of sessions are missing"),
        (seen(pool={"free_pages": 1024.0}), "the pool is not full: its misses are first reads"),
        (seen(facts=POSTGRES, evicted_pages=100.0), "the pool is not full: its misses are first reads"),
        (seen(facts=POSTGRES, ring_pages_read=61.0), "tables were scanned that are larger than a quarter"),
        (seen(LARGE, replace(LARGE, larger={"shop/orders": LargeObject(4596, 4096)})),
         "shop/orders is larger than the pool, and 4,096 rows were read that may be those of a scan of it"),
        (seen(DataSize(3 * POOL, {}), replace(LARGE, larger={"shop/new": LargeObject(5000, 4096)})), "shop/new is"),
        (seen(*_grown(65)), "the data grow by"),
        (seen(DataSize(POOL // 2, {})), "the files that the server lists are smaller than what its pool holds"),
        (seen(*_grown(-65)), "1.02 MiB of data were dropped or truncated"),
    ],
)  # fmt: skip
def test_nothing_is_claimed_where_the_look_contradicts_it(made: Seen, why: str) -> None:
    assert isinstance(bound(made), NotTold)
    assert "Twice the pool" not in sentence.observed(made)
    shown = terminal.text(observe_page.as_report(made))
    assert "Misses of twice the pool" not in shown
    assert f"What twice the pool would miss is not bounded, because {why}" in shown


@pytest.mark.parametrize(("remedy", "words"), [("GRANT it", "GRANT it; or bufferlab"), (None, "a shorter --duration")])
def test_a_scan_that_may_be_none_names_the_line_that_would_show_it(remedy: str | None, words: str) -> None:
    told = bound(seen(LARGE, replace(LARGE, larger={"shop/orders": LargeObject(9000, 4096, remedy)})))
    assert isinstance(told, NotTold)
    assert told.remedy
    assert told.remedy.startswith(words)


def test_a_version_without_evictions_claims_nothing() -> None:
    made = seen(facts=replace(POSTGRES, numbers=(15, 20)))
    del made.window.totals["evicted_pages"]
    found = bound(made)
    assert isinstance(found, NotTold)
    assert found.why.startswith("PostgreSQL 15 counts no evictions")


@pytest.mark.parametrize(
    "made",
    [
        seen(LARGE, replace(LARGE, larger={"shop/orders": LargeObject(4595, 4096)})),
        seen(facts=POSTGRES, ring_pages_read=59.0),
        seen(pool={"free_pages": 800.0, "data_pages": 3296.0}),
        seen(pool={"free_pages": 2048.0}, facts=replace(FACTS, settings={"innodb_lru_scan_depth": "2048"})),
        # One extent; the database would grow by 700 % a day if each minute added one.
        seen(*_grown(64)),
        seen(*_grown(-64)),
        # The file grew by many extents for a few new pages.
        seen(*_grown(4096), pages_created=20.0),
        # In a terabyte, six extents a minute are less than 1 % a day.
        seen(*_grown(6 * 64, 1024 * GIB)),
    ],
)
def test_little_of_it_is_no_reason(made: Seen) -> None:
    assert isinstance(bound(made), TwiceThePool)


def test_nothing_is_said_where_nothing_is_missed() -> None:
    made = seen(misses=0.0)
    assert isinstance(bound(made), NotTold)
    assert "not bounded" not in terminal.text(observe_page.as_report(made))


# The families' queries.


def _innodb(rows: Sequence[Mapping[str, Any]], table_rows: Sequence[Mapping[str, Any]] | None) -> Any:
    def query(sql: str) -> list[dict[str, Any]]:
        if "TABLESPACES" in sql:
            return [dict(row) for row in rows]
        if "innodb_table_stats" in sql and table_rows is None:
            raise Refused("no right") from ServerError("1142", "no right")
        if "innodb_table_stats" in sql:
            return [dict(row) for row in table_rows or ()]
        if "Com_show_status" in sql:
            return [{"variable_name": "Com_show_status", "value": "3"}]
        own = {"Handler_read_next": "1000"} if "SESSION" in sql else {"Handler_read_next": "9000"}
        return [{"variable_name": name, "value": value} for name, value in own.items()]

    return query


def _file(name: str | None, size_bytes: int, compressed: int = 0) -> dict[str, Any]:
    return {"name": name, "size_bytes": size_bytes, "compressed": compressed}


FILES = [_file("shop/orders", 2 * POOL), _file("innodb_undo_001", 2 * POOL), _file("innodb_system", PAGE)]
OWN = replace(FACTS, settings={"own_rows": "700"})


@pytest.mark.parametrize(("table_rows", "pool_rows"), [(None, 4096), ([], 4096), ([("shop/orders", 10**6)], 5 * 10**5)])
def test_innodb_tells_its_files_and_the_rows_that_others_read_in_order(
    table_rows: list[tuple[str, int]] | None, pool_rows: int
) -> None:
    told = None if table_rows is None else [{"name": name, "table_rows": rows} for name, rows in table_rows]
    found = InnodbLook().data(_innodb([*FILES, _file(None, 5 * POOL)], told), OWN)
    remedy = "GRANT SELECT ON mysql.innodb_table_stats TO the account" if told is None else None
    assert found == DataSize(5 * POOL, {"shop/orders": LargeObject(9000 - 1000 - 3 * 700, pool_rows, remedy)})


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([_file(None, POOL)], "does not tell the size of its system tablespace"),
        ([*FILES, _file(None, 5 * POOL, compressed=1)], "a table is compressed"),
    ],
)
def test_innodb_does_not_tell_data_that_it_does_not_list_or_that_take_more_of_the_pool(
    rows: list[dict[str, Any]], why: str
) -> None:
    found = InnodbLook().data(_innodb(rows, None), OWN)
    assert isinstance(found, NotTold)
    assert why in found.why


def test_postgres_tells_all_databases_its_own_large_indexes_and_other_large_databases() -> None:
    def query(sql: str) -> list[dict[str, Any]]:
        if "pg_database" in sql:
            return [
                {"name": "shop", "size_bytes": 4 * POOL, "rows_read": 5, "is_ours": True},
                {"name": "other", "size_bytes": 2 * POOL, "rows_read": 7, "is_ours": False},
                {"name": "small", "size_bytes": POOL, "rows_read": 8, "is_ours": False},
                {"name": None, "size_bytes": MIB, "rows_read": 0, "is_ours": True},
            ]
        return [{"name": "public.orders_pkey", "rows_read": 9, "pool_rows": 1e6}]

    larger = {"public.orders_pkey": LargeObject(9, 1e6), "the database other": LargeObject(7, 8192)}
    assert PostgresLook().data(query, POSTGRES) == DataSize(7 * POOL + MIB, larger)


def test_postgres_names_the_right_without_which_a_databases_size_is_not_told() -> None:
    def query(sql: str) -> list[dict[str, Any]]:
        raise Refused("permission denied for database") from ServerError("42501", "permission denied for database")

    assert PostgresLook().data(query, POSTGRES) == NotTold(
        "the account may not ask how large the data are", "GRANT pg_monitor TO the role", "rights"
    )


# A whole look.

TABLESPACES = ("name", "size_bytes", "compressed")


class Listener:
    """A listener that ignores its events and never stops the look."""

    requested = False

    def row(self, row: SampledRow, window: LookWindow) -> None: ...

    def event(self, event: object) -> None: ...


def look(server: FakeMysql, **asked: bool) -> Seen:
    family, clock, listener = family_of(server.url), Clock(), Listener()
    with Session(family, address_of(server.url, family), clock) as session:
        return Observation(session, listener, clock, clock.sleep).run(20, listener, **asked)


def _told(server: FakeMysql) -> FakeMysql:
    rows = [("innodb_system", str(MIB), "0"), (None, str(3 * POOL), "0")]
    server.answers["INNODB_SYS_TABLESPACES"] = (TABLESPACES, rows)
    return server


def _asked(server: FakeMysql) -> int:
    return sum("TABLESPACES" in sql for sql in server.statements)


@pytest.fixture(autouse=True)
def without_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fake_mysql.GROWTH, "Innodb_buffer_pool_read_ahead", 0)


def test_a_server_that_tells_its_files_gets_a_bound() -> None:
    with FakeMysql() as server:
        found = look(_told(server), asks_data=True)
        assert _asked(server) == 2, "at both ends"
    assert found.twice_the_pool == TwiceThePool(2 * POOL, 3 * POOL, 0.5, pytest.approx(30.0))


def test_an_account_without_the_right_is_told_which_one_it_needs() -> None:
    with FakeMysql() as server:
        found = look(server, asks_data=True)
    assert found.twice_the_pool == NotTold(
        "the account may not ask how large the data are", "GRANT PROCESS ON *.* TO the account", "rights"
    )


def test_advice_does_not_ask_how_large_the_data_are() -> None:
    with FakeMysql() as server:
        look(_told(server))
        assert _asked(server) == 0


def test_a_server_that_answers_slowly_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DATA_AGAIN_S", 0.0)
    with FakeMysql() as server:
        found = look(_told(server), asks_data=True)
        assert _asked(server) == 1
    assert isinstance(found.twice_the_pool, NotTold)
    assert "it was not asked again" in found.twice_the_pool.why
