"""Servers that answer a control connection of PostgreSQL with what is refused, or never end.

The core has its own tests.
"""

from __future__ import annotations

import base64
import re
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing

import psycopg
import pytest

from bufferlab.engines.postgres import client, connection, control
from bufferlab.engines.postgres.connection import FORM, connect
from bufferlab.engines.servers.existing import tls
from bufferlab.engines.servers.existing.address import parse
from bufferlab.errors import EnvironmentLackingError
from support import hostile
from support.hostile import Behave
from support.postgres_wire import READY, begin, login, message, read

SECRET = "a-secret-of-ours"
ONE_COLUMN = b"\0\x01x\0" + bytes(6) + b"\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"


def served(behave: Behave, heard: list[bytes] | None = None) -> AbstractContextManager[str]:
    """The URL of a server that does that with each connection; `heard` gets what it is sent afterwards."""
    return hostile.served("postgres", behave, heard)


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUFFERLAB_PASSWORD", SECRET)
    monkeypatch.setattr(connection, "_CONNECT_SECONDS", 1)
    # psycopg makes two seconds of one; here half a second is long enough.
    monkeypatch.setattr(psycopg.connection, "timeout_from_conninfo", lambda words: int(words["connect_timeout"]) / 2)


def said(url: str) -> str:
    with pytest.raises(EnvironmentLackingError) as caught:
        connect(parse(url, FORM))
    assert caught.value.hint
    assert SECRET not in caught.value.render()
    return caught.value.what


def in_time(url: str, words: str) -> None:
    began = time.monotonic()
    assert re.search(words, said(url))
    assert time.monotonic() - began < 6


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (login(3), "the server asks for the password in clear text, which is refused"),
        (login(7), "GSSAPI"),
        (login(9), "SSPI"),
        (login(10, b"PLAIN\0\0"), "none of the server's SASL authentication mechanisms are supported"),
        (login(77), "authentication method 77 not supported|unknown"),
    ],
    ids=["clear text", "GSSAPI", "SSPI", "SASL PLAIN", "unknown"],
)
def test_a_server_that_wants_another_login_never_sees_the_password(request_: bytes, words: str) -> None:
    heard: list[bytes] = []

    def behave(line: socket.socket) -> None:
        begin(line)
        line.sendall(request_)

    with served(behave, heard) as url:
        assert re.search(words, said(url))
    assert SECRET.encode() not in b"".join(heard)


def test_a_server_that_cannot_prove_that_it_knows_the_password_is_refused() -> None:
    """SCRAM proves both ends (RFC 5802): whoever only pretends has no signature."""
    proofs: list[bytes] = []

    def behave(line: socket.socket) -> None:
        begin(line)
        line.sendall(login(10, b"SCRAM-SHA-256\0\0"))
        nonce = read(line).rpartition(b"r=")[2]
        salt = base64.b64encode(bytes(16))
        line.sendall(login(11, b"r=" + nonce + b"ours,s=" + salt + b",i=4096"))
        proofs.append(read(line))
        line.sendall(login(12, b"v=" + base64.b64encode(bytes(32))) + login(0) + READY)

    with served(behave) as url:
        assert "incorrect server signature" in said(url)
    assert proofs
    assert SECRET.encode() not in proofs[0]


def test_a_server_without_tls_is_refused_before_the_account_is_named() -> None:
    heard: list[bytes] = []

    def behave(line: socket.socket) -> None:
        heard.append(read(line, 4))
        line.sendall(b"N")

    with served(behave, heard) as url:
        assert "the server does not offer TLS, and sslmode=require" in said(url.replace("prefer", "require"))
    assert b"me\0" not in b"".join(heard)


@pytest.mark.parametrize(
    ("mode", "words"),
    [("prefer", "timeout expired"), ("require", "did not finish the TLS handshake within 1 s")],
)
@pytest.mark.parametrize("half", [b"", hostile.HALF_OF_A_HANDSHAKE], ids=["silent", "dripping"])
def test_a_server_that_stops_in_the_middle_of_a_tls_handshake_is_given_up_in_time(
    mode: str, words: str, half: bytes
) -> None:
    heard: list[bytes] = []

    def behave(line: socket.socket) -> None:
        begin(line, has_tls=True)
        line.recv(1)  # What came with the answer to SSLRequest would be no part of the handshake.
        hostile.drip(line, half)

    with served(behave, heard) as url:
        in_time(url.replace("prefer", mode), words)
    assert b"me\0" not in b"".join(heard)


def test_a_certificate_is_not_fetched_for_longer_than_a_handshake_may_take() -> None:
    """The second handshake of a refusal, which names what is wrong with a certificate."""
    with served(lambda line: begin(line, has_tls=True)) as url:
        address, began = parse(url, FORM), time.monotonic()
        with pytest.raises(TimeoutError, match="did not finish the TLS handshake"):
            tls._shake(
                address.host, address.port, tls.context(address.security), address.security, connection.ask_for_tls, 0.5
            )
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("half", [b"", b"R\0\0\0\x08\0", b"E\0\0\x70\0"], ids=["silent", "half", "an endless error"])
def test_a_server_that_stops_in_the_middle_of_a_login_is_given_up_in_time(half: bytes) -> None:
    def behave(line: socket.socket) -> None:
        begin(line)
        line.sendall(half)

    with served(behave) as url:
        in_time(url, "timeout expired")


def test_a_server_that_closes_or_talks_nonsense_is_a_sentence() -> None:
    for behave in (lambda line: line.close(), lambda line: line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")):
        with served(behave) as url:
            assert said(url)


@pytest.fixture
def takes_our_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers each statement alike does not tell the session's mark."""
    monkeypatch.setattr(connection, "_require_ours", lambda *_, **__: None)


def answering(answer: Callable[[socket.socket], object]) -> Behave:
    """A server that lets everybody in, and does that with each statement."""

    def behave(line: socket.socket) -> None:
        begin(line)
        line.sendall(login(0) + READY)
        while read(line):
            answer(line)

    return behave


def refused_answer(answer: Callable[[socket.socket], object], words: str, seconds: float = 60.0) -> None:
    with (
        served(answering(answer)) as url,
        closing(connect(parse(url, FORM), seconds=seconds)) as connected,
    ):
        with pytest.raises(psycopg.OperationalError, match=words):
            control.rows(connected, "SELECT 1")
        assert connected.closed


@pytest.mark.usefixtures("takes_our_settings")
def test_rows_without_end_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.Client, "most_answer_bytes", 1 << 20)
    row = message(b"D", b"\0\x01\0\0\x04\0" + bytes(1024))

    def answer(line: socket.socket) -> None:
        line.sendall(message(b"T", ONE_COLUMN))
        while True:
            line.sendall(row * 64)

    refused_answer(answer, "its answer is longer than")


@pytest.mark.usefixtures("takes_our_settings")
def test_a_row_that_announces_a_gibibyte_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client.Client, "most_answer_bytes", 1 << 20)

    def answer(line: socket.socket) -> None:
        line.sendall(message(b"T", ONE_COLUMN) + b"D\x3f\xff\xff\xff\0\x01\x3f\xff\xff\xf0")
        while True:
            line.sendall(bytes(1 << 16))

    refused_answer(answer, "its answer is longer than")


@pytest.mark.usefixtures("takes_our_settings")
def test_a_statement_that_is_never_answered_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_LATE_SECONDS", 0.2)
    began = time.monotonic()
    refused_answer(lambda line: line.sendall(message(b"T", ONE_COLUMN)), "it did not answer within", seconds=0.3)
    assert time.monotonic() - began < 5


@pytest.mark.usefixtures("takes_our_settings")
def test_an_answer_in_time_and_of_usual_length_is_had() -> None:
    row = message(b"D", b"\0\x01\0\0\0\x03abc")
    answer = message(b"T", ONE_COLUMN) + 3 * row + message(b"C", b"SELECT 3\0") + READY
    with (
        served(answering(lambda line: line.sendall(answer))) as url,
        closing(connect(parse(url, FORM), seconds=2.0)) as connected,
    ):
        assert control.rows(connected, "SELECT 1") == [("abc",)] * 3
