"""Servers with wrong behaviour: seventeen behaviours, each of which replaces a part of a usual server.

A server answers any statement with a table of as many columns as it asks for (support/usual_answers.py). A behaviour
often begins only after some statements, and draws its parameters from the trial's seed. All work for both families.
"""

from __future__ import annotations

import itertools
import random
import re
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from support import hostile, mysql_wire, postgres_wire
from support.mysql_wire import Cell
from support.usual_answers import Answer, Refusal, Table, Usual, changed


@dataclass(frozen=True)
class Asked:
    """A statement, and how it was sent: the types of PostgreSQL's messages, or a letter for MySQL's command."""

    sql: str
    how: str = "Q"


class Wire(ABC):
    """The protocol of one family of servers. Each connection has a separate thread."""

    def __init__(self) -> None:
        self._own = threading.local()

    @property
    def session(self) -> Mapping[str, str]:
        """The settings that the client asked for in its login."""
        return getattr(self._own, "session", {})

    @abstractmethod
    def begin(self, line: socket.socket, version: str) -> bool:
        """Read the client's messages up to the decision on its login; return whether it is still connected."""

    @abstractmethod
    def let_in(self, version: str, pid: int) -> bytes:
        """Return the messages that end a successful login."""

    @abstractmethod
    def refuse(self, refusal: Refusal) -> bytes:
        """Return the messages that end a refused login."""

    @abstractmethod
    def statements(self, line: socket.socket) -> Iterator[Asked]:
        """Yield the client's statements until it disconnects."""

    @abstractmethod
    def encoded(self, answer: Answer, how: str) -> Iterator[bytes]:
        """Yield an answer's bytes; for a table with an unknown number of rows, row by row."""

    @abstractmethod
    def with_length(self, data: bytes, length: int) -> bytes:
        """Return a message whose header states another length."""


class Mysql(Wire):
    """MySQL and MariaDB."""

    def begin(self, line: socket.socket, version: str) -> bool:
        line.sendall(mysql_wire.greeting(version.encode("utf-8", "surrogateescape")))
        return bool(mysql_wire.read(line))

    def let_in(self, version: str, pid: int) -> bytes:
        return mysql_wire.packet(2, mysql_wire.OK)

    def refuse(self, refusal: Refusal) -> bytes:
        return mysql_wire.packet(2, mysql_wire.refusal(int(refusal.code), refusal.text))

    def statements(self, line: socket.socket) -> Iterator[Asked]:
        while (asked := mysql_wire.read(line)) and asked[:1] != b"\x01":
            yield Asked(asked[1:].decode("utf-8", "replace") if asked[:1] == b"\x03" else "", chr(asked[0] + 64))

    def encoded(self, answer: Answer, how: str) -> Iterator[bytes]:
        if how == "V":  # COM_STMT_PREPARE, 0x16
            answer = Refusal(1295, "This command is not supported in the prepared statement protocol yet")
        if isinstance(answer, Table):
            kinds = [mysql_wire.LONGLONG if kind is int else mysql_wire.VAR_STRING for kind in answer.types]
            bodies = itertools.chain(
                mysql_wire.heads(answer.heads, kinds), map(mysql_wire.row, answer.rows), [mysql_wire.EOF]
            )
            chunks = mysql_wire.numbered(bodies)
            yield from [b"".join(chunks)] if isinstance(answer.rows, Sequence) else chunks
        elif answer is None:
            yield mysql_wire.packet(1, mysql_wire.OK)
        else:
            yield mysql_wire.packet(1, mysql_wire.refusal(int(answer.code), answer.text))

    def with_length(self, data: bytes, length: int) -> bytes:
        return (length & 0xFFFFFF).to_bytes(3, "little") + data[3:]


_KINDS = {str: postgres_wire.TEXT, int: postgres_wire.INT8, bool: postgres_wire.BOOL}


class Postgres(Wire):
    """PostgreSQL."""

    def begin(self, line: socket.socket, version: str) -> bool:
        first = postgres_wire.begin(line)
        words = first[8:].decode("utf-8", "replace").split("\0")
        told = dict(zip(words[::2], words[1::2], strict=False))
        self._own.session = told | dict(re.findall(r"-c (\S+?)=(\S*)", told.get("options", "")))
        return bool(first)

    def let_in(self, version: str, pid: int) -> bytes:
        told = {
            "server_version": version, "server_encoding": "UTF8", "client_encoding": "UTF8",
            "standard_conforming_strings": "on", "integer_datetimes": "on", "TimeZone": "UTC", "DateStyle": "ISO, MDY",
        }  # fmt: skip
        words = b"".join(itertools.starmap(postgres_wire.parameter, told.items()))
        key = postgres_wire.message(b"K", pid.to_bytes(4, "big") + bytes(4))
        return postgres_wire.login(0) + words + key + postgres_wire.READY

    def refuse(self, refusal: Refusal) -> bytes:
        return postgres_wire.refusal(str(refusal.code), refusal.text, "FATAL")

    def statements(self, line: socket.socket) -> Iterator[Asked]:
        known: dict[bytes, str] = {}
        sql, how = "", ""
        while (asked := postgres_wire.read(line)) and asked[:1] != b"X":
            kind, body = chr(asked[0]), asked[5:]
            how += kind
            if kind == "P":
                name, text = body.split(b"\0", 2)[:2]
                sql = known[name] = text.decode("utf-8", "replace")
            elif kind == "B":
                sql = known.get(body.split(b"\0", 2)[1], sql)
            elif kind == "Q":
                sql = body.rstrip(b"\0").decode("utf-8", "replace")
            if kind in "QS":
                yield Asked(sql, how)
                how = ""

    def encoded(self, answer: Answer, how: str) -> Iterator[bytes]:
        if isinstance(answer, Refusal):
            yield postgres_wire.refusal(str(answer.code), answer.text, answer.severity) + postgres_wire.READY
            return
        begin = (b"1\0\0\0\4" if "P" in how else b"") + (b"2\0\0\0\4" if "B" in how else b"")
        table = answer if isinstance(answer, Table) and ("E" in how or "Q" in how) else None
        if table is not None:
            begin += postgres_wire.heads(table.heads, [_KINDS.get(kind, 25) for kind in table.types])
        elif "D" in how:
            begin += postgres_wire.message(b"n")
        end = postgres_wire.message(b"C", b"SELECT 1\0" if table is not None else b"SET\0") if how != "PS" else b""
        rows: Iterable[Sequence[Cell]] = table.rows if table is not None else ()
        chunks = itertools.chain([begin], map(postgres_wire.row, rows), [end + postgres_wire.READY])
        yield from [b"".join(chunks)] if isinstance(rows, Sequence) else chunks

    def with_length(self, data: bytes, length: int) -> bytes:
        return data[:1] + (length & 0xFFFFFFFF).to_bytes(4, "big") + data[5:]


WIRES: dict[str, type[Wire]] = {"mysql": Mysql, "postgres": Postgres}
VERSIONS = {"mysql": ("8.0.36", "5.7.44", "10.11.19-MariaDB", "11.8.3-MariaDB-log"), "postgres": ("17.2", "15.18")}
_AFTER = (0, 0, 0, 0, 1, 2, 3, 5, 8, 13, 20, 30, 50)


class Server:
    """A usual server. Each behaviour is a subclass below, which replaces one of its methods."""

    def __init__(self, family: str, rng: random.Random, pid: int = 1, begun_s: float | None = None) -> None:
        """`pid` is the process that it claims to be, `begun_s` that process's start (monotonic clock; None: now)."""
        self.family, self.wire, self.rng = family, WIRES[family](), rng
        self.version = rng.choice(VERSIONS[family])
        self.after = rng.choice(_AFTER)
        """The number of statements with a usual answer, over all connections."""
        self.is_full, self.is_busy = rng.random() < 0.3, rng.random() < 0.5
        self.asked = 0
        self.heard: list[str] = []
        self.draw(rng)
        began_s = time.monotonic() if begun_s is None else begun_s
        self.as_usual = Usual(family, self.version, pid, began_s, self.is_busy, self.is_full)

    def draw(self, rng: random.Random) -> None:
        """Draw the behaviour's parameters."""

    @property
    def drawn(self) -> dict[str, object]:
        """The drawn parameters, to be kept with a finding."""
        return {name: value for name, value in vars(self).items() if name not in ("wire", "rng", "as_usual", "heard")}

    @property
    def is_strange(self) -> bool:
        """Whether the statements with a usual answer are over."""
        return self.asked > self.after

    def __call__(self, line: socket.socket) -> None:
        """Serve one connection."""
        if self.wire.begin(line, self.version):
            self.let_in(line)
            self.serve(line)

    def let_in(self, line: socket.socket) -> None:
        """End the login."""
        line.sendall(self.wire.let_in(self.version, self.as_usual.pid))

    def serve(self, line: socket.socket) -> None:
        """Answer statements until the client goes."""
        for asked in self.wire.statements(line):
            self.hear(asked)
            answer = self.answer(asked.sql, self.usual(asked.sql))
            for chunk in self.wire.encoded(answer, asked.how):
                self.send(line, chunk)

    def usual(self, sql: str) -> Answer:
        """Return the usual answer to a statement."""
        return self.as_usual.answer(sql, self.wire.session)

    def hear(self, asked: Asked) -> None:
        """Count a statement."""
        self.asked += 1
        self.heard.append(" ".join(asked.sql.split())[:200])

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        """Return the answer to a statement."""
        return usual_one

    def send(self, line: socket.socket, data: bytes) -> None:
        """Send a part of an answer."""
        line.sendall(data)


class Closes(Server):
    """Closes the connection: at once, in the login, or after some statements; normally or by a reset."""

    def draw(self, rng: random.Random) -> None:
        self.at = rng.choice(("accept", "login", "let in", "statement", "statement", "statement"))
        self.resets = rng.random() < 0.3

    def __call__(self, line: socket.socket) -> None:
        if self.at == "accept" or (self.wire.begin(line, self.version) and self.at == "login"):
            return self.close(line)
        self.let_in(line)
        if self.at == "let in":
            return self.close(line)
        return self.serve(line)

    def close(self, line: socket.socket) -> None:
        if self.resets:
            hostile.reset(line)
        line.close()

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        if self.is_strange:
            raise ConnectionError("closed")
        return usual_one


class Silent(Server):
    """Accepts the connection and sends nothing, or only the beginning of a login."""

    def draw(self, rng: random.Random) -> None:
        self.at = rng.choice(("accept", "login", "TLS", "TLS by the byte"))

    def __call__(self, line: socket.socket) -> None:
        if self.at == "login":
            self.wire.begin(line, self.version)
        elif self.at.startswith("TLS"):
            if self.family == "mysql":
                line.sendall(mysql_wire.greeting(self.version.encode(), more=mysql_wire.TLS))
                mysql_wire.read(line)
            else:
                postgres_wire.begin(line, has_tls=True)
            hostile.drip(line, hostile.HALF_OF_A_HANDSHAKE if "byte" in self.at else b"")


class SilentAfterLogin(Server):
    """Accepts the login, and from some statement on sends nothing."""

    def draw(self, rng: random.Random) -> None:
        self.forever = rng.random() < 0.7

    def serve(self, line: socket.socket) -> None:
        for asked in self.wire.statements(line):
            self.hear(asked)
            if self.asked == self.after + 1 or (self.is_strange and self.forever):
                continue
            for chunk in self.wire.encoded(self.usual(asked.sql), asked.how):
                line.sendall(chunk)


class OkWithoutRows(Server):
    """Answers OK, without rows, to everything."""

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        return None if self.is_strange else usual_one


class NoRows(Server):
    """Answers tables without rows."""

    def draw(self, rng: random.Random) -> None:
        self.share = rng.choice((1.0, 1.0, 0.2))

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        return changed(usual_one, rows=[]) if self.is_strange and self.rng.random() < self.share else usual_one


class Cells(Server):
    """Answers with unusual cells."""

    odd: Sequence[Cell] = (None,)

    def draw(self, rng: random.Random) -> None:
        self.share = rng.choice((1.0, 0.3, 0.05))
        self.is_one = rng.random() < 0.5
        """Whether it changes the same cell each time."""
        self.one = rng.choice(self.odd)

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        if not self.is_strange or not isinstance(usual_one, Table):
            return usual_one
        return changed(usual_one, rows=[[self.cell(cell) for cell in row] for row in usual_one.rows])

    def cell(self, cell: Cell) -> Cell:
        if self.rng.random() >= self.share:
            return cell
        return self.one if self.is_one else self.rng.choice(self.odd)


class Nulls(Cells):
    """Answers NULL in some cells, or in all."""


class OddNumbers(Cells):
    """Answers numbers that are malformed, or larger, smaller or longer than any meaningful one."""

    odd = (
        "-1", "0", "1", "18446744073709551615", "-9223372036854775808", "9" * 30, "9" * 5000, "1e400", "-0.5", "NaN",
        "Infinity", "", "abc", "0x10", "1,5", " 7 ", "1_000", "\uff11\uff12", "\u00b2", "ON", "t",
    )  # fmt: skip


class OddText(Cells):
    """Answers text that controls a terminal, or is markup, or is not text."""

    odd = (
        "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "<script>alert(1)</script>", "[bold]x[/bold]", "a\nb\r\nc", "\0nul\0",
        "\u202ereversed", b"\xff\xfe\x80", b"\xed\xa0\x80", "\x9b31m", "%s %d {0} {x}", "x" * 70_000, "'; DROP TABLE x",
        "postgres://me:word@h/lab", "\U0001f4a9" * 50, "../../etc/passwd", '{"a": [', "",
    )  # fmt: skip


class OtherColumns(Server):
    """Answers tables with more columns or fewer, with other names, or with more rows."""

    def draw(self, rng: random.Random) -> None:
        self.kind = rng.choice(("more", "fewer", "none", "names", "same name", "long name", "more rows", "shuffled"))

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        if not self.is_strange or not isinstance(usual_one, Table):
            return usual_one
        heads, rows, kinds = list(usual_one.heads), [list(row) for row in usual_one.rows], list(usual_one.types)
        match self.kind:
            case "more":
                return Table([*heads, "more"], [[*row, "1"] for row in rows], [*kinds, str])
            case "fewer" | "none":
                keep = 0 if self.kind == "none" else len(heads) - 1
                if not keep and self.family == "mysql":
                    return None
                return Table(heads[:keep], [row[:keep] for row in rows], kinds[:keep])
            case "more rows":
                return Table(heads, rows * 3, kinds)
            case "shuffled":
                return Table(heads[::-1], rows, kinds[::-1])
        name = {"names": "other{}", "same name": "x", "long name": "n" * 2000 + "{}"}[self.kind]
        return Table([name.format(place) for place in range(len(heads))], rows, kinds)


_WORDS: tuple[Cell, ...] = (
    "Access denied", "Zugriff verweigert", "", "\x1b[31mno\x1b[0m", "a\nb\nc", "x" * 20_000, b"\xff\xfe", "<b>no</b>",
    "password authentication failed", "is not permitted to log in", "{0} %s", "\x9b31mno",
)  # fmt: skip


class RefusesStatements(Server):
    """Answers statements with an error: some of them, or all from some statement on."""

    codes: ClassVar[dict[str, Sequence[int | str]]] = {
        "mysql": (1227, 1142, 1146, 1193, 1205, 1064, 3024, 1053, 1317, 1290, 1820, 1226, 1094, 1, 65535, 2006, 1040),
        "postgres": (
            "42501", "42P01", "57014", "25P02", "25006", "53200", "57P01", "XX000", "08P01", "", "ZZZZZ", "40001",
            "26000", "57P03", "53300", "42883", "0A000", "28000",
        ),
    }  # fmt: skip

    def draw(self, rng: random.Random) -> None:
        self.share = rng.choice((1.0, 1.0, 0.3))
        code, text = rng.choice(self.codes[self.family]), rng.choice(_WORDS)
        self.refusal = Refusal(code, text, rng.choice(("ERROR", "ERROR", "FATAL", "PANIC", "WARNING", "?")))

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        return self.refusal if self.is_strange and self.rng.random() < self.share else usual_one


class RefusesLogins(Server):
    """Answers log-ins with an error: all of them, or from the second connection on."""

    codes: ClassVar[dict[str, Sequence[int | str]]] = {
        "mysql": (1045, 1040, 1129, 1130, 3118, 1862, 1820, 1049, 1044, 1203, 1053, 1698, 1251, 4151, 1226, 1, 65535),
        "postgres": (
            "28P01", "28000", "53300", "57P03", "3D000", "55000", "42501", "08P01", "57P01", "0A000", "XX000", "",
            "22023",
        ),
    }  # fmt: skip

    def draw(self, rng: random.Random) -> None:
        self.refusal = Refusal(rng.choice(self.codes[self.family]), rng.choice(_WORDS))
        self.at_once = rng.random() < 0.3
        """Whether it sends the error in place of its first message."""
        self.welcome = rng.choice((0, 0, 0, 1, 2))
        """The number of connections whose login it accepts; it closes each of them after some statements."""

    def __call__(self, line: socket.socket) -> None:
        self.welcome -= 1
        if self.welcome >= 0:
            return super().__call__(line)
        if self.at_once and self.family == "mysql":
            line.sendall(mysql_wire.packet(0, mysql_wire.refusal(int(self.refusal.code), self.refusal.text)))
        elif self.at_once or self.wire.begin(line, self.version):
            line.sendall(self.wire.refuse(self.refusal))
        line.close()
        return None

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        if self.is_strange:
            raise ConnectionError("closed")
        return usual_one


class BrokenPackets(Server):
    """Sends an answer that is cut in the middle, that states a wrong length, or that has other bytes."""

    def draw(self, rng: random.Random) -> None:
        self.at = rng.choice(("greeting", "let in", "statement", "statement", "statement"))
        self.kind = rng.choice(("cut and closed", "cut", "length", "length", "bytes", "twice", "number"))
        self.length = rng.choice((0, 1, 3, 4, 0x3FFFFFFF, 0xFFFFFF, 0xFFFFFE, -1, 1 << 31, 65536))
        self.place = rng.random()

    def __call__(self, line: socket.socket) -> None:
        if self.at == "greeting":
            first = mysql_wire.greeting(self.version.encode()) if self.family == "mysql" else b"N"
            self.broken(line, first if self.family == "mysql" else self.wire.let_in(self.version, self.as_usual.pid))
            return
        super().__call__(line)

    def let_in(self, line: socket.socket) -> None:
        words = self.wire.let_in(self.version, self.as_usual.pid)
        self.broken(line, words) if self.at == "let in" else line.sendall(words)

    def send(self, line: socket.socket, data: bytes) -> None:
        self.broken(line, data) if self.is_strange and self.at == "statement" else line.sendall(data)

    def broken(self, line: socket.socket, data: bytes) -> None:
        at = int(self.place * len(data))
        match self.kind:
            case "cut and closed":
                line.sendall(data[:at])
                raise ConnectionError("closed")
            case "cut":
                line.sendall(data[:at])
            case "length":
                line.sendall(self.wire.with_length(data, self.length))
            case "twice":
                line.sendall(data + data)
            case "number":
                line.sendall(data[:3] + bytes([self.rng.randrange(256)]) + data[4:])
            case _:
                changes = {at, *(self.rng.randrange(len(data)) for _ in range(self.rng.choice((0, 3, 30))))}
                line.sendall(bytes(self.rng.randrange(256) if n in changes else byte for n, byte in enumerate(data)))


class RowsWithoutEnd(Server):
    """Answers tables whose rows never end: a trickle, or some MiB a second."""

    def draw(self, rng: random.Random) -> None:
        self.row_bytes, self.pause_s = rng.choice(((1, 0.02), (10, 0.5), (1000, 0.01), (65_000, 0.02), (10, 4.0)))

    def answer(self, sql: str, usual_one: Answer) -> Answer:
        if not self.is_strange or not isinstance(usual_one, Table):
            return usual_one
        return Table(usual_one.heads, self.rows(usual_one), [str] * len(usual_one.heads))

    def rows(self, table: Table) -> Iterator[Sequence[Cell]]:
        row = ["7" * self.row_bytes] * len(table.heads)
        while True:
            yield row
            time.sleep(self.pause_s)


class OtherProtocol(Server):
    """Speaks another protocol: a web server's, another service's, the other family's, or noise."""

    def draw(self, rng: random.Random) -> None:
        self.said = rng.choice((
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"SSH-2.0-OpenSSH_9.2p1\r\n",
            b"220 mail.example ESMTP\r\n", b"-ERR unknown command\r\n", b"\x15\x03\x03\0\2\2\x28", b"\0" * 64,
            b"\xff" * 64, b"N", b"S", b"E", rng.randbytes(40), rng.randbytes(4000),
            mysql_wire.greeting(), postgres_wire.login(0) + postgres_wire.READY,
        ))  # fmt: skip
        self.waits, self.stays = rng.random() < 0.5, rng.random() < 0.5
        self.other = rng.random() < 0.2

    def __call__(self, line: socket.socket) -> None:
        if self.other:
            other = Server("postgres" if self.family == "mysql" else "mysql", self.rng)
            return other(line)
        if self.waits:
            patience_s = line.gettimeout()
            line.settimeout(1.0)  # MySQL's clients wait for the server's first message.
            with suppress(TimeoutError):
                line.recv(1 << 16)
            line.settimeout(patience_s)
        line.sendall(self.said)
        if not self.stays:
            line.close()
        return None


class OtherLogin(Server):
    """Asks for another login: the password in clear text, or an unknown method."""

    def draw(self, rng: random.Random) -> None:
        self.plugin = rng.choice((
            b"mysql_clear_password", b"dialog", b"sha256_password", b"mysql_old_password", b"", b"\x1b[31m",
            b"x" * 5000, b"caching_sha2_password", b"auth_gssapi_client",
        ))  # fmt: skip
        self.in_greeting = rng.random() < 0.4
        self.code = rng.choice((2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 77, 0xFFFFFFFF))
        self.more = rng.choice(
            (b"", b"salt", b"PLAIN\0\0", b"SCRAM-SHA-256\0\0", b"SCRAM-SHA-256-PLUS\0\0", b"\xff" * 30)
        )
        self.verdict = rng.choice(("let in", "refused", "silent", "again", "more"))

    def __call__(self, line: socket.socket) -> None:
        if self.family == "mysql":
            line.sendall(mysql_wire.greeting(self.version.encode(), self.plugin if self.in_greeting else b""))
            mysql_wire.read(line)
            request = mysql_wire.packet(2, b"\xfe" + self.plugin + b"\0" + b"x" * 20 + b"\0")
        else:
            postgres_wire.begin(line)
            request = postgres_wire.login(self.code, self.more)
        line.sendall(request)
        self.read(line)
        while self.verdict == "again":
            line.sendall(request)
            if not self.read(line):
                return
        if self.verdict == "more" and self.family == "mysql":
            line.sendall(mysql_wire.packet(4, b"\x01" + bytes([self.rng.choice((3, 4, 0, 255))])))
        elif self.verdict == "refused":
            line.sendall(self.wire.refuse(Refusal(1045 if self.family == "mysql" else "28P01", "no")))
        elif self.verdict == "let in":
            self.let_in(line)
            self.serve(line)

    def read(self, line: socket.socket) -> bytes:
        return mysql_wire.read(line) if self.family == "mysql" else postgres_wire.read(line)


class OtherVersion(Server):
    """Reports another version: an old one, one that does not exist yet, another program's, or none."""

    versions: ClassVar = {
        "mysql": (
            "3.23.58", "4.1.22", "5.0.96", "5.1.73", "5.5.68-MariaDB", "5.6.51", "9.9.9", "99.0", "8", "", "abc",
            "8.0.11-TiDB-v7.5.0", "5.7.44-48-log", "8.0.0\x1b[31m", "10.6", "5.5.5-10.11.6-MariaDB", "1.2.3.4.5.6",
            "99999999999999999999.1.1", "8.0.31-google", "5.7.12-aurora", "8.0-" + "v" * 300, "-8.0.36", "\u00b2.0.1",
        ),
        "postgres": (
            "7.4", "8.0.26", "9.6.24", "10.23", "13.2", "14beta1", "18devel", "19.0", "17", "", "abc", "17.2\x1b[31m",
            "11.2-YB-2.19.3.0-b0", "13.0.0", "99999999999.1", "17.2 (Debian 17.2-1.pgdg120+1)", "-1", "v" * 300,
        ),
    }  # fmt: skip

    def draw(self, rng: random.Random) -> None:
        self.version = rng.choice(self.versions[self.family])


class Slow(Server):
    """Answers each statement after a while, or some of them after seconds, sometimes in pieces.

    It waits for `patience_s` in all: a sweep's questions have no time limit, so it could outlast any limit on a trial.
    """

    patience_s = 20.0

    def draw(self, rng: random.Random) -> None:
        self.seconds, self.every = rng.choice(((0.1, 1), (0.25, 1), (0.5, 2), (1.0, 5), (3.0, 20), (8.0, 50)))
        self.login_seconds, self.pieces = rng.choice((0.0, 0.1, 0.3)), rng.choice((1, 1, 1, 8))

    def let_in(self, line: socket.socket) -> None:
        self._wait(self.login_seconds)
        super().let_in(line)

    def send(self, line: socket.socket, data: bytes) -> None:
        seconds = 0.0 if self.asked % self.every else self.seconds
        for start in range(0, len(data), size := -(-len(data) // self.pieces)):
            self._wait(seconds / self.pieces)
            line.sendall(data[start : start + size])

    def _wait(self, seconds: float) -> None:
        waited_s = min(seconds, self.patience_s)
        self.patience_s -= waited_s
        time.sleep(waited_s)


BEHAVIOURS: dict[str, type[Server]] = {
    "closes": Closes,
    "silent": Silent,
    "silent-after-login": SilentAfterLogin,
    "ok-without-rows": OkWithoutRows,
    "no-rows": NoRows,
    "nulls": Nulls,
    "odd-numbers": OddNumbers,
    "odd-text": OddText,
    "other-columns": OtherColumns,
    "refuses-statements": RefusesStatements,
    "refuses-logins": RefusesLogins,
    "broken-packets": BrokenPackets,
    "rows-without-end": RowsWithoutEnd,
    "other-protocol": OtherProtocol,
    "other-login": OtherLogin,
    "other-version": OtherVersion,
    "slow": Slow,
}
"""The behaviours by name; the first line of each class says what it does."""
