"""The family of MySQL and MariaDB: how their servers are found, created, connected to, configured and queried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from bufferlab.engines import direct_io
from bufferlab.engines.behaviour import HostCheck, NativeKnobs
from bufferlab.engines.innodb import (
    accounts,
    control,
    initialise,
    option_file,
    programs,
    restore,
    storage_engines,
    table_sizes,
)
from bufferlab.engines.innodb.connection import FORM, connect
from bufferlab.engines.innodb.declaration import MARIADB, MYSQL
from bufferlab.engines.innodb.initialise import failure
from bufferlab.engines.innodb.learning import LESSONS
from bufferlab.engines.innodb.look import InnodbLook
from bufferlab.engines.innodb.option_file import server_settings, with_one_chunk
from bufferlab.engines.innodb.programs import Flavour
from bufferlab.engines.innodb.run import InnodbRun
from bufferlab.engines.servers import memory_limit
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import Identity
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.family import Family, Work, free_quarter
from bufferlab.engines.servers.page_sites import PageSites
from bufferlab.errors import SpecError
from bufferlab.knob import Native
from bufferlab.units import GIB, MIB

_BESIDE_POOL_BYTES = 96 * MIB
"""The memory that an idle server and its connections need besides the pool; 10.11.19 and 11.8.9 used 60 to 80 MiB."""


class InnodbFamily(Family):
    """The family of MySQL servers, or that of MariaDB servers."""

    socket_name = "mysqld.sock"
    # The option file names the data directory too. The command line repeats it, so that `ps` shows it. It also protects
    # other servers' data if a wrapper script keeps the server from reading the option file.
    arguments = ("--defaults-file={conf}", "--datadir={data}")
    failure = staticmethod(failure)
    form = FORM
    stop_after_load_seconds = 1800.0
    """The seconds allowed for purge and merge after a load: enough for some gigabytes on a slow disk."""
    page_trace_counters: ClassVar = {("get", "get_if_in_pool"): ("page_gets",), ("read",): ("pages_read",)}
    program = staticmethod(accounts.expand)
    connect = staticmethod(connect)
    sizes = staticmethod(table_sizes.sizes)
    pages_of_objects = staticmethod(table_sizes.owners)
    restore = staticmethod(restore.restore)
    configuration = staticmethod(option_file.option_file)
    read_back = staticmethod(option_file.read_back)
    make_data = staticmethod(initialise.make)
    run = InnodbRun()
    look = InnodbLook()

    def __init__(self, flavour: Flavour) -> None:
        self.declaration = MYSQL if flavour == "mysql" else MARIADB
        self.find = partial(programs.find, flavour)
        self.lesson = LESSONS[flavour]

    def settings(self, build: Build, knobs: NativeKnobs, work: Work = "run") -> dict[str, str]:
        asked = server_settings(build.flavour, build.version, knobs)
        if engine := storage_engines.of(knobs):
            spare = {engine.cache: str(_spare_pool_bytes(512 * MIB))}
            return {**asked, **({} if work == "run" else spare), **(engine.loads_with if work == "load" else {})}
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

    def chosen(self, build: Build, knobs: NativeKnobs) -> dict[str, str]:
        return option_file.chosen(self.settings(build, knobs), knobs)

    def settle(self, address: Address) -> None:
        """Request a slow shutdown of a private server: it finishes the purge, merges the change buffer, and empties the
        logs.

        On a running server, only mark the tables that a script created as bufferlab's; purge and merge go on in the
        background.
        """
        with closing(self.connect(address)) as connection:
            if address.is_private:
                connection.rows("SET GLOBAL innodb_fast_shutdown = 0")
                for statement in _settling(connection):
                    connection.rows(statement)
            elif mark := self.run.marked(connection, address.schema):
                self.run.sign(connection, address.schema, mark)

    def set_up(self, address: Address, identity: Identity, build: Build) -> None:
        with closing(self.connect(address)) as connection:
            if build.flavour == "mysql" and build.numbers < (5, 7):
                for statement in initialise.STATISTICS_TABLES_OF_5_6:
                    connection.rows(statement)
            accounts.make(connection, identity, build)

    def conditions(self, address: Address, job: Mapping[str, Any], database: Path) -> dict[str, Any]:
        # Import late: this client is large, and few jobs check a database.
        from bufferlab.engines.innodb import consistency_by_pymysql

        return consistency_by_pymysql.check(address, job, database)

    def checks_of_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check that the directory supports direct I/O, if flush_method requires it."""
        limit = [memory_limit.check(knobs, _BESIDE_POOL_BYTES)] if self.flavour == "mariadb" else []
        engine, method = storage_engines.of(knobs), str(knobs.get("flush_method", "O_DIRECT"))
        if engine and not engine.reads_directly:
            return [direct_io.not_asked_for(f"{engine.sql_name} reads through the page cache"), *limit]
        if "direct" not in method.lower() and not engine:
            return [direct_io.not_asked_for(f"flush_method = {method}"), *limit]
        return [direct_io.check(directory, instead="flush_method=fsync")[0], *limit]

    def job_entries(self, knobs: NativeKnobs, work: Work) -> dict[str, Any]:
        engine = storage_engines.of(knobs)
        if engine is None:
            return {}
        return {storage_engines.KNOB: engine.sql_name if work == "load" else engine.job(int(knobs["page_size"]))}

    def memory(self, connect: Callable[[], Client], knobs: NativeKnobs) -> dict[str, Native]:
        engine = storage_engines.of(knobs)
        if engine is None or not engine.memory:
            return {}
        with closing(connect()) as connection:
            return {name: int(connection.rows(query)[0][0] or 0) for name, query in engine.memory.items()}

    def require_traceable(self, sites: PageSites, build: Build, knobs: NativeKnobs) -> None:
        if engine := storage_engines.of(knobs):
            what = f"page accesses of the storage engine {engine.sql_name} cannot be recorded"
            raise SpecError(what, "--probe page-trace", "leave the trace out, or choose storage_engine=innodb")
        hashed = str(knobs.get("adaptive_hash_index", "OFF")).upper() in ("ON", "1")
        if hashed and not sites.has_hash_index:
            what = f"gets through the adaptive hash index of {build.flavour} {build.version} cannot be recorded"
            raise SpecError(what, "--probe page-trace", "add --set adaptive_hash_index=off, or leave the trace out")


def _settling(connection: Client) -> tuple[str, ...]:
    """Return the statements that finish the background work of a load, for the storage engine of the tables."""
    told = control.variables(connection).get("default_storage_engine", "")
    engine = storage_engines.of({storage_engines.KNOB: told})
    return engine.settles_by if engine else ()


def _spare_pool_bytes(at_most: int) -> int:
    """Return the pool size in bytes for loading or checking on a private server: whole chunks of 128 MiB, or 64 MiB."""
    return free_quarter(at_most, 128 * MIB, 64 * MIB)


class MariadbFamily(InnodbFamily):
    """The family of MariaDB servers, whose tables may be in another storage engine."""

    deciding: ClassVar = {**Family.deciding, storage_engines.KNOB: storage_engines.KNOB}


FAMILIES = {"mysql": InnodbFamily("mysql"), "mariadb": MariadbFamily("mariadb")}
