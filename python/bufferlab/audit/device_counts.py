"""Counts a device's requests and bytes from blkparse's text, in all and for each operation of the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bufferlab.importers.blkparse import SECTOR_BYTES, BlockTraceText, Range
from bufferlab.importers.read import FileEvidence


@dataclass(frozen=True)
class DeviceCounts:
    """The counts of one device in one trace. They are ranges where blkparse printed only the leading digits."""

    trace: BlockTraceText
    name: str
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


def device_counts(files: Sequence[FileEvidence]) -> Iterator[DeviceCounts]:
    """Yield the counts of every device of every trace: from its counters where there are any, else from its lines."""
    for evidence in files:
        for trace in evidence.traces:
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


def device_name(counts: DeviceCounts) -> str:
    """Return the name of a device in a table."""
    place = counts.trace.place
    return f"{place.label or Path(place.file).name}, {counts.name}"
