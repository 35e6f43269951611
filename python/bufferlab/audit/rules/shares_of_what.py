"""Finds shares that do not add up: percentages of different wholes next to counts, and counts that contain each other.

`buf_LRU_get_free_block()` (storage/innobase/buf/buf0lru.cc) loops after a successful LRU scan or single-page flush
and then takes the block from the free list: a line printed there counts every allocation, so F includes L and P.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bufferlab.audit.case import Case, Finding
from bufferlab.audit.parsers.result_rows import Number, ResultRow, ResultTable

PATHS = ("free_list", "lru_scan", "single_page")
_WORDS = {"free_list": "free list", "lru_scan": "LRU scan", "single_page": "single page"}
#: Percentages rounded to two places add up to within this much of 100.
_ROUNDING_PERCENT = 0.5


def shares_of_what(case: Case) -> Iterator[Finding]:
    """Yield one finding for each table of paths whose shares do not add up to 100 %."""
    for table in case.tables():
        if not adds_up(table):
            rows, sums = _rows(table)
            yield _finding(table, rows, sums)


def adds_up(table: ResultTable) -> bool:
    """Return whether every row's shares add up to 100 %; counts without shares contradict nothing."""
    _, sums = _rows(table)
    return all(abs(found - 100) <= _ROUNDING_PERCENT for found in sums)


_Row = tuple[ResultRow, dict[str, tuple[float, float]]]


def _rows(table: ResultTable) -> tuple[list[_Row], list[float]]:
    """Return the rows with counts and shares, and the sum of each row's shares."""
    rows = [(row, both) for row in table.rows if (both := _counts_and_shares(row)) and len(both) > 1]
    return rows, [sum(share for _, share in both.values()) for _, both in rows]


def exclusive(row: ResultRow) -> tuple[float, float, float] | None:
    """Return the shares of all allocations by path, (F - L - P, L, P) / F; None when the counts do not allow it."""
    counts = [_count(row.values.get(path, ())) for path in PATHS]
    f, lru, single = counts
    if f is None or lru is None or single is None or not f.value or lru.value + single.value > f.value:
        return None
    return (f.value - lru.value - single.value) / f.value, lru.value / f.value, single.value / f.value


def _count(numbers: tuple[Number, ...]) -> Number | None:
    return next((number for number in numbers if not number.percent), None)


def _counts_and_shares(row: ResultRow) -> dict[str, tuple[float, float]]:
    """Return (count, share in per cent) by path, where both are given."""
    found = {}
    for path in PATHS:
        numbers = row.values.get(path, ())
        count, share = _count(numbers), next((number for number in numbers if number.percent), None)
        if count is not None and share is not None:
            found[path] = (count.value, share.value)
    return found


def _wholes(rows: list[_Row]) -> dict[str, float]:
    """Return, by path, the whole of its percentages as a multiple of the sum of the counts (the median of the rows)."""
    ratios: dict[str, list[float]] = {}
    for _, both in rows:
        total = sum(count for count, _ in both.values())
        for path, (count, share) in both.items():
            # The rounding of the share decides how well the whole is known: small shares say nothing, nor does a
            # count of zero.
            if share >= 1 and min(count, total) > 0:
                ratios.setdefault(path, []).append(100 * count / share / total)
    return {path: median(found) for path, found in ratios.items()}


def _finding(table: ResultTable, rows: list[_Row], sums: list[float]) -> Finding:
    wholes = _wholes(rows)
    of = ", ".join(f"{_WORDS[path]} of {ratio:.3f}" for path, ratio in wholes.items())
    spread = max(wholes.values(), default=1.0) / min(wholes.values(), default=1.0) - 1
    why = "different wholes" if spread > 0.01 else "a whole that is not their sum"
    only = [(row.setting, shares) for row, _ in rows if (shares := exclusive(row))]
    listed = "; ".join(f"{name}: {' / '.join(f'{100 * share:.3g}' for share in shares)}" for name, shares in only)
    if only:
        corrected = f"of all allocations, in % (F-L-P / L / P over F, if F counts every allocation): {listed}"
    else:
        corrected = "give each share of the sum of the counts"
    return Finding(
        table.place,
        f"the shares of a row add up to {min(sums):.1f} to {max(sums):.1f} %, not 100: they are taken of {why}"
        f" ({of} times the sum of the counts)",
        "columns cannot be compared with each other; 100 minus them is nothing",
        corrected,
        {
            "sums_percent": sums,
            "wholes_by_sum": wholes,
            "exclusive_percent": {name: [100 * share for share in shares] for name, shares in only},
        },
    )
