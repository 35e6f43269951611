"""Finds the probe sites of a MariaDB binary without function names, by counting how often instructions execute.

The core lists functions and calls near InnoDB's pool. On a private server, kernel probes count how often each
instruction executes, while loads make the server's counters rise. An instruction is a candidate if it executes as often
as pages are read, created or evicted. The registers that hold page numbers are found as for other builds, by the
server's list of resident pages. The result is a proposal, which proof.py then checks.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from bufferlab.engines.native import ask_host, native
from bufferlab.engines.servers.data_folder import DATABASE
from bufferlab.engines.servers.lesson import Counted, Page
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError
from bufferlab.learn import recording, windows
from bufferlab.learn.private_copy import PrivateCopy
from bufferlab.learn.recording import Records
from bufferlab.learn.registers import REGISTERS

_UNKNOWN = "this build cannot be learnt"
_AT_ONCE = 240
"""The maximum number of instructions that one recording can count: a record has eight bits for their number."""
_STATEMENTS = 150
_OFF = 0.002
"""The number of an instruction's executions may differ from a counter's growth by this fraction, plus one."""
_NAMES = 0.97
"""At least this fraction of an instruction's recorded page numbers must be pages of the pool.

Wrong registers match only by chance.
"""
_LEAST = 3
_BUSY = 100
"""The least number of executions at which a function's entry may be taken as the place where it gets a page.

With fewer executions it may be an attempt to get a page that happened to succeed each time.
"""
_MOST_MAKERS = 5
"""The maximum number of functions to try as the one that creates pages.

The proof tries them in order and takes the first whose records agree with the server's counters.
"""
_OFTEN = 4
"""A function that creates pages may be called at most this many times per created page.

In the other calls it finds the page in the pool and creates none.
"""
_HASH_INDEX = "SET GLOBAL innodb_adaptive_hash_index = "
Place = Mapping[str, int]


class _Rise(NamedTuple):
    """The growth of the counters in one phase of a load."""

    read: int
    create: int
    evict: int


@dataclass
class _Tally:
    """How often instructions were executed in the phases of a load, and the page numbers that they recorded."""

    rises: list[list[_Rise]]
    """The growth of the counters: for each instruction, one entry per phase of the load."""
    passed: list[list[int]]
    pages: list[list[Page]]

    def add(self, other: _Tally) -> None:
        self.rises += other.rises
        self.passed += other.passed
        self.pages += other.pages

    def equals(self, number: int, counter: str) -> bool:
        """Return whether an instruction was executed as often as a counter rose, in every phase."""
        return _equal(self.passed[number], [getattr(rise, counter) for rise in self.rises[number]])

    def may_make(self, number: int, spaces: set[int]) -> bool:
        """Return whether the function may be the one that creates pages.

        It may be called more often than pages are created.
        """
        created = [rise.create for rise in self.rises[number]]
        enough = all(count + 1 + _OFF * made >= made for count, made in zip(self.passed[number], created, strict=True))
        few = sum(self.passed[number]) <= _OFTEN * sum(created)
        return enough and few and _plausible(self.pages[number], spaces) >= _NAMES / 2

    def reading(self, calls: Sequence[Mapping[str, int]], spaces: set[int]) -> list[int]:
        """Return the calls of one function by another that were together executed as often as pages are read."""
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, call in enumerate(calls):
            groups[call["function_offset"], call["callee"]].append(number)
        for numbers in groups.values():
            sums = [sum(counts) for counts in zip(*(self.passed[number] for number in numbers), strict=True)]
            pages = [page for number in numbers for page in self.pages[number]]
            reads = [rise.read for rise in self.rises[numbers[0]]]
            if _equal(sums, reads) and _plausible(pages, spaces) >= _NAMES:
                return numbers
        return []


@dataclass
class _Named:
    """The page numbers that an instruction's probe recorded in one round."""

    count: int
    nonzero: int
    resident: float
    plausible: float
    distinct: int
    of_site: int
    """How often the function's instruction that counts gets was executed in the same round."""


@dataclass
class _Getter:
    """A function that counts page gets.

    It has the page numbers recorded in it, by instruction and register expression.
    """

    told: Mapping[str, Any]
    found: dict[tuple[int, str], _Named] = field(default_factory=dict)
    without_hash_index: int = 0

    @property
    def site(self) -> Place:
        return self.told["site"]  # type: ignore[no-any-return]


def proposed(binary: Path) -> dict[str, Any]:
    """Return the instructions to try, as the core proposes them.

    Raises EnvironmentLackingError if the core proposes too few.
    """
    told: dict[str, Any] = json.loads(ask_host(_UNKNOWN, lambda: native().page_site_experiment(str(binary))))
    return told


def found(place: PrivateCopy, told: Mapping[str, Any], say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return proposals of the server's probe settings, the likeliest first; each is still to be proved.

    Raises EnvironmentLackingError if no instruction is executed as often as a counter rises.
    """
    width = len(told["fields"])
    off = {"innodb_adaptive_hash_index": "OFF"}
    say(f"counting how often {len(told['entries'])} functions and {len(told['calls'])} calls are passed")
    with place.server({**place.lesson.settings(place.build), **off}) as server:
        windows.mixed(server, place.lesson, 1, _STATEMENTS)
        search = _Search(place, server, told["fields"])
        entries, calls = list(told["entries"]), list(told["calls"])
        of_entries = search.tally(entries, _fetch(width, "%di"))
        leaves = [number for number in range(len(entries)) if of_entries.equals(number, "evict")]
        makes = sorted(
            (number for number in range(len(entries)) if of_entries.may_make(number, search.spaces)),
            key=lambda number: sum(of_entries.passed[number]),
        )
        if not leaves or not makes:
            _refuse(place, "a page" if makes else "makes a page" if leaves else "makes or lets go a page")
        of_calls = search.tally(calls, _fetch(width, "+0(%r9)", frame="%r9"))
        evict = search.first_that_names([entries[number] for number in leaves], _fetch(width, "+0(%di)", frame="%di"))
        reads = of_calls.reading(calls, search.spaces)
    if evict is None or not reads:
        _refuse(place, "reads a page" if evict else "lets go a page")
    fixed = [
        _site("evict", evict, ["evict"], _fetch(width, "+0(%di)", frame="%di")),
        *(_site("read", calls[number], ["read"], _fetch(width, "+0(%r9)", frame="%r9")) for number in reads),
    ]
    say("looking for the registers that name pages")
    makers = [_site("create", entries[number], ["create"], _fetch(width, "%di")) for number in makes[:_MOST_MAKERS]]
    with place.server(place.lesson.settings(place.build)) as server:
        gets = _Search(place, server, told["fields"]).getters(told, [*fixed, makers[0]])
    head = {"fields": told["fields"], "modes_if_in_pool": told["modes_if_in_pool"], "cost_shown": False}
    return [{**head, "site": [*gets, maker, *fixed]} for maker in makers]


def _refuse(place: PrivateCopy, what: str) -> NoReturn:
    told = f"{_UNKNOWN}: no function was found that {what} as often as the server counts"
    raise EnvironmentLackingError(told, str(place.build.binary), "use another build of this version")


_ANY = "\\0"


def _fetch(
    width: int, page: str, mode: str = _ANY, latch: str = _ANY, *, flag: str = _ANY, frame: str = _ANY
) -> list[str]:
    """Return, for each of the `width` fields of a record, the expression that the probe evaluates."""
    return [page, mode, latch, *([flag] if width > 4 else []), frame]


def _site(name: str, place: Place, kinds: list[str], fetch: list[str], **more: Any) -> dict[str, Any]:
    at = f"{name}:{place['offset']:#x}"
    return {"at": at, "kinds": kinds, "offset": place["offset"], "byte": place["byte"], "fetch": fetch, **more}


class _Search:
    """The rounds of recording on one private server."""

    def __init__(self, place: PrivateCopy, server: PrivateServer, fields: Sequence[str]) -> None:
        self.place, self.server, self.fields = place, server, list(fields)
        self.seed, self.rounds = 10, 0
        self.spaces = {page[0] for page in windows.resident(self.server, self.place.lesson)}

    def tally(self, places: Sequence[Place], fetch: list[str]) -> _Tally:
        """Count how often a load executes each instruction, in as many rounds as needed."""
        whole = _Tally([], [], [])
        for some in _batches(places):
            whole.add(self._phases([_site("try", one, ["get"], fetch) for one in some]))
        return whole

    def first_that_names(self, places: Sequence[Place], fetch: list[str]) -> Place | None:
        """Return the first instruction whose records contain pages of known tablespaces."""
        tally = self.tally(places, fetch)
        good = (number for number in range(len(places)) if _plausible(tally.pages[number], self.spaces) > _NAMES / 2)
        return next((places[number] for number in good), None)

    def _load(self) -> Iterator[None]:
        """Run a load in phases; yield after each phase."""
        lesson = self.place.lesson
        self.seed += 1
        windows.mixed(self.server, lesson, self.seed, _STATEMENTS)
        yield
        for act in (lesson.scan, lambda connection: lesson.grow_and_drop(connection, self.seed)):
            with closing(self.server.connect(DATABASE, patient=True)) as connection:
                act(connection)
            yield

    def _work(self) -> None:
        """Run all phases of a load."""
        for _ in self._load():
            pass

    def _recorded(self, sites: Sequence[Mapping[str, Any]], load: Callable[[], None]) -> Records:
        settings = {"fields": self.fields, "site": list(sites)}
        self.rounds += 1
        spool = self.place.folder / f"tries-{self.rounds}"
        with recording.attached(self.place, self.server, settings, spool) as trace:
            load()
            records = recording.recorded(spool, trace, settings)
        spool.unlink(missing_ok=True)
        return records

    def _phases(self, sites: Sequence[Mapping[str, Any]]) -> _Tally:
        edges: list[windows.Edge] = []

        def load() -> None:
            edges.append(windows.edge(self.server, self.place))
            edges.extend(windows.edge(self.server, self.place) for _ in self._load())

        records = self._recorded(sites, load)
        rises, passed = [], [[0] * (len(edges) - 1) for _ in sites]
        for phase, (before, after) in enumerate(pairwise(edges)):
            rises.append(_rise(before.counted, after.counted))
            numbers, counts = np.unique(records.between(before.ended_ns, after.begun_ns)["site"], return_counts=True)
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
                passed[number][phase] = count
        self.spaces |= {page[0] for page in windows.resident(self.server, self.place.lesson)}
        return _Tally([rises] * len(sites), passed, _pages_by_site(records, len(sites)))

    def getters(self, told: Mapping[str, Any], fixed: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the probe sites of gets, without those that no load executes."""
        getters = [_Getter(one) for one in told["getters"]]
        windows.mixed(self.server, self.place.lesson, 1, _STATEMENTS)
        addresses = max((len(one["registers"]) for each in getters for one in each.told["before"]), default=0)
        for name in REGISTERS:
            self._round(getters, fixed, lambda one, name=name: f"%{name}")  # type: ignore[misc]
        for turn in range(addresses):
            self._round(getters, fixed, lambda one, turn=turn: _nth(one.get("registers", ()), turn))  # type: ignore[misc]
        self._without_hash_index(getters)
        return _of_getters(getters, self.fields, counts_transactions=told["counts_transactions"])

    def _round(
        self,
        getters: Sequence[_Getter],
        fixed: Sequence[Mapping[str, Any]],
        page: Callable[[Mapping[str, Any]], str | None],
    ) -> None:
        """Record one register expression at each instruction of the get functions, and store the page numbers found."""
        width = len(self.fields)
        wanted: dict[int, tuple[Place, str, list[_Getter]]] = {}
        for getter in getters:
            for one in _places(getter.told):
                expression = page(one) or "\\0"
                known = wanted.get(one["offset"])
                owners = [*(known[2] if known else []), getter]
                expression = known[1] if known and expression == "\\0" else expression
                wanted[one["offset"]] = (one, expression, owners)
        rows = list(wanted.values())[: _AT_ONCE - len(fixed)]
        sites = [_site("try", one, ["get"], _fetch(width, expression)) for one, expression, _ in rows]
        before = windows.resident(self.server, self.place.lesson)
        records = self._recorded([*sites, *fixed], self._work)
        pages = _pages_by_site(records, len(sites) + len(fixed))
        there = (
            before
            | windows.resident(self.server, self.place.lesson)
            | {page for of_site in pages[len(sites) :] for page in of_site}
        )
        self.spaces |= {page[0] for page in there}
        counts = {one["offset"]: len(of_site) for (one, _, _), of_site in zip(rows, pages, strict=False)}
        for (one, expression, owners), of_site in zip(rows, pages, strict=False):
            if expression == "\\0":
                continue
            for getter in owners:
                getter.found[one["offset"], expression] = _Named(
                    len(of_site), sum(page != (0, 0) for page in of_site),
                    sum(page in there for page in of_site) / max(len(of_site), 1),
                    _plausible(of_site, self.spaces - {0}),
                    len(set(of_site)), counts.get(getter.site["offset"], 0),
                )  # fmt: skip

    def _without_hash_index(self, getters: Sequence[_Getter]) -> None:
        """Count how often the counting instructions are executed while the adaptive hash index is off."""
        width = len(self.fields)
        places = list({getter.site["offset"]: getter.site for getter in getters}.values())
        with closing(self.server.connect(DATABASE, patient=True)) as connection:
            connection.ask(f"{_HASH_INDEX}OFF")
        # The page number is not used here, but every record needs one.
        sites = [_site("try", one, ["get"], _fetch(width, "%di")) for one in places]
        records = self._recorded(sites, self._work)
        counts = np.bincount(records.records["site"], minlength=len(sites)).tolist()
        passed = {one["offset"]: count for one, count in zip(places, counts, strict=False)}
        for getter in getters:
            getter.without_hash_index = passed[getter.site["offset"]]


def _batches(places: Sequence[Place]) -> Iterator[list[Place]]:
    """Yield the instructions of each round; instructions of one function are in the same round."""
    some: list[Place] = []
    for _, of_function in groupby(places, lambda one: one.get("function_offset")):
        few = list(of_function)
        if len(some) + len(few) > _AT_ONCE and some:
            yield some
            some = []
        some = [*some, *few][:_AT_ONCE]
    if some:
        yield some


def _rise(before: Counted, after: Counted) -> _Rise:
    return _Rise(*(getattr(after, name) - getattr(before, name) for name in _Rise._fields))


def _equal(counts: Sequence[int], rises: Sequence[int]) -> bool:
    return all(abs(count - rise) <= 1 + _OFF * rise for count, rise in zip(counts, rises, strict=True))


def _pages_by_site(records: Records, sites: int) -> list[list[Page]]:
    pages: list[list[Page]] = [[] for _ in range(sites)]
    for site, page in zip(records.records["site"].tolist(), records.pages(records.records), strict=True):
        pages[site].append(page)
    return pages


def _plausible(pages: Sequence[Page], spaces: set[int]) -> float:
    """Return the fraction of pages in known tablespaces; 0 if fewer than _LEAST distinct pages were recorded."""
    of_known = sum(page[0] in spaces and page[1] < 1 << 20 for page in pages)
    return of_known / len(pages) if len(set(pages)) >= _LEAST else 0.0


def _nth(registers: Sequence[str], turn: int) -> str | None:
    return f"+0({registers[turn]})" if turn < len(registers) else None


def _places(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the instructions of a get function, each once; the one that raises the counter comes first.

    At the instructions before it, registers hold addresses of page numbers.
    """
    entry = [told["entry"]] if told["entry"] else []
    every = {one["offset"]: one for one in [told["site"], *entry, *told["behind"], *told["before"]]}
    return list(every.values())


def _of_getters(
    getters: Sequence[_Getter], fields: Sequence[str], *, counts_transactions: bool
) -> list[dict[str, Any]]:
    width, sites = len(fields), {}
    with_page = [(getter, best) for getter in getters if (best := _best(getter, at_site=counts_transactions))]
    busiest = max(with_page, key=lambda one: one[1][1].of_site, default=(None,))[0]
    for getter, ((offset, expression), named) in with_page:
        place = next(one for one in _places(getter.told) if one["offset"] == offset)
        is_entry = getter.told["entry"] and offset == getter.told["entry"]["offset"]
        is_main = getter is busiest and is_entry and expression == "%di"
        fetch = _fetch(width, expression, *(["%r8", "%dx"] if is_main else []))
        kinds = ["get"] if named.resident >= _NAMES or is_main else ["get_if_in_pool"]
        more: dict[str, Any] = {}
        if offset == getter.site["offset"] and getter.told["inside"]:
            more["inside"] = dict(getter.told["inside"])
        if not getter.without_hash_index and named.of_site >= 20:
            more["hash_index"] = True
        if counts_transactions:
            is_late = getter.found.get(((getter.told["entry"] or {}).get("offset", -1), "%si"))
            if is_late and is_late.resident >= _NAMES:
                more["late"] = True
            further = _further(getter)
            if further:
                sites[further[0]["offset"], "all"] = _site(
                    "get", further[0], ["get"], _fetch(width, further[1], flag=further[2]),
                    kinds_if_flag=[], uncounted=True,
                )  # fmt: skip
        sites[offset, "counted"] = _site("get", place, kinds, fetch, **more)
    return list(sites.values())


def _best(getter: _Getter, *, at_site: bool = False) -> tuple[tuple[int, str], _Named] | None:
    """Return the instruction and register expression that give the page of each get; None if none does.

    The instruction must be executed as often as the one that raises the counter. With `at_site` only the latter is
    considered, because others may also execute for gets of purge, which the server does not count.
    """
    entry = (getter.told["entry"] or {}).get("offset")

    def rank(one: tuple[tuple[int, str], _Named]) -> tuple[Any, ...]:
        (offset, expression), named = one
        where = 0 if offset == entry else 1 if offset == getter.site["offset"] else 2
        return (named.resident < _NAMES, where, expression.startswith("+"), -named.distinct)

    often = {
        key: named
        for key, named in getter.found.items()
        if named.count >= _LEAST
        and (key[0] != entry or (key[1] == "%di" and named.count >= _BUSY))
        and (not at_site or key[0] == getter.site["offset"])
        and abs(named.count - named.of_site) <= 1 + _OFF * named.of_site
    }
    good = {key: named for key, named in often.items() if max(named.resident, named.plausible) >= _NAMES}
    most = max((named.distinct / named.count for named in good.values()), default=0.0)
    several = [one for one in good.items() if one[1].distinct / one[1].count >= most / 2]
    return min(several, key=rank, default=None)


def _further(getter: _Getter) -> tuple[Place, str, str] | None:
    """Return an instruction that all gets execute, and two registers there; None without such an instruction.

    The first register holds the page number. The second register is 0 in gets that the server does not count.
    """
    entry = [getter.told["entry"]] if getter.told["entry"] else []
    for one in [*entry, *getter.told["behind"]]:
        named = {key[1]: found for key, found in getter.found.items() if key[0] == one["offset"]}
        flags = [name for name, told in named.items() if told.count > told.of_site + 1
                 and abs(told.nonzero - told.of_site) <= 1 + _OFF * told.of_site]  # fmt: skip
        pages = [name for name, told in named.items() if told.resident >= _NAMES]
        if flags and pages:
            # Other registers may still hold the page of an earlier get.
            return one, max(pages, key=lambda name: (named[name].resident, named[name].distinct)), flags[0]
    return None
