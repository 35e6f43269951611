"""Fixtures of the command line's tests: each test gets a separate `Bench`."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fake import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")
