"""Whether a server that runs already is on this host: then its memory, its disk and its process are this host's too."""

from __future__ import annotations

import socket as sockets
from contextlib import suppress

from bufferlab.engines.servers.existing.address import Address


def may_be_here(address: Address) -> bool:
    """Return whether the address is a socket or one of this host's own; then a tunnel may still lead elsewhere.

    A name that cannot be resolved may be this host's.
    """
    if address.socket:
        return True
    try:
        found = sockets.getaddrinfo(address.host, address.port, type=sockets.SOCK_DGRAM)
    except OSError:
        return True
    return any(_is_ours(family, place) for family, _, _, _, place in found)


def _is_ours(family: int, place: tuple[object, ...]) -> bool:
    """Return whether an interface of this host has the address: nobody can bind another's."""
    with suppress(OSError), sockets.socket(family, sockets.SOCK_DGRAM) as probe:
        probe.bind((place[0], 0, *place[2:]))
        return True
    return False
