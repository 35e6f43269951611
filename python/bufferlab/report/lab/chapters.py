"""Arranges the report of a sweep in the chapters of a lab report, from its purpose to its runs.

Sentences, tables and figures are those of the report that every other format shows. This module computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Literal

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group
from bufferlab.chapter.elements import Figure, Section, Table
from bufferlab.chapter.words import NOTHING
from bufferlab.engines import registry as engine_registry
from bufferlab.report import predicted
from bufferlab.report.build import of_analysis
from bufferlab.report.chapters.concurrency import asks_for_throughput
from bufferlab.report.chapters.expected_reads import ID as EXPECTED_READS
from bufferlab.report.chapters.knee import found_knees
from bufferlab.report.chapters.latency_rate import saturation
from bufferlab.report.document import Report
from bufferlab.report.findings import instead
from bufferlab.report.lab.content import Block, Heading, Items, LabReport, Pair, Paragraph, Submission
from bufferlab.report.lab.method import method
from bufferlab.report.lab.source_document import against, beside, differences, source_document
from bufferlab.report.result_tables import verdict_cell
from bufferlab.results.schema import StoredPlan
from bufferlab.results.store import SweepFolder
from bufferlab.workloads import registry as workloads

#: The chapters of a report that compare expected and measured figures.
_EXPECTED = ("knee", EXPECTED_READS, "without-a-run", "other-pools", "predicted", "random-reads")
#: Tables that the lab report leaves out, because it has their content in sentences.
_IN_SENTENCES = ("all-steps",)
#: Sections of the report that have a special place in the lab report.
_PLACED = ("setup", "checks", "best", "figures", "time", *_EXPECTED)
_SIDAK = (
    "Z. Šidák: Rectangular confidence regions for the means of multivariate normal distributions. Journal of the "
    "American Statistical Association 62, 626–633, 1967."
)
_LONGEST_LEAD = 320


def lab_report(sweep: SweepFolder, submission: Submission | None = None) -> LabReport:
    """Return the lab report of a sweep, made only from its folder, with the names of those who hand it in."""
    analysis = Analysis.of(sweep)
    report = of_analysis(analysis)
    made = _Made(analysis, report)
    started = sorted(record.run.started_at for point in analysis.points for record in point.records)
    return LabReport(
        title=report.question,
        facts=(*(submission.facts if submission else ()), *made.facts(started)),
        blocks=tuple(made.blocks()),
        date=started[0][:10] if started else "",
        extras=tuple(made.extras()),
        last=made.last(),
        authors=submission.authors if submission else (),
    )


#: The ids of tables and chapters that are left out, step by step, of a report with too many pages.
_STEPS = (
    ("trees", "disturbances", "scatter"),
    ("cpu", "device"),
    ("latency", "figures", "time"),
    ("victim-path", "sizes"),
    ("runs", "per-second", "cpu-per-transaction"),
)
_EXTRAS_GO = 2
#: The most characters of an introduction that is kept on one page with its figure.
_LONG_INTRO = 400


def shorter(made: LabReport) -> Iterator[LabReport]:
    """Yield the lab report, then shorter and shorter versions of it. The end of each says which details are left out.

    From the second shorter version on, the `extras` are left out too.
    """
    yield made
    for steps in range(1, len(_STEPS) + 1):
        ids = {id for step in _STEPS[:steps] for id in step}
        blocks, gone = _without(made.blocks, ids)
        extras = made.extras if steps < _EXTRAS_GO else ()
        dropped = () if extras else (one.text for one in made.extras if isinstance(one, Heading))
        titles = "; ".join((*gone, *dropped))
        said = f"Left out for want of room, and in report.html: {titles}." if titles else ""
        text = " ".join(filter(None, [said, made.last.text if made.last else ""]))
        yield replace(made, blocks=blocks, extras=extras, last=Paragraph(text, "note"))


def _without(blocks: Iterable[Block], ids: Set[str]) -> tuple[tuple[Block, ...], list[str]]:
    """Return the blocks without the tables and chapters of these ids, and the titles of those left out."""
    kept: list[Block] = []
    gone: list[str] = []
    chapter: Heading | None = None
    for block in blocks:
        if isinstance(block, Heading) and (chapter is None or block.level <= chapter.level):
            chapter = block if block.id in ids else None
            gone += [block.text] if chapter else []
        elif chapter is None and isinstance(block, Table) and block.id in ids:
            gone.append(block.title)
            continue
        if chapter is None:
            kept.append(block)
    return tuple(kept), gone


class _Made:
    """The maker of one lab report's blocks, chapter by chapter."""

    def __init__(self, analysis: Analysis, report: Report) -> None:
        self.analysis, self.report = analysis, report
        self.sections = {section.id: section for section in report.sections}

    def facts(self, started: list[str]) -> Iterator[tuple[str, str]]:
        """Yield the names and values of the title block; `started` has the times at which runs began, in order."""
        analysis = self.analysis
        runs = [record.run for point in analysis.points for record in point.records]
        yield "Experiment", self.report.title
        if engines := dict.fromkeys(f"{run.engine} {run.engine_version or ''}".strip() for run in runs):
            yield "Engine", ", ".join(engines)
        if len(self.report.facts) > 1:
            yield "Workload", self.report.facts[-3]
        planned = len(analysis.sweep.planned_cells)
        is_predicted = predicted.said(analysis) is not None
        yield "Predicted runs" if is_predicted else "Runs that ended well", f"{len(analysis.runs)} / {planned}"
        if started:
            days = sorted({started[0][:10], started[-1][:10]})
            yield "Predicted on" if is_predicted else "Measured on", " – ".join(days)
        hosts = [
            str(name) for told, _ in analysis.sweep.hosts if (name := told.get("cpu_model") or told.get("host_id"))
        ]
        if hosts:
            yield "Host", hosts[0] if len(hosts) == 1 else str(len(hosts))
        yield "Made by", f"{self._made_by()}, {analysis.sweep.path.name}"

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks below the title block, without the extras."""
        lead = [_first_sentence(self.report.answer), _hit_ratios(self.analysis)]
        yield Paragraph(" ".join(filter(None, lead)), "lead")
        yield from self.report.banners
        yield Heading("Purpose")
        yield Paragraph(" ".join(filter(None, [self.report.question, _told_in(self.analysis)])))
        yield from self._setup()
        yield Heading("Method")
        yield Items(tuple(method(self.analysis)))
        yield from self._results()
        yield from self._discussion()
        yield Heading("Conclusion")
        yield Paragraph(self.report.answer)
        yield from self._references()
        yield from self._appendix()

    def _setup(self) -> Iterator[Block]:
        yield Heading("Set-up")
        if facts := self.report.facts:
            yield Paragraph(f"{'; '.join(facts)}.")
        section = self.sections.get("setup")
        if section:
            yield from section.blocks

    def _results(self) -> Iterator[Block]:
        """Yield the measured numbers and figures; those on changes over time come last."""
        yield Heading("Results")
        if self.report.headline:
            yield self.report.headline
        if self.report.steps:
            yield self.report.steps
        if not self.analysis.runs:
            yield Paragraph(self.report.answer)
        for section in self.report.sections:
            if section.id not in _PLACED and not section.folded:
                yield from self._section(section)
        for last in filter(None, map(self.sections.get, ("figures", "time"))):
            yield from self._section(last)

    def _discussion(self) -> Iterator[Block]:
        yield Heading("Discussion")
        if told := _verdicts(self.analysis):
            yield Heading("Verdicts", 2)
            yield Items(tuple(told))
        if best := self.sections.get("best"):
            yield from self._section(best)
        expected = [section for id in _EXPECTED if (section := self.sections.get(id))]
        yield Heading("Predicted" if predicted.said(self.analysis) else "Expected against measured", 2)
        if not expected:
            yield Paragraph(_nothing_expected(self.analysis))
        for section in expected:
            yield from self._section(section, 3)
        yield from self._source_document()
        yield from self._checks()
        if self.report.limits:
            yield Heading("Limits", 2)
            yield Items(self.report.limits)

    def _source_document(self) -> Iterator[Block]:
        """Yield the conclusion of the document that the experiment follows, and its numbers next to the measured
        ones."""
        document = source_document(self.analysis)
        if document is None or not self.analysis.runs:
            return
        yield Heading("The document that asked the question", 2)
        tables = beside(self.analysis, document)
        ends = against(self.analysis, document)
        said = f"The document of reference [1] concludes: {document.concluded}."
        differs = differences(self.analysis, document)
        yield Paragraph(" ".join(filter(None, [said, ends, differs])), goes_on=bool(tables))
        yield from tables

    def _references(self) -> Iterator[Block]:
        """Yield the references: the document, the sources of the workload and the statistics, and the programs used."""
        document = source_document(self.analysis)
        found = [document.reference] if document and self.analysis.runs else []
        name = self.analysis.workload
        if name in workloads.names() and (source := workloads.declaration(name).source):
            found.append(source)
        if len(self.analysis.sweep.blocks) > 1:
            found.append(_SIDAK)
        engines = dict.fromkeys(run.engine_and_version for run in self.analysis.runs)
        how = "predicted" if predicted.said(self.analysis) else "measured"
        found += [f"{', '.join(engines)}: the database that was {how}."] if engines else []
        found.append(f"{self._made_by()}: the program that {how} and made this report.")
        yield Heading("References")
        yield from (Paragraph(f"[{number}] {text}") for number, text in enumerate(found, 1))

    def _made_by(self) -> str:
        """Return the word bufferlab with the version that did the sweep, if the plan has that version."""
        versions = self.analysis.sweep.plan.get("versions")
        return (
            f"bufferlab {versions['bufferlab']}"
            if isinstance(versions, dict) and "bufferlab" in versions
            else "bufferlab"
        )

    def _checks(self) -> Iterator[Block]:
        """Yield the counts of the checks, and the failed ones; the appendix has the list of all."""
        section = self.sections.get("checks")
        if section is None:
            return
        counts = self.report.check_counts
        yield Heading(section.title, 2)
        yield Paragraph(
            f"{section.intro} {words.plural(len(self.report.checks), 'check')}: {counts['passed']} passed, "
            f"{counts['failed']} failed, {counts['not_applicable']} not applicable."
        )
        yield from (block for block in section.blocks if block.id != "checks")

    def _appendix(self) -> Iterator[Block]:
        yield Heading("Appendix: runs and details")
        checks = self.sections.get("checks")
        runs = [block for block in self._details() if block.id == "runs"]
        others = [block for block in self._details() if block.id != "runs"]
        yield from (*runs, *(one for one in (checks.blocks if checks else ()) if one.id == "checks"), *others)

    def extras(self) -> Iterator[Block]:
        """Yield the chapters that other formats fold, except those with a special place."""
        for section in self.report.sections:
            if section.folded and section.id not in (*_PLACED, "details"):
                yield from self._section(section)

    def last(self) -> Paragraph:
        """Return the last paragraph, which says where the samples and numbers are stored."""
        folder = self.analysis.sweep.path.name
        return Paragraph(
            f"The samples are stored in {folder}; bufferlab report {folder} makes every report again. The numbers of "
            "each figure are in figures/*.csv, all means unrounded in tables/summary.csv (report --format csv).",
            "note",
        )

    def _details(self) -> tuple[Table | Figure, ...]:
        found = self.sections.get("details")
        return found.blocks if found else ()

    def _section(self, section: Section, level: Literal[2, 3] = 2) -> Iterator[Block]:
        yield Heading(section.title, level, section.id)
        shown = [block for block in section.blocks if block.id not in _IN_SENTENCES]
        if section.intro:
            # A long introduction that must stay with its figure would leave the end of the previous page empty.
            yield Paragraph(section.intro, goes_on=bool(shown) and len(section.intro) <= _LONG_INTRO)
        # Figures come before tables, as on the HTML page.
        yield from _abreast([block for block in shown if isinstance(block, Figure)])
        yield from (block for block in shown if isinstance(block, Table))


def _abreast(figures: list[Figure]) -> Iterator[Block]:
    """Yield the figures of a chapter: first the tall ones, each in its own row, then the others in pairs.

    A single figure gets its own row, too.
    """
    yield from (figure for figure in figures if figure.is_tall or len(figures) == 1)
    small = [figure for figure in figures if not figure.is_tall and len(figures) > 1]
    yield from (Pair(tuple(small[place : place + 2])) for place in range(0, len(small), 2))


def _told_in(analysis: Analysis) -> str:
    """Return a sentence on the metric or value that the answer is about; "" if an engine's own sentences answer."""
    if found_knees(analysis):
        return "The answer is the knee: the most hot rows whose pages all fit into the pool."
    if asks_for_throughput(analysis):
        metric = analysis.metric(analysis.work_per_s)
    elif saturation(analysis):
        return (
            "The answer is the highest rate that the database kept up with. Response times count from the moment at "
            "which a transaction arrived, whether or not a connection was free."
        )
    elif instead(analysis):
        return ""
    else:
        metric = analysis.metric(analysis.headline)
    return f"The answer is told in {words.lowered(metric.label)} ({words.lowered(metric.meaning.rstrip('.'))})."


def _nothing_expected(analysis: Analysis) -> str:
    """Return the sentences that say why the report has no expected numbers to compare with the measured ones."""
    planned = StoredPlan.model_validate(analysis.sweep.plan).page_trace
    why = f" No page trace was recorded to predict from: {planned.why_not}." if planned and planned.why_not else ""
    return (
        "No prediction stands beside these numbers. bufferlab has formulas for hot rows, random reads and scans by an "
        f"index, and models that predict reads from page accesses; none of them gave a number for this sweep.{why}"
    )


def _first_sentence(answer: str) -> str:
    """Return the whole answer if it is short, else its first sentence."""
    ends = answer.find(". ") + 1 if len(answer) > _LONGEST_LEAD else 0
    return answer[:ends] if ends else answer


def _hit_ratios(analysis: Analysis) -> str:
    """Return a sentence on the hit ratio in the smallest and the largest pool; "" unless one series of pools ran."""
    is_pool = bool(analysis.engine) and analysis.axis == engine_registry.declaration(analysis.engine).results.pool
    if not is_pool or len(analysis.groups) != 1:
        return ""
    known = [mean for point in analysis.groups[0].points if (mean := analysis.mean("hit_ratio", point))]
    if len(known) < 2:
        return ""
    metric = analysis.metric("hit_ratio")
    first, last = (words.cell(metric, mean) for mean in (known[0], known[-1]))
    return f"The hit ratio was {first} at the first point and {last} at the last."


def _verdicts(analysis: Analysis) -> list[str]:
    """Return a sentence for each compared metric: on all of its steps, or, if there are several groups, on the change
    from first to last point."""
    one_group = len(analysis.groups) == 1
    found = []
    for metric in analysis.compared:
        told = [said for group in analysis.groups if (said := _of_group(analysis, metric, group, steps=one_group))]
        if told:
            found.append(f"{analysis.metric(metric).label}: {'; '.join(told)}.")
    return found


def _of_group(analysis: Analysis, metric: str, group: Group, *, steps: bool) -> str:
    """Return the verdicts on a group's steps, or on the change from its first to its last point.

    Steps with the same words are listed together.
    """
    ran = analysis.distinct(group, metric)
    pairs = list(pairwise(ran)) if steps else [(ran[0], ran[-1])] if len(ran) > 1 else []
    judged = [(a, b, verdict_cell(analysis, metric, a.index, b.index)) for a, b in pairs]
    told = []
    for said, of in groupby(judged, key=lambda one: one[2]):
        alike = list(of)
        ends = f"{analysis.short_label(alike[0][0])} to {analysis.short_label(alike[-1][1])}"
        many = f" ({len(alike)} steps)" if len(alike) > 1 else ""
        if said != NOTHING:
            told.append(f"{ends}{many}: {said}")
    where = f"{group.label}: " if group.label and told else ""
    return where + "; ".join(told)
