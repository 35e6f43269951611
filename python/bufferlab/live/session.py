"""Manages the only session with an observed server. It counts and times its statements, and reconnects.

It reconnects at most once in five seconds. It gives up if the server refuses the account, because servers lock accounts
after several refusals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import unquote, urlsplit

from bufferlab.engines import registry
from bufferlab.engines.servers.client import Client, LostError, ServerError
from bufferlab.engines.servers.existing import whereabouts
from bufferlab.engines.servers.existing.address import Address, parse
from bufferlab.engines.servers.existing.passwords import LoginRefusedError
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.look import MISFITS, NOT_UNDERSTOOD, Facts, Lost, Query, Refused, Sample
from bufferlab.errors import BufferlabError, EnvironmentLackingError, SpecError
from bufferlab.live import host_side

P = ParamSpec("P")
T = TypeVar("T")
RECONNECT_SECONDS = 5.0
_REFUSALS = (ServerError, LostError, Refused)
_BYTES_OF_A_PAGE = 512
"""The most bytes per page that the answer to a query of the pool's pages may have, as the clients count them."""
_MOST_PAGES = 1 << 20
_ANY_SCHEMA = "any"


def family_of(url: str) -> Family:
    """Return the family of a URL's server, by its scheme.

    Raises SpecError if servers of the scheme cannot be observed.
    """
    scheme = url.partition("://")[0]
    schemes: dict[str, Family] = {}
    for family in registry.families():
        for name in family.form.schemes if family.look else ():
            schemes.setdefault(name, family)
    if scheme not in schemes:
        known = ", ".join(f"{name}://" for name in schemes)
        raise SpecError(
            f'"{scheme}" is no server that can be looked at', "URL", f"write a URL that begins with {known}"
        )
    return schemes[scheme]


def address_of(url: str, family: Family) -> Address:
    """Return the address in a URL. The URL may lack a schema, or name a system schema, because nothing is written.

    Raises EnvironmentLackingError if it is not a URL of a server, or has a password in it.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise EnvironmentLackingError(f"this is not the URL of a server: {error}", None, family.form.example) from error
    schema = unquote(parts.path.removeprefix("/"))
    # `parse` requires a schema in which bufferlab may create tables, so it gets a dummy.
    address = parse(parts._replace(path=f"/{_ANY_SCHEMA}").geturl(), family.form)
    # A session of PostgreSQL is always in a database; one of MySQL needs no schema.
    return replace(address, url=url, schema=schema or family.system_database or "")


class Session:
    """The context manager for a session with a server. Entering connects; leaving disconnects."""

    def __init__(self, family: Family, address: Address, clock: Callable[[], float] = time.monotonic) -> None:
        assert family.look
        self.family, self.look, self.address, self._clock = family, family.look, address, clock
        self.own_statements = 0
        """The number of bufferlab's statements that the server has counted, over all connections."""
        self.own_seconds = 0.0
        """The seconds that bufferlab waited for answers to its statements."""
        self._connection: Client | None = None
        self._tried_s = clock()

    def __enter__(self) -> Session:
        try:
            self._connect()
        except EnvironmentLackingError as error:
            if other := whereabouts.of_another_family(self.address, self.family.form):
                raise other from error
            raise
        except _REFUSALS as error:
            raise EnvironmentLackingError(
                f"the server cannot be looked at: {_said(error)}", self.address.server
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run one statement and return its rows by column name in lower case.

        Raises Refused if the server refuses it, and Lost if the connection is gone.
        """
        if self._connection is None:
            raise Lost("there is no connection")
        self.own_statements += 1
        begun_s = self._clock()
        try:
            heads, rows = self._connection.ask(sql)
            return [dict(zip((head.lower() for head in heads), row, strict=True)) for row in rows]
        except ServerError as error:
            raise Refused(_said(error)) from error
        except LostError as error:
            self._drop()
            raise Lost(_said(error)) from error
        finally:
            self.own_seconds += self._clock() - begun_s

    @property
    def peer(self) -> int | None:
        """Return the PID that listens at the other end of bufferlab's Unix socket; None over TCP."""
        descriptor = self._connection.descriptor if self._connection else None
        return None if descriptor is None else host_side.peer_pid(descriptor)

    def reconnect(self) -> str:
        """Reconnect, unless the last try was less than five seconds ago.

        Return "" if connected, else why the connection is still missing. Raises EnvironmentLackingError if the server
        refuses the account.
        """
        if self._clock() - self._tried_s < RECONNECT_SECONDS:
            return "waiting before the next try"
        try:
            self._connect()
        except LoginRefusedError as error:
            raise EnvironmentLackingError(error.what, self.address.server, "no further try is made") from error
        except BufferlabError as error:
            return error.what
        except _REFUSALS as error:
            return _said(error)
        return ""

    def facts(self) -> Facts:
        """Query the server's facts, and return them. Raises Refused and Lost."""
        with _understood():
            facts = self.look.facts(self.query)
            if not 0 < facts.page_size_bytes <= facts.pool_size_bytes:
                raise ValueError(facts)
        if self._connection is not None:
            pages = min(facts.pool_size_bytes // facts.page_size_bytes, _MOST_PAGES)
            self._connection.allow_bytes(pages * _BYTES_OF_A_PAGE)
        return facts

    def sample(self, facts: Facts, t_s: float) -> Sample:
        """Take a sample of the server's counters at `t_s`.

        Raises Refused, also if the server does not report its page gets, and Lost.
        """
        with _understood():
            sample = self.look.sample(self.query, facts, t_s, lambda: self.own_statements)
        if "page_gets" not in sample.counters:
            raise Refused("the server does not tell how many pages it got")
        return sample

    def told(self, ask: Callable[Concatenate[Query, P], T], *given: P.args, **named: P.kwargs) -> T:
        """Call a function of `look` with this session's query, and return its answer. Raises Refused and Lost."""
        with _understood():
            return ask(self.query, *given, **named)

    def _connect(self) -> None:
        self._tried_s = self._clock()
        connection = self.look.watch(self.address)
        try:
            with _understood():
                self.own_statements += self.look.own_at_start(connection)
        except _REFUSALS:
            connection.close()
            raise
        self._connection = connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def _understood() -> Iterator[None]:
    """Context manager for reading answers. Raises Refused if an answer does not fit its query."""
    try:
        yield
    except MISFITS as error:
        raise Refused(NOT_UNDERSTOOD) from error


def _said(error: BaseException) -> str:
    """Return the first line of an error's message, from the server or the client."""
    said = str(error.args[-1]) if error.args else str(error)
    return (said.strip().splitlines() or [type(error).__name__])[0]
