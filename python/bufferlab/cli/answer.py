"""A sweep's answer: report files beside the samples, and on standard output a table or one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bufferlab.cli.output import print_json, say
from bufferlab.results.store import SweepFolder

if TYPE_CHECKING:
    from bufferlab.report.model import Report

Form = Literal["html", "markdown"]
FORMS: tuple[Form, ...] = ("html", "markdown")


def show_answer(folder: SweepFolder, as_json: bool, forms: Sequence[Form] = FORMS) -> None:
    """Build the report, write its files, and print the answer."""
    from bufferlab import report

    built = report.build(folder)
    written = [_write(folder, built, form) for form in forms]
    if as_json:
        print_json(_document(folder, built))
    else:
        print(report.terminal_table(built))
        say("\n".join(f"written: {path}" for path in written))


def _write(folder: SweepFolder, built: Report, form: Form) -> Path:
    from bufferlab import report

    return report.write_html(folder, built) if form == "html" else report.write_markdown(folder, built)


def _document(folder: SweepFolder, built: Report) -> dict[str, Any]:
    """What `run --json` promises: the folder's path, the points with their summaries, the steps, the checks."""
    return {
        "sweep": str(folder.path),
        "experiment": folder.experiment,
        "status": built.status,
        "answer": built.answer,
        "points": [
            {
                "label": point.label,
                "swept": point.swept,
                "knobs_actual": point.knobs_actual,
                "status": point.status,
                "reason": point.reason,
                "summaries": [
                    {name: getattr(summary, name) for name in ("metric", "value", "ci_low", "ci_high", "n", "unit")}
                    for summary in point.summaries
                    if summary.statistic == "mean"
                ],
            }
            for point in built.points
        ],
        "steps": [
            {
                "from": step.a,
                "to": step.b,
                "metric": step.metric,
                step.contrast: step.value,
                "ci_low": step.ci_low,
                "ci_high": step.ci_high,
                "n": step.n,
                "verdict": step.verdict,
            }
            for step in built.comparisons
        ],
        "checks": [asdict(check) for check in built.checks],
    }
