"""The fake engine's version of each workload: its types, a transaction's page gets, the file and its trees.

No number here describes a real database. The misses of hot rows have a knee where their pages fill the pool, so that a
chapter about knees finds one. The formula differs from that of the model with which it is compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

HEADER_BYTES = 4096

_BYTES_PER_WAREHOUSE = 400 * 1024
_BYTES_PER_SCALE = 4 * 1024 * 1024
_SCRIPT_BYTES = 300 * 1024
_ROW_BYTES = 200
_FILL = 0.9
_CHILDREN_BYTES = 12
"""The bytes of one cell of an interior page: a child's number and a key."""

_DECK = {"new_order": 10, "payment": 10, "order_status": 1, "delivery": 1, "stock_level": 1}
_TRANSACTION = re.compile(r"^-- transaction:\s*([a-z0-9_]+)(?:\s+weight=(\d+))?\s*$", re.MULTILINE)
_SETUP = re.compile(r"^-- setup\s*$(.*?)(?=^-- transaction:|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Work:
    """A workload on a pool: its types with their weights, and the cost of one transaction."""

    types: Mapping[str, int]
    gets_per_transaction: int
    misses_per_get: float
    rows_per_transaction: int
    rolls_back: str = ""
    """The type of which one transaction in a hundred is rolled back; "" for none."""


def work_of(workload: Mapping[str, Any], pool_bytes: int, page_bytes: int, database_bytes: int) -> Work:
    """Return the workload of a run job, or of a phase's script, on a pool of `pool_bytes`."""
    absent = max(0.0, 1 - pool_bytes / database_bytes)
    match workload["name"]:
        case "tpcc":
            return Work(_DECK, 60, 0.002 + 0.15 * absent**2, 12, rolls_back="new_order")
        case "hot_rows":
            types = {"select": 100 - workload["update_percent"], "update": workload["update_percent"]}
            return Work(types, 3, _hot_misses(workload, pool_bytes // page_bytes, page_bytes) / 3, 1)
        case "index_scan":
            return Work({"q1": 1}, 4000, 0.05 + 0.5 * absent, 4)
        case "script":
            return Work(script_types(workload["text"]), 10, 0.01 + 0.1 * absent, 5)
        case name:
            raise ValueError(f"the fake engine has no workload {name}")


def drawn_by(workload: Mapping[str, Any], transactions: int) -> dict[str, Any] | None:
    """Return the results of a run other than counts and times; None for most workloads."""
    match workload["name"]:
        case "hot_rows":
            return {"hot_rows": workload["hot_rows"], "distinct_leaf_pages": None}
        case "index_scan":
            plan = workload["plan"]
            text = f"the imaginary plan {plan}"
            return {"plan": plan, "plan_text": text, "rows_in_range": 1000, "answers_checked": transactions}
        case _:
            return None


def script_types(text: str) -> dict[str, int]:
    """Return names and weights of a script's transactions; a transaction without a name is called "script"."""
    return {name: int(weight or 1) for name, weight in _TRANSACTION.findall(text)} or {"script": 1}


def setup_text(text: str) -> str:
    """Return the part of a script that decides the loaded data."""
    return "\n".join(_SETUP.findall(text)).strip()


def file_bytes(workload: Mapping[str, Any]) -> int:
    """Return the bytes of the file that a load job makes: about 1/200 of a real one, as size_factor declares."""
    match workload["name"]:
        case "tpcc":
            return HEADER_BYTES + int(workload["warehouses"]) * _BYTES_PER_WAREHOUSE
        case "hot_rows":
            return HEADER_BYTES + int(workload["rows"])
        case "index_scan":
            return HEADER_BYTES + int(float(workload["scale_factor"]) * _BYTES_PER_SCALE)
        case _:
            data = workload.get("data")
            return file_bytes(data) if data else HEADER_BYTES + _SCRIPT_BYTES


def shape_of(workload: Mapping[str, Any], page_bytes: int) -> dict[str, Any] | None:
    """Return the trees of the imaginary database; None for a script's own tables, because this engine does not parse
    them."""
    match workload["name"]:
        case "tpcc":
            trees = [_tree("order_line", int(workload["warehouses"]) * 300_000, page_bytes)]
        case "hot_rows":
            trees = [_tree("sbtest1", int(workload["rows"]), page_bytes)]
        case "index_scan":
            trees = [_tree("lineitem", int(float(workload["scale_factor"]) * 6_000_000), page_bytes)]
        case _:
            data = workload.get("data")
            return shape_of(data, page_bytes) if data else None
    return {
        "page_size_bytes": page_bytes,
        "pages": 1 + sum(sum(tree["level_pages"]) for tree in trees),
        "free_pages": 0,
        "trees": trees,
    }


def _tree(table: str, rows: int, page_bytes: int) -> dict[str, Any]:
    levels = [_pages(rows, int(page_bytes * _FILL) // _ROW_BYTES)]
    while levels[0] > 1:
        levels.insert(0, _pages(levels[0], page_bytes // _CHILDREN_BYTES))
    return {
        "name": table,
        "table": table,
        "kind": "table",
        "rows": rows,
        "leaf_pages": levels[-1],
        "interior_pages": sum(levels[:-1]),
        "overflow_pages": 0,
        "height": len(levels),
        "level_pages": levels,
        "payload_bytes": rows * _ROW_BYTES,
        "unused_bytes": max(0, levels[-1] * page_bytes - rows * _ROW_BYTES),
    }


def _hot_misses(workload: Mapping[str, Any], frames: int, page_bytes: int) -> float:
    """Return the misses of a select: the share of the hot pages for which there is no frame."""
    hot = workload["hot_rows"]
    rows_per_leaf = max(1, int(page_bytes * _FILL) // _ROW_BYTES)
    leaves = _pages(workload["rows"], rows_per_leaf)
    scattered = leaves * (1 - (1 - 1 / leaves) ** hot)
    wanted = scattered if workload["layout"] == "scattered" else _pages(hot, rows_per_leaf)
    interior = _pages(leaves, page_bytes // _CHILDREN_BYTES) + 1
    return float(max(0.0, 1 - max(0, frames - interior) / wanted))


def _pages(things: int, per_page: int) -> int:
    return -(-things // max(1, per_page))
