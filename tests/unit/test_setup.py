"""The messages of ./bufferlab and ./test during the set-up."""

from __future__ import annotations

import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path

from support.core import ROOT
from support.fake import wait_until

SETUP = f"set -euo pipefail; ROOT={ROOT}; . {ROOT}/tools/setup.sh; "


def test_a_step_says_what_runs_how_long_it_may_take_and_how_long_it_took() -> None:
    script = SETUP + 'told "making tea" "4 min" with_clock true'
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert said.stderr.splitlines() == ["bufferlab: making tea (about 4 min)", "bufferlab: done in 0 s"]
    assert said.stdout == ""


def test_a_step_that_fails_keeps_its_exit_code_and_is_not_done() -> None:
    script = SETUP + 'told "making tea" "4 min" with_clock false || echo "ended with $?"'
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout == "ended with 1\n"
    assert "done" not in said.stderr


def test_a_terminal_shows_a_clock_while_a_silent_step_runs() -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(["bash", "-c", SETUP + "with_clock sleep 1.4; say after"], stderr=theirs)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # Reading a terminal at its end is an error.
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert process.wait(10) == 0
    assert shown.startswith(b"\r  1 s ")
    assert shown.endswith(b"\r\x1b[Kbufferlab: after\r\n")


def test_an_environment_for_tests_serves_users_until_its_packages_change(tmp_path: Path) -> None:
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("requirements.lock", "requirements-dev.lock"):
        (tmp_path / name).write_text("click==8\n")

    def shell(commands: str) -> str:
        script = f"{SETUP} ROOT={tmp_path} VENV={tmp_path}/.venv; {commands}"
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout

    asked = "environment_is_made requirements.lock requirements && echo made || echo missing"
    assert shell(asked) == "missing\n"
    shell('environment_stamp requirements-dev.lock >"$VENV/.stamp-requirements-dev"')
    assert shell(asked) == "made\n"
    assert "missing" in shell(asked.replace("requirements.lock requirements", "requirements-wheel.lock wheel"))
    (tmp_path / "requirements-dev.lock").write_text("click==9\n")
    assert shell(asked) == "missing\n"


def test_the_compile_step_tells_less_time_where_the_crates_of_others_are_built(tmp_path: Path) -> None:
    def seconds(root: Path) -> int:
        said = subprocess.run(["bash", "-c", f"{SETUP} ROOT={root}; about_build"], capture_output=True, check=True)
        return int(said.stdout.split()[0])

    whole = seconds(tmp_path)
    os.makedirs(f"{tmp_path}/target/release/deps")
    assert 0 < seconds(tmp_path) <= whole / 4


def test_the_entry_of_a_package_in_a_lock_file_has_its_hashes_and_nothing_else(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("click==8 \\\n    --hash=sha256:1\nmaturin==1 ; python_version > '3' \\\n    --hash=sha256:2 \\\n"
                    "    --hash=sha256:3\nmaturin-more==2 \\\n    --hash=sha256:4\n")  # fmt: skip
    said = subprocess.run(
        ["bash", "-c", f"{SETUP} entry_of maturin {lock}"], capture_output=True, text=True, check=True
    )
    assert [line.strip(" \\") for line in said.stdout.splitlines()] == [
        "maturin==1 ; python_version > '3'",
        "--hash=sha256:2",
        "--hash=sha256:3",
    ]


def test_a_compiler_ends_with_the_set_up_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").touch()
    made = "make_venv() { :; }; install_locked() { :; }; fetch_crates() { :; }; built_stamp() { echo stamp; }; "
    # A compiler is a child of maturin, which `compile` becomes.
    compiles = 'compile() { sleep 60 & echo $! >"$ROOT/part"; mv "$ROOT/part" "$ROOT/compiler"; wait; }; '
    begins = 'begin_native requirements.lock; while [ ! -e "$ROOT/compiler" ]; do sleep 0.01; done; '
    script = f'{SETUP} ROOT={tmp_path}; {made} {compiles} {begins} lack "no index" "try later"'
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=30)
    assert said.returncode == 3, said.stderr
    stat = Path("/proc", (tmp_path / "compiler").read_text().strip(), "stat")

    def has_ended() -> bool:
        # Its new parent may take its time to reap it.
        with suppress(FileNotFoundError, ProcessLookupError):
            return stat.read_text().split()[2] == "Z"
        return True

    wait_until(has_ended, "the end of the compiler")
