"""Load, run and check in one schema of a server that bufferlab did not start, and must leave as it was.

What execute caches and copies as the database is a folder with one small file: which data lie where. Runs that write
find the data loaded anew, runs that only read find them as they are: the report says which. Each family says how its
servers are spoken to.
"""

from __future__ import annotations

import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import EngineFailure, OnEvent
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.read_ahead_knob import AS_IS
from bufferlab.engines.read_ahead_knob import NAME as READ_AHEAD
from bufferlab.engines.servers import sizes
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.existing import address as addresses
from bufferlab.engines.servers.existing import changes
from bufferlab.engines.servers.existing.address import Address, Form
from bufferlab.engines.servers.existing.mark import Mark, made_by
from bufferlab.engines.servers.life import patience, signs_of_life
from bufferlab.engines.servers.read_back import ReadBack
from bufferlab.errors import DataFileError, Problem

CLEAN, LOADING, WRITTEN = "clean", "loading", "written"
"""What was done with the data that a schema holds."""
_FILE = "existing.json"
_FORMAT = "bufferlab-existing-server"
_SETTLE_SECONDS = 2.0
_DROPPED = ("database", "knobs", "program", "allow_online_changes")

Cancelled = Callable[[], bool]


def is_existing(database: Path) -> bool:
    """Is this folder a note of data on such a server?"""
    return (database / _FILE).is_file()


class ExistingServer(ABC):
    """Servers of one family that run already."""

    form: Form
    """Of its URLs."""
    unusable: tuple[type[Exception], ...]
    """What its client raises when the server refuses or fails it."""
    settings: changes.Settings
    """How settings are changed and put back."""
    declaration: EngineDeclaration
    """The engine's own."""

    # How the family's servers are spoken to.

    @abstractmethod
    def build(self, url: str) -> Build:
        """The server as a build: its version, asked of it. EnvironmentLackingError: not there, or another."""

    @abstractmethod
    def connect(self, address: Address, *, patient: bool = False) -> Any:
        """A connection, in autocommit; a patient one waits for any statement. Or EnvironmentLackingError."""

    @abstractmethod
    def listen(self, address: Address) -> None:
        """EngineFailure when the server says nothing."""

    @abstractmethod
    def needs(self, address: Address) -> str:
        """What the account must be allowed, as a hint."""

    # The schema that is ours.

    @abstractmethod
    def make_sure_of(self, address: Address) -> None:
        """The schema exists, empty if it did not; what is in it is not touched."""

    @abstractmethod
    def claim(self, address: Address) -> None:
        """The schema, made if need be, ours, and empty. EngineFailure when it is somebody else's."""

    @abstractmethod
    def mark(self, address: Address, mark: Mark) -> None:
        """Say in the schema which data it holds, what was done with them, and what was made for them."""

    @abstractmethod
    def marked(self, address: Address) -> Mark | None:
        """The mark; None where there is no such schema, or it is not ours."""

    # Settings.

    @abstractmethod
    def wanted(self, connection: Any, found: Build, asked: Mapping[str, int | str]) -> dict[str, str]:
        """Variables that were asked for and are not so. EngineFailure for what no running server can be given."""

    @abstractmethod
    def told(self, connection: Any) -> Mapping[str, str]:
        """Every variable as the server has it, for messages."""

    @abstractmethod
    def read_back(self, connection: Any, found: Build, knobs: Mapping[str, int | str]) -> ReadBack:
        """The settings it runs with."""

    @abstractmethod
    def require_made_with(self, address: Address, asked: Mapping[str, int | str]) -> None:
        """EngineFailure unless the server was made with what was asked for, as its page size."""

    # What is done there.

    @abstractmethod
    def target(self, address: Address) -> dict[str, Any]:
        """Where the server is, as the core wants it told."""

    @abstractmethod
    def schema_sql(self, workload: Mapping[str, Any]) -> str:
        """The statements by which a load makes its tables, as the core words them."""

    @abstractmethod
    def fill(self, core_job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Load, by the core."""

    @abstractmethod
    def drive(self, core_job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Run, by the core."""

    @abstractmethod
    def settle(self, address: Address) -> None:
        """What a load leaves to be done."""

    @abstractmethod
    def allocated_bytes(self, connection: Any, found: Build, address: Address) -> int:
        """Bytes of data and indexes of the schema."""

    @abstractmethod
    def conditions(self, connection: Any, job: Mapping[str, Any], database: Path, address: Address) -> dict[str, Any]:
        """The workload's consistency conditions."""

    @abstractmethod
    def connections(self, connection: Any) -> int:
        """Clients the server has now, ours among them."""

    # What is the same for all.

    def parse(self, url: str) -> Address:
        """The address in a URL. EnvironmentLackingError when it is none, or holds a password."""
        return addresses.parse(url, self.form)

    @contextmanager
    def locked(self, address: Address) -> Iterator[None]:
        """One run in a schema at a time, whoever starts it, from whatever host; EngineFailure while there is one."""
        with self.settings.holding(address, address.schema, changes.LOCK_SECONDS) as lock:
            if lock is None:
                what = f"another run of bufferlab uses this {self.form.schema}"
                raise EngineFailure("environment", what, address.place, "wait for it, or name another")
            yield

    def reserved(self, urls: Collection[str]) -> AbstractContextManager[list[tuple[str, list[str]]]]:
        """As `changes.reserved` says, for the servers at these URLs."""
        return changes.reserved(self.settings, [self.parse(url) for url in urls])

    def put_back_everywhere(self, urls: Collection[str] | None = None) -> list[tuple[str, list[str] | Problem]]:
        """Put back what killed runs left changed, at these URLs or all: (URL, variables put back or why not)."""
        return changes.put_back_everywhere(self.settings, self.form, urls)

    def load(self, job: Mapping[str, Any], on_event: OnEvent, cancelled: Cancelled) -> dict[str, Any]:
        """The workload's data in the schema, and the note of it."""
        database, knobs = Path(job["database"]), job["knobs"]
        address = self.parse(str(knobs["server"]))
        found = self.build(address.url)
        self.require_made_with(address, self._asked(knobs))
        note = {
            "format": _FORMAT,
            "format_version": 1,
            "url": address.url,
            "data_id": secrets.token_hex(16),
            "workload": dict(job["workload"]),
            "threads": job["threads"],
        }
        with self._explained(address), self.locked(address):
            loaded = self._load(address, found, note, on_event, cancelled)
            with (
                closing(self.connect(address, patient=True)) as connection,
                self._signs_of_life(on_event, "closing", address),
            ):
                stored = self.allocated_bytes(connection, found, address)
        database.mkdir(mode=0o700)
        (database / _FILE).write_text(json.dumps(note, indent=1) + "\n")
        sizes.store(database, stored, None)
        return {**loaded, "place": address.place}

    def run(self, job: Mapping[str, Any], on_event: OnEvent, cancelled: Cancelled) -> dict[str, Any]:
        """One run: data as they must be, settings changed where that is allowed, the core, settings put back."""
        database, knobs = Path(job["database"]), job["knobs"]
        _require_no_program(job)
        _refuse_host_settings(self._asked(knobs))
        note, address = self._note(database, knobs)
        found = self.build(address.url)
        wait, allowed = patience(on_event, cancelled), bool(job.get("allow_online_changes"))
        with (
            self._explained(address),
            self.locked(address),
            changes.turn(self.settings, address) if allowed else nullcontext() as turn,
        ):
            left = [] if allowed else changes.left(self.settings, address)
            self.make_sure_of(address)
            with closing(self.connect(address)) as connection:
                ours = _connections_of_ours(self.settings, connection, allowed=allowed)
                wanted = self.wanted(connection, found, self._asked(knobs))
                if wanted and turn is None:
                    raise _not_allowed(wanted, self.told(connection), left)
                start = self._prepare_data(address, found, note, job, on_event, cancelled)
                others = self._others(connection, ours)
                with turn.changed(connection, wanted, wait) if turn else nullcontext():
                    told = self._told_to_a_new_connection(address, found, knobs)
                    result = self.drive(self._core_job(job, address, found, told.frames), on_event)
                    if not cancelled():
                        _require_same(told, self._told_to_a_new_connection(address, found, knobs), address)
                others = max(others, self._others(connection, ours))
        as_found = self._as_found(told, knobs)
        return {
            **result,
            "actual": {**result.get("actual", {}), **told.actual},
            "as_found": as_found,
            "engine_version": found.version,
            "engine_conf": _conf(wanted, as_found, told.actual),
            "notes": told.notes,
            "confounds": [*_confounds(others, as_found, told.actual, job), *left, start, *told.confounds],
            "start": start,
        }

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """The consistency conditions, in the schema as the run left it."""
        database = Path(job["database"])
        note, address = self._note(database, {})
        with (
            self._explained(address),
            closing(self.connect(address, patient=True)) as connection,
            self._signs_of_life(on_event, "checking", address),
        ):
            found = self.marked(address)
            if found is None or found.data_id != note["data_id"]:
                what = f"the {self.form.schema} holds other data than were loaded"
                raise DataFileError(what, address.place, "run it again")
            return self.conditions(connection, job, database, address)

    def _load(
        self,
        address: Address,
        found: Build,
        note: Mapping[str, Any],
        on_event: OnEvent,
        cancelled: Cancelled,
    ) -> dict[str, Any]:
        mark = Mark(note["data_id"], LOADING, made_by(self.schema_sql(note["workload"])))
        self.claim(address)
        self.mark(address, mark)
        core_job = {
            "target": self.target(address),
            "version": found.version,
            "workload": note["workload"],
            "threads": note["threads"],
        }
        with self._signs_of_life(on_event, "loading", address):
            loaded = self.fill(core_job, on_event)
            if not cancelled():
                self.settle(address)
        if cancelled():
            raise EngineFailure("interrupted", "stopped on request")
        self.mark(address, replace(mark, state=CLEAN))
        return loaded

    def _prepare_data(
        self,
        address: Address,
        found: Build,
        note: Mapping[str, Any],
        job: Mapping[str, Any],
        on_event: OnEvent,
        cancelled: Cancelled,
    ) -> str:
        """The rows as loaded; what the report says the run began with."""
        mark = self.marked(address)
        if mark is None or (mark.data_id, mark.state) != (note["data_id"], CLEAN):
            self._load(address, found, note, on_event, cancelled)
        if _only_reads(job.get("workload")):
            return "the run began with the rows as they were loaded once, which this workload only reads: no copy"
        self._mark_written(address)
        return (
            f"the run began with rows loaded into the server's {self.form.schema} for it: the same rows each time, "
            "not the same bytes"
        )

    def _mark_written(self, address: Address) -> None:
        mark = self.marked(address)
        assert mark is not None, "the schema was marked when it was loaded"
        self.mark(address, replace(mark, state=WRITTEN))

    def _told_to_a_new_connection(self, address: Address, found: Build, knobs: Mapping[str, int | str]) -> ReadBack:
        """The settings, as those have them that begin after a change."""
        with closing(self.connect(address)) as fresh:
            return self.read_back(fresh, found, knobs)

    def _asked(self, knobs: Mapping[str, int | str]) -> dict[str, int | str]:
        """What was asked for: a default of bufferlab's is not asked of somebody else's server."""
        declaration = self.declaration
        defaults = declaration.native({**declaration.defaults(), "pool_size": "5MiB"}, None)
        kept = ("pool_size_bytes", "page_size_bytes")
        return {name: value for name, value in knobs.items() if name in kept or defaults.get(name) != value}

    def _as_found(self, told: ReadBack, knobs: Mapping[str, int | str]) -> list[str]:
        """Native names of what bufferlab would choose itself on a server of its own, and what is otherwise here."""
        asked = self._asked(knobs)
        return [name for name, value in knobs.items()
                if name not in asked and name != "server" and told.actual.get(name, value) != value]  # fmt: skip

    def _others(self, connection: Any, ours: int) -> int:
        """Connections of other people; ours that have just ended are given a moment to be gone."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            others = max(0, self.connections(connection) - ours)
            if not others or time.monotonic() > deadline:
                return others
            time.sleep(0.1)

    def _core_job(self, job: Mapping[str, Any], address: Address, found: Build, frames: int) -> dict[str, Any]:
        return {
            **{name: value for name, value in job.items() if name not in _DROPPED},
            "target": self.target(address),
            "version": found.version,
            "server_pid": None,
            "datadir": None,
            "statements": job["knobs"].get("statements", "spec"),
            "frames": frames,
            "program": None,
        }

    def _note(self, database: Path, knobs: Mapping[str, int | str]) -> tuple[dict[str, Any], Address]:
        try:
            note: dict[str, Any] = json.loads((database / _FILE).read_text())
            if note["format"] != _FORMAT:
                raise ValueError("it is of another program")
            address = self.parse(note["url"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataFileError(f"this is no note of data on a server: {error}", str(database), "delete it") from error
        if knobs and knobs["server"] != address.url:
            raise DataFileError("this is a note of data on another server", str(database), "delete it")
        return note, address

    @contextmanager
    def _explained(self, address: Address) -> Iterator[None]:
        """What the server refuses us, as an error that says what an account needs."""
        try:
            yield
        except self.unusable as error:
            said = str(error.args[-1] if error.args else error).strip()
            what = f"the server said: {said}"
            raise EngineFailure("environment", what, address.place, self.needs(address)) from error

    @contextmanager
    def _signs_of_life(self, on_event: OnEvent, what: str, address: Address) -> Iterator[None]:
        """As `life`'s; it ends with the server's, which cannot be ended from here."""
        with signs_of_life(on_event, what, lambda: self.listen(address)):
            yield


def _connections_of_ours(settings: changes.Settings, connection: Any, *, allowed: bool) -> int:
    """Connections of ours while other people's are counted: the one that asks, and those that hold locks."""
    return 2 + (1 + settings.is_held(connection, changes.SWEEP) if allowed else 0)


def _require_same(before: ReadBack, after: ReadBack, address: Address) -> None:
    """EngineFailure when settings are not what they were before the run: it has not measured what it would report."""
    changed = [f"{name} from {value} to {after.actual.get(name)}"
               for name, value in before.actual.items() if after.actual.get(name) != value]  # fmt: skip
    if changed:
        what = f"somebody else changed settings of the server while it was measured: {', '.join(changed)}"
        raise EngineFailure("environment", what, address.place, "run it again when nobody changes them")


def _only_reads(workload: Mapping[str, Any] | None) -> bool:
    if workload is None:
        return False
    return workload["name"] == "index_scan" or (
        workload["name"] == "hot_rows" and not int(workload.get("update_percent", 0))
    )


def _require_no_program(job: Mapping[str, Any]) -> None:
    if job.get("program"):
        raise EngineFailure(
            "usage",
            "external programs are started against bufferlab's own servers only",
            "--server",
            "leave --server out, or use a workload of bufferlab's",
        )


def _refuse_host_settings(asked: Mapping[str, int | str]) -> None:
    """EngineFailure for what is the host's, which may not be this one."""
    for name, unset in (("memory_limit_bytes", "off"), (READ_AHEAD, AS_IS)):
        if asked.get(name, unset) != unset:
            knob = name.removesuffix("_bytes")
            what = f"{knob} is set around servers that bufferlab starts, not around one that runs already"
            raise EngineFailure("usage", what, knob, f"--set {knob}={unset}, or leave --server out")


def _not_allowed(wanted: Mapping[str, str], told: Mapping[str, str], left: Sequence[str]) -> EngineFailure:
    differing = ", ".join(f"{name} is {told.get(name, 'unknown')}, {value} asked" for name, value in wanted.items())
    hint = f"ask for what it has (--set), or let bufferlab change what can be changed and put it back: {changes.ALLOW}"
    if left:
        hint = f"bufferlab doctor puts back what an earlier run left; or {hint}"
    what = "; ".join([f"the server runs with other settings: {differing}", *left])
    return EngineFailure("usage", what, ", ".join(wanted), hint)


def _confounds(others: int, as_found: list[str], actual: Mapping[str, Any], job: Mapping[str, Any]) -> list[str]:
    said = ["the server is not bufferlab's own: its counters are of everything it did, and pages lie where it put them"]
    if others:
        said.append(f"{others} other connections were open: what they asked for is in the counters too")
    if job["warm_up"]["max_transactions"] == 0:
        said.append("the window did not begin with an empty pool, as it does on a server of bufferlab's own")
    if as_found:
        shown = ", ".join(f"{name} = {actual[name]}" for name in as_found)
        said.append(f"as the server has it, not as on a server of bufferlab's own: {shown}")
    return said


def _conf(wanted: Mapping[str, str], as_found: list[str], actual: Mapping[str, Any]) -> str:
    lines = ["# A server that bufferlab did not start. Changed while it ran, and put back:"]
    lines += [f"{name} = {value}" for name, value in wanted.items()] or ["# nothing"]
    lines += ["", "# As found:", *(f"# {name} = {actual[name]}" for name in as_found)]
    return "\n".join(lines) + "\n"
