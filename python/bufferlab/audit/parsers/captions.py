"""Reads the lines of any file one at a time, and captions: lines that name the setting and time of the text below.

It uses bounded memory, because it cuts long lines while it reads them. A caption is a short separate line, such as
"page size = 4KB" or "depth: 128, after 100 seconds / 1200 seconds". A Markdown heading may be a caption. Settings of a
configuration file (innodb_...=...) are not captions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from errno import EINVAL
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from bufferlab.errors import DataFileError

#: The most bytes of a line that are read. No parser needs longer lines, but a binary file has "lines" of any length.
MAX_LINE_BYTES = 8192
#: The sign of a status text in a single line: without \\G or --raw, MySQL's client prints \\n in place of line ends.
_STATUS_IN_A_LINE = b"INNODB MONITOR OUTPUT\\n"
_MAX_STATUS_BYTES = 1 << 21
#: The most bytes of a JSON document, which may be a single line; larger documents are not read.
MAX_DOCUMENT_BYTES = 1 << 25
_DOCUMENT = re.compile(
    rb'\s*[\[{].*?"(?:fio version|sysstat|(?:Throughput|Goodput) \(requests/second\)|NEWORD|PAYMENT)"', re.DOTALL
)

_CAPTION = re.compile(
    r"[#*\s>]*(?P<name>[A-Za-z][A-Za-z _-]{1,30}?)\s*(?:=|:)\s*"
    r"(?P<value>\d+(?:\.\d+)?\s?[A-Za-z%]{0,4})\s*(?:[,;(].*)?\**"
)
_NOT_SWEPT = re.compile(
    r"innodb_|.*(rate|memory|runtime|duration|seed|version|scale|bits|total|revision|time|cores?|port)$", re.IGNORECASE
)
_TIME = re.compile(
    r"(?:^|[\s,;(=:@])(?P<t>\d{1,7}(?:\.\d+)?)\s*(?:s|secs?|seconds?)\b(?:\s*(?:/|of)\s*\d{1,7}\s*(?:s|secs?|seconds?)?)?",
    re.IGNORECASE,
)
_LONGEST_CAPTION = 160


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number, counted from 1, and its text without the newline."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class EndlessLine(Line):
    """The last line of a file that does not end with a newline. It may be cut, even inside a number."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file: the file's name as given, the line, and the caption above it (empty when there is none)."""

    file: str
    line: int
    label: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" ({self.label})" if self.label else "")


def file_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file, with bytes that are not UTF-8 replaced.

    Raises DataFileError if the file cannot be read. Devices and pipes are refused before they are opened, because they
    may have no end, or no writer.
    """
    try:
        mode = path.stat().st_mode
        if not S_ISREG(mode) and not S_ISDIR(mode):
            raise OSError(EINVAL, "a device or a pipe, not a regular file")
        with path.open("rb") as file:
            number = 0
            while piece := file.readline(MAX_LINE_BYTES):
                number += 1
                rest = piece
                if number == 1:
                    piece = piece.removeprefix(b"\xef\xbb\xbf").removeprefix(b"\xff\xfe")  # A byte order mark.
                escaped = _STATUS_IN_A_LINE in piece
                is_whole = piece.endswith(b"\n")
                is_document = not is_whole and _DOCUMENT.match(piece) is not None
                most = MAX_DOCUMENT_BYTES if is_document else _MAX_STATUS_BYTES if escaped else 0
                longer = [piece]
                while rest and not rest.endswith(b"\n"):
                    rest = file.readline(MAX_LINE_BYTES)
                    if len(longer) * MAX_LINE_BYTES < most:
                        longer.append(rest)
                piece = b"".join(longer)
                kind = Line if rest else EndlessLine
                for part in piece.split(b"\\n") if escaped else (piece,):
                    yield kind(number, _plain(part if is_document else part[:MAX_LINE_BYTES]))
    except OSError as error:
        raise DataFileError(
            f"the file cannot be read: {error.strerror or error}", str(path), "give text files: logs, status dumps"
        ) from error


def _plain(piece: bytes) -> str:
    """Return the text of a line without NULs, and with spaces in place of carriage returns."""
    return piece.decode("utf-8", errors="replace").rstrip("\r\n").replace("\r", " ").replace("\0", "")


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption: its setting ("page size = 4KB") and, if stated, the seconds since the start of the run."""

    label: str
    t_s: float | None = None


def read_caption(text: str) -> Caption | None:
    """Return the caption in a line; None if the line is not a caption.

    >>> read_caption("Page size = 4KB, progress: 100 seconds / 1200 seconds")
    Caption(label='page size = 4KB', t_s=100.0)
    >>> read_caption("Free buffers          40")
    """
    if len(text) > _LONGEST_CAPTION or "|" in text or "\t" in text:
        return None
    match = _CAPTION.fullmatch(text.strip())
    if match is None or _NOT_SWEPT.match(match["name"]):
        return None
    label = f"{' '.join(match['name'].lower().split())} = {match['value'].replace(' ', '')}"
    rest = text.strip()[match.end("value") :]
    time = _TIME.search(rest)
    if time is None:
        # "ibuf aio reads: 0, log i/o's: 0" is a list of counters, not a heading.
        return None if rest.lstrip().startswith((",", ";")) else Caption(label)
    return Caption(label, float(time["t"]))
