"""Reads sizes, shares, durations and numbers from text, and writes them for readers.

Units of size are powers of two: "64MiB", "64M" and "4k" are 1024-based, as in every engine's manual. "64MB" is refused,
because many people read it as 64,000,000. In code a share is a ratio from 0 to 1; only texts that users write and read
have "%".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from bufferlab.texts import without_password

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4

_BYTE_UNITS = {
    "": 1,
    "b": 1,
    "k": KIB,
    "ki": KIB,
    "kib": KIB,
    "m": MIB,
    "mi": MIB,
    "mib": MIB,
    "g": GIB,
    "gi": GIB,
    "gib": GIB,
    "t": TIB,
    "ti": TIB,
    "tib": TIB,
}
_DURATION_UNITS_S = {
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "sec": Decimal(1),
    "m": Decimal(60),
    "min": Decimal(60),
    "h": Decimal(3600),
}
#: Matches a number with at most 40 digits on each side of the point, and its unit. No quantity needs more, and Python
#: refuses to print numbers of thousands of digits.
_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?[0-9][0-9_]{0,39}(?:\.[0-9]{1,40})?)\s*([A-Za-z%]*)\s*")
_LONGEST_SHOWN = 60


class UnitError(ValueError):
    """The error for a text that is not the expected quantity. `hint` says how to write that quantity."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


@dataclass(frozen=True)
class Size:
    """A requested size: bytes, or a ratio of the loaded database. Exactly one of the two is set."""

    size_bytes: int | None = None
    ratio: Decimal | None = None

    def __str__(self) -> str:
        """Return the canonical text, which is part of keys: equal sizes have equal texts."""
        if self.ratio is not None:
            return f"{_plain(self.ratio * 100)}%"
        return canonical_bytes(self.size_bytes or 0)


def parse_bytes(text: str | int) -> int:
    """Return the number of bytes in "64MiB", "4k", "512" or 512.

    Raises UnitError for a share, an unknown or ambiguous unit, a text without a number, and a fraction of a byte.

    >>> parse_bytes("4k"), parse_bytes("1.5MiB"), parse_bytes(512)
    (4096, 1572864, 512)
    """
    hint = 'write a size such as "4k", "64MiB" or "1GiB"'
    if isinstance(text, bool):
        raise UnitError(f"{str(text).lower()} is not a size", hint)
    if isinstance(text, int):
        return text
    number, unit = _split(text, "size", hint)
    if unit == "%":
        raise UnitError(f'"{text}" is a share, and this must be a size in bytes', hint)
    factor = _BYTE_UNITS.get(unit.lower())
    if factor is None:
        if unit.lower() in ("kb", "mb", "gb", "tb"):
            letter = unit[0].upper()
            raise UnitError(
                f'"{text}": {unit} is read as 1000s by some and 1024s by others',
                f"write {_plain(number)}{letter}iB (1024s)",
            )
        raise UnitError(f'"{text}": unknown unit "{unit}" of a size', hint)
    size = number * factor
    if size != int(size):
        raise UnitError(f'"{text}" is not a whole number of bytes', hint)
    return int(size)


def parse_size(text: str | int) -> Size:
    """Return the size in a text: bytes, or a share of the database such as "10%". Raises UnitError for other texts.

    >>> str(parse_size("10%")), str(parse_size("65536k"))
    ('10%', '64MiB')
    """
    if isinstance(text, str) and text.strip().endswith("%"):
        return Size(ratio=parse_percent(text))
    return Size(size_bytes=parse_bytes(text))


def parse_percent(text: str) -> Decimal:
    """Return the ratio in "10%". It is exact, so that 5 % of a database is the same number of bytes on every host.

    Raises UnitError if the text is not a share.
    """
    number, unit = _split(text, "share", 'write a share such as "10%"')
    if unit != "%":
        raise UnitError(f'"{text}" is not a share', 'write a share such as "10%"')
    return number / 100


def parse_duration(text: str | int | float) -> float:
    """Return the seconds in "90s", "5min", "1h", "250ms" or a number of seconds. Raises UnitError for other values.

    >>> parse_duration("5min"), parse_duration("250ms"), parse_duration(2)
    (300.0, 0.25, 2.0)
    """
    hint = 'write a duration such as "90s", "5min" or "1h"'
    if isinstance(text, bool):
        raise UnitError(f"{str(text).lower()} is not a duration", hint)
    if isinstance(text, int | float):
        return float(text)
    number, unit = _split(text, "duration", hint)
    factor = _DURATION_UNITS_S.get(unit.lower() or "s")
    if factor is None:
        raise UnitError(f'"{text}": unknown unit "{unit}" of a duration', hint)
    return float(number * factor)


def parse_number(text: str | int | float) -> Decimal:
    """Return the exact number in 0.9, "0.9", "1_000" or 3. It is exact so that equal settings have equal texts.

    Raises UnitError for a number with a unit, one that is not finite, and any other value.

    >>> parse_number("1_000"), parse_number(0.5)
    (Decimal('1000'), Decimal('0.5'))
    """
    hint = "write a number such as 0.9 or 1000"
    if isinstance(text, bool):
        raise UnitError(f"{str(text).lower()} is not a number", hint)
    if isinstance(text, int | float):
        number = Decimal(repr(text))
        if not number.is_finite():
            raise UnitError(f"{text} is not a number", hint)
        return number
    number, unit = _split(text, "number", hint)
    if unit:
        raise UnitError(f'"{text}": a number has no unit, this one has "{unit}"', hint)
    return number


def canonical_number(number: Decimal) -> str:
    """Return the shortest exact text of a number: equal numbers give equal texts.

    >>> canonical_number(Decimal("0.90")), canonical_number(Decimal("1E+3"))
    ('0.9', '1000')
    """
    text = _plain(number)
    return "0" if text in ("-0", "") else text


def canonical_duration(seconds: float) -> str:
    """Return the exact text of a duration in seconds: equal durations give equal texts.

    >>> canonical_duration(90.0), canonical_duration(0.25)
    ('90s', '0.25s')
    """
    return f"{canonical_number(Decimal(repr(seconds)))}s"


def canonical_bytes(size_bytes: int) -> str:
    """Return the shortest exact text of a size: equal sizes give equal texts.

    >>> canonical_bytes(4096), canonical_bytes(1536), canonical_bytes(1000)
    ('4KiB', '1536B', '1000B')
    """
    for factor, unit in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def readable(canonical: str) -> str:
    """Return the canonical text of a size or share with a space before its unit; any other text stays unchanged.

    >>> readable("64MiB"), readable("5%"), readable("direct")
    ('64 MiB', '5 %', 'direct')
    """
    match = re.fullmatch(r"([0-9.]+)(%|[KMGT]?i?B)", canonical)
    return f"{match[1]} {match[2]}" if match else canonical


def format_bytes(size_bytes: float) -> str:
    """Return a size for readers, with three digits: "64 MiB", "1.21 GiB".

    >>> format_bytes(64 * 1024 * 1024), format_bytes(1300000000), format_bytes(12)
    ('64 MiB', '1.21 GiB', '12 B')
    """
    for factor, unit in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(size_bytes) >= factor:
            return f"{_three_digits(size_bytes / factor)} {unit}"
    return f"{size_bytes:.0f} B"


def format_duration(seconds: float) -> str:
    """Return a duration for readers: "12 s", "4 min 10 s", "1 h 05 min".

    >>> format_duration(0.25), format_duration(12), format_duration(250), format_duration(3900)
    ('0.25 s', '12 s', '4 min 10 s', '1 h 05 min')
    """
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds else "0 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest:02d} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours} h {minutes:02d} min"


def format_count(count: float) -> str:
    """Return a number, rounded to a whole number, with separators: "1,234,567"."""
    return f"{count:,.0f}"


def format_percent(ratio: float) -> str:
    """Return a ratio in per cent for readers, with three digits: 0.125 is "12.5 %".

    >>> format_percent(0.125), format_percent(1), format_percent(0.000123)
    ('12.5 %', '100 %', '0.0123 %')
    """
    return f"{_three_digits(ratio * 100)} %"


def brief(written: object) -> str:
    """Return a value in the form that messages quote, without passwords: whole, or 60 characters and an ellipsis.

    >>> brief(100), brief("9" * 70)[-4:]
    ('100', '999…')
    """
    # Hide passwords before cutting the text: a cut password might not be recognised.
    text = without_password(str(written))
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _split(text: str, quantity: str, hint: str) -> tuple[Decimal, str]:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise UnitError(f'"{brief(text)}" is not a {quantity}', hint)
    try:
        return Decimal(match[1].replace("_", "")), match[2]
    except InvalidOperation:
        raise UnitError(f'"{brief(text)}" is not a {quantity}', hint) from None


def _plain(number: Decimal) -> str:
    """Return a decimal's text without exponent and trailing zeros: 10, 12.5."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _three_digits(number: float) -> str:
    if number == 0:
        return "0"
    if abs(number) >= 1:
        text = f"{number:.4g}" if abs(number) >= 1000 else f"{number:.3g}"
        return text if "e" not in text else f"{number:.0f}"
    return f"{float(f'{number:.3g}'):f}".rstrip("0").rstrip(".")
