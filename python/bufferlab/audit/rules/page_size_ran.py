"""Compares the stated page size with memory per page, bytes per read and the size of iostat's reads."""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case, RunEvidence, name_of
from bufferlab.audit.finding import Finding, Rule
from bufferlab.units import format_bytes

NAME = "page-size-ran"


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each run whose evidence agrees on another page size than is stated."""
    for run in case.runs:
        said, shown = run.page_bytes_said, run.page_bytes_shown
        if said and shown and said not in shown.values() and len(set(shown.values())) == 1:
            yield _finding(run, said, shown)


def _finding(run: RunEvidence, said: int, shown: dict[str, int]) -> Finding:
    ran = next(iter(shown.values()))
    pages = next((int(dump.fields["pool_pages"]) for dump in run.dumps if "pool_pages" in dump.fields), None)
    places = [*(dump.place for dump in run.dumps), *(report.place for report in run.reports)]
    place = (run.stated.page_size_place if not run.label else None) or places[0]
    pool = f": a pool of {pages:,} pages is {format_bytes(pages * ran)}" if pages else ""
    return Finding(
        NAME,
        place,
        f"pages of {said // 1024} KiB said, and {' and '.join(shown)} of {name_of(run)} show {ran // 1024} KiB",
        f"sizes made from pages are {_times(said, ran)}; the setting that is named did not run",
        f"innodb_page_size = {ran}{pool}",
        {"page_bytes_said": said, "page_bytes_run": ran, "shown_by": list(shown), "pool_pages": pages},
    )


def _times(said: int, ran: int) -> str:
    return f"{said / ran:g} times too large" if said > ran else f"{ran / said:g} times too small"


RULE = Rule(NAME, "Did the page size that is said run?", check)
