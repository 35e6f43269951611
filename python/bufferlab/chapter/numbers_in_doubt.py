"""Makes sentences on the numbers that failed checks put in doubt. Other numbers are not affected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bufferlab.chapter import words
from bufferlab.results.check_parts import ALL, Check, Numbers, numbers_of
from bufferlab.results.metrics import Metric

#: The words for checks that put all numbers in doubt.
EVERY = "every number"
#: The most points or runs that the words of a failed check name.
_MOST_NAMED = 4
_WORDS: dict[Numbers, str] = {
    "reads": "reads and misses",
    "gets": "page gets",
    "writes": "writes",
    "times": "times and rates",
    "device": "the device's figures",
    "inside": "the engine's own counters",
}


def failed(checks: Iterable[Check]) -> list[Check]:
    """Return the checks that failed."""
    return [check for check in checks if check.status == "failed"]


def doubting(checks: Iterable[Check], metric: Metric) -> list[Check]:
    """Return the failed checks that put a metric in doubt."""
    numbers = numbers_of(metric)
    return [check for check in failed(checks) if numbers & set(check.touches)]


def named(check: Check) -> str:
    """Return the condition that a failed check tests, with the points or runs at which it failed, if they are known."""
    if not check.failed_at:
        return check.title
    shown, more = list(check.failed_at[:_MOST_NAMED]), len(check.failed_at) - _MOST_NAMED
    return f"{check.title} (failed at {words.listing([*shown, *([f'{more} more'] if more > 0 else [])])})"


def in_words(checks: Iterable[Check]) -> str:
    """Return in words the numbers that these checks doubt, "times and rates and the device's figures", or EVERY."""
    touched = {number for check in checks for number in check.touches}
    if touched == set(ALL):
        return EVERY
    return words.listing([_WORDS[number] for number in ALL if number in touched])


def caption(checks: Sequence[Check], metrics: Iterable[Metric]) -> str:
    """Return the sentences below a table that name its metrics in doubt, and the checks' caveats; or "".

    Failed checks that put all numbers in doubt are left out.
    """
    partly = [check for check in failed(checks) if set(check.touches) != set(ALL)]
    shown = list(metrics)
    titles = dict.fromkeys(metric.label for metric in shown if doubting(partly, metric))
    doubted = f" In doubt by a check that failed: {', '.join(titles)}." if titles else ""
    return doubted + "".join(_caveat(check, shown) for check in checks if check.caveat)


def _caveat(check: Check, metrics: Iterable[Metric]) -> str:
    titles = dict.fromkeys(metric.label for metric in metrics if numbers_of(metric) & set(check.touches))
    return f" {check.caveat[0].upper()}{check.caveat[1:]}: {', '.join(titles)}." if titles else ""
