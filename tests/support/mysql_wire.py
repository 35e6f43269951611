"""Messages of a fake server in MySQL's protocol, as bytes, and a reader of the client's packets.

Protocol: "Connection Phase" and "Text Resultset" of MySQL's internals manual, without CLIENT_DEPRECATE_EOF.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence

OK = b"\x00\x00\x00\x02\x00\x00\x00"
EOF = b"\xfe\x00\x00\x02\x00"
TLS = 0x800
_CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000 | 0x100000 | 0x200000
VAR_STRING, LONGLONG = 0xFD, 8
"""Column types (field_types.h)."""
_UTF8MB4 = 45

Cell = str | bytes | None


def packet(number: int, body: bytes) -> bytes:
    """Return a packet with its header; packet numbers begin again after 255."""
    return len(body).to_bytes(3, "little") + bytes([number & 0xFF]) + body


def numbered(bodies: Iterator[bytes] | Sequence[bytes]) -> Iterator[bytes]:
    """Yield the packets of an answer to a statement."""
    for number, body in enumerate(bodies, start=1):
        yield packet(number, body)


def read(line: socket.socket) -> bytes:
    """Return the body of the client's next packet; empty if the client has closed the connection."""
    head = whole(line, 4)
    return whole(line, int.from_bytes(head[:3], "little"))


def whole(line: socket.socket, length: int) -> bytes:
    """Return `length` bytes; empty if the client has closed the connection."""
    found = b""
    while len(found) < length:
        part = line.recv(length - len(found))
        if not part:
            return b""
        found += part
    return found


def greeting(version: bytes = b"8.0.99", plugin: bytes = b"mysql_native_password", more: int = 0) -> bytes:
    """Return a server's first packet; `more` has further capability flags."""
    offered, salt = _CAPABILITIES | more, b"12345678123456789012"
    low, high = struct.pack("<H", offered & 0xFFFF), struct.pack("<H", offered >> 16)
    head = b"\x0a" + version + b"\0" + struct.pack("<I", 7) + salt[:8] + b"\0" + low + b"\x2d\x02\x00" + high
    return packet(0, head + b"\x15" + bytes(10) + salt[8:] + b"\0" + plugin + b"\0")


def refusal(number: int, text: Cell) -> bytes:
    """Return the body of an error packet."""
    return b"\xff" + struct.pack("<H", number) + b"#HY000" + _bytes(text or "")


def heads(names: Sequence[str], types: Sequence[int] = ()) -> Iterator[bytes]:
    """Yield the packet bodies that begin a table with these columns, of type text unless types are given."""
    yield length(len(names))
    for name, kind in zip(names, types or [VAR_STRING] * len(names), strict=True):
        words = b"".join(map(cell, ("def", "", "", "", name, name)))
        yield words + b"\x0c" + struct.pack("<HIBHBH", _UTF8MB4, 1024, kind, 0, 0, 0)
    yield EOF


def table(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[bytes]:
    """Yield the packet bodies of a table."""
    yield from heads(names)
    for values in rows:
        yield row(values)
    yield EOF


def row(values: Sequence[Cell]) -> bytes:
    """Return the body of a row."""
    return b"".join(map(cell, values))


def cell(value: Cell) -> bytes:
    """Return a text with its length before it, or NULL."""
    return b"\xfb" if value is None else length(len(_bytes(value))) + _bytes(value)


def length(number: int) -> bytes:
    """Return a number as the protocol encodes lengths."""
    if number < 251:
        return bytes([number])
    return b"\xfc" + struct.pack("<H", number) if number < 1 << 16 else b"\xfe" + struct.pack("<Q", number)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
