"""Builds the report of an observation, which every output format shows, and the table of its seconds for CSV.

The report also has the findings inside the server (contents of the pool, statements, other work) and on its host.

A terminal shows a panel during the observation: the values that a DBA looks at first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.elements import Banner, Column, Figure, Row, Section, Table, TimePlot, Trace
from bufferlab.engines.servers.counts import LEVELS, TITLES, level_title
from bufferlab.engines.servers.look import Facts, NotTold
from bufferlab.live import sentence
from bufferlab.live.look_result import LookCost, Seen
from bufferlab.live.window import LookWindow, SampledRow
from bufferlab.report.document import Note, Report, Status, stamped
from bufferlab.units import format_bytes, format_duration, format_percent

#: The most points in time that a figure draws; more would look the same.
_DRAWN = 600
_STATUS: Mapping[str, Status] = {"whole": "ok", "stopped": "interrupted", "lost": "lost"}


def as_report(seen: Seen) -> Report:
    """Return an observation as the document that every output format shows."""
    window, facts = seen.window, seen.facts
    length = format_duration(window.seconds)
    report = Report(
        title="observe",
        question="Does the buffer pool slow this server?",
        answer=sentence.observed(seen),
        facts=(
            f"{facts.engine} {facts.version}",
            seen.server,
            length,
            cost(seen.cost),
            *_hits(seen),
            *([] if (read_ms := seen.ms_per_read) is None else [f"a read took {words.number(read_ms)} ms"]),
            *host_facts(seen),
        ),
        banners=tuple(Banner("warning", f"{event.t_s:.0f} s: {event.what}") for event in window.events[:10]),
        headline=misses_figure(seen) if window.rows else None,
        steps=_panel(seen),
        limits=tuple(_limits(seen)),
        sections=tuple(_sections(seen)),
        status=_STATUS[seen.ended],
        lead="counts",
        data=seen,
    )
    return stamped(report, f"{facts.engine} {'.'.join(map(str, facts.numbers))} · {length} · bufferlab observe")


def _panel(seen: Seen) -> Table:
    """Return the table next to the figure. It has the values that a DBA looks at first, without the unknown ones."""
    rows = tuple(map(Row, figures(seen.rate).items()))
    return Table("main", "While it was seen", (Column("What"), Column("Mean of the look")), rows)


def cost(cost: LookCost) -> str:
    """Return in words how much an observation cost the observed server."""
    if cost.core_ratio is not None:
        return f"looking took {format_percent(cost.core_ratio)} of a core (our session's thread, /proc)"
    per_s_ms = 1000 * cost.statement_s / max(cost.seconds, 1e-9)
    return f"our statements took {per_s_ms:.2g} ms a second as we waited for them, the network included"


def line(row: SampledRow, transactions: str) -> str:
    """Return the line of text for a row: rates of pages, statements and transactions."""
    parts = [f"{row.t_s:.0f} s"]
    for name, title in (
        ("page_gets", "gets"),
        ("misses", "misses"),
        ("pages_read", "read"),
        ("pages_written", "written"),
    ):
        parts.append(f"{title} {words.number(row.per_s(name))}/s")
    units = (("statements", "statement"), ("transactions", transactions))
    for name, unit in units:
        if count := row.counts.get(name):
            parts.append(f"{words.number(row.per_s(name))} {unit}s/s")
            parts.append(f"{words.number(row.counts['misses'] / count)} misses per {unit}")
    if (dirty := row.levels.get("dirty_pages")) is not None and row.levels.get("pool_pages"):
        parts.append(f"dirty {format_percent(dirty / row.levels['pool_pages'])}")
    return "  ".join(parts)


def seconds_table(seen: Seen) -> Table:
    """Return the table of all rows, each about a second long: counts as rates, then gauges."""
    rows = seen.window.rows
    counts = [name for name in TITLES if any(name in row.counts for row in rows)]
    levels = sorted({name for row in rows for name in row.levels})
    heads = ("t_s", *(f"{name}_per_s" for name in counts), *levels)
    cells = tuple(
        Row((f"{row.t_s:.3f}", *map(_plain, (*map(row.per_s, counts), *map(row.levels.get, levels))))) for row in rows
    )
    return Table(
        "seconds", "What was seen, second by second", tuple(map(Column, heads)), cells, sentence.observed(seen)
    )


def _plain(value: float | None) -> str:
    return words.NOTHING if value is None else f"{value:.10g}"


def _sections(seen: Seen) -> list[Section]:
    """Return the sections of the report."""
    each = ("Per second", "Per statement", f"Per {seen.facts.transactions}")
    rows = [
        Row((_title(seen, name), _shown(name, seen.rate(name)),
             *(_shown(name, seen.per(name, unit)) for unit in ("statements", "transactions"))))
        for name in TITLES if name in seen.window.totals
    ]  # fmt: skip
    if not isinstance(told := seen.twice_the_pool, NotTold):
        misses = (seen.rate("misses"), *(seen.per("misses", unit) for unit in ("statements", "transactions")))
        most = (None if one is None else one * told.misses_ratio_at_most for one in misses)
        rows.append(Row(("Misses of twice the pool, at most", *map(words.number, most))))
    heads = (Column("What", numeric=False), *map(Column, each))
    counts = Table("counts", "Counts", heads, tuple(rows), brief=("What", *each))
    pool = _pool(seen)
    events = Table(
        "events", "What happened meanwhile", (Column("At"), Column("What", numeric=False)),
        tuple(Row((f"{event.t_s:.0f} s", event.what)) for event in seen.window.events), brief=("At", "What"),
    )  # fmt: skip
    gets = [_figure(seen, "gets", "Gets over time", "Gets a second", ("page_gets",))] if seen.window.rows else []
    return [
        Section("counts", "Counts", "The whole server's, without our session's own.", (*gets, counts)),
        Section("pool", "The pool", "As the server told it at both ends.", (pool,)),
        *inside_sections(seen),
        *([Section("events", "Events", "", (events,))] if events.rows else []),
    ]


def _pool(seen: Seen) -> Table:
    end = seen.end.values if seen.end else {}
    shares = ("dirty_pages", "old_pages", "free_pages")
    order = [*LEVELS]
    rows = []
    for name in sorted(
        seen.begin.values.keys() | end.keys(),
        key=lambda name: (order.index(name) if name in order else len(order), name),
    ):
        rows.append(Row((level_title(name), *(_level(name, values.get(name)) for values in (seen.begin.values, end)))))
        if name in shares:
            parts = [_share(values, name) for values in (seen.begin.values, end)]
            rows.append(Row((f"{level_title(name)}, share", *parts)))
    heads = (Column("Quantity", numeric=False), Column("At the beginning"), Column("At the end"))
    return Table("pool", "The pool", heads, tuple(rows), brief=tuple(head.title for head in heads))


def _level(name: str, value: float | None) -> str:
    return f"{value:,.0f}" if value is not None and not name.endswith("_bytes") else _shown(name, value)


def _share(values: Any, name: str) -> str:
    whole = values.get("pool_pages")
    return format_percent(values[name] / whole) if whole and name in values else words.NOTHING


def _shown(name: str, value: float | None) -> str:
    return format_bytes(value) if value is not None and name.endswith("_bytes") else words.number(value)


def _title(seen: Seen, name: str) -> str:
    if name == "transactions" and seen.facts.transactions != "transaction":
        return "Explicit commits"
    return TITLES[name]


def _hits(seen: Seen) -> list[str]:
    ratio, misses = seen.hit_ratio, seen.rate("misses")
    if ratio is None:
        return []
    return [f"hit ratio {100 * ratio:.4g} %, which hides {words.number(misses)} misses a second"]


def _limits(seen: Seen) -> list[str]:
    limits = [
        *_untimed(seen),
        "A hit ratio hides how many misses there are: 99 % of 100,000 gets a second leaves 1,000 reads a second.",
        "Whether a larger pool would miss less is not told here: bufferlab advise tells it.",
    ]
    if not isinstance(told := seen.twice_the_pool, NotTold):
        limits[-1] = "How much less a larger pool would miss, not only at most, is estimated by bufferlab advise."
    elif seen.rate("misses"):
        limits.append(f"What twice the pool would miss is not bounded, because {sentence.reason(told)}.")
    limits += sentence.kept_free(seen)
    if not seen.facts.no_time:
        limits.append("The time of reads is that of all threads, also of those that no statement waits for.")
    if seen.facts.flavour == "postgres":
        limits.append("A page read may come from the kernel's page cache, not from the device.")
    host = seen.inside.host
    limits.append(
        f"There are no counts of the device: {host.why}."
        if isinstance(host, NotTold)
        else "Counts of the device are of all programs on the host."
    )
    for why in dict.fromkeys(seen.begin.why_not.values()):
        titles = (level_title(name) for name, told in seen.begin.why_not.items() if told == why)
        names = ", ".join(f"{title[0].lower()}{title[1:]}" for title in titles)
        limits.append(f"Not told: {names}. The reason: {why}.")
    return limits


def _untimed(seen: Seen) -> list[str]:
    """Return the line on how to enable the timing of reads, if the server does not time them."""
    if seen.time_ratio is not None or not seen.rate("misses"):
        return []
    why = seen.facts.no_time or "no statement was timed"
    return [f"What share of statement time the reads take cannot be told: {why}."]


def misses_figure(seen: Seen) -> Figure:
    """Return the figure of misses over time, with the pages read if these differ."""
    is_one = all(row.counts.get("misses") == row.counts.get("pages_read") for row in seen.window.rows)
    if is_one:
        return _figure(seen, "misses", "Misses over time", "Misses a second", ("misses",))
    return _figure(seen, "misses", "Misses and pages read over time", "Pages a second", ("misses", "pages_read"))


def _figure(seen: Seen, id: str, title: str, y_label: str, names: tuple[str, ...]) -> Figure:
    """Return the figure of rates over time, a line for each name.

    The first line is wide, because others may cover it.
    """
    rows = seen.window.rows
    step = -(-len(rows) // _DRAWN)
    groups = [rows[place : place + step] for place in range(0, len(rows), step)]
    times = tuple(group[-1].t_s for group in groups)
    values = {
        name: tuple(
            sum(row.counts.get(name, 0) for row in group) / sum(row.seconds for row in group) for group in groups
        )
        for name in names
    }
    is_wide = [len(names) > 1, *[False] * (len(names) - 1)]
    traces = tuple(
        Trace(TITLES[name], times, values[name], None, is_wide=wide) for name, wide in zip(names, is_wide, strict=True)
    )
    heads = (Column("t (s)"), *(Column(f"{TITLES[name]} per second") for name in names))
    data = tuple(
        Row((f"{t_s:.2f}", *(f"{values[name][place]:.6g}" for name in names))) for place, t_s in enumerate(times)
    )
    table = Table(f"{id}-data", f"Data: {title[0].lower()}{title[1:]}", heads, data, folded=True)
    first, *others = (TITLES[name].lower() for name in names)
    alt = f"{title}, {y_label.lower()}, for {format_duration(times[-1])}."
    caption = f"The wide pale line: {first}. The thin line: {', '.join(others)}." if others else ""
    return Figure(id, title, alt, caption, TimePlot(("",), y_label, (traces,)), table)


_TEXT_CHARACTERS = 200


def inside_sections(seen: Seen) -> list[Section]:
    """Return the sections on findings inside the server. A section without a finding says why."""
    return [_contents(seen), _statements(seen), *_confounds(seen)]


def host_facts(seen: Seen) -> list[str]:
    """Return words on the server's use of its host; [] if the server is not on this host, or nothing is known."""
    host, found = seen.inside.host, []
    if not isinstance(host, NotTold):
        if host.processor_cores is not None:
            found.append(f"the server kept {words.number(host.processor_cores)} cores busy")
        if host.page_cache_ratio is not None:
            found.append(f"the page cache had {format_percent(host.page_cache_ratio)} of the bytes it read")
    return found


def _contents(seen: Seen) -> Section:
    title, told = "Who fills the pool", seen.inside.pool_contents
    if isinstance(told, NotTold):
        return _without("contents", title, told)
    idle = "Old pages" if told.objects and told.objects[0].old_pages is not None else "Pages not used lately"
    heads = (
        Column("Table", numeric=False),
        Column("Index", numeric=False),
        *map(Column, ("Pages", "Share", "Dirty", idle)),
    )
    rows = tuple(
        Row((one.table, one.index or "", f"{one.pages:,}", format_percent(one.share_ratio), f"{one.dirty_pages:,}",
             f"{one.cold_pages if one.old_pages is None else one.old_pages:,}"))
        for one in told.objects
    )  # fmt: skip
    brief = ("Table", "Index", "Pages", "Share")
    return Section("contents", title, "Asked once, at the end.", (Table("contents", title, heads, rows, brief=brief),))


def _statements(seen: Seen) -> Section:
    title, told = "Statements", seen.inside.statements
    if isinstance(told, NotTold):
        return _without("statements", title, told)
    names = ("Calls", "Seconds", "Rows examined", "Rows returned", "Pages read", "Seconds of reads")
    heads = (Column("Statement", numeric=False), Column("Schema", numeric=False), *map(Column, names))
    rows = tuple(
        Row((one.text[:_TEXT_CHARACTERS], one.place or "", f"{one.calls:,}", words.number(one.seconds),
             *map(words.number, (one.rows_examined, one.rows_returned, one.read_pages, one.read_seconds))))
        for one in told.statements
    )  # fmt: skip
    aside = (
        f"{told.calls:,} calls took {words.number(told.seconds)} s in all; utility statements "
        f"({words.number(told.utility_seconds)} s) and questions of monitors "
        f"({words.number(told.monitoring_seconds)} s) are not shown."
    )
    table = Table("statements", title, heads, rows, " ".join((aside, *(f"{note}." for note in told.notes))))
    return Section("statements", title, "What ended while we looked, by the server's own table.", (table,))


def _confounds(seen: Seen) -> list[Section]:
    rows = [Row((one.kind.replace("_", " "), one.sentence)) for one in seen.inside.confounds]
    rows += [Row(("not told", _why(one)), "quiet") for one in seen.inside.confounds_not_told]
    heads = (Column("Kind", numeric=False), Column("What", numeric=False))
    title = "What else the server does"
    table = Table("confounds", title, heads, tuple(rows), brief=("Kind", "What"))
    return [Section("confounds", title, "At both ends.", (table,))] if rows else []


def _without(id: str, title: str, told: NotTold) -> Section:
    return Section(id, title, f"Not told: {_why(told)}.", ())


def _why(told: NotTold) -> str:
    return told.why + (f"; {told.remedy} would let it" if told.remedy else "")


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


def panel(window: LookWindow, facts: Facts, server: str) -> Report:
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
