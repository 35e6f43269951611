"""What `advise` prints of a server that runs."""

from __future__ import annotations

from typing import Literal

from support.json_documents.base import Document, Number, Printed
from support.json_documents.observed import ObservedEvent, ObservedNotTold


class AdvisedPool(Document):
    pool_size_bytes: int
    pool_pages: int
    """Frames of the server."""
    data_pages: Number
    """Mean pages of data in the pool; null where the server does not tell."""
    page_size_bytes: int


class AdvisedCounts(Document):
    """Of the server, over the whole seconds in which something was attached; of all seconds where nothing was."""

    seconds: float
    reads: float
    gets: float
    units: float
    unit: Literal["transaction", "statement"]
    recorded_reads: float | None
    """The reads that were recorded in the same seconds; null where they are not compared."""


class AdvisedMemory(Document):
    """What the host or the server's cgroup has left, on top of the present pool."""

    size_bytes: int
    by: Literal["host", "cgroup"]


class AdvisedSize(Document):
    pool_size_bytes: int
    reads_per_s: Number
    """Null where it cannot be said."""
    low: Number
    """The bounds are of 95 %."""
    high: Number
    read_ms_per_s: Number
    """Milliseconds of reading a second at the latency that was seen; null where the server does not tell it."""
    longest_pages: int | None
    """Of `misses`: the most pages more than the present ones of which the window tells."""
    own_error: Number
    """Of `full`: the model's error at the present size, 0.01 is 1 %."""
    turnovers: Number
    """Of `full`: how many times the recorded accesses fill such a pool."""
    late_purge_share: Number
    """Of `full`: the share of more reads that a late purge would make, up to which the upper bound goes; else null."""
    tier: Literal["misses", "full", "counted"]
    """`counted`: the server's own count tells it, of the present size, and of all where it hardly reads."""
    cannot_say: ObservedNotTold | None


class AdvisedAttachment(Document):
    tier: Literal["misses", "full"]
    seconds: float
    ended: Literal["whole", "rate", "lost", "gone", "stopped", "limit"]
    stops: int
    """How often a thread of the server was stopped."""
    events: dict[str, int]
    """By kind, as docs/page-trace.md has them."""


class AdvisedCost(Document):
    """Processors: 0.01 is a hundredth of one."""

    tier: Literal["misses", "full"]
    seconds: float
    events: int
    foretold_cores: float
    by_events_cores: float
    server_cores: Number
    """By the schedstat of the server's threads, attached against not attached; null with too few seconds."""
    low: Number
    high: Number
    ours_cores: float


class Advised(Printed):
    """`advise`."""

    status: Literal["ok", "cannot_say", "interrupted"]
    server: str
    engine: str
    version: str
    answer: str
    seconds: float
    present: AdvisedPool
    counted: AdvisedCounts
    read_us: Number
    """Latency of a read as seen; null where the server does not tell."""
    needs_restart: bool
    reads_are: Literal["asked of the system", "device reads"]
    memory_left: AdvisedMemory | None
    sizes: list[AdvisedSize]
    cannot_say: list[ObservedNotTold]
    not_looked_at: list[ObservedNotTold]
    """What else the server did could not be told, so that its rules were not applied."""
    """Why no size other than the present one is judged; empty where they are."""
    attached: list[AdvisedAttachment]
    cost: list[AdvisedCost]
    events: list[ObservedEvent]
