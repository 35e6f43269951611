"""A private PostgreSQL server as a context: started and ready inside it, stopped and gone after it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb.accounts import DATABASE
from bufferlab.engines.innodb.control import ANSWER_SECONDS
from bufferlab.engines.innodb.server import Server
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.boot import PostgresProcess
from bufferlab.engines.servers.builds import Build


class PostgresServer(Server):
    """As its base says. `group`: the cgroup.procs of the group it joins before it starts."""

    def __init__(self, *given: Any, group: Path | None = None, **named: Any) -> None:
        self._group = group
        super().__init__(*given, **named)

    def make_process(self, build: Build, data: Path, home: Path, user: tuple[int, int] | None) -> PostgresProcess:
        """Its process, not yet started."""
        return PostgresProcess(build, data, home, user, self._group)

    def connect(self, database: str | None = None, *, patient: bool = False) -> control.Connection:
        """A control connection to one of its databases, the workload's if none is named. It waits for any statement."""
        return control.connect(self.socket.parent, *self._login, database or DATABASE)

    def listen(self) -> None:
        """Ask the postmaster for a word; one that says nothing is killed with its processes, so that nobody waits."""
        if self._silence is not None or self._process.ended() is not None:
            return
        asked = time.monotonic()
        try:
            control.greet(self.socket, ANSWER_SECONDS)
        except OSError:
            # A server that ends says so at once; whoever uses it finds out.
            if time.monotonic() - asked < ANSWER_SECONDS:
                return
            self._silence = f"the server has not answered for {ANSWER_SECONDS:g} s, and was killed"
            self._process.terminate_now()

    def answers(self) -> bool:
        """Is it ready? EngineFailure when it will never be for us."""
        try:
            self.connect(control.SYSTEM_DATABASE).close()
        except control.AccessDenied as error:
            raise EngineFailure(
                "data",
                str(error),
                str(self._process.data),
                "the data is of another load: delete it, it is loaded again",
            ) from None
        except (psycopg.Error, OSError):
            return False
        return True
