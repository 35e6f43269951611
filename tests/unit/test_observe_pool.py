"""The tables that fill the pool: the cost of the question, the meaning of a server's rows, and shares that sum to
one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.engines.innodb import questions as innodb
from bufferlab.engines.postgres import questions as postgres
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.client import LostError, ServerError
from bufferlab.engines.servers.look import NotTold
from bufferlab.live import pool_contents

MYSQL: Flavour = "mysql"
MARIADB: Flavour = "mariadb"
POSTGRES: Flavour = "postgres"


def innodb_row(table: str | None, index: str | None, kind: str, state: str, *counts: int) -> dict[str, object]:
    pages, dirty, old = counts
    return {"table_name": table, "index_name": index, "page_type": kind, "page_state": state,
            "pages": pages, "dirty_pages": Decimal(dirty), "old_pages": Decimal(old)}  # fmt: skip


RECORDED = [
    innodb_row(None, None, "UNKNOWN", "NOT_USED", 3043, 0, 0),
    innodb_row(None, None, "SYSTEM", "FILE_PAGE", 387, 3, 104),
    innodb_row(None, None, "TRX_SYSTEM", "FILE_PAGE", 1, 1, 0),
    innodb_row(None, None, "UNDO_LOG", "FILE_PAGE", 300, 16, 112),
    innodb_row("`lab`.`t`", "PRIMARY", "INDEX", "FILE_PAGE", 17, 17, 2),
    innodb_row("`lab`.`t`", "v", "INDEX", "FILE_PAGE", 15, 15, 1),
    innodb_row(None, None, "INDEX", "FILE_PAGE", 45, 2, 40),
    innodb_row(None, None, "LOB_DATA", "FILE_PAGE", 15, 0, 15),
    innodb_row(None, None, "LOB_FIRST", "FILE_PAGE", 13, 0, 10),
    innodb_row(None, None, "FILE_SPACE_HEADER", "FILE_PAGE", 16, 2, 1),
    innodb_row(None, None, "UNKNOWN", "MEMORY", 2, 0, 0),
]
"""Rows of MySQL 9.7.4 and MariaDB 10.2.11 with pools of 64 MiB, as the servers return them."""


def postgres_row(kind: str, relation: str | None, table: str | None = None, *counts: int) -> dict[str, object]:
    pages, dirty, cold = counts
    toast = "orders" if relation and relation.startswith("pg_toast") else None
    return {"kind": kind, "schema": relation and "public", "relation": relation, "table_schema": table and "public",
            "of_table": table, "toast_schema": toast and "public", "toast_of": toast,
            "pages": Decimal(pages), "dirty_pages": Decimal(dirty), "cold_pages": Decimal(cold)}  # fmt: skip


def test_the_cost_is_foretold_from_the_pages() -> None:
    told = pool_contents.foretell(MYSQL, 10_000)
    assert told.seconds == pytest.approx(0.15)
    assert "10,000 pages takes about 0.15 s" in told.sentence


@pytest.mark.parametrize(
    ("server", "pages", "asked"),
    [(MYSQL, 16_000, True), (MARIADB, 16_667, False), (POSTGRES, 131_071, True), (POSTGRES, 131_072, False)],
)
def test_a_pool_that_is_long_to_look_through_is_not_looked_at(server: Flavour, pages: int, asked: bool) -> None:
    sent: list[str] = []

    def query(sql: str) -> list[dict[str, object]]:
        sent.append(sql)
        return [{"place": "public"}] if "pg_extension" in sql else []

    told = pool_contents.look(query, server, pages)
    assert bool(sent) is asked
    if isinstance(told, NotTold):
        assert "--look-inside" in str(told.remedy)
    assert not asked or not isinstance(told, NotTold)
    sent.clear()
    pool_contents.look(query, server, pages, look_inside=True)
    assert sent, "it was confirmed"


def test_rows_of_mysql_become_tables_and_named_groups() -> None:
    told = pool_contents.look(lambda sql: RECORDED, MYSQL, 3854)
    assert not isinstance(told, NotTold)
    by_name = {(one.table, one.index): one for one in told.objects}
    assert by_name["lab.t", "PRIMARY"].pages == 17
    assert by_name["lab.t", "PRIMARY"].old_pages == 2
    assert by_name["lab.t", "PRIMARY"].cold_pages is None
    assert by_name["(system)", None].pages == 388
    assert by_name["(large values, whose table is not told)", None].pages == 28
    assert by_name["(memory of InnoDB)", None].pages == 2
    assert told.objects[0].table == innodb.FREE
    assert told.pages == 3854


def test_rows_of_postgres_become_tables_indexes_and_other_databases() -> None:
    rows = [
        postgres_row("free", None, None, 900, 0, 0),
        postgres_row("own", "orders", None, 500, 5, 50),
        postgres_row("own", "orders_pkey", "orders", 100, 0, 1),
        postgres_row("own", "pg_toast_16400", None, 30, 0, 0),
        postgres_row("own", "pg_toast_16400_index", "pg_toast_16400", 3, 0, 0),
        postgres_row("other", None, None, 500, 7, 9),
        postgres_row("own", None, None, 15, 15, 0),
    ]
    rows[4]["toast_schema"], rows[4]["toast_of"] = "public", "orders"
    answers = iter([[{"place": "public"}], rows])
    told = pool_contents.look(lambda sql: next(answers), POSTGRES, 2048)
    assert not isinstance(told, NotTold)
    found = [(one.table, one.index, one.pages, one.cold_pages) for one in told.objects]
    assert found == [
        ("(free)", None, 900, 0),
        (postgres.OTHERS, None, 500, 9),
        ("public.orders", None, 500, 50),
        ("public.orders", "orders_pkey", 100, 1),
        ("public.orders (TOAST)", None, 30, 0),
        ("(relations that are gone, or of open transactions)", None, 15, 0),
        ("public.orders (TOAST)", "pg_toast_16400_index", 3, 0),
    ]
    assert all(one.old_pages is None for one in told.objects)


rows_of_any_server = st.lists(
    st.tuples(
        st.sampled_from([None, "`a`.`t`", "`a`.`u`", "`b`.`t`"]),
        st.sampled_from([None, "PRIMARY", "k"]),
        st.sampled_from(["INDEX", "UNDO_LOG", "BLOB", "INODE", "UNKNOWN"]),
        st.sampled_from(["FILE_PAGE", "NOT_USED", "MEMORY", "READY_FOR_USE"]),
        st.integers(0, 10**9),
    ),
    max_size=40,
)


@given(rows=rows_of_any_server, beyond=st.integers(0, 10**6), limit=st.integers(1, 30))
def test_shares_sum_to_one_and_no_page_is_lost(rows: list[tuple[Any, ...]], beyond: int, limit: int) -> None:
    told = [innodb_row(table, index, kind, state, pages, 0, pages // 3) for table, index, kind, state, pages in rows]
    pages = sum(row[-1] for row in rows)
    objects = pool_contents.objects_of(told, MYSQL, pages + beyond, limit)
    assert len(objects) <= limit
    assert sum(one.pages for one in objects) == pages + beyond
    assert sum(one.old_pages or 0 for one in objects) == sum(row[-1] // 3 for row in rows)
    if pages + beyond:
        assert sum(one.share_ratio for one in objects) == pytest.approx(1)
    names = [(one.table, one.index) for one in objects]
    assert len(names) == len(set(names))
    # The remainder is last; all entries before it are in order of size.
    sizes = [one.pages for one in objects[:-1]]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("server", "error", "remedy"),
    [
        (MYSQL, ServerError("1227", "Access denied"), "GRANT PROCESS"),
        (POSTGRES, ServerError("42501", "permission denied"), "GRANT pg_monitor"),
        (POSTGRES, ServerError("57014", "canceled"), None),
    ],
)
def test_a_refusal_is_said_with_the_line_that_helps(server: Flavour, error: Exception, remedy: str | None) -> None:
    def query(sql: str) -> list[dict[str, object]]:
        if "pg_extension" in sql:
            return [{"place": "public"}]
        raise error

    told = pool_contents.look(query, server, 1000)
    assert isinstance(told, NotTold)
    assert told.why.endswith(" who fills the pool")
    assert remedy in (told.remedy or "") if remedy else told.remedy is None


def test_a_refusal_that_another_error_wraps_is_one_too() -> None:
    def query(sql: str) -> list[dict[str, object]]:
        raise RuntimeError("refused") from ServerError("1227", "Access denied")

    assert isinstance(pool_contents.look(query, MYSQL, 1000), NotTold)


def test_a_lost_connection_is_no_refusal() -> None:
    def query(sql: str) -> list[dict[str, object]]:
        raise LostError("Lost connection")

    with pytest.raises(LostError):
        pool_contents.look(query, MYSQL, 1000)


def test_a_database_without_the_extension_says_how_to_make_it() -> None:
    told = pool_contents.look(lambda sql: [], POSTGRES, 1000)
    assert isinstance(told, NotTold)
    assert "CREATE EXTENSION pg_buffercache" in str(told.remedy)
