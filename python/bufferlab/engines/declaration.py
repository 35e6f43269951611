"""What an engine says about itself: its knobs, their units and limits, and what it can do.

Pure data, so that `spec` can refuse what does not exist without touching an engine. Does not find,
start or drive anything: that is each engine's behaviour.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bufferlab.knob import Knob


@dataclass(frozen=True)
class Rates:
    """What a stage costs on a modest machine; replaced by what earlier runs here took."""

    load_bytes_per_s: float
    restore_bytes_per_s: float
    warm_up_bytes_per_s: float
    """Bytes of the database over the seconds until its pool was warm, all pool sizes taken together."""
    transactions_per_s: float
    check_bytes_per_s: float


@dataclass(frozen=True)
class EngineDeclaration:
    """Everything `spec`, `plan` and `list` need to know of an engine."""

    name: str
    meaning: str
    knobs: tuple[Knob, ...]
    rates: Rates
    max_connections: int
    connections_reason: str
    """Why there may not be more connections."""
    needs_disk: bool
    """A database in memory (tmpfs) would measure nothing."""
    frame_knob: str
    """The knob whose bytes are the frames of the pool."""
    page_knob: str
    """The knob whose bytes are a page: shares of the database are rounded down to whole frames of it."""
    min_frames: int
    file_format: Literal["sqlite", "own"]
    """How a second client reads the closed database to check it: as SQLite, or only the engine itself can."""
    size_factor: float = 1.0
    """Bytes of a loaded database, over the workload's estimate."""
    source: Literal["measured", "predicted"] = "measured"
    inputs: Literal["server", "given"] = "server"
    clock: Literal["wall", "virtual"] = "wall"
    hidden: bool = False
    """For tests: `bufferlab list` shows it with --all only."""
    notes: tuple[str, ...] = field(default=())

    def knob(self, name: str) -> Knob | None:
        """The knob of that name, if the engine has it."""
        return self.by_name().get(name)

    def by_name(self) -> Mapping[str, Knob]:
        """The knobs, keyed by the name people write."""
        return {knob.name: knob for knob in self.knobs}

    def native(self, asked: Mapping[str, str], database_bytes: int | None) -> dict[str, int | str]:
        """The knobs as the core takes them, from canonical texts; shares are of that many bytes."""
        native = {knob.native_name: knob.native(asked[knob.name], database_bytes) for knob in self.knobs}
        return {name: value for name, value in native.items() if not isinstance(value, float)}

    def defaults(self) -> dict[str, str]:
        """Every knob's default in canonical text."""
        return {knob.name: knob.parse(knob.default) for knob in self.knobs}
