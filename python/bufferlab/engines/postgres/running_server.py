"""Surveys an already running PostgreSQL server: privileges, replication role, poolers. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import closing, suppress
from pathlib import Path

from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.connection import connect
from bufferlab.engines.postgres.postgresql_conf import bytes_of, in_words
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.existing import whereabouts
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.run import Survey

_DATABASE = """
SELECT pg_get_userbyid(datdba), pg_has_role(datdba, 'USAGE'),
  CASE WHEN has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid) ELSE 0 END
FROM pg_database WHERE datname = %s
"""
_ME = "SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user"
_TLS = "SELECT version, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl"
_REPLICAS = "SELECT count(*) FROM pg_stat_replication"
_AURORA = "SELECT count(*) FROM pg_proc WHERE proname = 'aurora_version'"


def survey(address: Address) -> Survey:
    """Return the facts of a server that the URL's account sees."""
    with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
        told = control.settings(connection)
        ((version, pid),) = connection.rows("SELECT version(), pg_backend_pid()")
        ((is_super, may_create),) = connection.rows(_ME)
        database, tls = connection.rows(_DATABASE, (address.schema,)), connection.rows(_TLS)
        return Survey(
            version=str(version).split(" on ")[0],
            tls=", ".join(str(part) for part in tls[0]) if tls else None,
            variables={name: in_words(value) for name, value in told.items()},
            page_bytes=bytes_of(told["block_size"]),
            pool_bytes=bytes_of(told["shared_buffers"]),
            schema_bytes=int(database[0][2]) if database else None,
            missing=_missing(address, database, is_super=bool(is_super), may_create=bool(may_create)),
            read_only=_read_only(connection, told),
            roles=_roles(connection),
            proxy=_proxy(connection, int(pid)),
            managed=managed(told.keys(), is_aurora=connection.rows(_AURORA) != [(0,)]),
            nulls=_nulls(connection, is_super=bool(is_super)),
            data_folder=told["data_directory"][0] if "data_directory" in told else None,
            is_here=_is_here(address, int(pid)),
        )


def managed(settings: Collection[str], *, is_aurora: bool = False) -> str:
    """Return the managed service that runs a server with these settings; "" if no known sign shows one.

    >>> managed(["rds.extensions"]), managed(["cloudsql.iam_authentication"]), managed(["shared_buffers"])
    ('Amazon RDS', 'Google Cloud SQL', '')
    """
    if is_aurora:
        return "Amazon Aurora"
    signs = {
        "rds.": "Amazon RDS",
        "cloudsql.": "Google Cloud SQL",
        "alloydb.": "Google AlloyDB",
        "azure.": "Azure Database",
    }
    return next((name for sign, name in signs.items() if any(one.startswith(sign) for one in settings)), "")


def _missing(
    address: Address, database: list[tuple[object, ...]], *, is_super: bool, may_create: bool
) -> dict[str, str]:
    """Return the privileges that the account lacks to own the database, each with the statement that grants it."""
    if is_super:
        return {}
    name, user = quoted(address.schema), quoted(address.user)
    if not database:
        make = f"CREATE DATABASE {name} OWNER {user}"
        return {} if may_create else {f"a database {address.schema}, or CREATEDB": make}
    owner, is_ours, _ = database[0]
    if is_ours:
        return {}
    return {f"to own {address.schema}, which {owner} owns": f"ALTER DATABASE {name} OWNER TO {user}"}


def quoted(name: str) -> str:
    """Return a name as an SQL identifier, in quotes only if it needs them.

    >>> quoted("lab"), quoted("Me-2")
    ('lab', '"Me-2"')
    """
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else control.identifier(name)


def _read_only(connection: Client, told: dict[str, tuple[str, str | None]]) -> str:
    if connection.rows("SELECT pg_is_in_recovery()") == [(True,)]:
        return "it is a standby (pg_is_in_recovery)"
    if told.get("default_transaction_read_only", ("off", None))[0] == "on":
        return "default_transaction_read_only = on"
    return ""


def _roles(connection: Client) -> tuple[str, ...]:
    ((standbys,),) = connection.rows(_REPLICAS)
    return (f"{standbys} standbys or receivers follow it: a load goes to them too",) if standbys else ()


def _proxy(connection: Client, pid: int) -> str:
    """Return the pooler that answers in place of the server; "" if none does.

    A pooler is recognised by its cancel key, which is not the PID of the server's process.
    """
    return "" if connection.id == pid else "a pooler, such as pgbouncer,"


def _nulls(connection: Client, *, is_super: bool) -> tuple[str, ...]:
    """Return in words which metrics are missing because of the server's version or extensions, or the account's
    privileges."""
    said = []
    there = {str(name) for (name,) in connection.rows("SELECT name FROM pg_available_extensions")}
    for name, words in ((control.CHECKS, "checks of the trees"), (control.COUNTERS, "what fills the pool")):
        if name not in there:
            said.append(f"{words}: the server has no extension {name} (package postgresql-contrib)")
        elif not is_super:
            said.append(f"{words}, unless the database has the extension {name}: only a superuser may make it")
    ((version,),) = connection.rows("SELECT current_setting('server_version_num')::int")
    if version < 160_000:
        said.append("reads by their kind (pg_stat_io): PostgreSQL 16 was the first to have it")
    return tuple(said)


def _is_here(address: Address, pid: int) -> bool | None:
    """Return whether the server is on this host; None if that is unknown.

    It is if the address is a socket, or if the connection's process has the account's name in its title on this host.
    """
    if not whereabouts.may_be_here(address):
        return False
    with suppress(OSError):
        title = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
        if f" {address.user} {control.SYSTEM_DATABASE} " in title:
            return True
    return True if address.socket else None
