"""Replays page accesses recorded by other programs in a buffer manager's model, with pools of several sizes.

Such a file records no latches, sessions or tables. So the model takes every access as a read by one session, and no
scan uses a ring buffer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bufferlab.engines.native import native
from bufferlab.errors import SpecError
from bufferlab.models.ahead import Ahead, Watch, replay_bytes, threads_for
from bufferlab.models.managers.declaration import BufferManager, Pool
from bufferlab.models.predict import MANAGERS
from bufferlab.results.page_traces import Replayed
from bufferlab.traces.page_trace import Accesses, Columns, rows_within

#: Model -> a function that computes, from a pool's frames, the settings that otherwise follow from a server's version
#: and tables. InnoDB's are those of MySQL 5.7; no table is known.
_FURTHER: Mapping[str, Callable[[int], Mapping[str, object]]] = {
    "innodb57": lambda _: {"wakes_cleaner": True},
    "innodb1011": lambda _: {},
    "postgres": lambda frames: {"large_tables": [], "ring_buffers": max(1, min(32, frames // 8))},
}
#: The kind of every get: in InnoDB under a shared latch, in PostgreSQL a session's first pin of the page.
_SHARED = 1


@dataclass(frozen=True)
class PlayedTrace:
    """A model's misses with each pool size, and the reasons to doubt them."""

    name: str
    version: int
    settings: Mapping[str, int]
    misses: tuple[int, ...]
    doubts: tuple[str, ...]


def play(
    accesses: Accesses,
    name: str,
    asked: Mapping[str, str],
    sizes: Sequence[int],
    window_s: tuple[float, float] | None,
    progress: Callable[[float], None],
) -> PlayedTrace:
    """Return a model's misses in pools of `sizes` pages, computed on all cores; `progress` gets the share done.

    `asked` has the settings as the user typed them. Raises SpecError for a setting that the model does not have, or a
    value that it does not allow.
    """
    manager = next(one for one in MANAGERS if one.name == name)
    settings = _settings(manager, asked)
    count = len(accesses.page)
    first, end = rows_within(accesses.time_s, window_s) if window_s else (0, count)
    delta_us = np.diff(np.floor(1e6 * (accesses.time_s - accesses.time_s[:1])), prepend=0.0)
    columns: Columns = {
        "page": accesses.page,
        "kind": accesses.kind,
        "latch": np.full(count, _SHARED, np.uint8),
        "thread": np.zeros(count, np.uint16),
        "delta_us": np.minimum(delta_us, np.iinfo(np.uint32).max).astype(np.uint32),
    }
    rows = _Rows(name, settings, {key: _shared(column) for key, column in columns.items()}, first, end)
    threads, _ = threads_for(len(sizes), replay_bytes(max(sizes, default=0) + accesses.pages, count))
    with Ahead(lambda place, watch: rows.misses(sizes[place], watch), range(len(sizes)), threads) as ahead:
        misses = [ahead.result(place, partial(_tell, progress, place, len(sizes))) for place in range(len(sizes))]
    doubts = [
        f"{frames:,} pages: {verdict.sentence}"
        for frames in sizes
        for verdict in manager.untraced(Pool(frames, settings))
    ]
    return PlayedTrace(name, manager.version, settings, tuple(misses), tuple(doubts))


@dataclass(frozen=True)
class _Rows:
    """The accesses to replay, and the model that replays them. Only misses of rows from `first` to `end` count."""

    name: str
    settings: Mapping[str, int]
    columns: Columns
    first: int
    end: int

    def misses(self, frames: int, watch: Watch) -> int:
        """Return the misses in a pool of `frames` frames. Raises SpecError for settings that it cannot have."""
        asked = json.dumps({**self.settings, **_FURTHER[self.name](frames)})
        try:
            told = native().replay(
                self.name, asked, frames, 0, self.first, self.end, **self.columns, watch=partial(watch, "playing")
            )
        except ValueError as error:
            raise SpecError(f"{self.name} cannot play this: {error}", "--set", "choose other settings") from error
        return Replayed.model_validate_json(told).misses


def _tell(progress: Callable[[float], None], place: int, sizes: int, _stage: str, share: float) -> None:
    progress((place + share) / sizes)


def _shared(column: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view of a column, so that the core releases Python's lock while threads read it."""
    found = np.ascontiguousarray(column).view()
    found.flags.writeable = False
    return found


def _settings(manager: BufferManager, asked: Mapping[str, str]) -> dict[str, int]:
    settings = manager.defaults
    for name, text in asked.items():
        if name not in settings:
            close = get_close_matches(name, settings, n=1)
            known = f"its settings: {', '.join(sorted(settings))}" if settings else "it has none"
            hint = f"did you mean {close[0]}?" if close else known
            raise SpecError(f"{manager.name} has no setting {name}", f"--set {name}", hint)
        digits = text.lstrip("0") or "0"
        if not (text.isascii() and text.isdigit() and len(digits) <= 10 and int(digits) < 1 << 32):
            raise SpecError(f'"{text}" is no whole number below 2^32', f"--set {name}", f"write --set {name}=1000")
        settings[name] = int(digits)
    return settings
