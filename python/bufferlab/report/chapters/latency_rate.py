"""The chapter on response times against the rate of arrivals.

A response time counts from the moment at which the transaction should have begun. Only open loops have such a moment.
In a closed loop a stalled database gets no requests, so response times do not show the stall.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group, PointRuns
from bufferlab.chapter.elements import Dot, Figure, Mark, PointsPlot, Row, Section, Series, Table
from bufferlab.chapter.point_table import point_rows
from bufferlab.chapter.points_figure import Axis, points_data
from bufferlab.results.latency import LatencyValues, latency_values
from bufferlab.stats.fit import Fit, fit

if TYPE_CHECKING:
    import polars as pl

_TITLES = ("median", "p95", "p99", "p99.9", "maximum")
_SHARES = (0.5, 0.95, 0.99, 0.999)
#: The percentiles in a figure of several groups. With all percentiles it would be unreadable.
_SHOWN_OF_MANY = ("p99",)
#: The database keeps up if it completes at least this share of the offered rate.
_KEEPS_UP = 0.97


@dataclass(frozen=True)
class _Response:
    """One point of an open loop: its response times per run, all transaction types together, in milliseconds."""

    point: PointRuns
    rate_per_s: float
    per_run: tuple[tuple[int, tuple[float, ...]], ...]
    """(block, times in the order of _TITLES) of each run."""
    completed_per_s: float
    keeps_up: bool


def latency_rate(analysis: Analysis) -> Section | None:
    """Return the chapter; None for a sweep without open loops."""
    found = [response for point in analysis.points if (response := _response(point)) is not None]
    if not found:
        return None
    fits = [_fit(found, place) for place in range(len(_TITLES))]
    figure = _figure(analysis, found, fits)
    blocks: list[Table | Figure] = [*([figure] if figure else []), _table(analysis, found, fits)]
    return Section("response", "Response time", _intro(analysis, found), tuple(blocks))


@dataclass(frozen=True)
class Saturation:
    """The saturation of a group: the highest offered rate that was served, and the lowest that was not."""

    group: Group
    served_per_s: float | None
    """The highest rate that was served; None if not even the lowest rate was served."""
    first_not_served_per_s: float | None
    """The lowest rate that was not served; None if every rate was served."""
    completed_per_s: float | None
    """The mean rate that the runs at `first_not_served_per_s` completed; None if every rate was served."""
    runs: int


def saturation(analysis: Analysis) -> list[Saturation]:
    """Return the saturation of each group of open-loop points along the rate; [] if the rate is not the axis."""
    found = []
    for group in analysis.groups if analysis.axis == "rate" else ():
        told = [response for point in group.points if (response := _response(point)) is not None]
        told.sort(key=lambda one: one.rate_per_s)
        behind = next((one for one in told if not one.keeps_up), None)
        served = [one.rate_per_s for one in told if behind is None or one.rate_per_s < behind.rate_per_s]
        if told:
            first, completed = (behind.rate_per_s, behind.completed_per_s) if behind else (None, None)
            runs = len(behind.per_run) if behind else 0
            found.append(Saturation(group, max(served, default=None), first, completed, runs))
    return found


def _response(point: PointRuns) -> _Response | None:
    records = {record.run_id: record for record in point.records}
    runs = [run for run in point.ok if run.run.load.mode == "open"]
    per_run = []
    for run in runs:
        times = latency_values([_together(records[run.run.run_id].latency())])
        if times:
            per_run.append((int(run.run.block), _milliseconds(times[0])))
    if not per_run:
        return None
    rate = float(runs[0].run.load.rate_per_s or 0.0)
    completed = [
        run.values["transactions"].value / run.window.seconds
        for run in runs
        if run.values["transactions"].value is not None and run.window.seconds
    ]
    completed_per_s = sum(completed) / len(completed) if completed else 0.0
    seconds = sum(run.window.seconds or 0.0 for run in runs)
    # Random arrivals may be fewer by chance, so three standard deviations of a Poisson count are allowed.
    by_chance = 3 / math.sqrt(max(1.0, rate * seconds))
    return _Response(point, rate, tuple(per_run), completed_per_s, completed_per_s >= rate * (_KEEPS_UP - by_chance))


def _together(latency: pl.DataFrame) -> pl.DataFrame:
    """Return the histogram buckets of response times in the measured window, with all transaction types named "all"."""
    import polars as pl

    of_window = (pl.col("time") == "response") & ~pl.col("transaction_type").str.contains(".", literal=True)
    return latency.filter(of_window).with_columns(pl.lit("all").alias("transaction_type"))


def _milliseconds(values: LatencyValues) -> tuple[float, ...]:
    return (*(values.percentiles_us[share] / 1000 for share in _SHARES), values.max_us / 1000)


def _fit(found: Sequence[_Response], place: int) -> Fit:
    values = [(one.point.index, block, times[place]) for one in found for block, times in one.per_run]
    return fit(values, comparisons=())


def _intro(analysis: Analysis, found: Sequence[_Response]) -> str:
    text = (
        "Transactions arrive at a rate of their own, whether or not the database keeps up. The time counts from when "
        "each was meant to begin, so that waiting for a stalled database counts too."
    )
    for group in analysis.groups:
        of_group = sorted((one for one in found if one.point in group.points), key=lambda one: one.rate_per_s)
        behind = [one for one in of_group if not one.keeps_up]
        if behind and behind[0] is not of_group[0]:
            sustained = of_group[of_group.index(behind[0]) - 1]
            who = f" With {group.label}, the database" if group.label else " The database"
            text += (
                f"{who} kept up with {sustained.rate_per_s:,g} a second and not with {behind[0].rate_per_s:,g}, "
                f"of which it completed {behind[0].completed_per_s:,.0f}."
            )
    return text


def _figure(analysis: Analysis, found: Sequence[_Response], fits: Sequence[Fit]) -> Figure | None:
    axis = Axis.of(analysis, [one.point for one in found])
    groups = [group for group in analysis.groups if any(one.point in group.points for one in found)]
    shown = _TITLES if len(groups) == 1 else _SHOWN_OF_MANY
    series = tuple(
        _series(analysis, axis, group, found, fits[_TITLES.index(title)], title, several=len(groups) > 1)
        for group in groups
        for title in shown
    )
    if not any(len(one.dots) > 1 for one in series):
        return None
    marks = _marks(analysis, axis, groups, found) if analysis.axis == "rate" else ()
    plot = PointsPlot(
        axis.label,
        "Response time (ms)",
        series,
        axis.is_log,
        y_is_log=True,
        marks=marks,
        x_is_words=not axis.is_numeric,
    )
    over = "the offered rate" if analysis.axis == "rate" else (analysis.axis or "the points").replace("_", " ")
    title = f"Response time against {over}"
    caption = (
        "All transaction types together. Open dots: runs. Filled: mean over runs with its 95 % interval. The vertical "
        "axis is logarithmic. Dropped arrivals are in no percentile: they had waited for as long as the patience."
    )
    if marks:
        caption += " Dashed: the lowest rate with which the database did not keep up."
    ends = (
        f"{one.label}: {words.number(one.dots[0].mean)} ms at {one.dots[0].tick}, "
        f"{words.number(one.dots[-1].mean)} ms at {one.dots[-1].tick}".replace("\n", " ")
        for one in series
        if one.dots
    )
    return Figure(
        "response-time", title, f"{title}. {'; '.join(ends)}.", caption, plot, points_data(plot, "response-time", title)
    )


def _series(
    analysis: Analysis,
    axis: Axis,
    group: Group,
    found: Sequence[_Response],
    of: Fit,
    title: str,
    *,
    several: bool,
) -> Series:
    dots = []
    for one in (one for point in group.points for one in found if one.point is point):
        mean = of.mean(one.point.index)
        runs = tuple(times[_TITLES.index(title)] for _, times in one.per_run)
        x = axis.place(one.point)
        dots.append(Dot(x, analysis.tick(one.point), runs, mean.value, mean.ci_low, mean.ci_high))
    return Series(f"{title}, {group.label}" if several else title, tuple(dots), joined=axis.is_numeric)


def _marks(analysis: Analysis, axis: Axis, groups: Sequence[Group], found: Sequence[_Response]) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for place, group in enumerate(groups):
        behind = [one for point in group.points for one in found if one.point is point and not one.keeps_up]
        if behind and axis.is_numeric:
            label = "" if marks else "does not keep up"
            marks.append(Mark(axis.place(behind[0].point), label, place, dashed=True))
    return tuple(marks)


def _table(analysis: Analysis, found: Sequence[_Response], fits: Sequence[Fit]) -> Table:
    by_point = {one.point.index: one for one in found}

    def row(point: PointRuns) -> Row:
        one = by_point[point.index]
        return Row(
            (
                analysis.name_of(point),
                str(len(one.per_run)),
                words.number(one.rate_per_s),
                _mean(analysis, point, "arrivals_per_s"),
                words.number(one.completed_per_s),
                _mean(analysis, point, "late_share"),
                _mean(analysis, point, "dropped_share"),
                *(words.interval(of.mean(point.index)) for of in fits),
                "yes" if one.keeps_up else "no",
            ),
            "" if one.keeps_up else "differs",
        )

    heads = (
        "<Point", "n", "Offered per s", "Arrived per s", "Completed per s", "Late", "Dropped",
        *(f"{title} (ms)" for title in _TITLES), "<Keeps up",
    )  # fmt: skip
    caption = (
        "Response times of all transaction types, means over runs with 95 % intervals for the mean of many such runs. "
        "Late: begun more than a millisecond after its time. Dropped: given up after waiting for as long as the "
        f"patience. Keeps up: completes at least {100 * _KEEPS_UP:.0f} % of the offered rate, within what chance "
        "explains."
    )
    brief = ("Point", "Completed per s", "Late", "Dropped", "median (ms)", "p99 (ms)", "Keeps up")
    shown = [point for point in analysis.points if point.index in by_point or not point.ok]
    rows = point_rows(shown, len(heads), row, analysis.name_of)
    return Table.of("response-times", "Response times", heads, rows, caption, brief=brief)


def _mean(analysis: Analysis, point: PointRuns, metric: str) -> str:
    return words.cell(analysis.metric(metric), analysis.mean(metric, point))
