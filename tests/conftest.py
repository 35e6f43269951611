"""Set-up for all tests. pytest also puts this folder on the path, so that tests find `support`."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

from bufferlab.execute.host.device_lock import lock_directory
from support import forked

# A busy machine makes any example slow, so a time limit would not test the code.
settings.register_profile("bufferlab", deadline=None)
settings.load_profile("bufferlab")

pytest_plugins = ["support.parts", "support.figures"]

# Commands and workers of tests must find the engines of bufferlab_engines.py, too.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))

forked.install(in_lane=True)

# A test records a trace only if it asks for one by name: without a trace everything else is quicker.
os.environ.setdefault("BUFFERLAB_NO_PAGE_TRACE", "1")

if lane := os.environ.get("PYTEST_XDIST_WORKER"):
    # Lanes use one disk, and none of them measures time, so each has separate locks.
    os.environ["BUFFERLAB_LOCKS"] = str(lock_directory() / lane)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks that say where a test may run."""
    alone = "alone: timed, or changes what the whole host has; ./test runs it after the lanes, with nothing beside it"
    config.addinivalue_line("markers", alone)


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects from garbage collection: they stay to the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse the mark `alone` outside of tests/real, where ./test looks for it."""
    elsewhere = [item.nodeid for item in items if item.get_closest_marker("alone") and "real" not in item.path.parts]
    assert not elsewhere, elsewhere
