"""Drives the bundled SQLite through the native core. It has no measuring loop and no SQL.

The database header is read as sqlite.org/fileformat2.html (1.3) describes it.
"""

from __future__ import annotations

import hashlib
import json
import struct
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bufferlab.engines import direct_io, host_settings
from bufferlab.engines.behaviour import Behaviour, Found, HostCheck, NativeKnobs, OnEvent, OwnedPages
from bufferlab.engines.native import load_core, load_recipe, native, run_core
from bufferlab.engines.servers.signs_of_life import patience
from bufferlab.engines.sqlite import consistency_by_sqlite3
from bufferlab.engines.sqlite.declaration import DECLARATION
from bufferlab.errors import DataFileError, SpecError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEADER_BYTES = 100
_MAGIC = b"SQLite format 3\0"


class SqliteBehaviour(Behaviour):
    """The behaviour of the embedded engine, which is part of this installation."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()

    def find(self) -> Found:
        """Return the version of the bundled SQLite; raise EnvironmentLackingError if the native core is missing."""
        core = native()
        return Found(core.sqlite_version(), core.core_version(), "bundled in bufferlab._native")

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Check that O_DIRECT works in the directory, and that pages are not smaller than its alignment."""
        if knobs.get("io_mode", "direct") != "direct":
            return [direct_io.not_asked_for("io_mode = buffered"), *host_settings.checks(directory, knobs)]
        direct, alignment_bytes = direct_io.check(directory, instead="io_mode=buffered")
        if alignment_bytes is None:
            return [direct]
        checks = [direct]
        page_bytes = knobs.get("page_size")
        if isinstance(page_bytes, int) and page_bytes < alignment_bytes:
            what = f"page_size = {page_bytes} bytes is below the {alignment_bytes} that direct I/O needs in {directory}"
            hint = f"ask for page_size >= {alignment_bytes}, or --set io_mode=buffered"
            checks.append(HostCheck("page_alignment", False, what, hint))
        return [*checks, *host_settings.checks(directory, knobs)]

    def restore_host(self) -> list[str]:
        return host_settings.restore()

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the page size, SQLite's version, the schema, the loader, and the workload's scale and seed.

        The core's schema includes a script's setup section; the script's transactions do not affect the data.
        """
        job = {name: value for name, value in workload.items() if name != "version"}
        recipe = load_recipe("sqlite", job)
        return {
            "engine": "sqlite",
            "engine_version": self.find().version,
            "schema_sha256": hashlib.sha256(recipe["schema_sql"].encode()).hexdigest(),
            "loader_version": recipe["loader_version"],
            "page_size_bytes": knobs["page_size"],
            "workload": {name: value for name, value in workload.items() if name not in ("source", "text")},
        }

    def allocated_bytes(self, database: Path) -> int:
        """Return the bytes of the pages in use, without those on the free list, which hold no data.

        Raises DataFileError if the file is not an SQLite database.
        """
        with database.open("rb") as file:
            header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
            raise DataFileError("this is not an SQLite database", str(database), "delete it; it is loaded again")
        (page_bytes,) = struct.unpack_from(">H", header, 16)
        pages, _, free_pages = struct.unpack_from(">III", header, 28)
        return int((65536 if page_bytes == 1 else page_bytes) * (pages - free_pages))

    def shape(self, database: Path) -> dict[str, Any] | None:
        """Return every b-tree with its levels, from SQLite's dbstat, which reads the whole file."""
        return cast("dict[str, Any]", json.loads(native().sqlite_shape(str(database))))

    page_trace_counters: Mapping[tuple[str, ...], tuple[str, ...]] = {
        ("get",): ("page_gets",),
        ("read",): ("demand_misses",),
    }

    def require_page_trace(self, knobs: NativeKnobs) -> None:
        """Raise SpecError for SQLite's own pool, whose accesses bufferlab cannot record."""
        if knobs.get("pcache") != "ours":
            what = "accesses to the pages of SQLite's own pool cannot be recorded"
            raise SpecError(what, "--probe page-trace", "add --set pcache=ours, or leave the trace out")

    def pages_of_objects(
        self, database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
    ) -> list[OwnedPages]:
        """Return every b-tree with its pages, from SQLite's dbstat, which reads the whole file."""
        import numpy as np

        trees = json.loads(native().sqlite_pages(str(database)))
        pages = [[np.asarray(tree[of], np.uint64) for of in ("pages", "interior")] for tree in trees]
        return [OwnedPages(tree["name"], *own) for tree, own in zip(trees, pages, strict=True)]

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Call the core to load the workload in bulk into a new file; return its answer."""
        core_job = {
            **{name: value for name, value in job.items() if name != "knobs"},
            **DECLARATION.spelled(job["knobs"]),
        }
        return load_core("sqlite", core_job, on_event)

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Set the read-ahead, call the core to do one run, and restore the read-ahead."""
        knobs, target = job["knobs"], {"path": job["database"], "knobs": DECLARATION.spelled(job["knobs"])}
        core_job = {name: value for name, value in job.items() if name not in ("database", "knobs")}
        core_job |= {"target": target, "frames": knobs["pool_size"] // knobs["page_size"]}
        with host_settings.around_run(Path(job["database"]), job["knobs"]) as ahead:
            result = run_core("sqlite", core_job, on_event)
        return {**result, "actual": {**DECLARATION.named(result["actual"]), **ahead}}

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Check the conditions of the closed file with a second client, Python's sqlite3."""
        wait, database = patience(on_event, self._cancelled.is_set), Path(job["database"])
        return consistency_by_sqlite3.check(
            database, job["workload"], job["delivered_orders"], interrupt=lambda: wait("checking")
        )

    def cancel(self) -> None:
        """Make the core stop at the next transaction, and a running check stop at once."""
        self._cancelled.set()
        native().cancel()


BEHAVIOUR = SqliteBehaviour
