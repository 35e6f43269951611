"""Parses sysbench's report and its interval lines: versions 0.5 and 1.0, tests of SQL, cpu, memory and fileio.

Follows sysbench 1.0.20, src/sysbench.c and src/lua/internal/sysbench.sql.lua, and its output. A report at a checkpoint
counts since the checkpoint before, but its total time counts since the start. So does the last report of a run with
checkpoints. The lines of `sysbench.report_csv` have the seconds, threads, events per second, queries per second, and
further numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.load_run import Direction, LoadParser, LoadRun
from bufferlab.errors import Problem

_F = r"(\d{1,15}(?:\.\d{1,6})?)"
_BEGIN = re.compile(r"sysbench \d{1,2}\.\d{1,3}[\w.-]{0,20}(?:\s|:|$)")
_INTERVAL = re.compile(rf"\[\s*(\d{{1,9}})s\s*\]\s+(?:thds|threads):\s*\d{{1,9}},?\s+(?:tps:\s*{_F}|eps:\s*{_F})[\s,]")
_CSV_INTERVAL = re.compile(rf"(\d{{1,9}}),\d{{1,9}},{_F}(?:,\d{{1,15}}\.\d{{2}}){{7}}\s*$")
_CHECKPOINT = re.compile(r"\[\s*\d{1,9}s\s*\]\s+Checkpoint report:")
_FILE_INTERVAL = re.compile(r"\[\s*\d{1,9}s\s*\]\s+reads:")
#: The first letters of the lines that begin a run.
_FIRST = frozenset("s[t")
_THREADS = re.compile(r"Number of threads:\s*(\d{1,9})\s*$")
_RATE = re.compile(r"Target transaction rate:")
_QUERIES = re.compile(r"(read|write|other|total):\s+(\d{1,15})\s*$")
_TRANSACTIONS = re.compile(rf"transactions:\s+(\d{{1,15}})\s+\({_F} per sec\.\)")
_SECONDS = re.compile(rf"total time:\s+{_F}s\s*$")
_EVENTS = re.compile(r"total number of events:\s+(\d{1,15})\s*$")
_PER_S = re.compile(rf"events per second:\s+{_F}\s*$|Total operations:\s+\d{{1,15}}\s+\({_F} per second\)")
_LATENCY = re.compile(rf"(min|avg|max|sum):\s+{_F}(?:ms)?\s*$")
_PERCENTILE = re.compile(rf"(?:approx\.\s+)?(\d{{1,2}})(?:th)?\s+percentile:\s+{_F}(?:ms)?\s*$")
_END = re.compile(r"execution time \(avg/stddev\):")
_OTHER = re.compile(
    r"Running the test|Report |Initializing|Threads started|SQL statistics|queries performed|General statistics|"
    r"(?:Latency \(ms\)|response time|Threads fairness|File operations|Throughput|CPU speed):|"
    r"(?:queries|ignored errors|reconnects|read/write requests|other operations):\s+\d|events \(avg/stddev\)|"
    r"fsyncs/s:"
)
_BLOCK = re.compile(r"(?:Block size |block size: )(\d{1,9})(KiB|MiB|B)$")
_REQUESTS = re.compile(rf"(read|write)s/s:\s+{_F}\s*$")
_MIB = re.compile(rf"(read|written), MiB/s:\s+{_F}\s*$")
_MOVED = re.compile(rf"{_F} MiB transferred \({_F} MiB/sec\)")
_FACTORS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}


class SysbenchParser(LoadParser):
    """A parser of sysbench's lines."""

    tool = "sysbench"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._whole: LoadRun | None = None
        """The run to which reports at checkpoints are added; `_open` is the report that is being read."""
        self._is_checkpoint = False
        self._in_parts: dict[int, int] = {}
        """Index of a run in `_runs` -> number of reports that were added to it."""

    def named(self) -> Iterator[Problem]:
        """Yield a problem for each run that lacks a part, and for runs of several reports, which lack percentiles."""
        self._break_off()
        yield from super().named()
        for at, parts in self._in_parts.items():
            yield Problem(
                f"the percentiles of {parts} reports of one run are not read: those of the run do not follow from them",
                f"{self._runs[at].place}",
                "run without --report-checkpoints for percentiles of the whole run",
            )

    @property
    def runs(self) -> list[LoadRun]:
        """End the run that is being read, and return the runs that have a result."""
        self._break_off()
        return super().runs

    def _break_off(self) -> None:
        """End the run that is being read, whose report is missing or breaks off."""
        whole, part = self._whole, self._open
        if whole is not None and part is not None:
            if part.transactions is not None:
                self._add_cut(whole, part)
            else:
                whole.cut = whole.cut or f"the part behind the checkpoint at {whole.seconds or 0:.0f} s has no report"
        elif part is not None and part.transactions is not None and part.seconds is None:
            part.cut = "its total time and latencies are missing, and its seconds follow from count and rate"
            part.seconds = part.transactions / part.per_s if part.per_s else None
        self._whole, self._open, self._is_checkpoint = None, None, False

    def _add_cut(self, whole: LoadRun, part: LoadRun) -> None:
        """Add a report that breaks off to its run."""
        if part.seconds is None and part.per_s:
            part.seconds = (whole.seconds or 0.0) + (part.transactions or 0) / part.per_s
        has_latencies = part.latency_sum_ms is not None
        self._count_part(whole, part)
        if has_latencies:
            whole.cut = "the last lines of its last part are missing"
        else:
            whole.cut = "the latencies of its last part are missing, so those of the run are not known"
            whole.latency_sum_ms = whole.mean_ms = None
            whole.latency_ms = {}

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption's label; return whether it is sysbench's."""
        bare = text.strip()
        if self._open is None and bare[:1] not in _FIRST:
            return False
        if _BEGIN.match(bare):
            self._break_off()
            self._begin(number, label)
            return True
        if (match := _INTERVAL.match(bare)) or _FILE_INTERVAL.match(bare):
            run = self._whole or self._open or self._begin(number, label)
            if match:
                self._line(run, Place(self.file, number, label), match[1], match[2] or match[3])
            return True
        if _CHECKPOINT.match(bare):
            if self._whole and self._open and self._open.transactions is not None:
                self._add_cut(self._whole, self._open)
            self._whole = self._whole or self._open or self._begin(number, label)
            self._open, self._is_checkpoint = LoadRun(self.tool, self._whole.place), True
            return True
        if _TRANSACTIONS.match(bare) and self._open is None:
            self._begin(number, label)
        run_open = self._open
        if run_open is None:
            return False
        if _END.match(bare):
            self._end(run_open)
            return True
        if match := _CSV_INTERVAL.match(bare):
            self._line(run_open, Place(self.file, number, label), match[1], match[2])
            return True
        return _OTHER.match(bare) is not None or _report(run_open, bare)

    def _end(self, part: LoadRun) -> None:
        """End a report: the last one of a run, or one at a checkpoint, after which the next part begins."""
        if self._whole is None:
            self._open = None
            return
        self._count_part(self._whole, part)
        if self._is_checkpoint:
            self._open, self._is_checkpoint = LoadRun(self.tool, self._whole.place), False
        else:
            self._open = self._whole = None

    def _count_part(self, whole: LoadRun, part: LoadRun) -> None:
        """Add a report to its run, and count it as one of the run's parts."""
        at = next((at for at in range(len(self._runs) - 1, -1, -1) if self._runs[at] is whole), None)
        if at is not None:
            self._in_parts[at] = self._in_parts.get(at, 0) + 1
        _add(whole, part)


def _add(whole: LoadRun, part: LoadRun) -> None:
    """Add a report, which counts since the one before it, to its run; drop percentiles, which cannot be added."""
    before_s, until_s = whole.seconds or 0.0, part.seconds
    if until_s is not None and part.per_s is not None:
        # The run's rate is the mean of its reports' rates weighted by time, so that rules can compare it with the
        # counts.
        whole.per_s = ((whole.per_s or 0.0) * before_s + part.per_s * (until_s - before_s)) / (until_s or 1.0)
    whole.seconds = until_s if until_s is not None else whole.seconds
    whole.transactions = (whole.transactions or 0) + (part.transactions or 0)
    whole.latency_sum_ms = (whole.latency_sum_ms or 0.0) + (part.latency_sum_ms or 0.0)
    whole.mean_ms = whole.latency_sum_ms / whole.transactions if whole.transactions else None
    for kind, count in part.queries.items():
        whole.queries[kind] = whole.queries.get(kind, 0) + count
    for end, outer in (("min", min), ("max", max)):
        if end in part.latency_ms:
            whole.latency_ms[end] = outer(whole.latency_ms.get(end, part.latency_ms[end]), part.latency_ms[end])


def _report(run: LoadRun, bare: str) -> bool:
    """Parse a line of the report into a run; return whether it is such a line."""
    if match := _THREADS.match(bare):
        run.clients = int(match[1])
    elif _RATE.match(bare):
        run.paced = True
    elif match := _QUERIES.match(bare):
        run.queries[match[1]] = int(match[2])
    elif match := _TRANSACTIONS.match(bare):
        run.transactions, run.per_s = int(match[1]), float(match[2])
    elif match := _PER_S.match(bare):
        run.per_s = float(match[1] or match[2])
    elif match := _REQUESTS.match(bare):
        run.directions.setdefault("read" if match[1] == "read" else "written", Direction()).per_s = float(match[2])
    elif match := _MIB.match(bare):
        run.directions.setdefault(match[1], Direction()).bytes_per_s = float(match[2]) * _FACTORS["MiB"]
    elif match := _MOVED.match(bare):
        run.bytes, run.bytes_per_s = (float(match[at]) * _FACTORS["MiB"] for at in (1, 2))
    elif match := _BLOCK.match(bare):
        run.block_bytes = int(match[1]) * _FACTORS[match[2]]
    elif match := _SECONDS.match(bare):
        run.seconds = float(match[1])
    elif match := _EVENTS.match(bare):
        run.transactions = run.transactions if run.transactions is not None else int(match[1])
    elif match := _PERCENTILE.match(bare):
        run.latency_ms[f"{match[1]} %"] = float(match[2])
    elif match := _LATENCY.match(bare):
        _latency(run, match[1], float(match[2]))
    else:
        return False
    return True


def _latency(run: LoadRun, name: str, value_ms: float) -> None:
    if name == "avg":
        run.mean_ms = value_ms
    elif name == "sum":
        run.latency_sum_ms = value_ms
    else:
        run.latency_ms[name] = value_ms
