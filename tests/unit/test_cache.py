"""The cache: kept folders, left-overs of killed processes, what may be removed, and servers whose files were
changed."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bufferlab import marked
from bufferlab.cli import doctor
from bufferlab.engines.innodb import programs as innodb_programs
from bufferlab.engines.servers import fetch, finder, learnt, version_call
from bufferlab.engines.servers import finder as finding
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.private_server import SHORT_SOCKETS
from bufferlab.errors import EnvironmentLackingError
from bufferlab.execute.data import leftovers
from bufferlab.execute.host import storage
from support.fake import Bench, wait, wait_until
from support.fake_disks import bound, tiny_disk
from support.marks import leave_marked

DAY_S = 86400


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "bench")
    with bench.in_environment():
        yield bench


@pytest.mark.parametrize("where", ["sub/deeper", "."])
@pytest.mark.parametrize("kind", ["bind", "tmpfs"])
def test_nothing_is_removed_through_a_mount_point(bench: Bench, where: str, kind: str) -> None:
    left = bench.cache / "data" / ".tmp-load"
    inside, precious = left / where, bench.root / "precious"
    for folder in (inside, precious):
        folder.mkdir(parents=True)
    (precious / "file").write_text("x")
    leave_marked(left)
    with bound(inside, precious) if kind == "bind" else tiny_disk(inside, 64):
        if where == ".":
            leave_marked(left)
        (inside / "theirs").touch()
        before = sorted(path.name for path in left.rglob("*"))
        pruned = bench.bufferlab("cache", "prune")
        assert pruned.code == 3
        assert "something is mounted there" in pruned.err
        assert sorted(path.name for path in left.rglob("*")) == before
        marked.clear(left)
        assert sorted(path.name for path in left.rglob("*")) == before
    assert (precious / "file").read_text() == "x"
    assert bench.bufferlab("cache", "prune").code == 0
    assert not left.exists()


@pytest.mark.parametrize("given", ["the folder", "the one around it", "none, from within"])
def test_what_a_killed_report_left_in_a_sweep_folder_is_found(
    bench: Bench, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = bench.out / "buffer-size-1"
    left = sweep / ".tmp-report"
    for folder in (sweep / "runs", left):
        folder.mkdir(parents=True)
    leave_marked(left)
    (sweep / ".tmp-mine").mkdir()
    monkeypatch.chdir(sweep)
    options = {"the folder": ("--data-dir", sweep), "the one around it": ("--data-dir", bench.out)}.get(given, ())
    pruned = bench.bufferlab("cache", "prune", *options)
    assert pruned.code == 0, pruned.err
    assert [path.name for path in sorted(sweep.iterdir())] == [".tmp-mine", "runs"]


def test_what_a_killed_learner_left_is_named_and_removed_and_not_what_another_learns_in(bench: Bench) -> None:
    work = learnt.folder().parent / learnt.WORK
    work.mkdir(parents=True)
    left = work / "learning-7-ab"
    left.mkdir()
    (left / "install").mkdir()
    leave_marked(left)
    with marked.folder(work, "learning-8-cd") as living:
        (found,) = (entry for entry in leftovers.left_over() if entry.path.parent == work)
        assert (found.path, found.name) == (left, "a killed learner's copy")
        assert any(str(left) in finding.detail for finding in doctor._left_over(bench.root))
        assert leftovers.remove([found]) == {}
        assert list(work.iterdir()) == [living]


def test_what_a_killed_sweep_and_a_killed_load_left_is_named_and_removed_and_nothing_else(bench: Bench) -> None:
    elsewhere = bench.root / "elsewhere"
    paced = bench.experiment(knobs="pace_ms = 50", transactions=1_000_000, repetitions=1)
    killed = bench.start("run", paced, "--out", bench.out, "--share-device", "--data-dir", elsewhere)
    wait_until(lambda: any(elsewhere.glob(".bufferlab-work/*/*/worker.log")), "the run to start")
    assert [(entry.name, entry.in_use) for entry in leftovers.kept()] == [("fake tpcc", True)]
    assert in_the_bench(entry.path for entry in leftovers.left_over(bench.root)) == set()
    killed.send_signal(signal.SIGKILL)
    wait(killed)
    (left,) = (elsewhere / storage.SCRATCH).iterdir()
    load = bench.cache / "data" / ".tmp-load"
    load.mkdir()
    leave_marked(load)
    (load.parent / ".tmp-mine").mkdir()
    with storage.scratch(bench.out) as living:
        # A child that the killed process was just starting may hold its locks for a moment longer.
        found = lambda: in_the_bench(entry.path for entry in leftovers.left_over(bench.root))  # noqa: E731
        wait_until(lambda: found() == {left, load}, "the killed sweep's locks to end", 10)
        assert any(str(left) in finding.detail for finding in doctor._left_over(bench.root))
        shown = bench.bufferlab("cache", "prune", "--dry-run", "--json").json
        assert in_the_bench(Path(entry["path"]) for entry in shown["removed"]) == {left, load}
        assert left.is_dir()
        assert bench.bufferlab("cache", "prune", "--unused-days", "1").code == 0
        assert not (elsewhere / storage.SCRATCH).exists()
        assert not load.exists()
        assert (load.parent / ".tmp-mine").is_dir()
        assert living.is_dir()
    assert [entry.in_use for entry in leftovers.kept()] == [False]
    assert list((bench.cache / "places").iterdir()) == []


def in_the_bench(found: Iterable[Path]) -> set[Path]:
    """Return the found paths without the folders of sockets in /tmp, where killed servers of this host leave theirs."""
    return {path for path in found if not path.name.startswith(SHORT_SOCKETS)}


def test_the_folder_of_a_killed_servers_socket_is_found_and_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This folder is in /tmp, because a socket's path must be short, and no sweep's note names it."""
    tmp = bench.root / "tmp"
    left, foreign = (tmp / f"{SHORT_SOCKETS}{name}" for name in ("left", "foreign"))
    for folder in (left, foreign):
        folder.mkdir(parents=True)
    (leave_marked(left) / "mysqld.sock").touch()
    monkeypatch.setattr(leftovers, "Path", lambda text: tmp if text == "/tmp" else Path(text))
    with marked.folder(tmp, f"{SHORT_SOCKETS}living"):
        found = leftovers.left_over()
        assert [(entry.kind, entry.name, entry.path) for entry in found] == [
            ("left over", "a killed server's socket", left)
        ]
        assert leftovers.remove(found) == {}
    assert list(tmp.iterdir()) == [foreign]


def aged(folder: Path, days: float) -> Path:
    """Return a folder that was last used `days` days ago."""
    leave_marked(folder)
    then = time.time() - days * DAY_S
    os.utime(folder / marked.MARK, (then, then))
    return folder


def kept_folder(bench: Bench, name: str) -> Path:
    folder = bench.cache / name
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    return folder


def test_only_what_was_not_used_for_so_long_and_is_not_in_use_is_unused(bench: Bench) -> None:
    old = aged(kept_folder(bench, "data/aa"), 31)
    server = aged(kept_folder(bench, "servers/mysql-5.7"), 40)
    aged(kept_folder(bench, "data/bb"), 29)
    held = marked.use(aged(kept_folder(bench, "data/cc"), 31))
    assert held is not None
    os.utime(bench.cache / "data/cc" / marked.MARK, (0, 0))
    assert {entry.path for entry in leftovers.unused(30)} == {old, server}
    with (bench.cache / "data" / "aa.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ours = [entry for entry in leftovers.unused(30) if entry.path == old]
        assert leftovers.remove(ours).popitem()[1] == "it is in use"
    assert leftovers.remove(leftovers.unused(30)) == {}
    os.close(held)
    assert {entry.path.name for entry in leftovers.kept()} == {"bb", "cc"}


def test_a_kept_folder_without_our_mark_is_not_removed_and_the_command_says_why(bench: Bench) -> None:
    folder = kept_folder(bench, "data/aa")
    os.utime(folder, (0, 0))
    ended = bench.bufferlab("cache", "prune", "--unused-days", "1")
    assert ended.code == 3
    assert "does not have bufferlab's mark" in ended.err
    assert str(folder) in ended.err
    assert folder.is_dir()


def test_a_folder_that_is_published_can_keep_its_mark(tmp_path: Path) -> None:
    """A database must have a mark at any moment: by the mark `cache prune` recognises what a killed process left."""
    for keeps, state in ((True, "left"), (False, "foreign")):
        with marked.folder(tmp_path, ".tmp-load", keeps_mark=keeps) as folder:
            whole = folder.rename(tmp_path / f"whole-{keeps}")
            assert marked.state(whole) == "in use"
        assert marked.state(whole) == state


def test_a_full_disk_leaves_a_kept_folder_without_a_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    before = os.listdir("/proc/self/fd")
    assert marked.use(tmp_path) is None
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_mark_of_two_names_or_of_another_text_is_nobodys(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    leave_marked(folder)
    (tmp_path / "carried").hardlink_to(folder / marked.MARK)
    assert marked.remove(folder) == "foreign"
    (tmp_path / "carried").unlink()
    assert marked.state(folder) == "left"
    (folder / marked.MARK).write_text("mine")
    assert marked.remove(folder) == "foreign"
    (tmp_path / "link").symlink_to(leave_marked(folder))
    assert marked.state(tmp_path / "link") == "foreign"


# Fetched servers.


@pytest.fixture
def server(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a fetched server that reports the expected version."""
    folder = bench.cache / "servers" / "mysql-5.7"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "mysqld").write_text("#!/bin/sh\necho 'mysqld  Ver 5.7.22 for Linux on x86_64 (MySQL)'\n")
    (folder / "bin" / "mysqld").chmod(0o755)
    (folder / "lib").mkdir()
    (folder / "lib" / "lib.so").symlink_to("lib.so.1")
    (folder / "lib" / "lib.so.1").write_bytes(b"elf")
    told = {"flavour": "mysql", "version": "5.7.22", "binary": "bin/mysqld", "share": None}
    (folder / "manifest.json").write_text(json.dumps(told))
    monkeypatch.setattr(version_call, "server_user", lambda: None)
    finder.record(folder)
    return folder


def find() -> Build:
    from bufferlab.engines.innodb import programs as find_innodb

    return find_innodb.find("mysql", "mysql-5.7")


def alter(server: Path, how: str) -> None:
    file = server / "lib" / "lib.so.1"
    match how:
        case "changed":
            before = file.stat()
            file.write_bytes(b"ELF")
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "setuid":
            file.chmod(0o4755)
        case "missing":
            file.unlink()
        case "added":
            (server / "lib" / "more.so").write_bytes(b"elf")
        case "link":
            (server / "lib" / "lib.so").unlink()
            (server / "lib" / "lib.so").symlink_to("/tmp/lib.so")
        case "manifest":
            (server / "manifest.json").write_text((server / "manifest.json").read_text() + "\n")


@pytest.mark.parametrize("how", ["changed", "setuid", "missing", "added", "link", "manifest"])
def test_a_server_that_was_altered_is_named_before_it_is_used(server: Path, how: str) -> None:
    assert find().version == "5.7.22"
    alter(server, how)
    with pytest.raises(EnvironmentLackingError, match="was altered") as caught:
        find()
    assert "engines fetch mysql-5.7" in (caught.value.hint or "")
    (line,) = finding.listed((), ("mysql-5.7",), lambda path, name: find(), lambda binary, libraries: ("", "mysql"))
    assert "was altered" in (line.reason or "")


def test_a_server_that_only_looks_different_is_hashed_once(server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(server / "lib" / "lib.so.1")
    finder.require_unaltered(server)
    monkeypatch.setattr(finder, "_contents", lambda server: pytest.fail("hashed again"))
    finder.require_unaltered(server)


def test_an_altered_server_is_fetched_again_unless_it_is_in_use(server: Path) -> None:
    alter(server, "changed")
    said: list[str] = []
    with pytest.raises(EnvironmentLackingError, match="cannot be replaced"):
        fetch._there(innodb_programs.PACKAGES["mysql-5.7"], server, said.append)
    leave_marked(server)
    assert fetch._there(innodb_programs.PACKAGES["mysql-5.7"], server, said.append) is None
    assert "lib.so.1 was changed; fetching it again" in said[0]
