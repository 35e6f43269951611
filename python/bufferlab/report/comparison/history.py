"""Judges a history of sweeps: where metrics change their level, by how much, and whether a rule of --fail-if is broken.

All metrics at all settings form one family: in a share FALSE_ALARMS of the histories without a change, a change is
reported. This file makes the data, history_words.py its sentences, and history_page.py the answer that every format
draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np

from bufferlab.registry import declared
from bufferlab.report.comparison.fail_if import Rule, RuleAtPoint, RuleJudged, at_setting, refuse
from bufferlab.report.comparison.history_sweeps import Sweeps, SweepTold, changed_beside
from bufferlab.report.comparison.sides import FigureAt, MatchedSetting
from bufferlab.stats.changes import FALSE_ALARMS, FEWEST, Array, Change, FoundChange, changes
from bufferlab.stats.comparison import Compared, single_level
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.fit import Scale
from bufferlab.stats.levels import change_of, scatter
from bufferlab.stats.verdict import Verdict, direction_of

LEVEL = 0.95
"""The confidence level at which the intervals of all changes of a history hold together."""


@dataclass(frozen=True)
class Step(FigureAt):
    """A change of a series, with its size: the level from it to the next change, compared with that before it."""

    change: Change
    found: Compared

    PRINTED: ClassVar = ("metric", "unit", "settings", "change", "found")


@dataclass(frozen=True)
class HistorySeries(FigureAt):
    """The values of one metric at one setting over the sweeps of a history."""

    PRINTED: ClassVar = (
        "metric", "unit", "settings", "scale", "values", "runs", "scatter", "detectable", "unclaimed",
    )  # fmt: skip

    values: tuple[float | None, ...]
    """The mean of each sweep's runs; None for a sweep without the metric."""
    runs: tuple[int, ...]
    scale: Scale
    scatter: float | None
    """The standard deviation of the sweeps' values about their level; on the log scale it is relative.

    None for fewer than two values.
    """
    detectable: float | None
    """The smallest step, in the middle of the history, that would be found in four of five such histories; None if
    unknown.

    Its scale is that of `scatter`.
    """
    unclaimed: str | None
    """The reason why no change of this metric is claimed; None if changes of it may be claimed."""
    steps: tuple[Step, ...] = ()

    @property
    def n(self) -> int:
        """Return the number of sweeps that have the metric."""
        return sum(value is not None for value in self.values)

    def levels(self) -> list[tuple[int, int, float]]:
        """Return (place of the first sweep, place after the last sweep, level) of each stretch between two changes."""
        edges = [0, *(step.change.place for step in self.steps), len(self.values)]
        return [(a, b, _centre(told, self.scale)) for a, b in pairwise(edges) if (told := _told(self.values[a:b]))]


@dataclass(frozen=True)
class HistoryEvent:
    """Changes of one or several metrics that may all have begun with the same sweep."""

    place: int
    """The place of the first sweep with the change, by the metric that shows the change most clearly."""
    earliest: int
    latest: int
    figures: tuple[Step, ...]
    """The changes of the metrics, that of the headline first, then in the order of `History.series`."""
    beside: dict[str, tuple[str, str]]
    """Other properties that changed with this sweep: name -> (value in the sweep before, value in this sweep)."""


@dataclass(frozen=True)
class History:
    """The result of `history`, as data."""

    PRINTED: ClassVar = (
        "headline",
        "false_alarms",
        "is_too_short",
        "sweeps",
        "events",
        "series",
        "rules",
        "since_place",
    )

    sweeps: Sweeps
    headline: str
    series: tuple[HistorySeries, ...]
    """The series of every metric at every setting, metric by metric, the headline first."""
    events: tuple[HistoryEvent, ...]
    since_place: int
    """The place of the first sweep whose changes count for the rules of --fail-if."""
    rules: tuple[RuleJudged, ...] = ()

    @property
    def kept(self) -> tuple[SweepTold, ...]:
        """Return the sweeps that are judged, in order."""
        return self.sweeps.kept

    @property
    def false_alarms(self) -> float:
        """Return the share of histories without a change in which one is reported."""
        return FALSE_ALARMS

    @property
    def is_too_short(self) -> bool:
        """Return whether even a large change cannot be separated from chance."""
        return len(self.kept) < FEWEST

    def of(self, metric: str) -> list[HistorySeries]:
        """Return the series of one metric, one for each setting."""
        return [one for one in self.series if one.metric == metric]

    @property
    def metrics(self) -> list[str]:
        """Return the names of the metrics, the headline first."""
        return list(dict.fromkeys(one.metric for one in self.series))


def history(sweeps: Sweeps, rules: Sequence[Rule] = (), since: str = "") -> History:
    """Find the changes of every metric, and judge the rules by the changes from the sweep `since` on.

    Raises SpecError for a rule that cannot be judged, and if no kept sweep has the name `since`.
    """
    first = sweeps.place_of(since, "--since") if since else 0
    series = list(_series(sweeps))
    judged = [place for place, one in enumerate(series) if one.unclaimed is None]
    columns = [_column(series[place]) for place in judged]
    found = changes(np.column_stack(columns) if columns else np.empty((len(sweeps.kept), 0)))
    level = single_level(LEVEL, sum(map(len, found.changes)))
    for cuts, place in zip(found.changes, judged, strict=True):
        series[place] = _judged(series[place], found, cuts, level)
    told = History(sweeps, sweeps.kept[-1].headline, tuple(series), tuple(_events(series, sweeps)), first)
    return replace(told, rules=tuple(_judged_rule(told, rule, level) for rule in rules))


def _series(sweeps: Sweeps) -> Iterator[HistorySeries]:
    """Yield a series for every metric at every setting, not judged yet."""
    kept, names = sweeps.kept, sweeps.swept
    points = [{tuple(point.asked.get(name) for name in names): point for point in sweep.points} for sweep in kept]
    # The newest sweep gives the order of points and metrics. Points and metrics that it lacks come last.
    keys = dict.fromkeys(key for of in reversed(points) for key in of)
    headline = kept[-1].headline
    metrics = dict.fromkeys([headline, *(metric for sweep in reversed(kept) for metric in sweep.metrics)])
    for metric in metrics:
        whys = [sweep.blocked.get(metric) for sweep in kept]
        told = [why for sweep, why in zip(kept, whys, strict=True) if metric in sweep.metrics]
        blocked = told[-1] if told and all(told) else None
        for place, key in enumerate(keys):
            # A sweep that allows no claim on a metric gives no value, unless no sweep allows one.
            runs = [
                of[key].values.get(metric, ()) if key in of and (blocked or not why) else ()
                for of, why in zip(points, whys, strict=True)
            ]
            if not any(runs):
                continue
            positive = all(value > 0 for values in runs for value in values)
            scale: Scale = "log" if declared(metric).scale == "log" and positive else "linear"
            setting = MatchedSetting(
                place, {name: value for name, value in zip(names, key, strict=True) if value is not None}
            )
            means = tuple(_centre(values, scale) if values else None for values in runs)
            yield HistorySeries(metric, setting, means, tuple(map(len, runs)), scale, None, None, blocked)


def _column(series: HistorySeries) -> Array:
    return np.array([_scaled(value, series.scale) for value in series.values], dtype=np.float64)


def _scaled(value: float | None, scale: Scale) -> float:
    if value is None:
        return float("nan")
    return float(np.log(value)) if scale == "log" else value


def _centre(values: Sequence[float], scale: Scale) -> float:
    """Return the mean of values: the geometric mean if their series is judged on the scale "log"."""
    return float(np.exp(np.mean(np.log(values)))) if scale == "log" else float(np.mean(values))


def _told(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _judged(series: HistorySeries, found: FoundChange, cuts: Sequence[Change], level: float) -> HistorySeries:
    """Return the series with its changes (`cuts`), each with its size and an interval of confidence level `level`."""
    edges = [0, *(cut.place for cut in cuts), len(series.values)]
    stretches = [_told(series.values[a:b]) for a, b in pairwise(edges)]
    parts = [np.array([_scaled(value, series.scale) for value in part]) for part in stretches]
    deviation = scatter(parts)[0] if series.n > len(parts) else None
    steps = []
    for place, cut in enumerate(cuts, start=1):
        estimate = change_of(stretches, place, series.scale, level)
        before, after = stretches[place - 1], stretches[place]
        centres = _centre(before, series.scale), _centre(after, series.scale)
        compared = Compared(place, _verdict(estimate, series.scale), *centres, len(before), len(after))
        steps.append(Step(series.metric, series.setting, cut, compared))
    detectable = None if deviation is None else found.detectable(series.n, deviation)
    return replace(series, scatter=deviation, detectable=detectable, steps=tuple(steps))


def _verdict(estimate: Estimate, scale: Scale, detectable: float | None = None) -> Verdict:
    contrast: Literal["ratio", "difference"] = "ratio" if scale == "log" else "difference"
    return Verdict("before", "since", direction_of(estimate, contrast), estimate, contrast, detectable)


def could_find(series: HistorySeries) -> Verdict:
    """Return a verdict that claims nothing, but has the smallest step that would have been found in the series."""
    detectable = series.detectable
    if detectable is not None and series.scale == "log":
        detectable = float(np.exp(detectable))
    return _verdict(Estimate(1.0 if series.scale == "log" else 0.0, None, None, series.n), series.scale, detectable)


def _events(series: Sequence[HistorySeries], sweeps: Sweeps) -> Iterator[HistoryEvent]:
    """Yield the changes grouped by the sweep that may have caused them, in the order of the sweeps."""
    left = [step for one in series for step in one.steps]
    beside, found = changed_beside(sweeps.kept), []
    while left:
        # The metric whose change has the most certain place decides which sweep the event belongs to.
        sure = min(left, key=lambda step: (step.change.latest - step.change.earliest, step.change.p)).change
        mine = [step for step in left if _may_be_one(step.change, sure)]
        left = [step for step in left if step not in mine]
        found.append(HistoryEvent(sure.place, sure.earliest, sure.latest, tuple(mine), beside[sure.place]))
    yield from sorted(found, key=lambda event: event.place)


def _may_be_one(change: Change, sure: Change) -> bool:
    return change.earliest <= sure.place <= change.latest or sure.earliest <= change.place <= sure.latest


def _judged_rule(told: History, rule: Rule, level: float) -> RuleJudged:
    """Judge a rule at every setting by each change from `since` on; if there are none, by the smallest change that
    would have been found.

    Raises SpecError if no sweep has the rule's metric, or if no claim on it is allowed.
    """
    series = told.of(rule.metric)
    if not series:
        raise refuse(rule, "no sweep has such a figure", "see `bufferlab history --json` for the figures there are")
    if series[0].unclaimed:
        is_short = series[0].unclaimed.startswith("window")
        hint = "measure longer windows: --duration 60s" if is_short else "measure whole sweeps, with nothing beside"
        raise refuse(rule, series[0].unclaimed, hint)
    points = []
    for one in series:
        since = [step for step in one.steps if step.change.place >= told.since_place]
        found = [at_setting(rule, one.setting, step.found) for step in since]
        rest = _unchanged(rule, one)
        # Even if a change for the better was found, a change for the worse may have been missed.
        is_needed = rest.outcome == "undecided" and all(point.outcome != "broken" for point in found)
        points += [*found, rest] if is_needed or not found else found
    return RuleJudged(rule, level, tuple(points))


def _unchanged(rule: Rule, series: HistorySeries) -> RuleAtPoint:
    """Judge a rule where no change was found: it holds if a change as large as its limit would have been found."""
    limit = series.detectable
    if limit is None:
        return RuleAtPoint(series.setting, "undecided", None, None, "too few sweeps to find any change")
    if series.scale == "log":
        limit = float(np.expm1(limit))
    elif not declared(rule.metric).is_share:
        mean = abs(_centre(_told(series.values), "linear"))
        limit = limit / mean if mean else (0.0 if limit == 0 else float("inf"))
    if limit > rule.limit:
        change = "further change" if series.steps else "change"
        why = f"no {change} is found, nor would the limit have been"
        return RuleAtPoint(series.setting, "undecided", None, None, why)
    return RuleAtPoint(series.setting, "holds", None, None, "no change is found")
