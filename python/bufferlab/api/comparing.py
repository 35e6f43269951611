"""Compares two sweeps, or two settings of one, as `bufferlab compare` does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from bufferlab.api.sweep import Sweep
from bufferlab.errors import SpecError
from bufferlab.registry import declared, open_sweep
from bufferlab.report.compare_metrics import SidesCompared, compare_sides
from bufferlab.report.compare_page import as_json
from bufferlab.report.compare_rules import parse
from bufferlab.report.compare_sides import of_one_folder, of_two_folders
from bufferlab.results.store import SweepFolder

_FIGURES: dict[str, Any] = {
    "setting": pl.String,
    "metric": pl.String,
    "title": pl.String,
    "unit": pl.String,
    "outcome": pl.String,
    "reason": pl.String,
    "a": pl.Float64,
    "b": pl.Float64,
    "n_a": pl.Int32,
    "n_b": pl.Int32,
    "contrast": pl.String,
    "value": pl.Float64,
    "ci_low": pl.Float64,
    "ci_high": pl.Float64,
    "level": pl.Float64,
    "smallest_detectable": pl.Float64,
}


_RULES: dict[str, Any] = {
    "setting": pl.String,
    "rule": pl.String,
    "outcome": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "reason": pl.String,
}


class Comparison:
    """Two sides, compared. `figures` has the numbers, `answer` the sentence."""

    def __init__(self, compared: SidesCompared) -> None:
        self._compared = compared

    def __repr__(self) -> str:
        """Return the answer."""
        return f"<Comparison: {self.answer}>"

    @cached_property
    def _document(self) -> dict[str, Any]:
        return as_json(self._compared)

    @property
    def answer(self) -> str:
        """Return the sentence about the headline figure: different, the same, not distinguishable, or no claim."""
        return str(self._document["answer"])

    @property
    def warnings(self) -> list[str]:
        """Return what a reader must know before believing the comparison."""
        return list(self._document["warnings"])

    @cached_property
    def rules(self) -> pl.DataFrame:
        """Return a row for each rule of `fail_if` at each matched setting: "broken", "holds" or "undecided".

        `low` and `high` are the interval of the change towards bad, as shares: 0.05 is 5 %.
        """
        matched = self._compared.sides.matched
        rows = [
            {"setting": match.label, "rule": rule["rule"], **point}
            for rule in self._document["rules"]
            for match, point in zip(matched, rule["points"], strict=True)
        ]
        return pl.DataFrame(rows, schema=_RULES)

    @cached_property
    def figures(self) -> pl.DataFrame:
        """Return a row for each figure at each matched setting.

        `outcome` is "different", "same", "not_distinguishable" or "not_claimed", the last with its `reason`. `value`
        is B over A where `contrast` is "ratio", B minus A where it is "difference"; `smallest_detectable` is the
        change that four such comparisons of five would have found.
        """
        matched = zip(self._compared.sides.matched, self._document["points"], strict=True)
        rows = [
            {"setting": match.label, "title": declared(figure["metric"]).label, **figure}
            for match, point in matched
            for figure in point["figures"]
        ]
        return pl.DataFrame(rows, schema=_FIGURES)


def compare(
    a: Sweep | Path | str,
    b: Sweep | Path | str | None = None,
    *,
    between: tuple[str, str] | None = None,
    force: bool = False,
    fail_if: Sequence[str] = (),
) -> Comparison:
    """Compare sweep `b` with sweep `a`, or two settings of `a`: between=("pool_size=10%", "pool_size=20%").

    `fail_if` holds rules such as "reads_per_new_order worse 5%". Raises a BufferlabError where the comparison would
    mean nothing, which `force` overrules, and for a rule that cannot be judged.
    """
    rules = [parse(rule) for rule in fail_if]
    if (b is None) == (between is None):
        raise SpecError("compare takes two sweeps, or one and between", "bl.compare", "give b, or between=(X, Y)")
    first = _folder(a)
    if between is not None:
        sides = of_one_folder(first, *between)
    else:
        assert b is not None
        sides = of_two_folders(first, _folder(b))
    return Comparison(compare_sides(sides, force=force, rules=rules))


def _folder(side: Sweep | Path | str) -> SweepFolder:
    return open_sweep(side.path if isinstance(side, Sweep) else side)
