"""A listener that does to a client whatever a test says, in place of a server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Behave = Callable[[socket.socket], object]


@contextmanager
def served(scheme: str, behave: Behave, heard: list[bytes] | None = None) -> Iterator[str]:
    """The URL of a server that does that with each connection; `heard` gets what it is sent afterwards."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                line, _ = listener.accept()
                lines.append(line)
                with line, suppress(OSError):
                    line.settimeout(5)
                    behave(line)
                    while data := line.recv(1 << 16):
                        if heard is not None:
                            heard.append(data)

    lines: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"{scheme}://me@127.0.0.1:{listener.getsockname()[1]}/lab?sslmode=prefer"
        finally:
            # A client that gave up may not have closed its end yet.
            for open_ in (listener, *lines):
                with suppress(OSError):
                    open_.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def drip(line: socket.socket, data: bytes) -> None:
    """Send it byte by byte, ten a second: each comes in time, and all of them never do."""
    for byte in data:
        line.sendall(bytes([byte]))
        time.sleep(0.1)


HALF_OF_A_HANDSHAKE = b"\x16\x03\x03\x02\x00\x02\x00\x01\xfc\x03\x03" + bytes(300)
"""The head of a TLS record of 512 bytes and a part of it: a ServerHello that never ends."""
