# ruff: noqa: E501  (a table reads best in one line per row)
"""A bare file's part of the results: metrics, formulas and checks of random reads.

The requests that the device got are compared with those that the offsets require. No other program reads a loop device
that the run creates, so the counts agree exactly or nearly. On a disk that other programs use they are not compared.

The metrics count how many reads were requested, covered, expected and done, and how much their rate scatters. Four
terms must not be confused: logical reads (requested by the driver), pages touched (covered by their ranges), pages
first touched (of these, missing in the page cache), requests (sent to the device).

Scatter is computed from neighbouring samples (von Neumann and others, Annals of Mathematical Statistics 12, 1941): half
the mean square of successive differences is the variance of a series without a trend, and a trend hardly changes it.
This matters because a cache that fills makes every later read cheaper; that drift does not mean that the device is
erratic. A step from one level of the rate to another counts only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bufferlab.engines.read_ahead_words import READ_AHEAD_WORDS
from bufferlab.results.check_parts import (
    Check,
    EngineResults,
    MeasuredRun,
    Off,
    SettingWords,
    not_applicable,
    ratio_off,
    touching,
    worst_of,
)
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


REPLAY_LIMIT = 0.005
PROCESS_LIMIT = 0.005
LITTLE_LIMIT = 0.03
#: The shortest window, in seconds, for a check of Little's law. Starting the driver's threads, and noticing their end,
#: takes some milliseconds.
LITTLE_LEAST_S = 1.0
#: The largest direct read, in bytes, that counts as one request: the device's own limit may split larger ones.
LARGEST_WHOLE_BYTES = 128 * 1024
_OTHERS = "the device is shared with other programs (device = as_is)"


def _is_ours(run: MeasuredRun) -> bool:
    return run.knob("device") in ("loop", "tmpfs_loop")


@touching("device")
def _direct_requests(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "direct_requests", "Direct reads are one device request each"

    def off(run: MeasuredRun) -> Off:
        if not run.direct:
            return Off(run, None, "no direct reads")
        if not _is_ours(run):
            return Off(run, None, _OTHERS)
        if int(run.run.workload["io_size_bytes"]) > LARGEST_WHOLE_BYTES:
            return Off(run, None, "reads this large may be split by the device")
        return ratio_off(run, run.window.change("device_reads"), run.window.change("logical_reads"))

    return worst_of(name, title, 0.0, map(off, runs))


@touching("device")
def _replayed_requests(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "replayed_requests", "Without read-ahead, requests equal a replay of the offsets over cached pages"

    def off(run: MeasuredRun) -> Off:
        if run.direct:
            return Off(run, None, "no buffered reads")
        if not _is_ours(run):
            return Off(run, None, _OTHERS)
        expected = run.window.change("requests_expected")
        if expected.value == 0:
            return Off(run, None, "everything was cached")
        return ratio_off(run, run.window.change("device_reads"), expected)

    return worst_of(name, title, REPLAY_LIMIT, map(off, runs))


@touching("reads")
def _process_bytes(runs: Sequence[MeasuredRun]) -> Check:
    name, title = "read_bytes_of_process", "Direct reads: bytes asked for equal the process's read_bytes"

    def off(run: MeasuredRun) -> Off:
        if not run.direct:
            return Off(run, None, "buffered I/O: the page cache stands between the two")
        return ratio_off(run, run.window.change("process_read_bytes"), run.window.change("logical_read_bytes"))

    return worst_of(name, title, PROCESS_LIMIT, map(off, runs))


@touching("times")
def _little(runs: Sequence[MeasuredRun]) -> Check:
    """Check Little's law, reads in flight = throughput x latency: it fails if reads are timed late, or not at all."""
    name, title = "littles_law_of_reads", "Little's law holds (reads in flight = throughput × latency)"

    def off(run: MeasuredRun) -> Off:
        # Use the seconds of the reads alone: the time between the edge samples includes the reading of the probes.
        workload, seconds = run.run.workload, run.run.measured.seconds if run.run.measured else None
        in_flight = int(workload["queue_depth"]) * int(workload["threads"])
        if not seconds or seconds < LITTLE_LEAST_S or not run.latency_n or run.latency_n < 100 * in_flight:
            return Off(run, None, "too short a window: the reads at its ends would weigh too much")
        inside = run.latency_us.get("service", 0.0) / 1e6 / seconds
        return ratio_off(run, Value(inside), Value(float(in_flight)))

    return worst_of(name, title, LITTLE_LIMIT, map(off, runs))


@touching("device", "times")
def _cache_state(runs: Sequence[MeasuredRun]) -> Check:
    """Check that a cold page cache was empty when the window began, and that it held the touched pages when the window
    ended."""
    name, title = "page_cache", "The page cache began empty (cold) and holds what was touched"
    buffered = [run for run in runs if not run.direct and run.knob("cache") == "cold"]
    if not buffered:
        return not_applicable(name, title, "no buffered reads from a cold cache")

    def off(run: MeasuredRun) -> Off:
        before, after = run.window.first_level("resident_pages"), run.window.level("resident_pages")
        touched = run.window.change("pages_first_touched")
        if before.value is None or after.value is None or touched.value is None:
            return Off(run, None, before.reason or after.reason or touched.reason)
        if before.value > 0:
            return Off(run, 1.0, "of the pages were there before")
        # The cache may hold more pages than were touched, because of read-ahead, or fewer, if some were evicted
        # meanwhile.
        lost = max(0.0, touched.value - after.value)
        return Off(run, lost / touched.value if touched.value else 0.0, "of the pages touched were evicted")

    return worst_of(name, title, REPLAY_LIMIT, map(off, buffered))


CHECKS = (_direct_requests, _replayed_requests, _process_bytes, _little, _cache_state)


#: The settings, with their words, in the order in which a point's name lists them.
_SETTING_WORDS = {
    "device": SettingWords(
        "the device",
        "Device",
        values={"as_is": "the file as it is", "loop": "loop device", "tmpfs_loop": "loop device over memory"},
    ),
    "io_mode": SettingWords(
        "the I/O mode", "I/O mode", values={"direct": "direct", "buffered": "buffered", "mmap": "mapped"}
    ),
    "io_size": SettingWords("the size of a read", "Size of a read", "reads of"),
    "alignment": SettingWords(
        "the alignment",
        "Alignment of offsets",
        values={"io_size": "aligned", "512": "512 B aligned", "4096": "4 KiB aligned"},
    ),
    "read_ahead": READ_AHEAD_WORDS,
}

_OVER_TIME = {
    "iops": "Reads per second",
    "device_requests_per_s": "Device requests per second",
}

RESULTS = EngineResults(
    raw=Reads.rows,
    derived=FileRates.rows,
    courses=frozenset({Reads.logical_reads.name, Device.device_reads.name}),
    checks=CHECKS,
    knob_words=_SETTING_WORDS,
    over_time=_OVER_TIME,
    version_of="Linux",
    # A read-only file has no checkpoints, whose effect a long window would average out.
    needs_long_windows=False,
)
