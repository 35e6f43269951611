"""PostgreSQL's shared buffers: a clock sweep with usage counts (crates/bufferlab-sim/src/managers/postgres.rs)."""

from __future__ import annotations

from bufferlab.models.managers.declaration import BufferManager

MANAGER = BufferManager(
    name="postgres",
    version=2,
    meaning="PostgreSQL's shared buffers: a clock sweep with usage counts",
    servers="postgres >= 15, < 19",
    defaults={},
    settings=lambda _server, _values: {},
    presumes={},
)
