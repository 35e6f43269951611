"""The words that all parts of the advice share: what was recorded, the server's own numbers, and an estimate.

Values alone: no server, no files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bufferlab.engines.live_trace import Recorded, Tier
from bufferlab.engines.servers.questions import NotTold

__all__ = ["Counted", "Estimate", "PoolFacts", "Recorded", "ToldBy"]

ToldBy = Tier | Literal["counted"]
"""The tier by which an estimate was made, or "counted": the server's own counters told it."""


@dataclass(frozen=True)
class PoolFacts:
    """The pool as the server tells it."""

    engine: str
    model: str
    """The name of the server's model."""
    settings: Mapping[str, int]
    """Settings that the model obeys, by the engine's names."""
    page_size_bytes: int
    pool_pages: int
    """The frames of the pool now."""
    data_pages: float | None = None
    """The mean number of pages of data in the pool."""
    read_us: float | None = None
    """The time that a read takes, where it is told."""
    version: str = ""
    """The server's version, as it tells it."""
    pool_bytes: int | None = None
    """The bytes that the server names as its pool's: other sizes have frames in proportion. None: by page size."""

    def frames(self, pool_size_bytes: int) -> int:
        """Return the frames of a pool of so many bytes, as this server would count them."""
        if self.pool_bytes:
            return max(1, round(pool_size_bytes * self.pool_pages / self.pool_bytes))
        return max(1, pool_size_bytes // self.page_size_bytes)


@dataclass(frozen=True)
class Counted:
    """The server's own counters over the window that was recorded."""

    seconds: float
    reads: float
    gets: float
    units: float
    """Transactions or statements."""
    unit: str


@dataclass(frozen=True)
class Estimate:
    """The reads a second of a pool of some size, or why they cannot be told.

    Three forms: a value with its bounds; no value and `high` alone, without a reason: fewer reads than that; a reason.
    Beside a reason `high` may stand too: more reads than that cannot be, because a larger pool reads no more.
    """

    pool_size_bytes: int
    reads_per_s: float | None
    low: float | None
    high: float | None
    """Bounds of 95 %."""
    tier: ToldBy
    cannot_say: NotTold | None = None
    longest_pages: int | None = None
    """Tier misses: the most frames more for which the window saw enough."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers for those who check: the error at the own point, turnovers, seconds that counted."""
