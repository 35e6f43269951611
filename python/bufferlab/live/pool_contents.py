"""Finds which tables and indexes fill a server's pool. The cost is foretold, and the question is asked only once.

The question takes a time that grows with the pool, and meanwhile holds the pool's latch (InnoDB) or many small locks
(PostgreSQL). If that time is long, it is asked only after the user has confirmed it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from bufferlab.engines.innodb import questions as innodb
from bufferlab.engines.postgres import questions as postgres
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.questions import NotTold, Query, Row, ask, integer

LONGEST_S = 0.25
"""InnoDB is asked without a confirmation if that takes fewer seconds: with up to about 16,000 pages."""


@dataclass(frozen=True)
class AskingCost:
    """The foretold cost of asking who fills the pool."""

    pages: int
    seconds: float
    within_limit: bool
    """Whether the server is asked without a confirmation by the user."""
    sentence: str


@dataclass(frozen=True)
class PoolObject:
    """The pages of one index, or of a group that has a name in parentheses: free pages, undo, other databases."""

    table: str
    index: str | None
    """The index's name; None for PostgreSQL's tables, which are not an index, and for groups."""
    pages: int
    share_ratio: float
    """Of all pages of the pool; the shares of a pool sum to one."""
    dirty_pages: int
    old_pages: int | None = None
    """Pages in the old sublist; None: PostgreSQL has none."""
    cold_pages: int | None = None
    """Pages with the usage count 0, which the clock sweep takes first; None: InnoDB counts no usage."""


@dataclass(frozen=True)
class PoolContents:
    """Who fills the pool."""

    pages: int
    """All pages of the pool, the free ones included."""
    seconds_foretold: float
    objects: tuple[PoolObject, ...]
    """The largest first; the last one holds the rest."""


def foretell(flavour: Flavour, pool_pages: int) -> AskingCost:
    """Return the foretold cost of asking a server for the first time since its start, which takes longest.

    >>> foretell("mysql", 8192).sentence
    'asking who fills 8,192 pages takes about 0.12 s, under the latch of the pool, and about 82 of them for its answer'
    """
    if flavour == "postgres":
        seconds, how = pool_pages * postgres.PAGE_S, "and locks each buffer for a moment"
        within = pool_pages < postgres.MOST_BUFFERS
    else:
        seconds, how = pool_pages * innodb.PAGE_S, "under the latch of the pool"
        if flavour == "mysql":
            how += f", and about {pool_pages * innodb.TEMPORARY_TABLE_RATIO:,.0f} of them for its answer"
        within = seconds < LONGEST_S
    return AskingCost(
        pool_pages, seconds, within, f"asking who fills {pool_pages:,} pages takes about {seconds:.2g} s, {how}"
    )


def look(
    query: Query, flavour: Flavour, pool_pages: int, *, look_inside: bool = False, limit: int = 20
) -> PoolContents | NotTold:
    """Ask who fills the pool, if that is cheap or the user confirmed it (`look_inside`); return the answer.

    It has at most `limit` objects. `pool_pages` is the size of the pool by the server's counters.
    """
    foretold = foretell(flavour, pool_pages)
    if not (foretold.within_limit or look_inside):
        return NotTold(f"who fills the pool: {foretold.sentence}, so it is not asked", "--look-inside asks it once")
    rows = _postgres_rows(query) if flavour == "postgres" else ask(query, innodb.CONTENTS)
    if isinstance(rows, NotTold):
        return rows
    objects = objects_of(rows, flavour, pool_pages, limit)
    return PoolContents(sum(one.pages for one in objects), foretold.seconds, objects)


def objects_of(rows: Iterable[Row], flavour: Flavour, pool_pages: int, limit: int) -> tuple[PoolObject, ...]:
    """Return the objects in the server's rows, the largest first. The last one may be a group of those beyond `limit`.

    Rows with the same name are one object. Pages of the pool that no row names are a group too, so shares sum to one.
    """
    names = postgres.names if flavour == "postgres" else innodb.names
    idle = "cold_pages" if flavour == "postgres" else "old_pages"
    found: dict[tuple[str, str | None], list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        for place, column in enumerate(("pages", "dirty_pages", idle)):
            found[names(row)][place] += integer(row[column])
    told = sum(counts[0] for counts in found.values())
    if told < pool_pages:
        found[("(not told)", None)] = [pool_pages - told, 0, 0]
    total = max(told, pool_pages)
    ordered = sorted(found.items(), key=lambda one: (-one[1][0], one[0][0], one[0][1] or ""))
    kept, rest = ordered[: max(limit - 1, 0)], ordered[max(limit - 1, 0) :]
    if len(rest) > 1:
        rest = [((f"({len(rest)} others)", None), [sum(column) for column in zip(*(c for _, c in rest), strict=True)])]
    return tuple(
        PoolObject(table, index, pages, pages / total if total else 0.0, dirty, **{idle: quiet})
        for (table, index), (pages, dirty, quiet) in [*kept, *rest]
    )


def _postgres_rows(query: Query) -> list[dict[str, object]] | NotTold:
    where = ask(query, postgres.POOL_PLACE)
    if isinstance(where, NotTold):
        return where
    if not where:
        return NotTold(*postgres.NO_EXTENSION)
    return ask(query, postgres.contents(str(where[0]["place"])))
