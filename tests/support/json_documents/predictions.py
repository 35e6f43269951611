"""What `curve` and `predict` print of pools that nobody ran, and `accuracy` of how right they were."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bufferlab.results.page_traces import SimulatedPart, Verdict
from support.json_documents.base import Document, Number, Printed


class PoolOfCurve(Document):
    pool_pages: int
    accesses: int
    misses: int


class MeasuredPool(Document):
    pool_pages: int
    misses: int


class OfTable(Document):
    accesses: int
    misses: list[int]
    """In the order of `curve`."""


class WorkingSet(Document):
    end_s: float
    pages: int


class Step(Document):
    pages: int
    misses_below: int
    """Of a pool with a page less."""
    misses: int


class TakenColumn(Document):
    role: str
    name: str
    unit: str | None


class Read(Document):
    format: str
    has_head: bool | None
    """Null where the format has no line of names."""
    columns: list[TakenColumn]
    first_s: float
    last_s: float
    notes: list[str]


class Curve(Printed):
    """`curve`."""

    curve: list[PoolOfCurve]
    model: Model | None
    knee_pages: int | None
    """Null where the curve has no knee."""
    step: Step | None
    """Null where misses fall in no step."""
    pages: int
    read: Read | None
    """How the file was read; null of a run."""
    measured: MeasuredPool | None
    by_table: dict[str, OfTable]
    working_set: list[WorkingSet]


class Model(Document):
    name: str
    version: int


class TracedRun(Document):
    engine: str
    run_id: str
    point: str
    engine_version: str
    page_trace_sha256: str
    pool_bytes: int
    pool_frames: int
    page_size_bytes: int
    pages_touched: int
    work: dict[str, int]
    measured_reads: int
    modelled_reads: int
    """By the model at the run's own point."""
    own_error: Number
    """Null where the engine counted no read."""


class Counts(Document):
    reads: int
    """All pages read: misses and prefetched pages."""
    gets: int
    gets_if_in_pool: int
    misses: int
    prefetch_reads: int
    creates: int
    evictions: int
    made_young: int
    not_made_young: int
    guessed_scan_gets: int
    ring_reuses: int
    frames_used: int
    brought_in_since_start: int
    reads_per: dict[str, float]
    """By unit of work: "transaction", and "new_order" where the workload has them."""
    misses_per: dict[str, float]


class GeneratedRuns(Document):
    engine: str
    engine_version: str
    rules: str
    rules_version: int
    notes: list[str]
    """What the experiment asks for and these runs have otherwise."""


class PredictedPoint(Document):
    """A run: from a trace each point has one, of generated accesses it has several, with their own seeds."""

    label: str
    swept: dict[str, str]
    block: int
    seed: int
    settings: dict[str, int]
    page_size_bytes: int
    database_bytes: int | None
    """Of the generated database; null from a trace, as are its pages."""
    pages: int | None
    simulated: SimulatedPart | None
    """Null from a trace."""
    work: dict[str, int]
    """Units of work in the window."""
    warm_up_transactions: int | None
    pool_bytes: int
    pool_frames: int
    nominal_frames: int
    predicted: Counts | None
    """Null where the reads depend on the speed of the run."""
    replays: dict[str, Counts]
    """At several speeds, by name, where a setting makes time matter; else empty."""
    lru: Counts
    opt: Counts | None
    """Null of generated accesses."""
    turnovers: float
    turnovers_before: float
    is_traced_point: bool
    error: Number
    verdicts: list[Verdict]


class PredictedMean(Document):
    label: str
    swept: dict[str, str]
    metric: str
    mean: float
    ci_low: Number
    ci_high: Number
    n: int


class Prediction(Printed):
    """`predict`; docs/prediction.md explains the keys."""

    sweep: str
    status: Literal["ok", "interrupted"]
    source: TracedRun | None
    """Null of generated accesses."""
    generated: GeneratedRuns | None
    """Null from a trace."""
    model: Model | None
    points: list[PredictedPoint]
    means: list[PredictedMean]
    """Of generated accesses, each point's reads over its runs; empty from a trace."""


class Mean(Document):
    mean: float
    ci_low: Number
    ci_high: Number
    n: int


class AccuratePoint(Document):
    label: str
    settings: dict[str, str]
    measured: Mean
    predicted: Number
    error: Number
    inside_interval: bool | None
    lru: Number
    lru_error: Number
    measured_frames: Number
    predicted_frames: int
    in_development: bool
    verdicts: list[Verdict]


class AccurateStep(Document):
    from_: str = Field(alias="from")
    to: str
    measured: str
    predicted: str
    right: bool | None


class AccuracySummary(Document):
    of: str
    n: int
    mean_abs_error: Number
    largest_error: Number
    lru_mean_abs_error: Number
    lru_largest_error: Number
    times_better_than_lru: Number


class Stretch(Document):
    predicted: tuple[int, int]
    """The least and the most transactions of the predicted runs: of the traced run, or of the generated ones."""
    measured: tuple[int, int]
    """The least and the most of the measured runs."""
    differ: bool
    """By more than a quarter."""


class Compared(Document):
    measured: Number
    generated: Number
    difference: Number
    """As a share of the measured number."""


class ComparedPages(Compared):
    transactions: int
    """Of the stretch in which distinct pages are counted."""


class TouchedPages(Document):
    gets: Compared
    """Gets and creations for each transaction."""
    pages: list[ComparedPages]


class TouchedObject(TouchedPages):
    name: str
    interior: TouchedPages | None
    """Those above the leaves of a B-tree."""


class TouchedTables(Document):
    label: str
    run_id: str
    """The traced run."""
    same_seed: bool
    objects: list[TouchedObject]


class Accuracy(Printed):
    """`accuracy`; docs/prediction.md explains the keys."""

    status: Literal["ok"]
    measured: str
    predicted: str
    metric: str
    unit: str
    model: Model
    transactions: dict[Literal["warm_up", "window"], Stretch]
    points: list[AccuratePoint]
    only_measured: list[str]
    only_predicted: list[str]
    steps: list[AccurateStep]
    summaries: list[AccuracySummary]
    by_table: list[TouchedTables]
    """Of generated predictions, where a measured run carries a page trace; else empty."""
    chosen: str | None
    best: str
    regret: Number
