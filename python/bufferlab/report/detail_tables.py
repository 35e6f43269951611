"""Tables of detail: latency, device, CPU, checks, consistency conditions, and every run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bufferlab.chapter import numbers_in_doubt, words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Row, Table
from bufferlab.chapter.point_table import point_table
from bufferlab.report import early_windows, predicted
from bufferlab.results.check_parts import Check
from bufferlab.results.latency import PERCENTILES, LatencyValues, latency_values
from bufferlab.results.metrics import CPU_COLUMNS, Metric, cpu_shares
from bufferlab.results.window import Value, Window
from bufferlab.units import format_bytes, format_count

_DEVICE = (
    "device_reads_per_s",
    "device_read_kib_per_s",
    "device_reads_merged_per_s",
    "device_reads_merged_ratio",
    "device_read_await_ms",
    "device_read_size_kib",
    "device_writes_per_s",
    "device_write_kib_per_s",
    "device_writes_merged_per_s",
    "device_writes_merged_ratio",
    "device_write_await_ms",
    "device_write_size_kib",
    "device_discards_per_s",
    "device_discard_kib_per_s",
    "device_flushes_per_s",
    "device_flush_await_ms",
    "device_queue_length",
    "device_busy_ratio",
)
_OF_CPU = (
    "Means over n runs, without intervals: nothing is claimed of them. Columns as mpstat has them. usr is time in "
    "programs, sys in the kernel; iowait is idle time while the disk worked; steal is what the hypervisor took."
)
_STATUS_WORDS = {"passed": "passed", "failed": "FAILED", "not_applicable": "not applicable"}


def check_table(checks: Sequence[Check]) -> Table:
    """Return the table of all integrity checks with their numbers."""
    marks = {"passed": "passed", "failed": "failed", "not_applicable": "quiet"}
    rows = (
        Row((check.title, _STATUS_WORDS[check.status], check.detail), marks[check.status])  # type: ignore[arg-type]
        for check in checks
    )
    return Table.of("checks", "Integrity checks", ("<Check", "<Result", "<Numbers"), rows)


def failed_checks(checks: Sequence[Check]) -> Table | None:
    """Return the table of failed checks, with the numbers that each puts in doubt; None if no check failed."""
    found = numbers_in_doubt.failed(checks)
    rows = (Row((check.title, check.detail, numbers_in_doubt.in_words([check])), "failed") for check in found)
    heads = ("<Check", "<Numbers", "<In doubt")
    return Table.of("failed-checks", "What did not hold", heads, rows) if found else None


def failure_table(analysis: Analysis) -> Table | None:
    """Return the table of the reasons why runs failed or were interrupted, each with its points.

    The result is None if all runs succeeded, and also if all failed for the same reason, which the answer then gives.
    """
    runs_of: dict[str, list[PointRuns]] = {}
    for point in analysis.points:
        for record in point.failures:
            runs_of.setdefault(f"{record.run.status}: {record.reason}", []).append(point)
    rows = tuple(
        Row((reason, str(len(points)), _places(analysis, points)), "failed") for reason, points in runs_of.items()
    )
    if not analysis.runs and len(rows) == 1:
        return None
    heads = ("<Reason", "Runs", "<At")
    return Table.of("failures", "Why runs did not end well", heads, rows, brief=True) if rows else None


def _places(analysis: Analysis, points: Sequence[PointRuns]) -> str:
    """Return the names of these points in words, each once; "every point" if they are all points of the sweep."""
    names = list(dict.fromkeys(analysis.name_of(point) for point in points))
    return "every point" if 1 < len(names) == len(analysis.points) else words.listing(names)


def latency_table(analysis: Analysis) -> Table | None:
    """Return the table of service, queue and response times by point and transaction type; None if there are none."""
    rows = []
    for point in analysis.points:
        frames = [record.latency() for record in point.records if record.ok]
        label = analysis.name_of(point)
        rows += [(label, *_latency_cells(values)) for values in latency_values(frames)]
    if not rows:
        return None
    shown = (f"p{100 * share:g} (ms)" for share in PERCENTILES)
    heads = ("<Point", "<Transaction", "<Time", "n", "mean (ms)", *shown, "max (ms)")
    caption = (
        "All runs of a point together. Service: from the first statement to the commit. Queue: from when it was meant "
        "to start until the connection took it. Response: both together, told where transactions arrive at a rate of "
        "their own; in a closed loop a slow system is asked less often."
    )
    return Table.of("latency", "Latency by transaction type", heads, rows, caption, folded=True)


def _latency_cells(values: LatencyValues) -> tuple[str, ...]:
    times_us = (values.mean_us, *values.percentiles_us.values(), values.max_us)
    name = values.transaction_type.replace("_", "-")
    return name, values.time, format_count(values.n), *(words.number(time_us / 1000) for time_us in times_us)


def device_table(analysis: Analysis) -> Table:
    """Return the table with the columns of iostat -x for the measured windows, as means over the runs of a point."""
    heads = {words.with_column(metric): partial(_plain_mean, metric) for metric in map(analysis.metric, _DEVICE)}
    reasons = {run.values["device_reads_per_s"].reason for run in analysis.runs} - {None}
    caption = "The whole disk that holds the data. Means over n runs, without intervals: nothing is claimed of them. "
    caption += "Names in parentheses are those of iostat -x."
    caption += "".join(f" Missing: {reason}." for reason in sorted(str(reason) for reason in reasons))
    caption += numbers_in_doubt.caption(analysis.checks, map(analysis.metric, _DEVICE))
    return point_table(analysis, "device", "Device", heads, caption, folded=True)


def _plain_mean(metric: Metric, point: PointRuns) -> str:
    return _mean_cell(metric, [value for _, _, value in point.values(metric.name)])


def _mean_cell(metric: Metric, values: Sequence[float]) -> str:
    return words.cell(metric, sum(values) / len(values) if values else None)


def cpu_table(analysis: Analysis) -> Table:
    """Return the table with the columns of mpstat for the measured windows, as means over the runs of a point."""
    rows = []
    for point in analysis.points:
        totals: dict[str, dict[str, list[float]]] = {}
        for run in point.ok:
            for core, columns in shares_of_cores(run.window).items():
                for column, figure in columns.items():
                    if figure.value is not None:
                        totals.setdefault(core, {}).setdefault(column, []).append(figure.value)
        for core, shares in sorted(totals.items()):
            cells = (_mean_cell(analysis.metric(f"cpu_{name}_share"), shares.get(name, [])) for name in CPU_COLUMNS)
            rows.append((analysis.name_of(point), str(len(point.ok)), core, *cells))
    heads = ("<Point", "n", "<CPU", *(f"%{column}" for column in CPU_COLUMNS))
    return Table.of("cpu", "CPU", heads, rows, _OF_CPU, folded=True)


def shares_of_cores(window: Window) -> dict[str, dict[str, Value]]:
    """Return the numbers of mpstat in a window: core -> column -> share of that core's time."""
    return {
        core: {column: share.evaluate(window) for column, share in cpu_shares(core).items()}
        for core in window.subjects("cpu_idle_us")
    }


def consistency_table(analysis: Analysis) -> Table | None:
    """Return the table of the workload's consistency conditions over all runs; None if none was checked."""
    held: dict[tuple[int, str], list[tuple[bool, int]]] = {}
    for run in analysis.runs:
        for row in run.run.consistency.conditions if run.run.consistency else ():
            held.setdefault((row.condition, row.name), []).append((row.passed, row.violations))
    if not held:
        return None
    rows = []
    for (number, name), outcomes in sorted(held.items()):
        passed = sum(ok for ok, _ in outcomes)
        violations = sum(count for _, count in outcomes)
        mark = "passed" if passed == len(outcomes) else "failed"
        rows.append(Row((str(number), name, f"{passed} of {len(outcomes)}", format_count(violations)), mark))  # type: ignore[arg-type]
    heads = ("Condition", "<What must hold", "Held in runs", "Violations")
    return Table.of("consistency", "Consistency of the data after each run", heads, rows, folded=True)


def run_table(analysis: Analysis) -> Table:
    """Return the table of all runs in the order in which they ran, with status, warm-up and measured window."""
    records = {record.run_id: record for point in analysis.points for record in point.records}
    values = {run.run.run_id: run.values for run in analysis.runs}
    told = {record.run_id for point in analysis.points for record in point.failures}
    rows = []
    for record in sorted(records.values(), key=lambda record: (record.run.started_at, record.run.order)):
        run = record.run
        warm_up, measured, base = run.warm_up, run.measured, run.database
        grown = base.bytes_end - base.bytes_start if base and base.bytes_end and base.bytes_start else None
        reads = values[record.run_id][analysis.headline].value if record.ok else None
        cells = (
            str(run.order + 1),
            run.point.label,
            str(run.block + 1),
            str(run.seed),
            # The table of failures already has the reasons of failed runs that were not repeated.
            run.status + (f": {record.reason}" if record.reason and record.run_id not in told else ""),
            warm_up.gate.replace("_", " ") if warm_up else words.NOTHING,
            # A predicted run has no times.
            words.number(warm_up.seconds if warm_up and not run.prediction else None),
            words.number(measured.seconds if measured and not run.prediction else None),
            format_count(measured.transactions) if measured else words.NOTHING,
            words.number(reads),
            format_bytes(grown) if grown is not None else words.NOTHING,
            run.started_at,
            record.run_id,
        )
        rows.append(Row(cells, "" if record.ok else "failed"))
    headline = analysis.metric(analysis.headline)
    short = words.with_unit(words.heading(headline), headline)
    heads = (
        "Order", "<Point", "Block", "Seed", "<Status", "<Warm-up ended by", "Warm-up (s)", "Measured (s)",
        "Transactions", short, "Database grew by", "<Started", "<Run",
    )  # fmt: skip
    caption = "Blocks are repetitions; all points of a block share its seed, and their order within it is random."
    caption += f" {short}: {words.lowered(headline.label)}."
    if lasted := sorted(
        run.run.warm_up.transactions for run in analysis.runs if run.run.warm_up and not run.run.prediction
    ):
        ends = " to ".join(dict.fromkeys(map(format_count, (lasted[0], lasted[-1]))))
        caption += f" Warm-ups lasted {ends} transactions."
    if settle := max(map(early_windows.settle_transactions, analysis.runs), default=0):
        caption += (
            f" Updates move most of the rows that they favour within {settle:,} transactions of the warm-up at most."
        )
    title = "Every predicted run" if predicted.said(analysis) else "Every run"
    return Table.of("runs", title, heads, rows, caption, folded=True)


def disturbance_table(analysis: Analysis) -> Table | None:
    """Return the table of gaps in each run's window, and of the share of time that threads waited for a processor.

    The result is None without such values.
    """
    shown = [analysis.metric(name) for name in ("longest_gap_s", "gaps_s", "processor_wait_share")]
    rows = [
        (run.label, *(words.cell(one, run.values[one.name].value) for one in shown))
        for run in analysis.runs
        if any(run.values[one.name].value is not None for one in shown)
    ]
    if not rows:
        return None
    heads = ("<Run", *(one.label if one.is_share else words.axis_title(one) for one in shown))
    caption = (
        "A gap is how much further than the interval two samples lie apart, from 1.5 intervals on, or how late the "
        "worker's pulse was."
    )
    return Table.of("disturbances", "What disturbed every run", heads, rows, caption, folded=True)
