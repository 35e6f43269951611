"""The proof of changed and written pages: a made-up server's run agrees with its counters, and each planted fault is
reported."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres.learning import LESSON
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import LostError, ServerError
from bufferlab.engines.servers.lesson import CHECKPOINT, SCAN, WITH_DROP, Counted
from bufferlab.errors import EnvironmentLackingError, Interrupted
from bufferlab.learn import candidates, learning, recording
from bufferlab.learn.recording import Records
from bufferlab.learn.windows import Edge
from bufferlab.learn.written import Written, written
from bufferlab.results.trace_words import page_trace_words

WORDS = page_trace_words()
DTYPE = np.dtype(list(WORDS.record))
GET, EVICT, DIRTY, WRITE = (WORDS.kinds.index(kind) for kind in ("get", "evict", "dirty", "write"))
BY_CHANGE, BY_HINT = 1, 2
"""The values of `latch` of a change and of a hint."""
SESSION, CHECKPOINTER = 7, 3
RELATION = (1663, 5, 16_400, 0)


@dataclass
class Server:
    """A naive pool with dirty pages that counts its writes; the tests compare a proof with it."""

    seed: int
    pages: int = 32
    at_ns: int = 1 << 60
    pool: dict[int, bool] = field(default_factory=dict)
    """The pages in the pool, and whether each is dirty."""
    rows: list[tuple[int, ...]] = field(default_factory=list)
    edges: list[tuple[str, Edge]] = field(default_factory=list)
    changes: int = 0
    by_sessions: int = 0
    by_checkpoints: int = 0

    def __post_init__(self) -> None:
        self.chosen = random.Random(self.seed)

    def record(self, kind: int, page: int, latch: int = 0, thread: int = SESSION) -> None:
        self.at_ns += self.chosen.randint(1, 3)
        self.rows.append((self.at_ns, 0, page, thread, kind, latch, kind, 0))

    def get(self, page: int) -> None:
        self.record(GET, page)
        if page in self.pool:
            return
        if len(self.pool) == self.pages:
            victim = self.chosen.choice(list(self.pool))
            if self.pool.pop(victim):
                self.record(WRITE, victim)
                self.by_sessions += 1
            self.record(EVICT, victim)
        self.pool[page] = False

    def change(self, page: int, latch: int) -> None:
        self.get(page)
        self.record(DIRTY, page, latch)
        self.pool[page] = True
        self.changes += latch == BY_CHANGE

    def work(self, accesses: int = 900) -> None:
        for _ in range(accesses):
            page = self.chosen.randint(0, 3 * self.pages)
            if self.chosen.random() < 0.3:
                self.change(page, self.chosen.choice([BY_CHANGE, BY_HINT]))
                self.change(page, self.chosen.choice([BY_CHANGE, BY_HINT]))
            else:
                self.get(page)

    def checkpoint(self) -> None:
        for page in [page for page, is_dirty in self.pool.items() if is_dirty]:
            self.record(WRITE, page, thread=CHECKPOINTER)
            self.pool[page] = False
            self.by_checkpoints += 1

    def edge(self, name: str, counts_sessions: bool) -> None:
        self.change(0, BY_HINT)
        self.at_ns += 5
        write = self.by_checkpoints + (self.by_sessions if counts_sessions else 0)
        self.edges.append((name, Edge(self.at_ns, self.at_ns, Counted(0, 0, None, None, write, self.changes))))
        self.at_ns += 5

    def worked(self, counts_sessions: bool = True, accesses: int = 900) -> Server:
        """Do the accesses of a proof's windows."""
        self.work(50)
        self.edge("start", counts_sessions)
        for name, act in (("mixed load", self.work), (SCAN, self.work), (CHECKPOINT, self.checkpoint),
                          (WITH_DROP, self.work)):  # fmt: skip
            act(*([accesses] if name != CHECKPOINT else []))
            self.edge(name, counts_sessions)
        return self

    def records(self, changed: Callable[[Any], Any] = lambda rows: rows) -> Records:
        return Records(changed(np.asarray(self.rows, DTYPE)), [RELATION])

    def proved(self, changed: Callable[[Any], Any] = lambda rows: rows, major: int = 17) -> Written:
        """Return the proof of the run, with the run's records changed by `changed`."""
        return written(self.records(changed), self.edges, LESSON, build(major))


def build(major: int = 17) -> Build:
    return Build("some", "postgres", f"{major}.1", Path("postgres"))


@pytest.fixture(scope="module")
def server() -> Server:
    return Server(1).worked()


@given(st.integers(0, 1 << 30), st.integers(20, 60), st.booleans())
@settings(max_examples=10)
def test_a_run_whose_sites_are_right_agrees_in_all_windows(seed: int, pages: int, is_new: bool) -> None:
    server = Server(seed, pages).worked(counts_sessions=is_new)
    found = server.proved(major=17 if is_new else 15)
    assert found.wrong == []
    assert (found.writes_of_unchanged, found.evictions_of_changed) == (0, 0)
    assert found.of_checkpoints_alone is not is_new
    assert found.writes == server.by_sessions + server.by_checkpoints
    assert [one.window for one in found.compared] == ["mixed load", SCAN, CHECKPOINT, WITH_DROP]
    assert all(one.recorded == one.recorded_at_most == one.counted for one in found.compared)
    of_checkpoint = found.compared[2].recorded
    total = sum(one.recorded for one in found.compared)
    assert (of_checkpoint == server.by_checkpoints > 0, total == of_checkpoint) == (True, not is_new)


def is_kind(rows: Any, kind: int, latch: int | None = None) -> Any:
    return (rows["kind"] == kind) & (True if latch is None else rows["latch"] == latch)


def without(kind: int, latch: int | None = None, step: int = 1) -> Callable[[Any], Any]:
    return lambda rows: np.delete(rows, np.flatnonzero(is_kind(rows, kind, latch))[::step])


def only_of_clean_pages(latch: int) -> Callable[[Any], Any]:
    """Leave out the changes, or the hints, of pages that are dirty already."""

    def changed(rows: Any) -> Any:
        dirty: set[int] = set()
        kept = []
        for number, row in enumerate(rows):
            kind, page = int(row["kind"]), int(row["page"])
            if kind == DIRTY:
                kept += [number] if page not in dirty or row["latch"] != latch else []
                dirty.add(page)
            else:
                kept.append(number)
                dirty -= {page} if kind in (WRITE, EVICT) else set()
        return rows[kept]

    return changed


def of_other_pages(kind: int) -> Callable[[Any], Any]:
    def changed(rows: Any) -> Any:
        rows["page"][is_kind(rows, kind)] += 1
        return rows

    return changed


def at_reads(rows: Any) -> Any:
    """Show a write at each eviction, too."""
    more = np.flatnonzero(is_kind(rows, EVICT))
    others = rows[more].copy()
    others["kind"] = WRITE
    return np.insert(rows, more, others)


UNCHANGED = "[0-9,]+ of [0-9,]+ writes are of pages that the trace has as unchanged"
UNWRITTEN = "[0-9,]+ of [0-9,]+ evictions are of changed pages without a write"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (without(DIRTY, BY_HINT), UNCHANGED),
        (without(DIRTY, BY_CHANGE), UNCHANGED),
        (without(DIRTY, BY_CHANGE), "mixed load: 0 changes of pages were recorded, and [0-9,]+ rows changed"),
        (without(WRITE), UNWRITTEN),
        (without(WRITE, step=20), UNWRITTEN),
        (without(WRITE), "checkpoint: 0 of kind write were recorded, and [0-9,]+ counted"),
        (only_of_clean_pages(BY_CHANGE), "0 changes of changed pages were recorded, which is too few to judge"),
        (only_of_clean_pages(BY_HINT), "0 hints in changed pages were recorded, which is too few to judge"),
        (of_other_pages(WRITE), UNWRITTEN),
        (of_other_pages(DIRTY), UNCHANGED),
        (at_reads, "mixed load: [0-9,]+ of kind write were recorded, and [0-9,]+ counted"),
    ],
)
def test_sites_that_are_wrong_are_refused_with_a_sentence(
    changed: Callable[[Any], Any], told: str, server: Server
) -> None:
    wrong = server.proved(changed).wrong
    assert any(re.fullmatch(told, one) for one in wrong), wrong


def test_a_load_too_small_to_judge_by_proves_nothing() -> None:
    wrong = Server(1).worked(accesses=60).proved().wrong
    assert wrong
    assert all("too few to judge" in one for one in wrong)


def test_up_to_15_lost_writes_of_sessions_show_in_evictions_alone() -> None:
    server = Server(2).worked(counts_sessions=False)
    wrong = server.proved(lambda rows: rows[~(is_kind(rows, WRITE) & (rows["thread"] == SESSION))], major=15).wrong
    assert re.fullmatch(UNWRITTEN, wrong[0])
    assert not any("counted" in one for one in wrong)


SITES = [{"at": kind, "kinds": [kind]} for kind in ("get", "dirty", "write")]
FEWER = SITES[:1]


@dataclass
class Host:
    """Records private servers in place of the core: with or without sites of writes, as each test plans."""

    with_writes: Written | Exception
    without: list[str] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    repaired: int = 0

    @contextmanager
    def server(self, settings: Mapping[str, str]) -> Iterator[None]:
        self.repaired += 1
        yield

    def inside(self, place: Any, settings: Mapping[str, Any], seed: int) -> Any:
        self.asked.append(len(settings["site"]))
        if len(settings["site"]) == len(SITES) and isinstance(self.with_writes, Exception):
            raise self.with_writes
        return None, None

    def proved(self, by: Any, *about: Any, is_empty: bool, with_writes: bool = False) -> Any:
        assert is_empty
        return SimpleNamespace(by=by, wrong=self.without, written=self.with_writes if with_writes else None)

    def tried(self, monkeypatch: pytest.MonkeyPatch, sites: list[Any] = SITES) -> tuple[Any, ...]:
        monkeypatch.setattr(recording, "inside", self.inside)
        monkeypatch.setattr(learning.proof, "proved", self.proved)
        place: Any = SimpleNamespace(lesson=LESSON, build=build(), server=self.server)
        return learning._tried(place, {"site": sites}, False, lambda text: None)


def test_sites_of_writes_that_are_proved_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(Written())
    found, proofs, why = host.tried(monkeypatch)
    assert (found["site"], len(proofs), why, host.asked) == (SITES, 1, None, [3])


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Written(wrong=["5 writes are wrong", "more"]), "5 writes are wrong"),
        (LostError("the connection is lost"), "with their sites, the private server failed: "),
        (ServerError("57P02", "a crash"), "with their sites, the private server failed: "),
        (EnvironmentLackingError("it ended; its log:\nend", "spool"), "with their sites, the private server failed: "),
    ],
)
def test_a_build_whose_writes_are_not_proved_is_proved_without_them(
    fault: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(fault)
    found, proofs, told = host.tried(monkeypatch)
    assert (found["site"], len(proofs), host.asked) == (FEWER, 1, [3, 1])
    assert str(told).startswith(why)
    assert proofs[0].written is None
    assert "\n" not in str(told)
    assert host.repaired == isinstance(fault, Exception), "a server that ended leaves data to repair"


def test_an_interrupted_learner_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    of_server = EngineFailure("engine", "the server ended while it was used")
    of_server.__cause__ = Interrupted(signal.SIGTERM)
    for error in (Interrupted(signal.SIGINT), of_server):
        host = Host(error)
        with pytest.raises(type(error)):
            host.tried(monkeypatch)
        assert host.asked == [3]


def test_a_build_without_sites_of_writes_is_proved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(Written(), without=["reads differ"])
    found, proofs, why = host.tried(monkeypatch, FEWER)
    assert (found["site"], proofs[0].wrong, why, host.asked) == (FEWER, ["reads differ"], None, [1])
    assert candidates.without_writes({"site": SITES, "fields": []}) == {"site": FEWER, "fields": []}
