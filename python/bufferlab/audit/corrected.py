"""Makes corrected tables: rates from counters, I/O per New-Order, shares that add up to one, and actual pool sizes.

The modules of rules are loaded only for tables that need them. Each cell has a number computed from the numbers in the
files, or a dash.
"""

from __future__ import annotations

from statistics import mean
from typing import TYPE_CHECKING

from bufferlab.audit.evidence import TRANSACTIONS_PER_NEW_ORDER, Case, CounterRates, RunEvidence
from bufferlab.audit.parsers.load_run import LoadRun
from bufferlab.audit.parsers.read import FileEvidence
from bufferlab.audit.parsers.stated import parse_lenient_bytes
from bufferlab.audit.parsers.tables import ResultRow, ResultTable
from bufferlab.chapter.elements import Table
from bufferlab.chapter.words import NOTHING
from bufferlab.units import MIB, format_bytes

if TYPE_CHECKING:
    from bufferlab.audit.rules.block_trace import DeviceCounts

_CAPTION = "NO = New-Order; per transaction = of any type; iostat r/s is the mean of the samples given."
_Cells = list[tuple[str, str]]


def corrected_tables(case: Case) -> tuple[Table, ...]:
    """Return every corrected table of this case that has at least one derived number."""
    results = [(evidence, table) for evidence in case.files for table in evidence.results]
    made = [_results(case, evidence, table, place) for place, (evidence, table) in enumerate(results, start=1)]
    return tuple(filter(None, [_runs(case), _loads(case), _traces(case), *made]))


def _runs(case: Case) -> Table | None:
    rows = [(run.name, _run_cells(run)) for run in case.runs if run.rates() is not None]
    return _table("runs", "Runs, from the counters between the first printout and the last", rows) if rows else None


def _run_cells(run: RunEvidence) -> _Cells:
    rates = run.rates()
    assert rates is not None
    new_orders = run.new_orders_per_s_beside(rates)
    spots = [row.reads_per_s for row in run.spots() if row.reads_per_s is not None]
    reads = rates.read_per_s / new_orders if new_orders else None
    written_per_s = rates.per_s("pages_written")
    written = written_per_s / new_orders if new_orders and written_per_s is not None else None
    return [
        ("Pool run", format_bytes(run.pool_bytes) if run.pool_bytes else NOTHING),
        ("NO/s", _number(new_orders, 1)),
        ("Pages read/s", _number(rates.read_per_s, 1)),
        ("Created/s", _number(rates.per_s("pages_created"), 1)),
        ("Written/s", _number(written_per_s, 1)),
        *_gets_cells(rates, new_orders),
        ("iostat r/s", f"{mean(spots):.0f}" if spots else NOTHING),
        ("Reads per NO", _number(reads, 2)),
        ("KiB read per NO", _number(reads * run.page_bytes / 1024 if reads is not None else None, 1)),
        ("Writes per NO", _number(written, 2)),
    ]


def _gets_cells(rates: CounterRates, new_orders: float | None) -> _Cells:
    """Return the cells of page gets and misses, from the server's counters; [] if a printout lacks these."""
    gets, misses = rates.per_s("gets"), rates.per_s("misses")
    if gets is None:
        return []
    return [
        ("Gets/s", _number(gets, 1)),
        ("Misses/s", _number(misses, 1)),
        ("Hit ratio %", _number(100 * (1 - misses / gets) if gets and misses is not None else None, 2)),
        ("Gets per NO", _number(gets / new_orders if new_orders else None, 0)),
    ]


def _loads(case: Case) -> Table | None:
    rows = [(load.title, _load_cells(load)) for load in case.loads() if _has_rate(load)]
    return _table("load-runs", "Load generators, by count and time", rows) if rows else None


def _has_rate(load: LoadRun) -> bool:
    return bool((load.transactions and load.counted_s) or (load.lacks_report and load.lines_per_s is not None))


def _load_cells(load: LoadRun) -> _Cells:
    if load.lacks_report:
        return [
            ("Clients", f"{load.clients:,}" if load.clients else NOTHING),
            ("Seconds", f"{_number(load.intervals[-1].end_s, 1)}, by lines"),
            ("Counted", NOTHING),
            ("Per second", _number(load.lines_per_s, 2)),
            ("Mean ms", NOTHING),
            ("In flight", NOTHING),
        ]
    assert load.transactions is not None
    assert load.counted_s is not None
    counted_s, per_s, mean_ms = load.counted_s, load.transactions / load.counted_s, load.fine_mean_ms
    if load.is_asked and load.per_s:
        per_s = load.per_s
        # If clients abort, a run ends before the requested time.
        counted_s = load.transactions / per_s if load.lost else counted_s
    short = mean_ms is not None and 0 < mean_ms < 0.01
    return [
        ("Clients", f"{load.clients:,}" if load.clients else NOTHING),
        ("Seconds", _number(counted_s, 1) if counted_s >= 0.1 else f"{counted_s:.2g}"),
        ("Counted", f"{load.transactions:,}"),
        ("Per second", _number(per_s, 2)),
        ("Mean ms", f"{mean_ms:.2g}" if short else _number(mean_ms, 3)),
        ("In flight", _number(per_s * mean_ms / 1000 if mean_ms is not None else None, 2)),
    ]


def _traces(case: Case) -> Table | None:
    if not any(case.traces()):
        return None
    from bufferlab.audit.rules.block_trace import device_counts

    rows = [(counts.name, _trace_cells(counts)) for counts in device_counts(case)]
    return _table("block-traces", "Block traces, as counted", rows) if rows else None


def _trace_cells(counts: DeviceCounts) -> _Cells:
    operations = counts.trace.operations
    return [
        ("Operations", f"{operations:,}" if operations else NOTHING),
        ("Requests", str(counts.requests)),
        ("Requests per operation", _span(counts.per_operation(counts.requests), 3)),
        ("Bytes", format_bytes(counts.bytes.low)),
        ("KiB per request", _span(counts.request_bytes, 2, 1024)),
        ("KiB per operation", _span(counts.per_operation(counts.bytes), 2, 1024)),
        ("Amplification", _span(counts.amplification, 3)),
        ("Splits", str(counts.splits) if counts.splits is not None else NOTHING),
        ("Remaps", f"{counts.remaps:,}" if counts.remaps is not None else NOTHING),
        ("Merges", str(counts.merges)),
        ("Completed", str(counts.completed)),
        ("Unplugs", f"{counts.unplugs:,}" if counts.unplugs is not None else NOTHING),
    ]


def _span(bounds: tuple[float, float] | None, decimals: int, unit: float = 1) -> str:
    from bufferlab.audit.rules.block_trace import span

    return span(bounds, decimals, unit) if bounds else NOTHING


def _results(case: Case, evidence: FileEvidence, table: ResultTable, place: int) -> Table | None:
    from bufferlab.audit.rules.results_tables import adds_up

    nested = not adds_up(table)
    rows = [
        (row.setting, [*_throughput_cells(case, evidence, table, row), *(_share_cells(row) if nested else [])])
        for row in table.rows
    ]
    if not any(cells for _, cells in rows):
        return None
    title = f"{table.setting_name or 'Table'}, from {table.place}"
    pools = [cell for _, cells in rows for head, cell in cells if head == "Pool run"]
    return _table(f"results-{place}", title, rows, _of_pools(evidence, pools))


def _of_pools(evidence: FileEvidence, pools: list[str]) -> str:
    """Return the part of the caption on the column of pools, which says whether the server's version is known."""
    if not pools:
        return ""
    how = "the server rounds it" if evidence.stated.version else "MySQL 5.7 and 8.0 round it: no version is named"
    count = next((count for pool in pools if (count := pool.partition(" x")[2])), "")
    return f" Pool run = the pool asked for, as {how}" + (f"; x{count} = in {count} instances." if count else ".")


def _throughput_cells(case: Case, evidence: FileEvidence, table: ResultTable, row: ResultRow) -> _Cells:
    from bufferlab.audit.rules.per_new_order import gets_of
    from bufferlab.audit.rules.tpmc import right_tpmc

    tpmc = right_tpmc(case, table, row)
    if not tpmc or not {"reads_per_s", "writes_per_s"} & row.values.keys():
        return []
    cells: _Cells = []
    if pool := _pool(evidence, table, row):
        cells.append(("Pool run", pool))
    cells.append(("NO/s", _number(tpmc / 60, 1)))
    for name, role in (("Reads", "reads_per_s"), ("Writes", "writes_per_s")):
        if rate := row.first(role):
            per = 60 * rate.value / tpmc
            cells.append((f"{name} per NO", _number(per, 2)))
            cells.append((f"{name} per transaction", _number(per / TRANSACTIONS_PER_NEW_ORDER, 2)))
    if gets := gets_of(row):
        cells.append(("Implied gets per NO", _number(gets.value, 0)))
    return cells


def _share_cells(row: ResultRow) -> _Cells:
    from bufferlab.audit.rules.results_tables import exclusive

    shares = exclusive(row)
    names = ("Free list", "LRU scan", "Single page")
    return [(f"{name}, exclusive %", f"{100 * share:.2f}") for name, share in zip(names, shares or (), strict=False)]


def _pool(evidence: FileEvidence, table: ResultTable, row: ResultRow) -> str | None:
    """Return the pool size that a row's server used, if the row is named by a size that a server with chunks rounds
    up."""
    from bufferlab.audit.rules.set_up import named_by_pools, sizes_run

    size = parse_lenient_bytes(row.setting)
    if not size or size < 5 * MIB or not named_by_pools(evidence, table):
        return None
    (ran,) = sizes_run((size,), None, evidence.stated)
    return format_bytes(ran.run_bytes) + (f" x{ran.instances}" if ran.instances > 1 else "")


def _table(name: str, title: str, rows: list[tuple[str, _Cells]], more: str = "") -> Table:
    heads = list(dict.fromkeys(head for _, cells in rows for head, _ in cells))
    told = ((setting, *(dict(cells).get(head, NOTHING) for head in heads)) for setting, cells in rows)
    return Table.of(f"corrected-{name}", title, ("<Setting", *heads), told, _CAPTION + more, brief=True)


def _number(value: float | None, decimals: int) -> str:
    return NOTHING if value is None else f"{value:,.{decimals}f}"
