"""Samples a server once a second until the time is over, a signal requests a stop, or the server refuses the account.

Lost sessions are reconnected. `Ends` runs further queries only at the beginning and at the end of the observation: on
the pool, statements, and other work of the server. The pool's contents are queried only at the end, because that may
change the pool.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from bufferlab.engines.servers.look import (
    MISFITS,
    NOT_UNDERSTOOD,
    DataSize,
    Facts,
    Lost,
    NotTold,
    PoolLevels,
    Query,
    Refused,
    Sample,
    Unpublished,
)
from bufferlab.errors import EnvironmentLackingError
from bufferlab.live import confounds, constants, digests, double_pool, host_side, pool_contents
from bufferlab.live.confounds import Confound, Confounds
from bufferlab.live.digests import Digests
from bufferlab.live.host_side import HostReading, HostWork
from bufferlab.live.look_result import UNASKED, InsideFindings, LookCost, Seen
from bufferlab.live.pool_contents import PoolContents
from bufferlab.live.session import Session
from bufferlab.live.window import LookWindow, SampledRow, ServerEvent

T = TypeVar("T")
_LONGEST_S = 6.0
"""The seconds that all queries at the beginning, or at the end, may take together. After that no more are sent."""
_AWAY = NotTold("the server was away at the end")


class Ends:
    """The queries at the beginning and end of an observation. The constructor runs those at the beginning."""

    def __init__(self, session: Session, facts: Facts, *, look_inside: bool, asks_data: bool) -> None:
        self._session, self._look_inside = session, look_inside
        query = _within(session.query)
        begun_s = time.monotonic()
        self._data = _told(lambda: session.look.data(query, facts)) if asks_data else UNASKED
        self._data_s = time.monotonic() - begun_s
        self.begin: PoolLevels = session.told(session.look.pool, facts)
        self.end: PoolLevels | None = None
        self._else = [_told(lambda: confounds.find(query, facts.flavour))]
        self._statements = _told(lambda: digests.start(query, facts.flavour))

    def finish(self, facts: Facts, host: HostWork | NotTold, *, is_lost: bool) -> InsideFindings:
        """Run the queries at the end, unless the server is unreachable; return the findings of beginning and end."""
        query, first = _within(self._session.query), self._statements
        contents: PoolContents | NotTold = _AWAY
        statements: Digests | NotTold = _AWAY
        data: tuple[DataSize, DataSize] | NotTold = _AWAY
        if not is_lost:
            data = self._data_at_both(query, facts)
            end = _told(lambda: self._session.told(self._session.look.pool, facts))
            self.end = None if isinstance(end, NotTold) else end
            statements = (
                first if isinstance(first, NotTold) else _told(lambda: digests.finish(query, facts.flavour, first))
            )
            self._else.append(_told(lambda: confounds.find(query, facts.flavour)))
            pages, inside = facts.pool_size_bytes // facts.page_size_bytes, self._look_inside
            contents = _told(lambda: pool_contents.look(query, facts.flavour, pages, look_inside=inside))
        found = [one for told in self._else if isinstance(told, Confounds) for one in told.found]
        if isinstance(host, HostWork):
            programs = host_side.backup_programs()
            found += [Confound("backup", f"{name} runs on the server's host: it copies data") for name in programs]
        refused = [told for told in self._else if isinstance(told, NotTold)]
        refused += [one for told in self._else if isinstance(told, Confounds) for one in told.not_told]
        return InsideFindings(
            contents, statements, tuple(dict.fromkeys(found)), tuple(dict.fromkeys(refused)), host, data
        )

    def _data_at_both(self, query: Query, facts: Facts) -> tuple[DataSize, DataSize] | NotTold:
        """Return the size of the data at the beginning and now; query it again only if the first answer came
        quickly."""
        first = self._data
        if isinstance(first, NotTold):
            return first
        if self._data_s > constants.DATA_AGAIN_S:
            return NotTold(f"asking how large the data are took {self._data_s:.1f} s, so it was not asked again")
        last = _told(lambda: self._session.look.data(query, facts))
        return last if isinstance(last, NotTold) else (first, last)


def _within(query: Query) -> Query:
    """Return a query function that sends nothing and raises Refused once _LONGEST_S seconds have passed."""
    until_s = time.monotonic() + _LONGEST_S

    def asked(sql: str) -> list[dict[str, Any]]:
        if time.monotonic() > until_s:
            raise Refused(f"the server answers too slowly: it was not asked after {_LONGEST_S:.0f} s")
        return query(sql)

    return asked


def _told(ask: Callable[[], T | NotTold]) -> T | NotTold:
    """Return the answer to a query, or why there is none."""
    try:
        return ask()
    except Refused as error:
        return NotTold(str(error))
    except MISFITS:
        return NotTold(NOT_UNDERSTOOD)


_INTERVAL_SECONDS = 1.0
_NAP_SECONDS = 0.1
_POOL_EVERY_S = 300.0
"""The seconds between queries of the pool's contents.

The contents change slowly, and InnoDB holds the pool's latch during the query.
"""
_OUTSIDE = 3


class Stop(Protocol):
    """The source of requests to stop the observation."""

    @property
    def requested(self) -> bool:
        """Return whether the observation must stop."""


class Listener(Protocol):
    """A listener that immediately gets each row and event of an observation."""

    def row(self, row: SampledRow, window: LookWindow) -> None:
        """Process the row of the last second."""

    def event(self, event: ServerEvent) -> None:
        """Process an event of the server or the session."""


@dataclass(eq=False)
class Observation:
    """One observation of a server over a connected session. Tests replace `clock` and `sleep`."""

    session: Session
    listener: Listener
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    asks_pool: bool = False
    """Whether the state and the contents of the pool are queried every _POOL_EVERY_S seconds."""
    levels: Mapping[str, float] | None = None
    contents: PoolContents | None = None
    """The last answer to the query of the pool's contents; `levels` is the last answer to the query of its state.

    None before the first query, and if the server did not answer.
    """
    _pool_due_s: float = -math.inf
    _processor_s: float | None = None
    _processor_last_s: float | None = None
    _own: Mapping[str, float] = field(default_factory=dict)
    _samples_before: int = 0
    _heard: int = 0

    def __post_init__(self) -> None:
        try:
            self.facts = self._facts()
        except (Refused, Lost) as error:
            raise unseen(self.session, error) from error
        self.window = LookWindow(lambda grown: self.session.look.derive(grown, self.facts), self.clock())

    def run(self, seconds: float, stop: Stop, *, look_inside: bool = False, asks_data: bool = False) -> Seen:
        """Observe the server for `seconds` seconds, and return the samples.

        With `look_inside` the contents of the pool are queried once, even if it is large. With `asks_data` the size of
        the data is queried at both ends, for the bound of twice the pool. Raises EnvironmentLackingError if the server
        refuses at the beginning.
        """
        session = self.session
        try:
            self._connected()
            ends = Ends(session, self.facts, look_inside=look_inside, asks_data=asks_data)
            self._begin_own()
            # This sample is discarded: its growth includes the work of the queries above.
            self._sample()
        except (Refused, Lost) as error:
            raise unseen(session, error) from error
        self.window.begun_s = self.clock()
        is_lost = self._watch(seconds, stop)
        unpublished = Unpublished()
        try:
            if not is_lost:
                with suppress(Refused):
                    self._subtract_own()
                with suppress(Refused):
                    unpublished = self._unpublished()
            inside = ends.finish(self.facts, self._host_work(), is_lost=is_lost)
            self._count_processor()
        except Lost:
            inside = ends.finish(self.facts, self._host_work(), is_lost=True)
        cost = LookCost(
            session.own_statements, session.own_seconds, self._processor_s, self.clock() - self.window.begun_s
        )
        ended: Literal["whole", "stopped", "lost"] = "lost" if is_lost else "stopped" if stop.requested else "whole"
        seen = Seen(
            session.address.server, self.facts, self.window, ends.begin, ends.end, ended, cost, inside, unpublished
        )
        return replace(seen, twice_the_pool=double_pool.bound(seen))

    def _watch(self, seconds: float, stop: Stop) -> bool:
        """Take a sample each second until the time is over; return whether the server is unreachable at the end."""
        begun_s = due_s = self.window.begun_s
        is_lost = False
        while True:
            try:
                is_lost = not self._step(is_lost)
            except EnvironmentLackingError as error:
                self.window.say(self.clock(), "refused", f"the server refuses the account: {error.what}")
                self._tell()
                return True
            self._tell()
            if stop.requested or self.clock() - begun_s >= seconds:
                return is_lost
            due_s = max(due_s + _INTERVAL_SECONDS, self.clock() - _INTERVAL_SECONDS)
            self._wait(min(due_s, begun_s + seconds), stop)

    def _facts(self) -> Facts:
        session = self.session
        facts = session.facts()
        self._pid = found = host_side.find(facts, session.peer)
        self._thread = None if isinstance(found, NotTold) else host_side.thread_of(facts, found)
        return facts

    def _connected(self) -> None:
        """After each connecting, record the server's identity and counters, and the processor time of its thread for
        bufferlab's session."""
        self.window.connected(self.clock(), self.facts.identity)
        self._processor_last_s = self._thread_s()
        self._reading = self._read()

    def _thread_s(self) -> float | None:
        """Return the processor time of the thread of bufferlab's session; None if the server is not on this host."""
        return None if self._thread is None else host_side.thread_processor_s(self._thread)

    def _read(self) -> HostReading | None:
        return None if isinstance(self._pid, NotTold) else host_side.read(self._pid, self.facts.data_directory)

    def _host_work(self) -> HostWork | NotTold:
        """Return the work of the server and its device since bufferlab connected, or why it is unknown."""
        if isinstance(self._pid, NotTold):
            return self._pid
        last = self._read()
        assert self._reading
        assert last
        return host_side.between(self._reading, last)

    def _step(self, was_lost: bool) -> bool:
        """Take one sample, after reconnecting if the session was lost; return whether the server answered."""
        try:
            if was_lost:
                if why := self.session.reconnect():
                    if self.window.events[-1].what != why and not why.startswith("waiting"):
                        self.window.say(self.clock(), "lost", why)
                    return False
                self.facts = self._facts()
                self.window.say(self.clock(), "back", "the server answers again")
                self._connected()
                self._begin_own()
            self._ask_pool()
            sample = self._sample()
        except Lost as error:
            self.window.say(self.clock(), "lost", f"the connection is gone: {error}")
            return False
        except Refused as error:
            what = f"the server refused a question: {error}"
            if not self.window.events or self.window.events[-1].what != what:
                self.window.say(self.clock(), "right", what)
            return True
        row = self.window.add(sample)
        if row is not None:
            self.listener.row(row, self.window)
        return True

    def _ask_pool(self) -> None:
        """Query the state and the contents of the pool, if it is time. Raises Lost."""
        if not self.asks_pool or self.clock() < self._pool_due_s:
            return
        self._pool_due_s = self.clock() + _POOL_EVERY_S
        session, facts = self.session, self.facts
        query, pages = _within(session.query), facts.pool_size_bytes // facts.page_size_bytes
        levels = _told(lambda: session.told(session.look.pool, facts))
        contents = _told(lambda: pool_contents.look(query, facts.flavour, pages))
        self.levels = None if isinstance(levels, NotTold) else levels.values
        self.contents = None if isinstance(contents, NotTold) else contents

    def _sample(self) -> Sample:
        session = self.session
        sample = session.sample(self.facts, self.clock())
        self._count_processor()
        if isinstance(self._pid, int) and self.facts.data_directory:
            device = host_side.device_counters(self.facts.data_directory, self._pid) or {}
            named = {f"device_{name}": count for name, count in device.items()}
            sample = replace(sample, counters={**sample.counters, **named})
        return sample

    def _count_processor(self) -> None:
        if (now_s := self._thread_s()) is not None:
            used_s = now_s - self._processor_last_s if self._processor_last_s is not None else 0.0
            self._processor_s, self._processor_last_s = (self._processor_s or 0.0) + max(0.0, used_s), now_s

    def _begin_own(self) -> None:
        """Record the work of bufferlab's session so far, for the counters from which samples do not subtract it."""
        self._own = self.session.told(self.session.look.own_total)
        self._samples_before = self.window.samples

    def _subtract_own(self) -> None:
        """Subtract the work of bufferlab's session, evenly over the rows, from the counts that include it, and from the
        totals."""
        window = self.window
        # The session's work also includes that of three samples outside the rows: the first query, a discarded sample,
        # and the last query.
        samples = window.samples - self._samples_before + _OUTSIDE
        for name, own in self.session.told(self.session.look.own_total).items():
            if name in window.totals:
                window.subtract(name, max(0.0, own - self._own.get(name, own)) / samples)

    def _unpublished(self) -> Unpublished:
        """Return the sessions that published nothing in the window, with the most bytes that their processes read."""
        told = self.session.told(self.session.look.unpublished, self.clock() - self.window.begun_s)
        # The server's PIDs are valid on this host only if the PID of the process of bufferlab's session is.
        if not (told.sessions and told.readers) or isinstance(self._pid, NotTold) or self._thread != self.facts.thread:
            return told
        first, last = self._reading, self._read()
        assert first
        assert last
        if not last.read_bytes_of.keys() >= set(told.readers):
            return told
        # All bytes of a parallel worker that began in the window count. A worker that ended has published its counts.
        read = sum(last.read_bytes_of[one] - first.read_bytes_of.get(one, 0) for one in told.readers)
        return replace(told, read_bytes=read)

    def _tell(self) -> None:
        for event in self.window.events[self._heard :]:
            self.listener.event(event)
        self._heard = len(self.window.events)

    def _wait(self, until_s: float, stop: Stop) -> None:
        while not stop.requested and (left_s := until_s - self.clock()) > 0:
            self.sleep(min(left_s, _NAP_SECONDS))


def unseen(session: Session, error: Exception) -> EnvironmentLackingError:
    """Return the user's error for a server that refuses the first queries, or does not answer them."""
    hint = "ask again when it answers; docs/observe.md has the rights that the account needs"
    return EnvironmentLackingError(f"the server cannot be looked at: {error}", session.address.server, hint)
