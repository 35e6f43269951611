"""A server that speaks enough of MySQL's protocol to be looked at: its counters grow by the same each time it is asked.

Protocol: "Connection Phase" and "Text Resultset" of MySQL's internals manual, without CLIENT_DEPRECATE_EOF.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

_CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000 | 0x100000 | 0x200000
_EOF = b"\xfe\x00\x00\x02\x00"
_OK = b"\x00\x00\x00\x02\x00\x00\x00"
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
"""What each status variable grows by from one sample to the next."""
STATEMENTS = 40
"""The statements of others, by which Questions grows beside ours."""


class FakeMysql:
    """The server, on a free port of the loopback. `at[n]` is called before the n-th sample is answered."""

    def __init__(self, at: dict[int, Callable[[FakeMysql], None]] | None = None) -> None:
        self.at = at or {}
        self.samples, self.logins = 0, 0
        self.refusal: tuple[int, str] | None = None
        """The error with which log-ins are answered."""
        self.began_s = time.monotonic() - 1000
        self.status = dict.fromkeys(GROWTH, 1_000_000) | {"Questions": 5_000}
        self.statements: list[str] = []
        self.names: list[bytes] = []
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
            self._listener.shutdown(socket.SHUT_RDWR)  # A thread that waits in accept would keep it open.
        self._listener.close()
        self.disconnect()
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()

    def disconnect(self) -> None:
        """Close every connection that there is now: whoever lost one may be back before the last is closed."""
        for line in list(self._lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def restart(self) -> None:
        """Begin anew: counters at zero, nobody connected."""
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
        with line, suppress(OSError, EOFError):
            self.logins += 1
            if self.refusal:
                _send(line, 0, _error(*self.refusal))
                return
            _send(line, 0, _greeting())
            self.names.append(_read(line)[1])
            _send(line, 2, _OK)
            session = 0
            while (packet := _read(line)[1])[:1] == b"\x03":
                sql = packet[1:].decode()
                self.statements.append(sql)
                self.status["Questions"] += 1
                session += 1
                # In one piece: small ones wait 40 ms for the acknowledgement of the one before (Nagle's algorithm).
                answer = enumerate(self._answer(sql, session), start=1)
                line.sendall(b"".join(_packet(number, part) for number, part in answer))

    def _answer(self, sql: str, session: int) -> Iterable[bytes]:
        if sql.startswith("SHOW SESSION STATUS"):
            return _table(("Variable_name", "Value"), [("Questions", str(session))])
        uptime = str(int(time.monotonic() - self.began_s))
        if sql.startswith("SHOW GLOBAL STATUS") and "'questions'" not in sql:
            return _table(("Variable_name", "Value"), [("Uptime", uptime)] if "Uptime" in sql else [])
        if sql.startswith("SHOW GLOBAL STATUS"):
            self.samples += 1
            if action := self.at.get(self.samples):
                action(self)
            for name, growth in GROWTH.items():
                self.status[name] += growth
            self.status["Questions"] += STATEMENTS
            told = self.status | {"Uptime": uptime, "Uptime_since_flush_status": uptime} | _LEVELS
            return _table(("Variable_name", "Value"), [(name, str(value)) for name, value in told.items()])
        if sql.startswith("SHOW GLOBAL VARIABLES"):
            return _table(("Variable_name", "Value"), list(VARIABLES.items()))
        if sql.startswith("SET "):
            return [_OK]
        return [_error(1227, "Access denied; you need the PROCESS privilege for this operation")]


_LEVELS = {"Innodb_buffer_pool_pages_total": 4096, "Innodb_buffer_pool_pages_dirty": 1024, "Threads_connected": 3}


def _greeting() -> bytes:
    low, high = struct.pack("<H", _CAPABILITIES & 0xFFFF), struct.pack("<H", _CAPABILITIES >> 16)
    salt, utf8, autocommit = b"12345678123456789012", b"\x2d", b"\x02\x00"
    head = b"\x0a10.11.19-MariaDB\0" + struct.pack("<I", 7) + salt[:8] + b"\0" + low + utf8 + autocommit + high
    return head + b"\x15" + bytes(10) + salt[8:] + b"\0mysql_native_password\0"


def _error(number: int, text: str) -> bytes:
    return b"\xff" + struct.pack("<H", number) + b"#HY000" + text.encode()


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterable[bytes]:
    yield bytes([len(heads)])
    for head in heads:
        names = b"".join(map(_text, ("def", "", "", "", head, head)))
        yield names + b"\x0c" + struct.pack("<HIBHBH", 45, 1024, 0xFD, 0, 0, 0)
    yield _EOF
    for row in rows:
        yield b"".join(map(_text, row))
    yield _EOF


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def _send(line: socket.socket, number: int, packet: bytes) -> None:
    line.sendall(_packet(number, packet))


def _packet(number: int, content: bytes) -> bytes:
    return struct.pack("<I", len(content))[:3] + bytes([number]) + content


def _read(line: socket.socket) -> tuple[int, bytes]:
    head = _whole(line, 4)
    return head[3], _whole(line, int.from_bytes(head[:3], "little"))


def _whole(line: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        part = line.recv(length - len(found))
        if not part:
            raise EOFError
        found += part
    return found
