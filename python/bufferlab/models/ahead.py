"""Computes the parts of a long job on all cores in advance, while the caller takes one result after another.

Parts share their input but no random numbers, and results come in the caller's order. So the results do not depend on
the number of threads. Python's threads suffice: the Rust core releases Python's lock while it replays or generates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import Generic, TypeVar

from bufferlab.procfs import assumed_bytes
from bufferlab.units import format_bytes

Watch = Callable[[str, float], None]
"""A function that gets the name of a job's stage and the share of it that is done. It may raise to stop the job."""
Part = TypeVar("Part")
Result = TypeVar("Result")

_SHARE_OF_MEMORY = 2
"""All threads together may take one half of the free memory: free bytes are divided by this number."""
_INTERVAL_S = 0.1
_BYTES_OF_PAGE = 52
"""The most bytes that a model keeps in memory per page and per frame."""
_BYTES_OF_ROW = 5
"""The bytes of memory per access that a replay needs for OPT, which looks ahead, or at another speed."""


class _UnwantedError(Exception):
    """Raised in the thread of a part whose result is no longer needed, because the caller has left the context."""


def replay_bytes(pages: int, accesses: int) -> int:
    """Return the most bytes of memory that a replay takes without its accesses; `pages` counts touched pages and
    frames."""
    return _BYTES_OF_PAGE * pages + _BYTES_OF_ROW * accesses


def threads_for(parts: int, part_bytes: int) -> tuple[int, str | None]:
    """Return the number of threads for `parts` parts, and a sentence why it is less than one per core (None if it is
    not).

    `part_bytes` is the memory that one part takes.
    """
    cores = len(os.sched_getaffinity(0))
    wanted, free = max(1, min(cores, parts)), assumed_bytes() // _SHARE_OF_MEMORY
    threads = max(1, min(wanted, free // max(1, part_bytes)))
    if threads == wanted:
        return threads, None
    each = (
        f"each prediction takes up to {format_bytes(part_bytes)}, and half of the free memory is {format_bytes(free)}"
    )
    return threads, f"{threads} of {cores} cores predict: {each}"


class Ahead(Generic[Part, Result]):
    """Context manager for the working threads. Leaving it ends them within about a tenth of a second.

    The function `work` gets a part and a Watch, which it must call several times a second.
    """

    def __init__(self, work: Callable[[Part, Watch], Result], parts: Iterable[Part], threads: int) -> None:
        self._work = work
        self._left = Event()
        self._told: dict[Part, tuple[str, float]] = {}
        self._threads = ThreadPoolExecutor(threads)
        self._futures = {part: self._threads.submit(self._do, part) for part in parts}

    def __enter__(self) -> Ahead[Part, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._threads.shutdown(cancel_futures=True)

    def results(self, watch: Callable[[float], None]) -> Iterator[tuple[Part, Result]]:
        """Yield each part with its result, in order; meanwhile `watch` gets the share of the parts that are done.

        Raises any error of `result`.
        """
        for place, part in enumerate(self._futures):

            def hear(_stage: str, _share: float, done: float = place / len(self._futures)) -> None:
                watch(done)

            yield part, self.result(part, hear)

    def result(self, part: Part, watch: Watch) -> Result:
        """Return the result of a part; meanwhile `watch` gets the part's progress in this thread.

        Raises any error of the part's work, and of `watch`.
        """
        future = self._futures[part]
        while True:
            watch(*self._told.get(part, ("starting", 0.0)))
            if wait([future], _INTERVAL_S).done:
                return future.result()

    def _do(self, part: Part) -> Result:
        def hear(stage: str, share: float) -> None:
            if self._left.is_set():
                raise _UnwantedError
            self._told[part] = (stage, share)

        return self._work(part, hear)
