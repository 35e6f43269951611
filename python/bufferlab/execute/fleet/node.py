"""The code on a node, inside a Ray task: it returns the node's facts, does a block, and sends its runs home.

"Home" is the host on which the user gave the command. A separate process (block.py) does the block itself. This code
reads that process's events, looks for the runs that it has published, and yields them in pieces. It does not import
Ray.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bufferlab import marked
from bufferlab.errors import BufferlabError, EnvironmentLackingError, Failure
from bufferlab.execute.fleet import block
from bufferlab.execute.fleet.parcels import POOLS_FILES, RUN_ID, SWEEP_FILES, Item, packed
from bufferlab.execute.host import fingerprint, storage
from bufferlab.execute.host.reachable import servers_owner
from bufferlab.execute.run.supervise import Event, supervise
from bufferlab.execute.stop import StopRequest
from bufferlab.results.files import read_json

_SILENT_S = 120.0
_HELD_S = 60.0
"""The longest wait, in seconds, for the end of a process that another node of this host started."""
_MOST_TEXT = 2000

Order = Mapping[str, Any]
"""The order for a block: sweep_id, experiment (TOML), block, options, device_wait_s.

It also has the host that did the block's earlier runs (None if there are none), the names of all these runs (known),
and the names of the successful ones (done).
"""


def facts(order: Order) -> dict[str, Any]:
    """Return the facts that must be equal on all nodes, and this host's identity.

    Raises SpecError or EnvironmentLackingError if this host cannot do the experiment.
    """
    from bufferlab.execute.sweep import what_decides
    from bufferlab.spec import loads

    experiment = loads(order["experiment"], "the experiment of the command")
    versions, data_keys = what_decides(experiment)
    chosen = order["options"]["data_dir"]
    place = storage.data_directory(Path(chosen) if chosen else None, _rooms(), servers_owner(experiment.engine))
    storage.require_directory(place, "the data", "--data-dir or $BUFFERLAB_DATA")
    host = fingerprint.fingerprint(place)
    return {"versions": versions, "data_keys": data_keys, "host": [host["host_id"], host["boot_key"]]}


def do_block(order: Order) -> Iterator[Item]:
    """Do a block; yield the items to send home: events, and files in pieces. The last item is the event "end"."""
    try:
        with _room(order) as room:
            yield from _BlockDone(order, room).items()
    except (BufferlabError, OSError) as error:
        failure = error.failure if isinstance(error, BufferlabError) else Failure(str(error), None, None, "io")
        yield _bounded({"event": "end", "failure": failure.as_dict()})


def forget(sweep_id: str) -> None:
    """Remove this host's data of a sweep that is complete, or abandoned."""
    for place in _rooms().glob(f"{marked.TEMPORARY}{sweep_id}-*"):
        with storage.folder_lock(place):
            marked.remove(place)


def _rooms() -> Path:
    return storage.cache_root().resolve() / storage.ROOM


@contextmanager
def _room(order: Order) -> Iterator[Path]:
    """Context manager that locks the folder of a block on this host. The folder stays, so that a task can continue it.

    Raises EnvironmentLackingError if another node of this host holds the folder for longer than a minute.
    """
    place = _rooms() / f"{marked.TEMPORARY}{order['sweep_id']}-{order['block'] + 1}"
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as stack:
        deadline = time.monotonic() + _HELD_S
        while True:
            try:
                stack.enter_context(storage.folder_lock(place))
                break
            except EnvironmentLackingError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
        held = marked.use(place)  # From now on `cache prune` does not remove the folder.
        if held is not None:
            stack.callback(os.close, held)
        yield place


@dataclass
class _BlockDone:
    """One block while a process does it."""

    order: Order
    room: Path
    _told: queue.Queue[Event] = field(default_factory=lambda: queue.Queue(1000))
    _stop: StopRequest = field(default_factory=StopRequest)

    @property
    def out(self) -> Path:
        return self.room / "out"

    def items(self) -> Iterator[Item]:
        """Yield the items of the block, the end last. If the caller stops early, the block's process is ended."""
        before = self._continued()
        has_sweep = before is not None and self._is_at_home(before)
        yield {"event": "begun", "resumed": has_sweep}
        sent = set(self.order["known"]) if has_sweep else set[str]()
        thread = threading.Thread(target=self._work, args=(before,))
        thread.start()
        try:
            event: Event = {"event": "beat"}
            while True:
                if (folder := self._folder()) is not None:
                    if not has_sweep:
                        has_sweep = True
                        yield from packed("sweep", "", folder, SWEEP_FILES)
                    for run in _published(folder, sent):
                        sent.add(run.name)
                        yield from packed("run", run.name, run, _files(run))
                    if event["event"] == "end" and (folder / POOLS_FILES[0]).is_file():
                        yield from packed("pools", "", folder, POOLS_FILES)
                yield event
                if event["event"] == "end":
                    return
                event = self._next()
        finally:
            self._stop.signal_number = self._stop.signal_number or signal.SIGTERM
            thread.join()

    def _continued(self) -> Path | None:
        """Return the sweep folder to continue; None if there is none. Remove a folder that cannot be continued.

        The folder must be from this boot of this host, and must have all runs that the home host has received from this
        boot. A folder from before a reboot, or of another host that shares the cache, is not continued: a block is the
        work of one boot of one host.
        """
        folder = self._folder()
        if (
            folder is not None
            and read_json(folder / "host.json").get("boot_key", "") == fingerprint.boot_key()
            and (all((folder / "runs" / run).is_dir() for run in self.order["done"]) or not self._is_at_home(folder))
        ):
            return folder
        if self.out.exists():
            marked.clear(self.out)
        return None

    def _is_at_home(self, folder: Path) -> bool:
        """Return whether this sweep folder's host and boot did the block's runs that the home host has."""
        host = read_json(folder / "host.json")
        return bool(self.order["host"] == [host.get("host_id"), host.get("boot_key")])

    def _folder(self) -> Path | None:
        """Return the sweep folder of the block; None until it has its final name."""
        if not self.out.is_dir():
            return None
        named = [path for path in sorted(self.out.iterdir()) if not path.name.startswith(marked.TEMPORARY)]
        return next((path for path in named if (path / "plan.json").is_file()), None)

    def _next(self) -> Event:
        """Return the process's next event, with its texts cut to a limit; a heartbeat if no event comes."""
        try:
            event = self._told.get(timeout=block.BEAT_S)
        except queue.Empty:
            return {"event": "beat"}
        return _bounded(event)

    def _tell(self, event: Event) -> None:
        """Queue an event of the process for `_next`. Never block: if the queue is full, drop the oldest event."""
        while True:
            try:
                self._told.put_nowait(event)
                return
            except queue.Full:
                with suppress(queue.Empty):
                    self._told.get_nowait()

    def _work(self, before: Path | None) -> None:
        """Run the process that does the block, and queue a last event that says how it ended."""
        experiment = self.order["experiment"]
        job = {
            "experiment": experiment,
            "block": self.order["block"],
            "options": self.order["options"],
            "device_wait_s": self.order["device_wait_s"],
            "out": str(self.out),
            "resume": str(before) if before else None,
        }
        try:
            outcome = supervise(
                "block",
                "",
                job,
                log_file=self.room / "block.log",
                stop=self._stop,
                silent_seconds=_SILENT_S,
                on_event=self._tell,
                module=block.MODULE,
            )
            # A block whose runs failed has finished all the same.
            failure = outcome.failure.as_dict() if outcome.failure else None
        except OSError as error:
            failure = Failure(str(error), str(self.room), None, "io").as_dict()
        self._tell({"event": "end", "failure": failure})


def _bounded(told: Event) -> Event:
    """Return the event with its texts cut to fit into Ray's messages."""
    return {
        name: value[:_MOST_TEXT] if isinstance(value, str) else _bounded(value) if isinstance(value, dict) else value
        for name, value in told.items()
    }


def _files(run: Path) -> list[str]:
    """Return the files of a run without its mark, which is removed a moment after the run gets its name."""
    return sorted(file.name for file in run.iterdir() if file.name != marked.MARK)


def _published(folder: Path, sent: set[str]) -> list[Path]:
    """Return the published run folders that were not sent yet, in the order of their publication."""
    runs = [path for path in (folder / "runs").iterdir() if RUN_ID.fullmatch(path.name) and path.name not in sent]
    return sorted(runs, key=lambda path: path.stat().st_mtime_ns)
