"""The families of servers, as the registry lists them, and through them every server that can be fetched or listed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from bufferlab.engines import registry
from bufferlab.engines.servers import fetch as fetching
from bufferlab.engines.servers.builds import Build, Listed
from bufferlab.engines.servers.fetch import Servers

if TYPE_CHECKING:
    from bufferlab.engines.servers.family import Family


def all_families() -> list[Family]:
    """Return the family of every flavour."""
    return [registry.family(engine) for engine in registry.servers()]


def _servers() -> list[Servers]:
    folders = dict.fromkeys(map(registry.folder, registry.servers()))
    return [cast(Servers, import_module(f"{folder}.programs").SERVERS) for folder in folders]


def names() -> tuple[str, ...]:
    """Return the name of every server that can be fetched."""
    return tuple(name for servers in _servers() for name in servers.packages)


def fetch(name: str, say: Callable[[str], None]) -> Build:
    """Return the server of that name, after fetching it if need be. Raise KeyError for an unknown name."""
    found = next((servers for servers in _servers() if name in servers.packages), None)
    if found is None:
        raise KeyError(name)
    return fetching.fetch(found.packages[name], found.ask_version, say)


def listed() -> list[Listed]:
    """Return a line for every server that is installed or can be fetched: the build, or why it cannot be used."""
    return [line for servers in _servers() for line in servers.listed(tuple(servers.packages))]
