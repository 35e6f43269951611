"""Does one run, from the copy of its database to its published record. A run that fails is published with its failure.

The copy is deleted afterwards in every case. sweep.py decides which runs there are, and their order.
"""

from __future__ import annotations

import logging
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bufferlab.errors import BufferlabError, Failure, Interrupted, RunFailed, causes, is_full
from bufferlab.execute.asked_probe import EndedRun
from bufferlab.execute.datasets import Dataset, database_name
from bufferlab.execute.jobs import check_job, run_job, run_workload
from bufferlab.execute.reach import open_way
from bufferlab.execute.restore import restore
from bufferlab.execute.restore_host import restore_host
from bufferlab.execute.run_checks import check_run, fatal
from bufferlab.execute.server_text import engine_status, log_ends
from bufferlab.execute.stored_conditions import stored_conditions, violations
from bufferlab.execute.supervise import Event, interrupted, supervise
from bufferlab.execute.sweep_context import SweepContext
from bufferlab.execute.trees import size_of
from bufferlab.plan import PlannedRun, Point
from bufferlab.plan.facts import workload_of
from bufferlab.results.keys import actual_key
from bufferlab.results.store import RunRecord, latency_rows, new_run_id, sample_rows
from bufferlab.spec import Experiment
from bufferlab.units import format_bytes

_LOG = logging.getLogger(__name__)

COPYING, WARMING_UP, MEASURING = "copying", "warming up", "measuring"
_STAGES = {"warm_up": WARMING_UP, "measure": MEASURING, "closing": "closing"}

OnStage = Callable[[str, float], None]
"""A function that is told the stage of a run, and the share (0-1) of this stage that is done."""


@dataclass
class _Gathered:
    """Everything a run has delivered so far. It is published even when the run fails."""

    run: dict[str, Any]
    samples: list[dict[str, Any]] = field(default_factory=list)
    latency: list[dict[str, Any]] = field(default_factory=list)
    log: str = ""
    sizes: list[int] = field(default_factory=list)
    status_texts: list[Event] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)
    """Texts of further files of the run folder, by file name."""
    tables: dict[str, Path] = field(default_factory=dict)
    """Paths, before publication, of further Parquet files of the run folder, by file name."""


def execute_run(
    context: SweepContext,
    planned: PlannedRun,
    point: Point,
    dataset: Callable[[], Dataset],
    on_stage: OnStage,
) -> RunRecord:
    """Do the run and publish it as ok, failed or interrupted.

    `dataset` is called for the database, which it may have to load first. Raises only when the run cannot be
    published.
    """
    run_id = new_run_id()
    home = context.scratch / run_id
    gathered = _Gathered(_identity(context, planned, point, run_id))
    try:
        try:
            home.mkdir()
            open_way(home, context.owner)
            _do(context, planned, point, dataset(), home, gathered, on_stage)
        except Interrupted:
            _end(gathered, interrupted(context.stop))
        except BufferlabError as error:
            _LOG.debug("the run's error, with its causes:\n%s", causes(error))
            _end(gathered, error.failure)
        except OSError as error:
            _LOG.debug("the run's error, with its causes:\n%s", causes(error))
            _end(gathered, _refused_by_disk(error, home.parent))
        finally:
            _keep_texts(home, gathered)
            for said in restore_host():  # A worker that was killed could not put these back itself.
                gathered.log += f"{said}\n"
        gathered.run["ended_at"] = _now()
        return context.folder.publish_run(
            gathered.run, gathered.samples, gathered.latency, gathered.log, gathered.beside, gathered.tables
        )
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _do(
    context: SweepContext,
    planned: PlannedRun,
    point: Point,
    dataset: Dataset,
    home: Path,
    gathered: _Gathered,
    on_stage: OnStage,
) -> None:
    database = dataset.database if context.engine.data_is_read_only else home / database_name(context.engine)
    gathered.run |= {"data_key": dataset.data_key}
    if not context.engine.data_is_read_only:
        _restore(context, dataset, database, on_stage)
    log_file = home / "worker.log"
    allow = context.allow_online_changes
    job = run_job(context.experiment, point, gathered.run["seed"], database, allow_online_changes=allow)
    probes = {probe.name: probe.job(home) for probe in context.probes}
    outcome = supervise(
        "run",
        context.experiment.engine,
        {**job, **({"probes": probes} if probes else {})},
        log_file=log_file,
        stop=context.stop,
        silent_seconds=context.experiment.limits.worker_silent,
        on_event=lambda event: _hear(event, gathered, on_stage),
    )
    gathered.log = outcome.log
    ended = EndedRun(context.engine.name, outcome.result, home, database, gathered.samples)
    _keep_tables(context, ended, gathered, on_stage)
    gathered.run["database"] = {
        # Of a directory only the data count: a pool's percentage does not refer to the server's tables and logs.
        "bytes_loaded": dataset.size_bytes if context.engine.data_kind == "file" else dataset.allocated_bytes,
        "bytes_start": gathered.sizes[0] if gathered.sizes else None,
        "bytes_end": gathered.sizes[-1] if len(gathered.sizes) > 1 else None,
        "shape": dataset.shape,
    }
    if outcome.result is not None:
        _keep_result(context, point, dataset, outcome.result, gathered)
    if outcome.failure is not None:
        _end(gathered, outcome.failure)
        return
    assert outcome.result is not None
    _check(context, point, outcome.result, database, log_file, gathered, on_stage)


def _keep_tables(context: SweepContext, ended: EndedRun, gathered: _Gathered, on_stage: OnStage) -> None:
    """Keep what further probes recorded, or the reason why there is none. A missing table does not fail the run."""
    for probe in context.probes:
        on_stage(f"keeping the {probe.name.replace('_', ' ')}", 0.0)
        gathered.run[probe.name], table = probe.keep(ended)
        if table is not None:
            gathered.tables[table.name] = table


def _keep_texts(home: Path, gathered: _Gathered) -> None:
    """Keep the status texts that the engine gave; for a run that did not end well, also the ends of its logs."""
    if gathered.status_texts:
        gathered.beside["engine_status.txt"] = engine_status(gathered.status_texts)
    if gathered.run["status"] != "ok":
        gathered.log += log_ends(home)


def _identity(context: SweepContext, planned: PlannedRun, point: Point, run_id: str) -> dict[str, Any]:
    experiment, engine = context.experiment, context.engine
    return {
        "run_id": run_id,
        "experiment": experiment.name,
        "point_key": point.point_key,
        "source": engine.source,
        "inputs": engine.inputs,
        "interval_kind": "between-run",
        "clock": engine.clock,
        "engine": engine.name,
        "workload": _workload(experiment, point),
        "load": point.load,
        "settings": {name: setting.as_dict() for name, setting in point.settings.items()},
        "point": {"index": point.index, "label": point.label, "swept": point.swept},
        "repetition": planned.repetition,
        "block": planned.block,
        "order": planned.order,
        "seed": _seed(context, planned),
        "host": context.host_id,
        "versions": context.versions,
        "status": "failed",
        "failure": asdict(Failure("the run did not end")),
        "started_at": _now(),
    }


def _seed(context: SweepContext, planned: PlannedRun) -> int:
    """Return the block's seed, so that the points of a block are paired; a fresh seed for a run that reads in place.

    Such a run must read other places than earlier runs did. Those may lie in a cache below this host (a hypervisor's),
    which cannot be dropped from here.
    """
    return secrets.randbits(53) if context.engine.data_is_read_only else planned.seed


def _restore(context: SweepContext, dataset: Dataset, database: Path, on_stage: OnStage) -> None:
    on_stage(COPYING, 0.0)
    started = time.monotonic()
    restore(dataset.database, database, context.method, context.stop.check, context.owner)
    context.rates.observe("restore_bytes_per_s", dataset.size_bytes, time.monotonic() - started)


def _hear(event: Event, gathered: _Gathered, on_stage: OnStage) -> None:
    """Keep the samples, status texts and database sizes among a worker's events; pass its progress to `on_stage`."""
    match event.get("event"):
        case "status_text":
            gathered.status_texts.append(event)
        case "sample":
            gathered.samples += sample_rows(event)
            if event.get("edge") and event["phase"] == "measure":
                gathered.sizes += [
                    int(value["value"])
                    for value in event["values"]
                    if value["metric"] == "db_bytes" and value.get("value") is not None
                ]
        case "progress":
            share = event["done"] / event["total"] if event.get("total") else 0.0
            on_stage(_stage(event), share)
        case "phase":
            on_stage(_stage(event), 0.0)


def _stage(event: Event) -> str:
    phase = str(event["phase"])
    return _STAGES.get(phase, f"measuring {phase}")


def _keep_result(
    context: SweepContext, point: Point, dataset: Dataset, result: dict[str, Any], gathered: _Gathered
) -> None:
    settings = _settings(point, result)
    gathered.latency = latency_rows(result["latency"])
    gathered.run |= {
        "engine_version": result["engine_version"],
        "settings": settings,
        "workload": {**_workload(context.experiment, point), "drawn": result.get("drawn")},
        "actual_key": actual_key(
            engine=context.engine.name,
            engine_version=result["engine_version"],
            workload=_workload(context.experiment, point),
            knobs_actual={name: one["actual"] for name, one in settings.items()},
        ),
        "warm_up": _warm_up(result["warm_up"]),
        "measured": result["measured"],
        "phases": result["phases"],
        "integrity": check_run(context, point, settings, result, dataset, gathered.samples),
    }
    if result.get("engine_conf"):
        gathered.beside["engine.conf"] = result["engine_conf"]
    if point.load["mode"] == "closed":  # In an open loop the rate is what was asked, not what could be had.
        context.rates.observe("transactions_per_s", result["measured"]["transactions"], result["measured"]["seconds"])
    if result["warm_up"]["gate"] not in ("cap", "cold"):
        context.rates.observe("warm_up_bytes_per_s", dataset.size_bytes, result["warm_up"]["seconds"])


def _workload(experiment: Experiment, point: Point) -> dict[str, Any]:
    """Return the workload as run.json holds it: parameters as the core took them, and a script's name and hash."""
    script = experiment.workload.script
    return {
        "name": experiment.workload.name,
        "version": workload_of(experiment).version,
        "connections": experiment.workload.connections,
        **point.workload,
        **({"script": script.source, "script_sha256": script.sha256} if script else {}),
    }


def _settings(point: Point, result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of run.json: each as planned, with the value that the engine read back and its note on it.

    A value that the engine tells and that belongs to no setting of the point is kept under the engine's name for it.
    """
    told, notes = dict(result["actual"]), result.get("notes", {})
    settings = {}
    for name, planned in point.settings.items():
        actual = told.pop(planned.knob.native_name, None) if planned.read_back else planned.planned
        actual = planned.knob.typed(actual)
        note = notes.get(planned.knob.native_name, "") if actual != planned.planned else planned.note
        settings[name] = {**planned.as_dict(), "actual": actual, "note": note}
    return settings | {name: {"actual": value} for name, value in told.items()}


def _warm_up(told: dict[str, Any]) -> dict[str, Any] | None:
    """Return the warm-up's gate, seconds and transactions, which every engine tells; anything else goes to `detail`.

    None if the warm-up was interrupted.
    """
    if told["gate"] is None:
        return None
    common = {name: told[name] for name in ("gate", "seconds", "transactions")}
    return {**common, "detail": {name: value for name, value in told.items() if name not in common} or None}


def _check(
    context: SweepContext,
    point: Point,
    result: dict[str, Any],
    database: Path,
    log_file: Path,
    gathered: _Gathered,
    on_stage: OnStage,
) -> None:
    """Check the workload's consistency conditions after the measured window, and end the run as ok or failed.

    Raises RunFailed when a condition is broken or cannot be checked, and Interrupted when the check was stopped.
    """
    on_stage("checking", 0.0)
    started = time.monotonic()
    size_bytes = size_of(database)
    outcome = supervise(
        "check",
        context.experiment.engine,
        check_job(run_workload(context.experiment.workload, point), database, result["delivered_orders"]),
        log_file=log_file,
        stop=context.stop,
        silent_seconds=context.experiment.limits.worker_silent,
        on_event=lambda event: None,
    )
    gathered.log = outcome.log
    if outcome.failure is not None:
        failure = outcome.failure
        if failure.kind == "interrupted":
            raise Interrupted(context.stop.signal_number or 2)
        what = f"the consistency check failed: {failure.what}"
        raise RunFailed(what, failure.where, failure.hint, kind=failure.kind)
    assert outcome.result is not None
    context.rates.observe("check_bytes_per_s", size_bytes, time.monotonic() - started)
    gathered.run["consistency"] = stored_conditions(outcome.result)
    broken = violations(outcome.result)
    if broken:
        raise RunFailed(f"the data is inconsistent after the run: {broken}", kind="data")
    _end(gathered, fatal(context.experiment, gathered.run["integrity"], result["warm_up"]))


def _end(gathered: _Gathered, failure: Failure | None) -> None:
    """Note how the run ended: ok without a failure, else interrupted or failed by the failure's kind."""
    if failure is None:
        gathered.run |= {"status": "ok", "failure": None}
    else:
        status = "interrupted" if failure.kind == "interrupted" else "failed"
        gathered.run |= {"status": status, "failure": asdict(failure)}


def _refused_by_disk(error: OSError, folder: Path) -> Failure:
    """Return the failure of a run whose copy of the database could not be written."""
    if is_full(error):
        what = "no space left for the run's copy of the database"
        return Failure(what, str(folder), "free some space, or choose another directory with --data-dir", "full_disk")
    return Failure(str(error), str(folder), None, "io")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def describe(record: RunRecord) -> str:
    """Return the run in one line, for people."""
    run = record.run
    measured = run.measured
    spent = f"{measured.transactions:,} transactions in {measured.seconds:.1f} s" if measured else ""
    end_bytes = run.database.bytes_end if run.database else None
    size = f", database {format_bytes(end_bytes)}" if end_bytes else ""
    return f"{run.point.label}, block {run.block + 1}: {record.reason or spent + size}"
