"""Makes figures over points as data: dots with runs and intervals. report/figures draws the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group, PointRuns
from bufferlab.chapter.elements import Dot, Figure, PanelsPlot, PointsPlot, Row, Series, Table
from bufferlab.results.metrics import Metric, phase_of

#: The ratios of the largest to the smallest value from which on the vertical, and the horizontal, axis is logarithmic.
_LOG_FROM = 12.0
_LOG_X_FROM = 4.0
#: The most series in one panel. With more, each level of a factor gets its own panel.
_MOST_SERIES = 4


def points_figure(
    analysis: Analysis, metric: str, id: str, *, value_labels: bool = False, is_linear: bool = False
) -> Figure | None:
    """Return a figure of a metric over the points: each run as a dot, each mean with its interval.

    With `is_linear` both axes are linear, and the vertical one begins at zero. Return None if no run has the metric.
    """
    fit = analysis.fit(metric)
    if fit is None:
        return None
    axis = Axis.of(analysis, [point for point in analysis.points if point.index in fit.points])
    groups = [group for group in analysis.groups if any(point.index in fit.points for point in group.points)]
    series = tuple(
        Series(
            group.label,
            tuple(
                dot(analysis, metric, point, axis.place(point), analysis.tick(point))
                for point in group.points
                if point.index in fit.points
            ),
            joined=axis.is_numeric,
        )
        for group in groups
    )
    values = [value for one in series for dot in one.dots for value in dot.runs]
    y_is_log = not is_linear and reads_better_on_a_log_axis(values)
    plot = PointsPlot(
        x_label=axis.label,
        y_label=words.axis_title(analysis.metric(metric)),
        series=series,
        x_is_log=axis.is_log and not is_linear,
        y_is_log=y_is_log,
        y_from_zero=analysis.metric(metric).from_zero,
        value_labels=value_labels,
        x_in_bytes=axis.in_bytes,
        y_in_bytes=analysis.metric(metric).top_unit == "bytes",
        x_is_words=not axis.is_numeric,
    )
    declared = analysis.metric(metric)
    title = f"{_titled(metric, declared)} over {_axis_name(analysis)}{', linear axes' if is_linear else ''}"
    shown, caption = _by_factor(analysis, groups, plot), _caption(analysis, metric, plot)
    return Figure(id, title, _alt(plot, _titled(metric, declared)), caption, shown, points_data(plot, id, title))


def _by_factor(analysis: Analysis, groups: Sequence[Group], plot: PointsPlot) -> PointsPlot | PanelsPlot:
    """Return the plot. If it has more than _MOST_SERIES series, split it into a panel for each value of one factor.

    The factor is the swept setting, other than the axis, with most values.
    """
    if len(groups) <= _MOST_SERIES:
        return plot
    firsts = [group.points[0] for group in groups]
    values = {name: list(dict.fromkeys(point.swept.get(name, "") for point in firsts)) for name in firsts[0].swept}
    factor = max((name for name in values if name != analysis.axis), key=lambda name: len(values[name]))
    panels = []
    for value in values[factor]:
        mine = [place for place, point in enumerate(firsts) if point.swept.get(factor) == value]
        series = tuple(
            replace(plot.series[place], label=analysis.rest_label(firsts[place], but=factor)) for place in mine
        )
        panels.append(replace(plot, series=series, title=analysis.setting_label(factor, value)))
    return PanelsPlot(tuple(panels), is_one_metric=True)


def reads_better_on_a_log_axis(values: Sequence[float]) -> bool:
    """Return whether all values are above zero, and the smallest would hardly be visible on a linear axis."""
    return min(values) > 0 and max(values) / min(values) >= _LOG_FROM


@dataclass(frozen=True)
class Axis:
    """The horizontal axis of figures over points: numbers (axis values as run), or words at equal distances."""

    analysis: Analysis
    is_numeric: bool
    is_log: bool
    label: str
    ticks: tuple[str, ...]
    """The labels of the points in order. On an axis of words they decide the places."""

    @classmethod
    def of(cls, analysis: Analysis, points: Sequence[PointRuns]) -> Axis:
        """Return the axis for these points of a sweep."""
        values = [analysis.axis_value(point) for point in points]
        known = [value for value in values if value is not None]
        numeric = len(known) == len(points) and len(set(known)) > 1
        is_log = numeric and min(known) > 0 and (analysis.axis_in_bytes or max(known) / min(known) >= _LOG_X_FROM)
        ticks = tuple(dict.fromkeys(analysis.tick(point) for point in points))
        return cls(analysis, numeric, is_log, _axis_label(analysis), ticks)

    @property
    def in_bytes(self) -> bool:
        """Return whether the axis has numbers, and these are bytes."""
        return self.is_numeric and self.analysis.axis_in_bytes

    def place(self, point: PointRuns) -> float:
        """Return the place of a point on the axis: its value, or the index of its label."""
        value = self.analysis.axis_value(point)
        return value if self.is_numeric and value is not None else float(self.ticks.index(self.analysis.tick(point)))


def dot(analysis: Analysis, metric: str, point: PointRuns, x: float, tick: str) -> Dot:
    """Return a point's runs and their mean as a dot at `x`, shares in per cent. Some run must have the metric."""
    mean = analysis.mean(metric, point)
    assert mean is not None
    is_share = analysis.metric(metric).is_share
    factor = 100.0 if is_share else 1.0
    low, high = (None if bound is None else factor * bound for bound in (mean.ci_low, mean.ci_high))
    if is_share and low is not None and high is not None:
        # The fit does not limit a share to the range from 0 to 1.
        low, high = max(0.0, low), max(factor * mean.value, min(100.0, high))
    runs = tuple(factor * value for _, _, value in point.values(metric))
    return Dot(x, tick, runs, factor * mean.value, low, high)


#: Titles of axes for settings whose names are not clear to readers.
_AXIS_WORDS = {
    "pool_size": "Buffer pool",
    "hot_rows": "Hot rows",
    "rate": "Offered rate (transactions per second)",
    "server": "Server build",
}


def _axis_name(analysis: Analysis) -> str:
    said = analysis.knob_words.get(analysis.axis or "")
    return (said and said.name) or (analysis.axis or "the points").replace("_", " ")


def _axis_label(analysis: Analysis) -> str:
    axis = (analysis.axis or "").removesuffix("_bytes")
    titles = _AXIS_WORDS | {name: one.axis for name, one in analysis.knob_words.items()}
    name = titles.get(axis, axis.replace("_", " ").capitalize() or "Point")
    asked_as_shares = any("%" in point.swept.get(analysis.axis or "", "") for point in analysis.points)
    if axis == "pool_size" and asked_as_shares:
        return f"{name}: asked (% of the database) and actual size"
    if axis == "hot_rows" and asked_as_shares:
        return f"{name}: asked (% of the predicted knee) and their number"
    return name


def _titled(metric: str, declared: Metric) -> str:
    """Return the metric's title, after the name of its phase if it has one."""
    phase, _ = phase_of(metric)
    title = declared.label
    return f"{phase.replace('_', ' ').capitalize()}: {words.lowered(title)}" if phase else title


def _caption(analysis: Analysis, metric: str, plot: PointsPlot) -> str:
    fit = analysis.fit(metric)
    assert fit is not None
    runs = f"Open dots: the {words.plural(fit.n, 'run')}. "
    bars = "Filled: mean with its 95 % interval. "
    if len(fit.blocks) < 2:
        runs, bars = "Each dot is one run, without an interval. ", ""
    elif any(_overlap(a, b) for series in plot.series for a, b in pairwise(series.dots)):
        bars += "Means whose intervals overlap may differ: the table has the interval of each change. "
    if plot.cuts_intervals:
        bars += "Intervals that leave the picture are longer than it. "
    if plot.y_is_log:
        return runs + bars + ("Both axes are logarithmic." if plot.x_is_log else "The vertical axis is logarithmic.")
    return runs + bars + f"The vertical axis {'starts' if plot.y_from_zero else 'does not start'} at zero."


def _overlap(a: Dot, b: Dot) -> bool:
    """Return whether the intervals of two means overlap; False if a mean has none."""
    if a.ci_low is None or a.ci_high is None or b.ci_low is None or b.ci_high is None:
        return False
    return a.ci_low <= b.ci_high and b.ci_low <= a.ci_high


def _alt(plot: PointsPlot, title: str) -> str:
    ends = [
        f"{one.label + ': ' if one.label else ''}{words.number(one.dots[0].mean)} at {_flat(one.dots[0].tick)}, "
        f"{words.number(one.dots[-1].mean)} at {_flat(one.dots[-1].tick)}"
        for one in plot.series
    ]
    return f"{title}: {'; '.join(ends)}."


def _flat(tick: str) -> str:
    asked, _, actual = tick.partition("\n")
    return f"{asked} ({actual})" if actual else asked


def points_data(plot: PointsPlot, id: str, title: str) -> Table:
    """Return the data of a figure over points as a folded table, with a row for each dot."""
    rows = [
        Row(
            (
                ", ".join(filter(None, (one.label, _flat(dot.tick)))),
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
    heads = ("<Point", "n", "mean", "95 % from", "to", "runs")
    return Table.of(f"{id}-data", f"Data: {title}", heads, rows, plot.y_label, folded=True)


def side_by_side(plots: Sequence[PointsPlot], id: str, title: str) -> tuple[PointsPlot | PanelsPlot, Table]:
    """Return plots of one metric as one picture, and their data as one table, whose rows name the panel if several."""
    parts = [points_data(plot, id, title) for plot in plots]
    if len(plots) == 1:
        return plots[0], parts[0]
    # Panels of one metric share their axis, and a logarithmic axis cannot show zero.
    heights = [height for plot in plots for one in plot.series for dot in one.dots for height in (dot.mean, *dot.runs)]
    y_is_log = any(plot.y_is_log for plot in plots) and min(heights) > 0
    plots = [replace(plot, y_is_log=y_is_log) for plot in plots]
    rows = tuple(
        Row((f"{plot.title}, {row.cells[0]}", *row.cells[1:]))
        for plot, part in zip(plots, parts, strict=True)
        for row in part.rows
    )
    return PanelsPlot(tuple(plots), is_one_metric=True), replace(parts[0], rows=rows)
