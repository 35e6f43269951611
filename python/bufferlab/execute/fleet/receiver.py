"""Receives the parcels that a node sends for one block, checks each, and moves it into the block's folder.

A node may run another program, or be damaged. So its items must come in the order in which genuine nodes send them, and
its files have a size limit and are opened like those of an untrusted folder. This does not stop users who have the
cluster's token, because Ray runs any code that they send.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from bufferlab import marked
from bufferlab.errors import DataFileError, EnvironmentLackingError, SpecError
from bufferlab.execute.fleet.gathering import Gathering
from bufferlab.execute.fleet.parcels import Arriving, Item
from bufferlab.execute.merge import require_one_plan
from bufferlab.registry import open_sweep, registry
from bufferlab.results.blocks import cells_of, said
from bufferlab.results.files import COPY_HINT, read_json, read_toml, sync_folder
from bufferlab.results.store import OTHER_POOLS_FILE, RunRecord, SweepFolder, experiment_mode, open_run

_SPARE_BYTES = 1 << 20
_RUNS_PER_CELL = 4
"""The maximum number of runs of one point that a task may send: its own runs, and those of killed tasks that it
continues."""


@dataclass
class Receiver:
    """The receiver of one task's items: call `begun` first, `take` for each header and piece, `close` at the end."""

    gathering: Gathering
    block: int
    where: str
    """The name of the sending node, for messages."""
    _arriving: Arriving | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _has_begun: bool = False
    _runs: int = 0

    def begun(self, *, resumed: bool) -> None:
        """Record that a node begins the block.

        Runs received before stay if the node continues them; otherwise they are set aside.


        Raises DataFileError for a second beginning.
        """
        if self._has_begun:
            self._refuse("a second beginning of its block")
        self._has_begun = True
        if not resumed:
            self.gathering.set_aside(self.block)

    def take(self, item: Item) -> RunRecord | None:
        """Process a parcel's header or a piece. Return the run that is now complete, after checking it; else None.

        Raises DataFileError for an item that no genuine node would send, and EnvironmentLackingError if this host's
        disk cannot store it. In both cases `close` removes the parcel.
        """
        with self.gathering.writing("what the nodes send"):
            if not self._has_begun:
                self._refuse("a parcel before its block had begun")
            if item["event"] == "parcel":
                self._open(item)
            elif self._arriving is None:
                self._refuse("a piece of no parcel")
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
        """Remove the pieces of an incomplete parcel."""
        self._arriving = None
        self._stack.close()

    def _open(self, header: Item) -> None:
        if self._arriving is not None:
            self._refuse("a parcel inside another")
        part, kind = self.gathering.part(self.block), header.get("kind")
        if (kind == "sweep") == part.exists():
            self._refuse("a parcel before or after its time")
        self._runs += kind == "run"
        if kind == "run" and self._runs > _RUNS_PER_CELL * len(cells_of(read_json(part / "plan.json"))):
            self._refuse("more runs than its block has")
        above = part / "runs" if kind == "run" else self.gathering.path
        # 0o700: until its final mode is known, no other user may read experiment.toml.
        temporary = self._stack.enter_context(
            marked.folder(above.resolve(), f"{marked.TEMPORARY}{secrets.token_hex(6)}", 0o700)
        )
        inside = temporary / "arriving"
        inside.mkdir()
        arriving = Arriving(header, inside, self.gathering.trace_bytes, self.where)
        if shutil.disk_usage(above).free < arriving.bytes_left + _SPARE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._arriving = arriving

    def _whole(self, arriving: Arriving) -> RunRecord | None:
        part = self.gathering.part(self.block)
        sync_folder(arriving.folder)
        if arriving.kind == "sweep":
            self._require_ours(arriving.folder)
            toml = arriving.folder / "experiment.toml"
            toml.chmod(toml.stat().st_mode & experiment_mode(toml.read_text(encoding="utf-8")))
            arriving.folder.rename(part)
        elif arriving.kind == "pools":
            (arriving.folder / OTHER_POOLS_FILE).rename(part / OTHER_POOLS_FILE)
        else:
            return self._keep_run(arriving)
        return None

    def _require_ours(self, folder: Path) -> None:
        """Refuse a sweep folder of another block or experiment, or with another plan than the other blocks.

        Two plans differ if the loaded data differ, because percentages of the database are then other sizes. Raises
        DataFileError.
        """
        (folder / "runs").mkdir()
        found = self._opened(folder)
        _, ours = read_toml(self.gathering.path / "experiment.toml", COPY_HINT)
        if found.blocks != (self.block,) or found.asked != ours or found.merged is not None:
            self._refuse(f"the plan of {said(found.blocks)} of {found.experiment}, and not what it was asked for")
        others = [block for block in self.gathering.blocks if self.gathering.part(block).exists()]
        for block in others[:1]:
            try:
                require_one_plan([open_sweep(self.gathering.part(block)), found])
            except SpecError as error:
                what = f"the plan of this node is not that of {said([block])}: {error.what}"
                raise DataFileError(what, self.where, error.hint) from error

    def _opened(self, folder: Path) -> SweepFolder:
        try:
            return open_sweep(folder)
        except EnvironmentLackingError as error:  # The error concerns a received file, not the disk.
            raise DataFileError(error.what, self.where, COPY_HINT) from error

    def _keep_run(self, arriving: Arriving) -> RunRecord | None:
        part, run_id = self.gathering.part(self.block), arriving.name
        named = arriving.folder.rename(arriving.folder.with_name(run_id))
        told = read_json(named / "run.json", COPY_HINT).get("files") if "run.json" in arriving.header["files"] else None
        if not isinstance(told, dict) or {"run.json", *told} != {*arriving.header["files"]}:
            # Refuse further files, because readers of the folder would ignore them.
            self._refuse("other files than run.json names")
        record = open_run(named, registry())
        if (record.run.point.index, record.run.block) not in cells_of(read_json(part / "plan.json")):
            self._refuse("a run that is not of its block")
        if (part / "runs" / run_id).exists():
            return None
        named.rename(part / "runs" / run_id)
        sync_folder(part / "runs")
        return replace(record, folder=part / "runs" / run_id)

    def _refuse(self, what: str) -> NoReturn:
        raise DataFileError(f"the node sent {what}", self.where, COPY_HINT)
