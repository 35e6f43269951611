"""The proof of a build's sites: a made-up server's run agrees with its counters, and each planted fault is reported."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.engines.innodb.learning import MysqlLesson
from bufferlab.engines.postgres.learning import LESSON
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.lesson import Counted, Lesson, Page
from bufferlab.learn import candidates, proof
from bufferlab.learn.proof import Proof
from bufferlab.learn.recording import Records
from bufferlab.learn.windows import Edge, Listed
from bufferlab.results.trace_words import page_trace_words

WORDS = page_trace_words()
DTYPE = np.dtype(list(WORDS.record))
GET, READ, CREATE, EVICT = (WORDS.kinds.index(kind) for kind in ("get", "read", "create", "evict"))
GET_IF_IN_POOL, PREFETCH = (WORDS.kinds.index(kind) for kind in ("get_if_in_pool", "prefetch"))
NO_RING, PINNED_AGAIN, IN_SCAN = 5, 6, 9
"""Values of `latch`: a first pin without a ring, a further pin, and a first pin in a scan's ring."""
PIN, READS, GROWS, VICTIM = range(4)
"""The numbers of the sites."""
SITES: Sequence[dict[str, Any]] = [
    {"kinds": ["get"]}, {"kinds": ["get", "read"]}, {"kinds": ["create"]}, {"kinds": ["evict"]}, {"kinds": ["evict"]}
]  # fmt: skip
TABLE, GROWN, CATALOGUE, DROPPED = 16_400, 16_500, 1_259, 16_600
LATE = 1 << 60
"""A time on the clock of a host that has run for decades: a float cannot hold its nanoseconds."""


@dataclass
class Server:
    """A naive pool that records and counts every access; the tests compare a proof with it."""

    seed: int
    pages: int = 128
    at_ns: int = LATE
    pool: dict[Page, None] = field(default_factory=dict)
    relations: dict[tuple[int, ...], int] = field(default_factory=dict)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    existing: set[int] = field(default_factory=lambda: {TABLE, GROWN, CATALOGUE})
    edges: list[tuple[str, Edge]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=lambda: [0] * 4)
    """The counts of gets, reads, creations and evictions."""
    grown: int = 0
    lesson: ClassVar[Lesson] = LESSON

    def __post_init__(self) -> None:
        self.chosen = random.Random(self.seed)

    def record(self, kind: int, page: Page, site: int, latch: int = 0, is_counted: bool = True) -> None:
        self.numbers[(GET, READ, CREATE, EVICT).index(kind)] += is_counted
        thing = self.relations.setdefault(page[:4], len(self.relations))
        self.rows.append((self.at_ns, thing, page[4], 0, kind, latch, site, 0))

    def _make_room(self) -> None:
        if len(self.pool) >= self.pages:
            victim = self.chosen.choice(list(self.pool))
            del self.pool[victim]
            self.record(EVICT, victim, VICTIM)

    def get(self, relation: int, block: int, latch: int = NO_RING) -> None:
        self.at_ns += self.chosen.randint(1, 3)
        page = (1663, 5, relation, 0, block)
        if page in self.pool:
            self.record(GET, page, PIN, latch)
            return
        self._make_room()
        self.record(GET, page, READS, latch)
        self.record(READ, page, READS, latch)
        self.pool[page] = None

    def grow(self, relation: int) -> None:
        self.at_ns += 1
        self._make_room()
        page = (1663, 5, relation, 0, self.grown)
        self.grown += 1
        self.record(CREATE, page, GROWS, NO_RING)
        self.pool[page] = None

    def drop(self, relation: int) -> None:
        self.existing.discard(relation)
        self.pool = {page: None for page in self.pool if page[2] != relation}

    def objects(self) -> frozenset[int] | None:
        return frozenset(self.existing)

    def edge(self, name: str, with_pool: bool = False) -> None:
        self.get(CATALOGUE, 0)
        get, read, create, evict = self.numbers
        listed = None
        if with_pool:
            listed = Listed(self.at_ns + 1, self.at_ns + 2, frozenset(self.pool), self.objects())
        self.at_ns += 5
        self.edges.append((name, Edge(self.at_ns, self.at_ns, Counted(get, read, create, evict), listed)))
        self.at_ns += 5
        self.get(CATALOGUE, 1)

    def load(self, accesses: int = 2600) -> None:
        for number in range(accesses):
            if number % 15 == 0:
                self.grow(GROWN)
            elif number % 3:
                self.get(CATALOGUE, number % 7, self.chosen.choice([NO_RING, PINNED_AGAIN]))
            else:
                self.get(TABLE, self.chosen.randint(0, 999))

    def worked(self, accesses: int = 2600) -> Server:
        """Do the accesses of a proof's windows."""
        for block in range(2 * self.pages):
            self.get(CATALOGUE, block)
        self.edge("start", with_pool=True)
        self.load(accesses)
        self.edge("mixed load")
        for block in range(1000):
            self.get(TABLE, block, IN_SCAN)
        self.edge("scan")
        for _ in range(40):
            self.grow(DROPPED)
        self.drop(DROPPED)
        self.load(accesses)
        self.edge("load with DROP", with_pool=True)
        return self

    def proved(
        self,
        changed: Callable[[Any], Any] = lambda rows: rows,
        major: int = 17,
        is_empty: bool = True,
        uncounted: Sequence[int] = (),
    ) -> Proof:
        """Return the proof of the run, with the run's records changed by `changed`."""
        rows = changed(np.asarray(self.rows, DTYPE))
        build = Build("some", "postgres", f"{major}.1", Path("postgres"))
        records = Records(rows, list(self.relations), uncounted)
        return proof.proved("inside", records, self.edges, self.lesson, build, is_empty=is_empty)


@pytest.fixture(scope="module")
def server() -> Server:
    return Server(1).worked()


@given(st.integers(0, 1 << 30), st.booleans(), st.integers(100, 200))
@settings(max_examples=10)
def test_a_run_whose_sites_are_right_agrees_in_all_windows(seed: int, is_empty: bool, pages: int) -> None:
    found = Server(seed, pages).worked().proved(is_empty=is_empty)
    assert found.wrong == []
    assert (found.came_again, found.absent) == (0, 0)
    assert found.resident_pages == proof.Resident(pages, pages, pages)
    assert [(one.window, one.kind) for one in found.compared] == [
        (window, kind)
        for window in ("mixed load", "scan", "load with DROP")
        for kind in ("get", "read", "create", "evict")
    ]
    for one in found.compared:
        assert one.recorded <= one.counted <= one.recorded_at_most <= one.recorded + 8
        assert (one.counted > 100) == ((one.window, one.kind) != ("scan", "create")), one


def only(rows: Any, kind: int) -> Any:
    return np.flatnonzero(rows["kind"] == kind)


def attempts(rows: Any) -> Any:
    """Add a failed attempt before every thirtieth eviction."""
    return np.insert(rows, tried := only(rows, EVICT)[::30], rows[tried])


def of_resident_pages(rows: Any) -> Any:
    """Make every thirtieth read name a resident page: the page of the last get."""
    chosen, pins = only(rows, READ)[::30], np.flatnonzero(rows["site"] == PIN)
    last = pins[np.searchsorted(pins, chosen) - 1]
    for name in ("object", "page"):
        rows[name][chosen] = rows[name][chosen - 1] = rows[name][last]
    return rows


def of_another_register(kind: int) -> Callable[[Any], Any]:
    def changed(rows: Any) -> Any:
        chosen = only(rows, kind)
        rows["page"][chosen] = rows["object"][chosen]
        return rows

    return changed


def gets_of_another_register(rows: Any) -> Any:
    chosen = np.flatnonzero(rows["site"] == PIN)
    rows["page"][chosen] += 2
    return rows


def more_creations(rows: Any) -> Any:
    """Add a tenth of the creations again: calls of a function that grows relations, which did not grow one."""
    return np.insert(rows, more := only(rows, CREATE)[::10], rows[more])


def without_a_ring(rows: Any) -> Any:
    rows["latch"] = NO_RING
    return rows


def all_in_a_ring(rows: Any) -> Any:
    rows["latch"] = IN_SCAN
    return rows


def gets_without_a_strategy(rows: Any) -> Any:
    rows["latch"][rows["site"] == PIN] = 1
    return rows


def without(kind: int, share: int) -> Callable[[Any], Any]:
    return lambda rows: np.delete(rows, only(rows, kind)[::share])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (attempts, "mixed load: [0-9,]+ of kind evict were recorded, and [0-9,]+ counted"),
        (of_resident_pages, "[0-9,]+ of [0-9,]+ pages came that the trace has in the pool already"),
        (of_another_register(READ), "[0-9,]+ pages differ between the trace's pool and the 128 that the server lists"),
        (of_another_register(CREATE), "[0-9,]+ of [0-9,]+ pages came that the trace has in the pool already"),
        (of_another_register(EVICT), "[0-9,]+ pages differ between the trace's pool and the 128 that the server lists"),
        (gets_of_another_register, "[0-9,]+ of [0-9,]+ gets are of pages that the trace has not in the pool"),
        (more_creations, "mixed load: [0-9,]+ of kind create were recorded, and [0-9,]+ counted"),
        (without_a_ring, "scan: 0 % of the reads show the ring of a scan"),
        (all_in_a_ring, "mixed load: 0 % of the reads show that they have no ring"),
        (gets_without_a_strategy, "mixed load: [0-9.]+ % of the gets show that they have no ring"),
        (without(EVICT, 1), "0 of kind evict were recorded, which is too few to judge"),
        (without(GET, 100), "load with DROP: [0-9,]+ of kind get were recorded, and [0-9,]+ counted"),
        (without(READ, 100), "scan: [0-9,]+ of kind read were recorded, and [0-9,]+ counted"),
    ],
    ids=lambda one: getattr(one, "__name__", None) if callable(one) else "",
)
def test_sites_that_are_wrong_are_refused_with_a_sentence(
    changed: Callable[[Any], Any], told: str, server: Server
) -> None:
    wrong = server.proved(changed).wrong
    assert any(re.fullmatch(told, one) for one in wrong), wrong


def test_a_load_too_small_to_judge_by_is_refused_although_all_agrees() -> None:
    wrong = Server(1).worked(600).proved().wrong
    assert any(one.endswith("of kind get were recorded, which is too few to judge") for one in wrong), wrong
    assert all("too few to judge" in one for one in wrong), wrong


def relisted(server: Server, pages: frozenset[Page], nameless: int = 0) -> Server:
    name, edge = server.edges[-1]
    assert edge.listed
    listed = replace(edge.listed, pages=pages, nameless=nameless)
    return replace(server, edges=[*server.edges[:-1], (name, replace(edge, listed=listed))])


def test_one_page_more_or_less_in_the_servers_list_is_refused(server: Server) -> None:
    last = server.edges[-1][1].listed
    assert last
    listed = last.pages
    one = min(listed)
    for pages, number in ((listed - {one}, 127), (listed | {(1663, 5, TABLE, 2, 0)}, 129)):
        wrong = relisted(server, pages).proved().wrong
        assert wrong == [f"1 pages differ between the trace's pool and the {number} that the server lists"]


def test_a_page_that_the_question_itself_moved_is_allowed(server: Server) -> None:
    listed = server.edges[-1][1].listed
    assert listed
    page = min(page for page in listed.pages if page[2] == TABLE)
    thing = list(server.relations).index(page[:4])
    moved = np.asarray([(listed.begun_ns, thing, page[4], 0, EVICT, 0, VICTIM, 0)], DTYPE)

    def with_it(rows: Any) -> Any:
        return np.insert(rows, np.searchsorted(rows["t_ns"], np.uint64(listed.begun_ns)), moved)

    assert relisted(server, listed.pages - {page}).proved(with_it).wrong == []
    assert relisted(server, listed.pages - {page}).proved().wrong != []


class Innodb(Server):
    """A MySQL's pool: a miss is a get and then a read, and a creation is recorded before the pool is searched."""

    lesson: ClassVar[Lesson] = MysqlLesson()

    def record(self, kind: int, page: Page, site: int, latch: int = 0, is_counted: bool = True) -> None:
        if kind != PREFETCH:
            self.numbers[(GET, READ, CREATE, EVICT).index(GET if kind == GET_IF_IN_POOL else kind)] += is_counted
        self.rows.append((self.at_ns, *page, 0, kind, latch, site, 0))

    def get(self, relation: int, block: int, latch: int = 0) -> None:
        self.at_ns += self.chosen.randint(1, 3)
        page, chance = (relation, block), self.chosen.random()
        if chance < 0.02:
            self.record(GET_IF_IN_POOL, page, PIN)
            return
        if chance < 0.98:
            self.record(GET, page, PIN)
        if page not in self.pool:
            if chance >= 0.98:
                self.record(PREFETCH, page, PIN)
            self._make_room()
            self.record(READ, page, READS)
            self.pool[page] = None

    def grow(self, relation: int) -> None:
        self.at_ns += 1
        self.record(CREATE, (relation, self.grown), GROWS)
        self._make_room()
        self.pool[relation, self.grown] = None
        self.grown += 1
        # A freed page is used again; if it is in the pool, that counts as a get.
        again = self.chosen.choice(list(self.pool))
        self.record(CREATE, again, GROWS, is_counted=False)
        self.record(GET, again, PIN)

    def drop(self, relation: int) -> None:
        for page in [page for page in self.pool if page[0] == relation]:
            del self.pool[page]
            self.record(EVICT, page, VICTIM)

    def objects(self) -> None:
        return None


@pytest.fixture(scope="module")
def of_innodb() -> Server:
    return Innodb(1).worked()


@pytest.mark.parametrize("is_empty", [False, True])
def test_creations_of_pages_that_are_there_are_none_on_innodb(
    is_empty: bool, of_innodb: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = of_innodb.proved(is_empty=is_empty)
    assert found.wrong == []
    assert (found.came_again, found.absent) == (0, 0)
    assert found.resident_pages == proof.Resident(128, 128, 128)
    assert [(one.window, one.kind) for one in found.compared] == [
        (window, kind)
        for window in ("mixed load", "scan", "load with DROP")
        for kind in ("get + get_if_in_pool", "read", "create", "evict")
    ]
    for one in found.compared:
        assert one.recorded <= one.counted <= one.recorded_at_most <= one.recorded + 8
    created = sum(one.recorded for one in found.compared if one.kind == "create")
    assert len(only(np.asarray(of_innodb.rows, DTYPE), CREATE)) == 2 * created > 500
    monkeypatch.setattr(MysqlLesson, "makes_resident_pages", False)
    wrong = of_innodb.proved(is_empty=is_empty).wrong
    assert any("pages came that the trace has in the pool already" in one for one in wrong), wrong
    assert any("of kind create were recorded" in one for one in wrong), wrong


def test_the_list_may_lack_as_many_pages_as_the_server_counts_beyond_it(of_innodb: Server) -> None:
    listed = of_innodb.edges[-1][1].listed
    assert listed
    rest = frozenset(sorted(listed.pages)[3:])
    assert relisted(of_innodb, rest, 3).proved().wrong == []
    differ = "{} pages differ between the trace's pool and the {} that the server lists"
    assert relisted(of_innodb, rest, 2).proved().wrong == [differ.format(3, 125)]
    assert relisted(of_innodb, rest | {(1 << 20, 1)}, 3).proved().wrong == [differ.format(4, 126)]


def test_gets_at_a_site_that_the_server_does_not_count_are_not_compared_but_are_of_pages_that_are_there(
    of_innodb: Server,
) -> None:
    further = 77

    def more(page: int) -> Callable[[Any], Any]:
        def changed(rows: Any) -> Any:
            chosen = only(rows, GET)[::7]
            others = rows[chosen].copy()
            others["site"], others["page"] = further, others["page"] + page
            return np.insert(rows, chosen + 1, others)

        return changed

    assert any("gets are of pages" in one for one in of_innodb.proved(more(5000), uncounted=[further]).wrong)
    # A get that is recorded after the get of a miss comes before the miss's read.
    wrong = of_innodb.proved(more(0), uncounted=[further]).wrong
    assert not any("of kind get" in one for one in wrong), wrong
    assert any("of kind get + get_if_in_pool were recorded" in one for one in of_innodb.proved(more(0)).wrong)


def once_more(kind: int) -> Callable[[Any], Any]:
    """Record every thirtieth access of a kind twice."""

    def changed(rows: Any) -> Any:
        chosen = only(rows, kind)[::30]
        return np.insert(rows, chosen + 1, rows[chosen])

    return changed


def test_only_creations_may_be_of_pages_that_are_there(of_innodb: Server) -> None:
    reads = len(only(np.asarray(of_innodb.rows, DTYPE), READ)[::30])
    assert of_innodb.proved(once_more(CREATE)) == of_innodb.proved()
    found = of_innodb.proved(once_more(READ))
    # The last read may be after the last edge.
    assert found.came_again in (reads - 1, reads)
    assert any(f"{found.came_again} of " in one and "in the pool already" in one for one in found.wrong), found.wrong
    assert any("of kind read were recorded" in one for one in found.wrong), found.wrong


def of_one_page(rows: Any) -> Any:
    """Make creations name the page that was read last, which is resident."""
    chosen, reads = only(rows, CREATE), only(rows, READ)
    last = reads[np.searchsorted(reads, chosen) - 1]
    for name in ("object", "page"):
        rows[name][chosen] = rows[name][last]
    return rows


def of_another_space(kind: int) -> Callable[[Any], Any]:
    def changed(rows: Any) -> Any:
        rows["object"][only(rows, kind)] += 1
        return rows

    return changed


ABSENT = "[0-9,]+ of [0-9,]+ gets are of pages that the trace has not in the pool"
DIFFER = "[0-9,]+ pages differ between the trace's pool and the 128 that the server lists"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (of_one_page, "mixed load: [0-9,]+ of kind create were recorded, and [0-9,]+ counted"),
        (of_another_space(GET), ABSENT),
        (of_another_space(READ), DIFFER),
        (of_another_space(CREATE), DIFFER),
        (of_another_space(EVICT), DIFFER),
        (without(CREATE, 9), "mixed load: [0-9,]+ of kind create were recorded, and [0-9,]+ counted"),
        (without(GET_IF_IN_POOL, 1), "mixed load: [0-9,]+ of kind get . get_if_in_pool were recorded, .*"),
        (without(EVICT, 100), "load with DROP: [0-9,]+ of kind evict were recorded, and [0-9,]+ counted"),
        (attempts, "mixed load: [0-9,]+ of kind evict were recorded, and [0-9,]+ counted"),
    ],
    ids=["creations of what was read", "get", "read", "create", "evict", "fewer creations", "fewer gets",
         "fewer evictions", "attempts"],
)  # fmt: skip
def test_sites_of_innodb_that_are_wrong_are_refused_with_a_sentence(
    changed: Callable[[Any], Any], told: str, of_innodb: Server
) -> None:
    wrong = of_innodb.proved(changed).wrong
    assert any(re.fullmatch(told, one) for one in wrong), wrong


@given(st.data())
@settings(max_examples=20)
def test_the_loss_of_a_pages_last_move_is_noticed(data: st.DataObject) -> None:
    server = Server(data.draw(st.integers(0, 9))).worked(1300)
    last = {}
    end = server.edges[-1][1].listed
    assert end
    for number, row in enumerate(server.rows):
        if row[0] < end.begun_ns and row[4] in (READ, CREATE, EVICT):
            last[row[1], row[2]] = number
    things = list(server.relations)
    exist = sorted(number for (thing, _), number in last.items() if things[thing][2] in server.existing)
    lost = data.draw(st.sampled_from(exist))
    wrong = server.proved(lambda rows: np.delete(rows, lost)).wrong
    assert any(one.startswith("1 pages differ between") for one in wrong), wrong


def of_15(server: Server) -> Server:
    """Return the same run as a server of version 15 counts it: growth is a get and a read, and has no separate
    counter."""

    def counted(edge: Edge) -> Edge:
        get, read, create, _ = edge.counted[:4]
        assert create is not None
        return replace(edge, counted=Counted(get + create, read + create, None, None))

    return replace(server, edges=[(name, counted(edge)) for name, edge in server.edges])


def test_up_to_15_growth_is_counted_as_a_get_and_a_read(server: Server) -> None:
    found = of_15(server).proved(major=15)
    assert found.wrong == []
    kinds = ["get + create", "read + create"]
    windows = ["mixed load", "scan"]
    assert [(one.window, one.kind) for one in found.compared] == [(one, kind) for one in windows for kind in kinds]
    wrong = server.proved(major=15).wrong
    assert any("of kind get + create were recorded" in one for one in wrong), wrong
    wrong = of_15(server).proved(major=16).wrong
    assert any("of kind read were recorded" in one for one in wrong), wrong


def test_up_to_15_the_counts_of_a_dropped_table_may_be_lost_and_later_ones_not(server: Server) -> None:
    name, edge = server.edges[-1]
    get, read, create, evict = edge.counted[:4]
    lost = replace(
        server, edges=[*server.edges[:-1], (name, replace(edge, counted=Counted(get - 90, read - 90, create, evict)))]
    )
    assert of_15(lost).proved(major=15).wrong == []
    wrong = lost.proved().wrong
    assert [one.split(":")[0] for one in wrong] == ["load with DROP"] * 2, wrong


def test_the_evictions_that_are_kept_are_those_that_a_load_without_drop_passes(server: Server) -> None:
    rows = np.asarray(server.rows, DTYPE)
    end = server.edges[2][1].ended_ns
    late = np.flatnonzero((rows["kind"] == EVICT) & (rows["t_ns"] > end))[:20]
    rows["site"][late] = 4
    victims = Records(rows, list(server.relations)).victims(SITES, server.edges)
    assert victims == {VICTIM}
    rest = candidates.with_evictions({"fields": [], "site": SITES}, victims)
    assert rest == {"fields": [], "site": SITES[:4]}
    rows["site"][only(rows, EVICT)[::2]] = 4
    assert Records(rows, list(server.relations)).victims(SITES, server.edges) == {VICTIM, 4}


def test_records_are_parted_to_the_nanosecond_also_late_in_a_hosts_life() -> None:
    moments = [LATE, LATE + 1, LATE + 2, LATE + 3]
    records = Records(np.asarray([(at, 0, 0, 0, GET, 0, 0, 0) for at in moments], DTYPE), [(1, 2, 3, 0)])
    assert records.between(LATE + 1, LATE + 3)["t_ns"].tolist() == [LATE + 1, LATE + 2]
    assert len(records.between(0, LATE + 3)) == 3


def test_the_least_numbers_that_are_judged_by_are_of_kinds_that_every_build_tells() -> None:
    assert set(LESSON.least_recorded) == {kind for site in SITES for kind in site["kinds"]}
