"""The fake engine's arithmetic: what its counters show, second by virtual second.

Misses per get fall with the square of the share of the database that is not in the pool; a seed adds
a little noise, shared by all points of a block as the real runs' is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bufferlab.results import metrics

_TYPES = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}
_GETS_PER_TRANSACTION = 60
_TRANSACTIONS_PER_SECOND = 1000
_NO_PROBE = "the fake engine has no such probe"


@dataclass
class Script:
    """The state of one scripted run."""

    job: Mapping[str, Any]
    page_bytes: int
    frames: int
    misses_per_get: float
    noise: random.Random
    t_s: float = 0.0
    measured: int = 0
    measured_from_s: float = 0.0
    warm_transactions: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TYPES, 0))
    rolled_back: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TYPES, 0))
    before_window: dict[str, int] = field(default_factory=dict)
    """Transactions completed, by type, when measuring began: the histograms hold those after it."""

    @classmethod
    def of(cls, job: Mapping[str, Any], database_bytes: int) -> Script:
        """The script of a run job on a database of that size."""
        knobs = job["knobs"]
        absent = max(0.0, 1 - knobs["pool_size_bytes"] / database_bytes)
        return cls(
            job=job,
            page_bytes=knobs["page_size_bytes"],
            frames=knobs["pool_size_bytes"] // knobs["page_size_bytes"],
            misses_per_get=0.002 + 0.15 * absent**2,
            noise=random.Random(job["workload"]["seed"]),
            counters=dict.fromkeys(_engine_counters(), 0),
        )

    def warm_up(self) -> None:
        """One turnover of the pool, or the cap."""
        limit = self.job["warm_up"]["max_transactions"]
        per_transaction = self.misses_per_get * _GETS_PER_TRANSACTION
        self.warm_transactions = min(limit, int(self.frames / per_transaction) + 1)
        self._advance(self.warm_transactions)
        self.measured_from_s = self.t_s
        self.before_window = self._completed()

    def second(self) -> None:
        """One virtual second of measuring."""
        left = self.job["measure"]["transactions"] - self.measured
        done = min(left, _TRANSACTIONS_PER_SECOND)
        self._advance(done)
        self.measured += done

    def done(self) -> bool:
        """Has the window its transactions, or its time?"""
        measure = self.job["measure"]
        spent_s = self.t_s - self.measured_from_s
        return bool(self.measured >= measure["transactions"] or spent_s >= measure["max_seconds"])

    def sample(self, edge: str | None) -> dict[str, Any]:
        """A sample event with every raw metric: a number, or the reason why there is none."""
        values: list[dict[str, Any]] = []
        for metric in metrics.RAW.values():
            values += self._values(metric)
        return {"event": "sample", "t_s": self.t_s, "phase": "measure", "edge": edge, "values": values}

    def result(self, status: str) -> dict[str, Any]:
        """The result object of the run."""
        knobs = dict(self.job["knobs"])
        if knobs["behave"] == "other_setting":
            knobs["page_size_bytes"] //= 2
        capped = knobs["behave"] == "capped"
        return {
            "status": status,
            "actual": knobs,
            "warm_up": {
                "gate": "cap" if capped else "pool_turnover",
                "seconds": self.measured_from_s,
                "transactions": self.warm_transactions,
                "reason": "scripted",
            },
            "measured": {"seconds": self.t_s - self.measured_from_s, "transactions": self.measured},
            "latency": [
                {
                    "transaction_type": name,
                    "time": "service",
                    "buckets": [[900.0, 1100.0, count - self.before_window[name]]],
                    "max_us": 1000.0,
                }
                for name, count in self._completed().items()
            ],
            "delivered_orders": [],
            "engine_version": "1.0",
            "clock": {"wall_start": "2000-01-01T00:00:00Z", "monotonic_start_ns": 0},
        }

    def _completed(self) -> dict[str, int]:
        return {name: self.committed[name] + self.rolled_back[name] for name in _TYPES}

    def _advance(self, transactions: int) -> None:
        gets = int(transactions * _GETS_PER_TRANSACTION * self.noise.uniform(0.995, 1.005))
        misses = int(gets * self.misses_per_get * self.noise.uniform(0.99, 1.01))
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
        for name, cards in _TYPES.items():
            share = transactions * cards // sum(_TYPES.values())
            rolled_back = share // 100 if name == "new_order" else 0
            self.committed[name] += share - rolled_back
            self.rolled_back[name] += rolled_back
        self.t_s += transactions / _TRANSACTIONS_PER_SECOND

    def _values(self, metric: metrics.Metric) -> list[dict[str, Any]]:
        one: dict[str, Any] = {"metric": metric.name, "subject": "", "count": None, "value": None, "reason": None,
                               "probe": metric.probe}  # fmt: skip
        if metric.name in self.counters:
            return [{**one, "count": self.counters[metric.name]}]
        if metric.name == "transactions_committed":
            return [{**one, "subject": name, "count": count} for name, count in self.committed.items()]
        if metric.name == "transactions_rolled_back":
            return [{**one, "subject": name, "count": count} for name, count in self.rolled_back.items()]
        if metric.probe == "workload":
            number = {"count": 0} if metric.kind == "counter" else {"value": 1000.0}
            return [{**one, **number, "subject": name} for name in _TYPES]
        if metric.name in ("pool_frames", "pool_frames_used"):
            return [{**one, "value": float(self.frames)}]
        return [{**one, "reason": _NO_PROBE}]


def _engine_counters() -> list[str]:
    return [name for name, metric in metrics.RAW.items() if metric.probe == "engine" and metric.kind == "counter"]
