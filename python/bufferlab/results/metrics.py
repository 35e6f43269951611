"""The metric registry: every raw metric and every derived figure, declared once.

It says what a number means, its unit and who counts it. It computes nothing: `derive` holds the formulas.
Device columns follow the kernel's Documentation/admin-guide/iostats.rst, CPU columns follow mpstat(1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "ratio", "latency"]
Better = Literal["lower", "higher", "neither"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared metric: what it is called, what it counts and in which unit."""

    name: str
    unit: str
    kind: Kind
    better: Better
    meaning: str
    source: str
    probe: str
    title: str = ""

    @property
    def label(self) -> str:
        """The words a reader sees: the title, or the name with its underscores opened up."""
        return self.title or self.name.replace("_", " ")


def _group(probe: str, source: str, kind: Kind, rows: list[tuple[str, str, Better, str]]) -> list[Metric]:
    return [Metric(name, unit, kind, better, meaning, source, probe) for name, unit, better, meaning in rows]


_SQLITE_COUNTERS = _group(
    "engine",
    "SQLite: sqlite3_db_status, the VFS and the page pool of bufferlab",
    "counter",
    [
        ("page_gets", "gets", "neither", "logical page requests (SQLite CACHE_HIT + CACHE_MISS)"),
        (
            "demand_misses",
            "gets",
            "lower",
            "gets that found no page in the pool (CACHE_MISS); the WAL may serve some",
        ),
        ("pages_read", "pages", "lower", "whole pages read from the database file"),
        ("pages_written", "pages", "lower", "whole pages written to the database file"),
        ("pages_created", "pages", "neither", "pages added to the database"),
        (
            "pages_spilled",
            "pages",
            "lower",
            "dirty pages written before commit to free a frame (CACHE_SPILL)",
        ),
        ("db_read_bytes", "bytes", "lower", "bytes read from the database file"),
        ("db_write_bytes", "bytes", "lower", "bytes written to the database file"),
        ("db_other_reads", "reads", "lower", "reads of the database file that are not whole pages"),
        ("wal_reads", "reads", "lower", "reads of the write-ahead log"),
        ("wal_read_bytes", "bytes", "lower", "bytes read from the write-ahead log"),
        ("wal_writes", "writes", "lower", "writes to the write-ahead log"),
        ("wal_write_bytes", "bytes", "lower", "bytes written to the write-ahead log"),
        ("db_syncs", "syncs", "lower", "syncs of the database file"),
        ("wal_syncs", "syncs", "lower", "syncs of the write-ahead log"),
        (
            "bounce_reads",
            "reads",
            "lower",
            "direct reads that needed a copy because the frame was not aligned",
        ),
        (
            "bounce_writes",
            "writes",
            "lower",
            "direct writes that needed a copy because the frame was not aligned",
        ),
        ("db_read_ns", "ns", "lower", "time inside reads of the database file"),
        ("db_write_ns", "ns", "lower", "time inside writes of the database file"),
        ("pool_fetches", "gets", "neither", "fetches the page pool was asked for"),
        ("pool_hits", "gets", "higher", "fetches the page pool answered from memory"),
        ("pool_evictions", "pages", "lower", "pages evicted to make room"),
        ("pool_recycled", "pages", "neither", "frames given to a new page without leaving the pool"),
    ],
)

_SQLITE_GAUGES = _group(
    "engine",
    "the page pool and the files of bufferlab's SQLite",
    "gauge",
    [
        ("pool_frames", "pages", "neither", "frames the pool may hold"),
        ("pool_frames_used", "pages", "neither", "frames that hold a page"),
        (
            "pool_overflow_frames",
            "pages",
            "lower",
            "frames beyond the limit, taken while every page was pinned",
        ),
        ("db_bytes", "bytes", "neither", "size of the database file"),
        ("wal_bytes", "bytes", "lower", "size of the write-ahead log"),
    ],
)

_WORKLOAD = _group(
    "workload",
    "the TPC-C driver, exact counters of its own",
    "counter",
    [
        ("transactions_committed", "transactions", "higher", "transactions committed, per type"),
        ("transactions_rolled_back", "transactions", "neither", "transactions rolled back as the workload asks, per type"),
    ],
) + [
    Metric(f"service_{name}_us", "us", "latency", "lower", f"{name} service time of the last second, per type",
           "the TPC-C driver's histogram", "workload")
    for name in ("mean", "p50", "p95", "p99", "max")
]  # fmt: skip

_PROCESS = _group(
    "process",
    "/proc/self/stat, /proc/self/io, /proc/self/statm and the driver thread's CPU clock",
    "counter",
    [
        ("process_user_us", "us", "lower", "CPU time of the worker in user mode"),
        ("process_system_us", "us", "lower", "CPU time of the worker in the kernel"),
        ("driver_cpu_us", "us", "lower", "CPU time of the driver thread"),
        ("process_read_bytes", "bytes", "lower", "bytes the worker caused to be read from storage"),
        ("process_write_bytes", "bytes", "lower", "bytes the worker caused to be sent to storage"),
        ("process_minor_faults", "faults", "lower", "page faults served without I/O"),
        ("process_major_faults", "faults", "lower", "page faults that needed I/O"),
    ],
) + [
    Metric("resident_bytes", "bytes", "gauge", "neither", "resident memory of the worker", "/proc/self/statm", "process")
]  # fmt: skip

_DEVICE = _group(
    "device",
    "/proc/diskstats of the whole disk that holds the data",
    "counter",
    [
        ("device_reads", "requests", "lower", "read requests completed"),
        ("device_reads_merged", "requests", "neither", "read requests merged before they were issued"),
        ("device_read_bytes", "bytes", "lower", "bytes read"),
        ("device_read_ms", "ms", "lower", "time of all reads, from queued to completed"),
        ("device_writes", "requests", "lower", "write requests completed"),
        ("device_writes_merged", "requests", "neither", "write requests merged before they were issued"),
        ("device_write_bytes", "bytes", "lower", "bytes written"),
        ("device_write_ms", "ms", "lower", "time of all writes, from queued to completed"),
        ("device_busy_ms", "ms", "lower", "time with at least one request in flight"),
        ("device_queue_ms", "ms", "lower", "time weighted by the requests in flight"),
        ("device_discards", "requests", "neither", "discard requests completed"),
        ("device_discards_merged", "requests", "neither", "discard requests merged"),
        ("device_discard_bytes", "bytes", "neither", "bytes discarded"),
        ("device_discard_ms", "ms", "neither", "time of all discards"),
        ("device_flushes", "requests", "lower", "flush requests completed"),
        ("device_flush_ms", "ms", "lower", "time of all flushes"),
    ],
) + [
    Metric("device_in_flight", "requests", "gauge", "lower", "requests in flight at the sample", "/proc/diskstats", "device")
]  # fmt: skip

#: mpstat's columns, in mpstat's order. They add up to the whole time of a core.
CPU_COLUMNS = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")

_CPU = [
    Metric(
        f"cpu_{column}_us",
        "us",
        "counter",
        "neither",
        f"CPU time in mpstat's column %{column}",
        "/proc/stat",
        "cpu",
    )
    for column in CPU_COLUMNS
]

_MEMORY = _group(
    "memory",
    "/proc/meminfo and /proc/stat",
    "gauge",
    [
        ("memory_total_bytes", "bytes", "neither", "memory of the host"),
        ("memory_free_bytes", "bytes", "neither", "memory no one uses"),
        ("memory_available_bytes", "bytes", "higher", "memory a program could still get"),
        ("memory_buffers_bytes", "bytes", "neither", "page cache of block devices"),
        ("memory_cached_bytes", "bytes", "neither", "page cache of files"),
        ("memory_dirty_bytes", "bytes", "neither", "page cache waiting to be written"),
        ("memory_writeback_bytes", "bytes", "neither", "page cache being written"),
        ("run_queue_length", "tasks", "lower", "tasks that run or wait for a core"),
        ("blocked_processes", "tasks", "lower", "tasks blocked on I/O"),
    ],
) + _group(
    "memory",
    "/proc/stat and /proc/vmstat",
    "counter",
    [
        ("context_switches", "switches", "lower", "context switches of the host"),
        ("interrupts", "interrupts", "lower", "interrupts of the host"),
        ("swap_in_pages", "pages", "lower", "pages brought in from swap"),
        ("swap_out_pages", "pages", "lower", "pages put out to swap"),
        ("paged_in_bytes", "bytes", "lower", "bytes the host read from block devices"),
        ("paged_out_bytes", "bytes", "lower", "bytes the host wrote to block devices"),
    ],
)  # fmt: skip


def _derived(name: str, unit: str, kind: Kind, better: Better, title: str, meaning: str) -> Metric:
    return Metric(name, unit, kind, better, meaning, "derived from the edge samples", "derived", title)


def _io_per(one: str, unit: str, label: str) -> list[Metric]:
    """The same figures per New-Order and per transaction; New-Orders include the 1 % rolled back."""
    rows: list[tuple[str, str, str, Better, str]] = [
        ("reads", "pages", "Reads", "lower", "whole pages read from the database file"),
        ("misses", "gets", "Misses", "lower", "page gets that found no page in the pool"),
        ("page_gets", "gets", "Page gets", "neither", "logical page requests"),
        ("writes", "pages", "Writes", "lower", "whole pages written to the database file"),
        ("read_bytes", "bytes", "Bytes read", "lower", "bytes read from the database file"),
        ("write_bytes", "bytes", "Bytes written", "lower", "bytes written to the database file"),
        ("wal_read_bytes", "bytes", "Log bytes read", "lower", "bytes read from the write-ahead log"),
        ("wal_write_bytes", "bytes", "Log bytes written", "lower", "bytes written to the write-ahead log"),
        ("device_reads", "requests", "Device reads", "lower", "read requests the device completed"),
        ("device_writes", "requests", "Device writes", "lower", "write requests the device completed"),
    ]
    return [
        _derived(f"{name}_per_{one}", f"{top}/{unit}", "ratio", better, f"{title} per {label}",
                 f"{meaning}, over {label}s completed in the measured window")
        for name, top, title, better, meaning in rows
    ]  # fmt: skip


def _device_direction(word: str, better: Better) -> list[Metric]:
    """The iostat -x columns of one direction (read, write or discard)."""
    return [
        _derived(f"device_{word}s_per_s", "requests/s", "ratio", "neither", f"{word[0]}/s", f"{word} requests completed a second"),
        _derived(f"device_{word}_kib_per_s", "KiB/s", "ratio", "neither", f"{word[0]}kB/s", f"KiB a second ({word})"),
        _derived(f"device_{word}s_merged_per_s", "requests/s", "ratio", "neither", f"{word[0]}rqm/s",
                 f"{word} requests merged a second"),
        _derived(f"device_{word}s_merged_ratio", "1", "ratio", "neither", f"%{word[0]}rqm",
                 f"share of {word} requests merged before they were issued"),
        _derived(f"device_{word}_await_ms", "ms/request", "latency", better, f"{word[0]}_await", f"mean time of a {word}, queue included"),
        _derived(f"device_{word}_size_kib", "KiB/request", "ratio", "neither", f"{word[0]}areq-sz", f"mean size of a {word} request"),
    ]  # fmt: skip


_DERIVED = [
    *_io_per("new_order", "New-Order", "New-Order"),
    *_io_per("transaction", "transaction", "transaction"),
    _derived("hit_ratio", "1", "ratio", "higher", "Hit ratio", "1 - demand_misses / page_gets over the measured window"),
    _derived("new_orders_per_s", "New-Order/s", "ratio", "higher", "New-Orders per second", "New-Orders completed, rolled back included"),
    _derived("new_orders_committed_per_s", "New-Order/s", "ratio", "higher", "New-Orders committed per second", "New-Orders committed"),
    _derived("new_orders_rolled_back_per_s", "New-Order/s", "ratio", "neither", "New-Orders rolled back per second", "New-Orders rolled back"),
    _derived("transactions_per_s", "transaction/s", "ratio", "higher", "Transactions committed per second", "transactions committed, all types"),
    _derived("transactions_rolled_back_per_s", "transaction/s", "ratio", "neither", "Transactions rolled back per second",
             "transactions rolled back, all types"),
    _derived("reads_per_s", "pages/s", "ratio", "neither", "Reads per second", "whole pages read from the database file a second"),
    _derived("misses_per_s", "gets/s", "ratio", "neither", "Misses per second", "demand misses a second"),
    _derived("writes_per_s", "pages/s", "ratio", "neither", "Writes per second", "whole pages written to the database file a second"),
    _derived("read_bytes_per_s", "bytes/s", "ratio", "neither", "Bytes read per second", "bytes read from the database file a second"),
    _derived("write_bytes_per_s", "bytes/s", "ratio", "neither", "Bytes written per second", "bytes written to the database file a second"),
    _derived("read_us", "us/read", "latency", "lower", "Mean database read", "mean time of one read of the database file"),
    _derived("write_us", "us/write", "latency", "lower", "Mean database write", "mean time of one write of the database file"),
    _derived("cpu_us_per_transaction", "us/transaction", "ratio", "lower", "Worker CPU per transaction", "user and system time of the worker"),
    _derived("driver_cpu_us_per_transaction", "us/transaction", "ratio", "lower", "Driver CPU per transaction", "CPU time of the driver thread"),
    *_device_direction("read", "lower"),
    *_device_direction("write", "lower"),
    *_device_direction("discard", "lower"),
    _derived("device_flushes_per_s", "requests/s", "ratio", "neither", "f/s", "flush requests completed a second"),
    _derived("device_flush_await_ms", "ms/request", "latency", "lower", "f_await", "mean time of a flush"),
    _derived("device_queue_length", "1", "ratio", "lower", "aqu-sz", "mean requests in flight"),
    _derived("device_busy_ratio", "1", "ratio", "lower", "%util", "share of the window with a request in flight"),
    *[
        _derived(f"cpu_{column}_share", "1", "ratio", "neither", f"%{column}", f"share of all cores' time in mpstat's column %{column}")
        for column in CPU_COLUMNS
    ],
    _derived("measured_seconds", "s", "gauge", "neither", "Measured window", "wall time between the two edge samples"),
    _derived("new_orders", "New-Order", "counter", "neither", "New-Orders completed", "in the measured window, rolled back included"),
    _derived("transactions", "transaction", "counter", "neither", "Transactions completed", "in the measured window, rolled back included"),
]  # fmt: skip

_RAW_LIST = [*_SQLITE_COUNTERS, *_SQLITE_GAUGES, *_WORKLOAD, *_PROCESS, *_DEVICE, *_CPU, *_MEMORY]

#: What probes and engines emit, by name.
RAW: dict[str, Metric] = {metric.name: metric for metric in _RAW_LIST}
#: What `derive` computes from a run's edge samples, by name.
DERIVED: dict[str, Metric] = {metric.name: metric for metric in _DERIVED}

if len(RAW) != len(_RAW_LIST) or len(DERIVED) != len(_DERIVED) or RAW.keys() & DERIVED.keys():
    raise AssertionError("a metric is declared twice")


def get(name: str) -> Metric:
    """The declaration of one metric, raw or derived."""
    metric = RAW.get(name) or DERIVED.get(name)
    if metric is None:
        raise KeyError(f"no metric is called {name!r}")
    return metric


def everything() -> list[Metric]:
    """All metrics, raw first, in the order declared."""
    return [*RAW.values(), *DERIVED.values()]
