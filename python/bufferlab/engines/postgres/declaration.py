"""The declaration of PostgreSQL. Pure data."""

from __future__ import annotations

from bufferlab.engines.declaration import RATES_OF_SERVERS, EngineDeclaration
from bufferlab.engines.postgres.knobs import KNOBS
from bufferlab.engines.postgres.results import RESULTS
from bufferlab.knob import PREFIX
from bufferlab.units import MIB

DECLARATION = EngineDeclaration(
    name="postgres",
    meaning="PostgreSQL: a private server for each run, on a copy of a loaded cluster",
    knobs=KNOBS,
    rates=RATES_OF_SERVERS,
    max_connections=500,
    connections_reason="PostgreSQL keeps a process for each connection; more than five hundred measure the scheduler",
    results=RESULTS,
    chapters="bufferlab.engines.postgres.chapters",
    min_frames=128,
    # A row has a header of 24 bytes and an item pointer, and an index holds its key again.
    size_factor=1.5,
    # The three system databases, and the log that a run begins with.
    base_bytes=64 * MIB,
    start_seconds=1.5,
    data_kind="directory",
    is_server=True,
    needs_unprivileged_user=True,
    default_connections=8,
    # A new version of a row goes where there is room (heapam.c, heap_update).
    updates_move_rows=True,
    rounds=("pool_size", "memory_limit", "max_wal_size", "min_wal_size", "wal_buffers"),
    passes_through=PREFIX,
    changes_host=True,
    notes=(
        "reads are the server's: some of them are served by the page cache (memory_limit bounds it)",
        "autovacuum off: old row versions stay for the length of a run, which begins from a vacuumed database",
    ),
)
