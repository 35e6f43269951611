"""What blkparse's text says of a device, made plain: requests, bytes, and how many of them an operation took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bufferlab.importers.blkparse import SECTOR_BYTES, BlockTraceText, Range
from bufferlab.importers.read import FileEvidence


@dataclass(frozen=True)
class DeviceCounts:
    """One device of one trace. Bytes and requests are ranges where blkparse printed leading digits alone."""

    trace: BlockTraceText
    name: str
    requests: Range
    """Reads queued; where there are none, writes."""
    bytes: Range
    completed: Range
    splits: Range | None
    remaps: int | None
    merges: Range
    unplugs: int
    is_counted: bool
    """From the lines of events, and not from the counters at the end."""

    @property
    def request_bytes(self) -> tuple[float, float] | None:
        """The least and the greatest mean size of a request."""
        if self.requests.low <= 0:
            return None
        return self.bytes.low / self.requests.high, self.bytes.high / self.requests.low

    def per_operation(self, value: Range) -> tuple[float, float] | None:
        """Something for each operation of the program, when it is stated how many there were."""
        operations = self.trace.operations
        return (value.low / operations, value.high / operations) if operations else None

    @property
    def amplification(self) -> tuple[float, float] | None:
        """Bytes from the device for each byte asked for."""
        each = self.per_operation(self.bytes)
        size = self.trace.io_bytes
        return (each[0] / size, each[1] / size) if each and size else None


def device_counts(files: Sequence[FileEvidence]) -> Iterator[DeviceCounts]:
    """Every device of every trace: from its counters where there are any, else from its lines."""
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
        # Every event is one of these; what is left over, where nothing reached a driver, are queued ones and splits.
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


def name_of(counts: DeviceCounts) -> str:
    """What a device is called in a table."""
    place = counts.trace.place
    return f"{place.label or Path(place.file).name}, {counts.name}"
