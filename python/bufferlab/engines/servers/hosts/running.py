"""Loads, runs and checks in one schema of a server that bufferlab did not start and must leave unchanged otherwise.

The "database" that `execute` caches and copies is a folder with one small file, which names the server and the data
loaded there. Before a run the data are loaded again if an earlier run wrote to them; the report says with which data a
run began. `Host` is also the base class for private servers: it handles the request to stop, and builds the core's job.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bufferlab.engines.behaviour import EngineFailure, HostCheck, NativeKnobs, OnEvent, ServerCheck, Wanted
from bufferlab.engines.native import load_core, load_recipe, run_core
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.client import FAILURES
from bufferlab.engines.servers.existing import address as addresses
from bufferlab.engines.servers.existing import passwords, whereabouts
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, LOOK_LASTS_SECONDS, LOOK_SECONDS, Address
from bufferlab.engines.servers.family import Family, ReadBack
from bufferlab.engines.servers.hosts import preflight
from bufferlab.engines.servers.hosts.preflight import (
    Others,
    asked_of,
    caveats,
    confounds,
    other_settings,
    refuse_host_settings,
    require_made_with,
    require_no_program,
)
from bufferlab.engines.servers.look import MISFITS, NOT_A_SERVER, NOT_UNDERSTOOD
from bufferlab.engines.servers.run import SchemaMark, made_by, require_as_loaded
from bufferlab.engines.servers.signs_of_life import OnWait, patience, signs_of_life
from bufferlab.errors import DataFileError, EnvironmentLackingError
from bufferlab.knob import Values

_NOT_THE_CORES = ("database", "knobs", "program")
"""The entries of a job that are for Python only; the core does not get them."""


class Host:
    """The base for work with servers of a family. `load`, `run` and `check` are called in the worker."""

    def __init__(self, family: Family, cancelled: threading.Event | None = None) -> None:
        self.family, self.cancelled = family, cancelled or threading.Event()

    def require_not_cancelled(self) -> None:
        """Raise EngineFailure if `cancel` was called."""
        if self.cancelled.is_set():
            raise EngineFailure("interrupted", "stopped on request")

    def patience(self, on_event: OnEvent) -> OnWait:
        """Return the function that is called during a wait for a server; it raises after `cancel` was called."""
        return patience(on_event, self.cancelled.is_set)

    def load_job(self, job: Mapping[str, Any], address: Address) -> dict[str, Any]:
        """Return the core's job for a load: the workload, the server's address, and the threads."""
        return {
            "target": self.family.target(address),
            "workload": dict(job["workload"]),
            "threads": job["threads"],
            **self.family.job_entries(job.get("knobs", {}), "load"),
        }

    def run_job(
        self, job: Mapping[str, Any], address: Address, frames: int, *, pid: int | None = None, data: str | None = None
    ) -> dict[str, Any]:
        """Return the core's job for a run: the given entries, the address, and a private server's PID and data."""
        return {
            **{name: value for name, value in job.items() if name not in _NOT_THE_CORES},
            "target": self.family.target(address),
            "server_pid": pid,
            "datadir": data,
            "statements": job["knobs"].get("statements", "spec"),
            "frames": frames,
            **self.family.job_entries(job.get("knobs", {}), "run"),
        }


WRITABLE = "it is a standby, or set to read only: name its primary, or a server that may be written"
CLEAN, LOADING, WRITTEN = "clean", "loading", "written"
"""The states of the data in a schema: as loaded, load not completed, changed by a run."""
_FILE = "existing.json"
_FORMAT = "bufferlab-existing-server"
_SETTLE_SECONDS = 2.0
_LOCK_SECONDS = 5.0
"""How many seconds to wait for a schema's lock, whose owner may be about to end."""
_OURS = 2
"""The number of bufferlab's connections while others are counted.

They are the one that queries and the one that holds the schema's lock.
"""


def is_existing(database: Path) -> bool:
    """Return whether this folder holds the file that names data on a running server."""
    return (database / _FILE).is_file()


class RunningHost(Host):
    """The work on already running servers; it holds no connection between calls.

    It holds the schema's lock (`locked`) while it claims and marks the schema, and while the core loads and runs. The
    client's exceptions (FAILURES) may pass through the family: `_explained` turns them into an EngineFailure with the
    hint of `Family.needs`.
    """

    def build(self, knobs: Mapping[str, Any]) -> Build:
        """Query the server for its version; return a build named by the URL, with that version and no files.

        Raises EnvironmentLackingError if it cannot be reached, or is of another engine.
        """
        url = str(knobs["server"])
        told, found = self._version(url)
        if found != self.family.flavour:
            what, place = f"this is a {found} server, version {told}", self.parse(url).place
            raise EnvironmentLackingError(what, place, f"run it with --engine {found}")
        return Build(url, found, re.split(r"[-\s]", told)[0], Path("/"), None)

    def flavour_of(self, url: str) -> Flavour:
        """Return the family's flavour to which the server belongs.

        Raises EnvironmentLackingError if the server's answer does not show it.
        """
        return self._version(url)[1]

    def _version(self, url: str) -> tuple[str, Flavour]:
        address = self._looked_at(url)
        try:
            with self._explained_here(address):
                with closing(self.family.connect(address, self.family.system_database)) as connection:
                    told = str(connection.rows(self.family.running.version_query)[0][0])
                if not told[:1].isdecimal():
                    raise ValueError(told)
                return told, self.family.running.flavour_of(told) or self.family.flavour
        except EnvironmentLackingError as error:
            if other := whereabouts.of_another_family(address, self.family.form):
                raise other from error
            raise

    def _looked_at(self, url: str) -> Address:
        """Return the address with shorter time limits, for examining the server before a run."""
        return replace(self.parse(url), most_seconds=LOOK_SECONDS, until_s=time.monotonic() + LOOK_LASTS_SECONDS)

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return one passed check: a run on such a server needs nothing from the directory."""
        return [HostCheck("server", True, "a server that bufferlab did not start: its files are its own affair")]

    def parse(self, url: str) -> Address:
        """Return the address in a URL; raise EnvironmentLackingError when it is malformed or cannot be used."""
        return addresses.parse(url, self.family.form)

    @contextmanager
    def locked(self, address: Address) -> Iterator[None]:
        """Context manager in which no other run of bufferlab, on any host, uses the schema.

        The server ties the lock to a connection, so the lock ends with this process. Raises EngineFailure while another
        run has it.
        """
        with closing(self.family.connect(address, self.family.system_database)) as connection:
            if not self.family.running.lock(connection, address.schema, _LOCK_SECONDS):
                what = f"another run of bufferlab uses this {self.family.form.schema}"
                raise EngineFailure("environment", what, address.place, "wait for it, or name another")
            yield

    def preflight(self, url: str, wanted: Wanted) -> list[ServerCheck]:
        """Return the results of checking the server, without changing it (`Behaviour.preflight`)."""
        address, found = self._looked_at(url), self.build({"server": url})
        with self._explained_here(address):
            return list(preflight.checks(self.family, address, found, wanted))

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Load the workload into the schema; write existing.json and sizes.json into the new folder job["database"]."""
        database, knobs = Path(job["database"]), job["knobs"]
        address, found = self.parse(str(knobs["server"])), self.build(knobs)
        with closing(self.family.connect(address, self.family.system_database)) as connection:
            require_made_with(
                self.family, self.family.running.variables(connection), asked_of(self.family, knobs), address
            )
        note = {
            "format": _FORMAT,
            "format_version": 1,
            "url": address.url,
            "data_id": secrets.token_hex(16),
            "workload": dict(job["workload"]),
            "threads": job["threads"],
        }
        with self._explained(address), self.locked(address):
            loaded = self._load(address, note, on_event)
            with (
                closing(self.family.connect(address, seconds=None)) as connection,
                self._signs_of_life(on_event, "closing", address),
            ):
                sizes = self.family.sizes(connection, found, address.schema, trees=False)
        database.mkdir(mode=0o700)
        (database / _FILE).write_text(json.dumps(note, indent=1) + "\n")
        sizes.store(database)
        return {**loaded, "place": address.place}

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Do one run with the server's settings: load the data again if a run changed them, and let the core run.

        Raises EngineFailure if the server has other settings than requested, or one changes during the run.
        """
        family, database, knobs = self.family, Path(job["database"]), job["knobs"]
        asked = asked_of(family, knobs)
        require_no_program(job)
        refuse_host_settings(asked)
        note, address = self._note(database, knobs)
        found = self.build(knobs)
        password = passwords.source_words(address, family.form)
        with self._explained(address), self.locked(address):
            family.running.make_sure_of(address)
            family.running.require_safe(address)
            with closing(family.connect(address)) as connection:
                if differing := family.running.differing(connection, found, asked):
                    raise other_settings(family, {name: [one] for name, one in differing.items()}, address)
                start = self._prepare_data(address, note, job, on_event)
                before = self._others(connection)
                told = self._told_to_a_new_connection(address, found, knobs)
                core_job = {**self.run_job(job, address, told.frames), **family.running.core_words}
                started = time.monotonic()
                result = run_core(family.flavour, core_job, on_event)
                if not self.cancelled.is_set():
                    _require_same(told, self._told_to_a_new_connection(address, found, knobs), address)
                after = self._others(connection)
                busy = family.running.busy(connection, time.monotonic() - started) if after else 0
        others = Others(before, after, busy)
        as_found = self._as_found(told, knobs)
        return {
            **result,
            "actual": {**result.get("actual", {}), **told.actual},
            "as_found": as_found,
            "engine_version": found.version,
            "engine_conf": _conf(as_found, told.actual),
            "notes": {**told.notes, "server": f"password: {password}"},
            "confounds": confounds(others, told, asked),
            "caveats": [*caveats(others, told, asked, as_found, job), start],
            "start": start,
        }

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Check the consistency conditions in the schema after the run; return {seconds, conditions}.

        Raises DataFileError if the schema no longer holds the run's data.
        """
        database = Path(job["database"])
        note, address = self._note(database, {})
        with self._explained(address):
            self.family.running.require_safe(address)
        with (
            self._explained(address),
            self._signs_of_life(on_event, "checking", address),
        ):
            found = self._marked(address)
            if found is None or found.data_id != note["data_id"]:
                what = f"the {self.family.form.schema} holds other data than were loaded"
                raise DataFileError(what, address.place, "run it again")
            return self.family.conditions(address, job, database)

    def _load(self, address: Address, note: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        family = self.family
        schema_sql = load_recipe(family.flavour, note["workload"])["schema_sql"]
        mark = SchemaMark(note["data_id"], LOADING, made_by(schema_sql))
        family.running.make_sure_of(address)
        family.running.require_safe(address)
        with closing(family.connect(address)) as connection:
            family.running.claim(connection, address)
        self._mark(address, mark)
        with self._signs_of_life(on_event, "loading", address):
            loaded = load_core(family.flavour, self.load_job(note, address), on_event)
            if not self.cancelled.is_set():
                family.settle(address)
        self.require_not_cancelled()
        self._mark(address, replace(mark, state=CLEAN, objects=tuple(self._objects(address))))
        return loaded

    def _prepare_data(
        self, address: Address, note: Mapping[str, Any], job: Mapping[str, Any], on_event: OnEvent
    ) -> str:
        """Load the rows again if a run changed them; return the report's sentence on the data before the run."""
        mark = self._marked(address)
        whole = require_as_loaded(self._objects(address), mark, address, self.family.form)
        if mark is None or not whole or (mark.data_id, mark.state) != (note["data_id"], CLEAN):
            self._load(address, note, on_event)
        if _only_reads(job.get("workload")):
            return "the run began with the rows as they were loaded once, which this workload only reads: no copy"
        mark = self._marked(address)
        assert mark is not None, "the schema was marked when it was loaded"
        self._mark(address, replace(mark, state=WRITTEN))
        return (
            f"the run began with rows loaded into the server's {self.family.form.schema} for it: the same rows each "
            "time, not the same bytes"
        )

    def _objects(self, address: Address) -> list[str]:
        with closing(self.family.connect(address)) as connection:
            return self.family.running.objects(connection, address.schema)

    def _mark(self, address: Address, mark: SchemaMark) -> None:
        with closing(self.family.connect(address, self.family.system_database)) as connection:
            self.family.running.mark(connection, address.schema, mark)

    def _marked(self, address: Address) -> SchemaMark | None:
        with closing(self.family.connect(address, self.family.system_database)) as connection:
            return self.family.running.marked(connection, address.schema)

    def _told_to_a_new_connection(self, address: Address, found: Build, knobs: Values) -> ReadBack:
        """Return the settings that a new connection gets. Older connections may keep values from before a change."""
        with closing(self.family.connect(address)) as fresh:
            # A setting that the user did not set is no confound, even if it differs from its default; `_as_found`
            # reports it.
            of_asked = self.family.read_back(fresh, found, asked_of(self.family, knobs))
            actual = self.family.read_back(fresh, found, knobs).actual
            return replace(of_asked, actual=actual)

    def _as_found(self, told: ReadBack, knobs: Values) -> list[str]:
        """Return the knobs that the user did not set and whose server value differs from bufferlab's default."""
        asked = asked_of(self.family, knobs)
        return [name for name, value in knobs.items()
                if name not in asked and name != "server" and told.actual.get(name, value) != value]  # fmt: skip

    def _others(self, connection: Any) -> int:
        """Wait up to _SETTLE_SECONDS until the server has ended bufferlab's closed connections; then count other
        clients'."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            others = max(0, self.family.running.clients(connection) - _OURS)
            if not others or time.monotonic() > deadline:
                return others
            time.sleep(0.1)

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
        """Turn the client's errors into an EngineFailure that quotes the server and names the required privileges."""
        try:
            yield
        except FAILURES as error:
            said = str(error.args[-1] if error.args else error).strip()
            what = f"the server said: {said}"
            read_only = self.family.running.is_read_only(error)
            hint = WRITABLE if read_only else self.family.running.needs.format(schema=address.schema)
            raise EngineFailure("environment", what, address.place, hint) from error
        except EngineFailure as failure:
            # The family's hint names a missing privilege, but no privilege allows writing to a read-only server.
            if (cause := failure.__cause__) and self.family.running.is_read_only(cause):
                raise EngineFailure(failure.kind, failure.what, failure.where, WRITABLE) from failure
            raise

    @contextmanager
    def _explained_here(self, address: Address) -> Iterator[None]:
        """Turn the client's errors, and answers that do not fit their query, into an EnvironmentLackingError.

        It is used outside of workers, where bufferlab only queries the server.
        """
        try:
            with self._explained(address):
                yield
        except EngineFailure as error:
            raise EnvironmentLackingError(error.what, error.where, error.hint) from error
        except MISFITS as error:
            raise EnvironmentLackingError(NOT_UNDERSTOOD, address.place, NOT_A_SERVER) from error

    @contextmanager
    def _signs_of_life(self, on_event: OnEvent, what: str, address: Address) -> Iterator[None]:
        """Send events as signs of life to the supervisor as long as the server answers.

        Raises EngineFailure if it stops answering: bufferlab cannot kill it.
        """
        with signs_of_life(on_event, what, lambda: self._listen(address)):
            yield

    def _listen(self, address: Address) -> None:
        try:
            self.family.greet(address, ANSWER_SECONDS)
        except self.family.unanswered as error:
            raise EngineFailure("io", f"the server does not answer: {error}", address.place) from error


def _require_same(before: ReadBack, after: ReadBack, address: Address) -> None:
    """Raise EngineFailure if settings changed during the run: its report would name wrong values."""
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


def _conf(as_found: list[str], actual: Mapping[str, Any]) -> str:
    lines = ["# A server that bufferlab did not start, as found:", *(f"# {name} = {actual[name]}" for name in as_found)]
    return "\n".join(lines) + "\n"
