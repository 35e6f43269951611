"""What `run`, `merge` and `report` print of a sweep, and `run --dry-run` of one that is planned."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from bufferlab.results.page_traces import Verdict
from bufferlab.results.schema import StoredSetting
from support.json_documents.base import Document, Number, Printed, Problem


class Summary(Document):
    metric: str
    value: float
    """The mean of the point's runs."""
    ci_low: Number
    """Null with one run: there is no interval."""
    ci_high: Number
    n: int
    unit: str


class FailedRun(Problem):
    run_id: str
    block: int
    status: str
    kind: str


class GeneratedPoint(Document):
    """What was predicted of a measured point without any run (docs/prediction.md)."""

    metric: str
    mean: Number
    """Over the generated runs; null where reads depend on the speed of the run."""
    ci_low: Number
    ci_high: Number
    n: int
    verdicts: list[Verdict]
    """Why not to believe it."""


class Point(Document):
    label: str
    swept: dict[str, str]
    settings: dict[str, StoredSetting]
    status: Literal["ok", "failed", "skipped", "interrupted"]
    reason: str | None
    failures: list[FailedRun]
    summaries: list[Summary]
    generated: GeneratedPoint | None
    """Null for a sweep that ended without such a prediction."""


class Step(Document):
    from_: str = Field(alias="from")
    to: str
    metric: str
    ratio: float | None = None
    """The second point's value over the first's; a step has either this or `difference`."""
    difference: float | None = None
    ci_low: Number
    ci_high: Number
    n: int
    direction: Literal["falls", "rises", "not_resolved", "identical", "no_interval"]
    verdict: str


class Check(Document):
    name: str
    title: str
    status: Literal["passed", "failed", "not_applicable"]
    detail: str
    touches: list[Literal["reads", "gets", "writes", "times", "device", "inside"]]
    """The numbers that are in doubt where it failed; all others stand."""


class Report(Printed):
    """`run`, `merge` and `report`: numbers unrounded; per cent is in sentences only."""

    sweep: str
    status: Literal["ok", "failed", "interrupted"]
    answer: str
    warnings: list[str]
    points: list[Point]
    steps: list[Step]
    failed_checks: list[str]
    """The names of the checks that failed: with --strict the command then ends with code 1."""
    checks: list[Check]


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


class Plan(Document):
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


class Estimate(Document):
    load_seconds: float
    restore_seconds: float
    warm_up_seconds: float
    measure_seconds: float
    check_seconds: float
    seconds: float
    cache_bytes: int
    data_bytes: int
    results_bytes: int


class ServerFinding(Document):
    name: str
    ok: bool
    detail: str
    hint: str | None
    refuses: Literal["", "usage", "environment"]


class DryRun(Printed):
    """`run --dry-run`."""

    dry_run: Literal[True]
    plan: Plan
    estimate: Estimate
    servers: dict[str, list[ServerFinding]]
    """By URL, what was found at the servers that run already."""
