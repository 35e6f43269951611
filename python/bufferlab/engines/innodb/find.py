"""Servers that can be used here: on PATH, by path, or fetched by name; each asked for its version before it is used.

Finds and asks; fetches nothing (packages.py) and starts no database.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bufferlab.engines.innodb.process import environment, missing_library
from bufferlab.engines.innodb.user import default_root, require_runnable, server_user
from bufferlab.errors import BufferlabError, EnvironmentLackingError

Flavour = Literal["mysql", "mariadb"]

ON_PATH = "path"
"""As a name: the first server of the flavour on $PATH, or, without one, the newest that was fetched."""

MANIFEST = "manifest.json"
_BINARIES: dict[str, tuple[str, ...]] = {"mysql": ("mysqld",), "mariadb": ("mariadbd", "mysqld")}
_SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin")
_SHARE_FOLDERS = ("share", "share/mysql", "share/mariadb", "../share", "../share/mysql", "../share/mariadb")
_VERSION = re.compile(r"\bVer (\d+\.\d+\.\d+)\S* for ")
_VERSION_SECONDS = 60


@dataclass(frozen=True)
class Build:
    """One server that can be run."""

    name: str
    """How it was asked for: a fetched one's name, `path`, or the path of its binary."""
    flavour: Flavour
    version: str
    """Three numbers: 5.7.22."""
    binary: Path
    share: Path | None
    """The folder with english/errmsg.sys and the SQL of the system tables; None: the server's own idea."""
    libraries: Path | None = None
    """Further shared libraries that came with it."""
    system_tables: Path | None = None
    """A data directory to copy the system tables from, for builds that cannot make them (5.6)."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers, to be compared."""
        return tuple(int(part) for part in self.version.split("."))


@dataclass(frozen=True)
class Listed:
    """A line of `bufferlab engines`: a build, or the reason why there is none."""

    name: str
    where: str
    build: Build | None
    reason: str | None = None
    hint: str | None = None


def servers_root() -> Path:
    """Where fetched servers are kept: they must be reachable by the user they run as."""
    if own := os.environ.get("BUFFERLAB_CACHE"):
        return Path(own).absolute() / "servers"
    if root := default_root():
        return root / "cache" / "servers"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bufferlab" / "servers"


def find(flavour: Flavour, name: str = ON_PATH) -> Build:
    """The server of that name, which can be run; EnvironmentLackingError with the way to get one."""
    build = _find(flavour, name)
    if build.flavour != flavour:
        raise EnvironmentLackingError(
            f"this is a {build.flavour} server, version {build.version}, not {flavour}",
            str(build.binary),
            f"run it with --engine {build.flavour}",
        )
    require_runnable(build.binary, server_user())
    return build


def by_path(path: Path, name: str | None = None) -> Build:
    """The server that is this binary, or in this folder (itself, its bin or sbin)."""
    path = path.absolute()
    inside = [path / folder / file for folder in (".", "bin", "sbin") for file in ("mariadbd", "mysqld")]
    binary = next((file for file in inside if file.is_file()), None) if path.is_dir() else path
    if binary is None or not binary.exists():
        what = "there is no mysqld or mariadbd in this folder" if path.is_dir() else "there is no such file"
        raise EnvironmentLackingError(what, str(path), "name a server's binary, or its folder")
    version, flavour = ask_version(binary, None)
    return Build(name or str(path), flavour, version, binary, _share(binary, flavour))


def fetched(name: str) -> Build | None:
    """A server that was fetched, from its manifest; None when it was not."""
    folder = servers_root() / name
    try:
        told = json.loads((folder / MANIFEST).read_text())
        return Build(
            name,
            told["flavour"],
            told["version"],
            folder / told["binary"],
            folder / told["share"],
            folder / told["libraries"] if told.get("libraries") else None,
            folder / told["system_tables"] if told.get("system_tables") else None,
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentLackingError(
            f"the fetched server cannot be used: {error}", str(folder), f"remove it and: bufferlab engines fetch {name}"
        ) from error


def listed(known: tuple[str, ...]) -> list[Listed]:
    """Every server on PATH, then the known ones by name: each usable, or why not."""
    lines = [_listed(str(binary), binary) for binary in dict.fromkeys(_on_path(("mysqld", "mariadbd")))]
    for name in known:
        try:
            build = fetched(name)
            if build is None:
                lines.append(Listed(name, "", None, "not fetched", f"bufferlab engines fetch {name}"))
                continue
            ask_version(build.binary, build.libraries)
            require_runnable(build.binary, server_user())
            lines.append(Listed(name, str(build.binary), build))
        except BufferlabError as error:
            lines.append(Listed(name, str(servers_root() / name), None, error.what, error.hint))
    return lines


def ask_version(binary: Path, libraries: Path | None) -> tuple[str, Flavour]:
    """(version, flavour) as the binary says it; EnvironmentLackingError when it cannot be run or is no such server."""
    try:
        done = subprocess.run(
            [str(binary), "--no-defaults", "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(environment(libraries)),
            timeout=_VERSION_SECONDS,
            check=False,
        )
    except OSError as error:
        hint = "choose another build, or: bufferlab engines"
        raise EnvironmentLackingError(f"the server cannot be run: {error.strerror}", str(binary), hint) from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentLackingError(
            f"it did not tell its version in {_VERSION_SECONDS} s", str(binary), "is this a database server?"
        ) from error
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    if library := missing_library(text):
        raise EnvironmentLackingError(f"the server lacks {library}", str(binary), "install the package")
    found = _VERSION.search(text)
    if found is None:
        first = (text.strip().splitlines() or ["nothing"])[0][:100]
        raise EnvironmentLackingError(
            f'this is not a MySQL or MariaDB server: asked for its version it says "{first}"', str(binary)
        )
    return found[1], "mariadb" if "MariaDB" in text else "mysql"


def _find(flavour: Flavour, name: str) -> Build:
    if name.startswith("/"):
        return by_path(Path(name))
    if name == ON_PATH:
        return _first(flavour)
    build = fetched(name) or _same_version(flavour, name)
    if build is None:
        raise EnvironmentLackingError(
            f"there is no server {name} here", str(servers_root()), f"get it: bufferlab engines fetch {name}"
        )
    # Asked again at each use: a library that has gone since is then named, and not guessed from a log.
    ask_version(build.binary, build.libraries)
    return build


def _first(flavour: Flavour) -> Build:
    unusable: BufferlabError | None = None
    for binary in _on_path(_BINARIES[flavour]):
        try:
            build = by_path(binary, ON_PATH)
        except BufferlabError as error:
            unusable = unusable or error
            continue
        if build.flavour == flavour:
            return build
    there = [fetched(file.parent.name) for file in servers_root().glob(f"{flavour}-*/{MANIFEST}")]
    newest = max((build for build in there if build is not None), key=lambda build: build.numbers, default=None)
    if newest is not None:
        ask_version(newest.binary, newest.libraries)
        return newest
    if unusable is not None:
        raise unusable
    raise EnvironmentLackingError(
        f"there is no {flavour} server on PATH, and none was fetched",
        os.environ.get("PATH"),
        "install one, or: bufferlab engines fetch " + ("mysql-5.7" if flavour == "mysql" else "mariadb-10.11"),
    )


def _same_version(flavour: Flavour, name: str) -> Build | None:
    """The server on PATH, when it is of the version that the name says: a distribution's own package."""
    for binary in _on_path(_BINARIES[flavour]):
        try:
            build = by_path(binary, name)
        except BufferlabError:
            continue
        if f"{build.flavour}-{build.version}.".startswith(f"{name}."):
            return build
    return None


def _on_path(names: tuple[str, ...]) -> Iterator[Path]:
    """Binaries of these names, each file once: mysqld is often a link to mariadbd."""
    seen = set()
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))
    for name in names:
        found = shutil.which(name, path=path)
        if found and (real := Path(found).resolve()) not in seen:
            seen.add(real)
            yield real


def _listed(name: str, binary: Path) -> Listed:
    try:
        build = by_path(binary)
        require_runnable(build.binary, server_user())
        return Listed(name, str(binary), build)
    except BufferlabError as error:
        return Listed(name, str(binary), None, error.what, error.hint)


def _share(binary: Path, flavour: Flavour) -> Path | None:
    near = [binary.parent / folder for folder in _SHARE_FOLDERS]
    system = [Path("/usr/share") / name for name in (flavour, "mysql", "mariadb")]
    return next((folder.resolve() for folder in [*near, *system] if (folder / "english/errmsg.sys").is_file()), None)
