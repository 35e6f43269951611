"""Reads the lines of any file one at a time. Takes a bounded memory, because it cuts long lines when it reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from errno import EINVAL
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from bufferlab.errors import DataFileError

#: No line that we recognise is longer; a binary file has "lines" of any length.
MAX_LINE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number from 1, and its text without the line's end."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file: the file's name as given, the line, and the caption above it (empty when there is none)."""

    file: str
    line: int
    label: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" ({self.label})" if self.label else "")


def file_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a file, with bytes that are not UTF-8 replaced; raise DataFileError if it cannot be read.

    Refuse devices and pipes before opening them: they may have no end, or no writer.
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
                while rest and not rest.endswith(b"\n"):
                    rest = file.readline(MAX_LINE_BYTES)
                yield Line(number, _plain(piece))
    except OSError as error:
        raise DataFileError(
            f"the file cannot be read: {error.strerror or error}", str(path), "give text files: logs, status dumps"
        ) from error


def _plain(piece: bytes) -> str:
    """Return the text of a line, with a space for each carriage return inside and without NULs."""
    return piece.decode("utf-8", errors="replace").rstrip("\r\n").replace("\r", " ").replace("\0", "")
