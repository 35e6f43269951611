"""Connects to a PostgreSQL server that bufferlab did not start. psycopg, over its socket or TCP, without TLS."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from bufferlab.engines.postgres import control
from bufferlab.engines.servers.existing.address import (
    PASSWORD,
    STATEMENT_SECONDS,
    AccessDenied,
    Address,
    Form,
    password,
)
from bufferlab.errors import EnvironmentLackingError

_DENIED = f"set {PASSWORD}, or name a password file (.pgpass) with ?password_file=/path"
_HINTS = {
    "no pg_hba.conf entry": "bufferlab connects without TLS: let pg_hba.conf have a line `host` for this address",
    "does not exist": "make the role with a password, and a database that it owns",
    "too many connections": "wait, or raise the server's max_connections",
}


def password_in(text: str, address: Address) -> str | None:
    r"""Return the first password that fits, from lines host:port:database:user:password (libpq, "The Password File").

    A field is `*` or the value itself; a `:` or a backslash in it has a backslash before it. Of a socket the host is
    its folder, or localhost.

    >>> address = Address("", "me", "db", 5432, "lab", None, None)
    >>> password_in("# mine\ndb:5432:other:me:no\n*:*:lab:me:a\\:b", address)
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


FORM = Form(
    schemes=("postgres", "postgresql"),
    port=control.PORT,
    schema="database",
    longest_schema=63,
    own_schemas=(control.SYSTEM_DATABASE, "template0", "template1"),
    socket="/folder",
    password_in=password_in,
    password_example="host:port:database:user:password",
)


def connect(
    address: Address,
    database: str | None = None,
    *,
    seconds: float | None = STATEMENT_SECONDS,
    search_path: str = "public",
) -> control.Connection:
    """Open a connection in autocommit, to the address's database or another.

    A statement may take `seconds`, None: any time; `search_path` as `control.connect` has it. Raises
    EnvironmentLackingError when the server refuses it or does not answer.
    """
    try:
        return control.connect(
            address.socket or address.host,
            address.user,
            password(address, FORM),
            database or address.schema,
            port=address.port,
            statement_seconds=seconds or 0,
            search_path="pg_catalog" if database == control.SYSTEM_DATABASE else search_path,
        )
    except (psycopg.Error, AccessDenied, OSError) as error:
        # libpq tells the error first, and then its own reading of it.
        said = (str(error).strip().splitlines() or ["it said nothing"])[0].removeprefix("connection failed: ")
        known = next((hint for words, hint in _HINTS.items() if words in str(error)), None)
        denied = _DENIED if isinstance(error, AccessDenied) or "password" in str(error) else None
        raise EnvironmentLackingError(
            f"the server cannot be used: {said}",
            address.place,
            known or denied or "is it running, and is this its address, or the folder of its socket?",
        ) from error


def greet(address: Address, seconds: float) -> None:
    """Ask the server for its first word; raises OSError when it says none within `seconds`."""
    folder = address.socket
    place = Path(folder) / f".s.PGSQL.{address.port}" if folder else (address.host, address.port)
    control.greet(place, seconds)
