"""A private server as a context: started and ready inside it, stopped and gone after it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.server_process import READY_SECONDS, OnWait, ServerProcess, Watch
from bufferlab.engines.servers.user import require_reachable

STOP_SECONDS = 120.0
ANSWER_SECONDS = 30.0
"""How long a server may take for what waits for nobody, a greeting or a ping: far beyond an overloaded one's."""
_SILENT_HINT = "it was stopped or waited for its device: see its log, and the kernel's (dmesg)"


class PrivateServer(ABC):
    """A context manager for one private server.

    Entering starts it and waits until it answers; leaving stops it, or kills it after an exception. Both raise
    EngineFailure, with the end of the server's log, when it does not start, ended while it was used, or does not stop.
    Entering also raises EnvironmentLackingError when the server's user cannot reach its folders. After leaving, and
    after a failed entry, no process of the server lives. Each family implements how its process is made, and how it is
    spoken to.
    """

    unanswered: tuple[type[Exception], ...] = (OSError,)
    """What `greet` raises when no answer came: after `answer_seconds` it means silence, sooner an ended server."""
    answer_seconds = ANSWER_SECONDS
    """The seconds of silence after which a server is taken for stopped, and killed."""

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
        watch: Watch | None = None,
    ) -> None:
        self.build = build
        self._process = self.make_process(build, data, home, user)
        self._process.watch = watch
        self._user, self._login, self._settings, self._connections = user, login, dict(settings), connections
        self._on_wait, self._ready_seconds, self._stop_seconds = on_wait, ready_seconds, stop_seconds
        self._silence: str | None = None
        self.conf = ""
        """The text of the server's option file; empty until it was started."""

    @abstractmethod
    def make_process(self, build: Build, data: Path, home: Path, user: tuple[int, int] | None) -> ServerProcess:
        """Return the server's process, not yet started. Called once, while the PrivateServer is made.

        `user` is the (uid, gid) to run as, None: as ourselves.
        """

    @abstractmethod
    def connect(self, database: str | None = None, *, patient: bool = False) -> Any:
        """Open a control connection as the current login (`log_in_as`); the caller closes it.

        `database`: None for the family's default. `patient` removes the limit on how long a statement may take.
        """

    @abstractmethod
    def greet(self) -> None:
        """Ask the server for an answer that waits for no lock and no device, over a connection used for nothing else.

        Called again and again, from one thread besides the one that uses the server. The connection may stay open
        until `end_pulse`. Raises one of `unanswered` when no answer came within `answer_seconds`.
        """

    @abstractmethod
    def answers(self) -> bool:
        """Return whether the started server accepts our login and statements; must return soon, and leave nothing open.

        Called repeatedly until it returns True. Raises EngineFailure when waiting longer cannot help (see `refused`).
        """

    def end_pulse(self) -> None:  # noqa: B027 - a family without such a connection has nothing to close.
        """Close the connection that `greet` keeps open. Must not raise, and may be called when there is none."""

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
        # The exception is most often not the cause: connections break because their server is gone.
        if code is not None and isinstance(error, Exception):
            raise self._process.failure("the server ended while it was used", code, self.log) from error

    @property
    def socket(self) -> Path:
        """The path of the Unix socket on which the server listens."""
        return self._process.socket

    @property
    def pid(self) -> int:
        """The server's process id, once it was started."""
        return self._process.pid

    @property
    def log(self) -> Path:
        """The path of the server's error log."""
        return self._process.log

    def listen(self) -> None:
        """Greet the server, and kill it when it does not answer, so that everything that waits for it ends.

        Called from a second thread during one long statement, whose own connection cannot tell slow from stopped.
        """
        if self._silence is not None or self._process.ended() is not None:
            return
        asked = time.monotonic()
        try:
            self.greet()
        except self.unanswered:
            # A server that ends, or that refuses one more connection, says so at once; its user finds out.
            if time.monotonic() - asked < self.answer_seconds:
                self.end_pulse()
                return
            self._silence = f"the server has not answered for {self.answer_seconds:g} s, and was killed"
            self._process.terminate_now()

    def abandon(self) -> None:
        """Kill the server, because its data is not needed any more. Statements that are running on it fail.

        May be called from another thread.
        """
        self._process.terminate_now()

    def require_alive(self) -> None:
        """Raise EngineFailure, with the end of the log, when the server has ended."""
        self._process.require_alive("the server ended while it was used")

    def log_in_as(self, user: str, password: str) -> None:
        """Use this login for every later connection."""
        self._login = (user, password)

    def refused(self, error: Exception) -> EngineFailure:
        """Return the failure for `answers` to raise when the server runs and refuses our login."""
        return EngineFailure(
            "data",
            str(error),
            str(self._process.data),
            "the data is of another load: delete it, it is loaded again",
        )

    def _died(self) -> int | None:
        """Return the server's exit code, None while it lives.

        Waits up to a second, because a connection breaks before its server's process is gone.
        """
        deadline = time.monotonic() + 1.0
        while (code := self._process.ended()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return code
