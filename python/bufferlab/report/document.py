"""The report as data: the content of every format, already in words and numbers, with no markup and no files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bufferlab.chapter.blocks import Banner, Figure, Section, Table
from bufferlab.errors import Failure
from bufferlab.results.integrity import Check
from bufferlab.results.schema import StoredSetting


@dataclass(frozen=True)
class Summary:
    """One number about one point, as summary.parquet and --json hold it."""

    point_index: int
    point_label: str
    point_key: str
    metric: str
    statistic: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    unit: str


@dataclass(frozen=True)
class FailedRun:
    """A run that did not end well, for programs."""

    run_id: str
    block: int
    status: str
    failure: Failure


@dataclass(frozen=True)
class PointResult:
    """A point for programs."""

    index: int
    label: str
    swept: dict[str, str]
    settings: dict[str, StoredSetting]
    status: str
    reason: str | None
    failures: tuple[FailedRun, ...]
    summaries: tuple[Summary, ...]


@dataclass(frozen=True)
class StepResult:
    """A comparison for programs."""

    a: str
    b: str
    metric: str
    contrast: str
    value: float
    ci_low: float | None
    ci_high: float | None
    n: int
    direction: str
    verdict: str


def stamped(report: Report, source: str) -> Report:
    """Return the report with the same source under every figure."""

    def block(one: Table | Figure) -> Table | Figure:
        return replace(one, source=source) if isinstance(one, Figure) else one

    sections = tuple(replace(section, blocks=tuple(map(block, section.blocks))) for section in report.sections)
    headline = replace(report.headline, source=source) if report.headline else None
    return replace(report, headline=headline, sections=sections)


@dataclass(frozen=True)
class Report:
    """The content of a report."""

    title: str
    question: str
    answer: str
    facts: tuple[str, ...]
    banners: tuple[Banner, ...]
    headline: Figure | None
    steps: Table | None
    limits: tuple[str, ...]
    sections: tuple[Section, ...]
    checks: tuple[Check, ...]
    status: str
    lead: str = ""
    """Id of the table that answers the question, where the steps of one metric do not."""
    points: tuple[PointResult, ...] = field(default=(), repr=False)
    comparisons: tuple[StepResult, ...] = field(default=(), repr=False)
