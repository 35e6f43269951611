"""Plays page accesses that are no run of ours to the model of a buffer manager, at pools of several sizes.

Such a file tells no latches, sessions or tables. Every get counts as a read by one session, and no scan has a ring.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from bufferlab.engines.native import native
from bufferlab.errors import SpecError
from bufferlab.models.managers.declaration import BufferManager, Pool
from bufferlab.models.managers.registry import MANAGERS
from bufferlab.results.page_traces import Replayed
from bufferlab.traces.page_trace import Accesses, Columns, rows_within

#: Settings of the core that follow from a server, its tables and a pool's frames: MySQL 5.7, and no table is known.
_FURTHER: Mapping[str, Callable[[int], Mapping[str, object]]] = {
    "innodb57": lambda _: {"wakes_cleaner": True},
    "innodb1011": lambda _: {},
    "postgres": lambda frames: {"large_tables": [], "ring_buffers": max(1, min(32, frames // 8))},
}
#: A shared latch of InnoDB; of PostgreSQL, a session's first pin of the page.
_SHARED = 1


@dataclass(frozen=True)
class Played:
    """The misses of a model at each size, and where it must not be believed."""

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
) -> Played:
    """Return what a model misses in pools of `sizes` pages; `progress` hears the share that is done.

    `asked` has settings as they were typed. Raise SpecError for one that the model does not obey or allow.
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
    misses, doubts = [], []
    for place, frames in enumerate(sizes):
        try:
            asked_json = json.dumps({**settings, **_FURTHER[name](frames)})
            told = native().replay(name, asked_json, frames, 0, first, end, **columns)
        except ValueError as error:
            raise SpecError(f"{name} cannot play this: {error}", "--set", "choose other settings") from error
        misses.append(Replayed.model_validate_json(told).misses)
        doubts += [f"{frames:,} pages: {verdict.sentence}" for verdict in manager.untraced(Pool(frames, settings))]
        progress((place + 1) / len(sizes))
    return Played(name, manager.version, settings, tuple(misses), tuple(doubts))


def _settings(manager: BufferManager, asked: Mapping[str, str]) -> dict[str, int]:
    settings = manager.defaults
    for name, text in asked.items():
        if name not in settings:
            close = get_close_matches(name, settings, n=1)
            known = f"its settings: {', '.join(sorted(settings))}" if settings else "it has none"
            hint = f"did you mean {close[0]}?" if close else known
            raise SpecError(f"{manager.name} has no setting {name}", f"--set {name}", hint)
        if not (text.isascii() and text.isdigit() and int(text[:12]) < 1 << 32):
            raise SpecError(f'"{text}" is no whole number below 2^32', f"--set {name}", f"write --set {name}=1000")
        settings[name] = int(text)
    return settings
