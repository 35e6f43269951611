"""Finds passwords where PostgreSQL's clients do: service file, PGPASSWORD, .pgpass (libpq, conninfo_add_defaults).

The service is the one that PGSERVICE names. Of its entry only the password is taken here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from bufferlab.engines.servers.existing.address import Address


def password_in(path: Path, address: Address) -> tuple[str, Path] | None:
    """Return the first password in a password file that fits the address, and the file."""
    found = password_of_line(path.read_text("utf-8"), address)
    return None if found is None else (found, path)


def password_of_line(text: str, address: Address) -> str | None:
    r"""Return the first password that fits, from lines host:port:database:user:password (libpq, "The Password File").

    A field is `*` or the value itself; a `:` or a backslash in it has a backslash before it. Of a socket the host is
    its folder, or localhost.

    >>> address = Address("", "me", "db", 5432, "lab", None, None)
    >>> password_of_line("# mine\ndb:5432:other:me:no\n*:*:lab:me:a\\:b", address)
    'a:b'
    """
    hosts = ("localhost", address.socket.rstrip("/")) if address.socket else (address.host,)
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        fields = [re.sub(r"\\(.)", r"\1", part) for part in re.findall(r"(?:\A|:)((?:[^:\\]|\\.)*)", line)]
        if len(fields) != 5:
            continue
        fits = (fields[0] in ("*", *hosts), fields[1] in ("*", str(address.port)),
                fields[2] in ("*", address.schema), fields[3] in ("*", address.user))  # fmt: skip
        if all(fits):
            return fields[4]
    return None


def password_of_service(text: str, service: str) -> str | None:
    r"""Return the password in the entry of a service; None when it has none (fe-connect.c, parseServiceFile).

    >>> password_of_service("[other]\npassword=no\n[mine]\n# a comment\nhost=db\npassword=a b\n", "mine")
    'a b'
    """
    inside = False
    for line in (raw.strip() for raw in text.splitlines()):
        if line.startswith("["):
            if inside:
                return None
            inside = line.startswith(f"[{service}]")
        elif inside and line.startswith("password="):
            return line.removeprefix("password=")
    return None


def usual_password(address: Address) -> tuple[str, Path | str] | None:
    """Return the password of the service's entry, of PGPASSWORD or of the password file, and where it was."""
    if service := os.environ.get("PGSERVICE"):
        own = Path(os.environ.get("PGSERVICEFILE") or Path.home() / ".pg_service.conf")
        folder = os.environ.get("PGSYSCONFDIR")
        for path in (own, *([Path(folder) / "pg_service.conf"] if folder else [])):
            if path.is_file() and (found := password_of_service(path.read_text("utf-8"), service)) is not None:
                return found, path
    if found := os.environ.get("PGPASSWORD"):
        return found, "the environment variable PGPASSWORD"
    path = Path(os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    return password_in(path, address) if path.is_file() else None
