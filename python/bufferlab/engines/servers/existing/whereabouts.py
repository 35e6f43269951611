"""Finds out which server answers at an address, and whether it runs on this host.

If it does, bufferlab can see its memory, disk and process. The first bytes that a server sends, before any login,
identify its family.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from bufferlab.engines.servers.existing.address import Address, Form
from bufferlab.errors import EnvironmentLackingError

_SECONDS = 1.0
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


def of_another_family(address: Address, form: Form) -> EnvironmentLackingError | None:
    """Return an error if a server of another family answers at the address, else None."""
    found = scheme(address)
    if not found or found in form.schemes:
        return None
    what = f"the URL says {form.schemes[0]}, and a server of {found} answers there"
    return EnvironmentLackingError(what, address.server, f"write {found}:// and its port")


def scheme(address: Address) -> str:
    """Return the scheme of the server that answers at a TCP address; "" if it does not identify itself.

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


def may_be_here(address: Address) -> bool:
    """Return whether the address is a socket or an address of this host; even so, a tunnel may lead to another host.

    Return True also for a name that cannot be resolved.
    """
    if address.socket:
        return True
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM)
    except OSError:
        return True
    return any(_is_ours(family, place) for family, _, _, _, place in found)


def _is_ours(family: int, place: tuple[object, ...]) -> bool:
    """Return whether an interface of this host has the address: only then can a socket be bound to it."""
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((place[0], 0, *place[2:]))
        return True
    return False
