"""The folder that collects the runs of a sweep on a cluster: one sweep folder for each block, until all are merged.

receiver.py stores there the data that nodes send. Each block is checked like an untrusted folder: when its task has
ended, and again when all blocks are merged. If another host starts a block again, the earlier runs move to superseded/,
so that nothing is counted twice.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from bufferlab import marked
from bufferlab.errors import BufferlabError, DataFileError, Problem, SpecError
from bufferlab.execute import resume
from bufferlab.execute.fleet.node_options import NodeOptions
from bufferlab.execute.fleet.rounds import Host
from bufferlab.execute.host import storage
from bufferlab.execute.merge import checked, merge, refuse_links
from bufferlab.registry import open_sweep
from bufferlab.results.blocks import said
from bufferlab.results.files import COPY_HINT, into, read_json, read_toml, sync_folder, validated, write_bytes
from bufferlab.results.store import SweepFolder, experiment_mode
from bufferlab.spec import Experiment, loads, to_toml
from bufferlab.units import GIB

SUFFIX = ".fleet"
FILE = "fleet.json"
_TRACE_BYTES = 2 * GIB
"""The largest trace in bytes if --trace-limit was not given, as on one host."""


class _Stored(BaseModel):
    """The content of fleet.json in the folder."""

    format: Literal["bufferlab-fleet"] = "bufferlab-fleet"
    format_version: Literal[1] = 1
    sweep_id: str = Field(pattern="^[0-9a-f]{12}$")
    """The sweep's id, by which nodes recognise it."""
    blocks: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    options: NodeOptions


@dataclass(frozen=True)
class PartState:
    """The state of a block: its host, the received runs, and how many are missing."""

    host: Host | None = None
    """The host that did the block's runs; None if there are none."""
    done: frozenset[str] = frozenset()
    """The names of the block's successful runs."""
    known: frozenset[str] = frozenset()
    """The names of all received runs of the block."""
    missing: int = 0
    lasting: bool = False
    """Whether every missing run failed for a reason that a retry would not change."""

    @property
    def is_whole(self) -> bool:
        """Return whether no run of the block is missing."""
        return self.host is not None and not self.missing


@dataclass(frozen=True)
class Gathering:
    """An incomplete sweep on a cluster: its folder, its experiment, and the blocks that nodes do."""

    path: Path
    sweep_id: str
    experiment: Experiment
    blocks: tuple[int, ...]
    options: NodeOptions

    @classmethod
    def create(cls, out: Path, experiment: Experiment, blocks: Sequence[int], options: NodeOptions) -> Gathering:
        """Create the folder `<experiment>-<time>.fleet` below `out`; it appears completely or not at all.

        Raises EnvironmentLackingError if it cannot be written.
        """
        stem, text = f"{experiment.name}-{datetime.now(UTC):%Y%m%d-%H%M%S}", to_toml(experiment)
        document = _Stored(sweep_id=secrets.token_hex(6), blocks=list(blocks), options=options)
        storage.require_directory(out, "the results", "--out")
        with (
            into(out, "the sweep's folder", "nothing of it is kept", "run the command again"),
            storage.locked(out),
            marked.folder(out.resolve(), f"{marked.TEMPORARY}{document.sweep_id}", 0o777) as temporary,
        ):
            (temporary / "experiment.toml").touch(experiment_mode(text))
            write_bytes(temporary / "experiment.toml", text.encode())
            write_bytes(temporary / FILE, (json.dumps(document.model_dump(mode="json"), indent=1) + "\n").encode())
            sync_folder(temporary)
            path = next(path for path in _names(out, stem, SUFFIX) if not path.exists())
            temporary.rename(path)
            sync_folder(out)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Gathering:
        """Open a gathering's folder. Raises DataFileError if it is damaged, SpecError if it is not a gathering's."""
        if not (path / FILE).is_file():
            hint = "for the folder of one host, leave --ray out; of a cluster's sweep it ends in .fleet"
            raise SpecError("no sweep of a cluster is in this folder", f"--resume {path}", hint)
        refuse_links(path)
        file = path / FILE
        try:
            stored = validated(_Stored, read_json(file, COPY_HINT), file, COPY_HINT)
        except SpecError as error:  # SpecError: the options exclude each other.
            raise DataFileError(f"{FILE} is damaged at options: {error.what}", str(file), COPY_HINT) from error
        blocks = tuple(sorted({*stored.blocks}))
        text, _ = read_toml(path / "experiment.toml", COPY_HINT)
        experiment = loads(text, str(path / "experiment.toml"))
        if blocks[-1] >= experiment.design.most:
            raise DataFileError(f"{FILE} has {said(blocks)}, which the plan lacks", str(file), COPY_HINT)
        return cls(path, stored.sweep_id, experiment, blocks, stored.options)

    @property
    def trace_bytes(self) -> int:
        """Return the largest file of a trace in bytes. --trace-limit limits page traces only."""
        limit = self.options.page_trace.limit_bytes or _TRACE_BYTES
        return (max(limit, _TRACE_BYTES) if self.options.block_trace else limit) + (1 << 20)

    @property
    def told_options(self) -> dict[str, Any]:
        """Return the options that nodes get, in a form for JSON."""
        return asdict(self.options)

    @property
    def resume_command(self) -> str:
        """Return the command line that does the missing runs of this gathering."""
        return f"bufferlab run --resume {self.path} --ray HOST:PORT"

    def writing(self, what: str) -> AbstractContextManager[None]:
        """Context manager for writing into the folder.

        Raises EnvironmentLackingError if the disk refuses: the sweep then ends, and can be resumed.
        """
        return into(self.path, what, "the runs that are home are kept", self.resume_command)

    def part(self, block: int) -> Path:
        """Return the path for the sweep folder of one block, which is counted from 0."""
        return self.path / f"block-{block + 1}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Context manager that locks the folder against other commands. Entering removes files of killed commands."""
        with storage.folder_lock(self.path):
            marked.remove_leftovers(self.path, f"{marked.TEMPORARY}*")
            for block in self.blocks:
                if (runs := self.part(block) / "runs").is_dir():
                    marked.remove_leftovers(runs, f"{marked.TEMPORARY}*")
            yield

    def state(self, block: int) -> PartState:
        """Return the state of a block's received runs. Raises DataFileError if they are damaged."""
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
        """Check a block whose task has ended, as `merge` does, and move aside its failed runs that were done again.

        If the block is damaged or of another sweep, sets it aside and raises DataFileError or SpecError.
        """
        if not self.part(block).exists():
            return
        try:
            if any(not record.ok for record in checked(self.part(block)).records):
                resume.supersede_all(open_sweep(self.part(block)))
        except (DataFileError, SpecError):
            self.set_aside(block)
            raise

    def set_aside(self, block: int) -> None:
        """Move the received runs of a block aside: they are kept, but do not count."""
        if not self.part(block).exists():
            return
        aside = self.path / resume.SUPERSEDED
        with self.writing("a block's place"):
            aside.mkdir(exist_ok=True)
            self.part(block).rename(next(p for p in _names(aside, f"block-{block + 1}", "") if not p.exists()))

    @property
    def is_whole(self) -> bool:
        """Return whether all runs of all blocks were received, and none is damaged."""
        try:
            return all(self.state(block).is_whole for block in self.blocks)
        except DataFileError:
            return False

    def join(self) -> tuple[SweepFolder, list[Problem]]:
        """Merge the received blocks into the sweep's folder, and remove the gathering's folder.

        Return the merged folder, and a problem for each block that lacks runs. Raises DataFileError for an altered
        block.
        """
        parts = [self.part(block) for block in self.blocks if self.part(block).exists()]
        out, stem = self.path.parent, self.path.name.removesuffix(SUFFIX)
        taken = list(takewhile(Path.exists, _names(out, stem, "")))
        final = next(path for path in _names(out, stem, "") if path not in taken)
        if len(parts) == 1:
            problems = _lacking(parts)
            self._keep_superseded(parts[0])
            with self.writing("the sweep's folder"):
                parts[0].rename(final)
                sync_folder(out)
            # Remove it at once: if this process is killed first, --resume of the folder would measure the block again.
            self.remove()
            return open_sweep(final), problems
        if before := _merged_before(parts, taken):
            merged, problems = before, _lacking(parts)
        else:
            merged, problems = merge(parts, final)
        self._keep_superseded(merged.path)
        self.remove()
        return merged, problems

    def _keep_superseded(self, merged: Path) -> None:
        """Move runs that were done again into superseded/ of the merged folder."""
        runs = [*self.path.glob("superseded/*/runs/*"), *self.path.glob("block-*/superseded/*")]
        with self.writing("the place of runs that were done again"):
            for run in runs:
                (merged / resume.SUPERSEDED).mkdir(exist_ok=True)
                # Names of runs are random, so equal names mean the same run.
                if not (merged / resume.SUPERSEDED / run.name).exists():
                    run.rename(merged / resume.SUPERSEDED / run.name)

    def remove(self) -> None:
        """Remove this folder.

        If this process is killed meanwhile, no command resumes the folder: the next sweep removes it.
        """
        descriptor = marked.use(self.path)
        if descriptor is not None:
            os.close(descriptor)
            with suppress(OSError):
                aside = self.path.parent.resolve() / f"{marked.TEMPORARY}{self.sweep_id}"
                marked.remove(self.path.rename(aside))


def host_of(host: Mapping[str, Any]) -> Host:
    """Return the host and its boot, from the content of a host.json."""
    return str(host.get("host_id", "")), str(host.get("boot_key", ""))


def _lacking(parts: Sequence[Path]) -> list[Problem]:
    """Return a problem for each block that lacks runs. Raises DataFileError for an altered block."""
    return [problem for part in parts if (problem := checked(part).lacking())]


def _merged_before(parts: Sequence[Path], taken: Sequence[Path]) -> SweepFolder | None:
    """Return the folder in `taken` that has exactly the runs of the parts; None if there is none.

    A command that was killed after its merge has left such a folder.
    """
    runs = {record.run_id for part in parts for record in open_sweep(part).runs()} if taken else set()
    for path in taken if runs else ():
        with suppress(BufferlabError):  # A damaged folder cannot be the merged folder, so ignore its errors.
            folder = open_sweep(path)
            if {record.run_id for record in folder.runs()} == runs:
                return folder
    return None


def _names(parent: Path, stem: str, suffix: str) -> Iterator[Path]:
    """Yield the paths `stem`, `stem`-2, `stem`-3 and so on, each with the suffix."""
    yield parent / f"{stem}{suffix}"
    for number in range(2, 1000):
        yield parent / f"{stem}-{number}{suffix}"
