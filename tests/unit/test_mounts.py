"""The table of mounts: what the kernel escapes in it and what not, and lines that cannot be parsed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bufferlab.procfs import Mount, mounts

ROOT = b"21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"


def told(folder: Path, *lines: bytes) -> list[Mount]:
    """Return the mounts of a table that has these lines and then an ordinary one, without the ordinary one."""
    (folder / "mountinfo").write_bytes(b"".join([*lines, ROOT]))
    *found, last = mounts(folder / "mountinfo")
    assert last == Mount("8:1", "/", "/", "ext4", "/dev/sda1", frozenset({"rw", "errors=remount-ro"}))
    return found


def test_a_mount_has_its_device_root_point_kind_source_and_the_file_systems_options(tmp_path: Path) -> None:
    line = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 propagate_from:2 - ext3 /dev/root rw,errors=continue\n"
    mount = Mount("98:0", "/mnt1", "/mnt2", "ext3", "/dev/root", frozenset({"rw", "errors=continue"}))
    assert told(tmp_path, line, line.replace(b"master:1 propagate_from:2 ", b"")) == [mount, mount]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (b"/a\\040disk", b"/a disk"),
        (b"/a\\011b\\012c\\134d", b"/a\tb\nc\\d"),
        (b"/a\\134040b", b"/a\\040b"),
        (b"/caf\xe9", b"/caf\xe9"),
        ("/café".encode(), "/café".encode()),
        (b"/a\rb", b"/a\rb"),
        ("/a\u2028\x0c\x85b".encode(), "/a\u2028\x0c\x85b".encode()),
        (b"/-", b"/-"),
    ],
)
def test_a_mount_point_may_have_any_byte(tmp_path: Path, written: bytes, name: bytes) -> None:
    (found,) = told(tmp_path, b"40 21 8:2 %s %s rw - xfs %s rw\n" % (written, written, written))
    assert {os.fsencode(text) for text in (found.root, found.point, found.source)} == {name}
    assert (found.device, found.kind) == ("8:2", "xfs")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"40",
        b"40 21 8:2 / /x rw",
        b"40 21 8:2 / /x rw shared:1 xfs /dev/sdb rw",
        b"40 21 8:2 / /x rw -",
        b"40 21 8:2 / /x rw - xfs /dev/sdb",
        b"- - - - - -",
    ],
)
def test_a_line_that_is_not_understood_hides_no_other(tmp_path: Path, line: bytes) -> None:
    assert told(tmp_path, line + b"\n") == []


def test_without_a_table_there_are_no_mounts(tmp_path: Path) -> None:
    assert list(mounts(tmp_path / "mountinfo")) == []


def test_the_kernels_own_table_is_understood() -> None:
    assert "/proc" in {mount.point for mount in mounts() if mount.kind == "proc"}
