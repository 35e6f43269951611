"""Synthetic sweeps over a server's number of connections, whose throughput follows a law that the test gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from support.synthetic import Sweep, Truth
from support.synthetic_innodb import Depth, Innodb, scan_depth

COUNTS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Load(Depth):
    """A number of connections, and the transactions per second that they do."""

    connections: int = 1
    per_s: float = 500.0
    row_lock_ms: float = 0.4
    """Milliseconds of row-lock waits per transaction."""


@dataclass(frozen=True)
class Connected(Innodb):
    """MySQL 5.7 with a swept number of connections."""

    pools: bool = False
    """Whether the pool size is swept, too."""

    def swept(self, truth: Truth) -> dict[str, str]:
        assert isinstance(truth, Load)
        found = {"connections": str(truth.connections)}
        return {"pool_size": truth.pool, **found} if self.pools else found

    def settings(self, sweep: Sweep, truth: Truth) -> tuple[dict[str, str], dict[str, Any]]:
        assert isinstance(truth, Load)
        asked, actual = super().settings(sweep, truth)
        return {**asked, "connections": str(truth.connections)}, {**actual, "connections": truth.connections}

    def workload(self, truth: Truth) -> dict[str, Any]:
        assert isinstance(truth, Load)
        return {"connections": truth.connections}

    def seconds(self, sweep: Sweep, truth: Truth, factor: float) -> float:
        assert isinstance(truth, Load)
        return sweep.transactions / (truth.per_s * factor)

    def changes(self, sweep: Sweep, truth: Truth, common: Any) -> dict[str, float]:
        assert isinstance(truth, Load)
        locked = {"innodb_row_lock_time": truth.row_lock_ms * sweep.transactions}
        return {**super().changes(sweep, truth, common), **locked}


def law_per_s(count: int, one: float, contention: float, coherency: float) -> float:
    """Return the throughput by the law, in the form of its paper."""
    return one * count / (1 + contention * (count - 1) + coherency * count * (count - 1))


def connections(
    counts: Sequence[int] = COUNTS,
    *,
    one: float = 500.0,
    contention: float = 0.2,
    coherency: float = 0.005,
    client: float = 0.2,
    **changes: Any,
) -> Sweep:
    """Return a sweep of connections that follows the law; `client` is the factor on the client's ordinary processor
    time."""
    whole: dict[str, Any] = {
        "truths": tuple(
            Load.of(100, 10.0, 0.1, 0.005, connections=n, per_s=law_per_s(n, one, contention, coherency))
            for n in counts
        ),
        "kind": Connected(),
        "blocks": 3,
        "noise": 0.01,
        "throughput_noise": 0.0,
        "transactions": 2990,
        "warm_up_seconds": 2,
        "experiment": "concurrency",
        "question": "How does throughput grow with the number of connections, and where is its peak?",
        "measure": 'duration = "5s"',
        "scale": {"process_user_us": client, "process_system_us": client},
    }
    return replace(scan_depth(), **{**whole, **changes})
