"""Surveys an already running MySQL or MariaDB server: privileges, replication role, proxies. Changes nothing."""

from __future__ import annotations

import re
import socket as sockets
from collections.abc import Mapping
from contextlib import closing
from typing import Literal

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.connection import connect
from bufferlab.engines.servers.client import Client, ServerError
from bufferlab.engines.servers.existing import whereabouts
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, Address
from bufferlab.engines.servers.run import Survey
from bufferlab.versions import numbers

_OF_SCHEMA = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "INDEX", "ALTER", "LOCK TABLES")
"""The privileges on the schema without which a load fails."""
_POOL = "innodb_buffer_pool_size"
_OPTION_PREVENTS = "1290"
"""The code of ER_OPTION_PREVENTS_STATEMENT. If SHOW GRANTS returns it, the server runs with --skip-grant-tables."""
_UNKNOWN = ("1193", "1109", "1064")
"""The error codes for: no such variable, no such table, no such statement. They mean that this version lacks it."""


def survey(address: Address) -> Survey:
    """Return the facts of a server that the URL's account sees. Raises EngineFailure for a server without InnoDB."""
    with closing(connect(address, seconds=ANSWER_SECONDS)) as connection:
        told = control.variables(connection)
        if "innodb_page_size" not in told:
            what = "this server has no InnoDB, and so no buffer pool of it"
            raise EngineFailure("environment", what, address.place, "start it with InnoDB, or name another server")
        me, rights = _rights(connection, address.schema)
        ((comment,),) = connection.rows("SELECT @@version_comment LIMIT 1")
        version = f"{told['version']}, {control.text(comment)}"
        missing = _missing(connection, address, me, rights)
        return Survey(
            version=version,
            tls=_tls(connection),
            variables=told,
            page_bytes=int(told["innodb_page_size"]),
            pool_bytes=int(told[_POOL]),
            schema_bytes=_schema_bytes(connection, address.schema),
            missing=missing,
            read_only=_read_only(told, rights),
            roles=_roles(connection, told),
            unguarded="the server runs with --skip-grant-tables" if _grants(connection) == "skipped" else "",
            proxy=_proxy(connection, version),
            managed=managed(told, version),
            nulls=_nulls(connection) if "PROCESS" not in missing else (),
            data_folder=told.get("datadir"),
            is_here=_is_here(address, told),
        )


def managed(told: Mapping[str, str], version: str) -> str:
    """Return the managed service that runs a server with these variables; "" if no known sign shows one.

    >>> managed({"basedir": "/rdsdbbin/mysql-8.0.35.R2/"}, "8.0.35"), managed({}, "8.0.31-google, (Google)")
    ('Amazon RDS', 'Google Cloud SQL')
    """
    signs = {
        "Amazon Aurora": "aurora_version" in told,
        "Amazon RDS": "/rdsdbbin/" in told.get("basedir", ""),
        "Google Cloud SQL": "google" in version.lower(),
        "Azure Database": "aad_auth_only" in told,
    }
    return next((name for name, seen in signs.items() if seen), "")


def _rights(connection: Client, schema: str) -> tuple[str, set[str]]:
    """Return the account as GRANT writes it, and its privileges on the whole server or on the schema."""
    ((told,),) = connection.rows("SELECT CURRENT_USER()")
    user, _, host = control.text(told).rpartition("@")
    me = f"'{user}'@'{host}'"
    found = connection.rows(
        "SELECT privilege_type FROM information_schema.user_privileges WHERE grantee = %s UNION "
        "SELECT privilege_type FROM information_schema.schema_privileges WHERE grantee = %s AND %s LIKE table_schema",
        (me, me, schema),
    )
    return me, {str(right).upper() for (right,) in found}


def _missing(connection: Client, address: Address, me: str, rights: set[str]) -> dict[str, str]:
    """Return the privileges that a run needs and the account lacks, each with its GRANT; {} if a role may give them."""
    lacking = [right for right in _OF_SCHEMA if right not in rights]
    missing = {}
    if lacking:
        words = f"{', '.join(lacking)} on {address.schema}"
        missing[words] = f"GRANT ALL PRIVILEGES ON `{address.schema}`.* TO {me}"
    if "PROCESS" not in rights:
        missing["PROCESS"] = f"GRANT PROCESS ON *.* TO {me}"
    return missing if missing and _grants(connection) == "told" else {}


def _grants(connection: Client) -> Literal["told", "roles", "skipped"]:
    """Return whether all privileges are known, a role gives some, or the server checks none ("skipped").

    The privileges of roles are not looked up: the run itself shows whether they suffice. A server with
    --skip-grant-tables knows no privileges, and lets all users do everything.
    """
    try:
        told = connection.rows("SHOW GRANTS")
    except ServerError as error:
        if error.code != _OPTION_PREVENTS:
            raise
        return "skipped"
    return "roles" if any(re.match(r"GRANT [`'\"]", str(said)) for (said,) in told) else "told"


def _tls(connection: Client) -> str | None:
    found = control.pairs(connection, "SHOW SESSION STATUS LIKE 'Ssl_%'")
    return f"{found.get('ssl_version', 'TLS')}, {found['ssl_cipher']}" if found.get("ssl_cipher") else None


def _schema_bytes(connection: Client, schema: str) -> int | None:
    """Return the bytes of the schema's tables, by the server's statistics; None if the schema does not exist."""
    query = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
    if not connection.rows(query, (schema,)):
        return None
    query = "SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = %s"
    ((size,),) = connection.rows(query, (schema,))
    return int(size or 0)


def _read_only(told: Mapping[str, str], rights: set[str]) -> str:
    """Return the variable, with its value, that keeps this account from writing; "" if none does."""
    for name in ("innodb_read_only", "super_read_only"):
        if told.get(name, "OFF") not in ("OFF", "0"):
            return f"{name} = {told[name]}"
    # From MariaDB 10.11 on SUPER does not override read_only (manual, "READ_ONLY ADMIN").
    of_super = "mariadb" not in told["version"].lower() or numbers(told["version"]) < (10, 11)
    passes = {"CONNECTION_ADMIN", "READ_ONLY ADMIN", *(["SUPER"] if of_super else [])}
    if told.get("read_only", "OFF") not in ("OFF", "0") and not rights & passes:
        return f"read_only = {told['read_only']}"
    return ""


def _roles(connection: Client, told: Mapping[str, str]) -> tuple[str, ...]:
    """Return sentences on replication: the server may apply a primary's changes, or pass changes on to others."""
    said = []
    replica = None
    for statement in ("SHOW REPLICA STATUS", "SHOW SLAVE STATUS"):
        try:
            replica = bool(connection.rows(statement))
            break
        except ServerError as error:
            if error.code not in _UNKNOWN:
                said.append(f"whether it is a replica cannot be told ({error.args[-1]})")
                break
    if replica:
        said.append("it is a replica: what it applies is in the counters too")
    if told.get("wsrep_on") == "ON":
        said.append("it is a node of a Galera cluster: a load goes to all nodes")
    if told.get("group_replication_group_name"):
        said.append("it is a member of a replication group: a load goes to all members")
    if told.get("log_bin") == "ON":
        said.append("the binary log is on: a load is written there too, and goes to the replicas if there are any")
    return tuple(said)


def _proxy(connection: Client, version: str) -> str:
    """Return the proxy that answers in place of the server; "" without a sign of one.

    The signs are the version comment, and a connection id that is not the server's.
    """
    if "proxysql" in version.lower():
        return "ProxySQL"
    ((here,),) = connection.rows("SELECT CONNECTION_ID() AS of_the_server")
    if int(here) & 0xFFFFFFFF != connection.id:
        return "a proxy, such as ProxySQL or MaxScale,"
    return ""


def _nulls(connection: Client) -> tuple[str, ...]:
    """Return a sentence on InnoDB's disabled metrics, which a run does not enable."""
    # MariaDB 10.6 and later has a column ENABLED in place of STATUS.
    query = (
        "SELECT LOWER(column_name) FROM information_schema.columns WHERE table_schema = 'information_schema' "
        "AND LOWER(table_name) = 'innodb_metrics' AND LOWER(column_name) IN ('status', 'enabled')"
    )
    ((column,),) = connection.rows(query)
    is_on = "enabled = 1" if column == "enabled" else "status = 'enabled'"
    query = (
        f"SELECT COUNT(*) FROM information_schema.innodb_metrics WHERE NOT ({is_on}) AND name LIKE 'buffer\\_LRU\\_%'"
    )
    ((off,),) = connection.rows(query)
    if not off:
        return ()
    return (f"{off} of InnoDB's metrics on the LRU list, and so the victim path: they are off, and are a setting too",)


def _is_here(address: Address, told: Mapping[str, str]) -> bool | None:
    if address.socket:
        return True
    if not whereabouts.may_be_here(address):
        return False
    return True if told.get("hostname") == sockets.gethostname() else None
