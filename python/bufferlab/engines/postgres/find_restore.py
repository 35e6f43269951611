"""Finds a pg_restore that can read a dump: beside the server, on PATH, or where Debian keeps them.

Fetched builds of PostgreSQL from Maven have none.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from bufferlab.engines.servers import version_call
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.dump_head import DumpHead
from bufferlab.errors import BufferlabError, EnvironmentLackingError

_DEBIAN = Path("/usr/lib/postgresql")
_VERSION = re.compile(r"pg_restore \(PostgreSQL\) (\d+)")


def pg_restore(build: Build, head: DumpHead) -> Build:
    """Return the oldest pg_restore that reads what this version of pg_dump wrote, as a build of that program.

    A newer one than the server says settings that the server does not know (restore.py). Raises EnvironmentLackingError
    when there is none.
    """
    least = int(head.made_by.split(".")[0])
    found = [one for path in _candidates(build) if (one := _asked(path, build)) is not None]
    usable = [one for one in found if one.numbers >= (least,)]
    if not usable:
        there = ", ".join(sorted({one.version for one in found})) or "none"
        raise EnvironmentLackingError(
            f"pg_dump {head.made_by} wrote the dump, and restoring it needs a pg_restore of {least} or later "
            f"(here: {there})",
            str(build.binary.parent),
            f"install PostgreSQL's client programs (postgresql-client-{least}), or dump by an older pg_dump",
        )
    return min(usable, key=lambda one: one.numbers)


def _candidates(build: Build) -> Iterator[Path]:
    on_path = shutil.which("pg_restore", path=os.environ.get("PATH", os.defpath))
    folders = [build.binary.parent, build.binary.resolve().parent]
    folders += sorted(folder / "bin" for folder in _DEBIAN.glob("[0-9]*"))
    # Debian's on PATH is a script that asks for a cluster of this machine (pg_wrapper).
    folders += [Path(on_path).parent] if on_path and Path(on_path).resolve().name == "pg_restore" else []
    for folder in dict.fromkeys(folders):
        if (folder / "pg_restore").is_file():
            yield folder / "pg_restore"


def _asked(path: Path, build: Build) -> Build | None:
    # Of a program beside a fetched server, its libraries are that server's.
    libraries = build.libraries if path.parent in (build.binary.parent, build.binary.resolve().parent) else None
    try:
        said = _VERSION.search(version_call.what_it_says(path, libraries, "--version"))
    except BufferlabError:
        return None
    return Build(str(path), "postgres", said[1], path, libraries=libraries) if said else None
