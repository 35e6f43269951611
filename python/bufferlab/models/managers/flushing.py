"""How InnoDB of a traced run wrote its dirty pages: the age that they reached, and the redo that ages are counted in.

The page cleaner writes the oldest dirty pages so fast that their age stays where the speed of the device and of the
load meet (buf0flu.cc, page_cleaner_flush_pages_recommendation). The model takes this age from the run's samples. The
server's limits of the age follow from the size of the redo log (log0log.cc, log_calc_max_ages), and are sampled, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bufferlab.models.managers.declaration import Traced

EXCLUSIVE = frozenset((2, 4))
"""Latches under which a thread changes a page (sync0types.h, RW_X_LATCH and RW_SX_LATCH)."""
_AGE, _CHECKPOINT_AGE = "innodb_oldest_change_age_bytes", "innodb_lsn_age_bytes"
_LSN, _REDO_WRITTEN = "innodb_metric_log_lsn_current", "innodb_os_log_written"
_COPIES = "innodb_dblwr_pages_written"
_SYNC = "innodb_metric_log_max_modified_age_sync"
_ROUND_S = 1.0
"""Time between two rounds of the page cleaner: before a round the oldest page is older by a round's redo."""
_CHECKPOINTS_S = 7.0
"""Time between two checkpoints of servers before MySQL 8.0 (srv0srv.cc, SRV_MASTER_CHECKPOINT_INTERVAL)."""
_MOST_CHANGES = (1 << 32) - 1
_DIRTY_LIMIT = "max_dirty_pages_pct"
_DIRTY_LIMITS = (("mysql >= 8.0; mariadb >= 10.5", 90), ("mysql; mariadb", 75))
"""The default of innodb_max_dirty_pages_pct, by version (ha_innodb.cc)."""


@dataclass(frozen=True)
class Age:
    """A largest age of dirty pages: in the run's time, and in the mean over the window."""

    steps: Sequence[tuple[int, int]]
    """Changes since the trace's first access, and the age in changes from there on."""
    bytes: int
    why: str


@dataclass(frozen=True)
class Flushing:
    """How the traced run's server wrote dirty pages."""

    own: Age
    latest: Age | None
    """The age at which the server makes changes wait for flushing; None if the run did not sample it."""
    most_dirty_pct: int
    copies_per_page: float | None
    redo_bytes: int | None

    def settings(self, age: Age) -> Mapping[str, Any]:
        """Return the model's settings with an age."""
        return {"flush_age": [list(step) for step in age.steps], _DIRTY_LIMIT: self.most_dirty_pct}


def flushing(traced: Traced) -> Flushing | str:
    """Return how the server of a traced run wrote dirty pages, or the reason why the run lacks that."""
    changes = traced.changes(EXCLUSIVE) if traced.changes else None
    if changes is None or not changes.in_window:
        return "the trace shows no access under an exclusive latch, so that no page is known to be dirty"
    edges = traced.edges
    written = edges.change(_REDO_WRITTEN).value
    redo = edges.change(_LSN).value or written
    if not redo or not edges.seconds:
        return f"the run did not count its redo: {edges.change(_REDO_WRITTEN).reason or 'it is zero'}"
    per_change, round_bytes = redo / changes.in_window, _ROUND_S * redo / edges.seconds
    course = changes.course(_AGE) or _lowest_near(changes.course(_CHECKPOINT_AGE))
    if not course:
        return "the age of the oldest dirty page was not sampled"
    steps = [(at, _changes(age - round_bytes / 2, per_change)) for _, at, age in course]
    first, last = changes.window
    inside = [age for _, at, age in course if first <= at <= last] or [course[-1][2]]
    limit = edges.level(_SYNC).value
    pages, copies = edges.change("pages_written").value, edges.change(_COPIES).value
    return Flushing(
        own=Age(steps, round(sum(inside) / len(inside)), "the traced run's own age"),
        latest=Age([(0, _changes(limit, per_change))], round(limit), "the age from which on changes wait for flushing")
        if limit
        else None,
        most_dirty_pct=_most_dirty(traced),
        copies_per_page=copies / pages if pages and copies is not None else None,
        redo_bytes=None if written is None else round(written),
    )


def _changes(age_bytes: float, per_change: float) -> int:
    return min(max(round(age_bytes / per_change), 0), _MOST_CHANGES)


def _lowest_near(course: Sequence[tuple[float, int, float]]) -> list[tuple[float, int, float]]:
    """Return a course of the age of the last checkpoint, each value replaced by the lowest one near it.

    Just after a checkpoint its age is that of the oldest dirty page; until the next one it grows by all redo.
    """
    return [
        (time_s, at, min(age for other_s, _, age in course if abs(other_s - time_s) <= _CHECKPOINTS_S / 2))
        for time_s, at, _ in course
    ]


def _most_dirty(traced: Traced) -> int:
    default = next(pct for servers, pct in _DIRTY_LIMITS if traced.server.is_in(servers))
    return traced.ran.get(_DIRTY_LIMIT, default)
