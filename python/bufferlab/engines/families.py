"""The families of servers, one line per family, and through them every server that can be fetched or listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bufferlab.engines.innodb import programs as innodb
from bufferlab.engines.postgres import programs as postgres
from bufferlab.engines.servers import fetch as fetching
from bufferlab.engines.servers.builds import Ask, Build, Listed
from bufferlab.engines.servers.fetch import Package


@dataclass(frozen=True)
class Servers:
    """The servers that are found, asked and fetched in the same way."""

    packages: dict[str, Package]
    """The packages that can be fetched, by name."""
    ask_version: Ask
    listed: Callable[[tuple[str, ...]], list[Listed]]


FAMILIES = (
    Servers(innodb.PACKAGES, innodb.ask_version, innodb.listed),
    Servers(postgres.PACKAGES, postgres.ask_version, postgres.listed),
)


def names() -> tuple[str, ...]:
    """Return the name of every server that can be fetched."""
    return tuple(name for family in FAMILIES for name in family.packages)


def fetch(name: str, say: Callable[[str], None]) -> Build:
    """Return the server of that name, after fetching it if need be. Raise KeyError for an unknown name."""
    family = next((family for family in FAMILIES if name in family.packages), None)
    if family is None:
        raise KeyError(name)
    return fetching.fetch(family.packages[name], family.ask_version, say)


def listed() -> list[Listed]:
    """Return a line for every server that is installed or can be fetched: the build, or why it cannot be used."""
    return [line for family in FAMILIES for line in family.listed(tuple(family.packages))]
