"""Handles Ctrl-C, SIGTERM and SIGHUP during a sweep: the handler sets a flag, and the sweep stops where it is safe.

The first signal asks the running worker to stop, and the results are kept. A second one kills the worker.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from types import FrameType

from bufferlab.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """A context in which signals set a flag and do not end the process; signals in `ignored` have no effect."""

    def __init__(self, ignored: Sequence[signal.Signals] = ()) -> None:
        self._ignored = tuple(ignored)
        self.signal_number: int | None = None
        self.times = 0
        self._previous: dict[int, object] = {}

    def __enter__(self) -> StopRequest:
        # Python allows signal handlers only in the main thread. If the sweep runs in another thread, the code that
        # started the thread stops it.
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                    continue  # nohup(1) made the process ignore SIGHUP.
                self._previous[number] = signal.signal(number, self._note)
            for number in self._ignored:
                self._previous[number] = signal.signal(number, signal.SIG_IGN)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.times += 1
        self.signal_number = self.signal_number or number

    @property
    def requested(self) -> bool:
        """Return whether a signal has requested a stop."""
        return self.signal_number is not None

    @property
    def impatient(self) -> bool:
        """Return whether a second signal has come: the running worker is then killed."""
        return self.times > 1

    @property
    def name(self) -> str:
        """Return the name of the first signal that requested a stop, such as SIGINT; "" if none did."""
        return signal.Signals(self.signal_number).name if self.signal_number else ""

    def check(self) -> None:
        """Raise Interrupted if a stop was requested. Long work calls this between its chunks."""
        if self.signal_number is not None:
            raise Interrupted(self.signal_number)
