"""The list of models: one line per model, nothing else to edit."""

from __future__ import annotations

from bufferlab.models.managers import innodb, postgres, sqlite
from bufferlab.models.managers.declaration import BufferManager, Server

MANAGERS: tuple[BufferManager, ...] = (
    *innodb.MANAGERS,
    postgres.MANAGER,
    sqlite.MANAGER,
)


def of_server(server: Server) -> BufferManager | None:
    """Return the model of a server; None if it has none."""
    return next((manager for manager in MANAGERS if server.is_in(manager.servers)), None)
