"""Parses the text of blkparse(1): a line for each event of the block layer, then counters. Uses bounded memory.

blkparse shortens counters: `1,172K` is anything from 1,172,000 to 1,172,999. `7,882MiB` is 7,882,000 to 7,882,999
*KiB*, because blkparse divides by 1,000 from K to M (`size_cnv` in blkparse.c). So every number is read as a range.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from bufferlab.audit.parsers.captions import Place

MAX_TRACES = 1_000
MAX_DEVICES = 64
MAX_UNREAD = 100_000
SECTOR_BYTES = 512
PAGE_SECTORS = 8

_EVENT = re.compile(
    r"^\s*(\d{1,4}),(\d{1,7})\s+\d{1,5}\s+\d{1,15}\s+(\d{1,10}\.\d{9})\s+(\d{1,10})\s+([A-Z]{1,2}|m)\s+([A-Z]{1,10})(?:\s+(.*))?$"
)
#: Matches lines that look like an event but cannot be read, because the scan of a printed page has wrong columns or
#: digits.
_LIKE_EVENT = re.compile(r"^\s*\d{1,4},\d{1,7}\s.{0,200}\s(?:[QGIDCMFUXA]|UT)\s+[RWDNFS]{1,4}\s")
_PIECES = re.compile(
    r"^\s*\d{1,10}\.\d{9}\s+\d{1,10}\s+[A-Z]{1,2}\s*$"
    r"|^\s*[RWDNFS]{1,4}\s+(?:\d{1,20} \+ \d{1,10} )?\[[^\]]{1,40}\](?: \d{1,9})?\s*$"
)
#: Matches the beginning of an event that is cut off in or after its sequence number, time, process or action.
_BEGUN = re.compile(
    r"^\s*\d{1,4},\d{1,7}\s+\d{1,5}\s+\d{1,15}(?:\s+\d{1,10}(?:\.\d{0,9}(?:\s+\d{1,10}(?:\s+[A-Z]{1,2})?)?)?)?\s*$"
)
_OF_EXTENTS = frozenset("QGIDCMF")
_OF_PIECES = frozenset("0123456789RWDNFS")
_LIKE_COUNTER = re.compile(r"^\s*(?:Reads?|IO)\s[A-Za-z\s]{1,20}(?::\s|:?$)")
#: Matches a counter that is cut off within its name, or before the size that follows it.
_CUT_COUNTER = re.compile(
    r"\b(?:Queued|Dispatches|Completed|Merges):\s+[\d,.']{1,24}[KMGP]?,\s*$"
    r"|\b(?:Reads?|Writes?|Timer)(?:\s[A-Za-z]{1,20}){0,2}:?\s*$"
)
_EXTENT = re.compile(r"^(\d{1,20}) \+ (\d{1,10})(?:\s|$)")
_REMAP = re.compile(r"<- \(\s*(\d{1,4}),\s*(\d{1,7})\) (\d{1,20})")
_SPLIT = re.compile(r"^(\d{1,20}) / (\d{1,20})")
_HELD = re.compile(r"\] (\d{1,9})\s*$")
_SECTION = re.compile(r"^(?:CPU\d{1,5}|(Total)) \(([^()]{1,64})\):\s*$")
_EVENTS = re.compile(r"^Events \(([^()]{1,64})\): ([\d,.']{1,24}) entries")
_SKIPS = re.compile(r"^Skips: [\d,.']{1,24} forward \([\d,.']{1,24}")
_NUMBER = r"(?:\d{1,3}(?:[,.']\d{3}){1,6}|\d{1,20})(?![,.']?\d)"
_COUNTER = re.compile(
    rf"(Reads? [A-Z][a-z]+|Writes? [A-Z][a-z]+|Read depth|Write depth|IO unplugs|Timer unplugs):\s+({_NUMBER})([KMGP]?)"
    rf"(?:,\s+({_NUMBER})([KMGP])iB)?"
)
_OPERATIONS = re.compile(
    rf"\b(?:operations?|ops)\s*[:=]\s*({_NUMBER})\b|\b({_NUMBER})\s+(?:operations|ops|random reads)\b", re.I
)
_IO_SIZE = re.compile(r"\bi/?o[ _-]?size\s*[:=]?\s*(\d{1,9})\s*(KiB|KB|K|MiB|MB|M|B|bytes)?\b", re.I)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "P": 4}


@dataclass(frozen=True)
class Range:
    """The bounds of a number, of which blkparse may have printed only the leading digits."""

    low: int
    high: int

    @property
    def exact(self) -> bool:
        """Return whether the number was printed in full, not shortened to K, M, G or P."""
        return self.low == self.high

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __str__(self) -> str:
        return f"{self.low:,}" if self.exact else f"{self.low:,} to {self.high:,}"


@dataclass(frozen=True, slots=True)
class _Read:
    sector: int
    sectors: int
    process: str

    @property
    def end(self) -> int:
        return self.sector + self.sectors


@dataclass
class SeenRequests:
    """The events of one device, counted from its lines."""

    events: Counter[str] = field(default_factory=Counter)
    """The number of events by letter and direction, such as "Q read"."""
    sectors: Counter[str] = field(default_factory=Counter)
    """The number of sectors by letter and direction."""
    reads: int = 0
    """The number of reads queued. The parts of a split read count as one read."""
    read_sectors: int = 0
    off_page: int = 0
    """The number of reads that do not begin at the first sector of a page."""
    pages: int = 0
    """The number of pages of 4 KiB that the reads touch, summed over the reads."""
    latest: tuple[_Read, ...] = ()
    """The last two reads, the later one last."""
    split_at: int | None = None
    """The first sector of the second part of the read that was split last; None if that part was seen."""
    remapped_from: Counter[str] = field(default_factory=Counter)
    unplugged_requests: int = 0

    def count(self, action: str) -> int:
        """Return the number of events of an action in both directions."""
        return self.events[f"{action} read"] + self.events[f"{action} write"]

    def queued(self, read: _Read) -> None:
        """Count a queued read, unless it is the second part of a split read."""
        if read.sector == self.split_at:
            self.split_at = None
            return
        self._count(read, 1)
        self.latest = (*self.latest[-1:], read)

    def split(self, sector: int, rest: int) -> None:
        """Record that the read at `sector` is split; its second part begins at the sector `rest`.

        If that read continues another read of the same process without a gap, the block layer had already cut one read
        in two. Both are then counted as one.
        """
        self.split_at = rest
        if len(self.latest) < 2:
            return
        first, second = self.latest
        if second.sector == sector == first.end and first.process == second.process:
            whole = _Read(first.sector, first.sectors + second.sectors, first.process)
            self._count(first, -1)
            self._count(second, -1)
            self._count(whole, 1)
            self.latest = (whole,)

    def _count(self, read: _Read, times: int) -> None:
        self.reads += times
        self.read_sectors += times * read.sectors
        self.off_page += times * (read.sector % PAGE_SECTORS != 0)
        self.pages += times * ((read.end - 1) // PAGE_SECTORS - read.sector // PAGE_SECTORS + 1)


#: Smaller steps back in time (in seconds) are not a fault: lines of several processors may be out of order.
_LEAST_BACK_S = 0.001
_ENOUGH_EVENTS = 10


@dataclass
class EventClock:
    """The times of a trace's events, in the order of their lines."""

    begin_s: float = 0.0
    last_s: float = 0.0
    events: int = 0
    backwards: int = 0
    """The number of jumps back in time by more than half of the time that the trace covered before the jump."""
    first_back: tuple[int, float, float] | None = None
    """The first jump back: number of the line, its time and that of the line above, in seconds; None without a jump."""

    def read(self, at_s: float, line: int) -> None:
        """Take the time of the next event."""
        back_s = self.last_s - at_s
        if self.events >= _ENOUGH_EVENTS and back_s > max(_LEAST_BACK_S, (self.last_s - self.begin_s) / 2):
            self.backwards += 1
            self.first_back = self.first_back or (line, at_s, self.last_s)
        if self.events == 0 or at_s < self.begin_s:
            self.begin_s = at_s
        self.last_s, self.events = at_s, self.events + 1


@dataclass
class BlockTraceText:
    """The output of one blkparse run: events counted from its lines, and its own counters by device."""

    place: Place
    clock: EventClock = field(default_factory=EventClock)
    seen: dict[str, SeenRequests] = field(default_factory=dict)
    """The events by device ("major,minor")."""
    summaries: dict[str, dict[str, Range]] = field(default_factory=dict)
    """Device's name -> printed name of a counter ("Reads Queued", or "Reads Queued KiB" for the size) -> range."""
    events: dict[str, Range] = field(default_factory=dict)
    operations: int | None = None
    """The program's number of operations; None if the text around the trace does not state it."""
    io_bytes: int | None = None
    """The size of one operation in bytes; None if the text around the trace does not state it."""
    has_processes: bool = False
    """Whether events end with their process or their error in brackets."""
    shortened: str = ""
    """The first size that was printed in MiB or a larger unit; "" if there is none."""

    @property
    def is_counted(self) -> bool:
        """Return whether the trace has an event or a counter, not only a head."""
        return bool(self.seen) or any(self.summaries.values()) or bool(self.events)


class BlkparseParser:
    """A parser that takes lines one after another; `traces` has the traces found so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.traces: list[BlockTraceText] = []
        self.unread: list[Place] = []
        """The places of blkparse's lines that cannot be read."""
        self._open: BlockTraceText | None = None
        self._summed = False
        """Whether the open trace has counters. Then the next event begins another trace."""
        self._section: str | None = None
        """The device whose counters are being read; None outside of counters."""
        self._operations: int | None = None
        self._io_bytes: int | None = None
        self._label = ""

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption; return whether it is blkparse's."""
        if label != self._label:
            # Another caption begins another trace.
            self._label, self._open, self._section = label, None, None
        if found := _EVENT.match(text):
            if self._summed:
                self._open = None
            self._section = None
            trace = self._trace(number)
            if self._is_cut(trace, found):
                self._miss(number)
            else:
                self._event(trace, found, number)
            return True
        first = text.lstrip()[:1]
        if self._open is not None and self._open.seen and first.isdigit() and _BEGUN.match(text):
            self._miss(number)
            return True
        if (first.isdigit() and _LIKE_EVENT.match(text)) or (first in _OF_PIECES and _PIECES.match(text)):
            self._miss(number)
            return True
        if (self._open is not None or _SECTION.match(text)) and self._counters(number, text):
            return True
        self._state(text)
        return False

    def _is_cut(self, trace: BlockTraceText, found: re.Match[str]) -> bool:
        """Return whether an event is cut off before its process or error, if other events of the trace end so."""
        action, flags, rest = found[5], found[6], found[7] or ""
        if "[" in rest:
            trace.has_processes = True
            return False
        is_extent = action in _OF_EXTENTS and ("R" in flags or "W" in flags)
        return is_extent and (trace.has_processes or not _EXTENT.match(rest))

    def _miss(self, number: int) -> None:
        if len(self.unread) < MAX_UNREAD:
            self.unread.append(Place(self.file, number, self._label))

    def _trace(self, number: int) -> BlockTraceText:
        if self._open is None:
            self._open, self._summed = BlockTraceText(Place(self.file, number, self._label)), False
            self._open.operations, self._open.io_bytes = self._operations, self._io_bytes
            if len(self.traces) < MAX_TRACES:
                self.traces.append(self._open)
        return self._open

    def _state(self, text: str) -> None:
        """Look in a line that blkparse did not print for the program's number of operations and their size."""
        if len(text) > 400 or not any(word in text.lower() for word in ("op", "read", "size")):
            return
        if found := _OPERATIONS.search(text):
            self._operations = _whole(found[1] or found[2])
        if found := _IO_SIZE.search(text):
            unit = (found[2] or "B").upper()[0]
            self._io_bytes = int(found[1]) << {"B": 0, "K": 10, "M": 20}[unit]
        if self._open is not None and not self._summed:
            self._open.operations = self._open.operations or self._operations
            self._open.io_bytes = self._open.io_bytes or self._io_bytes

    def _event(self, trace: BlockTraceText, found: re.Match[str], number: int) -> None:
        major, minor, at, process, action, flags, rest = found.groups()
        trace.clock.read(float(at), number)
        device = f"{int(major)},{int(minor)}"
        if device not in trace.seen and len(trace.seen) >= MAX_DEVICES:
            return
        seen = trace.seen.setdefault(device, SeenRequests())
        # A plug has no direction: blkparse prints N.
        way = "read" if "R" in flags else "write" if set(flags) & set("WDF") else "none"
        seen.events[f"{action} {way}"] += 1
        if extent := _EXTENT.match(rest := rest or ""):
            sector, sectors = int(extent[1]), int(extent[2])
            seen.sectors[f"{action} {way}"] += sectors
            if action == "Q" and way == "read" and sectors:
                seen.queued(_Read(sector, sectors, process))
        if action == "X" and way == "read" and (parts := _SPLIT.match(rest)):
            seen.split(int(parts[1]), int(parts[2]))
        if action == "A" and (remap := _REMAP.search(rest)):
            source = f"{int(remap[1])},{int(remap[2])}"
            if source in seen.remapped_from or len(seen.remapped_from) < MAX_DEVICES:
                seen.remapped_from[source] += 1
        if action in ("U", "UT") and (held := _HELD.search(rest)):
            seen.unplugged_requests += int(held[1])

    def _counters(self, number: int, text: str) -> bool:
        if found := _SECTION.match(text):
            trace = self._trace(number)
            self._summed = True
            device = found[2]
            if device not in trace.summaries and len(trace.summaries) >= MAX_DEVICES:
                self._section = None
                return True
            if found[1]:
                # The total over all processors follows; it replaces the counters of single processors.
                trace.summaries[device] = {}
            trace.summaries.setdefault(device, {})
            self._section = device
            return True
        trace = self._trace(number)
        if found := _EVENTS.match(text):
            if len(trace.events) < MAX_DEVICES:
                whole = _whole(found[2])
                trace.events[found[1]] = Range(whole, whole)
            return True
        if text.startswith("Throughput (R/W):") or _SKIPS.match(text):
            return True
        if self._section is None:
            return False
        if _CUT_COUNTER.search(text):
            self._miss(number)
        elif not self._row(trace, self._section, text):
            if not _LIKE_COUNTER.match(text):
                return False
            self._miss(number)
        return True

    def _row(self, trace: BlockTraceText, device: str, text: str) -> bool:
        taken = False
        for name, number, suffix, size, unit in _COUNTER.findall(text):
            taken = True
            self._add(trace, device, name, _range(number, suffix, 0))
            if size:
                self._add(trace, device, f"{name} KiB", _range(size, unit, 1))
                if unit != "K" and not trace.shortened:
                    trace.shortened = f"{size}{unit}iB"
        return taken

    def _add(self, trace: BlockTraceText, device: str, name: str, value: Range) -> None:
        counters = trace.summaries[device]
        if name.endswith("depth"):
            counters[name] = max(counters.get(name, value), value, key=lambda one: one.high)
        else:
            counters[name] = counters[name] + value if name in counters else value


def _whole(text: str) -> int:
    digits = re.sub(r"\D", "", text)
    return int(digits) if digits else 0


def _range(number: str, suffix: str, printed_in: int) -> Range:
    """Return the range of a printed number. `printed_in` is its unit's power of 1,000: 0 for counts, 1 for KiB."""
    factor = 1000 ** max(0, _POWERS[suffix] - printed_in)
    low = _whole(number) * factor
    return Range(low, low + factor - 1)
