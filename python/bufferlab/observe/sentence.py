"""Says in one honest sentence whether misses of the pool are what slows a server, or that this cannot be told."""

from __future__ import annotations

from bufferlab.chapter import words
from bufferlab.observe.look import Seen
from bufferlab.units import format_bytes, format_duration, format_percent

LITTLE_RATIO = 0.05
"""Below this share of statement time, misses are not what slows a server."""
FREE_RATIO = 0.2
"""A pool of which so much is free at both ends is one to speak of."""
_WITH_STAT_IO = 16
"""The first version of PostgreSQL that counts reads by their object and context (pg_stat_io)."""
_BEYOND = 1.5
"""So many times as many free pages as the page cleaner asks for were never filled."""


def answer(seen: Seen) -> str:
    """Return the sentence, of the seconds that were seen; a second one where much of the pool is free."""
    if not seen.window.rows:
        return "Nothing was seen: two readings of the counters are needed, and no two followed each other."
    return f"{_slows(seen)}{_unpublished(seen)}{_ring(seen) or _room(seen)}{_temporary(seen)}"


def _slows(seen: Seen) -> str:
    totals = seen.window.totals
    misses, gets = totals["misses"], totals["page_gets"]
    length = format_duration(seen.window.seconds)
    is_whole = not seen.unpublished.sessions
    if not misses and (not is_whole or seen.unpublished.hidden):
        return (
            f"Whether misses slow this server cannot be told: the pool missed none of the {words.number(gets)} gets "
            f"that were counted in {length}."
        )
    if not misses:
        return f"Misses are not what slows this server: the pool missed none of {words.number(gets)} gets in {length}."
    told = f"the pool misses {words.number(rate(seen, 'misses'))} reads a second{_each(seen)}"
    share = time_ratio(seen)
    if share is None:
        why = seen.facts.no_time or "no statement was timed"
        return f"{told[0].upper()}{told[1:]}; what share of statement time they take cannot be told: {why}."
    if share < LITTLE_RATIO and is_whole:
        return (
            f"Misses are not what slows this server: {told}, and they take {format_percent(share)} of statement time."
        )
    return f"{told[0].upper()}{told[1:]}; they take {format_percent(share)} of statement time."


def _unpublished(seen: Seen) -> str:
    """Say that sessions worked of which nothing is counted, or that this is not known where nothing was missed."""
    told = seen.unpublished
    if told.sessions:
        most = ""
        if told.read_bytes is not None:
            per_s = format_bytes(told.read_bytes / seen.window.seconds)
            most = f" They read at most {per_s} a second (/proc/PID/io)."
        who = "1 session" if told.sessions == 1 else f"{told.sessions} sessions"
        return (
            f" {who} worked in transactions that began before this look, and {seen.facts.engine} publishes counts "
            f"when a transaction ends: theirs are missing.{most}"
        )
    if told.hidden and not seen.window.totals["misses"]:
        return (
            f" Whether {told.hidden} sessions of other roles work in transactions that have published nothing yet is "
            "not told: GRANT pg_monitor TO the role would let it."
        )
    return ""


def _ring(seen: Seen) -> str:
    """Say that scans through a ring make most of the misses; "" where they do not.

    PostgreSQL reads a table of more than a quarter of shared_buffers through a ring (heapam.c, initscan).
    """
    totals = seen.window.totals
    ring = totals.get("ring_pages_read", 0)
    if 2 * ring <= totals["misses"]:
        return ""
    return (
        f" {format_percent(ring / totals['misses'])} of the misses are of scans through a ring of a few buffers, which "
        "keeps little of a table: a pool of more than four times the table uses none, and keeps it."
    )


def _temporary(seen: Seen) -> str:
    """Say that most pages that sessions read are of temporary tables, or that misses may be; "" where few are."""
    facts, misses = seen.facts, seen.window.totals["misses"]
    if facts.flavour == "postgres" and facts.numbers[0] < _WITH_STAT_IO and misses:
        return (
            f" {facts.engine} {facts.numbers[0]} counts among them reads of temporary tables, which the pool never "
            "has, and pages by which tables grow."
        )
    read = seen.window.totals.get("temporary_pages_read", 0)
    if read <= misses:
        return ""
    return (
        f" Sessions also read {words.number(rate(seen, 'temporary_pages_read'))} pages of temporary tables a second, "
        "which the pool never has: temp_buffers keeps them."
    )


def _room(seen: Seen) -> str:
    """Say that much of the pool is free, and why pages are missed all the same; "" where little is or nothing is told.

    InnoDB's page cleaner frees pages until innodb_lru_scan_depth of them are free in each instance
    (buf0flu.cc, buf_flush_LRU_list_batch).
    """
    ends = [
        pool.values for pool in (seen.begin, seen.end) if pool and {"free_pages", "pool_pages"} <= pool.values.keys()
    ]
    if len(ends) < 2 or not seen.window.totals["misses"]:
        return ""
    ratio = min(end["free_pages"] / max(1, end["pool_pages"]) for end in ends)
    if ratio < FREE_RATIO:
        return ""
    settings, pages = seen.facts.settings, ends[-1]["pool_pages"]
    depth = int(settings.get("innodb_lru_scan_depth", 0))
    asked = depth * max(1, int(settings.get("innodb_buffer_pool_instances", 1)))
    share = format_percent(ratio)
    if ratio * pages > _BEYOND * asked:
        return f" At both ends {share} of the pool was free, so these misses are not for want of memory."
    return (
        f" The page cleaner keeps {share} of the pool free: innodb_lru_scan_depth is {depth:,}, "
        f"and the pool has {pages:,.0f} pages."
    )


def rate(seen: Seen, name: str) -> float | None:
    """Return a count per second, over the seconds in which it was told."""
    seconds = seen.window.seconds_of.get(name, 0.0)
    return seen.window.totals[name] / seconds if seconds else None


def per(seen: Seen, name: str, unit: str) -> float | None:
    """Return a count per statement or transaction; None where there were none, or they are not counted."""
    count, units = rate(seen, name), rate(seen, unit)
    return count / units if count is not None and units else None


def time_ratio(seen: Seen) -> float | None:
    """Return the share of statement time that reads of data files take, 0 to 1; None where it cannot be told.

    Threads of the server that read in the background may make reads take more than statements do: the share is then 1.
    """
    ratio = per(seen, "read_ms", "statement_ms")
    return None if ratio is None else min(1.0, ratio)


def hit_ratio(seen: Seen) -> float | None:
    """Return the share of gets that found their page in the pool."""
    missed = per(seen, "misses", "page_gets")
    return None if missed is None else 1 - missed


def _each(seen: Seen) -> str:
    for unit, name in (("statements", "statement"), ("transactions", seen.facts.transactions)):
        if (each := per(seen, "misses", unit)) is not None:
            return f", {words.number(each)} per {name}"
    return ""
