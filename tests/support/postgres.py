"""Private PostgreSQL servers for tests: fetched if they are missing, in folders that their user can enter."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bufferlab.engines import registry
from bufferlab.engines.postgres import cluster, programs
from bufferlab.engines.postgres import programs as servers
from bufferlab.engines.postgres.family import PostgresFamily
from bufferlab.engines.servers import child_process, data_folder, signs_of_life, user
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.data_folder import Identity
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError
from support.core import usual_cache
from support.innodb import folder

__all__ = ["ALL", "EVERY_DAY", "Place", "build", "folder", "gone", "listening", "processes"]

EVERY_DAY = ("postgres-15", "postgres-17")
"""The servers that ./test boots: one from before and one from after pg_stat_checkpointer existed. The others need
--all."""
OTHERS = tuple(name for name in programs.PACKAGES if name not in EVERY_DAY)
ALL = [*EVERY_DAY, *(pytest.param(name, marks=[pytest.mark.servers, pytest.mark.slow]) for name in OTHERS)]


@cache
def build(name: str) -> Build:
    """Return the server of that name, fetched if necessary; skip the test with a message if it cannot be fetched."""
    with usual_cache():
        try:
            return servers.find(name)
        except EnvironmentLackingError:
            pass
        try:
            registry.fetch_server(name, print)
            return servers.find(name)
        except EnvironmentLackingError as error:
            pytest.skip(f"NOT TESTED: {name} cannot be had here: {error}")


def gone(pid: int, within_seconds: float = 5.0) -> bool:
    """Return whether the process ended in time. A zombie counts as ended: only its parent has not reaped it yet."""
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def processes(root: Path) -> list[int]:
    """Return the processes that still run on a database below this folder: postmasters and their orphaned children."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            folder, command = os.readlink(entry / "cwd"), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if folder.startswith(str(root)) or os.fsencode(root) in command:
            found.append(int(entry.name))
    return found


@dataclass
class Place:
    """A cluster in the making, and the folder that the server uses besides."""

    build: Build
    root: Path
    settings: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    @property
    def database(self) -> Path:
        return self.root / "database"

    @property
    def data(self) -> Path:
        return self.database / "data"

    @property
    def home(self) -> Path:
        return self.root / "server"

    @property
    def identity(self) -> Identity:
        return data_folder.read_identity(self.database)

    def initialise(self, checksums: bool = False) -> Place:
        """Make a new cluster that contains the workload's database, as a load does."""
        owner = user.server_user()
        self.database.mkdir(mode=0o700)
        user.give(self.database, owner)
        identity = data_folder.new_identity(self.build, 8192)
        wait = signs_of_life.patience(self.events.append, lambda: False)
        knobs = {"data_checksums": "on" if checksums else "off"}
        cluster.make(self.build, self.database, identity, knobs, {}, owner, wait)
        data_folder.store_identity(self.database, identity, owner)
        with self.server() as server:
            connection = server.connect("postgres")
            connection.ask("CREATE DATABASE bufferlab")
            connection.close()
        return self

    def server(self, login: tuple[str, str] | None = None, **options: Any) -> PrivateServer:
        settings = {"shared_buffers": "16MB", "autovacuum": "off", **self.settings, **options.pop("settings", {})}
        identity = self.identity
        return PrivateServer(
            PostgresFamily(),
            self.build,
            self.data,
            self.home,
            user=user.server_user(),
            login=login or (identity.user, identity.password),
            settings=settings,
            **options,
        )


@contextmanager
def listening(place: Place, rules: str, **settings: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start a server of that cluster on a port of the loopback; yield its port and its process. PostgreSQL has TLS only
    on TCP.

    Private servers listen on their Unix socket. `rules` has the lines of pg_hba.conf.
    """
    (place.data / "pg_hba.conf").write_text(rules)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": "", **settings}
    binary, libraries = place.build.binary, place.build.libraries
    arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    command = child_process.loaded([str(binary), "-D", str(place.data), *arguments], libraries)
    uid, gid = user.server_user() or (None, None)
    log = place.root / "listening.log"
    with log.open("w") as out:
        running = subprocess.Popen(
            command, env=child_process.environment(libraries), stdout=out, stderr=out, user=uid, group=gid
        )
    try:
        for _ in range(300):
            if _answers(port):
                break
            assert running.poll() is None, log.read_text()
            time.sleep(0.1)
        yield port, running
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(60)


def _answers(port: int) -> bool:
    """Return whether the server answers a log-in, by accepting or refusing it; then it has finished starting."""
    try:
        psycopg.connect(host="127.0.0.1", port=port, user="nobody", dbname="none", connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return not any(words in str(error) for words in ("refused", "starting up"))
    return True
