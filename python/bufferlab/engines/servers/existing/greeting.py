"""Tells which family of servers answers at an address, by the first bytes that it says, without a login."""

from __future__ import annotations

import socket
from contextlib import suppress

from bufferlab.engines.servers.existing.address import Address, Form
from bufferlab.errors import EnvironmentLackingError

_SECONDS = 1.0
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


def of_another_family(address: Address, form: Form) -> EnvironmentLackingError | None:
    """Return the error that a server of another family answers at the address; None where none does."""
    found = scheme(address)
    if not found or found in form.schemes:
        return None
    what = f"the URL says {form.schemes[0]}, and a server of {found} answers there"
    return EnvironmentLackingError(what, address.server, f"write {found}:// and its port")


def scheme(address: Address) -> str:
    """Return the scheme of the server that answers at a TCP address; "" when it does not say.

    MySQL speaks first, with a packet whose fifth byte is the protocol's version, 10, or 255 for an error. PostgreSQL
    answers SSLRequest with one letter.
    """
    if address.socket:
        return ""
    with suppress(OSError), socket.create_connection((address.host, address.port), _SECONDS) as line:
        line.settimeout(_SECONDS)
        try:
            first = line.recv(5)
            return "mysql" if len(first) == 5 and first[4] in (10, 255) else ""
        except TimeoutError:
            line.sendall(_SSL_REQUEST)
            return "postgres" if line.recv(1) in (b"S", b"N") else ""
    return ""
