"""Shows what was found inside the server: who fills the pool, statements, what else it does; and its host's side."""

from __future__ import annotations

from bufferlab.chapter import words
from bufferlab.chapter.blocks import Column, Row, Section, Table
from bufferlab.engines.servers.questions import NotTold
from bufferlab.observe.look import Seen
from bufferlab.units import format_percent

_TEXT_CHARACTERS = 200


def inside_sections(seen: Seen) -> list[Section]:
    """Return a chapter for each kind of finding; a chapter without one says why."""
    return [_contents(seen), _statements(seen), *_confounds(seen)]


def host_facts(seen: Seen) -> list[str]:
    """Return in words what the server cost its host; nothing where that is not seen from here."""
    host, found = seen.inside.host, []
    if not isinstance(host, NotTold):
        if host.processor_cores is not None:
            found.append(f"the server kept {words.number(host.processor_cores)} cores busy")
        if host.page_cache_ratio is not None:
            found.append(f"the page cache had {format_percent(host.page_cache_ratio)} of the bytes it read")
    return found


def _contents(seen: Seen) -> Section:
    title, told = "Who fills the pool", seen.inside.contents
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
    rows += [Row(("not told", _why(one)), "quiet") for one in seen.inside.not_told]
    heads = (Column("Kind", numeric=False), Column("What", numeric=False))
    title = "What else the server does"
    table = Table("confounds", title, heads, tuple(rows), brief=("Kind", "What"))
    return [Section("confounds", title, "At both ends.", (table,))] if rows else []


def _without(id: str, title: str, told: NotTold) -> Section:
    return Section(id, title, f"Not told: {_why(told)}.", ())


def _why(told: NotTold) -> str:
    return told.why + (f"; {told.remedy} would let it" if told.remedy else "")
