"""Private PostgreSQL servers for tests: fetched when they are missing, in folders that their user can reach."""

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
"""The servers that ./test boots: before and after the checkpointer had a view of its own. The others take --all."""
OTHERS = tuple(name for name in programs.PACKAGES if name not in EVERY_DAY)
ALL = [*EVERY_DAY, *(pytest.param(name, marks=[pytest.mark.servers, pytest.mark.slow]) for name in OTHERS)]


@cache
def build(name: str) -> Build:
    """The server of that name, fetched if need be; skipped, loudly, where it cannot be had."""
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
    """Has the process ended? A zombie has: only its parent's notice is outstanding."""
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
    """Processes that still run on a database below this folder: postmasters, and those that were left of them."""
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
    """A cluster in the making, and the server's own folder beside it."""

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
        """A new cluster with the workload's database in it, as a load makes it."""
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
    """A server of that cluster on a port of the loopback, where alone PostgreSQL has TLS; its port and its process.

    Private servers listen on their Unix socket. `rules`: the lines of pg_hba.conf.
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
    """Whether the server lets in, or refuses, whoever comes; no longer is it starting."""
    try:
        psycopg.connect(host="127.0.0.1", port=port, user="nobody", dbname="none", connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return not any(words in str(error) for words in ("refused", "starting up"))
    return True
