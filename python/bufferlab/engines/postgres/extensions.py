"""Makes the extensions that checks and counters use, where the server has them (packages: postgresql-contrib)."""

from __future__ import annotations

from bufferlab.engines.postgres import control
from bufferlab.engines.servers.client import Client

CHECKS = "amcheck"
COUNTERS = "pg_buffercache"


def make(connection: Client) -> None:
    """Make them in the connection's database. Raises ServerError (control.MAY_NOT) when the account may not."""
    there = {str(name) for (name,) in control.rows(connection, "SELECT name FROM pg_available_extensions")}
    for name in (CHECKS, COUNTERS):
        if name in there:
            control.rows(connection, f"CREATE EXTENSION IF NOT EXISTS {name}")


def has(connection: Client, name: str) -> bool:
    """Return whether the connection's database has the extension."""
    return bool(control.rows(connection, "SELECT 1 FROM pg_extension WHERE extname = %s", (name,)))
