"""PyMySQL's connection, without what it would do unasked for a server that is not what it seems.

PyMySQL (1.2) sends the password itself over TLS that proves nothing, asks the server for the key to encrypt it with,
and answers requests for it in clear text (_auth.py, connections.py `_process_auth`). It reads packets of any length,
and waits for a login as long as for a statement. Here the password leaves this process only as `Security` allows.
"""

from __future__ import annotations

import ipaddress
import socket as sockets
import ssl
import struct
import time
from typing import Any

import pymysql
from pymysql._auth import scramble_caching_sha2, sha2_rsa_encrypt
from pymysql.connections import Connection
from pymysql.constants import CLIENT, CR

from bufferlab.engines.servers.existing.address import TOO_SLOW
from bufferlab.engines.servers.existing.security import Security
from bufferlab.engines.servers.existing.tls import CLEAR_TEXT_REFUSED, PASSWORD_REFUSED, no_tls

LOCAL_FILE_REFUSED = "the server asks for a file of this host (LOCAL INFILE), which is refused"
MOST_ANSWER_BYTES = 64 << 20
"""The most bytes of one statement's answer: far beyond any that we ask for, but for the pages of a pool."""
_READ_BYTES = 64
"""What each read counts besides its bytes: the rows of short packets take more memory than their bytes."""
_NATIVE, _SHA2 = "mysql_native_password", "caching_sha2_password"
_IN_CLEAR = ("mysql_clear_password", "dialog")
_FAST_IS_ENOUGH, _FULL_LOGIN, _REQUEST_KEY = 3, 4, b"\x02"
"""sha2_password.cc: fast_auth_success, perform_full_authentication, request_public_key."""
_TIMEOUT_STEP_SECONDS = 0.2
"""How exact a deadline is: to set a timeout for each packet would cost more than to read it."""
_GARBLED = (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error)
"""What PyMySQL raises at a packet that it cannot parse."""
_GARBLED_SAID = "its answer cannot be understood"


class Client(Connection):  # type: ignore[misc]
    """One connection. A refusal is a pymysql.OperationalError whose last argument is the sentence."""

    _auth_plugin_name: str
    _current_timeout: float | None
    most_answer_bytes = MOST_ANSWER_BYTES
    until_s: float | None = None
    """The time of the monotonic clock after which no statement is sent; None: there is none."""

    def __init__(
        self,
        security: Security,
        tls: ssl.SSLContext | None,
        login_seconds: float | None,
        key: bytes | None,
        **more: Any,
    ) -> None:
        """Connect. `tls`: None for no TLS. `login_seconds` bounds the whole login; `key` is the server's, as PEM."""
        self._security, self._login_seconds = security, login_seconds
        self._is_logged_in = False
        self._deadline: float | None = None
        self._late = ""
        """What is said of a server that has not answered at the deadline."""
        self._left_bytes = self.most_answer_bytes
        super().__init__(
            **more, ssl=tls, ssl_disabled=tls is None, server_public_key=key, local_infile=False,
            auth_plugin_map=_Logins(), write_timeout=login_seconds, defer_connect=True,
        )  # fmt: skip
        self._ssl_required = security.requires_tls
        # PyMySQL sets it for each server that has TLS; others would wait for a handshake.
        self.client_flag &= ~CLIENT.SSL
        self.connect()

    def connect(self, sock: Any = None) -> None:
        self._must_end(self._login_seconds, "it did not finish the login within")
        try:
            super().connect(sock)
        except _GARBLED as error:
            raise pymysql.OperationalError(CR.CR_MALFORMED_PACKET, _GARBLED_SAID) from error
        finally:
            self._deadline = None
        self._is_logged_in = True

    def full_login(self, salt: bytes) -> bytes:
        """Return the answer to a request for the password itself; raise OperationalError where it may not be sent."""
        if self.unix_socket:
            return bytes(self.password) + b"\0"
        is_near = ipaddress.ip_address(self._sock.getpeername()[0]).is_loopback
        if isinstance(self._sock, ssl.SSLSocket):
            if self._security.verifies or is_near or self._security.allow_unverified_password:
                return bytes(self.password) + b"\0"
        elif self.server_public_key or is_near or self._security.get_server_public_key:
            key = self.server_public_key or self.exchange(_REQUEST_KEY).get_all_data()[1:]
            return bytes(sha2_rsa_encrypt(self.password, salt, key))
        raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_ERR, PASSWORD_REFUSED)

    def exchange(self, answer: bytes) -> Any:
        """Send a packet of the login; return the next one."""
        self.write_packet(answer)
        return self._read_packet()

    def _get_server_information(self) -> None:
        super()._get_server_information()
        if self._security.requires_tls and self.ssl and not self.server_capabilities & CLIENT.SSL:
            raise pymysql.OperationalError(CR.CR_SSL_CONNECTION_ERROR, no_tls(self._security).what)
        # To a default that is sha256_password PyMySQL sends the password at once. A server asks for another login.
        if self._auth_plugin_name not in ("", _NATIVE, _SHA2):
            self._auth_plugin_name = _NATIVE

    def _request_authentication(self) -> None:
        try:
            super()._request_authentication()
        except TimeoutError as error:  # The TLS handshake's alone: elsewhere PyMySQL or `_read_bytes` has turned it.
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, self._late) from error

    def _must_end(self, seconds: float | None, words: str) -> None:
        """Bound what is read from now on; None: by nothing."""
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._late = f"{words} {seconds:.0f} s" if seconds is not None else ""

    def _execute_command(self, command: int, sql: Any) -> None:
        self._left_bytes = self.most_answer_bytes
        if self.until_s is not None and time.monotonic() > self.until_s:
            self._force_close()
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, TOO_SLOW)
        if self._is_logged_in:
            self._must_end(self._read_timeout, "it did not answer within")
        super()._execute_command(command, sql)

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        try:
            return super()._read_query_result(unbuffered)
        except RuntimeError as error:
            self._force_close()
            raise pymysql.OperationalError(CR.CR_LOAD_DATA_LOCAL_INFILE_REJECTED, LOCAL_FILE_REFUSED) from error
        except _GARBLED as error:
            self._force_close()
            raise pymysql.OperationalError(CR.CR_MALFORMED_PACKET, _GARBLED_SAID) from error

    def _read_bytes(self, num_bytes: int) -> bytes:
        self._left_bytes -= num_bytes + _READ_BYTES
        if self._left_bytes < 0:
            self._force_close()
            said = f"its answer is longer than {self.most_answer_bytes} bytes"
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, said)
        if self._deadline is None:
            return bytes(super()._read_bytes(num_bytes))
        return self._read_until_deadline(num_bytes, self._deadline)

    def _read_until_deadline(self, num_bytes: int, deadline: float) -> bytes:
        """Read like `_read_bytes`. A timeout of the socket alone would begin anew with every byte that arrives."""
        data = b""
        while len(data) < num_bytes:
            left_s = max(deadline - time.monotonic(), 0.001)
            if abs(left_s - (self._current_timeout or 0.0)) > _TIMEOUT_STEP_SECONDS or left_s == 0.001:
                self._sock.settimeout(left_s)
                self._current_timeout = left_s
            try:
                piece = self._rfile.read1(num_bytes - len(data))
            except TimeoutError:
                piece = None
            except OSError as error:
                self._force_close()
                raise pymysql.OperationalError(CR.CR_SERVER_LOST, f"it ended the connection ({error})") from error
            if not piece or time.monotonic() > deadline + _TIMEOUT_STEP_SECONDS:
                self._force_close()
                closed = f"it closed the connection{'' if self._is_logged_in else ' during the login'}"
                raise pymysql.OperationalError(CR.CR_SERVER_LOST, closed if piece == b"" else self._late)
            data += piece
        return data


class _Sha2:
    """The login by caching_sha2_password (sha2_password.cc, caching_sha2_password_authenticate)."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def authenticate(self, packet: Any) -> Any:
        """Answer a request to switch to this login, or the server's verdict on the proof; return the last packet."""
        client = self.client
        if packet.is_auth_switch_request():
            client.salt = packet.read_all().removesuffix(b"\0")
            packet = client.exchange(scramble_caching_sha2(client.password, client.salt))
        if not packet.is_extra_auth_data():
            return packet
        told = packet.get_all_data()[1]
        if told == _FAST_IS_ENOUGH:
            return client._read_packet()
        if told != _FULL_LOGIN:
            raise ValueError(told)
        return client.exchange(client.full_login(client.salt))


class _Refusal:
    """A login that is refused."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, client: Client) -> _Refusal:
        return self

    def authenticate(self, packet: Any) -> Any:
        """Raise OperationalError."""
        if self.name in _IN_CLEAR:
            raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_ERR, CLEAR_TEXT_REFUSED)
        said = f"the account logs in by {self.name!r}, which is not known here"
        raise pymysql.OperationalError(CR.CR_AUTH_PLUGIN_CANNOT_LOAD, said)


class _Logins(dict[str, Any]):
    """PyMySQL's table of logins: our own, PyMySQL's for mysql_native_password, refusals for all others."""

    def get(self, name: bytes | str, default: Any = None) -> Any:
        known = name.decode("latin1") if isinstance(name, bytes) else name
        if known == _SHA2:
            return _Sha2
        return None if known in ("", _NATIVE) else _Refusal(known)

    def __bool__(self) -> bool:
        return True  # PyMySQL takes another table in place of one that is empty.


def ask_for_tls(line: sockets.socket) -> bool:
    """Read a server's greeting and ask for TLS (Protocol::SSLRequest); return whether it has it.

    Raises OSError when it says something else.
    """
    with line.makefile("rb") as answer:
        header = answer.read(4)
        greeting = answer.read(int.from_bytes(header[:3], "little")) if len(header) == 4 else b""
    version_end = greeting.find(b"\0")
    # After the version: 4 bytes of id, 8 of salt, a zero, and the lower half of the capabilities.
    lower = greeting[version_end + 14 : version_end + 16]
    if version_end < 0 or len(lower) < 2:
        raise ConnectionError("the server's greeting cannot be understood")
    if not int.from_bytes(lower, "little") & CLIENT.SSL:
        return False
    wanted = CLIENT.SSL | CLIENT.PROTOCOL_41 | CLIENT.SECURE_CONNECTION
    line.sendall(b"\x20\0\0\x01" + struct.pack("<IIB23x", wanted, 1 << 24, 45))
    return True
