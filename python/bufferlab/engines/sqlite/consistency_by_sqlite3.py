"""Checks the data in a closed file with a second client, Python's sqlite3.

The check shares no code with the client that loaded or changed the data. It checks the b-trees of the file first, for
every workload, and then the workload's conditions (engines/workload_conditions.py). The check changes neither the
database nor a log next to it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from bufferlab.engines.workload_conditions import NOT_OURS, check_some, conditions, result_of_trees
from bufferlab.errors import DataFileError
from bufferlab.units import MIB

# SQLite executed about 50 million instructions per second in a measurement, so this gives about 50 calls per second.
_INSTRUCTIONS_PER_INTERRUPT = 1_000_000
_ENTRIES = "wrong # of entries in index "


def check(
    database: Path,
    workload: Mapping[str, Any],
    delivered: Sequence[Sequence[int]],
    cache_bytes: int = 256 * MIB,
    interrupt: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Check the trees of a closed database and, if they are sound, every condition of the workload.

    `delivered` is [warehouse, district, orders delivered since the load]. `interrupt` is called tens of times a second
    and stops the check by raising. A violated condition is a result, not an error. If the trees are damaged, that is
    the only result, because queries on them mean nothing. Raises DataFileError for a file that cannot be read as the
    workload's database.

    Returns {"seconds", "conditions": [{"condition", "name", "passed", "violations", "example"}]}, where `example` is
    the first violation as {column: value}, or None.
    """
    started = time.monotonic()
    calls = _Interrupts(interrupt)
    with _as_data_file_errors(database, calls), closing(_open(database)) as connection:
        if database.stat().st_size <= cache_bytes:
            _read_ahead(database, interrupt)
        calls.install(connection)
        _use_memory(connection, cache_bytes)
        rows = [_trees(connection)]
        if rows[0]["passed"]:
            left = iter(conditions(workload["name"]))
            rows += check_some(left, workload, delivered, database, connection.cursor())
    return {"seconds": time.monotonic() - started, "conditions": rows}


def _trees(connection: sqlite3.Connection) -> dict[str, Any]:
    """Check that every b-tree is connected and in order, and that no page is lost or used twice.

    It uses quick_check. PRAGMA integrity_check also looks up every row in every index, and took half as long again. If
    indexes matter to a workload, one of its conditions checks them. Newer versions of SQLite also count an index's
    entries in quick_check (3.46 does, 3.40 does not). These messages are dropped, so that all versions judge alike.
    """
    messages = [str(message) for (message,) in connection.execute("PRAGMA quick_check")]
    found = [message for message in messages if message != "ok" and not message.startswith(_ENTRIES)]
    return result_of_trees("the file's b-trees are well formed (PRAGMA quick_check)", found)


def _open(database: Path) -> sqlite3.Connection:
    if not database.is_file():
        raise DataFileError("there is no database file to check", str(database))
    # Without a log the file holds everything: immutable reads it without locks and leaves no other files. With a log,
    # SQLite has to read the log too: it holds part of the data or, as a journal, the pages that must be restored.
    mode = "mode=ro" if _has_log(database) else "mode=ro&immutable=1"
    return sqlite3.connect(f"{database.absolute().as_uri()}?{mode}", uri=True, isolation_level=None)


def _read_ahead(database: Path, interrupt: Callable[[], None] | None) -> None:
    """Read the whole file in order into the page cache: reading it in the order of its trees took some twenty times as
    long."""
    piece = bytearray(MIB)
    # Ignore read errors here: SQLite finds and reports them too.
    with suppress(OSError), database.open("rb", buffering=0) as file:
        while file.readinto(piece):
            if interrupt is not None:
                interrupt()


def _use_memory(connection: sqlite3.Connection, cache_bytes: int) -> None:
    # Do not use mmap: it was 4 % faster, but a bad sector would kill the process where read() returns an error.
    connection.execute(f"PRAGMA cache_size = -{cache_bytes // 1024}")
    connection.execute("PRAGMA temp_store = MEMORY")


def _has_log(database: Path) -> bool:
    logs = (database.with_name(database.name + suffix) for suffix in ("-wal", "-journal"))
    return any(log.exists() and log.stat().st_size > 0 for log in logs)


class _Interrupts:
    """The SQLite progress handler that calls `interrupt`.

    It stores an exception that `interrupt` raises, because the handler can only make SQLite stop.
    """

    def __init__(self, interrupt: Callable[[], None] | None) -> None:
        self.raised: BaseException | None = None
        self._interrupt = interrupt

    def install(self, connection: sqlite3.Connection) -> None:
        """Make the connection call `interrupt` from now on."""
        if self._interrupt is not None:
            connection.set_progress_handler(self._called, _INSTRUCTIONS_PER_INTERRUPT)

    def _called(self) -> int:
        assert self._interrupt is not None
        try:
            self._interrupt()
        except BaseException as error:  # It is raised again later, even KeyboardInterrupt and SystemExit.
            self.raised = error
            return 1
        return 0


@contextmanager
def _as_data_file_errors(database: Path, calls: _Interrupts) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if calls.raised is not None:
            raise calls.raised from None
        raise _data_file_error(database, error) from error


def _data_file_error(database: Path, error: sqlite3.Error) -> DataFileError:
    """Return SQLite's error in words for the owner of the file. Codes: https://sqlite.org/rescode.html."""
    name = getattr(error, "sqlite_errorname", "") or ""
    match name.split("_")[1] if "_" in name else "":
        case "NOTADB":
            what, hint = "the file is not a SQLite database", NOT_OURS
        case "CORRUPT":
            what, hint = "the database is damaged", "load it again; if that happens twice, check the disk"
        case "BUSY":
            what, hint = "another program has the database open and locked", "stop it and check again"
        case "CANTOPEN" | "READONLY":
            what = "the database cannot be read together with the log beside it"
            hint = "open it once with sqlite3 as a user who may write there, so that SQLite recovers it"
        case "ERROR":
            what, hint = f"the workload's conditions cannot be asked of this database: {error}", NOT_OURS
        case _:
            what, hint = f"the database cannot be read: {error}", "check the disk and the file's permissions"
    return DataFileError(what, str(database), hint)
