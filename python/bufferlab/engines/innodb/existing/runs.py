"""Load, run and check in one schema of a server that bufferlab did not start, and must leave as it was.

What execute caches and copies as the database is a folder with one small file: which data lie where. Runs that write
find the data loaded anew, runs that only read find them as they are: the report says which.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql

from bufferlab.engines.behaviour import EngineFailure, OnEvent
from bufferlab.engines.innodb import conditions, control, sizes
from bufferlab.engines.innodb.control import ANSWER_SECONDS
from bufferlab.engines.innodb.declaration import declare
from bufferlab.engines.innodb.existing import address as addresses
from bufferlab.engines.innodb.existing import online, schema
from bufferlab.engines.innodb.existing.address import Address
from bufferlab.engines.innodb.find import Build, Flavour
from bufferlab.engines.innodb.life import patience, signs_of_life
from bufferlab.engines.innodb.read_back import ReadBack, read_back
from bufferlab.engines.innodb.settings import as_asked, server_settings, variable
from bufferlab.engines.native import native
from bufferlab.errors import DataFileError, EnvironmentLackingError

_FILE = "existing.json"
_FORMAT = "bufferlab-existing-server"
_LOCK_SECONDS = 5
_OURS = 2
"""Connections of ours while other people's are counted: the lock's, and the one that asks."""
_SETTLE_SECONDS = 2.0

Cancelled = Callable[[], bool]


def is_existing(database: Path) -> bool:
    """Is this folder a note of data on such a server?"""
    return (database / _FILE).is_file()


def build(flavour: Flavour, url: str) -> Build:
    """The server as a build: its version, asked of it. EnvironmentLackingError when it is not there, or another."""
    address = addresses.parse(url)
    with closing(addresses.connect(address)) as connection:
        ((told,),) = control.rows(connection, "SELECT VERSION()")
    found: Flavour = "mariadb" if "mariadb" in str(told).lower() else "mysql"
    if found != flavour:
        raise EnvironmentLackingError(
            f"this is a {found} server, version {told}", address.place, f"run it with --engine {found}"
        )
    return Build(url, flavour, str(told).split("-")[0], Path("/"), None)


def load(flavour: Flavour, job: Mapping[str, Any], on_event: OnEvent, cancelled: Cancelled) -> dict[str, Any]:
    """The workload's data in the schema, and the note of it."""
    database, knobs = Path(job["database"]), job["knobs"]
    address = addresses.parse(str(knobs["server"]))
    found = build(flavour, address.url)
    _require_page_size(address, knobs)
    note = {
        "format": _FORMAT,
        "format_version": 1,
        "url": address.url,
        "data_id": secrets.token_hex(16),
        "workload": dict(job["workload"]),
        "threads": job["threads"],
    }
    with _explained(address), _lock(address):
        loaded = _load(address, found, note, on_event, cancelled)
        with (
            closing(addresses.connect(address, patient=True)) as connection,
            _signs_of_life(on_event, "closing", address),
        ):
            stored = sizes.allocated(connection, found, address.schema)
    database.mkdir(mode=0o700)
    (database / _FILE).write_text(json.dumps(note, indent=1) + "\n")
    sizes.store_told(database, stored)
    return loaded


def run(flavour: Flavour, job: Mapping[str, Any], on_event: OnEvent, cancelled: Cancelled) -> dict[str, Any]:
    """One run: data as they must be, settings changed where that is allowed, the core, settings put back."""
    database, knobs = Path(job["database"]), job["knobs"]
    note, address = _note(database, knobs)
    found = build(flavour, address.url)
    wait = patience(on_event, cancelled)
    with _explained(address), _lock(address), closing(addresses.connect(address)) as connection:
        online.put_back(address)
        wanted = _wanted(flavour, found, knobs, control.variables(connection))
        if wanted and not job.get("allow_online_changes"):
            raise _not_allowed(wanted, control.variables(connection))
        start = _prepare_data(connection, address, found, note, job, on_event, cancelled)
        others = _others(connection)
        with online.changed(connection, address, wanted, wait):
            told = read_back(connection, found, knobs)
            result: dict[str, Any] = json.loads(
                native().run_mysql(json.dumps(_core_job(job, address, found, told.frames)), on_event)
            )
        others = max(others, _others(connection))
    as_found = _as_found(flavour, told, knobs, wanted)
    return {
        **result,
        "actual": {**result.get("actual", {}), **told.actual},
        "as_found": as_found,
        "engine_version": found.version,
        "engine_conf": _conf(wanted, as_found, told.actual),
        "confounds": [*_confounds(others, as_found, told.actual), start, *told.confounds],
        "start": start,
    }


def check(flavour: Flavour, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
    """The consistency conditions, in the schema as the run left it."""
    database = Path(job["database"])
    note, address = _note(database, {})
    with (
        _explained(address),
        closing(addresses.connect(address, patient=True)) as connection,
        _signs_of_life(on_event, "checking", address),
    ):
        found = schema.marked(connection, address.schema)
        if found is None or found[0] != note["data_id"]:
            raise DataFileError("the schema holds other data than were loaded", address.place, "run it again")
        return conditions.check(connection, job["workload"], job["delivered_orders"], database, address.schema)


def _load(
    address: Address, found: Build, note: Mapping[str, Any], on_event: OnEvent, cancelled: Cancelled
) -> dict[str, Any]:
    with closing(addresses.connect(address)) as connection:
        schema.claim(connection, address)
        schema.mark(connection, address.schema, note["data_id"], schema.LOADING)
        core = {
            "target": _target(address),
            "flavour": found.flavour,
            "version": found.version,
            "workload": note["workload"],
            "threads": note["threads"],
        }
        with _signs_of_life(on_event, "loading", address):
            loaded: dict[str, Any] = json.loads(native().load_mysql(json.dumps(core), on_event))
        if cancelled():
            raise EngineFailure("interrupted", "stopped on request")
        connection.ping(reconnect=True)
        schema.mark(connection, address.schema, note["data_id"], schema.CLEAN)
    return loaded


def _prepare_data(
    connection: Any,
    address: Address,
    found: Build,
    note: Mapping[str, Any],
    job: Mapping[str, Any],
    on_event: OnEvent,
    cancelled: Cancelled,
) -> str:
    """The rows as loaded; what the report says the run began with."""
    marked = schema.marked(connection, address.schema)
    if marked != (note["data_id"], schema.CLEAN):
        _load(address, found, note, on_event, cancelled)
    if _only_reads(job.get("workload")):
        return "the run began with the rows as they were loaded once, which this workload only reads: no copy"
    schema.mark(connection, address.schema, note["data_id"], schema.WRITTEN)
    return "the run began with rows loaded into the server's schema for it: the same rows each time, not the same bytes"


def _only_reads(workload: Mapping[str, Any] | None) -> bool:
    return workload is not None and workload["name"] == "hot_rows" and not int(workload.get("update_percent", 0))


def _wanted(flavour: Flavour, found: Build, knobs: Mapping[str, int | str], told: Mapping[str, str]) -> dict[str, str]:
    """Variables that were asked for and are not so. A default of bufferlab's is not asked of somebody else's server."""
    asked = server_settings(found.flavour, found.version, _asked(flavour, knobs))
    wanted = {}
    for name, value in asked.items():
        native_name = next((known for known in knobs if variable(known) == name), name)
        actual = told.get(name.lower())
        if actual is None or str(as_asked(native_name, actual)).lower() != value.lower():
            wanted[name.lower()] = value
    return wanted


def _asked(flavour: Flavour, knobs: Mapping[str, int | str]) -> dict[str, int | str]:
    declaration = declare(flavour, flavour)
    defaults = declaration.native({**declaration.defaults(), "pool_size": "5MiB"}, None)
    kept = ("pool_size_bytes", "page_size_bytes")
    return {name: value for name, value in knobs.items() if name in kept or defaults.get(name) != value}


def _not_allowed(wanted: Mapping[str, str], told: Mapping[str, str]) -> EngineFailure:
    differing = ", ".join(f"{name} is {told.get(name, 'unknown')}, {value} asked" for name, value in wanted.items())
    return EngineFailure(
        "usage",
        f"the server runs with other settings: {differing}",
        ", ".join(wanted),
        f"ask for what it has (--set), or let bufferlab change what can be changed and put it back: {online.ALLOW}",
    )


def _as_found(flavour: Flavour, told: ReadBack, knobs: Mapping[str, int | str], wanted: Mapping[str, str]) -> list[str]:
    """Native names of settings that bufferlab would choose itself on a server of its own, and that are others here."""
    asked = _asked(flavour, knobs)
    return [name for name, value in knobs.items()
            if name not in asked and name != "server" and told.actual.get(name, value) != value]  # fmt: skip


def _confounds(others: int, as_found: list[str], actual: Mapping[str, Any]) -> list[str]:
    said = ["the server is not bufferlab's own: its counters are of everything it did, and pages lie where it put them"]
    if others:
        said.append(f"{others} other connections were open: what they asked for is in the counters too")
    if as_found:
        shown = ", ".join(f"{name} = {actual[name]}" for name in as_found)
        said.append(f"as the server has it, not as on a server of bufferlab's own: {shown}")
    return said


def _conf(wanted: Mapping[str, str], as_found: list[str], actual: Mapping[str, Any]) -> str:
    lines = ["# A server that bufferlab did not start. Changed while it ran, and put back:"]
    lines += [f"{name} = {value}" for name, value in wanted.items()] or ["# nothing"]
    lines += ["", "# As found:", *(f"# {name} = {actual[name]}" for name in as_found)]
    return "\n".join(lines) + "\n"


def _others(connection: Any) -> int:
    """Connections of other people; ours that have just ended are given a moment to be gone."""
    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        told = control.status(connection, "Threads_connected").get("threads_connected", "0")
        others = max(0, int(told) - _OURS)
        if not others or time.monotonic() > deadline:
            return others
        time.sleep(0.1)


def _require_page_size(address: Address, knobs: Mapping[str, int | str]) -> None:
    with closing(addresses.connect(address)) as connection:
        actual = int(control.variables(connection)["innodb_page_size"])
    if actual != knobs["page_size_bytes"]:
        raise EngineFailure(
            "usage",
            f"page_size needs another server: this one was made with pages of {actual} bytes",
            address.place,
            f"--set page_size={actual}",
        )


def _core_job(job: Mapping[str, Any], address: Address, found: Build, frames: int) -> dict[str, Any]:
    dropped = ("database", "knobs", "program", "allow_online_changes")
    if job.get("program"):
        raise EngineFailure(
            "usage", "external programs are started against bufferlab's own servers only", address.place,
            "leave --server out, or use a workload of bufferlab's",
        )  # fmt: skip
    return {
        **{name: value for name, value in job.items() if name not in dropped},
        "target": _target(address),
        "flavour": found.flavour,
        "version": found.version,
        "server_pid": None,
        "may_change_settings": False,
        "datadir": None,
        "statements": job["knobs"].get("statements", "spec"),
        "frames": frames,
        "program": None,
    }


def _target(address: Address) -> dict[str, Any]:
    return {
        "socket": address.socket,
        "host": None if address.socket else address.host,
        "port": None if address.socket else address.port,
        "user": address.user,
        "password": addresses.password(address),
        "database": address.schema,
    }


def _note(database: Path, knobs: Mapping[str, int | str]) -> tuple[dict[str, Any], Address]:
    try:
        note: dict[str, Any] = json.loads((database / _FILE).read_text())
        if note["format"] != _FORMAT:
            raise ValueError("it is of another program")
        address = addresses.parse(note["url"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataFileError(f"this is no note of data on a server: {error}", str(database), "delete it") from error
    if knobs and knobs["server"] != address.url:
        raise DataFileError("this is a note of data on another server", str(database), "delete it")
    return note, address


@contextmanager
def _explained(address: Address) -> Iterator[None]:
    """What the server refuses us, as an error that says what an account needs."""
    try:
        yield
    except pymysql.MySQLError as error:
        said = error.args[-1] if error.args else error
        hint = f"the account needs ALL on {address.schema}.*, PROCESS, and SUPER for {online.ALLOW}"
        raise EngineFailure("environment", f"the server said: {said}", address.place, hint) from error


@contextmanager
def _signs_of_life(on_event: OnEvent, what: str, address: Address) -> Iterator[None]:
    """As `life`'s; it ends with the server's, which cannot be ended from here."""
    with ExitStack() as stack:
        pulse: list[Any] = []

        def listen() -> None:
            try:
                if not pulse:
                    pulse.append(
                        stack.enter_context(closing(addresses.connect(address, answer_seconds=ANSWER_SECONDS)))
                    )
                pulse[0].ping(reconnect=False)
            except (pymysql.Error, OSError, EnvironmentLackingError) as error:
                raise EngineFailure("io", f"the server does not answer: {error}", address.place) from error

        with signs_of_life(on_event, what, listen):
            yield


@contextmanager
def _lock(address: Address) -> Iterator[None]:
    """One run in a schema at a time, whoever starts it, from whatever host."""
    with closing(addresses.connect(address)) as connection:
        ((got,),) = control.rows(connection, "SELECT GET_LOCK(%s, %s)", (f"bufferlab.{address.schema}", _LOCK_SECONDS))
        if got != 1:
            raise EngineFailure(
                "environment",
                "another run of bufferlab uses this schema",
                address.place,
                "wait for it, or name another",
            )
        # Held by the connection, which must not be idle for longer than the server allows.
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION wait_timeout = 31536000")
        yield
