"""Loads, runs and checks in one schema of a server that bufferlab did not start and must leave as it was.

The "database" that execute caches and copies is a folder with one small file, which says which data lie where. Before
a run the data are loaded again if an earlier run wrote to them; the report says what the run began with. Each family
implements how its servers are spoken to.
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
from typing import Any, ClassVar

from bufferlab.engines.behaviour import EngineFailure, OnEvent
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.native import load_core, load_recipe, run_core
from bufferlab.engines.read_ahead_knob import AS_IS
from bufferlab.engines.read_ahead_knob import NAME as READ_AHEAD
from bufferlab.engines.servers import stored_sizes
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.existing import address as addresses
from bufferlab.engines.servers.existing import changes
from bufferlab.engines.servers.existing.address import Address, Form
from bufferlab.engines.servers.existing.mark import Mark, made_by, require_as_loaded
from bufferlab.engines.servers.life import patience, signs_of_life
from bufferlab.engines.servers.read_back import ReadBack
from bufferlab.errors import DataFileError, EnvironmentLackingError, Problem
from bufferlab.knob import Native, Values, values_of

WRITABLE = "it is a standby, or set to read only: name its primary, or a server that may be written"
CLEAN, LOADING, WRITTEN = "clean", "loading", "written"
"""The states of the data in a schema: as loaded, a load not finished, changed by a run."""
_FILE = "existing.json"
_FORMAT = "bufferlab-existing-server"
_SETTLE_SECONDS = 2.0
_DROPPED = ("database", "knobs", "program", "allow_online_changes")

Cancelled = Callable[[], bool]


def is_existing(database: Path) -> bool:
    """Return whether this folder is a note of data on a running server."""
    return (database / _FILE).is_file()


class ExistingServer(ABC):
    """The way to use running servers of one family; it holds no connection between calls.

    The caller holds the schema's lock (`locked`) while it calls `make_sure_of`, `claim`, `mark` and `settle`, and
    while the core loads and drives. The client's exceptions (`unusable`) may pass through: the caller turns them into
    an EngineFailure with the hint of `needs`.
    """

    form: Form
    """The form of the family's URLs."""
    unusable: tuple[type[Exception], ...]
    """The exceptions of the family's client when the server refuses or fails a statement."""
    settings: changes.Settings
    """How the family's settings are locked, changed and put back."""
    declaration: EngineDeclaration
    """The declaration of the engine that this is used for."""
    core_words: ClassVar[Mapping[str, Any]] = {}
    """Further entries of the core's job: what it must not do on a server that is not ours."""

    # Each family implements these: how its servers are spoken to.

    @abstractmethod
    def build(self, url: str) -> Build:
        """Ask the server for its version; return it as a build named by the URL, with no files.

        Raises EnvironmentLackingError when it cannot be reached, or is of another engine.
        """

    @abstractmethod
    def connect(self, address: Address, *, patient: bool = False) -> Any:
        """Open an autocommit connection, which the caller closes; `patient` removes the read timeout.

        Raises EnvironmentLackingError when it is refused.
        """

    @abstractmethod
    def listen(self, address: Address) -> None:
        """Ask the server for an answer over a new connection; raise EngineFailure when none comes soon.

        Called from a second thread while a long statement runs.
        """

    @abstractmethod
    def needs(self, address: Address) -> str:
        """Return the hint that names the privileges the account needs."""

    @abstractmethod
    def is_read_only(self, error: BaseException) -> bool:
        """Return whether the server refused a statement because nobody may write there, whatever the account may."""

    # The schema that bufferlab claims.

    @abstractmethod
    def make_sure_of(self, address: Address) -> None:
        """Create the schema if `connect` needs it to exist and it does not. Must not touch what is in it."""

    @abstractmethod
    def require_safe(self, address: Address) -> None:
        """Raise EngineFailure when code that others may put into the schema would run with great rights of ours.

        Before: `make_sure_of` was called. Runs no such code.
        """

    @abstractmethod
    def objects(self, address: Address) -> list[str]:
        """Return in words all that the schema holds but the mark: tables with their columns, indexes, code, keys."""

    @abstractmethod
    def claim(self, address: Address) -> None:
        """Make the schema ours and empty: create it if it is missing, and drop the tables of an earlier load.

        Raises EngineFailure, before it drops anything, when the schema holds something that bufferlab did not make.
        After: `mark` can be called.
        """

    @abstractmethod
    def mark(self, address: Address, mark: Mark) -> None:
        """Replace the schema's mark: which data it holds, their state, and the tables made for them.

        Before: `claim` was called for these data, now or by an earlier run. A record of changed settings is kept.
        """

    @abstractmethod
    def marked(self, address: Address) -> Mark | None:
        """Return the schema's mark; None when there is no such schema, or it has no mark that we can read."""

    # Settings.

    @abstractmethod
    def wanted(self, connection: Any, found: Build, asked: Values) -> dict[str, str]:
        """Return the variables whose values differ from those asked for, with the values to set. Changes nothing.

        Raises EngineFailure when it is known by now that one of them needs a restart of the server.
        """

    @abstractmethod
    def told(self, connection: Any) -> Mapping[str, str]:
        """Return every variable with the server's value in words, for messages."""

    @abstractmethod
    def read_back(self, connection: Any, found: Build, knobs: Values) -> ReadBack:
        """Return the settings that the server runs with, as a new connection sees them. Changes nothing."""

    @abstractmethod
    def require_made_with(self, address: Address, asked: Values) -> None:
        """Raise EngineFailure unless the server was made with what is asked for, such as the page size."""

    # Loading, running and checking.

    @abstractmethod
    def target(self, address: Address) -> dict[str, Any]:
        """Return the address, account and schema for the core's connections; its job has them as `target`."""

    @abstractmethod
    def settle(self, address: Address) -> None:
        """Finish a load, so that no run pays for it (vacuum). Called after the core's, unless that was cancelled."""

    @abstractmethod
    def allocated_bytes(self, connection: Any, found: Build, address: Address) -> int:
        """Return the bytes that the schema's data and indexes have allocated."""

    @abstractmethod
    def conditions(self, connection: Any, job: Mapping[str, Any], database: Path, address: Address) -> dict[str, Any]:
        """Check the workload's consistency conditions in the schema; return {seconds, conditions}.

        Before: the run that `job` describes has ended, and the schema still holds its data.
        """

    @abstractmethod
    def connections(self, connection: Any) -> int:
        """Return how many clients are connected to the server now, bufferlab's connections included."""

    # All families share these.

    def parse(self, url: str) -> Address:
        """Return the address in a URL; raise EnvironmentLackingError when it is none, or holds a password."""
        return addresses.parse(url, self.form)

    @contextmanager
    def locked(self, address: Address) -> Iterator[None]:
        """Context manager for the only use of a schema: no other bufferlab, on any host, uses it meanwhile.

        The server keeps the lock for a connection, so that it ends with us. Raises EngineFailure while another has it.
        """
        with self.settings.holding(address, address.schema, changes.LOCK_SECONDS) as lock:
            if lock is None:
                what = f"another run of bufferlab uses this {self.form.schema}"
                raise EngineFailure("environment", what, address.place, "wait for it, or name another")
            yield

    def reserved(self, urls: Collection[str]) -> AbstractContextManager[list[tuple[str, list[str]]]]:
        """Context manager for a sweep's right to change settings of the servers at these URLs (`changes.reserved`)."""
        return changes.reserved(self.settings, [self.parse(url) for url in urls])

    def put_back_everywhere(self, urls: Collection[str] | None = None) -> list[tuple[str, list[str] | Problem]]:
        """Put back what killed runs left changed, at these URLs or all; return (URL, variables put back or why not)."""
        return changes.put_back_everywhere(self.settings, self.form, urls)

    def forget_mark(self, url: str) -> str | None:
        """Remove the record of changed settings from the mark in a schema; return it, None when there was none.

        Raises EnvironmentLackingError when the server cannot be asked, or while a run may change its settings.
        """
        address = self.parse(url)
        try:
            with self._explained(address):
                return changes.forget(self.settings, address)
        except EngineFailure as error:
            raise EnvironmentLackingError(error.what, error.where, error.hint) from error

    def load(self, job: Mapping[str, Any], on_event: OnEvent, cancelled: Cancelled) -> dict[str, Any]:
        """Load the workload into the schema; write the note of it and sizes.json into the folder job["database"]."""
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
        stored_sizes.store(database, stored, None)
        return {**loaded, "place": address.place}

    def run(self, job: Mapping[str, Any], on_event: OnEvent, cancelled: Cancelled) -> dict[str, Any]:
        """Do one run: load the data again if need be, change settings if allowed, let the core drive, put them back."""
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
            self.require_safe(address)
            with closing(self.connect(address)) as connection:
                ours = _connections_of_ours(self.settings, connection, allowed=allowed)
                wanted = self.wanted(connection, found, self._asked(knobs))
                if wanted and turn is None:
                    raise _not_allowed(wanted, self.told(connection), left)
                start = self._prepare_data(address, found, note, job, on_event, cancelled)
                others = self._others(connection, ours)
                with turn.changed(wanted, wait) if turn else nullcontext():
                    told = self._told_to_a_new_connection(address, found, knobs)
                    result = run_core(self.declaration.name, self._core_job(job, address, told.frames), on_event)
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
        """Check the consistency conditions in the schema as the run left it; return {seconds, conditions}.

        Raises DataFileError when the schema holds other data by now.
        """
        database = Path(job["database"])
        note, address = self._note(database, {})
        with self._explained(address):
            self.require_safe(address)
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
        mark = Mark(
            note["data_id"], LOADING, made_by(load_recipe(self.declaration.name, note["workload"])["schema_sql"])
        )
        self.make_sure_of(address)
        self.require_safe(address)
        self.claim(address)
        self.mark(address, mark)
        core_job = {
            "target": self.target(address),
            "workload": note["workload"],
            "threads": note["threads"],
        }
        with self._signs_of_life(on_event, "loading", address):
            loaded = load_core(self.declaration.name, core_job, on_event)
            if not cancelled():
                self.settle(address)
        if cancelled():
            raise EngineFailure("interrupted", "stopped on request")
        self.mark(address, replace(mark, state=CLEAN, objects=tuple(self.objects(address))))
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
        """Load the rows again unless they are as loaded; return the report's sentence on what the run began with."""
        mark = self.marked(address)
        whole = require_as_loaded(self.objects(address), mark, address, self.form)
        if mark is None or not whole or (mark.data_id, mark.state) != (note["data_id"], CLEAN):
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

    def _told_to_a_new_connection(self, address: Address, found: Build, knobs: Values) -> ReadBack:
        """Return the settings that a connection opened now has: older ones may keep values from before a change."""
        with closing(self.connect(address)) as fresh:
            return self.read_back(fresh, found, knobs)

    def _asked(self, knobs: Values) -> dict[str, Native]:
        """Return the knobs that were asked for. bufferlab's own defaults are not applied to somebody else's server."""
        defaults = values_of(self.declaration.defaults())
        kept = (self.declaration.frame_knob, self.declaration.page_knob)
        return {name: value for name, value in knobs.items() if name in kept or defaults.get(name) != value}

    def _as_found(self, told: ReadBack, knobs: Values) -> list[str]:
        """Return the names of knobs nobody asked for whose value here differs from bufferlab's default."""
        asked = self._asked(knobs)
        return [name for name, value in knobs.items()
                if name not in asked and name != "server" and told.actual.get(name, value) != value]  # fmt: skip

    def _others(self, connection: Any, ours: int) -> int:
        """Count other people's connections, after waiting up to _SETTLE_SECONDS for our ended ones to disappear."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            others = max(0, self.connections(connection) - ours)
            if not others or time.monotonic() > deadline:
                return others
            time.sleep(0.1)

    def _core_job(self, job: Mapping[str, Any], address: Address, frames: int) -> dict[str, Any]:
        return {
            **{name: value for name, value in job.items() if name not in _DROPPED},
            "target": self.target(address),
            "server_pid": None,
            "datadir": None,
            "statements": job["knobs"].get("statements", "spec"),
            "frames": frames,
            **self.core_words,
        }

    def _note(self, database: Path, knobs: Values) -> tuple[dict[str, Any], Address]:
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
        """Turn the client's errors into an EngineFailure that quotes the server and says what the account needs."""
        try:
            yield
        except self.unusable as error:
            said = str(error.args[-1] if error.args else error).strip()
            what = f"the server said: {said}"
            hint = WRITABLE if self.is_read_only(error) else self.needs(address)
            raise EngineFailure("environment", what, address.place, hint) from error
        except EngineFailure as failure:
            # The family's words explain what the account lacks; here no account has it.
            if (cause := failure.__cause__) and self.is_read_only(cause):
                raise EngineFailure(failure.kind, failure.what, failure.where, WRITABLE) from failure
            raise

    @contextmanager
    def _signs_of_life(self, on_event: OnEvent, what: str, address: Address) -> Iterator[None]:
        """Send signs of life (`life.signs_of_life`) as long as the server answers; it cannot be killed from here."""
        with signs_of_life(on_event, what, lambda: self.listen(address)):
            yield


def _connections_of_ours(settings: changes.Settings, connection: Any, *, allowed: bool) -> int:
    """Return how many connections are ours while others are counted: the one that asks, and those that hold locks."""
    return 2 + (1 + settings.is_held(connection, changes.SWEEP) if allowed else 0)


def _require_same(before: ReadBack, after: ReadBack, address: Address) -> None:
    """Raise EngineFailure when settings changed during the run: it did not measure what it would report."""
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


def _refuse_host_settings(asked: Values) -> None:
    """Raise EngineFailure for settings of the server's host, which may not be this one."""
    for knob, unset in (("memory_limit", "off"), (READ_AHEAD, AS_IS)):
        if asked.get(knob, unset) != unset:
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
