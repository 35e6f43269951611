"""The family of PostgreSQL: how its servers are found, made, reached, set and asked."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bufferlab.engines import direct_io
from bufferlab.engines.behaviour import EngineFailure, HostCheck, NativeKnobs, OwnedPages
from bufferlab.engines.postgres import (
    cluster,
    consistency_by_psycopg,
    control,
    owned_database,
    programs,
    relation_sizes,
    restore,
    server_facts,
)
from bufferlab.engines.postgres.connection import FORM, connect, greet, socket_file
from bufferlab.engines.postgres.declaration import DECLARATION
from bufferlab.engines.postgres.failure import failure
from bufferlab.engines.postgres.knobs import OFF
from bufferlab.engines.postgres.postgresql_conf import (
    VARIABLES,
    as_asked,
    configuration_file,
    in_words,
    read_back,
    server_settings,
    text_of,
)
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import FAILURES, Client, ServerError
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, Address
from bufferlab.engines.servers.existing.facts import Facts
from bufferlab.engines.servers.family import Difference, Family, ReadBack, Work, free_quarter
from bufferlab.engines.servers.identity import DATABASE, Identity
from bufferlab.engines.servers.memory_limit import MemoryLimit, drop_cached, usable
from bufferlab.engines.servers.restoring import Dump, Restorer
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.engines.servers.stored_sizes import Sizes
from bufferlab.errors import BufferlabError
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


_CLIENTS = "FROM pg_stat_activity WHERE usesysid IS NOT NULL AND datid IS NOT NULL AND leader_pid IS NULL"
_BUSY = f"""
SELECT count(*) FILTER (WHERE state IS NULL OR state = 'disabled'),
  count(*) FILTER (WHERE state <> 'idle' OR state_change > clock_timestamp() - make_interval(secs => %s))
{_CLIENTS} AND pid <> pg_backend_pid()
"""
"""How many other clients hide what they do (pg_read_all_stats shows it), and how many ask or asked within seconds."""


class PostgresFamily(Family):
    """PostgreSQL servers of any version."""

    flavour = "postgres"
    declaration = DECLARATION
    find = staticmethod(programs.find)
    socket_name = f".s.PGSQL.{control.PORT}"
    # In place of the file in its data directory.
    arguments = ("-D", "{data}", "-c", "config_file={conf}")
    further_files: ClassVar = {"hba.conf": "local all all scram-sha-256\n", "ident.conf": ""}
    failure = staticmethod(failure)
    stop_signal = signal.SIGINT
    """Fast shutdown: the server rolls transactions back and makes a checkpoint."""
    own_ipc = True
    end_processes = staticmethod(cluster.end_processes)
    clean_up = staticmethod(cluster.clean_up)
    form = FORM
    read_only = ("25006",)
    """read_only_sql_transaction."""
    needs = "the account must own the database {schema}"
    version_query = "SHOW server_version"
    clients_query = f"SELECT count(*) {_CLIENTS}"
    """The query counts clients of all databases; parallel workers count as their leader's."""
    made_with: ClassVar = {"page_size": ("block_size", "{}"), "data_checksums": ("data_checksums", "{}")}
    deciding: ClassVar = {"page_size_bytes": "page_size", "data_checksums": "data_checksums"}
    owned = owned_database
    system_database = control.SYSTEM_DATABASE
    # A DETAIL has the values of a row, a STATEMENT those of its text, and an ERROR may have either.
    quiet: ClassVar = {"log_min_messages": "fatal", "log_min_error_statement": "panic", "log_error_verbosity": "terse"}
    socket_is_folder = True
    page_size_hint = "leave page_size out"
    page_sites_table = Path(__file__).with_name("page_sites.toml")
    page_trace_counters: ClassVar = {
        ("get",): ("page_gets",),
        ("read",): ("pages_read",),
    }

    def connect(
        self, address: Address, database: str | None = None, *, seconds: float | None = ANSWER_SECONDS
    ) -> Client:
        """Open a connection to a database, the address's if none is named. A private server may take any time."""
        return connect(address, database, seconds=seconds)

    def socket_of(self, address: Address) -> str | None:
        return socket_file(address)

    def greet(self, address: Address, seconds: float) -> None:
        """Ask the postmaster for its first word."""
        greet(address, seconds)

    def settings(self, build: Build, knobs: NativeKnobs, work: Work = "run") -> dict[str, str]:
        if work == "run":
            return server_settings(build.version, knobs)
        if work == "load":
            return {**_LOADING, "shared_buffers": f"{_spare_pool_bytes(GIB)}B", "maintenance_work_mem": "256MB"}
        pool = f"{_spare_pool_bytes(512 * MIB)}B"
        return {"shared_buffers": pool, "autovacuum": "off", "jit": "off", "work_mem": "64MB", "fsync": "off"}

    def variables(self, connection: Client) -> Mapping[str, str]:
        return {name: in_words(told) for name, told in control.settings(connection).items()}

    def differing(self, connection: Client, found: Build, asked: NativeKnobs) -> dict[str, Difference]:
        told, differing = control.settings(connection), {}
        wanted = server_settings(found.version, asked)
        for name, value in asked.items():
            if (variable := VARIABLES.of(name)) in wanted:
                has = as_asked(name, value, told[variable]) if variable in told else None
                if has != value:
                    text = None if has is None else text_of(name, has)
                    differing[name] = Difference(variable, text_of(name, value), text)
        return differing

    def read_back(
        self, connection: Client, build: Build, knobs: NativeKnobs, limit_bytes: int | None = None
    ) -> ReadBack:
        return read_back(connection, build.version, knobs, limit_bytes)

    def look(self, address: Address) -> Facts:
        return server_facts.look(address)

    def busy(self, connection: Client, seconds: float) -> int | None:
        ((hidden, busy),) = connection.rows(_BUSY, (max(0.0, seconds - 1),))
        return None if hidden else int(busy)

    def settle(self, address: Address) -> None:
        """Vacuum, so that no run is the first to read a row and to mark it; on a private server, every database.

        On a running server make the extensions where the account may; `set_up` made those of a private one.
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

    def sizes(self, connection: Client, build: Build, schema: str, *, trees: bool) -> Sizes:
        found = relation_sizes.sizes(connection)
        return found if trees else Sizes(found.allocated_bytes)

    def conditions(self, address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        return consistency_by_psycopg.check(address, job["workload"], job["delivered_orders"], database)

    def make_sure_of(self, address: Address) -> None:
        owned_database.make_sure_of(address)

    def require_safe(self, address: Address) -> None:
        owned_database.require_safe(address)

    def configuration(
        self, build: Build, data: Path, home: Path, socket: Path, connections: int, settings: Mapping[str, str], *,
        own_ipc: bool,
    ) -> str:  # fmt: skip
        return configuration_file(data, home, socket.parent, connections, settings, own_ipc=own_ipc)

    def make_data(
        self, build: Build, database: Path, identity: Identity, knobs: NativeKnobs, settings: Mapping[str, str],
        owner: tuple[int, int] | None, on_wait: OnWait,
    ) -> tuple[str, str]:  # fmt: skip
        """Make a new cluster with bufferlab's account and no other."""
        home, checksums = database.parent / "server", knobs.get("data_checksums") == "on"
        cluster.initialise(build, database / "data", home, owner, identity, on_wait, checksums=checksums)
        return (identity.user, identity.password)

    def set_up(self, address: Address, identity: Identity, build: Build) -> None:
        """Make the workload's database, with those extensions for checks and counters that the server has."""
        with closing(self.connect(address, control.SYSTEM_DATABASE)) as connection:
            connection.rows(f"CREATE DATABASE {DATABASE}")
        with closing(self.connect(address)) as connection:
            control.make_extensions(connection)

    def restore(
        self, server: Restorer, build: Build, dump: Dump, identity: Identity, owner: tuple[int, int] | None,
        wait: OnWait,
    ) -> tuple[str, str]:  # fmt: skip
        """Restore a dump by pg_restore; the login is a role's that owns the database and may do no more."""
        return restore.restore(server, build, dump, owner, wait)

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check that direct I/O is honoured and memory limited, if they are asked for."""
        return [_direct_check(directory, knobs), _memory_check(knobs)]

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

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        """Return the touched pages of every relation, by the numbers of the relations' files."""
        return relation_sizes.owners(database, touched, relations)

    def uncounted_objects(self, database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
        """Return the relations of other databases, and the shared ones: pg_stat_database has them in other rows."""
        return relation_sizes.elsewhere(database, relations)


@contextmanager
def where_allowed() -> Iterator[None]:
    """Context manager that leaves out what the account may not do."""
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
