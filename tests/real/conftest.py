"""One loaded database for all tests on the real engine; each test works on a copy."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bufferlab.engines.servers import memory_limit
from bufferlab.errors import EnvironmentLackingError
from support import core

# pytest's own temporary directory may be on a tmpfs, which has no direct I/O; the checkout is on a disk.
DISK = core.ROOT / "target"


@pytest.fixture(scope="session")
def disk() -> Iterator[Path]:
    """Yield a directory on the checkout's disk; it is removed at the end."""
    DISK.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="real-", dir=DISK))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def loaded(disk: Path) -> Path:
    """Return a loaded database of one warehouse with pages of 4 KiB; tests must not change it."""
    database = disk / "loaded.db"
    core.load(database)
    return database


@pytest.fixture
def database(loaded: Path, disk: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield a copy of the loaded database that a test may change."""
    directory = disk / request.node.name.replace("/", "_")[:80]
    directory.mkdir()
    yield core.copy(loaded, directory / "run.db")
    shutil.rmtree(directory)


@pytest.fixture
def hierarchy() -> Iterator[memory_limit.Hierarchy]:
    """Yield the host's control groups for memory: of all lanes, only one test at a time may make groups there."""
    with (Path(tempfile.gettempdir()) / "bufferlab-tests-memory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            found = memory_limit.usable()
        except EnvironmentLackingError as error:
            pytest.skip(f"NOT TESTED: {error}")
        yield found
