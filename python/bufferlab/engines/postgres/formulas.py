"""The formulas of PostgreSQL's values: where a page came from, who wrote pages, what went into the log.

A page get is served by shared buffers, by the kernel's page cache, or by the device. The server tells the first from
the other two (pg_stat_database: blks_hit, blks_read). It cannot tell those two apart, because it reads files through
the page cache. The kernel tells what it read from storage for each of the server's processes (read_bytes in
/proc/PID/io). Where the kernel does not, the device tells what it read for all programs. So a page from the page cache
is one that the server read and no device did. Where the kernel reads ahead, the device may read more than the server
asks for, and the split cannot be told.
"""

from __future__ import annotations

from bufferlab.engines.postgres.metrics import RAW as OWN
from bufferlab.results.metrics import RAW
from bufferlab.results.quantity import Quantity, Unit
from bufferlab.results.sampled import Sampled
from bufferlab.results.window import Value, Window

counted = Sampled(RAW.values(), OWN).counted

PAGE_BYTES = 8192
#: Metrics that every run of PostgreSQL has and no other.
MARK = "postgres_database_xact_commit"
NOT_POSTGRES = "the engine is not PostgreSQL"
NO_SPLIT = (
    "more was read from the device than the server asked for: by the kernel's read-ahead, or for other programs; "
    "what the page cache served cannot be told"
)
#: The surplus that makes the split be given up: pages more than the server asked for, and their share of its reads.
_STRAY_PAGES, _STRAY_SHARE = 256, 0.02
_BACKEND_WRITES_UNTIL_16 = "postgres_bgwriter_buffers_backend"
_BACKEND_WRITES_SINCE_17 = ("postgres_io_normal_writes", "postgres_io_bulkread_writes")


def _of_postgres(unit: str, name: str, *metrics: str) -> Quantity:
    """Return the change of the first counter less those of the others, in runs of PostgreSQL."""

    def evaluate(window: Window) -> Value:
        if MARK not in window.end:
            return Value(None, NOT_POSTGRES)
        found = [window.change(metric) for metric in metrics]
        missing = next((value.reason for value in found if value.value is None), None)
        if missing:
            return Value(None, missing)
        first, *others = (value.value or 0.0 for value in found)
        return Value(first - sum(others))

    return Quantity(Unit.parse(unit), evaluate, name, frozenset({MARK, *metrics}))


def _device_pages(window: Window) -> Value:
    if MARK not in window.end:
        return Value(None, NOT_POSTGRES)
    read = window.change("server_read_bytes")
    if read.value is None:
        read = window.change("device_read_bytes")
    return read if read.value is None else Value(read.value / PAGE_BYTES)


def _page_cache_pages(window: Window) -> Value:
    device, read = _device_pages(window), window.change("pages_read")
    if device.value is None or read.value is None:
        return Value(None, device.reason or read.reason)
    left = read.value - device.value
    if left < -max(_STRAY_PAGES, _STRAY_SHARE * read.value):
        return Value(None, NO_SPLIT)
    return Value(max(0.0, left))


def _page_cache_share(window: Window) -> Value:
    cached, read = _page_cache_pages(window), window.change("pages_read")
    if cached.value is None or not read.value:
        return Value(None, cached.reason or read.reason or "nothing was read in the measured window")
    return Value(cached.value / read.value)


def _backend_writes(window: Window) -> Value:
    """Return the pages that backends wrote.

    Until 16 the background writer's view counts them; from 17 on pg_stat_io does.
    """
    if MARK not in window.end:
        return Value(None, NOT_POSTGRES)
    old = window.change(_BACKEND_WRITES_UNTIL_16)
    if old.value is not None:
        return old
    parts = [window.change(metric) for metric in _BACKEND_WRITES_SINCE_17]
    missing = next((part.reason for part in parts if part.value is None), None)
    return Value(None, missing) if missing else Value(sum(part.value or 0.0 for part in parts))


HITS = _of_postgres("gets", "shared-buffer hits", "page_gets", "demand_misses")
_PAGES = Unit.parse("pages")
_DEVICE = frozenset({MARK, "server_read_bytes", "device_read_bytes"})
_CACHE = _DEVICE | {"pages_read"}
_WRITERS = frozenset({MARK, _BACKEND_WRITES_UNTIL_16, *_BACKEND_WRITES_SINCE_17})
DEVICE_PAGES = Quantity(_PAGES, _device_pages, "pages from the device", _DEVICE)
PAGE_CACHE_PAGES = Quantity(_PAGES, _page_cache_pages, "pages from the page cache", _CACHE)
BACKEND_WRITES = Quantity(_PAGES, _backend_writes, "pages written by connections", _WRITERS)
_HEAP_READ = counted("postgres_statio_heap_blks_read") - counted("postgres_growth_heap_pages")
_INDEX_READ = counted("postgres_statio_idx_blks_read") - counted("postgres_growth_idx_pages")
TABLES_GETS = (
    (_HEAP_READ + _INDEX_READ).counted_as("gets")
    + counted("postgres_statio_heap_blks_hit")
    + counted("postgres_statio_idx_blks_hit")
)

#: What the formulas in `metrics` name.
QUANTITIES = {
    "shared_buffer_hits": HITS,
    "page_cache_pages": PAGE_CACHE_PAGES,
    "page_cache_share": Quantity(Unit.parse("1"), _page_cache_share, "page-cache share", _CACHE),
    "device_pages": DEVICE_PAGES,
    "heap_pages_read": _HEAP_READ,
    "index_pages_read": _INDEX_READ,
    "wal_log_bytes": _of_postgres("bytes", "log bytes", "postgres_wal_bytes"),
    "backend_writes": BACKEND_WRITES,
}
