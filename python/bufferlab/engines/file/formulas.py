"""Formulas of random reads: costs per read, and how much the rate scatters within a window.

Scatter is taken from neighbouring samples (von Neumann and others, Annals of Mathematical Statistics 12, 1941): half
the mean square of successive differences is the variance of a series without a trend, and hardly changes with one. A
cache that fills makes every later read cheaper; that drift does not mean that the device is erratic. Steps between
levels count once each.
"""

from __future__ import annotations

from itertools import pairwise

from bufferlab.engines.file.metrics import RAW as OWN
from bufferlab.results.derive import Basis
from bufferlab.results.metrics import RAW
from bufferlab.results.quantity import Quantity, Unit
from bufferlab.results.sampled import Sampled
from bufferlab.results.window import Value, Window

counted = Sampled(RAW.values(), OWN).counted

#: The counters whose course through the window is needed, not only their growth.
READS, REQUESTS = "logical_reads", "device_reads"
#: The least number of stretches that tell their scatter.
MIN_STRETCHES = 5
#: Stretches cut by an edge of the window are shorter than the rest, and so scatter more.
_ODD_LENGTH = 0.5


def formulas(basis: Basis) -> dict[str, Quantity]:
    """Return every derived value of random reads."""
    seconds = basis.seconds
    reads, read_bytes = counted(READS), counted("logical_read_bytes")
    requests, expected = counted(REQUESTS), counted("requests_expected")
    device_bytes = counted("device_read_bytes")
    return {
        "iops": reads / seconds,
        "read_mb_per_s": read_bytes / seconds,
        "requests_per_read": requests / reads,
        "requests_expected_per_read": expected / reads,
        "requests_over_expected": requests / expected,
        "pages_touched_per_read": counted("pages_touched") / reads,
        "pages_first_touched_per_read": counted("pages_first_touched") / reads,
        "logical_bytes_per_read": read_bytes / reads,
        "device_bytes_per_read": device_bytes / reads,
        "read_amplification": device_bytes / read_bytes,
        "reads_cv": _scatter(READS, index=False),
        "reads_dispersion_index": _scatter(READS, index=True),
        "requests_cv": _scatter(REQUESTS, index=False),
    }


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

    return Quantity(Unit.parse("1"), evaluate, f"scatter of {metric}")


def _stretches(window: Window, metric: str) -> list[tuple[float, float]]:
    """Return (seconds, growth) between neighbouring samples, without stretches of odd length."""
    points = window.counts.get(metric, ())
    found = [(b - a, of_b - of_a) for (a, of_a), (b, of_b) in pairwise(points)]
    lengths = sorted(length for length, _ in found)
    usual = lengths[len(lengths) // 2] if lengths else 0.0
    return [(length, growth) for length, growth in found if abs(length - usual) <= _ODD_LENGTH * usual and length > 0]
