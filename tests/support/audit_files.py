"""The fixtures that tests of audits read, unchanged or with some of their text replaced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bufferlab.audit.audit import Audit, audit_evidence
from bufferlab.audit.evidence import AuditFinding
from bufferlab.audit.parsers.captions import Line
from bufferlab.audit.parsers.read import FileEvidence, read_file, read_lines

FIXTURES = Path(__file__).parents[1] / "fixtures" / "audit"


def text_of(name: str, changes: Sequence[tuple[str, str]] = ()) -> str:
    """Return a fixture's text with every change made; a change that changes nothing is a mistake of the test."""
    text = (FIXTURES / name).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    return text


def evidence_of(text: str, name: str = "given.txt") -> FileEvidence:
    """Return what the parsers find in a text whose last line has a line end."""
    return read_lines((Line(number, line) for number, line in enumerate(text.splitlines(), start=1)), name)


def evidence_of_file(path: Path, text: str) -> FileEvidence:
    """Write the text to a file, and return what the importers find in it; its last line may have no line end."""
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def audit_of(text: str) -> Audit:
    """Return the audit of one text."""
    return audit_evidence([evidence_of(text)])


def found(text: str, rule: str) -> list[AuditFinding]:
    """Return the findings of one rule in a text."""
    return [finding for finding in audit_of(text).findings if finding.rule == rule]
