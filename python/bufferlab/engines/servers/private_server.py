"""A private server as a context: started and ready inside it, stopped and gone after it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, STATEMENT_SECONDS, AccessDenied, Address, private
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.identity import DATABASE
from bufferlab.engines.servers.page_sites import Recording
from bufferlab.engines.servers.server_process import READY_SECONDS, OnWait
from bufferlab.engines.servers.user import require_reachable

STOP_SECONDS = 120.0
_SILENT_HINT = "it was stopped or waited for its device: see its log, and the kernel's (dmesg)"


class PrivateServer:
    """A context manager for one private server.

    Entering starts it and waits until it answers; leaving stops it, or kills it after an exception. Both raise
    EngineFailure, with the end of the server's log, when it does not start, ended while it was used, or does not stop.
    Entering also raises EnvironmentLackingError when the server's user cannot reach its folders. After leaving, and
    after a failed entry, no process of the server lives.
    """

    answer_seconds = ANSWER_SECONDS
    """The seconds of silence after which a server is taken for stopped, and killed."""

    def __init__(
        self,
        family: Family,
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
        watch: Recording | None = None,
        group: Path | None = None,
    ) -> None:
        self.family, self.build = family, build
        self._process = family.process(build, data, home, user)
        self._process.watch, self._process.group = watch, group
        self._user, self._login, self._settings, self._connections = user, login, dict(settings), connections
        self._on_wait, self._ready_seconds, self._stop_seconds = on_wait, ready_seconds, stop_seconds
        self._silence: str | None = None
        self.conf = ""
        """The text of the server's option file; empty until it was started."""

    @property
    def address(self) -> Address:
        """The workload's database of this server, as the current login (`log_in_as`) reaches it."""
        socket = self.socket.parent if self.family.socket_is_folder else self.socket
        return private(str(socket), *self._login, DATABASE, self.family.form.port)

    def connect(self, database: str | None = None, *, patient: bool = False) -> Any:
        """Open a control connection as the current login; the caller closes it.

        `database`: None for the family's default. `patient` removes the limit on how long a statement may take.
        """
        return self.family.connect(self.address, database, seconds=None if patient else STATEMENT_SECONDS)

    def answers(self) -> bool:
        """Return whether the started server accepts our login and statements; leave nothing open.

        Called repeatedly until it returns True. Raises EngineFailure when waiting longer cannot help.
        """
        try:
            self.family.connect(self.address, self.family.system_database, seconds=self.answer_seconds).close()
        except AccessDenied as error:
            hint = "the data is of another load: delete it, it is loaded again"
            raise EngineFailure("data", str(error), str(self._process.data), hint) from error
        except self.family.unanswered:
            return False
        return True

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
            self.family.greet(self.address, self.answer_seconds)
        except self.family.unanswered:
            # A server that ends, or that refuses one more connection, says so at once; its user finds out.
            if time.monotonic() - asked < self.answer_seconds:
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

    def _died(self) -> int | None:
        """Return the server's exit code, None while it lives.

        Waits up to a second, because a connection breaks before its server's process is gone.
        """
        deadline = time.monotonic() + 1.0
        while (code := self._process.ended()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return code
