"""Finds servers of any family: by name, the first there is, or all.

innodb/find_mysqld.py and postgres/find_postgres.py know the programs' names, places and answers. Fetches nothing and
starts no database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.servers import unpacked, version_call
from bufferlab.engines.servers.builds import (
    ON_PATH,
    Build,
    Flavour,
    Listed,
    all_fetched,
    fetched,
    folder,
    newest_fetched,
    servers_root,
)
from bufferlab.engines.servers.fetch import Ask
from bufferlab.errors import BufferlabError, EnvironmentLackingError


@dataclass(frozen=True)
class Finder:
    """The way to find the servers of one flavour."""

    flavour: Flavour
    ask: Ask
    by_path: Callable[[Path, str | None], Build]
    """Returns the build of a binary; raises EnvironmentLackingError when it is not a server that can be run."""
    installed: Callable[[], Iterable[Path]]
    """Returns the binaries installed on this system, the first choice first."""
    nothing: EnvironmentLackingError
    """The error when there is no server of the flavour at all."""

    def find(self, name: str) -> Build:
        """Return the server with that name or path or, for `path`, the first there is.

        Raise EnvironmentLackingError, with the way to get one, when there is none.
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
        """Check a fetched server at each use, so that we name an altered or missing file, not guess it from a log."""
        unpacked.require_unaltered(folder(build.name))
        self.ask(build.binary, build.libraries)
        unpacked.hold(folder(build.name))
        return build

    def _first(self) -> Build:
        """Return the first server that is installed, else the newest that was fetched."""
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
        """Return a server of the version in the name, installed by the distribution or fetched; None without one."""
        for binary in self.installed():
            try:
                build = self.by_path(binary, name)
            except BufferlabError:
                continue
            if _is_named(build, name):
                return build
        return next((self._checked(build) for build in all_fetched(self.flavour) if _is_named(build, name)), None)


def _is_named(build: Build, name: str) -> bool:
    return f"{build.flavour}-{build.version}.".startswith(f"{name}.")


def program_of(binary: Path, ask: Ask, *arguments: str) -> tuple[Path, Path | None]:
    """Return the server's program, and the script in whose place it stands; None for a binary that is no script.

    A script is not run: of a server that it starts, nobody would know which process to trace and to end. Raise
    EnvironmentLackingError for a script whose program cannot be told, or is no server.
    """
    program = version_call.program_behind(binary, *arguments)
    if program == binary:
        return binary, None
    ask(program, None)
    return program, binary


def first_line(text: str) -> str:
    """Return the first line, cut to 100 characters, for a message about a program's unexpected answer."""
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
            unpacked.require_unaltered(folder(name))
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
