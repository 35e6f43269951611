"""The declaration of a buffer manager's model: which servers the model covers, and which of their settings it knows.

This file has only data and small functions. The model itself is in Rust (crates/bufferlab-sim), under the same name.
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
    from bufferlab.traces.changed_pages import Changes

Settings = Mapping[str, Any]
"""The settings of a model in the form that the Rust core takes."""


@dataclass(frozen=True)
class Server:
    """The name of a run's engine, and the engine's version."""

    engine: str
    version: str

    def is_in(self, versions_of: str) -> bool:
        """Return whether this server is in `versions_of`, a range in the notation of versions.py."""
        return versions.has(versions_of, self.engine, self.version)


@dataclass(frozen=True)
class Pool:
    """A pool and the values of the model's settings, at a point or in the traced run."""

    frames: int
    values: Mapping[str, int]
    """Setting, by the engine's name -> value; the server's default if the setting was not set."""
    writing: Mapping[str, Native] = field(default_factory=dict)
    """The settings that affect only writes and differ from the traced run's: bytes, seconds, counts or words."""


@dataclass(frozen=True)
class Traced:
    """The facts about the traced run from which a model finds reasons to doubt its results."""

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
    """The run's settings that are whole numbers, by the engine's names."""
    others: Callable[[], Sequence[tuple[int, int, Window]]]
    """A function that returns (frames, transactions, window) of each other measured run in the traced run's sweep."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """All settings that are numbers, by the engine's names: times in seconds, sizes in bytes."""
    words: Mapping[str, str] = field(default_factory=dict)
    """The settings of a generated run that are words, by the engine's names; empty with a trace."""
    changed_pages: Callable[[], int] | None = None
    """A function that returns the number of page changes in a PostgreSQL trace's window; None without a trace."""
    is_rotational: bool = False
    """Whether the kernel calls the data's device rotational, as it does most virtual devices."""
    changes: Callable[[AbstractSet[int]], Changes] | None = None
    """A function that returns an InnoDB trace's page changes: accesses under the given latches; None without a
    trace."""


@dataclass(frozen=True)
class BufferManager:
    """The declaration of one buffer manager's model, under the Rust core's name for it."""

    name: str
    version: int
    """The model's version. Raise it whenever one of its predictions may change."""
    meaning: str
    servers: str
    """The engines and versions that the model covers, in the notation of versions.py."""
    is_compared: bool = True
    """Whether predictions for these servers were compared with measured reads."""
    own_defaults: Mapping[str, int] = field(default_factory=dict)
    """Settings whose default on these servers differs from the core's."""
    further: Callable[[Traced, Pool], Settings] = lambda _traced, _pool: {}
    """A function that returns the model's settings that follow from the server's version, its pool or its tables."""
    frames: Callable[[Server, int, int], int] = lambda _server, page_bytes, pool_bytes: pool_bytes // page_bytes
    """A function that returns the number of frames of a server's pool, given the bytes of a page and of the pool."""
    asks: tuple[str, ...] = ()
    """The engine's settings that `further` reads from `Traced.ran`, by the engine's names."""
    only_writes: tuple[str, ...] = ()
    """The engine's settings that affect pages written but not pages read, by the engine's names."""
    presumes: Mapping[str, int | str] = field(default_factory=dict)
    """The engine's settings -> the values that the model assumes."""
    filled: float = 1.0
    """How often a pool that begins empty must be filled before its reads are those of a warm pool."""
    read_ahead: tuple[str, ...] = ()
    """The names of the server's counters of pages read ahead."""
    by_speed: Callable[[Pool], str | None] = lambda _: None
    """A function that returns, in words, the setting that makes a pool's reads depend on the run's speed, or None."""
    writing: Callable[[Traced], Any] | None = None
    """A function that returns how the traced run's server wrote dirty pages, or why that is unknown (`writes.Writing`).

    None for a model without writes.
    """
    untraced_writing: Callable[[Traced], Any] | None = None
    """A function that returns how a server writes dirty pages in a generated run, or why that is unknown
    (`untraced.UntracedWriting`). None for a model whose writes are predicted only from a trace.
    """
    untraced_settings: tuple[str, ...] = ()
    """The engine's settings that `untraced_writing` takes into account, by the engine's names. They change no reads."""
    doubts: Callable[[Traced, Pool], Iterable[Verdict]] = lambda _traced, _pool: ()
    """A function that returns the reasons to doubt the model at a point."""
    untraced: Callable[[Pool], Iterable[Verdict]] = lambda _: ()
    """A function that returns the reasons to doubt the model for a pool without a trace."""

    @property
    def defaults(self) -> dict[str, int]:
        """Return the model's settings, except the pool's size, with the server's defaults."""
        return {**json.loads(native().model_defaults())[self.name], **self.own_defaults}

    def settings(self, traced: Traced, pool: Pool) -> Settings:
        """Return all of the model's settings for a pool, in the form that the Rust core takes."""
        return {**pool.values, **self.further(traced, pool)}
