"""The behaviour of every engine that is a server: loads, runs and checks databases on private servers, of any family.

A database is a directory: the server owns data/, bufferlab owns auth.json and sizes.json. The server's socket, log and
configuration are in ../server, so they do not belong to the data. Jobs on an already running server go to
`RunningHost`. This module has neither a measuring loop nor SQL.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bufferlab.engines import host_settings
from bufferlab.engines.behaviour import (
    Behaviour,
    EngineFailure,
    Found,
    HostCheck,
    NativeKnobs,
    OnEvent,
    OwnedPages,
    ServerCheck,
    Wanted,
)
from bufferlab.engines.native import load_core, load_recipe, native, run_core
from bufferlab.engines.servers import data_folder, page_sites, user
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.child_process import tail
from bufferlab.engines.servers.data_folder import DATABASE, Identity, Sizes
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.engines.servers.existing.whereabouts import may_be_here
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.fetched import MANIFEST, servers_root
from bufferlab.engines.servers.hosts.running import Host, RunningHost, is_existing
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.engines.servers.restoring import LOADER_VERSION, Dump, RoomWatch
from bufferlab.engines.servers.server_names import ON_PATH
from bufferlab.engines.servers.signs_of_life import signs_of_life
from bufferlab.errors import BufferlabError, SpecError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LOG_LINES = 60
_STOP_SECONDS = 300.0


class ServerBehaviour(Host, Behaviour):
    """The behaviour of the engine of one family; `load`, `run`, `check` and `cancel` are called in the worker.

    It starts a private server for each load, run or check, on the job's own data. If the knob `server` is a URL, the
    job uses the running server at that URL instead.
    """

    _interrupted: PrivateServer | None = None
    """The server that `cancel` kills, while it checks data or restores a dump; else None."""

    def __init__(self, family: Family) -> None:
        super().__init__(family)
        self.page_trace_counters = family.page_trace_counters
        self._running = RunningHost(family, self.cancelled)

    def _build(self, knobs: Mapping[str, Any]) -> Build:
        """Return the build that the knobs name; raise EnvironmentLackingError if it is missing."""
        return self.family.find(str(knobs.get("server", ON_PATH)))

    def find(self) -> Found:
        """Return the first server on PATH or in the system's folders, or else the newest fetched one.

        Raise EnvironmentLackingError if there is none.
        """
        build = self.family.find(ON_PATH)
        return Found(build.version, native().core_version(), str(build.binary))

    def server_version(self, knobs: NativeKnobs) -> str:
        return (self._running.build if is_url(knobs.get("server")) else self._build)(knobs).version

    def server_user(self) -> tuple[int, int] | None:
        return user.server_user()

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check whether the server's user can reach the directory, and whether the directory suits the knobs."""
        if is_url(knobs.get("server")):
            return self._running.check_directory(directory, knobs)
        try:
            user.require_reachable(directory, user.server_user())
        except BufferlabError as error:
            return [HostCheck("server_user", False, error.what, error.hint)]
        reached = HostCheck("server_user", True, "the user that servers run as can get there")
        return [reached, *self.family.checks_of_directory(directory, knobs), *host_settings.checks(directory, knobs)]

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Create a data directory, load the workload or restore the dump, and stop the server cleanly.

        Return the core's answer; {} for a dump.
        """
        family, database, knobs = self.family, Path(job["database"]), job["knobs"]
        if is_url(knobs.get("server")):
            return self._running.load(job, on_event)
        build, owner = self._build(knobs), user.server_user()
        dump = Dump.of(job)
        if dump:
            dump.head(build)  # Check the dump first, so that it is not refused after minutes of work.
        settings = {**family.settings(build, knobs, "load"), **(family.quiet if dump else {})}
        user.require_reachable(database.parent, owner)
        database.mkdir(mode=0o700)
        user.give(database, owner)
        identity = data_folder.new_identity(build, int(knobs["page_size"]), family.decided(knobs))
        wait = self.patience(on_event)
        login = family.make_data(build, database, identity, knobs, settings, owner, wait)
        with self._server(
            build, database, on_event, login=login, settings=settings, connections=int(job["threads"]),
            stop_seconds=family.stop_after_load_seconds, own_net=dump is not None,
        ) as server:  # fmt: skip
            family.set_up(server.address, identity, build)
            server.log_in_as(identity.user, identity.password)
            self.require_not_cancelled()
            if dump:
                identity = self._restore(dump, server, build, identity, on_event)
                loaded: dict[str, Any] = {}
            else:
                with signs_of_life(on_event, "loading", server.listen):
                    loaded = load_core(family.flavour, self.load_job(job, server.address), on_event)
            self.require_not_cancelled()
            with signs_of_life(on_event, "closing", server.listen):
                sizes = self._end_load(server, build)
        if dump:
            dump.require_unchanged()
            data_folder.store_where_known(sizes, database)
        else:
            sizes.store(database)
        user.give(database / "sizes.json", owner)
        data_folder.store_identity(database, identity, owner)
        return loaded

    def _restore(
        self, dump: Dump, server: PrivateServer, build: Build, identity: Identity, on_event: OnEvent
    ) -> Identity:
        """Restore a dump while `RoomWatch` watches the disk; return the identity with the login for the data.

        Raises EngineFailure if the restore fails, `cancel` was called, or the disk is nearly full.
        """
        room = RoomWatch(server.home)

        def listen() -> None:
            server.listen()
            if room.look():
                server.abandon()

        self._interrupted = server
        try:
            with signs_of_life(on_event, "restoring", listen):
                wait = self.patience(on_event)
                login = self.family.restore(server, build, dump, identity, user.server_user(), wait)
        except Exception as error:
            self.require_not_cancelled()
            if room.is_full:
                raise room.failure() from error
            raise
        finally:
            self._interrupted = None
        return replace(identity, user=login[0], password=login[1], restored=True)

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Start a server with the knobs, read them back, let the core run the workload, and stop the server.

        Return the core's answer, with the settings in effect. Raises EngineFailure for data of another version or page
        size, and for an external program that the family does not support.
        """
        family, database, knobs = self.family, Path(job["database"]), job["knobs"]
        if job.get("program") and not family.program:
            what = "external programs are driven against MySQL and MariaDB alone"
            raise EngineFailure("usage", what, "workload program", "choose --engine mysql, or another workload")
        if is_url(knobs.get("server")):
            return self._running.run(job, on_event)
        identity, build = data_folder.read_identity(database), self._build(knobs)
        data_folder.require_version(build, identity)
        data_folder.require_page_size(identity, int(knobs["page_size"]), database, family.page_size_hint)
        with (
            host_settings.around_run(database, knobs) as ahead,
            family.bounded(knobs, database) as limit,
            page_sites.recording(
                family.page_sites_table, build, job.get("probes", {}).get("page_trace"), on_event
            ) as trace,
            self._server(
                build, database, on_event, login=(identity.user, identity.password),
                settings=self._quiet(family.settings(build, knobs), identity), own_net=identity.restored,
                connections=int(job["connections"]), group=limit.procs if limit else None, trace=trace,
            ) as server,
        ):  # fmt: skip
            if trace:
                trace.require_on()
            if limit:
                limit.begin()
            with closing(server.connect()) as connection:
                found = family.read_back(connection, build, knobs, limit.actual_bytes if limit else None)
            self.require_not_cancelled()
            result = run_core(family.flavour, self._run_job(job, server, found.frames), on_event)
            if trace:
                result = trace.added_to(result)
            server.require_alive()
            memory = {**(limit.taken() if limit else {}), **family.memory(server.connect, knobs)}
            if self.cancelled.is_set():
                # This copy is not read again; writing its dirty pages back would only take time.
                server.abandon()
        return {
            **result,
            "actual": {**result.get("actual", {}), **found.actual, **ahead, **memory},
            "engine_version": build.version,
            "engine_conf": server.conf,
            "confounds": found.confounds,
            "notes": {**family.chosen(build, knobs), **found.notes, **_note_of_script(build)},
            "server_log": tail(server.log, _LOG_LINES),
        }

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Start a server on the closed data and check the consistency conditions; return {seconds, conditions}.

        A server whose data are not used later is killed, because a clean stop would only take time.
        """
        family, database = self.family, Path(job["database"])
        if is_existing(database):
            return self._running.check(job, on_event)
        identity = data_folder.read_identity(database)
        build = self._same_build(identity)
        with self._server(
            build, database, on_event, login=(identity.user, identity.password),
            settings=self._quiet(family.settings(build, identity.knobs, "check"), identity),
            own_net=identity.restored,
        ) as server:  # fmt: skip
            self._interrupted = server
            try:
                with signs_of_life(on_event, "checking", server.listen):
                    found = family.conditions(server.address, job, database)
                if job.get("is_last"):
                    server.abandon()
                return found
            except Exception:
                self.require_not_cancelled()
                raise
            finally:
                self._interrupted = None

    def cancel(self) -> None:
        """Request a stop. The core stops at the next transaction.

        A check or a restore stops at once: its server is killed.
        """
        self.cancelled.set()
        if (server := self._interrupted) is not None:
            server.abandon()
        native().cancel()

    def _server(self, build: Build, database: Path, on_event: OnEvent, **given: Any) -> PrivateServer:
        """Return a server that is not started yet. `given` are more keyword arguments of `PrivateServer`."""
        whole = {"stop_seconds": _STOP_SECONDS, "user": user.server_user(), "on_wait": self.patience(on_event), **given}
        return PrivateServer(self.family, build, database / "data", database.parent / "server", **whole)

    def _quiet(self, settings: Mapping[str, str], identity: Identity) -> dict[str, str]:
        """Return the settings; for a user's own data, add those that keep values of rows out of the log."""
        return {**settings, **(self.family.quiet if identity.restored else {})}

    def _same_build(self, identity: Identity) -> Build:
        """Return the build that created the data, or another of the same version if that build is missing."""
        try:
            build = self.family.find(identity.server)
        except BufferlabError:
            build = self.family.find(f"{identity.flavour}-{identity.version}")
        data_folder.require_version(build, identity)
        return build

    def _end_load(self, server: PrivateServer, build: Build) -> Sizes:
        """Finish a load's background work, so that no run pays for it; return the sizes of the loaded tables."""
        try:
            self.family.settle(server.address)
        except EngineFailure as error:
            raise EngineFailure(error.kind, error.what, error.where or str(server.log), error.hint) from error
        with closing(server.connect(patient=True)) as connection:
            return self.family.sizes(connection, build, DATABASE, trees=True)

    def _run_job(self, job: Mapping[str, Any], server: PrivateServer, frames: int) -> dict[str, Any]:
        """Return the core's job. If an external load generator runs the transactions, the job names it."""
        data = str(Path(job["database"]) / "data")
        whole = self.run_job(job, server.address, frames, pid=server.pid, data=data)
        external = job.get("program")
        if external and self.family.program:
            target, home = whole["target"], server.log.parent / "program"
            expanded = self.family.program(external["exec"], target, home, int(job["connections"]))
            whole["program"] = {**expanded, "kind_of_transaction": external["kind_of_transaction"]}
        return whole

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the server's version, the knobs that affect data, the schema, the loader, and the workload.

        The workload includes its scale and seed.
        """
        if dump := workload.get("dump"):
            return self._dump_recipe(knobs, workload, dump)
        job = {name: value for name, value in workload.items() if name != "version"}
        recipe, server = load_recipe(self.family.flavour, job), knobs.get("server")
        return {
            "engine": self.family.flavour,
            "engine_version": self.server_version(knobs),
            "schema_sha256": hashlib.sha256(recipe["schema_sql"].encode()).hexdigest(),
            "loader_version": recipe["loader_version"],
            "knobs": self.family.recipe(knobs),
            # The URL belongs to the recipe: two running servers have different data, even if they are of the same
            # version.
            **({"server": server} if is_url(server) else {}),
            "workload": {name: value for name, value in workload.items() if name not in ("source", "text")},
        }

    def _dump_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any], dump: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recipe of data restored from a dump.

        They depend on the dump's bytes, and not on the workload's script.
        """
        return {
            "engine": self.family.flavour,
            "engine_version": self.server_version(knobs),
            "loader_version": LOADER_VERSION,
            "knobs": self.family.recipe(knobs),
            "workload": {"name": "dump", "version": workload["version"], "dump_sha256": dump["sha256"]},
        }

    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes of data and indexes that the server reported after the load."""
        return int(data_folder.read_sizes(database)["allocated_bytes"])

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return the pages per level of every B-tree (and heap), as counted after the load; None if not counted."""
        shape: dict[str, Any] | None = data_folder.read_sizes(database)["shape"]
        return shape

    def restore_host(self) -> list[str]:
        return host_settings.restore()

    @property
    def url_schemes(self) -> tuple[str, ...]:
        return self.family.form.schemes

    def uses_this_host(self, knobs: NativeKnobs) -> bool:
        server = knobs.get("server")
        return not is_url(server) or may_be_here(self._running.parse(str(server)))

    def engine_of(self, server: str) -> str:
        return self._running.flavour_of(server)

    def preflight(self, server: str, wanted: Wanted) -> list[ServerCheck]:
        return self._running.preflight(server, wanted)

    def require_page_trace(self, knobs: NativeKnobs) -> None:
        """Raise SpecError for a running server, an unknown build, or knobs that add page gets at unknown places.

        Raise EnvironmentLackingError if the build is missing or this host cannot trace.
        """
        if is_url(knobs.get("server")):
            what = "page accesses of a server that runs already cannot be recorded"
            hint = "leave the trace out, or let bufferlab start the server"
            raise SpecError(what, "--probe page-trace", hint)
        build = self._build(knobs)
        self.family.require_traceable(page_sites.require(self.family.page_sites_table, build), build, knobs)

    def page_trace_cost_is_shown(self, knobs: NativeKnobs) -> bool:
        return page_sites.find(self.family.page_sites_table, self._build(knobs)).cost_is_shown

    def abilities(self, directory: Path) -> list[HostCheck]:
        """Check for each fetched build of the flavour whether its page accesses can be recorded."""
        return [
            self._traceable(manifest.parent.name)
            for manifest in sorted(servers_root().glob(f"{self.family.flavour}-*/{MANIFEST}"))
        ]

    def _traceable(self, name: str) -> HostCheck:
        subject = f"page-trace {name}"
        try:
            sites = page_sites.require(self.family.page_sites_table, self.family.find(name))
        except BufferlabError as error:
            return HostCheck(subject, False, error.what, error.hint)
        return HostCheck(subject, True, f"accesses to the pages of {sites.server} can be recorded")

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        return self.family.pages_of_objects(database, touched, relations)

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        return self.family.uncounted_objects(database, relations)


def _note_of_script(build: Build) -> dict[str, str]:
    """Return a note for the run's answer if the user named the server by a script; {} for any other server."""
    return {"server": f"{build.binary}, which {build.script} starts; the script was not run"} if build.script else {}
