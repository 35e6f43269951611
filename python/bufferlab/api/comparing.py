"""Compares two sweeps, or two settings of one, as `bufferlab compare` does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from bufferlab.api.sweep import Sweep
from bufferlab.errors import SpecError
from bufferlab.registry import declared, open_sweep
from bufferlab.report.comparison.compare_metrics import MetricCompared, SidesCompared, compare_sides
from bufferlab.report.comparison.compare_page import as_report
from bufferlab.report.comparison.fail_if import parse
from bufferlab.report.comparison.sides import of_one_folder, of_two_folders
from bufferlab.report.document import Report
from bufferlab.results.store import SweepFolder

_FIGURES: dict[str, Any] = {
    **dict.fromkeys(("setting", "metric", "title", "unit", "outcome", "reason"), pl.String),
    **dict.fromkeys(("a", "b"), pl.Float64),
    **dict.fromkeys(("n_a", "n_b"), pl.Int32),
    "contrast": pl.String,
    **dict.fromkeys(("value", "ci_low", "ci_high", "level", "smallest_detectable"), pl.Float64),
}
_RULES: dict[str, Any] = {
    **dict.fromkeys(("setting", "rule", "outcome"), pl.String),
    **dict.fromkeys(("low", "high"), pl.Float64),
    "reason": pl.String,
}


class Comparison:
    """A comparison of two sides: two sweeps, or two settings of one. `figures` has the numbers, `answer` a sentence."""

    def __init__(self, compared: SidesCompared) -> None:
        self._compared = compared

    def __repr__(self) -> str:
        """Return the answer in angle brackets, after the word Comparison."""
        return f"<Comparison: {self.answer}>"

    @cached_property
    def _answer(self) -> Report:
        return as_report(self._compared)

    @property
    def answer(self) -> str:
        """Return the sentence on the headline metric: different, the same, not distinguishable, or no claim."""
        return self._answer.answer

    @property
    def warnings(self) -> list[str]:
        """Return the warnings that a reader should know before believing the comparison, as sentences."""
        return self._answer.warnings

    @cached_property
    def rules(self) -> pl.DataFrame:
        """Return a row for each rule of `fail_if` at each matched setting: "broken", "holds" or "undecided".

        `low` and `high` are the ends of the interval of the change in the bad direction, as shares: 0.05 is 5 %.
        """
        rows = [
            (
                point.setting.label,
                judged.rule.text,
                point.outcome,
                _finite(point.low),
                _finite(point.high),
                point.reason,
            )
            for judged in self._compared.rules
            for point in judged.points
        ]
        return pl.DataFrame(rows, schema=_RULES, orient="row")

    @cached_property
    def figures(self) -> pl.DataFrame:
        """Return a row for each metric at each matched setting.

        `outcome` is "different", "same", "not_distinguishable" or "not_claimed", the last with its `reason`. `value` is
        B divided by A if `contrast` is "ratio", and B minus A if it is "difference". `smallest_detectable` is the
        smallest change that four such comparisons of five would have found.
        """
        by_setting = sorted(self._compared.figures, key=lambda figure: figure.setting.place)
        return pl.DataFrame(map(_row, by_setting), schema=_FIGURES, orient="row")


def _row(figure: MetricCompared) -> tuple[Any, ...]:
    what = (figure.setting.label, figure.metric, declared(figure.metric).label, figure.unit, figure.outcome)
    found = figure.found
    if found is None:
        return (*what, figure.reason, None, None, 0, 0, None, None, None, None, figure.level, None)
    verdict, estimate = found.verdict, found.verdict.estimate
    ends = (estimate.value, _finite(estimate.ci_low), _finite(estimate.ci_high), figure.level)
    sides = (found.value_a, found.value_b, found.n_a, found.n_b)
    return (*what, figure.reason, *sides, verdict.contrast, *ends, _finite(verdict.detectable))


def _finite(number: float | None) -> float | None:
    """Return a number; None for None, and for an infinite end of an interval."""
    return number if number is not None and math.isfinite(number) else None


def compare(
    a: Sweep | Path | str,
    b: Sweep | Path | str | None = None,
    *,
    between: tuple[str, str] | None = None,
    force: bool = False,
    fail_if: Sequence[str] = (),
) -> Comparison:
    """Compare sweep `b` with sweep `a`, or two settings of `a`: between=("pool_size=10%", "pool_size=20%").

    `fail_if` has rules such as "reads_per_new_order worse 5%". Raises a BufferlabError if the comparison would be
    meaningless; `force` overrules this, unless only one side was predicted. Also raises one for a folder that cannot be
    read, a setting that does not exist, a rule that cannot be judged, and unless exactly one of `b` and `between` is
    given.
    """
    if (b is None) == (between is None):
        raise SpecError("compare takes two sweeps, or one and between", "bl.compare", "give b, or between=(X, Y)")
    first = _folder(a)
    if between is not None:
        sides = of_one_folder(first, *between)
    else:
        assert b is not None
        sides = of_two_folders(first, _folder(b))
    rules = [parse(rule, sides.a.unit_of_work) for rule in fail_if]
    return Comparison(compare_sides(sides, force=force, rules=rules))


def _folder(side: Sweep | Path | str) -> SweepFolder:
    return open_sweep(side.path if isinstance(side, Sweep) else side)
