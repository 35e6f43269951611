"""A private copy of a build: the programs are copied, and the other files are found at the same relative places."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from bufferlab.engines.postgres.learning import LESSON
from bufferlab.engines.servers.builds import Build
from bufferlab.errors import EnvironmentLackingError
from bufferlab.learn import private_copy


def installed(root: Path, prefix: str) -> Build:
    """Return a PostgreSQL whose program lies below `root` as it does below a host's root."""
    binary = root / prefix / "postgres"
    binary.parent.mkdir(parents=True)
    for program in (binary, binary.with_name("initdb"), binary.with_name("psql")):
        program.write_text(program.name)
        program.chmod(0o755)
    return Build("some", "postgres", "17.6", binary)


def test_the_programs_are_files_of_their_own_and_what_is_beside_and_above_them_is_found_as_before(
    tmp_path: Path,
) -> None:
    # In Debian's layout the shared files are four folders above the program.
    build = installed(tmp_path / "usr", "lib/postgresql/17/bin")
    share = tmp_path / "usr/share/postgresql/17/postgres.bki"
    share.parent.mkdir(parents=True)
    share.write_text("bki")
    copy = private_copy.copied(build, tmp_path / "copy", LESSON).binary
    assert copy.relative_to(tmp_path / "copy") == Path("lib/postgresql/17/bin/postgres")
    for name in ("postgres", "initdb"):
        program = copy.with_name(name)
        assert (program.read_text(), program.is_symlink(), program.stat().st_mode & 0o111) == (name, False, 0o111)
        assert program.stat().st_ino != build.binary.with_name(name).stat().st_ino
    assert not copy.with_name("psql").exists()
    assert (copy.parent / "../../../../share/postgresql/17/postgres.bki").read_text() == "bki"
    assert copy.stat().st_dev == build.binary.stat().st_dev


def test_a_program_that_is_a_link_is_copied_from_where_it_lies(tmp_path: Path) -> None:
    build = installed(tmp_path / "a", "b/bin")
    link = tmp_path / "postgres"
    link.symlink_to(build.binary)
    copy = private_copy.copied(Build("some", "postgres", "17.6", link), tmp_path / "copy", LESSON).binary
    assert (copy.read_text(), copy.is_symlink(), copy.parent.name) == ("postgres", False, "bin")


def test_a_folder_above_that_this_user_cannot_list_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example a home below a folder of homes with mode 0711, which only root can list."""
    build = installed(tmp_path / "homes", "mine/pg/bin")
    (tmp_path / "homes/mine/pg/share").mkdir()
    hidden, listed, access = tmp_path / "homes", os.listdir, os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != hidden and access(path, mode))

    def refusing(path: str | Path = ".") -> list[str]:
        if Path(path) == hidden:
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "listdir", refusing)
    copy = private_copy.copied(build, tmp_path / "copy", LESSON).binary
    assert (copy.parent / "../share").is_dir()
    assert copy == tmp_path / "copy/pg/bin/postgres"


@pytest.mark.parametrize("levels", range(1, 8))
def test_a_program_lies_in_its_copy_at_most_five_folders_deep(levels: int, tmp_path: Path) -> None:
    build = installed(tmp_path, "/".join(f"d{number}" for number in range(levels)))
    copy = private_copy.copied(build, tmp_path / "copy", LESSON).binary
    below = copy.relative_to(tmp_path / "copy")
    assert below == Path(*build.binary.parts[-len(below.parts) :])
    assert len(below.parts) == 5


def test_root_copies_no_file_that_the_servers_user_may_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_copy.user, "server_user", lambda: (65534, 65534))
    build = installed(tmp_path, "a/b/c/d/bin")
    secret = tmp_path / "secret"
    secret.write_text("for root alone")
    secret.chmod(0o600)
    build.binary.with_name("initdb").unlink()
    build.binary.with_name("initdb").symlink_to(secret)
    with pytest.raises(EnvironmentLackingError, match="other users may not read it"):
        private_copy.copied(build, tmp_path / "copy", LESSON)
    assert not any(one.is_file() and one.read_text() == "for root alone" for one in (tmp_path / "copy").rglob("initdb"))


def test_a_program_of_another_name_is_copied_as_postgres_and_a_pipe_is_none(tmp_path: Path) -> None:
    build = installed(tmp_path, "a/b/c/d/bin")
    renamed = build.binary.rename(build.binary.with_name("real"))
    build.binary.symlink_to("/dev/null")
    renamed.with_name("initdb").unlink()
    os.mkfifo(renamed.with_name("initdb"))
    copy = private_copy.copied(replace(build, binary=renamed), tmp_path / "copy", LESSON).binary
    assert (copy.name, copy.is_symlink(), copy.read_bytes()) == ("postgres", False, renamed.read_bytes())
    assert not copy.with_name("initdb").exists()


def test_the_servers_user_can_pass_to_the_copy_whichever_umask_and_rights_the_original_has(tmp_path: Path) -> None:
    build = installed(tmp_path, "a/b/c/d/bin")
    build.binary.chmod(0o744)
    umask = os.umask(0o077)
    try:
        copy = private_copy.copied(build, tmp_path / "copy", LESSON).binary
    finally:
        os.umask(umask)
    for place in (copy, copy.with_name("initdb"), *copy.parents[:5]):
        assert place.stat().st_mode & 0o777 == 0o755, place
