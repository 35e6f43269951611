"""Rules about block traces as blkparse prints them, and the counts of each device in a trace.

The counts are numbers of requests and bytes, in total and per operation of the program that caused them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bufferlab.audit.evidence import AuditFinding, Case, Judges
from bufferlab.audit.parsers.blkparse import PAGE_SECTORS, SECTOR_BYTES, BlockTraceText, Range, SeenRequests
from bufferlab.chapter.words import plural
from bufferlab.units import MIB

#: A finding is made if at least this fraction of the reads begins inside a page.
_SHARE = 0.2
#: Unreadable lines at most this many lines apart are listed as one range: a broken event may take several lines, not
#: all of which are recognised as parts of it.
_REACH = 4
_MOST_LISTED = 12


def thousands_of_kib(case: Case) -> Iterator[AuditFinding]:
    """Find sizes that blkparse prints in "MiB" but are thousands of KiB, so that sizes per request are wrong by 2.4 %.

    Source: `size_cnv` in blkparse.c divides numbers above a million by 1,000, in any unit. So a K after a number of
    requests means a thousand.

    Yield one finding for each trace with such a size.
    """
    for counts in device_counts(case):
        if not counts.is_first or not counts.trace.shortened or counts.is_counted or not counts.requests.low > 0:
            continue
        size, (least, most) = counts.bytes.low, counts.request_bytes or (0.0, 0.0)
        naive = size / 1024 / 1000 * MIB / max(1, (counts.requests.low + counts.requests.high) // 2)
        yield AuditFinding(
            counts.trace.place,
            f'"{counts.trace.shortened}" of {counts.name} are thousands of KiB',
            f"read as MiB they make {naive / 1024:.2f} KiB of a request",
            f"{size / MIB:,.0f} MiB; {span((least, most), 2, 1024)} KiB a request",
            {"bytes": size, "request_bytes_low": least, "request_bytes_high": most, "as_printed_bytes": naive},
        )


def span(bounds: tuple[float, float], decimals: int, unit: float = 1) -> str:
    """Return two bounds of a number as text, divided by `unit`: "1.25 to 1.26", or "1.25" if both print the same."""
    low, high = (f"{bound / unit:,.{decimals}f}" for bound in bounds)
    return low if low == high else f"{low} to {high}"


def off_page_reads(case: Case) -> Iterator[AuditFinding]:
    """Find reads that begin inside a page. Almost every such read touches one page more than its size needs.

    A buffered read of n sectors at a random sector touches 1 + (n - 1) / 8 pages of 4 KiB on average. Without
    read-ahead each page is one request. So reads of 8 KiB take 2.875 requests, and reads of 16 KiB take 4.875.

    Yield one finding for each device whose reads often begin inside a page.
    """
    for trace in case.traces():
        for device, seen in trace.seen.items():
            reads, off_page = seen.reads, seen.off_page
            if not reads or off_page < _SHARE * reads:
                continue
            sectors, pages = seen.read_sectors / reads, seen.pages / reads
            expected = 1 + (sectors - 1) / PAGE_SECTORS
            yield AuditFinding(
                trace.place,
                f"{off_page:,} of {reads:,} reads of {device} begin inside a page of 4 KiB",
                "buffered, such a read touches more pages than its size has; without read-ahead each of them is a"
                " request",
                f"{pages:.2f} pages a read here; at random sectors {expected:.3f} are to be expected for"
                f" {sectors / 2:g} KiB, aligned {max(1.0, sectors / PAGE_SECTORS):g}",
                {"reads": reads, "off_page": off_page, "pages_per_read": pages, "expected": expected},
            )


def queued_only(case: Case) -> Iterator[AuditFinding]:
    """Find traces of a stacked device: it queues and splits requests, but only the disks below it complete them.

    md and device mapper pass bios down to their members. Only the members' traces have the events D (issued) and C
    (completed), from which latencies follow.

    Yield one finding for each device on which no request was completed.
    """
    for counts in device_counts(case):
        enough = 1000 if counts.is_counted else 1
        if not counts.is_first or counts.requests.low < enough or counts.is_completed:
            continue
        splits = f", {counts.splits} splits" if counts.splits and counts.splits.high else ""
        yield AuditFinding(
            counts.trace.place,
            f"{counts.name}: {counts.requests} requests queued{splits}, none completed",
            "what the disks did, and how long it took, is not in this trace",
            "trace the members of the array too: their events D and C are the disk's",
            {"requests_low": counts.requests.low, "requests_high": counts.requests.high},
        )


def unread_lines(case: Case) -> Iterator[AuditFinding]:
    """Find lines that begin like lines of blkparse and cannot be read.

    Yield a finding for each file with such lines.
    """
    for evidence in case.files:
        if not evidence.unread:
            continue
        lines = [place.line for place in evidence.unread]
        listed = _ranges(lines)
        where = ", ".join(listed[:_MOST_LISTED]) + (", …" if len(listed) > _MOST_LISTED else "")
        yield AuditFinding(
            evidence.unread[0],
            f"{plural(len(lines), 'line')} of blkparse's cannot be read ({where}): columns or digits are broken",
            "the events and counters of broken lines are in no table and no other finding",
            "none: give the text that blkparse printed",
            {"lines": lines},
        )


def _ranges(numbers: Sequence[int]) -> list[str]:
    """Return ascending numbers of lines as ranges: "3-7". Numbers at most _REACH apart share a range."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number <= found[-1][-1] + _REACH:
            found[-1] = [found[-1][0], number]
        else:
            found.append([number])
    return ["-".join(map(str, one)) for one in found]


@dataclass(frozen=True)
class DeviceCounts:
    """The counts of one device and direction in a trace, as ranges: blkparse may print only leading digits."""

    trace: BlockTraceText
    device: str
    side: str
    """The direction of the row's requests: "read" or "write"."""
    is_first: bool
    """Whether this is the device's first row: its reads, or its writes if it has no reads."""
    requests: Range
    """The number of requests queued."""
    bytes: Range
    completed: Range
    is_completed: bool
    """Whether any request of the device was completed, a read or a write."""
    splits: Range | None
    remaps: int | None
    merges: Range
    unplugs: int | None
    """The unplugs of the device, for reads and writes together; None in the device's second row."""
    is_counted: bool
    """Whether the counts come from the lines of events, not from the counters at the trace's end."""
    is_told_apart: bool
    """Whether the device has two rows, one for reads and one for writes."""

    @property
    def name(self) -> str:
        """Return the name of the row in a table: the trace, the device, and the direction if needed."""
        place = self.trace.place
        # Reads are the usual case: the name of a device that has only reads does not mention them.
        side = f", {self.side}s" if self.is_told_apart or self.side == "write" else ""
        return f"{place.label or Path(place.file).name}, {self.device}{side}"

    @property
    def request_bytes(self) -> tuple[float, float] | None:
        """Return the bounds of the mean size of a request, in bytes; None without a request."""
        if self.requests.low <= 0:
            return None
        return self.bytes.low / self.requests.high, self.bytes.high / self.requests.low

    def per_operation(self, value: Range) -> tuple[float, float] | None:
        """Return the bounds of a count per operation of the program; None if the text does not state operations."""
        operations = self.trace.operations
        return (value.low / operations, value.high / operations) if operations else None

    @property
    def amplification(self) -> tuple[float, float] | None:
        """Return the bounds of the bytes that the device moved per byte that the program requested.

        The result is None if the text does not state the operations and their size.
        """
        each = self.per_operation(self.bytes)
        size = self.trace.io_bytes
        return (each[0] / size, each[1] / size) if each and size else None


def device_counts(case: Case) -> Iterator[DeviceCounts]:
    """Yield the counts of every device of every trace, reads before writes.

    A direction without requests is left out, except the reads of a device without any request. The counts come from the
    counters at the trace's end if it has any, else from its events.
    """
    for trace in case.traces():
        yield from _of_summaries(trace) if trace.summaries else _of_lines(trace)


_NOTHING = Range(0, 0)


def _of_summaries(trace: BlockTraceText) -> Iterator[DeviceCounts]:
    for name, counters in trace.summaries.items():

        def get(counter: str, counters: dict[str, Range] = counters) -> Range:
            return counters.get(counter, _NOTHING)

        sides = [side for side in ("Read", "Write") if get(f"{side}s Queued").high or get(f"{side}s Completed").high]
        unplugs = get("IO unplugs") + get("Timer unplugs")
        # If the text is cut off before the completed requests, assume that there were some.
        is_completed = "Reads Completed" not in counters or any(get(f"{side}s Completed").high for side in sides)
        # If no request reached a driver, all events except unplugs are queued requests and splits, so their number is
        # exact.
        known = trace.events.get(name)
        splits: Range | None = None
        both = get("Reads Queued") + get("Writes Queued")
        exact: Range | None = None
        if known and not is_completed and not (get("Read Dispatches") + get("Write Dispatches")).high:
            left = known.low - unplugs.low
            if both.low <= left <= both.high and not get("Writes Queued").high:
                exact, splits = Range(left, left), _NOTHING
            elif left > both.high:
                splits = Range(left - both.high, left - both.low)
        for side in sides or ["Read"]:
            is_first = side == (sides or ["Read"])[0]
            kib = get(f"{side}s Queued KiB")
            yield DeviceCounts(
                trace,
                name,
                side.lower(),
                is_first,
                exact or get(f"{side}s Queued"),
                Range(kib.low * 1024, kib.high * 1024 + (1023 if not kib.exact else 0)),
                get(f"{side}s Completed"),
                is_completed,
                splits if is_first else None,
                None,
                get(f"{side} Merges"),
                unplugs.low if is_first else None,
                is_counted=False,
                is_told_apart=len(sides) > 1,
            )


def _of_lines(trace: BlockTraceText) -> Iterator[DeviceCounts]:
    for device, seen in trace.seen.items():

        def count(action: str, side: str, seen: SeenRequests = seen) -> Range:
            value = seen.events[f"{action} {side}"]
            return Range(value, value)

        sides = [side for side in ("read", "write") if seen.events[f"Q {side}"] or seen.events[f"C {side}"]]
        for side in sides or ["read"]:
            is_first, size = side == (sides or ["read"])[0], seen.sectors[f"Q {side}"] * SECTOR_BYTES
            yield DeviceCounts(
                trace,
                device,
                side,
                is_first,
                count("Q", side),
                Range(size, size),
                count("C", side),
                seen.count("C") > 0,
                count("X", side),
                seen.events[f"A {side}"],
                count("M", side) + count("F", side),
                sum(number for action, number in seen.events.items() if action.startswith("U")) if is_first else None,
                is_counted=True,
                is_told_apart=len(sides) > 1,
            )


JUDGES: Judges = {
    "thousands-of-kib": lambda case: any(trace.summaries for trace in case.traces()),
    "off-page-reads": lambda case: any(seen.reads for trace in case.traces() for seen in trace.seen.values()),
    "queued-only": lambda case: any(one.requests.high for one in device_counts(case)),
    "unread-lines": lambda case: any(one.traces or one.unread for one in case.files),
}
