"""One PostgreSQL process: its configuration file, start and end. This file knows no data and no workload.

A private server listens on a Unix socket in a folder that only its user may enter, and on nothing else. Its System V
shared memory is in a private namespace where the host allows that, so nothing of it is left even when everything is
killed. Elsewhere bufferlab removes the segment that postmaster.pid names (ipc: pg_shmem.h, sysv_shmem.c).
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres.control import PORT
from bufferlab.engines.postgres.failure import failure
from bufferlab.engines.servers import process
from bufferlab.engines.servers.boot import ServerProcess
from bufferlab.engines.servers.builds import Build

_IPC_RMID = 0
_CHILDREN_SECONDS = 5.0
"""The seconds that server processes may take to see that their postmaster has gone."""
_KILLED_SECONDS = 30.0
"""The seconds that a killed process may take: it can wait in the kernel for a slow disk."""
_OURS = frozenset(
    ("data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "listen_addresses", "port",
     "unix_socket_directories", "unix_socket_permissions", "unix_socket_group", "logging_collector", "log_destination",
     "log_directory", "shared_preload_libraries", "session_preload_libraries", "local_preload_libraries",
     "dynamic_library_path", "restart_after_crash", "max_wal_senders", "archive_command", "archive_library",
     "archive_mode", "restore_command", "ssl", "password_encryption", "dynamic_shared_memory_type",
     "shared_memory_type", "max_connections", "include", "include_dir", "include_if_exists")
)  # fmt: skip
"""The variables that a private server's safety, or a run's meaning, rests on; a user cannot pass them through."""


def configuration_file(
    data: Path, home: Path, socket_folder: Path, connections: int, settings: Mapping[str, str], *, own_ipc: bool
) -> str:
    """Return the text of postgresql.conf: what a private server needs, then what was asked. It holds no credentials."""
    for name, value in settings.items():
        if name.lower() in _OURS:
            raise EngineFailure("usage", f"{name} is bufferlab's to set", f"var.{name}", "leave it out")
        if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_.]*", name) or re.search(r"[\x00-\x1f\"'\\]", value):
            what = f"{name} = {value!r} does not fit into a configuration file"
            raise EngineFailure("usage", what, f"var.{name}", None)
    places = {"data_directory": data, "hba_file": home / "hba.conf", "ident_file": home / "ident.conf",
              "unix_socket_directories": socket_folder}  # fmt: skip
    lines = ["# Where things are. Listens on the socket alone."]
    lines += [f"{name} = {_quoted(str(place))}" for name, place in places.items()]
    lines += ["listen_addresses = ''", f"port = {PORT}", "unix_socket_permissions = 0700"]
    lines += ["logging_collector = off", "log_destination = 'stderr'", "log_timezone = 'GMT'", "timezone = 'GMT'"]
    lines += ["", "# It ends when one of its processes crashes, and its queries when we are gone."]
    lines += ["restart_after_crash = off", "client_connection_check_interval = '1s'"]
    # POSIX segments would stay in /dev/shm when all is killed; System V segments end with the namespace.
    lines += [f"dynamic_shared_memory_type = {'sysv' if own_ipc else 'mmap'}"]
    lines += ["", "# Nothing beside the workload: no replication."]
    lines += ["max_wal_senders = 0", "max_logical_replication_workers = 0", f"max_connections = {connections + 20}"]
    lines += ["", "# What was asked."]
    lines += [f"{name} = {_quoted(value)}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"


class PostgresProcess(ServerProcess):
    """The process of a running server. It joins the group of `group`, a cgroup.procs file, before it starts."""

    socket_name = f".s.PGSQL.{PORT}"
    stop_signal = signal.SIGINT
    """Fast shutdown: the server rolls transactions back and makes a checkpoint."""
    failure = staticmethod(failure)

    def __init__(
        self, build: Build, data: Path, home: Path, user: tuple[int, int] | None, group: Path | None = None
    ) -> None:
        super().__init__(build, data, home, user)
        self.group = group

    def configuration(self, connections: int, settings: Mapping[str, str]) -> str:
        """Return the text of the configuration file; write the file on who may connect next to it."""
        self.own_ipc = process.can_own_ipc(self.user)
        self.write("hba.conf", "local all all scram-sha-256\n")
        self.write("ident.conf", "")
        return configuration_file(self.data, self.home, self.socket.parent, connections, settings, own_ipc=self.own_ipc)

    def command(self, conf: Path) -> list[str]:
        """Return the command of the postmaster, which reads `conf` in place of the file in its data directory."""
        return [str(self.build.binary), "-D", str(self.data), "-c", f"config_file={conf}"]

    def terminate_now(self) -> None:
        """End the server and its processes at once.

        A stopped process would not see the end, and would keep its client.
        """
        super().terminate_now()
        if self._process is not None:
            _end(_processes(self.data, self.build.binary))

    def kill(self) -> None:
        """Kill the server; afterwards it and its processes are gone in every case."""
        started = self._process is not None
        super().kill()
        if started:
            _wait_until_gone(self.data, self.build.binary)

    def clean_up(self) -> None:
        """Remove the System V segment that a killed server leaves in the host's own namespace."""
        if self.own_ipc:
            return
        with suppress(OSError, ValueError, IndexError):
            # Line 7: the segment's key and number (pidfile.h).
            segment = int((self.data / "postmaster.pid").read_text().splitlines()[6].split()[1])
            ctypes.CDLL(None, use_errno=True).shmctl(segment, _IPC_RMID, None)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _wait_until_gone(data: Path, binary: Path) -> None:
    """Wait until a server's processes end, as they do when they see that their postmaster has; then end the rest."""
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
    """Return the processes of the server's own program that work in this data directory, as all of a server's do."""
    folder, program, found = str(data.resolve()), str(binary.resolve()), []
    for entry in Path("/proc").iterdir():
        # The process is gone meanwhile, or another user's.
        with suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "cwd") == folder and _program(entry) in (program, None):
                found.append(int(entry.name))
    return found


def _program(entry: Path) -> str | None:
    """Return the program of a process; None if it is ending: the kernel takes its memory before its folder."""
    try:
        return os.readlink(entry / "exe")
    except FileNotFoundError:
        return None
