"""Ctrl-C and SIGTERM while a sweep runs: noted by the handler, acted upon where it is safe.

The first signal asks the running worker to stop and keeps the results; a second one does not wait for it.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

from bufferlab.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Within this context the signals set a flag in place of ending the process."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self.times = 0
        self._previous: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        # Python allows handlers in the main thread alone; a sweep in another thread is stopped by its owner.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.times += 1
        self.signal_number = self.signal_number or number

    @property
    def requested(self) -> bool:
        """Has anyone asked to stop?"""
        return self.signal_number is not None

    @property
    def impatient(self) -> bool:
        """Has anyone asked twice?"""
        return self.times > 1

    @property
    def name(self) -> str:
        """The signal's name, for reasons."""
        return signal.Signals(self.signal_number).name if self.signal_number else ""

    def check(self) -> None:
        """Raise Interrupted if a stop was requested; called between the chunks of long work."""
        if self.signal_number is not None:
            raise Interrupted(self.signal_number)
