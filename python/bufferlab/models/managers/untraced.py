"""How a server writes pages in a run that was generated, not traced: what the core needs to count the writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bufferlab.models.managers.flushing import Limit
from bufferlab.results.page_traces import Replayed

CLOCK_PER_S = 400
"""Transactions of TPC-C per second of the generator's clock (engine.rs, `TRANSACTION_US`)."""


@dataclass(frozen=True)
class LogWriting:
    """Changed pages go to a log, and checkpoints write them into the database. No pool changes that."""

    checkpoint_frames: int
    """The frames of the log from which on a commit begins a checkpoint."""
    frame_bytes: int
    most_share: float
    """The largest share of a pool's frames that one transaction may change. Above it, pages are written before the
    commit, which the generator does not do."""
    why: str


@dataclass(frozen=True)
class AgeWriting:
    """Pages are written for their frames, or later: when they are old, or at a checkpoint. When depends on the device.

    So the writes are a range.
    """

    ends: tuple[Limit, Limit]
    """The limits of how long pages stay dirty, that with more writes first."""
    times: tuple[float, float]
    """At each end the factor on times of the generator's clock: at 2 the load is half as fast."""
    copies_per_page: float | None
    """Copies in the doublewrite buffer for each page written; None if the server decides."""
    log_bytes: Callable[[int, Replayed], int] | None
    """A function that returns the bytes written to the log at an end, from the number of changes and the counts there.
    None if they are not calibrated."""
    depends_on: str
    checkpoints: Callable[[int], float] | None = None
    """A function that returns the fewest checkpoints in the window, from the bytes of its log; None without
    checkpoints."""
    notes: tuple[str, ...] = ()
    """Sentences on the conditions under which the ends hold."""


def uncalibrated(what: str) -> str:
    """Return the reason why writes without a run are not predicted for a server or a workload."""
    return f"writes without a run are not calibrated for {what}: predict them from a trace"


UntracedWriting = LogWriting | AgeWriting | str
"""How a server writes, or the reason why that is unknown."""
