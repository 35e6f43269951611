"""Drives private MySQL and MariaDB servers: finds them, makes their data and asks them. The base class runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bufferlab.engines import direct_io
from bufferlab.engines.behaviour import HostCheck, NativeKnobs, OnEvent
from bufferlab.engines.innodb import (
    accounts,
    consistency_by_pymysql,
    initialise,
    page_owners,
    program,
    table_sizes,
)
from bufferlab.engines.innodb import find_mysqld as servers
from bufferlab.engines.innodb.existing.existing_innodb import ExistingInnodb
from bufferlab.engines.innodb.find_mysqld import Flavour
from bufferlab.engines.innodb.option_file import read_back, server_settings, with_one_chunk
from bufferlab.engines.innodb.private_innodb import PrivateInnodb
from bufferlab.engines.servers import page_sites
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.identity import DATABASE, Identity
from bufferlab.engines.servers.memory import free_quarter
from bufferlab.engines.servers.memory_limit import MemoryLimit
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.engines.servers.read_back import ReadBack
from bufferlab.engines.servers.server_behaviour import ServerBehaviour
from bufferlab.errors import SpecError
from bufferlab.knob import Native
from bufferlab.units import GIB, MIB

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class InnodbBehaviour(ServerBehaviour):
    """The behaviour of one of the two engines."""

    stop_after_load_seconds = 1800.0
    """The seconds for the purge and merge that a load leaves to be done: some gigabytes on a slow disk."""
    page_size_hint = "load it for this page size"
    page_sites_table = Path(__file__).with_name("page_sites.toml")
    page_trace_counters: Mapping[tuple[str, ...], tuple[str, ...]] = {
        ("get", "get_if_in_pool"): ("page_gets",),
        ("read",): ("pages_read",),
    }

    def __init__(self, flavour: Flavour) -> None:
        super().__init__(ExistingInnodb(flavour))
        self.flavour: Flavour = flavour

    def require_page_trace(self, knobs: NativeKnobs) -> None:
        super().require_page_trace(knobs)
        build = self._build(knobs)
        hashed = str(knobs.get("adaptive_hash_index", "OFF")).upper() in ("ON", "1")
        if hashed and not page_sites.find(self.page_sites_table, build).has_hash_index:
            what = f"gets through the adaptive hash index of {build.flavour} {build.version} cannot be recorded"
            raise SpecError(what, "--probe page-trace", "add --set adaptive_hash_index=off, or leave the trace out")

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[tuple[str, NDArray[np.uint64]]]:
        """Return the touched pages of every index, by the headers of the pages in the closed files."""
        return page_owners.owners(database, touched)

    def find_build(self, name: str) -> Build:
        return servers.find(self.flavour, name)

    def make_server(self, build: Build, database: Path, *, group: Path | None, **given: Any) -> PrivateInnodb:
        """Return a server on a database's data, not yet started. Its memory is never bounded."""
        assert group is None
        return PrivateInnodb(build, database / "data", database.parent / "server", **given)

    def make_data(
        self, build: Build, database: Path, identity: Identity, knobs: NativeKnobs, settings: Mapping[str, str],
        owner: tuple[int, int] | None, on_event: OnEvent,
    ) -> tuple[str, str]:  # fmt: skip
        """Make a new data directory; its server knows root without a password until `set_up`."""
        home, wait = database.parent / "server", self.patience(on_event)
        initialise.initialise(build, database / "data", home, owner, settings, wait)
        return ("root", "")

    def set_up(self, server: PrivateServer, identity: Identity, build: Build) -> None:
        with closing(server.connect()) as connection:
            if build.flavour == "mysql" and build.numbers < (5, 7):
                with connection.cursor() as cursor:
                    for statement in initialise.STATISTICS_TABLES_OF_5_6:
                        cursor.execute(statement)
            accounts.make(connection, identity, build)
        server.log_in_as(identity.user, identity.password)

    def end_load(self, server: PrivateServer, build: Build) -> dict[str, Any]:
        """Return what the tables hold, and ask for a slow shutdown: purge done, change buffer merged, logs empty."""
        with closing(server.connect(patient=True)) as connection:
            asked = table_sizes.ask(connection, build)
            with connection.cursor() as cursor:
                cursor.execute("SET GLOBAL innodb_fast_shutdown = 0")
            return asked

    def store_sizes(self, database: Path, asked: Mapping[str, Any], identity: Identity) -> None:
        table_sizes.store(database, asked, identity.page_size_bytes)

    def settings_of(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        asked = server_settings(build.flavour, build.version, knobs)
        return with_one_chunk(build.flavour, build.version, asked)

    def loading_settings(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        return {
            **self.settings_of(build, knobs),
            "innodb_buffer_pool_size": str(_spare_pool_bytes(GIB)),
            "innodb_flush_log_at_trx_commit": "0",
            "innodb_flush_method": "O_DIRECT",
        }

    def checking_settings(self, identity: Identity) -> dict[str, str]:
        return {
            "innodb_page_size": str(identity.page_size_bytes),
            "innodb_buffer_pool_size": str(_spare_pool_bytes(512 * MIB)),
            "innodb_flush_method": "O_DIRECT",
        }

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check that direct I/O is honoured, if it is asked for."""
        method = str(knobs.get("flush_method", "O_DIRECT"))
        if "direct" not in method.lower():
            return [direct_io.not_asked_for(f"flush_method = {method}")]
        return [direct_io.check(directory, instead="flush_method=fsync")[0]]

    def deciding(self, knobs: NativeKnobs) -> dict[str, Native]:
        """Return the page size, the only setting that a load is given."""
        return {"page_size_bytes": knobs["page_size"]}

    def read_back(self, connection: Any, build: Build, knobs: NativeKnobs, limit: MemoryLimit | None) -> ReadBack:
        return read_back(connection, build, knobs)

    def target(self, server: PrivateServer, identity: Identity) -> dict[str, Any]:
        return {
            "socket": str(server.socket),
            "host": None,
            "port": None,
            "user": identity.user,
            "password": identity.password,
            "database": DATABASE,
        }

    def program_of(
        self, job: Mapping[str, Any], server: PrivateServer, target: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        external = job.get("program")
        if not external:
            return None
        home, connections = server.log.parent / "program", int(job["connections"])
        expanded = program.expand(external["exec"], target, home, connections)
        return {**expanded, "kind_of_transaction": external["kind_of_transaction"]}

    def conditions(self, connection: Any, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        return consistency_by_pymysql.check(connection, job["workload"], job["delivered_orders"], database)


def _spare_pool_bytes(at_most: int) -> int:
    """Return the size of a pool for loading and checking, in whole chunks."""
    return free_quarter(at_most, 128 * MIB, 64 * MIB)
