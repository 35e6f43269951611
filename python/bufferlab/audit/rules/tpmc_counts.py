"""Finds a TpmC that does not follow from the New-Orders and the seconds of its log.

Source: tpcc-mysql, src/main.c: (success + late) * 60 / seconds; the ramp-up is in neither.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.audit.case import Case
from bufferlab.audit.finding import Finding, Rule
from bufferlab.audit.throughput import Counted, counted
from bufferlab.importers.result_rows import Number, ResultRow, ResultTable
from bufferlab.importers.text import Place
from bufferlab.importers.tpcc_mysql import TpccLog

NAME = "tpmc-counts"
#: Two counts of the same run may differ by as much, and a table may be rounded.
_NEAR = 0.005
#: Times whose TpmC are this many last digits apart are not hit by the mean of other runs.
_CHANCE = 200


def check(case: Case) -> Iterator[Finding]:
    """Yield a finding for each closing block and each row of a table whose TpmC is over another duration."""
    for run in case.runs:
        for log in run.logs:
            if log.tpmc and log.tpmc_place and (found := contradicted(log)):
                yield _finding(log.tpmc_place, log.tpmc, found, log)
    for _, table in case.results():
        for row in table.rows:
            tpmc = row.first("tpmc")
            if tpmc and (both := _over_another_time(case, table, row)):
                yield _finding(row.place, tpmc.value, *both)


def contradicted(log: TpccLog) -> Counted | None:
    """Return the counts of a log that its TpmC contradicts, or None."""
    found = counted(log)
    return found if log.tpmc and found and found.new_orders and not _near(log.tpmc, found.tpmc) else None


def right_tpmc(case: Case, table: ResultTable, row: ResultRow) -> float | None:
    """Return a row's TpmC: the given one, or its log's when the given one is over another duration."""
    tpmc = row.first("tpmc")
    if tpmc is None:
        return None
    both = _over_another_time(case, table, row)
    return both[0].tpmc if both else tpmc.value


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _NEAR * other


def _over_another_time(case: Case, table: ResultTable, row: ResultRow) -> tuple[Counted, TpccLog] | None:
    """Return the log of a row and its counts, when the row's TpmC is these counts over another time."""
    tpmc = row.first("tpmc")
    if tpmc is None or not tpmc.value:
        return None
    found = None
    for log in _logs_of(case, table, row):
        counts = counted(log)
        if counts is None or not counts.new_orders:
            continue
        if _near(tpmc.value, counts.tpmc):
            return None
        seconds = [counts.seconds + log.parameters.get("rampup", 0)]
        if log.tpmc and not _near(log.tpmc, counts.tpmc):
            seconds.append(round(counts.seconds_behind(log.tpmc)))
        if not {"n", "spread"} & table.roles:
            seconds += _round_time(counts, tpmc)
        wrong = [60 * counts.new_orders / length for length in seconds if length and length != counts.seconds]
        if any(abs(tpmc.value - value) <= tpmc.last_digit for value in wrong):
            found = counts, log
    return found


def _round_time(counts: Counted, tpmc: Number) -> list[int]:
    """Return the multiple of ten seconds that gives this TpmC, unless chance could hit one."""
    near = max(1, round(counts.seconds_behind(tpmc.value) / 10)) * 10
    step = 60 * counts.new_orders * (1 / near - 1 / (near + 10))
    return [near] if step >= _CHANCE * tpmc.last_digit else []


def _logs_of(case: Case, table: ResultTable, row: ResultRow) -> list[TpccLog]:
    """Return the logs of the run that the row names, or of the only run that has any."""
    runs = case.runs_of(row)
    if not runs and len(table.rows) == 1 and len(case.runs_by_setting) == 1:
        (runs,) = case.runs_by_setting.values()
    return [log for run in runs for log in run.logs]


def _finding(place: Place, tpmc: float, found: Counted, log: TpccLog) -> Finding:
    behind = found.seconds_behind(tpmc)
    rampup = log.parameters.get("rampup", 0)
    what = (
        f"TpmC {tpmc:.10g} is {found.new_orders:,} New-Orders over {behind:.4g} s;"
        f" the log counts them in {found.seconds} s"
    )
    if rampup and round(behind) == found.seconds + rampup:
        what += f", and the ramp-up of {rampup} s is not counted"
    return Finding(
        NAME,
        place,
        what,
        f"throughput is given {found.tpmc / tpmc:.3g} times too {'small' if tpmc < found.tpmc else 'large'},"
        " and I/O per transaction by as much the other way",
        f"{found.tpmc:.3f} TpmC = {found.new_orders:,} * 60 / {found.seconds}",
        {
            "tpmc": tpmc,
            "new_orders": found.new_orders,
            "seconds": found.seconds,
            "seconds_behind": behind,
            "tpmc_counted": found.tpmc,
        },
    )


RULE = Rule(NAME, "Is TpmC the New-Orders counted over the time they were counted in?", check)
