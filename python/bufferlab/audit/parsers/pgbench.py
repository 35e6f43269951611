"""Parses pgbench's report and its lines of progress: PostgreSQL 9.4 to 18.

Follows `printResults` and `printProgressReport` in src/bin/pgbench/pgbench.c, and the output of pgbench 15.
"""

from __future__ import annotations

import re

from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.load_run import LoadParser, LoadRun

_F = r"(\d{1,15}(?:\.\d{1,6})?)"
_PROGRESS = re.compile(rf"progress: {_F} s, {_F} tps, lat {_F}")
_TYPE = re.compile(r"transaction type: |pgbench \(\d")
_CLIENTS = re.compile(r"number of clients: (\d{1,9})\s*$")
_DURATION = re.compile(r"duration: (\d{1,9}) s\s*$")
_DONE = re.compile(r"number of transactions actually processed: (\d{1,15})(?:/\d{1,15})?\s*$")
_MEAN = re.compile(rf"latency average(?: =|:) {_F} ms")
_CONNECTED = re.compile(rf"initial connection time = {_F} ms")
_LAG = re.compile(r"rate limit schedule lag: ")
_TPS = re.compile(rf"tps = {_F} \((including|excluding|without)")
_ABORTED = re.compile(r"(?:pgbench: error: )?client (\d{1,9}) (?:script \d{1,9} )?aborted")
#: The first letters of the lines that begin a run.
_FIRST = frozenset("pct")
_INCOMPLETE = re.compile(r"(?:pgbench: error: )?Run was aborted")
_OTHER = re.compile(
    r"(?:scaling factor|query mode|partition method|partitions|number of threads|number of transactions per client|"
    r"maximum number of tries|number of failed transactions|number of transactions (?:above|skipped|retried)|"
    r"total number of retries|latency stddev|average connection time|"
    r"statement latencies in milliseconds|SQL script \d|starting vacuum)\b"
)


class PgbenchParser(LoadParser):
    """A parser of pgbench's lines. Lines of progress come before the report; pgbench prints them on standard error."""

    tool = "pgbench"

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption's label; return whether it is pgbench's."""
        bare = text.strip()
        if self._open is None and bare[:1] not in _FIRST:
            return False
        if match := _PROGRESS.match(bare):
            run = self._current(number, label, fresh=False)
            self._line(run, Place(self.file, number, label), match[1], match[2])
            return True
        if match := _ABORTED.match(bare):
            self._current(number, label, fresh=False).lost.add(match[1])
            return True
        if _TYPE.match(bare):
            self._current(number, label, fresh=True)
            return True
        if self._open is None:
            return False
        return _OTHER.match(bare) is not None or _report(self._open, bare)

    def _current(self, number: int, label: str, *, fresh: bool) -> LoadRun:
        """Return the run that a line belongs to: a new run after a report, or if a second report begins (`fresh`)."""
        run = self._open
        if run is None or run.per_s is not None or (fresh and run.clients is not None):
            return self._begin(number, label)
        return run


def _report(run: LoadRun, bare: str) -> bool:
    """Parse a line of the report into a run; return whether it is such a line."""
    if match := _CLIENTS.match(bare):
        run.clients = int(match[1])
    elif match := _DURATION.match(bare):
        run.seconds, run.is_asked = float(match[1]), True
    elif match := _DONE.match(bare):
        run.transactions = int(match[1])
    elif match := _MEAN.match(bare):
        run.mean_ms = float(match[1])
    elif match := _CONNECTED.match(bare):
        # The time of -T begins before clients connect, but tps leaves out the time to connect (`main`, `printResults`).
        run.connecting_s = float(match[1]) / 1000
    elif _LAG.match(bare):
        run.paced = True
    elif match := _TPS.match(bare):
        # Older versions print two rates. The first one includes the time to connect, as do the seconds and the mean
        # latency.
        run.per_s = float(match[1]) if run.per_s is None else run.per_s
    elif _INCOMPLETE.match(bare):
        if not run.lost:  # At least one client aborted, even if no line says so.
            run.lost.add("")
    else:
        return False
    return True
