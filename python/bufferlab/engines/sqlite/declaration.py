"""SQLite's knobs and limits. Pure data; the defaults suit a sweep that studies reads.

The knobs follow sqlite.org/pragma.html and the core's VFS and page cache.
"""

from __future__ import annotations

from bufferlab.engines.declaration import DeclaredRates, EngineDeclaration
from bufferlab.engines.read_ahead_knob import READ_AHEAD
from bufferlab.knob import Knob
from bufferlab.units import KIB, MIB, TIB

_KNOBS: tuple[Knob, ...] = (
    Knob.size("page_size", "bytes of a database page; in direct mode at least the device's logical block", default="4k",
              minimum=512, maximum=64 * KIB, power_of_two=True, decides_file=True),
    # The minimum is `min_frames` pages of the smallest size: the tree paths of all cursors of one statement must fit.
    # The maximum is the largest number of frames that SQLite can count (31 bits), at 512 B each.
    Knob.size_or_share("pool_size", "bytes of page frames in the buffer pool; a share is of the loaded database",
                       default="20%", minimum=32 * KIB, maximum=TIB // 2),
    Knob.choice("io_mode", ("direct", "buffered"),
                "direct: past the page cache (O_DIRECT); buffered: misses may be served by memory", default="direct"),
    Knob.choice("pcache", ("ours", "stock"),
                "the page pool: ours (aligned frames, LRU, exact counters) or SQLite's own pcache1", default="ours"),
    Knob.choice("synchronous", ("off", "normal", "full"),
                "when SQLite waits for the device; normal and full make the sweep write-bound", default="off"),
    Knob.size("wal_autocheckpoint",
              "bytes of write-ahead log after which it is copied back; a long log is a second cache", default="1MiB",
              minimum=64 * KIB, maximum=1024 * MIB),
    Knob.choice("locking_mode", ("normal", "exclusive"), "exclusive keeps the lock between transactions",
                default="exclusive"),
    READ_AHEAD,
)  # fmt: skip

DECLARATION = EngineDeclaration(
    name="sqlite",
    meaning="SQLite, bundled; direct I/O on the database file and a page pool in aligned frames",
    knobs=_KNOBS,
    rates=DeclaredRates(
        load_bytes_per_s=90 * MIB,
        restore_bytes_per_s=500 * MIB,
        warm_up_bytes_per_s=60 * MIB,
        transactions_per_s=2000.0,
        check_bytes_per_s=120 * MIB,
    ),
    max_connections=1,
    connections_reason="SQLite gives each connection a cache of its own, so one connection drives all terminals",
    results_in="bufferlab.engines.sqlite.results",
    min_frames=64,
    changes_host=True,
    notes=("the write-ahead log is always buffered: a miss may be served by it",),
)
