"""Rules about block traces as blkparse prints them, and the counts of devices that they are made from.

The counts of a device are its requests and bytes, in all and for each operation of the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bufferlab.audit.case import Case, Finding
from bufferlab.audit.parsers.blkparse import PAGE_SECTORS, SECTOR_BYTES, BlockTraceText, Range
from bufferlab.chapter.words import plural
from bufferlab.units import MIB

#: The least share of reads inside pages that is told.
_SHARE = 0.2
#: An event that is broken into several lines has pieces without a mark of their own.
_REACH = 4
_MOST_LISTED = 12


def thousands_of_kib(case: Case) -> Iterator[Finding]:
    """Find sizes in blkparse's "MiB", which are a thousand KiB: sizes per request made from them are 2.4 % off.

    Its K is a thousand requests. `size_cnv` in blkparse.c divides by 1,000 when a number exceeds a million, in any
    unit.

    Yield one finding for each trace with such a size.
    """
    for counts in device_counts(case):
        if not counts.trace.shortened or counts.is_counted or not counts.requests.low > 0:
            continue
        size, (least, most) = counts.bytes.low, counts.request_bytes or (0.0, 0.0)
        naive = size / 1024 / 1000 * MIB / max(1, (counts.requests.low + counts.requests.high) // 2)
        yield Finding(
            counts.trace.place,
            f'"{counts.trace.shortened}" of {counts.name} are thousands of KiB',
            f"read as MiB they make {naive / 1024:.2f} KiB of a request",
            f"{size / MIB:,.0f} MiB; {span((least, most), 2, 1024)} KiB a request",
            {"bytes": size, "request_bytes_low": least, "request_bytes_high": most, "as_printed_bytes": naive},
        )


def span(bounds: tuple[float, float], decimals: int, unit: float = 1) -> str:
    """Return a number that lies between two bounds, in this unit: "1.25 to 1.26", or "1.25"."""
    low, high = (f"{bound / unit:,.{decimals}f}" for bound in bounds)
    return low if low == high else f"{low} to {high}"


def off_page_reads(case: Case) -> Iterator[Finding]:
    """Find reads that begin inside a page: nearly each touches one page more than its size needs.

    A buffered read of n sectors at a random sector touches 1 + (n - 1) / 8 pages of 4 KiB on average. Without
    read-ahead each page is a request. So 8 KiB take 2.875 requests and 16 KiB take 4.875.

    Yield one finding for each device whose reads often begin inside a page.
    """
    for trace in case.traces():
        for device, seen in trace.seen.items():
            reads, off_page = seen.reads, seen.off_page
            if not reads or off_page < _SHARE * reads:
                continue
            sectors, pages = seen.read_sectors / reads, seen.pages / reads
            expected = 1 + (sectors - 1) / PAGE_SECTORS
            yield Finding(
                trace.place,
                f"{off_page:,} of {reads:,} reads of {device} begin inside a page of 4 KiB",
                "buffered, such a read touches more pages than its size has; without read-ahead each of them is a"
                " request",
                f"{pages:.2f} pages a read here; at random sectors {expected:.3f} are to be expected for"
                f" {sectors / 2:g} KiB, aligned {max(1.0, sectors / PAGE_SECTORS):g}",
                {"reads": reads, "off_page": off_page, "pages_per_read": pages, "expected": expected},
            )


def queued_only(case: Case) -> Iterator[Finding]:
    """Find traces of a stacked device: it queues and splits requests, but the disks below issue and complete them.

    md and device mapper hand bios down; only the members' traces have D and C, and with them latencies.

    Yield one finding for each device on which nothing was ever completed.
    """
    for counts in device_counts(case):
        enough = 1000 if counts.is_counted else 1
        if counts.requests.low < enough or counts.completed.high:
            continue
        splits = f", {counts.splits} splits" if counts.splits and counts.splits.high else ""
        yield Finding(
            counts.trace.place,
            f"{counts.name}: {counts.requests} requests queued{splits}, none completed",
            "what the disks did, and how long it took, is not in this trace",
            "trace the members of the array too: their events D and C are the disk's",
            {"requests_low": counts.requests.low, "requests_high": counts.requests.high},
        )


def unread_lines(case: Case) -> Iterator[Finding]:
    """Name the lines that begin as blkparse's do and cannot be read.

    Yield a finding for each file with such lines.
    """
    for evidence in case.files:
        if not evidence.unread:
            continue
        lines = [place.line for place in evidence.unread]
        listed = _ranges(lines)
        where = ", ".join(listed[:_MOST_LISTED]) + (", …" if len(listed) > _MOST_LISTED else "")
        yield Finding(
            evidence.unread[0],
            f"{plural(len(lines), 'line')} of blkparse's cannot be read ({where}): columns or digits are broken",
            "their events and counters are in no table and no other finding",
            "none: give the text that blkparse printed",
            {"lines": lines},
        )


def _ranges(numbers: Sequence[int]) -> list[str]:
    """Return ascending numbers as ranges; near numbers share one."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number <= found[-1][-1] + _REACH:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ["-".join(map(str, one)) for one in found]


@dataclass(frozen=True)
class DeviceCounts:
    """The counts of one device in one trace. They are ranges where blkparse printed only the leading digits."""

    trace: BlockTraceText
    device: str
    requests: Range
    """The reads queued or, where there are none, the writes."""
    bytes: Range
    completed: Range
    splits: Range | None
    remaps: int | None
    merges: Range
    unplugs: int
    is_counted: bool
    """Whether the counts are from the lines of events, and not from the counters at the end."""

    @property
    def name(self) -> str:
        """The name of the device in a table."""
        place = self.trace.place
        return f"{place.label or Path(place.file).name}, {self.device}"

    @property
    def request_bytes(self) -> tuple[float, float] | None:
        """The least and the greatest mean size of a request."""
        if self.requests.low <= 0:
            return None
        return self.bytes.low / self.requests.high, self.bytes.high / self.requests.low

    def per_operation(self, value: Range) -> tuple[float, float] | None:
        """Return the value for each operation of the program; None when the text does not state their number."""
        operations = self.trace.operations
        return (value.low / operations, value.high / operations) if operations else None

    @property
    def amplification(self) -> tuple[float, float] | None:
        """The bytes from the device for each byte that the program asked for."""
        each = self.per_operation(self.bytes)
        size = self.trace.io_bytes
        return (each[0] / size, each[1] / size) if each and size else None


def device_counts(case: Case) -> Iterator[DeviceCounts]:
    """Yield the counts of every device of every trace: from its counters where there are any, else from its lines."""
    for trace in case.traces():
        yield from _of_summaries(trace) if trace.summaries else _of_lines(trace)


def _of_summaries(trace: BlockTraceText) -> Iterator[DeviceCounts]:
    for name, counters in trace.summaries.items():
        nothing = Range(0, 0)
        side = "Read" if counters.get("Reads Queued", nothing).high else "Write"
        kib = counters.get(f"{side}s Queued KiB", nothing)
        unplugs = counters.get("IO unplugs", nothing) + counters.get("Timer unplugs", nothing)
        completed = counters.get("Reads Completed", nothing) + counters.get("Writes Completed", nothing)
        # Every event is one of these. If nothing reached a driver, the events left over are queued requests and splits.
        known = trace.events.get(name)
        requests = counters.get(f"{side}s Queued", nothing)
        splits: Range | None = None
        issued = counters.get("Read Dispatches", nothing) + counters.get("Write Dispatches", nothing)
        both = counters.get("Reads Queued", nothing) + counters.get("Writes Queued", nothing)
        if known and not issued.high and not completed.high:
            left = known.low - unplugs.low
            if both.low <= left <= both.high and not counters.get("Writes Queued", nothing).high:
                requests, splits = Range(left, left), nothing
            elif left > both.high:
                splits = Range(left - both.high, left - both.low)
        yield DeviceCounts(
            trace,
            name,
            requests,
            Range(kib.low * 1024, kib.high * 1024 + (1023 if not kib.exact else 0)),
            completed,
            splits,
            None,
            counters.get("Read Merges", nothing) + counters.get("Write Merges", nothing),
            unplugs.low,
            is_counted=False,
        )


def _of_lines(trace: BlockTraceText) -> Iterator[DeviceCounts]:
    for device, seen in trace.seen.items():
        side = "read" if seen.events["Q read"] else "write"
        queued, size = seen.events[f"Q {side}"], seen.sectors[f"Q {side}"] * SECTOR_BYTES
        completed, merges = seen.count("C"), seen.count("M") + seen.count("F")
        yield DeviceCounts(
            trace,
            device,
            Range(queued, queued),
            Range(size, size),
            Range(completed, completed),
            Range(seen.count("X"), seen.count("X")),
            seen.count("A"),
            Range(merges, merges),
            sum(count for action, count in seen.events.items() if action.startswith("U")),
            is_counted=True,
        )
