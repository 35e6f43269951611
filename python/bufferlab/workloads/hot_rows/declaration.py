"""The hot-row workload's parameters and sizes. Pure data; the selects are in the core.

The table is that of sysbench's OLTP scripts (oltp_common.lua). theory/hot_rows.py defines the knee.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from bufferlab.knob import Knob
from bufferlab.units import canonical_number
from bufferlab.workloads.declaration import Impossible, Parameters, PoolAndData, WorkloadDeclaration

_TABLE = "sbtest1"

# The size of an entry in the index on k: a record of k and the row's key, plus a cell pointer, in pages filled by a
# sorted load.
_INDEX_BYTES_PER_ROW = 12

_UPDATES_A_ROW = 3
"""The mean number of updates per row after which only a fraction of e^-3 (5 %) of the rows was never updated."""


def _estimate_bytes(parameters: Parameters, page_size_bytes: int) -> int:
    """Return the estimated bytes of the table and of the index on k."""
    from bufferlab.theory.hot_rows import estimated_tree

    rows = int(parameters["rows"])
    pages = sum(estimated_tree(rows, page_size_bytes)["level_pages"])
    return int(pages * page_size_bytes + rows * _INDEX_BYTES_PER_ROW)


def _estimate_shape(parameters: Parameters, page_size_bytes: int) -> Mapping[str, Any]:
    """Return the table's tree as a load should make it."""
    from bufferlab.theory.hot_rows import estimated_tree

    tree = estimated_tree(int(parameters["rows"]), page_size_bytes)
    return {"page_size_bytes": page_size_bytes, "trees": [{"name": _TABLE, "table": _TABLE, "kind": "table", **tree}]}


def _resolve_share(name: str, ratio: Decimal, parameters: Parameters, at: PoolAndData) -> int | Impossible:
    """Return this share of the knee, which is the number of hot rows whose pages just fill the pool in the analytic
    model."""
    from bufferlab.theory.hot_rows import EDGE_ROWS, Layout, predicted_knee

    rows, layout = int(parameters["rows"]), cast("Layout", parameters["layout"])
    shape = at.shape or _estimate_shape(parameters, at.page_size_bytes)
    tree = {**next(tree for tree in shape["trees"] if tree["name"] == _TABLE), EDGE_ROWS: at.edge_rows}
    knee = predicted_knee(tree, rows, at.frames, layout)
    share = f"{name} = {canonical_number(ratio * 100)}%"
    if knee is None:
        return Impossible(
            f"{share} is a share of no knee: all {rows:,} rows fit into the pool's {at.frames:,} frames",
            "ask for more rows, a smaller pool_size, or a number of hot_rows",
        )
    if knee < 1:
        return Impossible(
            f"{share} is a share of no rows: a pool of {at.frames:,} frames does not hold one row's pages",
            "ask for a larger pool_size, or a number of hot_rows",
        )
    return max(1, int(ratio * knee))


def _settles_after(parameters: Parameters) -> int:
    """Return the number of transactions after which all but 5 % of the hot rows were updated; 0 without updates."""
    hot_rows, percent = int(parameters["hot_rows"]), int(parameters["update_percent"])
    return _UPDATES_A_ROW * hot_rows * 100 // percent if percent else 0


def _impossible(parameters: Parameters) -> Impossible | None:
    hot_rows, rows = int(parameters["hot_rows"]), int(parameters["rows"])
    if hot_rows <= rows:
        return None
    return Impossible(
        f"hot_rows = {hot_rows:,} is more than the table's {rows:,} rows",
        "ask for fewer hot_rows or more rows, or for a smaller pool_size where hot_rows is a share",
    )


_PARAMETERS: tuple[Knob, ...] = (
    Knob.count("rows", "rows of the table: about 200 bytes each", unit="rows", default="400000", minimum=1,
               maximum=100_000_000, decides_file=True),
    Knob.count("load_seed", "seed of the loaded data; the same in all runs", default="20260101", maximum=2**53 - 1,
               decides_file=True),
    Knob.count_or_share("hot_rows", "rows that are read; at 100% of the predicted knee their pages just fill the pool",
                        unit="rows", share_of="the predicted knee", default="100%", minimum=1, maximum=100_000_000),
    Knob.choice("layout", ("scattered", "clustered"),
                "scattered: hot rows anywhere in the table; clustered: neighbours, as if keys were re-assigned",
                default="scattered"),
    Knob.number("zipf", "exponent of Zipf's law over the hot rows' ranks; 0: each is read as often", default="0",
                maximum=3),
    Knob.count("update_percent",
               "of 100 transactions, those that update a row's c (not indexed) in place of reading it", unit="percent",
               default="0", maximum=100),
)  # fmt: skip

DECLARATION = WorkloadDeclaration(
    name="hot_rows",
    version=1,
    meaning="random selects by key from a fixed set of hot rows in sysbench's table",
    words="hot rows",
    parameters=_PARAMETERS,
    transaction_types=("select", "update"),
    headline="reads_per_transaction",
    compared=(
        "reads_per_transaction",
        "misses_per_transaction",
        "page_gets_per_transaction",
        "read_bytes_per_transaction",
        "writes_per_transaction",
        "cpu_us_per_transaction",
        "transactions_per_s",
    ),
    estimate_bytes=_estimate_bytes,
    grows_bytes_per_transaction=0.0,
    caveat="one statement a transaction on one table: what a pool saves here is an upper limit for mixed work",
    relative_cost=0.1,
    estimate_shape=_estimate_shape,
    resolve_share=_resolve_share,
    impossible=_impossible,
    settles_after=_settles_after,
)
