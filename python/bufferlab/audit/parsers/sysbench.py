"""Parses sysbench's report and its interval lines: versions 0.5 and 1.0, of SQL tests, cpu and fileio.

Follows sysbench 1.0.20, src/sysbench.c and src/lua/internal/sysbench.sql.lua, and what 1.0.20 printed here.
"""

from __future__ import annotations

import re

from bufferlab.audit.parsers.load_run import LoadParser, LoadRun
from bufferlab.audit.parsers.text import Place

_F = r"(\d{1,15}(?:\.\d{1,6})?)"
_BEGIN = re.compile(r"sysbench \d{1,2}\.\d{1,3}[\w.-]{0,20}(?:\s|:|$)")
_INTERVAL = re.compile(rf"\[\s*(\d{{1,9}})s\s*\]\s+(?:thds|threads):\s*\d{{1,9}},?\s+(?:tps:\s*{_F}|eps:\s*{_F})")
_FILE_INTERVAL = re.compile(r"\[\s*\d{1,9}s\s*\]\s+reads:")
_THREADS = re.compile(r"Number of threads:\s*(\d{1,9})\s*$")
_RATE = re.compile(r"Target transaction rate:")
_QUERIES = re.compile(r"(read|write|other|total):\s+(\d{1,15})\s*$")
_TRANSACTIONS = re.compile(rf"transactions:\s+(\d{{1,15}})\s+\({_F} per sec\.\)")
_SECONDS = re.compile(rf"total time:\s+{_F}s\s*$")
_EVENTS = re.compile(r"total number of events:\s+(\d{1,15})\s*$")
_PER_S = re.compile(rf"events per second:\s+{_F}\s*$")
_LATENCY = re.compile(rf"(min|avg|max|sum):\s+{_F}(?:ms)?\s*$")
_PERCENTILE = re.compile(rf"(?:approx\.\s+)?(\d{{1,2}})(?:th)?\s+percentile:\s+{_F}(?:ms)?\s*$")
_END = re.compile(r"execution time \(avg/stddev\):")
_OTHER = re.compile(
    r"Running the test|Initializing|Threads started|SQL statistics|queries performed|General statistics|"
    r"(?:Latency \(ms\)|response time|Threads fairness|File operations|Throughput|CPU speed):|"
    r"(?:queries|ignored errors|reconnects|read/write requests|other operations):\s+\d|events \(avg/stddev\)|"
    r"(?:reads|writes|fsyncs)/s:|(?:read|written), MiB/s:"
)


class SysbenchParser(LoadParser):
    """A parser of sysbench's lines."""

    tool = "sysbench"

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption's label; return whether it is sysbench's."""
        bare = text.strip()
        if _BEGIN.match(bare):
            self._begin(number, label)
            return True
        if (match := _INTERVAL.match(bare)) or _FILE_INTERVAL.match(bare):
            run = self._open or self._begin(number, label)
            if match:
                self._line(run, Place(self.file, number, label), match[1], match[2] or match[3])
            return True
        if _TRANSACTIONS.match(bare) and self._open is None:
            self._begin(number, label)
        run_open = self._open
        if run_open is None:
            return False
        if _END.match(bare):
            self._open = None
            return True
        return _OTHER.match(bare) is not None or _report(run_open, bare)


def _report(run: LoadRun, bare: str) -> bool:
    """Take a line of the report into a run; return whether it is one."""
    if match := _THREADS.match(bare):
        run.clients = int(match[1])
    elif _RATE.match(bare):
        run.paced = True
    elif match := _QUERIES.match(bare):
        run.queries[match[1]] = int(match[2])
    elif match := _TRANSACTIONS.match(bare):
        run.transactions, run.per_s = int(match[1]), float(match[2])
    elif match := _PER_S.match(bare):
        run.per_s = float(match[1])
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
