"""The formula registry: every derived value of a run, computed from its edge samples and from nothing else.

Pure: it takes samples and returns numbers. Every formula's unit is checked against the registry's when it is added.
This file has the values that any engine may have; `handed_in` adds those of the engines. Device columns are computed as
iostat -x does, CPU columns as mpstat does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bufferlab.results import metrics
from bufferlab.results.quantity import Quantity, check_units
from bufferlab.results.sampled import Sampled, elapsed
from bufferlab.results.window import MEASURE, Value, Window

if TYPE_CHECKING:
    import polars as pl

    from bufferlab.results.store import RunRecord

counted = Sampled(metrics.RAW.values()).counted

_SECONDS = elapsed()
_COMMITTED = counted("transactions_committed")
_ROLLED_BACK = counted("transactions_rolled_back")
_TRANSACTIONS = (_COMMITTED + _ROLLED_BACK).counted_as("transaction")
_NEW_ORDERS_COMMITTED = counted("transactions_committed", "new_order").counted_as("New-Order")
_NEW_ORDERS_ROLLED_BACK = counted("transactions_rolled_back", "new_order").counted_as("New-Order")
#: The 1 % that roll back read pages too, so they count as completed.
_NEW_ORDERS = _NEW_ORDERS_COMMITTED + _NEW_ORDERS_ROLLED_BACK
_WORKER_CPU = counted("process_user_us") + counted("process_system_us")


def _io_formulas() -> dict[str, Quantity]:
    tops = {
        "reads": "pages_read",
        "misses": "demand_misses",
        "page_gets": "page_gets",
        "writes": "pages_written",
        "read_bytes": "db_read_bytes",
        "write_bytes": "db_write_bytes",
        "wal_read_bytes": "wal_read_bytes",
        "wal_write_bytes": "wal_write_bytes",
        "pages_created": "pages_created",
        "device_reads": "device_reads",
        "device_writes": "device_writes",
    }
    formulas = {}
    for name, raw in tops.items():
        formulas[f"{name}_per_new_order"] = counted(raw) / _NEW_ORDERS
        formulas[f"{name}_per_transaction"] = counted(raw) / _TRANSACTIONS
    for name in ("reads", "misses", "writes", "read_bytes", "write_bytes"):
        formulas[f"{name}_per_s"] = counted(tops[name]) / _SECONDS
    return formulas


def _rate_formulas() -> dict[str, Quantity]:
    reads = counted("pages_read").counted_as("reads") + counted("db_other_reads")
    return {
        "hit_ratio": (counted("demand_misses") / counted("page_gets")).complement(),
        "new_orders_per_s": _NEW_ORDERS / _SECONDS,
        "new_orders_committed_per_s": _NEW_ORDERS_COMMITTED / _SECONDS,
        "new_orders_rolled_back_per_s": _NEW_ORDERS_ROLLED_BACK / _SECONDS,
        "transactions_per_s": _COMMITTED / _SECONDS,
        "seconds_per_transaction": _SECONDS / _TRANSACTIONS,
        "transactions_rolled_back_per_s": _ROLLED_BACK / _SECONDS,
        "read_us": counted("db_read_ns") / reads,
        "write_us": counted("db_write_ns") / counted("pages_written").counted_as("writes"),
        "cpu_us_per_transaction": _WORKER_CPU / _TRANSACTIONS,
        "driver_cpu_us_per_transaction": counted("driver_cpu_us") / _TRANSACTIONS,
        "server_cpu_us_per_transaction": (counted("server_user_us") + counted("server_system_us")) / _TRANSACTIONS,
        "measured_seconds": _SECONDS,
        "new_orders": _NEW_ORDERS,
        "transactions": _TRANSACTIONS,
    }


def _row_formulas() -> dict[str, Quantity]:
    rows = counted("rows_returned")
    return {
        "rows_per_s": rows / _SECONDS,
        "rows_per_transaction": rows / _TRANSACTIONS,
        "reads_per_row": counted("pages_read") / rows,
        "read_bytes_per_row": counted("db_read_bytes") / rows,
        "write_bytes_per_row": counted("db_write_bytes") / rows,
        "wal_write_bytes_per_row": counted("wal_write_bytes") / rows,
        "pages_created_per_row": counted("pages_created") / rows,
        "cpu_us_per_row": _WORKER_CPU / rows,
    }


def _arrival_formulas() -> dict[str, Quantity]:
    arrivals = counted("arrivals")
    return {
        "arrivals_per_s": arrivals / _SECONDS,
        "late_share": counted("arrivals_late") / arrivals,
        "dropped_share": counted("arrivals_dropped") / arrivals,
    }


def _device_formulas() -> dict[str, Quantity]:
    formulas = {
        "device_flushes_per_s": counted("device_flushes") / _SECONDS,
        "device_flush_await_ms": counted("device_flush_ms") / counted("device_flushes"),
        "device_queue_length": counted("device_queue_ms") / _SECONDS,
        "device_busy_ratio": counted("device_busy_ms") / _SECONDS,
    }
    for word in ("read", "write", "discard"):
        requests = counted(f"device_{word}s")
        merged = counted(f"device_{word}s_merged")
        formulas |= {
            f"device_{word}s_per_s": requests / _SECONDS,
            f"device_{word}_kib_per_s": counted(f"device_{word}_bytes") / _SECONDS,
            f"device_{word}s_merged_per_s": merged / _SECONDS,
            f"device_{word}s_merged_ratio": merged / (requests + merged),
            f"device_{word}_await_ms": counted(f"device_{word}_ms") / requests,
            f"device_{word}_size_kib": counted(f"device_{word}_bytes") / requests,
        }
    return formulas


def _cpu_formulas(subject: str) -> dict[str, Quantity]:
    columns = [counted(f"cpu_{column}_us", subject) for column in metrics.CPU_COLUMNS]
    whole = columns[0]
    for column in columns[1:]:
        whole = whole + column
    return {f"cpu_{name}_share": column / whole for name, column in zip(metrics.CPU_COLUMNS, columns, strict=True)}


@dataclass(frozen=True)
class Basis:
    """The units that formulas of every engine are told per."""

    seconds: Quantity
    work: Mapping[metrics.Work, Quantity]

    def per_work(self, counts: Mapping[str, Quantity]) -> dict[str, Quantity]:
        """Return each count over each unit of work, under the name of that value."""
        return {
            metrics.per_work(name, work): count / quantity
            for work, quantity in self.work.items()
            for name, count in counts.items()
        }


BASIS = Basis(_SECONDS, {"new_order": _NEW_ORDERS, "transaction": _TRANSACTIONS})

FORMULAS: dict[str, Quantity] = {}


def add(formulas: Mapping[str, Quantity], declared: Iterable[metrics.Metric]) -> None:
    """Add the formulas of declared values, one for each; UnitMismatchError if one gives another unit."""
    FORMULAS.update(check_units(formulas, {metric.name: metric.unit for metric in declared}))


add(
    _io_formulas()
    | _rate_formulas()
    | _row_formulas()
    | _arrival_formulas()
    | _device_formulas()
    | _cpu_formulas("all"),
    metrics.DERIVED.values(),
)


def values_of(samples: pl.DataFrame, phase: str = MEASURE) -> dict[str, Value]:
    """Return every derived value of a run's window (the measured one, or a phase's), or the reason for its absence."""
    window = Window.of(samples, phase)
    return {name: formula.evaluate(window) for name, formula in FORMULAS.items()}


def run_values(record: RunRecord) -> dict[str, Value]:
    """Return every derived value of a published run."""
    return values_of(record.samples())


def run_metrics(record: RunRecord) -> dict[str, float | None]:
    """Return the derived values of a published run as plain numbers; None where there is none."""
    return {name: value.value for name, value in run_values(record).items()}


def cpu_shares(samples: pl.DataFrame) -> dict[str, dict[str, Value]]:
    """Return mpstat's table: core -> column -> share of that core's time."""
    window = Window.of(samples)
    table = {}
    for core in window.subjects("cpu_idle_us"):
        formulas = _cpu_formulas(core)
        table[core] = {column: formulas[f"cpu_{column}_share"].evaluate(window) for column in metrics.CPU_COLUMNS}
    return table
