"""Reads `--columns` and `--page-size`, and derives from a column's name its role and the unit of its numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bufferlab.errors import SpecError
from bufferlab.units import GIB, UnitError, parse_bytes

SECONDS_OF = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "100ns": 1e-7, "ns": 1e-9}
"""The units of times, with the seconds of each."""
PAGE_UNITS = ("bytes", "sectors", "pages")
ROLES = ("time", "page", "size", "file")
ASKED = "?"
"""The unit of a column whose name has several meanings, so that the user must say which."""

#: Names of columns of pages in the order of preference, without case, blanks and underscores, with their unit.
_PAGES = (
    (("page", "pageid", "pageno", "pagenumber"), "pages"),
    (("block", "blockid"), "pages"),
    (("blkno", "blockno", "blocknumber", "blocknum"), ASKED),
    (("lba", "lbn", "lsn", "sector", "startsector", "offsetsectors"), "sectors"),
    (("offset", "byte", "addr", "address", "byteoffset", "offsetbytes"), "bytes"),
    (("objid", "objectid", "obj", "object"), "pages"),
    (("key",), "pages"),
    (("id",), "pages"),
)
_RANK_OF_PAGE = {name: (rank, unit) for rank, (names, unit) in enumerate(_PAGES) for name in names}
#: Names that often only count rows.
COUNTERS = ("key", "id")
_SIZES = {
    "size": None, "objsize": None, "objectsize": None, "length": None, "len": None,
    "bytes": "bytes", "nbytes": "bytes", "sizebytes": "bytes", "lengthbytes": "bytes",
    "sectors": "sectors", "nsectors": "sectors", "sizesectors": "sectors", "sizeinsectors": "sectors",
}  # fmt: skip
_TIMES = ("time", "timestamp", "clocktime", "ts")
_TIME_UNITS = {
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "ms": "ms", "msec": "ms", "millis": "ms", "milliseconds": "ms",
    "us": "us", "usec": "us", "micros": "us", "microseconds": "us", "µs": "us",
    "ns": "ns", "nsec": "ns", "nanos": "ns", "nanoseconds": "ns",
}  # fmt: skip
_FILES = frozenset(
    {"device", "deviceid", "dev", "disk", "diskid", "diskno", "disknumber", "lun", "volume", "volumeid", "asu"}
    | {"tablespace", "tablespaceid", "space", "spaceid", "file", "fileid", "filename", "relfilenode"}
)
_KIB = {"kb", "kib", "mb", "mib", "gb", "gib", "kbytes", "mbytes", "kilobytes", "megabytes"}
_WORD = re.compile(r"[A-Z]+(?![a-zµ])|[A-Z]?[a-zµ]+|\d+")
_PART = re.compile(r"""(?:"[^"]*"|'[^']*'|[^,"'])+""")
_QUOTED = re.compile(r"""(["'])(.*)\1(?::(\w+))?""")
_HINT = "write --columns time=NAME,page=NAME; further ones are size=NAME and file=NAME"


@dataclass(frozen=True)
class WantedColumns:
    """A column that an option asks for, by its name or its number from 1."""

    name: str
    position: int | None
    unit: str | None

    def __str__(self) -> str:
        is_plain = self.position is not None or not (self.name.isdigit() or set(self.name) & set(",:"))
        name = self.name if is_plain else f'"{self.name}"'
        return name + (f":{self.unit}" if self.unit else "")


def parse_columns(text: str | None) -> dict[str, WantedColumns]:
    """Return the columns that an option names, by role; {} without it. Raise SpecError if it names no column of pages.

    Also raise SpecError when the option cannot be understood. A column written as digits is a number from 1; a name of
    digits stands in quotes.

    >>> {role: str(column) for role, column in parse_columns('time=ts:ms,page=3,file="7"').items()}
    {'time': 'ts:ms', 'page': '3', 'file': '"7"'}
    """
    found: dict[str, WantedColumns] = {}
    for part in _PART.findall(text) if text else ():
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if role not in ROLES or not equals or not name or role in found:
            raise SpecError(f'"{part.strip()}" names no column', "--columns", _HINT)
        found[role] = _wanted(role, name)
    if text and "page" not in found:
        raise SpecError("no column of pages is named", "--columns", "add page=NAME")
    return found


def parse_page_size(asked: str | int | None) -> int | None:
    """Return the bytes of a page that an option asks for, or None. Raise SpecError for 0, and for more than 1 GiB."""
    if asked is None:
        return None
    try:
        size_bytes = parse_bytes(asked)
    except UnitError as error:
        raise SpecError(error.what, "--page-size", error.hint) from error
    if not 0 < size_bytes <= GIB:
        raise SpecError(f'"{asked}" is no size of a page', "--page-size", 'write a size such as "16KiB"')
    return size_bytes


def _wanted(role: str, text: str) -> WantedColumns:
    units = {"time": tuple(SECONDS_OF), "file": ()}.get(role, PAGE_UNITS)
    if quoted := _QUOTED.fullmatch(text):
        name, unit = quoted[2], quoted[3]
        if not name or (unit and unit not in units):
            raise SpecError(f"{text} names no column", "--columns", _HINT)
        return WantedColumns(name, None, unit)
    name, colon, unit = text.rpartition(":")
    if not colon or unit not in units:
        if colon and name.isdigit():
            known = ", ".join(units) or "none"
            raise SpecError(f'"{unit}" is no unit of a {role}', "--columns", f"its units: {known}")
        name, unit = text, ""
    is_position = name.isascii() and name.isdigit()
    return WantedColumns(name, int(name[:9]) if is_position else None, unit or None)


def plain(name: str) -> str:
    """Return the name of a column in lower case, with letters and digits only."""
    return re.sub(r"[\W_]+", "", name.lower())


def page_rank(name: str) -> int | None:
    """Return the place of a name among the names of columns of pages, the likeliest at 0; None for any other name."""
    return _RANK_OF_PAGE.get(plain(name), (None, None))[0]


def page_unit(name: str) -> str | None:
    """Return what a column of this name counts: bytes, sectors, pages, or ASKED (a user must say). None: not known."""
    return _RANK_OF_PAGE.get(plain(name), (None, None))[1]


def is_size(name: str) -> bool:
    """Return whether a column of this name holds the sizes of requests or objects."""
    return plain(name) in _SIZES


def size_unit(name: str) -> str | None:
    """Return the unit in the name of a column of sizes; None for a name without a unit ("size") or of no sizes."""
    return _SIZES.get(plain(name))


def is_in_kib(name: str) -> bool:
    """Return whether a name says that its numbers are in KB, MB or GB."""
    return not {word.lower() for word in re.findall(r"[A-Za-z]+", name)}.isdisjoint(_KIB)


def time_rank(name: str) -> int | None:
    """Return the place of a name among the names of columns of times, the likeliest at 0; None for any other name."""
    if plain(name) in _TIMES:
        return _TIMES.index(plain(name))
    *rest, unit = _WORD.findall(name) or [""]
    is_time = unit.lower() in _TIME_UNITS and plain("".join(rest)) in ("", "t", "elapsed", *_TIMES)
    return len(_TIMES) if is_time and (rest or unit.lower() not in ("s", "second")) else None


def time_unit(name: str) -> str | None:
    """Return the unit of a column of times by its name; None if the name has none.

    >>> time_unit("ts_ms"), time_unit("Timestamp"), time_unit("timeUs")
    ('ms', None, 'us')
    """
    return _TIME_UNITS.get((_WORD.findall(name) or [""])[-1].lower())


def is_file(name: str) -> bool:
    """Return whether a column of this name holds files or devices, whose pages differ."""
    return plain(name) in _FILES
