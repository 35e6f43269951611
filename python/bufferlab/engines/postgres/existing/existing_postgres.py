"""Speaks to PostgreSQL servers that run already. The base class says what is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import consistency_by_psycopg, control, extensions, relation_sizes
from bufferlab.engines.postgres.declaration import DECLARATION
from bufferlab.engines.postgres.existing import owned_database
from bufferlab.engines.postgres.existing.connection import FORM, connect, greet
from bufferlab.engines.postgres.existing.server_settings import ServerSettings, contexts_of, refuse_fixed
from bufferlab.engines.postgres.postgresql_conf import (
    VARIABLES,
    as_asked,
    bytes_of,
    in_words,
    read_back,
    server_settings,
)
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.existing import changes
from bufferlab.engines.servers.existing.address import Address, password
from bufferlab.engines.servers.existing.existing_server import ExistingServer
from bufferlab.engines.servers.existing.mark import Mark
from bufferlab.engines.servers.private_server import ANSWER_SECONDS
from bufferlab.engines.servers.read_back import ReadBack
from bufferlab.knob import Values


class ExistingPostgres(ExistingServer):
    """PostgreSQL servers of any version."""

    form = FORM
    unusable = (psycopg.Error,)
    settings = ServerSettings()
    declaration = DECLARATION

    def build(self, url: str) -> Build:
        address = self.parse(url)
        with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
            ((told,),) = control.rows(connection, "SHOW server_version")
        return Build(url, "postgres", str(told).split()[0], Path("/"), None)

    def connect(self, address: Address, *, patient: bool = False) -> control.Connection:
        return connect(address, patient=patient)

    def listen(self, address: Address) -> None:
        try:
            greet(address, ANSWER_SECONDS)
        except OSError as error:
            raise EngineFailure("io", f"the server does not answer: {error}", address.place) from error

    def needs(self, address: Address) -> str:
        return f"the account must own the database {address.schema}, and for {changes.ALLOW} ?admin_user= a superuser"

    def is_read_only(self, error: BaseException) -> bool:
        return isinstance(error, psycopg.errors.ReadOnlySqlTransaction)

    def make_sure_of(self, address: Address) -> None:
        owned_database.make_sure_of(address)

    def require_safe(self, address: Address) -> None:
        owned_database.require_safe(address)

    def objects(self, address: Address) -> list[str]:
        with closing(connect(address)) as connection:
            return owned_database.objects(connection)

    def claim(self, address: Address) -> None:
        owned_database.claim(address)

    def mark(self, address: Address, mark: Mark) -> None:
        with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
            owned_database.mark(connection, address.schema, mark)

    def marked(self, address: Address) -> Mark | None:
        with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
            return owned_database.marked(connection, address.schema)

    def wanted(self, connection: control.Connection, found: Build, asked: Values) -> dict[str, str]:
        told, wanted = control.settings(connection), {}
        for name, value in server_settings(found.version, asked).items():
            setting = next(known for known in asked if VARIABLES.of(known) == name)
            if name not in told or as_asked(setting, asked[setting], told[name]) != asked[setting]:
                wanted[name] = value
        refuse_fixed(contexts_of(connection), told, wanted)
        return wanted

    def told(self, connection: control.Connection) -> Mapping[str, str]:
        return {name: in_words(told) for name, told in control.settings(connection).items()}

    def read_back(self, connection: control.Connection, found: Build, knobs: Values) -> ReadBack:
        """Read back the settings that a new session has."""
        return read_back(connection, found.version, knobs, None)

    def require_made_with(self, address: Address, asked: Values) -> None:
        """Raise EngineFailure unless the server's pages and checksums are as was asked."""
        with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
            told = control.settings(connection)
        pages, checksums = bytes_of(told["block_size"]), told["data_checksums"][0]
        for knob, has in (("page_size", pages), ("data_checksums", checksums)):
            if asked.get(knob, has) != has:
                what = f"{knob} needs another server: this one was made with {has}"
                raise EngineFailure("usage", what, address.place, f"--set {knob}={has}")

    def target(self, address: Address) -> dict[str, Any]:
        return {
            "socket_dir": address.socket,
            "host": None if address.socket else address.host,
            "port": address.port,
            "user": address.user,
            "password": password(address, FORM),
            "database": address.schema,
        }

    def settle(self, address: Address) -> None:
        """Vacuum, so that no run is the first to read a row and to mark it.

        Make the extensions where the account may.
        """
        with closing(connect(address, patient=True)) as connection:
            with suppress(psycopg.errors.InsufficientPrivilege):
                extensions.make(connection)
            control.rows(connection, "VACUUM (FREEZE, ANALYZE)")
            with suppress(psycopg.errors.InsufficientPrivilege):
                control.rows(connection, "CHECKPOINT")

    def allocated_bytes(self, connection: control.Connection, found: Build, address: Address) -> int:
        return relation_sizes.allocated_bytes(relation_sizes.ask(connection))

    def conditions(
        self, connection: control.Connection, job: Mapping[str, Any], database: Path, address: Address
    ) -> dict[str, Any]:
        return consistency_by_psycopg.check(connection, job["workload"], job["delivered_orders"], database)

    def connections(self, connection: control.Connection) -> int:
        """Return the number of clients of all databases, ours among them; parallel workers count as their leader's."""
        query = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE usesysid IS NOT NULL AND datid IS NOT NULL AND leader_pid IS NULL"
        )
        ((count,),) = control.rows(connection, query)
        return int(count)
