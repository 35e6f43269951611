"""Rules about reads, writes and page gets of one New-Order, and about the hit ratio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import mean

from bufferlab.audit.evidence import TRANSACTIONS_PER_NEW_ORDER, AuditFinding, Case, Judges
from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.tables import Number, ResultRow, ResultTable
from bufferlab.units import format_percent

_KINDS = (
    ("reads", "reads_per_s", ("reads_per_tx", "reads_per_s")),
    ("writes", "writes_per_s", ("writes_per_tx", "writes_per_s")),
)


def minute_by_second(case: Case) -> Iterator[AuditFinding]:
    """Find I/O per transaction computed as a rate per second divided by TpmC, a rate per minute: 60 times too small.

    Yield one finding for each table whose every value is rate / TpmC.
    """
    for evidence in case.files:
        rated = [table for table in evidence.results if {"tpmc"} < table.roles]
        for stated in evidence.results:
            for source in rated:
                found = [one for kind in _KINDS if (one := _pairs(source, stated, *kind))]
                if found:
                    yield _minute_by_second_finding(stated, found)
                    break


_Pairs = tuple[str, list[tuple[ResultRow, Number, float]]]


def _pairs(source: ResultTable, stated: ResultTable, noun: str, rate: str, roles: tuple[str, ...]) -> _Pairs | None:
    """Return `noun` with (row of the rates, stated number, right number) for each row whose number is rate / TpmC.

    The result is None unless there are two such rows, and none that contradicts it.
    """
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
        if abs(number.value - 60 * per_s.value / tpmc.value) <= number.last_digit:
            continue  # With so few digits the stated number may be right.
        found.append((row, number, 60 * per_s.value / tpmc.value))
    return (noun, found) if len(found) > 1 and any(number.value for _, number, _ in found) else None


def _plain(setting: str) -> str:
    return setting.lower().replace(" ", "").removesuffix("b").removesuffix("i")


def _minute_by_second_finding(stated: ResultTable, found: list[_Pairs]) -> AuditFinding:
    said, right = [], []
    for noun, pairs in found:
        said.append(f"{noun} {' '.join(str(number) for _, number, _ in pairs)}")
        right.append(f"{noun} per New-Order {' '.join(f'{value:.2f}' for _, _, value in pairs)}")
    settings = " ".join(row.setting for row, _, _ in found[0][1])
    row, number, value = found[0][1][0]
    tpmc, rate = row.first("tpmc"), row.first({kind[0]: kind[1] for kind in _KINDS}[found[0][0]])
    assert tpmc is not None
    assert rate is not None
    return AuditFinding(
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


#: Intervals of gets that are within 5 % of each other agree, because reads and TpmC are rounded too.
_SLACK = 0.05


@dataclass(frozen=True)
class Gets:
    """The page gets per New-Order that a row implies, with the interval that the hit ratio's last digit allows."""

    setting: str
    value: float | None
    low: float
    high: float | None
    reads: float
    """The reads per New-Order. The server may count each of them as a get too."""


def gets_per_new_order(case: Case) -> Iterator[AuditFinding]:
    """Find rows whose hit ratio, reads per second and TpmC give different page gets of one New-Order.

    gets = (r/s * 60 / TpmC) / (1 - hit ratio) should not depend on the pool's size, except that MySQL, and MariaDB
    before 10.5, count a further get for each read of a leaf page (`a_read_is_a_get`, docs/innodb-metrics.md). If rows
    differ by more, one of the three numbers is from another time, or has a wrong name.

    Yield one finding for each table whose rows cannot have the same gets per New-Order.
    """
    for table in case.tables():
        rows = [found for row in table.rows if (found := gets_of(row))]
        if len(rows) > 1 and _are_apart(rows, reads_are_gets=False) and _are_apart(rows, reads_are_gets=True):
            yield _gets_per_new_order_finding(table, rows)


def _are_apart(rows: list[Gets], *, reads_are_gets: bool) -> bool:
    """Return whether no number of gets fits all rows. `reads_are_gets`: the server counts each read as a get too."""
    lows = [row.low - row.reads * reads_are_gets for row in rows]
    highs = [row.high - row.reads * reads_are_gets for row in rows if row.high is not None]
    return bool(highs) and max(lows) > (1 + _SLACK) * min(highs)


def gets_of(row: ResultRow) -> Gets | None:
    """Return the page gets of one New-Order that a row's numbers imply.

    The result is None if the row lacks one of the three numbers, or if a hit ratio is not above 1 % and at most 100 %.
    """
    tpmc, reads, hits = row.first("tpmc"), row.first("reads_per_s"), row.values.get("hit", ())
    if tpmc is None or reads is None or not hits or not tpmc.value or not all(1 < hit.value <= 100 for hit in hits):
        return None
    per_new_order = 60 * reads.value / tpmc.value
    miss = 1 - mean(hit.value for hit in hits) / 100
    # The status text rounds the misses down, by up to one digit. A ratio rounded by hand may be wrong by half a digit.
    digit = max(hit.last_digit for hit in hits) / 100 if max(hit.decimals for hit in hits) <= 1 else 0.0
    digit = min(digit, 0.001) or max(hit.last_digit for hit in hits) / 100
    least = miss - digit / 2
    return Gets(
        row.setting,
        per_new_order / miss if miss > 1e-9 else None,
        per_new_order / (miss + digit),
        per_new_order / least if least > 1e-9 else None,
        per_new_order,
    )


def _gets_per_new_order_finding(table: ResultTable, rows: list[Gets]) -> AuditFinding:
    known = [row for row in rows if row.value is not None]
    listed = ", ".join(f"{row.setting} {row.value:.0f}" for row in known)
    low = min(rows, key=lambda row: row.high or float("inf"))
    high = max(rows, key=lambda row: row.low)
    by_reads = max(0.0, high.reads - low.reads)
    assert low.high is not None
    return AuditFinding(
        table.place,
        f"hit ratio, r/s and TpmC imply these page gets per New-Order: {listed}; the same work has as many in each"
        " row, or differs by its reads alone",
        f"{high.setting} needs at least {high.low:.0f} and {low.setting} at most {low.high:.0f}, which is"
        f" {format_percent(high.low / low.high - 1)} apart; reads that are gets too (as MySQL counts them) explain"
        f" {format_percent(by_reads / low.high)}: hit ratio, reads and throughput are not of the same stretch of time,"
        " or device requests are not page reads",
        "compare reads per New-Order (r/s * 60 / TpmC), which need no hit ratio",
        {
            "settings": [row.setting for row in rows],
            "gets_per_new_order": [row.value for row in rows],
            "low": [row.low for row in rows],
            "high": [row.high for row in rows],
        },
    )


#: Misses whose interval is at most 12 % wide are known precisely enough.
_WELL_KNOWN = 0.12


def floored_hit_ratio(case: Case) -> Iterator[AuditFinding]:
    """Find hit rates of the status text that show the misses imprecisely, because they are whole numbers near 1000.

    MySQL's status text rounds the misses down, MariaDB's rounds the hits down. Source: `buf_print_io_instance` prints
    1000 - (1000 * pages read / page gets) in whole numbers in MySQL, and 1000 * (1 - pages read / page gets) in MariaDB
    from 10.2 on.

    The rule does not judge a ratio in a table, because it may have been cut off or rounded.

    Yield one finding for each file with printouts, at its coarsest value.
    """
    for evidence in case.files:
        shown = [
            # MariaDB prints the share of dirty pages, MySQL does not.
            (int(hit), "dirty_percent" in dump.fields, dump.place)
            for dump in evidence.dumps
            if (hit := dump.fields.get("hit_permille")) is not None
        ]
        # A single printout without a log is compared with nothing, so its hit rate does no harm.
        if len(shown) > 1 or evidence.logs:
            yield from _coarsest(shown)


def misses_permille(hit_permille: int, *, mariadb: bool = False) -> tuple[float, float]:
    """Return the interval of misses in 1000 page gets that a printed hit rate can mean.

    MySQL's interval includes its lower end, MariaDB's its upper end.

    >>> misses_permille(993), misses_permille(993, mariadb=True)
    ((7.0, 8.0), (6.0, 7.0))
    """
    least = max(0, 1000 - hit_permille - mariadb)
    return float(least), float(1000 - hit_permille + (not mariadb))


def _coarsest(shown: list[tuple[int, bool, Place]]) -> Iterator[AuditFinding]:
    # MariaDB prints 1000 only if there was no miss, which is exact.
    unsure = [one for one in shown if one[:2] != (1000, True)]
    if not unsure:
        return
    hit, mariadb, place = max(unsure, key=lambda one: one[0])
    low, high = misses_permille(hit, mariadb=mariadb)
    width = high / low - 1 if low else float("inf")
    if width <= _WELL_KNOWN:
        return
    lowest = min(hit for hit, *_ in unsure)
    known = f"by up to {format_percent(width)}" if low else "by any factor"
    values = f"{lowest} to {hit}" if lowest < hit else f"{hit}"
    yield AuditFinding(
        place,
        f"hit rates of {values} of 1000: {hit} means {low:.0f} to {high:.0f} misses in 1000 page gets, the"
        " fraction is cut off",
        f"reads that differ {known} show the same hit rate",
        f"misses between {low / 10:.1f} and {high / 10:.1f} %; count reads per transaction, from Pages read, instead",
        {"hit_permille": hit, "misses_permille_low": low, "misses_permille_high": high},
    )


def _has_tpmc_and_rates(case: Case) -> bool:
    roles = [table.roles for table in case.tables()]
    rates = {"reads_per_tx", "writes_per_tx", "reads_per_s", "writes_per_s"}
    return any({"tpmc"} < one for one in roles) and any(rates & one for one in roles)


JUDGES: Judges = {
    "minute-by-second": _has_tpmc_and_rates,
    "floored-hit-ratio": lambda case: any(
        any("hit_permille" in dump.fields for dump in one.dumps) and (len(one.dumps) > 1 or one.logs)
        for one in case.files
    ),
    "gets-per-new-order": lambda case: any(
        sum(gets_of(row) is not None for row in table.rows) > 1 for table in case.tables()
    ),
}
