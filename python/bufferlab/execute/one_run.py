"""Does one run with a backend and publishes its record. A run that fails is published with its failure.

sweep_runs.py decides which runs there are, and their order.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

from bufferlab.errors import BufferlabError, Failure, Interrupted, causes, is_full
from bufferlab.execute.backend import Backend, Gathered, OnStage
from bufferlab.execute.stop import StopRequest
from bufferlab.execute.supervise import interrupted
from bufferlab.plan import PlannedRun, Point
from bufferlab.results import schema
from bufferlab.results.store import RunRecord, SweepFolder, new_run_id
from bufferlab.units import format_bytes

_LOG = logging.getLogger(__name__)


def execute_run(
    backend: Backend, folder: SweepFolder, planned: PlannedRun, point: Point, on_stage: OnStage, stop: StopRequest
) -> RunRecord:
    """Do the run and publish it as ok, failed or interrupted. Raises only when the run cannot be published."""
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
        failure=schema.StoredFailure(kind="internal", what="the run did not end"),
        started_at=(now := _now()),
        ended_at=now,
    )
    gathered = Gathered(run)
    with backend.home(run.run_id) as home:
        try:
            gathered.end(backend.do(planned, point, home, gathered, on_stage))
        except Interrupted:
            gathered.end(interrupted(stop))
        except BufferlabError as error:
            _LOG.debug("the run's error, with its causes:\n%s", causes(error))
            gathered.end(error.failure)
        except OSError as error:
            _LOG.debug("the run's error, with its causes:\n%s", causes(error))
            gathered.end(_refused_by_disk(error, home.parent))
        finally:
            backend.leave(home, gathered)
        gathered.run.ended_at = _now()
        return folder.publish_run(
            gathered.run, gathered.samples, gathered.latency, gathered.log, gathered.beside, gathered.tables
        )


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
    run, label = record.run, f"{record.run.point.label}, block {record.run.block + 1}"
    if run.prediction and record.ok:
        found, work = run.prediction.found, run.prediction.traced.work["transaction"]
        return f"{label}: {f'{found.reads / work:.4g} reads a transaction' if found else 'depends on the speed'}"
    measured = run.measured
    spent = f"{measured.transactions:,} transactions in {measured.seconds:.1f} s" if measured else ""
    end_bytes = run.database.bytes_end if run.database else None
    size = f", database {format_bytes(end_bytes)}" if end_bytes else ""
    return f"{label}: {record.reason or spent + size}"
