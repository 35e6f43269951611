"""The plan of a sweep as `run --dry-run` prints it: as plan.json holds it."""

from __future__ import annotations

from typing import Any

from support.json_documents.base import Document


class PlannedPoint(Document):
    index: int
    label: str
    point_key: str
    swept: dict[str, str]
    settings: dict[str, dict[str, Any]]
    workload: dict[str, int | float | str]
    load: dict[str, Any]
    database_bytes: int


class PlannedRun(Document):
    order: int
    point: int
    block: int
    repetition: int
    seed: int


class StoredPlan(Document):
    format_version: int
    experiment: str
    engine: str
    database_bytes: int
    reference_page_size_bytes: int | None
    """Null: percentages refer to each point's own database."""
    seed: int
    points: list[PlannedPoint]
    runs: list[PlannedRun]
    """Of all blocks."""
    blocks: list[int] | None = None
    """The blocks to do, from 0, where --blocks chose some."""
