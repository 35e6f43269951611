"""Writes the report as Markdown for a repository or a ticket, with its figures as SVG files, their numbers as CSV.

It has the same words and tables as the HTML page; long tables are folded. The text of a cell cannot break its table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bufferlab.chapter.elements import Figure, Table
from bufferlab.report.csv_files import figure_csv
from bufferlab.report.document import Report
from bufferlab.report.figures.svg import draw
from bufferlab.texts import printable

if TYPE_CHECKING:
    from bufferlab.results.store import SweepFolder

_MARKS = re.compile(r"[\\*_`\[\]#!|~$]")
#: Matches characters that begin a list or a rule at the start of a line.
_BEGINS_A_BLOCK = re.compile(r"^([0-9]*)([-+.)])(?=[-\s]|$)")
_BANNER_MARKS = {"danger": "CAUTION", "warning": "WARNING"}


def render_markdown(report: Report) -> str:
    """Return the report as Markdown; figures are expected at figures/<id>.svg."""
    return "\n".join(_lines(report)).rstrip() + "\n"


def write_markdown(report: Report, sweep: SweepFolder) -> Path:
    """Write report.md, figures/*.svg and the numbers of each figure as CSV into the sweep folder.

    Return the path of report.md.
    """
    for figure in figures_of(report):
        sweep.write_derived(f"figures/{figure.id}.svg", draw(figure))
        sweep.write_derived(f"figures/{figure.id}.csv", figure_csv(figure))
    return sweep.write_derived("report.md", render_markdown(report))


def figures_of(report: Report) -> list[Figure]:
    """Return every figure of a report, the headline first."""
    return [*filter(None, [report.headline]), *(block for block in report.blocks if isinstance(block, Figure))]


def _lines(report: Report) -> Iterator[str]:
    yield f"# {text(report.question)}"
    yield ""
    for banner in report.banners:
        yield from (f"> [!{_BANNER_MARKS[banner.kind]}]", f"> {text(banner.text)}", "")
    yield f"**{text(report.answer)}**"
    yield ""
    if report.headline:
        yield from _figure(report.headline)
    if report.steps:
        yield from _table(report.steps, level=2)
    yield f"<sub>{' · '.join(text(fact) for fact in (report.title, *report.facts))}</sub>"
    yield ""
    if report.limits:
        yield from (f"## {report.limits_title}", "")
        yield from (f"- {text(limit)}" for limit in report.limits)
        yield ""
    for section in report.sections:
        yield from (f"## {text(section.title)}", "")
        if section.intro:
            yield from (text(section.intro), "")
        for block in section.blocks:
            if isinstance(block, Table):
                yield from _table(block)
            else:
                # Only a sweep has a folder for pictures; other reports have the numbers.
                yield from _figure(block, heading=True) if report.is_stored else _table(block.data)


def _figure(figure: Figure, *, heading: bool = False) -> Iterator[str]:
    if heading:
        yield from (f"### {text(figure.title)}", "")
    yield f"![{text(figure.alt)}](figures/{figure.id}.svg)"
    yield from ("", text(figure.caption), "")
    yield from _table(figure.data)


def _table(whole: Table, level: int = 3) -> Iterator[str]:
    table = whole.filled
    if table.folds:
        yield from ("<details>", f"<summary>{text(table.title)}</summary>", "")
    else:
        yield from (f"{'#' * level} {text(table.title)}", "")
    yield _row(column.title for column in table.columns)
    yield _row(("---:" if column.numeric else "---" for column in table.columns), escape=False)
    yield from (_row(row.cells) for row in table.rows)
    yield ""
    if table.caption:
        yield from (text(table.caption), "")
    if table.folds:
        yield from ("</details>", "")


def _row(cells: Iterator[str] | tuple[str, ...], *, escape: bool = True) -> str:
    return f"| {' | '.join(text(cell) if escape else cell for cell in cells)} |"


def text(words: str) -> str:
    """Return a text escaped for Markdown, on one line: it has no markup, and cannot end a cell.

    >>> print(text("1. a|b\\\\c *d* <e>"))
    1\\. a\\|b\\\\c \\*d\\* &lt;e&gt;
    """
    words = " ".join(printable(words).split())
    words = _MARKS.sub(r"\\\g<0>", words)
    for mark, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        words = words.replace(mark, instead)
    return _BEGINS_A_BLOCK.sub(r"\1\\\2", words)
