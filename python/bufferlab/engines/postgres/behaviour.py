"""Drives PostgreSQL servers."""

from __future__ import annotations

from bufferlab.engines.postgres.family import PostgresFamily
from bufferlab.engines.servers.server_behaviour import ServerBehaviour

BEHAVIOUR = ServerBehaviour(PostgresFamily())
