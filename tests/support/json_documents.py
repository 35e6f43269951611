"""The objects that the commands print with `--json`, as types: docs/schemas is written from them."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bufferlab.results.page_traces import SimulatedPart, Verdict
from bufferlab.results.schema import StoredSetting

Number = float | None


class Document(BaseModel):
    """The base of every object: a key that is not declared here would be undocumented."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Printed(Document):
    """The base of what a command prints."""

    format_version: Literal[1, 2]
    """Of this object; later versions add keys and rename none."""


class Problem(Document):
    what: str
    where: str | None
    hint: str | None


class Error(Printed):
    """Any command that ended with an error."""

    status: Literal["error"]
    exit_code: int
    kind: str
    """Of which kind the failure is: docs/reliability.md lists them."""
    errors: list[Problem]


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


class Curve(Printed):
    """`curve`."""

    curve: list[PoolOfCurve]
    model: Model | None
    knee_pages: int
    pages: int
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


class SlowLogSection(Document):
    name: str
    weight: int
    seen: int
    """Transactions of the log; the weight is less where there are more than a million."""
    query_seconds: float
    digests: list[str]
    values_of_transactions: int
    """The transactions whose values the section has; 0 where no value varies."""


class SlowLogDigest(Document):
    digest: str
    count: int
    query_seconds: float


class SlowLogLeftOut(Document):
    statements: int
    why: str


class SlowLogScript(Printed):
    """`script-from-slow-log`; docs/scripts.md says what a script has of a log. It holds no value of the log."""

    status: Literal["ok"]
    script: str
    database_schema: str
    statements: int
    statements_in_script: int
    transactions_in_script: int
    query_seconds: float
    sections: list[SlowLogSection]
    digests: list[SlowLogDigest]
    left_out: list[SlowLogLeftOut]
    notes: list[str]


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


class AuditFinding(Document):
    rule: str
    file: str
    line: int | None
    label: str | None
    what: str
    consequence: str
    corrected: str
    numbers: dict[str, Any]


class CorrectedTable(Document):
    title: str
    rows: list[dict[str, str]]


class Audit(Printed):
    """`audit`."""

    status: Literal["ok"]
    files: list[str]
    unrecognised: list[Problem]
    findings: list[AuditFinding]
    corrected: list[CorrectedTable]


class Setting(Document):
    name: str
    native_name: str
    unit: str
    default: str
    values: str
    meaning: str
    decides_data: bool
    versions: str
    auto: str | None


class ListedExperiment(Document):
    name: str
    question: str
    engine: str
    workload: str
    sweep: dict[str, list[str]]
    file: str


class ListedEngine(Document):
    name: str
    meaning: str
    connections_max: int
    notes: list[str]
    knobs: list[Setting]


class ListedWorkload(Document):
    name: str
    version: int
    meaning: str
    caveat: str
    transaction_types: list[str]
    parameters: list[Setting]


class ListedMetric(Document):
    name: str
    unit: str
    kind: Literal["counter", "gauge", "ratio", "share", "latency"]
    better: Literal["lower", "higher", "neither"]
    scale: Literal["log", "linear"]
    needs_long_window: bool
    probe: str
    meaning: str
    source: str


class Listing(Printed):
    """`list`; with a kind, that key alone."""

    experiments: list[ListedExperiment] | None = None
    engines: list[ListedEngine] | None = None
    workloads: list[ListedWorkload] | None = None
    load: list[Setting] | None = None
    metrics: list[ListedMetric] | None = None


class PastSweep(Document):
    folder: str
    experiment: str | None
    engine: str | None
    began_at: str | None
    runs_planned: int
    runs_ok: int
    runs_failed: int
    answer: str | None
    problem: str | None
    status: str


class PastSweeps(Printed):
    """`list runs`."""

    runs: list[PastSweep]


class Server(Document):
    name: str
    usable: bool
    flavour: str | None
    version: str | None
    untried: bool | None
    where: str | None
    reason: str | None
    hint: str | None


class Servers(Printed):
    """`engines` and `engines fetch`."""

    servers: list[Server]


class CacheEntry(Document):
    kind: str
    name: str
    path: str
    size_bytes: int
    last_used_at: str
    in_use: bool


class CacheList(Printed):
    """`cache list`."""

    entries: list[CacheEntry]
    size_bytes: int


class CachePrune(Printed):
    """`cache prune`."""

    dry_run: bool
    removed: list[CacheEntry]
    size_bytes: int


class DoctorFinding(Document):
    subject: str
    name: str
    ok: bool
    detail: str
    hint: str | None
    needed: bool


class Doctor(Printed):
    """`doctor`: of this host, or with --server of a server and its engine."""

    status: Literal["ok", "lacking"]
    data_directory: str | None
    server: str | None
    engine: str | None
    findings: list[DoctorFinding]


class ObservedCost(Document):
    statements: int
    statement_s: float
    """The time in our statements as we waited for them."""
    processor_s: Number
    """Of our session's thread at the server; null where it cannot be read from here."""
    core_ratio: Number


class ObservedEvent(Document):
    t_s: float
    kind: Literal["lost", "back", "restart", "failover", "reset", "wrap", "right"]
    what: str


class ObservedSecond(Document):
    t_s: float
    seconds: float
    counts: dict[str, float]
    """docs/observe.md says what each count is; a count that the server does not tell is missing."""
    levels: dict[str, float]


class ObservedNotTold(Document):
    why: str
    remedy: str | None
    refusal: Literal["rights", "missing", "slow"] | None


class ObservedHost(Document):
    """What the server and its device did, where the server is on this host."""

    seconds: float
    processor_cores: Number
    read_bytes: int | None
    device_read_bytes: int | None
    device_write_bytes: int | None
    page_cache_ratio: Number
    device: dict[str, int] | None
    why: str | None


class ObservedObject(Document):
    table: str
    index: str | None
    pages: int
    share_ratio: float
    dirty_pages: int
    old_pages: int | None
    cold_pages: int | None


class ObservedPool(Document):
    pages: int
    seconds_foretold: float
    objects: list[ObservedObject]


class ObservedStatement(Document):
    place: str | None
    text: str
    calls: int
    seconds: float
    rows_examined: int | None
    rows_returned: int
    hit_pages: int | None
    read_pages: int | None
    read_seconds: Number


class ObservedStatements(Document):
    statements: list[ObservedStatement]
    calls: int
    seconds: float
    utility_calls: int
    utility_seconds: float
    monitoring_calls: int
    monitoring_seconds: float
    notes: list[str]


class ObservedConfound(Document):
    kind: str
    sentence: str
    seconds: Number


class Observed(Printed):
    """`observe`."""

    status: Literal["ok", "interrupted", "lost"]
    server: str
    engine: str
    version: str
    answer: str
    seconds: float
    per_second: dict[str, Number]
    per_statement: dict[str, Number]
    """Null where statements are not counted, or there were none."""
    per_transaction: dict[str, Number]
    transactions_are: Literal["transactions", "explicit commits"]
    hit_ratio: Number
    time_ratio: Number
    """The share of statement time that reads take; null where it cannot be told."""
    no_time: str | None
    pool_begin: dict[str, float]
    pool_end: dict[str, float] | None
    not_told: dict[str, str]
    host: ObservedHost | ObservedNotTold
    pool_contents: ObservedPool | ObservedNotTold
    statements: ObservedStatements | ObservedNotTold
    confounds: list[ObservedConfound]
    confounds_not_told: list[ObservedNotTold]
    cost: ObservedCost
    events: list[ObservedEvent]
    rows: list[ObservedSecond]


class AdvisedPool(Document):
    pool_size_bytes: int
    pool_pages: int
    """Frames of the server."""
    data_pages: Number
    """Mean pages of data in the pool; null where the server does not tell."""
    page_size_bytes: int


class AdvisedCounts(Document):
    """Of the server, over the whole seconds in which something was attached; of all seconds where nothing was."""

    seconds: float
    reads: float
    gets: float
    units: float
    unit: Literal["transaction", "statement"]


class AdvisedMemory(Document):
    """What the host or the server's cgroup has left, on top of the present pool."""

    size_bytes: int
    by: Literal["host", "cgroup"]


class AdvisedSize(Document):
    pool_size_bytes: int
    reads_per_s: Number
    """Null where it cannot be said."""
    low: Number
    """The bounds are of 95 %."""
    high: Number
    read_ms_per_s: Number
    """Milliseconds of reading a second at the latency that was seen; null where the server does not tell it."""
    longest_pages: int | None
    """Of `misses`: the most pages more than the present ones of which the window tells."""
    tier: Literal["misses", "full", "counted"]
    """`counted` is the present size: its reads are the server's own count."""
    cannot_say: ObservedNotTold | None


class AdvisedAttachment(Document):
    tier: Literal["misses", "full"]
    seconds: float
    ended: Literal["whole", "rate", "lost", "gone", "stopped", "limit"]
    stops: int
    """How often a thread of the server was stopped."""
    events: dict[str, int]
    """By kind, as docs/page-trace.md has them."""


class AdvisedCost(Document):
    """Processors: 0.01 is a hundredth of one."""

    tier: Literal["misses", "full"]
    seconds: float
    events: int
    foretold_cores: float
    by_events_cores: float
    server_cores: Number
    """By the schedstat of the server's threads, attached against not attached; null with too few seconds."""
    low: Number
    high: Number
    ours_cores: float


class Advised(Printed):
    """`advise`."""

    status: Literal["ok", "cannot_say", "interrupted"]
    server: str
    engine: str
    version: str
    answer: str
    seconds: float
    present: AdvisedPool
    counted: AdvisedCounts
    read_us: Number
    """Latency of a read as seen; null where the server does not tell."""
    needs_restart: bool
    reads_are: Literal["asked of the system", "device reads"]
    memory_left: AdvisedMemory | None
    sizes: list[AdvisedSize]
    cannot_say: list[ObservedNotTold]
    """Why no size other than the present one is judged; empty where they are."""
    attached: list[AdvisedAttachment]
    cost: list[AdvisedCost]
    events: list[ObservedEvent]


DOCUMENTS: dict[str, type[Printed]] = {
    "accuracy": Accuracy,
    "advise": Advised,
    "audit": Audit,
    "cache-list": CacheList,
    "cache-prune": CachePrune,
    "compare": Comparison,
    "curve": Curve,
    "doctor": Doctor,
    "dry-run": DryRun,
    "engines": Servers,
    "error": Error,
    "history": History,
    "list": Listing,
    "list-runs": PastSweeps,
    "observe": Observed,
    "predict": Prediction,
    "report": Report,
    "script-from-slow-log": SlowLogScript,
}
"""By the name of the file in docs/schemas."""


def schema(name: str) -> str:
    """The JSON Schema of a document, as its file holds it."""
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema", **DOCUMENTS[name].model_json_schema()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"
