"""Fakes for tests of `advise`: a scripted recorder of page accesses, a clock that only its own `sleep` moves, and a
look at a fake server."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from bufferlab.engines.servers.look import NotTold
from bufferlab.execute.progress import Silent, SweepStatus
from bufferlab.live import advise, live_trace
from bufferlab.live.bounds import Counted, PoolFacts, SizeEstimate
from bufferlab.live.live_trace import Recorded, Tier, stop_us
from bufferlab.live.session import Session, address_of, family_of
from support.fake_mysql import FakeMysql


class Clock:
    """A clock whose seconds pass only during its own `sleep`."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.at: dict[float, Callable[[], None]] = {}
        """Calls to make once that many seconds have passed."""

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for due_s in [due_s for due_s in self.at if self.now_s - 1000.0 >= due_s]:
            self.at.pop(due_s)()


@dataclass
class FakePlan:
    tier: Tier

    @property
    def sentence(self) -> str:
        return f"{self.tier} is attached nowhere"

    @property
    def stop_us(self) -> float:
        return stop_us("mysql", self.tier)


class FakeTrace:
    """A trace with events at a fixed rate; `states` maps a second of the trace to the state from then on."""

    def __init__(
        self, tier: Tier, clock: Clock, events_per_s: float, states: dict[float, str], others: Sequence[int]
    ) -> None:
        self.tier, self.clock, self.states, self.rate, self.others = tier, clock, states, events_per_s, list(others)
        self.begun_s, self.ended_s = clock.now_s, 0.0

    @property
    def seconds(self) -> float:
        return (self.ended_s or self.clock.now_s) - self.begun_s

    def told(self) -> dict[str, Any]:
        state = next((state for since, state in self.states.items() if self.seconds >= since), "attached")
        events = int(self.rate * self.seconds)
        kinds = {"read": events // 2, "evict": events // 2}
        others = {"other_stops": 1000 * len(self.others), "other_processes": self.others}
        return {"state": state, "events": kinds, "stops": events, **others}

    def finish(self) -> dict[str, Any]:
        self.ended_s = self.ended_s or self.clock.now_s
        return self.told()


@dataclass
class FakeTracing:
    clock: Clock
    events_per_s: float = 120.0
    states: dict[float, str] = field(default_factory=dict)
    only_first: bool = False
    """Whether `states` holds only for the first trace."""
    refuses: Exception | None = None
    others: Sequence[int] = ()
    """Process numbers of other servers that run the same binary."""
    traces: list[FakeTrace] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    limits_bytes: list[int] = field(default_factory=list)

    def plan(self, pid: int, flavour: str, tier: Tier) -> Any:
        return FakePlan(tier)

    def attach(self, plan: Any, spool: Path, *, events_per_s_max: float, limit_bytes: int) -> Any:
        if self.refuses:
            raise self.refuses
        told = spool.stat()
        assert (told.st_nlink, told.st_mode & 0o077) == (0, 0)
        assert limit_bytes > 0
        self.limits.append(events_per_s_max)
        self.limits_bytes.append(limit_bytes)
        states = {} if self.only_first and self.traces else self.states
        self.traces.append(FakeTrace(plan.tier, self.clock, self.events_per_s, states, self.others))
        return self.traces[-1]

    def recorded(self, trace: Any, *, stopped: bool = False) -> Recorded:
        state: Any = trace.told()["state"]
        none = np.empty(0, np.uint32)
        ended = "stopped" if stopped else "whole" if state == "attached" else state
        return Recorded(trace.tier, {}, none, none, trace.seconds, ended)


def in_place_of_kernel(tracing: FakeTracing) -> Any:
    """Return a context manager in which `advise` records by this fake. It finds the fake's methods at each call."""
    return mock.patch.multiple(
        live_trace,
        plan=lambda *given: tracing.plan(*given),
        attach=lambda *given, **named: tracing.attach(*given, **named),
        recorded=lambda *given, **named: tracing.recorded(*given, **named),
    )


class Answer:
    """An estimator that scales the counted reads by present size / size. It keeps its arguments. Smaller sizes need the
    tier full."""

    def __init__(self) -> None:
        self.asked: list[tuple[Sequence[Recorded], PoolFacts, Counted, Sequence[int]]] = []

    def __call__(
        self,
        recorded: Sequence[Recorded],
        pool: PoolFacts,
        counted: Counted,
        sizes_bytes: Sequence[int],
        resident: Sequence[int] | None,
    ) -> tuple[SizeEstimate, ...]:
        self.asked.append((recorded, pool, counted, sizes_bytes))
        tier: Tier = "full" if any(one.tier == "full" for one in recorded) else "misses"
        present = pool.pool_pages * pool.page_size_bytes
        found = []
        for size in sizes_bytes:
            reads = counted.reads / counted.seconds * present / size
            if size < present and tier == "misses":
                found.append(SizeEstimate(size, None, None, None, tier, NotTold("only full tells it", "--tier full")))
            else:
                found.append(SizeEstimate(size, reads, 0.9 * reads, 1.1 * reads, tier, None))
        return tuple(found)


class Stop:
    """A request to stop that the test makes by setting `requested`."""

    requested = False


class Shown(Silent):
    """A display that keeps its texts and stages."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.stages: list[tuple[str, float]] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, status: SweepStatus) -> None:
        self.stages.append((status.stage, status.done))


def asked(within_s: float = 60.0, tier: Tier = "misses", max_cores: float = 0.25, **more: Any) -> advise.Asked:
    return advise.Asked(within_s, tier, more.pop("sizes", ()), max_cores, **more)


@dataclass
class Bench:
    """A fake server, clock, recorder and estimator; `advise` runs both halves of a look on them."""

    server: FakeMysql
    session: Session
    clock: Clock
    answer: Answer = field(default_factory=Answer)
    stop: Stop = field(default_factory=Stop)
    shown: Shown = field(default_factory=Shown)

    def __post_init__(self) -> None:
        self.tracing = FakeTracing(self.clock)

    def prepare(self, wanted: advise.Asked) -> advise.Ready:
        return advise.prepare(self.session, wanted, self.clock, self.clock.sleep, server_pid=lambda *_: os.getpid())

    def advise(self, wanted: advise.Asked) -> advise.Advice:
        ready = self.prepare(wanted)
        return advise.advise(ready, self.answer, self.stop, self.shown, self.clock, self.clock.sleep)


@contextmanager
def bench(server: FakeMysql | None = None) -> Any:
    """Context manager for a `Bench` on a fake server."""
    with server or FakeMysql() as made:
        family = family_of(made.url)
        clock = Clock()
        with Session(family, address_of(made.url, family), clock) as session:
            found = Bench(made, session, clock)
            with in_place_of_kernel(found.tracing):
                yield found
