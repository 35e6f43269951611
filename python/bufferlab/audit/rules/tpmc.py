"""Rules about TPC-C's throughput: a TpmC that contradicts its counts, that no single run can have, or of Payments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from bufferlab.audit.evidence import AuditFinding, Case, Judges
from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.read import FileEvidence
from bufferlab.audit.parsers.tables import Number, ResultRow, ResultTable, TableRow, TextTable
from bufferlab.audit.parsers.tpcc_mysql import CountedTransactions, Interval, TpccLog

#: Two TpmCs agree if they differ by at most this share: a run's two counts may differ a little, a table may be rounded.
_NEAR = 0.005
#: A TpmC identifies its duration only if the next multiple of 10 s gives a TpmC that differs by at least this many
#: units of the last digit. Otherwise the mean of other runs could match by chance.
_CHANCE = 200
_ENOUGH = 3
_COUNT = re.compile(r"\d{1,9}")
_TIME = re.compile(r"(\d{1,7})\s*s(?:ec(?:onds)?)?\.?")


def tpmc_counts(case: Case) -> Iterator[AuditFinding]:
    """Find a TpmC that does not follow from the New-Orders and the seconds of its log.

    Source: tpcc-mysql, src/main.c: (success + late) * 60 / seconds; neither includes the ramp-up.

    Yield a finding for each closing block and each row of a table whose TpmC is the count divided by another duration.
    """
    for log in case.logs():
        if log.tpmc and log.tpmc_place and (found := contradicted(log)):
            yield _tpmc_counts_finding(log.tpmc_place, log.tpmc, found, log)
    for table in case.tables():
        for row in table.rows:
            tpmc = row.first("tpmc")
            if tpmc and (both := _over_another_time(case, table, row)):
                yield _tpmc_counts_finding(row.place, tpmc.value, *both)


def contradicted(log: TpccLog) -> CountedTransactions | None:
    """Return the New-Orders and seconds of a log if its TpmC contradicts them, else None."""
    found = log.counted
    return found if log.tpmc and found and found.new_orders and not _near(log.tpmc, found.tpmc) else None


def right_tpmc(case: Case, table: ResultTable, row: ResultRow) -> float | None:
    """Return a row's TpmC, or its log's if the row's was divided by another duration; None if the row has none."""
    tpmc = row.first("tpmc")
    if tpmc is None:
        return None
    both = _over_another_time(case, table, row)
    return both[0].tpmc if both else tpmc.value


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _NEAR * other


def _over_another_time(case: Case, table: ResultTable, row: ResultRow) -> tuple[CountedTransactions, TpccLog] | None:
    """Return a row's counts and log if its TpmC is the counts divided by another duration than the log's; else None."""
    tpmc = row.first("tpmc")
    if tpmc is None or not tpmc.value:
        return None
    found = None
    for log in _logs_of(case, table, row):
        counts = log.counted
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


def _round_time(counts: CountedTransactions, tpmc: Number) -> list[int]:
    """Return [the duration that a TpmC implies, as a multiple of ten seconds]; [] if it may match by chance."""
    near = max(1, round(counts.seconds_behind(tpmc.value) / 10)) * 10
    step = 60 * counts.new_orders * (1 / near - 1 / (near + 10))
    return [near] if step >= _CHANCE * tpmc.last_digit else []


def _logs_of(case: Case, table: ResultTable, row: ResultRow) -> list[TpccLog]:
    """Return the logs of the run that a row names, or, for a table of one row, of the only run with logs."""
    runs = case.runs_of(row)
    if not runs and len(table.rows) == 1 and len(case.runs_by_setting) == 1:
        (runs,) = case.runs_by_setting.values()
    return [log for run in runs for log in run.logs]


def _tpmc_counts_finding(place: Place, tpmc: float, found: CountedTransactions, log: TpccLog) -> AuditFinding:
    behind = found.seconds_behind(tpmc)
    rampup = log.parameters.get("rampup", 0)
    what = (
        f"TpmC {tpmc:.10g} is {found.new_orders:,} New-Orders over {behind:.4g} s;"
        f" the log counts them in {found.seconds} s"
    )
    if rampup and round(behind) == found.seconds + rampup:
        what += f", and the ramp-up of {rampup} s is not counted"
    return AuditFinding(
        place,
        what,
        f"throughput is given {max(found.tpmc / tpmc, tpmc / found.tpmc):.3g} times too "
        f"{'small' if tpmc < found.tpmc else 'large'},"
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


#: The seconds of one interval line of tpcc-mysql, unless its option -i says otherwise.
_INTERVAL_S = 10
_SINGLE_PRECISION = 2.0**-23
_MOST_RUNS = 20
#: The rule applies if more than this share of a table's values are not multiples of the smallest step (the grid): a
#: single such value may be a typing error.
_OFF = 0.5


def tpmc_grid(case: Case) -> Iterator[AuditFinding]:
    """Find values of TpmC that no single run of the stated length can have.

    Counts are whole numbers, so TpmC is on a grid: a multiple of 60 / seconds. Source: tpcc-mysql, src/main.c: (success
    + late) * 60 / (floor(l / i) * i) in single precision, where l is the length and i the interval in seconds.

    Yield one finding for each closing block and each table with values that are off the grid.
    """
    for evidence in case.files:
        for log in evidence.logs:
            # If the log's counts contradict the TpmC, the rule tpmc-counts reports it.
            if log.tpmc is not None and log.tpmc_place is not None and not contradicted(log):
                yield from _judge([(log.tpmc_text, log.tpmc_place)], seconds_of(log, evidence), log.tpmc_place)
        for table in evidence.results:
            shown = [
                (str(number), row.place) for row in table.rows for number in row.each("tpmc") if number.decimals >= 0
            ]
            if shown:
                yield from _judge(shown, counted_seconds(_stated(evidence)), table.place)


def seconds_of(log: TpccLog, evidence: FileEvidence) -> int:
    """Return the duration of a log's TpmC, in seconds: the closing block's, else that of the whole intervals."""
    return log.measured_s or counted_seconds(log.parameters.get("measure") or _stated(evidence), log.spacing_s)


def _stated(evidence: FileEvidence) -> float | None:
    return evidence.stated.runtime_s


def counted_seconds(seconds: float | None, interval_s: int | None = None) -> int:
    """Return the duration by which tpcc-mysql divides in a run of `seconds` seconds: the whole intervals in it.

    >>> counted_seconds(1205), counted_seconds(1205, 1)
    (1200, 1205)
    """
    interval = interval_s if interval_s is not None and interval_s <= _INTERVAL_S else _INTERVAL_S
    return int((seconds or 0) // interval * interval)


def _judge(shown: list[tuple[str, Place]], whole: int, place: Place) -> Iterator[AuditFinding]:
    if not whole:
        return
    # A number whose last digit is coarser than the grid fits any length, so do not judge it.
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
    yield AuditFinding(
        place,
        f"TpmC {', '.join(off)}: one run of {whole} s gives multiples of {step:g} only ({len(off)} of"
        f" {len(told)} are none)",
        "these are means of several runs, or of runs of another length: neither their number nor their scatter is said",
        f"{fits}; one run would give {nearest} instead of the first",
        {"off_grid": [float(text) for text in off], "step": step, "seconds": whole, "runs_that_fit": runs},
    )


def _fits(text: str, value: Decimal, seconds: int) -> bool:
    """Return whether some whole number of New-Orders in these seconds gives a TpmC that prints as this text."""
    tolerance = _digit(text) / 2 + abs(float(value)) * _SINGLE_PRECISION + 1e-9
    step = 60 / seconds
    return abs(float(value) - round(float(value) / step) * step) <= tolerance


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def _digit(text: str) -> float:
    return float(10 ** -_decimals(text))


def payment_quoted(case: Case) -> Iterator[AuditFinding]:
    """Find lists of throughputs that are not New-Order's, but repeat Payment's counts from the interval lines.

    Yield one finding for each row of a table that repeats Payment's counts.
    """
    logs = _Logs(case)
    for evidence in case.files:
        for table in evidence.tables:
            if "payment" in " ".join(table.header).lower():
                continue
            for row in table.rows:
                yield from _of_row(logs, table, row)


def _of_row(logs: _Logs, table: TextTable, row: TableRow) -> Iterator[AuditFinding]:
    quoted = [(at, int(cell)) for at, cell in enumerate(row.cells) if at and _COUNT.fullmatch(cell)]
    if len(quoted) < _ENOUGH or "payment" in row.cells[0].lower():
        return
    numbers = [number for _, number in quoted]
    for intervals in logs.quoted(_header_times(table, [at for at, _ in quoted]), numbers):
        payments, new_orders = ([interval.counts[kind] for interval in intervals] for kind in (1, 0))
        if numbers == payments and numbers != new_orders:
            yield _payment_finding(table, row, numbers, new_orders, intervals)
            return


def _header_times(table: TextTable, columns: list[int]) -> list[int] | None:
    """Return the times in a table's header, or None if a column has none."""
    found = [_TIME.fullmatch(table.header[at].split(" ")[-1]) if at < len(table.header) else None for at in columns]
    return [int(time[1]) for time in found if time] if all(found) else None


class _Logs:
    """An index of a case's logs by their lines' Payments, so that a row need not be compared with every log."""

    def __init__(self, case: Case) -> None:
        self._first: dict[int, list[dict[int, Interval]]] = {}
        self._at: dict[tuple[int, int], list[dict[int, Interval]]] = {}
        seen: set[tuple[tuple[int, ...], ...]] = set()
        for run in case.runs:
            for log in run.logs:
                lines = {interval.elapsed_s: interval for interval in log.intervals}
                same = tuple((interval.elapsed_s, *interval.counts) for interval in log.intervals)
                if same in seen or not lines:
                    continue
                seen.add(same)
                self._first.setdefault(log.intervals[0].counts[1], []).append(lines)
                for at, interval in lines.items():
                    self._at.setdefault((at, interval.counts[1]), []).append(lines)

    def quoted(self, times: list[int] | None, payments: list[int]) -> Iterator[list[Interval]]:
        """Yield the interval lines that a row may quote: those at the header's times, or all of a log in order."""
        if times is not None:
            for lines in self._at.get((times[0], payments[0]), ()):
                if all(at in lines for at in times):
                    yield [lines[at] for at in times]
        else:
            for lines in self._first.get(payments[0], ()):
                if len(lines) == len(payments):
                    yield list(lines.values())


def _payment_finding(
    table: TextTable, row: TableRow, quoted: list[int], new_orders: list[int], intervals: list[Interval]
) -> AuditFinding:
    name = " ".join(cell for cell in row.cells if cell and not _COUNT.fullmatch(cell))
    wrong = " ".join(map(str, quoted))
    right = " ".join(map(str, new_orders))
    return AuditFinding(
        Place(table.place.file, row.line, name),
        f"the throughputs {wrong} are the Payment counts of the interval lines at"
        f" {', '.join(str(interval.elapsed_s) for interval in intervals)} s, not New-Order's",
        "throughput (TpmC) counts New-Orders; Payments are as many but for chance, so the mistake does not show",
        f"New-Order (the field trx): {right}",
        {"quoted": quoted, "new_orders": new_orders, "at_s": [interval.elapsed_s for interval in intervals]},
    )


def _has_counts(case: Case) -> bool:
    if any(log.tpmc and log.counted for log in case.logs()):
        return True
    return any(log.counted for log in case.logs()) and any("tpmc" in table.roles for table in case.tables())


def _has_grid(case: Case) -> bool:
    return any(
        any(log.tpmc is not None and seconds_of(log, one) for log in one.logs)
        or (one.stated.runtime_s and any("tpmc" in table.roles for table in one.results))
        for one in case.files
    )


JUDGES: Judges = {
    "tpmc-counts": _has_counts,
    "tpmc-grid": _has_grid,
    "payment-quoted": lambda case: any(log.intervals for log in case.logs()) and any(one.tables for one in case.files),
}
