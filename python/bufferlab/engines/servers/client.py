"""A session of the core with a server, for settings, accounts, conditions and observations.

No hot path uses it; the core runs transactions over other connections. The core limits the login's time, each answer's
time and its size (crates/bufferlab-drive/src/server/python_session.rs), and lets Ctrl-C end any wait.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

from bufferlab.engines.native import native
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, CHANGE_SECONDS, TOO_SLOW
from bufferlab.engines.servers.existing.passwords import LoginRefusedError

MOST_ANSWER_BYTES = 8 << 20
"""The limit of one statement's answer, in bytes: far more than bufferlab needs, except for a list of the pool's
pages."""
MOST_OF_OUR_OWN_BYTES = 512 << 20
"""The limit of an answer from a private server, in bytes: it is higher, because a restored dump may have any number of
tables."""
LATE_SECONDS = 5.0
"""The seconds to wait beyond a statement's limit for a server that enforces limits itself (statement_timeout)."""
T = TypeVar("T")


class ServerError(Exception):
    """The error for a statement that the server refuses; the session may continue.

    Its last argument is the server's text.
    """

    def __init__(self, code: str, message: str) -> None:
        """`code` is MySQL's error number, or PostgreSQL's SQLSTATE; `message` is the server's text."""
        super().__init__(code, message)
        self.code, self.message = code, message

    def __str__(self) -> str:
        return self.message


class LostError(OSError):
    """The error for a session that has ended, or could not begin. Its text says what the server did."""


class RefusedError(LoginRefusedError):
    """The error for a server that bufferlab refuses: for its TLS, its authentication method, or its requests."""


class Client:
    """One session with a server; `engine` is the core's name for the kind of server."""

    def __init__(
        self,
        engine: str,
        target: Mapping[str, Any],
        *,
        login_seconds: float = ANSWER_SECONDS,
        seconds: float | None,
        name: str,
        until_s: float | None = None,
        most_answer_bytes: int = MOST_ANSWER_BYTES,
        startup: Sequence[tuple[str, str]] = (),
        prepares: bool = False,
    ) -> None:
        """Log in to the `target` of a job, without a database if the target names none. The server shows `name`.

        The whole login may take `login_seconds`, a statement `seconds` (None sets no limit). After `until_s` on the
        monotonic clock no statement is sent. For PostgreSQL, `startup` has the parameters of the startup message, and
        with `prepares` a repeated statement is planned once. Raises ServerError, LostError and RefusedError.
        """
        self.engine, self._until_s = engine, until_s
        self._most_answer_bytes = most_answer_bytes
        limits = {"login_s": login_seconds, "statement_s": seconds, "most_answer_bytes": most_answer_bytes,
                  "name": name, "startup": startup, "prepares": prepares}  # fmt: skip
        core = native()
        self._session = _asked(lambda: core.ask_server(engine, json.dumps(target), json.dumps(limits)), RefusedError)

    def ask(self, sql: str | bytes, change_seconds: float | None = None) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Execute a statement; return its column names and its rows; both are empty for a statement without a result.

        `change_seconds`, if given, is the time limit for a statement that changes something, because it may wait for
        locks. After any error except ServerError the session is closed. Raises ServerError and LostError.
        """
        if self._until_s is not None and time.monotonic() > self._until_s:
            self.close()
            raise LostError(TOO_SLOW)
        text = sql.encode("utf-8", "surrogateescape") if isinstance(sql, str) else sql
        return _asked(lambda: self._session.ask(text, change_seconds), LostError)

    def rows(self, query: str, values: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Return all rows of a statement, with a value in place of each %s; [] if it returns none."""
        return self.ask(with_values(query, values, self.engine))[1]

    def change(self, statement: str, values: Sequence[Any] | None = None) -> None:
        """Execute a statement that changes something. It may wait up to CHANGE_SECONDS for locks of other sessions."""
        late_seconds = 0.0
        if self.engine == "postgres":
            self.rows(f"SET statement_timeout = {round(1000 * CHANGE_SECONDS)}")
            late_seconds = LATE_SECONDS
        self.ask(with_values(statement, values, self.engine), CHANGE_SECONDS + late_seconds)

    def allow_bytes(self, most_answer_bytes: int) -> None:
        """Raise the limit of an answer's size to this many bytes; never lower it."""
        if most_answer_bytes > self._most_answer_bytes:
            self._most_answer_bytes = most_answer_bytes
            self._session.allow_bytes(most_answer_bytes)

    @property
    def id(self) -> int | None:
        """The server's id of the session; None if it is closed."""
        return self._session.id()

    @property
    def descriptor(self) -> int | None:
        """The descriptor of the session's socket; None if the session is closed."""
        return self._session.descriptor()

    @property
    def is_open(self) -> bool:
        """Return whether the session is open, so that statements may be sent."""
        return self._session.is_open()

    def close(self) -> None:
        """End the session with the server."""
        self._session.close()


FAILURES = (ServerError, LostError)
"""The errors that a statement raises."""


class Cursor:
    """A DB-API cursor on a session, with only the methods that the checks of a workload's conditions need."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.description: list[tuple[str]] = []
        self._rows: list[tuple[Any, ...]] = []

    def execute(self, sql: str) -> None:
        """Execute a statement. Raises as `Client.ask` does."""
        names, self._rows = self._client.ask(sql)
        self.description = [(name,) for name in names]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)


def with_values(query: str, values: Sequence[Any] | None, engine: str) -> str:
    """Return a query in which a value, written as a literal in the engine's SQL, replaces each %s."""
    return query if values is None else query % tuple(literal(value, engine) for value in values)


def literal(value: str | int | float | Decimal | None, engine: str) -> str:
    r"""Return a value as an SQL literal; for PostgreSQL in a form that is valid for any standard_conforming_strings.

    >>> literal("it's \\", "mysql"), literal("it's \\", "postgres"), literal(3, "mysql")
    ("'it''s \\\\'", " E'it''s \\\\'", '3')
    """
    if value is None:
        return "NULL"
    if not isinstance(value, str):
        return str(value)
    text = "'" + value.replace("\0", "").replace("'", "''").replace("\\", "\\\\") + "'"
    return f" E{text}" if engine == "postgres" and "\\" in value else text


def _asked(ask: Callable[[], T], refused: type[RefusedError] | type[LostError]) -> T:
    core = native()
    try:
        return ask()
    except core.Unanswerable as error:
        kind, code, what, hint = error.args
        if kind == "server":
            raise ServerError(code, what) from None
        if kind == "lost" or refused is LostError:
            raise LostError(what) from None
        raise RefusedError(what, None, hint) from None
