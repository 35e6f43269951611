"""Compares two sides metric by metric: which metrics are the same, differ (and by how much), or are undecided.

Claims form three families: the headline metric; CPU and latencies that the workload does not name; all other metrics.
The intervals of one family hold together at 95 %. This file makes the data,
compare_words.py its sentences, and compare_page.py the answer that every format shows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from bufferlab.chapter import known_scatter
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.errors import Problem, SpecError
from bufferlab.report.comparison.fail_if import Rule, RuleJudged, judge, refuse
from bufferlab.report.comparison.guard import differing_settings, objections, require_same_source, warnings
from bufferlab.report.comparison.sides import FigureAt, MatchedPoint, Sides
from bufferlab.results.metrics import OF_LATENCIES, phase_of, qualified
from bufferlab.stats.comparison import Compared, Match, Method, compare, method_for, single_level
from bufferlab.stats.fit import Cell

LEVEL = 0.95
_MOST_NAMED = 8
"""The maximum number of metrics that an error lists, as a hint, if a rule names a metric that a side lacks."""
Outcome = Literal["same", "different", "not_distinguishable", "not_claimed"]
#: The metrics that are compared for each phase, per row or per transaction.
_OF_PHASES = ("reads", "read_bytes", "write_bytes", "pages_created", "cpu_us")
#: Metrics that are compared if both sides have them, even if the workload does not name them.
_OF_THE_HOST = ("server_cpu_us_per_transaction", *OF_LATENCIES)


@dataclass(frozen=True)
class MetricCompared(FigureAt):
    """One metric at one matched point."""

    PRINTED: ClassVar = ("settings", "metric", "unit", "outcome", "reason", "found", "level")

    found: Compared | None
    """The comparison of the metric at this point; None if a side has no value of it."""
    level: float
    """The confidence level of this single interval, chosen so that its family holds together at LEVEL."""
    unclaimed: str | None
    """The reason why no claim on this metric is allowed, regardless of its interval; None if there is none."""

    @property
    def outcome(self) -> Outcome:
        """Return the kind of claim that the comparison allows on the metric."""
        if self.found is None or self.found.verdict.direction == "no_interval":
            return "not_claimed"
        if self.found.verdict.direction == "identical":
            return "same"
        if self.unclaimed:
            return "not_claimed"
        return "different" if self.found.verdict.resolved else "not_distinguishable"

    @property
    def reason(self) -> str | None:
        """Return why no claim is made; None if one is made."""
        if self.outcome != "not_claimed":
            return None
        if self.found is None:
            return "a side has no such figure"
        return self.unclaimed or self.found.verdict.estimate.note


@dataclass(frozen=True)
class SidesCompared:
    """The result of `compare`, as data."""

    PRINTED: ClassVar = ("headline", "method", "sides", "differing_settings", "forced", "rules", "figures")

    sides: Sides
    method: Method
    headline: str
    figures: tuple[MetricCompared, ...]
    """The comparisons of the headline metric, then of each further one, each in the order of the matched points."""
    warnings: tuple[str, ...]
    forced: tuple[Problem, ...]
    """The objections to the comparison that --force overruled."""
    rules: tuple[RuleJudged, ...] = ()
    """The judged rules of --fail-if."""

    def of(self, metric: str) -> list[MetricCompared]:
        """Return the comparisons of one metric, one for each matched point."""
        return [figure for figure in self.figures if figure.metric == metric]

    @property
    def differing_settings(self) -> dict[str, tuple[str, str]]:
        """Return the settings that differ: setting -> A's value, B's value."""
        return differing_settings(self.sides)

    @property
    def metrics(self) -> list[str]:
        """Return the names of the metrics compared, the headline first."""
        return list(dict.fromkeys(figure.metric for figure in self.figures))


def compare_sides(sides: Sides, *, force: bool = False, rules: Sequence[Rule] = ()) -> SidesCompared:
    """Judge every metric that the workload compares, and the rules; return the result.

    Raises SpecError if there are objections to the comparison (unless forced), if only one side was predicted, and for
    a rule that cannot be judged.
    """
    require_same_source(sides)
    against = objections(sides)
    if against and not force:
        raise SpecError.of(against)
    metrics = _metrics(sides)
    # Equal seeds give equal transactions only with the same workload on the same data.
    method: Method = "welch" if against else method_for([_seeds(match) for match in sides.matched])
    blocked = {metric: _blocked(sides, metric) for metric in metrics}
    present = {metric: [match for match in sides.matched if _has(match, metric)] for metric in metrics}
    families = {metric: _family(sides, metric) for metric in metrics}
    figures: list[MetricCompared] = []
    for metric in metrics:
        together = [one for one in metrics if families[one] == families[metric] and blocked[one] is None]
        claims = max(len(present[metric]), sum(len(present[one]) for one in together))
        level = single_level(LEVEL, claims)
        found = _compared(sides, metric, method, level)
        figures += [MetricCompared(metric, match, one, level, blocked[metric]) for match, one in found]
    judged = tuple(_judged(sides, rules, method))
    return SidesCompared(sides, method, metrics[0], tuple(figures), tuple(warnings(sides)), tuple(against), judged)


def _compared(sides: Sides, metric: str, method: Method, level: float) -> list[tuple[MatchedPoint, Compared | None]]:
    """Return the comparison of one metric at every matched point; None for points at which a side lacks the value."""
    judged = compare(
        [_match(match, metric) for match in sides.matched if _has(match, metric)],
        method=method,
        level=level,
        scale=sides.a.metric(metric).scale,
        context=_context(sides, metric),
        known_scatter=_scatter(sides, metric),
    )
    by_place = {found.name: found for found in judged.compared}
    return [(match, by_place.get(match.place)) for match in sides.matched]


def _scatter(sides: Sides, metric: str) -> dict[Hashable, float]:
    """Return the known scatter of one run's value, by side and matched point.

    The result is {} for values of phases, and for sweeps of several hosts: their scatter is not known.
    """
    if phase_of(metric)[0] or sides.a.across_hosts or sides.b.across_hosts:
        return {}
    runs = {
        (name, match.place): point.ok for match in sides.matched for name, point in zip("ab", match.both, strict=True)
    }
    return known_scatter.deviations(runs, sides.a.metric(metric))


def _family(sides: Sides, metric: str) -> str:
    """Return the family of claims that a metric belongs to."""
    if metric == sides.a.headline:
        return "headline"
    return "host" if metric in _OF_THE_HOST and metric not in sides.a.compared else "others"


def _judged(sides: Sides, rules: Sequence[Rule], method: Method) -> Iterator[RuleJudged]:
    for rule in rules:
        if not any(_has(match, rule.metric) for match in sides.matched):
            there = [metric for metric in _metrics(sides) if any(_has(match, metric) for match in sides.matched)]
            raise refuse(rule, "not both sides have this figure", f"both have {', '.join(there[:_MOST_NAMED])}")
        if why := _blocked(sides, rule.metric):
            raise refuse(rule, why, "measure longer windows: --duration 60s")
    level = single_level(LEVEL, len(rules) * len(sides.matched))
    yield from (judge(rule, level, _compared(sides, rule.metric, method, level)) for rule in rules)


def _metrics(sides: Sides) -> list[str]:
    """Return the metrics that are compared (`told_metrics`), with those of the phases that both sides have."""
    phases = [name for name in sides.a.phases if name in sides.b.phases]
    return told_metrics(sides.a, phases, lambda metric: any(_has(match, metric) for match in sides.matched))


def told_metrics(analysis: Analysis, phases: Iterable[str], has: Callable[[str], bool]) -> list[str]:
    """Return the metrics that the workload compares, those of _OF_THE_HOST that runs have, and some of each phase.

    `has` returns whether the runs have a metric.
    """
    metrics = [analysis.headline, *analysis.compared, *filter(has, _OF_THE_HOST)]
    for phase in phases:
        # Statements that return no rows, such as inserts, are counted per transaction.
        work = "row" if has(qualified(phase, "reads_per_row")) else "transaction"
        metrics += [qualified(phase, f"{name}_per_{work}") for name in _OF_PHASES]
        metrics.append(qualified(phase, f"{work}s_per_s"))
    return list(dict.fromkeys(metrics))


def _has(match: MatchedPoint, metric: str) -> bool:
    return all(point.values(metric) for point in match.both)


def _match(match: MatchedPoint, metric: str) -> Match:
    """Return the values of both sides at a matched point, each with its run's seed."""
    return Match(match.place, _keyed(match.a, metric), _keyed(match.b, metric))


def _keyed(point: PointRuns, metric: str) -> tuple[tuple[int, float], ...]:
    seeds: dict[Hashable, int] = {run.run.block: run.run.seed for run in point.ok}
    return tuple((seeds[block], value) for _, block, value in point.values(metric))


def _seeds(match: MatchedPoint) -> Match:
    """Return the seeds of both sides' runs at a matched point, in the form of `_match`, with 0 for each value."""
    a, b = (tuple((run.run.seed, 0.0) for run in point.ok) for point in match.both)
    return Match(match.place, a, b)


def _context(sides: Sides, metric: str) -> list[Cell]:
    """Return the values at all other points if points of one sweep are compared: these values also show the sweep's
    noise."""
    if not sides.one_sweep:
        return []
    taken = {point.index for match in sides.matched for point in match.both}
    return [
        (("other", point.index), seed, value)
        for point in sides.a.points
        if point.index not in taken
        for seed, value in _keyed(point, metric)
    ]


def _blocked(sides: Sides, metric: str) -> str | None:
    """Return why no claim on a metric is allowed, by the rules of each sweep's own report; else None."""
    analyses: list[Analysis] = sorted([sides.a, sides.b], key=lambda analysis: analysis.shortest_window_s or 0.0)
    return next(filter(None, (analysis.claim_blocked(metric) for analysis in analyses)), None)
