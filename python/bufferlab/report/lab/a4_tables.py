"""Fits tables to the width of an A4 page: gives columns their widths, and changes tables of too many columns.

Such a table gets its rows and columns exchanged, or is split. No cell is clipped and no number is broken: a column is
at least as wide as its longest part that may not be broken. Widths are estimates from the letters, too large rather
than too small, because only Typst knows the font.
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
#: The font sizes for tables; the first one that fits is used.
SIZES_PT = (8.0, 7.0)
#: The padding of a cell, both sides together.
ROOM_PT = 7.0
#: The most letters of a word that is never broken. Longer words are paths, hashes, or lists without blanks.
_LONGEST_WORD = 22
#: The number of letters per line that a column of text gets if there is room.
_LINE = 60
#: A narrow table with at least this many rows is split, and its halves are printed side by side.
_LONG = 14
#: The room between the halves of a split table.
GUTTER_PT = 14.0
#: The most rows of a table that may be turned, so that its rows become columns.
_MOST_TURNED = 8
#: The most rows of a table on paper. A longer table is cut, and its caption says so.
MOST_ROWS = 60
_ZERO_WIDTH_SPACE = "\u200b"
_AFTER = re.compile(r"(?<=[/_,;:=.&?+-])(?=[^\s\d])")


@dataclass(frozen=True)
class Grid:
    """A table with its layout on paper: the width of each column in points, and the font size."""

    table: Table
    widths_pt: tuple[float, ...]
    size_pt: float
    in_halves: bool = False
    """Whether the table's second half is printed next to its first half, because it is long and narrow."""
    part: str = ""
    """The part of a table that was split by columns, such as "1/2"; "" for a whole table."""


def grids(whole: Table) -> list[Grid]:
    """Return a table as grids that fit the page: unchanged, with rows and columns exchanged, or in parts.

    Parts repeat the first column. Rows beyond MOST_ROWS are left out."""
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
    """Return the table with at most MOST_ROWS rows. If rows are left out, the caption says how many there are."""
    left = len(table.rows) - MOST_ROWS
    if left <= 0:
        return table
    told = f"The first {MOST_ROWS} of {len(table.rows):,} rows; report --format csv writes all of them."
    return replace(table, rows=table.rows[:MOST_ROWS], caption=f"{told} {table.caption}".strip())


def _breakable(table: Table) -> Table:
    """Return the table with cells in which numbers stay with their units and long words may be broken."""
    columns = tuple(replace(column, title=broken(column.title)) for column in table.columns)
    rows = tuple(replace(row, cells=tuple(broken(kept_together(cell)) for cell in row.cells)) for row in table.rows)
    return replace(table, columns=columns, rows=rows)


def broken(text: str) -> str:
    """Return a text with places to break long words: after signs, and after letters if pieces are still too long.

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
    """Return an estimate of a text's width in points, which is never too small."""
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
    """Return the width of the longest part of these texts that may not be broken, padding included."""
    words = (word for text in texts for word in re.split(f"[ \n{_ZERO_WIDTH_SPACE}]", text))
    return max((letters_pt(word, size_pt) for word in words), default=0.0) + ROOM_PT


def _columns_of(table: Table) -> list[list[str]]:
    return [[column.title, *(row.cells[place] for row in table.rows)] for place, column in enumerate(table.columns)]


def _fits(table: Table, size_pt: float) -> bool:
    """Return whether all columns fit side by side without a broken number, and with enough room for texts."""
    least = 0.0
    for texts in _columns_of(table):
        longest = max(letters_pt(text, size_pt) for text in texts)
        # A text of many words needs room for about 14 letters in a line, to be readable.
        least += max(_least_pt(texts, size_pt), min(longest, 14 * size_pt * 0.5) + ROOM_PT)
    return least <= WIDTH_PT


def _grid(table: Table, size_pt: float, part: str = "") -> Grid:
    """Return the table with its columns' widths: the least width, plus a share of the rest for longer texts."""
    least, liked = [], []
    for texts in _columns_of(table):
        least.append(_least_pt(texts, size_pt))
        longest = max(letters_pt(text, size_pt) for text in texts[1:] or texts)
        liked.append(max(least[-1], min(longest, _LINE * 0.5 * size_pt) + ROOM_PT))
    room = WIDTH_PT - sum(least)
    wanted = sum(liked) - sum(least)
    # Room that is still left goes to the columns with long texts.
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
    """Return the table with rows and columns exchanged; None if it has too many rows, or fewer than three columns."""
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
    """Return the table in parts that each fit the page; each part repeats the first column."""
    chosen: list[list[int]] = [[0]]
    for place in range(1, len(table.columns)):
        if len(chosen[-1]) > 1 and not _fits(table.of_columns([*chosen[-1], place]), size_pt):
            chosen.append([0])
        chosen[-1].append(place)
    return [table.of_columns(places) for places in chosen]
