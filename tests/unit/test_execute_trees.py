"""A directory's copy equals the original byte by byte: files, holes, modes, empty folders; sockets are refused."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from bufferlab.errors import DataFileError, Interrupted
from bufferlab.execute.data import trees
from bufferlab.execute.data.copy_method import probe_method, restore

MIB = 1 << 20


def tree(root: Path) -> Path:
    """Return a directory like a server's: nested, with an empty folder and a file that is mostly a hole."""
    (root / "data" / "mysql").mkdir(parents=True)
    (root / "data" / "empty").mkdir()
    (root / "auth.json").write_text("{}")
    (root / "data" / "mysql" / "user.ibd").write_bytes(os.urandom(3 * MIB + 5))
    with (root / "data" / "sparse").open("wb") as file:
        file.write(b"head")
        file.seek(8 * MIB)
        file.write(b"middle")
        file.truncate(64 * MIB)
    return root


@pytest.mark.parametrize("method", ["copy", "probed"])
def test_a_directorys_copy_is_identical_and_its_holes_are_holes(tmp_path: Path, method: str) -> None:
    source, target = tree(tmp_path / "source"), tmp_path / "target"
    trees.protect(source)
    restore(source, target, probe_method(tmp_path, tmp_path) if method == "probed" else "copy", lambda: None)
    before, after = (trees.fingerprint(path, lambda: None) for path in (source, target))
    assert before == after
    assert {name for name, sha256 in after.parts.items() if sha256 is None} == {"data", "data/empty", "data/mysql"}
    assert (target / "data" / "sparse").stat().st_blocks * 512 < 16 * MIB
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in (target, *target.rglob("*"))}
    assert modes == {True: 0o700, False: 0o600}
    assert after.size_bytes == trees.size_of(source) == 2 + 3 * MIB + 5 + 64 * MIB


def test_what_is_protected_is_taken_from_the_top_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with write access to a folder could put other files into it until bufferlab has taken the folder over."""
    source, fchmod = tree(tmp_path / "source"), os.fchmod
    taken: list[Path] = []

    def take(descriptor: int, mode: int) -> None:
        taken.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fchmod(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", take)
    trees.protect(source)
    assert sorted(taken) == sorted([source, *source.rglob("*")])
    assert all(path.parent in taken[:number] for number, path in enumerate(taken) if path != source)
    assert {path.is_dir(): path.stat().st_mode & 0o777 for path in taken} == {True: 0o700, False: 0o400}


def test_a_link_that_takes_a_files_place_while_it_is_protected_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, precious, geteuid = tmp_path / "source", tmp_path / "precious", os.geteuid
    source.mkdir()
    for file in (precious, source / "file"):
        file.write_text("kept")
        file.chmod(0o640)
    asked: list[int] = []

    def swap_at_the_second() -> int:
        asked.append(1)
        if len(asked) == 2:  # The first call is for the folder.
            (source / "file").rename(tmp_path / "away")
            (source / "file").symlink_to(precious)
        return geteuid()

    monkeypatch.setattr(os, "geteuid", swap_at_the_second)
    trees.protect(source)
    assert len(asked) == 2
    assert [path.stat().st_mode & 0o777 for path in (precious, tmp_path / "away")] == [0o640, 0o400]


@pytest.mark.parametrize("place", ["database", "database/link", "database/data/link"])
@pytest.mark.parametrize("to", ["file", "folder"])
def test_a_link_in_a_databases_place_or_in_it_leaves_its_target_as_it_was(tmp_path: Path, place: str, to: str) -> None:
    targets = {"file": tmp_path / "precious", "folder": tmp_path / "elsewhere"}
    targets["folder"].mkdir()
    inside = targets["folder"] / "inside"
    for file in (targets["file"], inside):
        file.write_text("kept")
    for path in (*targets.values(), inside):
        path.chmod(0o750)
    if place != "database":
        tree(tmp_path / "database")
    (tmp_path / place).symlink_to(targets[to])
    with suppress(OSError):
        trees.protect(tmp_path / "database")
    assert {path.stat().st_mode & 0o777 for path in (*targets.values(), inside)} == {0o750}


def test_one_byte_makes_another_fingerprint_and_the_file_is_named(tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    before = trees.fingerprint(source, lambda: None)
    with (source / "data" / "sparse").open("r+b") as file:
        file.seek(30 * MIB)
        file.write(b"x")
    after = trees.fingerprint(source, lambda: None)
    assert before.sha256 != after.sha256
    assert trees.difference(before.parts, after.parts) == "the contents of data/sparse are not what was loaded"


def test_a_socket_in_a_database_is_refused_by_name(tmp_path: Path) -> None:
    source = tree(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(source / "x.sock"))
        with pytest.raises(DataFileError, match="a socket"):
            restore(source, tmp_path / "target", "copy", lambda: None)


def test_a_copy_of_a_directory_can_be_given_up(tmp_path: Path) -> None:
    calls = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Interrupted(2)

    with pytest.raises(Interrupted):
        restore(tree(tmp_path / "source"), tmp_path / "target", "copy", stop)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_copy_belongs_to_the_servers_user(tmp_path: Path) -> None:
    restore(tree(tmp_path / "source"), tmp_path / "target", "copy", lambda: None, (65534, 65534))
    assert {path.stat().st_uid for path in (tmp_path / "target", *(tmp_path / "target").rglob("*"))} == {65534}
