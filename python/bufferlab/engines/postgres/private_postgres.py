"""The context manager of a private PostgreSQL server: entering starts it and waits for it; leaving stops it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.postmaster import PostgresProcess
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.identity import DATABASE
from bufferlab.engines.servers.private_server import PrivateServer


class PrivatePostgres(PrivateServer):
    """A private PostgreSQL server. It joins the group of `group`, a cgroup.procs file, before it starts."""

    def __init__(self, *given: Any, group: Path | None = None, **named: Any) -> None:
        self._group = group
        super().__init__(*given, **named)

    def make_process(self, build: Build, data: Path, home: Path, user: tuple[int, int] | None) -> PostgresProcess:
        return PostgresProcess(build, data, home, user, self._group)

    def connect(self, database: str | None = None, *, patient: bool = False) -> control.Connection:
        """Open a control connection to a database, the workload's if none is named. It waits for any statement."""
        return control.connect(self.socket.parent, *self._login, database or DATABASE)

    def greet(self) -> None:
        """Ask the postmaster for its first word."""
        control.greet(self.socket, self.answer_seconds)

    def answers(self) -> bool:
        try:
            self.connect(control.SYSTEM_DATABASE).close()
        except control.AccessDenied as error:
            raise self.refused(error) from error
        except (psycopg.Error, OSError):
            return False
        return True
