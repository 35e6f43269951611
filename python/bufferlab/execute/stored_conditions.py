"""Puts the outcome of a consistency check into run.json's form, and into a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bufferlab.results.schema import Condition, Consistency


def stored_conditions(result: Mapping[str, Any]) -> Consistency:
    """Return the check's seconds and one row per condition. Examples are left out: `violations` gives them."""
    rows = [Condition(**{name: row[name] for name in Condition.model_fields}) for row in result["conditions"]]
    return Consistency(seconds=result["seconds"], conditions=rows)


def violations(result: Mapping[str, Any]) -> str | None:
    """Return a sentence with every violated condition and its first example; None when all conditions hold."""
    broken = [row for row in result["conditions"] if not row["passed"]]
    return "; ".join(_sentence(row) for row in broken) or None


def _sentence(row: Mapping[str, Any]) -> str:
    example = row.get("example") or {}
    first = ", such as " + ", ".join(f"{column} {value}" for column, value in example.items()) if example else ""
    return f"condition {row['condition']} ({row['name']}) is violated {row['violations']:,} times{first}"
