"""How a server writes pages in a generated run, without a trace: the facts from which the core counts the writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bufferlab.models.managers.flushing import Limit
from bufferlab.results.page_traces import Replayed

CLOCK_PER_S = 400
"""The number of TPC-C transactions in one second of the generator's simulated clock (engine.rs, `TRANSACTION_US`)."""


@dataclass(frozen=True)
class LogWriting:
    """The rules of a server whose commits write changed pages to a log, and whose checkpoints copy them into the
    database. Its writes do not depend on the pool."""

    checkpoint_frames: int
    """The length of the log, in frames (pages), at which a commit begins a checkpoint."""
    frame_bytes: int
    most_share: float
    """The largest share of a pool's frames that one transaction may change.

    Above it, the server writes pages before the commit, which the generator does not simulate.
    """
    why: str


@dataclass(frozen=True)
class AgeWriting:
    """The rules of a server that writes a page to free its frame, when it is old, or at a checkpoint.

    The moment depends on the device's speed, so the predicted writes are a range with two ends.
    """

    ends: tuple[Limit, Limit]
    """The limits on how long pages stay dirty at the two ends of the range; the end with more writes comes first."""
    times: tuple[float, float]
    """For each end, the factor by which times of the generator's clock are multiplied: 2 means a load half as fast."""
    copies_per_page: float | None
    """The number of copies in the doublewrite buffer for each page written; None if unknown."""
    log_bytes: Callable[[int, Replayed], int] | None
    """A function that returns the bytes written to the log at one end of the writes' range, given the number of changes
    and the counts at that end. None if the bytes are not calibrated."""
    depends_on: str
    checkpoints: Callable[[int], float] | None = None
    """A function that returns the fewest checkpoints in the window, from the bytes of its log; None without
    checkpoints."""
    notes: tuple[str, ...] = ()
    """Sentences that state under which conditions the ends are valid."""


def uncalibrated(what: str) -> str:
    """Return the reason why writes without a run are not predicted for a server or a workload."""
    return f"writes without a run are not calibrated for {what}: predict them from a trace"


UntracedWriting = LogWriting | AgeWriting | str
"""How a server writes, or the reason why that is unknown."""
