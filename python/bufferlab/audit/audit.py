"""Audits files: reads them, applies every rule, and makes the answer that every output format shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from bufferlab.audit.corrected import corrected_tables
from bufferlab.audit.evidence import AuditFinding, Case, pieces_key
from bufferlab.audit.parsers.read import HINT, FileEvidence, read_file
from bufferlab.audit.rules import RULES
from bufferlab.chapter.elements import Banner, Row, Section, Table
from bufferlab.chapter.words import plural
from bufferlab.errors import DataFileError, Problem
from bufferlab.report.document import Note, Report
from bufferlab.results.check_parts import Check

RULE_NAMES = tuple(rule.name for rule in RULES)
#: The most files that a page names above its answer. The page's last line names all files.
_MOST_NAMED = 6
_MOST_BANNERS = 3
#: The most findings that a page shows at once. It folds the others.
_MOST_OPEN = 20
_LIMITS = (
    "A rule that finds nothing has found nothing in what was given: a number that is not in the files is not judged.",
    "Corrected values follow from the numbers given, as they are given: they are not measured again.",
    "What a text concludes in words is not read; the numbers it concludes from are.",
)


@dataclass(frozen=True)
class Audit:
    """The result of an audit: the case that was read, the findings, and the corrected tables."""

    PRINTED: ClassVar = ("files", "unrecognised", "judged", "lines", "lines_read", "findings", "corrected")

    case: Case
    findings: tuple[AuditFinding, ...]
    tables: tuple[Table, ...]
    unrecognised: tuple[Problem, ...]
    """The problems: one for each file in which nothing was recognised, or only a set-up that no run uses, and one for
    each part of a file that is missing or cannot be read. At least one file has a number of a run."""
    judged: tuple[str, ...]
    """The names of the rules for which the files had evidence."""

    @property
    def files(self) -> list[str]:
        """Return the names of the files in which something was read."""
        return [one.file for one in self.case.files]

    @property
    def lines(self) -> int:
        """Return the number of lines of all files that are not blank."""
        return sum(one.lines for one in self.case.files)

    @property
    def lines_read(self) -> int:
        """Return the number of lines that a parser recognised."""
        return sum(one.lines_read for one in self.case.files)

    @property
    def corrected(self) -> list[CorrectedTable]:
        """Return the corrected tables, each row by the titles of its columns."""
        return [CorrectedTable(one.title, [dict(zip(one.titles, row.cells, strict=True)) for row in one.rows])
                for one in self.tables]  # fmt: skip


@dataclass(frozen=True)
class CorrectedTable:
    """A corrected table for programs."""

    title: str
    rows: list[dict[str, str]]


def audit_files(paths: Sequence[Path]) -> Audit:
    """Audit these files together, and return the result.

    Raises DataFileError if a file cannot be read, or if no file has a number of a run or a set-up that a finding names.
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
    """Yield a problem for each file that has only a set-up, if no run of another file and no finding uses it."""
    files = audit.case.files
    used = {pieces_key(one.file) for one in files if one.measured}
    used |= {pieces_key(finding.where.file) for finding in audit.findings}
    for one in files:
        if pieces_key(one.file) not in used:
            yield Problem("nothing was read but what it says of a set-up", one.file, HINT)


def audit_evidence(files: Sequence[FileEvidence]) -> Audit:
    """Apply every rule to the evidence of these files, and return the audit."""
    case = Case.of(files)
    findings = tuple(finding for rule in RULES for finding in rule.findings(case))
    found = {finding.rule for finding in findings}
    judged = tuple(rule.name for rule in RULES if rule.name in found or rule.is_judged(case))
    return Audit(case, findings, corrected_tables(case), (), judged)


#: The rules whose findings change numbers most, the worst first. All other rules follow in the order of RULES.
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


def worst(audit: Audit) -> AuditFinding:
    """Return the finding that changes numbers most; if its rule has several findings, the first.

    Raises ValueError without a finding.
    """
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
    """Return a sentence with the number of rules that had evidence, and the number of lines that were recognised."""
    count = len(audit.judged)
    return f"{plural(count, 'rule')} of {len(RULES)} had something to judge{_share(audit)}."


def _share(audit: Audit) -> str:
    lines, read = audit.lines, audit.lines_read
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


def as_report(audit: Audit) -> Report:
    """Return the audit as the document that every output format shows."""
    files = audit.files
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
        limits=_LIMITS,
        sections=tuple(sections),
        lead="findings",
        checks=tuple(
            Check(rule.name, rule.question, _status(audit, rule.name), _detail(audit, rule.name)) for rule in RULES
        ),
        parts=("answer", "", "notes", "tables", "captions"),
        notes=tuple(_notes(audit)),
        data=audit,
    )


def _banners(audit: Audit) -> Iterator[Banner]:
    """Yield a warning for each file or part that was not recognised; a single one for all if there are more than 3."""
    told = [f"{problem.where}: {problem.what}" for problem in audit.unrecognised]
    for text in told if len(told) <= _MOST_BANNERS else ["; ".join(told)]:
        yield Banner("warning", text)


def _notes(audit: Audit) -> Iterator[Note]:
    """Yield the lines that a terminal shows for each finding."""
    for finding in audit.findings:
        yield Note(finding.rule, f"  {finding.where}", "found")
        yield Note(finding.what, indent=2)
        yield Note(f"so: {finding.consequence}", look="quiet", indent=2)
        yield Note("corrected: ", finding.corrected, "good", indent=2)
        yield Note("")


def _findings_tables(audit: Audit) -> tuple[Table, ...]:
    heads = ("<Where", "<What", "<Consequence", "<Corrected")
    rows = [Row((str(one.where), one.what, one.consequence, one.corrected), "differs") for one in audit.findings]
    tables = [Table.of("findings", "One row for each finding", heads, rows[:_MOST_OPEN])]
    if rest := rows[_MOST_OPEN:]:
        tables.append(Table.of("more-findings", plural(len(rest), "more finding"), heads, rest, folded=True))
    return tuple(tables)


def _rules_table(audit: Audit) -> Table:
    found = {finding.rule for finding in audit.findings}
    rows = (Row((rule.question, _detail(audit, rule.name)), "failed" if rule.name in found else "") for rule in RULES)
    return Table.of("rules", "Every rule", ("<Question", "<Found"), rows)


def _status(audit: Audit, rule: str) -> Literal["passed", "failed", "not_applicable"]:
    if any(finding.rule == rule for finding in audit.findings):
        return "failed"
    return "passed" if rule in audit.judged else "not_applicable"


def _detail(audit: Audit, rule: str) -> str:
    count = sum(finding.rule == rule for finding in audit.findings)
    if count:
        return plural(count, "finding")
    return "nothing" if rule in audit.judged else "not applicable"
