"""Writes the report as one self-contained HTML page: styles and figures are inside, without scripts or network access.

The template escapes all texts of runs. Only SVG that bufferlab has drawn goes in as markup.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bufferlab.chapter.elements import Figure, Table
from bufferlab.chapter.words import kept_together
from bufferlab.report.document import Report
from bufferlab.report.figures.svg import draw, for_page
from bufferlab.texts import printable

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

    from bufferlab.results.store import SweepFolder

_HALF_SHEET = 100
"""The number of characters that fit half of a sheet's width, at the font size of printed tables."""
_COLUMN = 54
"""The number of characters that fit one of two columns, in which a long table is printed."""
_MANY = 9
"""A table of more columns than this is printed in smaller letters."""
_GAP = 2
"""The width of the gap after a column, in characters."""


def render_html(report: Report, folder_name: str = "", made_by: str = "bufferlab report", footer: str = "") -> str:
    """Return the HTML page of a report.

    `footer` is the text of the page's footer. Without it, the footer names the folder of the samples (`folder_name`)
    and the command that makes the page again (`made_by`).
    """
    from markupsafe import Markup

    def svg(figure: Figure) -> Markup:
        # The SVG is safe as markup: matplotlib escapes the texts that it draws, and `for_page` escapes the label.
        return Markup(for_page(draw(figure), figure))

    page = _template().render(
        report=report,
        folder_name=folder_name,
        made_by=made_by,
        footer=footer,
        svg=svg,
    )
    # Names of files and texts of logs may have control characters, which HTML forbids.
    return printable(page)


@cache
def _template() -> Template:
    """Return the page's template. Each process compiles it only once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["kept"] = _kept_together
    environment.tests["figure"] = lambda block: isinstance(block, Figure)
    environment.tests["narrow"] = _fits_half_a_sheet
    environment.tests["fitting_a_column"] = _fits_a_column
    return environment.get_template("page.html.j2")


def _fits_half_a_sheet(table: Table) -> bool:
    """Return whether a printed row takes at most half of a sheet's width."""
    return bool(table.rows) and sum(_width(table, place) for place in range(len(table.columns))) <= _HALF_SHEET


def _fits_a_column(table: Table) -> bool:
    """Return whether a printed row fits one of two columns, if text is broken between words, and numbers are not."""
    if not _fits_half_a_sheet(table) or len(table.columns) > _MANY:
        return _fits_half_a_sheet(table)
    words = (
        max(len(word) for row in table.rows for word in (row.cells[place].split() or [""]))
        for place, column in enumerate(table.columns)
        if not column.numeric
    )
    numbers = (_width(table, place) for place, column in enumerate(table.columns) if column.numeric)
    return sum(words) + _GAP * sum(not column.numeric for column in table.columns) + sum(numbers) <= _COLUMN


def _width(table: Table, place: int) -> int:
    """Return the width of a column in characters, as wide as its longest cell or the longest word of its head."""
    head = max(map(len, table.columns[place].title.split()), default=0)
    return max(head, *(len(row.cells[place]) for row in table.rows)) + _GAP


def _kept_together(text: str) -> Markup:
    """Return a text as HTML in which numbers with their units, and intervals, stay on one line."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"[\d.,]+–[\d.,]+", r'<span class="ends">\g<0></span>', str(escape(kept_together(text)))))


def write_html(report: Report, sweep: SweepFolder) -> Path:
    """Write report.html into the sweep folder; return its path."""
    return sweep.write_derived("report.html", render_html(report, sweep.path.name))
