"""Sessions with servers whose answers are refused or never end, called from Python (the core has separate tests)."""

from __future__ import annotations

import base64
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.engines.innodb import connection as innodb
from bufferlab.engines.postgres import connection as postgres
from bufferlab.engines.servers.client import Client, LostError
from bufferlab.engines.servers.existing.address import Form, parse
from bufferlab.engines.servers.existing.passwords import DeniedError, LoginRefusedError
from bufferlab.errors import EnvironmentLackingError
from campaign import sessions
from support import hostile, mysql_wire, postgres_wire
from support.core import ROOT
from support.hostile import Behave

SECRET = "a-secret-of-ours"
FORMS: dict[str, Form] = {"mysql": innodb.FORM, "postgres": postgres.FORM}
ONE_COLUMN = postgres_wire.heads(["x"], [postgres_wire.TEXT])


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUFFERLAB_PASSWORD", SECRET)


def served(scheme: str, behave: Behave, heard: list[bytes] | None = None) -> AbstractContextManager[str]:
    """Yield the URL of a server that calls `behave` on each connection; `heard` gets the bytes that clients send
    afterwards."""
    return hostile.served(scheme, behave, heard)


def refusal(url: str, seconds: float = 0.5) -> EnvironmentLackingError:
    """Return the error of the family's connection to a URL."""
    scheme = url.partition("://")[0]
    connect = innodb.connect if scheme == "mysql" else postgres.connect
    with pytest.raises(EnvironmentLackingError) as caught:
        connect(parse(url, FORMS[scheme]), seconds=seconds)
    assert caught.value.hint
    assert SECRET not in caught.value.render()
    return caught.value


def session(url: str, seconds: float | None = 2.0) -> Client:
    """Return a session as the core makes it, without a family's own statements."""
    scheme = url.partition("://")[0]
    target = parse(url, FORMS[scheme]).target(SECRET, None)
    return Client(scheme, target, login_seconds=2.0, seconds=seconds, name="test")


def mysql_in(line: socket.socket) -> None:
    line.sendall(mysql_wire.greeting())
    mysql_wire.read(line)
    line.sendall(mysql_wire.packet(2, mysql_wire.OK))


def postgres_in(line: socket.socket) -> None:
    postgres_wire.begin(line)
    line.sendall(postgres_wire.login(0) + postgres_wire.READY)


def answering(scheme: str, answer: Callable[[socket.socket], object]) -> Behave:
    """Return a server that accepts every login, and calls `answer` for each statement."""

    def behave(line: socket.socket) -> None:
        (mysql_in if scheme == "mysql" else postgres_in)(line)
        while line.recv(1 << 16):
            answer(line)

    return behave


@pytest.mark.parametrize(
    ("scheme", "first"),
    [
        ("mysql", b""),
        ("mysql", mysql_wire.greeting()[:9]),
        ("postgres", b""),
        ("postgres", b"R\0\0\0\x08\0"),
        ("postgres", b"E\0\0\x70\0"),
    ],
    ids=["silent", "half a greeting", "silent", "half", "an endless error"],
)
def test_a_server_that_stops_in_the_middle_of_a_login_is_given_up_in_time(scheme: str, first: bytes) -> None:
    def behave(line: socket.socket) -> None:
        if scheme == "postgres":
            postgres_wire.begin(line)
        line.sendall(first)

    began = time.monotonic()
    with served(scheme, behave) as url:
        assert "did not finish the login within" in refusal(url).what
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("mode", ["prefer", "require"])
@pytest.mark.parametrize("half", [b"", hostile.HALF_OF_A_HANDSHAKE], ids=["silent", "dripping"])
@pytest.mark.parametrize("scheme", FORMS)
def test_a_server_that_stops_in_the_middle_of_a_tls_handshake_is_given_up_in_time(
    scheme: str, mode: str, half: bytes
) -> None:
    heard: list[bytes] = []

    def behave(line: socket.socket) -> None:
        if scheme == "mysql":
            line.sendall(mysql_wire.greeting(more=mysql_wire.TLS))
            mysql_wire.read(line)
        else:
            postgres_wire.begin(line, has_tls=True)
        hostile.drip(line, half)

    began = time.monotonic()
    with served(scheme, behave, heard) as url:
        assert "did not finish the login within" in refusal(url.replace("prefer", mode)).what
    assert time.monotonic() - began < 5
    # The client did not try the login again without TLS.
    assert b"me\0" not in b"".join(heard)


@pytest.mark.parametrize("scheme", FORMS)
def test_a_server_that_closes_or_talks_nonsense_is_a_sentence(scheme: str) -> None:
    for behave in (lambda line: line.close(), lambda line: line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")):
        with served(scheme, behave) as url:
            assert refusal(url).what.startswith("the server cannot be used: ")


@pytest.mark.parametrize(
    ("scheme", "said", "kind"),
    [
        ("mysql", mysql_wire.packet(2, mysql_wire.refusal(1045, "no")), DeniedError),
        ("mysql", mysql_wire.packet(2, mysql_wire.refusal(1130, "no")), LoginRefusedError),
        ("mysql", mysql_wire.packet(2, mysql_wire.refusal(1040, "too many")), EnvironmentLackingError),
        ("postgres", postgres_wire.refusal("28P01", "no", "FATAL"), DeniedError),
        ("postgres", postgres_wire.refusal("3D000", "no", "FATAL"), LoginRefusedError),
        ("postgres", postgres_wire.refusal("53300", "too many", "FATAL"), EnvironmentLackingError),
        ("postgres", postgres_wire.login(7), LoginRefusedError),
        ("mysql", mysql_wire.packet(2, b"\xfedialog\0" + b"x" * 20 + b"\0"), LoginRefusedError),
    ],
)
def test_refusals_are_known_by_their_code(scheme: str, said: bytes, kind: type[Exception]) -> None:
    def behave(line: socket.socket) -> None:
        if scheme == "mysql":
            line.sendall(mysql_wire.greeting())
            mysql_wire.read(line)
        else:
            postgres_wire.begin(line)
        line.sendall(said)

    heard: list[bytes] = []
    with served(scheme, behave, heard) as url:
        error = refusal(url, seconds=2.0)
    assert isinstance(error, kind)
    assert isinstance(error, LoginRefusedError) == (kind is not EnvironmentLackingError)
    assert SECRET.encode() not in b"".join(heard)


def test_a_refusal_of_postgresql_is_told_with_its_detail() -> None:
    said = b"SFATAL\0C57P03\0Mit accepts no connections\0DHot standby mode is disabled.\0\0"

    def behave(line: socket.socket) -> None:
        postgres_wire.begin(line)
        line.sendall(postgres_wire.message(b"E", said))

    with served("postgres", behave) as url:
        what = refusal(url, seconds=2.0).what
    assert what.endswith("it accepts no connections: Hot standby mode is disabled.")


def test_a_server_that_cannot_prove_that_it_knows_the_password_is_refused_by_what_it_did() -> None:
    """SCRAM proves both ends (RFC 5802): a server that does not know the password has no signature."""
    proofs: list[bytes] = []

    def behave(line: socket.socket) -> None:
        postgres_wire.begin(line)
        line.sendall(postgres_wire.login(10, b"SCRAM-SHA-256\0\0"))
        nonce = postgres_wire.read(line).rpartition(b"r=")[2]
        salt = base64.b64encode(bytes(16))
        line.sendall(postgres_wire.login(11, b"r=" + nonce + b"ours,s=" + salt + b",i=4096"))
        proofs.append(postgres_wire.read(line))
        line.sendall(postgres_wire.login(12, b"v=" + base64.b64encode(bytes(32))))

    with served("postgres", behave) as url:
        said = refusal(url, seconds=5.0).what
    assert "verification" in said
    assert "reached" not in said
    assert proofs
    assert SECRET.encode() not in proofs[0]


ROW_OF_A_KIB = {
    "mysql": mysql_wire.packet(9, mysql_wire.row(["x" * 1024])),
    "postgres": postgres_wire.row(["x" * 1024]),
}
HEAD = {
    "mysql": b"".join(mysql_wire.numbered(list(mysql_wire.heads(["x"])))),
    "postgres": ONE_COLUMN,
}
HUGE = {"mysql": b"\xff\xff\xff\x09" + bytes(4096), "postgres": b"D\x3f\xff\xff\xff\0\x01\x3f\xff\xff\xf0"}


@pytest.mark.parametrize("scheme", FORMS)
@pytest.mark.parametrize("pieces", [ROW_OF_A_KIB, HUGE], ids=["rows without end", "a row of a gibibyte"])
def test_an_answer_larger_than_any_that_we_ask_for_is_left(scheme: str, pieces: dict[str, bytes]) -> None:
    def answer(line: socket.socket) -> None:
        line.sendall(HEAD[scheme])
        while True:
            line.sendall(pieces[scheme] * 64)

    began_bytes = sessions.peak_bytes()
    with served(scheme, answering(scheme, answer)) as url, closing(session(url, seconds=20.0)) as asked:
        with pytest.raises(LostError, match=r"longer than|which nothing here reads"):
            asked.ask("SELECT 1")
        assert not asked.is_open
        with pytest.raises(LostError, match="closed"):
            asked.ask("SELECT 1")
    assert sessions.peak_bytes() - began_bytes < sessions.MOST_BYTES


@pytest.mark.parametrize("scheme", FORMS)
def test_a_statement_that_is_never_answered_is_given_up_in_time(scheme: str) -> None:
    began = time.monotonic()
    with (
        served(scheme, answering(scheme, lambda line: line.sendall(HEAD[scheme]))) as url,
        closing(session(url, seconds=0.3)) as asked,
        pytest.raises(LostError, match="it did not answer within 0 s"),
    ):
        asked.ask("SELECT 1")
    assert time.monotonic() - began < 5


def test_a_server_that_asks_for_a_file_of_this_host_gets_none() -> None:
    heard: list[bytes] = []
    asks = answering("mysql", lambda line: line.sendall(mysql_wire.packet(1, b"\xfb/etc/passwd")))
    with (
        served("mysql", asks, heard) as url,
        closing(session(url)) as asked,
        pytest.raises(LostError, match="asks for a file of this host"),
    ):
        asked.ask("SELECT 1")
    assert b"root:" not in b"".join(heard)


@pytest.mark.parametrize("scheme", FORMS)
def test_an_answer_has_names_and_rows(scheme: str) -> None:
    rows = [["abc", None], ["", "ü"]]
    if scheme == "mysql":
        whole = b"".join(mysql_wire.numbered(list(mysql_wire.table(["a", "b"], rows))))
    else:
        head = postgres_wire.heads(["a", "b"], [postgres_wire.TEXT] * 2)
        whole = head + b"".join(map(postgres_wire.row, rows)) + postgres_wire.READY
    with served(scheme, answering(scheme, lambda line: line.sendall(whole))) as url, closing(session(url)) as asked:
        for _ in range(2):
            assert asked.ask("SELECT 1") == (["a", "b"], [("abc", None), ("", "ü")])


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 10**9), name=st.sampled_from(sessions.NAMES))
def test_any_fault_of_a_server_ends_with_an_answer_or_an_error_of_the_clients(
    number: int, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    told, wrong = _faults(tmp_path_factory.getbasetemp()).one(name, 1, number)
    assert not wrong
    assert re.search(r": (answer|LostError|ServerError|RefusedError) after", told)


def _faults(folder: Path) -> sessions.Sessions:
    if not _MADE:
        _MADE.append(sessions.Sessions(folder))
    return _MADE[0]


_MADE: list[sessions.Sessions] = []


def test_a_session_can_be_looked_at_while_another_thread_waits_for_its_answer() -> None:
    """This test runs in a separate process: threads that wait for each other end neither by a time limit nor by
    Ctrl-C."""
    program = (
        "import sys, threading\n"
        "from bufferlab.engines.innodb.connection import FORM\n"
        "from bufferlab.engines.servers.client import Client, LostError\n"
        "from bufferlab.engines.servers.existing.address import parse\n"
        "target = parse(sys.argv[1], FORM).target('x', None)\n"
        "client = Client('mysql', target, login_seconds=5.0, seconds=1.0, name='test')\n"
        "def ask():\n"
        "    try:\n"
        "        client.ask('SELECT 1')\n"
        "    except LostError as error:\n"
        "        print(error)\n"
        "waits = threading.Thread(target=ask)\n"
        "waits.start()\n"
        "waits.join(0.2)\n"
        "client.is_open, client.id, client.descriptor, client.allow_bytes(1 << 30)\n"
        "waits.join()\n"
    )
    with served("mysql", mysql_in) as url:
        done = subprocess.run(
            [sys.executable, "-c", program, url],
            stdout=subprocess.PIPE,
            text=True,
            timeout=20,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        )
    assert done.stdout == "it did not answer within 1 s\n"
