"""The types that pass between attaching, estimating and showing: what was recorded, the pool, counts, estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bufferlab.engines.servers.live_trace import Recorded, Tier
from bufferlab.engines.servers.questions import NotTold

__all__ = ["Counted", "Estimate", "PoolFacts", "Recorded", "Tier"]


@dataclass(frozen=True)
class PoolFacts:
    """The pool as the server tells it."""

    engine: str
    model: str
    """A name of models.managers.registry; "" where there is none."""
    settings: Mapping[str, Any]
    page_size_bytes: int
    pool_pages: int
    """Frames of the server now."""
    data_pages: float | None
    """Mean pages of data in the pool in the window."""
    read_us: float | None
    """Latency of a read as seen; None where it is not told."""


@dataclass(frozen=True)
class Counted:
    """Counts of the server over the attached seconds."""

    seconds: float
    reads: float
    gets: float
    units: float
    unit: str


@dataclass(frozen=True)
class Estimate:
    """What a pool of one size would read."""

    pool_size_bytes: int
    reads_per_s: float | None
    low: float | None
    high: float | None
    tier: Literal["misses", "full", "counted"]
    cannot_say: NotTold | None
