"""Finds I/O per transaction that is a rate per second divided by TpmC, which is per minute: sixty times too small."""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import TRANSACTIONS_PER_NEW_ORDER, Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.result_rows import Number, ResultRow, ResultTable

NAME = "minute-by-second"
_KINDS = (
    ("reads", "reads_per_s", ("reads_per_tx", "reads_per_s")),
    ("writes", "writes_per_s", ("writes_per_tx", "writes_per_s")),
)


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each table whose every value is rate / TpmC."""
    for evidence in case.files:
        rated = [table for table in evidence.results if {"tpmc"} < table.roles]
        for stated in evidence.results:
            for source in rated:
                found = [one for kind in _KINDS if (one := _pairs(source, stated, *kind))]
                if found:
                    yield _finding(stated, found)
                    break


_Pairs = tuple[str, list[tuple[ResultRow, Number, float]]]


def _pairs(source: ResultTable, stated: ResultTable, noun: str, rate: str, roles: tuple[str, ...]) -> _Pairs | None:
    """Return (noun, [(row of the rates, number stated, the right number)]) when all of at least two rows agree."""
    by_setting = {_plain(row.setting): row for row in stated.rows}
    found = []
    for row in source.rows:
        other, tpmc, per_s = by_setting.get(_plain(row.setting)), row.first("tpmc"), row.first(rate)
        if other is None or tpmc is None or per_s is None or not tpmc.value:
            continue
        number = next(
            (number for role in roles if (number := other.first(role)) is not None and other is not row), None
        )
        if number is None and other is row:
            number = row.first(roles[0])
        if number is None:
            continue
        if abs(number.value - per_s.value / tpmc.value) > number.last_digit:
            return None
        found.append((row, number, 60 * per_s.value / tpmc.value))
    return (noun, found) if len(found) > 1 and any(number.value for _, number, _ in found) else None


def _plain(setting: str) -> str:
    return setting.lower().replace(" ", "").removesuffix("b").removesuffix("i")


def _finding(stated: ResultTable, found: list[_Pairs]) -> Finding:
    said, right = [], []
    for noun, pairs in found:
        said.append(f"{noun} {' '.join(str(number) for _, number, _ in pairs)}")
        right.append(f"{noun} per New-Order {' '.join(f'{value:.2f}' for _, _, value in pairs)}")
    settings = " ".join(row.setting for row, _, _ in found[0][1])
    row, number, value = found[0][1][0]
    tpmc, rate = row.first("tpmc"), row.first({kind[0]: kind[1] for kind in _KINDS}[found[0][0]])
    assert tpmc is not None
    assert rate is not None
    return Finding(
        NAME,
        stated.place,
        f"I/O per transaction ({'; '.join(said)} at {settings}) is the rate per second divided by TpmC, which"
        " is per minute:"
        f" {rate} / {tpmc} = {number}",
        f"every value is 60 times too small; one New-Order of {row.setting} needs {value:.2f} {found[0][0]},"
        f" not {number}",
        f"{'; '.join(right)} (per transaction of any type, divide by {TRANSACTIONS_PER_NEW_ORDER:g})",
        {
            "settings": [row.setting for row, _, _ in found[0][1]],
            "factor": 60,
            **{f"{noun}_stated": [number.value for _, number, _ in pairs] for noun, pairs in found},
            **{f"{noun}_per_new_order": [value for _, _, value in pairs] for noun, pairs in found},
        },
    )


RULE = Rule(NAME, "Are rates per second divided by rates per second?", check)
