"""One server process: its configuration file, start, readiness and end. Knows neither data, accounts nor workloads.

A private server listens on a Unix socket in a folder that only its user may enter, and on nothing else.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from bufferlab import marked
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers import child_process
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.page_sites import Recording
from bufferlab.engines.servers.user import give
from bufferlab.errors import EnvironmentLackingError

INITIALISE_SECONDS = 300.0
READY_SECONDS = 120.0
_SOCKET_BYTES_MAX = 107
"""sun_path of sockaddr_un has 108 bytes, one of them the end (unix(7))."""
_SHORT = "bufferlab-socket-"
_POLL_SECONDS = 0.05

OnWait = Callable[[str], None]
"""Called now and then with what is waited for, such as "starting"; may raise to give up."""


class ServerProcess(ABC):
    """The process of one server. Its user owns `home`, which holds its configuration, socket, log and temporary files.

    Each family implements its configuration, and tells its socket's name and the arguments that start it.
    """

    socket_name: str
    arguments: tuple[str, ...]
    """The arguments of the server's program, with places for {conf} and {data}: it reads no other option file."""
    failure: Callable[[str, int | None, Path], EngineFailure]
    """Returns the failure with that text, explained by the exit code (None: it did not end) and the end of the log."""
    stop_signal = signal.SIGTERM
    """The signal that asks the server to stop cleanly."""
    own_ipc = False
    """Whether the server is started in a separate IPC namespace."""
    group: Path | None = None
    """The cgroup.procs of the group that the process joins before it becomes the server; None: no group."""
    watch: Recording | None = None
    """The trace of the process's page accesses, from its start on; None: nobody records it."""

    def __init__(self, build: Build, data: Path, home: Path, user: tuple[int, int] | None) -> None:
        self.build, self.data, self.home, self.user = build, data, home, user
        self.log = home / "server.log"
        self._short = ExitStack()
        """Holds the folder of a socket whose path would be too long in `home`."""
        self.socket = home / self.socket_name
        self._process: subprocess.Popen[bytes] | None = None
        self.abandoned = False

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    def start(self, connections: int, settings: Mapping[str, str]) -> str:
        """Start the server; return the text of its configuration file. The server is not ready yet."""
        make_home(self.home, self.user)
        self.socket = self._place_socket()
        text = self.configuration(connections, settings)
        conf = self.write("engine.conf", text)
        # We open the log and the server inherits it, so that it also has what the loader and a dying server say.
        with self.log.open("ab") as log:
            give(self.log, self.user)
            self._process = child_process.start(
                self.command(conf),
                user=self.user,
                libraries=self.build.libraries,
                output=log,
                folder=self.home,
                own_ipc=self.own_ipc,
                group=self.group,
                watch=self.watch.attach if self.watch else None,
                preload=self.watch.preload(self.home) if self.watch else None,
            )
        return text

    @abstractmethod
    def configuration(self, connections: int, settings: Mapping[str, str]) -> str:
        """Return the text of the configuration file: this many connections, then `settings` by the server's names.

        Before: `home` and `socket` are final. The server must listen on `socket` and on nothing else.
        """

    def command(self, conf: Path) -> list[str]:
        """Return the command that runs the server in the foreground."""
        return [str(self.build.binary), *(argument.format(conf=conf, data=self.data) for argument in self.arguments)]

    def clean_up(self) -> None:  # noqa: B027 - most families leave nothing.
        """Remove what a killed server may have left outside its folders. Called after its process is gone."""

    def write(self, name: str, text: str) -> Path:
        """Write a file into the server's folder, readable by its user alone; return its path."""
        path = self.home / name
        path.write_text(text)
        path.chmod(0o600)
        give(path, self.user)
        return path

    def wait_until(self, ready: Callable[[], bool], on_wait: OnWait, seconds: float = READY_SECONDS) -> None:
        """Wait until `ready` returns True. Raise EngineFailure when the process ends first, or is not ready in time.

        A server that was not ready in time is killed.
        """
        deadline = time.monotonic() + seconds
        while not ready():
            self.require_alive("the server did not start")
            if time.monotonic() > deadline:
                self.kill()
                raise self.failure(f"the server was not ready after {seconds:g} s", None, self.log)
            on_wait("starting")
            time.sleep(_POLL_SECONDS)

    def require_alive(self, what: str) -> None:
        """Raise EngineFailure, with the end of the log, when the server has ended."""
        code = self.ended()
        if code is not None:
            raise self.failure(what, code, self.log)

    def ended(self) -> int | None:
        """Return the exit code; None while the server lives, and before it was started."""
        return None if self._process is None else self._process.poll()

    def stop(self, on_wait: OnWait, seconds: float) -> None:
        """Ask the server to stop and wait for it; afterwards no process of it lives.

        Raise EngineFailure when it takes longer than `seconds`, and is killed, or when it ends badly.
        """
        if self._process is None:
            return
        try:
            self.require_alive("the server ended by itself")
            self._process.send_signal(self.stop_signal)
            deadline = time.monotonic() + seconds
            while self.ended() is None:
                if time.monotonic() > deadline:
                    what = f"the server did not stop within {seconds:g} s, and was killed"
                    raise self.failure(what, None, self.log)
                on_wait("stopping")
                time.sleep(_POLL_SECONDS)
            if self.ended() != 0:
                raise self.failure("the server did not stop cleanly", self.ended(), self.log)
        finally:
            self.kill()

    def terminate_now(self) -> None:
        """Kill the server at once, and note in `abandoned` that this was wanted. Does not wait for its end."""
        self.abandoned = True
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def kill(self) -> None:
        """Kill the server if it still lives, wait for its end, and remove its socket. May be called again."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self.clean_up()
        if self._process is not None:  # A socket that was there before we started a server belongs to somebody else.
            with suppress(OSError):
                self.socket.unlink()
        self._short.close()

    def _place_socket(self) -> Path:
        """Return the socket's path: in the server's folder or, if that path is too long, in a short private folder.

        Raise EnvironmentLackingError when a socket is there already.
        """
        socket = self.home / self.socket_name
        # The server also makes a lock (socket.lock), whose path must fit too.
        if len(os.fsencode(socket)) > _SOCKET_BYTES_MAX - len(".lock"):
            place = Path("/tmp").resolve()
            marked.remove_leftovers(place, f"{_SHORT}*")
            short = self._short.enter_context(marked.folder(place, f"{_SHORT}{secrets.token_hex(8)}"))
            give(short, self.user)
            socket = short / self.socket_name
        if socket.exists() or socket.is_symlink():
            raise EnvironmentLackingError(
                "there is a socket already: another server may be using this folder",
                str(socket),
                "each run needs a folder of its own; remove it if no server runs",
            )
        return socket


def make_home(home: Path, user: tuple[int, int] | None) -> None:
    """Make the server's folder (mode 0700, owned by `user`) with a tmp/ in it; both may exist already."""
    for folder in (home, home / "tmp"):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        folder.chmod(0o700)
        give(folder, user)


def make_data(
    command: Sequence[str],
    build: Build,
    home: Path,
    user: tuple[int, int] | None,
    failure: Callable[[str, int | None, Path], EngineFailure],
    on_wait: OnWait,
    *,
    stdin: IO[Any] | int = subprocess.DEVNULL,
    own_ipc: bool = False,
) -> None:
    """Run the program that makes a data directory, to its end; raise `failure` of its log when it did not succeed."""
    log = home / "initialise.log"
    with log.open("ab") as output:
        give(log, user)
        running = child_process.start(
            command, user=user, libraries=build.libraries, output=output, folder=home, stdin=stdin, own_ipc=own_ipc
        )
    deadline = time.monotonic() + INITIALISE_SECONDS
    try:
        while running.poll() is None:
            if time.monotonic() > deadline:
                raise failure(f"the data directory was not made within {INITIALISE_SECONDS:g} s", None, log)
            on_wait("initialising")
            time.sleep(_POLL_SECONDS)
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()
    if running.returncode != 0:
        raise failure("the data directory could not be made", running.returncode, log)
