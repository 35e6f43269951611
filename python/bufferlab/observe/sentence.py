"""Says in one honest sentence whether misses of the pool are what slows a server, or that this cannot be told."""

from __future__ import annotations

from bufferlab.chapter import words
from bufferlab.observe.look import Seen
from bufferlab.units import format_duration, format_percent

LITTLE_RATIO = 0.05
"""Below this share of statement time, misses are not what slows a server."""


def answer(seen: Seen) -> str:
    """Return the sentence, of the seconds that were seen."""
    if not seen.window.rows:
        return "Nothing was seen: two readings of the counters are needed, and no two followed each other."
    totals = seen.window.totals
    misses, gets = totals["misses"], totals["page_gets"]
    of = f"of {words.number(gets)} gets in {format_duration(seen.window.seconds)}"
    if not misses:
        return f"Misses are not what slows this server: the pool missed none {of}."
    told = f"the pool misses {words.number(rate(seen, 'misses'))} reads a second{_each(seen)}"
    share = time_ratio(seen)
    if share is None:
        why = seen.facts.no_time or "no statement was timed"
        return f"{told[0].upper()}{told[1:]}; what share of statement time they take cannot be told: {why}."
    if share < LITTLE_RATIO:
        return (
            f"Misses are not what slows this server: {told}, and they take {format_percent(share)} of statement time."
        )
    return f"{told[0].upper()}{told[1:]}; they take {format_percent(share)} of statement time."


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
