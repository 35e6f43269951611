"""The chapter on the block requests of traced runs: counts by action, offsets over time, sizes and times.

`results.block_requests` matches events by sectors to find times: from queue to completion of a request (Q2C), and from
issue to completion of the driver's request (D2C). A trace that lost events has only a row with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Cloud, Figure, HistogramPlot, Row, ScatterPlot, Section, Steps, Table
from bufferlab.results.block_requests import SECTOR_BYTES, Matched, Span, match, spans
from bufferlab.units import GIB, format_bytes

if TYPE_CHECKING:
    import polars as pl

    from bufferlab.results.store import RunRecord

_MOST_DRAWN = 3
"""The most points for which figures are drawn; the tables have all traced runs."""
_MOST_DOTS = 2000
_ACTIONS = "QXAGPMFIUDRC"
_SLICES = 12
_MOST_TASKS = 5
_WAYS = {"read": "reads", "write": "writes", "discard": "discards"}


@dataclass(frozen=True)
class _Traced:
    """A good trace of a run, with its events matched to requests."""

    name: str
    record: RunRecord
    frame: pl.DataFrame
    queued: list[Span]
    issued: list[Span]
    q2c: Matched
    d2c: Matched
    no_data: int
    """The number of events without sectors, such as flushes, which cannot be matched."""


def block_trace(analysis: Analysis) -> Section | None:
    """Return the chapter, with tables of all traced runs and figures of a few; None if no run was traced."""
    asked = [(point, record) for point in analysis.points for record in point.records if record.run.block_trace]
    if not asked:
        return None
    traced = [_read(analysis, point, record) for point, record in asked]
    good = [one for one in traced if one is not None]
    names = [f"{analysis.name_of(point)}, block {record.run.block + 1}" for point, record in asked]
    tables = [_counts(names, [record for _, record in asked], traced)]
    tables += [_times(good), _tasks(good)] if good else []
    drawn: dict[str, _Traced] = {}
    for (point, _), one in zip(asked, traced, strict=True):
        if one is not None and len(drawn) < _MOST_DRAWN:
            drawn.setdefault(analysis.name_of(point), one)
    figures = [figure for place, one in enumerate(drawn.values()) for figure in _figures(one, place)]
    intro = (
        "Every request of the measured window on the device, as the kernel saw it: queued (Q), split (X), remapped "
        "(A), given a request (G), plugged (P), merged (M, F), inserted (I), unplugged (U), issued to the driver (D), "
        "requeued (R), completed (C). Requests of other programs on the same device are among them."
    )
    return Section("block-trace", "Block requests", intro, (*tables, *figures))


def _read(analysis: Analysis, point: PointRuns, record: RunRecord) -> _Traced | None:
    frame, told = record.block_trace(), record.run.block_trace
    if frame is None or told is None:
        return None
    found = spans(frame, told.partitions, "QDRC")
    queued, issued = ([span for span in found if span.action == action] for action in "QD")
    # On stacked devices, count each request once, at the top device. D2C times come from the disks, which do the work.
    queued = [span for span in queued if span.place[0] == told.device]
    return _Traced(
        f"{analysis.name_of(point)}, block {record.run.block + 1}",
        record,
        frame,
        queued,
        issued,
        match([span for span in found if span.place[0] == told.device], "Q"),
        match(found, "D", "R"),
        int((frame["action"].is_in(["Q", "D", "C"]) & (frame["sectors"] == 0)).sum()),
    )


def _counts(names: list[str], records: list[RunRecord], traced: list[_Traced | None]) -> Table:
    rows = []
    for name, record, one in zip(names, records, traced, strict=True):
        told = record.run.block_trace
        assert told is not None, "only runs that were traced are asked"
        if one is None:
            reason = "; ".join(part for part in (told.reason, told.hint) if part)
            rows.append(Row((name, f"failed: {reason}", *([words.NOTHING] * (len(_ACTIONS) + 4))), "failed"))
            continue
        unmatched = one.q2c.unfinished + one.q2c.unopened
        requests = max(1, len(one.queued))
        seconds = (told.window_ns or 0) / 1e9
        cpu = told.reader_cpu_us
        cells = (
            *(f"{told.actions.get(action, 0):,}" for action in _ACTIONS),
            f"{unmatched:,}",
            f"{one.no_data:,}",
            f"{cpu / requests:.2f} µs, {words.share(cpu / 1e6 / seconds if seconds else None, 2)}",
            format_bytes(told.spool_bytes),
        )
        rows.append(Row((name, f"ok, {told.events:,} events", *cells)))
    heads = ("<Run", "<Trace", *_ACTIONS, "Unmatched", "Without data", "<Reader's CPU", "Pages moved")
    caption = (
        "Events of a stack's disks are among those of the stack. Unmatched: queued and not completed before the end, "
        "or completed and not seen queued. Without data: flushes. Reader's CPU: processor time of the thread that "
        "moved the trace, for each request queued, and as a share of one core over the window; what the tracepoints "
        "themselves cost is in the time of whoever made the requests."
    )
    return Table.of("block-trace-counts", "Events by action", heads, rows, caption)


def _times(good: list[_Traced]) -> Table:
    rows = []
    for one in good:
        for way, noun in _WAYS.items():
            queued = [span for span in one.queued if span.place[1] == way]
            issued = [span for span in one.issued if span.place[1] == way]
            if not queued and not issued:
                continue
            sizes = [(span.end - span.first) * SECTOR_BYTES for span in queued]
            issued_bytes = sum((span.end - span.first) * SECTOR_BYTES for span in issued)
            q2c = [one.q2c.latency_ns[span.row] for span in queued if span.row in one.q2c.latency_ns]
            d2c = [one.d2c.latency_ns[span.row] for span in issued if span.row in one.d2c.latency_ns]
            cells = (
                f"{len(queued):,}",
                f"{sum(sizes) / len(sizes) / 1024:.2f}" if sizes else words.NOTHING,
                f"{len(issued):,}",
                f"{issued_bytes / len(issued) / 1024:.2f}" if issued else words.NOTHING,
                *_quantiles(q2c),
                *_quantiles(d2c),
            )
            rows.append((one.name, noun, *cells))
    heads = (
        *("<Run", "<Way", "Queued", "KiB each", "Issued", "KiB each"),
        *("Q2C p50 (µs)", "p95", "p99", "max", "D2C p50 (µs)", "p95", "p99", "max"),
    )
    caption = (
        "Q2C: from queue to completion of the last sector, of every request that was queued. D2C: from the issue to "
        "the driver, of every request it was given; one may hold several that were merged, or a part of one that was "
        "split. Quantiles over all requests of one run: they are no estimates of another run's."
    )
    return Table.of("block-trace-times", "Sizes and times", heads, rows, caption)


def _tasks(good: list[_Traced]) -> Table:
    rows = []
    for one in good:
        queued = one.frame.filter(one.frame["action"] == "Q")
        every = queued.group_by("comm").len().sort(["len", "comm"], descending=[True, False])
        shown = list(every.head(_MOST_TASKS).iter_rows())
        left = queued.height - sum(count for _, count in shown)
        for task, count in [*shown, *([("others", left)] if left else [])]:
            rows.append((one.name, task or words.NOTHING, f"{count:,}", words.share(count / queued.height)))
    caption = (
        "By the task that queued the request; the kernel's own tasks (kworker, jbd2) write what others have dirtied."
    )
    return Table.of("block-trace-tasks", "Who asked", ("<Run", "<Task", "Queued", "Share"), rows, caption, folded=True)


def _quantiles(latencies_ns: list[int]) -> Iterator[str]:
    if not latencies_ns:
        yield from [words.NOTHING] * 4
        return
    for value in np.quantile(latencies_ns, (0.5, 0.95, 0.99, 1.0)):
        yield f"{value / 1000:,.0f}" if value >= 1e5 else f"{value / 1000:,.1f}"


def _figures(one: _Traced, place: int) -> Iterator[Figure]:
    if one.queued:
        yield _offsets(one, place)
    if one.q2c.latency_ns or one.d2c.latency_ns:
        yield _histograms(one, place)


def _offsets(one: _Traced, place: int) -> Figure:
    step = max(1, -(-len(one.queued) // _MOST_DOTS))
    shown = one.queued[::step]
    clouds = tuple(
        Cloud(
            noun,
            tuple(span.t_ns / 1e9 for span in shown if span.place[1] == way),
            tuple(span.first * SECTOR_BYTES / GIB for span in shown if span.place[1] == way),
        )
        for way, noun in _WAYS.items()
        if any(span.place[1] == way for span in shown)
    )
    title = f"Where requests went: {one.name}"
    times = np.array([span.t_ns / 1e9 for span in one.queued])
    offsets = np.array([span.first * SECTOR_BYTES / GIB for span in one.queued])
    edges = np.linspace(0.0, max(float(times.max()), 1e-9), _SLICES + 1)
    rows = []
    for low, high in pairwise(edges):
        inside = offsets[(times >= low) & ((times < high) | (high == edges[-1]))]
        span = (f"{inside.min():.3f}", f"{np.median(inside):.3f}", f"{inside.max():.3f}") if len(inside) else ("–",) * 3
        rows.append((f"{low:.2f}–{high:.2f}", f"{len(inside):,}", *span))
    heads = ("<Seconds of the window", "Requests", "Lowest (GiB)", "Median (GiB)", "Highest (GiB)")
    id = f"block-trace-offsets-{place}"
    told = "Requests queued, by slices of time."
    data = Table.of(f"{id}-data", f"Data: {title}", heads, rows, told, folded=True)
    thinned = f"One request in {step:,} is drawn. " if step > 1 else ""
    return Figure(
        id,
        title,
        f"{title}. Offsets from {offsets.min():.2f} to {offsets.max():.2f} GiB over {times.max():.1f} seconds.",
        f"Offset on the device of every request queued. {thinned}Lines are sequential, clouds random.",
        ScatterPlot("Time in the window (s)", "Offset (GiB)", clouds),
        data,
    )


def _histograms(one: _Traced, place: int) -> Figure:
    sizes = [(span.end - span.first) * SECTOR_BYTES for span in one.queued]
    powers = np.arange(np.floor(np.log2(min(sizes))), np.floor(np.log2(max(sizes))) + 2) if sizes else np.arange(9, 11)
    of_sizes = _steps("queued", sizes, 2.0**powers)
    latencies = {"Q2C": list(one.q2c.latency_ns.values()), "D2C": list(one.d2c.latency_ns.values())}
    every = [max(1, value) / 1000 for values in latencies.values() for value in values]
    edges = 10 ** np.linspace(np.log10(min(every)) - 0.05, np.log10(max(every)) + 0.05, 41)
    of_times = tuple(
        _steps(name, [value / 1000 for value in values], edges) for name, values in latencies.items() if values
    )
    title = f"Sizes and times of requests: {one.name}"
    rows = [
        ("size", format_bytes(low), format_bytes(high), words.share(share, 2))
        for low, high, share in zip(of_sizes.edges, of_sizes.edges[1:], of_sizes.shares, strict=False)
    ]
    rows += [
        (steps.label, f"{low:,.1f} µs", f"{high:,.1f} µs", words.share(share, 2))
        for steps in of_times
        for low, high, share in zip(steps.edges, steps.edges[1:], steps.shares, strict=False)
        if share
    ]
    id = f"block-trace-histograms-{place}"
    heads = ("<What", "<From", "<To", "Share")
    data = Table.of(f"{id}-data", f"Data: {title}", heads, rows, "Shares of requests.", folded=True)
    usual = max(zip(of_sizes.shares, of_sizes.edges, strict=False))
    alt = f"{title}. Most common size: from {format_bytes(usual[1])}, {words.share(usual[0])} of the requests."
    caption = (
        "Left: sizes of requests as queued, by powers of two. Right: Q2C from queue, D2C from issue to completion."
    )
    plot = HistogramPlot(("Size", "Time (µs)"), ((of_sizes,), of_times), (True, False), "Requests (%)")
    return Figure(id, title, alt, caption, plot, data)


def _steps(label: str, values: list[int] | list[float], edges: np.ndarray[Any, Any]) -> Steps:
    counts, _ = np.histogram(values, edges)
    total = max(1, len(values))
    return Steps(label, tuple(float(edge) for edge in edges), tuple(float(count) / total for count in counts))
