"""Starts a server's binary as a child that cannot outlive bufferlab, and explains why a server failed.

The kernel ties the death signal to the thread that starts the child. So call this from a thread that lives as long as
the server must (a worker's main thread).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.errors import EnvironmentLackingError

_LAUNCH = Path(__file__).with_name("launch.py")
_TAIL_LINES = 15
_FAILURE_LINES = 60
_TAIL_BYTES = 64 << 10
LOADER = "ld-linux*.so.*"
"""The file name of the dynamic loader, which loads a program and its shared libraries, as a glob pattern (ld.so(8))."""
_MISSING = re.compile(r"error while loading shared libraries: (\S+?):")

LIBRARY_PACKAGES = {
    "libaio.so.1": "libaio1",
    "libnuma.so.1": "libnuma1",
    "libncurses.so.5": "libncurses5",
    "libtinfo.so.5": "libtinfo5",
    "libcrypt.so.1": "libcrypt1",
    "liburing.so.2": "liburing2",
    "libpcre2-8.so.0": "libpcre2-8-0",
    "libstdc++.so.6": "libstdc++6",
    "libpq.so.5": "libpq5",
    "liblz4.so.1": "liblz4-1",
    "libsnappy.so.1": "libsnappy1v5",
    "libzstd.so.1": "libzstd1",
    "libldap-2.5.so.0": "libldap-2.5-0",
    "libxml2.so.2": "libxml2",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libicui18n.so.72": "libicu72",
    "libpam.so.0": "libpam0g",
    "libsystemd.so.0": "libsystemd0",
    "libssl.so.3": "libssl3",
    "libsasl2.so.2": "libsasl2-2",
    "libxslt.so.1": "libxslt1.1",
    "libselinux.so.1": "libselinux1",
    "libuuid.so.1": "libuuid1",
}
"""For each library that a server may need, its package in Debian 12."""
_RENAMED = {"libaio1": "libaio1t64", "libssl3": "libssl3t64"}
"""The packages that Debian 13 renamed, with their new names."""


@dataclass(frozen=True)
class Preload:
    """The environment and the descriptor by which a program loads bufferlab's recording library before it begins."""

    environment: Mapping[str, str]
    """The environment variables for the program, besides those that the function `environment` returns."""
    descriptor: int
    """A descriptor that the program inherits from this process."""


def start(
    program: Sequence[str],
    *,
    user: tuple[int, int] | None,
    libraries: Path | None,
    output: IO[Any] | int,
    folder: Path,
    stdin: IO[Any] | int = subprocess.DEVNULL,
    own_ipc: bool = False,
    own_net: bool = False,
    group: Path | None = None,
    watch: Callable[[int], None] | None = None,
    preload: Preload | None = None,
) -> subprocess.Popen[bytes]:
    """Start the program in `folder` as `user` (None: as bufferlab's user), with stdout and stderr going to `output`.

    `own_ipc` starts it in a new IPC namespace with its own /dev/shm (see `can_own_ipc`), `own_net` in a new namespace
    without a network (see `require_own_net`). `group` is the file cgroup.procs of the cgroup that it joins. `watch` is
    called with the new PID before the program's first instruction; if it raises, the program does not run.
    """
    gate, opened = os.pipe() if watch else (-1, -1)
    try:
        process = subprocess.Popen(
            [*_launch(user, own_ipc, group, gate, own_net=own_net), *loaded(program, libraries)],
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment(libraries), **_later(preload.environment if preload else {})},
            cwd=folder,
            pass_fds=(*((gate,) if watch else ()), *((preload.descriptor,) if preload else ())),
        )
        if watch:
            try:
                watch(process.pid)
                os.write(opened, b"\n")
            except BaseException:
                process.kill()
                process.wait()
                raise
    finally:
        for end in (gate, opened):
            if end >= 0:
                os.close(end)
    return process


@cache
def can_own_ipc(user: tuple[int, int] | None) -> bool:
    """Return whether a child may have its own shared memory. The first call tries it.

    Some containers and systems forbid the namespaces that this needs.
    """
    return _refusal(_launch(user, True, None)) is None


@cache
def require_own_net(user: tuple[int, int] | None) -> None:
    """Raise EnvironmentLackingError if this host cannot start a child without network. The result is cached."""
    if (said := _refusal(_launch(user, False, None, own_net=True))) is not None:
        raise EnvironmentLackingError(
            "a server that restores a dump runs without a network, and this host gives it no network namespace",
            said,
            "run it as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone, or the container's "
            "CAP_SYS_ADMIN)",
        )


def _refusal(launch: Sequence[str]) -> str | None:
    """Start a program that does nothing; return None if that works, else the error's text."""
    tried = subprocess.run(
        [*launch, "/bin/true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    return None if tried.returncode == 0 else tried.stderr.decode("utf-8", "replace").strip()


def can_join(group: Path) -> str | None:
    """Try whether a child can join the cgroup of this cgroup.procs; return None, or the error's text."""
    return _refusal(_launch(None, False, group))


def launched(command: Sequence[str]) -> list[str]:
    """Return a command that runs `command`, and asks the kernel to kill it when this process ends."""
    return [*_launch(None, False, None), *command]


def _launch(
    user: tuple[int, int] | None, own_ipc: bool, group: Path | None, gate: int = -1, *, own_net: bool = False
) -> list[str]:
    uid, gid = user or (-1, -1)
    start = [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), str(uid), str(gid)]
    return [*start, str(own_ipc + 2 * own_net), str(group or "-"), str(gate)]


def environment(libraries: Path | None) -> Mapping[str, str]:
    """Return a child's environment: PATH, TZ and the libraries, but no settings of the user (my.cnf, proxy, locale).

    Libraries that include a dynamic loader are left to `loaded`: with another libc, programs of this machine would not
    start.
    """
    kept = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
    named = {"LD_LIBRARY_PATH": str(libraries)} if libraries and not _loader(libraries) else {}
    return {**kept, "LC_ALL": "C", **named}


def _later(variables: Mapping[str, str]) -> dict[str, str]:
    """Rename the variables so that only the program gets them.

    launch.py, which may be root, must not load their libraries.
    """
    return {f"BUFFERLAB_LATER_{name}": value for name, value in variables.items()}


def loaded(program: Sequence[str], libraries: Path | None) -> list[str]:
    """Return the command that runs the program with its libraries, through their own dynamic loader if any."""
    loader = _loader(libraries)
    return [*([str(loader), "--library-path", str(libraries)] if loader else []), *program]


def _loader(libraries: Path | None) -> Path | None:
    return next(libraries.glob(LOADER), None) if libraries else None


def tail(log: Path, lines: int | None = _TAIL_LINES) -> str:
    """Return the last lines of a log, or all of its last 64 KiB if `lines` is None; "" without a log.

    Symbolic links are not followed: the server's user may create one.
    """
    try:
        with os.fdopen(os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.strip().splitlines()[-(lines or 0) :])


def missing_library(text: str) -> str | None:
    """Return the shared library that the dynamic loader did not find, from its message; None if the text names none."""
    found = _MISSING.search(text)
    return found[1] if found else None


def lacks(library: str) -> str:
    """Return the sentence about a server that lacks this shared library, with the package that contains it."""
    package = LIBRARY_PACKAGES.get(library, "not known: `apt-file search` tells it")
    renamed = f"; Debian 13 and later: {_RENAMED[package]}" if package in _RENAMED else ""
    return f"the server lacks {library} (package {package}{renamed})"


class MissingLibraryError(EnvironmentLackingError):
    """The error for a server's binary that needs a shared library which this machine does not have."""

    def __init__(self, library: str, binary: Path) -> None:
        super().__init__(lacks(library), str(binary), "install the package")
        self.library = library


def require_libraries(plugin: Path, libraries: Path | None) -> None:
    """Raise MissingLibraryError if a plug-in needs a shared library that its server would not find (ldd(1))."""
    said = subprocess.run(
        ["ldd", str(plugin)], stdin=subprocess.DEVNULL, env=environment(libraries), capture_output=True, text=True,
        check=False,
    ).stdout  # fmt: skip
    if found := re.search(r"(\S+) => not found", said):
        raise MissingLibraryError(found[1], plugin)


def ended_by(code: int) -> str:
    """Return in words how a process ended, given its exit code (negative: the signal that killed it)."""
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def failed(
    what: str,
    code: int | None,
    log: Path,
    *,
    refused: Callable[[str, str, str], EngineFailure | None] = lambda text, what, place: None,
    disk_full: Sequence[str] = ("No space left",),
    grave: str = "ERROR|FATAL",
    beside: str = "Warning",
) -> EngineFailure:
    """Return why a server's process failed, given its exit status and the end of its log.

    A missing shared library and a full disk (the words in `disk_full`) are recognised first. Then `refused` gets the
    log's text, what happened and the log's path; it returns a failure if it recognises a cause in the text. Otherwise
    the failure quotes the last lines that match `grave`; without such lines, the last ones that do not match `beside`.
    """
    text, place = tail(log, _FAILURE_LINES), str(log)
    if library := missing_library(text):
        return EngineFailure("environment", lacks(library), place, "install the package")
    if any(words in text for words in disk_full):
        return EngineFailure("full_disk", f"{what}: the disk is full", place, "free some space")
    if found := refused(text, what, place):
        return found
    ended = "" if code is None else f" ({ended_by(code)})"
    lines = text.splitlines()
    last = [line for line in lines if re.search(grave, line)][-6:]
    said = "\n".join(last or [line for line in lines if not re.search(beside, line)][-4:]) or "nothing"
    return EngineFailure("engine", f"{what}{ended}; its log ends with:\n{said}", place, "see the server's log")
