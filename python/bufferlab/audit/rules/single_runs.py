"""Finds best settings picked from one run each, where the next ones are as near as runs scatter.

The measure is the scatter of the runs' interval lines or, without them, the usual scatter of tpcc-mysql's. Repeated
rows of one setting are compared by Welch's test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev, variance

from bufferlab.audit.case import Case, Finding, RunEvidence
from bufferlab.audit.parsers.result_rows import ResultTable
from bufferlab.audit.parsers.text import Place
from bufferlab.stats.student import quantile_of_t
from bufferlab.units import format_percent

#: Interval lines of the same run scatter by 4 to 12 % on ordinary machines; runs differ by more than their intervals'
#: means.
USUAL_SCATTER = 0.05
_ENOUGH_INTERVALS = 3


@dataclass(frozen=True)
class Throughputs:
    """The throughputs of one setting, a value for each run."""

    name: str
    tpmc: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of its runs."""
        return mean(self.tpmc)


def single_runs(case: Case) -> Iterator[Finding]:
    """Yield one finding for each file of runs, and for each table, whose best is not resolved from the next."""
    for runs in case.runs_by_file.values():
        closed = [(run, log.tpmc) for run in runs for log in run.logs if log.tpmc]
        settings = _grouped([(run.name, tpmc) for run, tpmc in closed])
        place = next((log.tpmc_place for run in runs for log in run.logs if log.tpmc_place), None)
        if place:
            yield from _judge(settings, place, scatter_of([run for run, _ in closed]))
    for table in case.tables():
        # A table with a column of spreads or counts of runs already has what this rule asks for.
        if not {"spread", "n"} & table.roles:
            yield from _judge(_grouped(_rows(table)), table.place, None)


def scatter_of(runs: list[RunEvidence]) -> float | None:
    """Return the largest coefficient of variation of New-Orders per interval line among these runs."""
    series = [[interval.counts[0] for interval in log.intervals] for run in runs for log in run.logs]
    known = [stdev(counts) / mean(counts) for counts in series if len(counts) >= _ENOUGH_INTERVALS and mean(counts)]
    return max(known, default=None)


def _rows(table: ResultTable) -> list[tuple[str, float]]:
    return [(row.setting, number.value) for row in table.rows if (number := row.first("tpmc")) is not None]


def _grouped(rows: list[tuple[str, float]]) -> list[Throughputs]:
    found: dict[str, list[float]] = {}
    for name, tpmc in rows:
        found.setdefault(name, []).append(tpmc)
    return [Throughputs(name, tuple(values)) for name, values in found.items()]


def _judge(settings: list[Throughputs], place: Place, scatter: float | None) -> Iterator[Finding]:
    if len(settings) < 2:
        return
    best = max(settings, key=lambda setting: setting.mean)
    if not best.mean:
        return
    near = [other for other in settings if other is not best and _alike(best, other, scatter)]
    if not near:
        return
    runs = max(len(setting.tpmc) for setting in (best, *near))
    kind = "one run each" if runs == 1 else f"{min(len(s.tpmc) for s in (best, *near))} to {runs} runs each"
    known = (
        f"interval lines scatter by {format_percent(scatter)}"
        if scatter
        else (f"no scatter is given; interval lines alone usually scatter by {format_percent(USUAL_SCATTER)} or more")
    )
    alike = ", ".join(setting.name for setting in settings if setting is best or setting in near)
    listed = ", ".join(f"{other.name} {100 * (other.mean / best.mean - 1):+.1f} %".replace("-", "−") for other in near)
    yield Finding(
        place,
        f"{best.name} has the highest TpmC, {best.mean:.10g} from {kind}; as near as runs scatter: {listed} ({known})",
        f"that {best.name} is best, or that a value came out wrong, is not shown",
        f"not distinguishable: {alike}; repeat each setting 5 times in random order",
        {
            "best": best.name,
            "best_tpmc": best.mean,
            "near": {other.name: other.mean / best.mean - 1 for other in near},
            "scatter": scatter,
            "runs": runs,
        },
    )


def _alike(best: Throughputs, other: Throughputs, scatter: float | None) -> bool:
    """Return whether two settings cannot be told apart: by Welch's test if both were repeated, else by the scatter."""
    if len(best.tpmc) > 1 and len(other.tpmc) > 1:
        errors = [variance(setting.tpmc) / len(setting.tpmc) for setting in (best, other)]
        if not sum(errors):
            return best.mean == other.mean
        df = sum(errors) ** 2 / sum(
            error**2 / (len(setting.tpmc) - 1) for error, setting in zip(errors, (best, other), strict=True)
        )
        return best.mean - other.mean <= quantile_of_t(0.975, df) * sqrt(sum(errors))
    return 1 - other.mean / best.mean <= (scatter if scatter is not None else USUAL_SCATTER)
