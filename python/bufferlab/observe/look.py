"""Looks once a second until the time is over, a signal asks to stop, or the server refuses us; survives what happens.

The report's material is `Seen`. `_ends` is the one place where the server is asked at the two ends of the observation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

from bufferlab.errors import EnvironmentLackingError
from bufferlab.observe import host
from bufferlab.observe.looker import Facts, Lost, Pool, Refused, Sample
from bufferlab.observe.session import Session
from bufferlab.observe.window import Event, Row, Window

_INTERVAL_SECONDS = 1.0
_NAP_SECONDS = 0.1
_LOOPBACK = ("localhost", "::1")


class Stop(Protocol):
    """The request to stop."""

    @property
    def requested(self) -> bool:
        """Return whether a signal has asked to stop."""


class Listener(Protocol):
    """Who hears what is seen while it is seen."""

    def row(self, row: Row, window: Window) -> None:
        """Hear the counts of a second."""

    def event(self, event: Event) -> None:
        """Hear an event."""


@dataclass(frozen=True)
class Cost:
    """What looking cost the server."""

    statements: int
    statement_seconds: float
    """The time in our statements as we waited for them, the network's included."""
    processor_seconds: float | None
    """The processor time of our session's thread at the server; None where it cannot be read from here."""
    seconds: float

    @property
    def core_ratio(self) -> float | None:
        """The share of one core that our session used; None where it cannot be told."""
        return None if self.processor_seconds is None else self.processor_seconds / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class Seen:
    """What was seen."""

    server: str
    facts: Facts
    window: Window
    begin: Pool
    end: Pool | None
    """None where the server could not be asked at the end."""
    ended: Literal["whole", "stopped", "lost"]
    cost: Cost
    device: str
    """The block device that the counts of the device are of; "" where there are none."""
    no_device: str
    """Why there are no counts of the device."""
    page_cache_bytes: int | None


class Observation:
    """One observation over a session that is connected. `clock` and `sleep` are doors for tests."""

    def __init__(
        self,
        session: Session,
        listener: Listener,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session, self._listener, self._clock, self._sleep = session, listener, clock, sleep
        self._processor_s: float | None = None
        self._processor_last_s: float | None = None
        self._heard = 0
        self.facts = self._facts()
        self.window = Window(partial(self._derive), clock())

    def run(self, seconds: float, stop: Stop) -> Seen:
        """Look for so many seconds."""
        begin = self._ends()
        self._connected()
        # What the questions above cost the server is published before the first sample counts.
        with suppress(Refused):
            self._sample()
        statements, own_seconds = self._session.own_statements, self._session.own_seconds
        self.window.begun_s = begun_s = self._clock()
        ended: Literal["whole", "stopped", "lost"] = "whole"
        is_lost = False
        due_s = begun_s
        while True:
            try:
                is_lost = not self._step(is_lost)
            except EnvironmentLackingError as error:
                self.window.say(self._clock(), "lost", f"the server refuses the account: {error.what}")
                is_lost, ended = True, "lost"
            self._tell()
            if ended == "lost" or stop.requested or self._clock() - begun_s >= seconds:
                break
            due_s = max(due_s + _INTERVAL_SECONDS, self._clock() - _INTERVAL_SECONDS)
            self._wait(min(due_s, begun_s + seconds), stop)
        if ended == "whole":
            ended = "lost" if is_lost else "stopped" if stop.requested else "whole"
        statements = self._session.own_statements - statements
        cost = Cost(statements, self._session.own_seconds - own_seconds, self._processor_s, self._clock() - begun_s)
        end = None
        if not is_lost:
            with suppress(Lost, Refused):
                self._subtract_own()
                end = self._ends()
        is_here = self._device is not None
        return Seen(
            self._session.address.server, self.facts, self.window, begin, end, ended, cost,
            self._device.name if self._device else "", self._no_device, host.page_cache_bytes() if is_here else None,
        )  # fmt: skip

    def _facts(self) -> Facts:
        session = self._session
        try:
            facts = session.looker.facts(session.query)
        except (Refused, Lost) as error:
            raise EnvironmentLackingError(f"the server cannot be looked at: {error}", session.address.server) from error
        is_local = session.address.socket is not None or _is_loopback(session.address.host)
        self._is_here = is_local and host.is_server_thread(facts.thread)
        self._device, self._no_device = None, "the server's processes are not seen on this host"
        if self._is_here:
            try:
                self._device = host.Device(facts.data_directory or "")
            except (OSError, ValueError):
                self._no_device = "the data directory, or its block device, is not seen from here"
        return facts

    def _derive(self, grown: dict[str, int]) -> dict[str, float]:
        return self._session.looker.derive(grown, self.facts)

    def _ends(self) -> Pool:
        """Ask what is asked at both ends of the observation and at no other time."""
        return self._session.looker.pool(self._session.query, self.facts)

    def _connected(self) -> None:
        """Hear that the session is connected: to which server, and what our thread and statements have used so far."""
        self.window.connected(self._clock(), self.facts.identity)
        self._own = dict(self._session.looker.own_total(self._session.query))
        self._processor_last_s = host.processor_s(self.facts.thread) if self._is_here else None

    def _step(self, was_lost: bool) -> bool:
        """Take one sample, after connecting again if need be; return whether the server answered."""
        try:
            if was_lost:
                if why := self._session.reconnect():
                    if self.window.events[-1].what != why and not why.startswith("waiting"):
                        self.window.say(self._clock(), "lost", why)
                    return False
                self.facts = self._facts()
                self.window.say(self._clock(), "back", "the server answers again")
                self._connected()
            sample = self._sample()
        except Lost as error:
            self.window.say(self._clock(), "lost", f"the connection is gone: {error}")
            return False
        except Refused as error:
            self.window.say(self._clock(), "right", f"the server refused a question: {error}")
            return True
        row = self.window.add(sample)
        if row is not None:
            self._listener.row(row, self.window)
        return True

    def _sample(self) -> Sample:
        session = self._session
        sample = session.looker.sample(session.query, self.facts, self._clock(), lambda: session.own_statements)
        if self._is_here and (now_s := host.processor_s(self.facts.thread)) is not None:
            used_s = now_s - self._processor_last_s if self._processor_last_s is not None else 0.0
            self._processor_s, self._processor_last_s = (self._processor_s or 0.0) + max(0.0, used_s), now_s
        if self._device:
            with suppress(OSError):
                sample = replace(sample, counters={**sample.counters, **self._device.read()})
        return sample

    def _subtract_own(self) -> None:
        """Subtract from the totals what our session did, where samples do not."""
        for name, own in self._session.looker.own_total(self._session.query).items():
            if name in self.window.totals:
                self.window.totals[name] = max(0.0, self.window.totals[name] - max(0.0, own - self._own.get(name, own)))

    def _tell(self) -> None:
        for event in self.window.events[self._heard :]:
            self._listener.event(event)
        self._heard = len(self.window.events)

    def _wait(self, until_s: float, stop: Stop) -> None:
        while not stop.requested and (left_s := until_s - self._clock()) > 0:
            self._sleep(min(left_s, _NAP_SECONDS))


def _is_loopback(name: str) -> bool:
    return name in _LOOPBACK or name.startswith("127.")
