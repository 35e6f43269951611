"""The counts that an observation of a running server shows, for every family, each with its unit and title.

If runs have a count too, it is the same metric. Each family's metrics say which server counter gives a count; the
family's `Look` computes counts from several counters. docs/observe.md has their meaning on each server.
"""

from __future__ import annotations

from dataclasses import replace

from bufferlab.results.metrics import Device, Engine, MetricTable, counter


# fmt: off
class Counts(MetricTable, probe="look", source="the server's own counters, over all its sessions but ours"):
    """Counts over the whole server, in the order of tables."""

    page_gets = replace(Engine.page_gets, title="Gets")
    misses = replace(Engine.demand_misses, title="Misses")
    pages_read = replace(Engine.pages_read, title="Pages read")
    pages_created = replace(Engine.pages_created, title="Pages made")
    pages_written = replace(Engine.pages_written, title="Pages written")
    read_ahead_pages = counter("pages", "neither", "Pages read ahead")
    read_ahead_evicted_pages = counter("pages", "lower", "Pages read ahead in vain")
    ring_pages_read = counter("pages", "neither", "Pages read through a scan's ring")
    temporary_pages_read = counter("pages", "lower", "Pages of temporary tables read")
    evicted_pages = counter("pages", "lower", "Pages evicted")
    free_frame_waits = counter("waits", "lower", "Waits for a free frame")
    backend_written_pages = counter("pages", "lower", "Pages that sessions wrote themselves")
    cleaner_stops = counter("rounds", "lower", "Rounds that the background writer cut short")
    doublewrite_pages = counter("pages", "lower", "Pages to the doublewrite buffer")
    log_bytes = counter("bytes", "lower", "Bytes of log")
    log_waits = counter("waits", "lower", "Waits for the log buffer")
    checkpoints_requested = counter("checkpoints", "lower", "Checkpoints that the log's size forced")
    checkpoints_timed = counter("checkpoints", "neither", "Checkpoints on time")
    statements = counter("statements", "neither", "Statements")
    transactions = counter("transactions", "neither", "Transactions")
    commits = counter("statements", "neither", "COMMIT statements")
    rollbacks = counter("transactions", "neither", "Rollbacks")
    read_ms = counter("ms", "lower", "Time of reads (ms)")
    statement_ms = counter("ms", "lower", "Time of statements (ms)")
    device_reads = replace(Device.device_reads, title="Reads of the device, all programs'")
    device_read_bytes = replace(Device.device_read_bytes, title="Bytes read from the device, all programs'")
    device_read_ms = replace(Device.device_read_ms, title="Time of the device's reads, all programs' (ms)")
    device_writes = replace(Device.device_writes, title="Writes of the device, all programs'")
    device_write_bytes = replace(Device.device_write_bytes, title="Bytes written to the device, all programs'")
# fmt: on


LEVELS = {
    "pool_size_bytes": "Size of the pool",
    "pool_pages": "Pages of the pool",
    "data_pages": "Pages with data",
    "free_pages": "Free pages",
    "dirty_pages": "Dirty pages",
    "old_pages": "Pages in the old part of the LRU list",
    "misc_pages": "Pages for other purposes",
    "instances": "Instances of the pool",
    "chunk_size": "Size of a chunk of the pool",
    "chunk_size_bytes": "Size of a chunk of the pool",
    "log_age_bytes": "Log since the last checkpoint",
    "log_capacity_bytes": "Room for log between checkpoints",
    "history_list_length": "Length of the history list",
    "connections": "Connections",
    "pages_by_usage_count": "Pages by usage count",
}
"""The titles of a server's levels, by name, in the order of tables."""


def level_title(name: str) -> str:
    """Return the title of a level; PostgreSQL has one for each usage count.

    >>> level_title("free_pages"), level_title("usage_count_5_pages")
    ('Free pages', 'Pages with usage count 5')
    """
    return LEVELS.get(name) or name.replace("usage_count_", "Pages with usage count ").removesuffix("_pages")


MEANINGS = {row.name: row.meaning for row in Counts.rows}
"""The meaning of each count, by name. For a count that only observations have, it equals the title."""
TITLES = {row.name: row.title or row.meaning for row in Counts.rows}
"""The counts' titles by name, in the order of tables."""
