"""On a terminal: a progress bar with the time left, and a Ctrl-C that ends without a traceback."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from contextlib import suppress

import pytest

from bufferlab.cli.output import columns, in_lines
from bufferlab.errors import program
from support import fake_mysql
from support.fake import Bench, wait_until
from support.fake_mysql import FakeMysql


def start_on_terminal(bench: Bench, *arguments: str) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "bufferlab", *arguments],
        env={**bench.environment, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    return process, ours


def until(ours: int, words: str) -> str:
    """Return the terminal's output up to these words, and a little more."""
    shown = b""
    while words.encode() not in shown:
        chunk = os.read(ours, 65536)
        assert chunk, shown
        shown += chunk
    return shown.decode("utf-8", "replace")


def everything(ours: int) -> str:
    shown = b""
    with suppress(OSError):  # Reading a terminal fails once its other side is closed.
        while chunk := os.read(ours, 65536):
            shown += chunk
    os.close(ours)
    return shown.decode("utf-8", "replace")


def test_the_last_column_of_a_list_has_its_own_lines_where_the_others_leave_it_no_room() -> None:
    rows = [["a" * 30, "b" * 30, "What a column says wraps between words, and not within them."]]
    assert columns(("name", "place", "answer"), rows, 80).splitlines() == [
        f"name{' ' * 28}place",
        "    answer",
        f"{'a' * 30}  {'b' * 30}",
        "    What a column says wraps between words, and not within them.",
    ]
    assert columns(("name", "place", "answer"), [["a" * 20, "b" * 12, "An answer."]], 30).splitlines()[-3:] == [
        "a" * 20,
        f"    {'b' * 12}",
        "    An answer.",
    ]
    beside = columns(("name", "answer"), [["a", rows[0][2]]], 40).splitlines()
    assert beside == ["name  answer", "a     What a column says wraps between", "      words, and not within them."]


def test_a_message_breaks_between_words_and_a_command_stays_whole() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        told = in_lines("a message that is longer than the line of 40 characters", stream)
        command = f"to do the rest: {program()} run --resume runs/buffer-size-20260101-120000"
        assert in_lines(command, stream) == command
    os.close(ours)
    assert told == "a message that is longer than the line\nof 40 characters"


def test_a_terminal_shows_a_bar_with_the_time_left_and_then_the_answer(bench: Bench) -> None:
    experiment = bench.experiment(knobs="pace_ms = 100", repetitions=1)
    process, ours = start_on_terminal(bench, "run", str(experiment), "--out", str(bench.out))
    shown = everything(ours)
    assert process.wait(timeout=60) == 0
    assert "left" in shown
    assert "%" in shown
    assert "run 2 of 2" in shown
    assert "Per New-Order" in shown
    assert "\x1b[?25h" in shown, "the cursor is given back"


def test_ctrl_c_on_a_terminal_ends_without_a_traceback_and_gives_the_cursor_back(bench: Bench) -> None:
    experiment = bench.experiment(knobs="pace_ms = 50", transactions=1_000_000, repetitions=1)
    process, ours = start_on_terminal(bench, "run", str(experiment), "--out", str(bench.out))
    wait_until(lambda: any(bench.out.glob(".bufferlab-work/*/*/worker.log")), "the first run to start")
    os.killpg(process.pid, signal.SIGINT)
    shown = everything(ours)
    assert process.wait(timeout=60) == 130
    assert "Traceback" not in shown
    assert "interrupted; the results are kept" in shown
    assert "\x1b[?25h" in shown


def test_observe_draws_its_panel_in_place_and_says_events_above_it(bench: Bench) -> None:
    with FakeMysql({5: FakeMysql.disconnect}) as server:
        process, ours = start_on_terminal(bench, "observe", server.url, "--duration", "4s")
        shown = everything(ours)
        assert process.wait(timeout=60) in (0, 1), "1 where it is still lost at the end"
    assert "Misses a second" in shown
    assert "Whole look" in shown
    assert "misses, the last minute" in shown
    assert "the connection is gone" in shown
    assert "The pool misses" in shown
    assert "Traceback" not in shown
    assert "\x1b[?25h" in shown, "the cursor is given back"


@pytest.mark.parametrize(("typed", "times"), [("y", 1), ("n", 0)])
def test_observe_asks_before_it_looks_inside_a_large_pool(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, typed: str, times: int
) -> None:
    monkeypatch.setitem(fake_mysql.VARIABLES, "innodb_buffer_pool_size", str(1 << 30))
    with FakeMysql() as server:
        process, ours = start_on_terminal(bench, "observe", server.url, "--duration", "2s", "--look-inside")
        shown = until(ours, "Ask it once, at the end? [y/N]:")
        assert "asking who fills 65,536 pages takes about 0.98 s, in which reads wait for a latch" in " ".join(
            shown.split()
        )
        assert server.samples == 0, "nothing is looked at before the user has answered"
        os.write(ours, f"{typed}\n".encode())
        shown += everything(ours)
        assert process.wait(timeout=60) == 0, shown
    assert sum("INNODB_BUFFER_PAGE" in sql for sql in server.statements) == times
    assert "The pool misses" in shown, "a no leaves out that question alone"
    assert "Traceback" not in shown
    assert "\x1b[?25h" in shown, "the cursor is given back"
