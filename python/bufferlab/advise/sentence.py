"""Says in one sentence what another size of the pool would read, or why that cannot be said."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bufferlab.advise.look import Advice
from bufferlab.advise.recorded import Estimate
from bufferlab.chapter import words
from bufferlab.engines.servers.questions import NotTold
from bufferlab.units import format_bytes

_MOST_LARGER = 2
_FEW = 0.02
"""A size whose reads are at most this share of the present ones reads "fewer than" its upper bound."""
_WORSE = 1.5
"""A smaller size that reads at least so many times as much is where it gets worse fast."""
_AS_MUCH = 1.1
"""A smaller size that reads at most so many times as much reads about as much."""


def answer(advice: Advice) -> str:
    """Return the sentence, of the sizes that were judged."""
    told = [one for one in advice.others if one.cannot_say is None]
    begin = _present(advice)
    if not told:
        why = reason(advice.doubts[0] if advice.doubts else _why(advice.others))
        return f"{begin}; what another size would read cannot be said: {why}."
    larger = [one for one in told if one.pool_size_bytes > advice.present_bytes]
    smaller = [one for one in told if one.pool_size_bytes < advice.present_bytes]
    parts = [begin]
    holds_all = bool(larger) and all(one.tier == "counted" for one in larger)
    if holds_all:
        parts.append("a larger one can spare no more than that, for the pool holds what this load reads")
    elif chosen := _chosen(larger, advice):
        first, *rest = chosen
        shown = [f"{_size(first, advice)} would read {bounds(first, advice)}"]
        parts.append(", ".join(shown + [f"{_size(one, advice)} {bounds(one, advice)}" for one in rest]))
    elif not larger:
        refused = [one for one in advice.others if one.pool_size_bytes > advice.present_bytes]
        if refused:
            parts.append(f"what a larger one would read cannot be said: {reason(_why(refused))}")
        # A larger pool reads no more, so that a bound may be known where a value is not.
        if (most := refused[-1].high if refused else None) is not None:
            size = format_bytes(refused[-1].pool_size_bytes)
            parts.append(f"{size} would read no more than {few_digits(most, math.ceil)}")
    parts += _smaller(smaller, advice)
    end = ", after a restart" if is_postgres(advice) and larger and not holds_all else ""
    return f"{'; '.join(parts)}{end}."


def is_postgres(advice: Advice) -> bool:
    """Return whether reads are asked of the system, and a change of the pool needs a restart."""
    return advice.seen.facts.flavour == "postgres"


def bounds(one: Estimate, advice: Advice) -> str:
    """Return the reads of an estimate between its bounds, which are rounded outward: "60 to 95", "fewer than 5".

    Without bounds it is "about" the estimate.
    """
    if one.reads_per_s is None and one.high is not None:
        return f"fewer than {few_digits(one.high, math.ceil)}"
    if one.low is None or one.high is None:
        return f"about {words.number(one.reads_per_s)}"
    most = _FEW * (advice.present.reads_per_s or 0.0)
    if one.low <= 0 or (one.reads_per_s or 0.0) <= most:
        return f"fewer than {few_digits(one.high, math.ceil)}" if one.high > 0 else "none"
    low, high = few_digits(one.low, math.floor), few_digits(one.high, math.ceil)
    return f"{low} to {high}" if low != high else f"about {low}"


def few_digits(value: float, rounded: Callable[[float], int]) -> str:
    """Return a number with two digits, or three from 100 on.

    >>> few_digits(59.4, math.floor), few_digits(4.21, math.ceil), few_digits(4123, math.floor)
    ('59', '4.3', '4,120')
    """
    if value <= 0:
        return "0"
    place = max(-2, math.floor(math.log10(value)) - (2 if value >= 100 else 1))
    # Near a whole number of steps the float's last digits must not add one.
    text = f"{10.0**place * rounded(round(value / 10.0**place, 6)):,.{max(0, -place)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def reason(told: NotTold) -> str:
    """Return why something cannot be said, and what would help."""
    return f"{told.why}; {told.remedy}" if told.remedy else told.why


def _present(advice: Advice) -> str:
    size = format_bytes(advice.present_bytes)
    if advice.present.reads_per_s is None:
        return f"nobody saw how much {size} reads"
    reads = few_digits(advice.present.reads_per_s, round)
    if is_postgres(advice):
        return f"shared_buffers of {size} asks the system for {reads} pages a second"
    return f"{size} reads {reads} pages a second"


def _size(one: Estimate, advice: Advice) -> str:
    room = advice.largest_bytes
    more = " (more than there is memory for)" if room is not None and one.pool_size_bytes > room else ""
    return f"{format_bytes(one.pool_size_bytes)}{more}"


def _chosen(larger: Sequence[Estimate], advice: Advice) -> list[Estimate]:
    """Return the next larger size and the largest one that fits into memory, or the next ones where none fits."""
    room = advice.largest_bytes
    fitting = [one for one in larger if room is None or one.pool_size_bytes <= room] or list(larger[:1])
    return fitting if len(fitting) <= _MOST_LARGER else [fitting[0], fitting[-1]]


def _smaller(smaller: Sequence[Estimate], advice: Advice) -> list[str]:
    """Return where a smaller pool begins to read much more, or the smallest that reads about as much."""
    present = advice.present.reads_per_s or 0.0
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


def _why(refused: Sequence[Estimate]) -> NotTold:
    return next(
        (one.cannot_say for one in refused if one.cannot_say), NotTold("no other size was asked for", "--sizes")
    )
