"""Asks what is asked at the two ends of an observation and at no other time.

These are the pool, statements, what else the server does, and, at the last end alone, who fills the pool: asking that
may change it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from bufferlab.engines.servers.questions import MISFITS, NOT_UNDERSTOOD, NotTold
from bufferlab.observe import confounds, digests, host_side, pool_contents
from bufferlab.observe.confounds import Confound, Confounds
from bufferlab.observe.digests import Digests
from bufferlab.observe.host_side import HostWork
from bufferlab.observe.looker import Facts, Pool, Query, Refused
from bufferlab.observe.pool_contents import PoolContents
from bufferlab.observe.session import Session

T = TypeVar("T")
_LONGEST_S = 6.0
"""How long the questions of one end may take, but for one that has been asked."""
_AWAY = NotTold("the server was away at the end")


@dataclass(frozen=True)
class Inside:
    """What was found inside the server, and beside it on its host."""

    contents: PoolContents | NotTold
    statements: Digests | NotTold
    confounds: tuple[Confound, ...]
    not_told: tuple[NotTold, ...]
    """What of the confounds cannot be told."""
    host: HostWork | NotTold


class Ends:
    """The two ends. Making it asks at the first one."""

    def __init__(self, session: Session, facts: Facts, *, look_inside: bool) -> None:
        self._session, self._look_inside = session, look_inside
        query = _within(session.query)
        self.begin: Pool = session.pool(facts)
        self.end: Pool | None = None
        self._else = [_told(lambda: confounds.find(query, facts.server))]
        self._statements = _told(lambda: digests.start(query, facts.server))

    def finish(self, facts: Facts, host: HostWork | NotTold, *, is_lost: bool) -> Inside:
        """Ask at the last end, unless the server is away, and return what was found at both."""
        query, first = _within(self._session.query), self._statements
        contents: PoolContents | NotTold = _AWAY
        statements: Digests | NotTold = _AWAY
        if not is_lost:
            end = _told(lambda: self._session.pool(facts))
            self.end = None if isinstance(end, NotTold) else end
            statements = (
                first if isinstance(first, NotTold) else _told(lambda: digests.finish(query, facts.server, first))
            )
            self._else.append(_told(lambda: confounds.find(query, facts.server)))
            pages, inside = facts.pool_size_bytes // facts.page_size_bytes, self._look_inside
            contents = _told(lambda: pool_contents.look(query, facts.server, pages, look_inside=inside))
        found = [one for told in self._else if isinstance(told, Confounds) for one in told.found]
        if isinstance(host, HostWork):
            programs = host_side.backup_programs()
            found += [Confound("backup", f"{name} runs on the server's host: it copies data") for name in programs]
        refused = [told for told in self._else if isinstance(told, NotTold)]
        refused += [one for told in self._else if isinstance(told, Confounds) for one in told.not_told]
        return Inside(contents, statements, tuple(dict.fromkeys(found)), tuple(dict.fromkeys(refused)), host)


def _within(query: Query) -> Query:
    """Return a way to ask that a slow server does not use up: it refuses what is asked after some seconds."""
    until_s = time.monotonic() + _LONGEST_S

    def asked(sql: str) -> list[dict[str, Any]]:
        if time.monotonic() > until_s:
            raise Refused(f"the server answers too slowly: it was not asked after {_LONGEST_S:.0f} s")
        return query(sql)

    return asked


def _told(ask: Callable[[], T | NotTold]) -> T | NotTold:
    """Return the answer, or why the server refused the question."""
    try:
        return ask()
    except Refused as error:
        return NotTold(str(error))
    except MISFITS:
        return NotTold(NOT_UNDERSTOOD)
