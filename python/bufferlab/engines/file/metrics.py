# ruff: noqa: E501  (a table reads best in one line per row)
"""Metrics of random reads: how many were requested, covered, expected and done, and how much their rate scatters.

Four terms must not be confused: logical reads (requested by the driver), pages touched (covered by their ranges), pages
first touched (of these, missing in the page cache), requests (sent to the device).

Scatter is computed from neighbouring samples (von Neumann and others, Annals of Mathematical Statistics 12, 1941): half
the mean square of successive differences is the variance of a series without a trend, and a trend hardly changes it.
This matters because a cache that fills makes every later read cheaper; that drift does not mean that the device is
erratic. A step from one level of the rate to another counts only once.
"""

from __future__ import annotations

from itertools import pairwise

from bufferlab.results.metrics import SECONDS, Device, Metric, MetricTable, counter, derived, gauge
from bufferlab.results.quantity import Quantity, Unit
from bufferlab.results.window import Value, Window


# fmt: off
class Reads(MetricTable, probe="engine", source="the driver of random reads, from its own offsets"):
    """Counters of the driver of random reads, and how many pages of the file the page cache holds."""

    logical_reads = counter("reads", "neither", "reads that the driver asked for and got")
    logical_read_bytes = counter("bytes", "neither", "bytes of these reads")
    pages_touched = counter("pages", "neither", "4 KiB pages that the reads covered, whole or in part")
    pages_first_touched = counter("pages", "neither", "of these, pages that were not in the page cache: a replay of the offsets over a set of cached pages")
    requests_expected = counter("requests", "neither", "requests the device must get: one a direct read; without read-ahead one for each page first touched")
    resident_pages = gauge("pages", "neither", "4 KiB pages of the file in the page cache", source="mincore(2)")
# fmt: on


#: The fewest whole sample intervals in a window from which the scatter of a rate (reads or requests per second) is
#: computed.
MIN_STRETCHES = 5
#: An interval whose length differs from the median by more than this fraction is skipped: the window's edge has cut it.
_ODD_LENGTH = 0.5


def _scatter(counter: Metric, *, index: bool = False) -> Quantity:
    metric = counter.name

    def evaluate(window: Window) -> Value:
        # A window without the driver's counter belongs to another workload, for which this metric is not defined.
        if Reads.logical_reads.name not in window.end:
            return Value(None, f"{Reads.logical_reads.name} was not sampled")
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

    return Quantity(Unit.parse("1"), evaluate, f"scatter of {metric}", frozenset({Reads.logical_reads.name, metric}))


def _stretches(window: Window, metric: str) -> list[tuple[float, float]]:
    """Return for each two neighbouring samples of a window the seconds between them and the growth of counter `metric`.

    Intervals whose length differs from the median by more than the fraction _ODD_LENGTH are skipped.
    """
    points = window.counts.get(metric, ())
    found = [(b - a, of_b - of_a) for (a, of_a), (b, of_b) in pairwise(points)]
    lengths = sorted(length for length, _ in found)
    usual = lengths[len(lengths) // 2] if lengths else 0.0
    return [(length, growth) for length, growth in found if abs(length - usual) <= _ODD_LENGTH * usual and length > 0]


# fmt: off
class FileRates(MetricTable):
    """Rates and ratios of random reads, and of the device's work for them."""

    iops = derived("reads/s", "ratio", "higher", "Reads per second (IOPS)", "logical reads", Reads.logical_reads / SECONDS)
    read_mb_per_s = derived("MB/s", "ratio", "higher", "MB read per second", "logical bytes, in millions", Reads.logical_read_bytes / SECONDS)
    requests_per_read = derived("requests/read", "ratio", "lower", "Device requests per read", "read requests the device completed", Device.device_reads / Reads.logical_reads)
    requests_expected_per_read = derived("requests/read", "ratio", "neither", "Expected requests per read", "from the offsets themselves", Reads.requests_expected / Reads.logical_reads)
    requests_over_expected = derived("1", "ratio", "neither", "Requests over expected", "device requests over those expected", Device.device_reads / Reads.requests_expected)
    pages_touched_per_read = derived("pages/read", "ratio", "neither", "Pages touched per read", "covered, whole or in part", Reads.pages_touched / Reads.logical_reads)
    pages_first_touched_per_read = derived("pages/read", "ratio", "neither", "Pages missed per read", "touched and not cached", Reads.pages_first_touched / Reads.logical_reads)
    logical_bytes_per_read = derived("bytes/read", "ratio", "neither", "Bytes asked per read", "of the file", Reads.logical_read_bytes / Reads.logical_reads)
    device_bytes_per_read = derived("bytes/read", "ratio", "lower", "Device bytes per read", "read by the device", Device.device_read_bytes / Reads.logical_reads)
    read_amplification = derived("1", "ratio", "lower", "Amplification", "device bytes over bytes asked for", Device.device_read_bytes / Reads.logical_read_bytes)
    reads_cv = derived("1", "ratio", "lower", "Dispersion of reads", "coefficient of variation of reads per second between neighbouring samples", _scatter(Reads.logical_reads))
    reads_dispersion_index = derived("1", "ratio", "lower", "Dispersion index of reads", "variance over mean of the reads of a sample interval", _scatter(Reads.logical_reads, index=True))
    requests_cv = derived("1", "ratio", "lower", "Dispersion of requests", "coefficient of variation of device requests per second between neighbouring samples", _scatter(Device.device_reads))
# fmt: on
