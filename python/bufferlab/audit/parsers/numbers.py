"""Reads the numbers of a table's column. All of its cells together decide whether a comma or a point is decimal.

A comma is decimal if it is not followed by exactly three digits, or if it comes after a point. Then points in the
column separate thousands. Otherwise commas before groups of three digits separate thousands, and a point is decimal.
k, M and G after a number multiply it by 10^3, 10^6 and 10^9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?<![\w.,])(\d{1,3}(?: \d{3})+(?! ?\d)(?:[.,]\d+)?|\d+(?:[.,'’]\d+)*|\.\d+)"
    r"((?:[eE][+-]?\d{1,3})?)\s?(%|[kKMG](?=\s*(?:IOPS|tpm|tps|NOPM|ops|req|/)|[^\w]|$))?"
)
_UNIT = r"(?:tpm|IOPS|tps|NOPM|ops\b|req|[rw]\s?/\s?s\b|reads?\b|writes?\b|transactions?\b)"
_WORD = r"(?:thousand|million|billion)s?"
_THOUSANDS = r"(?:1[ ,.'’]?000(?:[ ,.'’]?000)?s?|['’]?000s?|10\s?(?:\^|\*\*)\s?[369]|10[³⁶⁹]|1e[369])"
_END = rf"(?=\s*(?:$|[)\],;/]|per\b|{_UNIT}))"
#: Patterns for the multiplier in a column's head: a letter, a word, or a power of ten.
_HEADS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # For example "(k)", "(thousands)", "(1000s)", "(x1000)", "(k/s)", "(1000 tps)".
        rf"[(\[]\s*(?:in\s+|[x×*/]\s?)?(?P<by>[kmg]|{_WORD}|(?!1000\s*[)\]]){_THOUSANDS})"
        rf"(?:\s+of)?\s*(?:{_UNIT}[^)\]]{{0,12}}|/\s?(?:s|sec|min)\w*)?\s*[)\]]",
        # For example "in thousands", "in k", "in 1000s", "(in 1000)".
        rf"\bin\s+(?P<by>{_WORD}\b|(?:k|(?-i:[MG])|{_THOUSANDS}){_END})",
        # For example "x 1000", "/ 1000", ", thousands", ", k".
        rf"(?:(?<!\w)[x×*·]|/)\s?(?P<by>{_THOUSANDS}){_END}",
        rf",\s*(?P<by>k|{_WORD}|{_THOUSANDS})\s*$",
        # For example "kTpmC", "k r/s", "thousands of reads/s".
        rf"(?<!\w)(?P<by>[kmg](?={_UNIT})|k(?=\s{_UNIT})|{_WORD}(?=\s+(?:of\s+)?{_UNIT}))",
    )
)
#: Matches words in a head that may be a multiplier in an unknown form. "10 million rows" is a setting, so it does not
#: match.
_MAY_MULTIPLY = re.compile(
    rf"(?<!\d)(?<!\d )\b{_WORD}\b|\b10\s?(?:\^|\*\*)|10[³⁶⁹⁻]|(?<!\w)[x×]\s?1[ ,.'’]?000|['’]000|[(\[]\s*1000\s*[)\]]",
    re.IGNORECASE,
)
_POWERS = {"k": 3, "m": 6, "g": 9, "thousand": 3, "million": 6, "billion": 9}
_RAISED = str.maketrans("³⁶⁹", "369")
_LONGEST = 24
_MOST_OF_A_CELL = 200


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written: its value, its decimals, and whether a per cent sign follows."""

    value: float
    decimals: int
    """The number of digits after the point; negative if the last digits before it are unknown too, as in 9.5k."""
    percent: bool = False

    def __str__(self) -> str:
        return f"{self.value:.{max(0, self.decimals)}f}"

    @property
    def last_digit(self) -> float:
        """Return the value of one step of the last digit: 0.01 for two decimals."""
        return float(10.0**-self.decimals)


class UnclearColumn(ValueError):
    """The error for a column that cannot be read, because a sign or a multiplier is ambiguous."""


def head_power(head: str) -> int:
    """Return the power of ten that a column's head names for its numbers: 3 for "TpmC (k)", 0 for "TpmC".

    Raises UnclearColumn if the head seems to have a multiplier in an unknown form.

    >>> head_power("r/s x 1000"), head_power("TpmC, millions"), head_power("10 million rows, TpmC")
    (3, 6, 0)
    """
    match = next(filter(None, (pattern.search(head) for pattern in _HEADS)), None)
    if match is None:
        if _MAY_MULTIPLY.search(head):
            raise UnclearColumn("its head may be a multiplier of its numbers, or a setting")
        return 0
    by = match["by"].lower().removesuffix("s")
    if by in _POWERS:
        return _POWERS[by]
    by = by.translate(_RAISED)
    return int(by[-1]) if by[-1] in "369" else by.count("0")


def has_decimal_comma(cells: Iterable[str]) -> bool:
    """Return whether a number of the column has a comma that can only be decimal."""
    return any(_signs(match[1]) == "comma" for cell in cells for match in _TOKEN.finditer(cell[:_MOST_OF_A_CELL]))


def column_numbers(cells: Sequence[str], *, beside_commas: bool = False, power: int = 0) -> list[tuple[Number, ...]]:
    """Return the numbers of each cell of a column: "1539671 (26.35%)" has two.

    If another column of the table has decimal commas (`beside_commas`), ambiguous commas are decimal too. All numbers
    are multiplied by 10^`power`. Raises UnclearColumn if signs stay ambiguous, or contradict each other.

    >>> column_numbers(["1539671 (26.35%)"])
    [(Number(value=1539671.0, decimals=0, percent=False), Number(value=26.35, decimals=2, percent=True))]
    >>> column_numbers(["1.200,5", "950,4"])
    [(Number(value=1200.5, decimals=1, percent=False),), (Number(value=950.4, decimals=1, percent=False),)]
    """
    tokens = [list(_TOKEN.finditer(cell[:_MOST_OF_A_CELL])) for cell in cells]
    signs: dict[str, str] = {}
    for row in tokens:
        for match in row:
            signs.setdefault(_signs(match[1]), match[1])
    if {"comma", "point"} <= signs.keys():
        raise UnclearColumn(f"{signs['comma']} and {signs['point']} have different decimal signs")
    if "comma" not in signs and "points" in signs:
        raise UnclearColumn(f"{signs['points']} has points for thousands, and nothing tells a decimal sign")
    if not {"comma", "point"} & signs.keys() and "one point" in signs and beside_commas:
        raise UnclearColumn(f"the point of {signs['one point']} may be decimal, or separate thousands")
    is_comma = "comma" in signs or (beside_commas and "point" not in signs)
    return [tuple(filter(None, (_number(match, power, is_comma=is_comma) for match in row))) for row in tokens]


def _signs(text: str) -> str:
    """Return the meaning that one number's commas and points show for its column.

    "comma" or "point": that sign is decimal. "points": points separate thousands. "one comma" and "one point": the
    sign may be either. "": the number has no sign.
    """
    marks = re.sub(r"[\d'’ ]", "", text)
    last = re.split(r"[.,]", text)[-1]
    if not marks:
        return ""
    if len(set(marks)) > 1:
        return "comma" if marks[-1] == "," else "point"
    if len(marks) > 1:
        return "point" if marks[0] == "," else "points"
    leading = re.split(r"[.,'’ ]", text)[0]
    if len(last) != 3 or leading in ("", "0") or len(leading) > 3 or set(text) & set("'’ "):
        return "comma" if marks == "," else "point"
    return "one comma" if marks == "," else "one point"


def _number(match: re.Match[str], power: int, *, is_comma: bool) -> Number | None:
    text, exponent, unit = match[1], match[2], match[3] or ""
    for mark in " '’" + (".," if is_comma else ",.")[0]:
        text = text.replace(mark, "")
    text = text.replace(",", ".")
    if len(text) > _LONGEST or text.count(".") > 1:
        return None
    power = _POWERS.get(unit.lower(), 0 if unit else power) + int(exponent[1:] or 0 if exponent else 0)
    decimals = len(text.partition(".")[2])
    if abs(power) > _LONGEST:
        return None
    return Number(float(f"{text}e{power}"), decimals - power, unit == "%")
