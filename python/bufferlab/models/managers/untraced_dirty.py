"""How PostgreSQL writes dirty buffers in a generated run: for a slow load and for a fast one.

Sessions, the background writer and checkpoints write, by the same rules as for a traced run (`dirty_buffers`). The last
two follow the clock, and the load's speed is unknown without a run. So the prediction is a range between two speeds.
"""

from __future__ import annotations

from dataclasses import replace

from bufferlab.models.access_rules import wal_of
from bufferlab.models.managers.declaration import Traced
from bufferlab.models.managers.dirty_buffers import DEFAULTS, DirtyBuffers
from bufferlab.models.managers.untraced import CLOCK_PER_S, AgeWriting, uncalibrated
from bufferlab.results.page_traces import Replayed
from bufferlab.versions import SERVERS

_SPEEDS = (0.5, 4.0)
"""The assumed speeds of the slow and the fast load, relative to the generator's clock. Real loads lie between them."""
_LOG = {"data_checksums": "off", "full_page_writes": "on", "wal_compression": "off"}
"""The settings that change the contents of the WAL -> the values with which its bytes were measured."""


def untraced_dirty_buffers(seen: Traced) -> AgeWriting | str:
    """Return how the server writes dirty buffers in a generated run, or why that is unknown."""
    wal = wal_of(seen.server.engine, seen.server.version)
    if wal is None:
        return uncalibrated(f"{SERVERS[seen.server.engine]} {seen.server.version}")
    if other := [f"{name} = {seen.words[name]}" for name, own in _LOG.items() if seen.words.get(name, own) != own]:
        return uncalibrated(" and ".join(other))
    rules = DirtyBuffers(
        ran={name: seen.numbers.get(name, default) for name, default in DEFAULTS.items()},
        change_bytes=wal.bytes_of_change,
        image_bytes=wal.bytes_of_image,
        io_share=None,
        redo_bytes=0,
        images=0,
        seconds=0.0,
    )
    slow, fast = (round(speed * CLOCK_PER_S) for speed in _SPEEDS)

    def log_bytes(changes: int, found: Replayed) -> int:
        return changes * wal.bytes_of_change + found.page_images * wal.bytes_of_image

    def checkpoints(log: int) -> float:
        # The fast load's window lasts the shortest time, so it has the fewest checkpoints.
        return replace(rules, seconds=seen.transactions / fast).checkpoints(log)

    return AgeWriting(
        ends=(
            rules.at(_SPEEDS[0], f"{slow} transactions a second"),
            rules.at(_SPEEDS[1], f"{fast:,} transactions a second"),
        ),
        times=(1.0, 1.0),
        copies_per_page=0.0,
        log_bytes=log_bytes,
        checkpoints=checkpoints,
        depends_on=rules.depends_on,
        notes=(f"Writes are those of loads of {slow} to {fast:,} transactions a second.",),
    )
