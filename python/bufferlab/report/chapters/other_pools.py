"""The chapter on the reads of pools of other sizes: the model's line over sizes, with the measured points.

The command `run` replays the traces when a sweep ends, and stores the counts in other-pools.json. This module only
shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Curve, Dot, Figure, PointsPlot, Section, Series, Table
from bufferlab.chapter.points_figure import dot, reads_better_on_a_log_axis, side_by_side
from bufferlab.engines import registry as engines
from bufferlab.report.chapters.other_pools_writes import told_writes, written_figure, written_plot
from bufferlab.report.chapters.without_a_run import DOUBTED, LABEL, WithoutRun, curve_of, with_series_alike, without_run
from bufferlab.report.predicted import own_point, verdicts_said
from bufferlab.results.metrics import WORK, Work
from bufferlab.results.page_traces import OtherPool, PoolsOfTrace, Verdict
from bufferlab.units import format_bytes

_ID = "other-pools"
_TITLE = "What other pools would have read"
_CAPTION = (
    "Predicted: a model of the server's buffer manager replayed the page accesses of the traced run, once for each "
    "pool. One trace: no interval. Measured: the runs of this sweep, means with their 95 % intervals where there are "
    "several."
)
_OF_RUNS = " Without any run: means of generated runs with their own seeds."
#: Verdicts whose sentences have numbers of a single pool or a single traced run. The tables have these numbers too.
_OF_NUMBERS = ("short_trace", "own_point")
_END = "trace"
"""The label at the end of the figure's line for predictions from a trace."""


@dataclass(frozen=True)
class _Group:
    """The points that differ only in the pool's size, and the predictions from their traced run."""

    label: str
    of: PoolsOfTrace
    points: tuple[PointRuns, ...]
    pool: str
    unit: Work
    without: WithoutRun | None = None
    """The predictions of these points without any run; None if the sweep made none."""

    @property
    def metric(self) -> str:
        return f"reads_per_{self.unit}"

    def reads(self, pool: OtherPool) -> float | None:
        """Return the predicted page reads per unit of work with this pool; None if they depend on the load's speed."""
        return None if pool.reads is None else pool.reads / self.of.traced.work[self.unit]

    def measured(self, pool: OtherPool) -> PointRuns | None:
        """Return the point that was measured with this pool's size; None if there is none."""
        return next((point for point in self.points if point.number(self.pool) == pool.pool_bytes), None)


def other_pools(analysis: Analysis) -> Section | None:
    """Return the chapter; None for a sweep without predictions from a page trace."""
    found = analysis.sweep.other_pools()
    # other-pools.json has the groups in the random order of their traced runs. The report sorts them by points.
    groups = sorted(_groups(analysis, found.of), key=lambda group: group.points[0].index) if found else []
    if not groups:
        return None
    of_writes = [
        written_plot(analysis, group.of, group.points, group.pool, group.unit, group.label) for group in groups
    ]
    blocks = (
        _figure(analysis, groups),
        written_figure([plot for plot in of_writes if plot]),
        _table(analysis, groups),
    )
    return Section(_ID, _TITLE, " ".join(_lead(groups)), tuple(block for block in blocks if block))


def _groups(analysis: Analysis, of_traces: Sequence[PoolsOfTrace]) -> Iterator[_Group]:
    without = without_run(analysis)
    for of in of_traces:
        points = (point for point in analysis.points if any(run.run.run_id == of.traced.run_id for run in point.ok))
        traced = next(points, None)
        if traced is None or traced.ok[0].run.engine not in engines.names(hidden=True):
            continue
        pool = engines.declaration(traced.ok[0].run.engine).results.pool
        own = {**traced.swept, pool: ""}
        unit: Work = analysis.unit_of_work if analysis.unit_of_work in of.traced.work else "transaction"
        label = ", ".join(
            analysis.setting_label(name, value)
            for name, value in traced.swept.items()
            if name != pool and name not in analysis.fixed
        )
        members = tuple(point for point in analysis.points if {**point.swept, pool: ""} == own and point.ok)
        yield _Group(label, of, members, pool, unit, without if without and without.unit == unit else None)


def _lead(groups: Sequence[_Group]) -> Iterator[str]:
    if len(groups) == 1:
        where = f"With {groups[0].label}: " if groups[0].label else ""
        said = own_point(groups[0].of.traced, groups[0].unit)
        yield f"{where}{said if not where else said[0].lower() + said[1:]}"
    else:
        errors = [(group.of.traced.own_error, group.label) for group in groups]
        if told := [f"{words.signed_share(error)} with {label}" for error, label in errors if error is not None]:
            yield f"At the traced runs' own points the model's reads differ from the engine's: {words.listing(told)}."
    short = _OF_NUMBERS if len(groups) > 1 else _OF_NUMBERS[:1]
    where_said: dict[str, list[str]] = {}
    for group in groups:
        verdicts = [
            (format_bytes(pool.pool_bytes), [_consequence(one, short) for one in pool.verdicts])
            for pool in group.of.pools
        ]
        for doubt in verdicts_said(verdicts, "All pools"):
            where_said.setdefault(doubt, []).append(group.label)
    for doubt, labels in where_said.items():
        is_of_all = len(groups) > 1 and len(labels) == len(groups)
        yield doubt if is_of_all or not labels[0] else f"With {words.listing(labels)}: {doubt}"


def _consequence(verdict: Verdict, short: Sequence[str]) -> Verdict:
    """Return the verdict, without its numbers if `short` names it, so that several pools share one sentence."""
    if verdict.name not in short:
        return verdict
    return verdict.model_copy(update={"sentence": verdict.sentence.rpartition(": ")[2]})


def _figure(analysis: Analysis, groups: Sequence[_Group]) -> Figure:
    plots = with_series_alike([_plot(analysis, group) for group in groups])
    title = f"{_TITLE}, by the page trace of one run"
    shown, rows = side_by_side(plots, _ID, title)
    alt = f"{plots[0].y_label} over the buffer pool: the predicted line of the model beside the measured points."
    caption = _CAPTION + (_OF_RUNS if any(group.without for group in groups) else "")
    return Figure(_ID, title, alt, caption, shown, rows)


def _plot(analysis: Analysis, group: _Group) -> PointsPlot:
    told = [(pool, reads) for pool in group.of.pools if (reads := group.reads(pool)) is not None]
    sizes = [(float(pool.pool_bytes), format_bytes(pool.pool_bytes)) for pool, _ in told]
    dots = [
        (Dot(x, tick, (), reads, None, None), bool(pool.verdicts))
        for (x, tick), (pool, reads) in zip(sizes, told, strict=True)
    ]
    fit = analysis.fit(group.metric)
    placed = [
        (point, float(pool_bytes), format_bytes(pool_bytes))
        for point in group.points
        if (pool_bytes := point.number(group.pool))
    ]
    measured = tuple(
        dot(analysis, group.metric, point, x, tick) for point, x, tick in placed if fit and point.index in fit.points
    )
    no_run, no_run_doubted = group.without.dots(placed) if group.without else ((), ())
    traced = group.of.traced
    own = Dot(
        float(traced.pool_bytes),
        format_bytes(traced.pool_bytes),
        (),
        traced.measured_reads / traced.work[group.unit],
        None,
        None,
    )
    # Later series are drawn over earlier ones.
    named = [
        (f"predicted by the model {group.of.model}", tuple(one for one, doubted in dots if not doubted)),
        (LABEL, no_run),
        (DOUBTED, no_run_doubted),
        ("predicted, with a doubt", tuple(one for one, doubted in dots if doubted)),
        ("measured", measured),
        ("the traced run, as counted", (own,)),
    ]
    series = tuple(Series(label, of_label, joined=False) for label, of_label in named)
    values = [value for one in series for of in one.dots for value in (of.mean, *of.runs)]
    without = curve_of([*no_run, *no_run_doubted], 1)
    end = _END if without else ""
    line = Curve("", tuple(x for x, _ in sizes), tuple(reads for _, reads in told), 0, end=end)
    return PointsPlot(
        x_label="Buffer pool",
        y_label=f"Reads per {WORK[group.unit]}",
        series=series,
        x_is_log=True,
        y_is_log=reads_better_on_a_log_axis(values),
        x_in_bytes=True,
        curves=(*((line,) if told else ()), *without),
        title=group.label,
    )


def _table(analysis: Analysis, groups: Sequence[_Group]) -> Table:
    heads = ("<Pool", "Measured", "Predicted", "Difference", "Predicted writes", "<Doubts")
    rows = (_cells(analysis, group, pool) for group in groups for pool in group.of.pools)
    title = f"Reads and writes per {WORK[groups[0].unit]}, measured and predicted"
    return Table.of(f"{_ID}-table", title, heads, rows, _CAPTION, folded=True)


def _cells(analysis: Analysis, group: _Group, pool: OtherPool) -> tuple[str, ...]:
    point, reads = group.measured(pool), group.reads(pool)
    mean = analysis.mean(group.metric, point) if point else None
    off = reads / mean.value - 1 if reads is not None and mean and mean.value else None
    size = format_bytes(pool.pool_bytes)
    # The report's other tables name a measured point by the requested value.
    asked = f" ({name})" if point and (name := analysis.short_label(point)) != size else ""
    return (
        ", ".join(filter(None, [group.label, f"{size}{asked}"])),
        words.cell(analysis.metric(group.metric), mean) if point else "",
        "" if reads is None else words.four_digits(reads),
        "" if off is None else words.signed_share(off),
        told_writes(pool, group.of.traced.work[group.unit]),
        ", ".join(verdict.name.replace("_", " ") for verdict in pool.verdicts),
    )
