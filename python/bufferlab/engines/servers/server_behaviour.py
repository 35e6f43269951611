"""Loads, runs and checks databases on private servers, and hands jobs for servers that already run to `existing`.

A database is a directory: the server owns data/, bufferlab owns auth.json and sizes.json. The server's socket, log and
configuration are in ../server, so they do not belong to the data. This module has neither a measuring loop nor SQL;
each family implements how its servers are found, made and asked.
"""

from __future__ import annotations

import hashlib
import threading
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from bufferlab.engines import host_settings, read_ahead
from bufferlab.engines.behaviour import Behaviour, EngineFailure, Found, HostCheck, NativeKnobs, OnEvent
from bufferlab.engines.native import load_core, load_recipe, native, run_core
from bufferlab.engines.servers import identity as identities
from bufferlab.engines.servers import page_sites, stored_sizes, user
from bufferlab.engines.servers.builds import MANIFEST, ON_PATH, Build, Flavour, servers_root
from bufferlab.engines.servers.child_process import tail
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.engines.servers.existing.existing_server import ExistingServer, is_existing
from bufferlab.engines.servers.identity import Identity
from bufferlab.engines.servers.life import patience, signs_of_life
from bufferlab.engines.servers.memory_limit import MemoryLimit
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.engines.servers.read_back import ReadBack
from bufferlab.engines.servers.server_process import OnWait
from bufferlab.errors import BufferlabError, Problem, SpecError
from bufferlab.knob import Native

_LOG_LINES = 60
_STOP_SECONDS = 300.0
_NOT_THE_CORES = ("database", "knobs", "program", "allow_online_changes")
"""Entries of a job that the core does not take."""


class ServerBehaviour(Behaviour):
    """The behaviour of one engine that is a server; `load`, `run`, `check` and `cancel` are called in the worker."""

    flavour: Flavour
    stop_after_load_seconds = _STOP_SECONDS
    page_size_hint: str
    """The hint of the error about data with pages of another size."""
    page_sites_table: Path
    """The family's page_sites.toml."""

    def __init__(self, existing: ExistingServer) -> None:
        self._existing = existing
        self._cancelled = threading.Event()
        self._checking: PrivateServer | None = None

    # Each family implements these: how its servers are found, made and asked.

    @abstractmethod
    def find_build(self, name: str) -> Build:
        """Return a build that can be run: the one of that name, or for `path` the first there is.

        Raises EnvironmentLackingError when there is none, with the way to get one.
        """

    @abstractmethod
    def make_server(self, build: Build, database: Path, *, group: Path | None, **given: Any) -> PrivateServer:
        """Return a server for the data in `database`, not yet started. `given` are arguments of `PrivateServer`.

        `group` is the cgroup.procs that its process joins; None unless `bounded` yielded a limit.
        """

    @abstractmethod
    def make_data(
        self, build: Build, database: Path, identity: Identity, knobs: NativeKnobs, settings: Mapping[str, str],
        owner: tuple[int, int] | None, on_event: OnEvent,
    ) -> tuple[str, str]:  # fmt: skip
        """Make the empty data directory `database`/data; return the (user, password) of its server's first login.

        Before: `database` exists, belongs to `owner`, and holds nothing. After: no server runs; one that is started
        with `settings` accepts the login. Raises EngineFailure when the data directory could not be made.
        """

    @abstractmethod
    def set_up(self, server: PrivateServer, identity: Identity, build: Build) -> None:
        """Make the account of `identity` and the workload's empty database on a new server.

        Before: the server answers the login that `make_data` returned. After: `server.connect()` logs in as
        `identity`, and the core can load into what `target` names.
        """

    @abstractmethod
    def end_load(self, server: PrivateServer, build: Build) -> dict[str, Any]:
        """Finish a load, so that no run pays for it (vacuum, a clean shutdown); return the server's word on the tables.

        Before: the core has loaded everything. After: the server still runs, and stopping it leaves closed files
        that need no recovery. The answer is what `store_sizes` is given as `asked`.
        """

    @abstractmethod
    def store_sizes(self, database: Path, asked: Mapping[str, Any], identity: Identity) -> None:
        """Count the trees in the closed data files, and write sizes.json: the counts, and what `end_load` returned.

        Before: the server has stopped cleanly. After: `allocated_bytes` and `shape` can read sizes.json.
        """

    @abstractmethod
    def settings_of(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        """Return the variables, by the server's names, that a run's knobs ask of this build."""

    @abstractmethod
    def loading_settings(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        """Return the server's variables during a load: those that decide the data as in a run, the others for speed."""

    @abstractmethod
    def checking_settings(self, identity: Identity) -> dict[str, str]:
        """Return the server's variables during a check; they must suit data of this page size."""

    @abstractmethod
    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return a check for each thing that these knobs need of a directory, such as direct I/O.

        Before: the directory exists and the server's user can reach it, which the caller has checked.
        """

    @abstractmethod
    def deciding(self, knobs: NativeKnobs) -> dict[str, Native]:
        """Return what decides the bytes of the data among a load's knobs, for `data_recipe`; never `server`.

        Sizes say so in their names, as they always did: another name is another `data_key`.
        """

    @abstractmethod
    def read_back(self, connection: Any, build: Build, knobs: NativeKnobs, limit: MemoryLimit | None) -> ReadBack:
        """Return the settings that the started server really runs with. Called before the run; changes nothing.

        `limit` is the bound on memory around the server, which may restrict what it runs with.
        """

    @abstractmethod
    def target(self, server: PrivateServer, identity: Identity) -> dict[str, Any]:
        """Return the address, account and database for the core's connections; its job has them as `target`."""

    @abstractmethod
    def program_of(
        self, job: Mapping[str, Any], server: PrivateServer, target: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Return the external program that drives instead of the core's drivers; None without one."""

    @abstractmethod
    def conditions(self, connection: Any, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        """Check the workload's consistency conditions over an open connection; return {seconds, conditions}.

        Before: the run that `job` describes has ended.
        """

    @contextmanager
    def bounded(self, knobs: NativeKnobs, database: Path) -> Iterator[MemoryLimit | None]:
        """Context manager for the memory limit that the knobs ask for; yields it, or None where they ask for none.

        Entered before the server starts and left after it has ended. Leaving must remove the limit.
        """
        yield None

    # All families share these.

    def find(self) -> Found:
        """Return the server on PATH, or the newest that was fetched; raise EnvironmentLackingError without one."""
        build = self.find_build(ON_PATH)
        return Found(build.version, native().core_version(), str(build.binary))

    def server_version(self, knobs: NativeKnobs) -> str:
        return self._build(knobs).version

    def put_back(self, servers: Collection[str] | None = None) -> list[tuple[str, list[str] | Problem]]:
        return self._existing.put_back_everywhere(servers)

    @property
    def url_schemes(self) -> tuple[str, ...]:
        return self._existing.form.schemes

    def forget_mark(self, server: str) -> str | None:
        return self._existing.forget_mark(server)

    def reserved(self, servers: Collection[str]) -> AbstractContextManager[list[tuple[str, list[str]]]]:
        return self._existing.reserved([server for server in servers if is_url(server)])

    def restore_host(self) -> list[str]:
        return host_settings.restore()

    def require_page_trace(self, knobs: NativeKnobs) -> None:
        """Raise for a server that runs already, for a build whose sites are not known, and where nobody may trace."""
        if is_url(knobs.get("server")):
            what = "page accesses of a server that runs already cannot be recorded"
            hint = "leave the trace out, or let bufferlab start the server"
            raise SpecError(what, "--probe page-trace", hint)
        page_sites.require(self.page_sites_table, self._build(knobs))

    def abilities(self, directory: Path) -> list[HostCheck]:
        """Return for each fetched build of the flavour whether its page accesses can be recorded."""
        return [
            self._traceable(manifest.parent.name)
            for manifest in sorted(servers_root().glob(f"{self.flavour}-*/{MANIFEST}"))
        ]

    def _traceable(self, name: str) -> HostCheck:
        subject = f"page-trace {name}"
        try:
            sites = page_sites.require(self.page_sites_table, self.find_build(name))
        except BufferlabError as error:
            return HostCheck(subject, False, error.what, error.hint)
        return HostCheck(subject, True, f"accesses to the pages of {sites.server} can be recorded")

    def server_user(self) -> tuple[int, int] | None:
        return user.server_user()

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return whether the server's user can reach the directory, and whether it has what the knobs ask for."""
        if is_url(knobs.get("server")):
            return [HostCheck("server", True, "a server that bufferlab did not start: its files are its own affair")]
        try:
            user.require_reachable(directory, user.server_user())
        except BufferlabError as error:
            return [HostCheck("server_user", False, error.what, error.hint)]
        reached = HostCheck("server_user", True, "the user that servers run as can get there")
        return [reached, *self.checks_of_directory(directory, knobs), *read_ahead.checks(directory, knobs)]

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the server's version, the deciding knobs, schema, loader, and the workload with its scale and seed."""
        job = {name: value for name, value in workload.items() if name != "version"}
        recipe = load_recipe(self.flavour, job)
        return {
            "engine": self.flavour,
            "engine_version": self._build(knobs).version,
            "schema_sha256": hashlib.sha256(recipe["schema_sql"].encode()).hexdigest(),
            "loader_version": recipe["loader_version"],
            "knobs": self.deciding(knobs),
            # Data on one running server are not those on another, even of the same version.
            **({"server": knobs["server"]} if is_url(knobs.get("server")) else {}),
            "workload": {name: value for name, value in workload.items() if name not in ("source", "text")},
        }

    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes of data and indexes that the server told after the load."""
        return int(stored_sizes.read(database)["allocated_bytes"])

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return every b-tree (and heap) with its levels, as counted after the load."""
        shape: dict[str, Any] | None = stored_sizes.read(database)["shape"]
        return shape

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Make a data directory, load the workload, and stop its server cleanly; return the core's answer."""
        database, knobs = Path(job["database"]), job["knobs"]
        if is_url(knobs.get("server")):
            return self._existing.load(job, on_event, self._cancelled.is_set)
        build, owner = self._build(knobs), user.server_user()
        settings = self.loading_settings(build, knobs)
        user.require_reachable(database.parent, owner)
        database.mkdir(mode=0o700)
        user.give(database, owner)
        identity = identities.new_identity(build, int(knobs["page_size"]))
        login = self.make_data(build, database, identity, knobs, settings, owner, on_event)
        with self._server(
            build, database, on_event, login=login, settings=settings, connections=int(job["threads"]),
            stop_seconds=self.stop_after_load_seconds,
        ) as server:  # fmt: skip
            self.set_up(server, identity, build)
            self.require_not_cancelled()
            core_job = {
                "target": self.target(server, identity),
                "workload": dict(job["workload"]),
                "threads": job["threads"],
            }
            with signs_of_life(on_event, "loading", server.listen):
                loaded = load_core(self.flavour, core_job, on_event)
            self.require_not_cancelled()
            with signs_of_life(on_event, "closing", server.listen):
                asked = self.end_load(server, build)
        self.store_sizes(database, asked, identity)
        user.give(database / "sizes.json", owner)
        identities.store(database, identity, owner)
        return loaded

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Start a server with the knobs, read them back, let the core drive, and stop the server."""
        database, knobs = Path(job["database"]), job["knobs"]
        if is_url(knobs.get("server")):
            return self._existing.run(job, on_event, self._cancelled.is_set)
        identity, build = identities.read(database), self._build(knobs)
        identities.require_version(build, identity)
        identities.require_page_size(identity, int(knobs["page_size"]), database, self.page_size_hint)
        with (
            read_ahead.around_run(database, knobs) as ahead,
            self.bounded(knobs, database) as limit,
            page_sites.recording(self.page_sites_table, build, _spool(job)) as trace,
            self._server(
                build, database, on_event, login=(identity.user, identity.password),
                settings=self.settings_of(build, knobs), connections=int(job["connections"]),
                group=limit.procs if limit else None, watch=trace.attach if trace else None,
            ) as server,
        ):  # fmt: skip
            with closing(server.connect()) as connection:
                found = self.read_back(connection, build, knobs, limit)
            self.require_not_cancelled()
            result = run_core(self.flavour, self._core_job(job, server, identity, found.frames), on_event)
            if trace:
                result = trace.added_to(result)
            server.require_alive()
            if self._cancelled.is_set():
                # Nobody reads this copy any more; writing its dirty pages back would only take time.
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
        """Start a server on the closed data and check the consistency conditions; return {seconds, conditions}."""
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
        """Ask for a stop: the core stops at the next transaction, a check at once, because its server is killed."""
        self._cancelled.set()
        if (server := self._checking) is not None:
            server.abandon()
        native().cancel()

    def require_not_cancelled(self) -> None:
        """Raise EngineFailure when a stop was asked for."""
        if self._cancelled.is_set():
            raise EngineFailure("interrupted", "stopped on request")

    def patience(self, on_event: OnEvent) -> OnWait:
        """Return the function to call while a server is waited for; it raises once a stop was asked for."""
        return patience(on_event, self._cancelled.is_set)

    def _server(
        self, build: Build, database: Path, on_event: OnEvent, *, group: Path | None = None, **given: Any
    ) -> PrivateServer:
        """Return a server that is not yet started. `given` are further keyword arguments of `PrivateServer`."""
        whole = {"stop_seconds": _STOP_SECONDS, "user": user.server_user(), "on_wait": self.patience(on_event), **given}
        return self.make_server(build, database, group=group, **whole)

    def _build(self, knobs: Mapping[str, Any]) -> Build:
        if is_url(knobs.get("server")):
            return self._existing.build(str(knobs["server"]))
        return self.find_build(str(knobs.get("server", ON_PATH)))

    def _same_build(self, identity: Identity) -> Build:
        """Return the build that made the data, or another of the same version when that build has gone."""
        try:
            build = self.find_build(identity.server)
        except BufferlabError:
            build = self.find_build(f"{identity.flavour}-{identity.version}")
        identities.require_version(build, identity)
        return build

    def _core_job(
        self, job: Mapping[str, Any], server: PrivateServer, identity: Identity, frames: int
    ) -> dict[str, Any]:
        """Return the core's job: the run's own entries, and where the server and its data are."""
        target = self.target(server, identity)
        program = self.program_of(job, server, target)
        return {
            **{name: value for name, value in job.items() if name not in _NOT_THE_CORES},
            "target": target,
            "server_pid": server.pid,
            "datadir": str(Path(job["database"]) / "data"),
            "statements": job["knobs"].get("statements", "spec"),
            "frames": frames,
            **({"program": program} if program else {}),
        }


def _spool(job: Mapping[str, Any]) -> str | None:
    """Return the file for a page trace's records; None when no trace was asked for."""
    asked = job.get("probes", {}).get("page_trace")
    return asked["spool"] if asked else None
