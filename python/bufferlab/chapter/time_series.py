"""Makes the chapter on rates second by second: every run over time, its scatter, and its changes of level.

A window's mean is meaningful only if the rate had one level in the window. The chapter shows effects such as
checkpoints and bursts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import TYPE_CHECKING

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Figure, Level, Row, Section, Table, TimePlot, Trace
from bufferlab.chapter.points_figure import reads_better_on_a_log_axis
from bufferlab.results.metrics import Metric
from bufferlab.results.timeline import measured_instants, per_second, samples_of
from bufferlab.results.window import MEASURE, NOT_SAMPLED
from bufferlab.stats.series import batch_means, dispersion, regimes

if TYPE_CHECKING:
    from bufferlab.results.store import RunRecord

#: The most panels of one figure, one per point. If there are more points, this many are chosen, evenly spread.
_MOST_PANELS = 12
#: The rates of a database that are drawn over time, in addition to its throughput.
_OF_A_DATABASE = ("miss_ratio", "device_requests_per_s", "writes_per_s", "reads_per_s")
_TITLE_CHARACTERS = 26
_A_NUMBER = re.compile(r"[\d,.]+")
_TOO_SHORT = "no run has two samples of it"
_AT_EDGES = "counters were read only at the edges of the window"
#: The fewest measured seconds from which levels or scatter can be judged.
_FEWEST_SECONDS = 10


@dataclass(frozen=True)
class _Run:
    """One run's rates over time, and the rates of its measured part."""

    point: PointRuns
    label: str
    traces: Mapping[str, Trace]
    """Metric -> its rate over warm-up and window."""
    measured: Mapping[str, tuple[float, ...]]
    """Metric -> its rates in the window's samples except the last one."""
    reasons: Mapping[str, str]
    """Metric without any value -> the reason."""


def time_series(analysis: Analysis) -> Section | None:
    """Return the section with rates over time of every good run, at most _MOST_PANELS points, and their scatter.

    Return None if no run ended well.
    """
    rates = _rates(analysis)
    runs = _read_all(analysis, list(rates))
    figures = _figures(analysis, runs, rates, "over-time")
    # Ratios and device requests follow from reads and work, so judge only these two.
    own = [metric for metric in rates if metric not in _OF_A_DATABASE]
    scatter = _scatter(analysis, runs, [*own, "reads_per_s"])
    intro = (
        "Each line is one run; the shaded part is warm-up and is not counted. "
        "Whether a window had one level: a mean over two levels is no property of either. "
        "Samples that follow one another are alike, so intervals come from batches of them."
    )
    intro += _not_drawn(analysis, runs, rates)
    blocks: tuple[Table | Figure, ...] = (*figures, *([scatter] if scatter.rows else []))
    return Section("time", "Over time", intro, blocks, open_figures=2) if runs else None


def course_figures(analysis: Analysis, labels: Mapping[str, str], id: str) -> list[Figure]:
    """Return a figure for each metric that any run has over time. `labels` has metric -> label of its axis."""
    present = {metric: label for metric, label in labels.items() if analysis.fit(metric) is not None}
    return _figures(analysis, _read_all(analysis, list(present)), present, id)


def _rates(analysis: Analysis) -> Mapping[str, str]:
    """Return rate to draw -> its axis label: those of any database, unless the engine declares others."""
    own: Mapping[str, str] = next((run.engine.over_time for run in analysis.runs), {})
    if own:
        return own
    first, second, *rest = _OF_A_DATABASE
    shown = (first, second, analysis.work_per_s, *rest)
    return {metric: words.axis_title(analysis.metric(metric)) for metric in shown}


def _read_all(analysis: Analysis, names: Sequence[str]) -> list[_Run]:
    shown = _spread_out([point for group in analysis.groups for point in group.points if point.ok])
    return [_read(point, record, names) for point in shown for record in point.records if record.ok]


def _not_drawn(analysis: Analysis, runs: Sequence[_Run], rates: Mapping[str, str]) -> str:
    """Return a sentence on the rates that no run has over time, with the reasons; "" if every rate is drawn."""
    missing = [metric for metric in rates if not any(_is_drawn(run.traces[metric]) for run in runs)]
    if not missing or not runs:
        return ""
    told = (run.reasons.get(metric, "") or _TOO_SHORT for metric in missing for run in runs)
    reasons = dict.fromkeys(_AT_EDGES if reason.endswith(NOT_SAMPLED) else reason for reason in told)
    labels = [analysis.metric(metric).label for metric in missing]
    titles = [words.lowered(label) for label in labels]
    return f" Not drawn: {words.listing(titles)} ({'; '.join(reasons)})."


def _is_drawn(trace: Trace) -> bool:
    return sum(value is not None for value in trace.values) > 1


def _spread_out(points: list[PointRuns]) -> list[PointRuns]:
    """Return at most _MOST_PANELS points, evenly spread, with the first and the last."""
    if len(points) <= _MOST_PANELS:
        return points
    step = (len(points) - 1) / (_MOST_PANELS - 1)
    return [points[round(place * step)] for place in range(_MOST_PANELS)]


def _read(point: PointRuns, record: RunRecord, names: Sequence[str]) -> _Run:
    derived = [record.registry.metric(name) for name in names]
    samples = samples_of(record.samples(), derived)
    seconds = [second for second in per_second(samples, derived) if second.phase in ("warm_up", MEASURE)]
    instants = measured_instants(samples)
    label, start_s = f"block {record.run.block + 1}", instants[0].t_s if instants else None
    times = [second.t_s for second in seconds]
    traces: dict[str, Trace] = {}
    measured: dict[str, tuple[float, ...]] = {}
    reasons: dict[str, str] = {}
    for metric in names:
        values = [second.values[metric].value for second in seconds]
        inside = [
            (t_s, value)
            for t_s, value in zip(times, values, strict=True)
            if start_s is not None and t_s > start_s and value is not None
        ]
        # Leave out the last interval, which the window's end cuts: its rate would look like scatter.
        kept = tuple(value for _, value in inside[:-1])
        traces[metric] = Trace(label, tuple(times), tuple(values), start_s, _levels(inside[:-1]))
        measured[metric] = kept
        if seconds and not any(value is not None for value in values):
            reasons[metric] = seconds[-1].values[metric].reason or ""
    return _Run(point, label, traces, measured, reasons)


def _levels(inside: Sequence[tuple[float, float]]) -> tuple[Level, ...]:
    """Return the stretches between changes of level in (time, rate) samples; () if no change is resolved."""
    if len(inside) < _FEWEST_SECONDS:
        return ()
    found = regimes([value for _, value in inside])
    if len(found) < 2:
        return ()
    times = [t_s for t_s, _ in inside]
    return tuple(Level(times[regime.start], times[regime.end - 1], regime.mean) for regime in found)


def _figures(analysis: Analysis, runs: Sequence[_Run], rates: Mapping[str, str], id: str) -> list[Figure]:
    """Return a figure for each rate that any run has over time: a panel for each point, a line for each run."""
    figures = []
    for metric, label in rates.items():
        factor = 100.0 if analysis.metric(metric).is_share else 1.0
        panels: dict[str, list[Trace]] = {}
        for run in runs:
            if _is_drawn(run.traces[metric]):
                panels.setdefault(_panel_title(analysis, run.point), []).append(_scaled(run.traces[metric], factor))
        if panels:
            traces, from_zero = tuple(map(tuple, panels.values())), analysis.metric(metric).from_zero
            above = [value for of in traces for one in of for value in one.values if value]
            has_decades = metric == "device_requests_per_s" and above and reads_better_on_a_log_axis(above)
            is_log = bool((above and metric == "miss_ratio") or has_decades)
            plot = TimePlot(tuple(panels), label.replace("\n", " "), traces, from_zero, is_log)
            figures.append(_figure(analysis, plot, f"{id}-{metric.replace('_', '-')}"))
    return figures


def _scaled(trace: Trace, factor: float) -> Trace:
    """Return a trace with its values and levels multiplied by `factor`, which is 100 for shares."""
    values = tuple(None if value is None else factor * value for value in trace.values)
    levels = tuple(replace(level, mean=factor * level.mean) for level in trace.levels)
    return replace(trace, values=values, levels=levels)


def _too_short(traces: Sequence[Trace]) -> str:
    """Return how many windows have too few seconds to show a change of level; "" if all are long enough."""
    # As in `_levels`, the last interval of a window is left out.
    seconds = [sum(t_s > (trace.window_start_s or 0.0) for t_s in trace.t_s) - 1 for trace in traces]
    short = sum(one < _FEWEST_SECONDS for one in seconds)
    return f"; {short} have too few seconds to show one" if short else ""


def _figure(analysis: Analysis, plot: TimePlot, id: str) -> Figure:
    traces = [trace for traces in plot.traces for trace in traces]
    changed = sum(bool(trace.levels) for trace in traces)
    left_out = len([point for point in analysis.points if point.ok]) - len(plot.panels)
    caption = "Heavy lines: the levels of runs that changed theirs inside the window. " if changed else ""
    if plot.y_is_log:
        caption += "The miss ratio is 1 − hit ratio. " if id.endswith("miss-ratio") else ""
        has_zeros = any(value == 0 for trace in traces for value in trace.values)
        caption += f"The vertical axis is logarithmic{', without zeros' if has_zeros else ''}. "
    elif not plot.y_from_zero:
        caption += "The vertical axis does not start at zero; warm-ups may begin outside. "
    if left_out:
        caption += f"{words.plural(left_out, 'more point')} not drawn."
    title = f"{plot.y_label.partition(' (')[0]} over time"
    alt = (
        f"{title}: every run, a panel for each of {words.plural(len(plot.panels), 'point')}; "
        f"{changed} of {len(traces)} changed level inside the window{_too_short(traces)}."
    )
    return Figure(id, title, alt, caption, plot, _data(plot, id, title))


def _panel_title(analysis: Analysis, point: PointRuns) -> str:
    name = analysis.name_of(point)
    # A number alone would not show which setting it belongs to.
    if analysis.axis and _A_NUMBER.fullmatch(name):
        name = f"{analysis.axis.replace('_', ' ')} {name}"
    return fill(name, _TITLE_CHARACTERS)


def _scatter(analysis: Analysis, runs: Sequence[_Run], judged: Sequence[str]) -> Table:
    """Return a table with one row per run and judged rate: mean by batches, coefficient of variation, levels."""
    rows = []
    for run in runs:
        for metric in (metric for metric in run.traces if metric in judged):
            values, trace = run.measured[metric], run.traces[metric]
            if len(values) < _FEWEST_SECONDS or sum(values) <= 0:
                continue
            scatter = dispersion(values)
            cells = (
                analysis.name_of(run.point),
                run.label,
                words.with_unit(analysis.metric(metric).label, analysis.metric(metric)),
                str(len(values)),
                words.cell(analysis.metric(metric), batch_means(values)),
                _per_cent(scatter.value, scatter.ci_low, scatter.ci_high),
                _said(trace.levels, analysis.metric(metric)),
            )
            rows.append(Row(cells, "differs" if trace.levels else ""))
    heads = (
        "<Point", "<Run", "<Rate", "Samples", "Mean by batches", "Coefficient of variation",
        "<Levels inside the window",
    )  # fmt: skip
    caption = (
        "Whole samples of the measured window, 95 % intervals within the one run: another run differs by more. "
        "A change of level is marked where chance would show one in at most one of twenty even series."
    )
    return Table.of("scatter", "Scatter and changes of level", heads, rows, caption, folded=len(rows) > 8)


def _per_cent(value: float, low: float | None, high: float | None) -> str:
    """Return a coefficient of variation in per cent. Unlike a share it may exceed 100 %."""
    if low is None or high is None:
        return words.share(value)
    return f"{words.share(value)} ({100 * low:.1f}–{100 * high:.1f})"


def _said(levels: Sequence[Level], metric: Metric) -> str:
    if not levels:
        return "one"
    # Times of levels that last less than two seconds need decimals.
    decimals = 0 if min(one.end_s - one.start_s for one in levels) >= 2 else 2
    return "; ".join(
        f"{words.cell(metric, one.mean)} from {one.start_s:.{decimals}f} to {one.end_s:.{decimals}f} s"
        for one in levels
    )


def _data(plot: TimePlot, id: str, title: str) -> Table:
    rows = []
    for point, traces in zip(plot.panels, plot.traces, strict=True):
        for trace in traces:
            for t_s, value in zip(trace.t_s, trace.values, strict=True):
                warm = trace.window_start_s is not None and t_s <= trace.window_start_s
                cells = (point.replace("\n", " "), trace.label, f"{t_s:.2f}", "warm-up" if warm else "measured")
                rows.append((*cells, words.NOTHING if value is None else f"{value:.6g}"))
    heads = ("<Point", "<Run", "t (s)", "<Phase", plot.y_label)
    return Table.of(f"{id}-data", f"Data: {title}", heads, rows, folded=True)
