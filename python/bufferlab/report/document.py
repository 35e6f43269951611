"""The answer of a command as data that every format shows: words and numbers, without markup and files.

It has a sentence, tables, figures, checks, doubts, and `data` for programs, a dataclass that differs by command.
`as_json` makes the object of --json from it; terminal.py, html.py, markdown.py, csv_files.py and lab/ draw the rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from bufferlab.chapter.elements import Banner, Figure, Section, Table
from bufferlab.errors import Failure
from bufferlab.report.json_output import printed

if TYPE_CHECKING:
    # These imports are only for type checks: at run time they would load pydantic and all metrics, which an answer does
    # not need.
    from bufferlab.chapter.stopping import Reason
    from bufferlab.results.check_parts import Check
    from bufferlab.results.page_traces import Prediction, Verdict
    from bufferlab.results.schema import StoredSetting
    from bufferlab.stats.estimate import Estimate
    from bufferlab.stats.verdict import Direction

Status = Literal["ok", "running", "failed", "interrupted", "lost", "cannot_say"]
"""How a command's work ended.

For a sweep: "running"; "failed" if a run failed; "interrupted" if a point has no run, or a user stopped its runs. For
an observed server: "lost" if the server went away; "cannot_say" if no size of the pool could be judged.
"""


@dataclass(frozen=True)
class Summary:
    """One number about one point, as summary.parquet and --json hold it."""

    PRINTED: ClassVar = ("metric", "value", "ci_low", "ci_high", "n", "unit")

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
    """A run that failed or was interrupted, for programs."""

    run_id: str
    block: int
    status: str
    failure: Failure


@dataclass(frozen=True)
class GeneratedResult:
    """The prediction of a point without any run, for programs."""

    metric: str
    mean: Estimate | None
    """The mean of the metric over the generated runs; None if reads depend on the speed of the run."""
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class PointResult:
    """A point for programs."""

    PRINTED: ClassVar = ("label", "swept", "settings", "status", "reason", "failures", "summaries", "generated")

    index: int
    label: str
    swept: dict[str, str]
    settings: dict[str, StoredSetting]
    status: str
    reason: str | None
    failures: tuple[FailedRun, ...]
    statistics: tuple[Summary, ...]
    generated: GeneratedResult | None = None
    """The prediction of the point without any run; None for a sweep that has none."""

    @property
    def summaries(self) -> list[Summary]:
        """Return the means of the point's runs."""
        return [one for one in self.statistics if one.statistic == "mean"]


@dataclass(frozen=True)
class StepResult:
    """The step from point `a` to point `b`, for programs."""

    a: str
    b: str
    metric: str
    contrast: Literal["ratio", "difference"]
    estimate: Estimate
    """The mean of point `b` over that of point `a`, or minus it, as `contrast` says."""
    direction: Direction
    verdict: str


@dataclass(frozen=True)
class PredictedRun:
    """A run that a model predicted, for programs."""

    label: str
    swept: dict[str, str]
    block: int
    seed: int
    warm_up_transactions: int | None
    prediction: Prediction
    error: float | None
    """The relative error of the predicted reads at the traced run's own point, compared with the engine's count; None
    at other points."""


@dataclass(frozen=True)
class SweepResult:
    """The result of a sweep for programs."""

    sweep: Path
    engine: str
    points: tuple[PointResult, ...]
    steps: tuple[StepResult, ...]
    stopped: Reason
    """The reason why the sweep does no more runs; "running" if it will do more."""
    predictions: tuple[PredictedRun, ...]
    """The runs of a sweep that a model predicted; empty for a measured sweep."""


def stamped(report: Report, source: str) -> Report:
    """Return the report with a line below every figure that says where its numbers come from (`source`)."""

    def block(one: Table | Figure) -> Table | Figure:
        return replace(one, source=source) if isinstance(one, Figure) else one

    sections = tuple(replace(section, blocks=tuple(map(block, section.blocks))) for section in report.sections)
    headline = replace(report.headline, source=source) if report.headline else None
    return replace(report, headline=headline, sections=sections)


Part = Literal[
    "",
    "banners",
    "question",
    "answer",
    "differs",
    "facts",
    "tables",
    "untitled",
    "captions",
    "notes",
    "limits",
    "checks",
]
"""A part of an answer on a terminal; "" is an empty line."""
OF_A_SWEEP: tuple[Part, ...] = ("banners", "question", "answer", "", "tables", "checks")
OF_SIDES: tuple[Part, ...] = ("answer", "", "differs", "banners", "facts", "untitled", "captions", "notes")


Look = Literal["", "good", "bad", "doubt", "found", "quiet"]


@dataclass(frozen=True)
class Note:
    """A line that a terminal shows in addition to the tables. `look` decides how its first words are drawn."""

    lead: str
    text: str = ""
    look: Look = ""
    indent: int = 0


@dataclass(frozen=True)
class Report:
    """The content of an answer, in the order in which pages show it."""

    PRINTED: ClassVar = ("status", "question", "answer", "facts", "warnings", "limits", "failed_checks", "checks")

    title: str
    question: str
    answer: str
    facts: tuple[str, ...] = ()
    banners: tuple[Banner, ...] = ()
    headline: Figure | None = None
    steps: Table | None = None
    limits: tuple[str, ...] = ()
    limits_title: str = "What this does not tell you"
    sections: tuple[Section, ...] = ()
    checks: tuple[Check, ...] = ()
    status: Status = "ok"
    is_doubted: bool = False
    """Whether the numbers must not be believed although no check failed: smoke sizes and doubtful predictions."""
    lead: str = ""
    """The id of the table that answers the question; "" if `steps` does."""
    parts: tuple[Part, ...] = ("answer", "facts", "", "tables", "limits")
    """The parts that a terminal shows, in order."""
    notes: tuple[Note, ...] = ()
    differs: str = ""
    """A sentence, shown only on a terminal, on the only setting that differs between two sides; pages have a table of
    settings."""
    data: Any = field(default_factory=dict, repr=False)
    """The part of --json that differs by command: a dataclass."""

    @property
    def blocks(self) -> list[Table | Figure]:
        """Return the tables and figures of all sections."""
        return [block for section in self.sections for block in section.blocks]

    @property
    def is_stored(self) -> bool:
        """Return whether the report is made from the stored samples of a sweep."""
        return isinstance(self.data, SweepResult)

    @property
    def check_counts(self) -> Counter[str]:
        """Return how many checks have each status."""
        return Counter(check.status for check in self.checks)

    @property
    def warnings(self) -> list[str]:
        """Return the warnings that a reader should know before believing the answer, each a sentence."""
        return [banner.text for banner in self.banners]

    @property
    def failed_checks(self) -> list[str]:
        """Return the names of the checks that failed."""
        return [check.name for check in self.checks if check.status == "failed"]


def as_json(report: Report) -> dict[str, Any]:
    """Return the object that a command prints with --json: the keys of every answer, then those of its `data`."""
    return {**printed(report), **printed(report.data)}
