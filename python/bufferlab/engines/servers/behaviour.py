"""The behaviour of every engine that is a server: hands each job to the host of its server, private or running."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bufferlab.engines import host_settings
from bufferlab.engines.behaviour import Behaviour, EngineFailure, Found, HostCheck, NativeKnobs, OnEvent, TraceWay
from bufferlab.engines.native import load_recipe, native
from bufferlab.engines.servers import page_sites, stored_sizes, user
from bufferlab.engines.servers.builds import MANIFEST, ON_PATH, servers_root
from bufferlab.engines.servers.existing import changes
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.hosts.private import PrivateHost
from bufferlab.engines.servers.hosts.running import RunningHost, is_existing
from bufferlab.errors import BufferlabError, Problem, SpecError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class ServerBehaviour(Behaviour):
    """The behaviour of the engine of one family; `load`, `run`, `check` and `cancel` are called in the worker."""

    def __init__(self, family: Family) -> None:
        self.family, self._cancelled = family, threading.Event()
        self.page_trace_counters = family.page_trace_counters
        self._private = PrivateHost(family, self._cancelled)
        self._running = RunningHost(family, self._cancelled)

    def _host(self, knobs: Mapping[str, Any]) -> PrivateHost | RunningHost:
        return self._running if is_url(knobs.get("server")) else self._private

    def find(self) -> Found:
        """Return the server on PATH, or the newest that was fetched; raise EnvironmentLackingError without one."""
        build = self.family.find(ON_PATH)
        return Found(build.version, native().core_version(), str(build.binary))

    def server_version(self, knobs: NativeKnobs) -> str:
        return self._host(knobs).build(knobs).version

    def server_user(self) -> tuple[int, int] | None:
        return user.server_user()

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Return a check for each thing that the host of this server needs of the directory."""
        return self._host(knobs).check_directory(directory, knobs)

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Load the workload on the server that the job names."""
        return self._host(job["knobs"]).load(job, on_event)

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Do one run on the server that the job names."""
        if job.get("program") and not self.family.program:
            what = "external programs are driven against MySQL and MariaDB alone"
            raise EngineFailure("usage", what, "workload program", "choose --engine mysql, or another workload")
        return self._host(job["knobs"]).run(job, on_event)

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Check the consistency conditions where the job's database says that its data are."""
        host = self._running if is_existing(Path(job["database"])) else self._private
        return host.check(job, on_event)

    def cancel(self) -> None:
        """Ask for a stop: the core stops at the next transaction, a check at once, because its server is killed."""
        self._cancelled.set()
        self._private.abandon_check()
        native().cancel()

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the server's version, the deciding knobs, schema, loader, and the workload with its scale and seed."""
        job = {name: value for name, value in workload.items() if name != "version"}
        recipe, server = load_recipe(self.family.flavour, job), knobs.get("server")
        return {
            "engine": self.family.flavour,
            "engine_version": self.server_version(knobs),
            "schema_sha256": hashlib.sha256(recipe["schema_sql"].encode()).hexdigest(),
            "loader_version": recipe["loader_version"],
            "knobs": {word: knobs[name] for word, name in self.family.deciding.items() if name in knobs},
            # Data on one running server are not those on another, even of the same version.
            **({"server": server} if is_url(server) else {}),
            "workload": {name: value for name, value in workload.items() if name not in ("source", "text")},
        }

    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes of data and indexes that the server told after the load."""
        return int(stored_sizes.read(database)["allocated_bytes"])

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return every b-tree (and heap) with its levels, as counted after the load."""
        shape: dict[str, Any] | None = stored_sizes.read(database)["shape"]
        return shape

    def restore_host(self) -> list[str]:
        return host_settings.restore()

    def put_back(self, servers: Collection[str] | None = None) -> list[tuple[str, list[str] | Problem]]:
        return changes.put_back_everywhere(self.family.online, self.family.form, servers)

    @property
    def url_schemes(self) -> tuple[str, ...]:
        return self.family.form.schemes

    def forget_mark(self, server: str) -> str | None:
        return self._running.forget_mark(server)

    def reserved(self, servers: Collection[str]) -> AbstractContextManager[list[tuple[str, list[str]]]]:
        addresses = [self._running.parse(server) for server in servers if is_url(server)]
        return changes.reserved(self.family.online, addresses)

    def require_page_trace(self, knobs: NativeKnobs, way: TraceWay) -> None:
        """Raise for a server that runs already, for a build whose sites are not known, and where nobody may trace."""
        if is_url(knobs.get("server")):
            what = "page accesses of a server that runs already cannot be recorded"
            hint = "leave the trace out, or let bufferlab start the server"
            raise SpecError(what, "--probe page-trace", hint)
        build = self._private.build(knobs)
        self.family.require_traceable(page_sites.require(self.family.page_sites_table, build, way), build, knobs)

    def abilities(self, directory: Path) -> list[HostCheck]:
        """Return for each fetched build of the flavour whether its page accesses can be recorded."""
        return [
            self._traceable(manifest.parent.name)
            for manifest in sorted(servers_root().glob(f"{self.family.flavour}-*/{MANIFEST}"))
        ]

    def _traceable(self, name: str) -> HostCheck:
        subject = f"page-trace {name}"
        try:
            sites = page_sites.require(self.family.page_sites_table, self.family.find(name), "inside")
        except BufferlabError as error:
            return HostCheck(subject, False, error.what, error.hint)
        return HostCheck(subject, True, f"accesses to the pages of {sites.server} can be recorded")

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[tuple[str, NDArray[np.uint64]]]:
        return self.family.pages_of_objects(database, touched, relations)

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        return self.family.uncounted_objects(database, relations)
