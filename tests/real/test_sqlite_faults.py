"""The core's messages about faulty files, file systems and disks."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import core

pytestmark = pytest.mark.real

MIB = 1 << 20


def refusal(database: Path, **knobs: object) -> core.CoreError:
    with pytest.raises(core.CoreError) as caught:
        core.run(database, pool_size_bytes=4 * MIB, **knobs)  # type: ignore[arg-type]
    return caught.value


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a separate small file system, which is soon full."""
    mount = tmp_path / "small"
    mount.mkdir()
    # Mounting needs root; without it the test fails, because then no full disk was tested.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(mount)], check=True)
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_direct_io_on_a_file_system_in_memory_is_refused_with_the_ways_out(loaded: Path, small_disk: Path) -> None:
    error = refusal(core.copy(loaded, small_disk / "run.db"))
    assert error.kind == "environment"
    assert str(small_disk) in error.where
    assert "tmpfs" in error.where
    assert "--data-dir" in error.hint
    assert "io_mode=buffered" in error.hint


def test_a_disk_that_fills_up_during_the_run_is_named(loaded: Path, small_disk: Path) -> None:
    database = core.copy(loaded, small_disk / "run.db")
    (small_disk / "filler").write_bytes(bytes(100 * MIB - database.stat().st_size - MIB))
    error = refusal(database, io_mode="buffered", transactions=20_000)
    assert error.kind == "full_disk"
    assert str(database) in error.where


def test_a_disk_that_fills_up_during_the_load_is_named(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(60 * MIB))
    with pytest.raises(core.CoreError) as caught:
        core.load(small_disk / "run.db")
    assert caught.value.kind == "full_disk"


def test_a_file_that_is_no_database_is_refused(disk: Path) -> None:
    database = disk / "text.db"
    database.write_text("This is not a database.\n" * 1000)
    error = refusal(database)
    assert error.kind == "data"
    assert "not a SQLite database" in error.what


def test_another_page_size_than_the_loaded_one_is_refused(loaded: Path) -> None:
    error = refusal(loaded, page_size_bytes=8192)
    assert error.kind == "data"
    assert "4096" in error.what


def test_a_missing_database_is_named(disk: Path) -> None:
    error = refusal(disk / "absent.db")
    assert error.kind == "environment"
    assert "absent.db" in error.where


@pytest.mark.parametrize("tail", [0, 2048])
def test_a_truncated_database_ends_the_run_with_its_name(database: Path, tail: int) -> None:
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 2 // 4096 * 4096 + tail)
    error = refusal(database)
    assert error.kind in {"data", "io"}
    assert str(database) in error.where


def test_a_page_of_rubbish_ends_the_run_with_its_name(database: Path) -> None:
    with database.open("r+b") as file:
        for page in range(50, database.stat().st_size // 4096, 3):
            file.seek(page * 4096)
            file.write(b"\xa5" * 4096)
    error = refusal(database)
    assert error.kind == "data"
    assert str(database) in error.where


@pytest.mark.parametrize(
    ("knob", "value"),
    [("page_size_bytes", 5000), ("io_mode", "mapped"), ("pcache", "theirs"), ("synchronous", "maybe")],
)
def test_a_setting_that_does_not_exist_is_named(loaded: Path, knob: str, value: object) -> None:
    error = refusal(loaded, **{knob: value})
    assert error.kind == "usage"
    assert knob.removesuffix("_bytes") in error.where


def test_loading_over_an_existing_file_is_refused(loaded: Path) -> None:
    before = loaded.stat().st_mtime_ns
    with pytest.raises(core.CoreError) as caught:
        core.load(loaded)
    assert caught.value.kind == "usage"
    assert loaded.stat().st_mtime_ns == before
