"""Rules about tables of results: shares that do not add up, and a best value that is derived from single runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import mean, median, stdev, variance

from bufferlab.audit.evidence import AuditFinding, Case, Judges, RunEvidence
from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.tables import Number, ResultRow, ResultTable
from bufferlab.stats.estimate import quantile_of_t
from bufferlab.units import format_percent

PATHS = ("free_list", "lru_scan", "single_page")
_WORDS = {"free_list": "free list", "lru_scan": "LRU scan", "single_page": "single page"}
#: Rounded percentages may add up to 100 plus or minus this many percentage points.
_ROUNDING_PERCENT = 0.5


def shares_of_what(case: Case) -> Iterator[AuditFinding]:
    """Find shares that do not add up: percentages of different wholes, and counts that contain each other.

    The tables count the blocks that InnoDB allocated by path: from the free list (F), after an LRU scan (L), and after
    a single-page flush (P). `buf_LRU_get_free_block()` (storage/innobase/buf/buf0lru.cc) loops after a successful scan
    or flush, and then takes the block from the free list. So a counter of the free list counts every allocation: F
    includes L and P.

    Yield one finding for each table of paths whose shares do not add up to 100 %.
    """
    for table in case.tables():
        if not adds_up(table):
            rows, sums = _rows(table)
            yield _shares_finding(table, rows, sums)


def adds_up(table: ResultTable) -> bool:
    """Return whether the shares of each row add up to 100 %; True if no row has both counts and shares."""
    rows, sums = _rows(table)
    return all(abs(found - 100) <= _rounding_percent(row) for (row, _), found in zip(rows, sums, strict=True))


def has_shares(table: ResultTable) -> bool:
    """Return whether a row of the table has counts and shares of at least two paths."""
    return bool(_rows(table)[0])


def _rounding_percent(row: ResultRow) -> float:
    """Return by how many percentage points rounding may change the sum of a row's shares."""
    shares = [number for path in PATHS for number in row.values.get(path, ()) if number.percent]
    return max(_ROUNDING_PERCENT, sum(share.last_digit for share in shares) / 2)


_Row = tuple[ResultRow, dict[str, tuple[float, float]]]


def _rows(table: ResultTable) -> tuple[list[_Row], list[float]]:
    """Return the rows with counts and shares of at least two paths, and the sum of each row's shares in per cent."""
    rows = [(row, both) for row in table.rows if (both := _counts_and_shares(row)) and len(both) > 1]
    return rows, [sum(share for _, share in both.values()) for _, both in rows]


def exclusive(row: ResultRow) -> tuple[float, float, float] | None:
    """Return the shares of all allocations by path, (F - L - P, L, P) / F; None if a count is missing, or L + P > F."""
    counts = [_count(row.values.get(path, ())) for path in PATHS]
    f, lru, single = counts
    if f is None or lru is None or single is None or not f.value or lru.value + single.value > f.value:
        return None
    return (f.value - lru.value - single.value) / f.value, lru.value / f.value, single.value / f.value


def _count(numbers: tuple[Number, ...]) -> Number | None:
    return next((number for number in numbers if not number.percent), None)


def _counts_and_shares(row: ResultRow) -> dict[str, tuple[float, float]]:
    """Return (count, share in per cent) of each path that has both."""
    found = {}
    for path in PATHS:
        numbers = row.values.get(path, ())
        count, share = _count(numbers), next((number for number in numbers if number.percent), None)
        if count is not None and share is not None:
            found[path] = (count.value, share.value)
    return found


def _wholes(rows: list[_Row]) -> dict[str, float]:
    """Return path -> the count that its shares take for 100 %, divided by the sum of all paths' counts.

    The result is the median over the rows.
    """
    ratios: dict[str, list[float]] = {}
    for _, both in rows:
        total = sum(count for count, _ in both.values())
        for path, (count, share) in both.items():
            # The count that stands for 100 % is only as precise as the share, which has few digits. So leave out small
            # shares and counts of zero.
            if share >= 1 and min(count, total) > 0:
                ratios.setdefault(path, []).append(100 * count / share / total)
    return {path: median(found) for path, found in ratios.items()}


def _shares_finding(table: ResultTable, rows: list[_Row], sums: list[float]) -> AuditFinding:
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
    return AuditFinding(
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


#: The scatter assumed for runs without interval lines. The lines of one run scatter by 4 to 12 % on ordinary machines,
#: and runs differ by more than the means of their lines would.
USUAL_SCATTER = 0.05
_ENOUGH_INTERVALS = 3


@dataclass(frozen=True)
class Throughputs:
    """The throughputs of one setting, one value for each run."""

    name: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean throughput of the runs."""
        return mean(self.values)


def single_runs(case: Case) -> Iterator[AuditFinding]:
    """Find best settings whose advantage over other settings is within the scatter of runs.

    The scatter is that of the runs' interval lines; without lines it is USUAL_SCATTER. Settings that each have several
    runs are compared by Welch's test.

    Yield one finding for each file of runs and each table whose best setting is not resolved from another one.
    """
    for runs in case.runs_by_file.values():
        closed = [(run, log.tpmc) for run in runs for log in run.logs if log.tpmc]
        settings = _grouped([(run.name, tpmc) for run, tpmc in closed])
        place = next((log.tpmc_place for run in runs for log in run.logs if log.tpmc_place), None)
        if place:
            yield from _best(settings, place, scatter_of([run for run, _ in closed]), "tpmc")
    for table in case.tables():
        # A table with a column of spreads or of numbers of runs shows its scatter, so it is not judged.
        if not {"spread", "n"} & table.roles:
            yield from _best(_grouped(throughputs(table)), table.place, None, throughput_role(table))


def scatter_of(runs: list[RunEvidence]) -> float | None:
    """Return the largest relative standard deviation of New-Orders per interval line among the logs of these runs.

    The result is None if no log has three lines.
    """
    series = [[interval.counts[0] for interval in log.intervals] for run in runs for log in run.logs]
    known = [stdev(counts) / mean(counts) for counts in series if len(counts) >= _ENOUGH_INTERVALS and mean(counts)]
    return max(known, default=None)


def throughputs(table: ResultTable) -> list[tuple[str, float]]:
    """Return (setting, throughput) of each run in a table: the TpmC, or else the transactions per second."""
    role = throughput_role(table)
    return [(row.setting, number.value) for row in table.rows for number in row.each(role)]


def throughput_role(table: ResultTable) -> str:
    """Return the role of the table's throughput column: "tpmc", or else "tps"."""
    return "tpmc" if "tpmc" in table.roles else "tps"


def _grouped(rows: list[tuple[str, float]]) -> list[Throughputs]:
    found: dict[str, list[float]] = {}
    for name, tpmc in rows:
        found.setdefault(name, []).append(tpmc)
    return [Throughputs(name, tuple(values)) for name, values in found.items()]


_NAMES = {"tpmc": "TpmC", "tps": "tps"}


def _best(settings: list[Throughputs], place: Place, scatter: float | None, role: str) -> Iterator[AuditFinding]:
    if len(settings) < 2:
        return
    best = max(settings, key=lambda setting: setting.mean)
    if not best.mean:
        return
    near = [other for other in settings if other is not best and _alike(best, other, scatter)]
    if not near:
        return
    runs = max(len(setting.values) for setting in (best, *near))
    kind = "one run each" if runs == 1 else f"{min(len(s.values) for s in (best, *near))} to {runs} runs each"
    known = (
        f"interval lines scatter by {format_percent(scatter)}"
        if scatter
        else (f"no scatter is given; interval lines alone usually scatter by {format_percent(USUAL_SCATTER)} or more")
    )
    alike = ", ".join(setting.name for setting in settings if setting is best or setting in near)
    listed = ", ".join(f"{other.name} {100 * (other.mean / best.mean - 1):+.1f} %".replace("-", "−") for other in near)
    yield AuditFinding(
        place,
        f"{best.name} has the highest {_NAMES[role]}, {best.mean:.10g} from {kind}; as near as runs scatter: {listed}"
        f" ({known})",
        f"that {best.name} is best, or that a value came out wrong, is not shown",
        f"not distinguishable: {alike}; repeat each setting 5 times in random order",
        {
            "best": best.name,
            f"best_{role}": best.mean,
            "near": {other.name: other.mean / best.mean - 1 for other in near},
            "scatter": scatter,
            "runs": runs,
        },
    )


def _alike(best: Throughputs, other: Throughputs, scatter: float | None) -> bool:
    """Return whether two settings do not differ: by Welch's test if both were repeated, else by the scatter."""
    if len(best.values) > 1 and len(other.values) > 1:
        errors = [variance(setting.values) / len(setting.values) for setting in (best, other)]
        if not sum(errors):
            return best.mean == other.mean
        df = sum(errors) ** 2 / sum(
            error**2 / (len(setting.values) - 1) for error, setting in zip(errors, (best, other), strict=True)
        )
        return best.mean - other.mean <= quantile_of_t(0.975, df) * sqrt(sum(errors))
    return 1 - other.mean / best.mean <= (scatter if scatter is not None else USUAL_SCATTER)


def _has_throughputs(case: Case) -> bool:
    if any(len([log for run in runs for log in run.logs if log.tpmc]) > 1 for runs in case.runs_by_file.values()):
        return True
    return any(len(throughputs(table)) > 1 and not {"spread", "n"} & table.roles for table in case.tables())


JUDGES: Judges = {
    "shares-of-what": lambda case: any(map(has_shares, case.tables())),
    "single-runs": _has_throughputs,
}
