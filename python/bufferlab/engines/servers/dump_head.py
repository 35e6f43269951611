"""Finds out which tool made a dump, from which server and version, and which entries an archive has. Reads no rows.

mysqldump writes the server and the version in comments, in the file's first and last bytes (client/mysqldump.c,
write_header and write_footer). pg_dump's custom format begins with a header of binary numbers and texts; entries
follow, whose fields depend on the format's version (src/bin/pg_dump/pg_backup_archiver.c, ReadHead and ReadToc;
pg_backup_custom.c, _ReadExtraToc).
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from bufferlab.engines.servers.builds import Flavour
from bufferlab.errors import SpecError
from bufferlab.versions import SERVERS, numbers

MAGIC = b"PGDMP"
_CUSTOM = 1
_LONGEST_TEXT = 4096
_LONGEST_DEFINITION = 64 << 20
_MOST_ENTRIES = 10_000_000
_NEWEST = (1, 16)


@dataclass
class ArchiveHead:
    """The header of an archive that pg_dump wrote."""

    is_custom: bool
    version: str = ""
    """The version of the dumped server; "" if the archive does not say."""
    made_by: str = ""
    """The version of the pg_dump that wrote the archive; "" if the archive does not say."""


class CutArchiveError(ValueError):
    """The error for an archive that ends within its header or its table of contents."""


class Archive:
    """A reader of an archive's numbers and texts. Raises ValueError if they are missing."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        begin = self._bytes(11)
        if begin[:5] != MAGIC:
            raise ValueError("it is no archive")
        self.format_version = (begin[5], begin[6])
        self.int_bytes, self.offset_bytes, self.form = begin[8], begin[9], begin[10]

    def head(self) -> ArchiveHead:
        """Return the header of the archive, after the first 11 bytes, which `__init__` reads. Call it once, first."""
        if self.form != _CUSTOM:
            return ArchiveHead(is_custom=False)
        # Up to format 1.14 the compression level is a number; from 1.15 on the algorithm is a byte.
        self._bytes(1 if self.format_version >= (1, 15) else 1 + self.int_bytes)
        for _ in range(7):  # Skip the seven numbers of the dump's time.
            self.number()
        self.text()
        version, made_by = self.text() or "", self.text() or ""
        if not (numbers(version) and numbers(made_by)):
            raise ValueError("it tells no version")
        return ArchiveHead(is_custom=True, version=version, made_by=made_by)

    def kinds(self) -> set[str]:
        """Return the kinds of all entries, such as TABLE and TABLE DATA. Call it after `head`, and only once."""
        kinds: set[str] = set()
        count = self.number()
        if not 0 <= count <= _MOST_ENTRIES or self.format_version > _NEWEST:
            raise ValueError("it has another table of contents")
        for _ in range(count):
            self.number(), self.number()
            for _ in ("table's oid", "oid", "tag"):
                self.text()
            kinds.add(self.text() or "")
            self.number()  # Skip the section.
            texts = ["definition", "drop", "copy", "namespace", "tablespace"]
            for _ in texts + (["access method"] if self.format_version >= (1, 14) else []):
                self.text(_LONGEST_DEFINITION)
            if self.format_version >= (1, 16):
                self.number()  # Skip the kind of relation.
            self.text(), self.text()  # Skip the owner, and whether rows have oids.
            while self.text() is not None:
                pass  # Skip the dependencies.
            self._bytes(1 + self.offset_bytes)
        return kinds

    def number(self) -> int:
        """Return the archive's next number: a sign byte, then its digits."""
        sign, digits = self._bytes(1), self._bytes(self.int_bytes)
        return int.from_bytes(digits, "little") * (-1 if sign != b"\0" else 1)

    def text(self, longest: int = _LONGEST_TEXT) -> str | None:
        """Return the archive's next text; None if it is absent. Raise ValueError if it is longer than `longest`."""
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
    """Return the kinds of an archive's entries; None if they cannot be read.

    Raise CutArchiveError if the archive ends within them.
    """
    try:
        archive = Archive(file)
        archive.head()
        return archive.kinds()
    except CutArchiveError:
        raise
    except ValueError:
        return None


_HEAD_BYTES = 64 << 10
_TAIL_BYTES = 4 << 10
_MYSQLDUMP = re.compile(rb"\A(?:/\*M?!999999\\- [^\n]*\n)?-- (?:MySQL|MariaDB) dump [0-9]")
_SERVER = re.compile(rb"^-- Server version[ \t]+([0-9][0-9A-Za-z.+~:-]{0,99}+)(?![0-9A-Za-z.+~:-])", re.MULTILINE)
_OF_THE_TOOL = re.compile(rb"(?:mysqldump|mariadb-dump): ")
_BARE = re.compile(
    rb"^(?:/\*!40101 SET @OLD_CHARACTER_SET_CLIENT=|/\*M!999999\\- enable the sandbox mode|"
    rb"/\*!(?:40101|50503) SET (?:@saved_cs_client +=|character_set_client = )|INSERT INTO `|CREATE TABLE `)",
    re.MULTILINE,
)
"""Matches the line that identifies a dump that mysqldump wrote without comments."""
_COMPLETED = re.compile(rb"^-- Dump completed[^\n]*\s*\Z", re.MULTILINE)
_USE_FC = "use -Fc: pg_dump -Fc --file=app.dump app"
_USE_MYSQLDUMP = "write it with: mysqldump --single-transaction app > app.sql"


@dataclass(frozen=True)
class DumpHead:
    """The facts in a dump about the server from which it was taken."""

    flavour: Flavour
    """The server's flavour.

    It implies the tool: mysqldump (or mariadb-dump) of MySQL and MariaDB, pg_dump of PostgreSQL.
    """
    version: str
    """The version of the dumped server."""
    made_by: str
    """The version of the pg_dump that made the dump.

    For mysqldump, whose version does not matter, it is the server's version.
    """

    @property
    def release(self) -> tuple[int, ...]:
        """Return the version numbers that decide whether a server understands the dump."""
        return numbers(self.version)[: 1 if self.flavour == "postgres" else 2]


def read_head(path: Path) -> DumpHead:
    """Return the head of a dump. Raises SpecError, with a hint, for a file that cannot be read or restored."""
    try:
        if path.is_dir():
            raise SpecError("this is a folder, not a dump", str(path), f"of pg_dump's directory format: {_USE_FC}")
        if not stat.S_ISREG(path.stat().st_mode):
            raise SpecError("a dump is a regular file: it is read more than once", str(path), "write it to a disk")
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = file.read()
    except OSError as error:
        raise SpecError(f"the dump cannot be read: {error.strerror}", str(path), "give the path of a dump") from error
    if head.startswith(MAGIC):
        return _of_pg_dump(head, path)
    if _MYSQLDUMP.match(head):
        return _of_mysqldump(head, tail, path)
    raise SpecError(*_foreign(head, path))


def misfit(head: DumpHead, flavour: Flavour, version: str) -> tuple[str, str] | None:
    """Return why a server of this flavour and version cannot restore the dump, and a hint; None if it can."""
    of, server = f"{SERVERS[head.flavour]} {head.version}", f"{SERVERS[flavour]} {version}"
    wanted = f"{SERVERS[head.flavour]} {'.'.join(map(str, head.release))}"
    hint = f"choose a server of {wanted} or later by --server; `bufferlab engines` lists their names"
    if head.flavour != flavour:
        return f"the dump is of {of}, and the server is {server}: a dump goes into its own family", hint
    known = numbers(version)[: len(head.release)]
    if known < head.release[: len(known)]:
        return f"the dump is of {of}, which is newer than the server, {server}", hint
    return None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the whole file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _of_mysqldump(head: bytes, tail: bytes, path: Path) -> DumpHead:
    version = _SERVER.search(head)
    if version is None:
        what = "the dump does not tell its server's version"
        raise SpecError(what, str(path), "write it without --compact and --skip-comments")
    if not _COMPLETED.search(tail):
        what = 'the dump was cut short: its last line is not "-- Dump completed"'
        raise SpecError(what, str(path), "write it again, without --compact and --skip-comments")
    told = version[1].decode("ascii")
    return DumpHead("mariadb" if "mariadb" in told.lower() else "mysql", told, told)


def _of_pg_dump(head: bytes, path: Path) -> DumpHead:
    try:
        told = Archive(BytesIO(head)).head()
    except ValueError as error:
        raise SpecError("the dump's header is damaged", str(path), "write it again") from error
    if not told.is_custom:
        raise SpecError("this is not pg_dump's custom format", str(path), _USE_FC)
    return DumpHead("postgres", told.version, told.made_by)


def _foreign(head: bytes, path: Path) -> Iterator[str]:
    """Yield the fault, its place, and a hint, for a file that neither tool wrote."""
    if b"-- PostgreSQL database dump" in head[:4096] or b"-- PostgreSQL database cluster dump" in head[:4096]:
        what, hint = "this is a plain pg_dump, a script for psql, which runs psql's commands", _USE_FC
    elif head[257:262] == b"ustar":
        what, hint = "this is an archive of tar, perhaps pg_dump's", _USE_FC
    elif head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")):
        what, hint = "the dump is compressed", "unpack it first: a small file could unpack to more than the disk holds"
    elif head.startswith((b"\xff\xfe", b"\xfe\xff")):
        what, hint = "the dump is UTF-16", "PowerShell's > wrote it so: use mysqldump --result-file=app.sql"
    elif not head:
        what, hint = "the dump is empty", "write it again"
    elif head.startswith(b"\xef\xbb\xbf"):
        what, hint = "the dump begins with a byte order mark", "use mysqldump --result-file=app.sql"
    elif _OF_THE_TOOL.match(head):
        what, hint = "the dump begins with a message of its tool", "keep 2> apart: use --result-file=app.sql"
    elif b"<mysqldump " in head[:4096]:
        what, hint = "this is the XML of mysqldump --xml", _USE_MYSQLDUMP
    elif _BARE.search(head):
        what = "the dump was written with --skip-comments or --compact: it tells neither its server nor its end"
        hint = "write it again without --skip-comments and --compact"
    else:
        what, hint = "this is neither a mysqldump nor pg_dump's custom format", f"{_USE_MYSQLDUMP}; or {_USE_FC}"
    yield from (what, str(path), hint)
