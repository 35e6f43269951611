"""Reads whole files into evidence: offers every line to each parser in turn, and to the table parser last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bufferlab.errors import DataFileError
from bufferlab.importers.blkparse import BlkparseParser, BlockTraceText
from bufferlab.importers.caption import Caption, read_caption
from bufferlab.importers.innodb_status import StatusDump, StatusParser
from bufferlab.importers.iostat import IostatParser, IostatReport
from bufferlab.importers.result_rows import ResultTable, results_of
from bufferlab.importers.stated import Stated, StatedParser
from bufferlab.importers.tables import Table, TableParser
from bufferlab.importers.text import Line, Place, file_lines
from bufferlab.importers.tpcc_mysql import TpccLog, TpccParser

_HINT = (
    "give tpcc-mysql's output, SHOW ENGINE INNODB STATUS, `iostat -x`, blkparse's output, or a table with columns such "
    "as TpmC and r/s"
)


@dataclass(frozen=True)
class FileEvidence:
    """The evidence found in one file."""

    file: str
    logs: list[TpccLog] = field(default_factory=list)
    dumps: list[StatusDump] = field(default_factory=list)
    reports: list[IostatReport] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    results: list[ResultTable] = field(default_factory=list)
    stated: Stated = field(default_factory=Stated)
    traces: list[BlockTraceText] = field(default_factory=list)
    unread: list[Place] = field(default_factory=list)
    """The lines of a known kind that cannot be read."""

    @property
    def recognised(self) -> bool:
        """Whether the file has anything that can be judged."""
        pieces = (self.logs, self.dumps, self.reports, self.results, self.traces, self.unread)
        return any(pieces) or self.stated.anything


def read_file(path: Path) -> FileEvidence:
    """Return everything recognised in a file; raise DataFileError, with its name and first words, if it is nothing."""
    seen = _Seen()
    evidence = read_lines(seen.over(file_lines(path)), str(path))
    if not evidence.recognised:
        what = (
            f"nothing recognised in {seen.last} line{'' if seen.last == 1 else 's'}"
            if seen.last
            else "the file is empty"
        )
        where = f"{path}:{seen.first_number}" if seen.first else str(path)
        raise DataFileError(f"{what}{f', which begin {seen.first!r}' if seen.first else ''}", where, _HINT)
    return evidence


def read_lines(lines: Iterable[Line], file: str) -> FileEvidence:
    """Return everything recognised in these lines."""
    tpcc, status, iostat = TpccParser(file), StatusParser(file), IostatParser(file)
    tables, stated, blkparse = TableParser(file), StatedParser(file), BlkparseParser(file)
    caption: Caption | None = None
    for line in lines:
        text, number = line.text, line.number
        label = caption.label if caption else ""
        stated.take(number, text)
        if blkparse.take(number, text, label):
            tables.close()
            continue
        if tpcc.take(number, text, label) or status.take(number, text, caption) or iostat.take(number, text, caption):
            tables.close()
            continue
        found = read_caption(text)
        if found is not None:
            caption = found
            tables.close()
            continue
        tables.take(number, text, label)
    tables.close()
    results = [made for table in tables.tables if (made := results_of(table)) is not None]
    return FileEvidence(
        file,
        tpcc.logs,
        status.dumps,
        iostat.reports,
        tables.tables,
        results,
        stated.stated,
        blkparse.traces,
        blkparse.unread,
    )


class _Seen:
    """The facts that an error tells of a file with nothing recognised: its first words and number of lines."""

    def __init__(self) -> None:
        self.first, self.first_number, self.last = "", 0, 0

    def over(self, lines: Iterable[Line]) -> Iterable[Line]:
        for line in lines:
            self.last = line.number
            if not self.first and line.text.strip():
                self.first, self.first_number = line.text.strip()[:40], line.number
            yield line
