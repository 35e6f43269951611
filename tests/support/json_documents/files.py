"""What `audit` prints of others' files, and `script-from-slow-log` of a log."""

from __future__ import annotations

from typing import Any, Literal

from support.json_documents.base import Document, Printed, Problem


class AuditFinding(Document):
    rule: str
    file: str
    line: int | None
    label: str | None
    what: str
    consequence: str
    corrected: str
    numbers: dict[str, Any]


class CorrectedTable(Document):
    title: str
    rows: list[dict[str, str]]


class Audit(Printed):
    """`audit`."""

    status: Literal["ok"]
    files: list[str]
    unrecognised: list[Problem]
    """Files of which nothing was read, and pieces that were recognised and not read."""
    judged: list[str]
    """The rules that had something to judge."""
    lines: int
    """The lines that are not blank."""
    lines_read: int
    findings: list[AuditFinding]
    corrected: list[CorrectedTable]


class SlowLogSection(Document):
    name: str
    weight: int
    seen: int
    """Transactions of the log; the weight is less where there are more than a million."""
    query_seconds: float
    digests: list[str]
    values_of_transactions: int
    """The transactions whose values the section has; 0 where no value varies."""


class SlowLogDigest(Document):
    digest: str
    count: int
    query_seconds: float


class SlowLogLeftOut(Document):
    statements: int
    why: str


class SlowLogScript(Printed):
    """`script-from-slow-log`; docs/scripts.md says what a script has of a log. It holds no value of the log."""

    status: Literal["ok"]
    script: str
    database_schema: str
    entries: int
    statements: int
    statements_in_script: int
    transactions_in_script: int
    query_seconds: float
    sections: list[SlowLogSection]
    digests: list[SlowLogDigest]
    left_out: list[SlowLogLeftOut]
    notes: list[str]
