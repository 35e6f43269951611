"""Finds pool sizes in a table that a server with chunks rounds up, so that rows ran at other sizes than they are named.

Source: `buf_pool_size_align` and `innodb_buffer_pool_instances` in MySQL 5.7 to 8.0 (MariaDB 10.2 to 10.7): a
multiple of chunk size (128 MiB) x instances; below 1 GiB there is one instance, from 1 GiB on eight by default, and a
page cleaner and scan depth for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.read import FileEvidence
from bufferlab.importers.stated import PoolStated, Stated, parse_lenient_bytes
from bufferlab.importers.text import Place
from bufferlab.units import GIB, MIB, format_bytes, format_percent

NAME = "rounded-sizes"
CHUNK_BYTES = 128 * MIB
_INSTANCES_FROM_1_GIB = 8


@dataclass(frozen=True)
class Ran:
    """A pool's size as asked for, and as the rule of rounding gives it."""

    asked_bytes: int
    run_bytes: int
    instances: int
    share: float | None
    """The share of the database at the size that ran."""


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each list of asked sizes of which some are rounded."""
    for evidence in case.files:
        for place, ran in _lists(evidence):
            if any(one.run_bytes != one.asked_bytes for one in ran):
                yield _finding(place, ran)


def _lists(evidence: FileEvidence) -> Iterator[tuple[Place, list[Ran]]]:
    """Yield the sizes that rows are named by, or the set-up's list; none when the status text shows the real sizes."""
    if not rounds(evidence.stated) or any("pool_pages" in dump.fields for dump in evidence.dumps):
        return
    stated = next(iter(evidence.stated.pools), None)
    for table in evidence.results:
        name = table.setting_name.lower()
        if "pool" in name or "buffer" in name:
            sizes = [parse_lenient_bytes(row.setting) for row in table.rows]
            whole = tuple(size for size in sizes if size and size >= 5 * MIB)
            if whole:
                yield table.place, sizes_run(whole, stated, evidence.stated)
                return
    if stated is not None:
        yield stated.place, sizes_run(stated.sizes_bytes, stated, evidence.stated)


def rounds(stated: Stated) -> bool:
    """Return whether this is a server that rounds to chunks; one that is not named is taken for one."""
    if stated.shared_buffers_bytes and not stated.pools:
        return False
    if stated.version is None:
        return True
    name, version = stated.version
    return version >= (5, 7) if name == "mysql" else (10, 2) <= version < (10, 8)


def sizes_run(asked: tuple[int, ...], stated: PoolStated | None, setup: Stated) -> list[Ran]:
    """Return each size as the server would run it."""
    shares = dict(zip(stated.sizes_bytes, stated.shares, strict=True)) if stated else {}
    found = []
    for size in asked:
        instances = (setup.instances or _INSTANCES_FROM_1_GIB) if size >= GIB else 1
        # A pool smaller than a chunk is a single chunk of that size.
        unit = min(setup.chunk_bytes or CHUNK_BYTES, max(size // instances, MIB)) * instances
        run = -(-size // unit) * unit
        share = shares.get(size)
        found.append(Ran(size, run, instances, share * run / size if share else None))
    return found


def _finding(place: Place, ran: list[Ran]) -> Finding:
    changed = [one for one in ran if one.run_bytes != one.asked_bytes]
    said = ", ".join(format_bytes(one.asked_bytes) for one in changed)
    right = ", ".join(
        format_bytes(one.run_bytes) + (f" ({format_percent(one.share)})" if one.share else "") for one in ran
    )
    consequence = "rows are named by pools that did not run; shares of the database are wrong"
    counts = sorted({one.instances for one in ran})
    if len(counts) > 1:
        consequence += (
            f"; the pools of 1 GiB and more had {counts[-1]} instances, each with its own page cleaning and scan depth,"
            " the smaller ones 1: comparing them mixes two settings"
        )
    return Finding(
        NAME,
        place,
        f"a server with chunks of 128 MiB (MySQL 5.7 and 8.0, MariaDB 10.2 to 10.7) rounds up {said}",
        consequence,
        f"{right}; the server's innodb_buffer_pool_size says what ran",
        {
            "asked_mib": [one.asked_bytes / MIB for one in ran],
            "run_mib": [one.run_bytes / MIB for one in ran],
            "instances": [one.instances for one in ran],
            "share_run": [one.share for one in ran],
        },
    )


RULE = Rule(NAME, "Would a server run the sizes asked for?", check)
