"""Reads the facts of a server's pool that its model needs: frames, settings, and the pages in the pool.

Pages are in the order of eviction, so that a model can begin with them. INNODB_BUFFER_PAGE_LRU lists InnoDB's pages
from the tail of its list (i_s.cc, i_s_innodb_fill_buffer_lru). PostgreSQL does not show the hand of its clock: its
pages are ordered by their usage count, and each is listed once per use. The cost of asking, and the limit up to which
it is done, are those of `pool_contents`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from bufferlab.engines.postgres import questions as postgres
from bufferlab.engines.servers.look import STATEMENT_SECONDS, Facts, Query
from bufferlab.engines.servers.questions import NotTold, Question, ask, integer
from bufferlab.live.estimate import PoolFacts
from bufferlab.live.live_trace import Recorded
from bufferlab.live.pool_contents import AskingCost, foretell
from bufferlab.live.window import SampledRow

if TYPE_CHECKING:
    from bufferlab.models.managers.declaration import BufferManager

_PREFIX = "innodb_"


def model_of(facts: Facts) -> BufferManager | None:
    """Return the model of a server; None without one."""
    from bufferlab.models.managers.declaration import Server  # Imported late: `observe` does not need the models.
    from bufferlab.models.managers.registry import of_server

    return of_server(Server(facts.flavour, ".".join(map(str, facts.numbers))))


def settings_of(facts: Facts, manager: BufferManager | None) -> dict[str, int | str]:
    """Return the server's settings that a model obeys or presumes, by the model's names, if the server has them."""
    names = (*manager.defaults, *manager.presumes) if manager else ()
    told = {name: facts.settings.get(_PREFIX + name) for name in names}
    return {name: int(text) if text.isdecimal() else text for name, text in told.items() if text is not None}


def pool_facts(
    facts: Facts, manager: BufferManager | None, settings: Mapping[str, int | str], rows: Sequence[SampledRow]
) -> PoolFacts:
    """Return the facts of the pool, from the rows of the window and the server's settings."""
    frames = _mean(rows, "pool_pages") or facts.pool_size_bytes / facts.page_size_bytes
    timed = [row for row in rows if "read_ms" in row.counts and row.counts.get("pages_read")]
    reads = sum(row.counts["pages_read"] for row in timed)
    return PoolFacts(
        engine=facts.flavour,
        model=manager.name if manager else "",
        settings={name: int(settings[name]) for name in manager.defaults if name in settings} if manager else {},
        page_size_bytes=facts.page_size_bytes,
        pool_pages=round(frames),
        data_pages=_mean(rows, "data_pages"),
        read_us=1000 * sum(row.counts["read_ms"] for row in timed) / reads if reads > 0 else None,
        version=".".join(map(str, facts.numbers)),
        pool_size_bytes=facts.pool_size_bytes,
    )


def presumed(manager: BufferManager, settings: Mapping[str, int | str]) -> NotTold | None:
    """Return the reason not to believe the model with the server's settings; None if it may be believed."""
    from bufferlab.models.predict import presumed_otherwise  # Imported late: only the tier `full` needs it.

    for one in presumed_otherwise(manager.presumes, settings.get):
        return NotTold(
            one.sentence.replace("the run had", "the server has"), "larger sizes need no model: --tier misses"
        )
    return None


def _mean(rows: Sequence[SampledRow], level: str) -> float | None:
    told = [row.levels[level] for row in rows if level in row.levels]
    return sum(told) / len(told) if told else None


Page = tuple[tuple[int, ...], int]
"""(object, number of a page in it); the object is named as in `Recorded.object` or `Recorded.relations`."""
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
    """Return the pages of the pool in the order of eviction, or why they are unknown.

    Errors other than the server's refusal are not caught.
    """
    if not cost(facts, look_inside=look_inside):
        return NotTold(f"{_SUBJECT}: {_foretold(facts).sentence}, so it is not asked", "--look-inside asks it once")
    if facts.flavour != "postgres":
        rows = ask(query, _INNODB)
        return (
            rows if isinstance(rows, NotTold) else [((integer(row["object"]),), integer(row["page"])) for row in rows]
        )
    where = ask(query, postgres.POOL_PLACE)
    if isinstance(where, NotTold):
        return where
    if not where:
        return NotTold(*postgres.NO_EXTENSION)
    rows = ask(query, Question(_POSTGRES.format(place=where[0]["place"]), _SUBJECT))
    if isinstance(rows, NotTold):
        return rows
    names = ("tablespace", "database", "relation", "fork")
    return [
        (tuple(integer(row[name]) for name in names), integer(row["page"]))
        for row in rows
        for _ in range(max(1, integer(row["uses"])))
    ]


def cost(facts: Facts, *, look_inside: bool) -> str:
    """Return the words on the cost of asking for the pool's pages; "" if the server is not asked."""
    foretold = _foretold(facts)
    is_asked = foretold.seconds <= STATEMENT_SECONDS and (foretold.within_limit or look_inside)
    return foretold.sentence if is_asked else ""


def _foretold(facts: Facts) -> AskingCost:
    return foretell(facts.flavour, facts.pool_size_bytes // facts.page_size_bytes)


def with_one_numbering(windows: Sequence[Recorded]) -> list[Recorded]:
    """Return the windows with the same number for a relation of PostgreSQL in all of them.

    Each record numbers relations by itself. InnoDB's objects have the server's own numbers.
    """
    numbers: dict[tuple[int, ...], int] = {}
    for window in windows:
        for name in window.relations:
            numbers.setdefault(name, len(numbers))
    of_each = [np.array([numbers[name] for name in one.relations], np.uint32) for one in windows]
    return [
        replace(one, object=of[one.object], relations=tuple(numbers)) if one.relations else one
        for one, of in zip(windows, of_each, strict=True)
    ]


def keys(found: Sequence[Page], window: Recorded) -> list[int]:
    """Return pages as keys of 64 bits: the object's number in `window` in the upper half, the page in the lower half.

    InnoDB's objects have the server's own numbers. Relations of PostgreSQL that the window lacks get further numbers.
    """
    numbers = {name: place for place, name in enumerate(window.relations)}
    is_numbered = bool(window.relations)
    return [(numbers.setdefault(name, len(numbers)) if is_numbered else name[0]) << 32 | page for name, page in found]
