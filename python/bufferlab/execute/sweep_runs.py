"""Does the runs of a plan that a folder lacks, one after another, with one backend. It knows no engine and no model.

A backend fills a run: that of an engine measures it, that of a model predicts it. The steps around a run are the same
for both. Each run is published; a failed run is published with its failure.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from bufferlab.chapter import stopping
from bufferlab.chapter.analysis import Analysis
from bufferlab.errors import BufferlabError, Failure, Interrupted, Problem, causes, is_full
from bufferlab.execute import resume
from bufferlab.execute.progress import Pace, Progress, Standing, SweepStatus
from bufferlab.execute.run.run_checks import longer_warm_up, warnings
from bufferlab.execute.run.supervise import interrupted
from bufferlab.execute.stop import StopRequest
from bufferlab.knob import AUTO
from bufferlab.plan import GridPoint, Plan, PlannedRun
from bufferlab.results import schema
from bufferlab.results.keys import actual_key
from bufferlab.results.metrics import WORK, Work
from bufferlab.results.schema import Run, StoredFailure, StoredSetting, StoredStop
from bufferlab.results.store import RunRecord, SweepFolder, new_run_id
from bufferlab.stats.stopping import FIRST_LOOK_BLOCKS

_LOG = logging.getLogger(__name__)

OnStage = Callable[[str, float], None]
"""A function that gets the stage of a run, and the completed fraction (0 to 1) of this stage."""


@dataclass
class FilledRun:
    """The results of a run so far. They are published even if the run fails."""

    run: Run
    """The future content of run.json. It is validated as a whole when it is published."""
    samples: list[dict[str, Any]] = field(default_factory=list)
    latency: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    beside: dict[str, str] = field(default_factory=dict)
    """The texts of additional files of the run folder, by file name."""
    tables: dict[str, Path] = field(default_factory=dict)
    """The paths, before publication, of additional Parquet files of the run folder, by file name."""

    def end(self, failure: Failure | None) -> None:
        """Record how the run ended: ok without a failure, else interrupted or failed by the failure's kind."""
        ended_badly: Literal["failed", "interrupted"] = "failed"
        if failure is not None and failure.kind == "interrupted":
            ended_badly = "interrupted"
        self.run.status = "ok" if failure is None else ended_badly
        self.run.failure = StoredFailure(**asdict(failure)) if failure else None

    def ran(self, settings: dict[str, StoredSetting], engine_version: str) -> None:
        """Record the settings in effect, the engine's version, and the key of both."""
        run = self.run
        run.settings, run.engine_version = settings, engine_version
        run.actual_key = actual_key(
            engine=run.engine,
            engine_version=engine_version,
            workload=run.workload,
            knobs_actual={name: one.actual for name, one in settings.items()},
        )


class Backend(Protocol):
    """An engine or a model, ready for the runs of one sweep."""

    def begun(self, planned: PlannedRun, point: GridPoint, /, **common: Any) -> Run:
        """Return the content of run.json when a run begins: the `common` fields, and those of this backend."""

    def home(self, run_id: str) -> AbstractContextManager[Path]:
        """Context manager for the folder that a run may work in; leaving always removes the folder."""

    def do(
        self, planned: PlannedRun, point: GridPoint, home: Path, filled: FilledRun, on_stage: OnStage
    ) -> Failure | None:
        """Do the run and store its results. Return why it cannot be used; None if it can.

        Raises BufferlabError or OSError if the run ends early: it is published as failed or interrupted.
        """

    def leave(self, home: Path, filled: FilledRun) -> None:
        """Clean up after the run, before it is published, however it ended."""

    def seconds_left(self, point: GridPoint, stage: str, share: float, spent_s: float) -> float:
        """Return the seconds that a run still needs, `spent_s` into a stage of which a fraction (`share`) is done."""


def execute_run(
    backend: Backend, folder: SweepFolder, planned: PlannedRun, point: GridPoint, on_stage: OnStage, stop: StopRequest
) -> RunRecord:
    """Do the run and publish it as ok, failed or interrupted. Raises only if the run cannot be published."""
    run = backend.begun(
        planned,
        point,
        run_id=new_run_id(),
        experiment=folder.experiment,
        point_key=point.point_key,
        point=schema.Point(index=point.index, label=point.label, swept=point.swept),
        repetition=planned.repetition,
        block=planned.block,
        order=planned.order,
        settings=point.stored(),
        status="failed",
        failure=StoredFailure(kind="internal", what="the run did not end"),
        started_at=(now := _now()),
        ended_at=now,
    )
    filled = FilledRun(run)
    on_stage("preparing", 0.0)
    with backend.home(run.run_id) as home:
        try:
            filled.end(backend.do(planned, point, home, filled, on_stage))
        except Interrupted:
            filled.end(interrupted(stop))
        except BufferlabError as error:
            _LOG.debug("the run's error, with its causes:\n%s", causes(error))
            filled.end(error.failure)
        except OSError as error:
            _LOG.debug("the run's error, with its causes:\n%s", causes(error))
            filled.end(_refused_by_disk(error, home.parent))
        finally:
            backend.leave(home, filled)
        filled.run.ended_at = _now()
        on_stage("publishing", 0.0)
        return folder.publish_run(filled.run, filled.samples, filled.latency, filled.log, filled.beside, filled.tables)


def _refused_by_disk(error: OSError, folder: Path) -> Failure:
    """Return the failure of a run whose copy of the database could not be written to the disk."""
    if is_full(error):
        what = "no space left for the run's copy of the database"
        return Failure(what, str(folder), "free some space, or choose another directory with --data-dir", "full_disk")
    return Failure(str(error), str(folder), None, "io")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


_POINTS_OF_A_LOOK = 50
"""Up to this number of points, computing the preliminary answer takes little time compared with a run.

It compares every pair of points.
"""


@dataclass
class SweepOutcome:
    """The folder of a sweep, and how the sweep ended."""

    folder: SweepFolder
    failed: int = 0
    refused: int = 0
    """How many of the failed runs had refused settings or statements, so that a retry does not help."""
    longer_warm_ups: tuple[str, ...] = ()
    """The options of `run` that double those caps which ended warm-ups of failed runs."""
    signal_number: int | None = None
    """The number of the signal that interrupted the sweep; None if none did."""


@dataclass
class SweepRuns:
    """The runs of a plan, with the backend that does them."""

    plan: Plan
    folder: SweepFolder
    backend: Backend
    progress: Progress
    stop: StopRequest
    pace: Pace
    looks: bool = False
    """Whether the display gets a preliminary answer between runs."""
    on_end: Callable[[Mapping[str, float]], None] = lambda stages: None
    """A function that gets the seconds of each stage of a run that ended well."""
    _warned: set[str] = field(default_factory=set)
    _failed_as: dict[Failure, int] = field(default_factory=dict)
    """For each failure, the number of the first run that had it."""

    @property
    def _blocks(self) -> int:
        """Return the number of blocks to do: as decided so far if the number is "auto", else the plan's."""
        return self.folder.stop.blocks if self.folder.stop else self.plan.experiment.design.most

    @property
    def _runs(self) -> int:
        return sum(run.block < self._blocks for run in self.plan.runs)

    @property
    def _runs_a_look(self) -> int:
        """Return the number of runs between two preliminary answers.

        The time for an answer grows with the square of the points.
        """
        return max(1, len(self.plan.points) // _POINTS_OF_A_LOOK) ** 2

    def _is_over(self, run: PlannedRun) -> bool:
        """Return whether this run's block is not needed. After the first blocks, decide how many blocks are needed."""
        stop = self.folder.stop
        if stop is not None and stop.enough is None and run.block >= stop.blocks:
            analysis = Analysis.of(self.folder)
            enough = stopping.is_enough(analysis)
            most = self.plan.experiment.design.most
            blocks = FIRST_LOOK_BLOCKS if enough else stopping.blocks_needed(analysis, most)
            self.folder.write_stop(StoredStop(blocks=blocks, enough=enough))
            self.progress.say(stopping.said(analysis))
        return run.block >= self._blocks

    def begin(self) -> None:
        """If the results decide the number of blocks, store in the folder how many blocks are done in any case.

        If missing runs of the deciding blocks are done only now, these blocks are judged again with them.
        """
        stop = self.folder.stop
        if stop is not None and stop.enough:
            lacking = resume.to_do(self.plan, self.folder)
            stop = None if any(run.block < stop.blocks for run in lacking) else stop
        if self.plan.experiment.design.repetitions == AUTO and stop is None:
            self.folder.write_stop(StoredStop(blocks=FIRST_LOOK_BLOCKS, enough=None))

    def do(self) -> SweepOutcome:
        """Do and publish the runs that the folder lacks, one after another.

        End when all are done, when the finished blocks suffice ("auto"), or when a signal requests a stop.
        """
        outcome = SweepOutcome(self.folder)
        resuming = bool(self.folder.runs())
        todo = resume.to_do(self.plan, self.folder)
        if resuming:
            resume.supersede_all(self.folder)
            left = sum(run.block < self._blocks for run in todo)
            self.progress.say(f"{self._before(todo)} of {self._runs} runs are there; {left} to do")
        earlier = self.folder.runs()  # Call this once, not after each run: it reads and hashes all files.
        runs = {(record.run.point.index, record.run.block): record for record in earlier}
        self._look(runs, todo)
        refused, refused_again = resume.refused_cells(self.folder), set[int]()
        for place, run in enumerate(todo):
            if self.stop.requested or self._is_over(run):
                break
            if run.cell in refused and run.point in refused_again:
                self._leave(outcome, self._before(todo) + place + 1, run)
                continue
            record = self._run(todo, place)
            resume.supersede(self.folder, earlier, record)
            runs[run.cell] = record
            if place % self._runs_a_look == 0:
                self._look(runs, todo[place + 1 :])
            outcome.failed += record.run.status == "failed"
            if record.failure and record.run.warm_up and record.run.warm_up.gate == "cap":
                option = longer_warm_up(self.plan.experiment.warm_up, record.run.warm_up)
                outcome.longer_warm_ups = tuple(dict.fromkeys((*outcome.longer_warm_ups, option)))
            if record.failure is not None and record.failure.lasts:
                outcome.refused += 1
                refused_again.add(run.point)
        outcome.signal_number = self.stop.signal_number
        return outcome

    def _look(self, runs: Mapping[tuple[int, int], RunRecord], later: Sequence[PlannedRun]) -> None:
        """Show the preliminary answer, from the last run of each point and block."""
        if self.looks:
            left_s = sum(self.pace.expected(run.point) for run in later if run.block < self._blocks)
            # Allow for a run that takes twice as long as any before it, loads its database, and is silent until it is
            # given up.
            silence_s = 2 * self._runs_a_look * self.pace.longest_s + self.pace.load_seconds
            silence_s += self.plan.experiment.limits.worker_silent
            self.progress.look(Standing(self.folder, list(runs.values()), left_s, silence_s))

    def _before(self, todo: list[PlannedRun]) -> int:
        return len(self.plan.runs) - len(todo)

    def _run(self, todo: list[PlannedRun], place: int) -> RunRecord:
        run, started = todo[place], time.monotonic()
        point, begun_s = self.plan.points[run.point], dict[str, float]()
        reporter = self._stage_reporter(todo, place, started, begun_s)
        record = execute_run(self.backend, self.folder, run, point, reporter, self.stop)
        self.pace.finish(run.point, seconds := time.monotonic() - started)
        stages = stage_seconds(begun_s, seconds)
        _LOG.info("%s, block %d: %s", point.label, run.block + 1, stages_in_words(stages))
        if record.ok:
            self.on_end(stages)
        self._warn(record.run)
        self._tell(record, self._before(todo) + place + 1)
        return record

    def _leave(self, outcome: SweepOutcome, number: int, run: PlannedRun) -> None:
        """Count a run as failed without trying it: another run of its point was refused again."""
        outcome.failed += 1
        outcome.refused += 1
        label = f"run {number} of {self._runs}: {self.plan.points[run.point].label}, block {run.block + 1}"
        self.progress.say(f"{label}: not tried: its settings were refused again at this point")

    def _warn(self, run: Run) -> None:
        """Show a warning for each way in which a run differs from the experiment.

        Each warning is given once per sweep.
        """
        for text in warnings(run.integrity):
            if text not in self._warned:
                self._warned.add(text)
                where = f"first at point {run.point.label}"
                self.progress.warn(Problem(text, where, "reports show what was asked and what was run"))

    def _tell(self, record: RunRecord, number: int) -> None:
        """Report how a run ended. The reason of a failure is given once; later reports name the run that has it."""
        label = f"run {number} of {self._runs}: "
        first = self._failed_as.setdefault(record.failure, number) if record.failure else number
        if record.run.status == "ok":
            self.progress.say(label + describe(record))
        elif first < number:
            place = f"{record.run.point.label}, block {record.run.block + 1}"
            self.progress.warn(Problem(f"{label}{place}: failed as run {first} did"))
        else:
            self.progress.warn(Problem(label + describe(record), None, "its files are in its run folder"))

    def _stage_reporter(
        self, todo: list[PlannedRun], place: int, started: float, begun_s: dict[str, float]
    ) -> Callable[[str, float], None]:
        """Return a function that gets a run's stage and its completed fraction, and shows the whole sweep's progress.

        `begun_s` gets how many seconds after `started` each stage began.
        """
        run = todo[place]
        point = self.plan.points[run.point]
        label = f"{point.label}, block {run.block + 1}"
        later = [run.point for run in todo[place + 1 :] if run.block < self._blocks]

        def on_stage(stage: str, share: float) -> None:
            now_s = time.monotonic() - started
            in_stage_s = now_s - begun_s.setdefault(stage, now_s)
            stage_left_s = self.backend.seconds_left(point, stage, share, in_stage_s)
            left = self.pace.left(run.point, later, now_s, stage_left_s)
            spent = sum(self.pace.finished_s) + now_s
            shown = f"{stage} {share:.0%}" if share else stage
            done = spent / max(spent + left, 1e-9)
            self.progress.show(SweepStatus(shown, self._before(todo) + place + 1, self._runs, label, done, left))

        return on_stage


def stage_seconds(begun_s: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return the seconds of each stage of a run, given when each began and when the last one ended.

    >>> stage_seconds({"copying": 0.0, "measuring": 0.5}, 2.25)
    {'copying': 0.5, 'measuring': 1.75}
    """
    ends_s = [*list(begun_s.values())[1:], seconds]
    return {name: end_s - begun_s[name] for name, end_s in zip(begun_s, ends_s, strict=True)}


def stages_in_words(stages: Mapping[str, float]) -> str:
    """Return the stages of a run with the seconds of each.

    >>> stages_in_words({"copying": 0.5, "measuring": 1.75})
    'copying 0.50 s, measuring 1.75 s'
    """
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in stages.items())


def describe(record: RunRecord) -> str:
    """Return a run and its outcome in one line, for people: its point, block and transactions, or why it failed."""
    run, label = record.run, f"{record.run.point.label}, block {record.run.block + 1}"
    if run.prediction and record.ok:
        # Use the same unit of work as the tables of the final report.
        work = run.prediction.work
        unit: Work = "new_order" if "new_order" in work else "transaction"
        if found := run.prediction.found:
            return f"{label}: {found.reads / work[unit]:.4g} reads per {WORK[unit]}"
        return f"{label}: depends on the speed"
    measured = run.measured
    spent = f"{measured.transactions:,} transactions in {measured.seconds:.1f} s" if measured else ""
    return f"{label}: {record.reason or spent}"
