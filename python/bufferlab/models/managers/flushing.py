"""How the InnoDB of a traced run wrote its dirty pages, and how long pages stay dirty in other pools.

The page cleaner writes the oldest dirty pages. Each second it finds the number of pages from the age of the oldest one
(buf0flu.cc, page_cleaner_flush_pages_recommendation). For the run's pool and smaller ones, the model takes this age
from the run's samples. In a larger pool more pages reach this age, so that the age rises. There the model computes the
cleaner's pages per round: the run's number, times the growth of the age to the power of 1.5 (buf0flu.cc,
af_get_pct_for_lsn). How much redo is written between two rounds of the cleaner depends on the load's speed, so the
model assumes a slower and a faster load.

All these ages change in proportion to the redo log's capacity, because the server compares each age with that capacity
(log0log.cc, log_calc_max_ages; buf0flu.cc, af_get_pct_for_lsn).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bufferlab.knob import Native
from bufferlab.models.limits import FEW_READS
from bufferlab.models.managers.declaration import Traced
from bufferlab.units import format_percent

_REDO_CAPACITY = "redo_log_capacity"
"""The setting for the total bytes of all redo log files."""
_DOUBLEWRITE = "doublewrite"
ONLY_WRITES = (_REDO_CAPACITY, _DOUBLEWRITE)
"""The settings that change pages and bytes written, but no reads."""
EXCLUSIVE = frozenset((2, 4))
"""Latches under which a thread changes a page (sync0types.h, RW_X_LATCH and RW_SX_LATCH)."""
_AGE, _CHECKPOINT_AGE = "innodb_oldest_change_age_bytes", "innodb_lsn_age_bytes"
_LSN, _REDO_WRITTEN = "innodb_metric_log_lsn_current", "innodb_os_log_written"
_COPIES = "innodb_dblwr_pages_written"
_SYNC, _ASYNC = "innodb_metric_log_max_modified_age_sync", "innodb_metric_log_max_modified_age_async"
_MOST_UNKNOWN = 0.05
"""The latch of at most this share of gets may be unknown; else writes are not predicted.

MariaDB 10.11.19 had 3 % under TPC-C, and 11 % in traces without the latches of buf_page_optimistic_get; there the model
wrote 81 % too few pages.
"""
_ROUND_S = 1.0
"""The time between two rounds of the page cleaner.

Just before a round, the age of the oldest page includes the redo of one more round.
"""
_CHECKPOINTS_S = 7.0
"""The time between two checkpoints of servers before MySQL 8.0 (srv0srv.cc, SRV_MASTER_CHECKPOINT_INTERVAL)."""
_SPEED = 1.5
"""A margin: the factor that is assumed between the speeds of two runs that differ only in their redo logs."""
_MOST_CHANGES = (1 << 32) - 1
DIRTY_LIMIT = "max_dirty_pages_pct"
_DIRTY_LIMITS = (("mysql >= 8.0; mariadb >= 10.5", 90), ("mysql; mariadb", 75))
"""The default of innodb_max_dirty_pages_pct, by version (ha_innodb.cc)."""
_LEAST_DIRTY = "max_dirty_pages_pct_lwm"
_LEAST_DIRTY_DEFAULTS = (("mysql >= 8.0", 10), ("mysql; mariadb", 0))
"""The default of innodb_max_dirty_pages_pct_lwm, by version (ha_innodb.cc); with 0 the cleaner does not write early."""
EARLIEST_SHARE = 0.1
"""The share of the redo log below which the cleaner writes no page because of its age: the default of
innodb_adaptive_flushing_lwm (buf0flu.cc, af_get_pct_for_lsn)."""
_DIRTY = "innodb_buffer_pool_pages_dirty"
_IO_CAPACITY, _IO_CAPACITY_MAX = "io_capacity", "io_capacity_max"
OF_CLEANER = (_LEAST_DIRTY, DIRTY_LIMIT, _IO_CAPACITY, _IO_CAPACITY_MAX)
"""The settings that decide how many pages the cleaner writes because of the share of dirty pages."""
_IO_CAPACITIES = (("mysql >= 8.4", 10_000), ("mysql; mariadb", 200))
"""The default of innodb_io_capacity, by version (ha_innodb.cc)."""
_LEAST_IO_CAPACITY_MAX = 2000
"""The default of innodb_io_capacity_max is twice innodb_io_capacity, but at least this value (ha_innodb.cc)."""


@dataclass(frozen=True)
class Limit:
    """A limit on how long pages stay dirty, in the form of the model's settings."""

    settings: Mapping[str, Any]
    why: str
    age_bytes: int | None = None
    """The largest age of a dirty page in bytes of redo, as a mean over the window; None if the replay computes it."""

    def times(self, factor: float) -> Limit:
        """Return the limit with all ages multiplied by `factor`."""
        course = [(at, min(round(factor * age), _MOST_CHANGES)) for at, age in self.settings["flush_age"]]
        age_bytes = None if self.age_bytes is None else round(factor * self.age_bytes)
        return Limit({**self.settings, "flush_age": course}, f"{factor:.2g} times {self.why}", age_bytes)


@dataclass(frozen=True)
class DirtyShare:
    """The rule of a page cleaner that wrote pages because the share of dirty pages was high, not because of their
    age."""

    io_capacity: Mapping[str, float]
    """The model's settings for this rule, except the load's speed."""
    least_age: Limit
    """The age from which on the cleaner also writes pages because of their age."""

    def at(self, speed: float, settings: Mapping[str, Any], why: str) -> Limit:
        """Return the limit for a load that is `speed` times as fast as the traced run's."""
        return Limit({**settings, "io_capacity": {**self.io_capacity, "speed": speed}}, why)


@dataclass(frozen=True)
class Flushing:
    """How the traced run's server wrote dirty pages."""

    own: Limit
    """The limit in the traced run itself: the sampled age of its oldest dirty page."""
    latest: Limit | None
    """The largest age: at this age, transactions wait until pages are written. None if the run did not sample it."""
    changes_at_a_round: float
    """The mean age of the oldest dirty page when the page cleaner begins a round, in page changes instead of bytes."""
    seconds: float
    """The length of the window in seconds."""
    copies_per_page: float | None
    redo_bytes: int | None
    capacity_bytes: float | None
    """The capacity of the run's redo log; None if the run did not record it."""
    by_dirty: DirtyShare | None = None
    """The rule by the share of dirty pages, if the cleaner followed that rule; None if it followed the age of pages."""
    has_own_log: bool = True
    """Whether the redo log has the same capacity as the traced run's."""
    depends_on = "the age that dirty pages reach, and so on the device"

    def under(self, settings: Mapping[str, Native]) -> Flushing | str:
        """Return how the server would write with these settings of `ONLY_WRITES`, or the reason why that is unknown."""
        if copies := settings.get(_DOUBLEWRITE):
            with_copies = replace(self, copies_per_page=1.0 if copies == "on" else 0.0)
            return with_copies.under({name: value for name, value in settings.items() if name != _DOUBLEWRITE})
        if _REDO_CAPACITY not in settings:
            return self
        if not self.capacity_bytes:
            return "the traced run did not record the capacity of its redo log: record one anew"
        factor = float(settings[_REDO_CAPACITY]) / self.capacity_bytes
        if self.by_dirty:
            # If no page gets old enough for the cleaner's rule by age, the log's capacity has no effect.
            least_age = self.by_dirty.least_age.times(factor)
            if (self.own.age_bytes or 0) < (least_age.age_bytes or 0):
                by_dirty = replace(self.by_dirty, least_age=least_age)
                return replace(self, latest=self.latest and self.latest.times(factor), by_dirty=by_dirty)
            return "with a redo log as small as that the age of pages decides, and in the traced run their number did"
        return replace(
            self,
            own=self.own.times(factor),
            latest=self.latest and self.latest.times(factor),
            changes_at_a_round=factor * self.changes_at_a_round,
            has_own_log=False,
        )

    def of_other(self, list_writes: int, *, has_own_pool: bool) -> tuple[Limit, Limit] | None:
        """Return the two limits of a larger pool or another log: for a slower and for a faster load than the run's.

        If only the log differs, the load reads as much as in the run, so a smaller margin of speeds is assumed.

        `list_writes` is the number of pages that the model writes from the flush list at the run's own point. If this
        number is too small to derive a rate, return `own` and `latest`, or None if `latest` is unknown.
        """
        if list_writes <= FEW_READS or self.changes_at_a_round <= 0:
            return (self.own, self.latest) if self.latest else None

        def at(speed: float, why: str) -> Limit:
            pages = list_writes * _ROUND_S / self.seconds / speed
            rate = {"flush_rate": {"pages": pages, "age_changes": self.changes_at_a_round}}
            return Limit(
                {**(self.latest or self.own).settings, **rate, **({} if self.latest else {"flush_age": None})}, why
            )

        if self.by_dirty:
            settings = {**(self.latest or self.own).settings, **({} if self.latest else {"flush_age": None})}
            # For a larger pool only higher speeds are assumed: it reads less, so that its load is at least as fast. If
            # its pages get so old that their age matters too, the cleaner writes at most all that are as old as that.
            age = self.by_dirty.least_age
            return (
                self.by_dirty.at(1.0, age.settings, f"the speed of the traced run, with {age.why}"),
                self.by_dirty.at(_SPEED, settings, f"{_SPEED} times its speed"),
            )
        if has_own_pool:
            return at(1 / _SPEED, f"the speed of the traced run / {_SPEED}"), at(_SPEED, f"{_SPEED} times its speed")
        return at(0.5, "half the speed of the traced run"), at(2.0, "twice the speed of the traced run")


def flushing(traced: Traced) -> Flushing | str:
    """Return how the server of a traced run wrote dirty pages, or the reason why that is unknown."""
    changes = traced.changes(EXCLUSIVE) if traced.changes else None
    if changes is None or not changes.in_window:
        return "the trace shows no access under an exclusive latch, so that no page is known to be dirty"
    if changes.unknown_share > _MOST_UNKNOWN:
        share = format_percent(changes.unknown_share)
        return f"the trace does not show the latch of {share} of the gets, so that changes are missing"
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
    mean_bytes, limit_of_dirty = sum(inside) / len(inside), {DIRTY_LIMIT: most_dirty(traced)}
    # MariaDB from 10.5 on has only _ASYNC: above this age, its cleaner writes as fast as its settings allow.
    limit = edges.level(_SYNC).value or edges.level(_ASYNC).value
    pages, copies = edges.change("pages_written").value, edges.change(_COPIES).value
    latest = {"flush_age": [(0, _changes(limit or 0.0, per_change))], **limit_of_dirty}
    return Flushing(
        own=Limit(
            {"flush_age": steps, **limit_of_dirty}, "the age that dirty pages had in the traced run", round(mean_bytes)
        ),
        latest=Limit(latest, "the age from which on changes wait for flushing", round(limit)) if limit else None,
        changes_at_a_round=(mean_bytes + round_bytes / 2) / per_change if mean_bytes else 0.0,
        seconds=edges.seconds,
        copies_per_page=copies / pages if pages and copies is not None else None,
        redo_bytes=None if written is None else round(written),
        capacity_bytes=traced.numbers.get(_REDO_CAPACITY),
        by_dirty=_by_dirty(traced, mean_bytes, per_change),
    )


def _by_dirty(traced: Traced, mean_age_bytes: float, bytes_per_change: float) -> DirtyShare | None:
    """Return the cleaner's rule if it wrote because the share of dirty pages was high; None if it wrote because of
    age."""
    if traced.server.is_in("mariadb >= 10.5"):
        return None  # The model of this generation of InnoDB lacks this rule.
    settings = capacity_settings(traced)
    dirty, old = traced.edges.time_mean(_DIRTY).value, traced.edges.level(_ASYNC).value
    if settings is None or not dirty or not old or mean_age_bytes >= EARLIEST_SHARE * old:
        return None
    if 100 * dirty < settings["least_dirty_pct"] * traced.pool.frames:
        return None
    age = EARLIEST_SHARE * old
    steps = {"flush_age": [(0, _changes(age, bytes_per_change))], DIRTY_LIMIT: most_dirty(traced)}
    return DirtyShare(settings, Limit(steps, "no page older than a tenth of the log", round(age)))


def capacity_settings(traced: Traced) -> dict[str, float] | None:
    """Return the model's settings of a cleaner that writes because many pages are dirty, all but the load's speed.

    Return None if the server has no such limit.
    """
    least = default_of(traced, _LEAST_DIRTY, _LEAST_DIRTY_DEFAULTS)
    if not least:
        return None
    pages = default_of(traced, _IO_CAPACITY, _IO_CAPACITIES)
    most = traced.ran.get(_IO_CAPACITY_MAX, max(2 * pages, _LEAST_IO_CAPACITY_MAX))
    return {"pages": pages, "most_pages": most, "least_dirty_pct": least, "most_dirty_pct": most_dirty(traced)}


def default_of(traced: Traced, name: str, defaults: Sequence[tuple[str, int]]) -> int:
    """Return the value of a setting, or its default in the server's version."""
    return traced.ran.get(name, next(value for servers, value in defaults if traced.server.is_in(servers)))


def _changes(age_bytes: float, per_change: float) -> int:
    return min(max(round(age_bytes / per_change), 0), _MOST_CHANGES)


def _lowest_near(course: Sequence[tuple[float, int, float]]) -> list[tuple[float, int, float]]:
    """Replace each sample of the last checkpoint's age by the lowest sample of the seconds around it, and return them.

    Just after a checkpoint, the checkpoint's age equals that of the oldest dirty page; until the next one, all redo
    adds to it.
    """
    return [
        (time_s, at, min(age for other_s, _, age in course if abs(other_s - time_s) <= _CHECKPOINTS_S / 2))
        for time_s, at, _ in course
    ]


def most_dirty(traced: Traced) -> int:
    """Return the share of dirty pages, in percent of the pool, above which the server writes as fast as its settings
    allow."""
    return default_of(traced, DIRTY_LIMIT, _DIRTY_LIMITS)
