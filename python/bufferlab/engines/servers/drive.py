"""What bufferlab does with a server: load, run and check a private server's data, or go to one that runs already.

A database is a directory: data/ is the server's own, auth.json and sizes.json are ours. The server's socket, log and
configuration live beside it, in ../server, and are no part of the data. Holds no loop and no SQL; each family says how
its servers are found, made and asked.
"""

from __future__ import annotations

import hashlib
import json
import threading
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from bufferlab.engines import host_settings, read_ahead
from bufferlab.engines.behaviour import Behaviour, EngineFailure, Found, HostCheck, NativeKnobs, OnEvent
from bufferlab.engines.native import native
from bufferlab.engines.servers import identity as identities
from bufferlab.engines.servers import sizes, user
from bufferlab.engines.servers.boot import OnWait
from bufferlab.engines.servers.builds import ON_PATH, Build, Flavour
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.engines.servers.existing.server import ExistingServer, is_existing
from bufferlab.engines.servers.identity import Identity
from bufferlab.engines.servers.life import patience, signs_of_life
from bufferlab.engines.servers.memory_limit import MemoryLimit
from bufferlab.engines.servers.process import tail
from bufferlab.engines.servers.read_back import ReadBack
from bufferlab.engines.servers.server import Server
from bufferlab.errors import BufferlabError, Problem

_LOG_LINES = 60
_STOP_SECONDS = 300.0
_NOT_THE_CORES = ("database", "knobs", "program", "allow_online_changes")
"""Of a job."""


class ServerBehaviour(Behaviour):
    """One engine; `load`, `run`, `check` and `cancel` are called inside the worker process."""

    flavour: Flavour
    stop_after_load_seconds = _STOP_SECONDS
    page_size_hint: str
    """What to do about data with pages of another size."""

    def __init__(self, existing: ExistingServer) -> None:
        self._existing = existing
        self._cancelled = threading.Event()
        self._checking: Server | None = None

    # How the family's servers are found, made and asked.

    @abstractmethod
    def find_build(self, name: str) -> Build:
        """The server of that name (or on PATH), which can be run; EnvironmentLackingError when there is none."""

    @abstractmethod
    def make_server(self, build: Build, database: Path, *, group: Path | None, **given: Any) -> Server:
        """A server on a database's data, not yet started; in that cgroup, if there is one."""

    @abstractmethod
    def make_data(
        self, build: Build, database: Path, identity: Identity, knobs: NativeKnobs, settings: Mapping[str, str],
        owner: tuple[int, int] | None, on_event: OnEvent,
    ) -> tuple[str, str]:  # fmt: skip
        """A new data directory; the (user, password) with which its server is reached at first."""

    @abstractmethod
    def set_up(self, server: Server, identity: Identity, build: Build) -> None:
        """Accounts and the workload's empty database, on the new data."""

    @abstractmethod
    def end_load(self, server: Server, build: Build) -> dict[str, Any]:
        """What a load leaves to be done before the server is stopped; what the tables are, as it says."""

    @abstractmethod
    def store_sizes(self, database: Path, asked: Mapping[str, Any], identity: Identity) -> None:
        """Count the trees in the closed files, and keep them with what was asked."""

    @abstractmethod
    def settings_of(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        """The server's variables for a run's knobs."""

    @abstractmethod
    def loading_settings(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        """Its variables while it is loaded."""

    @abstractmethod
    def checking_settings(self, identity: Identity) -> dict[str, str]:
        """Its variables while it is checked."""

    @abstractmethod
    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """What a run with these knobs needs of a directory, beside that the server's user can get there."""

    @abstractmethod
    def load_recipe(self, workload_json: str) -> str:
        """The core's: which schema and loader make a workload's data, as JSON."""

    @abstractmethod
    def deciding(self, knobs: NativeKnobs) -> dict[str, int | str]:
        """The knobs that decide what the data are."""

    @abstractmethod
    def read_back(self, connection: Any, build: Build, knobs: NativeKnobs, limit: MemoryLimit | None) -> ReadBack:
        """The settings a started server runs with."""

    @abstractmethod
    def target(self, server: Server, identity: Identity) -> dict[str, Any]:
        """Where the server is, as the core wants it told."""

    @abstractmethod
    def fill(self, core_job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Load, by the core."""

    @abstractmethod
    def drive(self, core_job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Run, by the core."""

    @abstractmethod
    def program_of(self, job: Mapping[str, Any], server: Server, target: Mapping[str, Any]) -> dict[str, Any] | None:
        """The external program that drives in place of the core's drivers; None without one."""

    @abstractmethod
    def conditions(self, connection: Any, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        """The workload's consistency conditions."""

    @contextmanager
    def bounded(self, knobs: NativeKnobs, database: Path) -> Iterator[MemoryLimit | None]:
        """The bound on memory that was asked for, around a run; None without one."""
        yield None

    # What is the same for all.

    def find(self) -> Found:
        """The server on PATH, or the newest that was fetched; EnvironmentLackingError when there is none."""
        build = self.find_build(ON_PATH)
        return Found(build.version, native().core_version(), str(build.binary))

    def server_version(self, knobs: NativeKnobs) -> str:
        return self._build(knobs).version

    def put_back(self, servers: Collection[str] | None = None) -> list[tuple[str, list[str] | Problem]]:
        return self._existing.put_back_everywhere(servers)

    def reserved(self, servers: Collection[str]) -> AbstractContextManager[list[tuple[str, list[str]]]]:
        return self._existing.reserved([server for server in servers if is_url(server)])

    def restore_host(self) -> list[str]:
        return host_settings.restore()

    def server_user(self) -> tuple[int, int] | None:
        return user.server_user()

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Can the server's user get there, and can be had there what the knobs ask for?"""
        if is_url(knobs.get("server")):
            return [HostCheck("server", True, "a server that bufferlab did not start: its files are its own affair")]
        try:
            user.require_reachable(directory, user.server_user())
        except BufferlabError as error:
            return [HostCheck("server_user", False, error.what, error.hint)]
        reached = HostCheck("server_user", True, "the user that servers run as can get there")
        return [reached, *self.checks_of_directory(directory, knobs), *read_ahead.checks(directory, knobs)]

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """The server's version, the knobs that decide the data, schema and loader, the workload's scale and seed."""
        job = {name: value for name, value in workload.items() if name != "version"}
        recipe = json.loads(self.load_recipe(json.dumps(job)))
        return {
            "engine": self.flavour,
            "engine_version": self._build(knobs).version,
            "schema_sha256": hashlib.sha256(recipe["schema_sql"].encode()).hexdigest(),
            "loader_version": recipe["loader_version"],
            "knobs": self.deciding(knobs),
            # Data on a server that is not ours are its own, whatever version another has.
            **({"server": knobs["server"]} if is_url(knobs.get("server")) else {}),
            "workload": {name: value for name, value in workload.items() if name not in ("source", "text")},
        }

    def allocated_bytes(self, database: Path) -> int:
        """Bytes of data and indexes as the server told them after the load."""
        return int(sizes.read(database)["allocated_bytes"])

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Every b-tree (and heap) with its levels, as counted after the load."""
        shape: dict[str, Any] | None = sizes.read(database)["shape"]
        return shape

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """A new data directory with the workload's data, cleanly shut."""
        database, knobs = Path(job["database"]), job["knobs"]
        if is_url(knobs.get("server")):
            return self._existing.load(job, on_event, self._cancelled.is_set)
        build, owner = self._build(knobs), user.server_user()
        settings = self.loading_settings(build, knobs)
        user.require_reachable(database.parent, owner)
        database.mkdir(mode=0o700)
        user.give(database, owner)
        identity = identities.new_identity(build, int(knobs["page_size_bytes"]))
        login = self.make_data(build, database, identity, knobs, settings, owner, on_event)
        with self._server(
            build, database, on_event, login=login, settings=settings, connections=int(job["threads"]),
            stop_seconds=self.stop_after_load_seconds,
        ) as server:  # fmt: skip
            self.set_up(server, identity, build)
            self.require_not_cancelled()
            core_job = {
                "target": self.target(server, identity),
                "version": build.version,
                "workload": dict(job["workload"]),
                "threads": job["threads"],
            }
            with signs_of_life(on_event, "loading", server.listen):
                loaded = self.fill(core_job, on_event)
            self.require_not_cancelled()
            with signs_of_life(on_event, "closing", server.listen):
                asked = self.end_load(server, build)
        self.store_sizes(database, asked, identity)
        user.give(database / "sizes.json", owner)
        identities.store(database, identity, owner)
        return loaded

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """One run on the data: start with the knobs, read them back, let the core drive, stop."""
        database, knobs = Path(job["database"]), job["knobs"]
        if is_url(knobs.get("server")):
            return self._existing.run(job, on_event, self._cancelled.is_set)
        identity, build = identities.read(database), self._build(knobs)
        identities.require_version(build, identity)
        identities.require_page_size(identity, int(knobs["page_size_bytes"]), database, self.page_size_hint)
        with (
            read_ahead.around_run(database, knobs) as ahead,
            self.bounded(knobs, database) as limit,
            self._server(
                build, database, on_event, login=(identity.user, identity.password),
                settings=self.settings_of(build, knobs), connections=int(job["connections"]),
                group=limit.procs if limit else None,
            ) as server,
        ):  # fmt: skip
            with closing(server.connect()) as connection:
                found = self.read_back(connection, build, knobs, limit)
            self.require_not_cancelled()
            result = self.drive(self._core_job(job, server, identity, build, found.frames), on_event)
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
            "notes": found.notes,
            "server_log": tail(server.log, _LOG_LINES),
        }

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """The consistency conditions on the closed data: {seconds, conditions}."""
        database = Path(job["database"])
        if is_existing(database):
            return self._existing.check(job, on_event)
        identity = identities.read(database)
        with self._server(
            self._same_build(identity), database, on_event, login=(identity.user, identity.password),
            settings=self.checking_settings(identity),
        ) as server:  # fmt: skip
            self._checking = server
            try:
                with (
                    signs_of_life(on_event, "checking", server.listen),
                    closing(server.connect(patient=True)) as connection,
                ):
                    return self.conditions(connection, job, database)
            except Exception:
                self.require_not_cancelled()
                raise
            finally:
                self._checking = None

    def cancel(self) -> None:
        """Stop soon: the core at the next transaction, a check at once."""
        self._cancelled.set()
        if (server := self._checking) is not None:
            server.abandon()
        native().cancel()

    def require_not_cancelled(self) -> None:
        """EngineFailure when a stop was asked for."""
        if self._cancelled.is_set():
            raise EngineFailure("interrupted", "stopped on request")

    def patience(self, on_event: OnEvent) -> OnWait:
        """What to do while a server is waited for."""
        return patience(on_event, self._cancelled.is_set)

    def _server(
        self, build: Build, database: Path, on_event: OnEvent, *, group: Path | None = None, **given: Any
    ) -> Server:
        """`given` as `Server` takes it."""
        whole = {"stop_seconds": _STOP_SECONDS, "user": user.server_user(), "on_wait": self.patience(on_event), **given}
        return self.make_server(build, database, group=group, **whole)

    def _build(self, knobs: Mapping[str, Any]) -> Build:
        if is_url(knobs.get("server")):
            return self._existing.build(str(knobs["server"]))
        return self.find_build(str(knobs.get("server", ON_PATH)))

    def _same_build(self, identity: Identity) -> Build:
        """The build that made the data; another of the same version when it has gone."""
        try:
            build = self.find_build(identity.server)
        except BufferlabError:
            build = self.find_build(f"{identity.flavour}-{identity.version}")
        identities.require_version(build, identity)
        return build

    def _core_job(
        self, job: Mapping[str, Any], server: Server, identity: Identity, build: Build, frames: int
    ) -> dict[str, Any]:
        """The core's job: the run's own words, and where the server is."""
        target = self.target(server, identity)
        return {
            **{name: value for name, value in job.items() if name not in _NOT_THE_CORES},
            "target": target,
            "version": build.version,
            "server_pid": server.pid,
            "datadir": str(Path(job["database"]) / "data"),
            "statements": job["knobs"].get("statements", "spec"),
            "frames": frames,
            "program": self.program_of(job, server, target),
        }
