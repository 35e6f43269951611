"""Makes a PDF of a lab report by Typst: page.typ lays out the blocks, which it gets as JSON.

A text of a report is never Typst code or markup: Typst parses only page.typ, and shows strings unchanged. It reads no
other file, and has no network. Only `write_pdf` needs the package `typst`.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bufferlab.chapter.elements import Banner, Figure, Table
from bufferlab.chapter.words import kept_together
from bufferlab.errors import EnvironmentLackingError, InternalError
from bufferlab.report.figures.svg import draw
from bufferlab.report.lab.a4_tables import broken, grids
from bufferlab.report.lab.chapters import lab_report, shorter
from bufferlab.report.lab.content import Block, Heading, Items, LabReport, Pair, Paragraph, Submission
from bufferlab.report.lab.fonts import FALLBACK, Chosen, choose, folder, without_missing
from bufferlab.texts import printable

if TYPE_CHECKING:
    from bufferlab.results.store import SweepFolder

_PAGE = Path(__file__).with_name("page.typ")
_CLONE = Path(__file__).resolve().parents[4]
_LOCK = "requirements-pdf.lock"
"""The file with Typst's version and its dependencies. A clone has it; an installed package lacks it."""
MOST_PAGES = 12
"""The most pages that a report should have. A longer report leaves out details, step by step."""
#: Matches the bytes that mark a page in a PDF.
_A_PAGE = re.compile(rb"/Type\s*/Page\b")
#: The largest height of a figure, which leaves room for its title on the page.
_TALLEST_PT = 600.0
#: The width of a figure, at which letters of 10 points are scaled to 8.5.
_FIGURE_PT = 320.0
#: The width of each of two figures in a row.
_HALF_PT = 234.0
#: The scales of the figures that are tried, the largest first. At the last one letters of figures have 7.8 points, in a
#: row 5.8.
_SCALES = (1.0, 0.96, 0.92)
_WIDTH, _HEIGHT = (re.compile(rf'<svg\b[^>]*? {name}="([\d.]+)pt"') for name in ("width", "height"))


def write_pdf(sweep: SweepFolder, submission: Submission | None = None) -> tuple[Path, Chosen]:
    """Write report.pdf into the sweep folder, with the names of those who hand it in; return its path and fonts.

    Raises EnvironmentLackingError if Typst is not installed or the file cannot be written, and InternalError if Typst
    refuses the report.
    """
    typst = _typst()
    made = lab_report(sweep, submission)
    chosen = choose(_strings(as_document(made)), typst.Fonts().fonts())
    document, pdf = {}, b""
    for tried in shorter(made):
        document = as_document(tried)
        pdf = compiled(document, chosen, _SCALES[-1])
        if _pages(pdf) <= MOST_PAGES:
            break
    # A figure that does not fit on a page leaves the rest of this page empty. So take the largest scale that adds no
    # page.
    for scale in _SCALES[:-1]:
        larger = compiled(document, chosen, scale)
        if _pages(larger) <= _pages(pdf):
            pdf = larger
            break
    return sweep.write_derived("report.pdf", pdf), chosen


def _pages(pdf: bytes) -> int:
    return len(_A_PAGE.findall(pdf))


def _typst() -> Any:
    try:
        import typst
    except ImportError as error:
        raise EnvironmentLackingError(
            "a PDF is set by Typst, which is not installed", "--format pdf", _hint()
        ) from error
    return typst


def _hint() -> str:
    """Return the command that installs Typst: a clone has its versions in a file, a package has an extra."""
    return f".venv/bin/pip install -r {_LOCK}" if (_CLONE / _LOCK).exists() else "pip install 'bufferlab[pdf]'"


def as_document(made: LabReport) -> dict[str, Any]:
    """Return the lab report as the JSON document that page.typ lays out. Figures are SVG texts."""
    return {
        "title": _text(made.title),
        "facts": [[_text(name), _text(value)] for name, value in made.facts],
        "authors": [_text(author) for author in made.authors],
        "date": made.date,
        "blocks": [shown for block in made.whole for shown in _shown(block)],
    }


def _text(text: str) -> str:
    """Return a text for the page: on one line, without control characters, with numbers kept with their units."""
    return broken(kept_together(" ".join(printable(text).split())))


def _shown(block: Block) -> Iterator[dict[str, Any]]:
    match block:
        case Heading():
            yield {"kind": "heading", "level": block.level, "text": _text(block.text)}
        case Paragraph():
            yield {"kind": "paragraph", "look": block.look, "goes_on": block.goes_on, "text": _text(block.text)}
        case Items():
            yield {"kind": "items", "texts": [_text(text) for text in block.texts]}
        case Banner():
            yield {"kind": "banner", "of": block.kind, "text": _text(block.text)}
        case Figure():
            yield _figure(block, _FIGURE_PT)
        case Pair():
            yield {"kind": "pair", "figures": [_figure(figure, _HALF_PT) for figure in block.figures]}
        case Table():
            yield from _table(block)


def _figure(figure: Figure, width_pt: float) -> dict[str, Any]:
    svg = draw(figure)
    height, width = _size(svg)
    scale = min(width_pt / width, _TALLEST_PT / height)
    return {
        "kind": "figure",
        "title": _text(figure.title),
        "caption": _text(figure.caption),
        "alt": printable(figure.alt),
        "svg": svg,
        "width": round(width * scale, 1),
    }


def _size(svg: str) -> tuple[float, float]:
    """Return the height and width of a figure in points, from its SVG. Raises InternalError if the SVG lacks one."""
    height, width = _HEIGHT.search(svg), _WIDTH.search(svg)
    if height is None or width is None:
        raise InternalError("a figure does not tell its size")
    return float(height[1]), float(width[1])


def _table(table: Table) -> Iterator[dict[str, Any]]:
    if not table.rows:
        return
    for grid in grids(table):
        yield {
            "kind": "table",
            "title": _text(grid.table.title),
            "part": grid.part,
            "caption": _text(grid.table.caption) if not grid.part or grid.part.startswith("1/") else "",
            "size": grid.size_pt,
            "in_halves": grid.in_halves,
            "widths": list(grid.widths_pt),
            "numeric": [column.numeric for column in grid.table.columns],
            "heads": [_cell(column.title) for column in grid.table.columns],
            "rows": [{"mark": row.mark, "cells": [_cell(cell) for cell in row.cells]} for row in grid.table.rows],
        }


def _cell(text: str) -> str:
    """Return a cell on one line. `a4_tables` has already put in the places at which it may break."""
    return " ".join(part for part in re.split("[ \\n\\t]+", printable(text)) if part)


def _strings(value: Any) -> Iterator[str]:
    """Yield all texts in a JSON document."""
    if isinstance(value, str):
        yield value
    else:
        parts: Iterable[Any] = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for part in parts:
            yield from _strings(part)


def _replaced(value: Any, chosen: Chosen) -> Any:
    """Return the document with letters that no font has replaced, and with the chosen fonts named in its figures."""
    if isinstance(value, dict):
        return {key: _in_fonts(one, chosen) if key == "svg" else _replaced(one, chosen) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, chosen) for one in value]
    return without_missing(value, chosen.missing) if isinstance(value, str) else value


def _in_fonts(svg: str, chosen: Chosen) -> str:
    """Return a figure's SVG that names the chosen fonts. matplotlib measured letters of DejaVu Sans, but names only
    "sans-serif".
    """
    families = ", ".join(f"'{family}'" for family in (FALLBACK, *chosen.families[2:]))
    return without_missing(svg, chosen.missing).replace("sans-serif", families)


def sources(document: dict[str, Any], chosen: Chosen, scale: float = 1.0) -> tuple[str, dict[str, str]]:
    """Return the Typst program, which is the same for all reports, and its inputs: the document as JSON."""
    told = {**_replaced(document, chosen), "fonts": list(chosen.families), "scale": scale}
    return _PAGE.read_text("utf-8"), {"report": json.dumps(told, ensure_ascii=False)}


def compiled(document: dict[str, Any], chosen: Chosen, scale: float = 1.0) -> bytes:
    """Return the PDF of a document: the same bytes for the same document, fonts and version of Typst.

    `scale` is that of the figures.
    Raises EnvironmentLackingError if Typst is not installed, and InternalError if it refuses the document.
    """
    typst = _typst()
    program, inputs = sources(document, chosen, scale)
    compiler = typst.Compiler(
        program.encode(),
        font_paths=[str(folder())],
        ignore_system_fonts=chosen.is_of_every_host,
        sys_inputs=inputs,
    )
    try:
        pdf = compiler.compile(format="pdf", timestamp=_stamp(document["date"]))
    except typst.TypstError as error:
        raise InternalError(f"Typst did not set the report: {error.message}", str(_PAGE)) from error
    assert isinstance(pdf, bytes)
    return pdf


def _stamp(date: str) -> int:
    """Return the PDF's creation time: the day of the first run, so that the bytes are the same each time; else 0."""
    with suppress(ValueError):
        return int(datetime.datetime.fromisoformat(f"{date}T00:00:00+00:00").timestamp())
    return 0
