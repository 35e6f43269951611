"""Disturbances of a working command: a full or closed output, nohup, another process's lock, odd locales."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bufferlab.cli.output import say
from bufferlab.errors import DataFileError, EnvironmentLackingError
from bufferlab.execute.host import storage
from bufferlab.execute.stop import StopRequest
from bufferlab.results.files import read_parquet
from support.core import environment


def test_words_that_cannot_be_written_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stderr", full)
        say("the disk of the log is full")
        say("and nobody minds")
        assert os.readlink(f"/proc/self/fd/{full.fileno()}") == "/dev/null"


def test_a_hangup_that_nohup_ignores_stays_ignored_in_a_sweep() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not stop.requested
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.name == "SIGHUP"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_stranger_who_holds_a_directory_is_waited_for_no_longer_than_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LOCK_SECONDS", 0.1)
    held = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        held_by_another = pytest.raises(EnvironmentLackingError, match="another process has held this directory")
        with held_by_another, storage.locked(tmp_path):
            raise AssertionError("it is held")
    finally:
        os.close(held)
    with storage.locked(tmp_path):
        pass


def test_a_table_that_is_a_pipe_is_refused_and_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "samples.parquet")
    with pytest.raises(DataFileError, match=r"samples\.parquet is no regular file"):
        read_parquet(tmp_path / "samples.parquet", {}, 2)


@pytest.mark.parametrize("how", ["latin-1", "ascii", "closed"])
def test_an_answer_ends_well_in_a_locale_without_its_letters_and_with_a_closed_output(how: str, tmp_path: Path) -> None:
    # The command prints an interval.
    program = (
        "from bufferlab.cli import app, entry, output\n"
        "app.run = lambda _: output.put('0.9\u20131.1') or 0\n"
        "entry.main()"
    )
    closed = " >&- 2>&-" if how == "closed" else ""
    more = {} if closed else {"PYTHONIOENCODING": f"{how}:strict"}
    words = ["sh", "-c", f'"$@"{closed}', "sh", sys.executable, "-c", program]
    ended = subprocess.run(words, env={**environment(tmp_path), **more}, capture_output=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout == (b"" if closed else b"0.9\\u20131.1\n")
