"""The chapter on predictions without any run: at each measured point, the model's reads and the measured reads.

The command `run` makes the predictions before the first run, and stores them in other-pools.json. This module only
shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group, PointRuns
from bufferlab.chapter.elements import Curve, Dot, Figure, PointsPlot, Section, Series, Table
from bufferlab.chapter.points_figure import Axis, dot, reads_better_on_a_log_axis, side_by_side
from bufferlab.engines import registry as engines
from bufferlab.models import access_rules
from bufferlab.report.predicted import SEEDS, verdicts_said
from bufferlab.results.metrics import WORK, Work, per_work
from bufferlab.results.page_traces import GeneratedPoints, Verdict
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.fit import fit

_ID = "without-a-run"
TITLE = "What was predicted without any run"
LABEL, DOUBTED = "predicted without any run", "without any run, with a doubt"
END = "no run"
"""The label at the end of the line that shows predictions without any run."""


@dataclass(frozen=True)
class WithoutRun:
    """Predictions for the points of a measured sweep, from accesses that a generator made instead of a traced run."""

    of: GeneratedPoints
    unit: Work
    means: Mapping[int, Estimate]
    """Index of a point -> predicted mean reads. Points whose reads depend on the speed of the run are missing."""
    verdicts: Mapping[int, Sequence[Verdict]]
    """Index of a point -> its verdicts, the reasons to doubt the prediction, for every predicted point."""

    @property
    def metric(self) -> str:
        """Return the name of the predicted metric: reads per New-Order or per transaction."""
        return per_work("reads", self.unit)

    def doubts(self, point: PointRuns) -> str:
        """Return the names of the verdicts on a point's prediction (reasons to doubt it); "" if there are none."""
        return ", ".join(dict.fromkeys(one.name.replace("_", " ") for one in self.verdicts[point.index]))

    def dots(self, points: Sequence[tuple[PointRuns, float, str]]) -> tuple[tuple[Dot, ...], tuple[Dot, ...]]:
        """Return the dots of predictions without a doubt, and the dots of those with one.

        `points` are (point, place on the axis, tick).
        """
        sure: list[Dot] = []
        doubted: list[Dot] = []
        for point, x, tick in points:
            if mean := self.means.get(point.index):
                found = Dot(x, tick, (), mean.value, mean.ci_low, mean.ci_high)
                (doubted if self.verdicts[point.index] else sure).append(found)
        return tuple(sure), tuple(doubted)


def without_run(analysis: Analysis) -> WithoutRun | None:
    """Return the predictions that the sweep made without any run; None if it made none."""
    found = analysis.sweep.other_pools()
    if found is None or found.generated is None:
        return None
    points = found.generated.points
    has_unit = all(analysis.unit_of_work in run.work for point in points for run in point.runs)
    unit: Work = analysis.unit_of_work if has_unit else "transaction"
    told = {
        point.index: [(run.seed, run.reads / run.work[unit]) for run in point.runs if run.reads is not None]
        for point in points
    }
    values = [
        (point.index, seed, reads)
        for point in points
        for seed, reads in told[point.index]
        if len(told[point.index]) == len(point.runs)
    ]
    fitted = fit(values, scale=analysis.metric(per_work("reads", unit)).scale) if values else None
    means = {index: fitted.mean(index) for index in told if index in fitted.points} if fitted else {}
    return WithoutRun(found.generated, unit, means, {point.index: point.verdicts for point in points})


def without_a_run(analysis: Analysis) -> Section | None:
    """Return the chapter; None for a sweep without predictions made before its first run."""
    found = without_run(analysis)
    if found is None:
        return None
    figure = None if _is_drawn_with_other_pools(analysis) else _figure(analysis, found)
    blocks = (*((figure,) if figure else ()), _table(analysis, found))
    return Section(_ID, TITLE, " ".join(_lead(analysis, found)), blocks)


def known_error(analysis: Analysis, found: WithoutRun) -> str:
    """Return in words the known error of predictions without a run for this server and workload; "" if unknown.

    It comes from the measured cells in docs/prediction.md.
    """
    rules = next((one for one in access_rules.RULES if one.name == found.of.rules), None)
    told = rules.errors.get(analysis.workload) if rules else None
    if told is None:
        return ""
    if told.mean is None:
        return f"at most {told.most:g}" if told.most else f"none in {told.cells} cells"
    return f"{words.two_digits(told.mean)} %, at most {words.two_digits(told.most)} %"


def _how_sure(analysis: Analysis, found: WithoutRun) -> str:
    """Return the sentences on the predictions' intervals, and on the known error, which these do not include."""
    error = known_error(analysis, found)
    return (
        "Intervals of predictions tell how runs with other seeds differ, not how far the rules are off. The known "
        f"error of the rules on this server: {error}."
        if error
        else SEEDS
    )


def curve_of(dots: Sequence[Dot], series: int) -> tuple[Curve, ...]:
    """Return the line through dots, with the label END at its end; () for fewer than two dots."""
    ordered = sorted(dots, key=lambda one: one.x)
    if len(ordered) < 2:
        return ()
    xs, ys = tuple(one.x for one in ordered), tuple(one.mean for one in ordered)
    return (Curve("", xs, ys, series, end=END, look="dashed"),)


def with_series_alike(plots: Sequence[PointsPlot]) -> list[PointsPlot]:
    """Return the plots without those series of dots that have no dot in any plot.

    A series is dropped from all plots or from none, so that it has the same colour in all panels.
    """
    lines = {0, *(curve.series for plot in plots for curve in plot.curves)}
    shown = [
        place
        for place, of_plots in enumerate(zip(*(plot.series for plot in plots), strict=True))
        if place in lines or any(one.dots for one in of_plots)
    ]
    return [
        replace(
            plot,
            series=tuple(plot.series[place] for place in shown),
            curves=tuple(replace(curve, series=shown.index(curve.series)) for curve in plot.curves),
        )
        for plot in plots
    ]


def _is_drawn_with_other_pools(analysis: Analysis) -> bool:
    """Return whether the chapter on other pools already draws these predictions.

    It draws them if the axis is the pool's size, and each group has a traced run.
    """
    pools = analysis.sweep.other_pools()
    is_pool = bool(analysis.engine) and analysis.axis == engines.declaration(analysis.engine).results.pool
    return is_pool and pools is not None and len(pools.of) == len(analysis.groups)


def _lead(analysis: Analysis, found: WithoutRun) -> list[str]:
    of = found.of
    runs = sorted({len(point.runs) for point in of.points})
    said = [
        f"Nothing was run for these numbers: the model {of.model}, version {of.model_version}, played page accesses "
        f"that were generated by the rules {of.rules}, version {of.rules_version}, for {analysis.engine} "
        f"{of.engine_version}, {' to '.join(map(str, runs))} runs of each point with seeds of their own."
    ]
    shares = [(_difference(analysis, found, point), analysis.name_of(point)) for point in analysis.points]
    off = [(share, where) for share, where in shares if share is not None]
    if off:
        share, where = max(off, key=lambda one: abs(one[0]))
        said.append(f"Furthest from the measured mean is the prediction at {where}: {words.signed_share(share)}.")
    told = [point for point in analysis.points if point.index in found.verdicts]
    doubts = verdicts_said([(analysis.name_of(point), found.verdicts[point.index]) for point in told], "All points")
    return [*said, *doubts]


def _difference(analysis: Analysis, found: WithoutRun, point: PointRuns) -> float | None:
    """Return how far a prediction is from the measured mean (0.01 is 1 %); None if one of the two is missing."""
    predicted, measured = found.means.get(point.index), analysis.mean(found.metric, point)
    return predicted.value / measured.value - 1 if predicted and measured and measured.value else None


def _figure(analysis: Analysis, found: WithoutRun) -> Figure | None:
    plots = with_series_alike([plot for group in analysis.groups if (plot := _plot(analysis, found, group))])
    if not plots:
        return None
    title = f"Reads per {WORK[found.unit]}: measured, and predicted without any run"
    sure = _how_sure(analysis, found)
    caption = f"Measured: means with 95 % intervals where there are several runs. Predicted: the same. {sure}"
    alt = f"{plots[0].y_label} over {plots[0].x_label}: the line without any run beside the measured points."
    return Figure(_ID, title, alt, caption, *side_by_side(plots, _ID, title))


def _plot(analysis: Analysis, found: WithoutRun, group: Group) -> PointsPlot | None:
    """Return the plot of a group: its measured points and the line of predictions; None without a prediction."""
    axis = Axis.of(analysis, [point for one in analysis.groups for point in one.points if point.ok])
    placed = [(point, axis.place(point), analysis.tick(point)) for point in group.points if point.ok]
    sure, doubted = found.dots(placed)
    if not sure and not doubted:
        return None
    fitted = analysis.fit(found.metric)
    measured = tuple(
        dot(analysis, found.metric, point, x, tick)
        for point, x, tick in placed
        if fitted and point.index in fitted.points
    )
    # Later series are drawn over earlier ones.
    series = (
        Series(LABEL, sure, joined=False),
        Series(DOUBTED, doubted, joined=False),
        Series("measured", measured, joined=False),
    )
    values = [value for one in series for of in one.dots for value in (of.mean, *of.runs)]
    return PointsPlot(
        x_label=axis.label,
        y_label=f"Reads per {WORK[found.unit]}",
        series=series,
        x_is_log=axis.is_log,
        y_is_log=reads_better_on_a_log_axis(values),
        x_in_bytes=axis.in_bytes,
        x_is_words=not axis.is_numeric,
        curves=curve_of([*sure, *doubted], 0) if axis.is_numeric else (),
        title=group.label,
    )


def _table(analysis: Analysis, found: WithoutRun) -> Table:
    heads = ("<Point", "Measured", "Predicted", "Difference", "<Doubts")
    metric = analysis.metric(found.metric)
    rows = []
    for point in analysis.points:
        if point.index not in found.verdicts:
            continue
        off = _difference(analysis, found, point)
        cells = (
            analysis.name_of(point),
            words.cell(metric, analysis.mean(found.metric, point)),
            words.cell(metric, found.means.get(point.index)),
            "" if off is None else words.signed_share(off),
            found.doubts(point),
        )
        rows.append(cells)
    title = f"Reads per {WORK[found.unit]}, measured and predicted without any run"
    return Table.of(
        f"{_ID}-table", title, heads, rows, f"Means with their 95 % intervals. {_how_sure(analysis, found)}"
    )
