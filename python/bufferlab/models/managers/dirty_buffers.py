"""How the PostgreSQL of a traced run wrote its dirty buffers, as rules of the model (managers/postgres/writers.rs).

Sessions, the background writer and checkpoints write. The last two follow the clock, but a trace only has the traced
run's clock. A load with a smaller pool reads more and may be slower; with a larger pool it may be faster. So the writes
of such a pool are a range with two ends. One is for the traced run's speed. The other is for the speed that results if
the time for reads is proportional to their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bufferlab.knob import Native
from bufferlab.models.managers.declaration import Traced
from bufferlab.models.managers.flushing import Limit
from bufferlab.results.window import Window

_COUNTS_WRITES_ALONE = "postgres >= 16"
"""The servers whose counters of written pages do not include pages that extend a file (pg_stat_io)."""
_WAL = "postgres_wal_bytes"
_SEGMENT_BYTES = 16 << 20
"""The size of a WAL file (xlog_internal.h, DEFAULT_XLOG_SEG_SIZE)."""
_PAGE_BYTES = 8 << 10
_IMAGES, _RECORDS, _IO_WAITS = "postgres_wal_fpi", "postgres_wal_records", "postgres_activity_io"
_LEAST_STEPS = 8
"""The least number of one-second steps in a window for an estimate of the bytes of a page image in the WAL."""
_MOST_ERROR = 0.05
"""The largest relative standard error of that estimate; a worse estimate is not used."""
_WORK_SHARE = 0.1
"""A safety margin: the share of the run's time that reads may take in addition to the sampled waits.

TPC-C (PostgreSQL 17.2, 4 warehouses, pool of 30 %) had 2.5 % of the sessions waiting; from the speeds with pools of 15
and 60 % follow 2.6 %.
"""
_MOST_SPEED = 4.0
"""The largest assumed ratio of the load's speeds with two pools."""
DEFAULTS: dict[str, float] = {
    "bgwriter_delay": 0.2,
    "bgwriter_lru_maxpages": 100,
    "bgwriter_lru_multiplier": 2.0,
    "checkpoint_timeout": 300.0,
    "checkpoint_completion_target": 0.9,
    "max_wal_size": 1 << 30,
}
"""The settings that affect writes of dirty buffers -> the server's defaults (guc_tables.c), in seconds and bytes."""


@dataclass(frozen=True)
class DirtyBuffers:
    """The rules by which the traced run's server wrote dirty buffers."""

    ran: dict[str, float]
    """The settings of `DEFAULTS` -> their values in the run."""
    change_bytes: int
    image_bytes: int
    io_share: float | None
    """The share of the sessions that waited for a read or a write, as a mean over the window; None if unknown."""
    redo_bytes: int
    images: int
    """The number of full-page images that the run wrote to the WAL in its window."""
    seconds: float
    """The length of the window in seconds."""
    depends_on = "how often checkpoints come in a transaction's time, and so on the load's speed"
    copies_per_page = 0.0

    def checkpoints(self, log_bytes: int) -> float:
        """Return the number of checkpoints, not rounded, in a window that writes this many bytes of WAL."""
        return max(self.seconds / self.ran["checkpoint_timeout"], log_bytes / (self._segments * _SEGMENT_BYTES))

    @property
    def _segments(self) -> int:
        """Return the number of WAL files between two checkpoints (xlog.c, CalculateCheckpointSegments)."""
        target = self.ran["checkpoint_completion_target"]
        return max(1, int(self.ran["max_wal_size"] / _SEGMENT_BYTES / (1.0 + target)))

    def log_bytes(self, page_images: int) -> int:
        """Return the bytes of WAL in the window if it has this many full-page images."""
        return self.redo_bytes + (page_images - self.images) * self.image_bytes

    @property
    def own(self) -> Limit:
        """Return the rules for a load with the run's own speed."""
        return self.at(1.0, "the speed of the traced run")

    def other(self, reads_ratio: float) -> tuple[float, Limit]:
        """Return (speed relative to the run's, rules) for a pool that reads `reads_ratio` times as many pages as the
        run."""
        if self.io_share is None:
            speed = 0.5 if reads_ratio > 1 else 2.0
            return speed, self.at(speed, f"{'half' if speed < 1 else 'twice'} the speed of the traced run")
        share = min(1.0, self.io_share + _WORK_SHARE)
        time = min(max(1 + share * (reads_ratio - 1), 1 / _MOST_SPEED), _MOST_SPEED)
        return 1 / time, self.at(1 / time, f"{1 / time:.2g} times the speed of the traced run, by its reads")

    def under(self, settings: Mapping[str, Native]) -> DirtyBuffers:
        """Return the rules with the given values of settings in `DEFAULTS`."""
        return replace(self, ran={**self.ran, **{name: float(value) for name, value in settings.items()}})

    def at(self, speed: float, why: str) -> Limit:
        """Return the rules for a load with `speed` times the run's speed. Times are converted to the trace's clock."""

        def trace_us(name: str) -> int:
            return max(1, round(1e6 * self.ran[name] * speed))

        writes: dict[str, Any] = {
            "background_writer": {
                "bgwriter_delay_us": trace_us("bgwriter_delay"),
                "bgwriter_lru_maxpages": int(self.ran["bgwriter_lru_maxpages"]),
                "bgwriter_lru_multiplier": self.ran["bgwriter_lru_multiplier"],
            },
            "checkpoints": {
                "checkpoint_timeout_us": trace_us("checkpoint_timeout"),
                "checkpoint_completion_target": self.ran["checkpoint_completion_target"],
                # A checkpoint begins when the WAL enters a new file. The previous checkpoint began inside a file, so
                # the distance to the next one is half a file shorter on average (xlog.c, XLogCheckpointNeeded).
                "bytes_to_checkpoint": self._segments * _SEGMENT_BYTES - _SEGMENT_BYTES // 2,
                "bytes_between": self._segments * _SEGMENT_BYTES,
            },
            "log": {"change_bytes": self.change_bytes, "image_bytes": self.image_bytes},
        }
        return Limit({"writes": writes}, why)


def dirty_buffers(traced: Traced) -> DirtyBuffers | str:
    """Return how the server of a traced run wrote dirty buffers, or the reason why that is unknown."""
    changed = traced.changed_pages() if traced.changed_pages else 0
    if not changed:
        return (
            "the trace does not show which pages were changed; a build that an earlier version of bufferlab learnt must"
            " be learnt again"
        )
    if not traced.server.is_in(_COUNTS_WRITES_ALONE):
        return "version 15 counts growth among its written pages: no prediction could be compared"
    log = traced.edges.change(_WAL)
    if log.value is None:
        return f"the run did not count its log: {log.reason}"
    images = traced.edges.change(_IMAGES).value or 0.0
    most_bytes = min(_PAGE_BYTES, round(log.value / images)) if images else 0
    image_bytes = min(most_bytes, bytes_of_an_image(traced.edges) or _PAGE_BYTES)
    waits = [count for _, count in traced.edges.course.get(_IO_WAITS, ())[1:-1]]
    return DirtyBuffers(
        ran={name: traced.numbers.get(name, default) for name, default in DEFAULTS.items()},
        change_bytes=max(0, round((log.value - images * image_bytes) / changed)),
        image_bytes=image_bytes,
        io_share=sum(waits) / len(waits) / traced.connections if waits else None,
        redo_bytes=round(log.value),
        images=round(images),
        seconds=traced.edges.seconds or 0.0,
    )


def bytes_of_an_image(window: Window) -> int | None:
    """Return the mean bytes of a page image in the WAL, which lacks the page's free space (xloginsert.c,
    XLogRecordAssemble).

    Just after a checkpoint begins, the WAL has many page images, and later few. So least squares fit the WAL's bytes in
    each second: records times bytes per record, plus images times bytes per image. Return None if the bytes per image
    are too uncertain; the caller then assumes whole pages.
    """
    courses = [dict(window.counts.get(name, ())) for name in (_WAL, _RECORDS, _IMAGES)]
    times = sorted(set.intersection(*(set(course) for course in courses)))
    if len(times) <= _LEAST_STEPS:
        return None
    log, *of_what = (np.diff([course[at] for at in times]) for course in courses)
    matrix = np.column_stack(of_what)
    found, rest, rank, _ = np.linalg.lstsq(matrix, log)
    if rank < 2 or not rest.size or found[1] <= 0:
        return None
    variance = float(rest[0]) / (len(log) - 2) * np.linalg.inv(matrix.T @ matrix)[1, 1]
    return round(float(found[1])) if variance**0.5 <= _MOST_ERROR * found[1] else None
