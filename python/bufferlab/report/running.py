"""Makes the preliminary answer of a sweep that still runs: the predictions, the means so far, the number of runs still
to come.

It is made between two runs, so it must take little time: it draws no figure, and reads each run only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Section, Table
from bufferlab.report.answer import answer
from bufferlab.report.build import question
from bufferlab.report.chapters.without_a_run import known_error, without_run
from bufferlab.report.document import Report
from bufferlab.report.html import render_html
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.results.store import RunRecord, SweepFolder
from bufferlab.units import format_duration

PAGE = "report.html"
_ERROR = "Known error"
_INTRO = (
    "Intervals of predictions tell how runs with other seeds differ, not how far the rules are off. The known error is "
    "that of this server's cells in docs/prediction.md, in the mean and at most."
)


class Running:
    """The maker of the preliminary answers of one running sweep. It keeps the values of the runs that it has read."""

    def __init__(self) -> None:
        self._read: dict[str, MeasuredRun | None] = {}

    def answer(self, sweep: SweepFolder, runs: Sequence[RunRecord], seconds_left: float) -> Report:
        """Return the answer from the runs so far; `seconds_left` is the estimated rest of the sweep."""
        for record in runs:
            if record.run_id not in self._read:
                self._read[record.run_id] = record.measured() if record.ok else None
        return _report(Analysis.of(sweep, [(record, self._read[record.run_id]) for record in runs]), seconds_left)


def write_page(answer: Report, sweep: SweepFolder, silence_s: float) -> None:
    """Write the page of a running sweep as report.html. It refreshes itself until the report replaces it.

    A page cannot know that its sweep was killed. So it says when it was written, and after how many seconds without a
    new page (`silence_s`) the sweep has probably died.
    """
    written = f"written {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    footer = (
        f"This page refreshes itself while the sweep runs. If it was written more than {ceil(silence_s / 60)} min ago, "
        f"the sweep was probably stopped: bufferlab report {sweep.path}"
    )
    sweep.write_derived(PAGE, render_html(replace(answer, facts=(*answer.facts, written)), footer=footer))


def _report(analysis: Analysis, seconds_left: float) -> Report:
    done = sum(map(len, (point.records for point in analysis.points)))
    planned, more = len(analysis.sweep.planned_cells), " or more" if _is_open(analysis) else ""
    table = _table(analysis)
    return Report(
        title=analysis.sweep.experiment,
        question=question(analysis.sweep),
        answer=answer(analysis),
        facts=("running", f"{done} of {planned}{more} runs", f"about {format_duration(seconds_left)} left"),
        sections=(Section("so-far", "So far", _INTRO, (table,)),),
        status="running",
        lead=table.id,
        parts=("untitled", "captions"),
    )


def _is_open(analysis: Analysis) -> bool:
    """Return whether the sweep has not decided yet how many blocks it needs."""
    stop = analysis.sweep.stop
    return stop is not None and stop.enough is None


def _table(analysis: Analysis) -> Table:
    """Return the table with a row for each point: its prediction, its mean so far, the number of its runs done."""
    found = without_run(analysis)
    metric = analysis.metric(found.metric if found else analysis.headline)
    error = known_error(analysis, found) if found else ""
    planned = [point for point, _ in analysis.sweep.planned_cells]

    def row(point: PointRuns) -> tuple[str, ...]:
        mean = analysis.mean(metric.name, point)
        predicted = found.means.get(point.index) if found else None
        doubts = found.doubts(point) if found and point.index in found.verdicts else ""
        return (
            analysis.name_of(point),
            words.cell(metric, predicted) if predicted else words.NOTHING,
            f"doubt: {doubts}" if doubts else error if predicted else "",
            words.cell(metric, mean) if mean else words.NOTHING,
            f"{len(point.ok)} of {planned.count(point.index)}",
            words.number(mean.value / predicted.value) if mean and predicted and predicted.value else words.NOTHING,
        )

    heads = ("<Point", "Predicted", f"<{_ERROR}", "Measured", "Runs", "Ratio")
    shown = heads if not analysis.runs else tuple(head for head in heads if head != f"<{_ERROR}")
    caption = f"{words.with_unit(metric.label, metric)}: means with 95 % intervals."
    caption += " Ratio: measured / predicted." if found and analysis.runs else ""
    brief = tuple(head.removeprefix("<") for head in shown) if found or analysis.runs else ()
    return Table.of("so-far-table", metric.label, heads, map(row, analysis.points), caption, brief=brief)
