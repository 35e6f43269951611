"""Fits tables to the width of an A4 page: columns with widths, turned or parted where they are too many.

No cell is clipped and no number is broken: a column is at least as wide as its longest part that may not be broken.
Widths are estimated from the letters, with room to spare, because the font is known to Typst alone.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bufferlab.chapter.elements import Column, Row, Table
from bufferlab.chapter.words import kept_together

#: The width of the text on A4 between margins of 20 mm.
WIDTH_PT = 481.0
#: The sizes of letters in tables, the first that fits is taken.
SIZES_PT = (8.0, 7.0)
#: The room at both sides of each cell together.
ROOM_PT = 7.0
#: Longer words are broken: paths, hashes, lists without blanks.
_LONGEST_WORD = 22
#: Texts are set in lines of about this many letters if they fit.
_LINE = 60
#: A narrow table with this many rows is set in halves.
_LONG = 14
#: The room between two halves.
GUTTER_PT = 14.0
#: The most rows that become columns.
_MOST_TURNED = 8
#: A table with more rows is cut, and says so.
MOST_ROWS = 60
_ZERO_WIDTH_SPACE = "\u200b"
_AFTER = re.compile(r"(?<=[/_,;:=.&?+-])(?=[^\s\d])")


@dataclass(frozen=True)
class Grid:
    """A table as it is set: a width for each column, in points, and the size of its letters."""

    table: Table
    widths_pt: tuple[float, ...]
    size_pt: float
    in_halves: bool = False
    """Whether its second half stands next to its first: a long table of narrow columns."""
    part: str = ""
    """Which part of the table it is, "1/2"; "" for a whole one."""


def grids(whole: Table) -> list[Grid]:
    """Return a table as grids that fit the page: as it is, turned, or in parts that repeat the first column."""
    table = _breakable(_cut(whole.filled))
    for size_pt in SIZES_PT:
        if _fits(table, size_pt):
            return [_grid(table, size_pt)]
    turned = _turned(table)
    if turned is not None:
        for size_pt in SIZES_PT:
            if _fits(turned, size_pt):
                return [_grid(turned, size_pt)]
    parts = _parts(table, SIZES_PT[-1])
    return [_grid(part, SIZES_PT[-1], f"{place}/{len(parts)}") for place, part in enumerate(parts, 1)]


def _cut(table: Table) -> Table:
    """Return at most MOST_ROWS rows, and how many are left out."""
    left = len(table.rows) - MOST_ROWS
    if left <= 0:
        return table
    told = f"The first {MOST_ROWS} of {len(table.rows):,} rows; report --format csv writes all of them."
    return replace(table, rows=table.rows[:MOST_ROWS], caption=f"{told} {table.caption}".strip())


def _breakable(table: Table) -> Table:
    """Return a table whose cells keep numbers with their units, and whose long words may be broken."""
    columns = tuple(replace(column, title=broken(column.title)) for column in table.columns)
    rows = tuple(replace(row, cells=tuple(broken(kept_together(cell)) for cell in row.cells)) for row in table.rows)
    return replace(table, columns=columns, rows=rows)


def broken(text: str) -> str:
    """Return a text whose long words have places to break: after signs, and where that is not enough after letters.

    >>> broken("/var/tmp/data").replace("\\u200b", "|"), broken("12,345.678-901.234,567")
    ('/|var/|tmp/|data', '12,345.678-901.234,567')
    """
    return " ".join(_broken_word(word) for word in text.split(" "))


def _broken_word(word: str) -> str:
    if len(word) <= _LONGEST_WORD and "/" not in word:
        return word
    pieces = []
    for piece in _AFTER.sub(_ZERO_WIDTH_SPACE, word).split(_ZERO_WIDTH_SPACE):
        starts = range(0, len(piece), _LONGEST_WORD)
        pieces += [piece[start : start + _LONGEST_WORD] for start in starts] if piece else [""]
    return _ZERO_WIDTH_SPACE.join(pieces)


def letters_pt(text: str, size_pt: float) -> float:
    """Return about how wide a text is, never too little: letters of East Asia are square, capitals wide."""
    widths = (
        0.0
        if letter == _ZERO_WIDTH_SPACE
        else 1.02
        if unicodedata.east_asian_width(letter) in "WF"
        else 0.9
        if letter in "MWmw%@"
        else 0.74
        if letter.isupper() or ord(letter) > 0x2000
        else 0.3
        if letter in " .,:;'|()ijlIt\u00a0"
        else 0.53
        for letter in text
    )
    return size_pt * sum(widths)


def _least_pt(texts: Sequence[str], size_pt: float) -> float:
    """Return the width of the longest part that may not be broken."""
    words = (word for text in texts for word in re.split(f"[ \n{_ZERO_WIDTH_SPACE}]", text))
    return max((letters_pt(word, size_pt) for word in words), default=0.0) + ROOM_PT


def _columns_of(table: Table) -> list[list[str]]:
    return [[column.title, *(row.cells[place] for row in table.rows)] for place, column in enumerate(table.columns)]


def _fits(table: Table, size_pt: float) -> bool:
    """Return whether all columns can stand side by side without a broken number, and texts without a line a word."""
    least = 0.0
    for texts in _columns_of(table):
        longest = max(letters_pt(text, size_pt) for text in texts)
        # A text of many words needs some width to be read.
        least += max(_least_pt(texts, size_pt), min(longest, 14 * size_pt * 0.5) + ROOM_PT)
    return least <= WIDTH_PT


def _grid(table: Table, size_pt: float, part: str = "") -> Grid:
    """Return the table with widths: the least of each column, and a share of the rest in proportion to its wish."""
    least, liked = [], []
    for texts in _columns_of(table):
        least.append(_least_pt(texts, size_pt))
        longest = max(letters_pt(text, size_pt) for text in texts[1:] or texts)
        liked.append(max(least[-1], min(longest, _LINE * 0.5 * size_pt) + ROOM_PT))
    room = WIDTH_PT - sum(least)
    wanted = sum(liked) - sum(least)
    # Long texts take the room that others do not want.
    share = min(1.0, room / wanted) if wanted > 0 and room > 0 else 0.0
    widths = [low + share * (high - low) for low, high in zip(least, liked, strict=True)]
    left = WIDTH_PT - sum(widths)
    worded = [place for place, column in enumerate(table.columns) if not column.numeric]
    longer = [place for place in worded if any(len(row.cells[place]) > _LINE for row in table.rows)]
    if longer and left > 0:
        for place in longer:
            widths[place] += left / len(longer)
    in_halves = len(table.rows) >= _LONG and 2 * sum(widths) + GUTTER_PT <= WIDTH_PT
    return Grid(table, tuple(round(width, 1) for width in widths), size_pt, in_halves, part)


def _turned(table: Table) -> Table | None:
    """Return the table with rows and columns exchanged; None where it has too many rows, or one column alone."""
    if not 0 < len(table.rows) <= _MOST_TURNED or len(table.columns) < 3:
        return None
    first, *others = table.columns
    numeric = all(column.numeric for column in others)
    columns = (Column(first.title, numeric=False), *(Column(row.cells[0], numeric=numeric) for row in table.rows))
    rows = tuple(
        Row((column.title, *(row.cells[place] for row in table.rows))) for place, column in enumerate(others, 1)
    )
    return replace(table, columns=columns, rows=rows)


def _parts(table: Table, size_pt: float) -> list[Table]:
    """Return the table in parts that each fit, the first column repeated."""
    chosen: list[list[int]] = [[0]]
    for place in range(1, len(table.columns)):
        if len(chosen[-1]) > 1 and not _fits(table.of_columns([*chosen[-1], place]), size_pt):
            chosen.append([0])
        chosen[-1].append(place)
    return [table.of_columns(places) for places in chosen]
