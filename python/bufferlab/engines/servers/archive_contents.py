"""Reads the head and the table of contents of pg_dump's custom format. Reads no data.

The file begins with a header of binary numbers and texts; entries follow, whose fields depend on the format's version
(src/bin/pg_dump/pg_backup_archiver.c, ReadHead and ReadToc; pg_backup_custom.c, _ReadExtraToc).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from bufferlab.versions import numbers

MAGIC = b"PGDMP"
_CUSTOM = 1
_LONGEST_TEXT = 4096
_LONGEST_DEFINITION = 64 << 20
_MOST_ENTRIES = 10_000_000
_NEWEST = (1, 16)


@dataclass
class ArchiveHead:
    """The header of an archive."""

    is_custom: bool
    version: str = ""
    """The server's."""
    made_by: str = ""
    """pg_dump's version."""


class CutArchiveError(ValueError):
    """The error of an archive that ends within its head or its table of contents."""


class Archive:
    """A reader of an archive's numbers and texts. Raises ValueError where there are none."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        begin = self._bytes(11)
        if begin[:5] != MAGIC:
            raise ValueError("it is no archive")
        self.format_version = (begin[5], begin[6])
        self.int_bytes, self.offset_bytes, self.form = begin[8], begin[9], begin[10]

    def head(self) -> ArchiveHead:
        """Return the rest of the header."""
        if self.form != _CUSTOM:
            return ArchiveHead(is_custom=False)
        # Until 1.15 the level of compression, from then on its algorithm in a byte.
        self._bytes(1 if self.format_version >= (1, 15) else 1 + self.int_bytes)
        for _ in range(7):  # The time of the dump.
            self.number()
        self.text()
        version, made_by = self.text() or "", self.text() or ""
        if not (numbers(version) and numbers(made_by)):
            raise ValueError("it tells no version")
        return ArchiveHead(is_custom=True, version=version, made_by=made_by)

    def kinds(self) -> set[str]:
        """Return the kinds of all entries, such as TABLE and TABLE DATA. The header must be read."""
        kinds: set[str] = set()
        count = self.number()
        if not 0 <= count <= _MOST_ENTRIES or self.format_version > _NEWEST:
            raise ValueError("it has another table of contents")
        for _ in range(count):
            self.number(), self.number()
            for _ in ("table's oid", "oid", "tag"):
                self.text()
            kinds.add(self.text() or "")
            self.number()  # The section.
            texts = ["definition", "drop", "copy", "namespace", "tablespace"]
            for _ in texts + (["access method"] if self.format_version >= (1, 14) else []):
                self.text(_LONGEST_DEFINITION)
            if self.format_version >= (1, 16):
                self.number()  # The kind of relation.
            self.text(), self.text()  # The owner, and whether rows have oids.
            while self.text() is not None:
                pass  # What it depends on.
            self._bytes(1 + self.offset_bytes)
        return kinds

    def number(self) -> int:
        """Return the next number."""
        sign, digits = self._bytes(1), self._bytes(self.int_bytes)
        return int.from_bytes(digits, "little") * (-1 if sign != b"\0" else 1)

    def text(self, longest: int = _LONGEST_TEXT) -> str | None:
        """Return the next text; None for one that is not there."""
        length = self.number()
        if length < 0:
            return None
        if length > longest:
            raise ValueError("it has no such text")
        return self._bytes(length).decode("utf-8", "replace")

    def _bytes(self, count: int) -> bytes:
        read = self.file.read(count)
        if len(read) < count:
            raise CutArchiveError("it ends too early")
        return read


def entries_of(file: BinaryIO) -> set[str] | None:
    """Return the kinds of an archive's entries; None where they cannot be read.

    Raise CutArchiveError where the archive ends among them.
    """
    try:
        archive = Archive(file)
        archive.head()
        return archive.kinds()
    except CutArchiveError:
        raise
    except ValueError:
        return None
