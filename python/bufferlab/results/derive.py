"""The formula registry: every derived value of a run, computed from its edge samples and from nothing else.

Pure: it takes samples and returns numbers. Every formula's unit is checked against the registry's when it is added.
This file has the quantities that any engine may have; `handed_in` adds those of the engines. Device columns are
computed as iostat -x does, CPU columns as mpstat does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from bufferlab.results import metrics
from bufferlab.results.formula import quantity
from bufferlab.results.gaps import Gaps
from bufferlab.results.quantity import Quantity, Unit, checked
from bufferlab.results.sampled import Sampled, elapsed
from bufferlab.results.window import MEASURE, PULSE, Value, Window

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


def _gap(name: str, seconds: Callable[[Gaps], float]) -> Quantity:
    """Return the length of a window's gaps, told by the times of its samples."""

    def evaluate(window: Window) -> Value:
        if window.gaps is None:
            return Value(None, "too few samples to tell")
        return Value(seconds(window.gaps))

    return Quantity(Unit.parse("s"), evaluate, name, frozenset({PULSE}))


def _cpu_formulas(subject: str) -> dict[str, Quantity]:
    columns = [counted(f"cpu_{column}_us", subject) for column in metrics.CPU_COLUMNS]
    whole = columns[0]
    for column in columns[1:]:
        whole = whole + column
    return {f"cpu_{name}_share": column / whole for name, column in zip(metrics.CPU_COLUMNS, columns, strict=True)}


#: The quantities that formulas may name besides counters.
_NAMED = {
    "seconds": _SECONDS,
    "transactions": _TRANSACTIONS,
    "new_orders": _NEW_ORDERS,
    "new_orders_committed": _NEW_ORDERS_COMMITTED,
    "new_orders_rolled_back": _NEW_ORDERS_ROLLED_BACK,
    "longest_gap_s": _gap("the longest gap", lambda gaps: gaps.longest_s),
    "gaps_s": _gap("the sum of gaps", lambda gaps: gaps.sum_s),
    "worker_cpu": counted("process_user_us") + counted("process_system_us"),
    "db_reads": counted("pages_read").counted_as("reads") + counted("db_other_reads"),
    "db_writes": counted("pages_written").counted_as("writes"),
    **_cpu_formulas("all"),
}
_WORK: dict[metrics.Work, Quantity] = {"new_order": _NEW_ORDERS, "transaction": _TRANSACTIONS}

FORMULAS: dict[str, Quantity] = {}


def add(declared: Iterable[metrics.Metric], quantities: Mapping[str, Quantity]) -> None:
    """Add the formulas of declared values, which may name `quantities`; UnitMismatchError if one gives another unit."""
    sampled = Sampled(metrics.RAW.values())
    for metric in declared:
        found = quantity(metric.formula or metric.name, {**_NAMED, **quantities}, sampled)
        FORMULAS[metric.name] = checked(metric.name, found / _WORK[metric.work] if metric.work else found, metric.unit)


add((metric for metric in metrics.DERIVED.values() if metric.name not in metrics.OF_LATENCIES), {})


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
