"""An audit from files to findings: read, ask every rule, make the corrected tables."""

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
    """What was read and what was found."""

    case: Case
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...]
    unrecognised: tuple[Problem, ...]
    """Files among others in which there was nothing."""


def audit_files(paths: Sequence[Path]) -> Audit:
    """Audit these files together. A file that cannot be read, or nothing in any of them, is a DataFileError."""
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
    """Ask every rule of what has been read."""
    case = Case.of(files)
    findings = tuple(finding for rule in RULES for finding in rule.check(case))
    return Audit(case, findings, corrected_tables(case), unrecognised)
