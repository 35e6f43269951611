"""Finds TpmCs that no single run of the stated length gives: counts are whole, so TpmC is a multiple of 60 / seconds.

Source: tpcc-mysql, src/main.c: (success + late) * 60 / (floor(l / i) * i), computed in single precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.audit.rules.tpmc_counts import contradicted
from bufferlab.importers.read import FileEvidence
from bufferlab.importers.text import Place
from bufferlab.importers.tpcc_mysql import TpccLog, spacing_s

NAME = "tpmc-grid"
#: Seconds of one interval line unless -i says otherwise.
_INTERVAL_S = 10
_SINGLE_PRECISION = 2.0**-23
_MOST_RUNS = 20
#: One value that fits by chance proves nothing, one that does not is a slip of the pen: of a table more must be off.
_OFF = 0.5


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each closing block, and each table, with values that are off the grid."""
    for evidence in case.files:
        for log in evidence.logs:
            # If the log's counts contradict the TpmC, another rule tells more.
            if log.tpmc is not None and log.tpmc_place is not None and not contradicted(log):
                yield from _judge([(log.tpmc_text, log.tpmc_place)], _seconds(log, evidence), log.tpmc_place)
        for table in evidence.results:
            shown = [
                (f"{number.value:.{number.decimals}f}", row.place)
                for row in table.rows
                if (number := row.first("tpmc")) is not None
            ]
            if shown:
                yield from _judge(shown, counted_seconds(_stated(evidence)), table.place)


def _seconds(log: TpccLog, evidence: FileEvidence) -> int:
    """Return the seconds that a log's TpmC is divided by: the closing block's, or those asked, in whole intervals."""
    return log.measured_s or counted_seconds(log.parameters.get("measure") or _stated(evidence), spacing_s(log))


def _stated(evidence: FileEvidence) -> float | None:
    return evidence.stated.runtime_s


def counted_seconds(seconds: float | None, interval_s: int | None = None) -> int:
    """Return the seconds that tpcc-mysql divides by when asked for these: whole intervals.

    >>> counted_seconds(1205), counted_seconds(1205, 1)
    (1200, 1205)
    """
    interval = interval_s if interval_s is not None and interval_s <= _INTERVAL_S else _INTERVAL_S
    return int((seconds or 0) // interval * interval)


def _judge(shown: list[tuple[str, Place]], whole: int, place: Place) -> Iterator[Finding]:
    if not whole:
        return
    # A text that is coarser than the grid fits any length.
    told = [(text, Decimal(text)) for text, _ in shown if 60 / whole >= 2 * _digit(text)]
    off = [text for text, value in told if not _fits(text, value, whole)]
    if not off or len(off) <= _OFF * len(told):
        return
    step = 60 / whole
    digit = max(_digit(text) for text, _ in told)
    runs = next(
        (n for n in range(2, _MOST_RUNS + 1) if all(_fits(text, value, n * whole) for text, value in told)), None
    )
    if runs is None:
        fits = f"not even means of up to {_MOST_RUNS} such runs give all of them"
    elif step / runs >= 2 * digit:
        fits = f"means of {runs} such runs would give all of them"
    else:
        fits = f"means of {runs} such runs or more could give all of them, as they could any number"
    nearest = ", ".join(f"{round(float(text) / step) * step:.{_decimals(text) + 1}f}" for text in off[:1])
    yield Finding(
        NAME,
        place,
        f"TpmC {', '.join(off)}: one run of {whole} s gives multiples of {step:g} only ({len(off)} of"
        f" {len(told)} are none)",
        "these are means of several runs, or of runs of another length: neither their number nor their scatter is said",
        f"{fits}; one run would give {nearest} instead of the first",
        {"off_grid": [float(text) for text in off], "step": step, "seconds": whole, "runs_that_fit": runs},
    )


def _fits(text: str, value: Decimal, seconds: int) -> bool:
    """Return whether a whole count of New-Orders in so many seconds can be shown as this text."""
    tolerance = _digit(text) / 2 + abs(float(value)) * _SINGLE_PRECISION + 1e-9
    step = 60 / seconds
    return abs(float(value) - round(float(value) / step) * step) <= tolerance


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def _digit(text: str) -> float:
    return float(10 ** -_decimals(text))


RULE = Rule(NAME, "Can one run of the stated length give this TpmC?", check)
