"""The formulas of InnoDB's values: the victim path, the cache it really has, what it writes and why.

Where a frame comes from (buf0lru.cc: buf_LRU_get_free_block, MySQL 5.7, 8.0 and MariaDB 10.2 to 10.4). Every search
adds one to S = get_free_search. Each of its passes first looks at the free list. A pass that finds it empty adds one to
L = get_free_loops. It then either frees a frame by scanning the LRU tail and begins anew, or tries a single-page flush,
adds one to W = Innodb_buffer_pool_wait_free and begins anew. F = single_flush_failure_count of these flushes freed
nothing. So single-page flushes gave W - F frames, LRU scans L - W, and the free list, without either, S - L + F. The
three add up to S by construction: what can be wrong is checked elsewhere (`checks`).

MySQL 5.6 does not count L; from MariaDB 10.5 on user threads wait for the page cleaner instead of flushing. There the
values are null with that reason.
"""

from __future__ import annotations

from collections.abc import Callable

from bufferlab.engines.innodb.metrics import METRIC_PREFIX
from bufferlab.engines.innodb.metrics import RAW as OWN
from bufferlab.results.metrics import RAW
from bufferlab.results.quantity import Quantity, Unit
from bufferlab.results.sampled import Sampled
from bufferlab.results.window import Value, Window

counted = Sampled(RAW.values(), OWN).counted

#: The counters of the victim path: S, L, W, F.
SEARCHES = "innodb_metric_buffer_lru_get_free_search"
LOOPS = "innodb_metric_buffer_lru_get_free_loops"
WAIT_FREE = "innodb_buffer_pool_wait_free"
FAILURES = "innodb_metric_buffer_lru_single_flush_failure_count"
NO_LOOPS = "this version does not count the passes of a search for a frame (buffer_LRU_get_free_loops)"
NO_SINGLE_PAGE = (
    "user threads of this version flush no single pages but wait for the page cleaner "
    "(it has no buffer_LRU_single_flush_failure_count)"
)
#: The reason where the server lacks a counter. A run that ended early, or of another engine, keeps its own reason.
_MEANING = {LOOPS: NO_LOOPS, FAILURES: NO_SINGLE_PAGE}


def _victim(name: str, of: Callable[[float, float, float, float], float]) -> Quantity:
    """Return the formula of one way to a frame, from S, L, W and F.

    It needs all four: W has another meaning where there is no F.
    """
    metrics = (FAILURES, LOOPS, SEARCHES, WAIT_FREE)

    def evaluate(window: Window) -> Value:
        counts = []
        for metric in metrics:
            found = window.change(metric)
            if found.value is None:
                sampled = metric in window.end and metric in window.start
                return Value(None, _MEANING.get(metric, found.reason) if sampled else found.reason)
            counts.append(found.value)
        failures, loops, searches, waits = counts
        return Value(of(searches, loops, waits, failures))

    return Quantity(Unit.parse("frames"), evaluate, name, frozenset(metrics))


FREE_LIST = _victim("free-list hits", lambda searches, loops, waits, failures: searches - loops + failures)
LRU_SCAN = _victim("LRU-scan hits", lambda searches, loops, waits, failures: loops - waits)
SINGLE_PAGE = _victim("single-page flushes", lambda searches, loops, waits, failures: waits - failures)
#: A page read or created takes a frame and keeps it.
_HELD = (counted("pages_read") + counted("pages_created")).counted_as("frames")


def _counted(name: str) -> Quantity:
    """Return the change of a counter of INNODB_METRICS, by the engine's name for it."""
    return counted(f"{METRIC_PREFIX}{name.lower()}")


def _lru_writes() -> Quantity:
    """Return the dirty pages written by LRU batches.

    MariaDB 10.2 leaves buffer_LRU_batch_flush_total_pages at zero; there they are what neither flush-list batches nor
    single-page flushes wrote. The latter are taken to have written a page each, which is the most they can have.
    """
    own, batches = _counted("buffer_LRU_batch_flush_total_pages"), _counted("buffer_LRU_batch_flush_count")
    written, listed = counted("pages_written"), _counted("buffer_flush_batch_total_pages")

    def evaluate(window: Window) -> Value:
        found, ended = own.evaluate(window), batches.evaluate(window)
        dead = found.value == 0 and not ended.value
        if not dead:
            return found
        rest = (written - listed).evaluate(window)
        single = SINGLE_PAGE.evaluate(window)
        if rest.value is None or single.value is None:
            return found
        return Value(max(0.0, rest.value - single.value))

    read = (own, batches, written, listed, SINGLE_PAGE)
    return Quantity(Unit.parse("pages"), evaluate, own.name, frozenset().union(*(each.reads for each in read)))


#: What the formulas in `metrics` name.
QUANTITIES = {
    "frame_requests": counted(SEARCHES),
    "free_list_hits": FREE_LIST,
    "lru_scan_hits": LRU_SCAN,
    "single_page_flushes": SINGLE_PAGE,
    "frames_held": _HELD,
    "lru_batch_writes": _lru_writes(),
}
