"""Files that a user names: they are complete or unchanged, and at the named place only."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import BinaryIO

import pytest

from bufferlab.output_files import try_place, write

SOMEBODY = 54_321
"""A user number that this host does not have."""


def written(path: Path, text: str = "new") -> None:
    """Check the place, which changes nothing, then write the file there."""
    before = entries(path.parent)
    try_place(path)
    assert entries(path.parent) == before
    write(path, lambda file: file.write(text.encode()))


def entries(folder: Path) -> set[tuple[str, int, int, int]]:
    found = [(one.name, one.lstat()) for one in folder.iterdir()]
    return {(name, at.st_ino, at.st_size, 0 if stat.S_ISDIR(at.st_mode) else at.st_mtime_ns) for name, at in found}


def full_disk(file: BinaryIO) -> None:
    """Write a part, then raise the error of a full disk."""
    file.write(b"half a page")
    file.flush()
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def as_somebody() -> Iterator[None]:
    os.seteuid(SOMEBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which every user may read; the folders above it are only for this user."""
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    old = os.umask(0o027)
    try:
        written(path)
    finally:
        os.umask(old)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_replaced_keeps_mode_and_owner_and_who_reads_it_sees_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    path.chmod(0o604)
    os.chown(path, SOMEBODY, SOMEBODY + 1)
    with path.open() as reader:
        written(path)
        assert reader.read() == "old"
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (SOMEBODY, SOMEBODY + 1, 0o604)
    assert path.read_text() == "new"


@pytest.mark.parametrize("old", [None, "old"])
def test_a_full_disk_leaves_what_was_there_and_nothing_else(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "page.html"
    if old:
        path.write_text(old)
    with pytest.raises(OSError, match="No space left"):
        write(path, full_disk)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == ({"page.html": old} if old else {})


def test_own_links_are_followed_also_to_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    latest, again = tmp_path / "latest.html", tmp_path / "again.html"
    latest.symlink_to("pages/today.html")
    again.symlink_to(latest)
    for text in ("first", "second"):
        written(again, text)
        assert (pages / "today.html").read_text() == text
    assert latest.is_symlink()
    assert again.is_symlink()


def test_another_users_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "theirs" / "page.html"
    victim.write_text("precious")
    path.parent.mkdir()
    for target in (victim, tmp_path / "missing", Path("/dev/full")):
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        os.lchown(path, SOMEBODY, SOMEBODY)
        written(path)
        assert (path.is_symlink(), path.read_text()) == (False, "new")
    assert victim.read_text() == "precious"
    assert not (tmp_path / "missing").exists()


def test_another_users_file_in_a_folder_for_all_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("planted")
    tmp_path.chmod(0o1777)
    os.chown(path, SOMEBODY, SOMEBODY)
    for attempt in (try_place, lambda path: write(path, full_disk)):
        with pytest.raises(PermissionError):
            attempt(path)
    assert path.read_text() == "planted"
    os.chown(path, 0, 0)
    written(path)


def test_a_file_that_may_be_written_in_a_folder_that_may_not_is_written_in_place(here: Path) -> None:
    path = Path("page.html")
    path.write_text("a long old page")
    os.chown(path, SOMEBODY, SOMEBODY)
    inode = path.stat().st_ino
    with as_somebody():
        written(path)
        with pytest.raises(PermissionError):
            try_place(Path("other.html"))
    assert (path.read_text(), path.stat().st_ino) == ("new", inode)


def test_a_file_whose_owner_cannot_be_kept_is_written_in_place(here: Path) -> None:
    path = Path("page.html")
    path.write_text("a long old page")
    path.chmod(0o666)
    here.chmod(0o777)
    with as_somebody():
        written(path)
    assert (path.read_text(), path.stat().st_uid, len(list(here.iterdir()))) == ("new", 0, 1)


def test_all_names_of_a_file_have_what_is_written(tmp_path: Path) -> None:
    path, other = tmp_path / "page.html", tmp_path / "other.html"
    path.write_text("a long old page")
    os.link(path, other)
    written(path)
    assert (path.read_text(), other.read_text()) == ("new", "new")


def test_a_pipe_is_written_to_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[str] = []
    reader = Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    written(path)
    reader.join()
    assert read == ["new"]
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_devices_stay_devices() -> None:
    for path in (Path("/dev/full"), Path("/dev/null")):
        try_place(path)
        assert stat.S_ISCHR(path.stat().st_mode)
    write(Path("/dev/null"), lambda file: file.write(b"new"))
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"), lambda file: file.write(b"new"))


@pytest.mark.parametrize("is_file", [True, False])
def test_what_is_written_to_standard_output_follows_what_was_printed(tmp_path: Path, is_file: bool) -> None:
    program = (
        "from pathlib import Path; from bufferlab.output_files import *; out = Path('/dev/stdout'); try_place(out);"
        "print('answer', flush=True); write(out, lambda file: file.write(b'page'))"
    )
    out = tmp_path / "out"
    with out.open("w") as file:
        ended = subprocess.run(
            [sys.executable, "-c", program], stdout=file if is_file else subprocess.PIPE, text=True, check=True
        )
    assert (out.read_text() if is_file else ended.stdout) == "answer\npage"


def test_a_place_where_nothing_can_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    for name, number in (
        ("folder", errno.EISDIR),
        ("missing/page.html", errno.ENOENT),
        ("file/page.html", errno.ENOTDIR),
        ("circle", errno.ELOOP),
        ("n" * 256, errno.ENAMETOOLONG),
        ("/proc/x", errno.ENOENT),
    ):
        for attempt in (try_place, lambda path: write(path, full_disk)):
            with pytest.raises(OSError, match=os.strerror(number)):
                attempt(tmp_path / name)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["circle", "file", "folder"]


def test_a_file_that_is_mounted_itself_is_written_in_place(tmp_path: Path) -> None:
    path, other = tmp_path / "page.html", tmp_path / "other.html"
    path.write_text("")
    other.write_text("old")
    subprocess.run(["mount", "--bind", other, path], check=True)
    try:
        written(path)
    finally:
        subprocess.run(["umount", path], check=True)
    assert (other.read_text(), len(list(tmp_path.iterdir()))) == ("new", 2)
