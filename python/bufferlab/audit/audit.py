"""Does an audit from files to findings: reads the files, asks every rule, makes the corrected tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bufferlab.audit.case import Case
from bufferlab.audit.corrected import corrected_tables
from bufferlab.audit.finding import Finding
from bufferlab.audit.rules import RULES
from bufferlab.chapter.blocks import Table
from bufferlab.errors import DataFileError, Problem
from bufferlab.importers.read import FileEvidence, read_file


@dataclass(frozen=True)
class Audit:
    """The case that was read, the findings, and the corrected tables."""

    case: Case
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    unrecognised: tuple[Problem, ...]
    """A problem for each file in which nothing was recognised, though something was in others."""


def audit_files(paths: Sequence[Path]) -> Audit:
    """Audit these files together. Raise DataFileError when one cannot be read, or nothing is recognised in any."""
    files: list[FileEvidence] = []
    empty: list[Problem] = []
    for path in paths:
        try:
            files.append(read_file(path))
        except DataFileError as error:
            if error.__cause__ is not None:
                raise
            empty += error.problems
    if not files:
        first, *more = empty
        raise DataFileError(first.what, first.where, first.hint, more=more)
    return audit_evidence(files, tuple(empty))


def audit_evidence(files: Sequence[FileEvidence], unrecognised: tuple[Problem, ...] = ()) -> Audit:
    """Ask every rule about the evidence that was read; return the audit."""
    case = Case.of(files)
    findings = tuple(finding for rule in RULES for finding in rule.check(case))
    return Audit(case, findings, corrected_tables(case), unrecognised)
