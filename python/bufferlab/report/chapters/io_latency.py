"""The chapter on hit ratio, I/O and latency: the figures that a reader of a buffer pool's report expects first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Dot, Figure, HistogramPlot, PointsPlot, Row, Section, Steps, Table
from bufferlab.chapter.point_table import claims_blocked, point_table
from bufferlab.chapter.points_figure import points_data, points_figure, reads_better_on_a_log_axis
from bufferlab.results.latency import of_window
from bufferlab.results.metrics import OF_LATENCIES

_OF_DEVICE = ("device_reads_per_s", "device_writes_per_s", "device_read_await_ms", "device_write_await_ms")
_US_PER_MS = 1000.0
#: The number of classes that a histogram has for each power of ten.
_CLASSES = 8
#: The most histograms in one picture. If there are more points, this many are drawn, evenly spread.
_MOST_HISTOGRAMS = 5


def io_latency(analysis: Analysis) -> Section | None:
    """Return the chapter on hit ratio, requests of the device and latency; None if no run ended well."""
    if not analysis.runs:
        return None
    one_group = len(analysis.groups) == 1
    figures = (
        _misses(analysis),
        _requests(analysis) if one_group else None,
        _latency(analysis) if one_group else None,
        _histogram(analysis),
        _read_time(analysis),
    )
    shown = tuple(filter(None, figures))
    return Section("io", "Hit ratio, I/O and latency", "", (*shown, _table(analysis)), open_figures=len(shown))


def _misses(analysis: Analysis) -> Figure | None:
    """Return the figure of the hit ratio, as the misses that are left: near 100 % only they can be distinguished."""
    figure = points_figure(analysis, "miss_ratio", "hit-ratio")
    return figure and replace(figure, caption=f"The miss ratio is 1 − hit ratio. {figure.caption}")


def _read_time(analysis: Analysis) -> Figure | None:
    """Return the figure of the time in reads per unit of work: the engine's if it times them, else the device's."""
    of_engine, of_device = analysis.per_work("read_ms"), analysis.per_work("device_read_ms")
    metric = of_engine if analysis.fit(of_engine) is not None else of_device
    figure = points_figure(analysis, metric, "time-in-reads")
    blocked = analysis.claim_blocked(metric)
    if figure and blocked and isinstance(figure.plot, PointsPlot):
        return replace(figure, plot=replace(figure.plot, note=f"not resolved ({blocked})"))
    return figure


def _requests(analysis: Analysis) -> Figure | None:
    """Return the figure of the device's reads and writes per second."""
    names = {"device_reads_per_s": "reads", "device_writes_per_s": "writes"}
    titles = ("iops", "Device requests per second (IOPS)")
    return _together(analysis, names, titles, "The whole disk that holds the data, other programs' requests too.")


def _latency(analysis: Analysis) -> Figure | None:
    """Return the figure of the percentiles of latency, in milliseconds."""
    names = {name: f"p{100 * share:g}" for name, share in OF_LATENCIES.items()}
    titles = ("latency-percentiles", "Latency of transactions (ms)")
    return _together(analysis, names, titles, "All transaction types together.", 1 / _US_PER_MS)


def _together(
    analysis: Analysis, names: Mapping[str, str], titles: tuple[str, str], caption: str, factor: float = 1.0
) -> Figure | None:
    """Return the figure of several metrics over the points, a line for each, named by `names`; None without values.

    `titles` has the figure's id and the title of its vertical axis; values are multiplied by `factor`.
    """
    plots = {
        name: found.plot
        for name in names
        if (found := points_figure(analysis, name, name)) and isinstance(found.plot, PointsPlot)
    }
    if not plots:
        return None
    id, label = titles
    series = tuple(
        replace(plot.series[0], label=names[name], dots=tuple(_scaled(dot, factor) for dot in plot.series[0].dots))
        for name, plot in plots.items()
    )
    values = [value for one in series for dot in one.dots for value in (dot.mean, *dot.runs)]
    is_log, blocked = reads_better_on_a_log_axis(values), analysis.claim_blocked(next(iter(plots)))
    note = f"not resolved ({blocked})" if blocked else ""
    plot = replace(next(iter(plots.values())), series=series, y_label=label, y_is_log=is_log, note=note)
    title = f"{label} over {(analysis.axis or 'the points').replace('_', ' ')}"
    ends = (f"{one.label} {words.number(one.dots[0].mean)} to {words.number(one.dots[-1].mean)}" for one in series)
    caption += " Open marks: the runs. Filled: mean over runs with its 95 % interval."
    caption += " Intervals that leave the picture are longer than it." if plot.cuts_intervals else ""
    caption += " Differences are not resolved: no step is claimed." if blocked else ""
    return Figure(id, title, f"{title}: {'; '.join(ends)}.", caption, plot, points_data(plot, id, title))


def _scaled(dot: Dot, factor: float) -> Dot:
    low, high = (None if end is None else factor * end for end in (dot.ci_low, dot.ci_high))
    return replace(dot, runs=tuple(factor * one for one in dot.runs), mean=factor * dot.mean, ci_low=low, ci_high=high)


def _histogram(analysis: Analysis) -> Figure | None:
    """Return the histograms of the transactions' times, one for each point, from all of its runs."""
    points = [point for point in analysis.points if point.ok]
    if len(points) > _MOST_HISTOGRAMS:
        step = (len(points) - 1) / (_MOST_HISTOGRAMS - 1)
        points = [points[round(place * step)] for place in range(_MOST_HISTOGRAMS)]
    counted = {analysis.name_of(point): found for point in points if (found := _classes(point))}
    if not counted:
        return None
    low, high = min(map(min, counted.values())), max(map(max, counted.values()))
    edges = tuple(10 ** (place / _CLASSES) / _US_PER_MS for place in range(low, high + 2))
    steps = []
    for name, counts in counted.items():
        total = sum(counts.values())
        steps.append(Steps(name, edges, tuple(counts.get(place, 0) / total for place in range(low, high + 1))))
    title = "Latency of transactions, as histograms"
    rows = [
        Row((one.label, f"{start:.4g}", f"{end:.4g}", words.share(share, 2)))
        for one in steps
        for start, end, share in zip(edges, edges[1:], one.shares, strict=False)
        if share
    ]
    data = Table.of(
        "latency-histogram-data", f"Data: {title}", ("<Point", "From (ms)", "To (ms)", "Share"), rows, folded=True
    )
    alt = f"{title}: a line for each of {words.plural(len(steps), 'point')}, from {edges[0]:.3g} to {edges[-1]:.3g} ms."
    left_out = len([point for point in analysis.points if point.ok]) - len(points)
    caption = "All transaction types and runs of a point together; the horizontal axis is logarithmic."
    caption += f" {words.plural(left_out, 'more point')} not drawn." if left_out else ""
    plot = HistogramPlot(("Latency of transactions (ms)",), (tuple(steps),), (False,), "Transactions (%)")
    return Figure("latency-histogram", title, alt, caption, plot, data)


def _classes(point: PointRuns) -> dict[int, int]:
    """Return how many transactions of a point's runs fall into each class of a histogram, by the class's number.

    In an open loop times count from the intended start.
    """
    frames = [of_window(record.latency()) for record in point.records if record.ok]
    for time in ("response", "service"):
        counts: dict[int, int] = {}
        for frame in frames:
            for _, of, low, high, count in frame.iter_rows():
                if of == time and low + high > 0:
                    place = math.floor(_CLASSES * math.log10((low + high) / 2))
                    counts[place] = counts.get(place, 0) + count
        if counts:
            return counts
    return {}


def _table(analysis: Analysis) -> Table:
    """Return the table of the device's requests, the transactions' latency, and TpmC if the window allows it."""
    shown = [name for name in (*_OF_DEVICE, *OF_LATENCIES) if analysis.fit(name) is not None]
    columns: dict[str, str | Callable[[PointRuns], str]] = {
        words.with_column(analysis.metric(name)): name for name in shown
    }
    caption = "The whole disk that holds the data. Times of all transaction types together."
    blocked = claims_blocked(analysis, "latency_p50_us", " of latency")
    if analysis.unit_of_work == "new_order" and analysis.fit("new_orders_per_s") is not None:
        if analysis.claim_blocked("new_orders_per_s"):
            blocked = claims_blocked(analysis, "new_orders_per_s", " of latency and writes")
            caption += " TpmC is left out, because it needs a window of 60 s: --duration 60s."
        else:
            columns["TpmC"] = lambda point: _per_minute(analysis, point)
    return point_table(analysis, "io-latency", "Device and latency", columns, caption + blocked)


def _per_minute(analysis: Analysis, point: PointRuns) -> str:
    """Return the New-Orders per minute at a point, with their interval."""
    found = analysis.mean("new_orders_per_s", point)
    if found is None:
        return words.NOTHING
    low, high = (None if end is None else 60 * end for end in (found.ci_low, found.ci_high))
    return words.interval(replace(found, value=60 * found.value, ci_low=low, ci_high=high))
