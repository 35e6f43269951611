"""Decides whether a text such as "mysql >= 5.7.5; mariadb >= 10.2, < 10.5" includes a server's version.

Versions of servers that the text does not name are not included. The empty text includes all versions of all servers.
This module queries no server.
"""

from __future__ import annotations

import re

SERVERS = {"mysql": "MySQL", "mariadb": "MariaDB", "postgres": "PostgreSQL"}
"""Flavour of a server -> its name for readers."""
_PART = re.compile(r"(?P<flavour>[a-z_]+)(?P<bounds>(?:\s*,?\s*(?:>=|<)\s*[0-9.]+)*)")
_BOUND = re.compile(r"(>=|<)\s*([0-9.]+)")
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def has(versions: str, flavour: str, version: str) -> bool:
    """Return whether `versions` includes this version of this server. Raises ValueError for a malformed text.

    >>> has("mysql >= 5.7.5; mariadb >= 10.2, < 10.5", "mariadb", "10.11.6-MariaDB")
    False
    """
    if not versions:
        return True
    for part in versions.split(";"):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"{part.strip()!r} is not versions of a server")
        bounds = _BOUND.findall(found["bounds"])
        if found["flavour"] == flavour and all(_within(version, sign, bound) for sign, bound in bounds):
            return True
    return False


def numbers(version: str) -> tuple[int, ...]:
    """Return the first dotted numbers of a version: (5, 7, 22) for "5.7.22-log"; () for a text without a number."""
    found = _NUMBERS.search(version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def in_words(versions: str) -> str:
    """Return the versions for a message: "MySQL 5.7.5 or later, and MariaDB from 10.2 to before 10.5".

    Raises ValueError for a malformed text.
    """
    return ", and ".join(_part_in_words(part.strip()) for part in versions.split(";"))


def _within(version: str, sign: str, bound: str) -> bool:
    given, limit = numbers(version), numbers(bound)
    # "5.7" may be any 5.7.x. If its numbers equal the bound's first ones, assume a version that is not below the bound.
    if len(given) < len(limit) and limit[: len(given)] == given:
        return sign == ">="
    return given >= limit if sign == ">=" else given < limit


def _part_in_words(part: str) -> str:
    found = _PART.fullmatch(part)
    if found is None:
        raise ValueError(f"{part!r} is not versions of a server")
    name = SERVERS.get(found["flavour"], found["flavour"])
    bounds = dict(_BOUND.findall(found["bounds"]))
    match (bounds.get(">="), bounds.get("<")):
        case (None, None):
            return f"every {name}"
        case (first, None):
            return f"{name} {first} or later"
        case (None, end):
            return f"{name} before {end}"
        case (first, end):
            return f"{name} from {first} to before {end}"
