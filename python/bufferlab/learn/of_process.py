"""Finds the build of a running server, given the PID of its first process. The server is not affected.

The process's program is opened once (/proc/PID/exe), so that neither the end of the process nor an update of the
package changes the outcome. Nothing else of the process is read: neither its settings, nor its data, nor its memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bufferlab.engines import registry
from bufferlab.engines.innodb import programs as innodb_programs
from bufferlab.engines.postgres import programs as postgres_programs
from bufferlab.engines.servers import page_sites
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.page_sites import ServerProgram
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.learn import learning, private_copy
from bufferlab.procfs import stat_fields

_PROC = Path("/proc")
_WHICH = "name the first process of a server: pgrep -o '^(mysqld|mariadbd|postgres)$'"


@contextmanager
def opened(pid: int, proc: Path = _PROC) -> Iterator[tuple[Build, Path]]:
    """Context manager for the build of the server whose first process is `pid`, and for its opened program.

    The build's binary is the program's path, which may lead to another file by now. Raises SpecError for a process that
    is not the first one of a server. Raises EnvironmentLackingError if this user may not examine the process, if it
    sees another file system than this process, or if its installation is of another version by now.
    """
    try:
        found = _program(pid, proc)
        descriptor = os.open(found.file, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError as error:
        what = "the server's program cannot be read: this user may not look at its process"
        hint = "run as root or as the server's user, or name the program: bufferlab learn BINARY"
        raise EnvironmentLackingError(what, f"process {pid}", hint) from error
    except OSError as error:
        raise SpecError("there is no such process, or it has ended", f"--pid {pid}", _WHICH) from error
    try:
        program = Path(f"/proc/self/fd/{descriptor}")
        is_replaced = found.is_replaced
        yield _of_replaced(pid, found, program) if is_replaced else learning.build_of(Path(found.path)), program
    finally:
        os.close(descriptor)


def _program(pid: int, proc: Path) -> ServerProgram:
    """Return the program of a server's first process that sees the same file system as this process.

    Raises as `opened` does, and OSError.
    """
    process = proc / str(pid)
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text("utf-8", "replace").splitlines())
    if int(status["Tgid"]) != pid:
        raise SpecError("this is a thread of a process", f"--pid {pid}", f"name the process: --pid {status['Tgid']}")
    try:
        found = page_sites.program_of(process)
    except FileNotFoundError:
        # Kernel threads have no program, and neither have zombie processes.
        found = ServerProgram(process / "exe", status["Name"], elsewhere=False)
    if Path(found.path).name not in page_sites.PROGRAMS:
        what = f"this process is no server of MySQL, MariaDB or PostgreSQL: its program is {found.path}"
        raise SpecError(what, f"--pid {pid}", _WHICH)
    if parent := _parent_with(found, pid, proc):
        what = "this process serves one session, or works behind them: it is not the server's first one"
        raise SpecError(what, f"--pid {pid}", f"name the first one: --pid {parent}")
    if found.elsewhere:
        what = f"this server sees other files than bufferlab: it runs in a container or a chroot, as {found.path}"
        hint = "start bufferlab in a container of the same image, and name the program there: bufferlab learn BINARY"
        raise EnvironmentLackingError(what, f"process {pid}", hint)
    return found


def _parent_with(found: ServerProgram, pid: int, proc: Path) -> int | None:
    """Return the PID of a process's parent if it runs the same file; None if it runs another."""
    with suppress(OSError, ValueError, IndexError):
        parent = int(stat_fields(pid, proc)[1])
        if os.path.samestat(page_sites.program_of(proc / str(parent)).file.stat(), found.file.stat()):
            return parent
    return None


def _of_replaced(pid: int, found: ServerProgram, program: Path) -> Build:
    """Return the build of a running program whose path now leads to another file.

    A copy of the program is run for its version.


    Raises EnvironmentLackingError if its installation is gone, or of another version, and as `learning.build_of` does.
    """
    path, where = Path(found.path), f"process {pid}, {found.path}"
    if not path.exists():
        what = "the server's program was removed from the disk, and with it what a private server needs"
        raise EnvironmentLackingError(what, where, "install the same version again, in the same place")
    build = learning.build_of(path)
    lesson = registry.family(build.flavour).lesson
    assert lesson
    ask = postgres_programs.ask_version if build.flavour == "postgres" else innodb_programs.ask_version
    with learning.own_folder(learning.workplace()) as folder:
        version, _ = ask(private_copy.copied(build, folder / "install", lesson, program).binary, build.libraries)
    # initdb accepts only a server of its own version. The server's messages and system tables must have that version
    # too.
    if version != build.version:
        what = f"the server is of version {version}, and its installation is of {build.version} by now"
        hint = f"restart the server, then learn the new one: bufferlab learn {path}"
        raise EnvironmentLackingError(what, where, hint)
    return build
