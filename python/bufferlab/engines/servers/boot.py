"""One server process: its configuration file, start, readiness, and end. Knows no data, no accounts, no workload.

A private server listens on a Unix socket in a folder that only its user may enter, and on nothing else.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from bufferlab import marked
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers import process
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.user import give
from bufferlab.errors import EnvironmentLackingError

READY_SECONDS = 120.0
_SOCKET_BYTES_MAX = 107
"""sun_path of sockaddr_un has 108 bytes, one of them the end (unix(7))."""
_SHORT = "bufferlab-socket-"
_POLL_SECONDS = 0.05

OnWait = Callable[[str], None]
"""Told now and then what is waited for; may raise to give up."""


class ServerProcess(ABC):
    """A running server. `home` holds its configuration, socket, log and temporary files, and is its user's own.

    Each family says what its own is called, how it is configured, and by what command it is started.
    """

    socket_name: str
    stop_signal = signal.SIGTERM
    """What asks it to stop."""
    own_ipc = False
    """Is it started in an IPC namespace of its own?"""
    group: Path | None = None
    """The cgroup.procs of the group it joins before it starts."""

    @staticmethod
    @abstractmethod
    def failure(what: str, code: int | None, log: Path) -> EngineFailure:
        """Why it failed, from how it ended and the end of its log."""

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
        """Start it; the text of its configuration file. It is not ready yet."""
        make_home(self.home, self.user)
        self.socket = self._place_socket()
        text = self.configuration(connections, settings)
        conf = self.write("engine.conf", text)
        # The log is opened by us and inherited, so that what the loader and a dying server say is in it too.
        with self.log.open("ab") as log:
            give(self.log, self.user)
            self._process = process.start(
                self.command(conf),
                user=self.user,
                libraries=self.build.libraries,
                output=log,
                folder=self.home,
                own_ipc=self.own_ipc,
                group=self.group,
            )
        return text

    @abstractmethod
    def configuration(self, connections: int, settings: Mapping[str, str]) -> str:
        """The text of its configuration file."""

    @abstractmethod
    def command(self, conf: Path) -> list[str]:
        """The server, which reads `conf` and no other file."""

    def clean_up(self) -> None:  # noqa: B027 - most families leave nothing.
        """What its sudden end may have left outside its folders is removed."""

    def write(self, name: str, text: str) -> Path:
        """A file in the server's folder, which its user alone may read."""
        path = self.home / name
        path.write_text(text)
        path.chmod(0o600)
        give(path, self.user)
        return path

    def wait_until(self, ready: Callable[[], bool], on_wait: OnWait, seconds: float = READY_SECONDS) -> None:
        """Until `ready` says so; EngineFailure when the process ends first, or takes longer."""
        deadline = time.monotonic() + seconds
        while not ready():
            self.require_alive("the server did not start")
            if time.monotonic() > deadline:
                self.kill()
                raise self.failure(f"the server was not ready after {seconds:g} s", None, self.log)
            on_wait("starting")
            time.sleep(_POLL_SECONDS)

    def require_alive(self, what: str) -> None:
        """EngineFailure, with the end of the log, when the server has ended."""
        code = self.ended()
        if code is not None:
            raise self.failure(what, code, self.log)

    def ended(self) -> int | None:
        """Its exit code, once it has ended."""
        return None if self._process is None else self._process.poll()

    def stop(self, on_wait: OnWait, seconds: float) -> None:
        """A clean end; EngineFailure when it takes longer than that and is killed, or ends badly."""
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
        """End it at once, and remember that this was wanted."""
        self.abandoned = True
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def kill(self) -> None:
        """Whatever happened, it is gone afterwards, and so is its socket."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self.clean_up()
        if self._process is not None:  # What stood there before a server of ours was started is somebody else's.
            with suppress(OSError):
                self.socket.unlink()
        self._short.close()

    def _place_socket(self) -> Path:
        """In the server's folder; where its path would be too long, in a short one of the same privacy."""
        socket = self.home / self.socket_name
        # The server also makes a lock beside it (socket.lock), which may not be longer than it can name.
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
    """The server's own folder, 0700, with a folder for temporary files."""
    for folder in (home, home / "tmp"):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        folder.chmod(0o700)
        give(folder, user)


def unique_home(near: Path) -> Path:
    """A folder for a server that does not exist yet."""
    return near / f"server-{secrets.token_hex(4)}"
