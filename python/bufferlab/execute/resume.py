"""Decides whether a sweep folder may be resumed, and which of its runs are still to do.

A resume does the missing, interrupted and failed runs. If settings of a point were refused, one of its runs is tried
first: if it is refused again, the point's other refused runs are not tried. When a run is done again, its failed
predecessor moves to superseded/, so that nothing is lost and nothing is counted twice. So do good runs of an incomplete
block that another host or boot began.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from bufferlab.errors import DataFileError, EnvironmentLackingError, Problem, SpecError
from bufferlab.execute.host import fingerprint
from bufferlab.plan import Plan, PlannedRun
from bufferlab.registry import registry
from bufferlab.results.blocks import in_words, said
from bufferlab.results.store import PREDICTED_FROM, RunRecord, SweepFolder, own_folder
from bufferlab.spec import Experiment, Overrides, loads, to_toml
from bufferlab.units import format_duration

_LOG = logging.getLogger(__name__)
SUPERSEDED = "superseded"
_MACHINE = ("architecture", "cpu_model", "cores", "memory_total_bytes", "virtualisation")
"""The facts of host.json that identify the host that began a sweep, if all are equal; disks may differ."""


def open_for_resume(path: Path, *, predicted: bool = False) -> tuple[SweepFolder, Experiment]:
    """Return the folder and its experiment. Raises DataFileError if either is damaged.

    Raises SpecError for a merged folder, because each of its hosts has a separate one. Also raises SpecError for a
    folder of the other kind: measured runs are not added to predictions, nor predictions to measured runs.
    """
    folder = SweepFolder.open(path, registry())
    if folder.merged is not None:
        raise SpecError(
            "this folder was merged, and each block of it has a host",
            str(path),
            "on the host of a block, run: bufferlab run --resume its own folder; then merge the folders again",
        )
    if (PREDICTED_FROM in folder.plan) != predicted:
        kinds = (
            ("measured", f"bufferlab run --resume {path}"),
            ("predicted", f"bufferlab predict [RUN] --resume {path}"),
        )
        kind, command = kinds[not predicted]
        raise SpecError(f"the runs of this sweep were {kind}", str(path), f"to do the rest: {command}")
    try:
        experiment = loads(folder.experiment_toml, str(path / "experiment.toml"))
    except SpecError as error:
        raise DataFileError(
            f"experiment.toml of the sweep cannot be used: {error.what}",
            error.where,
            "it must be as `bufferlab run` wrote it; use another copy of the folder",
        ) from error
    return folder, experiment


def with_longer_warm_up(folder: SweepFolder, stored: Experiment, asked: Overrides) -> Experiment:
    """Return the folder's experiment with the warm-up caps in `asked`, if it has any.

    Runs whose warm-up ended below the old cap would not differ, so the sweep may go on with a larger one. Raises
    SpecError for a smaller cap, and for a sweep whose windows begin with a cold pool.
    """
    if asked.warm_up_max is None and asked.warm_up_time is None:
        return stored
    longer = loads(folder.experiment_toml, str(folder.path / "experiment.toml"), asked)
    then, now = stored.warm_up, longer.warm_up
    where = f"--resume {folder.path}"
    if not then.max_transactions:
        raise SpecError("this sweep has no warm-up that could be longer", where, "begin a new sweep")
    if now.max_transactions < then.max_transactions or now.max_duration < then.max_duration:
        has = f"{then.max_transactions} transactions and {format_duration(then.max_duration)}"
        raise SpecError("a resumed sweep's warm-up may only be longer", where, f"its cap is {has}")
    return longer


def lengthen_warm_up(folder: SweepFolder, experiment: Experiment) -> None:
    """If the experiment's warm-up differs from the folder's, store it; move aside good runs that hit the old cap."""
    cap = experiment.warm_up
    if cap == loads(folder.experiment_toml, str(folder.path / "experiment.toml")).warm_up:
        return
    for record in folder.runs():
        if record.ok and record.run.warm_up and record.run.warm_up.at_cap:
            _set_aside(folder, record, "its warm-up hit the old cap")
    folder.write_experiment(to_toml(experiment))
    _LOG.info("warm-ups now end at %d transactions or %g s", cap.max_transactions, cap.max_duration)


def data_directory(folder: SweepFolder, chosen: Path | None, usual: Path) -> Path:
    """Return the folder for a resumed sweep's copies of databases, on the device on which the sweep began.

    It is `chosen` or, if nothing was chosen, the directory that the sweep folder names. Runs of different hosts are not
    compared, so on another host any directory will do, and `usual` replaces a missing one. On the same host raises
    EnvironmentLackingError if the named directory is gone, and SpecError if `chosen` is on another device.
    """
    own = folder.host.get("data_directory")
    known = Path(own) if own else usual
    place = chosen or (known if known.is_dir() else None)
    if place is None:
        if not _is_this_host(folder.host, fingerprint.fingerprint(usual)):
            return usual
        hint = "mount its disk again, or name another folder of that disk with --data-dir"
        raise EnvironmentLackingError("the data directory in which this sweep began is gone", str(known), hint)
    now = fingerprint.fingerprint(_existing(place))
    if own and _is_this_host(folder.host, now) and (began := _mounted(folder.host)) != (found := _mounted(now)):
        what = f"this sweep began on {began}, and its rest would be measured on {found}"
        hint = f"mount the first one again, or name a folder of it with --data-dir (it was {known})"
        raise SpecError(what, str(place), hint)
    return place


def _is_this_host(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return all(then.get(name) == now.get(name) for name in _MACHINE)


def _mounted(host: Mapping[str, Any]) -> str:
    """Return the file system of a host's data directory in words."""
    told = host.get("filesystem")
    return "{kind} of {source} at {mount_point}".format(**told) if isinstance(told, dict) else str(told)


def _existing(place: Path) -> Path:
    """Return `place` itself or, if it does not exist, its nearest existing parent folder."""
    return next((folder for folder in (place, *place.parents) if folder.exists()), place)


def require_same_experiment(stored: Experiment, given: Experiment, path: Path, command: str = "run") -> None:
    """Refuse to add runs of one experiment to the folder of another. Raises a SpecError that names the command."""
    differences = stored.same_work(given)
    if differences:
        raise SpecError(
            f"the experiment given is not the one of the folder: {', '.join(differences)} differ",
            str(path / "experiment.toml"),
            f"leave EXPERIMENT and its options out, to resume what the folder has: bufferlab {command} --resume {path}",
        )


def blocks_to_do(folder: SweepFolder | None, asked: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Return the blocks that a sweep does, None for all of its plan: those of the resumed folder, or `asked`.

    Raises SpecError if `asked` differs from the folder's blocks.
    """
    if folder is None:
        return asked
    if asked is not None and asked != folder.blocks:
        raise SpecError(
            f"the folder is for {said(folder.blocks)}, and {said(asked)} were asked for",
            f"--resume {folder.path} --blocks {in_words(asked)}",
            "leave --blocks out to resume; for other blocks begin a folder, and join both with bufferlab merge",
        )
    return folder.blocks if "blocks" in folder.plan else None


def require_same_plan(folder: SweepFolder, now: Mapping[str, Any]) -> None:
    """Refuse a folder whose plan differs from the present one.

    A plan differs if the loaded data have other sizes, or if plan.json was changed. Versions may differ, with a
    warning. Raises SpecError.
    """
    stored = folder.plan
    left_out = ("format_version", "versions")
    differences = [key for key in now if key not in left_out and stored.get(key) != now[key]]
    if differences:
        raise SpecError(
            f"the plan of the folder is not the one made today: {', '.join(differences)} differ",
            str(folder.path / "plan.json"),
            "the engine, the loader or the folder changed since; start a new sweep",
        )


def version_warnings(folder: SweepFolder, versions: dict[str, str]) -> list[Problem]:
    """Return a warning for each component whose version has changed since the sweep began.

    Runs of both versions are compared with each other, so the user must know.
    """
    stored: dict[str, Any] = folder.plan.get("versions", {})
    return [
        Problem(
            f"{name} is {now}; the runs before the resume had {stored.get(name, 'another')}",
            str(folder.path),
            "runs of different versions are compared with each other; a new sweep avoids it",
        )
        for name, now in versions.items()
        if stored.get(name) != now
    ]


def set_aside_other_boots(
    folder: SweepFolder, plan: Plan, host: Mapping[str, Any], booted_at: datetime
) -> Problem | None:
    """Move to superseded/ the good runs of other hosts and boots in incomplete blocks; return a warning.

    All runs of a block must be of one boot of one host, because they are compared with each other. `host` is the
    fingerprint of this host. Return None if no run was moved.
    """
    good = [record for record in folder.runs() if record.ok]
    # A run whose settings were refused counts as done, because a resume cannot repair it.
    settled = {_cell(record) for record in good} | refused_cells(folder)
    begun = {run.block for run in plan.runs if run.cell not in settled}
    # host.json has the boot in which the folder was created; runs of a later resume are judged by their start time.
    has_booted = folder.host.get("boot_key") != host["boot_key"]
    others = [
        record
        for record in good
        if record.run.block in begun
        and (
            record.run.host != host["host_id"]
            or (has_booted and datetime.fromisoformat(record.run.started_at) < booted_at)
        )
    ]
    for record in others:
        _set_aside(folder, record)
    if not others:
        return None
    runs = (
        "run of a block that another host or boot began is"
        if len(others) == 1
        else ("runs of blocks that another host or boot began are")
    )
    return Problem(
        f"{len(others)} {runs} done again",
        str(folder.path),
        f"a block is the work of one booted host; what was moved is in {SUPERSEDED}/",
    )


def done_cells(folder: SweepFolder) -> set[tuple[int, int]]:
    """Return point and block of every run that succeeded and need not be done again."""
    return {_cell(record) for record in folder.runs() if record.ok}


def to_do(plan: Plan, folder: SweepFolder) -> list[PlannedRun]:
    """Return the runs of the plan that the folder lacks, in the plan's order."""
    done = done_cells(folder)
    return [run for run in plan.runs if run.cell not in done]


def refused_cells(folder: SweepFolder) -> set[tuple[int, int]]:
    """Return point and block of every run whose last attempt failed for a reason that a retry does not change."""
    last = {_cell(record): record.failure for record in folder.runs()}
    return {cell for cell, failure in last.items() if failure is not None and failure.lasts}


def supersede(folder: SweepFolder, earlier: Iterable[RunRecord], new: RunRecord) -> None:
    """Move to superseded/ each of the `earlier` runs that failed and has the point and block of the new run."""
    for record in earlier:
        if _cell(record) == _cell(new) and not record.ok:
            _set_aside(folder, record)


def supersede_all(folder: SweepFolder) -> None:
    """Complete a killed resume: move aside the failed predecessors of every successful run."""
    records = folder.runs()  # Call this once, because it reads and hashes all files.
    done = {_cell(record) for record in records if record.ok}
    for record in records:
        if not record.ok and _cell(record) in done:
            _set_aside(folder, record)


def _set_aside(folder: SweepFolder, record: RunRecord, why: str = "another host or boot began its block") -> None:
    why = record.reason or why
    _LOG.info("run %s (%s) goes to %s/: %s", record.run_id, record.run.point.label, SUPERSEDED, why)
    aside = folder.path / SUPERSEDED
    with folder.changing("a run's place"):
        aside.mkdir(exist_ok=True)
        with own_folder(aside) as opened:
            record.folder.rename(opened / record.folder.name)


def _cell(record: RunRecord) -> tuple[int, int]:
    return (int(record.run.point.index), int(record.run.block))
