"""Finds pools that ran with another size than was asked for: the status text shows the size in pages.

InnoDB rounds up to whole chunks (128 MiB unless set) times instances: `buf_pool_size_align`, MySQL 5.7.5 and later.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case, RunEvidence, name_of
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.stated import PoolStated, parse_lenient_bytes
from bufferlab.units import MIB, format_bytes, format_percent

NAME = "pool-asked"
#: MariaDB takes the pages' descriptors out of the pool: it runs up to this much less than asked, and says so rightly.
_TOLERANCE = 0.03


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each size asked for, with every run whose pool is another."""
    for runs in case.runs_by_file.values():
        stated = next((pool for pool in runs[0].stated.pools if not pool.listed), None)
        differing: dict[int, list[RunEvidence]] = {}
        for run in runs:
            asked, run_bytes = _asked(run, stated), run.pool_bytes
            if asked and run_bytes and abs(run_bytes / asked - 1) > _TOLERANCE:
                differing.setdefault(asked, []).append(run)
        for asked, found in differing.items():
            yield _finding(asked, stated, found)


def _asked(run: RunEvidence, stated: PoolStated | None) -> int | None:
    name, _, value = run.label.partition(" = ")
    if name.endswith(("pool size", "buffer size", "buffer pool")):
        return parse_lenient_bytes(value)
    return stated.sizes_bytes[0] if stated else None


def _finding(asked: int, stated: PoolStated | None, runs: list[RunEvidence]) -> Finding:
    shown = {}
    for run in runs:
        pages = next(dump for dump in run.dumps if "pool_pages" in dump.fields)
        shown[name_of(run)] = (int(pages.fields["pool_pages"]), run.page_bytes, run.pool_bytes or 0, pages.place)
    run_bytes = next(iter(shown.values()))[2]
    products = ", ".join(f"{pages} x {page // 1024} KiB ({name})" for name, (pages, page, _, _) in shown.items())
    corrected = f"{format_bytes(run_bytes)}"
    share = stated.shares[0] if stated and stated.sizes_bytes[0] == asked else None
    if share:
        corrected += f" = {format_percent(share * run_bytes / asked)} of the database, not {format_percent(share)}"
    return Finding(
        NAME,
        stated.place if stated else next(iter(shown.values()))[3],
        f"the pool asked for is {format_bytes(asked)}, the status text shows {products} = {format_bytes(run_bytes)}",
        f"the pool was {format_percent(abs(run_bytes / asked - 1))}"
        f" {'larger' if run_bytes > asked else 'smaller'} than said;"
        " every share of the database is wrong by as much",
        corrected,
        {
            "asked_mib": asked / MIB,
            "run_mib": run_bytes / MIB,
            "pages": {name: pages for name, (pages, _, _, _) in shown.items()},
            "share_asked": share,
            "share_run": share * run_bytes / asked if share else None,
        },
    )


RULE = Rule(NAME, "Did the pool that was asked for run?", check)
