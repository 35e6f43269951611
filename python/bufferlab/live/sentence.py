"""Builds the sentences that answer `observe` and `advise`, or the reason for a missing answer.

`observed` says whether misses slow the server, `advised` what its pool would read at another size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from bufferlab.chapter import words
from bufferlab.engines.servers.look import NotTold
from bufferlab.live import constants, free_pages
from bufferlab.live.advise import Advice
from bufferlab.live.bounds import SizeEstimate
from bufferlab.live.look_result import Seen
from bufferlab.units import format_bytes, format_duration, format_percent

READ_MS = (0.1, 1.0)
"""The read times of a fast and of a slow SSD in ms. They are assumed if the server does not time its reads."""
LITTLE_RATIO = 0.05
"""If reads take less than this fraction of the statements' time, the answer says that misses do not slow the server."""
_WITH_STAT_IO = 16
"""The first version of PostgreSQL that counts reads by their object and context (pg_stat_io)."""


def observed(seen: Seen) -> str:
    """Return the sentences of `observe`: whether misses slow the server, and other important findings."""
    if not seen.window.rows:
        return "Nothing was seen: two readings of the counters are needed, and no two followed each other."
    return f"{_slows(seen)}{_unpublished(seen)}{_twice(seen)}{_ring(seen) or _room(seen)}{_temporary(seen)}"


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
    told = f"the pool misses {words.number(seen.rate('misses'))} reads a second{_each(seen)}"
    share = seen.time_ratio
    if share is None:
        return f"{told[0].upper()}{told[1:]}: {_untimed(seen)}."
    if share < LITTLE_RATIO and is_whole:
        return (
            f"Misses are not what slows this server: {told}, and they take {format_percent(share)} of statement time."
        )
    return f"{told[0].upper()}{told[1:]}; they take {format_percent(share)} of statement time."


def _untimed(seen: Seen) -> str:
    """Return words on the time that sessions wait for misses if the server does not time its reads.

    The time is computed from the device's mean read time, or if that is unknown, from those of a fast and of a slow
    SSD.
    """
    totals, misses_per_s = seen.window.totals, seen.rate("misses") or 0.0
    reads, all_ms = totals.get("device_reads"), totals.get("device_read_ms")
    if reads and all_ms:
        read_ms = all_ms / reads
        each = seen.per("misses", "transactions")
        more = "" if each is None else f", {words.number(each * read_ms)} ms per {seen.facts.transactions}"
        return (
            f"if each takes {words.number(read_ms)} ms, as the device's reads did in the mean (all programs' reads), "
            f"sessions wait {words.number(read_ms * misses_per_s)} ms for them in each second{more}"
        )
    low, high = READ_MS
    waits = " to ".join(words.number(ms * misses_per_s) for ms in READ_MS)
    return f"if a read takes {low:g} to {high:g} ms, sessions wait {waits} ms for them in each second"


def _unpublished(seen: Seen) -> str:
    """Return sentences on sessions that worked but published no counts, or that may have; "" if there are none."""
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
    """Return a sentence if scans through a buffer ring cause most of the misses; else "".

    PostgreSQL scans a table of more than a quarter of shared_buffers through a ring (heapam.c, initscan).
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
    """Return a sentence if sessions read many pages of temporary tables, or if misses may include them; else ""."""
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
        f" Sessions also read {words.number(seen.rate('temporary_pages_read'))} pages of temporary tables a second, "
        "which the pool never has: temp_buffers keeps them."
    )


def _room(seen: Seen) -> str:
    """Return a sentence if much of the pool is free although pages are missed; else ""."""
    ratio = free_pages.ratio(seen)
    if ratio < constants.FREE_RATIO or not seen.window.totals["misses"]:
        return ""
    if free_pages.was_never_filled(seen):
        return (
            f" At both ends {format_percent(ratio)} of the pool was free, so these misses are not for want of memory."
        )
    return f" {told.sentence}" if (told := free_pages.kept(seen)) else ""


def kept_free(seen: Seen) -> list[str]:
    """Return the sentences on the pages that the page cleaner keeps free; [] if `observed` has them, or the pages are
    few."""
    told = free_pages.kept(seen)
    return [] if told is None or _room(seen) else [told.sentence]


def _twice(seen: Seen) -> str:
    """Return a sentence on the most misses that a pool of twice the size would have; "" without a bound."""
    told = seen.twice_the_pool
    if isinstance(told, NotTold):
        return ""
    size = f"Twice the pool ({format_bytes(told.pool_size_bytes)})"
    if not told.misses_ratio_at_most:
        return f" {size} would hold all {format_bytes(told.data_size_bytes)} of data, and miss new pages alone."
    share = math.ceil(100 * told.misses_ratio_at_most)
    return f" {size} would leave at most {share} % of these misses, if its curve has no steps."


def _each(seen: Seen) -> str:
    for unit, name in (("statements", "statement"), ("transactions", seen.facts.transactions)):
        if (each := seen.per("misses", unit)) is not None:
            return f", {words.number(each)} per {name}"
    return ""


_MOST_LARGER = 2
_FEW = 0.02
"""If a size reads at most this fraction of the present reads, the sentence says "fewer than" its upper bound."""
_WORSE = 1.5
"""If a smaller size reads at least this many times the present reads, the sentence says that reads rise from there
on."""
_AS_MUCH = 1.1
"""If a smaller size reads at most this many times the present reads, the sentence says "about as much"."""
_TIMES_FROM = 900.0
"""From this change in per cent on, a table shows it as a factor."""


_NEEDS = re.compile(r"record for (\d+ (?:min|s)) at least")
_TIMES = {1.25: "A quarter more memory", 1.5: "Half as much memory again", 2: "Twice the memory",
          4: "Four times the memory"}  # fmt: skip


def advised(advice: Advice) -> str:
    """Return the sentence of `advise` on the sizes that were judged, or why none could be."""
    told = [one for one in advice.others if one.cannot_say is None]
    begin = _present(advice)
    if not told:
        why = reason(advice.cannot_say[0] if advice.cannot_say else _why(advice.others))
        return f"{begin}; what another size would read cannot be said: {why}."
    larger = [one for one in told if one.pool_size_bytes > advice.present_bytes]
    smaller = [one for one in told if one.pool_size_bytes < advice.present_bytes]
    parts = [begin]
    lead = ""
    holds_all = bool(larger) and all(one.tier == "counted" for one in larger)
    if holds_all:
        parts.append("a larger one can save no more than that, for the pool holds what this load reads")
    elif chosen := _chosen(larger, advice):
        lead = _lead(larger, advice)
        first, *rest = chosen
        shown = [f"{size_words(first, advice)} would read {bounds(first, advice)}"]
        parts.append(", ".join(shown + [f"{size_words(one, advice)} {bounds(one, advice)}" for one in rest]))
    elif not larger:
        refused = [one for one in advice.others if one.pool_size_bytes > advice.present_bytes]
        if refused:
            parts.append(f"what a larger one would read cannot be said: {reason(_why(refused))}")
        # A larger pool reads no more than a smaller one. So a bound may be known although the value is not.
        if (most := refused[-1].high if refused else None) is not None:
            size = format_bytes(refused[-1].pool_size_bytes)
            parts.append(f"{size} would read no more than {few_digits(most, math.ceil)}")
    parts += _smaller(smaller, advice)
    end = ", after a restart" if advice.needs_restart and larger and not holds_all else ""
    worth = "" if holds_all or all(one.reads_per_s is None for one in larger) else _worth(advice)
    return f"{lead}{'; '.join(parts)}{end}.{worth}{_writes(larger, advice)}"


def writes(one: SizeEstimate, advice: Advice) -> str:
    """Return the pages that a size writes a second: one number for the present pool, else bounds; "" if unknown."""
    least, most = one.writes_low_per_s, one.writes_high_per_s
    if least is None or most is None:
        return ""
    # If the upper bound equals the present number, print it with the same digits.
    high = few_digits(most, round if most == advice.now.writes_high_per_s else math.ceil)
    low = high if least == most else few_digits(least, math.floor)
    return f"{low} to {high}" if low != high else high


def _writes(larger: Sequence[SizeEstimate], advice: Advice) -> str:
    """Return a sentence on the writes of the larger size nearest to twice the present one; "" if they are unknown.

    Sizes that fit into memory are preferred.
    """
    room, present = advice.largest_bytes, writes(advice.now, advice)
    known = [one for one in larger if one.writes_high_per_s is not None]
    fitting = [one for one in known if room is None or one.pool_size_bytes <= room] or known
    if not fitting or present in ("", "0"):
        return ""
    one = _nearest_to_double(fitting, advice)
    size = size_words(one, advice)
    return (
        f" The server writes {present} pages a second now; with checkpoints as now, {size} would write "
        f"{writes(one, advice)}."
    )


def _worth(advice: Advice) -> str:
    """Return a sentence on how much time fewer reads can save at most; "" if reads or statements are not timed."""
    share = advice.seen.time_ratio
    if share is None:
        return ""
    return f" Reads take {format_percent(share)} of statement time: fewer reads can save no more than that."


def _lead(larger: Sequence[SizeEstimate], advice: Advice) -> str:
    """Return the answer's first words: the reads, in per cent, that the size nearest to twice the present one saves; ""
    if it has no bounds.

    Sizes that fit into memory are preferred.
    """
    present, room = advice.now.reads_per_s, advice.largest_bytes
    known = [one for one in larger if one.low is not None and one.high is not None and one.reads_per_s is not None]
    fitting = [one for one in known if room is None or one.pool_size_bytes <= room] or known
    if not present or not fitting:
        return ""
    one = _nearest_to_double(fitting, advice)
    ratio = one.pool_size_bytes / advice.present_bytes
    size = next(
        (text for known, text in _TIMES.items() if abs(ratio / known - 1) < 0.01), f"{ratio:.3g} times the memory"
    )
    waiting = ""
    if one.read_ms_per_s is not None and advice.now.read_ms_per_s is not None:
        now_ms, then_ms = (few_digits(size.read_ms_per_s or 0.0, round) for size in (advice.now, one))
        waiting = f", and waiting for reads would fall from {now_ms} to {then_ms} ms a second"
    return f"{size} would read {change(one, advice)}{waiting}: "


def change(one: SizeEstimate, advice: Advice) -> str:
    """Return in words how much more or less a size with bounds reads, in per cent of the present reads.

    Bounds are rounded outward. If they include the present reads, the words are "about as much".
    """
    present = advice.now.reads_per_s
    assert present
    assert one.high is not None
    if one.reads_per_s is None:
        return f"at least {max(0, math.floor(100 * (1 - one.high / present)))} % less"
    assert one.low is not None
    # Round to 6 digits first. Otherwise a floating-point error could add a whole per cent.
    less, least, most = (round(100 * (1 - value / present), 6) for value in (one.reads_per_s, one.high, one.low))
    if least > 0:
        return f"{less:.0f} % less ({math.floor(least)} to {min(100, math.ceil(most))} %)"
    if most < 0:
        return f"{-less:.0f} % more ({math.floor(-most)} to {math.ceil(-least)} %)"
    # A larger pool reads no more than the present one. If its upper bound is above, that is an error of the method.
    more = f" or {math.ceil(-least)} % more" if one.pool_size_bytes < advice.present_bytes else ""
    return f"about as much (up to {max(0, math.ceil(most))} % less{more})"


def verdict(one: SizeEstimate, advice: Advice) -> str:
    """Return words on a size for a table: its change, or why it is not judged."""
    present = advice.now.reads_per_s
    if one.pool_size_bytes == advice.present_bytes:
        return "as it is"
    if one.cannot_say is not None:
        needs = _NEEDS.search(one.cannot_say.remedy or "")
        return f"needs a look of {needs[1]}" if needs else "cannot say"
    return change(one, advice) if present and one.high is not None else "no reads to save"


def signed(one: SizeEstimate, advice: Advice) -> str:
    """Return the table cell of a size: its change with bounds ("-19 % (-24 to -13 %)"), or why it is not judged.

    Bounds are rounded outward. A larger pool reads no more than the present one, so its bounds end at 0. From ten times
    the present reads on the change is a factor ("31 times (23 to 39)").
    """
    present = advice.now.reads_per_s
    if not present or one.reads_per_s is None or one.low is None or one.high is None:
        return verdict(one, advice)
    most = math.inf if one.pool_size_bytes < advice.present_bytes else 0.0
    # Round to 6 digits first. Otherwise a floating-point error could add a whole per cent.
    value, low, high = (
        min(most, round(100 * (reads / present - 1), 6)) for reads in (one.reads_per_s, one.low, one.high)
    )
    if value >= _TIMES_FROM:
        times, least, largest = (1 + percent / 100 for percent in (value, low, high))
        return f"{times:,.0f} times ({math.floor(least):,} to {math.ceil(largest):,})"
    return f"{_sign(round(value))} % ({_sign(math.floor(low))} to {_sign(math.ceil(high))} %)"


def _sign(percent: int) -> str:
    return f"{percent:+,}" if percent else "0"


def bounds(one: SizeEstimate, advice: Advice) -> str:
    """Return the reads per second of an estimate in words: its bounds, rounded outward ("60 to 95", "fewer than 5").

    If the estimate has no bounds, the words are "about" and the value.
    """
    if one.reads_per_s is None and one.high is not None:
        return f"fewer than {few_digits(one.high, math.ceil)}"
    if one.low is None or one.high is None:
        return f"about {words.number(one.reads_per_s)}"
    most = _FEW * (advice.now.reads_per_s or 0.0)
    if one.low <= 0 or (one.reads_per_s or 0.0) <= most:
        return f"fewer than {few_digits(one.high, math.ceil)}" if one.high > 0 else "none"
    low, high = few_digits(one.low, math.floor), few_digits(one.high, math.ceil)
    return f"{low} to {high}" if low != high else f"about {low}"


def few_digits(value: float, rounded: Callable[[float], int]) -> str:
    """Return a number with two significant digits, or three from 100 on; `rounded` rounds it.

    >>> few_digits(59.4, math.floor), few_digits(4.21, math.ceil), few_digits(4123, math.floor)
    ('59', '4.3', '4,120')
    """
    if value <= 0:
        return "0"
    place = max(-2, math.floor(math.log10(value)) - (2 if value >= 100 else 1))
    # Round to 6 digits first. Otherwise a floating-point error could add one to the last digit.
    text = f"{10.0**place * rounded(round(value / 10.0**place, 6)):,.{max(0, -place)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def reason(told: NotTold) -> str:
    """Return a reason as text, with its remedy if it has one."""
    return f"{told.why}; {told.remedy}" if told.remedy else told.why


def _present(advice: Advice) -> str:
    size = format_bytes(advice.present_bytes)
    if advice.now.reads_per_s is None:
        return f"nobody saw how much {size} reads"
    reads = few_digits(advice.now.reads_per_s, round)
    if advice.needs_restart:
        return f"shared_buffers of {size} reads {reads} pages a second, from the page cache or the disk"
    return f"{size} reads {reads} pages a second"


def size_words(one: SizeEstimate, advice: Advice) -> str:
    """Return a size in words, with a remark if it exceeds the memory."""
    room = advice.largest_bytes
    more = " (more than there is memory for)" if room is not None and one.pool_size_bytes > room else ""
    return f"{format_bytes(one.pool_size_bytes)}{more}"


def _chosen(larger: Sequence[SizeEstimate], advice: Advice) -> list[SizeEstimate]:
    """Return the larger sizes that the sentence names: the one nearest to twice the pool, and the largest that fits
    into memory.

    If twice the pool is the largest, the next larger size comes first. If none fits into memory, only the next larger
    size is returned.
    """
    room = advice.largest_bytes
    fitting = [one for one in larger if room is None or one.pool_size_bytes <= room] or list(larger[:1])
    if len(fitting) <= _MOST_LARGER:
        return fitting
    double = _nearest_to_double(fitting, advice)
    return [fitting[0] if double is fitting[-1] else double, fitting[-1]]


def _nearest_to_double(sizes: Sequence[SizeEstimate], advice: Advice) -> SizeEstimate:
    return min(sizes, key=lambda size: abs(math.log2(size.pool_size_bytes / advice.present_bytes) - 1))


def _smaller(smaller: Sequence[SizeEstimate], advice: Advice) -> list[str]:
    """Return words on smaller sizes: where reads begin to rise fast, or the smallest that reads about as much."""
    present = advice.now.reads_per_s or 0.0
    same, parts = advice.present_bytes, []
    for one in sorted(smaller, key=lambda one: -one.pool_size_bytes):
        if one.high is not None and one.high <= _AS_MUCH * present:
            same = one.pool_size_bytes
        elif one.low is not None and one.low >= _WORSE * present and one.low > present:
            if same != advice.present_bytes:
                parts.append(f"{format_bytes(same)} would read about as much")
            parts.append(f"below {format_bytes(same)} it gets worse: "
                         f"{format_bytes(one.pool_size_bytes)} {bounds(one, advice)}")  # fmt: skip
            return parts
    if same != advice.present_bytes:
        return [f"{format_bytes(same)} would read about as much"]
    return [f"{format_bytes(one.pool_size_bytes)} would read {bounds(one, advice)}" for one in smaller[-1:]]


def _why(refused: Sequence[SizeEstimate]) -> NotTold:
    return next(
        (one.cannot_say for one in refused if one.cannot_say), NotTold("no other size was asked for", "--sizes")
    )
