"""Prints a sweep's answer on standard output, as a table or one JSON object, and writes reports to its folder."""

from __future__ import annotations

from pathlib import Path

from bufferlab.cli.output import beginning, put, say, show
from bufferlab.results.store import SweepFolder


def show_answer(folder: SweepFolder, as_json: bool) -> None:
    """Write every form of the report to the sweep's folder, and print the answer."""
    with beginning("making the report"):
        from bufferlab.report.build import publish

        built = publish(folder)
    show(built, as_json)
    say(f"report: {folder.path / 'report.html'}")


def write_reports(folder: SweepFolder, as_json: bool, *, html: bool, markdown: bool) -> None:
    """Write only the forms of the report that were asked for. Print their paths, or with --json the answer."""
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
    """Return the exit code of --strict, and name the checks that failed on standard error."""
    from bufferlab.chapter.analysis import Analysis
    from bufferlab.chapter.doubts import failed

    titles = [check.title for check in failed(Analysis.of(folder).checks)]
    if titles:
        say(f"--strict: {len(titles)} failed: {'; '.join(titles)}")
    return 1 if titles else 0


def write_tables(folder: SweepFolder) -> None:
    """Write every table of the report as CSV, and print the paths."""
    from bufferlab.report.build import build
    from bufferlab.report.csv_files import write_csv

    put("\n".join(map(str, write_csv(build(folder), folder))))
