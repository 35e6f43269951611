"""The type of a setting that a point may vary: its name, limits and unit, and how its text becomes a value.

Engines, workloads and the load declare their settings in tables of this one type, one row each:
`Knob.size("file_size", "bytes of the file", default="1GiB", minimum=4096)`. A row has the name, the words of a choice,
the meaning, and then the attributes that differ from the type's defaults.

The type is pure: it reads no file and knows no engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Required, TypedDict, Unpack

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
"""A setting's value as the core takes it."""

Value = bool | int | float | str | None
"""A setting's value as an engine reads it back; None where the engine tells none."""

AUTO = "auto"
"""The word that leaves a setting's value to bufferlab or the engine, because it depends on the server's version."""
UNLIMITED = "unlimited"
"""A rate without a limit."""

_WHOLE = re.compile(r"\s*([+-]?[0-9][0-9_]{0,30})\s*")
_LARGEST = 2**63 - 1
"""The limit of a knob that declares no maximum: engines count in 64 bits."""
_LARGEST_SHARE = 10
"""The largest share: a pool of ten times the database, or the working set, holds no more than one of its size."""
_MAX_FRACTION_DIGITS = 12
"""The most digits after the point: more are a slip of the hand, and floats could not tell such numbers apart."""


class Asked(str):
    """The canonical text of a value asked for, with the value it was parsed to, so that it is parsed only once."""

    ratio: Decimal | None
    """The share (0.1 for "10%"); None for a value that is not a share."""
    value: Native
    """The typed value of anything but a share; AUTO if it is left to the engine."""

    def __new__(cls, text: str, value: Native = "", ratio: Decimal | None = None) -> Asked:
        """Make the text. A share is given as `ratio`, anything else as `value`."""
        asked = super().__new__(cls, text)
        asked.value, asked.ratio = value, ratio
        return asked


class KnobKind(Enum):
    """The ways in which a knob's value is written."""

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


class Attributes(TypedDict, total=False):
    """The attributes that any row of a table may give; Knob explains each."""

    default: Required[str]
    minimum: int | Decimal
    maximum: int
    power_of_two: bool
    decides_file: bool
    sweepable: bool
    auto: str | None
    versions: str
    value_versions: tuple[tuple[str, str], ...]
    confounds: str


@dataclass(frozen=True)
class Knob:
    """One setting with its limits. `minimum` and `maximum` limit sizes, counts, numbers and seconds."""

    name: str
    """The name that people write: `pool_size`."""
    native_name: str
    """The name that the core takes, with the unit last: `pool_size_bytes`."""
    kind: KnobKind
    unit: str
    """The unit of the native value: "bytes", "rows", or "" for a word and a bare number."""
    default: str
    """The value, as text, when none is asked for; "" for a setting that must be asked for (a file)."""
    meaning: str
    choices: tuple[str, ...] = ()
    """The words that may be written. A CHOICE takes nothing else; a NUMBER or a SIZE_OR_SHARE takes these words too."""
    minimum: int | Decimal = 0
    maximum: int | None = None
    power_of_two: bool = False
    share_of: str = "the database"
    """The whole that a share of this setting refers to, in words."""
    decides_file: bool = False
    """Whether another value needs other loaded data. If so, the setting is part of `data_key`."""
    sweepable: bool = True
    auto: str | None = None
    """The value that "auto" stands for where the server's version has the setting. "": the setting is not set at all,
    and the server's default holds. None: this setting does not take "auto"."""
    versions: str = ""
    """The servers' versions that have the setting, as versions.py reads them; "" means all."""
    value_versions: tuple[tuple[str, str], ...] = ()
    """The values that only some versions have, each with those versions."""
    confounds: str = ""
    """What makes points that differ in it another experiment, where nobody asked for the difference."""
    pattern: str = ""
    """The regular expression that the value of a TEXT must match."""
    example: str = ""
    """The description, for hints, of the values that a TEXT takes."""

    @classmethod
    def size(cls, name: str, meaning: str, native_name: str = "{}_bytes", **more: Unpack[Attributes]) -> Knob:
        """Declare a SIZE. In `native_name`, here and below, {} is the knob's name."""
        return cls(name, native_name.format(name), KnobKind.SIZE, "bytes", meaning=meaning, **more)

    @classmethod
    def size_or_share(cls, name: str, meaning: str, choices: tuple[str, ...] = (), **more: Unpack[Attributes]) -> Knob:
        """Declare a SIZE_OR_SHARE; `choices` are words that it takes too."""
        return cls(name, f"{name}_bytes", KnobKind.SIZE_OR_SHARE, "bytes", meaning=meaning, choices=choices, **more)

    @classmethod
    def choice(
        cls, name: str, choices: tuple[str, ...], meaning: str, native_name: str = "{}", **more: Unpack[Attributes]
    ) -> Knob:
        """Declare a CHOICE among these words."""
        return cls(name, native_name.format(name), KnobKind.CHOICE, "", meaning=meaning, choices=choices, **more)

    @classmethod
    def count(
        cls, name: str, meaning: str, unit: str = "", native_name: str = "{}", **more: Unpack[Attributes]
    ) -> Knob:
        """Declare a COUNT."""
        return cls(name, native_name.format(name), KnobKind.COUNT, unit, meaning=meaning, **more)

    @classmethod
    def count_or_share(cls, name: str, meaning: str, unit: str, share_of: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a COUNT_OR_SHARE; `share_of` is the whole in words."""
        return cls(name, name, KnobKind.COUNT_OR_SHARE, unit, meaning=meaning, share_of=share_of, **more)

    @classmethod
    def number(
        cls,
        name: str,
        meaning: str,
        unit: str = "",
        native_name: str = "{}",
        choices: tuple[str, ...] = (),
        **more: Unpack[Attributes],
    ) -> Knob:
        """Declare a NUMBER; `choices` are words that it takes too."""
        return cls(name, native_name.format(name), KnobKind.NUMBER, unit, meaning=meaning, choices=choices, **more)

    @classmethod
    def duration(cls, name: str, meaning: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a DURATION in seconds."""
        return cls(name, f"{name}_s", KnobKind.DURATION, "s", meaning=meaning, **more)

    @classmethod
    def text(cls, name: str, meaning: str, pattern: str, example: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a TEXT that must match `pattern`; `example` describes the values."""
        return cls(name, name, KnobKind.TEXT, "", meaning=meaning, pattern=pattern, example=example, **more)

    @classmethod
    def file(cls, name: str, meaning: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a FILE."""
        return cls(name, name, KnobKind.FILE, "", meaning=meaning, **more)

    def parse(self, value: object) -> Asked:
        """Return the canonical text of a value asked for. Raises UnitError when the setting cannot have this value."""
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
        """Return the value that the core takes; "auto" for a setting that is not to be set.

        `whole` is what a share refers to, in the setting's unit. Raises ValueError for a share without it.
        """
        parsed = self._parsed(asked)
        if parsed.ratio is None:
            return parsed.value
        if whole is None:
            raise ValueError(f"{self.name} = {asked} needs {self.share_of}")
        return int(parsed.ratio * whole)

    def typed(self, told: Value) -> Value:
        """Return the number in a text that an engine read back: seconds of a DURATION, the value of a NUMBER.

        Any other value, and a text that is not such a number, is returned as it is.
        """
        try:
            if isinstance(told, str) and self.kind is KnobKind.DURATION:
                return parse_duration(told)
            return float(parse_number(told)) if isinstance(told, str) and self.kind is KnobKind.NUMBER else told
        except UnitError:
            return told

    def fits(self, told: object) -> bool:
        """Return whether the core may have taken this value: one of the words, or a number within the limits."""
        match self.kind:
            case KnobKind.FILE:
                return isinstance(told, str)
            case KnobKind.TEXT:
                return isinstance(told, str) and re.fullmatch(self.pattern, told) is not None
        if isinstance(told, str) or self.kind is KnobKind.CHOICE:
            return told in self.choices or (told == AUTO and self.auto is not None)
        fraction = self.kind in (KnobKind.NUMBER, KnobKind.DURATION)
        if isinstance(told, bool) or not isinstance(told, int | float if fraction else int):
            return False
        return float(self.minimum) <= told <= (_LARGEST if self.maximum is None else self.maximum)

    def share(self, asked: str) -> Decimal | None:
        """Return the ratio of a value asked for (0.1 for "10%"); None if it is not a share."""
        return self._parsed(asked).ratio

    def _parsed(self, asked: str) -> Asked:
        return asked if isinstance(asked, Asked) else self.parse(asked)

    @staticmethod
    def _word(text: str) -> Asked:
        return Asked(text, text)

    def range_text(self) -> str:
        """Return, in words, which values may be written, for hints and for `bufferlab list`."""
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
        # A TOML may give a number where this setting takes any word: its text is taken.
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
