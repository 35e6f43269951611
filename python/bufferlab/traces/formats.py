"""The published formats of block traces that are tables: their header lines, patterns of their rows, and their units.

Sources. MSR Cambridge: README of SNIA IOTTA 388 (times in 100 ns, offsets in bytes). SYSTOR '17: README of the traces
at SNIA (seconds, bytes; the response may be empty). Alibaba: README of the block traces (bytes, us). Tencent: README of
SNIA IOTTA 28064 (Unix seconds, sectors of 512 bytes). SPC: "SPC Trace File Format Specification" 1.0.1, 2002 (seconds,
bytes of size; blocks are of 512 bytes in the traces of UMass). MQSim: its README (sectors; another file gives the unit
of times, and its own traces have ns). CloudPhysics: its trace in libCacheSim's repository, as CSV and as vscsi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bufferlab.traces.column_names import plain

#: The bytes of a sector. Sizes that are all multiples of it are assumed to be in bytes.
_SECTOR = 512
_DIGITS, _NUMBER = "[0-9]{1,20}", r"[0-9]{1,20}(\.[0-9]*)?"
_FLAG, _LETTER = "[01]", "[rw]|read|write"


@dataclass(frozen=True)
class TableFormat:
    """A published format of block traces that are tables; columns are numbered from 0."""

    name: str
    columns: Mapping[str, int]
    """The column numbers of time, page and size."""
    units: Mapping[str, str]
    """The units of the columns time, page and size."""
    files: tuple[int, ...]
    """The column numbers that together identify the disk."""
    heads: tuple[str, ...] = ()
    """The header lines of this format; none if published files have no header line."""
    form: tuple[str, ...] = ()
    """A regular expression for each cell of a row in a file without a header line, in lower case."""
    in_sectors: bool = False
    """Whether a table with offsets in bytes may look the same.

    If so, some size must not be a multiple of a sector's bytes.
    """
    in_order: bool = False
    """Whether a table with other columns may look the same. If so, times must not run backwards."""
    separators: str = ","
    has_further: bool = False
    """Whether more columns may follow."""

    def has_head(self, names: Sequence[str]) -> bool:
        """Return whether these column names are a header line of the format, ignoring case, blanks and punctuation."""
        return [plain(name) for name in names] in [[plain(name) for name in head.split(",")] for head in self.heads]

    def fits(self, row: Sequence[str]) -> bool:
        """Return whether the cells of a row match the format's patterns."""
        if len(row) < len(self.form) or (len(row) > len(self.form) and not self.has_further):
            return False
        return all(re.fullmatch(form, cell.lower()) for form, cell in zip(self.form, row, strict=False))

    def has_form(self, rows: Sequence[Sequence[str]], separator: str) -> bool:
        """Return whether rows look like this format.

        A damaged row after the first is not checked here: it is reported later.
        """
        if not self.form or not rows or separator not in self.separators or not self.fits(rows[0]):
            return False
        times, sizes = ([row[self.columns[role]] for row in rows] for role in ("time", "size"))
        if self.in_order:
            numbers = [float(time) for time in times if re.fullmatch(_NUMBER, time)]
            if any(later < earlier for earlier, later in pairwise(numbers)):
                return False
        return not (
            self.in_sectors and all(int(size) % _SECTOR == 0 for size in sizes if size.isascii() and size.isdecimal())
        )


_MSR = "Timestamp,Hostname,DiskNumber,Type,Offset,Size"
_MSR_FORM = ("[0-9]*", ".*", "[0-9]*", "read|write", ".*", ".*")
_BYTES = {"page": "bytes", "size": "bytes"}
_SECTORS = {"page": "sectors", "size": "sectors"}

FORMATS = (
    TableFormat(
        "MSR Cambridge",
        {"time": 0, "page": 4, "size": 5},
        {"time": "100ns", **_BYTES},
        (1, 2),
        (_MSR, f"{_MSR},ResponseTime"),
        _MSR_FORM,
    ),
    TableFormat(
        "MSR Cambridge",
        {"time": 0, "page": 4, "size": 5},
        {"time": "100ns", **_BYTES},
        (1, 2),
        form=(*_MSR_FORM, ".*"),
    ),
    TableFormat(
        "SYSTOR '17",
        {"time": 0, "page": 4, "size": 5},
        {"time": "s", **_BYTES},
        (3,),
        ("Timestamp,Response,IOType,LUN,Offset,Size",),
        (r"[0-9]+\.[0-9]+", r"([0-9]+\.[0-9]+)?", _LETTER, _DIGITS, _DIGITS, _DIGITS),
    ),
    TableFormat(
        "Alibaba",
        {"time": 4, "page": 2, "size": 3},
        {"time": "us", **_BYTES},
        (0,),
        ("device_id,opcode,offset,length,timestamp",),
        (_DIGITS, _LETTER, _DIGITS, _DIGITS, "[0-9]{16}"),
    ),
    TableFormat(
        "Tencent",
        {"time": 0, "page": 1, "size": 2},
        {"time": "s", **_SECTORS},
        (4,),
        ("Timestamp,Offset,Size,IOType,VolumeID",),
        ("[0-9]{9,10}", _DIGITS, _DIGITS, _FLAG, _DIGITS),
        in_sectors=True,
    ),
    TableFormat(
        "SPC",
        {"time": 4, "page": 1, "size": 2},
        {"time": "s", "page": "sectors", "size": "bytes"},
        (0,),
        form=(_DIGITS, _DIGITS, _DIGITS, _LETTER, _NUMBER),
        in_order=True,
        has_further=True,
    ),
    TableFormat(
        "CloudPhysics",
        {"time": 1, "page": 4, "size": 3},
        {"time": "s", "page": "sectors", "size": "bytes"},
        (),
        ("version,time,op,size,lbn",),
    ),
    TableFormat(
        "MQSim",
        {"time": 0, "page": 2, "size": 3},
        {"time": "ns", **_SECTORS},
        (1,),
        form=(_DIGITS, _DIGITS, _DIGITS, _DIGITS, _FLAG),
        in_sectors=True,
        in_order=True,
        separators=" \t",
    ),
)
"""The formats. Each is recognised by its header line or by the patterns of its rows."""
