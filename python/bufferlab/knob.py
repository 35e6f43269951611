"""Declares the settings that a sweep may vary. A knob has a name, limits and a unit; a setting is a knob with a value.

Engines, workloads and the load declare their knobs in tables, with one row per knob:
`Knob.size("file_size", "bytes of the file", default="1GiB", minimum=4096)`. A row has the name, the words of a choice,
the meaning, and then those attributes that differ from the defaults of `Knob`. `Knob.parse` makes a `Setting` once; the
experiment, the plan and the run all use that object.

The types are pure: they read no file and know no engine. Below them are the knobs of the load, which belong to no
engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from typing import ClassVar, Literal, Required, TypedDict, Unpack

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
from bufferlab.versions import has

Native = int | float | str
"""A setting's value in the form that the Rust core takes."""

Values = Mapping[str, Native]
"""Name of a setting -> its value."""

Value = bool | int | float | str | None
"""A setting's value as an engine reports it; None if the engine reports none."""

PREFIX = "var."
"""The prefix of settings that bufferlab has no knob for, but passes to the server as variables."""

AUTO: Literal["auto"] = "auto"
"""The word that leaves a setting's value to bufferlab or the engine, because it depends on the server's version.

As a number of repetitions it means as many as the answer needs.
"""
UNLIMITED = "unlimited"
"""The word for an unlimited rate."""

_WHOLE = re.compile(r"\s*([+-]?[0-9][0-9_]{0,30})\s*")
_LARGEST = 2**63 - 1
"""The maximum of a knob that declares none. Engines count in 64 bits."""
_LARGEST_SHARE = 10
"""The largest share, as a ratio: a pool ten times as large as the database has no advantage over one of the database's
size."""
_MAX_FRACTION_DIGITS = 12
"""The most digits after the point.

More digits are a mistake: numbers that differ only in later digits may be equal as floats.
"""


class KnobKind(Enum):
    """The forms in which users write a knob's value."""

    SIZE = "size"
    """Bytes: "64MiB"."""
    SIZE_OR_SHARE = "size or share"
    """Bytes, or a share of the loaded database: "10%"."""
    CHOICE = "choice"
    """One of the words in `choices`."""
    COUNT = "count"
    """A whole number."""
    COUNT_OR_SHARE = "count or share"
    """A whole number, or a share of a total that the workload knows: "80%"."""
    NUMBER = "number"
    """A decimal number such as 0.9, or a word that stands for a number."""
    DURATION = "duration"
    """A length of time: "10s"."""
    FILE = "file"
    """The path of a file, which is read before any run starts."""
    TEXT = "text"
    """A word or a path that matches a pattern. The engine or the workload checks it further."""


class Attributes(TypedDict, total=False):
    """The attributes that any row of a table may give. The class Knob describes each."""

    default: Required[str]
    spelling: str
    choices: tuple[str, ...]
    share_of: str
    pattern: str
    example: str
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

    PRINTED: ClassVar = (
        "name", "spelling", "unit", "default", "range_text", "meaning", "decides_file", "versions", "auto",
    )  # fmt: skip

    name: str
    """The name that users write: `pool_size`."""
    kind: KnobKind
    unit: str
    """The unit of the value: "bytes", "rows", or "" for a word or a bare number."""
    default: str
    """The value, as text, if the user gives none; "" for a setting that the user must give (a file)."""
    meaning: str
    spelling: str = ""
    """The engine's name for the setting: the server's variable, or the field of the core's job (`pool_size_bytes`).

    "" if bufferlab applies the setting itself.
    """
    choices: tuple[str, ...] = ()
    """The words that users may write. A CHOICE takes only these; a NUMBER or a SIZE_OR_SHARE takes these too."""
    minimum: int | Decimal = 0
    maximum: int | None = None
    power_of_two: bool = False
    share_of: str = "the database"
    """In words, what 100 % means if this setting is a share."""
    decides_file: bool = False
    """Whether different values need different loaded data. If so, the setting is part of `data_key`."""
    sweepable: bool = True
    auto: str | None = None
    """The value that "auto" stands for if the server's version has the setting.

    "": the setting is not set, so that the server's default applies. None: this setting does not take "auto".
    """
    versions: str = ""
    """The servers' versions that have the setting, in the notation of versions.py; "" means all."""
    value_versions: tuple[tuple[str, str], ...] = ()
    """(value, versions that have it) for values that not all versions have."""
    confounds: str = ""
    """The reason why points must not differ in this setting unless it is swept: they would not show the effect of the
    swept settings alone. "" if a difference does no harm."""
    pattern: str = ""
    """The regular expression that the value of a TEXT must match; "" for other kinds."""
    example: str = ""
    """For hints, a description of the values that a TEXT takes."""

    @classmethod
    def _row(cls, kind: KnobKind, name: str, meaning: str, unit: str, ending: str, more: Attributes) -> Knob:
        """Declare a knob of a kind. `spelling`, in which {} stands for the name, defaults to the name plus `ending`."""
        more["spelling"] = more.get("spelling", f"{{}}{ending}").format(name)
        return cls(name=name, kind=kind, unit=unit, meaning=meaning, **more)

    @classmethod
    def size(cls, name: str, meaning: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind SIZE."""
        return cls._row(KnobKind.SIZE, name, meaning, "bytes", "_bytes", more)

    @classmethod
    def size_or_share(cls, name: str, meaning: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind SIZE_OR_SHARE."""
        return cls._row(KnobKind.SIZE_OR_SHARE, name, meaning, "bytes", "_bytes", more)

    @classmethod
    def choice(cls, name: str, words: tuple[str, ...], meaning: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind CHOICE, which takes one of these words."""
        more["choices"] = words
        return cls._row(KnobKind.CHOICE, name, meaning, "", "", more)

    @classmethod
    def count(cls, name: str, meaning: str, unit: str = "", **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind COUNT."""
        return cls._row(KnobKind.COUNT, name, meaning, unit, "", more)

    @classmethod
    def count_or_share(cls, name: str, meaning: str, unit: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind COUNT_OR_SHARE."""
        return cls._row(KnobKind.COUNT_OR_SHARE, name, meaning, unit, "", more)

    @classmethod
    def number(cls, name: str, meaning: str, unit: str = "", **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind NUMBER."""
        return cls._row(KnobKind.NUMBER, name, meaning, unit, "", more)

    @classmethod
    def duration(cls, name: str, meaning: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind DURATION, in seconds."""
        return cls._row(KnobKind.DURATION, name, meaning, "s", "_s", more)

    @classmethod
    def text(cls, name: str, meaning: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind TEXT; it needs a `pattern` and an `example`."""
        return cls._row(KnobKind.TEXT, name, meaning, "", "", more)

    @classmethod
    def file(cls, name: str, meaning: str, **more: Unpack[Attributes]) -> Knob:
        """Declare a knob of the kind FILE."""
        return cls._row(KnobKind.FILE, name, meaning, "", "", more)

    def parse(self, value: object) -> Setting:
        """Return the setting with `value` as the requested value. Raises UnitError if the knob cannot have it."""
        if self.auto is not None and value == AUTO:
            return replace(self.parse(self.auto), asked=AUTO) if self.auto else Setting(self, AUTO, None)
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
                return Setting(self, canonical_bytes(size_bytes), size_bytes)
            case KnobKind.SIZE_OR_SHARE:
                return self._size_or_share(value)
            case KnobKind.FILE:
                if isinstance(value, str) and value.strip():
                    return self._word(value)
                raise UnitError(f"{self.name} = {brief(value)} is not the path of a file", f"write {self.range_text()}")

    def fits(self, told: object) -> bool:
        """Return whether the core may report this value of the setting: one of the words, or a number in the limits.

        For a FILE any text is possible, for a TEXT a text that matches the pattern.
        """
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

    def range_text(self) -> str:
        """Return in words which values users may write, for hints and for `bufferlab list`."""
        return f"{self._range_text()} | {AUTO}" if self.auto is not None else self._range_text()

    def _range_text(self) -> str:
        if self.kind is KnobKind.CHOICE:
            return " | ".join(self.choices)
        if self.kind is KnobKind.TEXT:
            return self.example
        if self.kind is KnobKind.FILE:
            return "the path of a file"
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
        # In TOML, users may write a word made of digits as a number. Then use the number's text.
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

    def _word(self, text: str) -> Setting:
        return Setting(self, text, text)

    def _count(self, value: object) -> Setting:
        count = int(self._within(self._whole(value), value))
        return Setting(self, str(count), count)

    def _number(self, value: object) -> Setting:
        if isinstance(value, str) and value in self.choices:
            return self._word(value)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UnitError(f"{self.name} = {brief(value)} is not a number", f"write {self.range_text()}")
        number = parse_number(value)
        self._within(number, value)
        return Setting(self, canonical_number(self._fraction(number, value)), float(number))

    def _duration(self, value: object) -> Setting:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UnitError(f"{self.name} = {brief(value)} is not a duration", f"write {self.range_text()}")
        seconds = parse_duration(value)
        if seconds != seconds:
            raise UnitError(f"{self.name} = {brief(value)} is not a duration", f"write {self.range_text()}")
        self._within(seconds, value)
        return Setting(self, canonical_duration(seconds), seconds)

    def _size_or_share(self, value: object) -> Setting:
        if isinstance(value, str) and value in self.choices:
            return self._word(value)
        size = parse_size(self._text_or_whole(value, "size"))
        if size.ratio is None:
            return Setting(self, str(size), int(self._within(size.size_bytes or 0, value)))
        self._share(size.ratio, value)
        return Setting(self, str(size), None, size.ratio)

    def _count_or_share(self, value: object) -> Setting:
        if isinstance(value, str) and value.strip().endswith("%"):
            ratio = parse_percent(value)
            self._share(ratio, value)
            return Setting(self, f"{canonical_number(ratio * 100)}%", None, ratio)
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


@dataclass(frozen=True)
class Setting:
    """A knob with the requested value. Equal values have equal texts in `asked`."""

    knob: Knob
    asked: str
    """The canonical text of the requested value: "10%"."""
    value: Native | None
    """The value to run with. None if the engine chooses it, and for a share until `of` is given the total."""
    ratio: Decimal | None = None
    """The requested share (0.1 for "10%"); None for a value that is not a share."""
    note: str = ""
    """The reason why the value differs from the requested one; "" if it does not."""

    def __str__(self) -> str:
        return self.asked

    def of(self, whole: int) -> Setting:
        """Return the setting; for a share, with its value computed from the total `whole` (in the knob's unit)."""
        return self if self.ratio is None else replace(self, value=int(self.ratio * whole))

    @property
    def number(self) -> int:
        """Return the value of a size or a count. Raises ValueError if it is not known yet."""
        if self.value is None:
            raise ValueError(f"{self.knob.name} = {self.asked} has no value yet")
        return int(self.value)

    @property
    def value_or_text(self) -> Native:
        """Return the value; for a share of an unknown total, and for a value that the engine chooses, the text."""
        return self.asked if self.value is None else self.value


def values_of(settings: Mapping[str, Setting], whole: int | None = None) -> dict[str, Native]:
    """Return name -> value of settings, without those that are left to the engine.

    Shares refer to `whole`. Without it, shares of an unknown total are left out too.
    """
    known = {name: one if whole is None else one.of(whole) for name, one in settings.items()}
    return {name: one.value for name, one in known.items() if one.value is not None}


@dataclass(frozen=True)
class Variables:
    """The server variables that the knobs of one family of engines set."""

    knobs: Mapping[str, Knob]
    """Name of a knob of the family -> the knob."""

    def of(self, name: str) -> str:
        """Return the server variable of a setting; "" for a setting that bufferlab applies itself."""
        if name.startswith(PREFIX):
            return name.removeprefix(PREFIX)
        return self.knobs[name].spelling if name in self.knobs else ""

    def settings(
        self, flavour: str, version: str, values: Values, written: Callable[[str, Native], str]
    ) -> dict[str, str]:
        """Return server variable -> value, for settings by name; `written` converts a value for the server.

        Settings that this version of the server (`flavour`) lacks are left out. Their value was "auto", because
        explicit values were refused at the start of the sweep.
        """
        known = {name: value for name, value in values.items() if self.of(name)}
        return {
            self.of(name): written(name, value)
            for name, value in known.items()
            if name not in self.knobs or has(self.knobs[name].versions, flavour, version)
        }


# The settings of the load decide, for every engine and workload, how transactions arrive. By default the loop is
# closed: a connection begins its next transaction when the last one has ended. With a rate the loop is open:
# transactions arrive even if the engine does not keep up, like the requests of independent users.

LOAD_KNOBS: tuple[Knob, ...] = (
    Knob.number("rate",
                "transactions that arrive each second (open loop); unlimited: the next begins when the last ended",
                spelling="rate_per_s", unit="per_s", choices=(UNLIMITED,), default=UNLIMITED,
                minimum=Decimal("0.001"), maximum=10_000_000),
    Knob.choice("arrivals", ("poisson", "constant"),
                "with a rate: the times between arrivals are random and independent, or all equal", default="poisson"),
    Knob.duration("patience", "with a rate: an arrival that has waited longer is dropped, and counted", default="10s",
                  minimum=Decimal("0.001"), maximum=86_400),
    Knob.choice("arm", tuple("abcdefgh"),
                "a label that changes nothing: points that differ in it alone show the noise of this host",
                default="a"),
)  # fmt: skip

#: The number of connections that run transactions concurrently, a setting in [workload]. Each engine has its own
#: default.
CONNECTIONS = Knob.count("connections", "connections that run transactions at the same time; only servers take several",
                         default="8", minimum=1, maximum=1000)  # fmt: skip
