"""Private servers for tests: fetched if they are missing, in folders that the servers' user can enter."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines import registry
from bufferlab.engines.innodb import accounts, initialise, programs
from bufferlab.engines.innodb import programs as servers
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.servers import data_folder, signs_of_life, user
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.data_folder import Identity
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError
from support.core import usual_cache

EVERY_DAY = ("mysql-5.7", "mysql-8.0", "mariadb-10.11")
"""The servers that ./test boots; the others take --all."""
OTHERS = tuple(name for name in programs.PACKAGES if name not in EVERY_DAY)
ALL = [*EVERY_DAY, *(pytest.param(name, marks=[pytest.mark.servers, pytest.mark.slow]) for name in OTHERS)]


@cache
def build(name: str) -> Build:
    """Return the server of that name, fetched if necessary; skip the test with a message if it cannot be fetched."""
    flavour = programs.PACKAGES[name].flavour
    assert flavour != "postgres"
    with usual_cache():
        try:
            return servers.find(flavour, name)
        except EnvironmentLackingError:
            pass
        try:
            registry.fetch_server(name, print)
            return servers.find(flavour, name)
        except EnvironmentLackingError as error:
            pytest.skip(f"NOT TESTED: {name} cannot be had here: {error}")


@contextmanager
def folder() -> Iterator[Path]:
    """Yield a folder on a disk that the server's user can enter."""
    path = Path(tempfile.mkdtemp(prefix="bufferlab-test-", dir="/var/tmp"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def listen(patch: pytest.MonkeyPatch) -> int:
    """Make private servers started from now on also listen on a port of the loopback; return the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    configuration = InnodbFamily.configuration

    def listening(*given: Any, **named: Any) -> str:
        return configuration(*given, **named).replace("skip_networking", f"port = {port}\nbind_address = 127.0.0.1")

    patch.setattr(InnodbFamily, "configuration", staticmethod(listening))
    return port


@dataclass
class Place:
    """A data directory in the making, and the folder that the server uses besides."""

    build: Build
    root: Path
    page_size_bytes: int = 16384
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
    def family(self) -> InnodbFamily:
        assert self.build.flavour != "postgres"
        return InnodbFamily(self.build.flavour)

    def all_settings(self, **more: str) -> dict[str, str]:
        own = {"innodb_page_size": str(self.page_size_bytes), "innodb_buffer_pool_size": str(64 << 20)}
        return {**own, **self.settings, **more}

    def initialise(self) -> Place:
        self.database.mkdir(mode=0o700)
        user.give(self.database, user.server_user())
        wait = signs_of_life.patience(self.events.append, lambda: False)
        identity = data_folder.new_identity(self.build, self.page_size_bytes)
        initialise.make(self.build, self.database, identity, {}, self.all_settings(), user.server_user(), wait)
        return self

    def server(self, login: tuple[str, str] = ("root", ""), **options: Any) -> PrivateServer:
        settings = self.all_settings(**options.pop("settings", {}))
        owner = user.server_user()
        return PrivateServer(
            self.family, self.build, self.data, self.home, user=owner, login=login, settings=settings, **options
        )

    def with_accounts(self) -> Identity:
        """Start the server once and make the accounts that a load makes."""
        identity = data_folder.new_identity(self.build, self.page_size_bytes)
        with self.server() as server:
            connection = server.connect()
            if self.build.numbers < (5, 7):
                for statement in initialise.STATISTICS_TABLES_OF_5_6:
                    connection.ask(statement)
            accounts.make(connection, identity, self.build)
            connection.close()
        data_folder.store_identity(self.database, identity, user.server_user())
        return identity
