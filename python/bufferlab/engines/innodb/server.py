"""A private server as a context: started and ready inside it, stopped and gone after it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pymysql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.boot import READY_SECONDS, OnWait, ServerProcess
from bufferlab.engines.innodb.find import Build
from bufferlab.engines.innodb.user import require_reachable

STOP_SECONDS = 120.0
_SILENT_HINT = "it was stopped or waited for its device: see its log, and the kernel's (dmesg)"


class Server:
    """`with Server(...) as server:` a server that answers. Leaving stops it; after an exception it is killed.

    EngineFailure when it does not start, ended while it was used, or does not stop; its text has the end of the log.
    What is another family's is overridden: `make_process`, `connect` and `answers`.
    """

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
        self._pulse: Any = None
        self._silence: str | None = None
        self.conf = ""
        """The text of the option file it runs with."""

    def make_process(self, build: Build, data: Path, home: Path, user: tuple[int, int] | None) -> ServerProcess:
        """Its process, not yet started."""
        return ServerProcess(build, data, home, user)

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
        self._end_pulse()
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

    def connect(self, database: str | None = None, *, patient: bool = False) -> Any:
        """A control connection, as the user this server was started for; a patient one waits for any statement."""
        answer_seconds = None if patient else control.STATEMENT_SECONDS
        return control.connect(self.socket, *self._login, database, answer_seconds=answer_seconds)

    def listen(self) -> None:
        """Ping the server over a connection of its own; one that says nothing is killed: all who wait for it end.

        For a thread beside one long statement: the statement's own connection cannot tell slow from stopped.
        """
        if self._silence is not None or self._process.ended() is not None:
            return
        asked = time.monotonic()
        try:
            if self._pulse is None:
                self._pulse = control.connect(self.socket, *self._login, answer_seconds=control.ANSWER_SECONDS)
            self._pulse.ping(reconnect=False)
        except (pymysql.Error, OSError, control.AccessDenied):
            # A server that ends, or that refuses one more connection, says so at once; whoever uses it finds out.
            if time.monotonic() - asked < control.ANSWER_SECONDS:
                self._end_pulse()
                return
            self._silence = f"the server has not answered for {control.ANSWER_SECONDS:g} s, and was killed"
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

    def answers(self) -> bool:
        """Is it ready? EngineFailure when it will never be for us."""
        try:
            control.connect(self.socket, *self._login, answer_seconds=control.ANSWER_SECONDS).close()
        except control.AccessDenied as error:
            raise EngineFailure(
                "data",
                str(error),
                str(self._process.data),
                "the data is of another load: delete it, it is loaded again",
            ) from None
        except (pymysql.MySQLError, OSError):
            return False
        return True

    def _end_pulse(self) -> None:
        pulse, self._pulse = self._pulse, None
        if pulse is not None:
            with suppress(pymysql.Error, OSError):
                pulse.close()

    def _died(self) -> int | None:
        """Its exit code if it ended; waits a moment, because a broken connection is seen before the process is gone."""
        deadline = time.monotonic() + 1.0
        while (code := self._process.ended()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return code
