"""The fake engine's arithmetic: its counters, second by virtual second.

Misses per get grow with the square of the share of the database that is not in the pool. A seed adds a little noise,
which all points of a block share, as in real runs. In an open loop the engine serves a thousand transactions a second.
It drops arrivals beyond that rate; the other arrivals wait as in a queue with random arrivals.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bufferlab.results import metrics
from support.engines.fake.workloads import Work, drawn_by, work_of

_TRANSACTIONS_PER_SECOND = 1000
_SERVICE_US = 1000.0
ENOUGH = 120_000
"""A warm-up with a smaller cap than this reaches the cap in a `capped` run."""
_NO_PROBE = "the fake engine has no such probe"


@dataclass(frozen=True)
class Window:
    """A measured stretch of the run: the main window, or a phase after it."""

    name: str
    work: Work
    prefix: str
    """Prefix of the window's transaction types: "" in the main window, "<phase>." in a phase."""
    transactions: int
    max_seconds: float
    rate_per_s: float | None
    random_arrivals: bool = False

    def subject(self, name: str) -> str:
        """Return a type's name as the samples write it."""
        return self.prefix + name

    @property
    def per_second(self) -> int:
        """Return the arrivals per second; in a closed loop the transactions per second that the engine serves."""
        return _TRANSACTIONS_PER_SECOND if self.rate_per_s is None else max(1, round(self.rate_per_s))

    @property
    def busy(self) -> float:
        """Return the share of the time in which the engine is busy."""
        return 1.0 if self.rate_per_s is None else min(1.0, self.rate_per_s / _TRANSACTIONS_PER_SECOND)

    @property
    def queue_us(self) -> float:
        """Return the mean wait, in us, in a queue with equal service times (Pollaczek and Khinchine); 0 for evenly
        spaced arrivals."""
        if self.rate_per_s is None or not self.random_arrivals:
            return 0.0
        return _SERVICE_US * self.busy / (2 * (1.001 - self.busy))


@dataclass
class Script:
    """The state of one scripted run."""

    job: Mapping[str, Any]
    page_bytes: int
    frames: int
    windows: list[Window]
    noise: random.Random
    at: int = 0
    """The number of the window that is being measured."""
    t_s: float = 0.0
    measured: int = 0
    measured_from_s: float = 0.0
    warm_seconds: float = 0.0
    warm_transactions: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    by_type: dict[str, Counter[str]] = field(default_factory=dict)
    """Metric -> subject -> count."""
    before_window: Counter[str] = field(default_factory=Counter)
    """Completed transactions, by subject, at the window's begin; the histograms hold only later ones."""
    latency: list[dict[str, Any]] = field(default_factory=list)
    parts: list[dict[str, Any]] = field(default_factory=list)
    """Name, transactions and seconds of each window that has ended."""

    @classmethod
    def of(cls, job: Mapping[str, Any], database_bytes: int) -> Script:
        """Return the script of a run job on a database of `database_bytes`."""
        knobs, load = job["knobs"], job.get("load", {"mode": "closed"})
        pool_bytes, page_bytes = knobs["pool_size"], knobs["page_size"]

        def work(workload: Mapping[str, Any]) -> Work:
            return work_of(workload, pool_bytes, page_bytes, database_bytes)

        measure = job["measure"]
        rate = load["rate_per_s"] if load["mode"] == "open" else None
        main = Window(
            "measure", work(job["workload"]), "", measure["transactions"], measure["max_seconds"], rate,
            load.get("arrivals") == "poisson",
        )  # fmt: skip
        phases = [
            Window(phase["name"], work({**phase, "name": "script"}), f"{phase['name']}.", phase["transactions"],
                   phase["max_seconds"], None)
            for phase in job.get("phases", [])
        ]  # fmt: skip
        return cls(
            job=job,
            page_bytes=page_bytes,
            frames=pool_bytes // page_bytes,
            windows=[main, *phases],
            noise=random.Random(job["workload"]["seed"]),
            counters=dict.fromkeys(_engine_counters(), 0),
        )

    @property
    def window(self) -> Window:
        """Return the window that is being measured."""
        return self.windows[self.at]

    def warm_up(self) -> None:
        """Warm up for one turnover of the pool or to the cap, always in a closed loop."""
        limit = self.job["warm_up"]["max_transactions"]
        per_transaction = self.window.work.misses_per_get * self.window.work.gets_per_transaction
        turnover = int(self.frames / per_transaction) + 1 if per_transaction else 1
        self.warm_transactions = min(limit, turnover)
        self._advance(self.warm_transactions, self.window, arriving=False)
        self.warm_seconds = self.t_s

    def begin(self, at: int) -> None:
        """Begin to measure the window with this number."""
        self.at, self.measured, self.measured_from_s = at, 0, self.t_s
        self.before_window = self._completed()

    def second(self) -> None:
        """Measure one virtual second."""
        left = self.window.transactions - self.measured
        arrived = min(left, self.window.per_second)
        self._advance(arrived, self.window, arriving=self.window.rate_per_s is not None)
        self.measured += arrived

    def done(self) -> bool:
        """Return whether the window has all its transactions, or its time is over."""
        spent_s = self.t_s - self.measured_from_s + 1e-6  # Sums of fractions of a second are not exact.
        return bool(self.measured >= self.window.transactions or spent_s >= self.window.max_seconds)

    def end(self) -> None:
        """End the window: keep its transactions, seconds and histograms."""
        completed = self._completed()
        done = {name: completed[name] - self.before_window[name] for name in self._subjects(self.window)}
        self.latency += [row for name, count in done.items() for row in self._histograms(name, count)]
        seconds = self.t_s - self.measured_from_s
        self.parts.append({"name": self.window.name, "transactions": sum(done.values()), "seconds": seconds})

    def sample(self, edge: str | None) -> dict[str, Any]:
        """Return a sample event with every raw metric: a number, or the reason why it is missing."""
        values: list[dict[str, Any]] = []
        for metric in metrics.RAW:
            values += self._values(metric)
        return {"event": "sample", "t_s": self.t_s, "phase": self.window.name, "edge": edge, "values": values}

    def silence(self, behave: str) -> Iterator[dict[str, Any]]:
        """Let twenty virtual seconds pass in which no transaction ends; yield samples without counters, or no sample.

        Only the behaviours `paused` (no samples) and `unanswered` (no counters) do so; otherwise nothing happens.
        """
        for _ in range(20) if behave in ("paused", "unanswered") else ():
            self.t_s += 1.0
            if behave == "unanswered":
                (row,) = self._values(metrics.Engine.page_gets)
                row |= {"count": None, "reason": "no answer"}
                yield {"event": "sample", "t_s": self.t_s, "phase": self.window.name, "edge": None, "values": [row]}

    def result(self, status: str) -> dict[str, Any]:
        """Return the run's result, as the core would answer."""
        knobs, workload = dict(self.job["knobs"]), self.job["workload"]
        if knobs["behave"] == "other_setting":
            knobs["page_size"] //= 2
        asked = self.job["warm_up"]["max_transactions"]
        gate = "cold" if asked == 0 else "cap" if knobs["behave"] == "capped" and asked < ENOUGH else "pool_turnover"
        main, *phases = self.parts
        return {
            "status": status,
            "actual": knobs,
            "warm_up": {
                "gate": gate,
                "seconds": self.warm_seconds,
                "transactions": self.warm_transactions,
                "reason": "scripted",
            },
            "measured": {name: main[name] for name in ("seconds", "transactions")},
            "phases": phases,
            "latency": self.latency,
            "delivered_orders": [],
            "drawn": drawn_by(workload, int(main["transactions"])),
            "engine_version": "1.0",
            "clock": {"wall_start": "2000-01-01T00:00:00Z", "monotonic_start_ns": 0},
        }

    def _histograms(self, subject: str, count: int) -> list[dict[str, Any]]:
        window = self.window
        times = {"service": _SERVICE_US}
        if window.rate_per_s is not None:
            times |= {"queue": window.queue_us, "response": window.queue_us + _SERVICE_US}
        return [
            {"transaction_type": subject, "time": time, "buckets": [[0.9 * us, 1.1 * us, count]], "max_us": 1.1 * us}
            for time, us in times.items()
        ]

    def _subjects(self, window: Window) -> list[str]:
        return [window.subject(name) for name in window.work.types]

    def _completed(self) -> Counter[str]:
        return self._of("transactions_committed") + self._of("transactions_rolled_back")

    def _of(self, metric: str) -> Counter[str]:
        return self.by_type.setdefault(metric, Counter())

    def _advance(self, arrived: int, window: Window, *, arriving: bool) -> None:
        """Let `arrived` transactions arrive; with `arriving` false (closed loop) each comes when the engine is
        ready."""
        work = window.work
        capacity = _TRANSACTIONS_PER_SECOND * arrived // window.per_second if arriving else arrived
        done = min(arrived, capacity)
        gets = int(done * work.gets_per_transaction * self.noise.uniform(0.995, 1.005))
        misses = int(gets * work.misses_per_get * self.noise.uniform(0.99, 1.01))
        writes = misses // 2
        added = {
            "page_gets": gets,
            "demand_misses": misses,
            "pages_read": misses,
            "pages_written": writes,
            "db_read_bytes": misses * self.page_bytes,
            "db_write_bytes": writes * self.page_bytes,
            "db_read_ns": misses * 100_000,
            "db_write_ns": writes * 50_000,
            "pool_fetches": gets,
            "pool_hits": gets - misses,
            "pool_evictions": max(0, misses - self.frames),
        }
        for name, more in added.items():
            self.counters[name] += more
        shares = _shared(done, work.types)
        dropped = _shared(arrived - done, work.types)
        for name, share in shares.items():
            subject = window.subject(name)
            rolled_back = share // 100 if name == work.rolls_back else 0
            self._of("transactions_committed")[subject] += share - rolled_back
            self._of("transactions_rolled_back")[subject] += rolled_back
            self._of("rows_returned")[subject] += share * work.rows_per_transaction
            if arriving:
                self._of("arrivals")[subject] += share + dropped[name]
                self._of("arrivals_dropped")[subject] += dropped[name]
                self._of("arrivals_late")[subject] += int(share * window.busy**2) if window.queue_us else 0
        self.t_s += arrived / window.per_second if arriving else arrived / _TRANSACTIONS_PER_SECOND

    def _values(self, metric: metrics.Metric) -> list[dict[str, Any]]:
        one: dict[str, Any] = {"metric": metric.name, "subject": "", "count": None, "value": None, "reason": None,
                               "probe": metric.probe}  # fmt: skip
        if metric.name in self.counters:
            return [{**one, "count": self.counters[metric.name]}]
        if metric.name == "arrival_lag_us":
            # The engine drops at once the arrivals that it cannot serve, so it is never behind its schedule.
            return [{**one, "value": 0.0}] if self.window.rate_per_s is not None else []
        if metric.probe == "workload" and metric.kind == "counter":
            counts = self._of(metric.name)
            begun = [name for window in self.windows[: self.at + 1] for name in self._subjects(window)]
            return [{**one, "count": counts[name], "subject": name} for name in begun]
        if metric.probe == "workload":
            word = metric.name.split("_")[0]
            if word == "response" and self.window.rate_per_s is None:
                return []
            us = _SERVICE_US + (self.window.queue_us if word == "response" else 0.0)
            return [{**one, "value": us, "subject": name} for name in self._subjects(self.window)]
        if metric.name in ("pool_frames", "pool_frames_used"):
            return [{**one, "value": float(self.frames)}]
        return [{**one, "reason": _NO_PROBE}]


def _shared(transactions: int, types: Mapping[str, int]) -> dict[str, int]:
    """Return the transactions divided among the types by weight; the first type gets the remainder."""
    total = sum(types.values())
    shares = {name: transactions * weight // total for name, weight in types.items()}
    shares[next(iter(types))] += transactions - sum(shares.values())
    return shares


def _engine_counters() -> list[str]:
    return [metric.name for metric in metrics.RAW if metric.probe == "engine" and metric.kind == "counter"]
