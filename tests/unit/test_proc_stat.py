"""A process's fields in /proc/PID/stat, for any name of the process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bufferlab.procfs import stat_fields


def test_the_fields_of_this_process_are_the_kernels() -> None:
    state, parent, *_ = stat_fields(os.getpid())
    assert state == "R"
    assert int(parent) == os.getppid()


@pytest.mark.parametrize("name", [b"mysqld", b"a) S 1", b"(sd-pam)", b"\xff\xfe", b"two\nlines"])
def test_a_name_may_be_any_bytes(name: bytes, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_bytes(b"7 (" + name + b") S 1 2 3\n")
    assert stat_fields(7, tmp_path) == ["S", "1", "2", "3"]
