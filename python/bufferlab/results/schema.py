"""The stored format, version 2: run.json as typed tables and the columns of every Parquet file.

It only describes and checks. A test pins `schema_hash()`, so the format cannot change by accident;
a change needs a new FORMAT_VERSION; a folder of another version is refused by name.
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
    """Refuse a number that a summary cannot store: it keeps places in 32 bits."""
    if number >= 1 << 31:
        raise ValueError("a place beyond any sweep")
    return number


_COUNTS = ("version", "connections", "terminals")
"""The fields that describe every workload, besides its parameters."""


class _Parameters(Protocol):
    def fits(self, name: str, told: object) -> bool: ...


def _named(workload: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
    """Refuse a workload without its name, and parameters that it cannot have had; its draws are a table of counts.

    The registry, which knows the parameters, is the context of the validation.
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


#: Constraints on a value beyond its type. They are not part of the format: `schema_hash` does not see them.
Moment = Annotated[str, AfterValidator(_moment)]
Place = Annotated[int, Field(ge=0, strict=True), AfterValidator(_small)]


class _Strict(BaseModel):
    model_config = STRICT


class Point(_Strict):
    """One setting of every knob, by its place in the sweep and the knobs that are swept."""

    index: Place
    label: str
    swept: dict[str, str]


class StoredSetting(_Strict):
    """One setting of a point under its only name: as asked for, as planned and as read back."""

    asked: str | None = None
    """The canonical text ("10%"); None for a setting that an engine reports unasked."""
    planned: Value = None
    """The value that was to run; None where it was left to the engine."""
    actual: Value = None
    """The value that ran, read back; None where none was read back."""
    unit: str = ""
    """The unit of both values: "bytes", "s"; "" for a word or a bare number."""
    note: str = ""
    """The engine's note on the value: why it is not the one asked for, or where a server's password was."""

    @property
    def value(self) -> Value:
        """Return the value that ran; the planned one where nothing was read back."""
        return self.planned if self.actual is None else self.actual

    @property
    def differs(self) -> bool:
        """Return whether another value ran than was planned."""
        return self.planned is not None and self.actual is not None and self.actual != self.planned


class WarmUp(_Strict):
    """The end of the warm-up: by a full turnover, by flat misses, as reads brought no new page, or at its cap.

    Without a pool it is a fixed stretch. A run without a warm-up is cold.
    """

    gate: Literal["pool_turnover", "flat_misses", "no_new_pages", "cap", "fixed", "cold"]
    seconds: float = Field(ge=0)
    transactions: int = Field(ge=0)
    detail: Any = None


class Measured(_Strict):
    """The measured window."""

    seconds: float = Field(ge=0)
    transactions: int = Field(ge=0)


class Load(_Strict):
    """The way transactions were asked for.

    It is one after another (closed), or at a rate that does not depend on the database (open).
    """

    mode: Literal["closed", "open"] = "closed"
    rate_per_s: float | None = Field(default=None, gt=0)
    arrivals: Literal["poisson", "constant"] | None = None
    patience_s: float | None = Field(default=None, gt=0)


class PhaseDone(_Strict):
    """A script run after the measured window on the same warm database, between its own two edge samples."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    transactions: int = Field(ge=0)
    seconds: float = Field(ge=0)


class Tree(_Strict):
    """One b-tree of the loaded database: a table's rows or an index, by its pages."""

    name: str
    table: str
    kind: Literal["table", "index"]
    rows: int | None = Field(default=None, ge=0)
    leaf_pages: int = Field(ge=0)
    interior_pages: int = Field(ge=0)
    overflow_pages: int = Field(ge=0)
    height: int = Field(ge=0)
    level_pages: list[int]
    """Pages of each level, the root's first."""
    payload_bytes: int = Field(ge=0)
    unused_bytes: int = Field(ge=0)


class Shape(_Strict):
    """The trees of the loaded database, before any run."""

    page_size_bytes: int = Field(gt=0)
    pages: int = Field(ge=0)
    free_pages: int = Field(ge=0)
    trees: list[Tree]


class Database(_Strict):
    """Size of the database file after the load and at both edges of the measured window; its shape after the load."""

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
    """A check that only the executor could make. The report adds the checks made from the samples."""

    name: str
    status: Literal["passed", "failed", "not_applicable"]
    detail: str


class BlockTraceLost(_Strict):
    """Events that were made and not kept, by where they were lost."""

    overrun: int = Field(ge=0)
    dropped_events: int = Field(ge=0)
    commit_overrun: int = Field(ge=0)
    pages_after_a_gap: int = Field(ge=0)


class BlockTrace(_Strict):
    """The trace of block requests over the measured window: whether it may be believed, and its cost.

    A failed trace has no block-trace.parquet: a table with gaps would be taken for a whole one.
    """

    status: Literal["ok", "failed"]
    reason: str | None = None
    hint: str | None = None
    device: str = ""
    """major:minor of the disk that was asked for."""
    devices: list[str] = []
    """That disk, the disks below it where it hands bios down (md, device mapper), and their partitions."""
    partitions: dict[str, str] = {}
    """Partition -> its disk, for those devices: bios are queued on the partition, requests are made on the disk."""
    names: dict[str, str] = {}
    """The disks' names."""
    pids_are_the_hosts: bool = False
    """True if the run was in a PID namespace (a container).

    The kernel's events carry numbers that its `ps` does not show.
    """
    window_start_ns: int | None = None
    """CLOCK_MONOTONIC when recording began: the zero of t_ns."""
    window_ns: int | None = Field(default=None, ge=0)
    buffer_kib_per_cpu: int = Field(default=0, ge=0)
    cpus: int = Field(default=0, ge=0)
    events: int = Field(default=0, ge=0)
    actions: dict[str, int] = {}
    plugs_elsewhere: int = Field(default=0, ge=0)
    """Plugs and unplugs of tasks that held back no request for these devices."""
    pages: int = Field(default=0, ge=0)
    spool_bytes: int = Field(default=0, ge=0)
    reader_cpu_us: float = Field(default=0.0, ge=0)
    """Processor time of the thread that moved the trace, the kernel's part included."""
    reader_wakeups: int = Field(default=0, ge=0)
    lost: BlockTraceLost | None = None


class StoredFile(_Strict):
    """The size and hash of a file in run.json's folder, so that a damaged file is noticed and named."""

    bytes: int = Field(ge=0)
    sha256: str


class StoredFailure(_Strict):
    """The reason why a run did not end well: what happened, of which kind, where, and what to try."""

    kind: FailureKind
    what: str
    where: str | None = None
    hint: str | None = None


class Run(_Strict):
    """The content of run.json: everything about one execution of one point except its samples."""

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
    """Older runs, from before open loops existed, lack this field and were closed."""
    measured: Measured | None = None
    phases: list[PhaseDone] = []
    database: Database | None = None
    consistency: Consistency | None = None
    integrity: list[IntegrityRow] = []
    block_trace: BlockTrace | None = None
    """None when none was asked for."""
    page_trace: PageTrace | None = None
    """None when none was asked for."""
    prediction: Prediction | None = None
    """None for a run that no model filled."""
    status: Literal["ok", "failed", "skipped", "interrupted"]
    failure: StoredFailure | None = None
    """The reason why the run did not end well; None when it did."""
    started_at: Moment
    ended_at: Moment
    files: dict[str, StoredFile] = {}

    @model_validator(mode="after")
    def _fails_for_a_reason(self) -> Run:
        if (self.status == "ok") != (self.failure is None):
            raise ValueError("a run has a failure unless it ended well")
        return self


class _Open(BaseModel):
    """The base of documents of which reports need only some fields; other fields are allowed."""

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
    """None in sweeps of earlier versions, and in predicted ones."""
    blocks: list[Place] | None = None
    """The blocks that the folder is for, where `run --blocks` chose some of the plan's."""
    predicted_from: dict[str, Any] = {}
    """The source of a predicted sweep; a measured one lacks it."""

    @model_validator(mode="after")
    def _has_its_blocks(self) -> StoredPlan:
        planned = {run.block for run in self.runs}
        if self.blocks is not None and not (self.blocks and set(self.blocks) <= planned):
            raise ValueError("the folder is for blocks that the plan lacks")
        return self


class StoredStop(_Open):
    """The content of stop.json: how many blocks a sweep does that was asked for as many as its answer needs."""

    blocks: int = Field(ge=1)
    """Those before the first look, until that decided."""
    enough: bool | None
    """Whether the first look sufficed; else `blocks` should, and the sweep is judged again after them. None before."""


class StoredScatter(_Strict):
    """A relative standard deviation of a noise floor."""

    value: float = Field(ge=0)
    ci_low: float | None
    ci_high: float | None
    df: float = Field(gt=0)
    n: int = Field(ge=1)


class StoredNoise(_Open):
    """The noise of one value."""

    metric: str
    within: StoredScatter | None
    across: StoredScatter | None


class StoredFloor(_Open):
    """A noise floor of the host."""

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
    """Differs between booted systems of the same host_id, such as runners of a CI; "" in older sweeps."""
    noise: dict[str, StoredFloor] = {}


class StoredHostBlocks(_Open):
    """One host of a merged sweep, with the blocks that it measured."""

    host: StoredHost
    blocks: list[Place] = Field(min_length=1)


class StoredHosts(_Open):
    """The content of hosts.json, which a merged sweep alone has."""

    hosts: list[StoredHostBlocks] = Field(min_length=1)

    @model_validator(mode="after")
    def _share_no_block(self) -> StoredHosts:
        blocks = [block for one in self.hosts for block in one.blocks]
        if len(blocks) != len(set(blocks)):
            raise ValueError("two hosts measured the same block")
        return self


def schema_hash() -> str:
    """Return one hash over everything stored; a test pins it."""
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
    """Drop descriptions and titles: rewording a docstring does not change the format."""
    if isinstance(value, dict):
        return {
            key: _without_prose(inner)
            for key, inner in value.items()
            if not (key in ("description", "title") and isinstance(inner, str))
        }
    if isinstance(value, list):
        return [_without_prose(inner) for inner in value]
    return value
