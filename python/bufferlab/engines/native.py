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
"""The errors of a command for the kinds of refusals that a user can cause."""


class NativeBlockTrace(Protocol):
    """A block trace outside of a run, for work that is measured without the core."""

    def begin(self) -> None:
        """Begin to record the device's block requests."""

    def end(self) -> None:
        """End recording; the trace can still be finished."""

    def finish(self) -> str:
        """End the trace; return its outcome as JSON, "null" when called again."""


class NativePageTrace(Protocol):
    """A trace of a server's page accesses. Once the object is deleted, nothing of the trace remains."""

    def begin(self, folder: str) -> str:
        """Begin to read; return, as JSON, the environment and descriptor that the server must be started with.

        The library that the server loads is written into `folder`.
        """

    def require_on(self) -> None:
        """Check that the server, which has answered, records its accesses; raise NativeError with the reason if not."""

    def finish(self) -> str:
        """End the trace; return its outcome as JSON, "null" when called again."""


class ServerTrace(Protocol):
    """A trace of a server that runs already. Once the object is deleted, nothing of the trace remains."""

    def told(self) -> str:
        """Return, as JSON, what the trace has counted so far."""

    def name_frames(
        self,
        asked_ns: int,
        files: Sequence[tuple[int, int]],
        buffer: NDArray[np.uint32],
        file: NDArray[np.uint32],
        page: NDArray[np.uint32],
    ) -> None:
        """Give the trace the page that each buffer held at `asked_ns`: per entry a number of buffer, file and page.

        `file` holds positions in `files`, which lists (device as the kernel numbers it, inode). A trace that does not
        follow calls ignores all this.
        """

    def finish(self) -> str:
        """End the trace; return its outcome as JSON, "null" when called again."""


class Curve(Protocol):
    """The misses of an LRU pool at every size. Columns are passed as buffers, without a copy."""

    def feed(self, page: NDArray[np.uint32], kind: NDArray[np.uint8], first: int) -> None:
        """Add accesses in their order. `misses` counts gets from the access number `first` on."""

    def misses(self) -> bytes:
        """Return the misses of LRU pools of 0, 1, 2, ... pages, each as a u64."""


class NativeSession(Protocol):
    """A session for questions (`engines/servers/client.py`)."""

    def ask(self, sql: bytes, change_seconds: float | None) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Execute a statement; return the names of the columns, and the rows. Raises Unanswerable."""

    def allow_bytes(self, most_answer_bytes: int) -> None:
        """Allow answers of the server up to this size, in bytes."""

    def id(self) -> int | None:
        """Return the session's number at the server; None when it is closed."""

    def descriptor(self) -> int | None:
        """Return the descriptor of the session's socket; None when the session is closed."""

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
        """Load a workload in bulk into a new database, or make a file; return the answer."""

    def load_recipe(self, engine: str, workload: str) -> str:
        """Return all that decides a workload's loaded data, apart from scale, seed and page size."""

    Unanswerable: type[Exception]

    def ask_server(self, engine: str, target: str, limits: str) -> NativeSession:
        """Log in to a server for questions; `target` is as in a job. Raises Unanswerable(kind, code, what, hint)."""

    def cancel(self) -> None:
        """Stop the running job at the next transaction."""

    def check_direct_io(self, directory: str) -> str:
        """Return whether O_DIRECT is accepted and honoured in a directory, and the alignment it needs."""

    def sqlite_version(self) -> str:
        """Return the version of the bundled SQLite (plain text)."""

    def sqlite_shape(self, database: str) -> str:
        """Return the b-trees of a closed SQLite file, with the pages of each level."""

    def sqlite_pages(self, database: str) -> str:
        """Return the pages of each b-tree of a closed SQLite file."""

    def check_io_uring(self) -> str:
        """Return whether this process may use io_uring, or the reason why not."""

    def check_script(self, source: str, text: str, variables_json: str) -> str:
        """Return a script's content, parsed without an engine; raise NativeError with the line that is wrong."""

    def Curve(self, pages: int, first_page: int, end_page: int) -> Curve:  # noqa: N802
        """Return a curve for pages numbered from 0. It counts gets of pages from `first_page` to before `end_page`."""

    def generate(self, job: str, watch: Callable[[int, int | None], None] | None = None) -> str:
        """Generate the page accesses of transactions, without a server; return the reads of each pool.

        `watch` is called ten times a second with how many transactions are done, and how many of these in the window
        (None before the window). Its exception ends the run.
        """
        ...

    def generated_bytes(self, job: str) -> str:
        """Return about how many bytes of memory a job of `generate` takes."""
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
        """Replay a page trace on a model of a buffer manager; return its counts, as JSON.

        Rows before `first_row` only fill the pool; the rows from there to before `end_row` are counted. So are the
        pages that rows from `load_row` on bring into the pool. Columns are those of page-trace.parquet, passed as
        buffers without a copy. If all of them are read-only, the replay releases Python's lock. Three further arguments
        are optional. Rows before `first_row` take `before` times as long as they took, and the rest `within` times.
        `watch` is called ten times a second with the share that is done, and its exception ends the replay. Raises
        ValueError for wrong input.
        """

    def replay_slices(
        self, manager: str, settings_json: str, frames: int, ends: Sequence[int], **columns: NDArray[Any]
    ) -> str:
        """Replay on an empty pool; return the counts from row 0 to each of the `ends`, as JSON.

        Columns are those of `replay`. Raises ValueError for wrong input.
        """

    def ghost_depths(self, ring_reads: int, **columns: NDArray[Any]) -> tuple[bytes, bytes]:
        """Return, for each row that reads, the depth of its page in the list of evicted pages, and the list's length.

        Both are u32. The depth is 0 if the list lacks the page or the row is not a read, and 2^32 - 1 if the ring of a
        scan evicted the page. Columns are those of `replay`. Raises ValueError for wrong input.
        """

    def model_defaults(self) -> str:
        """Return, for each model, the server settings that it obeys, with the server's defaults."""

    def core_version(self) -> str:
        """Return the core's version (plain text)."""

    def resolve_device(self, path: str) -> str:
        """Return the block device that holds a path; if the path is a block device, return that."""

    def host_fingerprint(self, path: str) -> str:
        """Return the description of the host for host.json."""

    def block_trace_check(self, path: str) -> str:
        """Check that the device that holds a path can be traced; raise NativeError with the reason when it cannot."""

    def block_trace(self, path: str, asked_json: str) -> NativeBlockTrace:
        """Prepare a block trace outside of a run; `asked_json` has the form of a run job's entry for the trace."""

    def block_trace_decode(self, spool: str, out: str) -> str:
        """Decode a block trace's spool into the file of records `out`; return counts of its events."""

    def page_trace_check(self, settings_json: str) -> None:
        """Check that a private server's accesses can be recorded here; raise NativeError with the reason if not."""

    def page_trace(self, settings_json: str) -> NativePageTrace:
        """Prepare a server's page trace; nothing is read before `begin`."""

    def live_trace_check(self, release: str | None = None) -> None:
        """Check that this kernel can record a running server for this user; raise NativeError with the reason if not.

        `release` is the release of another kernel, for tests.
        """

    def call_trace_check(self) -> None:
        """Check that this user and kernel can follow a server's calls; raise NativeError with the reason."""

    def live_trace(self, settings_json: str) -> ServerTrace:
        """Begin to record the page accesses of a server that runs already; raise NativeError with the reason if not."""

    def page_trace_branches(self, settings_json: str) -> str:
        """Return [from, to] of each branch in a binary that leads into bytes which code in the server would cover."""

    def page_site_proposals(self, binary: str) -> str:
        """Return the proposed sites of a PostgreSQL that no table lists; raise NativeError if it shows none."""

    def page_site_experiment(self, binary: str) -> str:
        """Return what an experiment on a MariaDB without names tries; raise NativeError if it shows too little."""

    def page_site_check(self, settings_json: str) -> None:
        """Raise NativeError for a site that is not at the begin of an instruction of its binary."""

    def executable_ranges(self, binary: str) -> str:
        """Return [offset, bytes] of each executable segment in a binary's file."""

    def tracefs_clean(self) -> str:
        """Remove the trace instances that bufferlab's dead processes left in tracefs; return their names."""


def ask_host(lacking: str, ask: Callable[[], T]) -> T:
    """Return the core's answer about this host. Raise EnvironmentLackingError, with its reason, when it refuses."""
    try:
        return ask()
    except Exception as error:
        failure = failure_of_core(error)
        if failure is None:
            raise
        raise EnvironmentLackingError(f"{lacking}: {failure.what}", failure.where, failure.hint) from error


def failure_of_core(error: Exception) -> Failure | None:
    """Return the failure in a NativeError; None for an error of any other type.

    Only a loaded core has the type and can have raised it, so nothing is imported here.
    """
    core = sys.modules.get("bufferlab._native")
    if core is None or not isinstance(error, core.NativeError):
        return None
    return Failure.told(dict(zip(("kind", "what", "where", "hint"), error.args, strict=True)))


def refusal_of_core(error: Exception) -> BufferlabError | None:
    """Return the error that a command ends with when the core refused; None for a bug, and for any other error."""
    failure = failure_of_core(error)
    if failure is None or failure.kind == "internal":
        return None
    return _REFUSALS.get(failure.kind, RunFailed)(failure.what, failure.where, failure.hint, kind=failure.kind)


def run_core(engine: str, job: Mapping[str, Any], on_event: Callable[[str], None]) -> dict[str, Any]:
    """Call the core to do one run; return its answer. Meanwhile the core sends events to `on_event`."""
    told: dict[str, Any] = json.loads(native().run(engine, json.dumps(job), on_event))
    return told


def load_core(engine: str, job: Mapping[str, Any], on_event: Callable[[str], None]) -> dict[str, Any]:
    """Call the core to load new data; return its answer. Meanwhile the core sends events to `on_event`."""
    told: dict[str, Any] = json.loads(native().load(engine, json.dumps(job), on_event))
    return told


def load_recipe(engine: str, workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the core's `schema_sql` and `loader_version`, which decide loaded data of a workload."""
    recipe: dict[str, Any] = json.loads(native().load_recipe(engine, json.dumps(workload)))
    return recipe


def native() -> Native:
    """Return the core; raise EnvironmentLackingError when this installation has none."""
    try:
        return cast(Native, importlib.import_module("bufferlab._native"))
    except ImportError as error:
        raise EnvironmentLackingError(
            "the native core of bufferlab is not built",
            f"import bufferlab._native: {error}",
            "run `make setup` in the checkout, or install a wheel of bufferlab",
        ) from error
