"""Sessions with servers whose answers are cut, doubled, mistyped, endless or silent: in the login, in TLS and in
results.

The trials call the core's client as Python does. Whatever the server does, the call must end in time, with an answer or
with one of the client's own errors. A trial's transcript and fault follow from its seed.
"""

from __future__ import annotations

import random
import re
import socket
import ssl
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.servers.client import Client, LostError, RefusedError, ServerError
from campaign.records import Finding, Record, State
from support import mysql_wire, postgres_wire
from support.certificates import Authority

NAMES = ("mysql", "postgres")
SIDE_BY_SIDE = 2
MOST_BYTES = 64 << 20
"""The most bytes by which the process may grow."""
_LOGIN_S, _STATEMENT_S, _LATE_S = 0.5, 0.5, 2.0
_BATCH = 100
FAULTS = ("cut", "silent", "doubled", "mistyped", "endless", "dripped")


class _Gone(Exception):
    """The end of a conversation."""


@dataclass
class Fault:
    """A server's fault, and the piece of its output at which it occurs."""

    kind: str
    step: int
    rng: random.Random

    def send(self, line: socket.socket, number: int, data: bytes) -> None:
        """Send a piece, with the fault if this is the faulty piece."""
        if number != self.step:
            line.sendall(data)
            return
        at = self.rng.randrange(len(data) + 1)
        match self.kind:
            case "cut":
                line.sendall(data[:at])
                raise _Gone
            case "silent":
                line.sendall(data[:at])
                while line.recv(1 << 16):
                    pass
                raise _Gone
            case "doubled":
                line.sendall(data + data)
            case "mistyped":
                wrong = bytearray(data)
                for _ in range(self.rng.randint(1, 4)):
                    wrong[self.rng.randrange(len(wrong))] = self.rng.randrange(256)
                line.sendall(wrong)
            case "dripped":
                for byte in data:
                    line.sendall(bytes([byte]))
                    time.sleep(0.02)
            case _:
                line.sendall(data[:at])
                again = self.rng.choice((data, data[at:] or data, self.rng.randbytes(self.rng.randint(1, 5000))))
                while True:
                    line.sendall(again * (1 + 65536 // len(again)))


class Conversation:
    """A usual server's output on one connection, piece by piece; `fault` breaks one of the pieces."""

    def __init__(self, line: socket.socket, fault: Fault) -> None:
        self._line, self._fault, self._pieces = line, fault, 0
        self._tls: ssl.SSLObject | None = None
        self._coming, self._going = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._heard = b""

    def say(self, data: bytes) -> None:
        """Send a piece; with TLS it becomes several pieces."""
        if self._tls is None:
            self._send(data)
            return
        self._tls.write(data)
        self._send(self._going.read())

    def hear(self, end: re.Pattern[bytes]) -> bytes:
        """Return the client's bytes up to the first match of `end`."""
        while not (found := end.search(self._heard)):
            self._heard += self._more()
        said, self._heard = self._heard[: found.end()], self._heard[found.end() :]
        return said

    def secure(self, context: ssl.SSLContext) -> None:
        """Do the TLS handshake."""
        tls = context.wrap_bio(self._coming, self._going, server_side=True)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._receive()
            else:
                self._flush()
                self._tls = tls
                return

    def _send(self, data: bytes) -> None:
        self._pieces += 1
        self._fault.send(self._line, self._pieces - 1, data)

    def _flush(self) -> None:
        if self._going.pending:
            self._send(self._going.read())

    def _receive(self) -> None:
        if not (data := self._line.recv(1 << 16)):
            raise _Gone
        self._coming.write(data)

    def _more(self) -> bytes:
        if self._tls is None:
            if not (data := self._line.recv(1 << 16)):
                raise _Gone
            return data
        while True:
            try:
                return self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                self._receive()


_WHOLE_PACKET = re.compile(rb"\A.{3}[\x00-\xff].+\Z", re.DOTALL)
_UNTIL_SYNC = re.compile(rb"S\0\0\0\x04", re.DOTALL)
_FIRST = re.compile(rb"\A.{8,}\Z", re.DOTALL)
_ROWS = (("one", "two"), (None, "x" * 300), ("", "3"))


def mysql(talk: Conversation, rng: random.Random, tls: ssl.SSLContext | None) -> None:
    """Talk as a MySQL server."""
    number = 1
    talk.say(mysql_wire.greeting(more=mysql_wire.TLS if tls else 0, plugin=rng.choice(_PLUGINS)))
    talk.hear(_WHOLE_PACKET)
    if tls:
        talk.secure(tls)
        talk.hear(_WHOLE_PACKET)
        number += 1
    match rng.randrange(3):
        case 0:
            talk.say(mysql_wire.packet(number + 1, b"\xfecaching_sha2_password\0" + b"y" * 20 + b"\0"))
            talk.hear(_WHOLE_PACKET)
            talk.say(mysql_wire.packet(number + 3, b"\x01\x03") + mysql_wire.packet(number + 4, mysql_wire.OK))
        case 1:
            talk.say(mysql_wire.packet(number + 1, mysql_wire.refusal(1045, "no")))
        case _:
            talk.say(mysql_wire.packet(number + 1, mysql_wire.OK))
    while True:
        talk.hear(_WHOLE_PACKET)
        for piece in mysql_wire.numbered(list(mysql_wire.table(("a", "b"), _ROWS))):
            talk.say(piece)


_PLUGINS = (b"mysql_native_password", b"caching_sha2_password", b"sha256_password")


def postgres(talk: Conversation, rng: random.Random, tls: ssl.SSLContext | None) -> None:
    """Talk as a PostgreSQL server."""
    talk.hear(_FIRST)  # SSLRequest
    talk.say(b"S" if tls else b"N")
    if tls:
        talk.secure(tls)
    talk.hear(_FIRST)
    match rng.randrange(3):
        case 0:
            talk.say(postgres_wire.login(5, b"salt"))
            talk.hear(_FIRST)
        case 1:
            talk.say(postgres_wire.refusal("28P01", "no", "FATAL"))
            raise _Gone
        case _:
            pass
    talk.say(postgres_wire.login(0))
    talk.say(postgres_wire.parameter("server_version", "17.2"))
    talk.say(postgres_wire.message(b"K", bytes(8)) + postgres_wire.READY)
    while True:
        talk.hear(_UNTIL_SYNC)
        talk.say(postgres_wire.message(b"1") + postgres_wire.message(b"t", b"\0\0"))
        talk.say(
            postgres_wire.heads(("a", "b"), (postgres_wire.TEXT, postgres_wire.TEXT)) + postgres_wire.message(b"2")
        )
        for row in _ROWS:
            talk.say(postgres_wire.row(row))
        talk.say(postgres_wire.message(b"C", b"SELECT 3\0") + postgres_wire.READY)


_SPEAKS = {"mysql": mysql, "postgres": postgres}


class Sessions:
    """A listener that treats each connection as its trial says, and the client's calls to it."""

    def __init__(self, folder: Path) -> None:
        cert, key = Authority(folder, "ours").server("server")
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(cert, key)

    def one(self, name: str, seed: int, number: int) -> tuple[str, str]:
        """Do a trial; return its description, and its fault ("" if there is none)."""
        rng = random.Random(f"sessions:{name}/{seed}/{number}")
        fault = Fault(FAULTS[number % len(FAULTS)], rng.randrange(14), random.Random(rng.random()))
        tls = self._tls if rng.random() < 0.5 else None
        talk_seed = rng.random()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    line, _ = listener.accept()
                    line.settimeout(5.0)
                    with line, suppress(OSError, _Gone, ssl.SSLError, IndexError):
                        _SPEAKS[name](Conversation(line, fault), random.Random(talk_seed), tls)

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            began_s = time.monotonic()
            said = self._said(name, listener.getsockname()[1], "require" if tls and rng.random() < 0.5 else "prefer")
            took_s = time.monotonic() - began_s
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(10.0)
        told = f"{fault.kind} at {fault.step}{' with TLS' if tls else ''}: {said} after {took_s:.1f} s"
        # `prefer` may log in twice.
        late = took_s > 2 * _LOGIN_S + _STATEMENT_S + _LATE_S
        return told, f"did not end in time: {told}" if late else "" if not said.startswith("raised") else told

    def _said(self, name: str, port: int, mode: str) -> str:
        target = {"place": {"tcp": {"host": "127.0.0.1", "port": port}}, "user": "me", "password": "secret",
                  "database": "lab", "security": {"mode": mode}}  # fmt: skip
        try:
            client = Client(name, target, login_seconds=_LOGIN_S, seconds=_STATEMENT_S, name="campaign")
            try:
                client.ask("SELECT 1")
            finally:
                client.close()
        except (ServerError, LostError, RefusedError) as error:
            return type(error).__name__
        except Exception as error:
            return f"raised {error!r}"
        return "answer"


def run(state: State, name: str, *, seed: int, seconds: float, goal: int) -> None:
    """Do trials of one family for `seconds`, or until the goal is reached; record them in batches."""
    family, ends = f"sessions:{name}", time.monotonic() + seconds
    begun_bytes = peak_bytes()
    with tempfile.TemporaryDirectory(prefix="bufferlab-campaign-") as folder, ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        sessions = Sessions(Path(folder))
        for first in _batches(state.total(family).trials, goal):
            if time.monotonic() > ends:
                return
            numbers = range(first, min(first + _BATCH, goal))
            tried = list(pool.map(lambda number: sessions.one(name, seed, number), numbers))
            grown = peak_bytes() - begun_bytes
            findings = [
                Finding(wrong, f"{seed}/{number}") for number, (_, wrong) in zip(numbers, tried, strict=True) if wrong
            ]
            if grown > MOST_BYTES:
                findings.append(Finding(f"the process grew by {grown >> 20} MiB", f"{seed}/{first}"))
            counts = dict(Counter(told.partition(": ")[2].split()[0] for told, _ in tried))
            state.add(Record(family, f"{seed}/{first}", len(numbers), counts, findings))
            print(f"{family} seed {seed}/{first}: {counts}, {grown >> 20} MiB more", flush=True)


def _batches(first: int, goal: int) -> Iterator[int]:
    yield from range(first, goal, _BATCH)


def peak_bytes() -> int:
    """Return the most memory that this process has held."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert found is not None
    return int(found[1]) << 10
