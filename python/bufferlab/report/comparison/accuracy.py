"""Compares a predicted sweep with a measured one: the model's error at each point, and whether it would have led to a
wrong choice."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any, ClassVar, Literal

from bufferlab import versions
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.errors import SpecError
from bufferlab.registry import declared
from bufferlab.report.comparison.guard import require_prediction
from bufferlab.report.comparison.sides import MatchedPoint, Sides, asked_of, of_two_folders
from bufferlab.report.comparison.touched_pages import Touched, touched
from bufferlab.report.comparison.written_pages import PointWrites, written
from bufferlab.results.metrics import Work
from bufferlab.results.page_traces import Prediction
from bufferlab.results.schema import Run
from bufferlab.results.store import PREDICTED_FROM, SweepFolder
from bufferlab.stats.estimate import Estimate

_LONGER = 1.25
"""Two warm-ups, or two windows, differ if one has more than 1.25 times the transactions of the other."""
_USUAL = {"lru_scan_depth": ["100"], "old_blocks_time": ["0"]}
"""The values of settings that an entry of development_cells.toml leaves out."""
_DECIDED_ELSEWHERE = {"server", "warehouses"}


@dataclass(frozen=True)
class PointAccuracy:
    """A point that was measured and predicted; reads are per unit of work."""

    ALSO_PRINTED: ClassVar = ("error", "lru_error", "inside")

    match: MatchedPoint
    label: str
    prediction: Prediction
    measured: Estimate
    predicted: float | None
    """The predicted reads; None if they depend on the speed of the run."""
    lru: float
    measured_frames: float | None
    """The number of the pool's frames that the measured server reported, as a mean over the runs; None if no run has
    it."""
    in_development: bool
    """Whether development_cells.toml lists the point: its measured reads were known while the models were developed."""

    @property
    def error(self) -> float | None:
        """Return how far the prediction is from the measured mean; 0.01 is 1 %."""
        return None if self.predicted is None else _error(self.predicted, self.measured.value)

    @property
    def lru_error(self) -> float | None:
        """Return the error of LRU with a pool of the nominal size; 0.01 is 1 %."""
        return _error(self.lru, self.measured.value)

    @property
    def inside(self) -> bool | None:
        """Return whether the prediction lies in the measured interval; None without an interval."""
        low, high = self.measured.ci_low, self.measured.ci_high
        if self.predicted is None or low is None or high is None:
            return None
        return low <= self.predicted <= high


@dataclass(frozen=True)
class ErrorSummary:
    """The errors of several points."""

    ALSO_PRINTED: ClassVar = ("times_better",)

    name: Literal["all", "held out", "development"]
    n: int
    mean: float
    """The mean of the model's errors without their signs; 0.01 is 1 %."""
    largest: float
    """The model's error that is farthest from zero, with its sign."""
    lru_mean: float
    lru_largest: float

    @property
    def times_better(self) -> float | None:
        """Return LRU's mean |error| over the model's."""
        return self.lru_mean / self.mean if self.mean else None


@dataclass(frozen=True)
class StepAccuracy:
    """The step between two neighbouring points."""

    ALSO_PRINTED: ClassVar = ("right",)

    a: str
    b: str
    measured: Literal["falls", "rises", "not resolved"]
    predicted: Literal["falls", "rises", "stays"]

    @property
    def right(self) -> bool | None:
        """Return whether the model has the step's sign; None if the measured sweep does not resolve it."""
        return None if self.measured == "not resolved" else self.measured == self.predicted


@dataclass(frozen=True)
class Stretches:
    """The shortest and longest warm-up, or window, in transactions: of the predicted runs, and of the measured runs.

    A run that was predicted from a trace has the lengths of the traced run.
    """

    name: Literal["warm-up", "window"]
    predicted: tuple[int, int]
    measured: tuple[int, int]
    differ: bool
    """Whether the lengths differ to such an extent that one side reads pages for the first time within its window,
    which the other side read before its window."""


@dataclass(frozen=True)
class Accuracy:
    """The result of `accuracy`, as data."""

    ALSO_PRINTED: ClassVar = ("unit", "chosen_label", "best_label", "regret")

    sides: Sides
    metric: str
    points: tuple[PointAccuracy, ...]
    steps: tuple[StepAccuracy, ...]
    summaries: tuple[ErrorSummary, ...]
    stretches: tuple[Stretches, ...]
    touched: tuple[Touched, ...]
    """The touched pages by table and index, for points with both a measured run's page trace and a generated run."""
    writes: tuple[PointWrites, ...]
    """Measured and predicted writes of each point; empty for a model without writes."""
    work: Work
    """The unit of work by which reads and writes are divided."""

    @property
    def unit(self) -> str:
        """Return the unit of reads."""
        return declared(self.metric).unit

    @property
    def chosen(self) -> PointAccuracy | None:
        """Return the point with the fewest predicted reads, which the model recommends; None without a choice."""
        told = [(point.predicted, point) for point in self.points if point.predicted is not None]
        return min(told, key=lambda one: one[0])[1] if len(told) > 1 else None

    @property
    def best(self) -> PointAccuracy:
        """Return the point with the fewest measured reads."""
        return min(self.points, key=lambda point: point.measured.value)

    @property
    def chosen_label(self) -> str | None:
        """Return the label of the chosen point."""
        return self.chosen.label if self.chosen else None

    @property
    def best_label(self) -> str:
        """Return the label of the best point."""
        return self.best.label

    @property
    def regret(self) -> float | None:
        """Return by what share the chosen point reads more than the best one; None if nothing can be chosen."""
        return _error(self.chosen.measured.value, self.best.measured.value) if self.chosen else None


def accuracy(measured: SweepFolder, predicted: SweepFolder) -> Accuracy:
    """Match the points of both sweeps, judge each prediction, and return the result.

    The sweeps may be given in either order.


    Raises SpecError unless one sweep was measured and the other predicted, with the same settings and a common point
    that has reads on both sides. Raises DataFileError for damaged samples or a damaged page trace.
    """
    if PREDICTED_FROM in measured.plan and PREDICTED_FROM not in predicted.plan:
        measured, predicted = predicted, measured
    sides = of_two_folders(measured, predicted)
    require_prediction(sides)
    unit = sides.b.unit_of_work
    if unit not in _predictions(sides.matched[0].b)[0].work:
        unit = "transaction"
    metric = f"reads_per_{unit}"
    points = tuple(_points(sides, metric, unit))
    if not points:
        what = f"no point has {metric.replace('_', ' ')} on both sides"
        raise SpecError(what, str(predicted.path), "look at the reports of both sweeps for the reason")
    steps, summaries = tuple(_steps(sides.a, metric, points)), tuple(_summaries(points))
    return Accuracy(
        sides=sides,
        metric=metric,
        points=points,
        steps=steps,
        summaries=summaries,
        stretches=tuple(_stretches(points)),
        touched=tuple(touched(sides.matched)),
        writes=tuple(written(sides, unit)),
        work=unit,
    )


def _stretches(points: Sequence[PointAccuracy]) -> Iterable[Stretches]:
    """Yield the lengths of warm-ups and of windows, for those that both sides record."""
    of: dict[Literal["warm-up", "window"], Callable[[Run], int | None]] = {
        "warm-up": lambda run: run.warm_up.transactions if run.warm_up else None,
        "window": lambda run: run.measured.transactions if run.measured else None,
    }
    for name, transactions in of.items():
        predicted, measured, differ = [], [], False
        for point in points:
            sides = [[count for one in side.ok if (count := transactions(one.run)) is not None]
                     for side in (point.match.b, point.match.a)]  # fmt: skip
            if all(sides):
                predicted += sides[0]
                measured += sides[1]
                differ |= min(sides[1]) * _LONGER < min(sides[0]) or max(sides[1]) > max(sides[0]) * _LONGER
        if predicted:
            yield Stretches(name, (min(predicted), max(predicted)), (min(measured), max(measured)), differ)


def _points(sides: Sides, metric: str, unit: Work) -> Iterable[PointAccuracy]:
    fit = sides.a.fit(metric)
    for match in sides.matched:
        mean = fit.mean(match.a.index) if fit and match.a.index in fit.points else None
        told = _predictions(match.b)
        if mean is None or not told:
            continue
        run, one = match.a.ok[0].run, _with_all_verdicts(told)
        reads = [each.found.reads / each.work[unit] for each in told if each.found]
        frames = [value for of in match.a.ok if (value := of.window.level("pool_frames").value) is not None]
        yield PointAccuracy(
            match,
            sides.a.name_of(match.a),
            one,
            mean,
            fmean(reads) if len(reads) == len(told) else None,
            fmean(each.lru.reads / each.work[unit] for each in told),
            sum(frames) / len(frames) if frames else None,
            was_seen(
                run.engine,
                run.engine_version or "",
                asked_of(match.a),
                frozenset({*match.a.swept, *match.b.swept}),
                str(run.workload["name"]),
                of_generated=one.generated is not None,
            ),
        )


def _with_all_verdicts(told: Sequence[Prediction]) -> Prediction:
    """Return the first of a point's predictions, with the verdicts of all of them; verdicts of one name appear once."""
    verdicts = {verdict.name: verdict for one in reversed(told) for verdict in one.verdicts}
    return told[0].model_copy(update={"verdicts": list(verdicts.values())})


def _predictions(point: PointRuns) -> list[Prediction]:
    return [run.run.prediction for run in point.ok if run.run.prediction]


def _steps(analysis: Analysis, metric: str, points: Iterable[PointAccuracy]) -> Iterable[StepAccuracy]:
    by_index = {point.match.a.index: point for point in points}
    for a, b in analysis.steps():
        first, second = by_index.get(a.index), by_index.get(b.index)
        if first is None or second is None or first.predicted is None or second.predicted is None:
            continue
        verdict = analysis.verdict(metric, a.index, b.index)
        change = second.measured.value - first.measured.value
        resolved = verdict is not None and verdict.resolved and not analysis.claim_blocked(metric)
        yield StepAccuracy(
            first.label,
            second.label,
            ("falls" if change < 0 else "rises") if resolved else "not resolved",
            _way(first.predicted, second.predicted),
        )


def _way(first: float, second: float) -> Literal["falls", "rises", "stays"]:
    if first == second:
        return "stays"
    return "falls" if second < first else "rises"


def _summaries(points: Iterable[PointAccuracy]) -> Iterable[ErrorSummary]:
    told = [point for point in points if point.error is not None]
    parts: list[tuple[Literal["all", "held out", "development"], list[PointAccuracy]]] = [
        ("all", told),
        ("held out", [point for point in told if not point.in_development]),
        ("development", [point for point in told if point.in_development]),
    ]
    for name, of in parts:
        if of and (name == "all" or len(of) < len(told)):
            errors, lru = [point.error or 0.0 for point in of], [point.lru_error or 0.0 for point in of]
            yield ErrorSummary(name, len(of), _mean(errors), max(errors, key=abs), _mean(lru), max(lru, key=abs))


def _mean(errors: list[float]) -> float:
    return sum(map(abs, errors)) / len(errors)


def _error(value: float, reference: float) -> float | None:
    return value / reference - 1 if reference else None


@cache
def _cells() -> list[dict[str, Any]]:
    """Return the entries of development_cells.toml: the points whose measurements the models' developers had seen.

    Each combination of the values in an entry's lists was seen.
    """
    text = resources.files("bufferlab.models").joinpath("development_cells.toml").read_text(encoding="utf-8")
    cells: list[dict[str, Any]] = tomllib.loads(text)["cell"]
    return cells


def was_seen(
    engine: str,
    engine_version: str,
    asked: Mapping[str, str],
    swept: frozenset[str],
    workload: str,
    *,
    of_generated: bool = False,
) -> bool:
    """Return whether the models' developers had seen the measurement of a point (development_cells.toml).

    `asked` has all settings of the point; `swept` names those that the sweep varied. Generated accesses
    (`of_generated`) have their own entries, apart from those of buffer managers' models.
    """
    return any(
        cell.get("of_generated", False) == of_generated
        and (cell["engine"], cell["workload"], str(cell["warehouses"])) == (engine, workload, asked.get("warehouses"))
        and versions.has(cell["engine_version"], engine, engine_version)
        and all(
            asked.get(name) in [str(value) for value in cell["swept"].get(name, _USUAL.get(name, []))]
            for name in (swept | cell["swept"].keys()) - _DECIDED_ELSEWHERE
        )
        for cell in _cells()
    )
