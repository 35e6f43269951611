"""Loads, runs and checks databases on private servers, of any family.

A database is a directory: the server owns data/, bufferlab owns auth.json and sizes.json. The server's socket, log and
configuration are in ../server, so they do not belong to the data. This module has neither a measuring loop nor SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bufferlab.engines import read_ahead
from bufferlab.engines.behaviour import EngineFailure, HostCheck, NativeKnobs, OnEvent
from bufferlab.engines.native import load_core, run_core
from bufferlab.engines.servers import identity as identities
from bufferlab.engines.servers import page_sites, user
from bufferlab.engines.servers.builds import ON_PATH, Build
from bufferlab.engines.servers.child_process import tail
from bufferlab.engines.servers.hosts.host import Host
from bufferlab.engines.servers.identity import DATABASE, Identity
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.engines.servers.signs_of_life import signs_of_life
from bufferlab.engines.servers.stored_sizes import Sizes
from bufferlab.errors import BufferlabError

_LOG_LINES = 60
_STOP_SECONDS = 300.0


class PrivateHost(Host):
    """The host of servers that bufferlab starts, each for one load, run or check on data of its own."""

    _checking: PrivateServer | None = None

    def build(self, knobs: Mapping[str, Any]) -> Build:
        """Return the build that the knobs name; raise EnvironmentLackingError when it is missing."""
        return self.family.find(str(knobs.get("server", ON_PATH)))

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return whether the server's user can reach the directory, and whether it has what the knobs ask for."""
        try:
            user.require_reachable(directory, user.server_user())
        except BufferlabError as error:
            return [HostCheck("server_user", False, error.what, error.hint)]
        reached = HostCheck("server_user", True, "the user that servers run as can get there")
        return [reached, *self.family.checks_of_directory(directory, knobs), *read_ahead.checks(directory, knobs)]

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Make a data directory, load the workload, and stop its server cleanly; return the core's answer."""
        family, database, knobs = self.family, Path(job["database"]), job["knobs"]
        build, owner = self.build(knobs), user.server_user()
        settings = family.settings(build, knobs, "load")
        user.require_reachable(database.parent, owner)
        database.mkdir(mode=0o700)
        user.give(database, owner)
        identity = identities.new_identity(build, int(knobs["page_size"]))
        wait = self.patience(on_event)
        login = family.make_data(build, database, identity, knobs, settings, owner, wait)
        with self._server(
            build, database, on_event, login=login, settings=settings, connections=int(job["threads"]),
            stop_seconds=family.stop_after_load_seconds,
        ) as server:  # fmt: skip
            family.set_up(server.address, identity, build)
            server.log_in_as(identity.user, identity.password)
            self.require_not_cancelled()
            with signs_of_life(on_event, "loading", server.listen):
                loaded = load_core(family.flavour, self.load_job(job, server.address), on_event)
            self.require_not_cancelled()
            with signs_of_life(on_event, "closing", server.listen):
                sizes = self._end_load(server, build)
        sizes.store(database)
        user.give(database / "sizes.json", owner)
        identities.store(database, identity, owner)
        return loaded

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Start a server with the knobs, read them back, let the core drive, and stop the server."""
        family, database, knobs = self.family, Path(job["database"]), job["knobs"]
        identity, build = identities.read(database), self.build(knobs)
        identities.require_version(build, identity)
        identities.require_page_size(identity, int(knobs["page_size"]), database, family.page_size_hint)
        with (
            read_ahead.around_run(database, knobs) as ahead,
            family.bounded(knobs, database) as limit,
            page_sites.recording(family.page_sites_table, build, job.get("probes", {}).get("page_trace")) as trace,
            self._server(
                build, database, on_event, login=(identity.user, identity.password),
                settings=family.settings(build, knobs), connections=int(job["connections"]),
                group=limit.procs if limit else None, watch=trace,
            ) as server,
        ):  # fmt: skip
            if trace:
                trace.require_on()
            with closing(server.connect()) as connection:
                found = family.read_back(connection, build, knobs, limit.actual_bytes if limit else None)
            self.require_not_cancelled()
            result = run_core(family.flavour, self._run_job(job, server, found.frames), on_event)
            if trace:
                result = trace.added_to(result)
            server.require_alive()
            if self.cancelled.is_set():
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
        family, database = self.family, Path(job["database"])
        identity = identities.read(database)
        build = self._same_build(identity)
        with self._server(
            build, database, on_event, login=(identity.user, identity.password),
            settings=family.settings(build, {"page_size": identity.page_size_bytes}, "check"),
        ) as server:  # fmt: skip
            self._checking = server
            try:
                with (
                    signs_of_life(on_event, "checking", server.listen),
                    closing(server.connect(patient=True)) as connection,
                ):
                    return family.conditions(connection, job, database, DATABASE)
            except Exception:
                self.require_not_cancelled()
                raise
            finally:
                self._checking = None

    def abandon_check(self) -> None:
        """End the check that runs now, if any: its server is killed. Called from another thread."""
        if (server := self._checking) is not None:
            server.abandon()

    def _server(self, build: Build, database: Path, on_event: OnEvent, **given: Any) -> PrivateServer:
        """Return a server that is not yet started. `given` are further keyword arguments of `PrivateServer`."""
        whole = {"stop_seconds": _STOP_SECONDS, "user": user.server_user(), "on_wait": self.patience(on_event), **given}
        return PrivateServer(self.family, build, database / "data", database.parent / "server", **whole)

    def _same_build(self, identity: Identity) -> Build:
        """Return the build that made the data, or another of the same version when that build has gone."""
        try:
            build = self.family.find(identity.server)
        except BufferlabError:
            build = self.family.find(f"{identity.flavour}-{identity.version}")
        identities.require_version(build, identity)
        return build

    def _end_load(self, server: PrivateServer, build: Build) -> Sizes:
        """Finish a load, so that no run pays for it; return what the server tells of its tables."""
        try:
            self.family.settle(server.address)
        except EngineFailure as error:
            raise EngineFailure(error.kind, error.what, error.where or str(server.log), error.hint) from error
        with closing(server.connect(patient=True)) as connection:
            return self.family.sizes(connection, build, DATABASE, trees=True)

    def _run_job(self, job: Mapping[str, Any], server: PrivateServer, frames: int) -> dict[str, Any]:
        """Return the core's job, with the external program that drives instead of the core's drivers, if any."""
        address = server.address
        data = str(Path(job["database"]) / "data")
        whole = self.run_job(job, address, frames, pid=server.pid, data=data)
        external = job.get("program")
        if external and self.family.program:
            target, home = whole["target"], server.log.parent / "program"
            expanded = self.family.program(external["exec"], target, home, int(job["connections"]))
            whole["program"] = {**expanded, "kind_of_transaction": external["kind_of_transaction"]}
        return whole
