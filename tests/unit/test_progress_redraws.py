"""The displays of progress: when the live bar is redrawn, and where the answer so far is shown."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest

from bufferlab.cli.progress import progress
from bufferlab.execute.progress import Standing, SweepStatus
from support.synthetic import Sweep, build


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_is_drawn_again_only_when_its_text_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with progress() as shown:
        shown.show(SweepStatus("measuring", 1, 2, "pool_size 10%", 0.25, 60))
        first = terminal.tell()
        assert "measuring" in terminal.getvalue()
        for _ in range(5):
            shown.show(SweepStatus("measuring", 1, 2, "pool_size 10%", 0.2501, 60.01))
        time.sleep(0.3)  # A bar that a clock redraws would be drawn three times in this time.
        assert terminal.tell() == first
        shown.show(SweepStatus("measuring", 1, 2, "pool_size 10%", 0.26, 59))
        assert "26 %" in terminal.getvalue()[first:]
        shown.say("one run is done")
        assert terminal.getvalue().rstrip().count("one run is done") == 1


def _last_frame(terminal: _Terminal) -> list[str]:
    """Return the last lines on the terminal, without colours: each redraw goes back to the display's first line."""
    frame = re.split(r"(?:\x1b\[1A\x1b\[2K)+", terminal.getvalue())[-1]
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", frame).replace("\r", "").splitlines()


@pytest.mark.parametrize(("height", "names"), [(24, ["5 %", "10 %", "20 %", "40 %", "80 %"]), (10, ["10 %", "20 %"])])
def test_a_terminal_has_the_answer_so_far_above_its_bar_around_the_last_run_where_it_is_low(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, height: int, names: list[str]
) -> None:
    folder, terminal = build(tmp_path, Sweep(blocks=1)), _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for name, value in {"TERM": "xterm", "COLUMNS": "80", "LINES": str(height)}.items():
        monkeypatch.setenv(name, value)
    runs = sorted(folder.runs(), key=lambda record: record.run.point.index)
    with progress() as shown:
        shown.look(Standing(folder, [*runs[:2], *runs[3:]], 60, 300))
        shown.look(Standing(folder, runs, 60, 300))
        shown.show(SweepStatus("measuring 40%", 4, 5, "pool_size 40%, block 1", 0.7, 60))
        lines = _last_frame(terminal)
    assert [
        name for name in ("5 %", "10 %", "20 %", "40 %", "80 %") if any(line[1:].startswith(name) for line in lines)
    ] == names
    assert len(lines) <= height
    assert max(map(len, lines)) <= 80
    assert lines[-2] == "run 4/5 pool_size 40%, block 1: measuring 40%"
    assert "70 %  about 1 min left" in lines[-1]


def test_without_a_terminal_the_page_is_written_and_an_empty_table_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, words = build(tmp_path, Sweep(blocks=1)), io.StringIO()
    monkeypatch.setattr("sys.stderr", words)
    with progress() as shown:
        shown.look(Standing(folder, [], 60, 300))
        shown.look(Standing(folder, folder.runs(), 0, 300))
    assert words.getvalue() == ""
    assert "5 of 5 runs" in (folder.path / "report.html").read_text()
