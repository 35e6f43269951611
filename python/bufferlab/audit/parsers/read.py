"""Reads whole files into evidence. It offers each line to one parser after another, to the table parser last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from bufferlab.audit.parsers.benchbase import BenchbaseParser
from bufferlab.audit.parsers.blkparse import BlkparseParser, BlockTraceText
from bufferlab.audit.parsers.captions import Caption, EndlessLine, Line, Place, file_lines, read_caption
from bufferlab.audit.parsers.documents import Document, with_documents
from bufferlab.audit.parsers.fio import FioParser
from bufferlab.audit.parsers.go_tpc import GoTpcParser
from bufferlab.audit.parsers.hammerdb import HammerdbParser
from bufferlab.audit.parsers.innodb_status import StatusDump, StatusParser
from bufferlab.audit.parsers.iostat import IostatParser, IostatReport, VmstatParser
from bufferlab.audit.parsers.load_run import LoadParser, LoadRun
from bufferlab.audit.parsers.pgbench import PgbenchParser
from bufferlab.audit.parsers.server_counters import ServerCountersParser
from bufferlab.audit.parsers.stated import Stated, StatedParser
from bufferlab.audit.parsers.sysbench import SysbenchParser
from bufferlab.audit.parsers.tables import ResultTable, TableParser, TextTable, results_of
from bufferlab.audit.parsers.tpcc_mysql import TpccLog, TpccParser
from bufferlab.chapter.words import plural
from bufferlab.errors import DataFileError, Problem

HINT = (
    "give the output of tpcc-mysql, sysbench, pgbench, HammerDB, go-tpc, BenchBase, fio, blkparse, vmstat or "
    "`iostat -x`, SHOW ENGINE INNODB STATUS, SHOW GLOBAL STATUS, PostgreSQL's views of statistics, or a table with "
    "columns such as TpmC and r/s"
)
_JSON_HINT = "give the whole document of a run that ended by itself, or the program's output for people"
_ENDLESS = "the last line is not read: it ends with a number and without a line's end, so it may be cut"
_CUT_ROW = "the last line is cut: its last number is not read, and the numbers before it are"
_ENDLESS_HINT = "give the whole file, or end its last line"
_FORM_HINT = "write numbers with a point for decimals and without a sign for thousands"


@dataclass(frozen=True)
class FileEvidence:
    """The evidence found in one file: runs, printouts, reports, tables, traces and statements."""

    file: str
    logs: list[TpccLog] = field(default_factory=list)
    dumps: list[StatusDump] = field(default_factory=list)
    reports: list[IostatReport] = field(default_factory=list)
    tables: list[TextTable] = field(default_factory=list)
    results: list[ResultTable] = field(default_factory=list)
    stated: Stated = field(default_factory=Stated)
    traces: list[BlockTraceText] = field(default_factory=list)
    unread: list[Place] = field(default_factory=list)
    """The places of blkparse's lines that cannot be read."""
    loads: list[LoadRun] = field(default_factory=list)
    """The runs of load generators, in the order of their lines."""
    digest: str = ""
    """The SHA-256 of the text of all lines, in hexadecimal digits."""
    lines: int = 0
    """The number of lines that are not blank."""
    lines_read: int = 0
    """The number of lines that some parser recognised, or that belong to a table of results."""
    named: list[Problem] = field(default_factory=list)
    """A problem for each part that is missing, or was recognised but cannot be read."""

    @property
    def measured(self) -> bool:
        """Return whether the file has numbers of a run, and not only statements about a set-up."""
        return any((self.logs, self.dumps, self.reports, self.results, self.traces, self.unread, self.loads))


def read_file(path: Path) -> FileEvidence:
    """Return everything recognised in a file.

    Raises DataFileError if the file cannot be read, or if nothing in it is recognised. Then the error names the parts
    that could not be used, or quotes the file's first words.
    """
    evidence = read_lines(file_lines(path), str(path))
    if evidence.measured or evidence.stated.anything:
        return evidence
    if evidence.named:
        first_named, *more = evidence.named
        raise DataFileError(first_named.what, first_named.where, first_named.hint, more=more)
    first, last = None, 0
    for line in file_lines(path):
        first, last = first or (line if line.text.strip() else None), line.number
    what, where = f"nothing recognised in {plural(last, 'line')}" if last else "the file is empty", str(path)
    if first:
        what, where = f"{what}, which begin {first.text.strip()[:40]!r}", f"{path}:{first.number}"
    raise DataFileError(what, where, HINT)


def read_lines(lines: Iterable[Line], file: str) -> FileEvidence:
    """Return everything recognised in these lines."""
    tpcc, status, iostat, vmstat = TpccParser(file), StatusParser(file), IostatParser(file), VmstatParser(file)
    counters = ServerCountersParser(file)
    tables, stated, blkparse = TableParser(file), StatedParser(file), BlkparseParser(file)
    of_lines = (SysbenchParser(file), PgbenchParser(file), HammerdbParser(file), GoTpcParser(file), FioParser(file))
    loads: tuple[LoadParser, ...] = (*of_lines, BenchbaseParser(file))
    caption: Caption | None = None
    count, taken, digest = 0, 0, sha256()
    broken: list[Document] = []
    endless: list[Problem] = []

    def counted() -> Iterator[Line]:
        nonlocal count
        for line in lines:
            digest.update(line.text.encode(errors="replace") + b"\n")
            count += not line.text.isspace() and line.text != ""
            yield line

    for line in with_documents(counted()):
        label = caption.label if caption else ""
        if isinstance(line, Document):
            tables.close()
            if line.problem:
                broken.append(line)
                continue
            taken += line.lines
            iostat.take_document(line, caption)
            for parser in loads:
                parser.take_document(line, label)
            continue
        text, number = line.text, line.number
        is_endless = isinstance(line, EndlessLine)
        if is_endless and (iostat.take_cut(text) or vmstat.take_cut(number, text, caption)):
            endless.append(Problem(_CUT_ROW, f"{file}:{number}", _ENDLESS_HINT))
            continue
        # A number at the end of a cut line may lack digits, so do not read the line. For rows of iostat, vmstat and
        # tables, their number of cells shows whether they are cut.
        if (
            is_endless
            and text[-1:].isdigit()
            and (
                TpccParser(file).take(number, text, label)
                or StatusParser(file).take(number, text, None)
                or counters.may_take(number, text)
                or any(parser.may_take(number, text, label) for parser in of_lines)
            )
        ):
            endless.append(Problem(_ENDLESS, f"{file}:{number}", _ENDLESS_HINT))
            continue
        if (
            blkparse.take(number, text, label)
            or tpcc.take(number, text, label)
            or status.take(number, text, caption)
            or iostat.take(number, text, caption)
            or vmstat.take(number, text, caption)
            or counters.take(number, text, caption)
            or any(parser.take(number, text, label) for parser in of_lines)
        ):
            tables.close()
            taken += 1
            continue
        stated.take(number, text)
        if new := read_caption(text):
            caption = new
            tables.close()
        else:
            tables.take(number, text, label, is_endless=is_endless)
    tables.close()
    made = [found for table in tables.tables if (found := results_of(table)) is not None]
    named = [
        *_heads_alone(file, tpcc.logs, iostat.reports),
        *(problem for parser in loads for problem in parser.named()),
        *(
            Problem(
                f"the JSON document of {one.program} is not read: {one.problem}", f"{file}:{one.number}", _JSON_HINT
            )
            for one in broken
        ),
        *tables.unread,
        *endless,
        *_cut_rows(file, "iostat", iostat.cut),
        *_cut_rows(file, "vmstat", vmstat.cut),
        *(Problem(what, f"{file}:{one.place.line}", _FORM_HINT) for one in made for what in one.unread),
    ]
    load_runs = sorted((run for parser in loads for run in parser.runs), key=lambda run: run.place.line)
    log_pieces = (
        [log for log in tpcc.logs if log.is_measured],
        sorted([*status.dumps, *counters.printouts()], key=lambda dump: dump.place.line),
        [*(report for report in iostat.reports if report.devices), *vmstat.reports],
    )
    traces = ([trace for trace in blkparse.traces if trace.is_counted], blkparse.unread)
    results = [one for one in made if one.rows]
    taken += sum(table.lines for table, one in zip(tables.tables, map(results_of, tables.tables), strict=True) if one)
    return FileEvidence(
        file,
        *log_pieces,
        tables.tables,
        results,
        stated.stated,
        *traces,
        load_runs,
        digest.hexdigest(),
        count,
        min(count, taken),
        named,
    )


def _cut_rows(file: str, tool: str, lines: list[int]) -> Iterator[Problem]:
    """Yield one problem for all rows of a program that break off."""
    if lines:
        more = f", and {len(lines) - 1} more like it" if lines[1:] else ""
        what = f"a row of {tool} has fewer cells than its head, and is not read{more}"
        yield Problem(what, f"{file}:{lines[0]}", "give the whole output")


def _heads_alone(file: str, logs: Iterable[TpccLog], reports: Iterable[IostatReport]) -> Iterator[Problem]:
    """Yield one problem for each program with outputs in the file that consist only of their header."""
    for program, lines in (
        ("tpcc-mysql's output", [log.place.line for log in logs if not log.is_measured]),
        ("a report of iostat", [report.place.line for report in reports if not report.devices]),
    ):
        if lines:
            more = f", and {len(lines) - 1} more like it" if lines[1:] else ""
            yield Problem(f"only the head of {program} is there{more}", f"{file}:{lines[0]}", HINT)
