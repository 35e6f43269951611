"""The metric registry: every raw metric and every derived value, declared once.

It says what a number means, its unit, who counts it, and the formula of a derived one. It computes nothing: `derive`
does. This file has the metrics that any engine may have; a family of engines declares its own, and `handed_in` adds
them. Device columns follow the kernel's Documentation/admin-guide/iostats.rst, CPU columns follow mpstat(1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, cast

Kind = Literal["counter", "gauge", "ratio", "share", "latency"]
Better = Literal["lower", "higher", "neither"]
Scale = Literal["log", "linear"]
Work = Literal["new_order", "transaction"]

#: The units of work that counts are told per, and their names in titles and units.
WORK: dict[Work, str] = {"new_order": "New-Order", "transaction": "transaction"}
#: The properties that the last cell of a derived value's row may give it.
_LONG_WINDOW, _LOG_SCALE, _NOT_FROM_ZERO = "long window", "log scale", "not from zero"


@dataclass(frozen=True, slots=True)
class Metric:
    """One declared metric: its name, what it counts, its unit, and how a reader must be shown it."""

    name: str
    unit: str
    kind: Kind
    """A share is a part of a whole, 0 to 1; any other number without a unit is a ratio."""
    better: Better
    meaning: str
    source: str
    probe: str
    title: str = ""
    scale: Scale = "log"
    """How values are compared: by ratio where all are above zero, or always by difference."""
    needs_long_window: bool = False
    """True if checkpoints and the host's weather move it, so that a short window can claim nothing about it."""
    from_zero: bool = True
    """True if an axis starts at zero: shares near one would be a flat line."""
    count: str = ""
    """The count that is told per unit of work ("reads" of reads_per_new_order); "" for any other metric."""
    work: Work | None = None
    """The unit of work that the count is told per."""
    formula: str = ""
    """What a derived value is computed as, before it is divided by `work`: see `results.formula`."""

    @property
    def label(self) -> str:
        """Return the words a reader sees: the title, or the name with spaces for its underscores."""
        return self.title or self.name.replace("_", " ")

    @property
    def is_share(self) -> bool:
        """Return whether a reader is shown per cent, and differences in percentage points."""
        return self.kind == "share"

    @property
    def is_timed(self) -> bool:
        """Return whether the value is a time or a rate: then a stretch in which nothing ran changes it."""
        return self.kind == "latency" or "seconds" in self.formula

    @property
    def top_unit(self) -> str:
        """Return the unit of the metric's numerator: "pages" of pages/New-Order."""
        return self.unit.partition("/")[0]

    @property
    def per(self) -> str:
        """Return the unit of the metric's denominator: "New-Order" of pages/New-Order; "" where there is none."""
        return self.unit.partition("/")[2]


def _cells(table: str) -> list[list[str]]:
    """Return the rows of a table written as text, `|` between its cells."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def raw(probe: str, source: str, kind: Kind, table: str) -> list[Metric]:
    """Return metrics of rows: name | unit | which way is better | meaning."""
    return [
        Metric(name, unit, kind, cast(Better, better), meaning, source, probe)
        for name, unit, better, meaning in _cells(table)
    ]


def derived(table: str) -> list[Metric]:
    """Return metrics of rows: name | unit | kind | better | title | meaning [| "long window"] [| = formula].

    A value without a formula is the quantity of its own name.
    """
    return [_derived(*row) for row in _cells(table)]


def counts_per_work(table: str) -> list[Metric]:
    """Return the metrics of counts over each unit of work, those rolled back included.

    Rows of: count | unit | which way is better | title | meaning [| "long window"] [| = formula of the count].
    """
    found = []
    for work, one in WORK.items():
        for count, unit, better, title, meaning, *said in _cells(table):
            row = (per_work(count, work), f"{unit}/{one}", "ratio", better, f"{title} per {one}", meaning, *said)
            one_of = _derived(*row)
            found.append(replace(one_of, count=count, work=work, formula=one_of.formula or count))
    return found


def per_work(count: str, work: Work) -> str:
    """Return the name of a count told per unit of work.

    >>> per_work("reads", "new_order")
    'reads_per_new_order'
    """
    return f"{count}_per_{work}"


def _derived(name: str, unit: str, kind: str, better: str, title: str, meaning: str, *more: str) -> Metric:
    """Return one derived value; AssertionError if its row says of it something that nothing here understands."""
    said = [cell for cell in more if not cell.startswith("=")]
    if unknown := set(said) - {_LONG_WINDOW, _LOG_SCALE, _NOT_FROM_ZERO}:
        raise AssertionError(f"{name}: {unknown} is not understood")
    return Metric(
        name,
        unit,
        cast(Kind, kind),
        cast(Better, better),
        meaning,
        "the edge samples",
        "derived",
        title,
        # A ratio of two shares near one, or of shares that may be zero, says nothing.
        scale="linear" if kind == "share" and _LOG_SCALE not in said else "log",
        needs_long_window=unit.endswith("/s") or _LONG_WINDOW in said,
        from_zero=_NOT_FROM_ZERO not in said,
        formula="".join(cell.removeprefix("=").strip() for cell in more if cell not in said),
    )


_ENGINE_COUNTERS = """
page_gets        | gets   | neither | logical page requests
demand_misses    | gets   | lower   | gets that found no page in the pool
pages_read       | pages  | lower   | whole pages read from the database file
pages_written    | pages  | lower   | whole pages written to the database file
pages_created    | pages  | neither | pages added to the database
pages_spilled    | pages  | lower   | dirty pages written before commit to free a frame (CACHE_SPILL)
db_read_bytes    | bytes  | lower   | bytes read from the database file
db_write_bytes   | bytes  | lower   | bytes written to the database file
db_other_reads   | reads  | lower   | reads of the database file that are not whole pages
wal_reads        | reads  | lower   | reads of the write-ahead log
wal_read_bytes   | bytes  | lower   | bytes read from the write-ahead log
wal_writes       | writes | lower   | writes to the write-ahead log
wal_write_bytes  | bytes  | lower   | bytes written to the write-ahead log
db_syncs         | syncs  | lower   | syncs of the database file
wal_syncs        | syncs  | lower   | syncs of the write-ahead log
bounce_reads     | reads  | lower   | direct reads copied because the frame was not aligned
bounce_writes    | writes | lower   | direct writes copied because the frame was not aligned
db_read_ns       | ns     | lower   | time inside reads of the database file
db_write_ns      | ns     | lower   | time inside writes of the database file
pool_fetches     | gets   | neither | fetches the page pool was asked for
pool_hits        | gets   | higher  | fetches the page pool answered from memory
pool_admissions  | pages  | neither | pages taken into a frame of the pool because they were not in it
pool_evictions   | pages  | lower   | pages evicted to make room
pool_recycled    | pages  | neither | frames given to a new page without leaving the pool
"""

_ENGINE_GAUGES = """
pool_frames          | pages | neither | frames the pool may hold
pool_frames_used     | pages | neither | frames that hold a page
pool_overflow_frames | pages | lower   | frames beyond the limit, taken while every page was pinned
db_bytes             | bytes | neither | size of the database file
wal_bytes            | bytes | lower   | size of the write-ahead log
"""

_WORKLOAD_COUNTERS = """
transactions_committed   | transactions | higher  | transactions committed, per type
transactions_rolled_back | transactions | neither | transactions rolled back as the workload asks, per type
transaction_retries | executions | lower | executions repeated because the engine asked for it, per type
rows_returned    | rows     | neither | rows that queries returned, per type
arrivals         | arrivals | neither | transactions that arrived in open loop, per type
arrivals_late    | arrivals | lower   | arrivals begun more than a millisecond after their intended start, per type
arrivals_dropped | arrivals | lower   | arrivals given up because they had waited longer than the patience, per type
"""

_WORKLOAD_LATENCIES = """
service_mean_us | us | lower | mean service time of the last second, per type
service_p50_us  | us | lower | median service time of the last second, per type
service_p95_us  | us | lower | 95th percentile of the last second's service times, per type
service_p99_us  | us | lower | 99th percentile of the last second's service times, per type
service_max_us  | us | lower | longest service time of the last second, per type
response_mean_us | us | lower | mean response time of the last second, per type: open loop, from the intended start
response_p50_us  | us | lower | median response time of the last second, per type
response_p95_us  | us | lower | 95th percentile of the last second's response times, per type
response_p99_us  | us | lower | 99th percentile of the last second's response times, per type
response_max_us  | us | lower | longest response time of the last second, per type
"""

_ARRIVAL_LAG = "arrival_lag_us | us | lower | how far the driver is behind the arrivals, in open loop"

_PROCESS_COUNTERS = """
process_user_us      | us     | lower | CPU time of the worker in user mode
process_system_us    | us     | lower | CPU time of the worker in the kernel
driver_cpu_us        | us     | lower | CPU time of the driver thread
process_read_bytes   | bytes  | lower | bytes the worker caused to be read from storage
process_write_bytes  | bytes  | lower | bytes the worker caused to be sent to storage
process_minor_faults | faults | lower | page faults served without I/O
process_major_faults | faults | lower | page faults that needed I/O
"""

_SERVERS_PROCESS = "/proc/PID/io, stat and statm of the database server"
#: The server's own process and its children; the driver's is the probe "process".
_SERVER_COUNTERS = """
server_read_bytes   | bytes  | lower | bytes the server caused to be read from storage
server_write_bytes  | bytes  | lower | bytes the server caused to be sent to storage
server_user_us      | us     | lower | CPU time of the server in user mode, in steps of 10 ms
server_system_us    | us     | lower | CPU time of the server in the kernel, in steps of 10 ms
server_minor_faults | faults | lower | page faults of the server served without I/O
server_major_faults | faults | lower | page faults of the server that needed I/O
"""
_SERVER_LEVELS = """
server_resident_bytes  | bytes | neither | resident memory of the server
server_edge_read_bytes | bytes | neither | bytes it read while an edge was sampled: so far apart may its counters and the kernel's be
"""  # noqa: E501

_DEVICE_COUNTERS = """
device_reads           | requests | lower   | read requests completed
device_reads_merged    | requests | neither | read requests merged before they were issued
device_read_bytes      | bytes    | lower   | bytes read
device_read_ms         | ms       | lower   | time of all reads, from queued to completed
device_writes          | requests | lower   | write requests completed
device_writes_merged   | requests | neither | write requests merged before they were issued
device_write_bytes     | bytes    | lower   | bytes written
device_write_ms        | ms       | lower   | time of all writes, from queued to completed
device_busy_ms         | ms       | lower   | time with at least one request in flight
device_queue_ms        | ms       | lower   | time weighted by the requests in flight
device_discards        | requests | neither | discard requests completed
device_discards_merged | requests | neither | discard requests merged
device_discard_bytes   | bytes    | neither | bytes discarded
device_discard_ms      | ms       | neither | time of all discards
device_flushes         | requests | lower   | flush requests completed
device_flush_ms        | ms       | lower   | time of all flushes
"""

# The same work as the stacked device's, seen below it: never to be added to the device's own counters.
_DISK_COUNTERS = """
disk_reads       | requests | lower   | read requests completed by a disk below a stacked device (LVM, md, loop)
disk_read_bytes  | bytes    | lower   | bytes read by a disk below a stacked device
disk_read_ms     | ms       | lower   | time of the reads of a disk below a stacked device
disk_writes      | requests | lower   | write requests completed by a disk below a stacked device
disk_write_bytes | bytes    | lower   | bytes written by a disk below a stacked device
disk_write_ms    | ms       | lower   | time of the writes of a disk below a stacked device
disk_busy_ms     | ms       | lower   | time with a request in flight at a disk below a stacked device
disk_queue_ms    | ms       | lower   | time weighted by the requests in flight at a disk below a stacked device
"""

_MEMORY_GAUGES = """
memory_total_bytes     | bytes | neither | memory of the host
memory_free_bytes      | bytes | neither | memory no one uses
memory_available_bytes | bytes | higher  | memory a program could still get
memory_buffers_bytes   | bytes | neither | page cache of block devices
memory_cached_bytes    | bytes | neither | page cache of files
memory_dirty_bytes     | bytes | neither | page cache waiting to be written
memory_writeback_bytes | bytes | neither | page cache being written
run_queue_length       | tasks | lower   | tasks that run or wait for a core
blocked_processes      | tasks | lower   | tasks blocked on I/O
"""

#: The kernel keeps nothing of a thread that has ended.
_SCHED_COUNTERS = """
sched_cpu_ns  | ns | lower | time that threads ran, of the worker and of the server; without what ended threads ran after their last sample
sched_wait_ns | ns | lower | time in which they could run and no processor was free; without what ended threads waited after their last sample
"""  # noqa: E501

_PULSE = "pulse_late_us | us | lower | time by which the worker's pulse of 100 ms came late: it or the host stood still"

_MEMORY_COUNTERS = """
context_switches | switches   | lower | context switches of the host
interrupts       | interrupts | lower | interrupts of the host
swap_in_pages    | pages      | lower | pages brought in from swap
swap_out_pages   | pages      | lower | pages put out to swap
paged_in_bytes   | bytes      | lower | bytes the host read from block devices
paged_out_bytes  | bytes      | lower | bytes the host wrote to block devices
"""

#: mpstat's columns, in mpstat's order. They add up to the whole time of a core.
CPU_COLUMNS = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")

_CPU_COUNTERS = "\n".join(f"cpu_{name}_us | us | neither | CPU time in mpstat's %{name}" for name in CPU_COLUMNS)

_PROC_SELF = "getrusage, /proc/self/io and statm, and the driver thread's CPU clock"
_RAW_LIST = [
    # The engines themselves name the source of these (`handed_in`).
    *raw("engine", "", "counter", _ENGINE_COUNTERS),
    *raw("engine", "", "gauge", _ENGINE_GAUGES),
    *raw("workload", "the driver's own exact counters", "counter", _WORKLOAD_COUNTERS),
    *raw("workload", "the driver's histograms", "latency", _WORKLOAD_LATENCIES),
    *raw("workload", "the driver's arrival clock", "gauge", _ARRIVAL_LAG),
    *raw("process", _PROC_SELF, "counter", _PROCESS_COUNTERS),
    *raw("process", _PROC_SELF, "gauge", "resident_bytes | bytes | neither | resident memory of the worker"),
    *raw("server", _SERVERS_PROCESS, "counter", _SERVER_COUNTERS),
    *raw("server", _SERVERS_PROCESS, "gauge", _SERVER_LEVELS),
    *raw("device", "/proc/diskstats, the whole disk that holds the data", "counter", _DEVICE_COUNTERS),
    *raw("device", "/proc/diskstats, each disk below a stacked device", "counter", _DISK_COUNTERS),
    *raw("device", "/proc/diskstats", "gauge", "device_in_flight | requests | lower | requests in flight"),
    *raw("sched", "/proc/PID/task/TID/schedstat, the server's children too", "counter", _SCHED_COUNTERS),
    *raw("pulse", "a thread of the worker that wakes every 100 ms", "counter", _PULSE),
    *raw("cpu", "/proc/stat", "counter", _CPU_COUNTERS),
    *raw("memory", "/proc/meminfo and /proc/stat", "gauge", _MEMORY_GAUGES),
    *raw("memory", "/proc/stat and /proc/vmstat", "counter", _MEMORY_COUNTERS),
]


_IO = """
reads           | pages    | lower   | Reads             | whole pages read from the database file | = pages_read
misses          | gets     | lower   | Misses            | page gets that found no page in the pool | = demand_misses
page_gets       | gets     | neither | Page gets         | logical page requests
writes          | pages    | lower   | Writes            | whole pages written to the database file | long window | = pages_written
read_bytes      | bytes    | lower   | Bytes read        | bytes read from the database file | = db_read_bytes
write_bytes     | bytes    | lower   | Bytes written     | bytes written to the database file | long window | = db_write_bytes
wal_read_bytes  | bytes    | lower   | Log bytes read    | bytes read from the write-ahead log
wal_write_bytes | bytes    | lower   | Log bytes written | bytes written to the write-ahead log | long window
pages_created   | pages    | neither | Pages created     | pages added to the database
device_reads    | requests | lower   | Device reads      | read requests the device completed
device_writes   | requests | lower   | Device writes     | write requests the device completed | long window
"""  # noqa: E501

_PER_ROW = """
rows_per_s              | rows/s    | ratio | higher  | Rows per second           | rows that queries returned | = rows_returned / seconds
rows_per_transaction    | rows/transaction | ratio | neither | Rows per transaction | rows that queries returned | = rows_returned / transactions
reads_per_row           | pages/row | ratio | lower   | Reads per row             | whole pages of the database file | = pages_read / rows_returned
read_bytes_per_row      | bytes/row | ratio | lower   | Bytes read per row        | from the database file | = db_read_bytes / rows_returned
write_bytes_per_row     | bytes/row | ratio | lower   | Bytes written per row     | to the database file | long window | = db_write_bytes / rows_returned
wal_write_bytes_per_row | bytes/row | ratio | lower   | Log bytes written per row | to the write-ahead log | long window | = wal_write_bytes / rows_returned
pages_created_per_row   | pages/row | ratio | neither | Pages created per row     | pages added to the database | = pages_created / rows_returned
cpu_us_per_row          | us/row    | ratio | lower   | Worker CPU per row        | user and system time | = worker_cpu / rows_returned
"""  # noqa: E501

_ARRIVALS = """
arrivals_per_s | arrivals/s | ratio | neither | Arrivals per second | transactions that arrived, in open loop | = arrivals / seconds
late_share     | 1          | share | lower   | Late arrivals       | share begun a millisecond or more after their time | = arrivals_late / arrivals
dropped_share  | 1          | share | lower   | Dropped arrivals    | share given up because they had waited too long | = arrivals_dropped / arrivals
"""  # noqa: E501


def _device_direction(word: str, said: str = "") -> list[Metric]:
    """Return the rows of iostat -x for one direction (read, write or discard)."""
    letter, requests, merged = word[0], f"device_{word}s", f"device_{word}s_merged"
    return derived(
        f"""
        device_{word}s_per_s | requests/s | ratio | neither | {letter}/s | {word} requests a second | = {requests} / seconds
        device_{word}_kib_per_s | KiB/s | ratio | neither | {letter}kB/s | KiB a second | = device_{word}_bytes / seconds
        device_{word}s_merged_per_s | requests/s | ratio | neither | {letter}rqm/s | merged requests a second | = {merged} / seconds
        device_{word}s_merged_ratio | 1 | share | neither | %{letter}rqm | share of requests merged{said} | = {merged} / ({requests} + {merged})
        device_{word}_await_ms | ms/request | latency | lower | {letter}_await | mean time, queue included{said} | = device_{word}_ms / {requests}
        device_{word}_size_kib | KiB/request | ratio | neither | {letter}areq-sz | mean size of a request{said} | = device_{word}_bytes / {requests}
        """  # noqa: E501
    )


_RATES = """
hit_ratio                      | 1             | share | higher  | Hit ratio                        | 1 - demand_misses / page_gets | not from zero | = 1 - demand_misses / page_gets
new_orders_per_s               | New-Order/s   | ratio | higher  | New-Orders per second            | completed, rolled back included | = new_orders / seconds
new_orders_committed_per_s     | New-Order/s   | ratio | higher  | New-Orders committed per second  | committed | = new_orders_committed / seconds
new_orders_rolled_back_per_s   | New-Order/s   | ratio | neither | New-Orders rolled back per second | rolled back | = new_orders_rolled_back / seconds
transactions_per_s             | transaction/s | ratio | higher  | Transactions per second          | committed, all types | = transactions_committed / seconds
transactions_rolled_back_per_s | transaction/s | ratio | neither | Rollbacks per second             | all types | = transactions_rolled_back / seconds
device_requests_per_s          | requests/s    | ratio | neither | Device requests per second       | read and write requests completed | = (device_reads + device_writes) / seconds
seconds_per_transaction        | s/transaction | ratio | lower   | Seconds per transaction          | the window over its transactions: on one connection the time of one | = seconds / transactions
reads_per_s                    | pages/s       | ratio | neither | Reads per second                 | whole pages read | = pages_read / seconds
misses_per_s                   | gets/s        | ratio | neither | Misses per second                | demand misses | = demand_misses / seconds
writes_per_s                   | pages/s       | ratio | neither | Writes per second                | whole pages written | = pages_written / seconds
read_bytes_per_s               | bytes/s       | ratio | neither | Bytes read per second            | of the database file | = db_read_bytes / seconds
write_bytes_per_s              | bytes/s       | ratio | neither | Bytes written per second         | of the database file | = db_write_bytes / seconds
read_us                        | us/read       | latency | lower | Mean database read               | mean time of one read | = db_read_ns / db_reads
write_us                       | us/write      | latency | lower | Mean database write              | mean time of one write | long window | = db_write_ns / db_writes
cpu_us_per_transaction         | us/transaction | ratio | lower  | Worker CPU per transaction       | user and system time | = worker_cpu / transactions
server_cpu_us_per_transaction  | us/transaction | ratio | lower  | Server CPU per transaction       | user and system time of the server | = (server_user_us + server_system_us) / transactions
driver_cpu_us_per_transaction  | us/transaction | ratio | lower  | Driver CPU per transaction       | of the driver thread | = driver_cpu_us / transactions
measured_seconds               | s             | gauge | neither | Measured window                  | between the two edge samples | = seconds
processor_wait_share           | 1             | share | lower   | Waiting for a processor          | of the time that threads of worker and server ran or could have run | = sched_wait_ns / (sched_wait_ns + sched_cpu_ns)
longest_gap_s                  | s             | gauge | lower   | Longest gap                      | in which no sample came, or the worker's pulse, beyond the interval
gaps_s                         | s             | gauge | lower   | Gaps                             | the sum of all gaps
new_orders                     | New-Order     | counter | neither | New-Orders completed           | rolled back included
transactions                   | transaction   | counter | neither | Transactions completed         | rolled back included
"""  # noqa: E501  (a table reads best in one line per row)

_DEVICE_REST = """
device_flushes_per_s  | requests/s | ratio   | neither | f/s     | flush requests a second | = device_flushes / seconds
device_flush_await_ms | ms/request | latency | lower   | f_await | mean time of a flush | = device_flush_ms / device_flushes
device_queue_length   | 1          | ratio   | lower   | aqu-sz  | mean requests in flight | = device_queue_ms / seconds
device_busy_ratio     | 1          | share   | lower   | %util   | share of the window with requests in flight | = device_busy_ms / seconds
"""  # noqa: E501

#: The percentiles of the times that transactions took, by name. They come from the histograms, not from edge samples.
OF_LATENCIES: dict[str, float] = {"latency_p50_us": 0.5, "latency_p95_us": 0.95, "latency_p99_us": 0.99}

_LATENCIES = """
latency_p50_us | us | latency | lower | Median latency         | of all transactions: in open loop from the intended start | long window
latency_p95_us | us | latency | lower | Latency, 95th percentile | of all transactions: in open loop from the intended start | long window
latency_p99_us | us | latency | lower | Latency, 99th percentile | of all transactions: in open loop from the intended start | long window
"""  # noqa: E501

_CPU_SHARES = "\n".join(
    f"cpu_{name}_share | 1 | share | neither | %{name} | share of all cores' time in mpstat's %{name}"
    for name in CPU_COLUMNS
)

_DERIVED_LIST = [
    *counts_per_work(_IO),
    *derived(_RATES),
    *derived(_PER_ROW),
    *derived(_ARRIVALS),
    *_device_direction("read"),
    *_device_direction("write", f"| {_LONG_WINDOW}"),
    *_device_direction("discard"),
    *derived(_DEVICE_REST),
    *derived(_CPU_SHARES),
    *(replace(metric, source="the latency histograms") for metric in derived(_LATENCIES)),
]

#: The metrics that probes and engines emit, by name.
RAW: dict[str, Metric] = {}
#: The values of a run, by name: `derive` computes them from its edge samples, all but OF_LATENCIES.
DERIVED: dict[str, Metric] = {}


def declare(raw: Iterable[Metric], derived: Iterable[Metric]) -> None:
    """Add metrics to the registry; AssertionError if one is declared twice."""
    for registry, metrics in ((RAW, raw), (DERIVED, derived)):
        for metric in metrics:
            if metric.name in RAW or metric.name in DERIVED:
                raise AssertionError(f"{metric.name} is declared twice")
            registry[metric.name] = metric


declare(_RAW_LIST, _DERIVED_LIST)


def qualified(phase: str, name: str) -> str:
    """Return the name of a derived value in a phase after the measured window: "range_scan.rows_per_s"."""
    return f"{phase}.{name}"


def phase_of(name: str) -> tuple[str, str]:
    """Return the phase and the bare name of a value; "" as the phase for the measured window.

    >>> phase_of("range_scan.rows_per_s"), phase_of("rows_per_s")
    (('range_scan', 'rows_per_s'), ('', 'rows_per_s'))
    """
    phase, _, bare = name.rpartition(".")
    return phase, bare


def get(name: str) -> Metric:
    """Return the declaration of one metric, raw or derived; a phase's value is declared as any other."""
    _, bare = phase_of(name)
    metric = RAW.get(bare) or DERIVED.get(bare)
    if metric is None:
        raise KeyError(f"no metric is called {name!r}")
    return metric


def everything() -> list[Metric]:
    """Return all metrics, raw first, in the order declared."""
    return [*RAW.values(), *DERIVED.values()]
