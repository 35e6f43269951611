"""What bufferlab does with MySQL and MariaDB: load, run and check a private server's data. Holds no loop and no SQL.

A database is a directory: data/ is the server's own, auth.json and sizes.json are ours. The server's socket, pid and
logs live beside it, in ../server, and are no part of the data.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines import host_settings, read_ahead
from bufferlab.engines.behaviour import EngineFailure, Found, HostCheck, NativeKnobs, OnEvent
from bufferlab.engines.innodb import accounts, conditions, initialise, program, sizes
from bufferlab.engines.innodb import find as servers
from bufferlab.engines.innodb.existing.server import ExistingInnodb
from bufferlab.engines.innodb.find import Flavour
from bufferlab.engines.innodb.read_back import read_back
from bufferlab.engines.innodb.server import InnodbServer
from bufferlab.engines.innodb.settings import server_settings
from bufferlab.engines.native import native
from bufferlab.engines.servers import identity as identities
from bufferlab.engines.servers import sizes as server_sizes
from bufferlab.engines.servers import user
from bufferlab.engines.servers.builds import ON_PATH, Build
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.engines.servers.existing.server import is_existing
from bufferlab.engines.servers.identity import DATABASE, Identity
from bufferlab.engines.servers.life import patience, signs_of_life
from bufferlab.engines.servers.memory import free_quarter
from bufferlab.engines.servers.process import tail
from bufferlab.errors import BufferlabError
from bufferlab.units import GIB, MIB

_LOG_LINES = 60
_SLOW_SHUTDOWN_SECONDS = 1800.0
"""Purge and merge of everything a load has left; some gigabytes on a slow disk."""
_STOP_SECONDS = 300.0


class InnodbBehaviour:
    """One engine of the two; `load`, `run`, `check` and `cancel` are called inside the worker process."""

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self._cancelled = threading.Event()
        self._checking: InnodbServer | None = None
        self._existing = ExistingInnodb(flavour)

    def find(self) -> Found:
        """The server on PATH, or the first that was fetched; EnvironmentLackingError when there is none."""
        build = servers.find(self.flavour)
        return Found(build.version, native().core_version(), str(build.binary))

    def server_version(self, knobs: NativeKnobs) -> str:
        """The version of the server these knobs name; EnvironmentLackingError when it is not here."""
        return self._build(knobs).version

    def put_back(self) -> list[tuple[str, list[str] | str]]:
        """Settings of other people's servers that killed runs left changed: (URL, variables put back or why not)."""
        return self._existing.put_back_everywhere()

    def restore_host(self) -> list[str]:
        """Put back what a run that was killed has left changed; a sentence for each setting."""
        return host_settings.restore()

    def server_user(self) -> tuple[int, int] | None:
        """(uid, gid) that servers run as when we are root."""
        return user.server_user()

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Can the server's user get there, and is direct I/O honoured, if it is asked for?"""
        if is_url(knobs.get("server")):
            return [HostCheck("server", True, "a server that bufferlab did not start: its files are its own affair")]
        try:
            user.require_reachable(directory, user.server_user())
        except BufferlabError as error:
            return [HostCheck("server_user", False, error.what, error.hint)]
        checks = [HostCheck("server_user", True, "the user that servers run as can get there")]
        checks += read_ahead.checks(directory, knobs)
        method = str(knobs.get("innodb_flush_method", "O_DIRECT"))
        if "direct" not in method.lower():
            return [*checks, HostCheck("direct_io", True, f"not asked for: flush_method = {method}")]
        found: dict[str, Any] = json.loads(native().check_direct_io(str(directory)))
        where = f"{directory} ({found.get('filesystem') or 'unknown file system'})"
        if not found["honoured"]:
            hint = "choose a directory on a local disk with --data-dir, or measure with --set flush_method=fsync"
            return [*checks, HostCheck("direct_io", False, f"{where}: {found.get('reason') or 'not honoured'}", hint)]
        return [*checks, HostCheck("direct_io", True, f"{where}: honoured")]

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """The server's version, the knobs that decide the data, schema and loader, the workload's scale and seed."""
        job = {name: value for name, value in workload.items() if name != "version"}
        recipe = json.loads(native().mysql_load_recipe(json.dumps(job)))
        return {
            "engine": self.flavour,
            "engine_version": self._build(knobs).version,
            "schema_sha256": hashlib.sha256(recipe["schema_sql"].encode()).hexdigest(),
            "loader_version": recipe["loader_version"],
            "knobs": {name: value for name, value in sorted(knobs.items()) if name != "server"},
            # Data on a server that is not ours are its own, whatever version another has.
            **({"server": knobs["server"]} if is_url(knobs.get("server")) else {}),
            "workload": {name: value for name, value in workload.items() if name not in ("source", "text")},
        }

    def allocated_bytes(self, database: Path) -> int:
        """Bytes of data and indexes as the server told them after the load."""
        return int(server_sizes.read(database)["allocated_bytes"])

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Every b-tree with its levels, as counted after the load."""
        shape: dict[str, Any] | None = server_sizes.read(database)["shape"]
        return shape

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """A new data directory with the workload's data, cleanly shut."""
        if is_url(job["knobs"].get("server")):
            return self._existing.load(job, on_event, self._cancelled.is_set)
        database, knobs = Path(job["database"]), job["knobs"]
        build, owner, home = self._build(knobs), user.server_user(), database.parent / "server"
        wait = patience(on_event, self._cancelled.is_set)
        settings = {
            **server_settings(build.flavour, build.version, knobs),
            "innodb_buffer_pool_size": str(_spare_pool_bytes(GIB)),
            "innodb_flush_log_at_trx_commit": "0",
            "innodb_flush_method": "O_DIRECT",
        }
        user.require_reachable(database.parent, owner)
        database.mkdir(mode=0o700)
        user.give(database, owner)
        initialise.initialise(build, database / "data", home, owner, settings, wait)
        identity = identities.new_identity(build, int(knobs["page_size_bytes"]))
        with InnodbServer(
            build,
            database / "data",
            home,
            user=owner,
            login=("root", ""),
            settings=settings,
            connections=int(job["threads"]),
            on_wait=wait,
            stop_seconds=_SLOW_SHUTDOWN_SECONDS,
        ) as server:
            self._set_up(server, identity, build)
            core_job = {
                "target": _target(server, identity),
                "flavour": build.flavour,
                "version": build.version,
                "workload": dict(job["workload"]),
                "threads": job["threads"],
            }
            with signs_of_life(on_event, "loading", server.listen):
                loaded: dict[str, Any] = json.loads(native().load_mysql(json.dumps(core_job), on_event))
            self._require_not_cancelled()
            with signs_of_life(on_event, "closing", server.listen):
                asked = _closing_words(server, build)
        sizes.store(database, asked, identity.page_size_bytes)
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
        identities.require_page_size(identity, int(knobs["page_size_bytes"]), database, "load it for this page size")
        started = InnodbServer(
            build,
            database / "data",
            database.parent / "server",
            user=owner,
            login=(identity.user, identity.password),
            settings=server_settings(build.flavour, build.version, knobs),
            connections=int(job["connections"]),
            on_wait=patience(on_event, self._cancelled.is_set),
            stop_seconds=_STOP_SECONDS,
        )
        with read_ahead.around_run(database, knobs) as ahead, started as server:
            connection = server.connect()
            try:
                found = read_back(connection, build, knobs)
            finally:
                connection.close()
            self._require_not_cancelled()
            result: dict[str, Any] = json.loads(
                native().run_mysql(json.dumps(_core_job(job, server, identity, build, found.frames)), on_event)
            )
            server.require_alive()
            if self._cancelled.is_set():
                # Nothing is asked of this copy any more; writing its dirty pages back would only take time.
                server.abandon()
        return {
            **result,
            "actual": {**result.get("actual", {}), **found.actual, **ahead},
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
        build = self._same_build(identity)
        settings = {
            "innodb_page_size": str(identity.page_size_bytes),
            "innodb_buffer_pool_size": str(_spare_pool_bytes(512 * MIB)),
            "innodb_flush_method": "O_DIRECT",
        }
        with InnodbServer(
            build,
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
                    connection = server.connect(patient=True)
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
        return servers.find(self.flavour, str(knobs.get("server", ON_PATH)))

    def _same_build(self, identity: Identity) -> Build:
        """The build that made the data; another of the same version when it has gone."""
        try:
            build = servers.find(self.flavour, identity.server)
        except BufferlabError:
            build = servers.find(self.flavour, f"{identity.flavour}-{identity.version}")
        identities.require_version(build, identity)
        return build

    def _set_up(self, server: InnodbServer, identity: Identity, build: Build) -> None:
        connection = server.connect()
        try:
            if build.flavour == "mysql" and build.numbers < (5, 7):
                with connection.cursor() as cursor:
                    for statement in initialise.STATISTICS_TABLES_OF_5_6:
                        cursor.execute(statement)
            accounts.make(connection, identity, build)
        finally:
            connection.close()
        server.log_in_as(identity.user, identity.password)
        self._require_not_cancelled()

    def _require_not_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise EngineFailure("interrupted", "stopped on request")


def _closing_words(server: InnodbServer, build: Build) -> dict[str, Any]:
    """What the tables hold; then ask for a slow shutdown: purge done, change buffer merged, logs empty."""
    connection = server.connect(patient=True)
    try:
        asked = sizes.ask(connection, build)
        with connection.cursor() as cursor:
            cursor.execute("SET GLOBAL innodb_fast_shutdown = 0")
        return asked
    finally:
        connection.close()


def _core_job(
    job: Mapping[str, Any], server: InnodbServer, identity: Identity, build: Build, frames: int
) -> dict[str, Any]:
    """The core's job: the run's own words, and where the server is."""
    target = _target(server, identity)
    core = {
        name: value
        for name, value in job.items()
        if name not in ("database", "knobs", "program", "allow_online_changes")
    }
    external = job.get("program")
    if external:
        external = {
            **program.expand(external["exec"], target, server.log.parent / "program", int(job["connections"])),
            "kind_of_transaction": external["kind_of_transaction"],
        }
    return {
        **core,
        "target": target,
        "flavour": build.flavour,
        "version": build.version,
        "server_pid": server.pid,
        "datadir": str(Path(job["database"]) / "data"),
        "statements": job["knobs"].get("statements", "spec"),
        "frames": frames,
        "program": external,
    }


def _target(server: InnodbServer, identity: Identity) -> dict[str, Any]:
    return {
        "socket": str(server.socket),
        "host": None,
        "port": None,
        "user": identity.user,
        "password": identity.password,
        "database": DATABASE,
    }


def _spare_pool_bytes(at_most: int) -> int:
    """A pool for loading and checking, in whole chunks."""
    return free_quarter(at_most, 128 * MIB, 64 * MIB)
