"""Every derived value is computed a second time, in a window in which all counters grow by different primes.

Every gauge changes, too, so that its mean, lowest, first and last level differ. A formula with a wrong counter, without
a counter, or with another level of a gauge therefore gives another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from bufferlab.registry import registry
from bufferlab.results import metrics
from bufferlab.results.gaps import Gaps
from bufferlab.results.window import Edge, Reading, Window

SECONDS = 10.0
SUBJECTS = {
    "transactions_committed": ("new_order", "payment"),
    "transactions_rolled_back": ("new_order", "payment"),
    **{f"cpu_{column}_us": ("all",) for column in metrics.CPU_COLUMNS},
}


FORMULAS = {name: metric.formula for name, metric in registry().derived.items() if metric.formula}


def primes() -> Iterator[int]:
    """Yield the primes from 101 on."""
    return (number for number in range(101, 10_000) if all(number % factor for factor in range(2, 100)))


COUNTERS = [metric.name for metric in registry().raw.values() if metric.kind == "counter"]
GAUGES = [metric.name for metric in registry().raw.values() if metric.kind == "gauge"]
PRIMES = primes()
CHANGES = {name: {subject: next(PRIMES) for subject in SUBJECTS.get(name, ("",))} for name in COUNTERS}
LEVELS = {name: next(PRIMES) for name in GAUGES}
#: Counters summed over their subjects, by name.
C = {name: sum(changes.values()) for name, changes in CHANGES.items()}
#: The times of a gauge's samples, and each level as a multiple of the gauge's prime.
COURSE = ((0.0, 1.0), (1.0, 3.0), (7.0, 0.5), (10.0, 2.0))
#: By the trapezoidal rule: 1 * (1 + 3) / 2 + 6 * (3 + 0.5) / 2 + 3 * (0.5 + 2) / 2 = 16.25 in 10 s.
MEAN, LOWEST, FIRST, LAST = 1.625, 0.5, 1.0, 2.0
#: The mean of the two samples that are not edges.
BETWEEN = (3.0 + 0.5) / 2
#: Cumulative reads and requests of the device; the intervals have 2 s.
GROWTHS = {"logical_reads": (8, 12, 8, 16, 6, 10), "device_reads": (2, 6, 2, 2, 10, 2)}


def window(without: frozenset[str] = frozenset(), changes: Mapping[str, int] | None = None) -> Window:
    """Return a window of primes; `without` names missing counters, `changes` has other growths."""
    grown = {**CHANGES, **{name: {"": growth} for name, growth in (changes or {}).items()}}
    start: Edge = {name: {one: Reading(1000.0, None) for one in of} for name, of in grown.items()}
    end: Edge = {name: {one: Reading(1000.0 + by, None) for one, by in of.items()} for name, of in grown.items()}
    for edge, factor in ((start, FIRST), (end, LAST)):
        edge.update({name: {"": Reading(factor * level, None)} for name, level in LEVELS.items()})
        for name in without:
            del edge[name]
    course = {name: tuple((t_s, factor * level) for t_s, factor in COURSE) for name, level in LEVELS.items()}
    counts = {name: tuple((2.0 * at, float(sum(of[:at]))) for at in range(len(of) + 1)) for name, of in GROWTHS.items()}
    return Window(start, end, SECONDS, course, counts, Gaps(1.75, 4.5))


def mean(gauge: str) -> float:
    return MEAN * LEVELS[gauge]


def innodb(name: str) -> int:
    return C[f"innodb_metric_buffer_{name}"]


COMMITTED, ROLLED_BACK = CHANGES["transactions_committed"], CHANGES["transactions_rolled_back"]
NEW_ORDERS = COMMITTED["new_order"] + ROLLED_BACK["new_order"]
TRANSACTIONS = C["transactions_committed"] + C["transactions_rolled_back"]
ROWS, ARRIVALS, READS = C["rows_returned"], C["arrivals"], C["logical_reads"]
SEARCHES, LOOPS = innodb("lru_get_free_search"), innodb("lru_get_free_loops")
WAITS, FAILURES = C["innodb_buffer_pool_wait_free"], innodb("lru_single_flush_failure_count")
AHEAD = C["innodb_buffer_pool_read_ahead"] + C["innodb_buffer_pool_read_ahead_rnd"]
WORKER_US = C["process_user_us"] + C["process_system_us"]
CPU_US = sum(C[f"cpu_{column}_us"] for column in metrics.CPU_COLUMNS)
HEAP_READ = C["postgres_statio_heap_blks_read"] - C["postgres_growth_heap_pages"]
INDEX_READ = C["postgres_statio_idx_blks_read"] - C["postgres_growth_idx_pages"]
BACKEND_WRITES = C["pages_written"] - C["postgres_bgwriter_buffers_checkpoint"] - C["postgres_bgwriter_buffers_clean"]
PAGES_CACHED = C["pages_read"] - C["server_read_bytes"] / 8192

#: The values that are shown per New-Order and per transaction.
PER_WORK: dict[str, float] = {
    **{name: C[name] for name in ("page_gets", "wal_read_bytes", "wal_write_bytes", "pages_created")},
    **{name: C[name] for name in ("device_reads", "device_writes")},
    "read_ms": C["db_read_ns"] / 1e6,
    "device_read_ms": C["device_read_ms"],
    "reads": C["pages_read"],
    "misses": C["demand_misses"],
    "writes": C["pages_written"],
    "read_bytes": C["db_read_bytes"],
    "write_bytes": C["db_write_bytes"],
    "storage_write_bytes": C["server_write_bytes"],
    "call_write_bytes": C["server_call_write_bytes"],
    "frame_requests": SEARCHES,
    "free_list_hits": SEARCHES - LOOPS + FAILURES,
    "lru_scan_hits": LOOPS - WAITS,
    "single_page_flushes": WAITS - FAILURES,
    "blocks_from_storage": C["server_read_bytes"] / 4096,
    "redo_bytes": C["innodb_os_log_written"],
    "row_lock_ms": C["innodb_row_lock_time"],
    "page_splits": C["innodb_metric_index_page_splits"],
    "fsyncs": C["innodb_data_fsyncs"],
    "row_lock_waits": C["innodb_row_lock_waits"],
    "shared_buffer_hits": C["page_gets"] - C["demand_misses"],
    "page_cache_pages": PAGES_CACHED,
    "device_pages": C["server_read_bytes"] / 8192,
    "heap_pages_read": HEAP_READ,
    "index_pages_read": INDEX_READ,
    "buffers_taken": C["postgres_bgwriter_buffers_alloc"],
    "wal_log_bytes": C["postgres_wal_bytes"],
    "full_page_images": C["postgres_wal_fpi"],
    "backend_writes": BACKEND_WRITES,
    **{
        f"{of}_wait_ms": 1000 * SECONDS * BETWEEN * LEVELS[f"postgres_activity_{of}"] for of in ("lock", "lwlock", "io")
    },
}

#: The values that are shown per second.
PER_SECOND: dict[str, float] = {
    "new_orders_per_s": NEW_ORDERS,
    "new_orders_committed_per_s": COMMITTED["new_order"],
    "new_orders_rolled_back_per_s": ROLLED_BACK["new_order"],
    "transactions_per_s": C["transactions_committed"],
    "transactions_rolled_back_per_s": C["transactions_rolled_back"],
    "device_requests_per_s": C["device_reads"] + C["device_writes"],
    "reads_per_s": C["pages_read"],
    "misses_per_s": C["demand_misses"],
    "writes_per_s": C["pages_written"],
    "read_bytes_per_s": C["db_read_bytes"],
    "write_bytes_per_s": C["db_write_bytes"],
    "rows_per_s": ROWS,
    "arrivals_per_s": ARRIVALS,
    "device_flushes_per_s": C["device_flushes"],
    # Milliseconds in a second are a share.
    "device_queue_length": C["device_queue_ms"] / 1000,
    "device_busy_ratio": C["device_busy_ms"] / 1000,
    "lru_batch_writes_per_s": innodb("lru_batch_flush_total_pages"),
    "lru_batch_evictions_per_s": innodb("lru_batch_evict_total_pages"),
    "lru_batches_per_s": innodb("lru_batch_num_scan"),
    "flush_list_writes_per_s": innodb("flush_batch_total_pages"),
    "adaptive_writes_per_s": innodb("flush_adaptive_total_pages"),
    "background_writes_per_s": innodb("flush_background_total_pages"),
    "sync_writes_per_s": innodb("flush_sync_total_pages"),
    "neighbour_writes_per_s": innodb("flush_neighbor_total_pages"),
    "single_page_flushes_per_s": WAITS - FAILURES,
    "frame_requests_per_s": SEARCHES,
    "doublewrite_pages_per_s": C["innodb_dblwr_pages_written"],
    "redo_bytes_per_s": C["innodb_os_log_written"],
    "log_waits_per_s": C["innodb_log_waits"],
    "iops": READS,
    "read_mb_per_s": C["logical_read_bytes"] / 1e6,
    "checkpoint_writes_per_s": C["postgres_bgwriter_buffers_checkpoint"],
    "cleaner_writes_per_s": C["postgres_bgwriter_buffers_clean"],
    "backend_writes_per_s": BACKEND_WRITES,
    "wal_log_bytes_per_s": C["postgres_wal_bytes"],
}
for word in ("read", "write", "discard"):
    PER_SECOND[f"device_{word}s_per_s"] = C[f"device_{word}s"]
    PER_SECOND[f"device_{word}_kib_per_s"] = C[f"device_{word}_bytes"] / 1024
    PER_SECOND[f"device_{word}s_merged_per_s"] = C[f"device_{word}s_merged"]

OTHERS: dict[str, float] = {
    "miss_ratio": C["demand_misses"] / C["page_gets"],
    "hit_ratio": 1 - C["demand_misses"] / C["page_gets"],
    "seconds_per_transaction": SECONDS / TRANSACTIONS,
    "read_us": C["db_read_ns"] / 1000 / (C["pages_read"] + C["db_other_reads"]),
    "write_us": C["db_write_ns"] / 1000 / C["pages_written"],
    "cpu_us_per_transaction": WORKER_US / TRANSACTIONS,
    "server_cpu_us_per_transaction": (C["server_user_us"] + C["server_system_us"]) / TRANSACTIONS,
    "driver_cpu_us_per_transaction": C["driver_cpu_us"] / TRANSACTIONS,
    "worker_cpu_share": WORKER_US / CPU_US,
    "server_cpu_share": (C["server_user_us"] + C["server_system_us"]) / CPU_US,
    "processor_wait_us_per_transaction": C["sched_wait_ns"] / 1000 / TRANSACTIONS,
    "measured_seconds": SECONDS,
    "new_orders": NEW_ORDERS,
    "transactions": TRANSACTIONS,
    "rows_per_transaction": ROWS / TRANSACTIONS,
    "reads_per_row": C["pages_read"] / ROWS,
    "read_bytes_per_row": C["db_read_bytes"] / ROWS,
    "write_bytes_per_row": C["db_write_bytes"] / ROWS,
    "wal_write_bytes_per_row": C["wal_write_bytes"] / ROWS,
    "pages_created_per_row": C["pages_created"] / ROWS,
    "cpu_us_per_row": WORKER_US / ROWS,
    "late_share": C["arrivals_late"] / ARRIVALS,
    "dropped_share": C["arrivals_dropped"] / ARRIVALS,
    "device_flush_await_ms": C["device_flush_ms"] / C["device_flushes"],
    "free_list_share": (SEARCHES - LOOPS + FAILURES) / SEARCHES,
    "lru_scan_share": (LOOPS - WAITS) / SEARCHES,
    "single_page_share": (WAITS - FAILURES) / SEARCHES,
    "frames_given_back_share": (SEARCHES - C["pages_read"] - C["pages_created"]) / SEARCHES,
    "effective_cache_pages": mean("innodb_buffer_pool_pages_data"),
    "effective_cache_bytes": mean("innodb_buffer_pool_bytes_data"),
    "effective_cache_start_pages": FIRST * LEVELS["innodb_buffer_pool_pages_data"],
    "effective_cache_end_pages": LAST * LEVELS["innodb_buffer_pool_pages_data"],
    "pool_less_free_and_misc_pages": mean("innodb_buffer_pool_pages_total")
    - mean("innodb_buffer_pool_pages_free")
    - mean("innodb_buffer_pool_pages_misc"),
    "effective_cache_share": mean("innodb_buffer_pool_pages_data") / mean("innodb_buffer_pool_pages_total"),
    "free_list_pages": mean("innodb_buffer_pool_pages_free"),
    "free_list_min_pages": LOWEST * LEVELS["innodb_buffer_pool_pages_free"],
    "misc_pages": mean("innodb_buffer_pool_pages_misc"),
    "dirty_pages": mean("innodb_buffer_pool_pages_dirty"),
    "dirty_share": mean("innodb_buffer_pool_pages_dirty") / mean("innodb_buffer_pool_pages_data"),
    "read_ahead_share": AHEAD / C["pages_read"],
    "read_ahead_evicted_share": C["innodb_buffer_pool_read_ahead_evicted"] / AHEAD,
    "doublewrite_share": C["innodb_dblwr_pages_written"] / C["pages_written"],
    "log_age_bytes": mean("innodb_lsn_age_bytes"),
    "requests_per_read": C["device_reads"] / READS,
    "requests_expected_per_read": C["requests_expected"] / READS,
    "requests_over_expected": C["device_reads"] / C["requests_expected"],
    "pages_touched_per_read": C["pages_touched"] / READS,
    "pages_first_touched_per_read": C["pages_first_touched"] / READS,
    "logical_bytes_per_read": C["logical_read_bytes"] / READS,
    "device_bytes_per_read": C["device_read_bytes"] / READS,
    "read_amplification": C["device_read_bytes"] / C["logical_read_bytes"],
    # Rates 4, 6, 4, 8, 3, 5: the squares of their steps are 4 + 4 + 16 + 25 + 4 = 53, the mean is 5; intervals have 2
    # s.
    "reads_cv": (53 / (2 * 5)) ** 0.5 / 5,
    "reads_dispersion_index": 53 / (2 * 5) * 2 / 5,
    # Rates 1, 3, 1, 1, 5, 1: 4 + 4 + 0 + 16 + 16 = 40, mean 2.
    "requests_cv": (40 / (2 * 5)) ** 0.5 / 2,
    "page_cache_share": PAGES_CACHED / C["pages_read"],
    "checkpoints_in_window": C["postgres_checkpointer_num_timed"] + C["postgres_checkpointer_num_requested"],
    "processor_wait_share": C["sched_wait_ns"] / (C["sched_wait_ns"] + C["sched_cpu_ns"]),
    "longest_gap_s": 1.75,
    "gaps_s": 4.5,
    **{f"cpu_{column}_share": C[f"cpu_{column}_us"] / CPU_US for column in metrics.CPU_COLUMNS},
}
for word in ("read", "write", "discard"):
    requests, merged = C[f"device_{word}s"], C[f"device_{word}s_merged"]
    OTHERS[f"device_{word}s_merged_ratio"] = merged / (requests + merged)
    OTHERS[f"device_{word}_await_ms"] = C[f"device_{word}_ms"] / requests
    OTHERS[f"device_{word}_size_kib"] = C[f"device_{word}_bytes"] / 1024 / requests

EXPECTED = {
    **OTHERS,
    **{name: change / SECONDS for name, change in PER_SECOND.items()},
    **{f"{name}_per_new_order": count / NEW_ORDERS for name, count in PER_WORK.items()},
    **{f"{name}_per_transaction": count / TRANSACTIONS for name, count in PER_WORK.items()},
}


def test_every_derived_value_is_reckoned_twice() -> None:
    assert EXPECTED.keys() == FORMULAS.keys()


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_a_value_follows_from_its_counters_and_gauges(name: str) -> None:
    found = FORMULAS[name].evaluate(window())
    assert found.value == pytest.approx(EXPECTED[name], rel=1e-12), found.reason


def test_pages_of_the_device_are_told_by_its_own_bytes_where_the_servers_are_hidden() -> None:
    hidden = window(frozenset({"server_read_bytes"}))
    pages = C["device_read_bytes"] / 8192
    assert FORMULAS["device_pages_per_new_order"].evaluate(hidden).value == pytest.approx(pages / NEW_ORDERS)


def test_waits_are_untold_where_no_sample_lies_between_the_edges() -> None:
    edges_only = replace(window(), course={})
    found = FORMULAS["lock_wait_ms_per_transaction"].evaluate(edges_only)
    assert found.value is None
    assert found.reason == "no sample lies between the edges of this window"
    older = window(frozenset({"postgres_activity_lock"}))
    assert "was not sampled" in str(FORMULAS["lock_wait_ms_per_transaction"].evaluate(older).reason)


def test_pages_of_lru_batches_are_what_others_did_not_write_where_their_own_counter_is_dead() -> None:
    dead = {"innodb_metric_buffer_lru_batch_flush_total_pages": 0, "innodb_metric_buffer_lru_batch_flush_count": 0}
    written = {"pages_written": 5003, "innodb_buffer_pool_wait_free": FAILURES + 31}
    left = 5003 - innodb("flush_batch_total_pages") - 31
    found = FORMULAS["lru_batch_writes_per_s"].evaluate(window(changes={**dead, **written}))
    assert found.value == pytest.approx(left / SECONDS)
    alive = {**dead, **written, "innodb_metric_buffer_lru_batch_flush_count": 1}
    assert FORMULAS["lru_batch_writes_per_s"].evaluate(window(changes=alive)).value == 0
    few = {**dead, "pages_written": 1}
    assert FORMULAS["lru_batch_writes_per_s"].evaluate(window(changes=few)).value == 0


def test_a_stretch_of_odd_length_is_left_out_of_the_scatter() -> None:
    even = window()
    counts = {name: (*points, (points[-1][0] + 0.5, points[-1][1] + 1000)) for name, points in even.counts.items()}
    for name in ("reads_cv", "reads_dispersion_index", "requests_cv"):
        assert FORMULAS[name].evaluate(replace(even, counts=counts)).value == pytest.approx(EXPECTED[name])


def test_a_gauge_without_samples_inside_the_window_is_the_mean_of_its_edges() -> None:
    edges: tuple[Edge, Edge] = ({"dirty": {"": Reading(2.0, None)}}, {"dirty": {"": Reading(5.0, None)}})
    assert Window(*edges, SECONDS).time_mean("dirty").value == 3.5
