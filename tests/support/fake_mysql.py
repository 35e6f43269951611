"""A server that speaks enough of MySQL's protocol for `observe`: its counters grow by the same amount at each
question."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from support.mysql_wire import OK, Cell, greeting, numbered, packet, read, refusal, table

VARIABLES = {
    "version": "10.11.19-MariaDB",
    "hostname": "fake",
    "port": "1",
    "datadir": "/nowhere/",
    "performance_schema": "OFF",
    "innodb_page_size": "16384",
    "innodb_buffer_pool_size": str(64 << 20),
    "innodb_log_file_size": str(96 << 20),
}
GROWTH = {
    "Innodb_buffer_pool_read_requests": 1000,
    "Innodb_buffer_pool_reads": 60,
    "Innodb_buffer_pool_read_ahead": 20,
    "Innodb_buffer_pool_read_ahead_rnd": 0,
    "Innodb_pages_read": 60,
    "Innodb_pages_written": 5,
    "Com_commit": 10,
}
"""The growth of each status variable from one sample to the next."""
STATEMENTS = 40
"""Statements of other clients between two samples; Questions grows by them, and by our own."""


class FakeMysql:
    """The server, on a free port of the loopback. It calls `at[n]` before it answers the n-th sample."""

    def __init__(self, at: dict[int, Callable[[FakeMysql], None]] | None = None) -> None:
        self.at = at or {}
        self.samples, self.logins = 0, 0
        self.refusal: tuple[int, str] | None = None
        """The error with which it answers log-ins; None to accept them."""
        self.began_s = time.monotonic() - 1000
        self.status = dict.fromkeys(GROWTH, 1_000_000) | {"Questions": 5_000}
        self.statements: list[str] = []
        self.names: list[bytes] = []
        self.answers: dict[str, tuple[Sequence[str], Sequence[Sequence[Cell]]]] = {}
        """Further result tables (column names, rows), each by a word of the statement that asks for it."""
        self._lines: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def _begin(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    @property
    def url(self) -> str:
        return f"mysql://me@127.0.0.1:{self.port}"

    def __enter__(self) -> FakeMysql:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # A thread that waits in accept would keep the socket open.
        self._listener.close()
        self.disconnect()
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()

    def disconnect(self) -> None:
        """Close all present connections. A client may reconnect before the last of them is closed."""
        for line in list(self._lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def restart(self) -> None:
        """Start again: counters at zero, no connections."""
        self.status = dict.fromkeys(self.status, 0)
        self.began_s = time.monotonic()
        self.disconnect()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self._lines.append(line)
                self._begin(self._serve, line)

    def _serve(self, line: socket.socket) -> None:
        with line, suppress(OSError):
            self.logins += 1
            if self.refusal:
                line.sendall(packet(0, refusal(*self.refusal)))
                return
            line.sendall(greeting(VARIABLES["version"].encode()))
            self.names.append(read(line))
            line.sendall(packet(2, OK))
            session = 0
            while (asked := read(line))[:1] == b"\x03":
                sql = asked[1:].decode()
                self.statements.append(sql)
                self.status["Questions"] += 1
                session += 1
                # Sent as one buffer: small buffers would each wait 40 ms for the previous one's acknowledgement
                # (Nagle's algorithm).
                line.sendall(b"".join(numbered(self._answer(sql, session))))

    def _answer(self, sql: str, session: int) -> Iterator[bytes] | list[bytes]:
        if sql.startswith("SHOW SESSION STATUS"):
            return table(("Variable_name", "Value"), [("Questions", str(session))])
        uptime = str(int(time.monotonic() - self.began_s))
        if sql.startswith("SHOW GLOBAL STATUS") and "'questions'" not in sql:
            return table(("Variable_name", "Value"), [("Uptime", uptime)] if "Uptime" in sql else [])
        if sql.startswith("SHOW GLOBAL STATUS"):
            self.samples += 1
            if action := self.at.get(self.samples):
                action(self)
            for name, growth in GROWTH.items():
                self.status[name] += growth
            self.status["Questions"] += STATEMENTS
            told = self.status | {"Uptime": uptime, "Uptime_since_flush_status": uptime} | _LEVELS
            return table(("Variable_name", "Value"), [(name, str(value)) for name, value in told.items()])
        if sql.startswith("SHOW GLOBAL VARIABLES"):
            return table(("Variable_name", "Value"), list(VARIABLES.items()))
        if sql.startswith("SET "):
            return [OK]
        for word, (heads, rows) in self.answers.items():
            if word in sql:
                return table(heads, rows)
        return [refusal(1227, "Access denied; you need the PROCESS privilege for this operation")]


_LEVELS = {"Innodb_buffer_pool_pages_total": 4096, "Innodb_buffer_pool_pages_dirty": 1024, "Threads_connected": 3}
