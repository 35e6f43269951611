"""Joins folders with different blocks of one plan into one folder, as if one host had done them all. Measures nothing.

The folders may be untrusted. `SweepFolder.open` limits, validates and hashes their contents; this file refuses links,
and runs that are not in the plan. Each block is done by one host, which measures every point once. So the differences
between hosts cancel in the differences between points.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab import marked
from bufferlab.engines import registry as engines
from bufferlab.errors import DataFileError, Problem, SpecError
from bufferlab.execute.host import storage
from bufferlab.registry import open_sweep, registry
from bufferlab.results.blocks import HostBlocks, blocks_of, said
from bufferlab.results.files import COPY_HINT, json_bytes, sync_folder, taken, write_bytes
from bufferlab.results.page_traces import OtherPools
from bufferlab.results.schema import StoredFile
from bufferlab.results.store import OTHER_POOLS_FILE, PREDICTED_FROM, RunRecord, SweepFolder

_NOT_THE_PLAN = ("format", "format_version", "blocks", "versions", "page_trace")
"""The keys of plan.json that may differ, because they describe one host, or the file."""
_NO_MATTER = "python"
"""The component whose version may differ from host to host: no number depends on it."""
_MOST_NAMED = 6


def merge(paths: Sequence[Path], out: Path) -> tuple[SweepFolder, list[Problem]]:
    """Write the folder `out` with the runs of all the folders. Return it, and a problem for each that lacks runs.

    Raises DataFileError for a folder that is damaged or was changed. Raises SpecError for folders that do not belong
    together, for a single one, and if `out` exists.
    """
    if len(paths) < 2:
        raise SpecError("one folder has no other to be joined with", str(paths[0]), "name the folders of all hosts")
    if os.path.lexists(out):
        raise taken(out)
    parts = sorted((checked(path) for path in paths), key=lambda part: part.folder.blocks)
    require_one_plan([part.folder for part in parts])
    _require_other_blocks([part.folder for part in parts])
    _require_alike(parts)
    return _joined(parts, out), [problem for part in parts if (problem := part.lacking())]


@dataclass(frozen=True)
class Part:
    """A folder to be merged, with its runs. The runs are stored here, because each reading hashes their files."""

    folder: SweepFolder
    records: list[RunRecord]
    pools: OtherPools | None

    def lacking(self) -> Problem | None:
        """Return a problem that names the folder's missing and failed runs; None for a complete folder."""
        folder, done = self.folder, {_cell(record) for record in self.records if record.ok}
        missing = sorted(folder.planned_cells - done, key=lambda cell: (cell[1], cell[0]))
        if not missing:
            return None
        labels = {int(point["index"]): point["label"] for point in folder.plan["points"]}
        named = [f"{labels.get(point, point)} in block {block + 1}" for point, block in missing[:_MOST_NAMED]]
        more = [f"{len(missing) - _MOST_NAMED} others"] if len(missing) > _MOST_NAMED else []
        return Problem(
            f"{len(missing)} of {len(folder.planned_cells)} runs of this folder are missing or failed: "
            + ", ".join([*named, *more]),
            str(folder.path),
            "on its host, run: bufferlab run --resume that folder; then merge the folders again, into another --out",
        )


def checked(path: Path) -> Part:
    """Open a folder and check that each run is one of its plan, measured by the host of its block.

    Raises DataFileError for a wrong run or a damaged folder, SpecError for a folder of predictions.
    """
    refuse_links(path)
    folder = open_sweep(path)
    if PREDICTED_FROM in folder.plan:
        what = "the runs of this folder were predicted, which needs no second host"
        raise SpecError(what, str(path), "leave it out; bufferlab predict does all points")
    planned = {(int(run["point"]), int(run["block"])): run for run in folder.plan.get("runs", [])}
    keys = {int(point["index"]): point.get("point_key") for point in folder.plan.get("points", [])}
    hosts = {block: one.host.get("host_id", "") for one in folder.hosts for block in one.blocks}
    own, done, records = folder.planned_cells, set[tuple[int, int]](), folder.runs()
    for record in records:
        run, cell, wrong, hint = record.run, _cell(record), "", COPY_HINT
        if cell not in own:
            wrong = f"it is of {said([run.block])}, and the folder is for {said(folder.blocks)}"
        elif differing := _differing(record, planned[cell], keys.get(run.point.index), folder):
            wrong = f"it is not as plan.json has it: {', '.join(differing)} differ"
        elif record.ok and cell in done:
            wrong = "another run of this folder is of the same point and block"
        elif record.ok and run.host != hosts.get(run.block):
            wrong = f"host {run.host} measured it, and host.json is of {hosts.get(run.block)}: a block is one host's"
            hint = f"do the block again, on one host: bufferlab run ... --blocks {run.block + 1}"
        if wrong:
            raise DataFileError(f"a run cannot be merged: {wrong}", str(record.folder), hint)
        if record.ok:
            done.add(cell)
            record.samples()  # Refuse unreadable tables here, and not in the report.
            record.latency()
    return Part(folder, records, folder.other_pools())


def refuse_links(path: Path) -> None:
    """Refuse a folder that contains anything but files and folders: a link may lead elsewhere, and reading a pipe may
    never end.

    Raises DataFileError.
    """
    for above, folders, files in os.walk(path):  # os.walk follows no link.
        for name in (*folders, *files):
            mode = Path(above, name).lstat().st_mode
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                what = "this is a link or no plain file; nothing is read where it leads"
                raise DataFileError(what, str(Path(above, name)), "remove it, or put the file itself in its place")


def require_one_plan(folders: Sequence[SweepFolder]) -> None:
    """Refuse folders of two plans, or of two experiments. Raises a SpecError that names the difference."""
    first = folders[0]
    for other in folders[1:]:
        differing = [
            *_unequal(first.plan, other.plan, _NOT_THE_PLAN),
            *(f"{name} of experiment.toml" for name in _unequal(first.asked, other.asked)),
        ]
        if differing:
            raise SpecError(
                f"the folders are of two plans: {', '.join(differing)} differ",
                f"{first.path} and {other.path}",
                "give each host the same command but for --blocks; shares of a database need the same loaded data",
            )


def _cell(record: RunRecord) -> tuple[int, int]:
    return record.run.point.index, record.run.block


def _differing(record: RunRecord, planned: Mapping[str, Any], key: object, folder: SweepFolder) -> list[str]:
    """Return the names of the facts in which a run differs from its row in the plan."""
    run = record.run
    pairs = {
        "order": (run.order, planned.get("order")),
        "point_key": (run.point_key, key),
        "experiment": (run.experiment, folder.experiment),
        "engine": (run.engine, folder.plan.get("engine")),
    }
    # A run that reads a file in place draws a new seed, so seeds are not compared.
    if run.engine in engines.names(hidden=True) and not engines.declaration(run.engine).data_is_read_only:
        pairs["seed"] = (run.seed, planned.get("seed"))
    return [name for name, (ran, asked) in pairs.items() if ran != asked]


def _unequal(a: Mapping[str, Any], b: Mapping[str, Any], apart: Iterable[str] = ()) -> list[str]:
    return [name for name in sorted({*a, *b} - {*apart}) if a.get(name) != b.get(name)]


def _require_other_blocks(folders: Sequence[SweepFolder]) -> None:
    """Refuse two folders for the same block. Raises SpecError."""
    owners: dict[int, Path] = {}
    for folder in folders:
        if twice := [block for block in folder.blocks if block in owners]:
            what = f"two folders are for {said(twice)} of the plan"
            where = f"{owners[twice[0]]} and {folder.path}"
            raise SpecError(what, where, "leave one of them out, or measure other blocks: bufferlab run ... --blocks")
        owners |= dict.fromkeys(folder.blocks, folder.path)


def _require_alike(parts: Sequence[Part]) -> None:
    """Refuse runs of one point that differ in their data or versions. Raises SpecError."""
    seen: dict[tuple[int, str], tuple[object, Path]] = {}
    for part in parts:
        for run in (record.run for record in part.records if record.ok):
            versions = {f"version of {name}": told for name, told in run.versions.items() if name != _NO_MATTER}
            facts = {"data_key": run.data_key, f"version of {run.engine}": run.engine_version, **versions}
            for name, value in facts.items():
                known, where = seen.setdefault((run.point.index, name), (value, part.folder.path))
                if known != value:
                    raise SpecError(
                        f"the {name} differs at {run.point.label}: {known} and {value}",
                        f"{where} and {part.folder.path}",
                        "measure these blocks again with the same bufferlab, server and data on each host",
                    )


def _joined(parts: Sequence[Part], out: Path) -> SweepFolder:
    """Write the merged folder at `out` from the parts; it appears completely or not at all."""
    first, parent = parts[0].folder, out.absolute().parent
    records = [record for part in parts for record in part.records]
    storage.require_directory(parent, "the merged folder", "--out")
    need_bytes = sum(stored.bytes for record in records for stored in record.run.files.values())
    storage.require_space(parent, need_bytes, "the merged folder", "--out")
    plan = {name: value for name, value in first.plan.items() if name != "blocks"}
    blocks = tuple(sorted(block for part in parts for block in part.folder.blocks))
    if blocks != blocks_of(plan):
        plan["blocks"] = list(blocks)
    hosts = _hosts([part.folder for part in parts])
    pools = _pools(parts)

    def fill(folder: Path) -> None:
        _copy_runs(records, folder / "runs")
        if pools is not None:  # Write them before the folder gets its final name, because no resume could add them.
            write_bytes(folder / OTHER_POOLS_FILE, json_bytes(pools.model_dump(mode="json")))

    with storage.locked(parent):
        return SweepFolder.create(
            parent,
            registry(),
            first.experiment_toml,
            plan,
            hosts[0].host,
            name=out.name,
            hosts=hosts,
            fill=fill,
        )


def _pools(parts: Sequence[Part]) -> OtherPools | None:
    """Return the folders' predictions of other pools; None if no folder has any."""
    predicted = [part.pools for part in parts if part.pools]
    if not predicted:
        return None
    of = next((found.of for found in predicted if found.of), [])
    generated = next((found.generated for found in predicted if found.generated), None)
    return OtherPools(of=of, generated=generated)


def _hosts(folders: Sequence[SweepFolder]) -> list[HostBlocks]:
    """Return each host once, with all its blocks. The host of the first block comes first."""
    found: dict[tuple[object, object], HostBlocks] = {}
    for one in (host for folder in folders for host in folder.hosts):
        key = (one.host.get("host_id"), one.host.get("boot_key"))
        known = found.get(key, HostBlocks(one.host, ()))
        found[key] = HostBlocks(known.host, tuple(sorted((*known.blocks, *one.blocks))))
    return sorted(found.values(), key=lambda one: one.blocks)


def _copy_runs(records: Sequence[RunRecord], runs: Path) -> None:
    for record in records:
        target = runs / record.run_id
        target.mkdir()
        with marked.opened(record.folder) as inside:
            for name, stored in {"run.json": None, **record.run.files}.items():
                _copy(inside, name, target / name, stored)
        sync_folder(target)


def _copy(inside: int, name: str, target: Path, stored: StoredFile | None) -> None:
    """Copy a file of an open folder, without following a link. `stored` is its entry in run.json.

    Raises DataFileError if the file changed since it was checked; run.json is checked when it is opened.
    """
    changed = DataFileError("the file was changed while it was merged", f"{target.parent.name}/{name}", COPY_HINT)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
    except OSError as error:
        raise changed from error
    digest = hashlib.sha256()
    with os.fdopen(descriptor, "rb") as old, target.open("wb") as new:
        while chunk := old.read(1 << 20):
            digest.update(chunk)
            new.write(chunk)
        new.flush()
        os.fsync(new.fileno())
    if stored is not None and digest.hexdigest() != stored.sha256:
        raise changed
