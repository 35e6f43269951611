"""Servers that answer a control connection of MySQL with what is refused, or never end. The core has its own tests."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing

import pymysql
import pytest

from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.connection import FORM, connect
from bufferlab.engines.servers.existing.address import parse
from bufferlab.engines.servers.existing.tls import PASSWORD_REFUSED
from bufferlab.errors import EnvironmentLackingError
from support import hostile
from support.hostile import Behave
from support.mysql_wire import OK, TLS, greeting, packet, read

SECRET = "a-secret-of-ours"


def log_in(line: socket.socket) -> None:
    line.sendall(greeting())
    read(line)
    line.sendall(packet(2, OK))


def served(behave: Behave, heard: list[bytes] | None = None) -> AbstractContextManager[str]:
    """The URL of a server that does that with each connection; `heard` gets what it is sent afterwards."""
    return hostile.served("mysql", behave, heard)


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUFFERLAB_PASSWORD", SECRET)


def said(url: str, seconds: float = 2.0) -> str:
    with pytest.raises(EnvironmentLackingError) as caught:
        connect(parse(url, FORM), seconds=seconds)
    assert caught.value.hint
    return caught.value.what


def switch(plugin: bytes) -> Callable[[socket.socket], None]:
    def behave(line: socket.socket) -> None:
        line.sendall(greeting())
        read(line)
        line.sendall(packet(2, b"\xfe" + plugin + b"\0" + b"x" * 20 + b"\0"))

    return behave


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        (b"mysql_clear_password", "the server asks for the password in clear text, which is refused"),
        (b"dialog", "the server asks for the password in clear text, which is refused"),
        (b"sha256_password", "the account logs in by 'sha256_password', which is not known here"),
        (b"mysql_old_password", "which is not known here"),
    ],
)
def test_a_server_that_wants_another_login_never_sees_the_password(plugin: bytes, words: str) -> None:
    heard: list[bytes] = []
    with served(switch(plugin), heard) as url:
        assert words in said(url)
    assert SECRET.encode() not in b"".join(heard)


def test_a_server_that_names_such_a_login_at_once_never_sees_the_password() -> None:
    heard: list[bytes] = []
    for plugin in (b"mysql_clear_password", b"sha256_password", b"nobody-knows"):
        with served(lambda line, plugin=plugin: line.sendall(greeting(plugin=plugin)), heard) as url:  # type: ignore[misc]
            said(url, seconds=0.5)
    assert SECRET.encode() not in b"".join(heard)


def test_a_server_that_asks_for_a_file_of_this_host_gets_none() -> None:
    heard: list[bytes] = []

    def behave(line: socket.socket) -> None:
        log_in(line)
        while sent := read(line):
            line.sendall(packet(1, b"\xfb/etc/passwd" if b"SELECT" in sent else OK))

    with (
        served(behave, heard) as url,
        closing(connect(parse(url, FORM), seconds=2.0)) as connection,
        pytest.raises(pymysql.OperationalError, match="asks for a file of this host"),
    ):
        control.rows(connection, "SELECT 1")
    assert b"root:" not in b"".join(heard)


def test_a_server_that_says_half_a_greeting_is_given_up_in_time() -> None:
    began = time.monotonic()
    with served(lambda line: line.sendall(greeting()[:9])) as url:
        assert "did not finish the login" in said(url, seconds=0.5)
    assert time.monotonic() - began < 5


def test_a_server_that_sends_byte_by_byte_is_given_up_in_time() -> None:
    began = time.monotonic()
    with served(lambda line: hostile.drip(line, greeting())) as url:
        assert "did not finish the login" in said(url, seconds=0.5)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("mode", ["prefer", "require"])
@pytest.mark.parametrize("half", [b"", hostile.HALF_OF_A_HANDSHAKE], ids=["silent", "dripping"])
def test_a_server_that_stops_in_the_middle_of_a_tls_handshake_is_given_up_in_time(mode: str, half: bytes) -> None:
    heard: list[bytes] = []

    def behave(line: socket.socket) -> None:
        line.sendall(greeting(more=TLS))
        read(line)
        hostile.drip(line, half)

    began = time.monotonic()
    with served(behave, heard) as url:
        assert "did not finish the login within" in said(url.replace("prefer", mode), seconds=0.5)
    assert time.monotonic() - began < 5
    # Neither was the login tried again without TLS.
    assert b"me\0" not in b"".join(heard)


def test_a_server_that_announces_more_than_any_answer_needs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bufferlab.engines.innodb.client.Client.most_answer_bytes", 1 << 20)

    def behave(line: socket.socket) -> None:
        log_in(line)
        while sent := read(line):
            # Packets of 16 MiB, of which one is continued by the next without an end.
            line.sendall(b"\xff\xff\xff\x01" + bytes(4096) if b"SELECT" in sent else packet(1, OK))

    with (
        served(behave) as url,
        closing(connect(parse(url, FORM), seconds=2.0)) as connection,
        pytest.raises(pymysql.OperationalError, match="is longer than"),
    ):
        control.rows(connection, "SELECT 1")


def test_a_server_that_closes_or_talks_nonsense_is_a_sentence() -> None:
    for behave in (lambda line: line.close(), lambda line: line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")):
        with served(behave) as url:
            assert said(url, seconds=0.5)


def test_a_full_login_without_proof_sends_nothing_to_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere:
        is_loopback = False

    def behave(line: socket.socket) -> None:
        line.sendall(greeting(plugin=b"caching_sha2_password"))
        read(line)
        line.sendall(packet(2, b"\x01\x04"))

    monkeypatch.setattr("bufferlab.engines.innodb.client.ipaddress.ip_address", lambda text: Elsewhere())
    heard: list[bytes] = []
    with served(behave, heard) as url:
        assert PASSWORD_REFUSED in said(url)
    # Neither the password nor a request for the server's key.
    assert heard == []


def test_a_server_without_tls_is_refused_before_the_account_is_named() -> None:
    heard: list[bytes] = []
    with served(lambda line: line.sendall(greeting()), heard) as url:
        assert "the server does not offer TLS, and sslmode=require" in said(url.replace("prefer", "require"))
    assert heard == []
