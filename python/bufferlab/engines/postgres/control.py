"""Queries over a control connection, for settings, conditions and vacuum; and the extensions that they use.

No hot path uses it; the core runs transactions over other connections.
"""

from __future__ import annotations

from bufferlab.engines.servers.client import Client

PORT = 5432
"""The port, which is a part of the socket's name (.s.PGSQL.5432).

All servers use the same number, because each socket is in a separate folder.
"""
SYSTEM_DATABASE = "postgres"
MAY_NOT = "42501"
"""The code of insufficient_privilege."""


def identifier(*names: str) -> str:
    """Return a name, after its schema if two are given, as a quoted SQL identifier; it may come from a user's dump.

    >>> print(identifier("public", 'a"b'))
    "public"."a""b"
    """
    return ".".join('"' + name.replace("\0", "").replace('"', '""') + '"' for name in names)


def settings(connection: Client) -> dict[str, tuple[str, str | None]]:
    """Return every row of pg_settings: name -> (setting, unit)."""
    return {
        str(name): (str(setting), unit)
        for name, setting, unit in connection.rows("SELECT name, setting, unit FROM pg_settings")
        if setting is not None
    }


CHECKS = "amcheck"
COUNTERS = "pg_buffercache"


def make_extensions(connection: Client) -> None:
    """Create in the connection's database those of the extensions CHECKS and COUNTERS that the server has.

    Raises ServerError, with the code `MAY_NOT`, if the account lacks the privilege.
    """
    there = {str(name) for (name,) in connection.rows("SELECT name FROM pg_available_extensions")}
    for name in (CHECKS, COUNTERS):
        if name in there:
            connection.rows(f"CREATE EXTENSION IF NOT EXISTS {name}")


def has_extension(connection: Client, name: str) -> bool:
    """Return whether the connection's database has the extension."""
    return bool(connection.rows("SELECT 1 FROM pg_extension WHERE extname = %s", (name,)))
