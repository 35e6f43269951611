"""Keeps the sites of builds that this host has learnt, one file a build, in the form of page_sites.toml's entries.

A file is named by the hash of the build's code. Its writer decides where the kernel puts breakpoints into a server in
use. So root takes a file only if root alone may write it and every folder above it. Root's files too are checked: each
place must be the begin of an instruction, in a function that is decoded from its start.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab import output_files
from bufferlab.engines.native import ask_host, native
from bufferlab.engines.servers.fetched import servers_root
from bufferlab.errors import DataFileError, EnvironmentLackingError

RULES = 1
"""The version of the rules by which sites are proposed and proved. An entry of other rules is not used."""
_FORMAT = "bufferlab-learnt-sites"
_MOST_BYTES = 1 << 20
_MOST_SITES = 64
_AGAIN = "learn the build again: bufferlab learn BINARY"
_FETCH = re.compile(r"\\\d{1,20}|(?:[+-]\d{1,9}\()*%[a-z0-9]{2,3}\)*")
_FIELD = re.compile(r"[a-z_0-9]{1,32}:u(?:8|16|32|64)")
_PLACE = {"offset", "byte"}
_SITE = {"at", "kinds", "fetch", *_PLACE}
_TYPES = {"at": str, "kinds": list, "fetch": list, "offset": int, "byte": int}


@dataclass(frozen=True)
class LearntEntry:
    """The sites of one build, and how they were proved."""

    server: str
    """The name of the server's build in messages."""
    text_sha256: str
    """The SHA-256 of the build's executable segments."""
    settings: Mapping[str, Any]
    """The entries `fields`, `site` and `cost_shown`, as page_sites.toml has them."""
    proof: Mapping[str, Any]
    """The recorders that proved it (`by`: "inside", "links"), the compared counts, and the moment."""

    def text(self) -> str:
        """Return the entry as JSON, for a file."""
        told = {"format": _FORMAT, "rules": RULES, "server": self.server, "text_sha256": self.text_sha256,
                "settings": self.settings, "proof": self.proof}  # fmt: skip
        return json.dumps(told, indent=1) + "\n"


def folder() -> Path:
    """Return the folder of the entries of this user."""
    return servers_root().parent / "learnt"


def path_of(text_sha256: str) -> Path:
    """Return the file of a build's entry; it need not exist."""
    return folder() / f"{text_sha256}.json"


def store(entry: LearntEntry, path: Path | None = None) -> Path:
    """Write an entry into its file, or into `path`; return the file. Raises OSError."""
    place = path or path_of(entry.text_sha256)
    place.parent.mkdir(parents=True, exist_ok=True)
    output_files.write(place, lambda file: file.write(entry.text().encode()))
    return place


def read(path: Path, *, by_root_alone: bool = False) -> LearntEntry:
    """Return the entry in a file. With `by_root_alone` the file must be one that only root can have written.

    Raises DataFileError for a file that is not an entry or is of other rules, EnvironmentLackingError for a file that
    others may write, and FileNotFoundError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if by_root_alone:
            _require_root_alone(path, os.fstat(descriptor))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DataFileError("learnt sites are in a regular file", str(path), _AGAIN)
        text = file.read(_MOST_BYTES + 1)
    try:
        told = json.loads(text) if len(text) <= _MOST_BYTES else None
        if not isinstance(told, dict) or told.get("format") != _FORMAT:
            raise ValueError("it is of another program")
        if told["rules"] != RULES:
            raise ValueError(f"its rules are those of version {told['rules']}, and this version's are {RULES}")
        entry = LearntEntry(told["server"], told["text_sha256"], told["settings"], told["proof"])
        _require_form(entry)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataFileError(f"these are no learnt sites: {error}", str(path), _AGAIN) from error
    return entry


def of_build(text_sha256: str, binary: Path, *, by_root_alone: bool = False) -> LearntEntry | None:
    """Return the entry of a binary with this hash, whose places the core has looked at; None if none was learnt.

    Raises what `read` raises, and EnvironmentLackingError for a place that is not the begin of an instruction.
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
    """Raise EnvironmentLackingError unless each site of a build is at the begin of an instruction of its binary."""
    sites = [{name: value for name, value in site.items() if name != "inside"} for site in settings["site"]]
    within = [{**site, **wide["inside"]} for site, wide in zip(sites, settings["site"], strict=True)
              if wide.get("inside")]  # fmt: skip
    job = {"binary": str(binary), "spool": {"path": "", "limit_bytes": 0}, "fields": settings["fields"],
           "sites": sites + within}  # fmt: skip
    ask_host("the sites of this build cannot be used", lambda: native().page_site_check(json.dumps(job)))


def _require_form(entry: LearntEntry) -> None:
    """Raise ValueError, KeyError or TypeError for values that no entry has: they go into the kernel's program."""
    settings = entry.settings
    if not isinstance(entry.server, str) or not re.fullmatch(r"[\w .()+~-]{1,80}", entry.server):
        raise ValueError("it names no server")
    if not re.fullmatch(r"[0-9a-f]{64}", entry.text_sha256):
        raise ValueError("it names no build")
    if set(settings) != {"fields", "site", "cost_shown"} or settings["cost_shown"] is not False:
        raise ValueError("it has other settings than fields and sites")
    if not all(_FIELD.fullmatch(field) for field in settings["fields"]):
        raise ValueError("a field has no name and type")
    if not 0 < len(settings["site"]) <= _MOST_SITES:
        raise ValueError(f"it has {len(settings['site'])} sites")
    for site in settings["site"]:
        if not _SITE <= set(site) <= {*_SITE, "inside"} or set(site.get("inside") or _PLACE) != _PLACE:
            raise ValueError("a site has other values than its place, kinds and fetches")
        if any(type(site[name]) is not kind for name, kind in _TYPES.items()):
            raise ValueError("a site's value is of the wrong type")
        if len(site["fetch"]) != len(settings["fields"]) or not all(_FETCH.fullmatch(one) for one in site["fetch"]):
            raise ValueError("a site's fetches are not those of its fields")
    if not isinstance(entry.proof.get("by"), list):
        raise ValueError("it has no proof")


def _require_root_alone(path: Path, opened: os.stat_result) -> None:
    """Raise EnvironmentLackingError unless only root may have written an open file, or put it there."""
    real = path.resolve()
    found = real.lstat()
    is_same = (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)
    for place, status in ((real, opened), *((above, above.lstat()) for above in real.parents)):
        # In a folder with the sticky bit others may not replace what is root's.
        others_may = status.st_mode & 0o022 and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
        if not is_same or status.st_uid != 0 or others_may:
            raise EnvironmentLackingError(
                "these sites could be written by others than root, and they decide where a server in use is stopped",
                str(place),
                "learn the build as root: sudo bufferlab learn BINARY",
            )
