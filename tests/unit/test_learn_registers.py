"""The registers that hold a page: the chosen one names only resident pages, at a place passed as often as the site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bufferlab.engines.servers import learnt
from bufferlab.engines.servers.lesson import Page
from bufferlab.learn import recording, registers, windows
from bufferlab.learn.recording import Records
from bufferlab.results.trace_words import page_trace_words

DTYPE = np.dtype(list(page_trace_words().record))
SITE, NEAR, FAR = 0x500, 0x4F0, 0x4E0
"""A site, and two places before it."""
BEFORE = [(0, 0), *((7, number) for number in range(10))]
AFTER = [(7, number) for number in range(5, 15)]
"""The resident pages before the load and after it. The first is the page that a place with constant registers seems to
name."""
OTHERS = [(7, 1_000), (8, 3)]


@dataclass
class Host:
    """A private server whose load passes places, and the kernel's links to these places."""

    passed: Mapping[int, int]
    """The number of times that a load passes each place."""
    share: Mapping[tuple[int, str], float]
    """The share of resident pages among those that a register names at a place; other registers name no resident
    page."""
    spools: list[Path] = field(default_factory=list)
    loads: int = 0

    def pages(self, offset: int, fetch: list[str]) -> list[Page]:
        count = self.passed.get(offset, 0)
        if fetch == ["\\0"] * 4:
            return [(0, 0)] * count
        register = fetch[0].removeprefix("+0(").removesuffix(")")
        assert fetch == [f"+0({register})", f"+4({register})", "\\0", "\\0"]
        right = round(self.share.get((offset, register), 0.0) * count)
        listed = [page for page in dict.fromkeys([*BEFORE, *AFTER]) if page != (0, 0)]
        return [listed[number % len(listed)] if number < right else OTHERS[number % 2] for number in range(count)]

    @contextmanager
    def attached(self, place: Any, server: Any, settings: Mapping[str, Any], spool: Path) -> Iterator[Any]:
        for one in settings["site"]:
            assert {"tries", "registers"}.isdisjoint(one)
        self.spools.append(spool)
        self.loads = 0
        yield settings

    def mixed(self, server: Any, lesson: Any, seed: int, statements: int) -> None:
        self.loads += 1

    def resident(self, server: Any, lesson: Any) -> set[Page]:
        return set(AFTER if self.loads else BEFORE)

    def recorded(self, spool: Path, trace: Mapping[str, Any], settings: Mapping[str, Any]) -> Records:
        assert (self.loads, trace) == (1, settings)
        rows = [(0, *page, 0, 0, 0, number, 0) for number, one in enumerate(trace["site"])
                for page in self.pages(one["offset"], one["fetch"])]  # fmt: skip
        return Records(np.asarray(rows, DTYPE), [])

    @contextmanager
    def server(self, settings: Any) -> Iterator[None]:
        yield None


def site(offset: int, *tries: tuple[int, list[str]], fetch: str = "?") -> dict[str, Any]:
    """Return a get whose page is in an unknown place, with the places to try."""
    places = [{"offset": at, "byte": at & 0xFF, "registers": names} for at, names in tries]
    return {"at": "?", "kinds": ["get"], "offset": offset, "byte": 0xE8, "fetch": [fetch, fetch, "\\0", "\\0"],
            "tries": places}  # fmt: skip


def found(
    monkeypatch: pytest.MonkeyPatch, sites: list[dict[str, Any]], passed: Mapping[int, int],
    share: Mapping[tuple[int, str], float],
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the sites with the registers that were found."""
    host = Host(passed, share)
    for name in ("attached", "recorded"):
        monkeypatch.setattr(recording, name, getattr(host, name))
    monkeypatch.setattr(windows, "mixed", host.mixed)
    monkeypatch.setattr(windows, "resident", host.resident)
    lesson = SimpleNamespace(settings=lambda build: {})
    place: Any = SimpleNamespace(folder=Path("/"), lesson=lesson, build=None, server=host.server)
    settings = registers.found(place, {"fields": learnt.FIELDS_OF_INNODB, "site": sites})
    assert settings["fields"] == learnt.FIELDS_OF_INNODB
    assert len(set(host.spools)) == len(host.spools)
    return settings["site"]  # type: ignore[no-any-return]


def chosen(sites: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(one["offset"], one["byte"], one["fetch"][0]) for one in sites]


def test_a_register_that_names_resident_pages_where_the_load_passes_as_often_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = site(SITE, (NEAR, ["%bx", "%ax"]))
    before = {**wanted, "tries": [dict(one) for one in wanted["tries"]]}
    (one,) = found(monkeypatch, [wanted], {SITE: 500, NEAR: 500}, {(NEAR, "%ax"): 1.0})
    assert one == {"at": "?", "kinds": ["get"], "offset": NEAR, "byte": 0xF0,
                   "fetch": ["+0(%ax)", "+4(%ax)", "\\0", "\\0"]}  # fmt: skip
    assert wanted == before


def test_a_known_site_stays_as_it_is_and_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    known = site(FAR, (FAR, ["%bx"]), fetch="%di")
    (one,) = found(monkeypatch, [known], {FAR: 500}, {(FAR, "%bx"): 1.0})
    assert one == {name: value for name, value in known.items() if name != "tries"}


@pytest.mark.parametrize(
    ("passed", "share"),
    [
        ({SITE: 500, NEAR: 500}, 0.0),
        ({SITE: 500, NEAR: 500}, 0.96),
        ({SITE: 500, NEAR: 505}, 1.0),
        ({SITE: 500, NEAR: 495}, 1.0),
        ({SITE: 0, NEAR: 500}, 1.0),
        ({SITE: 500, NEAR: 0}, 1.0),
        ({SITE: 19, NEAR: 19}, 1.0),
        ({SITE: 0, NEAR: 0}, 1.0),
    ],
    ids=["other pages", "some other pages", "more often", "less often", "the site is not passed",
         "the place is not passed", "too seldom", "no load passes"],
)  # fmt: skip
def test_a_site_is_left_out_where_no_register_is_sure(
    passed: dict[int, int], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sites = [site(SITE, (NEAR, ["%bx"])), site(FAR, (FAR, ["%bx"]))]
    left = found(monkeypatch, sites, {**passed, FAR: 100}, {(NEAR, "%bx"): share, (FAR, "%bx"): 1.0})
    assert chosen(left) == [(FAR, 0xE0, "+0(%bx)")], "the other site is not touched by it"


def test_a_few_pages_that_left_meanwhile_and_a_few_passes_more_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = [site(SITE, (NEAR, ["%bx"]))]
    assert chosen(found(monkeypatch, sites, {SITE: 1000, NEAR: 1003}, {(NEAR, "%bx"): 0.98})) == [
        (NEAR, 0xF0, "+0(%bx)")
    ]
    assert found(monkeypatch, sites, {SITE: 1000, NEAR: 1004}, {(NEAR, "%bx"): 0.98}) == []


def test_a_site_that_is_only_counted_is_not_taken_although_its_constants_name_a_resident_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert found(monkeypatch, [site(SITE, (NEAR, ["%bx"]))], {SITE: 500, NEAR: 500}, {}) == []
    assert found(monkeypatch, [site(SITE)], {SITE: 500}, {}) == [], "there is nothing to try"


EVERYWHERE = {(at, name): 1.0 for at in (SITE, NEAR, FAR) for name in ("%bx", "%r12", "%ax")}


@pytest.mark.parametrize(
    ("passed", "tries", "wanted"),
    [
        ({SITE: 500, NEAR: 501, FAR: 500}, [(NEAR, ["%bx"]), (FAR, ["%ax"])], (FAR, "%ax")),
        ({SITE: 500, NEAR: 499, FAR: 500}, [(NEAR, ["%bx"]), (FAR, ["%cx", "%r12"])], (FAR, "%r12")),
        ({SITE: 500, NEAR: 500, FAR: 500}, [(NEAR, ["%bx"]), (FAR, ["%ax"])], (NEAR, "%bx")),
        ({SITE: 500, NEAR: 500}, [(SITE, ["%ax"]), (NEAR, ["%bx"])], (SITE, "%ax")),
        ({SITE: 500, NEAR: 500}, [(SITE, ["%cx", "%ax"]), (NEAR, ["%bx"])], (SITE, "%ax")),
        ({SITE: 500}, [(SITE, ["%bx", "%r12", "%ax"])], (SITE, "%bx")),
        ({SITE: 500}, [(SITE, ["%cx", "%r12", "%ax"])], (SITE, "%r12")),
        # A place tried later is passed another number of times than the first one, so each round has its own count.
        ({SITE: 500, NEAR: 501}, [(NEAR, ["%bx", "%r12"])], (NEAR, "%bx")),
    ],
    ids=["exact before near", "exact later", "nearer", "the site itself", "the site later", "kept first", "kept later",
         "only near"],
)  # fmt: skip
def test_the_exact_place_comes_first_then_the_site_itself_then_registers_that_calls_leave(
    passed: dict[int, int],
    tries: list[tuple[int, list[str]]],
    wanted: tuple[int, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (one,) = found(monkeypatch, [site(SITE, *tries)], passed, EVERYWHERE)
    assert (one["offset"], one["fetch"][0]) == (wanted[0], f"+0({wanted[1]})")


def test_each_site_is_compared_with_its_own_count(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = [site(SITE, (NEAR, ["%bx"])), site(0x700, (0x6F0, ["%cx", "%bx"]))]
    passed = {SITE: 500, NEAR: 500, 0x700: 80, 0x6F0: 80}
    share = {(NEAR, "%bx"): 1.0, (0x6F0, "%bx"): 1.0}
    assert chosen(found(monkeypatch, sites, passed, share)) == [(NEAR, 0xF0, "+0(%bx)"), (0x6F0, 0xF0, "+0(%bx)")]
    assert found(monkeypatch, sites, {**passed, NEAR: 80, 0x6F0: 500}, share) == []


def test_a_round_has_a_place_once_and_the_site_itself_in_each() -> None:
    sites = [site(SITE, (NEAR, ["%bx", "%ax", "%cx"]), (FAR, ["%bx"])), site(0x700, (0x700, ["%r12", "%dx"]))]
    rounds = registers._rounds({"site": sites})
    told = [[(one.settings["offset"], one.settings["fetch"][0], one.is_named) for one in each] for each in rounds]
    alone = (SITE, "\\0", False)
    assert told == [
        [alone, (NEAR, "+0(%bx)", True), (FAR, "+0(%bx)", True), (0x700, "+0(%r12)", True)],
        [alone, (NEAR, "+0(%ax)", True), (0x700, "+0(%dx)", True)],
        [alone, (NEAR, "+0(%cx)", True)],
    ]
