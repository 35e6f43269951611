"""The stored format, version 2: run.json as typed tables and the columns of every Parquet file.

This module only describes and checks. A test pins `schema_hash()`, so the format cannot change by accident; a change
needs a new FORMAT_VERSION. Commands refuse sweep folders of another version, with a message that names it.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from bufferlab.errors import FailureKind
from bufferlab.knob import Value
from bufferlab.results.keys import canonical_json
from bufferlab.results.page_traces import STRICT, PageTrace, PlannedTraces, Prediction
from bufferlab.results.trace_words import page_trace_words

FORMAT_VERSION = 2

#: Column -> type name. `store` turns these into polars types, so that this file imports nothing heavy.
SAMPLE_COLUMNS: dict[str, str] = {
    "t_s": "f64",
    "phase": "str",
    "edge": "str",
    "metric": "str",
    "subject": "str",
    "count": "i64",
    "value": "f64",
    "reason": "str",
    "probe": "str",
}
LATENCY_COLUMNS: dict[str, str] = {
    "transaction_type": "str",
    "time": "str",
    "low_us": "f64",
    "high_us": "f64",
    "count": "i64",
}
#: block-trace.parquet: one row per event, in the order of time. Columns that an action lacks are null.
BLOCK_TRACE_COLUMNS: dict[str, str] = {
    "t_ns": "i64",
    "cpu": "i32",
    "action": "str",
    "device": "str",
    "sector": "i64",
    "sectors": "i64",
    "flags": "str",
    "pid": "i32",
    "comm": "str",
    "error": "i32",
    "requests": "i64",
    "from_device": "str",
    "from_sector": "i64",
    "split_sector": "i64",
}
SUMMARY_COLUMNS: dict[str, str] = {
    "point_index": "i32",
    "point_label": "str",
    "point_key": "str",
    "metric": "str",
    "statistic": "str",
    "value": "f64",
    "ci_low": "f64",
    "ci_high": "f64",
    "n": "i32",
    "unit": "str",
    "source": "str",
    "interval_kind": "str",
}


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without its zone")
    return text


def _small(number: int) -> int:
    """Return the number of a point, block or run. Raises ValueError from 2^31 on: summaries store it in 32 bits."""
    if number >= 1 << 31:
        raise ValueError("a place beyond any sweep")
    return number


_COUNTS = ("version", "connections", "terminals")
"""The keys that a workload's table in run.json may have in addition to the workload's own parameters."""


class _Parameters(Protocol):
    def fits(self, name: str, told: object) -> bool: ...


def _named(workload: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Return the workload's table in run.json if it is valid; else raise ValueError.

    The table needs a name, and values that the workload's parameters accept; `drawn` must be a table of counts. The
    context of the validation is the registry, which knows the parameters.
    """
    known: _Parameters | None = info.context
    drawn = workload.get("drawn")
    if not isinstance(workload.get("name"), str):
        raise ValueError("the workload has no name")
    if not isinstance(drawn, dict | None):
        raise ValueError("what was drawn is no table")
    words = ("plan", "plan_text")
    if any(isinstance(value, str) != (name in words) for name, value in (drawn or {}).items()):
        raise ValueError("what was drawn is not counted")
    for name, value in workload.items():
        if (known and not known.fits(name, value)) or (name in _COUNTS and not _counted(value)):
            raise ValueError(f"the workload cannot have run with this value of {name}")
    return _flat({name: value for name, value in workload.items() if name != "drawn"}) and workload


def _counted(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    if any(isinstance(value, dict | list) for value in table.values()):
        raise ValueError("a setting is a number or a word")
    return table


#: Types with a check of the value. The checks are not part of the format: `schema_hash` does not cover them.
Moment = Annotated[str, AfterValidator(_moment)]
Place = Annotated[int, Field(ge=0, strict=True), AfterValidator(_small)]


class _Strict(BaseModel):
    model_config = STRICT


class Point(_Strict):
    """A point of the sweep: its place in the plan (`index`), its name for readers, and the values of swept settings."""

    index: Place
    label: str
    swept: dict[str, str]


class StoredSetting(_Strict):
    """One setting of a point, under bufferlab's name for it: the value requested, planned, and read back."""

    asked: str | None = None
    """The requested value in canonical form ("10%"); None for a setting that only the engine reports."""
    planned: Value = None
    """The value that was to be used; None if the choice was left to the engine."""
    actual: Value = None
    """The value that the engine used, read back from it; None if it was not read back."""
    unit: str = ""
    """The unit of `planned` and `actual`: "bytes", "s"; "" for a word or a bare number."""
    note: str = ""
    """The engine's note on the value: why it differs from the requested one, or where a server's password came from."""

    @property
    def value(self) -> Value:
        """Return the value that the engine used; the planned value if it was not read back."""
        return self.planned if self.actual is None else self.actual

    @property
    def differs(self) -> bool:
        """Return whether the engine used another value than was planned."""
        return self.planned is not None and self.actual is not None and self.actual != self.planned


class WarmUp(_Strict):
    """The warm-up of a run: which gate ended it, and how long it took.

    A gate is one of: a full turnover of the pool, misses that no longer fall, reads that brought no new page, the cap
    on the length. An engine without a pool has a fixed warm-up. A run without a warm-up is cold.
    """

    gate: Literal["pool_turnover", "flat_misses", "no_new_pages", "cap", "fixed", "cold"]
    seconds: float = Field(ge=0)
    transactions: int = Field(ge=0)
    detail: Any = None

    @property
    def at_cap(self) -> bool:
        """Return whether the cap ended the warm-up: before its gate had a reason, or while the gate waited longer."""
        return self.gate == "cap" or (isinstance(self.detail, dict) and bool(self.detail.get("at_cap")))


class Measured(_Strict):
    """The length of the measured window."""

    seconds: float = Field(ge=0)
    transactions: int = Field(ge=0)


class Load(_Strict):
    """The load: each connection's transactions one after another (closed), or arrivals at a set rate (open)."""

    mode: Literal["closed", "open"] = "closed"
    rate_per_s: float | None = Field(default=None, gt=0)
    arrivals: Literal["poisson", "constant"] | None = None
    patience_s: float | None = Field(default=None, gt=0)


class PhaseDone(_Strict):
    """A phase: a script that ran after the measured window on the same warm database, with samples at both ends."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    transactions: int = Field(ge=0)
    seconds: float = Field(ge=0)


class Tree(_Strict):
    """One b-tree of the loaded database, with its numbers of pages. It holds a table's rows or an index."""

    name: str
    table: str
    kind: Literal["table", "index"]
    rows: int | None = Field(default=None, ge=0)
    leaf_pages: int = Field(ge=0)
    interior_pages: int = Field(ge=0)
    overflow_pages: int = Field(ge=0)
    height: int = Field(ge=0)
    level_pages: list[int]
    """The number of pages of each level, from the root down."""
    payload_bytes: int = Field(ge=0)
    unused_bytes: int = Field(ge=0)


class Shape(_Strict):
    """The b-trees of the loaded database, before any run."""

    page_size_bytes: int = Field(gt=0)
    pages: int = Field(ge=0)
    free_pages: int = Field(ge=0)
    trees: list[Tree]


class Database(_Strict):
    """The size of the database file after the load and at both edges of the window, and its trees after the load."""

    bytes_loaded: int = Field(ge=0)
    bytes_start: int | None = Field(default=None, ge=0)
    bytes_end: int | None = Field(default=None, ge=0)
    shape: Shape | None = None


class Condition(_Strict):
    """One consistency condition of the workload's specification, checked after the run."""

    condition: int
    name: str
    passed: bool
    violations: int = Field(ge=0)


class Consistency(_Strict):
    """All consistency conditions and the seconds they took, outside the measured window."""

    seconds: float = Field(ge=0)
    conditions: list[Condition]


class IntegrityRow(_Strict):
    """A check that the command `run` made during the run. Reports add the checks that need only samples."""

    name: str
    status: Literal["passed", "failed", "not_applicable"]
    detail: str


class BlockTraceLost(_Strict):
    """The numbers of kernel events that a block trace lacks, by the place where they were lost."""

    overrun: int = Field(ge=0)
    dropped_events: int = Field(ge=0)
    commit_overrun: int = Field(ge=0)
    pages_after_a_gap: int = Field(ge=0)


class BlockTrace(_Strict):
    """The facts about a trace of block requests over the measured window: whether it is complete, and its cost.

    A failed trace has no block-trace.parquet, because a reader would consider a table with gaps complete.
    """

    status: Literal["ok", "failed"]
    reason: str | None = None
    hint: str | None = None
    device: str = ""
    """The major:minor number of the traced disk."""
    devices: list[str] = []
    """The traced disk, the disks below it if it passes bios down (md, device mapper), and the partitions of all."""
    partitions: dict[str, str] = {}
    """Partition -> its disk, for `devices`. The kernel queues bios on partitions, but makes requests on disks."""
    names: dict[str, str] = {}
    """The names of the disks, by major:minor."""
    pids_are_the_hosts: bool = False
    """True if the run was in a PID namespace (a container).

    Then the events carry the host's process numbers, which `ps` in the container does not show.
    """
    window_start_ns: int | None = None
    """The value of CLOCK_MONOTONIC when recording began, from which t_ns counts; None if recording did not begin."""
    window_ns: int | None = Field(default=None, ge=0)
    buffer_kib_per_cpu: int = Field(default=0, ge=0)
    cpus: int = Field(default=0, ge=0)
    events: int = Field(default=0, ge=0)
    actions: dict[str, int] = {}
    plugs_elsewhere: int = Field(default=0, ge=0)
    """The number of plug and unplug events of tasks that held back no request for `devices`."""
    pages: int = Field(default=0, ge=0)
    spool_bytes: int = Field(default=0, ge=0)
    reader_cpu_us: float = Field(default=0.0, ge=0)
    """The processor time of the thread that copied the trace, in user mode and in the kernel."""
    reader_wakeups: int = Field(default=0, ge=0)
    lost: BlockTraceLost | None = None


class StoredFile(_Strict):
    """The size and hash of a file in a run's folder, which reveal damage."""

    bytes: int = Field(ge=0)
    sha256: str


class StoredFailure(_Strict):
    """The reason why a run failed or was interrupted: what happened, the kind of failure, where, and what to try."""

    kind: FailureKind
    what: str
    where: str | None = None
    hint: str | None = None


class Run(_Strict):
    """The content of run.json: everything about one run of one point except its samples, latencies and traces."""

    format_version: Literal[2] = 2
    run_id: str = Field(pattern=r"^[0-9a-f]{8,64}$")
    experiment: str
    point_key: str
    actual_key: str | None = None
    data_key: str | None = None
    source: Literal["measured", "predicted"] = "measured"
    inputs: Literal["server", "trace", "generated", "given"] = "server"
    interval_kind: Literal["between-run", "model-error", "none"] = "between-run"
    clock: Literal["wall", "virtual"] = "wall"
    engine: str
    engine_version: str | None = None
    workload: Annotated[dict[str, Any], AfterValidator(_named)]
    settings: dict[str, StoredSetting]
    point: Point
    repetition: int = Field(ge=0)
    block: Place
    order: Place
    seed: int = Field(ge=0)
    host: str = ""
    versions: dict[str, str] = {}
    warm_up: WarmUp | None = None
    load: Load = Load()
    """The way in which transactions arrived. Runs made before open loops existed lack this: their loop was closed."""
    measured: Measured | None = None
    phases: list[PhaseDone] = []
    database: Database | None = None
    consistency: Consistency | None = None
    integrity: list[IntegrityRow] = []
    block_trace: BlockTrace | None = None
    """The facts about the run's block trace; None if no block trace was requested."""
    page_trace: PageTrace | None = None
    """The facts about the run's page trace; None if no page trace was requested."""
    prediction: Prediction | None = None
    """The model's counts and their source; None for a measured run."""
    status: Literal["ok", "failed", "skipped", "interrupted"]
    failure: StoredFailure | None = None
    """The reason why the run failed or was interrupted; None if it ended as planned."""
    started_at: Moment
    ended_at: Moment
    files: dict[str, StoredFile] = {}

    @model_validator(mode="after")
    def _fails_for_a_reason(self) -> Run:
        if (self.status == "ok") != (self.failure is None):
            raise ValueError("a run has a failure unless it ended well")
        return self


class _Open(BaseModel):
    """The base class of documents that may have fields not declared here, because reports need only some."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)


class StoredPoint(_Open):
    """A point of plan.json."""

    index: Place
    label: str
    swept: dict[str, str]
    point_key: str = ""
    settings: dict[str, StoredSetting] = {}


class StoredPlannedRun(_Open):
    """A run of plan.json."""

    point: Place
    block: Place


class StoredPlan(_Open):
    """The content of plan.json."""

    experiment: str
    engine: str = ""
    points: list[StoredPoint] = []
    runs: list[StoredPlannedRun] = []
    versions: dict[str, str] = {}
    page_trace: PlannedTraces | None = None
    """The page traces planned for the runs; None in sweeps of earlier versions, and in predicted sweeps."""
    blocks: list[Place] | None = None
    """The blocks that `run --blocks` chose for this folder; None for all blocks of the plan."""
    predicted_from: dict[str, Any] = {}
    """The source of a predicted sweep; empty for a measured sweep."""

    @model_validator(mode="after")
    def _has_its_blocks(self) -> StoredPlan:
        planned = {run.block for run in self.runs}
        if self.blocks is not None and not (self.blocks and set(self.blocks) <= planned):
            raise ValueError("the folder is for blocks that the plan lacks")
        return self


class StoredStop(_Open):
    """The content of stop.json: the number of blocks of a sweep with `repetitions = "auto"`."""

    blocks: int = Field(ge=2)
    """The number of blocks to run.

    Before the results are evaluated the first time, it is the number of blocks until then.
    """
    enough: bool | None
    """True if the first evaluation of the results found that these blocks are enough; None before the evaluation.

    False if it raised `blocks` to the number that should be enough; the sweep is judged again after these.
    """


class StoredAim(_Open):
    """The aim of a sweep with `repetitions = "auto"`, from [design] of experiment.toml."""

    at_most: int = Field(ge=2)
    smallest_effect: float = Field(gt=0, lt=1)
    precision: float | None = Field(default=None, gt=0, lt=1)


class StoredScatter(_Strict):
    """A scatter in a noise floor: a relative standard deviation with its interval."""

    value: float = Field(ge=0)
    ci_low: float | None
    ci_high: float | None
    df: float = Field(gt=0)
    n: int = Field(ge=1)


class StoredNoise(_Open):
    """The noise of one metric: its scatter within a block and across blocks."""

    metric: str
    within: StoredScatter | None
    across: StoredScatter | None


class StoredFloor(_Open):
    """A noise floor of the host: the scatter of runs with equal settings, as measured once."""

    measured_at: Moment
    sweep: str
    settings: dict[str, str]
    versions: dict[str, str | None]
    blocks: int = Field(ge=1)
    transactions: int = Field(ge=0)
    figures: list[StoredNoise]


class StoredHost(_Open):
    """The content of host.json."""

    host_id: str = ""
    boot_key: str = ""
    """A key that distinguishes booted systems with the same host_id, such as runners of a CI; "" in older sweeps."""
    noise: dict[str, StoredFloor] = {}


class StoredHostBlocks(_Open):
    """One host of a merged sweep, with the blocks that it measured."""

    host: StoredHost
    blocks: list[Place] = Field(min_length=1)


class StoredHosts(_Open):
    """The content of hosts.json, which only a merged sweep has."""

    hosts: list[StoredHostBlocks] = Field(min_length=1)

    @model_validator(mode="after")
    def _share_no_block(self) -> StoredHosts:
        blocks = [block for one in self.hosts for block in one.blocks]
        if len(blocks) != len(set(blocks)):
            raise ValueError("two hosts measured the same block")
        return self


def schema_hash() -> str:
    """Return a hash of the stored format: of all fields, columns and types. A test pins it."""
    described = {
        "format_version": FORMAT_VERSION,
        "run": Run.model_json_schema(),
        "samples": SAMPLE_COLUMNS,
        "latency": LATENCY_COLUMNS,
        "block_trace": BLOCK_TRACE_COLUMNS,
        "page_trace": [page_trace_words().columns, page_trace_words().kinds],
        "summary": SUMMARY_COLUMNS,
    }
    return hashlib.sha256(canonical_json(_without_prose(described)).encode()).hexdigest()


def _without_prose(value: Any) -> Any:
    """Return a JSON schema without descriptions and titles: rewording a docstring does not change the format."""
    if isinstance(value, dict):
        return {
            key: _without_prose(inner)
            for key, inner in value.items()
            if not (key in ("description", "title") and isinstance(inner, str))
        }
    if isinstance(value, list):
        return [_without_prose(inner) for inner in value]
    return value
