"""The family of MySQL and MariaDB: how their servers are found, made, reached, set and asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bufferlab.engines import direct_io
from bufferlab.engines.behaviour import HostCheck, NativeKnobs, OwnedPages
from bufferlab.engines.innodb import (
    accounts,
    consistency_by_pymysql,
    control,
    initialise,
    owned_schema,
    programs,
    restore,
    server_facts,
    table_sizes,
)
from bufferlab.engines.innodb.connection import FORM, connect
from bufferlab.engines.innodb.declaration import MARIADB, MYSQL
from bufferlab.engines.innodb.failure import failure
from bufferlab.engines.innodb.option_file import (
    VARIABLES,
    as_asked,
    option_file,
    read_back,
    server_settings,
    with_one_chunk,
)
from bufferlab.engines.innodb.programs import Flavour
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, Address
from bufferlab.engines.servers.existing.facts import Facts
from bufferlab.engines.servers.family import Difference, Family, ReadBack, Work, free_quarter
from bufferlab.engines.servers.identity import Identity
from bufferlab.engines.servers.page_sites import PageSites
from bufferlab.engines.servers.restoring import Dump, Restorer
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.engines.servers.stored_sizes import Sizes
from bufferlab.errors import SpecError
from bufferlab.units import GIB, MIB

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_BUSY = """
SELECT count(*) FROM information_schema.processlist
WHERE id <> CONNECTION_ID() AND user <> 'system user' AND command <> 'Daemon' AND command NOT LIKE 'Binlog Dump%%'
  AND (command <> 'Sleep' OR time < %s)
"""
"""The clients that ask, or asked within some seconds: of one that sleeps, `time` counts whole seconds since then."""


class InnodbFamily(Family):
    """The servers of one of the two flavours."""

    socket_name = "mysqld.sock"
    # The folder stands in the option file too. Here `ps` shows it, and a wrapper that keeps the server from reading
    # that file cannot send it to another server's data.
    arguments = ("--defaults-file={conf}", "--datadir={data}")
    failure = staticmethod(failure)
    form = FORM
    read_only = ("1290", "1792", "1836")
    """ER_OPTION_PREVENTS_STATEMENT (--read-only), ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ER_READ_ONLY_MODE."""
    needs = "the account needs ALL on {schema}.* and PROCESS"
    version_query = "SELECT VERSION()"
    clients_query = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
    made_with: ClassVar = {"page_size": ("innodb_page_size", "pages of {} bytes")}
    deciding: ClassVar = {"page_size_bytes": "page_size"}
    owned = owned_schema
    stop_after_load_seconds = 1800.0
    """The seconds for the purge and merge that a load leaves to be done: some gigabytes on a slow disk."""
    page_size_hint = "load it for this page size"
    page_sites_table = Path(__file__).with_name("page_sites.toml")
    page_trace_counters: ClassVar = {("get", "get_if_in_pool"): ("page_gets",), ("read",): ("pages_read",)}
    core_words: ClassVar = {"may_change_settings": False}  # Switching metrics on is a setting too.
    program = staticmethod(accounts.expand)

    def __init__(self, flavour: Flavour) -> None:
        self.flavour, self.declaration = flavour, MYSQL if flavour == "mysql" else MARIADB
        self.find = partial(programs.find, flavour)

    def connect(self, address: Address, database: str | None = None, *, seconds: float | None = ANSWER_SECONDS) -> Any:
        return connect(address, database, seconds=seconds)

    def greet(self, address: Address, seconds: float) -> None:
        connect(address, seconds=seconds).close()

    def flavour_of(self, told: str) -> Flavour:
        return "mariadb" if "mariadb" in told.lower() else "mysql"

    def settings(self, build: Build, knobs: NativeKnobs, work: Work = "run") -> dict[str, str]:
        asked = server_settings(build.flavour, build.version, knobs)
        if work == "run":
            return with_one_chunk(build.flavour, build.version, asked)
        if work == "check":
            pool = str(_spare_pool_bytes(512 * MIB))
            return {**asked, "innodb_buffer_pool_size": pool, "innodb_flush_method": "O_DIRECT"}
        return {
            **with_one_chunk(build.flavour, build.version, asked),
            "innodb_buffer_pool_size": str(_spare_pool_bytes(GIB)),
            "innodb_flush_log_at_trx_commit": "0",
            "innodb_flush_method": "O_DIRECT",
        }

    def variables(self, connection: Any) -> Mapping[str, str]:
        return control.variables(connection)

    def differing(self, connection: Any, found: Build, asked: NativeKnobs) -> dict[str, Difference]:
        told, differing = control.variables(connection), {}
        wanted = server_settings(found.flavour, found.version, asked)
        for name in asked:
            if (variable := VARIABLES.of(name)) in wanted:
                has = told.get(variable.lower())
                each = Difference(variable, wanted[variable], None if has is None else str(as_asked(name, has)))
                if each.has is None or each.has.lower() != each.asked.lower():
                    differing[name] = each
        return differing

    def read_back(self, connection: Any, build: Build, knobs: NativeKnobs, limit_bytes: int | None = None) -> ReadBack:
        return read_back(connection, build, knobs)

    def look(self, address: Address) -> Facts:
        return server_facts.look(address, self.flavour)

    def busy(self, connection: Any, seconds: float) -> int | None:
        ((busy,),) = connection.rows(_BUSY, (int(seconds) - 1,))
        return int(busy)

    def settle(self, address: Address) -> None:
        """Ask a private server for a slow shutdown: purge done, change buffer merged, logs empty.

        On a running server sign a script's tables; there purge and merge go on by themselves.
        """
        with closing(self.connect(address)) as connection:
            if address.is_private:
                connection.rows("SET GLOBAL innodb_fast_shutdown = 0")
            elif mark := owned_schema.marked(connection, address.schema):
                owned_schema.sign(connection, address.schema, mark)

    def sizes(self, connection: Any, build: Build, schema: str, *, trees: bool) -> Sizes:
        return table_sizes.sizes(connection, build, schema, trees=trees)

    def conditions(self, address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        return consistency_by_pymysql.check(address, job["workload"], job["delivered_orders"], database)

    def require_safe(self, address: Address) -> None:
        with closing(self.connect(address)) as connection:
            owned_schema.require_safe(connection, address)

    def configuration(
        self, build: Build, data: Path, home: Path, socket: Path, connections: int, settings: Mapping[str, str], *,
        own_ipc: bool,
    ) -> str:  # fmt: skip
        return option_file(build, data, home, socket, connections, settings)

    def make_data(
        self, build: Build, database: Path, identity: Identity, knobs: NativeKnobs, settings: Mapping[str, str],
        owner: tuple[int, int] | None, on_wait: OnWait,
    ) -> tuple[str, str]:  # fmt: skip
        """Make a new data directory; its server knows root without a password until `set_up`."""
        initialise.initialise(build, database / "data", database.parent / "server", owner, settings, on_wait)
        return ("root", "")

    def set_up(self, address: Address, identity: Identity, build: Build) -> None:
        with closing(self.connect(address)) as connection:
            if build.flavour == "mysql" and build.numbers < (5, 7):
                for statement in initialise.STATISTICS_TABLES_OF_5_6:
                    connection.rows(statement)
            accounts.make(connection, identity, build)

    def restore(
        self, server: Restorer, build: Build, dump: Dump, identity: Identity, owner: tuple[int, int] | None,
        wait: OnWait,
    ) -> tuple[str, str]:  # fmt: skip
        """Restore a mysqldump. Its code has the rights of an account of its own; runs keep the identity's."""
        return restore.restore(server, build, dump, identity)

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check that direct I/O is honoured, if it is asked for."""
        method = str(knobs.get("flush_method", "O_DIRECT"))
        if "direct" not in method.lower():
            return [direct_io.not_asked_for(f"flush_method = {method}")]
        return [direct_io.check(directory, instead="flush_method=fsync")[0]]

    def require_traceable(self, sites: PageSites, build: Build, knobs: NativeKnobs) -> None:
        hashed = str(knobs.get("adaptive_hash_index", "OFF")).upper() in ("ON", "1")
        if hashed and not sites.has_hash_index:
            what = f"gets through the adaptive hash index of {build.flavour} {build.version} cannot be recorded"
            raise SpecError(what, "--probe page-trace", "add --set adaptive_hash_index=off, or leave the trace out")

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        """Return the touched pages of every index, by the headers of the pages in the closed files."""
        return table_sizes.owners(database, touched)


def _spare_pool_bytes(at_most: int) -> int:
    """Return the size of a pool for loading and checking, in whole chunks."""
    return free_quarter(at_most, 128 * MIB, 64 * MIB)
