"""Quantities of random reads that are no counter: how much the rate scatters within a window.

Scatter is taken from neighbouring samples (von Neumann and others, Annals of Mathematical Statistics 12, 1941): half
the mean square of successive differences is the variance of a series without a trend, and hardly changes with one. A
cache that fills makes every later read cheaper; that drift does not mean that the device is erratic. Steps between
levels count once each.
"""

from __future__ import annotations

from itertools import pairwise

from bufferlab.results.quantity import Quantity, Unit
from bufferlab.results.window import Value, Window

#: The counters whose course through the window is needed, not only their growth.
READS, REQUESTS = "logical_reads", "device_reads"
#: The least number of stretches that tell their scatter.
MIN_STRETCHES = 5
#: Stretches cut by an edge of the window are shorter than the rest, and so scatter more.
_ODD_LENGTH = 0.5


def _scatter(metric: str, *, index: bool) -> Quantity:
    def evaluate(window: Window) -> Value:
        # Without the driver's counter this is another workload, whose device has other values.
        if READS not in window.end:
            return Value(None, f"{READS} was not sampled")
        stretches = _stretches(window, metric)
        if len(stretches) < MIN_STRETCHES:
            return Value(None, f"fewer than {MIN_STRETCHES} whole sample intervals in the window")
        rates = [growth / length_s for length_s, growth in stretches]
        mean = sum(rates) / len(rates)
        if mean <= 0:
            return Value(None, f"{metric} did not grow in the window")
        squares = sum((b - a) ** 2 for a, b in pairwise(rates))
        variance = squares / (2 * (len(rates) - 1))
        if index:
            length_s = sum(length for length, _ in stretches) / len(stretches)
            return Value(variance * length_s / mean)
        return Value(float(variance**0.5 / mean))

    return Quantity(Unit.parse("1"), evaluate, f"scatter of {metric}", frozenset({READS, metric}))


def _stretches(window: Window, metric: str) -> list[tuple[float, float]]:
    """Return (seconds, growth) between neighbouring samples, without stretches of odd length."""
    points = window.counts.get(metric, ())
    found = [(b - a, of_b - of_a) for (a, of_a), (b, of_b) in pairwise(points)]
    lengths = sorted(length for length, _ in found)
    usual = lengths[len(lengths) // 2] if lengths else 0.0
    return [(length, growth) for length, growth in found if abs(length - usual) <= _ODD_LENGTH * usual and length > 0]


#: What the formulas in `metrics` name.
QUANTITIES = {
    "reads_cv": _scatter(READS, index=False),
    "reads_dispersion_index": _scatter(READS, index=True),
    "requests_cv": _scatter(REQUESTS, index=False),
}
