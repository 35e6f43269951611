"""What an engine says about itself: its knobs, their units and limits, and what it can do.

Pure data, so that `spec` can refuse what does not exist without touching an engine. Does not find,
start or drive anything: that is each engine's behaviour.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from bufferlab.units import Size, UnitError, canonical_bytes, parse_bytes, parse_size


class KnobKind(Enum):
    """How a knob's value is written."""

    SIZE = "size"
    """Bytes: "64MiB"."""
    SIZE_OR_SHARE = "size or share"
    """Bytes, or a share of the loaded database: "10%"."""
    CHOICE = "choice"
    """One of a few words."""
    COUNT = "count"
    """A whole number."""


@dataclass(frozen=True)
class Knob:
    """One setting of an engine, with its limits."""

    name: str
    """As people write it: `pool_size`."""
    native_name: str
    """As the core takes it, the unit last: `pool_size_bytes`."""
    kind: KnobKind
    unit: str
    """The unit of the native value: "bytes", "count", or "" for a word."""
    default: str
    meaning: str
    choices: tuple[str, ...] = ()
    minimum: int = 0
    maximum: int | None = None
    power_of_two: bool = False
    decides_file: bool = False
    """Changing it needs a newly loaded database; it is part of `data_key`."""

    def parse(self, value: object) -> str:
        """The canonical text of a value asked for. Raises UnitError when it cannot be."""
        match self.kind:
            case KnobKind.CHOICE:
                return self._choice(value)
            case KnobKind.COUNT:
                return str(self._within(self._whole(value), str(value)))
            case KnobKind.SIZE:
                size_bytes = parse_bytes(_text_or_whole(value, self))
                self._within(size_bytes, str(value))
                return canonical_bytes(size_bytes)
            case KnobKind.SIZE_OR_SHARE:
                size = parse_size(_text_or_whole(value, self))
                if size.ratio is None:
                    self._within(size.size_bytes or 0, str(value))
                elif size.ratio <= 0:
                    raise UnitError(f"{self.name} = {value} is not more than nothing", "write a share above 0 %")
                return str(size)

    def native(self, canonical: str, database_bytes: int | None) -> int | str:
        """The value the core takes. A share needs the bytes of the loaded database."""
        match self.kind:
            case KnobKind.CHOICE:
                return canonical
            case KnobKind.COUNT:
                return int(canonical)
            case KnobKind.SIZE:
                return parse_bytes(canonical)
            case KnobKind.SIZE_OR_SHARE:
                size: Size = parse_size(canonical)
                if size.ratio is not None and database_bytes is None:
                    raise ValueError(f"{self.name} = {canonical} needs the size of the database")
                return size.resolve_bytes(database_bytes or 0)

    def range_text(self) -> str:
        """What may be written, for hints and for `bufferlab list engines`."""
        if self.kind is KnobKind.CHOICE:
            return " | ".join(self.choices)
        show = str if self.kind is KnobKind.COUNT else canonical_bytes
        text = f"{show(self.minimum)} " + ("or more" if self.maximum is None else f"to {show(self.maximum)}")
        if self.power_of_two:
            text += ", a power of two"
        if self.kind is KnobKind.SIZE_OR_SHARE:
            text += ', or a share of the database such as "10%"'
        return text

    def _choice(self, value: object) -> str:
        if isinstance(value, str) and value in self.choices:
            return value
        raise UnitError(f"{self.name} = {value} is not one of its values", f"choose {' | '.join(self.choices)}")

    def _whole(self, value: object) -> int:
        if isinstance(value, str) and value.strip().lstrip("-").isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnitError(f"{self.name} = {value} is not a whole number", f"write {self.range_text()}")
        return value

    def _within(self, value: int, written: str) -> int:
        hint = f"write {self.range_text()}"
        if value < 0:
            raise UnitError(f"{self.name} = {written} is negative", hint)
        if value < self.minimum:
            raise UnitError(f"{self.name} = {written} is below the engine's minimum", hint)
        if self.maximum is not None and value > self.maximum:
            raise UnitError(f"{self.name} = {written} is above the engine's maximum", hint)
        if self.power_of_two and value & (value - 1):
            raise UnitError(f"{self.name} = {written} is not a power of two", hint)
        return value


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


def _text_or_whole(value: object, knob: Knob) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise UnitError(f"{knob.name} = {value} is not a size", f"write {knob.range_text()}")
    return value
