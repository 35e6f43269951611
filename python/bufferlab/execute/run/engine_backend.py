"""Measures one run on its engine: copies its database, measures, and checks the data afterwards.

The copy is always deleted.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bufferlab import marked
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.servers.child_process import tail
from bufferlab.errors import Failure, Interrupted, RunFailed
from bufferlab.execute.data.copy_method import Method, restore
from bufferlab.execute.data.datasets import Dataset, database_name
from bufferlab.execute.host.reachable import Owner, open_way
from bufferlab.execute.host.restore_host import restore_host
from bufferlab.execute.probes.block_trace_probe import BlockTraceAsked
from bufferlab.execute.probes.command_line_probe import EndedRun
from bufferlab.execute.probes.page_trace_probe import PageTraceAsked
from bufferlab.execute.rates import KnownRates
from bufferlab.execute.run.jobs import check_job, run_job, run_workload, stored_conditions, violations
from bufferlab.execute.run.run_checks import check_run, fatal, started_with
from bufferlab.execute.run.supervise import Event, Worker
from bufferlab.execute.stop import StopRequest
from bufferlab.execute.sweep_runs import FilledRun, OnStage
from bufferlab.plan import GridPoint, PlannedRun, settle_transactions, stored_workload
from bufferlab.plan.estimate import window_seconds
from bufferlab.results.schema import Database, Measured, PhaseDone, Run, Shape, StoredSetting, WarmUp
from bufferlab.results.store import SweepFolder, latency_rows, sample_rows
from bufferlab.spec import Experiment

_LOG = logging.getLogger(__name__)
COPYING, STARTING, WARMING_UP, MEASURING = "copying", "starting", "warming up", "measuring"
_SERVER = "server"
"""The folder, next to a run's database, for its server's socket, logs and PID file."""
_ESTIMATED_APART = {"preparing", COPYING, WARMING_UP, "checking"}
"""The stages, other than windows, for which the estimate has separate times."""
_STAGES = {"warm_up": WARMING_UP, "measure": MEASURING, "closing": "closing"}

AskedProbe = PageTraceAsked | BlockTraceAsked
"""A probe for which the user asks on the command line, in addition to those that every run has."""


@dataclass
class SweepContext:
    """The parts of a measured sweep that each of its runs uses: experiment, engine, folders, probes, rates."""

    experiment: Experiment
    engine: EngineDeclaration
    folder: SweepFolder
    scratch: Path
    method: Method
    versions: dict[str, str]
    host_id: str
    stop: StopRequest
    rates: KnownRates
    owner: Owner | None = None
    """The user that the server runs as, who then owns the copies of the database; None if they belong to bufferlab's
    user."""
    probes: tuple[AskedProbe, ...] = ()
    """The probes that the user requested, in addition to those of every run."""

    def worker(self, home: Path) -> Worker:
        """Return a new worker for the jobs of a run, with its log in the folder `home`."""
        silent_seconds = self.experiment.limits.worker_silent
        return Worker(self.engine.name, log_file=home / "worker.log", stop=self.stop, silent_seconds=silent_seconds)


@dataclass(frozen=True)
class EngineBackend:
    """The backend that measures: a worker runs the engine on a copy of the database that the point needs."""

    context: SweepContext
    dataset: Callable[[GridPoint], Dataset]
    """A function that returns the database of a point, loaded first if the cache lacks it."""

    def begun(self, planned: PlannedRun, point: GridPoint, /, **common: Any) -> Run:
        """Return a new run with the source, clock, seed and host of a measurement."""
        context, engine = self.context, self.context.engine
        return Run(
            **common,
            source=engine.source,
            inputs=engine.inputs,
            clock=engine.clock,
            engine=engine.name,
            workload=stored_workload(context.experiment, point),
            load=point.arrivals,
            seed=_seed(context, planned),
            host=context.host_id,
            versions=context.versions,
        )

    @contextmanager
    def home(self, run_id: str) -> Iterator[Path]:
        """Context manager for the folder of the run's copy of its database; leaving removes the folder."""
        home = self.context.scratch / run_id
        try:
            yield home
        finally:
            marked.clear(home)

    def do(
        self, planned: PlannedRun, point: GridPoint, home: Path, filled: FilledRun, on_stage: OnStage
    ) -> Failure | None:
        """Measure the point once, in the new folder `home`. Return why the run cannot be used; None if it can."""
        home.mkdir()
        open_way(home, self.context.owner)
        return _OneRun(self.context, point, self.dataset(point), home, filled, on_stage).do()

    def leave(self, home: Path, filled: FilledRun) -> None:
        """Keep the ends of the logs of a failed run, and restore host settings that its worker left changed."""
        if filled.run.status != "ok":
            filled.log += _log_ends(home)
        for said in restore_host():  # A killed worker could not restore the settings itself.
            filled.log += f"{said}\n"

    def seconds_left(self, point: GridPoint, stage: str, share: float, spent_s: float) -> float:
        """Return the remaining seconds of a run's window; before the window, those of the whole window; after it, 0."""
        if stage == MEASURING:
            return _window_left_s(self.context.experiment, share, spent_s)
        if stage in (COPYING, STARTING, WARMING_UP):
            return window_seconds(self.context.experiment, point, self.context.rates.now)
        return 0.0


def observe_other_stages(rates: KnownRates, stages: Mapping[str, float]) -> None:
    """Record how long a run took in stages that the estimate does not treat separately.

    `stages` has the seconds of each stage.
    """
    seconds = sum(
        spent_s for name, spent_s in stages.items() if name not in _ESTIMATED_APART and not name.startswith(MEASURING)
    )
    rates.observe("runs_per_s", 1, seconds)


@dataclass
class _OneRun:
    """One run while it is measured."""

    context: SweepContext
    point: GridPoint
    dataset: Dataset
    home: Path
    filled: FilledRun
    on_stage: OnStage
    sizes: list[int] = field(default_factory=list)
    """The bytes of the database at the edges of the measured window, from the worker's events so far."""
    status_texts: list[Event] = field(default_factory=list)
    phase_began_s: float = 0.0
    """The start of the current phase, in seconds on the monotonic clock."""

    @property
    def database(self) -> Path:
        """Return the path of the run's copy of the database; of the database itself if runs only read it."""
        engine = self.context.engine
        return self.dataset.database if engine.data_is_read_only else self.home / database_name(engine)

    @property
    def _loaded_bytes(self) -> int:
        """Return the bytes of the loaded database, as estimates and percentages use them.

        In a data directory only the tables and indexes count, and neither logs nor system tables.
        """
        is_file = self.context.engine.data_kind == "file"
        return self.dataset.size_bytes if is_file else self.dataset.allocated_bytes

    def do(self) -> Failure | None:
        """Copy the database, measure, store the answer, and check the data.

        Return why the run cannot be used; None if it can.
        """
        self.filled.run.data_key = self.dataset.data_key
        with self.context.worker(self.home) as worker:  # The worker imports its engine while the database is copied.
            if not self.context.engine.data_is_read_only:
                self._restore()
            self.on_stage(STARTING, 0.0)
            return self._measure(worker)

    def _measure(self, worker: Worker) -> Failure | None:
        context, filled, dataset = self.context, self.filled, self.dataset
        job = run_job(context.experiment, self.point, filled.run.seed, self.database)
        probes = {probe.name: probe.job(self.home) for probe in context.probes}
        try:
            outcome = worker.do("run", job | ({"probes": probes} if probes else {}), self._hear)
        finally:
            if self.status_texts:
                filled.beside["engine_status.txt"] = _engine_status(self.status_texts)
        filled.log = outcome.log
        ended = EndedRun(
            context.engine.name, outcome.result, self.home, self.database, filled.samples, filled.run.block
        )
        self._keep_tables(ended)
        filled.run.database = Database(
            bytes_loaded=self._loaded_bytes,
            bytes_start=self.sizes[0] if self.sizes else None,
            bytes_end=self.sizes[-1] if len(self.sizes) > 1 else None,
            shape=Shape.model_validate(dataset.shape) if dataset.shape else None,
        )
        if outcome.result is not None:
            self._keep_result(outcome.result)
        if outcome.failure is not None:
            return outcome.failure
        assert outcome.result is not None
        return self._check(worker, outcome.result)

    def _restore(self) -> None:
        self.on_stage(COPYING, 0.0)
        started, context = time.monotonic(), self.context
        restore(self.dataset.database, self.database, context.method, context.stop.check, context.owner)
        context.rates.observe("restore_bytes_per_s", self.dataset.size_bytes, time.monotonic() - started)

    def _hear(self, event: Event) -> None:
        """Store the samples, status texts and database sizes in a worker's events; pass its progress on."""
        match event.get("event"):
            case "status_text":
                # InnoDB's monitor quotes statements and rows, so its text is not stored for a user's own data.
                if self.context.experiment.workload.dump is None:
                    self.status_texts.append(event)
            case "sample":
                self.filled.samples += sample_rows(event)
                if event.get("edge") and event["phase"] == "measure":
                    self.sizes += [
                        int(value["value"])
                        for value in event["values"]
                        if value["metric"] == "db_bytes" and value.get("value") is not None
                    ]
            case "progress":
                self.on_stage(_stage(event), self._share(event))
            case "phase":
                self.phase_began_s = time.monotonic()
                self.on_stage(_stage(event), 0.0)

    def _share(self, event: Event) -> float:
        """Return the completed fraction of a phase. For a window of fixed time it is a fraction of time."""
        measure = self.context.experiment.measure
        if _stage(event) == MEASURING and measure.transactions is None:
            return min(1.0, (time.monotonic() - self.phase_began_s) / measure.max_seconds)
        return event["done"] / event["total"] if event.get("total") else 0.0

    def _keep_tables(self, ended: EndedRun) -> None:
        """Store the tables of the requested probes, or the reasons why they are missing, which do not fail the run."""
        for probe in self.context.probes:
            self.on_stage(f"keeping the {probe.name.replace('_', ' ')}", 0.0)
            trace, table = probe.keep(ended)
            setattr(self.filled.run, probe.name, trace)
            if table is not None:
                self.filled.tables[table.name] = table

    def _keep_result(self, result: dict[str, Any]) -> None:
        context, filled, run = self.context, self.filled, self.filled.run
        filled.latency = latency_rows(result["latency"])
        filled.ran(_settings(self.point, result), result["engine_version"])
        run.workload = {**run.workload, "drawn": result.get("drawn")}
        settle = settle_transactions(context.experiment, self.point)
        run.warm_up, run.measured = _warm_up(result["warm_up"], settle), Measured(**result["measured"])
        if warm := run.warm_up:
            _LOG.info("%s, block %d: the window began by the gate %s, after %.4g s and %d transactions",
                      run.point.label, run.block + 1, warm.gate, warm.seconds, warm.transactions)  # fmt: skip
        run.phases = [PhaseDone(**done) for done in result["phases"]]
        started = started_with(result, self.dataset, context.method, in_place=context.engine.data_is_read_only)
        checked = check_run(context.experiment, context.engine, self.point, run, result, filled.samples)
        run.integrity = [started, *checked]
        if result.get("engine_conf"):
            filled.beside["engine.conf"] = result["engine_conf"]
        if run.load.mode == "closed":  # In an open loop the measured rate is the requested one, not the highest.
            context.rates.observe("transactions_per_s", run.measured.transactions, run.measured.seconds)
        if run.warm_up and not run.warm_up.at_cap and run.warm_up.gate != "cold":
            context.rates.observe("warm_up_bytes_per_s", self._loaded_bytes, result["warm_up"]["seconds"])

    def _check(self, worker: Worker, result: dict[str, Any]) -> Failure | None:
        """Check the workload's consistency conditions after the window; return why the run cannot be used, or None.

        Raises RunFailed if a condition is violated or cannot be checked, and Interrupted if the check was stopped.
        """
        context, run = self.context, self.filled.run
        self.on_stage("checking", 0.0)
        started = time.monotonic()
        workload = run_workload(context.experiment.workload, self.point)
        job = check_job(
            workload, self.database, result["delivered_orders"], is_last=not context.engine.data_is_read_only
        )
        outcome = worker.do("check", job, lambda event: None)
        self.filled.log = outcome.log
        if outcome.failure is not None:
            failure = outcome.failure
            if failure.kind == "interrupted":
                raise Interrupted(context.stop.signal_number or 2)
            what = f"the consistency check failed: {failure.what}"
            raise RunFailed(what, failure.where, failure.hint, kind=failure.kind)
        assert outcome.result is not None
        grown_bytes = self.sizes[-1] if self.sizes else self._loaded_bytes
        context.rates.observe("check_bytes_per_s", grown_bytes, time.monotonic() - started)
        run.consistency = stored_conditions(outcome.result)
        broken = violations(outcome.result)
        if broken:
            raise RunFailed(f"the data is inconsistent after the run: {broken}", kind="data")
        return fatal(context.experiment, run)


def _seed(context: SweepContext, planned: PlannedRun) -> int:
    """Return the block's seed, so that the points of a block are paired; a fresh seed if runs read data in place.

    A run that reads data in place must read other parts of it than earlier runs. A cache below this host (such as a
    hypervisor's) may still hold the earlier parts, and cannot be dropped from here.
    """
    return secrets.randbits(53) if context.engine.data_is_read_only else planned.seed


def _stage(event: Event) -> str:
    phase = str(event["phase"])
    return _STAGES.get(phase, f"measuring {phase}")


def _settings(point: GridPoint, result: dict[str, Any]) -> dict[str, StoredSetting]:
    """Return the settings of run.json: each as planned, with the value that the engine read back and its note on it.

    If the engine reports a value that belongs to no setting of the point, store it under the engine's name for it.
    """
    told, settings = dict(result["actual"]), point.stored()
    for name, setting in settings.items():
        # The engine reads back only its own settings. Those of load and workload run as planned.
        setting.actual = told.pop(name, None) if name in point.engine else setting.planned
        setting.note = result.get("notes", {}).get(name, "")
    return settings | {name: StoredSetting(actual=value) for name, value in told.items()}


def _warm_up(told: dict[str, Any], settle: int) -> WarmUp | None:
    """Return the warm-up: its gate, seconds and transactions, which every engine reports, and other values as `detail`.

    `settle` is the number of transactions for which the gate waited, so that updated rows had moved; 0 if it did not
    wait. Return None if the warm-up was interrupted.
    """
    if told["gate"] is None:
        return None
    common = {name: told[name] for name in ("gate", "seconds", "transactions")}
    detail = {name: value for name, value in told.items() if name not in common}
    return WarmUp(**common, detail=detail | ({"settle_transactions": settle} if settle else {}) or None)


def _window_left_s(experiment: Experiment, share: float, spent_s: float) -> float:
    """Return the seconds that the measured window still needs.

    They are extrapolated from the completed fraction of its transactions, and are limited by the window's cap.
    """
    until_cap_s = max(0.0, experiment.measure.max_seconds - spent_s)
    if experiment.measure.transactions is None:
        return until_cap_s
    return min(until_cap_s, spent_s * (1 - share) / share) if share else 0.0


def _engine_status(events: Sequence[Mapping[str, Any]]) -> str:
    """Return the status texts one after the other, each under a line with its time."""
    return "\n".join(f"{_header(event)}\n{str(event['text']).rstrip()}\n" for event in events)


def _log_ends(home: Path) -> str:
    """Return the last 64 KiB of every log of a run's server; "" if there are none."""
    found = ""
    for path in sorted([*(home / _SERVER).glob("*.log"), *(home / _SERVER).glob("*.err")]):
        if text := tail(path, None):
            found += f"\n=== the end of the server's {path.name}\n{text}\n"
    return found


def _header(event: Mapping[str, Any]) -> str:
    edge = f", the window's {event['edge']}" if event.get("edge") else ""
    return f"=== t = {event['t_s']:.3f} s, phase {event['phase']}{edge}"
