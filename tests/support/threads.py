"""Helpers for predictions on several threads: hosts with a given number of cores, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from bufferlab.execute.progress import Silent, SweepStatus
from bufferlab.models import ahead


def on(cores: int, monkeypatch: pytest.MonkeyPatch, free_bytes: int = 1 << 34) -> None:
    """Pretend that the host has `cores` cores and `free_bytes` of free memory."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(ahead, "assumed_bytes", lambda: free_bytes)


class StopInTheSecond(Silent):
    """A display that sends SIGINT when the second run is reported."""

    def show(self, status: SweepStatus) -> None:
        """Send the signal to this process."""
        if status.run == 2:
            os.kill(os.getpid(), signal.SIGINT)


def endless_after_the_first(predicted: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that predicts the first run of a plan; every other run lasts until it is asked to stop."""

    def changed(origin: Any, planned: Any, point: Any, watch: Callable[[str, float], None]) -> Any:
        while planned.order:
            watch("replaying", 0.5)
            time.sleep(0.01)
        return predicted(origin, planned, point, watch)

    return changed
