"""A setting that a point may vary: its name, limits, units, and how its text becomes a value.

Engines declare knobs, workloads parameters, the load its own; all three are this one type. Pure: it reads
no file and knows no engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from bufferlab.units import (
    UnitError,
    brief,
    canonical_bytes,
    canonical_duration,
    canonical_number,
    parse_bytes,
    parse_duration,
    parse_number,
    parse_percent,
    parse_size,
)

Native = int | float | str
"""A value as the core takes it."""

Value = bool | int | float | str | None
"""A value as an engine tells it; None where it tells none."""

AUTO = "auto"
UNLIMITED = "unlimited"
"""A rate without a limit."""
"""What a setting with a value of its own for each version may be: not the user's choice."""

_WHOLE = re.compile(r"\s*([+-]?[0-9][0-9_]{0,30})\s*")
_LARGEST = 2**63 - 1
"""Of a knob without a maximum of its own: engines count in 64 bits."""
_LARGEST_SHARE = 10
"""A pool of ten databases, or ten times a working set, holds no more than one that holds it whole."""
_MAX_FRACTION_DIGITS = 12
"""More digits of a number or share than this are a slip of the hand, and floats could not tell them apart."""


class Asked(str):
    """The canonical text of a value asked for, with what it was parsed to: nobody need parse it again."""

    ratio: Decimal | None
    """The share, of a value that is a share of a whole."""
    value: Native
    """The typed value, of any other; AUTO for what is left to the engine."""

    def __new__(cls, text: str, value: Native = "", ratio: Decimal | None = None) -> Asked:
        """Make the text; `ratio` is of a share, `value` of anything else."""
        asked = super().__new__(cls, text)
        asked.value, asked.ratio = value, ratio
        return asked


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
    COUNT_OR_SHARE = "count or share"
    """A whole number, or a share of a whole that the workload knows: "80%"."""
    NUMBER = "number"
    """A decimal number: 0.9; or a word that stands for one."""
    DURATION = "duration"
    """A time: "10s"."""
    FILE = "file"
    """The path of a text file, read before anything starts."""
    TEXT = "text"
    """A word or a path of some form that the engine or the workload judges."""


@dataclass(frozen=True)
class Knob:
    """One setting, with its limits. Sizes, counts, numbers and seconds are limited by `minimum` and `maximum`."""

    name: str
    """As people write it: `pool_size`."""
    native_name: str
    """As the core takes it, the unit last: `pool_size_bytes`."""
    kind: KnobKind
    unit: str
    """The unit of the native value: "bytes", "rows", or "" for a word and a bare number."""
    default: str
    """What holds when nothing is said; "" for what must be said (a file)."""
    meaning: str
    choices: tuple[str, ...] = ()
    """The words that may be written: all there are of a CHOICE, beside the numbers of a NUMBER and the sizes of a
    SIZE_OR_SHARE."""
    minimum: int | Decimal = 0
    maximum: int | None = None
    power_of_two: bool = False
    share_of: str = "the database"
    """The whole of which a share is a share."""
    decides_file: bool = False
    """Changing it needs other loaded data; it is part of `data_key`."""
    sweepable: bool = True
    auto: str | None = None
    """What "auto" stands for where the version has the setting: a value, or "" for the server's own default, which is
    then not set at all. None: the word means nothing here."""
    versions: str = ""
    """The servers' versions that have it, as versions.py reads them; "": all."""
    value_versions: tuple[tuple[str, str], ...] = ()
    """Values that only some versions have, each with those versions."""
    pattern: str = ""
    """Of a TEXT: the regular expression a value matches."""
    example: str = ""
    """Of a TEXT: what may be written, in words."""

    def parse(self, value: object) -> Asked:
        """The canonical text of a value asked for. Raises UnitError when it cannot be."""
        if self.auto is not None and value == AUTO:
            own = self.parse(self.auto) if self.auto else Asked(AUTO, AUTO)
            return Asked(AUTO, own.value, own.ratio)
        match self.kind:
            case KnobKind.TEXT:
                return self._word(self._text(value))
            case KnobKind.CHOICE:
                return self._word(self._choice(value))
            case KnobKind.COUNT:
                return self._count(value)
            case KnobKind.COUNT_OR_SHARE:
                return self._count_or_share(value)
            case KnobKind.NUMBER:
                return self._number(value)
            case KnobKind.DURATION:
                return self._duration(value)
            case KnobKind.SIZE:
                size_bytes = int(self._within(parse_bytes(self._text_or_whole(value, "size")), value))
                return Asked(canonical_bytes(size_bytes), size_bytes)
            case KnobKind.SIZE_OR_SHARE:
                return self._size_or_share(value)
            case KnobKind.FILE:
                if isinstance(value, str) and value.strip():
                    return self._word(value)
                raise UnitError(f"{self.name} = {brief(value)} is not the path of a file", f"write {self.range_text()}")

    def native(self, asked: str, whole: int | None) -> Native:
        """The value the core takes. A share needs the whole of which it is one; "auto" for what is not to be set."""
        parsed = self._parsed(asked)
        if parsed.ratio is None:
            return parsed.value
        if whole is None:
            raise ValueError(f"{self.name} = {asked} needs {self.share_of}")
        return int(parsed.ratio * whole)

    def typed(self, told: Value) -> Value:
        """Return a value that an engine told as text as the number it is: a time in seconds, a number.

        Words, and texts that are no such number, stay as they are.
        """
        try:
            if isinstance(told, str) and self.kind is KnobKind.DURATION:
                return parse_duration(told)
            return float(parse_number(told)) if isinstance(told, str) and self.kind is KnobKind.NUMBER else told
        except UnitError:
            return told

    def share(self, asked: str) -> Decimal | None:
        """The ratio, when the value asked for is a share."""
        return self._parsed(asked).ratio

    def _parsed(self, asked: str) -> Asked:
        return asked if isinstance(asked, Asked) else self.parse(asked)

    @staticmethod
    def _word(text: str) -> Asked:
        return Asked(text, text)

    def range_text(self) -> str:
        """What may be written, for hints and for `bufferlab list`."""
        return f"{self._range_text()} | {AUTO}" if self.auto is not None else self._range_text()

    def _range_text(self) -> str:
        if self.kind is KnobKind.CHOICE:
            return " | ".join(self.choices)
        if self.kind is KnobKind.TEXT:
            return self.example
        if self.kind is KnobKind.FILE:
            return "the path of a text file"
        text = self._show(self.minimum)
        if self.maximum != self.minimum:
            text += " or more" if self.maximum is None else f" to {self._show(self.maximum)}"
        if self.power_of_two:
            text += ", a power of two"
        if self.kind in (KnobKind.SIZE_OR_SHARE, KnobKind.COUNT_OR_SHARE):
            text += f', or a share of {self.share_of} such as "10%"'
        return " | ".join([text, *self.choices])

    def _show(self, limit: int | Decimal) -> str:
        match self.kind:
            case KnobKind.SIZE | KnobKind.SIZE_OR_SHARE:
                return canonical_bytes(int(limit))
            case KnobKind.DURATION:
                return canonical_duration(float(limit))
        return f"{limit:,}"

    def _choice(self, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if isinstance(value, str) and value in self.choices:
            return value
        raise UnitError(f"{self.name} = {brief(value)} is not one of its values", f"choose {self.range_text()}")

    def _text(self, value: object) -> str:
        # A number or a switch of a TOML is as good as its text where any word will do.
        number = isinstance(value, int | float) and not isinstance(value, bool) and value == value
        text = str(value) if number else value
        if isinstance(text, str) and text == text.strip() and re.fullmatch(self.pattern, text):
            return text
        raise UnitError(f"{self.name} = {brief(value)} cannot be", f"write {self.range_text()}")

    def _whole(self, value: object) -> int:
        written = _WHOLE.fullmatch(value) if isinstance(value, str) else None
        if written:
            value = int(written[1].replace("_", ""))
        if isinstance(value, bool) or not isinstance(value, int):
            raise UnitError(f"{self.name} = {brief(value)} is not a whole number", f"write {self.range_text()}")
        return value

    def _count(self, value: object) -> Asked:
        count = int(self._within(self._whole(value), value))
        return Asked(str(count), count)

    def _number(self, value: object) -> Asked:
        if isinstance(value, str) and value in self.choices:
            return self._word(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UnitError(f"{self.name} = {brief(value)} is not a number", f"write {self.range_text()}")
        number = parse_number(value)
        self._within(number, value)
        return Asked(canonical_number(self._fraction(number, value)), float(number))

    def _duration(self, value: object) -> Asked:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UnitError(f"{self.name} = {brief(value)} is not a duration", f"write {self.range_text()}")
        seconds = parse_duration(value)
        if seconds != seconds:
            raise UnitError(f"{self.name} = {brief(value)} is not a duration", f"write {self.range_text()}")
        self._within(seconds, value)
        return Asked(canonical_duration(seconds), seconds)

    def _size_or_share(self, value: object) -> Asked:
        if isinstance(value, str) and value in self.choices:
            return self._word(value)
        size = parse_size(self._text_or_whole(value, "size"))
        if size.ratio is None:
            return Asked(str(size), int(self._within(size.size_bytes or 0, value)))
        self._share(size.ratio, value)
        return Asked(str(size), ratio=size.ratio)

    def _count_or_share(self, value: object) -> Asked:
        if isinstance(value, str) and value.strip().endswith("%"):
            ratio = parse_percent(value)
            self._share(ratio, value)
            return Asked(f"{canonical_number(ratio * 100)}%", ratio=ratio)
        return self._count(value)

    def _share(self, ratio: Decimal, written: object) -> None:
        if ratio <= 0:
            raise UnitError(f"{self.name} = {brief(written)} is not more than nothing", "write a share above 0 %")
        if ratio > _LARGEST_SHARE:
            hint = f"write a share of at most {100 * _LARGEST_SHARE} %"
            raise UnitError(f"{self.name} = {brief(written)} is {brief(ratio)} times {self.share_of}", hint)
        self._fraction(ratio, written)

    def _fraction(self, number: Decimal, written: object) -> Decimal:
        exponent = number.normalize().as_tuple().exponent
        if isinstance(exponent, int) and exponent < -_MAX_FRACTION_DIGITS:
            raise UnitError(
                f"{self.name} = {brief(written)} has more than {_MAX_FRACTION_DIGITS} digits after the point",
                "write fewer digits",
            )
        return number

    def _within(self, value: int | float | Decimal, written: object) -> int | float | Decimal:
        hint = f"write {self.range_text()}"
        if value < 0:
            raise UnitError(f"{self.name} = {brief(written)} is negative", hint)
        if value < self.minimum:
            raise UnitError(f"{self.name} = {brief(written)} is below the minimum", hint)
        if value > (_LARGEST if self.maximum is None else self.maximum):
            hint = hint if self.maximum is not None else f"write less than {self._show(_LARGEST + 1)}"
            raise UnitError(f"{self.name} = {brief(written)} is above the maximum", hint)
        if self.power_of_two and int(value) & (int(value) - 1):
            raise UnitError(f"{self.name} = {brief(written)} is not a power of two", hint)
        return value

    def _text_or_whole(self, value: object, quantity: str) -> str | int:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise UnitError(f"{self.name} = {brief(value)} is not a {quantity}", f"write {self.range_text()}")
        return value
