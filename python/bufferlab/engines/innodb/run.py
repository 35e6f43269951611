"""Surveys an already running MySQL or MariaDB server, and manages the one schema that bufferlab owns there.

A marker table claims the schema. It lists the tables that bufferlab created, and says which data they hold and whether
transactions have changed these since. A schema with any other table belongs to another user, at least in part:
bufferlab refuses it and touches nothing in it.

Other accounts may write in the schema. Suppose they replace a table by a view that calls their stored function: the
function would run with the privileges of bufferlab's account (SQL SECURITY INVOKER). So no statement of this module
reads an object that may be a view. An account with high privileges is refused if others may create functions. A trigger
does no harm: it runs with the privileges of its definer.

The survey reads privileges, replication role and proxies, and changes nothing.
"""

from __future__ import annotations

import json
import re
import socket as sockets
from collections.abc import Mapping
from contextlib import closing
from typing import Any, ClassVar, Literal

from bufferlab.engines.behaviour import EngineFailure, NativeKnobs
from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.connection import FORM, connect
from bufferlab.engines.innodb.option_file import VARIABLES, as_asked, server_settings
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.client import FAILURES, Client, ServerError
from bufferlab.engines.servers.existing import whereabouts
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, Address
from bufferlab.engines.servers.run import (
    Difference,
    FamilyRun,
    SchemaMark,
    Survey,
    parts_of,
    require_as_loaded,
    require_none,
)
from bufferlab.versions import numbers

MARKER = "bufferlab_marker"
"""The marker table's name.

The loader (crates/bufferlab-drive/src/mysql/loader.rs) uses it too: it treats other tables as another user's.
"""
_NO_TABLE = ("1146", "1347", "1049", "1031", "1142")
"""The error codes for: no such table, not a table but a view, no such schema, an engine without HANDLER, no privilege
to read."""
OURS = "bufferlab"
"""The comment on each table that bufferlab created.

Other accounts may forge the marker's list of names. An account that can forge this comment on a table has privileges
with which it could drop the table anyway.
"""
_SMALL = frozenset({"USAGE", "PROCESS", "REPLICATION CLIENT", "SHOW DATABASES", "BINLOG MONITOR"})
"""The global privileges that code of other accounts cannot misuse if it runs with them."""
_MAKES = ("Create", "Create_view", "Create_routine", "Alter_routine", "Trigger", "Event")
"""The privileges (columns of mysql.db) with which an account can create tables, or code that runs when tables are
used."""
_LOCK_NAME_LENGTH = 64
"""The maximum length of a lock's name in MySQL 5.7.5 and later."""
_OBJECTS = {
    "SELECT table_name, table_type, column_name FROM information_schema.columns JOIN information_schema.tables "
    "USING (table_schema, table_name) WHERE table_schema = %s AND table_name <> %s ORDER BY 1, ordinal_position":
        "{1} {0} ({2})",
    "SELECT table_name, index_name, column_name FROM information_schema.statistics "
    "WHERE table_schema = %s AND table_name <> %s ORDER BY 1, 2, seq_in_index": "index {1} on {0} ({2})",
    "SELECT table_name, CONCAT(constraint_schema, '.', constraint_name), column_name "
    "FROM information_schema.key_column_usage WHERE referenced_table_schema = %s AND table_name <> %s "
    "ORDER BY 1, 2, ordinal_position": "foreign key {1} of {0} ({2})",
    "SELECT event_object_table, trigger_name, action_timing FROM information_schema.triggers "
    "WHERE event_object_schema = %s AND trigger_name <> %s": "trigger {1} on {0} ({2})",
    "SELECT LOWER(routine_type), routine_name, definer FROM information_schema.routines "
    "WHERE routine_schema = %s AND routine_name <> %s": "{0} {1} ({2})",
    "SELECT 'event', event_name, definer FROM information_schema.events "
    "WHERE event_schema = %s AND event_name <> %s": "{0} {1} ({2})",
}  # fmt: skip
"""The queries for everything that a schema contains except the marker, with the words for each answer."""
_DROPS = {"VIEW": "VIEW", "SEQUENCE": "SEQUENCE"}
"""The keyword for DROP by type in information_schema, for types other than tables."""
_BUSY = """
SELECT count(*) FROM information_schema.processlist
WHERE id <> CONNECTION_ID() AND user <> 'system user' AND command <> 'Daemon' AND command NOT LIKE 'Binlog Dump%%'
  AND (command <> 'Sleep' OR time < %s)
"""
"""The query for the number of clients that run a statement, or ended one some seconds ago (`time` of a sleeping
client)."""


class InnodbRun(FamilyRun):
    """The way to run in a schema of an already running MySQL or MariaDB server."""

    read_only = ("1290", "1792", "1836")
    """The codes of ER_OPTION_PREVENTS_STATEMENT (--read-only), ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION,
    ER_READ_ONLY_MODE."""
    needs = "the account needs ALL on {schema}.* and PROCESS"
    clients_query = "SHOW GLOBAL STATUS LIKE 'Threads_connected'"
    made_with: ClassVar = {"page_size": ("innodb_page_size", "pages of {} bytes")}
    # The core must not even enable metrics: that would change a setting of the server.
    core_words: ClassVar = {"may_change_settings": False}

    variables = staticmethod(control.variables)

    def survey(self, address: Address) -> Survey:
        return survey_of(address)

    def flavour_of(self, told: str) -> Flavour:
        return "mariadb" if "mariadb" in told.lower() else "mysql"

    def differing(self, connection: Client, found: Build, asked: NativeKnobs) -> dict[str, Difference]:
        told, differing = control.variables(connection), {}
        wanted = server_settings(found.flavour, found.version, asked)
        for name in asked:
            if (variable := VARIABLES.of(name)) in wanted:
                has = told.get(variable.lower())
                each = Difference(variable, wanted[variable], None if has is None else str(as_asked(name, has)))
                if each.has is None or each.has.lower() != each.asked.lower():
                    differing[name] = each
        return differing

    def busy(self, connection: Client, seconds: float) -> int | None:
        ((busy,),) = connection.rows(_BUSY, (int(seconds) - 1,))
        return int(busy)

    def lock(self, connection: Client, schema: str, seconds: float) -> bool:
        """Take the schema's lock by GET_LOCK until the connection ends; return False if another connection holds it."""
        name = f"bufferlab.{schema}"[:_LOCK_NAME_LENGTH]
        ((got,),) = connection.rows("SELECT GET_LOCK(%s, %s)", (name, seconds))
        # The server must not close the connection while it is idle.
        connection.rows("SET SESSION wait_timeout = 31536000")
        return bool(got == 1)

    def require_safe(self, address: Address) -> None:
        with closing(connect(address)) as connection:
            self.require_safe_for(connection, address)

    def require_safe_for(self, connection: Client, address: Address) -> None:
        """Raise EngineFailure if other accounts' code could run in the schema with more privileges than the schema
        needs.

        Also raise it if bufferlab's account has such privileges and cannot see which others may create functions there.
        """
        schema = address.schema
        ((folds,),) = connection.rows("SELECT @@lower_case_table_names")
        named = schema.lower() if int(folds) else schema
        grants = [str(said) for (said,) in connection.rows("SHOW GRANTS")]
        great = [said for said in grants if not _is_small(said.replace(f"`{schema}`", f"`{named}`"), named)]
        if not great:
            return
        are_roles = all(" ON " not in said for said in great)
        has = "has roles, whose rights are not looked up" if are_roles else f"has rights beyond {schema}"
        hint = f"name in the URL an account with PROCESS and ALL on {schema}.* and no more"
        try:
            others = _makers(connection, schema)
        except FAILURES as error:
            what = f"{address.user} {has}, and may not see who else may make functions there"
            raise EngineFailure("environment", f"{what} ({error.args[-1]})", address.place, hint) from error
        if others:
            what = f"{address.user} {has}, and functions that {', '.join(others)} may make there"
            raise EngineFailure("environment", f"{what} would run with them", address.place, hint)

    def objects(self, connection: Client, schema: str) -> list[str]:
        """Return everything in the schema except the marker, in words: tables, columns, indexes, keys, code."""
        found = []
        for query, words in _OBJECTS.items():
            lists: dict[tuple[str, str], list[str]] = {}
            for first, second, of_it in connection.rows(query, (schema, MARKER)):
                lists.setdefault((str(first), str(second).replace("BASE TABLE", "table").lower()), []).append(
                    str(of_it)
                )
            found += [words.format(*names, ", ".join(parts)) for names, parts in lists.items()]
        return found

    def require_ours(self, connection: Client, address: Address) -> tuple[SchemaMark | None, dict[str, str]]:
        """Return the schema's mark, and its tables and views. Raise EngineFailure unless bufferlab created all of them.

        Also raise it for stored code, an index or another object that the load of these tables did not create.
        """
        schema = address.schema
        mark, there = self.marked(connection, schema), _relations(connection, schema)
        ours = _names(connection, schema, mark.made if mark else ()) & {MARKER, *_commented(connection, schema)}
        require_none([name for name in there if name not in ours], address, FORM)
        require_as_loaded(self.objects(connection, schema), mark, address, FORM)
        return mark, there

    def claim(self, connection: Client, address: Address) -> None:
        """Claim the schema: create it if it is missing, and drop everything in it except the marker.

        Raises EngineFailure if another user owns something in it, or if the account lacks a privilege.
        """
        schema = address.schema
        try:
            query = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
            if not connection.rows(query, (schema,)):
                connection.change(f"CREATE DATABASE `{schema}`")
            mark, there = self.require_ours(connection, address)
            connection.rows(f"USE `{schema}`")
            for kind in ("VIEW", "SEQUENCE", "TABLE"):
                names = [f"`{name}`" for name, is_a in there.items() if name != MARKER and is_a == kind]
                if names:
                    connection.change(f"DROP {kind} {', '.join(names)}")
            if mark is None and MARKER in there:
                # The marker has no readable mark: the load that created it had not written one yet, or another version
                # of bufferlab did it.
                connection.change(f"DROP TABLE {MARKER}")
            connection.change(
                f"CREATE TABLE IF NOT EXISTS {MARKER} (id TINYINT PRIMARY KEY, data_id VARCHAR(64) NOT NULL, "
                "state VARCHAR(16) NOT NULL, made MEDIUMTEXT NOT NULL, objects MEDIUMTEXT NOT NULL) "
                f"ENGINE = InnoDB DEFAULT CHARACTER SET utf8 COMMENT = '{OURS}'",
            )
        except FAILURES as error:
            raise EngineFailure(
                "environment",
                f"the schema {schema} cannot be made bufferlab's: {error.args[-1]}",
                address.place,
                f"GRANT ALL PRIVILEGES ON {schema}.* TO the user of the URL",
            ) from error

    def sign(self, connection: Client, schema: str, mark: SchemaMark) -> None:
        """Set bufferlab's comment (`OURS`) on the tables that a script's statements created; tables of a load already
        have it."""
        unsigned = _names(connection, schema, mark.made) - _commented(connection, schema)
        for name, is_a in _relations(connection, schema).items():
            if name in unsigned and is_a != "VIEW":
                connection.change(f"ALTER TABLE `{schema}`.`{name}` COMMENT = '{OURS}'")

    def mark(self, connection: Client, schema: str, mark: SchemaMark) -> None:
        """Write into the marker table which data the schema holds, their changes, and the tables created for them.

        Raises EngineFailure if the marker is not a table that bufferlab created.
        """
        told = {"data_id": mark.data_id, "state": mark.state, "made": json.dumps(mark.made),
                "objects": json.dumps(mark.objects)}  # fmt: skip
        # While the marker is locked, it stays a table: other accounts cannot replace it by a view.
        connection.change(f"LOCK TABLES `{schema}`.{MARKER} WRITE")
        try:
            if _relations(connection, schema).get(MARKER) != "TABLE":
                raise EngineFailure("usage", f"{schema}.{MARKER} is no table", schema, "drop it, or name a new schema")
            connection.change(
                f"INSERT INTO `{schema}`.{MARKER} (id, {', '.join(told)}) VALUES (1, %s, %s, %s, %s) "
                f"ON DUPLICATE KEY UPDATE {', '.join(f'{name} = VALUES({name})' for name in told)}",
                tuple(told.values()),
            )
        finally:
            connection.rows("UNLOCK TABLES")

    def marked(self, connection: Client, schema: str) -> SchemaMark | None:
        """Return the schema's mark from the marker table; None if it has none, or if the mark is malformed."""
        told = _read(connection, schema)
        try:
            made, whole = (tuple(map(str, json.loads(told[name]))) for name in ("made", "objects"))
            return SchemaMark(str(told["data_id"]), str(told["state"]), made, whole)
        except (KeyError, TypeError, ValueError, RecursionError):
            return None


def _read(connection: Client, schema: str) -> dict[str, Any]:
    """Return the marker's row by column; {} if it has none. HANDLER reads only tables, never a view."""
    try:
        connection.rows(f"HANDLER {control.quoted(schema)}.{MARKER} OPEN AS bufferlab_mark")
        try:
            names, rows = connection.ask("HANDLER bufferlab_mark READ FIRST")
            return dict(zip(names, rows[0] if rows else (), strict=False))
        finally:
            connection.rows("HANDLER bufferlab_mark CLOSE")
    except ServerError as error:
        if error.code in _NO_TABLE:
            return {}
        raise


def _is_small(grant: str, schema: str) -> bool:
    """Return whether a line of SHOW GRANTS gives no privilege that code in the schema could misuse elsewhere.

    >>> _is_small("GRANT USAGE, PROCESS ON *.* TO `me`@`%`", "lab"), _is_small("GRANT ALL ON `lab`.* TO `me`", "lab")
    (True, True)
    >>> _is_small("GRANT SUPER ON *.* TO `me`@`%`", "lab"), _is_small("GRANT `role`@`%` TO `me`@`%`", "lab")
    (False, False)
    """
    found = re.match(r"GRANT (?P<rights>[A-Z_, ]+) ON (?P<where>\S+) TO ", grant)
    if found is None:
        return False
    if found["where"] == "*.*":
        return "WITH GRANT OPTION" not in grant and {right.strip() for right in found["rights"].split(",")} <= _SMALL
    return found["where"].replace("\\", "") == f"`{schema}`.*"


def _makers(connection: Client, schema: str) -> list[str]:
    """Return the accounts that may create tables or code in the schema, except this one and those with SUPER."""
    may = " OR ".join(f"{right}_priv = 'Y'" for right in _MAKES)
    ((me,),) = connection.rows("SELECT CURRENT_USER()")
    found = connection.rows(f"SELECT user, host FROM mysql.user WHERE ({may}) AND Super_priv <> 'Y'")
    found += connection.rows(f"SELECT user, host FROM mysql.db WHERE %s LIKE Db AND ({may})", (schema,))
    found += connection.rows(
        "SELECT user, host FROM mysql.tables_priv WHERE Db = %s AND "
        "(FIND_IN_SET('Create', Table_priv) OR FIND_IN_SET('Create View', Table_priv) "
        "OR FIND_IN_SET('Trigger', Table_priv))",
        (schema,),
    )
    great = set(connection.rows("SELECT user, host FROM mysql.user WHERE Super_priv = 'Y'"))
    return sorted({f"{control.text(user)}@{control.text(host)}" for user, host in set(found) - great} - {str(me)})


def _commented(connection: Client, schema: str) -> set[str]:
    """Return the tables with bufferlab's comment, and the views that its account defined.

    No other account may set either.
    """
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s AND table_comment = %s"
    tables = connection.rows(query, (schema, OURS))
    query = "SELECT table_name FROM information_schema.views WHERE table_schema = %s AND definer = CURRENT_USER()"
    return {str(name) for (name,) in (*tables, *connection.rows(query, (schema,)))}


def _relations(connection: Client, schema: str) -> dict[str, str]:
    """Return each table and view of a schema, with the keyword of DROP for it (TABLE, VIEW or SEQUENCE)."""
    found = connection.rows(
        "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = %s ORDER BY 1",
        (schema,),
    )
    return {str(name): _DROPS.get(str(kind), "TABLE") for name, kind in found}


def _names(connection: Client, schema: str, made: tuple[str, ...]) -> set[str]:
    """Return the names of the marker and of all tables in `made`, without the schema, as the server stores them."""
    ((folds,),) = connection.rows("SELECT @@lower_case_table_names")
    whole = [parts_of(name, folds=bool(folds)) for name in made]
    return {MARKER, *(parts[-1] for parts in whole if parts[:-1] in ((), (schema,)))}


_OF_SCHEMA = ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "INDEX", "ALTER", "LOCK TABLES")
"""The privileges on the schema without which a load fails."""
_POOL = "innodb_buffer_pool_size"
_OPTION_PREVENTS = "1290"
"""The code of ER_OPTION_PREVENTS_STATEMENT. If SHOW GRANTS returns it, the server runs with --skip-grant-tables."""
_UNKNOWN = ("1193", "1109", "1064")
"""The error codes for: no such variable, no such table, no such statement. They mean that this version lacks it."""


def survey_of(address: Address) -> Survey:
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
