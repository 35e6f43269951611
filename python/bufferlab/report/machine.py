"""The report for programs: the one object that `run --json` and `report --json` print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bufferlab.report.document import PointResult, Report

if TYPE_CHECKING:
    from bufferlab.results.store import SweepFolder

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
        "checks": [
            {"name": check.name, "title": check.title, "status": check.status, "detail": check.detail}
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
    }
