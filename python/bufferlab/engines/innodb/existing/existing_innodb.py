"""Speaks to MySQL and MariaDB servers that run already. The base class says what is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pymysql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import consistency_by_pymysql, control, table_sizes
from bufferlab.engines.innodb.declaration import declare
from bufferlab.engines.innodb.existing import owned_schema
from bufferlab.engines.innodb.existing.connection import FORM, connect
from bufferlab.engines.innodb.existing.global_variables import GlobalVariables
from bufferlab.engines.innodb.find_mysqld import Flavour
from bufferlab.engines.innodb.option_file import VARIABLES, as_asked, read_back, server_settings
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.existing import changes
from bufferlab.engines.servers.existing.address import Address, password
from bufferlab.engines.servers.existing.existing_server import ExistingServer
from bufferlab.engines.servers.existing.mark import Mark
from bufferlab.engines.servers.private_server import ANSWER_SECONDS
from bufferlab.engines.servers.read_back import ReadBack
from bufferlab.errors import EnvironmentLackingError
from bufferlab.knob import Values

_READ_ONLY = (1290, 1792, 1836)
"""ER_OPTION_PREVENTS_STATEMENT (--read-only), ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ER_READ_ONLY_MODE."""


class ExistingInnodb(ExistingServer):
    """The servers of one of the two flavours."""

    form = FORM
    unusable = (pymysql.MySQLError,)
    settings = GlobalVariables()
    core_words: ClassVar = {"may_change_settings": False}  # Switching metrics on is a setting too.

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.declaration = declare(flavour, flavour)

    def build(self, url: str) -> Build:
        address = self.parse(url)
        with closing(connect(address)) as connection:
            ((told,),) = control.rows(connection, "SELECT VERSION()")
        found: Flavour = "mariadb" if "mariadb" in str(told).lower() else "mysql"
        if found != self.flavour:
            raise EnvironmentLackingError(
                f"this is a {found} server, version {told}", address.place, f"run it with --engine {found}"
            )
        return Build(url, found, str(told).split("-")[0], Path("/"), None)

    def connect(self, address: Address, *, patient: bool = False) -> Any:
        return connect(address, patient=patient)

    def listen(self, address: Address) -> None:
        try:
            connect(address, answer_seconds=ANSWER_SECONDS).close()
        except (pymysql.Error, OSError, EnvironmentLackingError) as error:
            raise EngineFailure("io", f"the server does not answer: {error}", address.place) from error

    def needs(self, address: Address) -> str:
        return (
            f"the account needs ALL on {address.schema}.* and PROCESS; "
            f"for {changes.ALLOW} name one with SUPER by ?admin_user="
        )

    def is_read_only(self, error: BaseException) -> bool:
        return isinstance(error, pymysql.MySQLError) and bool(error.args) and error.args[0] in _READ_ONLY

    def make_sure_of(self, address: Address) -> None:
        """Do nothing: connections are not made to a schema."""

    def require_safe(self, address: Address) -> None:
        with closing(connect(address)) as connection:
            owned_schema.require_safe(connection, address)

    def objects(self, address: Address) -> list[str]:
        with closing(connect(address)) as connection:
            return owned_schema.objects(connection, address.schema)

    def claim(self, address: Address) -> None:
        with closing(connect(address)) as connection:
            owned_schema.claim(connection, address)

    def mark(self, address: Address, mark: Mark) -> None:
        with closing(connect(address)) as connection:
            owned_schema.mark(connection, address.schema, mark)

    def marked(self, address: Address) -> Mark | None:
        with closing(connect(address)) as connection:
            return owned_schema.marked(connection, address.schema)

    def wanted(self, connection: Any, found: Build, asked: Values) -> dict[str, str]:
        told, wanted = control.variables(connection), {}
        for name, value in server_settings(found.flavour, found.version, asked).items():
            setting = next(known for known in asked if VARIABLES.of(known) == name)
            actual = told.get(name.lower())
            if actual is None or str(as_asked(setting, actual)).lower() != value.lower():
                wanted[name.lower()] = value
        return wanted

    def told(self, connection: Any) -> Mapping[str, str]:
        return control.variables(connection)

    def read_back(self, connection: Any, found: Build, knobs: Values) -> ReadBack:
        return read_back(connection, found, knobs)

    def require_made_with(self, address: Address, asked: Values) -> None:
        """Raise EngineFailure unless the server's pages are as large as was asked for."""
        with closing(connect(address)) as connection:
            actual = int(control.variables(connection)["innodb_page_size"])
        if actual != asked["page_size"]:
            raise EngineFailure(
                "usage",
                f"page_size needs another server: this one was made with pages of {actual} bytes",
                address.place,
                f"--set page_size={actual}",
            )

    def target(self, address: Address) -> dict[str, Any]:
        return {
            "socket": address.socket,
            "host": None if address.socket else address.host,
            "port": None if address.socket else address.port,
            "user": address.user,
            "password": password(address, FORM),
            "database": address.schema,
        }

    def settle(self, address: Address) -> None:
        """Sign a script's tables. Purge and merge go on by themselves."""
        with closing(connect(address)) as connection:
            if mark := owned_schema.marked(connection, address.schema):
                owned_schema.sign(connection, address.schema, mark)

    def allocated_bytes(self, connection: Any, found: Build, address: Address) -> int:
        return table_sizes.allocated(connection, found, address.schema)

    def conditions(self, connection: Any, job: Mapping[str, Any], database: Path, address: Address) -> dict[str, Any]:
        return consistency_by_pymysql.check(
            connection, job["workload"], job["delivered_orders"], database, address.schema
        )

    def connections(self, connection: Any) -> int:
        return int(control.status(connection, "Threads_connected").get("threads_connected", "0"))
