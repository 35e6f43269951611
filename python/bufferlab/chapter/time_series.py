"""The chapter of rates second by second: every run over time, its scatter, and where it changed its level.

A window's mean is worth quoting only if the window had one level; checkpoints and bursts show here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.blocks import Column, Figure, Level, Row, Section, Table, TimePlot, Trace
from bufferlab.results.timeline import measured_instants, per_second
from bufferlab.results.window import MEASURE
from bufferlab.stats.series import batch_means, dispersion, regimes

if TYPE_CHECKING:
    from bufferlab.results.store import RunRecord

#: The most columns of panels that can be read side by side.
_MOST_COLUMNS = 6
#: The fewest measured seconds that say something of levels or scatter.
_FEWEST_SECONDS = 10


@dataclass(frozen=True)
class _Run:
    """One run's rates over time, and the rates of its measured part."""

    point: PointRuns
    label: str
    traces: tuple[Trace, ...]
    measured: tuple[tuple[float, ...], ...]
    """Per metric, the rates of the measured seconds."""


def time_series(analysis: Analysis) -> Section | None:
    """Return rates over time for every run of a few points, and the scatter of all."""
    metrics = ("reads_per_s", analysis.work_per_s)
    shown = _spread_out([point for group in analysis.groups for point in group.points if point.ok])
    if not shown:
        return None
    runs = [_read(point, record, metrics) for point in shown for record in point.records if record.ok]
    blocks: list[Table | Figure] = [_figure(analysis, shown, runs, metrics)]
    scatter = _scatter(analysis, runs, metrics)
    intro = (
        "Whether a window had one level: a mean over two levels is no property of either. "
        "Seconds that follow one another are alike, so intervals come from batches of them."
    )
    return Section("time", "Over time", intro, (*blocks, *([scatter] if scatter.rows else [])))


def course_figure(analysis: Analysis, labels: Mapping[str, str], id: str, title: str) -> Figure | None:
    """Return rates and levels (metric -> its words beside the axis) of every run that has them; None if none has."""
    shown = _spread_out([point for group in analysis.groups for point in group.points if point.ok])
    present = [metric for metric in labels if analysis.fit(metric) is not None]
    if not shown or not present:
        return None
    runs = [_read(point, record, present) for point in shown for record in point.records if record.ok]
    drawn = _figure(analysis, shown, runs, present, [labels[metric] for metric in present])
    titles = [words.title_of(metric) for metric in present]
    alt = f"{words.listing(titles)} of every run over time, one column of panels per point."
    data = replace(drawn.data, id=f"{id}-data", title=f"Data: {title}")
    return replace(drawn, id=id, title=title, alt=alt, data=data)


def _spread_out(points: list[PointRuns]) -> list[PointRuns]:
    """Return at most a handful of points, evenly chosen, the first and the last among them."""
    if len(points) <= _MOST_COLUMNS:
        return points
    step = (len(points) - 1) / (_MOST_COLUMNS - 1)
    return [points[round(place * step)] for place in range(_MOST_COLUMNS)]


def _read(point: PointRuns, record: RunRecord, metrics: Sequence[str]) -> _Run:
    samples = record.samples()
    seconds = [second for second in per_second(samples, metrics) if second.phase in ("warm_up", MEASURE)]
    instants = measured_instants(samples)
    label, start_s = f"block {record.run.block + 1}", instants[0].t_s if instants else None
    times = [second.t_s for second in seconds]
    traces, measured = [], []
    for metric in metrics:
        values = [second.values[metric].value for second in seconds]
        inside = [
            (t_s, value)
            for t_s, value in zip(times, values, strict=True)
            if start_s is not None and t_s > start_s and value is not None
        ]
        # Seconds of uneven length (the last one, cut by the window's end) would pass for scatter.
        kept = tuple(value for _, value in inside[:-1])
        traces.append(Trace(label, tuple(times), tuple(values), start_s, _levels(inside[:-1])))
        measured.append(kept)
    return _Run(point, label, tuple(traces), tuple(measured))


def _levels(inside: Sequence[tuple[float, float]]) -> tuple[Level, ...]:
    """Return the stretches between changes of level; none when no change is resolved."""
    if len(inside) < _FEWEST_SECONDS:
        return ()
    found = regimes([value for _, value in inside])
    if len(found) < 2:
        return ()
    times = [t_s for t_s, _ in inside]
    return tuple(Level(times[regime.start], times[regime.end - 1], regime.mean) for regime in found)


def _figure(
    analysis: Analysis, shown: list[PointRuns], runs: list[_Run], metrics: Sequence[str], row_labels: Sequence[str] = ()
) -> Figure:
    rows = tuple(
        tuple(tuple(run.traces[place] for run in runs if run.point is point) for point in shown)
        for place in range(len(metrics))
    )
    labels = tuple(row_labels) or tuple(words.axis_title(metric) for metric in metrics)
    plot = TimePlot(tuple(_panel_title(analysis, point) for point in shown), labels, rows)
    changed = sum(bool(trace.levels) for run in runs for trace in run.traces)
    left_out = len([point for point in analysis.points if point.ok]) - len(shown)
    caption = "Each line is one run. The shaded part is warm-up and is not counted."
    if changed:
        caption += " Black lines: the levels of runs that changed theirs inside the window."
    if left_out:
        caption += f" {words.plural(left_out, 'more point')} not drawn."
    alt = (
        f"{words.title_of(metrics[0])} and {words.title_of(metrics[1])} of every run over time, "
        f"one column of panels per point; {words.plural(changed, 'series')[:-1] if changed != 1 else '1 series'} "
        "changed level inside the window."
    )
    return Figure("over-time", "Second by second", alt, caption, plot, _data(plot))


def _panel_title(analysis: Analysis, point: PointRuns) -> str:
    return analysis.name_of(point).replace(", ", "\n")


def _scatter(analysis: Analysis, runs: list[_Run], metrics: Sequence[str]) -> Table:
    """Return one row per run and rate: mean by batches, coefficient of variation, levels."""
    rows = []
    for run in runs:
        for metric, values, trace in zip(metrics, run.measured, run.traces, strict=True):
            if len(values) < _FEWEST_SECONDS or sum(values) <= 0:
                continue
            scatter = dispersion(values)
            rows.append(
                Row(
                    (
                        analysis.name_of(run.point),
                        run.label,
                        words.title_of(metric),
                        str(len(values)),
                        words.cell(metric, batch_means(values)),
                        _per_cent(scatter.value, scatter.ci_low, scatter.ci_high),
                        _said(trace.levels, metric),
                    ),
                    "differs" if trace.levels else "",
                )
            )
    heads = ("Seconds", "Mean by batches", "Coefficient of variation")
    columns = (
        *(Column(head, numeric=False) for head in ("Point", "Run", "Rate")),
        *(Column(head) for head in heads),
        Column("Levels inside the window", numeric=False),
    )
    caption = (
        "Whole measured seconds, 95 % intervals within the one run: another run differs by more. A change of level is "
        "marked where chance would show one in at most one of twenty even series."
    )
    return Table("scatter", "Scatter and changes of level", columns, tuple(rows), caption, folded=len(rows) > 8)


def _per_cent(value: float, low: float | None, high: float | None) -> str:
    """Return a coefficient of variation in per cent. It may be above one: it is not a share."""
    if low is None or high is None:
        return words.share(value)
    return f"{words.share(value)} ({100 * low:.1f}–{100 * high:.1f})"


def _said(levels: Sequence[Level], metric: str) -> str:
    if not levels:
        return "one"
    return "; ".join(f"{words.cell(metric, one.mean)} from {one.start_s:.0f} to {one.end_s:.0f} s" for one in levels)


def _data(plot: TimePlot) -> Table:
    rows = []
    for place, point in enumerate(plot.columns):
        for first, second in zip(plot.traces[0][place], plot.traces[1][place], strict=True):
            for t_s, one, other in zip(first.t_s, first.values, second.values, strict=True):
                warm = first.window_start_s is not None and t_s <= first.window_start_s
                phase = "warm-up" if warm else "measured"
                cells = (point.replace("\n", ", "), first.label, f"{t_s:.1f}", phase, words.number(one))
                rows.append(Row((*cells, words.number(other))))
    columns = (
        Column("Point", numeric=False),
        Column("Run", numeric=False),
        Column("t (s)"),
        Column("Phase", numeric=False),
        *(Column(label) for label in plot.row_labels),
    )
    return Table("over-time-data", "Data: second by second", columns, tuple(rows), folded=True)
