"""One PostgreSQL process: its start and end. This file knows no data and no workload.

A private server listens on a Unix socket in a folder that only its user may enter, and on nothing else. Its System V
shared memory is in a private namespace where the host allows that, so nothing of it is left even when everything is
killed. Elsewhere bufferlab removes the segment that postmaster.pid names (ipc: pg_shmem.h, sysv_shmem.c).
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bufferlab.engines.postgres.control import PORT
from bufferlab.engines.postgres.failure import failure
from bufferlab.engines.postgres.postgresql_conf import configuration_file
from bufferlab.engines.servers import child_process
from bufferlab.engines.servers.server_process import ServerProcess

_IPC_RMID = 0
_CHILDREN_SECONDS = 5.0
"""The seconds that server processes may take to see that their postmaster has gone."""
_KILLED_SECONDS = 30.0
"""The seconds that a killed process may take: it can wait in the kernel for a slow disk."""


class PostgresProcess(ServerProcess):
    """The process of a running server."""

    socket_name = f".s.PGSQL.{PORT}"
    stop_signal = signal.SIGINT
    """Fast shutdown: the server rolls transactions back and makes a checkpoint."""
    # In place of the file in its data directory.
    arguments = ("-D", "{data}", "-c", "config_file={conf}")
    failure = staticmethod(failure)

    def configuration(self, connections: int, settings: Mapping[str, str]) -> str:
        """Return the text of the configuration file; write the file on who may connect next to it."""
        self.own_ipc = child_process.can_own_ipc(self.user)
        self.write("hba.conf", "local all all scram-sha-256\n")
        self.write("ident.conf", "")
        return configuration_file(self.data, self.home, self.socket.parent, connections, settings, own_ipc=self.own_ipc)

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
