"""Prints a block trace as blkparse(1) does: a line for each event, and the counters at the end.

It differs where blkparse misleads. Sizes are always in KiB of 1,024 bytes, because blkparse's "MiB" is 1,000 KiB.
Requests of half a KiB are added up exactly, and only the sum is rounded. The kernel's tracepoints do not mark unplugs
by a timer, so all unplugs are under "IO unplugs". Sequence numbers count the events of each processor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bufferlab.results.block_requests import SECTOR_BYTES, Counters, Way, counters

if TYPE_CHECKING:
    import polars as pl

_NS = 1_000_000_000


def render(trace: pl.DataFrame, partitions: Mapping[str, str], names: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a block trace's text, without newlines: first its events, then the counters of each disk.

    `partitions` maps partitions to their disks, `names` disks to names. Both use major:minor numbers.
    """
    sequence: Counter[int] = Counter()
    for row in trace.iter_rows(named=True):
        sequence[row["cpu"]] += 1
        major, _, minor = (row["device"] or "0:0").partition(":")
        yield (
            f"{major:>3},{minor:<3} {row['cpu']:2d} {sequence[row['cpu']]:8d} "
            f"{row['t_ns'] // _NS:5d}.{row['t_ns'] % _NS:09d} {row['pid']:5d} "
            f"{row['action']:>2} {row['flags'] or 'N':>3} " + _detail(row)
        )
    yield ""
    for one in counters(trace, partitions):
        yield from _summary(one, names.get(one.device, one.device.replace(":", ",")))


def _detail(row: Mapping[str, object]) -> str:
    task, sector = f"[{row['comm'] or '0'}]", f"{row['sector']} + {row['sectors']}"
    match row["action"]:
        case "P":
            return task
        case "U":
            return f"{task} {row['requests']}"
        case "X":
            return f"{row['sector']} / {row['split_sector']} {task}"
        case "A":
            device = str(row["from_device"]).replace(":", ",")
            return f"{sector} <- ({device}) {row['from_sector']}"
        case "C":
            return f"{sector} [{row['error']}]"
        case _:
            return f"{sector} {task}"


def _summary(one: Counters, name: str) -> Iterator[str]:
    read, write = one.read, one.write
    yield f"Total ({name}):"
    pairs = (
        ("Reads Queued:", "Writes Queued:", "queued", "queued_sectors"),
        ("Read Dispatches:", "Write Dispatches:", "issued", "issued_sectors"),
        ("Reads Requeued:", "Writes Requeued:", "requeued", None),
        ("Reads Completed:", "Writes Completed:", "completed", "completed_sectors"),
        ("Read Merges:", "Write Merges:", "merges", "merged_sectors"),
    )
    for of_reads, of_writes, events, sectors in pairs:
        yield f" {of_reads:<16} {_amount(read, events, sectors)}\t {of_writes:<17} {_amount(write, events, sectors)}"
    yield f" {'Read depth:':<16} {read.depth_max:>8,}         \t {'Write depth:':<17} {write.depth_max:>8,}"
    yield f" {'IO unplugs:':<16} {one.unplugs:>8,}         \t {'Timer unplugs:':<17} {0:>8,}"
    yield ""
    seconds = ((one.last_ns or 0) - (one.first_ns or 0)) / _NS
    rates = [f"{_kib(way.completed_sectors) / seconds if seconds else 0:,.0f}KiB/s" for way in (read, write)]
    yield f"Throughput (R/W): {' / '.join(rates)}"
    yield f"Events ({name}): {one.events:,} entries"
    yield "Skips: 0 forward (0 -   0.0%)"
    yield ""


def _amount(way: Way, events: str, sectors: str | None) -> str:
    number = f"{getattr(way, events):>8,}"
    return number + (f", {_kib(getattr(way, sectors)):>8,}KiB" if sectors else "\t")


def _kib(sectors: int) -> int:
    return sectors * SECTOR_BYTES // 1024
