"""Builds the report of a sweep as data that every format shows, and writes the derived files into the sweep's folder.

The files are summary.parquet, report.html, report.md, figures/*.svg and *.csv. All can be deleted and made again from
the stored samples. A row of the summary says whether its runs were measured or predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from bufferlab.chapter import stopping, words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Figure, Section, Table
from bufferlab.chapter.points_figure import points_figure, reads_better_on_a_log_axis
from bufferlab.engines import registry as engines
from bufferlab.report.answer import answer, banners, limits
from bufferlab.report.chapters import chapters_of
from bufferlab.report.chapters.without_a_run import WithoutRun, without_run
from bufferlab.report.detail_tables import (
    check_table,
    consistency_table,
    cpu_table,
    device_table,
    disturbance_table,
    failed_checks,
    failure_table,
    latency_table,
    run_table,
)
from bufferlab.report.document import (
    OF_A_SWEEP,
    FailedRun,
    GeneratedResult,
    PointResult,
    Report,
    Status,
    StepResult,
    Summary,
    SweepResult,
    stamped,
)
from bufferlab.report.findings import instead
from bufferlab.report.predicted import doubts, predicted_runs, predictions
from bufferlab.report.result_tables import (
    main_table,
    parts_of_window,
    per_second,
    per_transaction,
    sizes,
    spans_table,
    step_table,
    verdict_cell,
)
from bufferlab.report.setup_tables import setup_tables
from bufferlab.results.metrics import qualified
from bufferlab.results.store import SweepFolder
from bufferlab.stats.estimate import Estimate
from bufferlab.workloads import registry as workloads

#: The most rows that all open (unfolded) tables of a page may have together.
_OPEN_ROWS = 13


def build(sweep: SweepFolder) -> Report:
    """Return the report of a sweep, made only from its folder."""
    return of_analysis(Analysis.of(sweep))


def of_analysis(analysis: Analysis) -> Report:
    """Return the report of a sweep whose samples the analysis has already read."""
    sweep = analysis.sweep
    found = summaries(analysis)
    first, generated = _first(analysis), without_run(analysis)
    report = Report(
        title=sweep.experiment,
        question=question(sweep),
        answer=answer(analysis),
        facts=_facts(analysis),
        banners=tuple(banners(analysis)),
        headline=first.figure,
        steps=first.steps,
        limits=tuple(limits(analysis)) if analysis.runs else (),
        sections=_opened(_sections(analysis, first), first.lead),
        checks=tuple(analysis.checks),
        status=_status(analysis),
        is_doubted=analysis.is_smoke or bool(doubts(analysis)),
        lead=first.lead,
        parts=OF_A_SWEEP,
        data=SweepResult(
            sweep.path,
            analysis.engine,
            tuple(_point_result(point, found, generated) for point in analysis.points),
            tuple(comparisons(analysis)),
            stopping.reason(analysis),
            tuple(predicted_runs(analysis)),
        ),
    )
    return stamped(report, analysis.source)


@dataclass(frozen=True)
class _First:
    """The parts next to the answer: a figure, and the headline metric's steps, a chapter's table, or both."""

    figure: Figure | None
    chapters: tuple[Section, ...]
    steps: Table | None = None
    lead: str = ""
    headline_figure: Figure | None = None
    """The headline metric's figure, if a chapter's figure replaces it next to the answer; else None."""


def _first(analysis: Analysis) -> _First:
    """Return the figures and tables next to the answer: those of the chapter that answers the sweep's question, if any.

    Otherwise they are the headline metric's figure and steps.
    """
    chapters = tuple(filter(None, (chapter(analysis) for chapter in chapters_of(analysis))))
    one_group = len(analysis.groups) == 1
    shown = engines.chapters(analysis.engine).figure(analysis) or analysis.headline
    own = points_figure(analysis, shown, shown.replace("_", "-"), value_labels=one_group)
    answering = next((found for found in chapters if found.id == _answering(analysis)), None)
    blocks = answering.blocks if answering else ()
    figure = next((block for block in blocks if isinstance(block, Figure)), None)
    table = next((block for block in blocks if isinstance(block, Table) and block.brief), None)
    if answering and table and not figure:
        return _First(own, chapters, lead=table.id)
    if answering is None or figure is None or table is None:
        return _First(own, chapters, step_table(analysis) if one_group else spans_table(analysis))
    rest = replace(answering, blocks=tuple(block for block in answering.blocks if block is not figure))
    chapters = tuple(rest if found is answering else found for found in chapters)
    steps = step_table(analysis) if one_group and predictions(analysis) else None
    return _First(figure, chapters, steps, lead=table.id, headline_figure=own)


def _linear(analysis: Analysis) -> Figure | None:
    """Return the headline metric's figure with linear axes; None if its usual figure is already linear vertically."""
    shown = engines.chapters(analysis.engine).figure(analysis) or analysis.headline
    values = [value for point in analysis.points for _, _, value in point.values(shown)]
    if not values or not reads_better_on_a_log_axis(values):
        return None
    return points_figure(analysis, shown, f"{shown.replace('_', '-')}-linear", is_linear=True)


def _answering(analysis: Analysis) -> str:
    """Return the id of the chapter whose sentences replace those on the headline metric; "" if there is none."""
    if predictions(analysis):
        return "predicted"
    if not instead(analysis):
        return ""
    own = engines.chapters(analysis.engine)
    if own.answer(analysis):
        return own.answers_in(analysis)
    return {"rate": "response", "connections": "concurrency"}.get(analysis.axis or "", "knee")


def _sections(analysis: Analysis, first: _First) -> tuple[Section, ...]:
    def section(id: str, title: str, intro: str, *blocks: Table | Figure | None, folded: bool = False) -> Section:
        shown = tuple(block for block in blocks if isinstance(block, Figure) or (block and block.rows))
        return Section(id, title, intro, shown, folded)

    # A sweep on a bare file has no pages, pool or commits. It has a special chapter in place of these tables.
    has_pool = all(run.engine.pool for run in analysis.runs)
    was_measured = not predictions(analysis)
    per_second_figure = analysis.work_per_s.replace("_", "-")
    writes = analysis.per_work("writes")
    sections = (
        section("failures", "Runs that did not end well", "", failure_table(analysis)),
        section(
            "numbers",
            "The numbers",
            "",
            main_table(analysis) if has_pool else None,
            _all_steps(analysis) if was_measured else None,
            sizes(analysis),
            per_transaction(analysis),
            per_second(analysis) if has_pool and was_measured else None,
        ),
        *first.chapters,
        section(
            "checks",
            "Can the numbers be believed?",
            "Numbers counted in different places must agree.",
            failed_checks(analysis.checks),
            replace(check_table(analysis.checks), folded=True),
            parts_of_window(analysis),
        ),
        section("setup", "What was run", "", *setup_tables(analysis), folded=True),
        section(
            "figures",
            "More figures",
            "",
            first.headline_figure,
            _linear(analysis),
            points_figure(analysis, writes, writes.replace("_", "-")),
            points_figure(analysis, analysis.work_per_s, per_second_figure),
            folded=True,
        ),
        section(
            "details",
            "Details",
            "",
            latency_table(analysis),
            device_table(analysis) if was_measured else None,
            cpu_table(analysis),
            consistency_table(analysis),
            run_table(analysis),
            disturbance_table(analysis),
            folded=True,
        ),
    )
    return tuple(one for one in sections if one.blocks or one in first.chapters)


def _opened(sections: Sequence[Section], lead: str) -> tuple[Section, ...]:
    """Return the sections with all tables folded except, at most, the first one of each, so that the page stays short.

    The answering table, failed runs and failed checks are never folded. Others are unfolded while _OPEN_ROWS allows it.
    """
    firsts = [next((one for one in section.blocks if isinstance(one, Table)), None) for section in sections]
    room = _OPEN_ROWS - sum(len(one.rows) for one in firsts if one and one.id == lead)
    opened = []
    for section, first in zip(sections, firsts, strict=True):
        is_open = first is not None and not first.folds and not section.folded
        if is_open and first is not None and first.id not in (lead, "failures", "failed-checks"):
            is_open = len(first.rows) <= room
            room -= len(first.rows) if is_open else 0
        shown = first if is_open else None
        blocks = (
            replace(one, folded=True) if isinstance(one, Table) and one is not shown else one for one in section.blocks
        )
        opened.append(replace(section, blocks=tuple(blocks)))
    return tuple(opened)


def _all_steps(analysis: Analysis) -> Table | None:
    table = step_table(analysis, analysis.compared)
    return (
        replace(table, id="all-steps", title="What each step does to each figure", folded=True, brief=())
        if table
        else None
    )


def question(sweep: SweepFolder) -> str:
    """Return the question of the sweep's experiment; a general question if experiment.toml has none."""
    asked = sweep.asked.get("question")
    return asked if isinstance(asked, str) else f"What does the sweep {sweep.experiment} show?"


def _facts(analysis: Analysis) -> tuple[str, ...]:
    """Return the facts above the answer: engine and version, workload, numbers of points and runs, date."""
    facts: list[str] = []
    if analysis.runs:
        run = analysis.runs[0].run
        facts += dict.fromkeys(run.engine_and_version for run in analysis.runs)
        workload = run.workload
        scales = [words.plural(workload[of], of[:-1]) for of in ("warehouses", "rows") if of in workload]
        name = str(workload.get("name"))
        declared = workloads.declaration(name) if name in workloads.names() else None
        facts.append(", ".join([declared.words if declared else name, *scales]))
        facts.append(f"{words.plural(len(analysis.points), 'point')}, {words.plural(len(analysis.runs), 'run')}")
        facts.append(str(run.started_at)[:10])
    return tuple(facts)


def _status(analysis: Analysis) -> Status:
    """Return "running" while runs are added, else "failed" if one failed.

    Otherwise return "interrupted" if a point lacks good runs or the number of blocks is undecided, and else "ok".
    """
    if analysis.sweep.is_running:
        return "running"
    if any(record.run.status == "failed" for point in analysis.points for record in point.failures):
        return "failed"
    is_whole = all(point.status == "ok" for point in analysis.points) and not stopping.is_undecided(analysis)
    return "ok" if is_whole else "interrupted"


def summaries(analysis: Analysis) -> list[Summary]:
    """Return the mean of every derived metric at every point, and the comparison of each point with the one before."""
    found: list[Summary] = []
    names = list(analysis.sweep.registry.derived)
    phases = (qualified(phase, name) for phase in analysis.phases for name in names)
    for metric in (*names, *phases):
        fit = analysis.fit(metric)
        if fit is None:
            continue
        unit = analysis.metric(metric).unit
        found += [
            _summary(point, metric, "mean", fit.mean(point.index), unit)
            for point in analysis.points
            if point.index in fit.points
        ]
        for a, b in analysis.steps():
            if (a.index, b.index) in fit.comparisons:
                of = "1" if fit.contrast == "ratio" else unit
                found.append(_summary(b, metric, f"{fit.contrast}_to_previous", fit.step(a.index, b.index), of))
    return found


def _summary(point: PointRuns, metric: str, statistic: str, found: Estimate, unit: str) -> Summary:
    ends = (found.ci_low, found.ci_high, found.n)
    return Summary(point.index, point.label, point.key, metric, statistic, found.value, *ends, unit)


def _point_result(point: PointRuns, found: list[Summary], generated: WithoutRun | None) -> PointResult:
    mine = tuple(summary for summary in found if summary.point_index == point.index)
    failures = tuple(
        FailedRun(record.run_id, record.run.block, record.run.status, failure)
        for record in point.failures
        if (failure := record.failure)
    )
    without = None
    if generated and point.index in generated.verdicts:
        verdicts = tuple(generated.verdicts[point.index])
        without = GeneratedResult(generated.metric, generated.means.get(point.index), verdicts)
    return PointResult(
        point.index, point.label, point.swept, point.settings, point.status, point.reason, failures, mine, without
    )


def comparisons(analysis: Analysis) -> list[StepResult]:
    """Return the judged steps between neighbouring points, for every metric that the workload compares."""
    results = []
    for metric in analysis.compared:
        for a, b in analysis.steps():
            found = analysis.verdict(metric, a.index, b.index)
            if found is None:
                continue
            direction = "not_resolved" if analysis.claim_blocked(metric) and found.resolved else found.direction
            said = verdict_cell(analysis, metric, a.index, b.index)
            results.append(StepResult(a.label, b.label, metric, found.contrast, found.estimate, direction, said))
    return results


def publish(sweep: SweepFolder) -> Report:
    """Build the report, write summary.parquet, report.html and report.md with figures, and return the report."""
    from bufferlab.report.html import write_html  # Both imported late: CSV files need no page.
    from bufferlab.report.markdown import write_markdown

    report = build(sweep)
    origin = {
        record.run.point.index: {"source": record.run.source, "interval_kind": record.run.interval_kind}
        for record in sweep.runs()
        if record.ok
    }
    sweep.write_summary(
        [{**asdict(summary), **origin[point.index]} for point in report.data.points for summary in point.statistics]
    )
    write_html(report, sweep)
    write_markdown(report, sweep)
    return report
