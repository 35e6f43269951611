"""Parses BenchBase's summary.json. BenchBase's requests are transactions of all types, so their rate is not TpmC.

Follows `writeSummary` in src/main/java/com/oltpbenchmark/util/ResultWriter.java; the parser was not tested with the
output of a run. Older versions, and OLTP-Bench, do not print the number of requests and the time.
"""

from __future__ import annotations

import re

from bufferlab.audit.parsers.documents import Document, number, part
from bufferlab.audit.parsers.load_run import LoadParser

_LATENCY = re.compile(r"(?:(\d{1,2})th Percentile|(Minimum|Median|Average|Maximum)) Latency \(microseconds\)")
_ENDS = {"Minimum": "min", "Maximum": "max", "Median": "50 %"}


class BenchbaseParser(LoadParser):
    """A parser of BenchBase's documents."""

    tool = "BenchBase"

    def take_document(self, document: Document, label: str) -> None:
        """Read a summary under a caption's label."""
        told = document.value
        if document.program != self.tool or not isinstance(told, dict):
            return
        run = self._begin(document.number, label)
        run.per_s = number(told, "Throughput (requests/second)")
        requests, elapsed_ns = number(told, "Measured Requests"), number(told, "Elapsed Time (nanoseconds)")
        run.transactions = int(requests) if requests is not None else None
        run.seconds = elapsed_ns / 1e9 if elapsed_ns else None
        terminals = number(told, "terminals")
        run.clients = int(terminals) if terminals and terminals >= 1 else None
        latencies = part(told, "Latency Distribution")
        for name in latencies if isinstance(latencies, dict) else ():
            match, value = _LATENCY.fullmatch(name), number(latencies, name)
            if not match or value is None:
                continue
            if match[2] == "Average":
                run.mean_ms = value / 1000
            else:
                run.latency_ms[_ENDS[match[2]] if match[2] else f"{match[1]} %"] = value / 1000
