"""The family of PostgreSQL: how its servers are found, created, connected to, configured and queried."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from bufferlab.engines import direct_io
from bufferlab.engines.behaviour import EngineFailure, HostCheck, NativeKnobs
from bufferlab.engines.postgres import (
    cluster,
    control,
    postgresql_conf,
    programs,
    relation_sizes,
    restore,
)
from bufferlab.engines.postgres.cluster import failure
from bufferlab.engines.postgres.connection import FORM, connect, greet, socket_file
from bufferlab.engines.postgres.declaration import DECLARATION, OFF
from bufferlab.engines.postgres.learning import LESSON
from bufferlab.engines.postgres.look import PostgresLook
from bufferlab.engines.postgres.postgresql_conf import server_settings
from bufferlab.engines.postgres.run import PostgresRun
from bufferlab.engines.servers import memory_limit
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import FAILURES, ServerError
from bufferlab.engines.servers.data_folder import DATABASE, Identity
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.family import Family, Work, free_quarter
from bufferlab.units import GIB, MIB

_BESIDE_POOL_BYTES = 8 * MIB
"""The memory that a server needs in addition to its pool and connections: other shared memory and its processes."""
_CONNECTION_BYTES = 2 * MIB
"""The memory of a connection's own process: private pages and kernel memory together."""
_LOADING = {
    # An interrupted load is discarded, so nothing needs to survive a crash.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "jit": "off",
    # With this level the server does not log rows of a table created in the same transaction.
    "wal_level": "minimal",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    # The server then removes log files that it no longer needs. If it kept them for reuse, every run would copy them.
    "wal_recycle": "off",
    "wal_init_zero": "off",
    "min_wal_size": "32MB",
}


class PostgresFamily(Family):
    """The family of PostgreSQL servers, from version 15 on."""

    declaration = DECLARATION
    find = staticmethod(programs.find)
    socket_name = f".s.PGSQL.{control.PORT}"
    # The option file replaces the one in the data directory.
    arguments = ("-D", "{data}", "-c", "config_file={conf}")
    further_files: ClassVar = {"hba.conf": "local all all scram-sha-256\n", "ident.conf": ""}
    failure = staticmethod(failure)
    stop_signal = signal.SIGINT
    """The signal for a fast shutdown: the server rolls transactions back and writes a checkpoint."""
    own_ipc = True
    end_processes = staticmethod(cluster.end_processes)
    clean_up = staticmethod(cluster.clean_up)
    form = FORM
    deciding: ClassVar = {"page_size_bytes": "page_size", "data_checksums": "data_checksums"}
    system_database = control.SYSTEM_DATABASE
    # These levels keep values of rows out of the log: a DETAIL line has the values of a row, a STATEMENT line those in
    # a statement's text, and an ERROR line may have either.
    quiet: ClassVar = {"log_min_messages": "fatal", "log_min_error_statement": "panic", "log_error_verbosity": "terse"}
    socket_is_folder = True
    page_size_hint = "leave page_size out"
    connect = staticmethod(connect)
    greet = staticmethod(greet)
    socket_of = staticmethod(socket_file)
    restore = staticmethod(restore.restore)
    pages_of_objects = staticmethod(relation_sizes.owners)
    uncounted_objects = staticmethod(relation_sizes.elsewhere)
    configuration = staticmethod(postgresql_conf.configuration_file)
    read_back = staticmethod(postgresql_conf.read_back)
    make_data = staticmethod(cluster.make)
    sizes = staticmethod(relation_sizes.sizes)
    page_trace_counters: ClassVar = {**Family.page_trace_counters, ("write",): ("pages_written",)}
    run = PostgresRun()
    look = PostgresLook()
    lesson = LESSON

    def settings(self, build: Build, knobs: NativeKnobs, work: Work = "run") -> dict[str, str]:
        if work == "run":
            return server_settings(build.version, knobs)
        if work == "load":
            return {**_LOADING, "shared_buffers": f"{_spare_pool_bytes(GIB)}B", "maintenance_work_mem": "256MB"}
        pool = f"{_spare_pool_bytes(512 * MIB)}B"
        return {"shared_buffers": pool, "autovacuum": "off", "jit": "off", "work_mem": "64MB", "fsync": "off"}

    def settle(self, address: Address) -> None:
        """Vacuum, which sets the rows' hint bits, and write a checkpoint, so that no run has to set these bits at a
        first read.

        On a private server, do so for every database. On a running one, do so only for the address's database, and
        first create the extensions there if the account may do so; on a private server, `set_up` has created them.
        Raises EngineFailure if a private server cannot vacuum; a running one's errors (FAILURES) pass through.
        """
        is_ours = address.is_private
        try:
            for database in (DATABASE, control.SYSTEM_DATABASE, "template1") if is_ours else (address.schema,):
                with closing(self.connect(address, database, seconds=None)) as connection:
                    if not is_ours:
                        with where_allowed():
                            control.make_extensions(connection)
                    connection.rows("VACUUM (FREEZE, ANALYZE)")
                    with where_allowed():
                        connection.rows("CHECKPOINT")
        except FAILURES as error:
            if not is_ours:
                raise
            raise EngineFailure("engine", f"the loaded data cannot be vacuumed: {error}") from error

    def set_up(self, address: Address, identity: Identity, build: Build) -> None:
        """Create the workload's database, with the extensions for checks and counters that the server has."""
        with closing(self.connect(address, control.SYSTEM_DATABASE)) as connection:
            connection.rows(f"CREATE DATABASE {DATABASE}")
        with closing(self.connect(address)) as connection:
            control.make_extensions(connection)

    def conditions(self, address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        # Import late: this client is large, and few jobs check a database.
        from bufferlab.engines.postgres import consistency_by_psycopg

        return consistency_by_psycopg.check(address, job, database)

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check that direct I/O works and that memory can be limited, if the knobs require them."""
        return [_direct_check(directory, knobs), memory_limit.check(knobs, _BESIDE_POOL_BYTES + _CONNECTION_BYTES)]


@contextmanager
def where_allowed() -> Iterator[None]:
    """Context manager that ignores the server's refusal of a step for which the account lacks the privilege."""
    try:
        yield
    except ServerError as error:
        if error.code != control.MAY_NOT:
            raise


def _direct_check(directory: Path, knobs: NativeKnobs) -> HostCheck:
    asked = str(knobs.get("debug_io_direct", OFF))
    if "data" not in asked.split(","):
        return direct_io.not_asked_for("PostgreSQL reads through the page cache")
    return direct_io.check(directory, instead="debug_io_direct=off")[0]


def _spare_pool_bytes(at_most: int) -> int:
    """Return the shared buffers in bytes for loading or checking on a private server: at least 16 MiB."""
    return free_quarter(at_most, MIB, 16 * MIB)


FAMILIES = {DECLARATION.name: PostgresFamily()}
