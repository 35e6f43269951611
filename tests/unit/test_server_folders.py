"""Root writes into folders of the server's user, who may put anything there: bufferlab follows no links in them."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from bufferlab.engines.innodb import accounts, initialise
from bufferlab.engines.postgres import restore
from bufferlab.engines.servers import child_process, data_folder
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.user import make_folder_for, open_log, write_for
from bufferlab.errors import EnvironmentLackingError

ME = (os.geteuid(), os.getegid())


def _log(path: Path) -> None:
    with open_log(path, ME) as log:
        log.write(b"more\n")


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """Return a file in another folder that the server's user may not write."""
    path = tmp_path / "precious"
    path.write_text("kept")
    path.chmod(0o640)
    return path


def test_a_file_takes_the_place_of_whatever_has_its_name(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "engine.conf").symlink_to(precious)
    write_for(tmp_path / "engine.conf", "new", ME)
    assert (precious.read_text(), (tmp_path / "engine.conf").read_text()) == ("kept", "new")
    assert stat.S_IMODE((tmp_path / "engine.conf").lstat().st_mode) == 0o600


def test_the_sizes_of_loaded_data_are_written_through_no_link(tmp_path: Path, precious: Path) -> None:
    database = tmp_path / "database"
    database.mkdir()
    (database / "sizes.json").symlink_to(precious)
    data_folder.Sizes(4096).store(database)
    assert precious.read_text() == "kept"
    assert data_folder.read_sizes(database)["allocated_bytes"] == 4096


@pytest.mark.parametrize("plant", [Path.symlink_to, Path.hardlink_to, lambda path, _: os.mkfifo(path)])
def test_a_log_that_is_no_file_of_its_own_is_refused(
    tmp_path: Path, precious: Path, plant: Callable[[Path, Path], None]
) -> None:
    log = tmp_path / "server.log"
    plant(log, precious)
    with pytest.raises(EnvironmentLackingError, match="the log"):
        _log(log)
    assert (precious.read_text(), stat.S_IMODE(precious.stat().st_mode)) == ("kept", 0o640)


def test_a_log_goes_on_and_its_end_is_not_read_through_a_link(tmp_path: Path, precious: Path) -> None:
    log, link = tmp_path / "server.log", tmp_path / "other.log"
    _log(log)
    _log(log)
    link.symlink_to(precious)
    assert (child_process.tail(log), child_process.tail(link)) == ("more\nmore", "")


def test_all_of_a_logs_end_can_be_asked_for_and_is_bounded(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    lines = [f"line {number}" for number in range(100)]
    log.write_text("\n".join(lines) + "\n")
    assert child_process.tail(log, None).splitlines() == lines
    assert child_process.tail(log, 2).splitlines() == lines[-2:]
    log.write_text("x" * (1 << 20) + "\nthe end\n")
    assert len(child_process.tail(log, None)) < 64 << 10
    assert child_process.tail(log, None).endswith("x\nthe end")
    assert child_process.tail(tmp_path / "none.log", None) == ""


def test_the_log_of_a_restore_is_read_through_no_link_and_no_further_than_it_may_grow(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(restore._LIMITS, resource.RLIMIT_FSIZE, 10)
    log = tmp_path / "restore.log"
    log.write_text("pg_restore: error: x")
    assert restore._text(log) == "pg_restore"
    for target in (precious, Path("/dev/zero")):
        log.unlink()
        log.symlink_to(target)
        with pytest.raises(OSError, match="symbolic links"):
            restore._text(log)
    log.unlink()
    os.mkfifo(log)
    assert restore._text(log) == ""


def test_a_system_table_is_copied_through_no_link(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    (package / "mysql").mkdir(parents=True)
    (package / "mysql" / "user.MYD").write_text("rows")
    build = Build("mysql-5.6", "mysql", "5.6.24", Path("/nowhere/mysqld"), system_tables=package)
    (tmp_path / "data").mkdir()
    initialise._copy_system_tables(build, tmp_path / "data", ME)
    copy = tmp_path / "data/mysql/user.MYD"
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == ("rows", 0o600)

    def given(path: Path, user: object) -> None:
        # From now on the folder belongs to the server's user.
        if path.name == "mysql":
            (path / "user.MYD").symlink_to(precious)

    monkeypatch.setattr(initialise, "give", given)
    (tmp_path / "other").mkdir()
    with pytest.raises(FileExistsError):
        initialise._copy_system_tables(build, tmp_path / "other", ME)
    assert (precious.read_text(), stat.S_IMODE(precious.stat().st_mode)) == ("kept", 0o640)


def test_a_link_in_the_place_of_a_programs_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "program").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EnvironmentLackingError, match="the server's folder"):
        accounts.expand("sysbench", {"place": {"socket": "/s"}, "database": "x"}, tmp_path / "program")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (tmp_path / "tmp").symlink_to(elsewhere)
    with pytest.raises(EnvironmentLackingError, match="the server's folder"):
        make_folder_for(tmp_path / "tmp", ME)
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
    make_folder_for(elsewhere, ME)
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700


def test_a_library_is_loaded_into_the_server_alone(tmp_path: Path) -> None:
    """The process that launches the server may be root's, and the server's user may write where the library is."""
    said = tmp_path / "said"
    preload = child_process.Preload({"LD_PRELOAD": "/none/of-ours.so"}, 0)
    with open_log(said, None) as output:
        process = child_process.start(
            ["/usr/bin/env"], user=None, libraries=None, output=output, folder=tmp_path, preload=preload
        )
        assert process.wait() == 0
    lines = said.read_text().splitlines()
    assert [line for line in lines if "LD_PRELOAD" in line and "=" in line] == ["LD_PRELOAD=/none/of-ours.so"]
    assert sum("cannot be preloaded" in line for line in lines) == 1  # From env's loader, not from Python's.
    assert not any("LATER" in line for line in lines)
