"""Conditions that an answer on a terminal must meet at any width."""

from __future__ import annotations

import re

from bufferlab.report.document import Report
from bufferlab.report.terminal import tables_of, text


def require_whole(report: Report, width: int) -> None:
    """Require that no line is wider than the terminal, no word is cut or missing, and no column head is broken."""
    shown = text(report, width)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    there = {*shown.split()}
    for table in tables_of(report):
        for head in table.titles:
            assert any(re.search(rf"(^|\s){re.escape(head)}(\s|$)", line) for line in lines), head
        lost = {word for row in table.rows for cell in row.cells for word in cell.split()} - there
        assert not lost, "a word of a cell"
    assert not {word for word in report.answer.split() if len(word) < width} - there
