"""Messages of a fake server in PostgreSQL's protocol, as bytes, and a reader of the client's messages.

Messages: PostgreSQL's manual, "Message Formats".
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from support.mysql_wire import Cell, whole

SSL_REQUEST = 80877103
BOOL, INT8, TEXT, FLOAT8 = 16, 20, 25, 701
"""Column types (pg_type.dat)."""


def message(kind: bytes, body: bytes = b"") -> bytes:
    """Return a message with its type and length."""
    return kind + (len(body) + 4).to_bytes(4, "big") + body


READY = message(b"Z", b"I")


def login(code: int, more: bytes = b"") -> bytes:
    """Return a request for a login, or AuthenticationOk (0)."""
    return message(b"R", code.to_bytes(4, "big") + more)


def read(line: socket.socket, head: int = 5) -> bytes:
    """Read one message with its header. `head` is 4 for a message without a type byte, such as the first one."""
    header = whole(line, head)
    return header + whole(line, int.from_bytes(header[-4:], "big") - 4) if header else b""


def begin(line: socket.socket, has_tls: bool = False) -> bytes:
    """Read the first message. If it asks for TLS, answer whether the server has TLS; if not, read the next message."""
    first = read(line, 4)
    if int.from_bytes(first[4:8], "big") != SSL_REQUEST:
        return first
    line.sendall(b"S" if has_tls else b"N")
    return b"" if has_tls else read(line, 4)


def refusal(state: str, text: Cell, severity: str = "ERROR") -> bytes:
    """Return an ErrorResponse."""
    said = text if isinstance(text, bytes) else (text or "").encode()
    fields = {b"S": severity.encode(), b"V": severity.encode(), b"C": state.encode(), b"M": said.replace(b"\0", b"")}
    return message(b"E", b"".join(letter + value + b"\0" for letter, value in fields.items()) + b"\0")


def heads(names: Sequence[str], types: Sequence[int]) -> bytes:
    """Return the RowDescription of columns in text."""
    columns = (
        name.encode() + bytes(7) + kind.to_bytes(4, "big") + b"\xff\xff\xff\xff\xff\xff\0\0"
        for name, kind in zip(names, types, strict=True)
    )
    return message(b"T", len(names).to_bytes(2, "big") + b"".join(columns))


def row(values: Sequence[Cell]) -> bytes:
    """Return a DataRow."""
    return message(b"D", len(values).to_bytes(2, "big") + b"".join(map(_cell, values)))


def parameter(name: str, value: Cell) -> bytes:
    """Return a ParameterStatus."""
    return message(b"S", name.encode() + b"\0" + _bytes(value) + b"\0")


def _cell(value: Cell) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else len(_bytes(value)).to_bytes(4, "big") + _bytes(value)


def _bytes(value: Cell) -> bytes:
    return value if isinstance(value, bytes) else (value or "").encode()
