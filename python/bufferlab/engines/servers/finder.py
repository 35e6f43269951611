"""Finds servers of any family: by name, the first one found, or all. Fetches nothing and starts no database.

innodb/programs.py and postgres/programs.py know the programs' names, folders and version outputs.

When a fetched server is unpacked, its files are recorded; they are compared before every use. The comparison covers
names, modes, sizes and times of all files (lstat(2)), which takes milliseconds; a change cannot be hidden, because no
program can set a file's ctime. If anything differs, or `fetch` is called for the server again, all contents are hashed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bufferlab import marked
from bufferlab.engines.servers import version_call
from bufferlab.engines.servers.builds import Ask, Build, Flavour, Listed
from bufferlab.engines.servers.fetched import all_fetched, fetched, folder, newest_fetched, servers_root
from bufferlab.engines.servers.server_names import ON_PATH
from bufferlab.errors import BufferlabError, EnvironmentLackingError
from bufferlab.versions import numbers

_RECORD = "files.json"
_FORMAT_VERSION = 1
_in_use: dict[Path, int] = {}


def record(server: Path) -> None:
    """Write every file's mode and SHA-256, and every link's target, to a file in the server's folder."""
    _write(server, _contents(server))


def require_unaltered(server: Path, *, hashed: bool = False) -> None:
    """Raise EnvironmentLackingError for the first file that has changed since unpacking; the error names the file.

    `hashed` hashes all contents in any case. A server without a record (an earlier version of bufferlab fetched it) is
    recorded in its present state.
    """
    file = server / _RECORD
    try:
        told = json.loads(file.read_text())
        recorded, look = dict(told["files"]), told["look"]
    except FileNotFoundError:
        return record(server)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _altered(server, f"{_RECORD} cannot be read ({error})") from error
    if look == _look(server) and not hashed:
        return None
    found = _contents(server)
    for name in sorted({*recorded, *found}):
        if name not in found:
            raise _altered(server, f"{name} is missing")
        if recorded.get(name) != found[name]:
            raise _altered(server, f"{name} was changed" if name in recorded else f"{name} was added")
    return _write(server, recorded)


def hold(server: Path) -> None:
    """Keep the server from being removed while this process runs, and record the time of use."""
    if server not in _in_use and (held := marked.use(server)) is not None:
        _in_use[server] = held


def _altered(server: Path, how: str) -> EnvironmentLackingError:
    return EnvironmentLackingError(
        f"the fetched server was altered: {how}", str(server), f"fetch it again: bufferlab engines fetch {server.name}"
    )


def _write(server: Path, files: dict[str, str]) -> None:
    """Write the record if possible. Without it, the next use has to hash all contents again."""
    beside = server / f"{_RECORD}.new"
    with suppress(OSError):
        beside.write_text(json.dumps({"format_version": _FORMAT_VERSION, "look": _look(server), "files": files}))
        beside.rename(server / _RECORD)


def _contents(server: Path) -> dict[str, str]:
    return {str(path.relative_to(server)): _content(path) for path in _files(server)}


def _content(path: Path) -> str:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    if not stat.S_ISREG(mode):
        return "no file"
    with path.open("rb") as file:
        return f"{stat.S_IMODE(mode):o} {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _look(server: Path) -> str:
    """Return a digest of the modes, sizes, times and inodes of all files, without their contents."""
    digest = hashlib.sha256()
    for path in _files(server):
        found = path.lstat()
        told = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
        digest.update(f"{path.relative_to(server)} {told}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _files(server: Path) -> Iterator[Path]:
    """Yield every file and link in the folder, in a fixed order, except bufferlab's record and mark."""
    ours = {server / name for name in (_RECORD, f"{_RECORD}.new", marked.MARK)}
    for root, names, files in os.walk(server):
        names.sort()
        links = [name for name in names if (Path(root) / name).is_symlink()]
        yield from (path for name in sorted([*files, *links]) if (path := Path(root) / name) not in ours)


@dataclass(frozen=True)
class Finder:
    """The functions that find the servers of one flavour."""

    flavour: Flavour
    ask: Ask
    by_path: Callable[[Path, str | None], Build]
    """A function that returns the build of a binary; it raises EnvironmentLackingError for an unusable binary."""
    installed: Callable[[], Iterable[Path]]
    """A function that returns the binaries installed on this system, the preferred first."""
    nothing: EnvironmentLackingError
    """The error to raise if the host has no server of the flavour."""

    def find(self, name: str) -> Build:
        """Return the server with that name or path; for the name ON_PATH, the first installed one or else the newest
        fetched one.

        Raise EnvironmentLackingError, with a hint how to get one, if the host has none.
        """
        if name.startswith("/"):
            try:
                return self.by_path(Path(name), None)
            except OSError as error:
                what = f"the server's path cannot be used: {error.strerror}"
                raise EnvironmentLackingError(what, name, "give the path of its binary or folder") from error
        if name == ON_PATH:
            return self._first()
        build = fetched(name)
        if build is not None:
            return self._checked(build)
        build = self._same_version(name)
        if build is None:
            raise EnvironmentLackingError(
                f"there is no server {name} here", str(servers_root()), f"get it: bufferlab engines fetch {name}"
            )
        return build

    def _checked(self, build: Build) -> Build:
        """Check a fetched server before each use, so that an error names an altered or missing file."""
        require_unaltered(folder(build.name))
        self.ask(build.binary, build.libraries)
        hold(folder(build.name))
        return build

    def _first(self) -> Build:
        """Return the first installed server, else the newest fetched one."""
        unusable: BufferlabError | None = None
        for binary in self.installed():
            try:
                build = self.by_path(binary, ON_PATH)
            except BufferlabError as error:
                unusable = unusable or error
                continue
            if build.flavour == self.flavour:
                return build
        newest = newest_fetched(self.flavour)
        if newest is not None:
            return self._checked(newest)
        raise unusable or self.nothing

    def _same_version(self, name: str) -> Build | None:
        """Return a server of the version in the name, installed by the distribution or fetched; None if there is
        none."""
        for binary in self.installed():
            try:
                build = self.by_path(binary, name)
            except BufferlabError:
                continue
            if is_named(build.flavour, build.version, name):
                return build
        same = (build for build in all_fetched(self.flavour) if is_named(build.flavour, build.version, name))
        return next((self._checked(build) for build in same), None)


def is_named(flavour: str, version: str, name: str) -> bool:
    """Return whether a server's name has this version, or its first numbers: "postgres-19" matches 19rc1 and 19.1."""
    return f"{flavour}-{'.'.join(map(str, numbers(version)))}.".startswith(f"{name}.")


def program_of(binary: Path, ask: Ask, *arguments: str) -> tuple[Path, Path | None]:
    """Return the server's program, and if `binary` is a script, that script; else None as the second.

    A run starts the program, not the script: otherwise bufferlab would not know which process to trace and to end.
    Raise EnvironmentLackingError for a script whose program cannot be found, or is not a server.
    """
    program = version_call.program_behind(binary, *arguments)
    if program == binary:
        return binary, None
    ask(program, None)
    return program, binary


def first_line(text: str) -> str:
    """Return the first line of a program's unexpected output, cut to 100 characters, for a message."""
    return (text.strip().splitlines() or ["nothing"])[0][:100]


def listed(
    installed: Iterable[Path], known: Iterable[str], by_path: Callable[[Path, str | None], Build], ask: Ask
) -> list[Listed]:
    """Return a line for every installed server, then one for each known name: the build, or why it cannot be used."""
    lines = [_listed(binary, by_path) for binary in installed]
    for name in known:
        try:
            build = fetched(name)
            if build is None:
                lines.append(Listed(name, "", None, "not fetched", f"bufferlab engines fetch {name}"))
                continue
            require_unaltered(folder(name))
            ask(build.binary, build.libraries)
            lines.append(Listed(name, str(build.binary), build))
        except BufferlabError as error:
            lines.append(Listed(name, str(servers_root() / name), None, error.what, error.hint))
    return lines


def _listed(binary: Path, by_path: Callable[[Path, str | None], Build]) -> Listed:
    try:
        build = by_path(binary, None)
        return Listed(str(binary), str(binary), build)
    except BufferlabError as error:
        return Listed(str(binary), str(binary), None, error.what, error.hint)
