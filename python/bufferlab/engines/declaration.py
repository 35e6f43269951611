"""What an engine says about itself: its knobs, their units and limits, and what it can do.

Pure data, so that `spec` can refuse what does not exist without touching an engine. Does not find,
start or drive anything: that is each engine's behaviour.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from bufferlab.knob import AUTO, Knob, KnobKind, Value
from bufferlab.results.check import EngineResults
from bufferlab.units import canonical_duration, canonical_number


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
    """The knob whose bytes are the frames of the pool; "": it has no pool."""
    page_knob: str
    """The knob whose bytes are a page: shares of the database are rounded down to whole frames of it; "": no pages."""
    min_frames: int
    file_format: Literal["sqlite", "own"]
    """How a second client reads the closed database to check it: as SQLite, or only the engine itself can."""
    size_factor: float = 1.0
    """Bytes of a loaded database, over the workload's estimate."""
    base_bytes: int = 0
    """What a loaded database takes beside its data: logs, system tables. No part of what a share is a share of."""
    start_seconds: float = 0.5
    """A worker process until its database is open."""
    source: Literal["measured", "predicted"] = "measured"
    inputs: Literal["server", "given"] = "server"
    clock: Literal["wall", "virtual"] = "wall"
    results: EngineResults = field(default_factory=EngineResults)
    """What the engine owns of its results; engines that share a family share it."""
    chapters: str = ""
    """The module whose `CHAPTERS` the engine adds to a report; "": none."""
    family: str = ""
    """The storage engine several engines share: an experiment may have sizes for all of them at once."""
    data_kind: Literal["file", "directory"] = "file"
    """What a loaded database is."""
    is_server: bool = False
    """It runs as a process of its own, which other programs can be started against."""
    needs_unprivileged_user: bool = False
    """Its server refuses to run as root: as root, another user must be able to reach the data."""
    default_connections: int = 1
    rounds: tuple[str, ...] = ()
    """Sizes the engine may round to units of its own: a finding to report, not an error."""
    edge_rows: int = 0
    """Rows beside each leaf of a table whose lookup by key gets that leaf too, on the way to their own."""
    data_frames: Callable[[Mapping[str, Value], int], int] | None = None
    """Of a pool's frames those that hold pages of data, by the settings' values; None: all of them."""
    pool_unit_bytes: int = 1
    """A pool that is a share of the database is rounded down to whole units, so that the engine need not round."""
    passes_through: str = ""
    """Names that begin so are variables of the engine's own, given to it as they are written; "": there are none."""
    data_is_read_only: bool = False
    """No run writes to the data: they are used in place, not copied."""
    data_bytes: Callable[[Mapping[str, int | str]], int] | None = None
    """Bytes of the data from the native knobs that decide them, where the engine says so and not the workload."""
    workloads: tuple[str, ...] = ()
    """The only workloads it can be driven by; empty: any that does not need another engine."""
    changes_host: bool = False
    """Its runs may change settings of the host; its behaviour then says how they are put back (`restore_host`)."""
    hidden: bool = False
    """For tests: `bufferlab list` shows it with --all only."""
    notes: tuple[str, ...] = field(default=())

    def knob(self, name: str) -> Knob | None:
        """The knob of that name, if the engine has it."""
        return self.by_name().get(name)

    def by_name(self) -> Mapping[str, Knob]:
        """The knobs, keyed by the name people write."""
        return {knob.name: knob for knob in self.knobs}

    def variable(self, name: str) -> Knob | None:
        """The knob that passes a variable of the engine's own through, if the name is one's."""
        prefix = self.passes_through
        if not prefix or not re.fullmatch(re.escape(prefix) + r"[a-zA-Z][a-zA-Z0-9_]*", name):
            return None
        return Knob(
            name,
            name,
            KnobKind.TEXT,
            "",
            "",
            f"the engine's own variable {name.removeprefix(prefix)}, as it is written",
            pattern=r"[^\x00-\x1f\x7f]{1,200}",
            example="a value of that variable",
        )

    def asked_knobs(self, asked: Mapping[str, str]) -> tuple[Knob, ...]:
        """The declared knobs, then the variables passed through that are among the settings asked for."""
        variables = (self.variable(name) for name in asked)
        return (*self.knobs, *(knob for knob in variables if knob is not None))

    def native(self, asked: Mapping[str, str], database_bytes: int | None) -> dict[str, int | str]:
        """The knobs as the core takes them, from canonical texts; shares are of that many bytes.

        What is left to the engine ("auto" with no value of ours) is not among them.
        """
        native: dict[str, int | str] = {}
        for knob in self.asked_knobs(asked):
            value = knob.native(asked[knob.name], database_bytes)
            left = knob.auto is not None and value == AUTO
            if not left:
                native[knob.native_name] = _as_text(knob, value) if isinstance(value, float) else value
        return native

    def frames_of_data(self, values: Mapping[str, Value], frames: int) -> int:
        """Of a pool's frames those that hold pages of data."""
        return self.data_frames(values, frames) if self.data_frames else frames

    def defaults(self) -> dict[str, str]:
        """Every knob's default in canonical text."""
        return {knob.name: knob.parse(knob.default) for knob in self.knobs}


def _as_text(knob: Knob, value: float) -> str:
    """The shortest text of a number or a time, so that what is read back can be compared with it."""
    return canonical_duration(value) if knob.kind is KnobKind.DURATION else canonical_number(Decimal(repr(value)))
