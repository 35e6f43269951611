"""A private server on a copy of a binary.

The kernel attaches probes to an inode. The copy has its own inode, so no probe affects a server in use.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from bufferlab.engines.behaviour import OnEvent
from bufferlab.engines.servers import child_process, data_folder, signs_of_life, user
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import ServerError
from bufferlab.engines.servers.data_folder import DATABASE
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.lesson import Lesson
from bufferlab.engines.servers.page_sites import Recording
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError

_IOPRIO_SET = {"x86_64": 251}
_LEVELS = 5
"""The number of parent folders that may contain a program's other files: 5 for usr/lib/postgresql/17/bin of Debian."""
_WHO_PROCESS, _CLASS_IDLE = 1, 3 << 13


def idle_priority() -> None:
    """Give this process and its future children the idle priority for processor and disk (sched(7), ioprio_set(2))."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if number := _IOPRIO_SET.get(platform.machine()):
        ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _CLASS_IDLE)


def require_reachable(build: Build, folder: Path) -> None:
    """Let the server's user traverse the folder of the private copy.

    Raises EnvironmentLackingError if that user cannot reach the build.
    """
    folder.chmod(0o711)
    for needed in (folder, build.binary.resolve().parent):
        user.require_reachable(needed, user.server_user())


def copied(build: Build, folder: Path, lesson: Lesson, program: Path | None = None) -> Build:
    """Copy the build's programs into `folder`, with links to its other files; return the build of the copy.

    `program` is the server's program, if another file has its path by now. PostgreSQL finds its files relative to its
    program (port/path.c), so the copy has the same relative path as the original. Raises EnvironmentLackingError for a
    program that cannot be copied, or that the server's user may not read.
    """
    try:
        return _copied(build, folder, lesson.programs, program or build.binary.resolve())
    except OSError as error:
        what = f"the programs cannot be copied: {error.strerror or error}"
        raise EnvironmentLackingError(
            what, str(build.binary), "name a whole installation, and free some space"
        ) from error


def _copied(build: Build, folder: Path, programs: tuple[str, ...], program: Path) -> Build:
    binary = build.binary.resolve()
    root = [binary.parent, *takewhile(lambda above: os.access(above, os.R_OK), binary.parents[:_LEVELS])][-1]
    place = folder
    for part in binary.relative_to(root).parts[:-1]:
        _make_passable(place)
        for one in (root / place.relative_to(folder)).iterdir():
            if one.name != part:
                (place / one.name).symlink_to(one)
        place /= part
    _make_passable(place)
    for library in binary.parent.glob("*.so*"):
        (place / library.name).symlink_to(library)
    # initdb looks for a server with its original name in its own folder.
    server, *others = programs
    _copy(program, place / server)
    for name in others:
        if (other := binary.with_name(name)).is_file():
            _copy(other, place / name)
    return replace(build, binary=place / server)


def _copy(program: Path, target: Path) -> None:
    """Copy a program so that the server's user can run it, if that user may read the original. Raises OSError."""
    with program.open("rb") as source, target.open("xb") as copy:
        found = os.fstat(source.fileno())
        if not stat.S_ISREG(found.st_mode) or (user.server_user() and not found.st_mode & stat.S_IROTH):
            raise PermissionError(errno.EACCES, "other users may not read it", str(program))
        shutil.copyfileobj(source, copy)
    target.chmod(0o755)


def _make_passable(folder: Path) -> None:
    """Create a folder that the server's user may traverse, independently of this process's umask."""
    folder.mkdir()
    folder.chmod(0o755)


@dataclass(frozen=True)
class PrivateCopy:
    """The data of a private server in a folder, created for one build."""

    family: Family
    build: Build
    folder: Path
    login: tuple[str, str]
    is_alone: bool
    """Whether its servers run without any network."""

    @property
    def database(self) -> Path:
        """Return the folder of the data."""
        return self.folder / "database"

    @property
    def lesson(self) -> Lesson:
        """Return the load with which the build is learnt."""
        assert self.family.lesson
        return self.family.lesson

    @contextmanager
    def server(self, settings: Mapping[str, str], trace: Recording | None = None) -> Iterator[PrivateServer]:
        """Context manager for a server on the data; with `trace`, its accesses are recorded from its start on."""
        home = self.folder / "server"
        shutil.rmtree(home, ignore_errors=True)
        server = PrivateServer(
            self.family, self.build, self.database / "data", home, user=user.server_user(),
            login=self.login, settings=settings, connections=20, trace=trace, own_net=self.is_alone,
        )  # fmt: skip
        with server:
            if trace:
                trace.require_on()
            yield server


def _can_be_alone(build: Build, owner: tuple[int, int] | None) -> bool:
    """Return whether a server works without any network. Every private server listens only on a Unix socket."""
    if build.flavour == "postgres" and build.numbers < (15,):
        return False  # Sessions send their counts to the statistics collector by UDP over loopback.
    try:
        child_process.require_own_net(owner)
    except EnvironmentLackingError:
        return False
    return True


def made(family: Family, copy: Build, original: Path, folder: Path, on_event: OnEvent) -> PrivateCopy:
    """Create the data of a copied build in the folder, with an empty database and the load's tables.

    `original` is the program that errors name. Raises EngineFailure or EnvironmentLackingError if the data cannot be
    created.
    """
    owner, lesson = user.server_user(), family.lesson
    assert lesson
    database = folder / "database"
    database.mkdir(mode=0o700)
    user.give(database, owner)
    identity = data_folder.new_identity(copy, lesson.page_size_bytes)
    wait = signs_of_life.patience(on_event, lambda: False)
    settings = lesson.settings(copy)
    login = family.make_data(copy, database, identity, {}, settings, owner, wait)
    place = PrivateCopy(family, copy, folder, login, _can_be_alone(copy, owner))
    with place.server(settings) as server:
        with closing(server.connect(family.system_database)) as with_database:
            with_database.ask(f"CREATE DATABASE {DATABASE}")
        with closing(server.connect(DATABASE, patient=True)) as connection:
            try:
                lesson.prepare_list(connection)
            except ServerError as error:
                what = f"this build cannot be learnt: its server cannot list the pages in its pool: {error}"
                hint = "install the extensions of PostgreSQL beside it, such as the package postgresql-contrib"
                raise EnvironmentLackingError(what, str(original), hint) from error
            for statement in lesson.make:
                connection.ask(statement)
    return place
