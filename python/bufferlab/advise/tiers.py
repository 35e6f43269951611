"""Plans which tier is attached when, and what that costs, from the rates that a server had with nothing attached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bufferlab.advise.cost import foretold_cores
from bufferlab.engines.live_trace import Tier, stop_us
from bufferlab.engines.servers.builds import Flavour
from bufferlab.errors import SpecError
from bufferlab.observe.window import Row
from bufferlab.units import format_duration, format_percent

BESIDE_S = 5.0
"""Seconds before and behind each attachment in which nothing is attached: the cost is measured against them."""
FULL_S = 10.0
MOST_FULL = 3
"""Windows of all accesses, each of FULL_S; longer where the pool turns over slowly (`full_s`)."""
TURNOVERS = 2.0
"""Pools' worth of pages that all windows of `full` should see read: a smaller pool is turned over more often."""
_FRAME_EVENTS = 2
"""Events of a page that is read or made: that, and the eviction that makes room for it."""


@dataclass(frozen=True)
class Stage:
    """A part of the look: a tier that is attached for so long, or nothing (None)."""

    tier: Tier | None
    seconds: float


@dataclass(frozen=True)
class Foretold:
    """What a tier will cost, by the rates seen before."""

    tier: Tier
    events_per_s: float
    seconds: float
    """In all its windows together."""
    flavour: Flavour
    reads_alone: bool = False
    """Whether the server does not tell how many pages it makes, so that these are left out."""

    @property
    def cores(self) -> float:
        """Processors that its events take."""
        return foretold_cores(self.events_per_s, self.flavour, self.tier)


def stages(tier: Tier, within_s: float, full_s: float = FULL_S, *, larger: bool = True) -> tuple[Stage, ...]:
    """Return the parts of a look of that length, first and last ones without anything attached.

    The tier `full` comes in short windows, then the rest of the time is of `misses` where `larger` sizes are asked
    about. Windows of `full_s` seconds are shorter where all of them would take more than half of the time, but not
    below FULL_S.

    >>> [(one.tier, one.seconds) for one in stages("full", 60)]
    [(None, 5.0), ('full', 10.0), (None, 5.0), ('misses', 35.0), (None, 5.0)]
    """
    found, left_s = [Stage(None, BESIDE_S)], within_s - 2 * BESIDE_S
    if tier == "full":
        windows = max(1, min(MOST_FULL, int(left_s / 2 // (FULL_S + BESIDE_S))))
        seconds = min(left_s, max(FULL_S, min(full_s, left_s / 2 / windows - BESIDE_S)))
        for _ in range(windows):
            found += [Stage("full", seconds), Stage(None, BESIDE_S)]
            left_s -= seconds + BESIDE_S
    if left_s >= BESIDE_S and (larger or tier == "misses"):
        found += [Stage("misses", left_s), Stage(None, BESIDE_S)]
    return tuple(found)


def full_s(rows: Sequence[Row], pool_pages: float, limit_cores: float, flavour: Flavour) -> float:
    """Return the seconds of a window of `full` that all together see the pool turned over TURNOVERS times.

    So long as they take no more processor time than windows of FULL_S at the limit; `rows` are of a time in which
    nothing was attached.
    """
    (full,) = foretell((Stage("full", 1.0),), rows, flavour)
    reads_per_s = sum(row.counts.get("pages_read", 0.0) for row in rows) / (sum(row.seconds for row in rows) or 1.0)
    wanted_s = TURNOVERS * pool_pages / reads_per_s / MOST_FULL if reads_per_s else FULL_S
    return max(FULL_S, min(wanted_s, FULL_S * limit_cores / full.cores if full.cores else FULL_S))


def foretell(planned: Sequence[Stage], rows: Sequence[Row], flavour: Flavour) -> tuple[Foretold, ...]:
    """Return what each tier of the stages will cost, from rows of a time in which nothing was attached."""
    seconds = sum(row.seconds for row in rows) or 1.0
    gets, read, made = (
        sum(row.counts.get(name, 0.0) for row in rows) / seconds
        for name in ("page_gets", "pages_read", "pages_created")
    )
    misses = _FRAME_EVENTS * (read + made)
    events: dict[Tier, float] = {"full": gets + misses, "misses": misses}
    lengths = {tier: sum(one.seconds for one in planned if one.tier == tier) for tier in events}
    # PostgreSQL up to 15 counts pages that it makes as read.
    alone = flavour != "postgres" and not any("pages_created" in row.counts for row in rows)
    return tuple(Foretold(tier, events[tier], length, flavour, alone) for tier, length in lengths.items() if length)


def refuse_above(limit_cores: float, foretold: Sequence[Foretold]) -> None:
    """Raise SpecError for a tier that would take more than the limit. Nothing is attached yet."""
    for one in foretold:
        if one.cores > limit_cores:
            each = f"{stop_us(one.flavour, one.tier):g} µs each"
            what = (
                f"the tier {one.tier} would take {format_percent(one.cores)} of a processor: {one.events_per_s:,.0f} "
                f"{'gets' if one.tier == 'full' else 'reads, creations and evictions'} a second of {each}"
            )
            instead = "--tier misses, or " if one.tier == "full" else ""
            raise SpecError(what, f"--max-cpu {format_percent(limit_cores)}", f"{instead}a larger --max-cpu")


def sentence(one: Foretold) -> str:
    """Return what a tier will cost in words."""
    alone = ", without the pages that it makes, which the server does not tell" if one.reads_alone else ""
    return (
        f"{one.tier}: about {one.events_per_s:,.0f} events a second, {format_percent(one.cores)} of a processor, for "
        f"{format_duration(one.seconds)}{alone}"
    )
