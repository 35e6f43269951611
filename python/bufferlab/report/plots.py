"""What the figures show, as data: dots with runs and intervals, traces over time. `figures` draws them."""

from __future__ import annotations

from bufferlab.report import words
from bufferlab.report.analysis import HEADLINE, Analysis, PointRuns, is_size
from bufferlab.report.model import Column, Dot, Figure, PointsPlot, Row, Series, Table, TimePlot, Trace
from bufferlab.results.store import RunRecord
from bufferlab.results.timeline import measured_instants, per_second

#: The id of the figure that answers the question.
HEADLINE_FIGURE = HEADLINE.replace("_", "-")
_TIME_METRICS = ("reads_per_s", "new_orders_per_s")
#: A logarithmic axis reads better when the largest value is this many times the smallest.
_LOG_FROM = 12.0
#: Shares near one would be a flat line.
_NOT_FROM_ZERO = frozenset({"hit_ratio"})


def points_figure(analysis: Analysis, metric: str, id: str, *, value_labels: bool = False) -> Figure | None:
    """A metric over the points: each run as a dot, each mean with its interval."""
    fit = analysis.fit(metric)
    if fit is None:
        return None
    shown = [[point for point in group.points if point.index in fit.points] for group in analysis.groups]
    sizes = [analysis.axis_bytes(point) for points in shown for point in points]
    numeric = is_size(analysis.axis or "") and all(size is not None for size in sizes) and len(set(sizes)) > 1
    series = tuple(
        Series(
            group.label,
            tuple(
                _dot(analysis, metric, point, float(analysis.axis_bytes(point) or 0) if numeric else float(place))
                for place, point in enumerate(points)
            ),
        )
        for group, points in zip(analysis.groups, shown, strict=True)
        if points
    )
    values = [value for one in series for dot in one.dots for value in dot.runs]
    y_is_log = min(values) > 0 and max(values) / min(values) >= _LOG_FROM
    plot = PointsPlot(
        x_label=_axis_label(analysis, numeric),
        y_label=_y_label(metric),
        series=series,
        x_is_log=numeric,
        y_is_log=y_is_log,
        y_from_zero=metric not in _NOT_FROM_ZERO,
        value_labels=value_labels,
    )
    title = f"{words.title_of(metric)} over {(analysis.axis or 'the points').replace('_', ' ')}"
    return Figure(id, title, _alt(plot, metric), _caption(analysis, metric, plot), plot, _points_data(plot, id, title))


def time_figure(analysis: Analysis) -> Figure | None:
    """Reads and New-Orders second by second, a column of panels per point, warm-up included."""
    columns = [point for point in analysis.points if point.ok]
    if not columns:
        return None
    traces = {record.run_id: _traces(record) for point in columns for record in point.records if record.ok}
    rows = [
        tuple(tuple(traces[run.run["run_id"]][metric] for run in point.ok) for point in columns)
        for metric in _TIME_METRICS
    ]
    labels = ("Reads per second (pages)", "New-Orders per second")
    plot = TimePlot(tuple(analysis.short_label(point) for point in columns), labels, tuple(rows))
    title = "Second by second"
    caption = "Each line is one run. The shaded part is warm-up and is not counted."
    alt = "Reads and New-Orders per second of every run over time, one column of panels per point."
    return Figure("over-time", title, alt, caption, plot, _time_data(plot))


def _traces(record: RunRecord) -> dict[str, Trace]:
    samples = record.samples()
    seconds = per_second(samples, _TIME_METRICS)
    measured = measured_instants(samples)
    label, start_s = f"block {record.run['block'] + 1}", measured[0].t_s if measured else None
    times = tuple(second.t_s for second in seconds)
    return {
        metric: Trace(label, times, tuple(second.figures[metric].value for second in seconds), start_s)
        for metric in _TIME_METRICS
    }


def _dot(analysis: Analysis, metric: str, point: PointRuns, x: float) -> Dot:
    fit = analysis.fit(metric)
    assert fit is not None
    mean = fit.mean(point.index)
    runs = tuple(value for _, _, value in point.values(metric))
    factor = 100.0 if metric == "hit_ratio" else 1.0
    low, high = (None if bound is None else factor * bound for bound in (mean.ci_low, mean.ci_high))
    scaled = tuple(factor * value for value in runs)
    return Dot(x, analysis.tick(point), scaled, factor * mean.value, low, high)


def _axis_label(analysis: Analysis, numeric: bool) -> str:
    axis = (analysis.axis or "").removesuffix("_bytes").replace("_", " ")
    if axis == "pool size":
        shares = any("%" in value for point in analysis.points for value in point.swept.values())
        return "Buffer pool: asked (% of the loaded database) and actual size" if shares else "Buffer pool"
    return axis[:1].upper() + axis[1:] if axis else "Point"


def _y_label(metric: str) -> str:
    unit = "%" if metric == "hit_ratio" else words.unit_of(metric).split("/")[0]
    title = words.title_of(metric)
    return title if unit in ("New-Order", "transaction", "1") else f"{title} ({unit})"


def _caption(analysis: Analysis, metric: str, plot: PointsPlot) -> str:
    fit = analysis.fit(metric)
    assert fit is not None
    runs = f"Open dots: the {words.plural(fit.n, 'run')}. "
    bars = "Filled: mean with its 95 % interval. " if len(fit.blocks) > 1 else "Filled: mean; one run has no interval. "
    if plot.y_is_log:
        return runs + bars + ("Both axes are logarithmic." if plot.x_is_log else "The vertical axis is logarithmic.")
    return runs + bars + f"The vertical axis {'starts' if plot.y_from_zero else 'does not start'} at zero."


def _alt(plot: PointsPlot, metric: str) -> str:
    ends = [
        f"{one.label + ': ' if one.label else ''}{words.number(one.dots[0].mean)} at {_flat(one.dots[0].tick)}, "
        f"{words.number(one.dots[-1].mean)} at {_flat(one.dots[-1].tick)}"
        for one in plot.series
    ]
    return f"{words.title_of(metric)}: {'; '.join(ends)}."


def _flat(tick: str) -> str:
    asked, _, actual = tick.partition("\n")
    return f"{asked} ({actual})" if actual else asked


def _points_data(plot: PointsPlot, id: str, title: str) -> Table:
    rows = [
        Row(
            (
                f"{one.label}, {_flat(dot.tick)}" if one.label else _flat(dot.tick),
                str(len(dot.runs)),
                f"{dot.mean:.6g}",
                words.NOTHING if dot.ci_low is None else f"{dot.ci_low:.6g}",
                words.NOTHING if dot.ci_high is None else f"{dot.ci_high:.6g}",
                ", ".join(f"{value:.6g}" for value in dot.runs),
            )
        )
        for one in plot.series
        for dot in one.dots
    ]
    heads = ("n", "mean", "95 % from", "to", "runs")
    columns = (Column("Point", numeric=False), *(Column(head) for head in heads))
    return Table(f"{id}-data", f"Data: {title}", columns, tuple(rows), plot.y_label, folded=True)


def _time_data(plot: TimePlot) -> Table:
    rows = []
    for place, point in enumerate(plot.columns):
        for reads, orders in zip(plot.traces[0][place], plot.traces[1][place], strict=True):
            for t_s, read, order in zip(reads.t_s, reads.values, orders.values, strict=True):
                warm = reads.window_start_s is not None and t_s <= reads.window_start_s
                phase = "warm-up" if warm else "measured"
                cells = (point, reads.label, f"{t_s:.1f}", phase, words.number(read), words.number(order))
                rows.append(Row(cells))
    columns = (
        Column("Point", numeric=False),
        Column("Run", numeric=False),
        Column("t (s)"),
        Column("Phase", numeric=False),
        *(Column(label) for label in plot.row_labels),
    )
    return Table("over-time-data", "Data: second by second", columns, tuple(rows), folded=True)
