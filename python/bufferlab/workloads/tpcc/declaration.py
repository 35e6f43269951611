"""TPC-C's parameters, transaction types and sizes. Pure data; the transactions are in the core.

Follows the TPC-C specification, revision 5.11, clauses 1.2-1.4 (cardinalities) and 5.2.3 (mix).
"""

from __future__ import annotations

from bufferlab.knob import Knob
from bufferlab.workloads.declaration import Impossible, Parameters, WorkloadDeclaration

# Measured on SQLite files with 4 KiB pages, loaded with 1 and 2 warehouses, indexes included:
# the rows of each warehouse, and the items that all warehouses share.
_BYTES_PER_WAREHOUSE = 73_800_000
_BYTES_OF_ITEMS = 7_400_000
#: The terminals of a warehouse, by clause 4.2.1 of the TPC-C specification.
_TERMINALS = 10


def _estimate_bytes(parameters: Parameters, page_size_bytes: int) -> int:
    """Return the estimated bytes of the loaded database. Pages below 4 KiB waste a larger share of their bytes."""
    waste = 1.15 if page_size_bytes < 4096 else 1.0
    return int(waste * (_BYTES_OF_ITEMS + int(parameters["warehouses"]) * _BYTES_PER_WAREHOUSE))


def _too_many(parameters: Parameters, connections: int) -> Impossible | None:
    """Return the problem if there are more connections than terminals, else None.

    A terminal does one transaction after another.
    """
    warehouses = int(parameters["warehouses"])
    if connections <= _TERMINALS * warehouses:
        return None
    return Impossible(
        f"{connections} connections cannot share {_TERMINALS * warehouses} terminals, {_TERMINALS} a warehouse",
        f"ask for {-(-connections // _TERMINALS)} warehouses or more, or for fewer connections",
    )


_PARAMETERS: tuple[Knob, ...] = (
    Knob.count("warehouses", "scale: about 75 MB of data each", unit="warehouses", default="2", minimum=1,
               maximum=10_000, decides_file=True),
    Knob.count("load_seed", "seed of the loaded data; the same in all runs", default="20260101", maximum=2**53 - 1,
               decides_file=True),
    Knob.choice("skew", ("spec", "tpcc-mysql", "uniform"),
                "which rows are hot: NURand, or what tpcc-mysql and sysbench-tpcc make of it", default="spec"),
)  # fmt: skip

DECLARATION = WorkloadDeclaration(
    name="tpcc",
    version=1,
    meaning="an order-entry company: five transactions over nine tables, skewed, 92 % of them writing",
    words="TPC-C-derived",
    parameters=_PARAMETERS,
    transaction_types=("new_order", "payment", "order_status", "delivery", "stock_level"),
    headline="reads_per_new_order",
    compared=(
        "reads_per_new_order",
        "misses_per_new_order",
        "page_gets_per_new_order",
        "writes_per_new_order",
        "read_bytes_per_new_order",
        "write_bytes_per_new_order",
        "wal_write_bytes_per_new_order",
        "cpu_us_per_transaction",
        "transactions_per_s",
    ),
    estimate_bytes=_estimate_bytes,
    grows_bytes_per_transaction=450.0,
    too_many=_too_many,
    source="Transaction Processing Performance Council: TPC Benchmark C, Standard Specification, revision 5.11, 2010.",
    caveat="TPC-C-derived: no think times, no keying times, not audited; not comparable with published TPC-C results",
)
