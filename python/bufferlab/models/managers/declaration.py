"""The declaration of a buffer manager's model: which servers it is for, and which of their settings it obeys.

Pure data and small functions. The model itself is Rust (crates/bufferlab-sim), reached by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bufferlab import versions
from bufferlab.results.schema import PagesOfObject

Settings = Mapping[str, Any]
"""The settings of a model as the core takes them."""


@dataclass(frozen=True)
class Server:
    """The engine of a run, and its version."""

    engine: str
    version: str

    def is_in(self, versions_of: str) -> bool:
        """Return whether versions hold this server, as versions.py reads them."""
        return versions.has(versions_of, self.engine, self.version)


@dataclass(frozen=True)
class Pools:
    """The pool of the traced run and that of a point, and the objects whose pages the trace has."""

    traced_frames: int
    frames: int
    connections: int
    objects: Sequence[PagesOfObject]
    ran: Mapping[str, int]
    """Settings of the traced run by the engine's names, where they are whole numbers."""


@dataclass(frozen=True)
class Point:
    """One prediction: the settings that the model obeys, and what it found with them."""

    server: Server
    values: Mapping[str, int]
    """By the engine's names; a setting that was left to the server has its default."""
    frames: int
    connections: int
    reads_per_s: float
    """Reads of the model per second of the trace's window."""
    reads_per_s_before: float
    """The same before the window."""
    turnovers_in_window: float
    """How many times the window fills the pool."""


@dataclass(frozen=True)
class BothEnds:
    """The reason why a point has no single prediction, and the settings between which the truth lies."""

    why: str
    ends: tuple[tuple[str, Settings], tuple[str, Settings]]
    """Two settings of the model, each with its name."""


@dataclass(frozen=True)
class BufferManager:
    """A model, by the name that the core knows."""

    name: str
    version: int
    """Grows whenever a prediction of the model may change."""
    meaning: str
    servers: str
    """The engines and versions that the model is for, as versions.py reads them."""
    defaults: Mapping[str, int]
    """The settings that the model obeys besides the pool's size, with the server's own defaults."""
    settings: Callable[[Server, Mapping[str, int]], Settings]
    """Returns the model's settings for a server and the values of its settings."""
    presumes: Mapping[str, int | str]
    """Settings of the engine that the model takes to have these values."""
    of_pools: Callable[[Server, Pools], Settings] = lambda _server, _pools: {}
    """Returns further settings of the model, which follow from the sizes of pools and objects."""
    read_ahead: tuple[str, ...] = ()
    """Counters of pages that the server read ahead."""
    both_ends: Callable[[Point], BothEnds | None] = lambda _: None
    """Returns why a point cannot be predicted, if it cannot."""
