"""Drives private PostgreSQL servers: finds them, makes their data and asks them. The base class runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from bufferlab.engines import direct_io
from bufferlab.engines.behaviour import EngineFailure, HostCheck, NativeKnobs, OnEvent
from bufferlab.engines.postgres import (
    consistency_by_psycopg,
    control,
    extensions,
    initialise,
    page_owners,
    relation_sizes,
)
from bufferlab.engines.postgres import find_postgres as servers
from bufferlab.engines.postgres.existing.existing_postgres import ExistingPostgres
from bufferlab.engines.postgres.knobs import OFF
from bufferlab.engines.postgres.postgresql_conf import read_back, server_settings
from bufferlab.engines.postgres.private_postgres import PrivatePostgres
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.identity import DATABASE, Identity
from bufferlab.engines.servers.memory import free_quarter
from bufferlab.engines.servers.memory_limit import MemoryLimit, drop_cached, usable
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.engines.servers.read_back import ReadBack
from bufferlab.engines.servers.server_behaviour import ServerBehaviour
from bufferlab.errors import BufferlabError
from bufferlab.knob import Native
from bufferlab.units import GIB, MIB, format_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BESIDE_POOL_BYTES = 8 * MIB
"""The memory that a server needs in addition to its pool and connections: other shared memory and its processes."""
_CONNECTION_BYTES = 2 * MIB
"""The memory of a connection's own process: private pages and kernel memory together."""
_LOADING = {
    # A load that is cut short is thrown away, so nothing needs to survive a crash.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "jit": "off",
    # The server then does not log rows of a table made in the same transaction.
    "wal_level": "minimal",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    # The server removes log files that it no longer needs: every run would copy those kept to be used again.
    "wal_recycle": "off",
    "wal_init_zero": "off",
    "min_wal_size": "32MB",
}


class PostgresBehaviour(ServerBehaviour):
    """The behaviour of PostgreSQL."""

    flavour: Flavour = "postgres"
    page_size_hint = "leave page_size out"
    page_sites_table = Path(__file__).with_name("page_sites.toml")
    page_trace_counters: Mapping[tuple[str, ...], tuple[str, ...]] = {
        ("get",): ("page_gets",),
        # From 17 on blks_read counts what another session read meanwhile, too (bufmgr.c, WaitReadBuffers).
        ("read",): ("postgres_io_pages_read", "pages_read"),
    }

    def __init__(self) -> None:
        super().__init__(ExistingPostgres())

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[tuple[str, NDArray[np.uint64]]]:
        """Return the touched pages of every relation, by the numbers of the relations' files."""
        return page_owners.owners(database, touched, relations)

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        """Return the relations of other databases, and the shared ones: pg_stat_database has them in other rows."""
        return page_owners.elsewhere(database, relations)

    def find_build(self, name: str) -> Build:
        return servers.find(name)

    def make_server(self, build: Build, database: Path, *, group: Path | None, **given: Any) -> PrivatePostgres:
        return PrivatePostgres(build, database / "data", database.parent / "server", group=group, **given)

    def make_data(
        self, build: Build, database: Path, identity: Identity, knobs: NativeKnobs, settings: Mapping[str, str],
        owner: tuple[int, int] | None, on_event: OnEvent,
    ) -> tuple[str, str]:  # fmt: skip
        """Make a new cluster with bufferlab's account and no other."""
        home, wait = database.parent / "server", self.patience(on_event)
        checksums = knobs.get("data_checksums") == "on"
        initialise.initialise(build, database / "data", home, owner, identity, wait, checksums=checksums)
        return (identity.user, identity.password)

    def set_up(self, server: PrivateServer, identity: Identity, build: Build) -> None:
        """Make the workload's database, with those extensions for checks and counters that the server has."""
        with closing(server.connect(control.SYSTEM_DATABASE)) as connection:
            control.rows(connection, f"CREATE DATABASE {DATABASE}")
        with closing(server.connect()) as connection:
            extensions.make(connection)

    def end_load(self, server: PrivateServer, build: Build) -> dict[str, Any]:
        """Vacuum, so that no run is the first to read a row and to mark it; then return what the tables hold."""
        try:
            for database in (DATABASE, control.SYSTEM_DATABASE, "template1"):
                with closing(server.connect(database)) as connection:
                    control.rows(connection, "VACUUM (FREEZE, ANALYZE)")
                    control.rows(connection, "CHECKPOINT")
                    if database == DATABASE:
                        asked = relation_sizes.ask(connection)
        except psycopg.DatabaseError as error:
            raise EngineFailure("engine", f"the loaded data cannot be vacuumed: {error}", str(server.log)) from error
        return asked

    def store_sizes(self, database: Path, asked: Mapping[str, Any], identity: Identity) -> None:
        relation_sizes.store(database, asked)

    def settings_of(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        return server_settings(build.version, knobs)

    def loading_settings(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        return {**_LOADING, "shared_buffers": f"{_spare_pool_bytes(GIB)}B", "maintenance_work_mem": "256MB"}

    def checking_settings(self, identity: Identity) -> dict[str, str]:
        pool = f"{_spare_pool_bytes(512 * MIB)}B"
        return {"shared_buffers": pool, "autovacuum": "off", "jit": "off", "work_mem": "64MB", "fsync": "off"}

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check that direct I/O is honoured and memory limited, if they are asked for."""
        return [_direct_check(directory, knobs), _memory_check(knobs)]

    def deciding(self, knobs: NativeKnobs) -> dict[str, Native]:
        """Return the page size and whether pages have checksums."""
        return {"page_size_bytes": knobs["page_size"], "data_checksums": knobs["data_checksums"]}

    def read_back(self, connection: Any, build: Build, knobs: NativeKnobs, limit: MemoryLimit | None) -> ReadBack:
        return read_back(connection, build.version, knobs, limit.actual_bytes if limit else None)

    def target(self, server: PrivateServer, identity: Identity) -> dict[str, Any]:
        return {
            "socket_dir": str(server.socket.parent),
            "host": None,
            "port": control.PORT,
            "user": identity.user,
            "password": identity.password,
            "database": DATABASE,
        }

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Run as the base class does, but refuse external programs."""
        if job.get("program"):
            what = "external programs are driven against MySQL and MariaDB alone"
            raise EngineFailure("usage", what, "workload program", "choose --engine mysql, or another workload")
        return super().run(job, on_event)

    def program_of(
        self, job: Mapping[str, Any], server: PrivateServer, target: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Return None: external programs are refused."""
        return None

    def conditions(self, connection: Any, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        return consistency_by_psycopg.check(connection, job["workload"], job["delivered_orders"], database)

    @contextmanager
    def bounded(self, knobs: NativeKnobs, database: Path) -> Iterator[MemoryLimit | None]:
        """Context manager for the memory limit that was asked for; evict the database from the page cache first.

        Yields None when no limit was asked for.
        """
        asked = knobs.get("memory_limit", OFF)
        if not isinstance(asked, int):
            yield None
            return
        with MemoryLimit(asked) as limit:
            # A page that is cached already belongs to the process that read it, and would not count.
            drop_cached(database)
            try:
                yield limit
            except EngineFailure as error:
                if not limit.ran_out():
                    raise
                too_small = f"the memory limit of {format_bytes(limit.actual_bytes)} was too small for the server"
                hint = "ask for a larger memory_limit, or a smaller pool_size"
                raise EngineFailure("engine", f"{too_small}: the kernel ended it", error.where, hint) from error


def _direct_check(directory: Path, knobs: NativeKnobs) -> HostCheck:
    asked = str(knobs.get("debug_io_direct", OFF))
    if "data" not in asked.split(","):
        return direct_io.not_asked_for("PostgreSQL reads through the page cache")
    return direct_io.check(directory, instead="debug_io_direct=off")[0]


def _memory_check(knobs: NativeKnobs) -> HostCheck:
    asked = knobs.get("memory_limit", OFF)
    if not isinstance(asked, int):
        return HostCheck("memory_limit", True, "not asked for")
    pool = int(knobs["pool_size"])
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
    """Return the size of a pool for loading and checking."""
    return free_quarter(at_most, MIB, 16 * MIB)


BEHAVIOUR = PostgresBehaviour()
