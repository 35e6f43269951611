"""The native core as Python sees it: typed, imported late, with a clear error where it is missing."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from bufferlab.errors import EnvironmentLackingError


class BlockTrace(Protocol):
    """A block trace outside of a run, for what is measured without the core."""

    def begin(self) -> None:
        """Begin recording."""
        ...

    def end(self) -> None:
        """End recording."""
        ...

    def finish(self) -> str:
        """End the trace and say how it went; "null" the second time."""
        ...


class Native(Protocol):
    """The functions of `bufferlab._native`; JSON in and out, the GIL released."""

    def run_sqlite(self, job_json: str, on_event: Callable[[str], None]) -> str:
        """One run of SQLite."""
        ...

    def load_sqlite(self, job_json: str, on_event: Callable[[str], None]) -> str:
        """Bulk load into a new SQLite file."""
        ...

    def cancel(self) -> None:
        """Stop the running job at the next transaction."""
        ...

    def check_direct_io(self, directory: str) -> str:
        """Whether O_DIRECT is accepted and honoured there."""
        ...

    def sqlite_version(self) -> str:
        """Version of the bundled SQLite."""
        ...

    def sqlite_load_recipe(self, workload_job_json: str) -> str:
        """What decides a loaded SQLite file of this workload beside scale, seed and page size."""
        ...

    def sqlite_shape(self, database: str) -> str:
        """The b-trees of a closed SQLite file, level by level."""
        ...

    def load_mysql(self, job_json: str, on_event: Callable[[str], None]) -> str:
        """Bulk load into a database of a running MySQL or MariaDB server."""
        ...

    def mysql_load_recipe(self, workload_job_json: str) -> str:
        """What decides such a database beside scale, seed and page size."""
        ...

    def run_mysql(self, job_json: str, on_event: Callable[[str], None]) -> str:
        """One run on a running MySQL or MariaDB server."""
        ...

    def load_postgres(self, job_json: str, on_event: Callable[[str], None]) -> str:
        """Bulk load into a database of a running PostgreSQL server."""
        ...

    def postgres_load_recipe(self, workload_job_json: str) -> str:
        """What decides such a database beside scale and seed."""
        ...

    def run_postgres(self, job_json: str, on_event: Callable[[str], None]) -> str:
        """One run on a running PostgreSQL server."""
        ...

    def run_random_read(self, job_json: str, on_event: Callable[[str], None]) -> str:
        """One run of random reads of a file or block device."""
        ...

    def fill_random_file(self, job_json: str, on_event: Callable[[str], None]) -> str:
        """A new file of random bytes from a seed."""
        ...

    def random_file_version(self) -> int:
        """Raised when the bytes of a seed change."""
        ...

    def check_io_uring(self) -> str:
        """Whether this process may use io_uring."""
        ...

    def check_script(self, source: str, text: str, variables_json: str) -> str:
        """What a script holds, without an engine; a NativeError that names its line when it is wrong."""
        ...

    def core_version(self) -> str:
        """Version of the core."""
        ...

    def resolve_device(self, path: str) -> str:
        """The block device that holds a path."""
        ...

    def host_fingerprint(self, path: str) -> str:
        """The host, for host.json."""
        ...

    def block_trace_check(self, path: str) -> str:
        """Whether the device that holds a path can be traced; a NativeError with the reason when not."""
        ...

    def block_trace(self, path: str, asked_json: str) -> BlockTrace:
        """Prepare a block trace outside of a run; `asked_json` is what a run's job says of its own."""
        ...

    def block_trace_decode(self, spool: str, out: str) -> str:
        """Decode a spool into a file of records."""
        ...

    def block_trace_clean(self) -> str:
        """Remove tracefs instances of ours that died with their process; their names."""
        ...


def answer(
    function: Callable[[str, Callable[[str], None]], str], job: Mapping[str, Any], on_event: Callable[[str], None]
) -> dict[str, Any]:
    """What a function of the core says to a job, with its events on the way."""
    told: dict[str, Any] = json.loads(function(json.dumps(job), on_event))
    return told


def native() -> Native:
    """The core, or EnvironmentLackingError when this installation has none."""
    try:
        return cast(Native, importlib.import_module("bufferlab._native"))
    except ImportError as error:
        raise EnvironmentLackingError(
            "the native core of bufferlab is not built",
            f"import bufferlab._native: {error}",
            "run `make setup` in the checkout, or install a wheel of bufferlab",
        ) from error
