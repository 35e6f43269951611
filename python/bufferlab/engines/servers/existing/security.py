"""Parses how connections to a running server are protected: the TLS words of a URL, and MySQL's words for logins.

The modes mean what they mean to libpq ("SSL Mode Descriptions"), on MySQL and MariaDB too. On a Unix socket there is no
TLS, whatever the mode. libpq's default files (`~/.postgresql/root.crt` and others) are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_FILES = {"sslrootcert": "root_cert", "sslcert": "cert", "sslkey": "key", "server_public_key": "server_public_key"}
_SWITCHES = ("get_server_public_key", "allow_unverified_password")
TLS_WORDS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
"""The words of every family's URLs."""
LOGIN_WORDS = ("server_public_key", *_SWITCHES)
"""The words of URLs of MySQL and MariaDB: what a full login by caching_sha2_password may trust."""


@dataclass(frozen=True)
class Security:
    """How connections to one server are protected. The core has the same fields (`security` of a job's target)."""

    mode: str = "prefer"
    """One of MODES."""
    root_cert: str | None = None
    """The path of the certificates (PEM) of which one must have signed the server's; checked unless TLS is disabled."""
    cert: str | None = None
    """The path of the client's own certificate (PEM)."""
    key: str | None = None
    """The path of the key of `cert`."""
    server_public_key: str | None = None
    """The path of a MySQL server's RSA key, which encrypts the password where there is no TLS."""
    get_server_public_key: bool = False
    """Whether the RSA key that the server sends is trusted."""
    allow_unverified_password: bool = False
    """Whether the password may be sent over TLS that proves nothing of the server."""

    @property
    def requires_tls(self) -> bool:
        """Whether a connection without TLS is refused."""
        return self.mode not in ("disable", "prefer")

    @property
    def verifies(self) -> bool:
        """Whether the server's certificate must be signed by one of `root_cert`."""
        return self.mode != "disable" and self.root_cert is not None

    def job(self) -> dict[str, Any]:
        """Return the entry `security` of the core's target."""
        return asdict(self)


def parse(options: Mapping[str, str]) -> Security:
    """Return the protection that a URL's options ask for; raise ValueError with a sentence when they cannot be met."""
    mode = options.get("sslmode", Security.mode)
    if mode not in MODES:
        raise ValueError(f"sslmode={mode} is none of {', '.join(MODES)}")
    files: dict[str, Any] = {field: options[word] for word, field in _FILES.items() if word in options}
    for word, field in _FILES.items():
        # Workers run in other folders.
        if field in files and not files[field].startswith("/"):
            raise ValueError(f"{word}={files[field]} is not an absolute path")
    if mode.startswith("verify") and "root_cert" not in files:
        raise ValueError(f"sslmode={mode} needs sslrootcert=/path, the certificate that signed the server's")
    if ("cert" in files) != ("key" in files):
        raise ValueError("sslcert and sslkey go together")
    for word in _SWITCHES:
        if options.get(word, "false") not in ("true", "false"):
            raise ValueError(f"{word}={options[word]} is neither true nor false")
    switches: dict[str, Any] = {word: options.get(word) == "true" for word in _SWITCHES}
    return Security(mode, **files, **switches)
