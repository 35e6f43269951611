"""Checks of a run that only `execute` can make: its starting data, its settings, its window.

`results` makes the checks from stored data: gates, consistency, engine bytes against process and device bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import Failure
from bufferlab.execute.data.copy_method import Method
from bufferlab.execute.data.datasets import Dataset
from bufferlab.plan import GridPoint
from bufferlab.results.check_parts import FOREIGN_SERVER
from bufferlab.results.gaps import standstill, standstill_seconds
from bufferlab.results.schema import IntegrityRow, Measured, PhaseDone, Run, StoredSetting, WarmUp
from bufferlab.results.window import MEASURE
from bufferlab.spec import Experiment
from bufferlab.spec.experiment import AskedWarmUp
from bufferlab.units import format_bytes

ROUNDED = "rounded by the server"

_ROUNDING_RATIO = 0.02
#: The seconds by which a window may exceed its requested duration, because a transaction that has begun ends first.
_OVERRUN_SECONDS = 5.0
#: The fraction of its transactions that a window may lack. If at most this fraction is missing, counts per transaction
#: change less than they differ between two complete windows of one setting (0.85 %, stats/known_scatter.toml).
_LACKING_SHARE = 0.01
_RAN_THROUGH = "window_ran_through"


def check_run(
    experiment: Experiment,
    engine: EngineDeclaration,
    point: GridPoint,
    run: Run,
    result: Mapping[str, Any],
    samples: Sequence[Mapping[str, Any]],
) -> list[IntegrityRow]:
    """Return the rows of run.json's `integrity` for the run so far; `samples` are the rows of samples.parquet."""
    assert run.measured is not None
    return [
        _settings_applied(_asked_of(point, run, result), engine.rounds),
        *([_no_confounds(result["confounds"])] if "confounds" in result else []),
        *([_foreign_server(result["caveats"])] if "caveats" in result else []),
        _window_complete(experiment, run.measured, is_open=run.load.mode == "open"),
        *([_phases_complete(experiment, run.phases)] if experiment.phases else []),
        _ran_through(experiment, result, samples, is_server=engine.is_server),
    ]


def fatal(experiment: Experiment, run: Run) -> Failure | None:
    """Return the failure of a run that ended and must not be used; None if it may be used."""
    failed = {row.name: row.detail for row in run.integrity if row.status == "failed"}
    if "settings_applied" in failed:
        return Failure(f"not the settings asked for: {failed['settings_applied']}", kind="usage")
    if _RAN_THROUGH in failed:
        return Failure(failed[_RAN_THROUGH], kind="unsteady")
    warm_up = run.warm_up
    if warm_up and warm_up.gate == "cap" and experiment.warm_up.on_cap == "fail":
        spent = f"{warm_up.transactions:,} transactions and {warm_up.seconds:.1f} s"
        what = f"the warm-up hit its cap after {spent}, before a steady state"
        hint = f"let it last longer, with --resume too: {longer_warm_up(experiment.warm_up, warm_up)}"
        return Failure(what, None, hint, "unsteady")
    return None


def longer_warm_up(asked: AskedWarmUp, done: WarmUp) -> str:
    """Return the option of `run` that doubles the cap that ended this warm-up."""
    if done.transactions >= asked.max_transactions:
        return f"--warm-up-max {2 * asked.max_transactions}"
    return f"--warm-up-time {2 * asked.max_duration:g}s"


def _row(name: str, passed: bool, detail: str) -> IntegrityRow:
    return IntegrityRow(name=name, status="passed" if passed else "failed", detail=detail)


def started_with(result: Mapping[str, Any], dataset: Dataset, method: Method, *, in_place: bool) -> IntegrityRow:
    """Return the row on the data with which the run began; for the schema of a running server, with the engine's own
    sentence."""
    if "start" in result:
        return IntegrityRow(name="same_start", status="not_applicable", detail=result["start"])
    known = f"SHA-256 {dataset.sha256[:16]} verified before the sweep" if dataset.sha256 else "its contents its owner's"
    how = "used in place and only read:" if in_place else f"a {method} of"
    detail = f"{how} {dataset.in_words}, {known}"
    return _row("same_start", True, detail)


def _no_confounds(found: Sequence[str]) -> IntegrityRow:
    """Return the row that names other settings that the engine changed because of a swept one."""
    return _row("no_confounds", not found, "; ".join(found) or "nothing else changed with the settings")


def _foreign_server(caveats: Sequence[str]) -> IntegrityRow:
    """Return the row on conditions that no check can test on a server that bufferlab did not start."""
    return IntegrityRow(name=FOREIGN_SERVER, status="not_applicable", detail="; ".join(caveats))


def warnings(rows: Sequence[IntegrityRow]) -> list[str]:
    """Return the warnings in these rows, which are shown at once although the run may be used."""
    details = {row.name: row.detail.split("; ") for row in rows}
    failed = any(row.name == "no_confounds" and row.status == "failed" for row in rows)
    # If an engine reports confounds, these include rounded settings.
    if failed:
        return details["no_confounds"]
    return [part for part in details.get("settings_applied", []) if ROUNDED in part]


def _asked_of(point: GridPoint, run: Run, result: Mapping[str, Any]) -> dict[str, StoredSetting]:
    """Return the settings that the engine was given.

    Values that the engine chose are left out, and so are settings that a server by URL keeps as they are.
    """
    as_found = result.get("as_found", ())
    return {name: run.settings[name] for name in point.knobs if name not in as_found}


def _settings_applied(asked: Mapping[str, StoredSetting], rounds: Sequence[str] = ()) -> IntegrityRow:
    """Compare the planned settings with those read back. An engine's small rounding of a size is not a difference.

    `rounds` names settings that the engine is known to round, such as a pool to whole chunks. Their rounding is
    reported however large it is, and never fails the check.
    """
    rounded, differences = [], []
    page = asked["page_size"].planned if "page_size" in asked else 0
    for name, setting in asked.items():
        planned, actual = setting.planned, setting.actual
        if actual is None:
            rounded.append(f"{name} is not read back")
        elif not setting.differs:
            continue
        elif name in rounds and isinstance(planned, int) and isinstance(actual, int):
            more = f"{format_bytes(planned)} asked, {format_bytes(actual)} run{setting.note and f': {setting.note}'}"
            rounded.append(f"{name}: {ROUNDED} from {planned} to {actual} ({more})")
        elif _near(name, setting, page if isinstance(page, int) else 0):
            rounded.append(f"{name} {planned} became {actual}")
        else:
            differences.append(f"{name}: asked {planned}, actual {actual}")
    detail = "; ".join(differences or rounded) or "every setting reads back as asked"
    return _row("settings_applied", not differences, detail)


def _near(name: str, setting: StoredSetting, page_bytes: int) -> bool:
    planned, actual = setting.planned, setting.actual
    if not isinstance(planned, int | float) or not isinstance(actual, int | float) or not planned:
        return False
    # A size is in whole pages, and the engine may add some bytes to each page.
    unit_bytes = page_bytes * (1 + _ROUNDING_RATIO) if setting.unit == "bytes" and name != "page_size" else 0
    return bool(abs(actual - planned) <= max(_ROUNDING_RATIO * planned, unit_bytes))


def _window_complete(experiment: Experiment, measured: Measured, *, is_open: bool) -> IntegrityRow:
    """Check that the window has the requested transactions; in an open loop, the arrivals, some of them dropped.

    A window that its time cap ended may lack a few: see _LACKING_SHARE.
    """
    done, asked = measured.transactions, experiment.measure.transactions
    if asked is None:
        return _row("window_complete", True, f"{done:,} transactions in {measured.seconds:.1f} s, ended by time")
    cap_s = experiment.measure.max_seconds
    if done >= asked:
        return _row("window_complete", True, f"{done:,} transactions")
    if is_open and measured.seconds < cap_s:
        return _row("window_complete", True, f"{done:,} of {asked:,} arrivals served, the others dropped")
    detail = f"the time cap of {cap_s:g} s ended it after {done:,} of {asked:,} transactions"
    return _row("window_complete", asked - done <= _LACKING_SHARE * asked, detail)


def _phases_complete(experiment: Experiment, done: Sequence[PhaseDone]) -> IntegrityRow:
    """Check that every phase did its transactions, so that metrics per row come from as many rows at every point."""
    counts = {part.name: part.transactions for part in done}
    short = [
        f"{phase.name} ended after {counts.get(phase.name, 0):,} of {phase.transactions:,} transactions"
        f" (time cap {phase.max_duration:g} s)"
        for phase in experiment.phases
        if counts.get(phase.name, 0) < phase.transactions
    ]
    whole = ", ".join(f"{name} {count:,} transactions" for name, count in counts.items())
    return _row("phases_complete", not short, "; ".join(short) or whole)


def _ran_through(
    experiment: Experiment, result: Mapping[str, Any], samples: Sequence[Mapping[str, Any]], *, is_server: bool
) -> IntegrityRow:
    """Check that neither the window nor a phase stalled, or went on long after its time was over."""
    interval_s = experiment.measure.sample_interval
    windows = [(MEASURE, result["measured"]["seconds"], experiment.measure.max_seconds)]
    windows += [(part["name"], part["seconds"], phase.max_duration)
                for part, phase in zip(result["phases"], experiment.phases, strict=False)]  # fmt: skip
    wrong = []
    for phase, seconds, asked_s in windows:
        name = "the measured window" if phase == MEASURE else f"phase {phase}"
        if stretch := standstill(samples, phase, interval_s, is_server=is_server):
            wrong.append(
                f"nothing ran for {stretch.seconds:.1f} s of {name}: the worker, the server or the host stood still"
            )
        elif seconds - asked_s > max(_OVERRUN_SECONDS, longest_s := _longest_transaction_s(result["latency"], phase)):
            wrong.append(
                f"{name} lasted {seconds:.1f} s where {asked_s:g} s were asked for, and its longest transaction "
                f"{longest_s:.1f} s: the worker, the server or the host stood still"
            )
    limit = f"no more than {standstill_seconds(interval_s):g} s between two signs of life"
    return _row(_RAN_THROUGH, not wrong, "; ".join(wrong) or limit)


def _longest_transaction_s(latency: Sequence[Mapping[str, Any]], phase: str) -> float:
    """Return the longest service time, in seconds, in the histograms of a window.

    The transaction types of a phase begin with its name and a dot.
    """
    owner = "" if phase == MEASURE else phase
    found = [
        histogram["max_us"] or 0.0
        for histogram in latency
        if histogram["time"] == "service" and histogram["transaction_type"].rpartition(".")[0] == owner
    ]
    return max(found, default=0.0) / 1e6
