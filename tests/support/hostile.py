"""A listener that treats each client as a test says, in place of a server."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Line = socket.socket
Behave = Callable[[Line], object]


PATIENCE_S = 5.0
"""The seconds for which a connection stays open while its client sends nothing."""


@contextmanager
def served(
    scheme: str, behave: Behave, heard: list[bytes] | None = None, patience_s: float = PATIENCE_S
) -> Iterator[str]:
    """Yield the URL of a server that calls `behave` on each connection; `heard` gets the bytes that clients send
    afterwards."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                line, _ = listener.accept()
                lines.append(line)
                threads.append(threading.Thread(target=serve, args=[line], daemon=True))
                threads[-1].start()

    def serve(line: socket.socket) -> None:
        with line, suppress(OSError):
            line.settimeout(patience_s)
            behave(line)
            while data := line.recv(1 << 16):
                if heard is not None:
                    heard.append(data)

    lines: list[socket.socket] = []
    threads = [threading.Thread(target=accept, daemon=True)]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads[0].start()
        try:
            yield f"{scheme}://me@127.0.0.1:{listener.getsockname()[1]}/lab?sslmode=prefer"
        finally:
            # A client that gave up may not have closed its end of the connection yet.
            for open_ in (listener, *lines):
                with suppress(OSError):
                    open_.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)


def reset(line: socket.socket) -> None:
    """Make the connection end with a reset when it is closed."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def drip(line: socket.socket, data: bytes) -> None:
    """Send the data byte by byte, ten bytes a second: each byte comes in time, but the whole message takes too long."""
    for byte in data:
        line.sendall(bytes([byte]))
        time.sleep(0.1)


HALF_OF_A_HANDSHAKE = b"\x16\x03\x03\x02\x00\x02\x00\x01\xfc\x03\x03" + bytes(300)
"""The head of a TLS record of 512 bytes and a part of the record: a ServerHello that never ends."""
