# ruff: noqa: E501  (a table reads best in one line per row)
"""The metrics that any engine may have: every raw metric and every derived value, declared once.

A row of a table has a metric's meaning, unit and source. The row of a derived value also has its formula, whose unit
is checked here. An engine declares further metrics (`EngineResults`); `Registry` has all. Device metrics follow the
kernel's Documentation/admin-guide/iostats.rst and are computed as iostat -x does; CPU metrics follow mpstat(1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import ClassVar, Literal

from bufferlab.results.gaps import Gaps
from bufferlab.results.quantity import Quantity, Term, Unit, checked, elapsed
from bufferlab.results.window import PULSE, Value, Window

Kind = Literal["counter", "gauge", "ratio", "share", "latency"]
Better = Literal["lower", "higher", "neither"]
Scale = Literal["log", "linear"]
Work = Literal["new_order", "transaction"]
#: The units of work that counts refer to, and their names in titles and units.
WORK: dict[Work, str] = {"new_order": "New-Order", "transaction": "transaction"}


@dataclass(frozen=True, slots=True)
class Metric(Term):
    """One declared metric: its name, meaning and unit, and how it is shown."""

    PRINTED: ClassVar = (
        "name", "unit", "kind", "better", "scale", "needs_long_window", "probe", "meaning", "source",
    )  # fmt: skip

    unit: str
    kind: Kind
    """A share is a part of a whole, 0 to 1; any other number without a unit is a ratio."""
    better: Better
    meaning: str
    source: str = ""
    probe: str = ""
    name: str = ""
    """The metric's name. The table gives it, from the row's name."""
    title: str = ""
    column: str = ""
    """The column of iostat -x or mpstat that shows the same number; "" if there is none."""
    scale: Scale = "log"
    """How values are compared.

    "log": by ratio if all values are above zero, else by difference; "linear": always by difference.
    """
    needs_long_window: bool = False
    """True if checkpoints or other load on the host change its value, so that a short window allows no claim on it."""
    from_zero: bool = True
    """True if a figure's axis starts at zero.

    False for shares near one, whose changes would be invisible on such an axis.
    """
    count: str = ""
    """For a count per unit of work, the count's name: "reads" for reads_per_new_order; "" for any other metric."""
    work: Work | None = None
    """The unit of work by which the count is divided; None for any other metric."""
    formula: Quantity | None = None
    """The formula of a derived value; None for raw metrics, and for values that are computed from histograms."""

    @property
    def label(self) -> str:
        """Return the metric's words in reports: the title, or the name with spaces for its underscores."""
        return self.title or self.name.replace("_", " ")

    @property
    def is_share(self) -> bool:
        """Return whether reports show the metric in per cent, and its differences in percentage points."""
        return self.kind == "share"

    @property
    def is_timed(self) -> bool:
        """Return whether the value is a time or a rate, so that a pause of the database changes it."""
        return self.kind == "latency" or (self.formula is not None and self.formula.is_timed)

    @property
    def top_unit(self) -> str:
        """Return the unit of the metric's numerator: "pages" of pages/New-Order."""
        return self.unit.partition("/")[0]

    @property
    def per(self) -> str:
        """Return the unit of the metric's denominator: "New-Order" of pages/New-Order; "" if there is none."""
        return self.unit.partition("/")[2]

    def quantity(self) -> Quantity:
        return self.formula or self.growth()

    def growth(self, subject: str | None = None) -> Quantity:
        """Return the growth of this counter over the window, of one subject or of all.

        Raises AssertionError for a gauge.
        """
        return self._sampled("counter", lambda window: window.change(self.name, subject))

    @property
    def mean(self) -> Quantity:
        """Return the mean of a gauge over the window's time."""
        return self._sampled("gauge", lambda window: window.time_mean(self.name))

    @property
    def lowest(self) -> Quantity:
        """Return the smallest sample of a gauge in the window."""
        return self._sampled("gauge", lambda window: window.lowest(self.name))

    @property
    def first(self) -> Quantity:
        """Return a gauge at the window's first edge."""
        return self._sampled("gauge", lambda window: window.first_level(self.name))

    @property
    def last(self) -> Quantity:
        """Return a gauge at the window's last edge."""
        return self._sampled("gauge", lambda window: window.level(self.name))

    def _sampled(self, kind: Kind, evaluate: Callable[[Window], Value]) -> Quantity:
        if self.kind != kind:
            only = "counters go by difference" if kind == "counter" else "gauges have a level"
            raise AssertionError(f"{self.name} is a {self.kind}: only {only}")
        return Quantity(Unit.parse(self.unit), evaluate, self.name, frozenset({self.name}))


Rows = tuple[Metric, ...]


class PerUnitOfWork(dict[Work, Metric]):
    """A row of a table that declares two metrics: a count per New-Order, and the count per transaction, rollbacks
    included."""


def named(table: Mapping[str, object], probe: str = "", source: str = "") -> Rows:
    """Give the rows of a table their names; return their metrics.

    Counts per unit of work come last, all counts per New-Order before all per transaction. Rows without a probe or
    source get `probe` and `source`.
    """
    rows = [(name, "", row) for name, row in table.items() if isinstance(row, Metric)]
    counts = [(name, row) for name, row in table.items() if isinstance(row, PerUnitOfWork)]
    rows += [(per_work(name, work), name, row[work]) for work in WORK for name, row in counts]
    for name, count, metric in rows:
        found = {"name": name, "count": count, "probe": metric.probe or probe, "source": metric.source or source}
        for field, value in found.items():
            object.__setattr__(metric, field, value)
    return tuple(metric for _, _, metric in rows)


class MetricTable:
    """The base class of tables of metrics.

    Each attribute is a row; its metric's name is `prefix` + the attribute's name.
    """

    rows: ClassVar[Rows]

    def __init_subclass__(cls, probe: str = "", source: str = "", prefix: str = "") -> None:
        cls.rows = named({prefix + name: row for name, row in vars(cls).items()}, probe, source)


def counter(unit: str, better: Better, meaning: str) -> Metric:
    """Return the row of a raw metric that only grows."""
    return Metric(unit, "counter", better, meaning)


def gauge(unit: str, better: Better, meaning: str, source: str = "") -> Metric:
    """Return the row of a raw metric that is a level, which may rise and fall."""
    return Metric(unit, "gauge", better, meaning, source)


def latency(unit: str, better: Better, meaning: str) -> Metric:
    """Return the row of a raw metric that is a time of transactions."""
    return Metric(unit, "latency", better, meaning)


def derived(
    unit: str,
    kind: Kind,
    better: Better,
    title: str,
    meaning: str,
    formula: Term | None,
    *,
    scale: Scale | None = None,
    from_zero: bool = True,
    long_window: bool = False,
    column: str = "",
) -> Metric:
    """Return the row of a derived value. Raises UnitMismatchError if its formula gives a unit of another kind."""
    return Metric(
        unit,
        kind,
        better,
        meaning,
        "the edge samples" if formula else "the latency histograms",
        "derived",
        title=title,
        column=column,
        # The ratio of two shares is useless if the shares are near one or zero.
        scale=scale or ("linear" if kind == "share" else "log"),
        needs_long_window=long_window or unit.endswith("/s"),
        from_zero=from_zero,
        formula=checked(title, formula.quantity(), unit) if formula else None,
    )


def counted(
    unit: str, better: Better, title: str, meaning: str, count: Term, *, long_window: bool = False
) -> PerUnitOfWork:
    """Return the row of a count per unit of work. `unit`, `title` and `meaning` must not mention the unit of work."""
    rows = PerUnitOfWork()
    for work, one in WORK.items():
        per, formula = f"{title} per {one}", count / _OF_WORK[work]
        row = derived(f"{unit}/{one}", "ratio", better, per, meaning, formula, long_window=long_window)
        rows[work] = replace(row, work=work)
    return rows


def per_work(count: str, work: Work) -> str:
    """Return the metric's name for a count per unit of work.

    >>> per_work("reads", "new_order")
    'reads_per_new_order'
    """
    return f"{count}_per_{work}"


# fmt: off
class Engine(MetricTable, probe="engine"):
    """Counters and gauges that any engine may have. `Registry.of` adds each engine's source for them."""

    page_gets = counter("gets", "neither", "logical page requests")
    demand_misses = counter("gets", "lower", "gets that found no page in the pool")
    pages_read = counter("pages", "lower", "whole pages read from the database file")
    pages_written = counter("pages", "lower", "whole pages written to the database file")
    pages_created = counter("pages", "neither", "pages added to the database")
    pages_spilled = counter("pages", "lower", "dirty pages written before commit to free a frame (CACHE_SPILL)")
    db_read_bytes = counter("bytes", "lower", "bytes read from the database file")
    db_write_bytes = counter("bytes", "lower", "bytes written to the database file")
    db_other_reads = counter("reads", "lower", "reads of the database file that are not whole pages")
    wal_reads = counter("reads", "lower", "reads of the write-ahead log")
    wal_read_bytes = counter("bytes", "lower", "bytes read from the write-ahead log")
    wal_writes = counter("writes", "lower", "writes to the write-ahead log")
    wal_write_bytes = counter("bytes", "lower", "bytes written to the write-ahead log")
    db_syncs = counter("syncs", "lower", "syncs of the database file")
    wal_syncs = counter("syncs", "lower", "syncs of the write-ahead log")
    bounce_reads = counter("reads", "lower", "direct reads copied because the frame was not aligned")
    bounce_writes = counter("writes", "lower", "direct writes copied because the frame was not aligned")
    db_read_ns = counter("ns", "lower", "time inside reads of the database file")
    db_write_ns = counter("ns", "lower", "time inside writes of the database file")
    pool_fetches = counter("gets", "neither", "fetches the page pool was asked for")
    pool_hits = counter("gets", "higher", "fetches the page pool answered from memory")
    pool_admissions = counter("pages", "neither", "pages taken into a frame of the pool because they were not in it")
    pool_evictions = counter("pages", "lower", "pages evicted to make room")
    pool_recycled = counter("pages", "neither", "frames given to a new page without leaving the pool")

    pool_frames = gauge("pages", "neither", "frames the pool may hold")
    pool_frames_used = gauge("pages", "neither", "frames that hold a page")
    pool_overflow_frames = gauge("pages", "lower", "frames beyond the limit, taken while every page was pinned")
    db_bytes = gauge("bytes", "neither", "size of the database file")
    wal_bytes = gauge("bytes", "lower", "size of the write-ahead log")


class WorkloadMetrics(MetricTable, probe="workload", source="the driver's own exact counters"):
    """Counters of the driver, which runs the transactions; each is counted by transaction type."""

    transactions_committed = counter("transactions", "higher", "transactions committed, per type")
    transactions_rolled_back = counter("transactions", "neither", "transactions rolled back as the workload asks, per type")
    transaction_retries = counter("executions", "lower", "executions repeated because the engine asked for it, per type")
    rows_returned = counter("rows", "neither", "rows that queries returned, per type")
    arrivals = counter("arrivals", "neither", "transactions that arrived in open loop, per type")
    arrivals_late = counter("arrivals", "lower", "arrivals begun more than a millisecond after their intended start, per type")
    arrivals_dropped = counter("arrivals", "lower", "arrivals given up because they had waited longer than the patience, per type")


class Latency(MetricTable, probe="workload", source="the driver's histograms"):
    """Times of the transactions that ended in the last second."""

    service_mean_us = latency("us", "lower", "mean service time of the last second, per type")
    service_p50_us = latency("us", "lower", "median service time of the last second, per type")
    service_p95_us = latency("us", "lower", "95th percentile of the last second's service times, per type")
    service_p99_us = latency("us", "lower", "99th percentile of the last second's service times, per type")
    service_max_us = latency("us", "lower", "longest service time of the last second, per type")
    response_mean_us = latency("us", "lower", "mean response time of the last second, per type: open loop, from the intended start")
    response_p50_us = latency("us", "lower", "median response time of the last second, per type")
    response_p95_us = latency("us", "lower", "95th percentile of the last second's response times, per type")
    response_p99_us = latency("us", "lower", "99th percentile of the last second's response times, per type")
    response_max_us = latency("us", "lower", "longest response time of the last second, per type")
    arrival_lag_us = gauge("us", "lower", "how far the driver is behind the arrivals, in open loop", source="the driver's arrival clock")


class Process(MetricTable, probe="process", source="getrusage, /proc/self/io and statm, and the driver thread's CPU clock"):
    """The process of the worker, which runs the workload."""

    process_user_us = counter("us", "lower", "CPU time of the worker in user mode")
    process_system_us = counter("us", "lower", "CPU time of the worker in the kernel")
    driver_cpu_us = counter("us", "lower", "CPU time of the driver thread")
    process_read_bytes = counter("bytes", "lower", "bytes the worker caused to be read from storage")
    process_write_bytes = counter("bytes", "lower", "bytes the worker caused to be sent to storage")
    process_minor_faults = counter("faults", "lower", "page faults served without I/O")
    process_major_faults = counter("faults", "lower", "page faults that needed I/O")
    resident_bytes = gauge("bytes", "neither", "resident memory of the worker")


class ServerMetrics(MetricTable, probe="server", source="/proc/PID/io, stat and statm of the database server"):
    """The database server's process and its children. The probe "process" counts the worker's process."""

    server_read_bytes = counter("bytes", "lower", "bytes the server caused to be read from storage")
    server_write_bytes = counter("bytes", "lower", "bytes the server caused to be sent to storage")
    server_user_us = counter("us", "lower", "CPU time of the server in user mode, in steps of 10 ms")
    server_system_us = counter("us", "lower", "CPU time of the server in the kernel, in steps of 10 ms")
    server_minor_faults = counter("faults", "lower", "page faults of the server served without I/O")
    server_major_faults = counter("faults", "lower", "page faults of the server that needed I/O")
    server_call_read_bytes = counter("bytes", "neither", "bytes of the server's read calls, served by the page cache or by storage")
    server_call_write_bytes = counter("bytes", "neither", "bytes of the server's write calls, into the page cache or to storage")
    server_resident_bytes = gauge("bytes", "neither", "resident memory of the server")
    server_edge_read_bytes = gauge("bytes", "neither", "bytes it read while an edge was sampled: so far apart may its counters and the kernel's be")


class Device(MetricTable, probe="device", source="/proc/diskstats, the whole disk that holds the data"):
    """The block device that holds the data; of a stacked device (LVM, md, loop) its top layer."""

    device_reads = counter("requests", "lower", "read requests completed")
    device_reads_merged = counter("requests", "neither", "read requests merged before they were issued")
    device_read_bytes = counter("bytes", "lower", "bytes read")
    device_read_ms = counter("ms", "lower", "time of all reads, from queued to completed")
    device_writes = counter("requests", "lower", "write requests completed")
    device_writes_merged = counter("requests", "neither", "write requests merged before they were issued")
    device_write_bytes = counter("bytes", "lower", "bytes written")
    device_write_ms = counter("ms", "lower", "time of all writes, from queued to completed")
    device_busy_ms = counter("ms", "lower", "time with at least one request in flight")
    device_queue_ms = counter("ms", "lower", "time weighted by the requests in flight")
    device_discards = counter("requests", "neither", "discard requests completed")
    device_discards_merged = counter("requests", "neither", "discard requests merged")
    device_discard_bytes = counter("bytes", "neither", "bytes discarded")
    device_discard_ms = counter("ms", "neither", "time of all discards")
    device_flushes = counter("requests", "lower", "flush requests completed")
    device_flush_ms = counter("ms", "lower", "time of all flushes")


class Disk(MetricTable, probe="device", source="/proc/diskstats, each disk below a stacked device"):
    """The counters of the disks below a stacked device. They count the same work as `Device`, so never add the two."""

    disk_reads = counter("requests", "lower", "read requests completed by a disk below a stacked device (LVM, md, loop)")
    disk_read_bytes = counter("bytes", "lower", "bytes read by a disk below a stacked device")
    disk_read_ms = counter("ms", "lower", "time of the reads of a disk below a stacked device")
    disk_writes = counter("requests", "lower", "write requests completed by a disk below a stacked device")
    disk_write_bytes = counter("bytes", "lower", "bytes written by a disk below a stacked device")
    disk_write_ms = counter("ms", "lower", "time of the writes of a disk below a stacked device")
    disk_busy_ms = counter("ms", "lower", "time with a request in flight at a disk below a stacked device")
    disk_queue_ms = counter("ms", "lower", "time weighted by the requests in flight at a disk below a stacked device")
    device_in_flight = gauge("requests", "lower", "requests in flight", source="/proc/diskstats")


class Sched(MetricTable, probe="sched", source="/proc/PID/task/TID/schedstat, the server's children too"):
    """The time that threads run or wait for a processor. The kernel forgets a thread's times when the thread ends."""

    sched_cpu_ns = counter("ns", "lower", "time that threads ran, of the worker and of the server; without what ended threads ran after their last sample")
    sched_wait_ns = counter("ns", "lower", "time in which they could run and no processor was free; without what ended threads waited after their last sample")


class Pulse(MetricTable, probe="pulse", source="a thread of the worker that wakes every 100 ms"):
    """The time for which the worker or its host was stopped."""

    pulse_late_us = counter("us", "lower", "time by which the worker's pulse of 100 ms came late: it or the host stood still")


#: mpstat's columns, in mpstat's order. They add up to the whole time of a core.
CPU_COLUMNS = ("usr", "nice", "sys", "iowait", "irq", "soft", "steal", "guest", "gnice", "idle")
_CPU_TITLES = dict(zip(CPU_COLUMNS, (
    "User time", "User time, nice", "System time", "Waiting for I/O", "Interrupts", "Soft interrupts", "Taken by the hypervisor",
    "Guests", "Guests, nice", "Idle",
), strict=True))
_CPU_US = {name: counter("us", "neither", f"CPU time in mpstat's %{name}") for name in CPU_COLUMNS}
_CPU = named({f"cpu_{name}_us": metric for name, metric in _CPU_US.items()}, "cpu", "/proc/stat")


class Memory(MetricTable, probe="memory", source="/proc/meminfo and /proc/stat"):
    """Memory and tasks of the host at the moment of a sample."""

    memory_total_bytes = gauge("bytes", "neither", "memory of the host")
    memory_free_bytes = gauge("bytes", "neither", "memory no one uses")
    memory_available_bytes = gauge("bytes", "higher", "memory a program could still get")
    memory_buffers_bytes = gauge("bytes", "neither", "page cache of block devices")
    memory_cached_bytes = gauge("bytes", "neither", "page cache of files")
    memory_dirty_bytes = gauge("bytes", "neither", "page cache waiting to be written")
    memory_writeback_bytes = gauge("bytes", "neither", "page cache being written")
    run_queue_length = gauge("tasks", "lower", "tasks that run or wait for a core")
    blocked_processes = gauge("tasks", "lower", "tasks blocked on I/O")


class Paging(MetricTable, probe="memory", source="/proc/stat and /proc/vmstat"):
    """Counters of the whole host: switches, interrupts, swapping and paging."""

    context_switches = counter("switches", "lower", "context switches of the host")
    interrupts = counter("interrupts", "lower", "interrupts of the host")
    swap_in_pages = counter("pages", "lower", "pages brought in from swap")
    swap_out_pages = counter("pages", "lower", "pages put out to swap")
    paged_in_bytes = counter("bytes", "lower", "bytes the host read from block devices")
    paged_out_bytes = counter("bytes", "lower", "bytes the host wrote to block devices")

RAW = (
    *Engine.rows, *WorkloadMetrics.rows, *Latency.rows, *Process.rows, *ServerMetrics.rows, *Device.rows, *Disk.rows, *Sched.rows, *Pulse.rows,
    *_CPU, *Memory.rows, *Paging.rows,
)
# fmt: on


def _gap(name: str, seconds: Callable[[Gaps], float]) -> Quantity:
    """Return the formula of a value, in seconds, computed from a window's gaps."""

    def evaluate(window: Window) -> Value:
        return Value(seconds(window.gaps)) if window.gaps else Value(None, "too few samples to tell")

    return Quantity(Unit.parse("s"), evaluate, name, frozenset({PULSE}))


def cpu_shares(subject: str) -> dict[str, Quantity]:
    """Return, for each column of mpstat, the formula of its share of a core's time; subject "all" is all cores."""
    columns = {name: metric.growth(subject) for name, metric in _CPU_US.items()}
    whole: Quantity = reduce(add, columns.values())
    return {name: column / whole for name, column in columns.items()}


#: Quantities that several formulas below use.
SECONDS = elapsed()
TRANSACTIONS = (WorkloadMetrics.transactions_committed + WorkloadMetrics.transactions_rolled_back).counted_as(
    "transaction"
)
NEW_ORDERS_COMMITTED = WorkloadMetrics.transactions_committed.growth("new_order").counted_as("New-Order")
NEW_ORDERS_ROLLED_BACK = WorkloadMetrics.transactions_rolled_back.growth("new_order").counted_as("New-Order")
#: TPC-C rolls back 1 % of New-Orders. They read pages too, so they count as completed.
NEW_ORDERS = NEW_ORDERS_COMMITTED + NEW_ORDERS_ROLLED_BACK
WORKER_CPU = Process.process_user_us + Process.process_system_us
SERVER_CPU = ServerMetrics.server_user_us + ServerMetrics.server_system_us
ALL_CPU: Quantity = reduce(add, (metric.growth("all") for metric in _CPU_US.values()))
DB_READS = Engine.pages_read.growth().counted_as("reads") + Engine.db_other_reads
DB_WRITES = Engine.pages_written.growth().counted_as("writes")
LONGEST_GAP = _gap("the longest gap", lambda gaps: gaps.longest_s)
ALL_GAPS = _gap("the sum of gaps", lambda gaps: gaps.sum_s)
_OF_WORK: dict[Work, Quantity] = {"new_order": NEW_ORDERS, "transaction": TRANSACTIONS}


# fmt: off
class PerWork(MetricTable):
    """Counts per unit of work."""

    reads = counted("pages", "lower", "Reads", "whole pages read from the database file", Engine.pages_read)
    misses = counted("gets", "lower", "Misses", "page gets that found no page in the pool", Engine.demand_misses)
    page_gets = counted("gets", "neither", "Page gets", "logical page requests", Engine.page_gets)
    writes = counted("pages", "lower", "Writes", "whole pages written to the database file", Engine.pages_written, long_window=True)
    read_bytes = counted("bytes", "lower", "Bytes read", "bytes read from the database file", Engine.db_read_bytes)
    write_bytes = counted("bytes", "lower", "Bytes written", "bytes written to the database file", Engine.db_write_bytes, long_window=True)
    storage_write_bytes = counted("bytes", "lower", "Bytes sent to storage", "bytes that the server's processes sent to storage, by the kernel's count: of a buffered file whole folios of the page cache, which may be many times the bytes written", ServerMetrics.server_write_bytes, long_window=True)
    call_write_bytes = counted("bytes", "lower", "Bytes of write calls", "bytes of the write calls of the server's processes, into data files, log and others; without asynchronous writes", ServerMetrics.server_call_write_bytes, long_window=True)
    wal_read_bytes = counted("bytes", "lower", "Log bytes read", "bytes read from the write-ahead log", Engine.wal_read_bytes)
    wal_write_bytes = counted("bytes", "lower", "Log bytes written", "bytes written to the write-ahead log", Engine.wal_write_bytes, long_window=True)
    pages_created = counted("pages", "neither", "Pages created", "pages added to the database", Engine.pages_created)
    device_reads = counted("requests", "lower", "Device reads", "read requests the device completed", Device.device_reads)
    device_writes = counted("requests", "lower", "Device writes", "write requests the device completed", Device.device_writes, long_window=True)
    read_ms = counted("ms", "lower", "Time in reads", "time inside reads of the database file", Engine.db_read_ns, long_window=True)
    device_read_ms = counted("ms", "lower", "Time of device reads", "time of the device's reads, queue included, those of other programs too", Device.device_read_ms, long_window=True)


class Rates(MetricTable):
    """Rates, times and shares of a run."""

    hit_ratio = derived("1", "share", "higher", "Hit ratio", "1 - demand_misses / page_gets", 1 - Engine.demand_misses / Engine.page_gets, from_zero=False)
    miss_ratio = derived("1", "share", "lower", "Miss ratio", "1 - hit ratio: demand_misses / page_gets", Engine.demand_misses / Engine.page_gets, scale="log")
    new_orders_per_s = derived("New-Order/s", "ratio", "higher", "New-Orders per second", "completed, rolled back included", NEW_ORDERS / SECONDS)
    new_orders_committed_per_s = derived("New-Order/s", "ratio", "higher", "New-Orders committed per second", "committed", NEW_ORDERS_COMMITTED / SECONDS)
    new_orders_rolled_back_per_s = derived("New-Order/s", "ratio", "neither", "New-Orders rolled back per second", "rolled back", NEW_ORDERS_ROLLED_BACK / SECONDS)
    transactions_per_s = derived("transaction/s", "ratio", "higher", "Transactions per second", "committed, all types", WorkloadMetrics.transactions_committed / SECONDS)
    transactions_rolled_back_per_s = derived("transaction/s", "ratio", "neither", "Rollbacks per second", "all types", WorkloadMetrics.transactions_rolled_back / SECONDS)
    device_requests_per_s = derived("requests/s", "ratio", "neither", "Device requests per second", "read and write requests completed", (Device.device_reads + Device.device_writes) / SECONDS)
    seconds_per_transaction = derived("s/transaction", "ratio", "lower", "Seconds per transaction", "the window over its transactions: on one connection the time of one", SECONDS / TRANSACTIONS)
    reads_per_s = derived("pages/s", "ratio", "neither", "Reads per second", "whole pages read", Engine.pages_read / SECONDS)
    misses_per_s = derived("gets/s", "ratio", "neither", "Misses per second", "demand misses", Engine.demand_misses / SECONDS)
    writes_per_s = derived("pages/s", "ratio", "neither", "Writes per second", "whole pages written", Engine.pages_written / SECONDS)
    read_bytes_per_s = derived("bytes/s", "ratio", "neither", "Bytes read per second", "of the database file", Engine.db_read_bytes / SECONDS)
    write_bytes_per_s = derived("bytes/s", "ratio", "neither", "Bytes written per second", "of the database file", Engine.db_write_bytes / SECONDS)
    read_us = derived("us/read", "latency", "lower", "Mean database read", "mean time of one read", Engine.db_read_ns / DB_READS)
    write_us = derived("us/write", "latency", "lower", "Mean database write", "mean time of one write", Engine.db_write_ns / DB_WRITES, long_window=True)
    cpu_us_per_transaction = derived("us/transaction", "ratio", "lower", "Worker CPU per transaction", "user and system time", WORKER_CPU / TRANSACTIONS)
    server_cpu_us_per_transaction = derived("us/transaction", "ratio", "lower", "Server CPU per transaction", "user and system time of the server", SERVER_CPU / TRANSACTIONS)
    driver_cpu_us_per_transaction = derived("us/transaction", "ratio", "lower", "Driver CPU per transaction", "of the driver thread", Process.driver_cpu_us / TRANSACTIONS)
    worker_cpu_share = derived("1", "share", "lower", "Worker's share of the processors", "of the time of all processors: of a server, our client's", WORKER_CPU / ALL_CPU)
    server_cpu_share = derived("1", "share", "neither", "Server's share of the processors", "of the time of all processors", SERVER_CPU / ALL_CPU)
    processor_wait_us_per_transaction = derived("us/transaction", "ratio", "lower", "Waiting for a processor per transaction", "threads of worker and server that could have run", Sched.sched_wait_ns / TRANSACTIONS)
    measured_seconds = derived("s", "gauge", "neither", "Measured window", "between the two edge samples", SECONDS)
    processor_wait_share = derived("1", "share", "lower", "Waiting for a processor", "of the time that threads of worker and server ran or could have run", Sched.sched_wait_ns / (Sched.sched_wait_ns + Sched.sched_cpu_ns))
    longest_gap_s = derived("s", "gauge", "lower", "Longest gap", "in which no sample came, or the worker's pulse, beyond the interval", LONGEST_GAP)
    gaps_s = derived("s", "gauge", "lower", "Gaps", "the sum of all gaps", ALL_GAPS)
    new_orders = derived("New-Order", "counter", "neither", "New-Orders completed", "rolled back included", NEW_ORDERS)
    transactions = derived("transaction", "counter", "neither", "Transactions completed", "rolled back included", TRANSACTIONS)


class PerRow(MetricTable):
    """Values per row that queries returned, for workloads that scan rows."""

    rows_per_s = derived("rows/s", "ratio", "higher", "Rows per second", "rows that queries returned", WorkloadMetrics.rows_returned / SECONDS)
    rows_per_transaction = derived("rows/transaction", "ratio", "neither", "Rows per transaction", "rows that queries returned", WorkloadMetrics.rows_returned / TRANSACTIONS)
    reads_per_row = derived("pages/row", "ratio", "lower", "Reads per row", "whole pages of the database file", Engine.pages_read / WorkloadMetrics.rows_returned)
    read_bytes_per_row = derived("bytes/row", "ratio", "lower", "Bytes read per row", "from the database file", Engine.db_read_bytes / WorkloadMetrics.rows_returned)
    write_bytes_per_row = derived("bytes/row", "ratio", "lower", "Bytes written per row", "to the database file", Engine.db_write_bytes / WorkloadMetrics.rows_returned, long_window=True)
    wal_write_bytes_per_row = derived("bytes/row", "ratio", "lower", "Log bytes written per row", "to the write-ahead log", Engine.wal_write_bytes / WorkloadMetrics.rows_returned, long_window=True)
    pages_created_per_row = derived("pages/row", "ratio", "neither", "Pages created per row", "pages added to the database", Engine.pages_created / WorkloadMetrics.rows_returned)
    cpu_us_per_row = derived("us/row", "ratio", "lower", "Worker CPU per row", "user and system time", WORKER_CPU / WorkloadMetrics.rows_returned)


class Arrivals(MetricTable):
    """Values of an open loop, in which transactions arrive at a given rate."""

    arrivals_per_s = derived("arrivals/s", "ratio", "neither", "Arrivals per second", "transactions that arrived, in open loop", WorkloadMetrics.arrivals / SECONDS)
    late_share = derived("1", "share", "lower", "Late arrivals", "share begun a millisecond or more after their time", WorkloadMetrics.arrivals_late / WorkloadMetrics.arrivals)
    dropped_share = derived("1", "share", "lower", "Dropped arrivals", "share given up because they had waited too long", WorkloadMetrics.arrivals_dropped / WorkloadMetrics.arrivals)


def _direction(word: str, requests: Metric, merged: Metric, size: Metric, ms: Metric, long: bool = False) -> Rows:
    """Return the columns of iostat -x for one direction (read, write or discard)."""
    letter, done = word[0], {"read": "read", "write": "written", "discard": "discarded"}[word]
    return named({
        f"device_{word}s_per_s": derived("requests/s", "ratio", "neither", f"Device {word}s per second", f"{word} requests a second", requests / SECONDS, column=f"{letter}/s"),
        f"device_{word}_kib_per_s": derived("KiB/s", "ratio", "neither", f"Data {done} per second", "KiB a second", size / SECONDS, column=f"{letter}kB/s"),
        f"device_{word}s_merged_per_s": derived("requests/s", "ratio", "neither", f"Merged {word}s per second", "merged requests a second", merged / SECONDS, column=f"{letter}rqm/s"),
        f"device_{word}s_merged_ratio": derived("1", "share", "neither", f"Merged, of all {word}s", "share of requests merged", merged / (requests + merged), long_window=long, column=f"%{letter}rqm"),
        f"device_{word}_await_ms": derived("ms/request", "latency", "lower", f"Time of a device {word}", "mean time, queue included", ms / requests, long_window=long, column=f"{letter}_await"),
        f"device_{word}_size_kib": derived("KiB/request", "ratio", "neither", f"Size of a device {word}", "mean size of a request", size / requests, long_window=long, column=f"{letter}areq-sz"),
    })


class DeviceRest(MetricTable):
    """Columns of iostat -x that belong to no direction."""

    device_flushes_per_s = derived("requests/s", "ratio", "neither", "Device flushes per second", "flush requests a second", Device.device_flushes / SECONDS, column="f/s")
    device_flush_await_ms = derived("ms/request", "latency", "lower", "Time of a device flush", "mean time of a flush", Device.device_flush_ms / Device.device_flushes, column="f_await")
    device_queue_length = derived("1", "ratio", "lower", "Requests in flight", "mean requests in flight", Device.device_queue_ms / SECONDS, column="aqu-sz")
    device_busy_ratio = derived("1", "share", "lower", "Device busy", "share of the window with requests in flight", Device.device_busy_ms / SECONDS, column="%util")


_INTENDED = "of all transactions: in open loop from the intended start"


class Percentiles(MetricTable):
    """The percentiles of transaction times. They come from the histograms, not from the edge samples."""

    latency_p50_us = derived("us", "latency", "lower", "Median latency", _INTENDED, None, long_window=True)
    latency_p95_us = derived("us", "latency", "lower", "Latency, 95th percentile", _INTENDED, None, long_window=True)
    latency_p99_us = derived("us", "latency", "lower", "Latency, 99th percentile", _INTENDED, None, long_window=True)
    latency_p999_us = derived("us", "latency", "lower", "Latency, 99.9th percentile", _INTENDED, None, long_window=True)

_D = Device
_CPU_SHARES = named({
    f"cpu_{name}_share": derived("1", "share", "neither", _CPU_TITLES[name], f"share of all cores' time in mpstat's %{name}", share, column=f"%{name}")
    for name, share in cpu_shares("all").items()
})
DERIVED = (
    *PerWork.rows, *Rates.rows, *PerRow.rows, *Arrivals.rows,
    *_direction("read", _D.device_reads, _D.device_reads_merged, _D.device_read_bytes, _D.device_read_ms),
    *_direction("write", _D.device_writes, _D.device_writes_merged, _D.device_write_bytes, _D.device_write_ms, long=True),
    *_direction("discard", _D.device_discards, _D.device_discards_merged, _D.device_discard_bytes, _D.device_discard_ms),
    *DeviceRest.rows, *_CPU_SHARES, *Percentiles.rows,
)
# fmt: on
#: The share of transactions below each percentile, by the metric's name.
OF_LATENCIES: dict[str, float] = {
    "latency_p50_us": 0.5,
    "latency_p95_us": 0.95,
    "latency_p99_us": 0.99,
    "latency_p999_us": 0.999,
}


def values_in(window: Window, derived: Mapping[str, Metric]) -> dict[str, Value]:
    """Return each derived value that has a formula, computed over a window, or the reason why the value is missing."""
    return {name: metric.formula.evaluate(window) for name, metric in derived.items() if metric.formula}


def qualified(phase: str, name: str) -> str:
    """Return the full name of a derived value in a phase after the measured window: "range_scan.rows_per_s"."""
    return f"{phase}.{name}"


def phase_of(name: str) -> tuple[str, str]:
    """Return the phase and the bare name of a value; the phase is "" for the measured window.

    >>> phase_of("range_scan.rows_per_s"), phase_of("rows_per_s")
    (('range_scan', 'rows_per_s'), ('', 'rows_per_s'))
    """
    phase, _, bare = name.rpartition(".")
    return phase, bare
