"""`learn --pid`: the build of a running process, its program even if the file was removed, and every refusal."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bufferlab.engines.innodb import programs
from bufferlab.engines.servers import page_sites, version_call
from bufferlab.errors import BufferlabError, EnvironmentLackingError, SpecError
from bufferlab.learn import learning, of_process
from support.fake import wait_until

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: a mount namespace needs root")
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Yield a function that starts a process and returns once it runs its own program; the processes end with the
    test."""
    with ExitStack() as stack:

        def started(*command: str | Path, program: Path | None = None) -> subprocess.Popen[bytes]:
            process = stack.enter_context(subprocess.Popen([*map(str, command)], stdin=subprocess.PIPE))
            stack.callback(process.kill)
            wait_until(lambda: os.readlink(f"/proc/{process.pid}/exe") == str(program or command[0]), "the program")
            return process

        yield started


@pytest.fixture(autouse=True)
def versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[bytes, str]:
    """Return the versions that programs report, by their content; the cache is empty."""
    monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "cache"))
    told: dict[bytes, str] = {}

    def ask(binary: Path, libraries: Path | None) -> tuple[str, str]:
        return told.get(binary.read_bytes(), "11.8.3"), "mariadb"

    monkeypatch.setattr(programs, "ask_version", ask)
    monkeypatch.setattr(version_call, "program_behind", lambda binary, *arguments: binary)
    return told


@pytest.fixture
def mariadbd(tmp_path: Path) -> Path:
    """Return a program with a server's name."""
    return Path(shutil.copy("/bin/sleep", tmp_path / "mariadbd"))


def refused(pid: int) -> BufferlabError:
    with pytest.raises(BufferlabError) as error, of_process.opened(pid):
        pass
    assert error.value.hint
    return error.value


def test_a_servers_build_is_that_of_its_program_and_the_open_program_outlives_the_process(
    start: Start, mariadbd: Path
) -> None:
    process = start(mariadbd, "60")
    with of_process.opened(process.pid) as (build, program):
        assert build == learning.build_of(mariadbd)
        process.kill()
        process.wait()
        mariadbd.unlink()
        assert page_sites.text_sha256(program) == page_sites.text_sha256(Path("/bin/sleep").resolve())
        assert program.read_bytes() == Path("/bin/sleep").read_bytes()
    assert not program.exists()


def test_a_program_that_was_replaced_is_the_processes_own_if_its_installation_is_of_its_version(
    start: Start, mariadbd: Path, versions: dict[bytes, str], tmp_path: Path
) -> None:
    process = start(mariadbd, "60")
    mariadbd.unlink()
    gone = refused(process.pid)
    assert isinstance(gone, EnvironmentLackingError)
    assert (gone.what, gone.where) == (
        "the server's program was removed from the disk, and with it what a private server needs",
        f"process {process.pid}, {mariadbd}",
    )
    shutil.copy("/bin/cat", mariadbd)
    with of_process.opened(process.pid) as (build, program):
        assert (build.flavour, build.version, build.binary) == ("mariadb", "11.8.3", mariadbd)
        assert program.read_bytes() == Path("/bin/sleep").read_bytes() != mariadbd.read_bytes()
    versions[mariadbd.read_bytes()] = "11.8.9"
    other = refused(process.pid)
    assert other.what == "the server is of version 11.8.3, and its installation is of 11.8.9 by now"
    assert str(mariadbd) in str(other.hint)
    assert [one.name for one in (tmp_path / "cache/learning").iterdir()] == [], "copies that were asked are away"


def test_what_is_no_servers_first_process_is_refused_with_the_way_to_it(start: Start, tmp_path: Path) -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    assert refused(ended.pid).what == "there is no such process, or it has ended"
    assert refused(os.getpid()).what.startswith("this process is no server of MySQL, MariaDB or PostgreSQL: ")
    assert "its program is kthreadd" in refused(2).what or os.geteuid() != 0
    postgres = Path(shutil.copy(Path("/bin/sh").resolve(), tmp_path / "postgres"))
    first = start(postgres, "-c", f"{postgres} -c 'read it; :'; :")
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    wait_until(lambda: bool(children.read_text()), "its child")
    child = int(children.read_text())
    # Until the child has begun its own program, it has its parent's arguments, or none.
    own = f"{postgres}\0-c\0read it".encode()
    wait_until(lambda: Path(f"/proc/{child}/cmdline").read_bytes().startswith(own), "its program")
    told = refused(child)
    assert isinstance(told, SpecError)
    assert "it is not the server's first one" in told.what
    assert (told.where, told.hint) == (f"--pid {child}", f"name the first one: --pid {first.pid}")


def test_a_thread_is_refused_with_its_process() -> None:
    began, ends = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (began.set(), ends.wait()))
    thread.start()
    try:
        assert began.wait(10)
        told = refused(thread.native_id or 0)
    finally:
        ends.set()
        thread.join()
    assert (told.what, told.hint) == ("this is a thread of a process", f"name the process: --pid {os.getpid()}")


def test_a_process_that_this_user_may_not_look_at_is_refused_with_both_ways(
    start: Start, mariadbd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(mariadbd, "60")

    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "readlink", denied)
    told = refused(process.pid)
    assert isinstance(told, EnvironmentLackingError)
    assert (told.what, told.where) == (
        "the server's program cannot be read: this user may not look at its process", f"process {process.pid}"
    )  # fmt: skip
    assert "run as root or as the server's user" in str(told.hint)


@NEEDS_ROOT
@pytest.mark.parametrize("sees_others", [True, False])
def test_a_server_that_sees_other_files_is_refused_and_a_service_that_sees_ours_is_not(
    sees_others: bool, start: Start, mariadbd: Path
) -> None:
    """Tested for a container, and for a systemd service with PrivateTmp."""
    over = f"mount -t tmpfs tmpfs {mariadbd.parent} && cp /bin/sleep {mariadbd} && " if sees_others else ""
    inner = ("/bin/sh", "-c", f"{over}exec {mariadbd} 60")
    process = start("unshare", "--mount", "--propagation", "private", *inner, program=mariadbd)
    assert os.readlink(f"/proc/{process.pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    assert page_sites.program_of(Path(f"/proc/{process.pid}")).elsewhere == sees_others
    if sees_others:
        told = refused(process.pid)
        assert f"it runs in a container or a chroot, as {mariadbd}" in told.what
        assert "of the same image" in str(told.hint)
    else:
        with of_process.opened(process.pid) as (build, _):
            assert build.binary == mariadbd


@NEEDS_ROOT
def test_a_server_in_a_chroot_is_refused(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "proc").mkdir()
    for name in ("bin", "lib", "lib64", "usr"):
        if Path(f"/{name}").exists():
            (root / name).mkdir()
    inner = "".join(f"mount --bind /{one.name} {one} && " for one in root.iterdir())
    copied = f"cp /bin/sleep {root}/postgres && exec chroot {root} /postgres 60"
    process = start("unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", f"{inner}{copied}",
                    program=root / "postgres")  # fmt: skip
    assert "it runs in a container or a chroot" in refused(process.pid).what


@NEEDS_ROOT
def test_a_replaced_program_behind_its_loader_is_the_file_that_is_mapped(start: Start, mariadbd: Path) -> None:
    (loader,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/ld-" in line}
    own = Path(shutil.copy(loader, mariadbd.with_name("ld-linux-x86-64.so.2")))
    process = Path(f"/proc/{start(own, mariadbd, '60').pid}")
    wait_until(lambda: "mariadbd" in (process / "maps").read_text(), "the loader to map the program")
    began = mariadbd.stat().st_ino
    found = page_sites.program_of(process)
    assert (found.path, found.file.stat().st_ino, found.is_replaced) == (str(mariadbd), began, False)
    shutil.copy("/bin/true", new := mariadbd.with_name("new"))
    new.rename(mariadbd)
    found = page_sites.program_of(process)
    assert (found.path, found.file.stat().st_ino, found.is_replaced) == (str(mariadbd), began, True)
    assert found.file.read_bytes() == Path("/bin/sleep").read_bytes()
