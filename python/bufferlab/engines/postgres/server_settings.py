"""Changes the settings of an existing PostgreSQL while it runs.

Settings that a session can have for itself are set for bufferlab's own database (ALTER DATABASE ... SET): other
sessions do not see them. Settings that only the whole server has (the background writer, checkpoints, the log) are set
by ALTER SYSTEM and a reload. Settings that are fixed when a server starts cannot be changed here (pg_settings.context;
guc.h, GucContext).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.client import Client
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres import owned_database as databases
from bufferlab.engines.postgres.connection import connect
from bufferlab.engines.postgres.postgresql_conf import VARIABLES, Told, bytes_of, in_words
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.existing.changes import Settings
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.units import UnitError, format_bytes

_SESSION, _SERVER = ("user", "superuser", "backend", "superuser-backend"), ("sighup",)
_DATABASE, _SYSTEM = "database", "system"
_RELOAD_SECONDS = 10.0
_LOCK = "pg_try_advisory_lock(hashtext('bufferlab'), hashtext(%s))"
_HELD = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
  AND classid::bigint = hashtext('bufferlab')::bigint & 4294967295
  AND objid::bigint = hashtext(%s)::bigint & 4294967295
"""
_POLL_SECONDS = 0.05
_LOCK_POLL_SECONDS = 0.1

_OF_DATABASE = """
SELECT unnest(s.setconfig) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
WHERE d.datname = %s AND s.setrole = 0
"""
_OF_SYSTEM = "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%/postgresql.auto.conf'"


class ServerSettings(Settings):
    """The settings of a server."""

    unusable = (psycopg.Error,)
    # The database that every server has: ours may not exist, and runs the code of others; locks belong to one database.
    opened = staticmethod(partial(connect, database=control.SYSTEM_DATABASE))
    opened_for_lock = opened
    records = staticmethod(databases.records)
    record = staticmethod(databases.record)

    def lock(self, connection: Client, lock: str, seconds: float) -> bool:
        """Take an advisory lock."""
        deadline = time.monotonic() + seconds
        while control.rows(connection, f"SELECT {_LOCK}", (lock,)) != [(True,)]:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_POLL_SECONDS)
        return True

    def is_held(self, connection: Client, lock: str) -> bool:
        """Return whether pg_locks shows the lock. Its two keys stand there as unsigned numbers."""
        return control.rows(connection, _HELD, (lock,)) != [(0,)]

    def identity(self, connection: Client) -> str:
        """Return the number that initdb gave the cluster, with its port: copies of a cluster have the same number."""
        query = "SELECT system_identifier::text || ' ' || current_setting('port') FROM pg_control_system()"
        ((told,),) = control.rows(connection, query)
        return hashlib.sha256(str(told).encode()).hexdigest()[:24]

    def found(
        self, connection: Client, address: Address, wanted: Mapping[str, str]
    ) -> dict[str, dict[str, Any]]:
        """Return where each setting is set now, and to what.

        The value is None where it is set nowhere, so that it is reset later.
        """
        contexts = contexts_of(connection)
        variables = {
            name: {"scope": _DATABASE, "database": address.schema} if contexts[name] in _SESSION else {"scope": _SYSTEM}
            for name in wanted
        }
        now = self.now(connection, variables)
        return {name: {**entry, "found": now[name]} for name, entry in variables.items()}

    def change(
        self,
        connection: Client,
        address: Address,
        name: str,
        value: str,
        on_wait: OnWait,
        on_set: Callable[[], None],
    ) -> None:
        """Set the variable, and wait until a new session has it."""
        scope = _DATABASE if contexts_of(connection)[name] in _SESSION else _SYSTEM
        before = _setting(address, name)
        try:
            _set(connection, address.schema, name, scope, value)
        except psycopg.Error as error:
            said = str(error).strip().splitlines()[0]
            if isinstance(error, psycopg.errors.InsufficientPrivilege):
                what, hint = f"the account may not change {name} ({said})", _grant(scope, name)
            else:
                what, hint = f"{name} = {value} was refused: {said}", "see the manual of this version"
            raise EngineFailure("usage", what, f"var.{name}", hint) from error
        on_set()
        deadline = time.monotonic() + _RELOAD_SECONDS
        while _setting(address, name) == before:
            if time.monotonic() > deadline:
                what = f"{name} stays {in_words(before)} though {value} was set"
                hint = "is it given on the server's command line, or to the role (ALTER ROLE ... SET)?"
                raise EngineFailure("usage", what, f"var.{name}", hint)
            on_wait(f"taking {name}")
            time.sleep(_POLL_SECONDS)

    def now(self, connection: Client, variables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return each setting's value where it was changed; None where it is set nowhere.

        A dropped database took its own along.
        """
        is_system = any(entry.get("scope") == _SYSTEM for entry in variables.values())
        of_system = _of_system(connection) if is_system else {}
        there = {str(name) for (name,) in control.rows(connection, "SELECT datname FROM pg_database")}
        now = {}
        for name, entry in variables.items():
            if entry.get("scope") == _SYSTEM:
                now[name] = of_system.get(name)
            elif (database := str(entry.get("database"))) in there:
                now[name] = _of_database(connection, database).get(name)
        return now

    def restore(self, connection: Client, name: str, entry: Mapping[str, Any]) -> None:
        """Set the variable to the found value where it was changed, or reset it there."""
        _set(connection, entry.get("database", ""), name, entry["scope"], entry["found"])

    def statement(self, schema: str, name: str, entry: Mapping[str, Any]) -> str | None:
        """Return an ALTER SYSTEM or ALTER DATABASE, where a knob has the variable and takes the value."""
        knob, found, is_system = VARIABLES.knob(name), entry["found"], entry.get("scope") == _SYSTEM
        try:
            # The server's MB are 1024 kB, and bufferlab's sizes say so.
            if knob is None or not (found is None or knob.parse(re.sub(r"(?<=[kMGT])B$", "iB", str(found)))):
                return None
        except UnitError:
            return None
        where = "SYSTEM" if is_system else f"DATABASE {schema}"
        how = f"RESET {name}" if found is None else f"SET {name} = '{found}'"
        return f"ALTER {where} {how}{'; SELECT pg_reload_conf()' if is_system else ''}"


def contexts_of(connection: Client) -> dict[str, str]:
    """Return when each setting can be changed, by name."""
    return {
        str(name): str(context) for name, context in control.rows(connection, "SELECT name, context FROM pg_settings")
    }


def is_fixed(context: str) -> bool:
    """Return whether a setting of this context stays as it is from the server's start to its end."""
    return context not in (*_SESSION, *_SERVER)


def refuse_fixed(
    contexts: Mapping[str, str], told: Mapping[str, tuple[str, str | None]], wanted: Mapping[str, str]
) -> None:
    """Raise EngineFailure for a setting that the server lacks, or that is fixed from its start to its end."""
    for name, value in wanted.items():
        if name not in contexts:
            what = f"the server has no setting {name}"
            raise EngineFailure("usage", what, f"var.{name}", "look it up in the manual of this version")
        if is_fixed(contexts[name]):
            has = in_words(told[name])
            hint = "set it in the server's own configuration and restart it, or ask for what it has"
            if name == "shared_buffers":
                size = bytes_of(told[name])
                has, hint = format_bytes(size), f"{hint}: --set pool_size={size}"
            what = f"{name} is {has}, {value} asked: it needs a restart of the server"
            raise EngineFailure("usage", what, f"var.{name}", hint)


def _setting(address: Address, name: str) -> Told:
    """Return the value that a new session has."""
    with closing(connect(address)) as fresh:
        ((setting, unit),) = control.rows(fresh, "SELECT setting, unit FROM pg_settings WHERE name = %s", (name,))
    return str(setting), unit


def _set(connection: Client, database: str, name: str, scope: str, value: str | None) -> None:
    """Set the variable in its scope, or reset it."""
    where = sql.SQL("SYSTEM") if scope == _SYSTEM else sql.SQL("DATABASE {}").format(sql.Identifier(database))
    how = (
        sql.SQL("RESET {}").format(sql.Identifier(name))
        if value is None
        else sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value))
    )
    control.rows(connection, sql.SQL("ALTER {} {}").format(where, how))
    if scope == _SYSTEM:
        control.rows(connection, "SELECT pg_reload_conf()")


def _grant(scope: str, name: str) -> str:
    right = "ALTER SYSTEM" if scope == _SYSTEM else "SET"
    reload = " and EXECUTE on pg_reload_conf()" if scope == _SYSTEM else ""
    return f"use a superuser, or GRANT {right} ON PARAMETER {name}{reload} to the account"


def _of_database(connection: Client, database: str) -> dict[str, str]:
    """Return the settings of a database for all roles."""
    return dict(str(setting).split("=", 1) for (setting,) in control.rows(connection, _OF_DATABASE, (database,)))


def _of_system(connection: Client) -> dict[str, str]:
    """Return the settings made by ALTER SYSTEM."""
    try:
        return {str(name): str(setting) for name, setting in control.rows(connection, _OF_SYSTEM)}
    except psycopg.errors.InsufficientPrivilege as error:
        raise EngineFailure(
            "environment",
            "the account may not see what ALTER SYSTEM has set, so nothing of it could be put back",
            "pg_file_settings",
            "use a superuser, or GRANT SELECT ON pg_file_settings and EXECUTE ON pg_show_all_file_settings()",
        ) from error
