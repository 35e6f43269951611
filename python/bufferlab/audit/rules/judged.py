"""Says of each rule whether a case has something for it to judge: where it has not, nothing found means nothing."""

from __future__ import annotations

from collections.abc import Callable

from bufferlab.audit.case import Case, RunEvidence
from bufferlab.audit.parsers.load_run import LoadRun
from bufferlab.audit.parsers.tables import ResultTable
from bufferlab.audit.parsers.tpcc_mysql import TpccLog
from bufferlab.audit.rules import (
    block_trace,
    completeness,
    iostat,
    per_new_order,
    set_up,
    tables,
    tpcc_log,
    tpmc,
)

_Judges = Callable[[Case], bool]


def is_judged(rule: str, case: Case) -> bool:
    """Return whether the case has something for the rule of this name to judge."""
    return _JUDGES[rule](case)


def _logs(judges: Callable[[TpccLog], object]) -> _Judges:
    return lambda case: any(judges(log) for log in case.logs())


def _loads(judges: Callable[[LoadRun], object]) -> _Judges:
    return lambda case: any(judges(load) for load in case.loads())


def _runs(judges: Callable[[RunEvidence], object]) -> _Judges:
    return lambda case: any(judges(run) for run in case.runs)


def _tables(judges: Callable[[ResultTable], object]) -> _Judges:
    return lambda case: any(judges(table) for table in case.tables())


def _has_totals(load: LoadRun) -> bool:
    has_rate = load.per_s is not None and load.seconds
    by_count = load.transactions is not None and has_rate and not (load.is_asked and load.lost)
    by_sum = load.latency_sum_ms is not None and load.transactions
    by_nopm = load.nopm and (load.tpm or (load.transactions and load.seconds))
    return bool(by_count or by_sum or load.bytes or load.directions or load.queries or by_nopm)


def _is_ordered(case: Case) -> bool:
    """Return whether something stands in an order of time: two lines, two printouts, or events."""
    lines = any(len(log.intervals) > 1 for log in case.logs()) or any(len(load.intervals) > 1 for load in case.loads())
    return lines or any(len(run.timed_dumps) > 1 for run in case.runs) or any(one.clock.events for one in case.traces())


def _has_lines(case: Case) -> bool:
    logs = any(len(log.intervals) >= completeness.ENOUGH_LINES for log in case.logs())
    return logs or any(len(load.intervals) >= completeness.ENOUGH_LINES for load in case.loads())


def _has_tpmc_and_counts(case: Case) -> bool:
    return any(log.tpmc and log.counted for log in case.logs()) or (
        any(log.counted for log in case.logs()) and _tables(lambda table: "tpmc" in table.roles)(case)
    )


def _has_page_size(run: RunEvidence) -> bool:
    return bool(run.page_bytes_said and run.page_bytes_shown)


def _has_throughputs(case: Case) -> bool:
    closed = any(len([log for run in runs for log in run.logs if log.tpmc]) > 1 for runs in case.runs_by_file.values())
    return closed or _tables(lambda table: len(tables.throughputs(table)) > 1 and not {"spread", "n"} & table.roles)(
        case
    )


def _has_grid(case: Case) -> bool:
    in_logs = any(
        log.tpmc is not None and tpmc.seconds_of(log, evidence) for evidence in case.files for log in evidence.logs
    )
    return in_logs or any(
        "tpmc" in table.roles and evidence.stated.runtime_s for evidence in case.files for table in evidence.results
    )


def _has_hit_rates(case: Case) -> bool:
    return any(
        any("hit_permille" in dump.fields for dump in one.dumps) and (len(one.dumps) > 1 or one.logs)
        for one in case.files
    )


_JUDGES: dict[str, _Judges] = {
    "response-limits": _logs(lambda log: log.response),
    "tpmc-counts": _has_tpmc_and_counts,
    "totals-agree": _logs(lambda log: len(tpcc_log.totals(log, 0)) > 1 or ((log.mix or log.response) and log.raw)),
    "above-maximum": _logs(lambda log: log.intervals),
    "latency-order": _loads(lambda load: len(load.latency_ms) + (load.mean_ms is not None) > 1),
    "load-totals": _loads(_has_totals),
    "in-flight": _loads(
        lambda load: load.clients and not load.paced and load.mean_ms is not None and (load.per_s or load.transactions)
    ),
    "clients-lost": _loads(lambda load: load.tool in ("pgbench", "HammerDB")),
    "time-order": _is_ordered,
    "missing-lines": _has_lines,
    "same-file-twice": lambda case: sum(one.measured for one in case.files) > 1,
    "cold-start": lambda case: _logs(tpcc_log.may_be_cold)(case) or _loads(tpcc_log.load_may_be_cold)(case),
    "minute-by-second": lambda case: (
        _tables(lambda table: {"tpmc"} < table.roles)(case)
        and _tables(lambda table: {"reads_per_tx", "writes_per_tx", "reads_per_s", "writes_per_s"} & table.roles)(case)
    ),
    "counters-as-rates": _tables(lambda table: {"reads_per_s", "writes_per_s", "iops"} & table.roles),
    "payment-quoted": lambda case: any(log.intervals for log in case.logs()) and any(one.tables for one in case.files),
    "pool-asked": _runs(lambda run: run.pool_dump and set_up.pool_said(run)),
    "page-size-ran": _runs(_has_page_size),
    "instances-ran": _runs(set_up.has_instances),
    "set-up-said": _runs(lambda run: any(said for _, said, *_ in set_up.parameters(run))),
    "rounded-sizes": lambda case: any(True for one in case.files for _ in set_up.size_lists(one)),
    "shares-of-what": _tables(tables.has_shares),
    "spot-samples": _runs(iostat.sampled_of),
    "boot-average": lambda case: any(len(reports) != 2 for reports in iostat.streams(case)),
    "sectors-as-kib": lambda case: any(True for _ in iostat.by_column(case)),
    "request-sizes": lambda case: any(True for _ in iostat.by_column(case)),
    "busy-above-whole": lambda case: any(
        "%util" in row.columns for one in case.files for report in one.reports for row in report.devices.values()
    ),
    "littles-law": lambda case: any(
        iostat.queue(row) for one in case.files for report in one.reports for row in report.devices.values()
    ),
    "counters-fall": _runs(lambda run: len(run.ordered_dumps) > 1),
    "pages-in-pool": _runs(lambda run: any("database_pages" in dump.fields for dump in run.dumps)),
    "idle-rates": _runs(lambda run: any("reads_per_s" in one.end.fields for one in run.segments())),
    "floored-hit-ratio": _has_hit_rates,
    "gets-per-new-order": _tables(lambda table: sum(per_new_order.gets_of(row) is not None for row in table.rows) > 1),
    "tpmc-grid": _has_grid,
    "single-runs": _has_throughputs,
    "thousands-of-kib": lambda case: any(trace.summaries for trace in case.traces()),
    "off-page-reads": lambda case: any(seen.reads for trace in case.traces() for seen in trace.seen.values()),
    "queued-only": lambda case: any(one.requests.high for one in block_trace.device_counts(case)),
    "unread-lines": lambda case: any(one.traces or one.unread for one in case.files),
}
