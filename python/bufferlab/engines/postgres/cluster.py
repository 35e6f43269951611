"""Creates a new cluster with initdb, ends a private server's processes, and explains why a process failed.

A cluster has one user, with a password, in locale C and UTF8. The System V shared memory of its server is in a private
namespace if the host allows that, so that nothing of it remains even when all processes are killed. Elsewhere bufferlab
removes the segment that postmaster.pid names (ipc: pg_shmem.h, sysv_shmem.c). The cause of a failure is derived from
the process's exit status and the end of its log.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres.programs import initdb
from bufferlab.engines.servers import child_process
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.child_process import failed
from bufferlab.engines.servers.data_folder import Identity
from bufferlab.engines.servers.private_server import make_data, make_home
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.engines.servers.user import give, write_for
from bufferlab.knob import Values
from bufferlab.procfs import processes

_UNKNOWN = re.compile(r'unrecognized configuration parameter "([^"]*)"')
_INVALID = re.compile(r"LOG:\s+(?:[0-9:., -]*)(invalid value for parameter .*|.* is outside the valid range .*)")


def _refused(text: str, what: str, place: str) -> EngineFailure | None:
    """Return the failure of a server that lacked memory, or refused a setting; None if it failed for another reason."""
    if "could not map anonymous shared memory" in text or "could not resize shared memory" in text:
        said = f"{what}: the host has not the memory for its shared buffers"
        return EngineFailure("environment", said, place, "ask for a smaller pool_size")
    if unknown := _UNKNOWN.search(text):
        hint = "this version has no such setting; see `bufferlab list engines`"
        return EngineFailure("usage", f"the server does not know {unknown[1]}", place, hint)
    if invalid := _INVALID.search(text):
        return EngineFailure("usage", f"the server refuses a setting: {invalid[1]}", place, "ask for another value")
    return None


failure = partial(
    failed,
    refused=_refused,
    disk_full=("No space left on device",),
    grave=r"\b(?:FATAL|PANIC|ERROR):|cannot be run|initdb: error|was terminated by signal|Assertion",
    beside=r"\b(?:HINT|DETAIL|STATEMENT|CONTEXT):",
)
"""A function that returns the failure of a server's process, given its exit status and the end of its log."""


_CHECKSUMS_BY_DEFAULT = (18,)
_FIRST_WITH_INSTRUCTIONS = (14,)


def make(
    build: Build, database: Path, identity: Identity, knobs: Values, settings: Mapping[str, str],
    owner: tuple[int, int] | None, on_wait: OnWait,
) -> tuple[str, str]:  # fmt: skip
    """Create `database`/data, which must not exist, with the identity's user as its superuser and no other account.

    Return this user's login. Raises EngineFailure with the end of initdb's output if it could not be created, and
    EnvironmentLackingError if initdb is missing.
    """
    data, home, user = database / "data", database.parent / "server", owner
    checksums = knobs.get("data_checksums") == "on"
    make_home(home, user)
    data.mkdir(mode=0o700)
    give(data, user)
    secret = home / "initialise.password"
    try:
        write_for(secret, identity.password + "\n", user)
        command = [str(initdb(build)), *_arguments(build, data, secret, identity, checksums)]
        make_data(command, build, home, user, failure, on_wait, own_ipc=child_process.can_own_ipc(user))
    finally:
        with suppress(FileNotFoundError):
            secret.unlink()
    return (identity.user, identity.password)


def _arguments(build: Build, data: Path, secret: Path, identity: Identity, checksums: bool) -> list[str]:
    # Locale C compares text by bytes, as the other engines do, so that names have the same order on all engines. New
    # files are synced once.
    words = ["-D", str(data), "-U", identity.user, f"--pwfile={secret}", "--auth=scram-sha-256", "--locale=C",
             "--encoding=UTF8", "--no-sync"]  # fmt: skip
    if build.numbers >= _FIRST_WITH_INSTRUCTIONS:
        words.append("--no-instructions")
    if checksums:
        words.append("--data-checksums")
    elif build.numbers >= _CHECKSUMS_BY_DEFAULT:
        words.append("--no-data-checksums")
    return words


_IPC_RMID = 0
_CHILDREN_SECONDS = 5.0
"""The seconds that server processes may take to notice that their postmaster is gone."""
_KILLED_SECONDS = 30.0
"""The seconds that a killed process may take to disappear: it can wait in the kernel for a slow disk."""


def end_processes(data: Path, build: Build) -> None:
    """Kill all processes of the server on these data, without waiting for their end."""
    _end(_processes(data, build.binary))


def clean_up(data: Path, build: Build, *, own_ipc: bool) -> None:
    """Remove the System V segment that a killed server leaves in the host's namespace; kill its other processes."""
    if not own_ipc:
        with suppress(OSError, ValueError, IndexError):
            # Line 7: the segment's key and number (pidfile.h).
            segment = int((data / "postmaster.pid").read_text().splitlines()[6].split()[1])
            ctypes.CDLL(None, use_errno=True).shmctl(segment, _IPC_RMID, None)
    _wait_until_gone(data, build.binary)


def _wait_until_gone(data: Path, binary: Path) -> None:
    """Wait until a server's processes end, as they do after their postmaster's end; kill those that remain."""
    for seconds in (_CHILDREN_SECONDS, _KILLED_SECONDS):
        deadline = time.monotonic() + seconds
        while left := _processes(data, binary):
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        _end(left)


def _end(processes: list[int]) -> None:
    for pid in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _processes(data: Path, binary: Path) -> list[int]:
    """Return the processes that run the server's program in this data directory: all processes of one server do."""
    folder, program, found = str(data.resolve()), str(binary.resolve()), []
    for pid in processes():
        # Skip a process that has ended meanwhile, or that belongs to another user.
        with suppress(OSError):
            entry = Path(f"/proc/{pid}")
            if os.readlink(entry / "cwd") == folder and _program(entry) in (program, None):
                found.append(pid)
    return found


def _program(entry: Path) -> str | None:
    """Return a process's program; None if the process is ending: the kernel frees its memory before its folder in
    /proc."""
    try:
        return os.readlink(entry / "exe")
    except FileNotFoundError:
        return None
