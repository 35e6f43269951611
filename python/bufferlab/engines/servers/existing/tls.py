"""Makes the TLS of control connections, and says in a sentence why a handshake was refused.

PyMySQL is given the context. libpq has its own TLS; before it connects, `prove` makes a handshake with this context on
a line of its own, so that both families refuse the same servers with the same words. Where a certificate was refused,
a second handshake that trusts anybody fetches it: OpenSSL does not hand out what it refused.
"""

from __future__ import annotations

import os
import socket as sockets
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from bufferlab.engines.servers.existing.security import Security
from bufferlab.errors import EnvironmentLackingError

if TYPE_CHECKING:
    from cryptography import x509

AskForTls = Callable[[sockets.socket], bool]
"""Asks a server on a fresh line to begin TLS, in its protocol; returns whether it will."""
PASSWORD_REFUSED = "the server asks for the password itself, and nothing proves who it is"
CLEAR_TEXT_REFUSED = "the server asks for the password in clear text, which is refused"
NO_TLS_HINT = "give the server a certificate, or name its socket by ?socket=/path"
TOO_OLD = "the server offers TLS 1.1 at most, or only DHE ciphers, which are refused"
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of TLS 1.2 that the core's rustls has; those of TLS 1.3 are always allowed."""
_EXPIRED, _NOT_YET, _WRONG_NAME, _WRONG_ADDRESS = 10, 9, 62, 64
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED, _CERT_NOT_YET_VALID, _HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH."""
_TOO_OLD = frozenset(
    ("UNSUPPORTED_PROTOCOL", "TLSV1_ALERT_PROTOCOL_VERSION", "SSLV3_ALERT_HANDSHAKE_FAILURE", "NO_SHARED_CIPHER",
     "WRONG_VERSION_NUMBER", "WRONG_SSL_VERSION", "DH_KEY_TOO_SMALL", "NO_PROTOCOLS_AVAILABLE")
)  # fmt: skip
_HINTS = {
    _EXPIRED: "renew it; this host's clock must be right as well",
    _NOT_YET: "this host's clock must be right",
    _WRONG_NAME: "connect by a name that it has, or trust every name with sslmode=verify-ca",
}
_SIGNER = "?sslrootcert=/path names the certificate of the authority that signed it"


class TlsRefusedError(EnvironmentLackingError):
    """The error that TLS is asked for and cannot be had as it is asked for."""


def no_tls(security: Security) -> TlsRefusedError:
    """Return the error of a server without TLS where the mode requires it."""
    what = f"the server does not offer TLS, and sslmode={security.mode} requires it"
    return TlsRefusedError(what, None, NO_TLS_HINT)


def context(security: Security) -> ssl.SSLContext:
    """Return a context for connections with this protection.

    Raises TlsRefusedError when a file that it names cannot be used.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers(_CIPHERS)
    # Servers make certificates that lack what RFC 5280 asks for, as MySQL's own does.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    made.hostname_checks_common_name = False
    made.check_hostname = security.mode == "verify-full"
    made.verify_mode = ssl.CERT_REQUIRED if security.verifies else ssl.CERT_NONE
    if security.root_cert is not None:
        with _named("sslrootcert", security.root_cert):
            made.load_verify_locations(security.root_cert)
    if security.cert is not None:
        _require_private(str(security.key))
        with _named("sslcert, or its sslkey,", security.cert):
            made.load_cert_chain(security.cert, security.key, password=_no_passphrase)
    return made


def _require_private(key: str) -> None:
    """Raise TlsRefusedError when others may read a key, as libpq does (fe-secure-openssl.c, `initialize_SSL`)."""
    with _named("sslkey", key):
        about = os.stat(key)
    # A group may read a key of root's, as Debian's group ssl-cert does.
    others = 0o037 if about.st_uid == 0 else 0o077
    if about.st_mode & others:
        what = "the file of sslkey cannot be used: others may read it"
        raise TlsRefusedError(what, key, f"take their rights away: chmod 600 {key}")


@lru_cache
def prove(host: str, port: int, security: Security, ask: AskForTls, seconds: float) -> None:
    """Raise TlsRefusedError unless a server's TLS is as `security` wants it. A server that passed is not asked again.

    Raises OSError while it does not answer.
    """
    try:
        _shake(host, port, context(security), security, ask, seconds)
    except ssl.SSLError as error:
        raise refused(error, host, port, security, ask, seconds) from error


def refused(
    error: ssl.SSLError, host: str, port: int, security: Security, ask: AskForTls, seconds: float
) -> TlsRefusedError:
    """Return the error for a failed handshake, with the sentence for its cause."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        if error.reason in _TOO_OLD:
            return TlsRefusedError(TOO_OLD, None, "use a server with TLS 1.2, or its socket, or sslmode=disable")
        return TlsRefusedError(f"the TLS handshake failed: {error.reason or error}", None, "the server's log says more")
    code = _WRONG_NAME if error.verify_code == _WRONG_ADDRESS else error.verify_code
    if code not in _HINTS:
        what = f"the server's certificate is not signed by a certificate of {security.root_cert}"
        return TlsRefusedError(what, None, _SIGNER)
    from cryptography import x509  # Few commands need it, and it takes a tenth of a second.

    trusting = Security("require", cert=security.cert, key=security.key)
    told = x509.load_der_x509_certificate(_shake(host, port, context(trusting), trusting, ask, seconds))
    what = _wrong_name(told, host) if code == _WRONG_NAME else _wrong_time(told, code)
    return TlsRefusedError(what, None, _HINTS[code])


def _wrong_time(told: x509.Certificate, code: int) -> str:
    now = datetime.now(UTC)
    if code == _EXPIRED and told.not_valid_after_utc < now:
        return f"the server's certificate expired on {told.not_valid_after_utc:%Y-%m-%d}"
    if code == _NOT_YET and told.not_valid_before_utc > now:
        return f"the server's certificate is not valid before {told.not_valid_before_utc:%Y-%m-%d}"
    return f"a certificate that signed the server's {'has expired' if code == _EXPIRED else 'is not valid yet'}"


def _wrong_name(told: x509.Certificate, host: str) -> str:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        alternative = told.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [*alternative.get_values_for_type(x509.DNSName),
                 *map(str, alternative.get_values_for_type(x509.IPAddress))]  # fmt: skip
    except x509.ExtensionNotFound:
        names = []
    common = [str(name.value).lower() for name in told.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not names and host.lower() in common:
        return f"the server's certificate names {host} in its CN alone, which is no name"
    return f"the server's certificate is for {', '.join(names) or 'no name'}, not for {host}"


def _shake(host: str, port: int, made: ssl.SSLContext, security: Security, ask: AskForTls, seconds: float) -> bytes:
    """Make a TLS handshake on a line of its own; return the server's certificate as DER."""
    with sockets.create_connection((host, port), seconds) as line:
        if not ask(line):
            raise no_tls(security)
        try:
            # The socket's timeout bounds the handshake as a whole (_ssl.c, `_ssl__SSLSocket_do_handshake_impl`).
            with made.wrap_socket(line, server_hostname=host) as wrapped:
                return wrapped.getpeercert(binary_form=True) or b""
        except TimeoutError as error:
            raise TimeoutError(f"it did not finish the TLS handshake within {seconds:.0f} s") from error


@contextmanager
def _named(word: str, path: str) -> Iterator[None]:
    """Context manager that names the word and the file when the file cannot be used."""
    try:
        yield
    except OSError as error:
        said = "it holds no usable PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise TlsRefusedError(f"the file of {word} cannot be used: {said}", path) from error


def _no_passphrase() -> str:
    """Answer for a key that is encrypted: without this, OpenSSL asks on the terminal, in workers too."""
    return ""
