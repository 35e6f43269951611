"""Finds which pages a server's pool holds, by number or by table and index. It predicts the cost, and queries once.

The query takes a time that grows with the pool, and meanwhile holds the pool's latch (InnoDB) or many small locks
(PostgreSQL). If that time is long, the user must confirm it first.

Pages are listed in the order in which they will be evicted, so that a model can begin with them. INNODB_BUFFER_PAGE_LRU
has InnoDB's list from its tail on (i_s.cc, i_s_innodb_fill_buffer_lru). PostgreSQL does not show the position of its
clock sweep. So its pages are ordered by usage count, and each is repeated once per count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bufferlab.engines.innodb import questions as innodb
from bufferlab.engines.postgres import questions as postgres
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import STATEMENT_SECONDS, Facts, NotTold, Query, Question, Row, ask, integer

LONGEST_S = 0.25
"""InnoDB's pool is queried without the user's confirmation if that takes fewer seconds, so up to about 16,000 pages."""


@dataclass(frozen=True)
class AskingCost:
    """The predicted cost of querying the pool's contents."""

    pages: int
    seconds: float
    within_limit: bool
    """Whether the server is queried without the user's confirmation."""
    sentence: str


@dataclass(frozen=True)
class PoolObject:
    """The pages of one index, or of a group that has a name in parentheses: free pages, undo, other databases."""

    table: str
    index: str | None
    """The index's name; None for tables of PostgreSQL, which are not an index, and for groups."""
    pages: int
    share_ratio: float
    """The object's fraction of all pages of the pool; the fractions of all objects add up to one."""
    dirty_pages: int
    old_pages: int | None = None
    """The object's pages in the old sublist of InnoDB's LRU list; None on PostgreSQL, which has no such list."""
    cold_pages: int | None = None
    """The object's pages with the usage count 0, which the clock sweep takes first; None on InnoDB."""


@dataclass(frozen=True)
class PoolContents:
    """The contents of the pool."""

    pages: int
    """The number of all pages of the pool, including the free ones."""
    seconds_foretold: float
    objects: tuple[PoolObject, ...]
    """The objects in the pool, the largest first; the last one may be the group of all others."""


def foretell(flavour: Flavour, pool_pages: int) -> AskingCost:
    """Return the predicted cost of the query, as if it were the first since the server's start, which takes longest.

    >>> foretell("mysql", 8192).sentence
    'asking who fills 8,192 pages takes about 0.12 s, in which reads wait for a latch; the answer fills 82 of them'
    """
    if flavour == "postgres":
        seconds, how = pool_pages * postgres.PAGE_S, ", and locks each buffer for a moment"
        within = pool_pages < postgres.MOST_BUFFERS
    else:
        seconds, how = pool_pages * innodb.PAGE_S, ", in which reads wait for a latch"
        if flavour == "mysql":
            how += f"; the answer fills {pool_pages * innodb.TEMPORARY_TABLE_RATIO:,.0f} of them"
        within = seconds < LONGEST_S
    return AskingCost(
        pool_pages, seconds, within, f"asking who fills {pool_pages:,} pages takes about {seconds:.2g} s{how}"
    )


def look(
    query: Query, flavour: Flavour, pool_pages: int, *, look_inside: bool = False, limit: int = 20
) -> PoolContents | NotTold:
    """Query the contents of the pool if that is cheap or the user confirmed it (`look_inside`); return the answer.

    It has at most `limit` objects. `pool_pages` is the size of the pool by the server's counters.
    """
    foretold = foretell(flavour, pool_pages)
    if not (foretold.within_limit or look_inside):
        return NotTold(f"who fills the pool: {foretold.sentence}, so it is not asked", "--look-inside asks it once")
    rows = _postgres_rows(query, postgres.contents) if flavour == "postgres" else ask(query, innodb.CONTENTS)
    if isinstance(rows, NotTold):
        return rows
    objects = objects_of(rows, flavour, pool_pages, limit)
    return PoolContents(sum(one.pages for one in objects), foretold.seconds, objects)


def objects_of(rows: Iterable[Row], flavour: Flavour, pool_pages: int, limit: int) -> tuple[PoolObject, ...]:
    """Return the objects in the server's rows, the largest first. The last one may be a group of those beyond `limit`.

    Rows with the same name form one object. Pages of the pool that no row names form a group too, so that fractions add
    up to one.
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


def _postgres_rows(query: Query, question: Callable[[str], Question]) -> list[dict[str, object]] | NotTold:
    """Return the rows of a query that needs the schema of the extension pg_buffercache."""
    place = postgres.pool_place(query)
    return place if isinstance(place, NotTold) else ask(query, question(place))


Page = tuple[tuple[int, ...], int]
"""An object, as `Recorded.object` or `Recorded.relations` identifies it, and the number of a page in it."""
_SUBJECT = "which pages the pool holds"
_INNODB = Question(
    "SELECT space AS object, page_number AS page FROM information_schema.INNODB_BUFFER_PAGE_LRU ORDER BY lru_position",
    _SUBJECT,
    {"rights": "GRANT PROCESS ON *.* TO the account"},
)
_POSTGRES = """\
SELECT reltablespace AS tablespace, reldatabase AS database, relfilenode AS relation, relforknumber AS fork,
relblocknumber AS page, usagecount AS uses FROM {place}.pg_buffercache WHERE relfilenode IS NOT NULL
ORDER BY usagecount, bufferid"""


def pages(query: Query, facts: Facts, *, look_inside: bool) -> list[Page] | NotTold:
    """Return the pages of the pool, the next to be evicted first. Exceptions other than refusals pass through."""
    if not cost(facts, look_inside=look_inside):
        return NotTold(f"{_SUBJECT}: {_foretold(facts).sentence}, so it is not asked", "--look-inside asks it once")
    if facts.flavour != "postgres":
        rows = ask(query, _INNODB)
        return (
            rows if isinstance(rows, NotTold) else [((integer(row["object"]),), integer(row["page"])) for row in rows]
        )
    rows = _postgres_rows(query, lambda place: Question(_POSTGRES.format(place=place), _SUBJECT))
    if isinstance(rows, NotTold):
        return rows
    names = ("tablespace", "database", "relation", "fork")
    return [
        (tuple(integer(row[name]) for name in names), integer(row["page"]))
        for row in rows
        for _ in range(max(1, integer(row["uses"])))
    ]


def cost(facts: Facts, *, look_inside: bool) -> str:
    """Return in words the cost of the query; "" if it is not sent."""
    foretold = _foretold(facts)
    is_asked = foretold.seconds <= STATEMENT_SECONDS and (foretold.within_limit or look_inside)
    return foretold.sentence if is_asked else ""


def _foretold(facts: Facts) -> AskingCost:
    return foretell(facts.flavour, facts.pool_size_bytes // facts.page_size_bytes)


def keys(found: Sequence[Page], relations: Sequence[tuple[int, ...]]) -> list[int]:
    """Return pages as 64-bit keys. The upper half is the object's number in a window, the lower half the page number.

    InnoDB's objects have the same number in all windows. `relations` numbers those of PostgreSQL; others come after
    them.
    """
    numbers = {name: place for place, name in enumerate(relations)}
    return [(numbers.setdefault(name, len(numbers)) if relations else name[0]) << 32 | page for name, page in found]
