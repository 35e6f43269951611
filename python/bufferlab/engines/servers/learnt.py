"""Stores the probe sites of builds that this host has learnt, one file for each build, in the form of page_sites.toml.

A file is named by the hash of the build's code. The user who writes a file decides where the kernel puts breakpoints
into a server in use. So root uses a file only if root alone may write it and every folder above it. Root's files too
are checked: each site must be the beginning of an instruction, in a function that is decoded from its start.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab import output_files
from bufferlab.engines.native import ask_host, native
from bufferlab.engines.servers.fetched import servers_root
from bufferlab.errors import DataFileError, EnvironmentLackingError

RULES = 2
"""The version of the rules by which sites are proposed and proved."""
WRITTEN_SINCE = 2
"""The first version of the rules whose entries may have sites of changed and written pages.

Entries of version 1 are still used.
"""
WORK = "learning"
"""The folder in the cache in which bufferlab learns builds."""
_FORMAT = "bufferlab-learnt-sites"
_MOST_BYTES = 1 << 20
_MOST_SITES = 64
_AGAIN = "learn the build again: bufferlab learn BINARY"
_REGISTER = "%(?:[abcd]x|[sd]i|[bs]p|r8|r9|r1[0-5])"
_STEP = r"[+-][0-9]{1,9}"
_FETCH = re.compile(rf"\\[0-9]{{1,10}}|{_REGISTER}|{_STEP}\({_REGISTER}\)|{_STEP}\({_STEP}\({_REGISTER}\)\)")
FIELDS = ["tablespace:u32", "database:u32", "relation:u32", "fork:u32", "page:u32", "blocks:u32", "flag:u8",
          "held:u64", "strategy:u64", "strategy_type:u32"]  # fmt: skip
"""The fields of a PostgreSQL record, with their types; fields that show the ring of a read may follow."""
_FURTHER_FIELDS: tuple[list[str], ...] = ([], ["io_context:u32"], ["io_context_18:u32"])
FIELDS_OF_INNODB = ["space:u32", "page:u32", "mode:u8", "latch:u8"]
"""The fields of a record from MySQL, and from MariaDB up to 10.4."""
FIELDS_OF_MARIADB = ["page_id:u64", "mode:u8", "latch:u8", "frame:u64"]
"""The fields of a record from MariaDB 10.5 and later."""
_FLAG = "flag:u64"
FIELDS_WITH_TRANSACTION = [*FIELDS_OF_MARIADB[:-1], _FLAG, FIELDS_OF_MARIADB[-1]]
"""The fields of a record if the server counts a get only within a transaction: the flag is the transaction's
address."""
_ALL_OF_INNODB = (FIELDS_OF_INNODB, FIELDS_OF_MARIADB, FIELDS_WITH_TRANSACTION)
_IN_POOL = ("get_if_in_pool",)
_MAY_LACK: tuple[tuple[str, ...], ...] = (("prefetch",), _IN_POOL)
"""The kinds of sites that an entry of InnoDB may omit."""
_WRITES: tuple[tuple[str, ...], ...] = (("dirty",), ("write",))
"""The two kinds of sites of which an entry of PostgreSQL has either both or none."""
_RECORDERS = {"inside", "links"}
_PLACE = {"offset", "byte"}
_SITE = {"at", "kinds", "fetch", *_PLACE}
_OF_SITES = {"inside", "hash_index", "uncounted", "late"}
"""The optional fields of a site that the core does not get."""
_IF_FLAG = "kinds_if_flag"
_HEAD, _MODES = {"fields", "site", "cost_shown"}, "modes_if_in_pool"
_LEVELS = 8
"""The maximum nesting of objects and lists in an entry."""


@dataclass(frozen=True)
class LearntEntry:
    """The probe sites of one build, and how they were proved."""

    server: str
    """The server's name and version for messages."""
    text_sha256: str
    """The SHA-256 of the build's executable segments."""
    settings: Mapping[str, Any]
    """The entries `fields`, `site` and `cost_shown`, as page_sites.toml has them."""
    proof: Mapping[str, Any]
    """The proof of the sites: the recorders that were used (`by`: "inside", "links"), the compared counts, and the
    time."""
    rules: int = RULES
    """The version of the rules by which the sites were found."""

    def text(self) -> str:
        """Return the entry as JSON, for a file."""
        told = {"format": _FORMAT, "rules": self.rules, "server": self.server, "text_sha256": self.text_sha256,
                "settings": self.settings, "proof": self.proof}  # fmt: skip
        return json.dumps(told, indent=1) + "\n"


def kinds_of(fields: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the kinds of accesses for which an entry with these record fields needs a site."""
    read = ("read",) if fields in _ALL_OF_INNODB else ("get", "read")
    return (("get",), read, ("create",), ("evict",))


def folder() -> Path:
    """Return the folder of the entries of this user."""
    return servers_root().parent / "learnt"


def path_of(text_sha256: str) -> Path:
    """Return the path of a build's entry file; the file need not exist."""
    return folder() / f"{text_sha256}.json"


def store(entry: LearntEntry, path: Path | None = None) -> Path:
    """Write an entry into its file, or into `path`; return the path.

    Raises OSError, and DataFileError for an entry that could not be read again.
    """
    place = path or path_of(entry.text_sha256)
    _parsed(entry.text().encode(), place)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    output_files.write(place, lambda file: file.write(entry.text().encode()))
    if path is None:
        place.chmod(0o600)  # Set the mode, because root's umask may let other users write the file.
    return place


def read(path: Path, *, by_root_alone: bool = False) -> LearntEntry:
    """Return the entry in a file. With `by_root_alone`, only root may be able to write the file.

    Raises DataFileError for a file that cannot be read, is not an entry or has another version of the rules,
    EnvironmentLackingError for a file that other users may write, and FileNotFoundError.
    """
    return _parsed(_text(path, by_root_alone), path)


def _parsed(text: bytes, path: Path) -> LearntEntry:
    try:
        told = json.loads(text) if len(text) <= _MOST_BYTES else None
        if not isinstance(told, dict) or told.get("format") != _FORMAT:
            raise ValueError("it is of another program")
        if type(told["rules"]) is not int or not 1 <= told["rules"] <= RULES:
            raise ValueError("they were found by the rules of another version")
        entry = LearntEntry(told["server"], told["text_sha256"], told["settings"], told["proof"], told["rules"])
        _require_form(entry)
        json.dumps(told, allow_nan=False, ensure_ascii=False).encode()  # Raises for texts that messages cannot show.
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = error if type(error) is ValueError else "its form is that of another program"
        raise DataFileError(f"these are no learnt sites: {why}", str(path), _AGAIN) from error
    return entry


def of_build(text_sha256: str, binary: Path, *, by_root_alone: bool = False) -> LearntEntry | None:
    """Return the entry of a binary with this hash, after the core checked its sites; None if the build was not learnt.

    Raises what `read` raises, and EnvironmentLackingError for a site that is not the beginning of an instruction.
    """
    path = path_of(text_sha256)
    try:
        entry = read(path, by_root_alone=by_root_alone)
    except FileNotFoundError:
        return None
    if entry.text_sha256 != text_sha256:
        raise DataFileError("these sites are of another build than the file's name says", str(path), _AGAIN)
    require_instructions(entry.settings, binary)
    return entry


def require_instructions(settings: Mapping[str, Any], binary: Path) -> None:
    """Raise EnvironmentLackingError unless each site of a build is at the beginning of an instruction of its binary."""
    sites = [{name: value for name, value in site.items() if name not in _OF_SITES} for site in settings["site"]]
    within = [{**site, **wide["inside"]} for site, wide in zip(sites, settings["site"], strict=True)
              if wide.get("inside")]  # fmt: skip
    job = {"binary": str(binary), "spool": {"path": "", "limit_bytes": 0}, "fields": settings["fields"],
           "sites": sites + within}  # fmt: skip
    ask_host("the sites of this build cannot be used", lambda: native().page_site_check(json.dumps(job)))


def _require_form(entry: LearntEntry) -> None:
    """Raise ValueError, KeyError or TypeError for invalid values: they become part of a program in the kernel."""
    settings, proof = entry.settings, entry.proof
    if not _is_flat([settings, proof], _LEVELS) or type(settings) is not dict or type(proof) is not dict:
        raise ValueError("it has no settings and no proof")
    if not re.fullmatch(r"[\w .()+~-]{1,80}", entry.server):
        raise ValueError("it names no server")
    if not re.fullmatch(r"[0-9a-f]{64}", entry.text_sha256):
        raise ValueError("it names no build")
    if not _HEAD <= set(settings) <= {*_HEAD, _MODES} or settings["cost_shown"] is not False:
        raise ValueError("it has other settings than fields and sites")
    fields, sites, modes = settings["fields"], settings["site"], settings.get(_MODES, [])
    of_innodb = fields in _ALL_OF_INNODB
    if not of_innodb and (fields[: len(FIELDS)] != FIELDS or fields[len(FIELDS) :] not in _FURTHER_FIELDS):
        raise ValueError("it has other fields than a record has")
    if (
        type(modes) is not list
        or bool(modes) != of_innodb
        or not all(type(one) is int and 0 <= one < 64 for one in modes)
    ):
        raise ValueError("it has other modes of gets than its server has")
    kinds = kinds_of(fields)
    if type(sites) is not list or not 0 < len(sites) <= _MOST_SITES:
        raise ValueError(f"it has no sites, or more than {_MOST_SITES}")
    may_lack = _MAY_LACK if of_innodb else _WRITES if entry.rules >= WRITTEN_SINCE else ()
    for site in sites:
        if (
            not _SITE <= set(site) <= {*_SITE, *_OF_SITES, *([_IF_FLAG] if _FLAG in fields else [])}
            or not all(site.get(mark, True) is True for mark in _OF_SITES - {"inside"})
            or site.get(_IF_FLAG, []) != []
            or not re.fullmatch(r"[!-~]{1,200}", site["at"])
        ):
            raise ValueError("a site has other values than its name, place, kinds and fetches")
        places = [{name: site[name] for name in _PLACE}, *([site["inside"]] if "inside" in site else [])]
        if not all(_is_place(one) for one in places):
            raise ValueError("a site has no place")
        if type(site["kinds"]) is not list or tuple(site["kinds"]) not in {*kinds, *may_lack}:
            raise ValueError("a site has no kinds")
        fetches = site["fetch"]
        if type(fetches) is not list or len(fetches) != len(fields) or not all(map(_FETCH.fullmatch, fetches)):
            raise ValueError("a site's fetches are not those of its fields")
    of_kinds = [(tuple(site["kinds"]), site["offset"]) for site in sites]
    found = {one for one, _ in of_kinds}
    has_half = not of_innodb and 0 < len(found & {*_WRITES}) < len(_WRITES)
    if found - {*may_lack} != set(kinds) or has_half or len(set(of_kinds)) < len(sites):
        raise ValueError("its sites lack a kind, or one is there twice")
    if type(proof["by"]) is not list or not set() < set(proof["by"]) <= _RECORDERS:
        raise ValueError("no recorder proved it")


def _is_flat(one: object, levels: int) -> bool:
    inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
    return levels > 0 and all(_is_flat(each, levels - 1) for each in inner)


def _is_place(one: Any) -> bool:
    is_one = type(one) is dict and set(one) == _PLACE and all(type(value) is int for value in one.values())
    return is_one and 0 <= one["offset"] < 1 << 62 and 0 <= one["byte"] <= 0xFF


def _text(path: Path, by_root_alone: bool) -> bytes:
    """Return the bytes of an entry's file: at most one byte more than the largest allowed entry, so that the caller can
    refuse a larger one.

    Raises as `read` does.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            opened = os.fstat(descriptor)
            if not stat.S_ISREG(opened.st_mode):
                raise DataFileError("learnt sites are in a regular file", str(path), _AGAIN)
            if by_root_alone:
                _require_root_alone(path, opened)
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(_MOST_BYTES + 1)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
    except OSError as error:
        raise DataFileError(f"learnt sites cannot be read: {error.strerror}", str(path), _AGAIN) from error


def _require_root_alone(path: Path, opened: os.stat_result) -> None:
    """Raise EnvironmentLackingError unless only root can have written the open file and put it at its path."""
    named, real = path.absolute(), path.resolve()
    found = named.lstat()
    # False for a symbolic link, which is another file.
    is_same = (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)
    for place in (real, *real.parents, *named.parents):
        status = place.lstat()
        is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
        # In a folder with the sticky bit, other users cannot replace root's files. The permission bits of a symbolic
        # link have no effect.
        others_may = status.st_mode & 0o022 and not is_sticky and not stat.S_ISLNK(status.st_mode)
        if not is_same or status.st_uid != 0 or others_may:
            raise EnvironmentLackingError(
                "these sites could be written by others than root, and they decide where a server in use is stopped",
                str(place),
                "let root alone write there, and learn the build as root: sudo bufferlab learn BINARY",
            )
