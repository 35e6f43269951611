"""The report as data: the content of every format, already in words and numbers, with no markup and no files.

`as_json` makes the one object that `run --json` and `report --json` print.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from bufferlab.chapter.blocks import Banner, Figure, Section, Table
from bufferlab.errors import Failure
from bufferlab.results.page_traces import Verdict
from bufferlab.results.schema import StoredSetting
from bufferlab.results.sweep_checks import Check
from bufferlab.stats.estimate import Estimate

if TYPE_CHECKING:
    from bufferlab.results.store import SweepFolder


Status = Literal["ok", "failed", "interrupted"]
"""How a sweep ended: a run failed; or none did, and points have no runs, or runs that somebody stopped."""


@dataclass(frozen=True)
class Summary:
    """One number about one point, as summary.parquet and --json hold it."""

    point_index: int
    point_label: str
    point_key: str
    metric: str
    statistic: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    unit: str


@dataclass(frozen=True)
class FailedRun:
    """A run that did not end well, for programs."""

    run_id: str
    block: int
    status: str
    failure: Failure


@dataclass(frozen=True)
class GeneratedResult:
    """What was predicted of a point without any run, for programs."""

    metric: str
    mean: Estimate | None
    """None where reads depend on the speed of the run."""
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class PointResult:
    """A point for programs."""

    index: int
    label: str
    swept: dict[str, str]
    settings: dict[str, StoredSetting]
    status: str
    reason: str | None
    failures: tuple[FailedRun, ...]
    summaries: tuple[Summary, ...]
    generated: GeneratedResult | None = None


@dataclass(frozen=True)
class StepResult:
    """A comparison for programs."""

    a: str
    b: str
    metric: str
    contrast: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    direction: str
    verdict: str


def stamped(report: Report, source: str) -> Report:
    """Return the report with the same source under every figure."""

    def block(one: Table | Figure) -> Table | Figure:
        return replace(one, source=source) if isinstance(one, Figure) else one

    sections = tuple(replace(section, blocks=tuple(map(block, section.blocks))) for section in report.sections)
    headline = replace(report.headline, source=source) if report.headline else None
    return replace(report, headline=headline, sections=sections)


@dataclass(frozen=True)
class Report:
    """The content of a report."""

    title: str
    question: str
    answer: str
    facts: tuple[str, ...]
    banners: tuple[Banner, ...]
    headline: Figure | None
    steps: Table | None
    limits: tuple[str, ...]
    sections: tuple[Section, ...]
    checks: tuple[Check, ...]
    status: Status
    is_doubted: bool = False
    """Whether the numbers must not be believed although no check failed."""
    lead: str = ""
    """Id of the table that answers the question, where the steps of one metric do not."""
    points: tuple[PointResult, ...] = field(default=(), repr=False)
    comparisons: tuple[StepResult, ...] = field(default=(), repr=False)


FORMAT_VERSION = 2


def as_json(report: Report, sweep: SweepFolder) -> dict[str, Any]:
    """Return points with summaries, steps with verdicts, and checks.

    Numbers are unrounded; percent is in sentences only.
    """
    return {
        "format_version": FORMAT_VERSION,
        "sweep": str(sweep.path),
        "status": report.status,
        "answer": report.answer,
        "warnings": [banner.text for banner in report.banners],
        "points": [_point(point) for point in report.points],
        "steps": [
            {
                "from": step.a,
                "to": step.b,
                "metric": step.metric,
                step.contrast: step.value,
                "ci_low": step.ci_low,
                "ci_high": step.ci_high,
                "n": step.n,
                "direction": step.direction,
                "verdict": step.verdict,
            }
            for step in report.comparisons
        ],
        "failed_checks": [check.name for check in report.checks if check.status == "failed"],
        "checks": [
            {
                "name": check.name,
                "title": check.title,
                "status": check.status,
                "detail": check.detail,
                "touches": list(check.touches),
            }
            for check in report.checks
        ],
    }


def _point(point: PointResult) -> dict[str, Any]:
    return {
        "label": point.label,
        "swept": point.swept,
        "settings": {name: one.model_dump() for name, one in point.settings.items()},
        "status": point.status,
        "reason": point.reason,
        "failures": [
            {"run_id": run.run_id, "block": run.block, "status": run.status, **run.failure.as_dict()}
            for run in point.failures
        ],
        "summaries": [
            {
                "metric": summary.metric,
                "value": summary.value,
                "ci_low": summary.ci_low,
                "ci_high": summary.ci_high,
                "n": summary.n,
                "unit": summary.unit,
            }
            for summary in point.summaries
            if summary.statistic == "mean"
        ],
        "generated": _generated(point.generated) if point.generated else None,
    }


def _generated(found: GeneratedResult) -> dict[str, Any]:
    mean = found.mean
    return {
        "metric": found.metric,
        "mean": mean.value if mean else None,
        "ci_low": mean.ci_low if mean else None,
        "ci_high": mean.ci_high if mean else None,
        "n": mean.n if mean else 0,
        "verdicts": [one.model_dump() for one in found.verdicts],
    }
