"""TPC-C's parameters, transaction types and sizes. Pure data; the transactions are in the core.

Follows the TPC-C specification, revision 5.11, clauses 1.2-1.4 (cardinalities) and 5.2.3 (mix).
"""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.workloads.declaration import Parameter, WorkloadDeclaration

# Measured on SQLite files of 4 KiB pages loaded with 1 and 2 warehouses, indexes included:
# a warehouse's own rows, and the items all share.
_BYTES_PER_WAREHOUSE = 73_800_000
_BYTES_OF_ITEMS = 7_400_000


def _estimate_bytes(parameters: Mapping[str, int], page_size_bytes: int) -> int:
    """Bytes of the loaded database; pages below 4 KiB waste more of themselves."""
    waste = 1.15 if page_size_bytes < 4096 else 1.0
    return int(waste * (_BYTES_OF_ITEMS + parameters["warehouses"] * _BYTES_PER_WAREHOUSE))


DECLARATION = WorkloadDeclaration(
    name="tpcc",
    version=1,
    meaning="an order-entry company: five transactions over nine tables, skewed, 92 % of them writing",
    parameters=(
        Parameter("warehouses", 2, 1, 10_000, "count", "scale: about 75 MB of data each"),
        Parameter("load_seed", 20_260_101, 0, 2**53 - 1, "", "seed of the loaded data; the same in all runs"),
    ),
    transaction_types=("new_order", "payment", "order_status", "delivery", "stock_level"),
    counted_type="new_order",
    counted_share=10 / 23,
    estimate_bytes=_estimate_bytes,
    grows_bytes_per_transaction=450.0,
    caveat="TPC-C-derived: no think times, no keying times, not audited; not comparable with published TPC-C results",
)
