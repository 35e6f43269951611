"""Compares the stated number of buffer pool instances with the sections of the status text.

MySQL has one instance below 1 GiB, even if more are asked for, and by default eight from there on. MariaDB has one
since 10.5.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case, RunEvidence, name_of
from bufferlab.audit.finding import Finding, Rule
from bufferlab.chapter.words import plural
from bufferlab.importers.innodb_status import StatusDump

NAME = "instances-ran"


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each run whose status text has another number of instances than is stated."""
    for run in case.runs:
        said = _said(run)
        shown = [(count, dump) for dump in run.dumps if (count := _shown(dump, said)) is not None]
        if said and shown and all(count != said for count, _ in shown):
            yield _finding(run, said, *shown[0])


def _said(run: RunEvidence) -> int | None:
    name, _, value = run.label.partition(" = ")
    if name.endswith("instances") and value.isdigit():
        return int(value)
    return run.stated.instances


def _shown(dump: StatusDump, said: int | None) -> int | None:
    """Return the instances of a printout, or None when a cut printout leaves them open."""
    sections = len(dump.instances)
    if dump.whole and "pool_pages" in dump.fields:
        return max(sections, 1)
    return sections if said is not None and sections > said else None


def _finding(run: RunEvidence, said: int, ran: int, dump: StatusDump) -> Finding:
    pages = int(dump.fields.get("pool_pages", 0))
    each = f", {pages // ran:,} of {pages:,} pages each" if pages else ""
    return Finding(
        NAME,
        run.stated.instances_place or dump.place,
        f"{plural(said, 'buffer pool instance')} said, the status text of {name_of(run)} shows {ran}{each}",
        f"scan depth and page cleaning work on each instance: the server cleaned {ran / said:.3g} times the pages said",
        f"innodb_buffer_pool_instances = {ran}",
        {"instances_said": said, "instances_run": ran, "pages": pages},
    )


RULE = Rule(NAME, "Did the number of instances that is said run?", check)
