"""Servers that can be used here: on PATH, by path, or fetched by name; each asked for its version before it is used.

Finds and asks; fetches nothing (packages.py) and starts no database.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from bufferlab.engines.servers.builds import ON_PATH, Build, Listed, fetched, newest_fetched, servers_root
from bufferlab.engines.servers.process import environment, missing_library
from bufferlab.engines.servers.user import require_runnable, server_user
from bufferlab.errors import BufferlabError, EnvironmentLackingError

__all__ = ["ON_PATH", "Build", "Flavour", "Listed", "ask_version", "by_path", "fetched", "find", "listed"]

Flavour = Literal["mysql", "mariadb"]

_BINARIES: dict[str, tuple[str, ...]] = {"mysql": ("mysqld",), "mariadb": ("mariadbd", "mysqld")}
_SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin")
_SHARE_FOLDERS = ("share", "share/mysql", "share/mariadb", "../share", "../share/mysql", "../share/mariadb")
_VERSION = re.compile(r"\bVer (\d+\.\d+\.\d+)\S* for ")
_VERSION_SECONDS = 60


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
    newest = newest_fetched(flavour)
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
