"""Builds the panel of an observation: the values that a DBA looks at first, as means or second by second.

The report has the means of the whole observation. A terminal shows the panel during the observation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bufferlab.chapter import words
from bufferlab.chapter.elements import Column, Row, Section, Table
from bufferlab.engines.servers.counts import TITLES, level_title
from bufferlab.engines.servers.look import Facts
from bufferlab.live.window import LookWindow, SampledRow
from bufferlab.report.document import Note, Report
from bufferlab.units import format_bytes, format_duration, format_percent

_MINUTE_S, _MINUTE_ROWS = 60.0, 60
_BARS = "▁▂▃▄▅▆▇█"
_LEVELS = ("dirty_pages", "free_pages")


def figures(rate: Callable[[str], float | None]) -> dict[str, str]:
    """Return the known values by title; `rate` returns a count per second, or None."""
    misses, read = rate("misses"), rate("pages_read")
    read_ms = rate("read_ms")
    found: list[tuple[str, str | None]] = [
        ("Hit ratio", _ratio(misses, rate("page_gets"), lambda missed: f"{100 * (1 - missed):.4g} %")),
        ("Reads' share of statement time",
         _ratio(read_ms, rate("statement_ms"), lambda share: format_percent(min(1.0, share)))),
        ("Time of a read", _ratio(read_ms, read, lambda each_ms: f"{words.number(each_ms)} ms")),
    ]  # fmt: skip
    names = ["misses", *(["pages_read"] if read != misses else []), "pages_written", "page_gets"]
    found += [(f"{TITLES[name]} a second", words.number(value)) for name in names if (value := rate(name)) is not None]
    return {title: text for title, text in found if text is not None}


def _ratio(part: float | None, whole: float | None, shown: Callable[[float], str]) -> str | None:
    return shown(part / whole) if part is not None and whole else None


def report(window: LookWindow, facts: Facts, server: str) -> Report:
    """Return the panel of a running observation: the last second, the last minute, and the whole time."""
    now = window.rows[-1]
    minute = [row for row in window.rows[-_MINUTE_ROWS:] if row.t_s > now.t_s - _MINUTE_S]

    def whole(name: str) -> float | None:
        seconds = window.seconds_of.get(name)
        return window.totals[name] / seconds if seconds else None

    told = [{**figures(rate), **_work(rate, facts)} for rate in (_rate([now]), _rate(minute), whole)]
    shown = [Row((title, *(one.get(title, "") for one in told))) for title in told[-1]]
    shown += [Row((title, value, "", "")) for title, value in _levels(now)]
    heads = (Column("", numeric=False), Column("Last second"), Column("Last minute"), Column("Whole look"))
    table = Table("panel", "The last seconds", heads, tuple(shown), brief=tuple(head.title for head in heads))
    misses = [row.per_s("misses") or 0.0 for row in minute]
    return Report(
        title="observe",
        question="",
        answer="",
        facts=(
            f"{facts.engine} {facts.version}",
            server,
            format_bytes(facts.pool_size_bytes),
            format_duration(now.t_s),
        ),
        sections=(Section("panel", "", "", (table,)),),
        parts=("facts", "untitled", "notes"),
        notes=(Note("misses, the last minute  ", sparkline(misses)), Note("Ctrl-C ends with the answer", look="quiet")),
    )


def _rate(rows: Sequence[SampledRow]) -> Callable[[str], float | None]:
    def rate(name: str) -> float | None:
        known = [row for row in rows if name in row.counts]
        return sum(row.counts[name] for row in known) / sum(row.seconds for row in known) if known else None

    return rate


def _work(rate: Callable[[str], float | None], facts: Facts) -> dict[str, str]:
    """Return the statements and transactions per second, each with its misses."""
    found = {}
    for name, unit in (("statements", "statement"), ("transactions", facts.transactions)):
        if value := rate(name):
            found[f"{unit[0].upper()}{unit[1:]}s a second"] = words.number(value)
            found[f"Misses per {unit}"] = words.number((rate("misses") or 0.0) / value)
    return found


def _levels(row: SampledRow) -> list[tuple[str, str]]:
    pages = row.levels.get("pool_pages")
    names = (name for name in _LEVELS if pages and name in row.levels)
    return [(f"{level_title(name)}, share", format_percent(row.levels[name] / (pages or 1))) for name in names]


def sparkline(values: Sequence[float]) -> str:
    """Return a line of Unicode bars, the highest for the largest value.

    >>> sparkline([0, 1, 2, 8])
    '▁▂▃█'
    """
    most = max(values, default=0.0)
    return "".join(_BARS[min(len(_BARS) - 1, int(len(_BARS) * value / most))] if most else _BARS[0] for value in values)
