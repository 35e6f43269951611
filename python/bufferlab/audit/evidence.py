"""The evidence of one audit: its files and the runs in them. Also the types of rules and findings.

All parts of a file under the same caption belong to one run. Files without captions belong to one run if their names
agree up to the first dot, such as 4k.tpcc.log and 4k.iostat.txt.

A run's printouts are ordered by captions, by time stamps, or by the server's uptimes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

from bufferlab.audit.parsers.blkparse import BlockTraceText
from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.innodb_status import StatusDump
from bufferlab.audit.parsers.iostat import DeviceRow, IostatReport, busiest
from bufferlab.audit.parsers.load_run import LoadRun
from bufferlab.audit.parsers.read import FileEvidence
from bufferlab.audit.parsers.stated import Stated, parse_lenient_bytes, stated_together
from bufferlab.audit.parsers.tables import ResultRow, ResultTable
from bufferlab.audit.parsers.tpcc_mysql import TpccLog

#: tpcc-mysql draws transactions from a deck of 23, of which 10 are New-Orders.
TRANSACTIONS_PER_NEW_ORDER = 2.3
DEFAULT_PAGE_BYTES = 16384
POSTGRES_PAGE_BYTES = 8192
#: A run is assigned to the time between two printouts if the two durations differ by at most this fraction plus two
#: seconds; uptimes are whole seconds.
_SAME_TIME = 0.1
PAGE_SIZES = (4096, 8192, 16384, 32768, 65536)
_ENOUGH_READS_PER_S = 20


@dataclass(frozen=True)
class AuditFinding:
    """One wrong statement in a file: the fact with its numbers, why it matters, and the right value."""

    where: Place
    what: str
    consequence: str
    corrected: str
    numbers: dict[str, object] = field(default_factory=dict)
    """The finding's numbers for programs: plain numbers, lists and texts."""
    rule: str = ""
    """The name of the rule that made the finding; the rule itself fills it in."""


@dataclass(frozen=True)
class AuditRule:
    """A rule that the audit applies to every case: its name, its words, and the module with its functions.

    The module is loaded only for a case that has evidence of the kinds in `_EVIDENCE`.
    """

    name: str
    question: str
    module: str

    def findings(self, case: Case) -> Iterator[AuditFinding]:
        """Yield the findings of this rule in a case."""
        if module := self._loaded_for(case):
            check: Callable[[Case], Iterator[AuditFinding]] = getattr(module, self.name.replace("-", "_"))
            yield from (replace(finding, rule=self.name) for finding in check(case))

    def is_judged(self, case: Case) -> bool:
        """Return whether the case has evidence that the rule can judge."""
        module = self._loaded_for(case)
        return module is not None and bool(module.JUDGES[self.name](case))

    def _loaded_for(self, case: Case) -> ModuleType | None:
        kinds = _EVIDENCE.get(self.module)
        if kinds and not any(getattr(one, kind) for one in case.files for kind in kinds):
            return None
        return import_module(f"bufferlab.audit.rules.{self.module}")


_EVIDENCE = {
    "tpcc_log": ("logs", "loads"),
    "load_run": ("loads",),
    "status": ("dumps", "results", "logs", "loads", "traces"),
    "per_new_order": ("dumps", "results"),
    "tpmc": ("logs", "results"),
    "iostat": ("reports",),
    "block_trace": ("traces", "unread"),
}
"""Module -> lists of FileEvidence.

The module's rules have evidence only if at least one of these lists has an entry. Modules that are missing here need no
list.
"""


@dataclass(frozen=True)
class CounterRates:
    """The rates of a server's cumulative counters between two printouts."""

    start: StatusDump
    end: StatusDump
    seconds: float
    read_per_s: float

    def per_s(self, counter: str) -> float | None:
        """Return the rate of a counter; None if a printout lacks the counter, or if it fell."""
        change = _change(self.start, self.end, counter)
        return change / self.seconds if change is not None else None


@dataclass
class RunEvidence:
    """All evidence about one run: from below one caption, or from one file or group of files."""

    label: str
    file: str
    stated: Stated
    logs: list[TpccLog] = field(default_factory=list)
    dumps: list[StatusDump] = field(default_factory=list)
    reports: list[IostatReport] = field(default_factory=list)
    loads: list[LoadRun] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the run in a table: its caption, or its file."""
        return self.label or Path(self.file).name

    @property
    def setting(self) -> tuple[str, str]:
        """The caption's name and value; both are empty without a caption."""
        name, _, value = self.label.partition(" = ")
        return name, value

    @property
    def page_bytes(self) -> int:
        """Return the page size of the run: as stated, else as the outputs show it, else InnoDB's default.

        If all outputs agree on a size that differs from the stated one, return theirs. PostgreSQL's is always 8 KiB.
        """
        if any(dump.family == "postgres" for dump in self.dumps):
            return POSTGRES_PAGE_BYTES
        said, shown = self.page_bytes_said, self.page_bytes_shown
        return self.page_bytes_ran or said or next(iter(shown.values()), None) or DEFAULT_PAGE_BYTES

    @property
    def page_bytes_ran(self) -> int | None:
        """Return the page size on which all outputs agree, if it differs from the stated one; else None."""
        sizes = {*self.page_bytes_shown.values()}
        return sizes.pop() if len(sizes) == 1 and self.page_bytes_said not in (None, *sizes) else None

    @property
    def page_bytes_said(self) -> int | None:
        """Return the stated page size: the caption's, else the set-up's."""
        name, value = self.setting
        labelled = parse_lenient_bytes(value) if name.endswith("page size") and value else None
        return labelled or self.stated.page_size_bytes

    @property
    def page_bytes_shown(self) -> dict[str, int]:
        """Return source of evidence -> page size that it shows."""
        found: dict[str, int] = {}
        for dump in self.dumps:
            if dump.fields.get("page_bytes") in PAGE_SIZES:
                found.setdefault("Innodb_page_size", int(dump.fields["page_bytes"]))
            if (each := dump.bytes_per_page) and 4096 <= each < 131072:
                found.setdefault("memory per page", 1 << (int(each).bit_length() - 1))
            if size := _page_size(dump.fields.get("bytes_per_file_read", 0)):
                found.setdefault("bytes per read", size)
        sizes = {
            _page_size(row.read_request_bytes or 0)
            for row in self.spots()
            if (row.reads_per_s or 0) >= _ENOUGH_READS_PER_S
        }
        # One request may read several neighbouring pages. So a mean request size above the stated page size shows
        # nothing.
        if len(sizes) == 1 and (size := sizes.pop()) and (said := self.page_bytes_said) and size <= said:
            found["rareq-sz"] = size
        return found

    @property
    def pool_bytes(self) -> int | None:
        """Return the size of the pool in bytes, from the number of pages in a printout; None if none shows it."""
        return int(dump.fields["pool_pages"]) * self.page_bytes if (dump := self.pool_dump) else None

    @property
    def pool_dump(self) -> StatusDump | None:
        """Return the first printout that shows the number of the pool's pages."""
        return next((dump for dump in self.dumps if dump.fields.get("pool_pages")), None)

    def rates(self) -> CounterRates | None:
        """Return the counters' rates from the first to the last printout.

        The result is None with fewer than two times, or if reads or uptime fell, or a view was reset in between.
        """
        timed = timed_dumps(self.dumps)
        for name in ("pages_read", "uptime_s"):
            values = [value for _, dump in timed if (value := dump.fields.get(name)) is not None]
            if values != sorted(values):
                return None
        if any(a.resets != b.resets for (_, a), (_, b) in pairwise(timed)):
            return None
        return _rates(timed[0], timed[-1]) if len(timed) > 1 else None

    def segments(self) -> list[CounterRates]:
        """Return the counters' rates between neighbouring printouts."""
        return [rates for a, b in pairwise(timed_dumps(self.dumps)) if (rates := _rates(a, b)) is not None]

    @property
    def new_orders_per_s(self) -> float | None:
        """Return the New-Orders per second, from a log's counts, TpmC or interval lines, or from HammerDB's NOPM."""
        for log in self.logs:
            if found := log.counted:
                return found.tpmc / 60
            if log.tpmc:
                return log.tpmc / 60
        for log in self.logs:
            step = log.spacing_s
            if step and len(log.intervals) > 1:
                counts = [interval.counts[0] for interval in log.intervals]
                return sum(counts) / len(counts) / step
        return next((load.nopm / 60 for load in self.loads if load.nopm), None)

    def new_orders_per_s_beside(self, rates: CounterRates) -> float | None:
        """Return the New-Orders per second in the interval of the rates; None if the run may not be of that interval.

        If only uptimes give the interval, they do not show when the run was. Then the run must be as long as the
        interval.
        """
        if not is_by_uptime(self.dumps):
            return self.new_orders_per_s
        counted = [found.seconds for log in self.logs if (found := log.counted)]
        seconds = [*counted, *(load.seconds for load in self.loads if load.nopm and load.seconds)]
        alike = seconds and abs(rates.seconds - seconds[0]) <= _SAME_TIME * seconds[0] + 2
        return self.new_orders_per_s if alike else None

    def spots(self) -> list[DeviceRow]:
        """Return the busiest device's row of each iostat report, without averages since the start of the system."""
        reports = [report for report in self.reports if not report.since_boot]
        device = busiest(reports)
        return [report.devices[device] for report in reports if device in report.devices] if device else []

    @property
    def device(self) -> str:
        """Return the name of the busiest device in iostat's reports; "?" without one."""
        return busiest(self.reports) or "?"


@dataclass(frozen=True)
class Case:
    """The files of one audit, and the runs in them."""

    files: tuple[FileEvidence, ...]
    runs: tuple[RunEvidence, ...]

    @classmethod
    def of(cls, files: Sequence[FileEvidence]) -> Case:
        """Assign the evidence of all files to runs, and return the case."""
        runs: dict[tuple[str, str], RunEvidence] = {}
        pieces: dict[tuple[str, str], list[Stated]] = {}
        for evidence in files:
            pieces.setdefault(pieces_key(evidence.file), []).append(evidence.stated)

        def run(evidence: FileEvidence, label: str) -> RunEvidence:
            key = (evidence.file, label) if label else pieces_key(evidence.file)
            if key not in runs:
                stated = evidence.stated if label else stated_together(pieces[key])
                runs[key] = RunEvidence(label, evidence.file, stated)
            return runs[key]

        for evidence in files:
            for log in evidence.logs:
                run(evidence, log.label).logs.append(log)
            for dump in evidence.dumps:
                run(evidence, dump.place.label).dumps.append(dump)
            for report in evidence.reports:
                run(evidence, report.place.label).reports.append(report)
            for load in evidence.loads:
                run(evidence, load.place.label).loads.append(load)
        return cls(tuple(files), tuple(runs.values()))

    def logs(self) -> Iterator[TpccLog]:
        """Yield the logs of every run."""
        return (log for run in self.runs for log in run.logs)

    def loads(self) -> Iterator[LoadRun]:
        """Yield the reports of load generators of every run."""
        return (load for run in self.runs for load in run.loads)

    def traces(self) -> Iterator[BlockTraceText]:
        """Yield the block traces of every file."""
        return (trace for evidence in self.files for trace in evidence.traces)

    def tables(self) -> Iterator[ResultTable]:
        """Yield the tables of results of every file."""
        return (table for evidence in self.files for table in evidence.results)

    @cached_property
    def runs_by_file(self) -> dict[str, list[RunEvidence]]:
        """Return the runs of each file, in the file's order."""
        found: dict[str, list[RunEvidence]] = {}
        for run in self.runs:
            found.setdefault(run.file, []).append(run)
        return found

    @cached_property
    def runs_by_setting(self) -> dict[tuple[str, int | str], list[RunEvidence]]:
        """Return the runs that have a log, by the keys that match them with a row of a table.

        A key is (file, value of the caption) or (folder, first part of the file's name).
        """
        found: dict[tuple[str, int | str], list[RunEvidence]] = {}
        for run in self.runs:
            if run.logs:
                folder, stem = pieces_key(run.file)
                _, value = run.setting
                key = (run.file, _setting(value)) if value else (folder, _setting(stem))
                found.setdefault(key, []).append(run)
        return found

    def runs_of(self, row: ResultRow) -> list[RunEvidence]:
        """Return the runs that have a log and the setting of a table's row.

        They come from the row's own file, or, if that has none, from its folder.
        """
        setting = _setting(row.setting)
        beside = self.runs_by_setting.get((row.place.file, setting), [])
        return beside or self.runs_by_setting.get((pieces_key(row.place.file)[0], setting), [])


def pieces_key(file: str) -> tuple[str, str]:
    """Return a file's folder, and its name up to the first dot. The files of one run have both in common."""
    path = Path(file)
    return str(path.parent), path.name.split(".")[0]


def _setting(text: str) -> int | str:
    """Return a setting in a form that can be compared: a size in bytes, else its text in small letters."""
    return parse_lenient_bytes(text) or text.strip().lower()


def _page_size(size_bytes: float) -> int | None:
    """Return the possible page size that differs from a mean size by at most 1 %, or None."""
    return next((size for size in PAGE_SIZES if abs(size_bytes / size - 1) <= 0.01), None)


def _rates(a: tuple[float, StatusDump], b: tuple[float, StatusDump]) -> CounterRates | None:
    seconds = b[0] - a[0]
    read = _change(a[1], b[1], "pages_read")
    if seconds <= 0 or read is None:
        return None
    return CounterRates(a[1], b[1], seconds, read / seconds)


def _change(a: StatusDump, b: StatusDump, name: str) -> float | None:
    """Return a counter's change; None if a printout lacks it, or if it fell (a restart, a misread digit)."""
    before, after = a.fields.get(name), b.fields.get(name)
    return after - before if before is not None and after is not None and after >= before else None


Judges = Mapping[str, Callable[[Case], object]]
"""Rule's name -> function that returns whether a case has evidence that the rule can judge.

Without evidence, the absence of a finding means nothing.
"""


def timed_dumps(dumps: Sequence[StatusDump]) -> list[tuple[float, StatusDump]]:
    """Return the printouts whose time is known, in the order of time, each with its seconds since a common origin.

    If neither captions nor time stamps give times, the server's uptimes do, in the order of the lines.
    """
    if all(dump.t_s is not None for dump in dumps):
        known = [(dump.t_s or 0.0, dump) for dump in dumps]
    elif is_by_uptime(dumps):
        return _by_uptime([dump for dump in dumps if "uptime_s" in dump.fields])
    else:
        stamped = [dump for dump in dumps if dump.at is not None]
        first = min((dump.at for dump in stamped if dump.at), default=None)
        known = [((dump.at - first).total_seconds(), dump) for dump in stamped if dump.at and first]
    return sorted(known, key=lambda pair: pair[0])


def is_by_uptime(dumps: Sequence[StatusDump]) -> bool:
    """Return whether only the server's uptimes give the time between two printouts."""
    stamped, up = (
        sum(told) > 1
        for told in ([dump.at is not None for dump in dumps], ["uptime_s" in dump.fields for dump in dumps])
    )
    return up and not stamped and not all(dump.t_s is not None for dump in dumps)


def _by_uptime(dumps: Sequence[StatusDump]) -> list[tuple[float, StatusDump]]:
    """Return the printouts with their seconds since the first, from uptimes. A restart counts as taking no time."""
    timed = [(0.0, dumps[0])]
    for a, b in pairwise(dumps):
        before, after = a.fields["uptime_s"], b.fields["uptime_s"]
        timed.append((timed[-1][0] + (after - before if after >= before else after), b))
    return timed


def ordered_dumps(dumps: Sequence[StatusDump]) -> list[StatusDump]:
    """Return the printouts in the order of time.

    If no times are known, return PostgreSQL's printouts of the first file that has any, in the file's order.
    """
    timed = [dump for _, dump in timed_dumps(dumps)]
    if timed:
        return timed
    counted = [dump for dump in dumps if dump.counters]
    return [dump for dump in counted if dump.place.file == counted[0].place.file]
