"""Finds hit rates of the status text that say little, because they have three digits and are near 1000.

The status text rounds the misses down. Source: `buf_print_io_instance`, which prints
1000 - (1000 * pages read / page gets) in whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.importers.text import Place
from bufferlab.units import format_percent

NAME = "floored-hit-ratio"
#: Misses known to better than this are good enough to be called known.
_WELL_KNOWN = 0.12


def check(case: Case) -> Iterator[Finding]:
    """Yield one finding for each file with printouts, and for each table with hit ratios, at its coarsest value."""
    for evidence in case.files:
        shown = [
            (int(hit), dump.place) for dump in evidence.dumps if (hit := dump.fields.get("hit_permille")) is not None
        ]
        # A single printout is not compared with anything.
        if len(shown) > 1 or evidence.logs:
            yield from _coarsest(shown)
        for table in evidence.results:
            ratios = [
                (hit, row.place)
                for row in table.rows
                for number in row.values.get("hit", ())
                if number.decimals <= 1 and (hit := _permille(number.value)) is not None
            ]
            yield from _coarsest(ratios)


def misses_permille(hit_permille: int) -> tuple[float, float]:
    """Return the misses of 1000 page gets that a printed hit rate may mean: from the first to below the second.

    >>> misses_permille(993)
    (7.0, 8.0)
    """
    return float(1000 - hit_permille), float(1000 - hit_permille + 1)


def _permille(percent: float) -> int | None:
    return round(10 * percent) if 50 <= percent <= 100 else None


def _coarsest(shown: list[tuple[int, Place]]) -> Iterator[Finding]:
    if not shown:
        return
    hit, place = max(shown, key=lambda one: one[0])
    low, high = misses_permille(hit)
    width = high / low - 1 if low else float("inf")
    if width <= _WELL_KNOWN:
        return
    lowest = min(hit for hit, _ in shown)
    known = f"by up to {format_percent(width)}" if low else "by any factor"
    values = f"{lowest} to {hit}" if lowest < hit else f"{hit}"
    yield Finding(
        NAME,
        place,
        f"hit rates of {values} of 1000: {hit} means {low:.0f} to {high:.0f} misses in 1000 page gets, the"
        " fraction is cut off",
        f"reads that differ {known} show the same hit rate",
        f"misses between {low / 10:.1f} and {high / 10:.1f} %; count reads per transaction, from Pages read, instead",
        {"hit_permille": hit, "misses_permille_low": low, "misses_permille_high": high},
    )


RULE = Rule(NAME, "How well is the hit ratio known?", check)
