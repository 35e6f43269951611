"""Settings of somebody else's PostgreSQL, changed while it runs.

What a session can have for itself is set for bufferlab's own database (ALTER DATABASE ... SET): nobody else's sessions
see it. What only the whole server has (the background writer, checkpoints, the log) is set by ALTER SYSTEM and a
reload. What is fixed when a server starts cannot be changed here (pg_settings.context; guc.h, GucContext).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.existing.connection import connect
from bufferlab.engines.postgres.settings import Told, bytes_of, in_words
from bufferlab.engines.servers.boot import OnWait
from bufferlab.engines.servers.existing.address import Address
from bufferlab.units import format_bytes

_SESSION, _SERVER = ("user", "superuser", "backend", "superuser-backend"), ("sighup",)
_DATABASE, _SYSTEM = "database", "system"
_RELOAD_SECONDS = 10.0
_POLL_SECONDS = 0.05

_OF_DATABASE = """
SELECT unnest(s.setconfig) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
WHERE d.datname = %s AND s.setrole = 0
"""
_OF_SYSTEM = "SELECT name, setting FROM pg_file_settings WHERE sourcefile LIKE '%/postgresql.auto.conf'"


class ServerSettings:
    """As `changes.Settings` says."""

    unusable: tuple[type[Exception], ...] = (psycopg.Error,)

    def found(self, connection: control.Connection, address: Address, wanted: Mapping[str, str]) -> dict[str, Any]:
        """Where each is set now, and to what; None: nowhere, so that it is reset later."""
        contexts = contexts_of(connection)
        of_database = _of_database(connection, address.schema)
        of_system: Mapping[str, str] = {}
        if any(contexts[name] in _SERVER for name in wanted):
            of_system = _of_system(connection)
        return {
            name: {"scope": _DATABASE, "value": of_database.get(name)}
            if contexts[name] in _SESSION
            else {"scope": _SYSTEM, "value": of_system.get(name)}
            for name in wanted
        }

    def change(self, connection: control.Connection, address: Address, name: str, value: str, on_wait: OnWait) -> None:
        """Set it, and wait until a new session has it."""
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
        deadline = time.monotonic() + _RELOAD_SECONDS
        while _setting(address, name) == before:
            if time.monotonic() > deadline:
                what = f"{name} stays {in_words(before)} though {value} was set"
                hint = "is it given on the server's command line, or to the role (ALTER ROLE ... SET)?"
                raise EngineFailure("usage", what, f"var.{name}", hint)
            on_wait(f"taking {name}")
            time.sleep(_POLL_SECONDS)

    def put_back(self, address: Address, found: Mapping[str, Any]) -> list[str]:
        """Those that are set otherwise now, each where it was changed; a database that has gone took its own along."""
        with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
            of_database = _of_database(connection, address.schema)
            if not control.rows(connection, "SELECT 1 FROM pg_database WHERE datname = %s", (address.schema,)):
                found = {name: was for name, was in found.items() if was["scope"] == _SYSTEM}
            is_system = any(was["scope"] == _SYSTEM for was in found.values())
            of_system = _of_system(connection) if is_system else {}
            changed = []
            for name, was in reversed(list(found.items())):
                now = (of_system if was["scope"] == _SYSTEM else of_database).get(name)
                if now != was["value"]:
                    _set(connection, address.schema, name, was["scope"], was["value"])
                    changed.append(name)
        return changed


def contexts_of(connection: control.Connection) -> dict[str, str]:
    """When each setting can be changed, by name."""
    return {
        str(name): str(context) for name, context in control.rows(connection, "SELECT name, context FROM pg_settings")
    }


def refuse_fixed(
    contexts: Mapping[str, str], told: Mapping[str, tuple[str, str | None]], wanted: Mapping[str, str]
) -> None:
    """EngineFailure for a setting that the server lacks, or has from its start to its end."""
    for name, value in wanted.items():
        if name not in contexts:
            what = f"the server has no setting {name}"
            raise EngineFailure("usage", what, f"var.{name}", "look it up in the manual of this version")
        if contexts[name] not in (*_SESSION, *_SERVER):
            has = in_words(told[name])
            hint = "set it in the server's own configuration and restart it, or ask for what it has"
            if name == "shared_buffers":
                size = bytes_of(told[name])
                has, hint = format_bytes(size), f"{hint}: --set pool_size={size}"
            what = f"{name} is {has}, {value} asked: it needs a restart of the server"
            raise EngineFailure("usage", what, f"var.{name}", hint)


def _setting(address: Address, name: str) -> Told:
    """What a session that begins now has."""
    with closing(connect(address)) as fresh:
        ((setting, unit),) = control.rows(fresh, "SELECT setting, unit FROM pg_settings WHERE name = %s", (name,))
    return str(setting), unit


def _set(connection: control.Connection, database: str, name: str, scope: str, value: str | None) -> None:
    """Set it where it belongs, or reset it."""
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


def _of_database(connection: control.Connection, database: str) -> dict[str, str]:
    """What is set for a database and all roles."""
    return dict(str(setting).split("=", 1) for (setting,) in control.rows(connection, _OF_DATABASE, (database,)))


def _of_system(connection: control.Connection) -> dict[str, str]:
    """What ALTER SYSTEM has set."""
    try:
        return {str(name): str(setting) for name, setting in control.rows(connection, _OF_SYSTEM)}
    except psycopg.errors.InsufficientPrivilege as error:
        raise EngineFailure(
            "environment",
            "the account may not see what ALTER SYSTEM has set, so nothing of it could be put back",
            "pg_file_settings",
            "use a superuser, or GRANT SELECT ON pg_file_settings and EXECUTE ON pg_show_all_file_settings()",
        ) from error
