"""The declaration of a buffer manager's model: which servers it is for, and which of their settings it obeys.

Pure data and small functions. The model itself is Rust (crates/bufferlab-sim), reached by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bufferlab import versions
from bufferlab.engines.native import native
from bufferlab.knob import Native
from bufferlab.results.page_traces import PagesOfObject, Verdict
from bufferlab.results.window import Window

if TYPE_CHECKING:
    from bufferlab.models.changes import Changes

Settings = Mapping[str, Any]
"""The settings of a model as the core takes them."""


@dataclass(frozen=True)
class Server:
    """The name of a run's engine, and the engine's version."""

    engine: str
    version: str

    def is_in(self, versions_of: str) -> bool:
        """Return whether this server is among those of `versions_of`, which versions.py reads."""
        return versions.has(versions_of, self.engine, self.version)


@dataclass(frozen=True)
class Pool:
    """A pool and the settings that the model obeys: those of a point, or of the traced run."""

    frames: int
    values: Mapping[str, int]
    """Settings by the engine's names; a setting that was left to the server has its default."""
    writing: Mapping[str, Native] = field(default_factory=dict)
    """The settings that only writes obey and that differ from the traced run's: bytes, seconds, counts or words."""


@dataclass(frozen=True)
class Traced:
    """The facts about the traced run from which a model judges in which cases it must not be believed."""

    server: Server
    pool: Pool
    edges: Window
    """The engine's counters and gauges in the measured window."""
    transactions: int
    """The number of transactions in the measured window."""
    connections: int
    objects: Sequence[PagesOfObject]
    """The tables and indexes whose pages the trace has."""
    ran: Mapping[str, int]
    """The settings that are whole numbers, by the engine's names."""
    others: Callable[[], Sequence[tuple[int, int, Window]]]
    """Returns frames, transactions and windows of the other measured runs in the traced run's sweep folder."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """All settings that are numbers, by the engine's names: times in seconds, sizes in bytes."""
    changed_pages: Callable[[], int] | None = None
    """Returns how many changes of PostgreSQL's pages the trace holds in the window. None without a trace."""
    is_rotational: bool = False
    """Whether the kernel calls the device of the data rotational, as it does most virtual ones."""
    changes: Callable[[AbstractSet[int]], Changes] | None = None
    """Returns the changes of pages in the trace: accesses under latches of these numbers. None without a trace."""


@dataclass(frozen=True)
class BufferManager:
    """The declaration of one buffer manager's model, under the name that the core has for it."""

    name: str
    version: int
    """The model's version. Raise it whenever one of its predictions may change."""
    meaning: str
    servers: str
    """The engines and versions that the model is for, as versions.py reads them."""
    is_compared: bool = True
    """Whether predictions for these servers were compared with measured reads."""
    own_defaults: Mapping[str, int] = field(default_factory=dict)
    """Settings whose default on these servers is not that of the core."""
    further: Callable[[Traced, Pool], Settings] = lambda _traced, _pool: {}
    """Returns settings of the model that follow from the server's version or from the sizes of pools and objects."""
    frames: Callable[[Server, int, int], int] = lambda _server, page_bytes, pool_bytes: pool_bytes // page_bytes
    """Returns the frames of a server's pool, from the bytes of a page and of the pool."""
    asks: tuple[str, ...] = ()
    """Settings of the engine, by its names, that `further` takes from `Traced.ran`."""
    only_writes: tuple[str, ...] = ()
    """Settings of the engine, by its names, that pages written depend on, and pages read do not."""
    presumes: Mapping[str, int | str] = field(default_factory=dict)
    """Settings of the engine that the model takes to have these values."""
    filled: float = 1.0
    """How many times the pool must have been filled before its empty start no longer matters."""
    read_ahead: tuple[str, ...] = ()
    """Counters of pages that the server read ahead."""
    by_speed: Callable[[Pool], str | None] = lambda _: None
    """Returns which setting makes the reads of a pool depend on the speed of the run; None if no setting does."""
    writing: Callable[[Traced], Any] | None = None
    """Returns how the traced run's server wrote dirty pages, or why that is unknown: a `Writing` of models/writes.py.

    None for a model without writes.
    """
    doubts: Callable[[Traced, Pool], Iterable[Verdict]] = lambda _traced, _pool: ()
    """Returns why the model must not be believed at a point."""
    untraced: Callable[[Pool], Iterable[Verdict]] = lambda _: ()
    """Returns why the model must not be believed for a pool that no trace covers."""

    @property
    def defaults(self) -> dict[str, int]:
        """Return the settings that the model obeys besides the pool's size, with the server's defaults."""
        return {**json.loads(native().model_defaults())[self.name], **self.own_defaults}

    def settings(self, traced: Traced, pool: Pool) -> Settings:
        """Return all settings of the model with a pool, as the core takes them."""
        return {**pool.values, **self.further(traced, pool)}
