"""Declares the native core's functions for Python, and imports it at first use, with a clear error if it is missing."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from bufferlab.errors import (
    BufferlabError,
    DataFileError,
    EnvironmentLackingError,
    Failure,
    FailureKind,
    RunFailed,
    SpecError,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
_REFUSALS: Mapping[FailureKind, type[BufferlabError]] = {
    "usage": SpecError,
    "environment": EnvironmentLackingError,
    "full_disk": EnvironmentLackingError,
    "io": EnvironmentLackingError,
    "data": DataFileError,
}
"""The exception class for each kind of refusal that a user can cause."""


class NativeBlockTrace(Protocol):
    """A block trace outside of a run, for work that the core does not measure."""

    def begin(self) -> None:
        """Start recording the device's block requests."""

    def end(self) -> None:
        """Stop recording; the trace can still be finished."""

    def finish(self) -> str:
        """End the trace; return its outcome as JSON, or "null" if it was ended before."""


class NativePageTrace(Protocol):
    """A trace of a private server's page accesses. Deleting the object removes the trace's files and probes."""

    def begin(self, folder: str) -> str:
        """Start reading; return as JSON the environment and the descriptor with which the server must be started.

        The library that the server loads is written into `folder`.
        """

    def require_on(self) -> None:
        """Check that the started server records its accesses; raise NativeError with the reason if not."""

    def finish(self) -> str:
        """End the trace; return its outcome as JSON, or "null" if it was ended before."""


class ServerTrace(Protocol):
    """A trace of an already running server. Deleting the object removes the trace's files and probes."""

    def told(self) -> str:
        """Return the trace's counts so far as JSON."""

    def name_frames(
        self,
        asked_ns: int,
        files: Sequence[tuple[int, int]],
        buffer: NDArray[np.uint32],
        file: NDArray[np.uint32],
        page: NDArray[np.uint32],
    ) -> None:
        """Report to the trace which page each buffer held at `asked_ns`; each entry is a buffer number, a file and a
        page."""

    def finish(self) -> str:
        """End the trace; return its outcome as JSON, or "null" if it was ended before."""


class Curve(Protocol):
    """The misses of an LRU pool at every size. Columns are passed as buffers, without a copy."""

    def feed(self, page: NDArray[np.uint32], kind: NDArray[np.uint8], first: int) -> None:
        """Add accesses in their order. Later, `misses` counts only gets from access number `first` on."""

    def misses(self) -> bytes:
        """Return the misses of LRU pools of 0, 1, 2, ... pages, each as a u64."""


class NativeSession(Protocol):
    """A session for queries (`engines/servers/client.py`)."""

    def ask(self, sql: bytes, change_seconds: float | None) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Execute a statement; return the column names and the rows. Raises Unanswerable."""

    def allow_bytes(self, most_answer_bytes: int) -> None:
        """Allow answers of the server up to this size, in bytes."""

    def id(self) -> int | None:
        """Return the server's id of the session; None if it is closed."""

    def descriptor(self) -> int | None:
        """Return the descriptor of the session's socket; None if the session is closed."""

    def is_open(self) -> bool:
        """Return whether the session is open."""

    def close(self) -> None:
        """End the session with the server."""


class Native(Protocol):
    """The functions of `bufferlab._native`: they take and return JSON, and release the GIL.

    They raise NativeError(kind, what, where, hint): see `failure_of_core`.
    """

    def run(self, engine: str, job: str, on_event: Callable[[str], None]) -> str:
        """Do one run of an engine; return the core's answer. `on_event` gets each event as a line of JSON."""

    def load(self, engine: str, job: str, on_event: Callable[[str], None]) -> str:
        """Load a workload in bulk into a new database, or create a file; return the answer."""

    def load_recipe(self, engine: str, workload: str) -> str:
        """Return everything that determines a workload's loaded data, apart from scale, seed and page size."""

    Unanswerable: type[Exception]

    def ask_server(self, engine: str, target: str, limits: str) -> NativeSession:
        """Log in to a server for queries; `target` is as in a job. Raises Unanswerable(kind, code, what, hint)."""

    def cancel(self) -> None:
        """Stop the running job at the next transaction."""

    def check_direct_io(self, directory: str) -> str:
        """Return whether O_DIRECT works in a directory, and the alignment that it needs."""

    def sqlite_version(self) -> str:
        """Return the version of the bundled SQLite (plain text)."""

    def sqlite_shape(self, database: str) -> str:
        """Return the b-trees of a closed SQLite file, with the pages of each level."""

    def sqlite_pages(self, database: str) -> str:
        """Return the pages of each b-tree of a closed SQLite file."""

    def check_io_uring(self) -> str:
        """Return whether this process may use io_uring, or the reason why not."""

    def check_script(self, source: str, text: str, variables_json: str) -> str:
        """Parse a script without an engine; return its contents. Raise NativeError with the line that is wrong."""

    def script_settles_after(self, source: str, text: str, variables_json: str, most: int) -> int:
        """Return the number of transactions after which most updates of a script reach rows that were updated three
        times before.

        Return 0 if the script updates no rows that its variables choose, or if `most` transactions are too few.
        """

    def Curve(self, pages: int, first_page: int, end_page: int) -> Curve:  # noqa: N802
        """Return a curve for pages numbered from 0. Only gets of pages from `first_page` to before `end_page` count."""

    def generate(self, job: str, watch: Callable[[int, int | None], None] | None = None) -> str:
        """Generate the page accesses of transactions, without a server; return the reads for each pool size.

        `watch` is called ten times a second with the number of finished transactions, and how many of these were in the
        window (None before the window). An exception from it ends the run.
        """
        ...

    def generated_bytes(self, job: str) -> str:
        """Return the approximate bytes of memory that a job of `generate` needs."""
        ...

    def replay(
        self,
        manager: str,
        settings_json: str,
        frames: int,
        load_row: int,
        first_row: int,
        end_row: int,
        **columns: Any,
    ) -> str:
        """Replay a page trace on a model of a buffer manager; return its counts as JSON.

        Rows before `first_row` only fill the pool; rows from `first_row` to before `end_row` are counted. Also counted
        are the pages that rows from `load_row` on bring into the pool. Columns are those of page-trace.parquet, passed
        as buffers without a copy. If all of them are read-only, the replay releases the GIL. Three more arguments are
        optional. `before` and `within` stretch time: rows before `first_row` take `before` times as long as recorded,
        later rows `within` times. `watch` is called ten times a second with the completed fraction; an exception from
        it ends the replay. Raises ValueError for wrong input.
        """

    def replay_slices(
        self, manager: str, settings_json: str, frames: int, ends: Sequence[int], **columns: NDArray[Any]
    ) -> str:
        """Replay from an empty pool; return the counts from row 0 to each of the `ends` as JSON.

        Columns are those of `replay`. Raises ValueError for wrong input.
        """

    def ghost_depths(self, ring_reads: int, **columns: NDArray[Any]) -> tuple[bytes, bytes]:
        """Return for each row that reads its page's depth in the list of evicted pages, and the list's length.

        Both are u32. The depth is 0 if the list lacks the page or the row is not a read, and 2^32 - 1 if the ring of a
        scan evicted the page. Columns are those of `replay`. Raises ValueError for wrong input.
        """

    def model_defaults(self) -> str:
        """Return for each model the server settings that it obeys, with the server's defaults."""

    def core_version(self) -> str:
        """Return the core's version (plain text)."""

    def resolve_device(self, path: str) -> str:
        """Return the block device that holds a path; if the path is a block device, return that."""

    def host_fingerprint(self, path: str) -> str:
        """Return the description of the host for host.json."""

    def block_trace_check(self, path: str) -> str:
        """Check that the device that holds a path can be traced; raise NativeError with the reason if not."""

    def block_trace(self, path: str, asked_json: str) -> NativeBlockTrace:
        """Prepare a block trace outside of a run; `asked_json` is the trace's entry in a run job."""

    def block_trace_decode(self, spool: str, out: str) -> str:
        """Decode a block trace's raw records in `spool` into the file `out`; return counts of its events."""

    def page_trace_check(self, settings_json: str) -> None:
        """Check that this host can record a private server's accesses; raise NativeError with the reason if not."""

    def page_trace(self, settings_json: str) -> NativePageTrace:
        """Prepare a server's page trace; nothing is read before `begin`."""

    def live_trace_check(self, release: str | None = None) -> None:
        """Check that this user may record a running server on this kernel; raise NativeError with the reason if not.

        `release` is another kernel's release, for tests.
        """

    def call_trace_check(self) -> None:
        """Check that this user and kernel can record a server's system calls; raise NativeError if not."""

    def live_trace(self, settings_json: str) -> ServerTrace:
        """Start recording the page accesses of a running server; raise NativeError with the reason if it fails."""

    def page_trace_branches(self, settings_json: str) -> str:
        """Return [from, to] of each branch in a binary that leads into bytes which the recorder would overwrite."""

    def page_site_proposals(self, binary: str) -> str:
        """Return the proposed probe sites of a PostgreSQL binary that no table lists; raise NativeError if there are
        none."""

    def page_site_experiment(self, binary: str) -> str:
        """Return the places to probe experimentally in a MariaDB without symbols; raise NativeError if they are too
        few."""

    def page_site_check(self, settings_json: str) -> None:
        """Raise NativeError if a site is not at the beginning of an instruction of its binary."""

    def executable_ranges(self, binary: str) -> str:
        """Return [offset, bytes] of each executable segment in a binary's file."""

    def tracefs_clean(self) -> str:
        """Remove the trace instances that bufferlab's dead processes left in tracefs; return their names."""


def ask_host(lacking: str, ask: Callable[[], T]) -> T:
    """Return the core's answer about this host. If the core refuses, raise EnvironmentLackingError with its reason."""
    try:
        return ask()
    except Exception as error:
        failure = failure_of_core(error)
        if failure is None:
            raise
        raise EnvironmentLackingError(f"{lacking}: {failure.what}", failure.where, failure.hint) from error


def failure_of_core(error: Exception) -> Failure | None:
    """Return the failure that a NativeError describes; None for an exception of another type.

    Only a loaded core can have raised a NativeError, so this function does not import the core.
    """
    core = sys.modules.get("bufferlab._native")
    if core is None or not isinstance(error, core.NativeError):
        return None
    return Failure.told(dict(zip(("kind", "what", "where", "hint"), error.args, strict=True)))


def refusal_of_core(error: Exception) -> BufferlabError | None:
    """Return the exception for a command if the core refused; None for a bug, and for any other exception."""
    failure = failure_of_core(error)
    if failure is None or failure.kind == "internal":
        return None
    return _REFUSALS.get(failure.kind, RunFailed)(failure.what, failure.where, failure.hint, kind=failure.kind)


def run_core(engine: str, job: Mapping[str, Any], on_event: Callable[[str], None]) -> dict[str, Any]:
    """Call the core to do one run; return its answer. The core calls `on_event` with each event."""
    told: dict[str, Any] = json.loads(native().run(engine, json.dumps(job), on_event))
    return told


def load_core(engine: str, job: Mapping[str, Any], on_event: Callable[[str], None]) -> dict[str, Any]:
    """Call the core to load new data; return its answer. The core calls `on_event` with each event."""
    told: dict[str, Any] = json.loads(native().load(engine, json.dumps(job), on_event))
    return told


def load_recipe(engine: str, workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the core's `schema_sql` and `loader_version`, which determine a workload's loaded data."""
    recipe: dict[str, Any] = json.loads(native().load_recipe(engine, json.dumps(workload)))
    return recipe


def native() -> Native:
    """Return the core; raise EnvironmentLackingError if this installation has none."""
    try:
        return cast("Native", importlib.import_module("bufferlab._native"))
    except ImportError as error:
        raise EnvironmentLackingError(
            "the native core of bufferlab is not built",
            f"import bufferlab._native: {error}",
            "run `make setup` in the checkout, or install a wheel of bufferlab",
        ) from error
