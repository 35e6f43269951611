"""Runs a private server as a context manager: the server is ready inside the `with` block, and has ended after it.

The server listens only on a Unix socket in a folder that only its user may enter. A family implements the differences
between servers. This module knows no data, no accounts and no workloads.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from bufferlab import marked
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers import child_process
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import DATABASE
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, CHANGE_SECONDS, AccessDenied, Address, private
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.page_sites import Recording
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.engines.servers.user import give, make_folder_for, open_log, require_reachable, write_for
from bufferlab.errors import EnvironmentLackingError

INITIALISE_SECONDS = 300.0
READY_SECONDS = 120.0
STOP_SECONDS = 120.0
_SILENT_HINT = "it was stopped or waited for its device: see its log, and the kernel's (dmesg)"
_SOCKET_BYTES_MAX = 107
"""The longest socket path: sun_path of sockaddr_un has 108 bytes, one of them the terminating zero (unix(7))."""
SHORT_SOCKETS = "bufferlab-socket-"
"""The prefix of folders in /tmp, each for one socket whose path in the server's folder would be too long."""
_POLL_SECONDS = 0.02


@dataclass(eq=False, repr=False)
class PrivateServer:
    """A context manager for one private server.

    Entering starts it and waits until it answers; leaving stops it, or kills it after an exception. Both raise
    EngineFailure, with the end of the server's log, if the server does not start, ends while it is used, or does not
    stop. Entering also raises EnvironmentLackingError if the server's user cannot reach its folders. After leaving, and
    after a failed entry, no process of the server runs.
    """

    family: Family
    build: Build
    data: Path
    home: Path
    """The folder of the server's configuration, socket, log and temporary files."""
    _: KW_ONLY
    user: tuple[int, int] | None
    """The (uid, gid) that the server runs as, which will own `home`; None for bufferlab's user."""
    login: tuple[str, str]
    settings: Mapping[str, str]
    """The server variables, by name, with which the server starts."""
    connections: int = 1
    on_wait: OnWait = lambda what: None
    ready_seconds: float = READY_SECONDS
    stop_seconds: float = STOP_SECONDS
    trace: Recording | None = None
    """The trace of the server's page accesses, from its start on; None if they are not recorded."""
    group: Path | None = None
    """The cgroup.procs of the cgroup that the process joins before it becomes the server; None if it joins none."""
    own_net: bool = False
    """Whether the server gets no network; entering raises EnvironmentLackingError if the host cannot do that."""
    conf: str = field(default="", init=False)
    """The text of the server's option file; "" before the start."""
    _short: ExitStack = field(default_factory=ExitStack, init=False)
    """Removes the folder of a socket whose path in `home` would be too long."""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _own_ipc: bool = field(default=False, init=False)
    _abandoned: bool = field(default=False, init=False)
    _silence: str | None = field(default=None, init=False)

    answer_seconds = ANSWER_SECONDS
    """The seconds without an answer after which a server counts as hung, and is killed."""

    def __post_init__(self) -> None:
        self.log = self.home / "server.log"
        """The path of the server's error log."""
        self.socket = self.home / self.family.socket_name
        """The path of the Unix socket on which the server listens; it may change at the start."""

    @property
    def address(self) -> Address:
        """Return the address of the workload's database on this server, with the current login (`log_in_as`)."""
        socket = self.socket.parent if self.family.socket_is_folder else self.socket
        return private(str(socket), *self.login, DATABASE, self.family.form.port)

    @property
    def pid(self) -> int:
        """Return the server's PID; valid after the start."""
        assert self._process is not None
        return self._process.pid

    def connect(self, database: str | None = None, *, patient: bool = False) -> Client:
        """Open a control connection with the current login; the caller closes it.

        `database` None means the family's default. `patient` removes the time limit of statements.
        """
        return self.family.connect(self.address, database, seconds=None if patient else CHANGE_SECONDS)

    def answers(self) -> bool:
        """Return whether the started server accepts bufferlab's login and statements; leave no connection open.

        Called repeatedly until it returns True. Raises EngineFailure if the server refuses the login.
        """
        try:
            self.family.connect(self.address, self.family.system_database, seconds=self.answer_seconds).close()
        except AccessDenied as error:
            hint = "the data is of another load: delete it, it is loaded again"
            raise EngineFailure("data", str(error), str(self.data), hint) from error
        except self.family.unanswered:
            return False
        return True

    def __enter__(self) -> Self:
        require_reachable(self.data, self.user)
        require_reachable(self.home.parent, self.user)
        if self.own_net:
            child_process.require_own_net(self.user)
        try:
            self._start()
            self._wait_until_it_answers()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None and not self._abandoned:
            self._stop()
            return
        code = self._died()
        self._kill()
        if self._silence is not None:
            raise EngineFailure("engine", self._silence, str(self.log), _SILENT_HINT) from error
        if self._abandoned:
            return
        # Usually the exception is not the cause: connections break because the server has ended.
        if code is not None and isinstance(error, Exception):
            raise self.family.failure("the server ended while it was used", code, self.log) from error

    def listen(self) -> None:
        """Check that the server answers, and kill it if not, so that everything that waits for it ends.

        Called from a second thread during one long statement: the statement's own connection does not show whether the
        server is slow or hung.
        """
        if self._silence is not None or self._ended() is not None:
            return
        asked = time.monotonic()
        try:
            self.family.greet(self.address, self.answer_seconds)
        except self.family.unanswered:
            # A server that ends, or that refuses one more connection, answers at once. The caller of the long statement
            # gets the error.
            if time.monotonic() - asked < self.answer_seconds:
                return
            self._silence = f"the server has not answered for {self.answer_seconds:g} s, and was killed"
            self.abandon()

    def abandon(self) -> None:
        """Kill the server at once, because its data are not needed any more. Its running statements fail.

        May be called from another thread, and does not wait for the server's end.
        """
        self._abandoned = True
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self.family.end_processes(self.data, self.build)

    def require_alive(self, what: str = "the server ended while it was used") -> None:
        """Raise EngineFailure, with the end of the log, if the server has ended."""
        if (code := self._ended()) is not None:
            raise self.family.failure(what, code, self.log)

    def log_in_as(self, user: str, password: str) -> None:
        """Set the login for all later connections."""
        self.login = (user, password)

    def command(self, conf: Path) -> list[str]:
        """Return the command that runs the server in the foreground."""
        arguments = [argument.format(conf=conf, data=self.data) for argument in self.family.arguments]
        return [str(self.build.binary), *arguments]

    def _start(self) -> None:
        make_home(self.home, self.user)
        self.socket = self._place_socket()
        self._own_ipc = self.family.own_ipc and child_process.can_own_ipc(self.user)
        self.conf = self.family.configuration(
            self.build, self.data, self.home, self.socket, self.connections, self.settings, own_ipc=self._own_ipc
        )
        for name, text in {"engine.conf": self.conf, **self.family.further_files}.items():
            write_for(self.home / name, text, self.user)
        # bufferlab opens the log and the server inherits it, so that it also gets the messages of the dynamic loader
        # and of a dying server.
        with open_log(self.log, self.user) as log:
            self._process = child_process.start(
                self.command(self.home / "engine.conf"),
                user=self.user,
                libraries=self.build.libraries,
                output=log,
                folder=self.home,
                own_ipc=self._own_ipc,
                own_net=self.own_net,
                group=self.group,
                preload=self.trace.begin(self.home) if self.trace else None,
            )

    def _wait_until_it_answers(self) -> None:
        """Wait for the first answer.

        Raise EngineFailure if the server ends before, refuses bufferlab's login, or is killed because it takes too
        long.
        """
        deadline = time.monotonic() + self.ready_seconds
        while not self.answers():
            self.require_alive("the server did not start")
            if time.monotonic() > deadline:
                self._kill()
                raise self.family.failure(f"the server was not ready after {self.ready_seconds:g} s", None, self.log)
            self.on_wait("starting")
            time.sleep(_POLL_SECONDS)

    def _ended(self) -> int | None:
        """Return the exit code; None before the start, and while the server runs."""
        return None if self._process is None else self._process.poll()

    def _died(self) -> int | None:
        """Return the server's exit code; None while it runs.

        Waits up to a second, because a connection breaks before its server's process is gone.
        """
        deadline = time.monotonic() + 1.0
        while (code := self._ended()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        return code

    def _stop(self) -> None:
        """Ask the server to stop and wait for it; afterwards none of its processes runs.

        Raise EngineFailure if it takes too long, and is killed, or if it ends with an error.
        """
        assert self._process is not None
        try:
            self.require_alive("the server ended by itself")
            self._process.send_signal(self.family.stop_signal)
            deadline = time.monotonic() + self.stop_seconds
            while self._ended() is None:
                if time.monotonic() > deadline:
                    what = f"the server did not stop within {self.stop_seconds:g} s, and was killed"
                    raise self.family.failure(what, None, self.log)
                self.on_wait("stopping")
                time.sleep(_POLL_SECONDS)
            if self._ended() != 0:
                raise self.family.failure("the server did not stop cleanly", self._ended(), self.log)
        finally:
            self._kill()

    def _kill(self) -> None:
        """Kill the server if it still runs, wait for its end, and remove its socket. May be called again."""
        if self._process is not None:  # If this object started no server, an existing socket belongs to another server.
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            with suppress(OSError):
                self.socket.unlink()
            self.family.clean_up(self.data, self.build, own_ipc=self._own_ipc)
        self._short.close()

    def _place_socket(self) -> Path:
        """Return the socket's path: in the server's folder or, if that path is too long, in a short private folder.

        Raise EnvironmentLackingError if a socket is there already.
        """
        socket = self.home / self.family.socket_name
        # The server also creates a lock file (socket.lock), whose path must fit too.
        if len(os.fsencode(socket)) > _SOCKET_BYTES_MAX - len(".lock"):
            place = Path("/tmp").resolve()
            marked.remove_leftovers(place, f"{SHORT_SOCKETS}*")
            short = self._short.enter_context(marked.folder(place, f"{SHORT_SOCKETS}{secrets.token_hex(8)}"))
            give(short, self.user)
            socket = short / self.family.socket_name
        if socket.exists() or socket.is_symlink():
            raise EnvironmentLackingError(
                "there is a socket already: another server may be using this folder",
                str(socket),
                "each run needs a folder of its own; remove it if no server runs",
            )
        return socket


def make_home(home: Path, user: tuple[int, int] | None) -> None:
    """Create the server's folder (mode 0700, owned by `user`) with a tmp/ in it; both may exist already."""
    for folder in (home, home / "tmp"):
        make_folder_for(folder, user)


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
    """Run the program that creates a data directory. Raise `failure` with its log if it fails or takes too long."""
    log = home / "initialise.log"
    with open_log(log, user) as output:
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
