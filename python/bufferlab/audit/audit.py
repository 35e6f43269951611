"""Does an audit from files to findings, and shows it: lines for a terminal, a report for pages, one JSON object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bufferlab.audit.case import Case, Finding, pieces_key
from bufferlab.audit.corrected import corrected_tables
from bufferlab.audit.parsers.read import HINT, FileEvidence, read_file
from bufferlab.audit.rules import RULES
from bufferlab.chapter.blocks import Banner, Column, Row, Section, Table
from bufferlab.chapter.words import plural
from bufferlab.errors import DataFileError, Problem
from bufferlab.report.document import Report
from bufferlab.results.sweep_checks import Check

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

RULE_NAMES = tuple(rule.name for rule in RULES)
#: The most files that a page names above its answer; its last line names all.
_MOST_NAMED = 6
_MOST_BANNERS = 3
#: The most findings that stand open on a page; a fold has the others.
_MOST_OPEN = 20
_LIMITS = (
    "A rule that finds nothing has found nothing in what was given: a number that is not in the files is not judged.",
    "Corrected values follow from the numbers given, as they are given: they are not measured again.",
    "What a text concludes in words is not read; the numbers it concludes from are.",
)


@dataclass(frozen=True)
class Audit:
    """The case that was read, the findings, and the corrected tables."""

    case: Case
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    unrecognised: tuple[Problem, ...]
    """A problem for each file in which nothing was read, though something was in others; and one for each piece."""
    judged: tuple[str, ...]
    """The names of the rules that had something to judge."""


def audit_files(paths: Sequence[Path]) -> Audit:
    """Audit these files together.

    Raise DataFileError when a file cannot be opened, or when no file has a number of a run.
    """
    files: list[FileEvidence] = []
    empty: list[Problem] = []
    for path in paths:
        try:
            files.append(read_file(path))
        except DataFileError as error:
            if error.__cause__ is not None:
                raise
            empty += error.problems
    audit = audit_evidence(files)
    named = [problem for one in files for problem in one.named]
    alone = list(_set_up_alone(audit))
    empty += alone
    if len(alone) == len(files):
        first, *more = [*named, *empty]
        raise DataFileError(first.what, first.where, first.hint, more=more)
    return replace(audit, unrecognised=(*empty, *named))


def _set_up_alone(audit: Audit) -> Iterator[Problem]:
    """Yield a problem for each file that only states a set-up: of no run in the other files, and without a finding."""
    files = audit.case.files
    used = {pieces_key(one.file) for one in files if one.measured}
    used |= {pieces_key(finding.where.file) for finding in audit.findings}
    for one in files:
        if pieces_key(one.file) not in used:
            yield Problem("nothing was read but what it says of a set-up", one.file, HINT)


def audit_evidence(files: Sequence[FileEvidence]) -> Audit:
    """Ask every rule about the evidence that was read; return the audit."""
    case = Case.of(files)
    findings = tuple(finding for rule in RULES for finding in rule.findings(case))
    found = {finding.rule for finding in findings}
    judged = tuple(rule.name for rule in RULES if rule.name in found or rule.is_judged(case))
    return Audit(case, findings, corrected_tables(case), (), judged)


#: Rules whose findings change numbers by most, the worst first; the others follow in the order of RULES.
_WORST_FIRST = (
    "minute-by-second",
    "sectors-as-kib",
    "counters-as-rates",
    "tpmc-counts",
    "payment-quoted",
    "thousands-of-kib",
    "pool-asked",
    "page-size-ran",
)


def worst(audit: Audit) -> Finding:
    """Return the finding that changes most; of several by one rule the first. Before: there is one."""
    order = {name: place for place, name in enumerate(dict.fromkeys((*_WORST_FIRST, *RULE_NAMES)))}
    return min(audit.findings, key=lambda finding: order[finding.rule])


def summary(audit: Audit) -> str:
    """Return the audit in sentences: its worst finding, and how many there are."""
    if not audit.judged:
        return f"Nothing was judged: none of {len(RULES)} rules has what it needs in {_given(audit)}{_share(audit)}."
    if not audit.findings:
        return f"Nothing found by {len(RULES)} rules in {_given(audit)}. {_judged(audit)}"
    rules = len({finding.rule for finding in audit.findings})
    counts = f"{plural(len(audit.findings), 'finding')} by {rules} of {len(RULES)} rules in {_given(audit)}"
    first = worst(audit)
    where = ", line ".join(map(str, filter(None, (Path(first.where.file).name, first.where.line))))
    this = "This is the worst of" if audit.findings[1:] else "This is"
    return f"In {where}: {first.consequence}. {this} {counts}. {_judged(audit)}"


def _judged(audit: Audit) -> str:
    """Return how many rules had something to judge, and how many lines were read, in a sentence."""
    count = len(audit.judged)
    return f"{plural(count, 'rule')} of {len(RULES)} had something to judge{_share(audit)}."


def _share(audit: Audit) -> str:
    lines, read = (sum(getattr(one, name) for one in audit.case.files) for name in ("lines", "lines_read"))
    return f", in {read:,} of {plural(lines, 'line')}" if read < lines else ", in every line"


def _given(audit: Audit) -> str:
    files = audit.case.files
    counts = (
        (sum(len(log.intervals) for one in files for log in one.logs), "interval line"),
        (sum(len(one.dumps) for one in files), "status printout"),
        (sum(report.tool == "iostat" for one in files for report in one.reports), "iostat report"),
        (sum(report.tool == "vmstat" for one in files for report in one.reports), "vmstat line"),
        (sum(len(one.loads) for one in files), "load run"),
        (sum(len(one.results) for one in files), "table"),
        (sum(len(one.traces) for one in files), "block trace"),
    )
    parts = [plural(count, noun) for count, noun in counts if count]
    return f"{plural(len(files), 'file')}" + (f" ({', '.join(parts)})" if parts else "")


def as_json(audit: Audit) -> dict[str, Any]:
    """Return the audit for programs; infinite and missing numbers are null."""
    return {
        "status": "ok",
        "files": [one.file for one in audit.case.files],
        "unrecognised": [problem.as_dict() for problem in audit.unrecognised],
        "judged": list(audit.judged),
        "lines": sum(one.lines for one in audit.case.files),
        "lines_read": sum(one.lines_read for one in audit.case.files),
        "findings": [
            {
                "rule": finding.rule,
                "file": finding.where.file,
                "line": finding.where.line,
                "label": finding.where.label,
                "what": finding.what,
                "consequence": finding.consequence,
                "corrected": finding.corrected,
                "numbers": _plain(finding.numbers),
            }
            for finding in audit.findings
        ],
        "corrected": [
            {
                "title": table.title,
                "rows": [
                    dict(zip((column.title for column in table.columns), row.cells, strict=True)) for row in table.rows
                ],
            }
            for table in audit.tables
        ],
    }


def as_report(audit: Audit) -> Report:
    """Return the audit in the form that every writer of reports takes."""
    files = [one.file for one in audit.case.files]
    sections = [Section("findings", "Findings", "", _findings_tables(audit))] if audit.findings else []
    if audit.tables:
        first, *rest = audit.tables
        tables = (first, *(replace(table, folded=True) for table in rest))
        title = "The tables, corrected" if audit.findings else "The numbers, computed again"
        sections.append(Section("corrected", title, "", tables))
    sections.append(Section("checks", "What was asked", "", (_rules_table(audit),)))
    return Report(
        title="audit",
        question="Do these numbers mean what they are said to mean?",
        answer=summary(audit),
        facts=tuple(files) if len(files) <= _MOST_NAMED else (plural(len(files), "file"),),
        banners=tuple(_banners(audit)),
        headline=None,
        steps=None,
        limits=_LIMITS,
        sections=tuple(sections),
        lead="findings",
        checks=tuple(
            Check(rule.name, rule.question, _status(audit, rule.name), _detail(audit, rule.name)) for rule in RULES
        ),
        status="ok",
    )


def _banners(audit: Audit) -> Iterator[Banner]:
    """Yield a banner for each line that was not recognised, or one for all where they would fill the screen."""
    told = [f"{problem.where}: {problem.what}" for problem in audit.unrecognised]
    for text in told if len(told) <= _MOST_BANNERS else ["; ".join(told)]:
        yield Banner("warning", text)


def terminal(audit: Audit) -> Group:
    """Return the audit for rich to print: the sentence, each finding, the corrected tables."""
    from rich.console import Group
    from rich.text import Text

    lines: list[RenderableType] = [Text(summary(audit), style="bold"), Text("")]
    for finding in audit.findings:
        lines += [*_finding_lines(finding), Text("")]
    for table in audit.tables:
        lines.append(_drawn(table))
    if audit.tables:
        lines.append(Text(audit.tables[0].caption, style="dim"))
    return Group(*lines)


def _finding_lines(finding: Finding) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    yield Text.assemble((finding.rule, "bold yellow"), f"  {finding.where}")
    yield Padding(Text(finding.what), (0, 0, 0, 2))
    yield Padding(Text(f"so: {finding.consequence}", style="dim"), (0, 0, 0, 2))
    yield Padding(Text.assemble(("corrected: ", "green"), finding.corrected), (0, 0, 0, 2))


def _drawn(table: Table) -> RenderableType:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    heading = Text(table.title)  # As a str it would be read as markup.
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title=heading, title_justify="left", title_style="")
    for place, column in enumerate(table.columns):
        cells = [column.title, *(row.cells[place] for row in table.rows)]
        widest = max(len(part) for cell in cells for part in cell.split())
        drawn.add_column(Text(column.title), justify="right" if column.numeric else "left", min_width=widest)
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row.cells))
    return drawn


def _findings_tables(audit: Audit) -> tuple[Table, ...]:
    columns = tuple(Column(head, numeric=False) for head in ("Where", "What", "Consequence", "Corrected"))
    rows = [Row((str(one.where), one.what, one.consequence, one.corrected), "differs") for one in audit.findings]
    first, rest = tuple(rows[:_MOST_OPEN]), tuple(rows[_MOST_OPEN:])
    tables = [Table("findings", "One row for each finding", columns, first)]
    if rest:
        tables.append(Table("more-findings", plural(len(rest), "more finding"), columns, rest, folded=True))
    return tuple(tables)


def _rules_table(audit: Audit) -> Table:
    found = {finding.rule for finding in audit.findings}
    return Table(
        "rules",
        "Every rule",
        (Column("Question", numeric=False), Column("Found", numeric=False)),
        tuple(
            Row((rule.question, _detail(audit, rule.name)), "failed" if rule.name in found else "") for rule in RULES
        ),
    )


def _status(audit: Audit, rule: str) -> Literal["passed", "failed", "not_applicable"]:
    if any(finding.rule == rule for finding in audit.findings):
        return "failed"
    return "passed" if rule in audit.judged else "not_applicable"


def _detail(audit: Audit, rule: str) -> str:
    count = sum(finding.rule == rule for finding in audit.findings)
    if count:
        return plural(count, "finding")
    return "nothing" if rule in audit.judged else "not applicable"


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
