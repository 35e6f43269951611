"""Parses the output of iostat (sysstat 9 to 12; plain, `-x` and `-o JSON`) and of vmstat: one object per report.

Columns keep their printed names, which changed over the years (await, avgrq-sz, svctm; later r_await, rareq-sz,
aqu-sz). The properties of `DeviceRow` read both. With `-h` or `--pretty` the device is in the last column, and a report
has several headers; `-h` puts k, M or G after sizes. Without `-y` the first report is an average since the start of
the system (iostat(1), vmstat(8)). vmstat's bi and bo are KiB per second of all disks together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bufferlab.audit.parsers.captions import Caption, Place
from bufferlab.audit.parsers.documents import Document, parts
from bufferlab.audit.parsers.load_run import THOUSANDS

MAX_REPORTS = 100_000
MAX_DEVICES = 256
_BANNER = re.compile(r"^Linux \S+ \(.*\)\s.*\(\d+ CPU\)\s*$")
_HEADER = re.compile(r"^Device:?\s")
_DEVICE = re.compile(r"[A-Za-z][\w!/.:-]{0,60}")
_NUMBER = re.compile(r"(\d{1,15}(?:[.,](\d{1,6}))?)([kMGT%]?)")
_PROCS = re.compile(r"-*procs-* *-+memory-")
_FIRST_OF_VMSTAT = ("p", "-", " ", "r")
_VMSTAT = re.compile(r"(\s*r +b +swpd +.{1,80}?) bi +bo\b.*")
_COUNT = re.compile(r"\d{1,15}")
_SIZE = re.compile(r"([kM])B|req-sz")
_KIB = {"": 1, "k": 1, "M": 1 << 10, "G": 1 << 20, "T": 1 << 30}


@dataclass(frozen=True)
class DeviceRow:
    """A device in one report: its numbers by the printed names of the columns."""

    columns: dict[str, float]
    half_digit: float = 0.005
    """The maximum rounding error of a number: half of its last digit. `iostat --dec=N` prints 0 to 2 decimals."""

    @property
    def reads_per_s(self) -> float | None:
        """Return the read requests completed per second."""
        return self.columns.get("r/s")

    @property
    def writes_per_s(self) -> float | None:
        """Return the write requests completed per second."""
        return self.columns.get("w/s")

    @property
    def requests_per_s(self) -> float:
        """Return the requests completed per second: reads plus writes, or tps if the report has only that."""
        if self.reads_per_s is None and self.writes_per_s is None:
            return self.columns.get("tps", 0.0)
        return (self.reads_per_s or 0.0) + (self.writes_per_s or 0.0)

    @property
    def read_request_bytes(self) -> float | None:
        """Return the mean size of a read request, in bytes."""
        if "rareq-sz" in self.columns:
            return self.columns["rareq-sz"] * 1024
        read, requests = self.read_bytes_per_s, self.reads_per_s
        return read / requests if read is not None and requests else None

    @property
    def read_bytes_per_s(self) -> float | None:
        """Return the bytes read per second."""
        for name, factor in (("rkB/s", 1024), ("rMB/s", 1 << 20), ("rsec/s", 512)):
            if name in self.columns:
                return self.columns[name] * factor
        return None


@dataclass
class IostatReport:
    """One report of iostat or vmstat: its devices, whether it is its stream's first, and the caption's time if any."""

    place: Place
    since_boot: bool
    """Whether this report is the first after the banner. Then it is an average since the system's start, unless iostat
    ran with -y."""
    stream: int
    """The number of the banner above the report, which all reports of a stream share; negative for vmstat's reports."""
    t_s: float | None = None
    devices: dict[str, DeviceRow] = field(default_factory=dict)
    tool: str = "iostat"


class IostatParser:
    """A parser of iostat that takes lines one after another; `reports` has the reports found so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.reports: list[IostatReport] = []
        self.cut: list[int] = []
        """The numbers of lines with fewer cells than their head: they break off, maybe inside a number."""
        self._header: list[str] = []
        self._seen: set[str] = set()
        """The columns in the headers of the current report so far."""
        self._device_last = False
        self._is_cut = False
        """Whether the last row read had fewer cells than its head."""
        self._after_banner = False
        self._stream = 0
        self._wrapped = ""

    def take(self, number: int, text: str, caption: Caption | None) -> bool:
        """Parse a line under a caption; return whether it is iostat's."""
        if _BANNER.match(text):
            self._after_banner, self._header, self._seen = True, [], set()
            self._stream += 1
            return True
        is_first = _HEADER.match(text) is not None
        if (is_first or text.endswith("Device")) and "/s" in text:
            cells = _cells(text)
            self._device_last = not is_first
            self._header = cells[:-1] if self._device_last else cells[1:]
            if is_first or not self._seen or not self._seen.isdisjoint(self._header):
                self._report(number, caption)
            self._seen |= {*self._header}
            return True
        if not self._header:
            return False
        taken = self._row(text)
        if self._is_cut:
            self.cut.append(number)
        elif not taken:
            self._header, self._wrapped = [], ""
        return taken

    def take_cut(self, text: str) -> bool:
        """Parse a row that the end of the file cuts, except its last cell; return whether the line is such a row."""
        cells = _cells(text)
        is_cut = 2 < len(cells) <= len(self._header) and not self._device_last and _DEVICE.fullmatch(cells[0])
        if not is_cut or not all(map(_NUMBER.fullmatch, cells[1:])):
            return False
        self._put(cells[0], self._header, cells[1:-1])
        return True

    def _report(self, number: int, caption: Caption | None) -> None:
        place = Place(self.file, number, caption.label if caption else "")
        report = IostatReport(place, self._after_banner, self._stream, caption.t_s if caption else None)
        self._after_banner, self._seen = False, set()
        if len(self.reports) < MAX_REPORTS:
            self.reports.append(report)

    def _row(self, text: str) -> bool:
        cells = _cells(text)
        self._is_cut = False
        if self._device_last:
            cells = [*cells[-1:], *cells[:-1]]
        elif self._wrapped and cells and _NUMBER.fullmatch(cells[0]):
            # sysstat 9 breaks the line after a long device name.
            cells, self._wrapped = [self._wrapped, *cells], ""
        if len(cells) == 1 and _DEVICE.fullmatch(cells[0]) and not self._device_last:
            self._wrapped = cells[0]
            return True
        if len(cells) < 2 or not _DEVICE.fullmatch(cells[0]) or not _NUMBER.fullmatch(cells[1]):
            return False
        self._is_cut = len(cells) <= len(self._header)
        if not self._is_cut:
            self._put(cells[0], self._header, cells[1:])
        return not self._is_cut

    def _put(self, device: str, names: list[str], cells: list[str]) -> None:
        """Add the numbers in a row's cells to the last report."""
        devices = self.reports[-1].devices
        if device not in devices and len(devices) >= MAX_DEVICES:
            return
        known = devices[device] if self._device_last and device in devices else DeviceRow({}, 0.0)
        columns, half, digits = dict(known.columns), known.half_digit, 0
        for name, cell in zip(names, cells, strict=False):
            if match := _NUMBER.fullmatch(cell):
                number, decimals, unit = match.groups("")
                columns[name] = float(number.replace(",", ".")) * (factor := _factor(name, unit))
                digits = max(digits, len(decimals))
                half = max(half, factor * 0.5 / 10 ** len(decimals)) if unit else half
        half = max(half, 0.5 / 10**digits)
        devices[device] = DeviceRow(columns, half)

    def take_document(self, document: Document, caption: Caption | None) -> None:
        """Read the reports of a document of `-o JSON` under a caption."""
        self._header, self._device_last = [], False
        for host in parts(document.value, "sysstat", "hosts"):
            self._after_banner, self._stream = True, self._stream + 1
            for statistics in parts(host, "statistics"):
                disks = parts(statistics, "disk")
                if disks:
                    self._report(document.number, caption)
                for disk in disks:
                    device = str(disk.pop("disk_device", ""))
                    if _DEVICE.fullmatch(device):
                        names = ["%util" if name == "util" else name[:40] for name in disk]
                        self._put(device, names, [str(cell) for cell in disk.values()])


class VmstatParser:
    """A parser of vmstat's lines; `reports` has one report for each line, with the device "all disks"."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.reports: list[IostatReport] = []
        self.cut: list[int] = []
        """The numbers of lines with fewer cells than their head: they break off, maybe inside a number."""
        self._at: int | None = None
        """The index of the column bi while lines of numbers may follow; else None."""
        self._width = 0
        """The number of cells in the head. A row with fewer cells is cut, maybe inside a number."""
        self._stream = 0
        self._is_first = False

    def take_cut(self, number: int, text: str, caption: Caption | None) -> bool:
        """Parse a row that the end of the file cuts after bo; return whether the line is such a row."""
        cells = text.split()
        if self._at is None or not self._at + 2 < len(cells) < self._width or not all(map(_COUNT.fullmatch, cells)):
            return False
        self._add(number, cells[: self._at + 2], caption)
        return True

    def take(self, number: int, text: str, caption: Caption | None) -> bool:
        """Parse a line under a caption; return whether it is vmstat's."""
        if self._at is None and (text[:1] not in _FIRST_OF_VMSTAT or ("procs" not in text and "bi" not in text)):
            return False
        if _PROCS.match(text):
            return True
        if match := _VMSTAT.match(text):
            # vmstat repeats its head on every screen, so only the first head begins a stream.
            if self._at is None:
                self._stream, self._is_first = self._stream - 1, True
            self._at, self._width = len(match[1].split()), len(match[0].split())
            return True
        if self._at is None:
            return False
        row = text.split()
        cells = row[: self._at + 2]
        if len(cells) < self._at + 2 or not all(_COUNT.fullmatch(cell) for cell in cells):
            self._at = None
            return False
        if len(row) < self._width:
            self.cut.append(number)
            return False
        self._add(number, cells, caption)
        return True

    def _add(self, number: int, cells: list[str], caption: Caption | None) -> None:
        """Add a report for a line, whose last two cells are bi and bo."""
        if len(self.reports) < MAX_REPORTS:
            place = Place(self.file, number, caption.label if caption else "")
            row = DeviceRow({"bi": float(cells[-2]), "bo": float(cells[-1])}, 0.5)
            t_s = caption.t_s if caption else None
            self.reports.append(IostatReport(place, self._is_first, self._stream, t_s, {"all disks": row}, "vmstat"))
        self._is_first = False


def _factor(column: str, unit: str) -> float:
    """Return the factor by which the sign after a number (k, M, G, T or %) multiplies it, in the column's unit."""
    if unit in ("", "%"):
        return 1
    if size := _SIZE.search(column):
        return _KIB[unit] / _KIB[size[1] or "k"]
    return THOUSANDS.get(unit, 10**12)


def busiest(reports: list[IostatReport]) -> str | None:
    """Return the device with the most requests in these reports; a loop device only if all are loop devices.

    The result is None without a device.
    """
    totals: dict[str, float] = {}
    for report in reports:
        for name, row in report.devices.items():
            totals[name] = totals.get(name, 0.0) + row.requests_per_s
    if not totals:
        return None
    return max(totals, key=lambda name: (not name.startswith("loop"), totals[name]))


def _cells(text: str) -> list[str]:
    parts = text.split("\t") if "\t" in text.strip() else text.split()
    return [part.strip() for part in parts]
