"""Manages the one schema that bufferlab owns on an already running MySQL or MariaDB server.

A marker table claims the schema. It lists the tables that bufferlab created, and says which data they hold and whether
transactions have changed these since. A schema with any other table belongs to another user, at least in part:
bufferlab refuses it and touches nothing in it.

Other accounts may write in the schema. Suppose they replace a table by a view that calls their stored function: the
function would run with the privileges of bufferlab's account (SQL SECURITY INVOKER). So no statement of this module
reads an object that may be a view. An account with high privileges is refused if others may create functions. A trigger
does no harm: it runs with the privileges of its definer.
"""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import Any, ClassVar

from bufferlab.engines.behaviour import EngineFailure, NativeKnobs
from bufferlab.engines.innodb import control, running_server
from bufferlab.engines.innodb.connection import FORM, connect
from bufferlab.engines.innodb.option_file import VARIABLES, as_asked, server_settings
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.client import FAILURES, Client, ServerError
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.existing.mark import SchemaMark, parts_of, require_as_loaded, require_none
from bufferlab.engines.servers.run import Difference, FamilyRun

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
    survey = staticmethod(running_server.survey)

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
