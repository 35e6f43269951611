"""A bench of its own for every test of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fake import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")
