"""Derives the role of a column, and the unit of its numbers, from the column's name."""

from __future__ import annotations

import re

SECONDS_OF = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "100ns": 1e-7, "ns": 1e-9}
"""Names of time units, with the length of each in seconds."""
PAGE_UNITS = ("bytes", "sectors", "pages")
ASKED = "?"
"""The unit of a column whose name is ambiguous: the user must name the unit."""

#: Names of columns of page numbers, in lower case without blanks and underscores, the preferred first, with their unit.
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
#: Names of columns that often only number the rows.
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


def plain(name: str) -> str:
    """Return the name of a column in lower case, with letters and digits only."""
    return re.sub(r"[\W_]+", "", name.lower())


def page_rank(name: str) -> int | None:
    """Return the position of a name in the list of page column names, the likeliest at 0; None for any other name."""
    return _RANK_OF_PAGE.get(plain(name), (None, None))[0]


def page_unit(name: str) -> str | None:
    """Return the unit of a page column by its name; ASKED if the user must say the unit, None if it is unknown."""
    return _RANK_OF_PAGE.get(plain(name), (None, None))[1]


def is_size(name: str) -> bool:
    """Return whether a column of this name holds the sizes of requests or objects."""
    return plain(name) in _SIZES


def size_unit(name: str) -> str | None:
    """Return the unit in a column's name; None if the name has no unit ("size"), or the column is not one of sizes."""
    return _SIZES.get(plain(name))


def is_in_kib(name: str) -> bool:
    """Return whether a column's name says that its numbers are in KB, MB or GB."""
    return not {word.lower() for word in re.findall(r"[A-Za-z]+", name)}.isdisjoint(_KIB)


def time_rank(name: str) -> int | None:
    """Return the position of a name in the list of time column names, the likeliest at 0; None for any other name."""
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
    """Return whether a column of this name holds files or devices.

    Equal page numbers of two files are different pages.
    """
    return plain(name) in _FILES
