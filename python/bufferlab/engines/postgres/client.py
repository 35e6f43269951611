"""psycopg's connection, with bounds for a server that is not what it seems.

libpq waits for an answer as long as it takes, and keeps all its rows in memory. The server's own statement_timeout
bounds only servers that keep it.
"""

from __future__ import annotations

import os
import socket as sockets
import struct
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from bufferlab.engines.servers.existing.address import TOO_SLOW

MOST_ANSWER_BYTES = 64 << 20
"""The most bytes of one statement's answer: far beyond any that we ask for, but for the pages of a pool."""
_TCP_INFO_BYTES, _BYTES_RECEIVED = 136, 128
"""How much of the kernel's struct tcp_info is asked for, and where tcpi_bytes_received is in it (linux/tcp.h)."""
_TEXTS = ("text", "varchar", "name", "bpchar", '"char"', 0)
"""The types of text (0: all that psycopg does not know); a server in SQL_ASCII may tell any bytes as one."""
RV = TypeVar("RV")


class _Text(Loader):
    """Loads text that may be no UTF-8."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode("utf-8", "replace")


class Client(psycopg.Connection[tuple[Any, ...]]):
    """One connection. An answer that is too long or too late ends it, with a psycopg.OperationalError."""

    most_answer_bytes = MOST_ANSWER_BYTES
    answer_seconds: float | None = None
    """How long a statement with its whole answer may take; None: any time."""
    until_s: float | None = None
    """The time of the monotonic clock after which no statement is sent; None: there is none."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for kind in _TEXTS:
            self.adapters.register_loader(kind, _Text)

    def wait(self, gen: Generator[Any, Any, RV], *more: Any, **named: Any) -> RV:
        """Do the statement in `gen`."""
        return super().wait(self._bounded(gen), *more, **named)

    def _bounded(self, gen: Generator[Any, Any, RV]) -> Generator[Any, Any, RV]:
        """Pass on what `gen` waits for, and end the connection at a bound."""
        begun_s, begun_bytes = time.monotonic(), self._received_bytes()
        if self.until_s is not None and begun_s > self.until_s:
            raise self._left(TOO_SLOW)
        try:
            wanted = next(gen)
            while True:
                # psycopg also goes on when nothing came for a tenth of a second.
                ready = yield wanted
                if self._received_bytes() - begun_bytes > self.most_answer_bytes:
                    raise self._left(f"its answer is longer than {self.most_answer_bytes} bytes")
                if self.answer_seconds is not None and time.monotonic() - begun_s > self.answer_seconds:
                    raise self._left(f"it did not answer within {self.answer_seconds:.0f} s")
                wanted = gen.send(ready)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]

    def _received_bytes(self) -> int:
        """Return the bytes that came so far over TCP; of a Unix socket, whose server is this host's own, none."""
        with sockets.socket(fileno=os.dup(self.fileno())) as line:
            if line.family == sockets.AF_UNIX:
                return 0
            info = line.getsockopt(sockets.IPPROTO_TCP, sockets.TCP_INFO, _TCP_INFO_BYTES)
        return int(struct.unpack_from("=Q", info, _BYTES_RECEIVED)[0]) if len(info) == _TCP_INFO_BYTES else 0

    def _left(self, why: str) -> psycopg.OperationalError:
        self.close()
        return psycopg.OperationalError(why)
