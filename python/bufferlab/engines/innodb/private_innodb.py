"""The context manager of a private MySQL or MariaDB server."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pymysql

from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.mysqld import InnodbProcess
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.private_server import PrivateServer


class PrivateInnodb(PrivateServer):
    """A private MySQL or MariaDB server, asked over PyMySQL."""

    unanswered = (pymysql.Error, OSError, control.AccessDenied)

    _pulse: Any = None

    def make_process(self, build: Build, data: Path, home: Path, user: tuple[int, int] | None) -> InnodbProcess:
        return InnodbProcess(build, data, home, user)

    def connect(self, database: str | None = None, *, patient: bool = False) -> Any:
        answer_seconds = None if patient else control.STATEMENT_SECONDS
        return control.connect(self.socket, *self._login, database, answer_seconds=answer_seconds)

    def greet(self) -> None:
        """Ping the server over a separate connection."""
        if self._pulse is None:
            self._pulse = control.connect(self.socket, *self._login, answer_seconds=self.answer_seconds)
        self._pulse.ping(reconnect=False)

    def answers(self) -> bool:
        try:
            control.connect(self.socket, *self._login, answer_seconds=self.answer_seconds).close()
        except control.AccessDenied as error:
            raise self.refused(error) from error
        except (pymysql.MySQLError, OSError):
            return False
        return True

    def end_pulse(self) -> None:
        pulse, self._pulse = self._pulse, None
        if pulse is not None:
            with suppress(pymysql.Error, OSError):
                pulse.close()
