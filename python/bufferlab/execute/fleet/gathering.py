"""The folder in which the runs of a cluster's sweep gather: a sweep folder for each block, until they can be merged.

What a node sends is checked as a stranger's folder is: when a run is there, when a block is over, and when all are
merged. A block that another host begins anew is set aside in superseded/, so that nothing is counted twice.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bufferlab import marked
from bufferlab.errors import BufferlabError, DataFileError, Problem, SpecError
from bufferlab.execute import resume
from bufferlab.execute.fleet.parcels import Arriving, Item
from bufferlab.execute.fleet.rounds import Host
from bufferlab.execute.host import storage
from bufferlab.execute.merge import checked, merge
from bufferlab.registry import open_sweep, registry
from bufferlab.results.blocks import cells_of, said
from bufferlab.results.files import COPY_HINT, read_json, read_toml, sync_folder, write_bytes
from bufferlab.results.store import OTHER_POOLS_FILE, RunRecord, SweepFolder, open_run
from bufferlab.spec import Experiment, loads, to_toml
from bufferlab.units import GIB

SUFFIX = ".fleet"
FILE = "fleet.json"
_FORMAT = "bufferlab-fleet"
_FORMAT_VERSION = 1
_TRACE_BYTES = 2 * GIB
"""The most that a trace may take where no --trace-limit was given, as on one host."""


@dataclass(frozen=True)
class PartState:
    """The runs of a block that are home."""

    host: Host | None = None
    """The host that did them; None where there are none."""
    done: frozenset[str] = frozenset()
    """The names of the runs that ended well."""
    known: frozenset[str] = frozenset()
    """The names of all runs."""
    missing: int = 0
    lasting: bool = False
    """Whether all that is missing failed in a way that another try does not mend."""

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is left to do."""
        return self.host is not None and not self.missing


@dataclass(frozen=True)
class Gathering:
    """A sweep on a cluster that is not whole yet: its folder, its experiment, and the blocks that nodes do."""

    path: Path
    sweep_id: str
    experiment: Experiment
    blocks: tuple[int, ...]
    options: Mapping[str, Any]
    """The options of the command that nodes need, as JSON holds them."""

    @classmethod
    def create(cls, out: Path, experiment: Experiment, blocks: Sequence[int], options: Mapping[str, Any]) -> Gathering:
        """Make the folder `<experiment>-<time>.fleet` below `out`; it appears whole or not at all."""
        stem = f"{experiment.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        document = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "sweep_id": secrets.token_hex(6),
            "blocks": list(blocks),
            "options": dict(options),
        }
        storage.require_directory(out, "the results", "--out")
        with (
            storage.locked(out),
            marked.folder(out.resolve(), f"{marked.TEMPORARY}{document['sweep_id']}", 0o777) as temporary,
        ):
            (temporary / "experiment.toml").touch(0o600 if "choose(" in to_toml(experiment) else 0o666)
            write_bytes(temporary / "experiment.toml", to_toml(experiment).encode())
            write_bytes(temporary / FILE, (json.dumps(document, indent=1) + "\n").encode())
            sync_folder(temporary)
            path = next(path for path in _names(out, stem, SUFFIX) if not path.exists())
            temporary.rename(path)
            sync_folder(out)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Gathering:
        """Open such a folder. Raises DataFileError for one that is damaged, SpecError for another kind of folder."""
        if not (path / FILE).is_file():
            hint = "for the folder of one host, leave --ray out; of a cluster's sweep it ends in .fleet"
            raise SpecError("no sweep of a cluster is in this folder", f"--resume {path}", hint)
        told, file = read_json(path / FILE, COPY_HINT), path / FILE
        blocks, sweep_id, options = told.get("blocks"), told.get("sweep_id"), told.get("options")
        if (
            (told.get("format"), told.get("format_version")) != (_FORMAT, _FORMAT_VERSION)
            or not isinstance(sweep_id, str)
            or not sweep_id.isalnum()
            or not isinstance(options, dict)
            or not isinstance(blocks, list)
            or not blocks
            or not all(type(block) is int and block >= 0 for block in blocks)
        ):
            raise DataFileError(f"{FILE} is damaged, or another version's", str(file), COPY_HINT)
        text, _ = read_toml(path / "experiment.toml", COPY_HINT)
        experiment = loads(text, str(path / "experiment.toml"))
        if blocks[-1] >= experiment.design.repetitions:
            raise DataFileError(f"{FILE} has {said(blocks)}, which the plan lacks", str(file), COPY_HINT)
        return cls(path, sweep_id, experiment, tuple(blocks), options)

    @property
    def trace_bytes(self) -> int:
        """Return the most bytes that the file of a trace may have."""
        return int(self.options.get("page_trace", {}).get("limit_bytes") or _TRACE_BYTES) + (1 << 20)

    def part(self, block: int) -> Path:
        """Return the sweep folder of one block."""
        return self.path / f"block-{block + 1}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Context manager that holds the folder: no other command adds runs. Entering removes what a kill has left."""
        with storage.folder_lock(self.path):
            marked.remove_leftovers(self.path, f"{marked.TEMPORARY}*")
            for block in self.blocks:
                if (runs := self.part(block) / "runs").is_dir():
                    marked.remove_leftovers(runs, f"{marked.TEMPORARY}*")
            yield

    def state(self, block: int) -> PartState:
        """Return what of a block is home. Raises DataFileError where that is damaged."""
        if not self.part(block).exists():
            return PartState(missing=1)
        folder = open_sweep(self.part(block))
        records = folder.runs()
        done = {(record.run.point.index, record.run.block) for record in records if record.ok}
        left = folder.planned_cells - done
        return PartState(
            host=host_of(folder.host),
            done=frozenset(record.run_id for record in records if record.ok),
            known=frozenset(record.run_id for record in records),
            missing=len(left),
            lasting=bool(left) and left <= resume.refused_cells(folder),
        )

    def check(self, block: int) -> None:
        """Check a block that is over as `merge` does. Raises DataFileError; the block is then set aside."""
        if not self.part(block).exists():
            return
        try:
            if any(not record.ok for record in checked(self.part(block)).records):
                resume.supersede_all(open_sweep(self.part(block)))
        except BufferlabError:
            self.set_aside(block)
            raise

    def set_aside(self, block: int) -> None:
        """Move what is home of a block out of the way: it does not count, and is kept."""
        if self.part(block).exists():
            aside = self.path / resume.SUPERSEDED
            aside.mkdir(exist_ok=True)
            self.part(block).rename(next(p for p in _names(aside, f"block-{block + 1}", "") if not p.exists()))

    def join(self) -> tuple[SweepFolder, list[Problem]]:
        """Make the sweep's folder of the blocks that are home, and remove this one.

        Return it, and a problem for each block that lacks runs. Raises DataFileError for a block that was altered.
        """
        there = [block for block in self.blocks if self.part(block).exists()]
        out, stem = self.path.parent, self.path.name.removesuffix(SUFFIX)
        final = next(path for path in _names(out, stem, "") if not path.exists())
        if len(there) == 1:
            lacking = checked(self.part(there[0])).lacking()
            problems = [lacking] if lacking else []
            self.part(there[0]).rename(final)
            sync_folder(out)
            merged = open_sweep(final)
        else:
            merged, problems = merge([self.part(block) for block in there], final)
        self._keep_superseded(merged.path)
        self.remove()
        return merged, problems

    def _keep_superseded(self, merged: Path) -> None:
        """Move the runs that were done again into the sweep's folder."""
        for run in (*self.path.glob("superseded/*/runs/*"), *self.path.glob("block-*/superseded/*")):
            (merged / resume.SUPERSEDED).mkdir(exist_ok=True)
            with suppress(OSError):  # Two hosts do not give one name to two runs.
                run.rename(merged / resume.SUPERSEDED / run.name)

    def remove(self) -> None:
        """Remove this folder."""
        descriptor = marked.use(self.path)
        if descriptor is not None:
            os.close(descriptor)
            with suppress(OSError):
                marked.remove(self.path)


@dataclass
class Receiver:
    """Takes what a node sends of one block, item by item, and puts it into the block's folder."""

    gathering: Gathering
    block: int
    where: str
    """The node, for messages."""
    _arriving: Arriving | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def begun(self, *, resumed: bool) -> None:
        """Note that a node begins: runs that are home stay if it continues them, and are set aside otherwise."""
        if not resumed:
            self.gathering.set_aside(self.block)

    def take(self, item: Item) -> RunRecord | None:
        """Take a parcel's header or a piece. Return a run that is now home, whole and checked.

        Raises DataFileError for what no node of ours would send, and EnvironmentLackingError without space for it.
        """
        if item["event"] == "parcel":
            self._open(item)
        elif self._arriving is None:
            raise DataFileError("the node sent a piece of no parcel", self.where, COPY_HINT)
        else:
            self._arriving.take(item.get("data"))
        arriving = self._arriving
        if arriving is None or not arriving.is_whole:
            return None
        try:
            return self._whole(arriving)
        finally:
            self.close()

    def close(self) -> None:
        """Remove what has arrived of a parcel that is not whole."""
        self._arriving = None
        self._stack.close()

    def _open(self, header: Item) -> None:
        if self._arriving is not None:
            raise DataFileError("the node sent a parcel inside another", self.where, COPY_HINT)
        part = self.gathering.part(self.block)
        if (header.get("kind") == "sweep") == part.exists():
            raise DataFileError("the node sent a parcel before or after its time", self.where, COPY_HINT)
        above = part / "runs" if header.get("kind") == "run" else self.gathering.path
        temporary = self._stack.enter_context(
            marked.folder(above.resolve(), f"{marked.TEMPORARY}{secrets.token_hex(6)}", 0o777)
        )
        inside = temporary / "arriving"
        inside.mkdir()
        arriving = Arriving(header, inside, self.gathering.trace_bytes, self.where)
        storage.require_space(above, arriving.bytes_left, "the files of a node", "--out")
        self._arriving = arriving

    def _whole(self, arriving: Arriving) -> RunRecord | None:
        part = self.gathering.part(self.block)
        sync_folder(arriving.folder)
        if arriving.kind == "sweep":
            self._require_ours(arriving.folder)
            arriving.folder.rename(part)
        elif arriving.kind == "pools":
            (arriving.folder / OTHER_POOLS_FILE).rename(part / OTHER_POOLS_FILE)
        else:
            return self._keep_run(arriving)
        return None

    def _require_ours(self, folder: Path) -> None:
        """Refuse a sweep folder that is not of this block and experiment."""
        (folder / "runs").mkdir()
        found = open_sweep(folder)
        _, ours = read_toml(self.gathering.path / "experiment.toml", COPY_HINT)
        if found.blocks != (self.block,) or found.asked != ours or found.merged is not None:
            what = (
                f"the node sent the plan of {said(found.blocks)} of {found.experiment}, and not what it was asked for"
            )
            raise DataFileError(what, self.where, COPY_HINT)

    def _keep_run(self, arriving: Arriving) -> RunRecord | None:
        part, run_id = self.gathering.part(self.block), arriving.name
        named = arriving.folder.rename(arriving.folder.with_name(run_id))
        record = open_run(named, registry())
        cell = (record.run.point.index, record.run.block)
        sent = set(arriving.header["files"])
        if sent != {"run.json", *record.run.files} or cell not in cells_of(read_json(part / "plan.json")):
            what = "the node sent a run that is not of its block, or more files than run.json names"
            raise DataFileError(what, self.where, COPY_HINT)
        if (part / "runs" / run_id).exists():
            return None
        named.rename(part / "runs" / run_id)
        sync_folder(part / "runs")
        return replace(record, folder=part / "runs" / run_id)


def host_of(host: Mapping[str, Any]) -> Host:
    """Return which booted system a host.json is of."""
    return str(host.get("host_id", "")), str(host.get("boot_key", ""))


def _names(parent: Path, stem: str, suffix: str) -> Iterator[Path]:
    """Yield paths of that name, the second and later ones with a number."""
    yield parent / f"{stem}{suffix}"
    for number in range(2, 1000):
        yield parent / f"{stem}-{number}{suffix}"
