"""Writes a command's output: text in columns or one JSON object, files, and messages on standard error.

It also prints a sweep's answer, and writes its reports into the sweep's folder.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bufferlab import output_files
from bufferlab.errors import EXIT_RULE_BROKEN, EnvironmentLackingError, Problem, program, runnable
from bufferlab.report.json_output import FORMAT_VERSION, printed
from bufferlab.texts import printable, printable_json

if TYPE_CHECKING:
    from bufferlab.chapter.elements import Table
    from bufferlab.report.comparison.fail_if import RuleJudged
    from bufferlab.report.document import Report
    from bufferlab.results.store import SweepFolder

#: The width, in characters, of an answer that does not go to a terminal.
_WIDTH_WITHOUT_TERMINAL = 120
_GAP = "  "
_NARROWEST = 30
"""The least room, in characters, for the last column of a table next to the others."""
_BELOW = "    "
_answers: list[bool] = []
"""Has an item as soon as the command has printed a JSON object."""


def print_json(document: object) -> None:
    """Print the JSON object that `printed` makes of a document, with the format version, on standard output."""
    found = {"format_version": FORMAT_VERSION, **printed(document)}
    text = json.dumps(found, ensure_ascii=False, allow_nan=False)
    print(printable_json(text), flush=True)
    _answers.append(True)


def print_error_json(document: object) -> None:
    """Print the JSON object of an error, unless the answer is already printed: programs read only one object."""
    if not _answers:
        print_json(document)


def forget_answer() -> None:
    """Reset the record of printed JSON objects, because a new command begins."""
    _answers.clear()


def put(text: str) -> None:
    """Print text on standard output."""
    print(printable(text), flush=True)


def show(answer: Report, as_json: bool, table: Table | None = None) -> None:
    """Print an answer on standard output: as a JSON object, as the CSV of `table` if one is given, or as text."""
    if as_json:
        from bufferlab.report.document import as_json as document

        print_json(document(answer))
    elif table:
        put_csv(table)
    else:
        _draw(answer)


def _draw(answer: Report) -> None:
    """Print an answer as text on standard output. No control sequences except those of rich reach the terminal."""
    from rich.console import Console
    from rich.segment import Segment, Segments

    from bufferlab.report.terminal import drawn, text

    if not sys.stdout.isatty():
        put(text(answer, _WIDTH_WITHOUT_TERMINAL))
        return
    console = Console(highlight=False)
    parts = [Segment(printable(part.text), part.style, part.control) for part in console.render(drawn(answer))]
    console.print(Segments(parts), end="", soft_wrap=True)


def say(text: str) -> None:
    """Print a message for the user on standard error, apart from the data."""
    shown = printable(runnable(text))
    with unheard():
        print(in_lines(shown, sys.stderr), file=sys.stderr, flush=True)


def in_lines(text: str, stream: IO[str] | None = None) -> str:
    """Return a text wrapped between words for the terminal's width. Lines with a command are not wrapped.

    `stream` is standard output by default. If it is not a terminal, the text stays unchanged.
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        return text
    width, found = 80, []
    with suppress(OSError):  # Not every terminal has a descriptor.
        width = os.get_terminal_size(stream.fileno()).columns or width
    for line in text.split("\n"):
        lead = " " * (len(line) - len(line.lstrip()))
        is_whole = len(line) <= width or f"{program()} " in line
        found += [line] if is_whole else [lead + part for part in _wrapped(line, width - len(lead))]
    return "\n".join(found)


@contextmanager
def unheard() -> Iterator[None]:
    """Context manager for messages on standard error. If these cannot be written, the command goes on without them."""
    try:
        yield
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


@contextmanager
def beginning(what: str) -> Iterator[None]:
    """Context manager for the work before a command's first message: a terminal shows `what` until the work ends.

    If standard error is not a terminal, it writes nothing.
    """
    shown = f"{what} ..." if sys.stderr.isatty() else ""
    print(shown, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(f"\r{' ' * len(shown)}\r", end="", file=sys.stderr, flush=True)


@contextmanager
def answering(*files: Callable[[], None]) -> Iterator[None]:
    """Context manager for printing the answer. At its end it writes the files, even if printing the answer failed.

    If files cannot be written, it raises one EnvironmentLackingError with all their problems.
    """
    try:
        yield
    finally:
        problems: list[Problem] = []
        for file in files:
            try:
                file()
            except EnvironmentLackingError as error:
                problems += error.problems
        if problems:
            first, *more = problems
            raise EnvironmentLackingError(first.what, first.where, first.hint, more=more)


def try_place(path: Path, flag: str) -> None:
    """Check, before any work, that the file that the user chose with `flag` can be written.

    Changes nothing. Raises EnvironmentLackingError if the file cannot be written.
    """
    with placing(path, flag):
        output_files.try_place(path)


def write(path: Path, flag: str, content: str | output_files.Fill) -> None:
    """Write the file that the user chose with `flag`, completely or not at all, and print its path as a message.

    Raises EnvironmentLackingError if that fails.
    """
    with placing(path, flag):
        output_files.write(path, (lambda file: file.write(content.encode())) if isinstance(content, str) else content)
    say(f"written: {path}")


@contextmanager
def placing(path: Path, flag: str) -> Iterator[None]:
    """Context manager for writing the file of `flag`: it turns an OSError into an EnvironmentLackingError."""
    try:
        yield
    except OSError as error:
        raise EnvironmentLackingError(
            f"the file cannot be written: {error.strerror}", str(path), f"choose another with {flag}"
        ) from error


def write_markdown(path: Path | None, flag: str, report: Report) -> None:
    """Write a report as Markdown, without figures and so in a single file, to the path given with `flag`, if any."""
    if path is not None:
        from bufferlab.report.markdown import render_markdown

        write(path, flag, render_markdown(replace(report, headline=None)))


def write_page(path: Path | None, report: Report, folder_name: str = "", made_by: str = "", footer: str = "") -> None:
    """Write a report as a page to the path given with --html, if any; `render_html` explains the other arguments."""
    if path is not None:
        from bufferlab.report.html import render_html

        write(path, "--html", render_html(report, folder_name, made_by, footer))


def write_figure(path: Path | None, report: Report) -> None:
    """Write a report's headline figure, if it has one, to the path given with --svg, if any."""
    if path is not None and report.headline:
        from bufferlab.report.figures.svg import draw

        write(path, "--svg", draw(report.headline))


def show_answer(folder: SweepFolder, as_json: bool) -> None:
    """Write the sweep's report as a page and as Markdown into the sweep's folder, and print the answer."""
    with beginning("making the report"):
        from bufferlab.report.build import publish

        built = publish(folder)
    show(built, as_json)
    say(f"report: {folder.path / 'report.html'}")


def write_reports(folder: SweepFolder, as_json: bool, *, html: bool, markdown: bool) -> None:
    """Write the requested forms of the report. Print their paths, or, with `as_json`, the answer."""
    from bufferlab.report.build import build
    from bufferlab.report.html import write_html
    from bufferlab.report.markdown import write_markdown

    built = build(folder)
    written: list[Path] = []
    if html:
        written.append(write_html(built, folder))
    if markdown:
        written.append(write_markdown(built, folder))
    if as_json:
        show(built, as_json)
    else:
        put("\n".join(map(str, written)))


def strict_exit_code(folder: SweepFolder) -> int:
    """Return the exit code of --strict, and print the names of the failed checks on standard error."""
    from bufferlab.chapter.analysis import Analysis
    from bufferlab.chapter.numbers_in_doubt import failed

    titles = [check.title for check in failed(Analysis.of(folder).checks)]
    if titles:
        say(f"--strict: {len(titles)} failed: {'; '.join(titles)}")
    return 1 if titles else 0


def write_tables(folder: SweepFolder) -> None:
    """Write every table of the report and the numbers of every figure as CSV, and print the paths."""
    from bufferlab.report.build import build
    from bufferlab.report.csv_files import write_csv

    put("\n".join(map(str, write_csv(build(folder), folder))))


def rules_exit_code(rules: Iterable[RuleJudged], undecided: str) -> int:
    """Return the exit code of a command with --fail-if: EXIT_RULE_BROKEN if a rule is broken, else 0.

    If `undecided` is "fail", an undecided rule counts as broken.
    """
    failing = {"broken", "undecided"} if undecided == "fail" else {"broken"}
    return EXIT_RULE_BROKEN if any(judged.outcome in failing for judged in rules) else 0


def put_csv(table: Table) -> None:
    """Print a table as CSV on standard output, with names and units for programs."""
    from bufferlab.report.csv_files import table_csv

    put(table_csv(table).rstrip())


def _terminal_columns() -> int:
    import shutil  # Imported late, because it loads the compressors of archives.

    return shutil.get_terminal_size((110, 24)).columns


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return the rows in aligned columns within `width` characters. The last column wraps between words.

    If the other columns leave no room for it, it gets its own lines below each row. The default width is that of the
    terminal, or 110 if standard output is not a terminal.
    """
    table = [list(heads), *[list(row) for row in rows]]
    widths = [max(len(row[place]) for row in table) for place in range(len(heads))]
    total = width or (_terminal_columns() if sys.stdout.isatty() else 110)
    front = sum(widths[:-1]) + len(_GAP) * (len(heads) - 1)
    is_below = total - front < min(_NARROWEST, widths[-1])
    lead = _BELOW if is_below else " " * front
    lines = []
    for row in table:
        first = _GAP.join(cell.ljust(size) for cell, size in zip(row[:-1], widths, strict=False))
        told = _wrapped(row[-1], max(_NARROWEST, total - len(lead))) or [""]
        if is_below:
            lines += [*_wrapped(first.rstrip(), total, lead), *(lead + part for part in told)]
        else:
            lines += [(first + (_GAP if first else "") + told[0]).rstrip(), *(lead + part for part in told[1:])]
    return "\n".join(lines)


def _wrapped(text: str, width: int, lead: str = "") -> list[str]:
    """Return a text in lines that end between words. A path or another word longer than a line stays whole."""
    return textwrap.wrap(text, width, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False)
