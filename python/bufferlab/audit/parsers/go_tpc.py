"""Parses the summary of go-tpc's tpcc: the count, rate and latencies of each transaction type, and TpmC.

Follows pkg/measurement and `outputMeasurement` in tpcc/workload.go of go-tpc 1.0, and the output of 1.0.7. Latencies
are rounded to bins that are up to a tenth wide; older versions print whole milliseconds. Only New-Order's lines of
progress are kept. The number of threads is known only if the text has the command.
"""

from __future__ import annotations

import re

from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.load_run import LoadParser, LoadRun

_F = r"\d{1,15}(?:\.\d{1,6})?"
_LINE = re.compile(
    rf"\[(?P<of>Summary|Current)\] (?P<kind>[A-Z_]{{1,40}}) +- Takes\(s\): (?P<takes>{_F}),"
    rf" Count: (?P<count>\d{{1,15}}), TPM: (?P<tpm>{_F}), Sum\(ms\): (?P<sum>{_F}), Avg\(ms\): (?P<avg>{_F})"
    r"(?P<rest>.{0,400})$"
)
_LATENCY = re.compile(rf"(?:(\d{{1,2}}(?:\.\d{{1,3}})?)th|(Max))\(ms\): ({_F})")
_TPMC = re.compile(rf"tpmC: (?P<tpmc>{_F})(?:, tpmTotal: (?P<total>{_F}))?(?:, efficiency: {_F}%)?\s*$")
_COMMAND = re.compile(r"(?:\S{0,200}/)?(?:go-tpc|tiup bench) tpcc .{0,1000}?(?:-T|--threads)[ =]?(\d{1,6})\b")
#: The maximum relative difference of a histogram's mean from sum / count: the width of a bin.
_BIN = 0.07
_NEW_ORDER = "NEW_ORDER"


class GoTpcParser(LoadParser):
    """A parser of go-tpc's lines."""

    tool = "go-tpc"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._threads: int | None = None
        self._kinds: dict[str, LoadRun] = {}
        """Transaction type -> its LoadRun, for the run that is being read."""
        self._has_summary = False
        self._tpmc: float | None = None

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption's label; return whether it is go-tpc's."""
        if "tp" not in text and "Takes" not in text:
            return False
        bare = text.strip().removeprefix("> ")
        if match := _LINE.match(bare):
            if self._has_summary and (match["of"] == "Current" or self._is_told(match["kind"])):
                self._kinds, self._has_summary = {}, False
            if match["of"] == "Summary":
                self._has_summary = True
                self._summary(self._run(match["kind"], number, label), match)
            elif match["kind"] == _NEW_ORDER:
                run = self._run(_NEW_ORDER, number, label)
                before_s = run.intervals[-1].end_s if run.intervals else 0.0
                end_s = f"{before_s + float(match['takes']):.3f}"
                self._line(run, Place(self.file, number, label), end_s, f"{float(match['tpm']) / 60:.4f}")
            return True
        if (match := _TPMC.match(bare)) and self._has_summary:
            self._whole(match["tpmc"], number, label)
            return True
        if match := _COMMAND.search(bare):
            self._threads = int(match[1])
        return False

    def _is_told(self, kind: str) -> bool:
        return kind in self._kinds and self._kinds[kind].transactions is not None

    def _run(self, kind: str, number: int, label: str) -> LoadRun:
        if kind not in self._kinds:
            if len(self._kinds) >= 100:
                self._kinds = {}
            self._kinds[kind] = self._begin(number, label)
            self._kinds[kind].name = kind
        return self._kinds[kind]

    def _summary(self, run: LoadRun, match: re.Match[str]) -> None:
        run.transactions, run.seconds, run.per_s = int(match["count"]), float(match["takes"]), float(match["tpm"]) / 60
        run.mean_ms, run.latency_sum_ms = float(match["avg"]), float(match["sum"])
        run.mean_slack_ms = _BIN * run.mean_ms + (0.11 if "." in match["avg"] else 1.0)
        for percent, greatest, value in _LATENCY.findall(match["rest"]):
            run.latency_ms["max" if greatest else f"{float(percent):g} %"] = float(value)

    def _whole(self, tpmc: str, number: int, label: str) -> None:
        """End a run: store TpmC with New-Order, and add a LoadRun for all transaction types together.

        Without a known number of threads no LoadRun is added.
        """
        done = {kind: run for kind, run in self._kinds.items() if not kind.endswith("_ERR") and self._is_told(kind)}
        if _NEW_ORDER in done:
            done[_NEW_ORDER].nopm = float(tpmc)
        if done and self._threads is not None:
            whole = self._begin(number, label)
            whole.name, whole.clients = "transactions of all kinds", self._threads
            whole.transactions = sum(run.transactions or 0 for run in done.values())
            whole.seconds = max(run.seconds or 0.0 for run in done.values())
            whole.latency_sum_ms = sum(run.latency_sum_ms or 0.0 for run in done.values())
            whole.mean_ms = whole.latency_sum_ms / whole.transactions if whole.transactions else None
        self._kinds, self._has_summary = {}, False
