"""Finds the statements of a text about its set-up: pool size, page size, length of a run, server version.

A run's actual set-up may differ from the statements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

from bufferlab.audit.parsers.captions import Place
from bufferlab.units import GIB, KIB, MIB

_SIZE = r"\d{1,12}(?:\.\d+)?\s?(?:[KMG]i?B?|bytes)?"
_GAP = r"[\s|:=*`]+"
_POOL = re.compile(
    rf"(?:innodb[_-])?buffer[_\s-]?pool(?:[_\s-]size)?{_GAP}(?P<sizes>{_SIZE}(?:\s*,\s*{_SIZE})*)"
    rf"\s*(?P<shares>\(\s*\d[\d.,\s%]*(?:of [^)]*)?\))?",
    re.IGNORECASE,
)
_POOL_BEHIND = re.compile(r"\b(?P<size>\d{1,6}\s?[MG](?:i?B)?)\s+buffer[\s-]pool\b", re.IGNORECASE)
_SHARED_BUFFERS = re.compile(rf"shared[_\s-]buffers?{_GAP}(?P<size>{_SIZE})", re.IGNORECASE)
_PAGE = re.compile(rf"innodb[_-]page[_-]size{_GAP}(?P<size>\d{{1,6}}\s?[Kk]?)", re.IGNORECASE)
_RUNTIME = re.compile(
    rf"\b(?P<of>[\w-]{{0,20}}up[\s_]+|(?:checkpoint|load|prepare|query|transaction|lock|session|mean|average)[\s_]+)?"
    rf"(?:run\s?time|measure(?:ment)?(?: time)?|duration){_GAP}"
    r"(?P<time>\d{1,7})\s*(?P<unit>s|secs?|seconds?|min|minutes?)\b",
    re.IGNORECASE,
)
_CHUNK = re.compile(rf"innodb[_-]buffer[_-]pool[_-]chunk[_-]size{_GAP}({_SIZE})", re.IGNORECASE)
_INSTANCES = re.compile(rf"(?:innodb[_-])?buffer[_\s-]?pool[_\s-]instances{_GAP}(\d{{1,3}})", re.IGNORECASE)
_WAREHOUSES = re.compile(rf"\b(\d{{1,6}})\s+warehouses?\b|\bwarehouses?{_GAP}(\d{{1,6}})\b", re.IGNORECASE)
_CONNECTIONS = re.compile(
    r"\b(\d{1,6})\s+(?:connections|clients|virtual users|terminals)\b"
    rf"|(?<!max )\b(?:connections?|clients|virtual users|terminals){_GAP}(\d{{1,6}})\b",
    re.IGNORECASE,
)
#: Every text that a pattern of this file matches contains one of these words, in upper or lower case. Looking for them
#: first is quick.
_OF_RUNTIME = ("run", "measure", "duration")
_OF_CONNECTIONS = ("connection", "clients", "virtual users", "terminals")
_WORDS = (
    *("pool", "page", "shared", "warehouse", "sql", "postgres", "pgbench", "mariadb", "innodb", "percona"),
    *(*_OF_RUNTIME, *_OF_CONNECTIONS),
)
_MOST_STATED = 100
_SERVER = re.compile(r"\b(?:(postgres|pgbench|shared[_\s-]buffers)|mysql|mariadb|innodb|percona)", re.IGNORECASE)
_VERSION = re.compile(
    r"\b(?P<name>MySQL|MariaDB)(?:\s+(?:server\s+)?version)?\s+(?P<version>\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)", re.I
)
_ONE_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s?([KMG]?)", re.IGNORECASE)
_FACTORS = {"": 1, "K": KIB, "M": MIB, "G": GIB}


@dataclass(frozen=True)
class PoolStated:
    """A statement of buffer pool sizes, and of each size as a share of the database (None if not stated)."""

    place: Place
    sizes_bytes: tuple[int, ...]
    shares: tuple[float | None, ...]
    listed: bool
    """Whether the statement lists a size for each of several settings, instead of one size for all runs."""


@dataclass
class Stated:
    """Everything that one file states about its set-up."""

    pools: list[PoolStated] = field(default_factory=list)
    page_size_bytes: int | None = None
    page_size_place: Place | None = None
    runtime_s: float | None = None
    chunk_bytes: int | None = None
    instances: int | None = None
    instances_place: Place | None = None
    shared_buffers_bytes: int | None = None
    """The stated size of PostgreSQL's pool; None if the text states none."""
    version: tuple[str, tuple[int, ...]] | None = None
    warehouses: dict[int, Place] = field(default_factory=dict)
    """Each stated number of warehouses, with the place of its first statement."""
    connections: dict[int, Place] = field(default_factory=dict)
    runtimes_s: dict[int, Place] = field(default_factory=dict)
    servers: list[tuple[int, bool]] = field(default_factory=list)
    """(number of a line that names a server, whether that server is PostgreSQL)."""

    @property
    def anything(self) -> bool:
        """Return whether the file states more than the name of a server."""
        return replace(self, servers=[]) != Stated()

    def is_postgres(self, line: int) -> bool:
        """Return whether a line is about PostgreSQL: by the last server named up to it, else by the first after it."""
        above = [is_postgres for at, is_postgres in self.servers if at <= line]
        return (above[-1:] or [is_postgres for _, is_postgres in self.servers[:1]] or [False])[0]


def stated_together(files: Sequence[Stated]) -> Stated:
    """Return the statements of several files as one. If a setting is stated several times, the first one counts.

    All statements of pools and servers are kept.
    """
    together = Stated()
    for one in files:
        for name in (member.name for member in fields(Stated)):
            if name in ("pools", "servers"):
                getattr(together, name).extend(getattr(one, name))
            elif isinstance(have := getattr(together, name), dict):
                have |= {key: place for key, place in getattr(one, name).items() if key not in have}
            elif getattr(together, name) is None:
                setattr(together, name, getattr(one, name))
    return together


def parse_lenient_bytes(text: str) -> int | None:
    """Return the bytes of a size as people write it; None for other text. MB and M mean MiB, as for InnoDB.

    >>> parse_lenient_bytes("210MB"), parse_lenient_bytes("1G"), parse_lenient_bytes("soon")
    (220200960, 1073741824, None)
    """
    match = _ONE_SIZE.match(text.strip())
    if match is None:
        return None
    value = float(match[1]) * _FACTORS[match[2].upper()]
    return int(value) if value < 1 << 60 else None


class StatedParser:
    """A parser that takes every line of a text; `stated` has the statements found so far."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.stated = Stated()

    def take(self, number: int, text: str) -> None:
        """Look for statements in one line. A setting's first statement counts, but all statements of pools are kept."""
        # Searching the words first is many times faster than the patterns, for lines that have none of them.
        lowered = text.lower()
        if len(text) > 1000 or not any(word in lowered for word in _WORDS):
            return
        if len(self.stated.servers) < _MOST_STATED and (match := _SERVER.search(text)):
            self.stated.servers.append((number, match[1] is not None))
        if not any(character.isdigit() for character in text):
            return
        place, stated = Place(self.file, number), self.stated
        is_pool = "pool" in lowered
        if is_pool and (match := _CHUNK.search(text)) and stated.chunk_bytes is None:
            stated.chunk_bytes = parse_lenient_bytes(match[1])
        elif is_pool and (match := _INSTANCES.search(text)) and stated.instances is None:
            stated.instances, stated.instances_place = int(match[1]), place
        elif is_pool and (match := _POOL.search(text)) and len(stated.pools) < 100:
            self._pool(place, match)
        elif is_pool and (match := _POOL_BEHIND.search(text)) and not stated.pools:
            size = parse_lenient_bytes(match["size"])
            stated.pools.append(PoolStated(place, (size or 0,), (None,), False))
        if "shared" in lowered and (match := _SHARED_BUFFERS.search(text)) and stated.shared_buffers_bytes is None:
            stated.shared_buffers_bytes = parse_lenient_bytes(match["size"])
        if "page" in lowered and (match := _PAGE.search(text)) and stated.page_size_bytes is None:
            stated.page_size_bytes, stated.page_size_place = parse_lenient_bytes(match["size"]), place
        for match in _RUNTIME.finditer(text) if any(word in lowered for word in _OF_RUNTIME) else ():
            if match["of"] or len(stated.runtimes_s) >= _MOST_STATED:
                continue  # The stated time is not the run's duration: it may be the ramp-up's.
            runtime_s = int(match["time"]) * (60 if match["unit"].lower().startswith("m") else 1)
            stated.runtime_s = float(runtime_s) if stated.runtime_s is None else stated.runtime_s
            stated.runtimes_s.setdefault(runtime_s, place)
        for words, pattern, known in (
            (("warehouse",), _WAREHOUSES, stated.warehouses),
            (_OF_CONNECTIONS, _CONNECTIONS, stated.connections),
        ):
            if not any(word in lowered for word in words):
                continue
            for match in pattern.finditer(text) if len(known) < _MOST_STATED else ():
                known.setdefault(int(match[1] or match[2]), place)
        if "sql" in lowered or "mariadb" in lowered:
            self._version(text)

    def _version(self, text: str) -> None:
        if (match := _VERSION.search(text)) and self.stated.version is None:
            self.stated.version = (match["name"].lower(), tuple(int(part) for part in match["version"].split(".")))

    def _pool(self, place: Place, match: re.Match[str]) -> None:
        sizes = [parse_lenient_bytes(part) for part in match["sizes"].split(",")]
        whole = tuple(size for size in sizes if size and size >= 5 * MIB)
        # The number may be a count of pages: a status text has "Buffer pool size 65536". A setting without a unit is in
        # bytes, and so is a larger number.
        if not whole:
            return
        text = match["shares"] or ""
        found = [float(share) / 100 for share in re.findall(r"\d+(?:\.\d+)?", text)] if "%" in text else []
        shares: tuple[float | None, ...] = tuple(found) if len(found) == len(whole) else (None,) * len(whole)
        self.stated.pools.append(PoolStated(place, whole, shares, len(whole) > 1))
