"""Finds sectors of 512 bytes in a column of kilobytes: twice the requests per second times their size.

iostat computes r/s, rkB/s and rareq-sz from the same counters; older ones print sizes (avgrq-sz) in sectors.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.iostat import DeviceRow, IostatReport

NAME = "sectors-as-kib"
#: A sector is half a KiB.
_RATIO = 2.0
#: Rows whose rounding allows more say nothing.
_KNOWN = 0.03
_HALF_DIGIT = 0.005

_Seen = tuple[IostatReport, str, str, float, float]
"""The report, the device, the column, the number printed and the right one, in kB/s."""


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each column with rows that are twice the product of the other two."""
    for evidence in case.files:
        columns: dict[str, list[_Seen]] = {}
        for report in evidence.reports:
            for device, row in report.devices.items():
                for name, said, should in _products(row):
                    columns.setdefault(name, []).append((report, device, name, said, should))
        for seen in columns.values():
            found = [one for one in seen if abs(one[3] / one[4] / _RATIO - 1) <= _KNOWN]
            if found:
                yield _finding(found, len(seen))


def _products(row: DeviceRow) -> Iterator[tuple[str, float, float]]:
    """Yield each column of kB/s, its number and the product of requests and size, where rounding leaves no doubt."""
    columns = row.columns
    for letter in "rw":
        said, rate, size = (columns.get(name) for name in (f"{letter}kB/s", f"{letter}/s", f"{letter}areq-sz"))
        if said and rate and size and _HALF_DIGIT / rate + _HALF_DIGIT / size <= _KNOWN:
            yield f"{letter}kB/s", said, rate * size
    both = [columns.get(name) for name in ("rkB/s", "wkB/s", "r/s", "w/s", "avgrq-sz")]
    if all(value is not None for value in both):
        read, written, reads, writes, sectors = (value or 0.0 for value in both)
        if (read + written) and sectors and (reads + writes) >= 1:
            yield "rkB/s and wkB/s", read + written, (reads + writes) * sectors / 2


def _finding(found: list[_Seen], rows: int) -> Finding:
    report, device, name, said, should = max(found, key=lambda one: one[3])
    return Finding(
        NAME,
        report.place,
        f"{name} of {device} is {said:.10g}, and requests per second times their size make {should:.6g}"
        f" ({len(found)} of {rows} rows)",
        "these are sectors of 512 bytes, not kilobytes: bytes per second and per transaction come out twice too large",
        f"{name} {should:.6g}",
        {"device": device, "column": name, "said": said, "kib_per_s": should, "rows": len(found)},
    )


RULE = Rule(NAME, "Are columns of kilobytes kilobytes?", check)
