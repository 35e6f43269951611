"""The list of the pool's pages for a model: it is asked for only if that is cheap, and uses the window's page
numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bufferlab.engines.servers.look import Facts, NotTold
from bufferlab.live import pool_contents
from bufferlab.live.live_trace import Recorded, with_one_numbering

NO_EXTENSION: list[dict[str, Any]] = []


def facts(flavour: str = "mysql", pages: int = 4096) -> Facts:
    return Facts(
        flavour=flavour,  # type: ignore[arg-type]
        version="17.2",
        numbers=(17, 2),
        identity="a",
        page_size_bytes=16384,
        pool_size_bytes=pages * 16384,
        transactions="transaction",
        no_time="",
        uptime_s=100.0,
    )


def window(objects: list[int], pages: list[int], relations: tuple[tuple[int, ...], ...] = ()) -> Recorded:
    numbers = np.array(objects, np.uint32), np.array(pages, np.uint32)
    return Recorded("full", {}, *numbers, 10.0, "whole", relations)


def test_a_page_is_known_by_its_object_and_its_number() -> None:
    found: list[pool_contents.Page] = [((7,), 3), ((9,), 1), ((0,), 5)]
    assert pool_contents.keys(found, ()) == [7 << 32 | 3, 9 << 32 | 1, 5]


def test_relations_of_postgres_have_the_numbers_of_the_window_and_others_come_behind() -> None:
    a, b, c = (1663, 5, 16384, 0), (1663, 5, 16385, 0), (1663, 5, 16386, 0)
    found: list[pool_contents.Page] = [(b, 1), (c, 1), (c, 2), (a, 0)]
    assert pool_contents.keys(found, (a, b)) == [1 << 32 | 1, 2 << 32 | 1, 2 << 32 | 2, 0]


def test_windows_that_number_relations_by_themselves_come_to_one_numbering() -> None:
    a, b, c = (1663, 5, 1, 0), (1663, 5, 2, 0), (1663, 5, 3, 0)
    first, second = with_one_numbering([window([0, 1], [4, 5], (a, b)), window([0, 1, 1], [6, 7, 8], (c, a))])
    assert first.object.tolist() == [0, 1]
    assert second.object.tolist() == [2, 0, 0]
    assert first.relations == second.relations == (a, b, c)
    (same,) = with_one_numbering([window([9], [1])])
    assert same.object.tolist() == [9]


def test_innodb_is_asked_in_the_order_of_its_list() -> None:
    asked = []

    def query(sql: str) -> list[dict[str, object]]:
        asked.append(sql)
        return [{"object": 7, "page": 3}, {"object": 0, "page": 5}]

    assert pool_contents.pages(query, facts(), look_inside=False) == [((7,), 3), ((0,), 5)]
    assert asked[0].endswith("ORDER BY lru_position")


def test_a_page_of_postgres_stands_as_often_as_it_was_used() -> None:
    names = {"tablespace": 1663, "database": 5, "relation": 16384, "fork": 0}

    def query(sql: str) -> list[dict[str, object]]:
        if "pg_extension" in sql:
            return [{"place": "public"}]
        assert "public.pg_buffercache" in sql
        return [{**names, "page": 1, "uses": 0}, {**names, "page": 2, "uses": 2}]

    one = (1663, 5, 16384, 0)
    assert pool_contents.pages(query, facts("postgres"), look_inside=False) == [(one, 1), (one, 2), (one, 2)]


@pytest.mark.parametrize(
    ("told", "pages", "look_inside", "words"),
    [
        (None, 100_000, False, "so it is not asked"),
        (None, 1_000_000, True, "so it is not asked"),
        (NO_EXTENSION, 4096, False, "pg_buffercache"),
    ],
)
def test_it_is_not_asked_where_that_takes_long_or_cannot_be(
    told: list[dict[str, Any]] | None, pages: int, look_inside: bool, words: str
) -> None:
    def query(sql: str) -> list[dict[str, object]]:
        assert told is not None, "nothing may be asked"
        return told

    flavour = "mysql" if told is None else "postgres"
    found = pool_contents.pages(query, facts(flavour, pages), look_inside=look_inside)
    assert isinstance(found, NotTold)
    assert words in found.why
    assert found.remedy
