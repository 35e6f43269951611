"""Cuts what was recorded into slices of time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bufferlab.advise import rules
from bufferlab.advise.bounds import Floats, halves_differ
from bufferlab.advise.recorded import Recorded
from bufferlab.engines.servers.questions import NotTold
from bufferlab.traces.page_trace import number_of


@dataclass(frozen=True)
class Cut:
    """The rows of several windows, in slices of about equal length, numbered through all windows."""

    ends: tuple[NDArray[np.intp], ...]
    """By window, the row behind each of its slices."""
    seconds: Floats
    """By slice."""
    reads: Floats
    """By slice, the reads that were recorded."""

    @property
    def reads_per_s(self) -> float:
        """Return the reads a second that were recorded."""
        return float(self.reads.sum() / self.seconds.sum())


def cut(windows: Sequence[Recorded]) -> Cut:
    """Cut windows into about `rules.SLICES` slices, each of which has one at least."""
    whole_s = sum(window.seconds for window in windows)
    ends, seconds, reads = [], [], []
    for window in windows:
        count = max(1, round(rules.SLICES * window.seconds / whole_s)) if whole_s else 1
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
    """Return why no estimate can be made of windows whose halves have other reads a second; None where they agree."""
    rates = found.reads / np.maximum(found.seconds, 1e-9)
    half = len(rates) // 2
    first, second = rates[:half], rates[half:]
    if half < 2:
        return None
    low, high = sorted((float(first.mean()), float(second.mean())))
    if high > rules.MIX_RATE * low and halves_differ(first, second, 0.0):
        why = (
            f"the load changed while it was recorded: {first.mean():,.1f} and then {second.mean():,.1f} reads a second"
        )
        return NotTold(why, "record again, over a time in which the load is what it usually is")
    return None
