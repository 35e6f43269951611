"""Decides from the counters and events of a window whether it allows judging other pool sizes at all.

Each rule returns a reason against it, with a remedy, or None. The parameters are below, or with the models if `predict`
has the same rule. docs/advice.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bufferlab.engines.servers.look import NotTold
from bufferlab.live.confounds import Confound
from bufferlab.live.look_result import Seen
from bufferlab.live.window import SampledRow
from bufferlab.models.limits import MOST_HISTORY, MOST_HISTORY_GROWTH, READ_AHEAD_LIMIT
from bufferlab.units import format_bytes, format_percent

FEWEST_GETS_PER_S = 10.0
"""A server with fewer page gets per second counts as idle: its own maintenance gets that many pages."""
MOST_DIRTY = 0.75
"""The largest fraction of the pool that may be dirty. With more dirty pages, reads wait for writes."""
MOST_MIX = 0.2
"""The largest relative change of gets per transaction between the window's halves.

With more, the statements changed.
"""
MIX_SIGMA = 3.0
"""A change of gets per transaction must exceed this many standard errors to count."""
FEWEST_UNITS = 100
"""The least number of transactions or statements in each half. With fewer, their mix is chance."""
BROKEN = {"restart": "the server was restarted", "failover": "another server answered (a failover)"}
"""For each kind of event after which a window has no answer, the event in words."""
_LATER = "ask again when it is over"
_STRANGERS = {
    "backup": "a backup ran",
    "definition": "a table was changed or built",
    "pool_load": "the pool was being loaded",
}


def doubts(seen: Seen, *, is_away: bool = False) -> tuple[NotTold, ...]:
    """Return the reasons why an observation cannot judge other sizes, the most serious first; () if it can."""
    rows = seen.window.rows
    rules: tuple[Callable[[], NotTold | None], ...] = (
        lambda: _broken(seen, is_away),
        lambda: _resized(seen, rows),
        lambda: idle(rows),
        lambda: _stranger(seen.inside.confounds),
        lambda: _behind(seen, rows),
        lambda: _read_ahead(rows),
        lambda: _dirty(rows),
        lambda: _mixed(seen, rows),
    )
    return tuple(found for rule in rules if (found := rule()) is not None)


def idle(rows: Sequence[SampledRow]) -> NotTold | None:
    """Return a reason if the server did almost nothing, or was never reached; None if it worked."""
    seconds, gets = sum(row.seconds for row in rows), _sum(rows, "page_gets")
    if not seconds:
        return NotTold("nothing was seen of the server", "ask again")
    if gets / seconds >= FEWEST_GETS_PER_S:
        return None
    return NotTold(f"the server was idle: {gets / seconds:.2g} page gets a second", "ask again while it works")


def _broken(seen: Seen, is_away: bool) -> NotTold | None:
    for event in seen.window.events:
        if event.kind in BROKEN:
            return NotTold(f"{BROKEN[event.kind]} in the window, and its pool began anew", "ask again once it is warm")
        if event.kind == "refused":
            return NotTold(event.what, "ask again when the account may log in")
    if is_away or seen.ended == "lost":
        return NotTold("the server went away in the window", "ask again when it is back")
    return None


def _resized(seen: Seen, rows: Sequence[SampledRow]) -> NotTold | None:
    frames = sorted({row.levels["pool_pages"] for row in rows if "pool_pages" in row.levels})
    if len(frames) < 2:
        return None
    page = seen.facts.page_size_bytes
    least, most = format_bytes(frames[0] * page), format_bytes(frames[-1] * page)
    return NotTold(f"the pool was resized in the window, between {least} and {most}", _LATER)


def _stranger(confounds: Sequence[Confound]) -> NotTold | None:
    for one in confounds:
        if one.kind in _STRANGERS:
            return NotTold(f"{_STRANGERS[one.kind]} in the window: {one.sentence}", _LATER)
    return None


def _behind(seen: Seen, rows: Sequence[SampledRow]) -> NotTold | None:
    """Return a reason if InnoDB's purge lagged, because it would lag differently in another pool; None if it did
    not."""
    lengths = [row.levels["history_list_length"] for row in rows if "history_list_length" in row.levels]
    told = next((one.sentence for one in seen.inside.confounds if one.kind == "history_list"), "")
    if lengths and max(lengths) > MOST_HISTORY:
        told = told or f"its history list had {max(lengths):,.0f} transactions"
    elif lengths and lengths[-1] - lengths[0] > MOST_HISTORY_GROWTH * _sum(rows, "transactions"):
        told = told or f"its history list grew by {lengths[-1] - lengths[0]:,.0f} transactions"
    return NotTold(f"purge is behind: {told}", "ask again when it has caught up") if told else None


def _read_ahead(rows: Sequence[SampledRow]) -> NotTold | None:
    ahead, reads = _sum(rows, "read_ahead_pages"), _sum(rows, "pages_read")
    if not reads or ahead / reads <= READ_AHEAD_LIMIT:
        return None
    return NotTold(f"{format_percent(ahead / reads)} of the pages were read ahead; another pool may read ahead more or "
                   "less", "ask when no large scan runs")  # fmt: skip


def _dirty(rows: Sequence[SampledRow]) -> NotTold | None:
    shares = [row.levels["dirty_pages"] / row.levels["pool_pages"]
              for row in rows if row.levels.get("pool_pages") and "dirty_pages" in row.levels]  # fmt: skip
    if not shares or sum(shares) / len(shares) <= MOST_DIRTY:
        return None
    share = format_percent(sum(shares) / len(shares))
    return NotTold(f"{share} of the pool is dirty, so that reads wait for writes", "see to the writes first")


def _mixed(seen: Seen, rows: Sequence[SampledRow]) -> NotTold | None:
    """Return a reason if the two halves of the window differ in gets per unit of work.

    Return None if they agree, or if too few units of work were counted.
    """
    # If the server counts only explicit commits, many transactions are not counted, so statements are preferred.
    units = (
        ("transactions", "statements") if seen.facts.transactions == "transaction" else ("statements", "transactions")
    )
    middle = len(rows) // 2
    for unit in units:
        halves = [_gets_per(part, unit) for part in (rows[:middle], rows[middle:])]
        if halves[0] is None or halves[1] is None:
            continue
        (first, first_error), (second, second_error) = halves[0], halves[1]
        is_chance = abs(first - second) <= MIX_SIGMA * (first_error**2 + second_error**2) ** 0.5
        if is_chance or max(first, second) <= (1 + MOST_MIX) * min(first, second):
            return None
        why = f"the mix of statements changed: {first:.3g} and then {second:.3g} gets a {unit[:-1]}"
        return NotTold(why, "choose a window in which the load stays the same")
    return None


def _gets_per(rows: Sequence[SampledRow], unit: str) -> tuple[float, float] | None:
    """Return the gets per unit of work and their standard error, from the scatter of the seconds; None with few units.

    The error is that of a ratio of sums: Cochran, "Sampling Techniques", 1977, 6.4.
    """
    units = _sum(rows, unit)
    if units < FEWEST_UNITS or len(rows) < 2:
        return None
    found = _sum(rows, "page_gets") / units
    left = sum((row.counts.get("page_gets", 0.0) - found * row.counts.get(unit, 0.0)) ** 2 for row in rows)
    return found, (left * len(rows) / (len(rows) - 1)) ** 0.5 / units


def _sum(rows: Sequence[SampledRow], name: str) -> float:
    return sum(row.counts.get(name, 0.0) for row in rows)
