"""Tests that the live bar is redrawn when its text changed, and only then."""

from __future__ import annotations

import io
import time

import pytest

from bufferlab.cli.progress import progress
from bufferlab.execute.progress import SweepStatus


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
        time.sleep(0.3)  # A bar that a clock redraws would be drawn three times.
        assert terminal.tell() == first
        shown.show(SweepStatus("measuring", 1, 2, "pool_size 10%", 0.26, 59))
        assert "26 %" in terminal.getvalue()[first:]
        shown.say("one run is done")
        assert terminal.getvalue().rstrip().count("one run is done") == 1
