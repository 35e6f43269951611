"""Writes a command's output: columns for people, one JSON object for programs, files, and words on standard error."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bufferlab.texts import printable, printable_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bufferlab.chapter.blocks import Table
    from bufferlab.report.document import Report

from bufferlab.errors import EnvironmentLackingError, runnable

FORMAT_VERSION = 1
_GAP = "  "
_NARROWEST = 24


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON object, with its format version, on standard output."""
    text = json.dumps({"format_version": FORMAT_VERSION, **document}, ensure_ascii=False, allow_nan=False)
    print(printable_json(text), flush=True)


def put(text: str) -> None:
    """Print text on standard output."""
    print(printable(text), flush=True)


def draw(renderable: RenderableType, width_without_terminal: int) -> None:
    """Draw a renderable of rich on standard output. Only rich's own control sequences reach the terminal."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    console = Console(width=None if sys.stdout.isatty() else width_without_terminal, highlight=False)
    drawn = [Segment(printable(part.text), part.style, part.control) for part in console.render(renderable)]
    console.print(Segments(drawn), end="", soft_wrap=True)


def say(text: str) -> None:
    """Print words for the user, which are not part of the data, on standard error."""
    with unheard():
        print(printable(runnable(text)), file=sys.stderr, flush=True)


@contextmanager
def unheard() -> Iterator[None]:
    """Context manager for words: where reader, terminal or disk are gone, what is measured goes on without them."""
    try:
        yield
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def beginning(what: str) -> Iterator[None]:
    """Context manager for the work before the first words: a terminal shows `what` until it ends.

    Without a terminal it writes nothing.
    """
    shown = f"{what} ..." if sys.stderr.isatty() else ""
    print(shown, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(f"\r{' ' * len(shown)}\r", end="", file=sys.stderr, flush=True)


def write(path: Path, flag: str, text: str) -> None:
    """Write the file that the user chose with `flag`, and say so. Raises EnvironmentLackingError if that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentLackingError(
            f"the file cannot be written: {error.strerror}", str(path), f"choose another with {flag}"
        ) from error
    say(f"written: {path}")


def write_page(path: Path | None, report: Report, folder_name: str = "", made_by: str = "", footer: str = "") -> None:
    """Write a report as the page that --html asks for, if it does; `render_html` explains the names."""
    if path is not None:
        from bufferlab.report.html import render_html

        write(path, "--html", render_html(report, folder_name, made_by, footer))


def put_csv(table: Table) -> None:
    """Print a table as CSV, with names and units for programs, on standard output."""
    from bufferlab.report.csv_files import table_csv

    put(table_csv(table).rstrip())


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return the rows in aligned columns. The last column wraps within `width`, by default the terminal's (or 110)."""
    table = [list(heads), *[list(row) for row in rows]]
    widths = [max(len(row[place]) for row in table) for place in range(len(heads))]
    total = width or (shutil.get_terminal_size((110, 24)).columns if sys.stdout.isatty() else 110)
    last = max(_NARROWEST, total - sum(widths[:-1]) - len(_GAP) * (len(heads) - 1))
    lines = []
    for row in table:
        front = _GAP.join(cell.ljust(size) for cell, size in zip(row[:-1], widths, strict=False))
        for place, part in enumerate(textwrap.wrap(row[-1], last) or [""]):
            lead = front if place == 0 else " " * len(front)
            lines.append((lead + (_GAP if front else "") + part).rstrip())
    return "\n".join(lines)
