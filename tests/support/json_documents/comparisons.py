"""What `compare` prints of two sweeps, and `history` of many."""

from __future__ import annotations

from typing import Literal

from support.json_documents.base import Document, Number, Printed, Problem


class ComparedSide(Document):
    name: str
    sweep: str
    experiment: str


class ComparedFigure(Document):
    metric: str
    unit: str
    outcome: Literal["different", "same", "not_distinguishable", "not_claimed"]
    reason: str | None
    a: Number
    b: Number
    n_a: int
    n_b: int
    contrast: Literal["ratio", "difference"] | None
    value: Number
    ci_low: Number
    ci_high: Number
    level: float
    smallest_detectable: Number


class ComparedPoint(Document):
    settings: dict[str, str]
    a: str
    b: str
    figures: list[ComparedFigure]


class UnmatchedPoint(Document):
    label: str
    settings: dict[str, str]
    runs: int


class RulePoint(Document):
    settings: dict[str, str]
    outcome: Literal["broken", "holds", "undecided"]
    low: Number
    high: Number
    reason: str | None


class Rule(Document):
    rule: str
    metric: str
    limit: float
    outcome: Literal["broken", "holds", "undecided"]
    level: float
    points: list[RulePoint]


class Comparison(Printed):
    """`compare`; docs/compare.md explains the keys."""

    comparison_version: Literal[1]
    status: Literal["ok"]
    answer: str
    headline: str
    method: Literal["paired", "welch"]
    one_sweep: bool
    a: ComparedSide
    b: ComparedSide
    differing_settings: dict[str, dict[Literal["a", "b"], str]]
    warnings: list[str]
    forced: list[Problem]
    limits: list[str]
    rules: list[Rule]
    points: list[ComparedPoint]
    unmatched: dict[Literal["a", "b"], list[UnmatchedPoint]]


class SweepOfHistory(Document):
    sweep: int
    """From 1 on."""
    name: str
    line: str
    """What the file of --order says after the name."""
    folder: str
    began_at: str | None
    runs: int
    failed_runs: int
    failed_checks: list[str]


class SweepApart(Document):
    name: str
    folder: str
    differs: dict[str, dict[Literal["own", "others"], str]]
    """Empty where no run ended well."""


class ChangeOfFigure(Document):
    metric: str
    unit: str
    settings: dict[str, str]
    sweep: int
    earliest: int
    latest: int
    p: float
    before: float
    since: float
    n_before: int
    n_since: int
    contrast: Literal["ratio", "difference"]
    value: float
    ci_low: Number
    ci_high: Number


class ChangeOfHistory(Document):
    sweep: int
    name: str
    earliest: int
    latest: int
    beside: dict[str, dict[Literal["before", "since"], str]]
    figures: list[ChangeOfFigure]


class FigureOfHistory(Document):
    metric: str
    unit: str
    settings: dict[str, str]
    scale: Literal["log", "linear"]
    values: list[Number]
    runs: list[int]
    scatter: Number
    smallest_detectable: Number
    reason: str | None
    """Why nothing is claimed."""


class History(Printed):
    """`history`; docs/history.md explains the keys."""

    history_version: Literal[1]
    status: Literal["ok"]
    answer: str
    headline: str
    order: Literal["dates", "file"]
    false_alarms: float
    too_short: bool
    sweeps: list[SweepOfHistory]
    apart: list[SweepApart]
    changes: list[ChangeOfHistory]
    figures: list[FigureOfHistory]
    rules: list[Rule]
    since: int
    warnings: list[str]
    limits: list[str]
