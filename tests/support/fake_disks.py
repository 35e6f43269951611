"""Small and read-only file systems, to test how bufferlab behaves on them. Needs root: without it tests fail; they are
not skipped."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def tiny_disk(folder: Path, size_kib: int) -> Iterator[Path]:
    """Mount a file system of that size on the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _do("mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "none", folder)
    try:
        yield folder
    finally:
        _do("umount", "--lazy", folder)


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """Make the folder read-only even for root."""
    folder.mkdir(parents=True, exist_ok=True)
    _do("mount", "--bind", folder, folder)
    try:
        _do("mount", "-o", "remount,ro,bind", folder)
        yield folder
    finally:
        _do("umount", "--lazy", folder)


@contextmanager
def bound(folder: Path, source: Path) -> Iterator[Path]:
    """Mount a folder at a second place; both places have the same device number."""
    folder.mkdir(parents=True, exist_ok=True)
    _do("mount", "--bind", source, folder)
    try:
        yield folder
    finally:
        _do("umount", "--lazy", folder)


def fill(file: Path) -> None:
    """Write to the file until the disk is full."""
    with suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(b"\0" * 4096)


def _do(*command: str | Path) -> None:
    ended = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{' '.join(map(str, command))}: {ended.stderr.strip()} (these tests run as root)"
