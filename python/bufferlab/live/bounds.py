"""Types that all parts of the advice share, and the computation of 95 % bounds from time slices.

Bounds come from resampling slices (block bootstrap), with the error of the method added. Slices keep dependent events
together: Künsch, "The jackknife and the bootstrap for general stationary observations", Annals of Statistics 17(3),
1989. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, sqrt
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.servers.look import NotTold
from bufferlab.live import constants
from bufferlab.live.live_trace import Recorded, Tier
from bufferlab.stats.estimate import quantile_of_t
from bufferlab.traces.page_trace import number_of

ToldBy = Tier | Literal["counted"]
"""The tier whose records gave an estimate, or "counted" if the server's counters gave it."""


@dataclass(frozen=True)
class PoolFacts:
    """The facts about the pool that the server reports."""

    PRINTED: ClassVar = ("pool_size_bytes", "pool_pages", "data_pages", "page_size_bytes")

    engine: str
    model: str
    """The name of the model of the server's buffer manager; "" if bufferlab has none for its version."""
    settings: Mapping[str, int]
    """The settings that the model uses or checks, by the model's names."""
    page_size_bytes: int
    pool_pages: int
    """The present number of frames in the pool."""
    data_pages: float | None = None
    """The mean number of data pages in the pool over the window; None if the server does not report it."""
    read_us: float | None = None
    """The mean time of a page read in the window, in us; None if the server does not time reads, or read nothing."""
    version: str = ""
    """The server's version, such as "8.0.41"."""
    pool_size_bytes: int | None = None
    """The pool's bytes as the server reports them; None to compute frames from the page size."""
    by_server: Callable[[int], int] | None = None
    """A function that returns the number of frames of a pool of the given bytes, computed as the server does.

    If it is None, frames are taken as proportional to the bytes.
    """

    def frames(self, pool_size_bytes: int) -> int:
        """Return the frames of a pool of this size, in proportion to the server's present pool."""
        if self.pool_size_bytes:
            of = self.by_server or (lambda size_bytes: size_bytes)
            return max(1, round(of(pool_size_bytes) * self.pool_pages / max(1, of(self.pool_size_bytes))))
        return max(1, pool_size_bytes // self.page_size_bytes)


@dataclass(frozen=True)
class Counted:
    """The server's own counters over the recorded window."""

    seconds: float
    reads: float
    gets: float
    units: float
    """The number of transactions or statements; `unit` names which."""
    unit: Literal["transaction", "statement"]
    recorded_reads: float | None = None
    """The reads recorded in the same seconds; None if an attachment did not record the times of reads."""
    writes: float | None = None
    """The pages that the server wrote; None if it does not count them."""


@dataclass(frozen=True)
class SizeEstimate:
    """The reads per second of a pool of one size, or why they are unknown.

    There are three forms. A value comes with its bounds. `high` without a value and a reason means fewer reads than
    `high`. A reason may come with `high`: the reads cannot exceed it, because a larger pool reads no more.
    """

    pool_size_bytes: int
    reads_per_s: float | None
    low: float | None
    high: float | None
    """The upper 95 % bound of the reads per second; `low` is the lower one. None without an estimate."""
    tier: ToldBy
    cannot_say: NotTold | None = None
    longest_pages: int | None = None
    """The largest number of added frames for which the window had enough evictions; None except for the tier
    `misses`."""
    own_error: float | None = None
    """The model's relative error in reads at the present size (0.01 is 1 %); None except for the tier `full`."""
    turnovers: float | None = None
    """How many times the recorded accesses fill a pool of this size; None except for the tier `full`."""
    late_purge_share: float | None = None
    """The fraction of reads that a late purge would add; `high` includes it.

    None except for the tier `full`, and if purge cannot fall behind.
    """
    speed_share: float | None = None
    """The relative difference in reads between a slower load and one of twice the speed; `low` and `high` include it.

    It is set only for the tier `full` of InnoDB with `innodb_old_blocks_time` above 0, and if the speed matters; else
    None.
    """
    read_ms_per_s: float | None = None
    """The milliseconds of reading per second, computed with the observed mean time of a read.

    None without `reads_per_s`, or if the server does not time reads.
    """
    writes_low_per_s: float | None = None
    """The least and the most pages that a pool of this size writes a second (size_estimates.py).

    None if they are not known, or if the server does not count its writes.
    """
    writes_high_per_s: float | None = None


Floats = NDArray[np.float64]


def weights(slices: int) -> Floats:
    """Return how often each resample draws each slice: one row for each resample, from a fixed seed."""
    drawn = np.random.default_rng(constants.SEED).multinomial(slices, np.full(slices, 1 / slices), constants.RESAMPLES)
    return drawn.astype(np.float64)


def scatter(slices: int, of: Callable[[Floats], Floats]) -> float:
    """Return half the width of the 95 % bounds of a statistic, from resampled slices; `of` computes it for each row of
    weights.

    It is infinite with fewer than two slices, or if most resamples give no finite value.
    """
    if slices < 2:
        return float("inf")
    found = of(weights(slices))
    found = found[np.isfinite(found)]
    if len(found) < constants.RESAMPLES // 2:
        return float("inf")
    # The variance over resamples of n slices is too small by (n - 1) / n (Efron and Tibshirani, section 5.3).
    return quantile_of_t(0.975, slices - 1) * float(np.std(found)) * sqrt(slices / (slices - 1))


def around(value: float, scattered: float, method: float) -> tuple[float, float]:
    """Return the bounds of a value, from its scatter (half the width of an interval) and the error of the method."""
    half = hypot(scattered, method)
    return max(0.0, value - half), value + half


def halves_differ(first: Floats, second: Floats, least: float) -> bool:
    """Return whether the means of two halves differ by more than `least` and by more than MIX_SIGMA standard errors."""
    if min(len(first), len(second)) < 2:
        return False
    error = sqrt(float(np.var(first, ddof=1)) / len(first) + float(np.var(second, ddof=1)) / len(second))
    return abs(float(first.mean() - second.mean())) > max(least, constants.MIX_SIGMA * error)


@dataclass(frozen=True)
class Cut:
    """The rows of several windows, cut into slices of about equal length. Slices are numbered through all windows."""

    ends: tuple[NDArray[np.intp], ...]
    """For each window, the index of the first row after each of its slices."""
    seconds: Floats
    """The seconds of each slice."""
    reads: Floats
    """The recorded reads of each slice."""

    @property
    def reads_per_s(self) -> float:
        """Return the recorded reads a second, over all slices."""
        return float(self.reads.sum() / self.seconds.sum())


def cut(windows: Sequence[Recorded]) -> Cut:
    """Cut windows into about `constants.SLICES` slices in all, at least one for each window."""
    whole_s = sum(window.seconds for window in windows)
    ends, seconds, reads = [], [], []
    for window in windows:
        count = max(1, round(constants.SLICES * window.seconds / whole_s)) if whole_s else 1
        times_us = np.cumsum(window.columns["delta_us"], dtype=np.float64)
        last_us = max(1e6 * window.seconds, float(times_us[-1]) if len(times_us) else 0.0)
        edges_us = last_us * np.arange(1, count + 1) / count
        own = np.searchsorted(times_us, edges_us, "right")
        own[-1] = len(times_us)
        is_read = np.concatenate(([0], np.cumsum(window.columns["kind"] == number_of("read"))))
        ends.append(own)
        seconds.append(np.full(count, window.seconds / count))
        reads.append(np.diff(is_read[own], prepend=0).astype(np.float64))
    return Cut(tuple(ends), np.concatenate(seconds), np.concatenate(reads))


def changing_load(found: Cut) -> NotTold | None:
    """Return a reason if the halves of the windows differ too much in reads per second.

    Return None if they agree, or if a half has fewer than two slices.
    """
    rates = found.reads / np.maximum(found.seconds, 1e-9)
    half = len(rates) // 2
    first, second = rates[:half], rates[half:]
    if half < 2:
        return None
    low, high = sorted((float(first.mean()), float(second.mean())))
    if high > constants.MIX_RATE * low and halves_differ(first, second, 0.0):
        why = (
            f"the load changed while it was recorded: {first.mean():,.1f} and then {second.mean():,.1f} reads a "
            f"second, more than {constants.MIX_RATE:g} times apart"
        )
        hint = "record again while the load is as usual; if it comes in bursts, longer, by --within and --max-cpu"
        return NotTold(why, hint)
    return None
