"""The call that asks a program for its version, and the program that a script starts."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from bufferlab.engines.postgres import programs
from bufferlab.engines.servers import page_sites, version_call
from bufferlab.errors import EnvironmentLackingError

SAYS = "postgres (PostgreSQL) 15.3"


@pytest.fixture(autouse=True)
def programs_run_as_we_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_call, "server_user", lambda: None)


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def ends(pid: int) -> bool:
    """Return whether a process ends within two seconds: a killed process exists until its parent reaps it."""
    until_s = time.monotonic() + 2
    while (there := Path(f"/proc/{pid}").exists()) and time.monotonic() < until_s:
        time.sleep(0.01)
    return not there


@pytest.mark.parametrize("start", ["exec ", "", "cd / && "], ids=["in its place", "as a child", "after another"])
def test_the_program_that_answers_for_a_script_is_found(tmp_path: Path, start: str) -> None:
    named = script(tmp_path / "postgres", f"{start}/usr/bin/printf '%s\\n' '{SAYS}'", "exit 0")
    assert version_call.program_behind(named, "--version") == Path("/usr/bin/printf").resolve()


def test_a_binary_is_its_own_program() -> None:
    assert version_call.program_behind(Path("/usr/bin/printf")) == Path("/usr/bin/printf")


def test_a_script_that_answers_itself_is_refused_by_name(tmp_path: Path) -> None:
    named = script(tmp_path / "postgres", f"echo '{SAYS}'")
    with pytest.raises(EnvironmentLackingError, match="this is a script, and which server it starts") as caught:
        programs.by_path(named)
    assert "own binary" in (caught.value.hint or "")


def test_a_script_that_starts_no_server_is_refused(tmp_path: Path) -> None:
    named = script(tmp_path / "postgres", f"exec /usr/bin/printf '%s\\n' '{SAYS}'")
    with pytest.raises(EnvironmentLackingError, match="this is not a PostgreSQL server"):
        programs.by_path(named)


def test_a_program_has_a_bounded_time_and_its_children_end_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_call, "_SECONDS", 0.3)
    child = tmp_path / "child"
    named = script(tmp_path / "postgres", f"sleep 300 & echo $! > {child}", "sleep 300")
    began_s = time.monotonic()
    with pytest.raises(EnvironmentLackingError, match="did not tell its version"):
        version_call.what_it_says(named, None)
    assert time.monotonic() - began_s < 5
    assert ends(int(child.read_text()))


def test_a_child_that_keeps_the_pipe_open_is_not_waited_for(tmp_path: Path) -> None:
    child = tmp_path / "child"
    named = script(tmp_path / "postgres", f"sleep 300 & echo $! > {child}", f"echo '{SAYS}'")
    began_s = time.monotonic()
    assert version_call.what_it_says(named, None) == f"{SAYS}\n"
    assert time.monotonic() - began_s < 5
    assert ends(int(child.read_text()))


def test_a_program_is_asked_once_until_it_changes(tmp_path: Path) -> None:
    named = script(tmp_path / "postgres", f"echo x >> {tmp_path}/times", f"echo '{SAYS}'")
    for _ in range(3):
        version_call.what_it_says(named, None, "--version")
    assert (tmp_path / "times").read_text() == "x\n"
    os.utime(named, ns=(1, 1))
    version_call.what_it_says(named, None, "--version")
    assert (tmp_path / "times").read_text() == "x\nx\n"


def test_an_answer_without_end_is_cut(tmp_path: Path) -> None:
    named = script(tmp_path / "postgres", "yes")
    assert len(version_call.what_it_says(named, None)) <= 2 << 16


def test_the_code_of_a_script_cannot_be_read_and_that_is_no_bug(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLackingError, match="its code cannot be read: this is no binary of Linux"):
        page_sites.known(Path(programs.__file__).with_name("page_sites.toml"), script(tmp_path / "postgres"))


def test_the_binary_of_a_script_is_used_without_the_script(tmp_path: Path) -> None:
    binary = shutil.which("postgres") or next(iter(Path("/usr/lib/postgresql").glob("*/bin/postgres")), None)
    if binary is None:
        pytest.skip("no PostgreSQL is installed here")
    named = script(tmp_path / "postgres", f'exec {binary} "$@"')
    build = programs.by_path(named)
    assert (build.binary, build.script) == (Path(binary).resolve(), named)
