"""Computes each statement's work in a window, from the server's own table of statements at the window's two ends.

The table is read exactly twice. A statement counts in the window in which it ends. An entry's work is the difference
between its counts at the two ends. If the entry was reset or evicted in between, its work is its counts at the second
end.

Servers replace values in most texts, but not in all. PostgreSQL keeps comments, and keeps utility statements as they
were sent (pg_stat_statements.c, pgss_ProcessUtility), with passwords and values. So a text is shown only if it begins
as a query or a change of rows, and every literal or comment left in it is removed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bufferlab.engines.innodb import questions as innodb
from bufferlab.engines.postgres import questions as postgres
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import NotTold, Query, Question, Row, ask, integer, seconds, text
from bufferlab.texts import printable

Order = Literal["time", "rows", "reads"]
SHOWN = 20
_CANDIDATES = 2 * SHOWN
"""For each sort order, the number of statements whose texts are read.

It exceeds SHOWN, because some statements are never shown.
"""
_TIMES = ("time", "read_time")
_NUMBERS = ("calls", "time", "rows_examined", "rows_returned", "hit_pages", "read_pages", "read_time")

Key = tuple[str | None, str | None, str | None]
"""(schema or database, digest or query identifier, account if the table has a row for each account)."""
Counts = Mapping[str, float]


@dataclass(frozen=True)
class DigestEntry:
    """One row of the server's table: the time since which it counts, and its counts by name, with times in seconds."""

    since: str | None
    counts: Counts


@dataclass(frozen=True)
class Snapshot:
    """The server's table of statements at one end of a window."""

    entries: Mapping[Key, DigestEntry]
    where: Row
    """For PostgreSQL, the schema and version of the extension pg_stat_statements; otherwise empty."""
    evictions: int | None = None


@dataclass(frozen=True)
class Growth:
    """The work by entry of the server's table of statements between two snapshots."""

    counts: Mapping[Key, Counts]
    restarted: int
    """The number of entries whose counts restarted: they were reset, or evicted and created again."""
    gone: int
    """The number of entries that are only in the first snapshot."""


@dataclass(frozen=True)
class DigestStatement:
    """The work of one statement in the window."""

    place: str | None
    """The statement's schema (MySQL, MariaDB) or database (PostgreSQL); None if the server names none."""
    text: str
    calls: int
    seconds: float
    rows_examined: int | None
    """The rows that the server read for the statement; None on PostgreSQL, which does not count them."""
    rows_returned: int
    """The rows that the statement's calls returned or changed."""
    hit_pages: int | None
    read_pages: int | None
    """The pages that the statement did not find in the pool; None on MySQL and MariaDB, which do not count them."""
    read_seconds: float | None
    """The time of the statement's page reads; None if the server does not time reads."""


@dataclass(frozen=True)
class Digests:
    """The work of statements in the window."""

    statements: tuple[DigestStatement, ...]
    """The statements to show, sorted by time: the largest ones by time, the largest by rows, and the largest by
    reads."""
    calls: int
    seconds: float
    """The time of all statements, including those that are not shown; `calls` are their calls."""
    utility_calls: int
    utility_seconds: float
    """The time of the utility statements among the largest statements; `utility_calls` are their calls.

    Utility statements are never shown.
    """
    monitoring_calls: int
    monitoring_seconds: float
    """The time of the largest statements that read the server's own views; `monitoring_calls` are their calls.

    These are bufferlab's statements, and those of other monitors.
    """
    notes: tuple[str, ...]
    """Sentences on missing values, each with the reason."""

    def first(self, order: Order, limit: int = SHOWN) -> tuple[DigestStatement, ...]:
        """Return the statements with most time, rows (examined, or returned if those are unknown) or page reads."""
        ordered = sorted(self.statements, key=lambda one: (-_size(one, order), one.text))
        return tuple(one for one in ordered[:limit] if _size(one, order) > 0)


def start(query: Query, flavour: Flavour) -> Snapshot | NotTold:
    """Return the table at the beginning of the window, or why it is missing."""
    where: Row = {}
    if flavour == "postgres":
        found = ask(query, postgres.STATEMENTS_PLACE)
        if isinstance(found, NotTold):
            return found
        if why := postgres.unavailable(found):
            return why
        where = found[0]
    else:
        is_on = ask(query, innodb.IS_ON)
        if isinstance(is_on, NotTold):
            return is_on
        off = ask(query, innodb.CONSUMERS) if integer(is_on[0]["is_on"]) else []
        if isinstance(off, NotTold):
            return off
        if why := innodb.unavailable(is_on, off):
            return why
    return _snapshot(query, flavour, where)


def finish(query: Query, flavour: Flavour, first: Snapshot) -> Digests | NotTold:
    """Read the table at the window's end, and the texts of the largest statements; return the statements' work."""
    last = _snapshot(query, flavour, first.where)
    if isinstance(last, NotTold):
        return last
    growth = grown(first.entries, last.entries)
    did = _by_statement(growth.counts)
    ids = _largest(did)
    is_postgres = flavour == "postgres"
    asked = ask(query, postgres.texts(first.where, ids) if is_postgres else innodb.texts(ids)) if ids else []
    if isinstance(asked, NotTold):
        return asked
    texts = {str(row["id"]): text(row["text"]) or "" for row in asked} | {innodb.PREPARED: innodb.PREPARED_TEXT}
    return _digests(did, texts, _notes(growth, did, first, last))


def grown(first: Mapping[Key, DigestEntry], last: Mapping[Key, DigestEntry]) -> Growth:
    """Return the work of each entry between two snapshots. No count is negative.

    >>> before, after = DigestEntry(None, {"calls": 5}), DigestEntry(None, {"calls": 7})
    >>> grown({("s", "a", None): before}, {("s", "a", None): after}).counts
    {('s', 'a', None): {'calls': 2}}
    """
    counts: dict[Key, Counts] = {}
    restarted = 0
    for key, entry in last.items():
        before = first.get(key)
        if before is None:
            counts[key] = entry.counts
        elif before.since != entry.since or any(entry.counts[name] < before.counts[name] for name in entry.counts):
            restarted += 1
            counts[key] = entry.counts
        else:
            counts[key] = {name: value - before.counts[name] for name, value in entry.counts.items()}
    return Growth(counts, restarted, len(first.keys() - last.keys()))


def _snapshot(query: Query, flavour: Flavour, where: Row) -> Snapshot | NotTold:
    if flavour != "postgres":
        rows = ask(query, innodb.COUNTS)
        return rows if isinstance(rows, NotTold) else Snapshot(_entries(rows, innodb.UNITS_PER_S), where)
    rows = ask(query, postgres.counts(where))
    if isinstance(rows, NotTold):
        return rows
    table: Question = postgres.table(where)
    told = ask(query, table)
    evictions = None if isinstance(told, NotTold) or not told else integer(told[0]["evictions"])
    return Snapshot(_entries(rows, postgres.UNITS_PER_S), where, evictions)


def _entries(rows: Iterable[Row], units_per_s: float) -> dict[Key, DigestEntry]:
    """Return the entries by key.

    Rows of a schema without an identifier (a missing privilege, or a full table) form one entry.
    """
    sums: dict[Key, dict[str, float]] = {}
    since: dict[Key, str | None] = {}
    for row in rows:
        key = (text(row["place"]), text(row["id"]), text(row.get("account")))
        own = sums.setdefault(key, {})
        since[key] = text(row["since"]) if key[1] is not None else None
        for name in _NUMBERS:
            if name in row:
                value = seconds(row[name]) / units_per_s if name in _TIMES else integer(row[name])
                own[name] = own.get(name, 0) + value
    return {key: DigestEntry(since[key], counts) for key, counts in sums.items()}


def _by_statement(counts: Mapping[Key, Counts]) -> dict[tuple[str | None, str | None], dict[str, float]]:
    """Return the counts of each statement that ran, summed over the accounts."""
    did: dict[tuple[str | None, str | None], dict[str, float]] = {}
    for (place, identifier, _), own in counts.items():
        if own["calls"] > 0:
            sums = did.setdefault((place, identifier), dict.fromkeys(own, 0.0))
            for name, value in own.items():
                sums[name] += value
    return did


def _largest(did: Mapping[tuple[str | None, str | None], Counts]) -> set[str]:
    """Return the identifiers of the statements that may be among the largest by time, rows or reads."""
    named = [(identifier, counts) for (_, identifier), counts in did.items() if identifier is not None]
    chosen: set[str] = set()
    for name in ("time", "rows_examined", "rows_returned", "read_pages"):
        ordered = sorted(named, key=lambda one: -one[1].get(name, 0.0))
        chosen.update(identifier for identifier, counts in ordered[:_CANDIDATES] if counts.get(name, 0.0) > 0)
    return chosen


def _digests(
    did: Mapping[tuple[str | None, str | None], Counts], texts: Mapping[str, str], notes: Sequence[str]
) -> Digests:
    statements = []
    aside: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (place, identifier), counts in did.items():
        told = texts.get(identifier or "")
        if told is None:
            continue
        # Some versions of MySQL write EXECUTE before the text of a prepared statement.
        words = told if identifier == innodb.PREPARED else shown(told.removeprefix("EXECUTE "))
        if words is None or is_monitoring(words):
            kind = "utility" if words is None else "monitoring"
            aside[kind][0] += counts["calls"]
            aside[kind][1] += counts["time"]
        else:
            statements.append(_statement(place, words, counts))
    kept = {one for order in ("time", "rows", "reads") for one in _first(statements, order)}
    return Digests(
        tuple(sorted(kept, key=lambda one: (-one.seconds, one.text))),
        round(sum(counts["calls"] for counts in did.values())),
        sum(counts["time"] for counts in did.values()),
        round(aside["utility"][0]), aside["utility"][1], round(aside["monitoring"][0]), aside["monitoring"][1],
        tuple(notes),
    )  # fmt: skip


def _statement(place: str | None, words: str, counts: Counts) -> DigestStatement:
    told = {name: round(counts[name]) for name in _NUMBERS if name in counts and name not in _TIMES}
    read_s = counts.get("read_time")
    if not read_s and told.get("read_pages"):
        read_s = None  # track_io_timing is off, so page reads were not timed.
    return DigestStatement(
        place, words, told["calls"], counts["time"], told.get("rows_examined"), told["rows_returned"],
        told.get("hit_pages"), told.get("read_pages"), read_s,
    )  # fmt: skip


def _first(statements: Iterable[DigestStatement], order: str) -> list[DigestStatement]:
    return sorted(statements, key=lambda one: (-_size(one, order), one.text))[:SHOWN]


def _size(one: DigestStatement, order: str) -> float:
    if order == "time":
        return one.seconds
    if order == "reads":
        return one.read_pages or 0
    return one.rows_returned if one.rows_examined is None else one.rows_examined


def _notes(
    growth: Growth, did: Mapping[tuple[str | None, str | None], Counts], first: Snapshot, last: Snapshot
) -> list[str]:
    notes = []
    if growth.restarted:
        notes.append(f"{growth.restarted} statements began to count anew: what they did before that is missing")
    if growth.gone:
        notes.append(f"{growth.gone} statements left the server's table: what they did in the window is missing")
    if first.evictions is not None and last.evictions is not None and last.evictions > first.evictions:
        times = last.evictions - first.evictions
        notes.append(f"the server evicted statements from its full table {times} times (pg_stat_statements.max)")
    unnamed = round(sum(counts["calls"] for (_, identifier), counts in did.items() if identifier is None))
    if unnamed:
        why = (
            "GRANT pg_monitor TO the role names them" if first.where
            else "its table is full (performance_schema_digests_size)"
        )  # fmt: skip
        notes.append(f"the server does not name the statements of {unnamed:,} calls: {why}")
    return notes


_LONGEST_CHARACTERS = 1000
_SHOWN = frozenset(("SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "WITH", "VALUES", "TABLE"))
_TOKEN = re.compile(
    r"(?P<comment>/\*.*?(?:\*/|\Z)|--[^\n]*)"
    # A setting of the server decides whether a backslash escapes a quote. So nothing after a backslash in a literal is
    # shown.
    r"|(?P<literal>'(?:[^'\\]|'')*(?:'|\\.*|\Z)|\$(?P<tag>[A-Za-z_]\w*|)\$.*?(?:\$(?P=tag)\$|\Z)"
    r"|(?<![\w$`\"])\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
    r"|(?P<name>\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\$\d+)",
    re.DOTALL,
)
_MONITORING = re.compile(
    r"\b(?:information_schema|performance_schema|pg_catalog|pg_stat\w*|pg_buffercache\w*|pg_settings|pg_locks"
    r"|pg_database|pg_replication_slots|pg_prepared_xacts)\b"
)


def shown(text: str) -> str | None:
    """Return a statement's text without values and comments; None if it is not a query or a change of rows.

    >>> shown("/* user 7 */ SELECT * FROM t WHERE a = $1 AND b = 'x' AND c = 5")
    'SELECT * FROM t WHERE a = $1 AND b = ? AND c = ?'
    >>> shown("ALTER USER me PASSWORD 'secret'") is None
    True
    """
    plain = " ".join(_TOKEN.sub(_kept, text).split())
    first = re.match(r"[\s(]*([A-Za-z]+)", plain)
    # After a nested comment is removed, the outer comment's end is left: do not show such a text.
    if first is None or first[1].upper() not in _SHOWN or "*/" in plain:
        return None
    cut = plain if len(plain) <= _LONGEST_CHARACTERS else plain[:_LONGEST_CHARACTERS] + " ..."
    return printable(cut)


def is_monitoring(text: str) -> bool:
    """Return whether a statement reads the server's own views, as bufferlab's statements do."""
    return _MONITORING.search(text.lower()) is not None


def _kept(found: re.Match[str]) -> str:
    if found["comment"]:
        return " "
    return found["name"] or "?"
