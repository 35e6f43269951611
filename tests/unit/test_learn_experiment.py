"""The experiment on a MariaDB without names: of the places that a load passes, it takes those that fit the server's
counters."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from bufferlab.learn import experiment
from bufferlab.learn.experiment import _Getter, _Named, _Rise, _Tally

FIELDS = ["page_id:u64", "mode:u8", "latch:u8", "frame:u64"]
RISES = [_Rise(1000, 120, 900), _Rise(800, 0, 800), _Rise(10, 40, 60)]
SPACES = {0, 7}
PAGES: list[tuple[int, ...]] = [(7, number) for number in range(20)]


def tally(*passed: list[int], pages: list[tuple[int, ...]] = PAGES) -> _Tally:
    return _Tally([RISES] * len(passed), list(passed), [pages] * len(passed))


def test_a_place_is_passed_as_often_as_a_counter_rises_only_if_it_is_so_in_every_phase() -> None:
    found = tally([900, 800, 60], [901, 799, 61], [900, 800, 62], [1760, 0, 0])
    assert [found.equals(number, "evict") for number in range(4)] == [True, True, False, False]


def test_a_function_that_makes_pages_is_entered_as_often_at_least_and_not_much_more_often() -> None:
    found = tally([120, 0, 40], [400, 30, 90], [119, 0, 40], [110, 500, 40], [400, 800, 60])
    assert [found.may_make(number, SPACES) for number in range(5)] == [True, True, True, False, False]
    assert not tally([120, 0, 40], pages=[(1 << 20, 3), (55, 1), (9, 2)] * 9).may_make(0, SPACES)
    assert not tally([120, 0, 40], pages=[(7, 3)] * 9).may_make(0, SPACES), "a register that stands still names nothing"


def test_the_calls_of_one_function_to_another_read_together() -> None:
    calls = [{"function_offset": function, "callee": callee} for function, callee in ((1, 9), (2, 8), (1, 9), (2, 9))]
    assert tally([600, 500, 3], [1000, 800, 10], [400, 300, 7], [1, 1, 1]).reading(calls, SPACES) == [0, 2]
    assert tally([600, 500, 3], [1000, 800, 10], [1, 300, 7], [1, 1, 1]).reading(calls, SPACES) == [1]
    assert tally([600, 500, 3], [9, 800, 10], [1, 300, 7], [1, 1, 1]).reading(calls, SPACES) == []


def test_calls_of_one_function_are_counted_in_one_round() -> None:
    places = [{"offset": number, "function_offset": number // 7} for number in range(600)]
    batches = list(experiment._batches(places))
    assert [one for some in batches for one in some] == places
    assert all(len(some) <= 240 for some in batches)
    ends = [(before[-1], after[0]) for before, after in pairwise(batches)]
    assert all(before["function_offset"] != after["function_offset"] for before, after in ends)


ENTRY, SITE, BEFORE, BEHIND = ({"offset": offset, "byte": 0x55} for offset in (0x100, 0x140, 0x130, 0x180))


def getter(found: dict[tuple[int, str], _Named], **other: Any) -> _Getter:
    told = {"site": SITE, "inside": None, "entry": ENTRY, "before": [{**BEFORE, "registers": ["%bx"]}],
            "behind": [BEHIND], **other}  # fmt: skip
    return _Getter(told, found, 100)


def named(
    count: int, resident: float = 1.0, *, of_site: int = 100, nonzero: int | None = None, distinct: int = 50
) -> _Named:
    return _Named(count, count if nonzero is None else nonzero, resident, resident, distinct, of_site)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({(0x100, "%di"): named(100), (0x140, "%r14"): named(100)}, (0x100, "%di")),
        # The entry is also passed for attempts, or for other pages; the register at a later place is right.
        ({(0x100, "%di"): named(140), (0x140, "%r14"): named(100)}, (0x140, "%r14")),
        ({(0x100, "%di"): named(100, 0.2), (0x140, "+0(%bx)"): named(100)}, (0x140, "+0(%bx)")),
        # A place that names the same page again and again belongs to another get.
        ({(0x140, "%r12"): named(100, distinct=2), (0x130, "+0(%bx)"): named(100)}, (0x130, "+0(%bx)")),
        ({(0x140, "%r12"): named(100, 0.5)}, None),
        ({(0x140, "%r12"): named(2, of_site=2)}, None),
    ],
)
def test_the_page_of_a_get_is_where_resident_pages_are_named_as_often_as_it_is_counted(
    found: dict[tuple[int, str], _Named], told: tuple[int, str] | None
) -> None:
    best = experiment._best(getter(found))
    assert (best and best[0]) == told


def test_the_function_that_most_gets_pass_tells_its_mode_and_latch_too() -> None:
    main = getter({(0x100, "%di"): named(900, of_site=900)})
    other = getter(
        {(0x200, "%di"): named(100)}, site={"offset": 0x240, "byte": 0x74}, entry={"offset": 0x200, "byte": 0x55}
    )
    other.without_hash_index = 0
    first, second = experiment._of_getters([main, other], FIELDS, counts_transactions=False)
    assert (first["offset"], first["fetch"]) == (0x100, ["%di", "%r8", "%dx", "\\0"])
    assert (second["offset"], second["fetch"], second["hash_index"]) == (0x200, ["%di", "\\0", "\\0", "\\0"], True)


def test_gets_without_a_transaction_have_a_site_of_their_own_where_its_address_is_null() -> None:
    found = {
        (0x140, "%r14"): named(100), (0x180, "%r14"): named(130), (0x180, "%si"): named(130, 0.0, nonzero=100),
        (0x180, "%ax"): named(130, 0.0, nonzero=130), (0x100, "%si"): named(130), (0x100, "%di"): named(130, 0.0),
    }  # fmt: skip
    fields = [*FIELDS[:-1], "flag:u64", FIELDS[-1]]
    every, counted = experiment._of_getters([getter(found)], fields, counts_transactions=True)
    assert (every["offset"], every["fetch"]) == (0x180, ["%r14", "\\0", "\\0", "%si", "\\0"])
    assert (every["kinds_if_flag"], every["uncounted"]) == ([], True)
    assert (counted["offset"], counted["fetch"]) == (0x140, ["%r14", "\\0", "\\0", "\\0", "\\0"])
    assert counted["late"] is True, "its page is the second argument, as that of purge"
