"""The figures that audits are tested on, and the same with some of their text changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bufferlab.audit.audit import Audit, audit_evidence
from bufferlab.audit.evidence import AuditFinding
from bufferlab.audit.parsers.captions import Line
from bufferlab.audit.parsers.read import FileEvidence, read_file, read_lines

FIXTURES = Path(__file__).parents[1] / "fixtures" / "audit"


def text_of(name: str, changes: Sequence[tuple[str, str]] = ()) -> str:
    """A fixture's text with every change made; one that changes nothing is a mistake of the test."""
    text = (FIXTURES / name).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    return text


def evidence_of(text: str, name: str = "given.txt") -> FileEvidence:
    """What the parsers see in a text, with an end at its last line."""
    return read_lines((Line(number, line) for number, line in enumerate(text.splitlines(), start=1)), name)


def evidence_of_file(path: Path, text: str) -> FileEvidence:
    """What the importers see in a file of this text, whose last line may have no end; the file is written."""
    path.write_text(text, encoding="utf-8")
    return read_file(path)


def audit_of(text: str) -> Audit:
    """The audit of one text."""
    return audit_evidence([evidence_of(text)])


def found(text: str, rule: str) -> list[AuditFinding]:
    """What one rule finds in a text."""
    return [finding for finding in audit_of(text).findings if finding.rule == rule]
