"""The outcome of a consistency check, as run.json stores it and as a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STORED = ("condition", "name", "passed", "violations")


def stored_conditions(result: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds and one row per condition; the examples go into the reason, not into the table."""
    rows = [{name: row[name] for name in _STORED} for row in result["conditions"]]
    return {"seconds": result["seconds"], "conditions": rows}


def violations(result: Mapping[str, Any]) -> str | None:
    """Every violated condition with its first example; None when all hold."""
    broken = [row for row in result["conditions"] if not row["passed"]]
    return "; ".join(_sentence(row) for row in broken) or None


def _sentence(row: Mapping[str, Any]) -> str:
    example = row.get("example") or {}
    first = ", such as " + ", ".join(f"{column} {value}" for column, value in example.items()) if example else ""
    return f"condition {row['condition']} ({row['name']}) is violated {row['violations']:,} times{first}"
