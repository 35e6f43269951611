"""Everything given to one audit: the files, and the runs they are about. A run's pieces may lie in several files.

Pieces under the same caption of one file are one run; files without captions are one run when their names agree up to
the first dot, such as 4k.tpcc.log and 4k.iostat.txt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bufferlab.importers.innodb_status import StatusDump
from bufferlab.importers.iostat import DeviceRow, IostatReport, busiest
from bufferlab.importers.read import FileEvidence
from bufferlab.importers.results import ResultTable
from bufferlab.importers.stated import Stated, parse_lenient_bytes
from bufferlab.importers.tpcc_mysql import TpccLog, spacing_s

#: tpcc-mysql's mix is a deck of 23 transactions, 10 of them New-Orders.
TRANSACTIONS_PER_NEW_ORDER = 2.3
DEFAULT_PAGE_BYTES = 16384


@dataclass(frozen=True)
class Rates:
    """What cumulative counters did between two printouts."""

    start: StatusDump
    end: StatusDump
    seconds: float
    read_per_s: float
    created_per_s: float | None
    written_per_s: float | None


@dataclass
class Run:
    """The pieces about one setting, or of one file."""

    label: str
    file: str
    stated: Stated
    logs: list[TpccLog] = field(default_factory=list)
    dumps: list[StatusDump] = field(default_factory=list)
    reports: list[IostatReport] = field(default_factory=list)

    @property
    def page_bytes(self) -> int:
        """The page size: of the caption, of the memory allocated per page, as said, or else InnoDB's default."""
        name, _, value = self.label.partition(" = ")
        labelled = parse_lenient_bytes(value) if name.endswith("page size") and value else None
        if labelled:
            return labelled
        for dump in self.dumps:
            memory, pages = dump.fields.get("memory_bytes"), dump.fields.get("pool_pages")
            if memory and pages and 4096 <= memory / pages < 131072:
                return int(1 << (int(memory / pages).bit_length() - 1))
        return self.stated.page_size_bytes or DEFAULT_PAGE_BYTES

    @property
    def pool_bytes(self) -> int | None:
        """The pool as the printouts show it."""
        for dump in self.dumps:
            if pages := dump.fields.get("pool_pages"):
                return int(pages) * self.page_bytes
        return None

    @property
    def timed_dumps(self) -> list[tuple[float, StatusDump]]:
        """The printouts whose time is known, in time's order, in seconds from a common zero."""
        if all(dump.t_s is not None for dump in self.dumps):
            known = [(dump.t_s or 0.0, dump) for dump in self.dumps]
        else:
            stamped = [dump for dump in self.dumps if dump.at is not None]
            first = min((dump.at for dump in stamped if dump.at), default=None)
            known = [((dump.at - first).total_seconds(), dump) for dump in stamped if dump.at and first]
        return sorted(known, key=lambda pair: pair[0])

    def rates(self) -> Rates | None:
        """What the counters did between the first and the last printout; None when time or counters do not allow it."""
        timed = self.timed_dumps
        return _rates(timed[0], timed[-1]) if len(timed) > 1 else None

    def segments(self) -> list[Rates]:
        """The same between neighbouring printouts."""
        return [rates for a, b in pairwise(self.timed_dumps) if (rates := _rates(a, b)) is not None]

    @property
    def new_orders_per_s(self) -> float | None:
        """New-Orders per second: of the closing block, or of the interval lines."""
        for log in self.logs:
            if log.tpmc:
                return log.tpmc / 60
        for log in self.logs:
            step = spacing_s(log)
            if step and len(log.intervals) > 1:
                counts = [interval.counts[0] for interval in log.intervals]
                return sum(counts) / len(counts) / step
        return None

    def spots(self) -> list[DeviceRow]:
        """The busiest device in every report that is not an average since the start of the system."""
        reports = [report for report in self.reports if not report.since_boot]
        device = busiest(reports)
        return [report.devices[device] for report in reports if device in report.devices] if device else []

    @property
    def device(self) -> str:
        """The busiest device's name."""
        return busiest(self.reports) or "?"


@dataclass(frozen=True)
class Case:
    """The files of one audit and the runs in them."""

    files: tuple[FileEvidence, ...]
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, files: Sequence[FileEvidence]) -> Case:
        """Sort the pieces of all files into runs."""
        runs: dict[tuple[str, str], Run] = {}

        def run(evidence: FileEvidence, label: str) -> Run:
            path = Path(evidence.file)
            key = (evidence.file, label) if label else (str(path.parent), path.name.split(".")[0])
            return runs.setdefault(key, Run(label, evidence.file, evidence.stated))

        for evidence in files:
            for log in evidence.logs:
                run(evidence, log.label).logs.append(log)
            for dump in evidence.dumps:
                run(evidence, dump.place.label).dumps.append(dump)
            for report in evidence.reports:
                run(evidence, report.place.label).reports.append(report)
        return cls(tuple(files), tuple(runs.values()))

    def results(self) -> Iterator[tuple[FileEvidence, ResultTable]]:
        """Every table of results with its file."""
        for evidence in self.files:
            for table in evidence.results:
                yield evidence, table

    def runs_by_file(self) -> dict[str, list[Run]]:
        """The runs of each file, in the order they stand there."""
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(run.file, []).append(run)
        return found


def name_of(run: Run) -> str:
    """What a run is called in a table: its caption, or its file."""
    return run.label or Path(run.file).name


def _rates(a: tuple[float, StatusDump], b: tuple[float, StatusDump]) -> Rates | None:
    seconds = b[0] - a[0]
    read = _change(a[1], b[1], "pages_read")
    if seconds <= 0 or read is None:
        return None
    created, written = (_change(a[1], b[1], name) for name in ("pages_created", "pages_written"))
    return Rates(
        a[1],
        b[1],
        seconds,
        read / seconds,
        created / seconds if created is not None else None,
        written / seconds if written is not None else None,
    )


def _change(a: StatusDump, b: StatusDump, name: str) -> float | None:
    """A counter's change; one that went backwards (a restart, a misread digit) gives nothing."""
    before, after = a.fields.get(name), b.fields.get(name)
    return after - before if before is not None and after is not None and after >= before else None
