"""Parses HammerDB's output of a timed TPROC-C run: from the command line, from hammerdb.log, and of a job as JSON.

Follows src/mysql/mysqloltp.tcl, src/postgresql/pgoltp.tcl and `testresult` of HammerDB 4 and 5, and a log of 4.7 that
its maker published; the parser was not tested with the log of a run. Older versions print TPM before NOPM. A job's
result is a list with the line of the result. A job's timing (modules/jobs, JOBTIMING) has the calls and latencies of
each procedure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.documents import Document, number, part
from bufferlab.audit.parsers.load_run import LoadParser, LoadRun
from bufferlab.errors import Problem

_BEGIN = re.compile(r"Beginning rampup time of \d{1,6} minutes?")
_PERIOD = re.compile(r"Timing test period of (\d{1,6}) in minutes")
_USERS = re.compile(r"(\d{1,6}) Active Virtual Users configured")
_RESULT = re.compile(
    r"TEST RESULT : System achieved (?:(\d{1,15}) NOPM from (\d{1,15}) |(\d{1,15}) [\w ]{1,40} TPM at (\d{1,15}) NOPM)"
)
_PROCEDURES = ("NEWORD", "PAYMENT", "DELIVERY", "SLEV", "OSTAT")
_MOST_TIMINGS = 1000
_LATENCIES = {"min_ms": "min", "p50_ms": "50 %", "p95_ms": "95 %", "p99_ms": "99 %", "max_ms": "max"}
_FAILED = re.compile(r"Vuser (\d{1,6}):FINISHED FAILED")
#: HammerDB's counts of created and building users include the monitor, which is not a connection of the load.
_USER = re.compile(
    r"Vuser \d{1,6}(?::| created)|Error in Virtual User \d{1,6}:|ALL VIRTUAL USERS COMPLETE|HammerDB CLI v"
    r"|\d{1,6} Virtual Users Created|Building \d{1,9} Warehouses? with \d{1,6} Virtual Users?"
)


class HammerdbParser(LoadParser):
    """A parser of HammerDB's lines."""

    tool = "HammerDB"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._timings: list[LoadRun] = []
        self._counts: list[Place] = []

    @property
    def runs(self) -> list[LoadRun]:
        """Return the runs that have a result, and one run for each procedure in the timings of jobs."""
        return [*super().runs, *self._timings]

    def named(self) -> Iterator[Problem]:
        """Yield a problem for each run that lacks a part, and for documents that are not read."""
        yield from super().named()
        for place in self._counts[:1]:
            yield Problem(
                "a document of a job of HammerDB is not read: it has neither a result nor the timing of procedures",
                f"{place}",
                "give what `job ID result` and `job ID timing` print",
            )

    def take_document(self, document: Document, label: str) -> None:
        """Read the timing of a job under a caption's label: the calls and latencies of each procedure."""
        if document.program != self.tool:
            return
        place = Place(self.file, document.number, label)
        told = document.value
        found = [name for name in told if name.upper() in _PROCEDURES] if isinstance(told, dict) else []
        if not found:
            self._counts.append(place)
        for name in found:
            run = LoadRun(self.tool, place, f"{name.upper()}")
            calls = number(told, name, "calls")
            run.transactions = int(calls) if calls is not None else None
            run.mean_ms, run.latency_sum_ms = number(told, name, "avg_ms"), number(told, name, "total_ms")
            for key, latency in _LATENCIES.items():
                if (value := number(told, name, key)) is not None:
                    run.latency_ms[latency] = value
            if part(told, name) and run.has_result and len(self._timings) < _MOST_TIMINGS:
                self._timings.append(run)

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption's label; return whether it is HammerDB's."""
        bare = text.strip()
        result = _RESULT.search(bare) if "TEST RESULT" in bare else None
        if not result and not _USER.match(bare):
            return False
        run = self._open
        # A log that was cut or joined may lack a run's first line. So any line of a run's head, or a result, begins a
        # run.
        begins = result or any(pattern.search(bare) for pattern in (_BEGIN, _PERIOD, _USERS))
        if run is None or (run.nopm is not None and begins):
            run = self._begin(number, label)
        if result:
            nopm, tpm, older_tpm, older_nopm = result.groups()
            run.nopm, run.tpm = int(nopm or older_nopm), int(tpm or older_tpm)
        elif match := _PERIOD.search(bare):
            run.seconds = 60.0 * int(match[1])
        elif match := _USERS.search(bare):
            run.clients = int(match[1])
        elif match := _FAILED.match(bare):
            run.lost.add(match[1])
        return True
