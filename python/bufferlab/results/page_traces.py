"""Page traces, and predictions of reads and writes, as run.json stores them: part of the schema (schema.py)."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from bufferlab.results.blocks import KeepTraces

#: A stored table refuses unknown fields: a misspelt field must not be lost silently.
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False, defer_build=True)


class _Strict(BaseModel):
    model_config = STRICT


WIDEST = 1.5
"""The largest ratio of a range's ends; a wider range is too vague to be a prediction."""


class WritesEnd(_Strict):
    """The pages that a model writes in the window, by reason: one end of a predicted range, or its only value."""

    ALSO_PRINTED: ClassVar = ("pages",)

    why: str
    """The condition under which this end holds, in words: a speed of the load, or a limit of pages' age."""
    age_bytes: int | None = Field(default=None, ge=0)
    """The maximum age of InnoDB's dirty pages in bytes of redo, as a mean over the window; None if it follows from the
    replay, and in other engines."""
    lru_writes: int = Field(default=0, ge=0)
    """Dirty pages that InnoDB's page cleaner or PostgreSQL's background writer wrote to free their frames."""
    flush_list_writes: int = Field(default=0, ge=0)
    """Dirty pages that InnoDB's page cleaner wrote because of their age, or because too many pages were dirty."""
    single_page_writes: int = Field(default=0, ge=0)
    """Dirty pages that an InnoDB thread or a PostgreSQL session wrote itself, because it needed the page's frame."""
    checkpoint_writes: int = Field(default=0, ge=0)
    """Dirty pages that a checkpoint wrote."""
    reads: int = Field(ge=0)
    """Pages read in the same replay."""
    redo_bytes: int | None = Field(default=None, ge=0)
    """Bytes written to the log at this end; None if they do not depend on the settings."""

    @property
    def pages(self) -> int:
        """Return all pages written."""
        return self.lru_writes + self.flush_list_writes + self.single_page_writes + self.checkpoint_writes


class WritesDoubt(_Strict):
    """A reason to doubt predicted writes, as a name for programs and a sentence."""

    name: Literal["own_writes", "device_decides", "few_checkpoints"]
    sentence: str


class PredictedWrites(_Strict):
    """The pages and bytes that a model predicts to be written in the window.

    The age that dirty pages reach in a larger pool depends on the speed of the load. So a larger pool has a range with
    two ends. PostgreSQL's checkpoints follow the clock, so each of its pools other than the traced one has a range.
    Without any run neither age nor speed is known, so that the pools of InnoDB and PostgreSQL have ranges.
    """

    ALSO_PRINTED: ClassVar = ("pages", "least_pages", "most_pages", "page_bytes", "copy_bytes", "waiting_share")

    ends: list[WritesEnd] = Field(max_length=2)
    """The ends of the range, the one with the slower load first. Empty if nothing is predicted."""
    why_not: str | None = None
    """The reason why the pages are not predicted; None if they are."""
    page_size_bytes: int = Field(gt=0)
    copies_per_page: float | None = Field(default=None, ge=0)
    """Copies in the doublewrite buffer for each page written: as counted in the traced run, or without a run by the
    setting. None if the run did not count them."""
    redo_bytes: int | None = Field(default=None, ge=0)
    """Bytes written to the redo log or WAL: those of the traced window, or the geometric mean of the two ends.

    None if the run did not count them, or, without a run, if the rules for them are not calibrated.
    """
    doubts: list[WritesDoubt] = []

    @property
    def least_pages(self) -> int | None:
        """Return the smaller number of pages of the two ends; None if nothing is predicted."""
        return min((end.pages for end in self.ends), default=None)

    @property
    def most_pages(self) -> int | None:
        """Return the larger number of pages of the two ends; None if nothing is predicted."""
        return max((end.pages for end in self.ends), default=None)

    @property
    def pages(self) -> int | None:
        """Return the predicted pages, with two ends their geometric mean; None if the ends are too far apart."""
        least, most = self.least_pages, self.most_pages
        if least is None or most is None or self.why_not:
            return None
        return least if least == most else isqrt(least * most)

    @property
    def page_bytes(self) -> int | None:
        """Return the bytes of the pages written to the data files."""
        return None if self.pages is None else self.pages * self.page_size_bytes

    @property
    def copy_bytes(self) -> int | None:
        """Return the bytes of the written pages' copies in the doublewrite buffer."""
        if self.page_bytes is None or self.copies_per_page is None:
            return None
        return round(self.page_bytes * self.copies_per_page)

    @property
    def bytes_of_ends(self) -> list[int]:
        """Return all bytes written at each end: pages, their copies, and the log; [] if a part is not known."""
        if self.pages is None or self.copies_per_page is None:
            return []
        each, found = self.page_size_bytes * (1 + self.copies_per_page), []
        for end in self.ends:
            log = self.redo_bytes if end.redo_bytes is None else end.redo_bytes
            if log is None:
                return []
            found.append(round(end.pages * each) + log)
        return found

    @property
    def waiting_share(self) -> float | None:
        """Return the share of reads that had to wait until a dirty page was written; of two ends, the larger share."""
        shares = [end.single_page_writes / end.reads for end in self.ends if end.reads]
        return None if self.pages is None else max(shares, default=0.0)


class PagesOfObject(_Strict):
    """The pages of one table or index, which have consecutive numbers in page-trace.parquet."""

    name: str
    first_page: int = Field(ge=0)
    pages: int = Field(ge=1)
    interior: int | None = Field(default=None, ge=0)
    """The number of pages above the leaves of a B-tree; they have the first numbers. None in traces that lack it."""


class CountedAccesses(_Strict):
    """The accesses of one kind in the measured window: the number recorded, and the engine's own count."""

    kind: str
    recorded: int = Field(ge=0)
    counter: str
    counted: int = Field(ge=0)
    at_edges: int = Field(default=0, ge=0)
    """Accesses recorded just outside the window, while the engine's counters at its edges were read; `counted` may
    include some."""


class PageTrace(_Strict):
    """The facts about a trace of page accesses. A trace lasts from the engine's start to its end.

    A failed trace has no page-trace.parquet, because a pool's content is unknown after a gap. The file of a dropped
    trace was complete, and was removed.
    """

    status: Literal["ok", "failed", "dropped"]
    reason: str | None = None
    hint: str | None = None
    page_size_bytes: int | None = Field(default=None, gt=0, le=1 << 30)
    start_ns: int | None = None
    """The value of CLOCK_MONOTONIC at the first access, from which delta_us counts; None if no access was recorded."""
    window_start_ns: int | None = None
    window_end_ns: int | None = None
    events: dict[str, int] = {}
    """The number of accesses by kind, inside and outside the window."""
    objects: list[PagesOfObject] = []
    counts: list[CountedAccesses] = []
    lost: int = Field(default=0, ge=0)
    """The number of accesses that were lost because the trace had no room for them."""
    spool_bytes: int = Field(default=0, ge=0)
    reader_cpu_us: float | None = Field(default=None, ge=0)
    """The processor time of the thread that reads the records; None if the engine's own thread recorded accesses."""
    recorder: Literal["engine", "inside", "uprobes"] | None = None
    """The recorder: the engine's own pool, bufferlab's code inside the server, or in earlier runs the kernel; None if
    unknown."""
    set_up_us: float | None = Field(default=None, ge=0)
    """The time that bufferlab's code inside the server took to prepare recording, before the server's first
    instruction.

    None for other recorders.
    """
    waits: int = Field(default=0, ge=0)
    """The number of times that a thread of the server waited for the thread that reads the records."""
    wait_us: float = Field(default=0.0, ge=0)
    """The time that all threads of the server together waited for the thread that reads the records."""

    @model_validator(mode="after")
    def _a_good_trace_has_its_window(self) -> PageTrace:
        moments = (self.start_ns, self.window_start_ns, self.window_end_ns)
        known = [moment for moment in moments if moment is not None]
        if self.status == "ok" and (len(known) < len(moments) or known != sorted(known) or known[0] < 0):
            raise ValueError("a good page trace begins before its window, which ends after it has begun")
        return self


class PlannedTraces(_Strict):
    """The plan of a sweep's page traces, as plan.json holds it."""

    recorder: Literal["inside", "uprobes"] | None
    """The recorder: bufferlab's code inside the server, or in earlier sweeps the kernel; None if no run has a page
    trace."""
    keep: KeepTraces
    by_name: bool
    """True if the user requested page traces explicitly, in the experiment or by an option."""
    why_not: str | None = None
    limit_bytes: int | None = Field(default=None, gt=0)
    """The user's limit, in bytes, for the file with a run's recorded accesses.

    None for the default, and in earlier sweeps.
    """


class Replayed(_Strict):
    """A buffer manager's counts for the accesses in the measured window. Accesses before it only filled the pool."""

    ALSO_PRINTED: ClassVar = ("reads",)

    gets: int = Field(ge=0)
    """Accesses to a page that must be read if it is not in the pool."""
    gets_if_in_pool: int = Field(ge=0)
    """Accesses that use a page only if it is in the pool, and never read it."""
    misses: int = Field(ge=0)
    """Pages read because a get needed them."""
    prefetch_reads: int = Field(ge=0)
    """Pages read ahead, before a get needed them."""
    creates: int = Field(ge=0)
    """New pages, which got a frame (a place in the pool) without a read."""
    evictions: int = Field(ge=0)
    """Pages that lost their frame to another page."""
    made_young: int = Field(ge=0)
    """Pages that InnoDB moved from the old sublist to the LRU list's head; 0 in other managers."""
    not_made_young: int = Field(ge=0)
    """InnoDB's accesses to old pages that came too early to move them; 0 in other managers."""
    guessed_scan_gets: int = Field(default=0, ge=0)
    """Gets that PostgreSQL's model assumed to be a scan's, because the trace does not mark scans; 0 in other
    managers."""
    ring_reuses: int = Field(default=0, ge=0)
    """Misses that reused a buffer of their scan's ring, without evicting a page outside it; 0 in other managers."""
    lru_writes: int = Field(default=0, ge=0)
    """Dirty pages that InnoDB's page cleaner or PostgreSQL's background writer wrote to free their frames."""
    flush_list_writes: int = Field(default=0, ge=0)
    """Dirty pages that InnoDB's page cleaner wrote because of their age or number; 0 in other managers."""
    single_page_writes: int = Field(default=0, ge=0)
    """Dirty pages that an InnoDB thread or a PostgreSQL session wrote itself, because it needed the page's frame."""
    checkpoint_writes: int = Field(default=0, ge=0)
    """Dirty pages that PostgreSQL's checkpoints wrote; 0 in other managers."""
    page_images: int = Field(default=0, ge=0)
    """Full-page images that PostgreSQL writes to its WAL, at a page's first change after a checkpoint begins; 0 in
    other managers."""
    frames_used: int = Field(ge=0)
    """Frames that hold a page at the window's end."""
    brought_in_since_start: int = Field(ge=0)
    """Pages that got a frame since the load began, except pages that a scan put into its own ring."""

    @property
    def reads(self) -> int:
        """Return all pages read."""
        return self.misses + self.prefetch_reads

    @property
    def writes(self) -> int:
        """Return all pages written. It is 0 in a replay that did not follow dirty pages."""
        return self.lru_writes + self.flush_list_writes + self.single_page_writes + self.checkpoint_writes

    @property
    def brought_in(self) -> int:
        """Return the pages that got a frame in the window, except pages that a scan put into its own ring."""
        return self.reads + self.creates - self.ring_reuses


class Verdict(_Strict):
    """A reason to doubt a prediction, as a name for programs and a sentence."""

    name: Literal[
        "own_point",
        "short_trace",
        "holds_all",
        "depends_on_speed",
        "purge_behind",
        "scan_depth",
        "guessed_scans",
        "read_ahead",
        "presumes",
        "hidden_accesses",
        "not_calibrated",
        "short_warm_up",
        "part_simulated",
    ]
    sentence: str


def _counts_transactions(work: dict[str, int]) -> dict[str, int]:
    if "transaction" not in work:
        raise ValueError("a run that is played tells its transactions")
    return work


Work = Annotated[
    dict[Literal["transaction", "new_order"], Annotated[int, Field(gt=0)]], AfterValidator(_counts_transactions)
]
"""The numbers of units of work in a window, by name; "transaction" is always one of the names."""


class TracedRun(_Strict):
    """The traced run from whose page trace the other points are predicted."""

    ALSO_PRINTED: ClassVar = ("own_error", "own_writes_error")

    run_id: str
    point: str
    engine_version: str
    page_trace_sha256: str
    pool_bytes: int = Field(gt=0)
    pool_frames: int = Field(gt=0)
    page_size_bytes: int = Field(gt=0)
    pages_touched: int = Field(ge=0)
    work: Work
    measured_reads: int = Field(ge=0)
    """Pages that the engine itself counted as read in the window."""
    modelled_reads: int = Field(ge=0)
    """Pages that the model reads in the window with the run's own settings."""
    measured_writes: int | None = Field(default=None, ge=0)
    """Pages that the engine itself counted as written in the window; None in earlier predictions, and if unknown."""
    modelled_writes: int | None = Field(default=None, ge=0)
    """Pages that the model writes in the window with the run's own settings; None if it predicts no writes."""

    @property
    def own_writes_error(self) -> float | None:
        """Return the relative error of the model's writes with the run's own settings (0.01 is 1 %); None if
        unknown."""
        if not self.measured_writes or self.modelled_writes is None:
            return None
        return self.modelled_writes / self.measured_writes - 1

    @property
    def own_error(self) -> float | None:
        """Return the relative error of the model's reads with the run's own settings, compared with the engine's count;
        0.01 is 1 %."""
        return self.modelled_reads / self.measured_reads - 1 if self.measured_reads else None


class SimulatedPart(_Strict):
    """The part of a database that was simulated: all, or a sample of it (crates/bufferlab-generate/src/scale.rs)."""

    warehouses: int = Field(ge=1)
    one_in: int = Field(ge=1)
    """One page in this many was simulated."""
    error: float | None = Field(ge=0)
    """The expected relative error of the misses.

    None if the whole database was simulated, or if there were no misses.
    """


STRETCHES = (50, 500, 2000)
"""The numbers of consecutive transactions in which distinct pages are counted.

They are `SPANS` in crates/bufferlab-generate/src/pools.rs.
"""


class Touches(_Strict):
    """How often transactions touched a group of pages in a measured window."""

    gets: float = Field(ge=0)
    """The gets and creations of these pages for each transaction."""
    pages: dict[int, Annotated[float, Field(ge=0)]]
    """Number of consecutive transactions -> mean number of distinct pages that they touch.

    Numbers larger than the window's have no entry.
    """


class ObjectTouches(Touches):
    """The touches of one table, index or other object of an engine in a measured window."""

    name: str
    interior: Touches | None = None
    """The touches of the pages above the leaves of a B-tree; None if a trace does not mark leaves."""


class GeneratedRun(_Strict):
    """A run whose page accesses were generated, without a server."""

    PRINTED: ClassVar = (
        "rules", "rules_version", "engine_version", "page_size_bytes", "database_bytes", "pages", "work", "simulated",
        "notes",
    )  # fmt: skip

    rules: str = Field(pattern=r"^[a-z0-9_]+$")
    """The Rust core's name for the rules by which the accesses were generated."""
    rules_version: int = Field(ge=1)
    engine_version: str
    page_size_bytes: int = Field(gt=0)
    database_bytes: int | None = Field(gt=0)
    """Data and indexes after the load, as an engine reports them; None for hot_rows, whose index on k has no rules."""
    pages: int = Field(gt=0)
    """Pages of the loaded database; of hot_rows without the pages of its index on k."""
    work: Work
    simulated: SimulatedPart
    notes: list[str] = []
    """The differences between the experiment and this run, in sentences."""
    touches: list[ObjectTouches] = []
    """The touches by table and index, in a run of the sweep's first block.

    That block's measured runs keep their traces.


    Empty in other blocks, and if only a part of the database was simulated.
    """


class Prediction(_Strict):
    """How a model predicted a run: from which accesses, with which settings, and with which doubts.

    The accesses are those of a traced run, or they were generated.
    """

    ALSO_PRINTED: ClassVar = ("reads_per", "misses_per", "writes_per")

    model: str = Field(pattern=r"^[a-z0-9_]+$")
    model_version: int = Field(ge=1)
    traced: TracedRun | None = None
    generated: GeneratedRun | None = None
    values: dict[str, int]
    """The values of all settings of the model with which it was run, except the pool's size."""
    pool_bytes: int = Field(gt=0)
    pool_frames: int = Field(gt=0)
    """The number of frames of the pool.

    With a traced run: the pool's bytes times the frames per byte that the engine had there. With a generated run: the
    pool's bytes divided by the page size.
    """
    nominal_frames: int = Field(gt=0)
    """The pool's bytes divided by the page size: the frames with which LRU and OPT were replayed for comparison."""
    found: Replayed | None
    """The model's counts in the window; None if the reads depend on the speed of the run."""
    replays: dict[str, Replayed]
    """Name of a speed -> counts of the replay at that speed; empty if no setting makes reads depend on speed."""
    lru: Replayed
    opt: Replayed | None = None
    """The counts of OPT with `nominal_frames`.

    None for generated accesses: OPT looks ahead, but these accesses are not kept.
    """
    writes: PredictedWrites | None = None
    """The predicted writes; None in earlier predictions, and for models and accesses that have none."""
    turnovers: float = Field(ge=0)
    """How often the whole pool was replaced: the pages that enter this pool from the load's first transaction on,
    divided by its frames."""
    turnovers_before: float = Field(ge=0)
    """The turnovers (as in `turnovers`) before the window began."""
    is_traced_point: bool
    """Whether this is the traced run's own point."""
    verdicts: list[Verdict]

    @model_validator(mode="before")
    @classmethod
    def _of_this_version(cls, stored: Any) -> Any:
        if isinstance(stored, dict) and "ends" in stored:
            raise ValueError("an earlier version predicted it: run `bufferlab predict` again")
        return stored

    @model_validator(mode="after")
    def _has_one_source(self) -> Prediction:
        if (self.traced is None) == (self.generated is None):
            raise ValueError("the accesses of a prediction are a trace's, or they were generated")
        return self

    @property
    def accesses(self) -> TracedRun | GeneratedRun:
        """Return the run, traced or generated, whose accesses the model replayed."""
        found = self.traced or self.generated
        assert found is not None
        return found

    @property
    def work(self) -> Work:
        """Return the units of work in the window."""
        return self.accesses.work

    @property
    def reads_per(self) -> dict[str, dict[str, float]]:
        """Return the reads per unit of work of each replay: "found", "lru", "opt", and those of `replays`."""
        return self._per(lambda one: one.reads)

    @property
    def misses_per(self) -> dict[str, dict[str, float]]:
        """Return the misses per unit of work of each replay, under the keys of `reads_per`."""
        return self._per(lambda one: one.misses)

    @property
    def writes_per(self) -> dict[str, dict[str, float]]:
        """Return the pages written per unit of work: "least", "pages", "most"; empty if they are not predicted."""
        told = self.writes
        if told is None or told.pages is None or told.least_pages is None or told.most_pages is None:
            return {}
        counts = {"least": told.least_pages, "pages": told.pages, "most": told.most_pages}
        return {name: {unit: pages / count for unit, count in self.work.items()} for name, pages in counts.items()}

    def _per(self, of: Callable[[Replayed], int]) -> dict[str, dict[str, float]]:
        replayed = {"found": self.found, "lru": self.lru, "opt": self.opt, **self.replays}
        return {
            name: {unit: of(one) / count for unit, count in self.work.items()}
            for name, one in replayed.items()
            if one is not None
        }


class OtherPool(_Strict):
    """The reads that a model predicts for a pool of one size."""

    pool_bytes: int = Field(gt=0)
    pool_frames: int = Field(gt=0)
    reads: int | None = Field(ge=0)
    """Pages read in the traced window; None if the number depends on the speed of the run."""
    writes: PredictedWrites | None = None
    """The predicted writes; None in earlier predictions, and for models that have none."""
    is_traced_point: bool
    verdicts: list[Verdict]


class PoolsOfTrace(_Strict):
    """The reads that a model predicts for pools of other sizes, in the window of one traced run."""

    model: str = Field(pattern=r"^[a-z0-9_]+$")
    model_version: int = Field(ge=1)
    traced: TracedRun
    pools: list[OtherPool] = Field(min_length=1, max_length=1000)


class GeneratedReads(_Strict):
    """The reads that a model predicts in the window of one generated run."""

    seed: int
    reads: int | None = Field(ge=0)
    """Pages read in the generated window; None if the number depends on the speed of the run."""
    work: Work


class GeneratedPoint(_Strict):
    """The prediction of a measured point from generated page accesses, without any run."""

    index: int = Field(ge=0)
    """The point's place in the plan."""
    pool_bytes: int = Field(gt=0)
    runs: list[GeneratedReads] = Field(min_length=1, max_length=1000)
    verdicts: list[Verdict]


class GeneratedPoints(_Strict):
    """The predictions of measured points from generated page accesses, with their rules of access and model."""

    rules: str = Field(pattern=r"^[a-z0-9_]+$")
    rules_version: int = Field(ge=1)
    model: str = Field(pattern=r"^[a-z0-9_]+$")
    model_version: int = Field(ge=1)
    engine_version: str
    points: list[GeneratedPoint] = Field(min_length=1, max_length=10_000)


class OtherPools(_Strict):
    """The content of other-pools.json: the reads that models predict for a measured sweep.

    Some are made before the sweep's first run, from generated accesses. The others are made after its last run, from
    its page traces.
    """

    format: Literal["bufferlab-other-pools"] = "bufferlab-other-pools"
    format_version: Literal[1] = 1
    of: list[PoolsOfTrace] = Field(max_length=100)
    """The predictions from traced runs: one entry per group of points that differ only in the pool's size."""
    generated: GeneratedPoints | None = None
    """The predictions from generated page accesses; None if there are none."""
