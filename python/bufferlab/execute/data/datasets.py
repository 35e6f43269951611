"""The cache of loaded databases: finds one by its `data_key`, verifies it before use, and loads it if it is missing.

An entry appears completely (by renaming its folder) or not at all. Its manifest has the database's size, trees and
SHA-256. If the database is a directory, it has the SHA-256 of each file. A corrupt entry is reported, removed and
loaded again. copy_method.py makes the copies for runs.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bufferlab import marked
from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import Behaviour
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import DataFileError, EnvironmentLackingError, Problem, RunFailed
from bufferlab.execute.data.leftovers import loaders_kept_out
from bufferlab.execute.data.trees import Fingerprint, difference, fingerprint, fsync, make_durable, protect, size_of
from bufferlab.execute.host.reachable import open_way, servers_owner
from bufferlab.execute.host.storage import require_space
from bufferlab.execute.progress import Progress
from bufferlab.execute.rates import KnownRates
from bufferlab.execute.run.jobs import (
    check_job,
    load_job,
    load_version,
    load_workload,
    stored_conditions,
    violations,
)
from bufferlab.execute.run.supervise import Event, Worker
from bufferlab.execute.stop import StopRequest
from bufferlab.plan import DataKnobs
from bufferlab.results.keys import data_key
from bufferlab.spec.experiment import Workload
from bufferlab.units import format_bytes, format_duration

_LOG = logging.getLogger(__name__)
_MANIFEST = "manifest.json"
_FORMAT_VERSION = 1


def database_name(engine: EngineDeclaration) -> str:
    """Return the file or folder name of a database. It is the same in the cache and in a run's folder."""
    return "database.db" if engine.data_kind == "file" else "database"


@dataclass(frozen=True)
class Dataset:
    """One loaded and verified database in the cache, or the user's own data."""

    data_key: str
    database: Path
    size_bytes: int
    allocated_bytes: int
    sha256: str
    """SHA-256 of the database as loaded; empty for the user's own data, which bufferlab did not load."""
    shape: dict[str, Any] | None
    """Pages per level of every b-tree (`database.shape` in run.json); None if the engine does not report it."""

    @property
    def in_words(self) -> str:
        """Return in words the bytes of data and indexes, and those of the files if they are larger."""
        data, files = map(format_bytes, (self.allocated_bytes, self.size_bytes))
        return data if data == files else f"a database of {data} ({files} of files, with logs and system tables)"


def _loaded_where(dataset: Dataset, loaded: Mapping[str, Any]) -> tuple[int, str]:
    """Return how many bytes were loaded, and the place where they are.

    Data loaded into an already running server are on that server (`place`); the cache only records that they exist.
    """
    if "place" in loaded:
        return dataset.allocated_bytes, str(loaded["place"])
    return dataset.size_bytes, str(dataset.database.parent)


class Datasets:
    """The cache of loaded databases, for one engine and workload."""

    def __init__(
        self,
        cache: Path,
        engine: str,
        workload: Workload,
        *,
        stop: StopRequest,
        progress: Progress,
        rates: KnownRates,
        silent_seconds: float,
        keeps_restored: bool = False,
    ) -> None:
        """`keeps_restored` keeps a database restored from a user's dump in the cache, like a loaded one."""
        self._root = (cache / "data").resolve()
        self._engine, self._workload = engine, workload
        self._declaration = engines.declaration(engine)
        self._behaviour: Behaviour = engines.behaviour(engine)
        self._stop, self._progress, self._rates = stop, progress, rates
        self._silent_seconds = silent_seconds
        self._is_temporary = workload.dump is not None and not keeps_restored
        self._verified: dict[str, Dataset] = {}
        self._in_use: dict[str, int] = {}
        self.on_load: Callable[[float], None] = lambda share: None
        self.loads = 0
        """The number of databases loaded so far."""

    def key(self, data: DataKnobs) -> str:
        """Return the `data_key` of the database that these knobs determine."""
        return data_key(self._recipe(data))

    def has(self, data: DataKnobs) -> bool:
        """Return whether no load is needed: the database is in the cache (not verified yet), or is the user's own."""
        return self._outside(data) is not None or (self._folder(self.key(data)) / _MANIFEST).is_file()

    def get(self, data: DataKnobs, estimate_bytes: int) -> Dataset:
        """Return the verified database of these knobs; load it first if the cache lacks it.

        `estimate_bytes` must be free for a load. The database stays in use until `release`. Raises RunFailed if the
        load fails, and EnvironmentLackingError if the disk has no room for it or a corrupt entry cannot be removed.
        """
        outside = self._outside(data)
        if outside is not None:
            return outside
        key = self.key(data)
        known = self._verified.get(key)
        if known is not None and _unchanged(known):
            return known
        self._root.mkdir(parents=True, exist_ok=True)
        open_way(self._root, servers_owner(self._engine))
        with self._locked(key):
            if key in self._in_use:
                os.close(self._in_use.pop(key))
            cached = self._verify(key)
            _LOG.info("database %s: %s", key, "loaded before; verified, and used again" if cached else "to be loaded")
            dataset = cached or self._load(key, data, estimate_bytes)
            held = marked.use(dataset.database.parent)
        if held is not None:
            self._in_use[key] = held
        self._verified[key] = dataset
        return dataset

    def release(self) -> None:
        """End the use of all databases; from now on `bufferlab cache prune` may remove them.

        Databases restored from a user's dump are removed now, unless they are kept or another sweep uses them.
        """
        while self._in_use:
            key, descriptor = self._in_use.popitem()
            os.close(descriptor)
            if self._is_temporary:
                with loaders_kept_out(self._root, key) as alone:
                    if alone:  # If not, another sweep uses the database, and removes it at its end.
                        marked.remove_leftovers(self._root, self._restored_name(key))

    def _folder(self, key: str) -> Path:
        """Return the database's folder: a permanent folder, or a temporary one that the last sweep to use it
        removes."""
        kept = self._root / key
        return self._root / self._restored_name(key) if self._is_temporary and not kept.exists() else kept

    @staticmethod
    def _restored_name(key: str) -> str:
        """Return the temporary folder's name.

        By this name `doctor` and `cache prune` recognise folders of killed processes.
        """
        return f"{marked.TEMPORARY}{key}-restored"

    def _outside(self, data: DataKnobs) -> Dataset | None:
        """Return the user's own data, which are read in place and never copied or written; None if there are none."""
        found = self._behaviour.data_in_place(dict(data.knobs))
        if found is None:
            return None
        path, size_bytes = found
        return Dataset(self.key(data), path, size_bytes, size_bytes, "", None)

    def _recipe(self, data: DataKnobs) -> dict[str, Any]:
        workload = {**load_workload(self._workload, data), "version": load_version(self._workload)}
        return self._behaviour.data_recipe(dict(data.knobs), workload)

    def _verify(self, key: str) -> Dataset | None:
        """Return the cached database if it is intact; None if it is missing, or was corrupt and is now removed.

        Raises EnvironmentLackingError if it is corrupt and cannot be removed, because another sweep uses it or its
        folder lacks bufferlab's mark.
        """
        folder = self._folder(key)
        if not folder.exists():
            return None
        try:
            manifest = json.loads((folder / _MANIFEST).read_text())
            stored = manifest["database"]
            dataset = Dataset(
                key,
                folder / database_name(self._declaration),
                stored["bytes"],
                manifest["allocated_bytes"],
                stored["sha256"],
                manifest.get("shape"),
            )
            wrong = self._damage(dataset, stored)
        except (OSError, ValueError, KeyError, TypeError) as error:
            wrong = f"it cannot be read: {error}"
        except DataFileError as error:
            wrong = error.what
        if wrong is None:
            has_trees = self._declaration.data_kind == "file" and not self._declaration.data_is_read_only
            lacks_shape = dataset.shape is None and has_trees
            return self._add_shape(dataset, manifest) if lacks_shape else dataset
        if marked.remove(folder) != "left":
            raise EnvironmentLackingError(
                f"a cached database is corrupt ({wrong}), and another sweep uses it or its folder is not bufferlab's",
                str(folder),
                "wait for other sweeps to end, or move the folder away",
            )
        self._progress.warn(
            Problem(
                f"a cached database is corrupt, and is loaded again: {wrong}",
                str(folder),
                "if this happens twice, suspect the disk",
            )
        )
        return None

    def _damage(self, dataset: Dataset, stored: dict[str, Any]) -> str | None:
        """Return how the database differs from the one that was loaded; None if it does not differ."""
        found_bytes = size_of(dataset.database)
        if found_bytes != dataset.size_bytes and not stored.get("files"):
            return f"it holds {found_bytes} bytes, {dataset.size_bytes} were loaded"
        found = self._fingerprint(dataset.database)
        return None if found.sha256 == dataset.sha256 else difference(stored.get("files", {}), found.parts)

    def _add_shape(self, dataset: Dataset, manifest: dict[str, Any]) -> Dataset:
        """Count the trees of a database that an early version of bufferlab loaded, whose manifest lacks them, and store
        them."""
        folder = dataset.database.parent
        with self._temporary(dataset.data_key) as temporary:
            shape = self._shape(dataset.database, temporary / "worker.log")
            if shape is not None:
                _write_manifest(temporary / _MANIFEST, {**manifest, "shape": shape})
                (temporary / _MANIFEST).rename(folder / _MANIFEST)
                fsync(folder)
        return replace(dataset, shape=shape)

    def _load(self, key: str, data: DataKnobs, estimate_bytes: int) -> Dataset:
        require_space(
            self._root, estimate_bytes + self._declaration.base_bytes, "the loaded database", "BUFFERLAB_CACHE=DIR"
        )
        with self._temporary(key) as temporary:
            open_way(temporary, servers_owner(self._engine))
            database = temporary / database_name(self._declaration)
            started = time.monotonic()
            loaded = self._load_file(database, data, temporary / "worker.log")
            seconds = time.monotonic() - started
            found = {
                "loaded": loaded,
                "consistency": self._check(database, data, temporary / "worker.log"),
                "shape": self._shape(database, temporary / "worker.log"),
            }
            dataset = self._seal(temporary, key, data, found)
        self.loads += 1
        size_bytes, place = _loaded_where(dataset, loaded)
        # Estimates include tables and indexes, but not the logs of a directory.
        is_file = self._declaration.data_kind == "file"
        self._rates.observe("load_bytes_per_s", size_bytes if is_file else dataset.allocated_bytes, seconds)
        told = format_bytes(size_bytes) if "place" in loaded else dataset.in_words
        rows = f" ({loaded['rows']:,} rows)" if "rows" in loaded else ""
        done, stays = ("restored", "kept until the sweep ends") if self._is_temporary else ("loaded", "kept")
        self._progress.say(f"{done} {told} in {format_duration(seconds)}{rows}; {stays} in {place}")
        return dataset

    def _temporary(self, key: str) -> AbstractContextManager[Path]:
        """Context manager for a temporary folder; leaving removes it, unless it was renamed into the cache."""
        return marked.folder(self._root, f"{marked.TEMPORARY}{key}-{secrets.token_hex(4)}", keeps_mark=True)

    def _load_file(self, database: Path, data: DataKnobs, log_file: Path) -> dict[str, Any]:
        job = load_job(load_workload(self._workload, data), dict(data.knobs), database)

        def on_event(event: Event) -> None:
            if event.get("event") == "progress" and event.get("total"):
                self.on_load(event["done"] / event["total"])

        loaded = self._done("load", job, log_file, "the load of the database failed", on_event)
        # A cancelled load may still return, but its data are incomplete.
        self._stop.check()
        return loaded

    def _shape(self, database: Path, log_file: Path) -> dict[str, Any] | None:
        """Return the database's trees, counted by a worker that reads every page; None if the engine cannot count them.

        Raises RunFailed or EnvironmentLackingError if the worker fails.
        """
        what = "the trees of the loaded database cannot be read"
        shape: dict[str, Any] | None = self._done("shape", {"database": str(database)}, log_file, what)["shape"]
        return shape

    def _check(self, database: Path, data: DataKnobs, log_file: Path) -> dict[str, Any]:
        """Check the workload's consistency conditions on a loaded database; return their stored form.

        Raises RunFailed if one is violated, because no run may start from such a database, or if the check fails.
        """
        job = check_job(load_workload(self._workload, data), database, [])
        result = self._done("check", job, log_file, "the check of the loaded database failed")
        broken = violations(result)
        if broken:
            raise RunFailed(
                f"the loaded database breaks the workload's own conditions: {broken}",
                str(database.parent),
                "this is a fault of the loader or of the disk; nothing was kept",
                kind="data",
            )
        return stored_conditions(result).model_dump()

    def _done(
        self,
        kind: str,
        job: dict[str, Any],
        log_file: Path,
        failed: str,
        on_event: Callable[[Event], None] = lambda event: None,
    ) -> dict[str, Any]:
        """Have a worker do a job on a database; return its result.

        Raises RunFailed or EnvironmentLackingError, whose text begins with `failed`, if the worker fails.
        """
        with Worker(self._engine, log_file=log_file, stop=self._stop, silent_seconds=self._silent_seconds) as worker:
            outcome = worker.do(kind, job, on_event)
        if failure := outcome.failure:
            self._stop.check()
            error = EnvironmentLackingError if failure.kind in ("full_disk", "environment") else RunFailed
            where = failure.where or str(Path(job["database"]).parent.parent)
            raise error(f"{failed}: {failure.what}", where, failure.hint, kind=failure.kind)
        assert outcome.result is not None
        return outcome.result

    def _seal(
        self,
        temporary: Path,
        key: str,
        data: DataKnobs,
        found: dict[str, Any],
    ) -> Dataset:
        """Write the manifest of a new database, make everything durable, and rename its folder into the cache."""
        database = temporary / database_name(self._declaration)
        for beside in temporary.iterdir():  # Remove the load's log, an empty write-ahead log, a server's other files.
            if beside.is_dir() and beside != database:
                shutil.rmtree(beside)
            elif beside.name not in (database.name, marked.MARK):
                beside.unlink()
        loaded = self._fingerprint(database)
        allocated_bytes = self._behaviour.allocated_bytes(database)
        protect(database)
        temporary.chmod(0o700)
        manifest = {
            "format": "bufferlab-data",
            "format_version": _FORMAT_VERSION,
            "data_key": key,
            "recipe": self._recipe(data),
            "database": {
                "bytes": loaded.size_bytes,
                "sha256": loaded.sha256,
                **({"files": loaded.parts} if loaded.parts else {}),
            },
            "allocated_bytes": allocated_bytes,
            **found,
            "created_at": datetime.now(UTC).isoformat(),
        }
        _write_manifest(temporary / _MANIFEST, manifest)
        make_durable(database)
        fsync(temporary)
        folder = self._folder(key)
        temporary.rename(folder)
        fsync(self._root)
        return Dataset(key, folder / database.name, loaded.size_bytes, allocated_bytes, loaded.sha256, found["shape"])

    def _fingerprint(self, database: Path) -> Fingerprint:
        return fingerprint(database, self._stop.check)

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Lock one database's key, so that one sweep loads it; a second sweep waits and then finds it loaded.

        Entering removes the leftovers of killed loads of this database.
        """
        said = False

        def wait() -> None:
            nonlocal said
            if not said:
                self._progress.say("another sweep is loading the same database; waiting for it")
                said = True
            self._stop.check()
            time.sleep(0.2)

        with loaders_kept_out(self._root, key, wait):
            marked.remove_leftovers(self._root, f"{marked.TEMPORARY}{key}-*")
            yield


def _unchanged(dataset: Dataset) -> bool:
    """Return whether the database still has its verified size.

    It is read-only, so that users do not write to it by mistake.
    """
    try:
        return size_of(dataset.database) == dataset.size_bytes
    except (OSError, DataFileError):
        return False


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    path.write_text(json.dumps(manifest, indent=1) + "\n")
    fsync(path)
