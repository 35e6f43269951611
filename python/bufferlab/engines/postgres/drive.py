"""What bufferlab does with PostgreSQL: load, run and check a private server's data. Holds no loop.

A database is a directory: data/ is the server's own, auth.json and sizes.json are ours. The server's socket, log and
configuration live beside it, in ../server, and are no part of the data.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bufferlab.engines import host_settings, read_ahead
from bufferlab.engines.behaviour import EngineFailure, Found, HostCheck, NativeKnobs, OnEvent
from bufferlab.engines.native import native
from bufferlab.engines.postgres import conditions, control, extensions, initialise, sizes
from bufferlab.engines.postgres import find as servers
from bufferlab.engines.postgres.existing.server import ExistingPostgres
from bufferlab.engines.postgres.knobs import FLAVOUR, OFF, PAGE_BYTES
from bufferlab.engines.postgres.read_back import read_back
from bufferlab.engines.postgres.server import PostgresServer
from bufferlab.engines.postgres.settings import server_settings
from bufferlab.engines.servers import identity as identities
from bufferlab.engines.servers import sizes as server_sizes
from bufferlab.engines.servers import user
from bufferlab.engines.servers.builds import ON_PATH, Build
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.engines.servers.existing.server import is_existing
from bufferlab.engines.servers.identity import DATABASE, Identity
from bufferlab.engines.servers.life import patience, signs_of_life
from bufferlab.engines.servers.memory import free_quarter
from bufferlab.engines.servers.memory_limit import MemoryLimit, drop_cached, usable
from bufferlab.engines.servers.process import tail
from bufferlab.errors import BufferlabError
from bufferlab.units import GIB, MIB, format_bytes

_LOG_LINES = 60
_STOP_SECONDS = 300.0
_NOT_THE_CORES = ("database", "knobs", "program", "allow_online_changes")
"""Of a job."""
_BESIDE_POOL_BYTES = 8 * MIB
"""What a server needs beside its pool and its connections: its other shared memory and its own processes."""
_CONNECTION_BYTES = 2 * MIB
"""A connection's own process, private pages and kernel memory together."""
_LOADING = {
    # A load that is cut short is thrown away, so that nothing needs to survive a crash.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "jit": "off",
    # Rows of a table made in the same transaction are then not logged.
    "wal_level": "minimal",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    # Log files are removed when they are no longer needed: every run would copy those kept to be used again.
    "wal_recycle": "off",
    "wal_init_zero": "off",
    "min_wal_size": "32MB",
}


class PostgresBehaviour:
    """`load`, `run`, `check` and `cancel` are called inside the worker process."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._checking: PostgresServer | None = None
        self._existing = ExistingPostgres()

    def find(self) -> Found:
        """The server on PATH, Debian's newest, or the newest fetched; EnvironmentLackingError when there is none."""
        build = servers.find()
        return Found(build.version, native().core_version(), str(build.binary))

    def server_version(self, knobs: NativeKnobs) -> str:
        """The version of the server these knobs name; EnvironmentLackingError when it is not here."""
        return self._build(knobs).version

    def server_user(self) -> tuple[int, int] | None:
        """(uid, gid) that servers run as when we are root."""
        return user.server_user()

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Can the server's user get there, is direct I/O honoured and memory limited, if they are asked for?"""
        if is_url(knobs.get("server")):
            return [HostCheck("server", True, "a server that bufferlab did not start: its files are its own affair")]
        try:
            user.require_reachable(directory, user.server_user())
        except BufferlabError as error:
            return [HostCheck("server_user", False, error.what, error.hint)]
        reached = HostCheck("server_user", True, "the user that servers run as can get there")
        return [reached, _direct_check(directory, knobs), _memory_check(knobs), *read_ahead.checks(directory, knobs)]

    def put_back(self) -> list[tuple[str, list[str] | str]]:
        """Settings of other people's servers that killed runs left changed: (URL, settings put back or why not)."""
        return self._existing.put_back_everywhere()

    def restore_host(self) -> list[str]:
        """Put back what a run that was killed has left changed; a sentence for each setting."""
        return host_settings.restore()

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """The server's version, the knobs that decide the data, schema and loader, the workload's scale and seed."""
        job = {name: value for name, value in workload.items() if name != "version"}
        recipe = json.loads(native().postgres_load_recipe(json.dumps(job)))
        deciding = ("page_size_bytes", "data_checksums")
        return {
            "engine": FLAVOUR,
            "engine_version": self._build(knobs).version,
            "schema_sha256": hashlib.sha256(recipe["schema_sql"].encode()).hexdigest(),
            "loader_version": recipe["loader_version"],
            "knobs": {name: knobs[name] for name in deciding if name in knobs},
            # Data on a server that is not ours are its own, whatever version another has.
            **({"server": knobs["server"]} if is_url(knobs.get("server")) else {}),
            "workload": {name: value for name, value in workload.items() if name not in ("source", "text")},
        }

    def allocated_bytes(self, database: Path) -> int:
        """Bytes of tables and indexes as the server told them after the load."""
        return int(server_sizes.read(database)["allocated_bytes"])

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Every heap and index with its levels, as counted after the load."""
        shape: dict[str, Any] | None = server_sizes.read(database)["shape"]
        return shape

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """A new cluster with the workload's data, vacuumed, and cleanly shut."""
        if is_url(job["knobs"].get("server")):
            return self._existing.load(job, on_event, self._cancelled.is_set)
        database, knobs = Path(job["database"]), job["knobs"]
        build, owner, home = self._build(knobs), user.server_user(), database.parent / "server"
        wait = patience(on_event, self._cancelled.is_set)
        user.require_reachable(database.parent, owner)
        database.mkdir(mode=0o700)
        user.give(database, owner)
        identity = identities.new_identity(build, PAGE_BYTES)
        checksums = knobs.get("data_checksums") == "on"
        initialise.initialise(build, database / "data", home, owner, identity, wait, checksums=checksums)
        settings = {
            **_LOADING,
            "shared_buffers": f"{_spare_pool_bytes(GIB)}B",
            "maintenance_work_mem": "256MB",
        }
        with PostgresServer(
            build,
            database / "data",
            home,
            user=owner,
            login=(identity.user, identity.password),
            settings=settings,
            connections=int(job["threads"]),
            on_wait=wait,
            stop_seconds=_STOP_SECONDS,
        ) as server:
            _make_database(server)
            self._require_not_cancelled()
            core_job = {
                "target": _target(server, identity),
                "version": build.version,
                "workload": dict(job["workload"]),
                "threads": job["threads"],
            }
            with signs_of_life(on_event, "loading", server.listen):
                loaded: dict[str, Any] = json.loads(native().load_postgres(json.dumps(core_job), on_event))
            self._require_not_cancelled()
            with signs_of_life(on_event, "closing", server.listen):
                asked = _closing_words(server)
        sizes.store(database, asked)
        user.give(database / "sizes.json", owner)
        identities.store(database, identity, owner)
        return loaded

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """One run on the data: start with the knobs, read them back, let the core drive, stop."""
        database, knobs = Path(job["database"]), job["knobs"]
        if is_url(knobs.get("server")):
            return self._existing.run(job, on_event, self._cancelled.is_set)
        identity, build, owner = identities.read(database), self._build(knobs), user.server_user()
        identities.require_version(build, identity)
        identities.require_page_size(identity, int(knobs["page_size_bytes"]), database, "leave page_size out")
        if job.get("program"):
            what = "external programs are driven against MySQL and MariaDB alone"
            raise EngineFailure("usage", what, "workload program", "choose --engine mysql, or another workload")
        with read_ahead.around_run(database, knobs) as ahead, _limited(knobs, database) as limit:
            try:
                result = self._drive(job, build, owner, identity, limit, on_event)
            except EngineFailure as error:
                if limit is None or not limit.ran_out():
                    raise
                what = f"the memory limit of {format_bytes(limit.actual_bytes)} was too small for the server"
                raise EngineFailure(
                    "engine", f"{what}: {error.what}", error.where, "ask for a larger memory_limit"
                ) from error
        result["actual"] |= ahead
        return result

    def _drive(
        self,
        job: Mapping[str, Any],
        build: Build,
        owner: tuple[int, int] | None,
        identity: Identity,
        limit: MemoryLimit | None,
        on_event: OnEvent,
    ) -> dict[str, Any]:
        database, knobs = Path(job["database"]), job["knobs"]
        with PostgresServer(
            build,
            database / "data",
            database.parent / "server",
            user=owner,
            login=(identity.user, identity.password),
            settings=server_settings(build.version, knobs),
            connections=int(job["connections"]),
            on_wait=patience(on_event, self._cancelled.is_set),
            stop_seconds=_STOP_SECONDS,
            group=limit.procs if limit else None,
        ) as server:
            connection = server.connect()
            try:
                found = read_back(connection, build.version, knobs, limit.actual_bytes if limit else None)
            finally:
                connection.close()
            self._require_not_cancelled()
            result: dict[str, Any] = json.loads(
                native().run_postgres(json.dumps(_core_job(job, server, identity, build, found.frames)), on_event)
            )
            server.require_alive()
            if self._cancelled.is_set():
                # Nothing is asked of this copy any more; writing its dirty pages back would only take time.
                server.abandon()
        return {
            **result,
            "actual": {**result.get("actual", {}), **found.actual},
            "engine_version": build.version,
            "engine_conf": server.conf,
            "confounds": found.confounds,
            "server_log": tail(server.log, _LOG_LINES),
        }

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """The consistency conditions on the closed data: {seconds, conditions}."""
        database = Path(job["database"])
        if is_existing(database):
            return self._existing.check(job, on_event)
        identity, owner = identities.read(database), user.server_user()
        settings = {
            "shared_buffers": f"{_spare_pool_bytes(512 * MIB)}B",
            "autovacuum": "off",
            "jit": "off",
            "work_mem": "64MB",
            "fsync": "off",
        }
        with PostgresServer(
            self._same_build(identity),
            database / "data",
            database.parent / "server",
            user=owner,
            login=(identity.user, identity.password),
            settings=settings,
            on_wait=patience(on_event, self._cancelled.is_set),
            stop_seconds=_STOP_SECONDS,
        ) as server:
            self._checking = server
            try:
                with signs_of_life(on_event, "checking", server.listen):
                    connection = server.connect()
                    try:
                        return conditions.check(connection, job["workload"], job["delivered_orders"], database)
                    finally:
                        connection.close()
            except Exception:
                self._require_not_cancelled()
                raise
            finally:
                self._checking = None

    def cancel(self) -> None:
        """Stop soon: the core at the next transaction, a check at once."""
        self._cancelled.set()
        if (server := self._checking) is not None:
            server.abandon()
        native().cancel()

    def _build(self, knobs: Mapping[str, Any]) -> Build:
        if is_url(knobs.get("server")):
            return self._existing.build(str(knobs["server"]))
        return servers.find(str(knobs.get("server", ON_PATH)))

    def _same_build(self, identity: Identity) -> Build:
        """The build that made the data; another of the same version when it has gone."""
        try:
            build = servers.find(identity.server)
        except BufferlabError:
            build = servers.find(f"{FLAVOUR}-{identity.version}")
        identities.require_version(build, identity)
        return build

    def _require_not_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise EngineFailure("interrupted", "stopped on request")


def _make_database(server: PostgresServer) -> None:
    """The workload's database, with the extensions that the server has of those that checks and counters can use."""
    connection = server.connect(control.SYSTEM_DATABASE)
    try:
        control.rows(connection, f"CREATE DATABASE {DATABASE}")
    finally:
        connection.close()
    connection = server.connect()
    try:
        extensions.make(connection)
    finally:
        connection.close()


def _closing_words(server: PostgresServer) -> dict[str, Any]:
    """Vacuum, so that no run is the first to read a row and to mark it; then what the tables hold."""
    try:
        for database in (DATABASE, control.SYSTEM_DATABASE, "template1"):
            connection = server.connect(database)
            try:
                control.rows(connection, "VACUUM (FREEZE, ANALYZE)")
                control.rows(connection, "CHECKPOINT")
                if database == DATABASE:
                    asked = sizes.ask(connection)
            finally:
                connection.close()
    except psycopg.DatabaseError as error:
        raise EngineFailure("engine", f"the loaded data cannot be vacuumed: {error}", str(server.log)) from error
    return asked


def _core_job(
    job: Mapping[str, Any], server: PostgresServer, identity: Identity, build: Build, frames: int
) -> dict[str, Any]:
    """The core's job: the run's own words, and where the server is."""
    core = {name: value for name, value in job.items() if name not in _NOT_THE_CORES}
    return {
        **core,
        "target": _target(server, identity),
        "version": build.version,
        "server_pid": server.pid,
        "datadir": str(Path(job["database"]) / "data"),
        "statements": job["knobs"].get("statements", "spec"),
        "frames": frames,
        "program": None,
    }


def _target(server: PostgresServer, identity: Identity) -> dict[str, Any]:
    return {
        "socket_dir": str(server.socket.parent),
        "host": None,
        "port": control.PORT,
        "user": identity.user,
        "password": identity.password,
        "database": DATABASE,
    }


@contextmanager
def _limited(knobs: Mapping[str, Any], database: Path) -> Iterator[MemoryLimit | None]:
    """The bound that was asked for, around a database of which nothing is cached; None without one."""
    asked = knobs.get("memory_limit_bytes", OFF)
    if not isinstance(asked, int):
        yield None
        return
    with MemoryLimit(asked) as limit:
        # A page that is cached already belongs to whoever read it, and would not count.
        drop_cached(database)
        yield limit


def _direct_check(directory: Path, knobs: NativeKnobs) -> HostCheck:
    asked = str(knobs.get("debug_io_direct", OFF))
    if "data" not in asked.split(","):
        return HostCheck("direct_io", True, "not asked for: PostgreSQL reads through the page cache")
    found: dict[str, Any] = json.loads(native().check_direct_io(str(directory)))
    where = f"{directory} ({found.get('filesystem') or 'unknown file system'})"
    if found["honoured"]:
        return HostCheck("direct_io", True, f"{where}: honoured")
    hint = "choose a directory on a local disk with --data-dir, or measure with --set debug_io_direct=off"
    return HostCheck("direct_io", False, f"{where}: {found.get('reason') or 'not honoured'}", hint)


def _memory_check(knobs: NativeKnobs) -> HostCheck:
    asked = knobs.get("memory_limit_bytes", OFF)
    if not isinstance(asked, int):
        return HostCheck("memory_limit", True, "not asked for")
    pool = int(knobs["pool_size_bytes"])
    needed = pool + _BESIDE_POOL_BYTES + _CONNECTION_BYTES
    if asked < needed:
        what = (
            f"memory_limit = {format_bytes(asked)} does not hold a pool of {format_bytes(pool)} and a server beside it"
        )
        return HostCheck("memory_limit", False, what, f"ask for {format_bytes(needed)} or more, or a smaller pool_size")
    try:
        return HostCheck("memory_limit", True, f"{format_bytes(asked)} by {usable()}")
    except BufferlabError as error:
        return HostCheck("memory_limit", False, error.what, error.hint)


def _spare_pool_bytes(at_most: int) -> int:
    """A pool for loading and checking."""
    return free_quarter(at_most, MIB, 16 * MIB)
