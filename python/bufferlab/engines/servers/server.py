"""A private server as a context: started and ready inside it, stopped and gone after it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.boot import READY_SECONDS, OnWait, ServerProcess
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.user import require_reachable

STOP_SECONDS = 120.0
ANSWER_SECONDS = 30.0
"""How long a server may take for what waits for nobody, a greeting or a ping: far beyond an overloaded one's."""
_SILENT_HINT = "it was stopped or waited for its device: see its log, and the kernel's (dmesg)"


class Server(ABC):
    """`with Server(...) as server:` a server that answers. Leaving stops it; after an exception it is killed.

    EngineFailure when it does not start, ended while it was used, or does not stop; its text has the end of the log.
    Each family says how its process is made, and how it is spoken to.
    """

    unanswered: tuple[type[Exception], ...] = (OSError,)
    """What `greet` raises when no word was said."""
    answer_seconds = ANSWER_SECONDS
    """After which silence a server is taken for stopped."""

    def __init__(
        self,
        build: Build,
        data: Path,
        home: Path,
        *,
        user: tuple[int, int] | None,
        login: tuple[str, str],
        settings: Mapping[str, str],
        connections: int = 1,
        on_wait: OnWait = lambda what: None,
        ready_seconds: float = READY_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self.build = build
        self._process = self.make_process(build, data, home, user)
        self._user, self._login, self._settings, self._connections = user, login, dict(settings), connections
        self._on_wait, self._ready_seconds, self._stop_seconds = on_wait, ready_seconds, stop_seconds
        self._silence: str | None = None
        self.conf = ""
        """The text of the option file it runs with."""

    @abstractmethod
    def make_process(self, build: Build, data: Path, home: Path, user: tuple[int, int] | None) -> ServerProcess:
        """Its process, not yet started."""

    @abstractmethod
    def connect(self, database: str | None = None, *, patient: bool = False) -> Any:
        """A control connection, as the user this server was started for; a patient one waits for any statement."""

    @abstractmethod
    def greet(self) -> None:
        """Ask for a word that waits for nobody, over a connection that does nothing else.

        An exception when none was said within `answer_seconds`.
        """

    @abstractmethod
    def answers(self) -> bool:
        """Is it ready? EngineFailure when it will never be for us."""

    def end_pulse(self) -> None:  # noqa: B027 - a family without such a connection has nothing to close.
        """Close what `greet` keeps open."""

    def __enter__(self) -> Self:
        require_reachable(self._process.data, self._user)
        require_reachable(self._process.home.parent, self._user)
        try:
            self.conf = self._process.start(self._connections, self._settings)
            self._process.wait_until(self.answers, self._on_wait, self._ready_seconds)
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_pulse()
        if error is None and not self._process.abandoned:
            self._process.stop(self._on_wait, self._stop_seconds)
            return
        code = self._died()
        self._process.kill()
        if self._silence is not None:
            raise EngineFailure("engine", self._silence, str(self.log), _SILENT_HINT) from error
        if self._process.abandoned:
            return
        # What failed is most often not what went wrong: connections break because their server is gone.
        if code is not None and isinstance(error, Exception):
            raise self._process.failure("the server ended while it was used", code, self.log) from error

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self._process.socket

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """Its error log."""
        return self._process.log

    def listen(self) -> None:
        """Greet the server; one that says nothing is killed: all who wait for it end.

        For a thread beside one long statement: the statement's own connection cannot tell slow from stopped.
        """
        if self._silence is not None or self._process.ended() is not None:
            return
        asked = time.monotonic()
        try:
            self.greet()
        except self.unanswered:
            # A server that ends, or that refuses one more connection, says so at once; whoever uses it finds out.
            if time.monotonic() - asked < self.answer_seconds:
                self.end_pulse()
                return
            self._silence = f"the server has not answered for {self.answer_seconds:g} s, and was killed"
            self._process.terminate_now()

    def abandon(self) -> None:
        """Kill it: its data is of no more use. May be called from another thread; what uses it fails."""
        self._process.terminate_now()

    def require_alive(self) -> None:
        """EngineFailure with the end of the log when it has ended."""
        self._process.require_alive("the server ended while it was used")

    def log_in_as(self, user: str, password: str) -> None:
        """From now on, connect as this user."""
        self._login = (user, password)

    def refused(self, error: Exception) -> EngineFailure:
        """What `answers` raises when the server is there and does not know us."""
        return EngineFailure(
            "data",
            str(error),
            str(self._process.data),
            "the data is of another load: delete it, it is loaded again",
        )

    def _died(self) -> int | None:
        """Its exit code if it ended; waits a moment, because a broken connection is seen before the process is gone."""
        deadline = time.monotonic() + 1.0
        while (code := self._process.ended()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return code
