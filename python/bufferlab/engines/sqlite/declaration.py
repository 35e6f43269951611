"""SQLite's knobs and limits. Pure data; the defaults are those of a read-side sweep.

They follow sqlite.org/pragma.html and the core's VFS and page cache.
"""

from __future__ import annotations

from bufferlab.engines.declaration import EngineDeclaration, Rates
from bufferlab.engines.read_ahead_knob import READ_AHEAD
from bufferlab.engines.sqlite.results import RESULTS
from bufferlab.knob import Knob, KnobKind
from bufferlab.units import KIB, MIB, TIB

DECLARATION = EngineDeclaration(
    name="sqlite",
    meaning="SQLite, bundled; direct I/O on the database file and a page pool in aligned frames",
    knobs=(
        Knob(
            name="page_size",
            native_name="page_size_bytes",
            kind=KnobKind.SIZE,
            unit="bytes",
            default="4k",
            minimum=512,
            maximum=64 * KIB,
            power_of_two=True,
            decides_file=True,
            meaning="bytes of a database page; in direct mode at least the device's logical block",
        ),
        Knob(
            name="pool_size",
            native_name="pool_size_bytes",
            kind=KnobKind.SIZE_OR_SHARE,
            unit="bytes",
            default="20%",
            # min_frames of the smallest page: the paths of all cursors of one statement must fit.
            minimum=32 * KIB,
            # SQLite counts frames in 31 bits, which is this many bytes at 512 B a frame.
            maximum=TIB // 2,
            meaning="bytes of page frames in the buffer pool; a share is of the loaded database",
        ),
        Knob(
            name="io_mode",
            native_name="io_mode",
            kind=KnobKind.CHOICE,
            unit="",
            default="direct",
            choices=("direct", "buffered"),
            meaning="direct: past the page cache (O_DIRECT); buffered: misses may be served by memory",
        ),
        Knob(
            name="pcache",
            native_name="pcache",
            kind=KnobKind.CHOICE,
            unit="",
            default="ours",
            choices=("ours", "stock"),
            meaning="the page pool: ours (aligned frames, LRU, exact counters) or SQLite's own pcache1",
        ),
        Knob(
            name="synchronous",
            native_name="synchronous",
            kind=KnobKind.CHOICE,
            unit="",
            default="off",
            choices=("off", "normal", "full"),
            meaning="when SQLite waits for the device; normal and full make the sweep write-bound",
        ),
        Knob(
            name="wal_autocheckpoint",
            native_name="wal_autocheckpoint_bytes",
            kind=KnobKind.SIZE,
            unit="bytes",
            default="1MiB",
            minimum=64 * KIB,
            maximum=1024 * MIB,
            meaning="bytes of write-ahead log after which it is copied back; a long log is a second cache",
        ),
        Knob(
            name="locking_mode",
            native_name="locking_mode",
            kind=KnobKind.CHOICE,
            unit="",
            default="exclusive",
            choices=("normal", "exclusive"),
            meaning="exclusive keeps the lock between transactions",
        ),
        READ_AHEAD,
    ),
    rates=Rates(
        load_bytes_per_s=90 * MIB,
        restore_bytes_per_s=500 * MIB,
        warm_up_bytes_per_s=60 * MIB,
        transactions_per_s=2000.0,
        check_bytes_per_s=120 * MIB,
    ),
    max_connections=1,
    connections_reason="SQLite gives each connection a cache of its own, so one connection drives all terminals",
    results=RESULTS,
    needs_disk=True,
    frame_knob="pool_size",
    page_knob="page_size",
    min_frames=64,
    file_format="sqlite",
    changes_host=True,
    notes=("the write-ahead log is always buffered: a miss may be served by it",),
)
