"""bufferlab's page pool for SQLite: least recently used (crates/bufferlab-sim/src/managers/sqlite.rs)."""

from __future__ import annotations

from bufferlab.models.managers.declaration import BufferManager
from bufferlab.models.managers.same_writes import CHECKPOINTS, of_generated_log, of_log

MANAGER = BufferManager(
    name="sqlite",
    version=1,
    meaning="bufferlab's page pool for SQLite",
    servers="sqlite",
    writing=of_log,
    untraced_writing=of_generated_log,
    untraced_settings=(CHECKPOINTS,),
)
