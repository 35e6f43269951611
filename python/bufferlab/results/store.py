"""The sweep folder on disk: created, filled run by run without half-written files, and checked when it is opened.

This module computes no values. It publishes a run by the usual recipe (rename(2), fsync(2)): write a new folder, fsync
its files, rename it, fsync the parent. A crash leaves a complete run, or a marked `.tmp-*` folder that a later command
removes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ValidationError

from bufferlab import marked
from bufferlab.errors import DataFileError, EnvironmentLackingError, Failure, InternalError
from bufferlab.knob import AUTO
from bufferlab.marked import TEMPORARY
from bufferlab.results import decoding
from bufferlab.results.blocks import HostBlocks, blocks_of, cells_of
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.results.drift import device_drift, drift
from bufferlab.results.files import (
    COPY_HINT,
    RESUME_HINT,
    Told,
    copy,
    into,
    json_bytes,
    read_json,
    read_parquet,
    read_toml,
    rename_to_free_name,
    sync_folder,
    validated,
    write_bytes,
    write_parquet,
    wrong_latencies,
    wrong_page_trace,
    wrong_samples,
    wrong_trace,
)
from bufferlab.results.keys import canonical_json
from bufferlab.results.latency import of_window, percentiles, total_us
from bufferlab.results.metrics import values_in
from bufferlab.results.page_traces import OtherPools
from bufferlab.results.schema import (
    BLOCK_TRACE_COLUMNS,
    FORMAT_VERSION,
    LATENCY_COLUMNS,
    SAMPLE_COLUMNS,
    SUMMARY_COLUMNS,
    Run,
    StoredAim,
    StoredHost,
    StoredHosts,
    StoredPlan,
    StoredStop,
)
from bufferlab.results.trace_words import page_trace_words
from bufferlab.results.window import MEASURE, Value, Window

if TYPE_CHECKING:
    import polars as pl

    from bufferlab.results.registry import Registry

FORMAT = "bufferlab-sweep"
_VERSION = {"format_version": str(FORMAT_VERSION)}
"""The format version that every Parquet file carries."""
BLOCK_TRACE_FILE = "block-trace.parquet"
PAGE_TRACE_FILE = "page-trace.parquet"
OTHER_POOLS_FILE = "other-pools.json"
HOSTS_FILE = "hosts.json"
STOP_FILE = "stop.json"
_LONGEST_NAME = 255
"""The most bytes that Linux allows in the name of a file."""
PREDICTED_FROM = "predicted_from"
"""The key of plan.json that only predicted sweeps have."""
_WRONG_FOLDER_HINT = "give the folder that `bufferlab run` printed, usually runs/<experiment>-<date>-<time>"


def new_run_id() -> str:
    """Return a random name for a run. It does not depend on the run's properties, so it never has to change."""
    return secrets.token_hex(8)


def sample_rows(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of samples.parquet for one `sample` event of the worker: one row for each value."""
    moment = {"t_s": float(event["t_s"]), "phase": event["phase"], "edge": event.get("edge")}
    return [{**moment, **value} for value in event["values"]]


def latency_rows(histograms: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of latency.parquet for the worker's histograms.

    The top bucket of each histogram ends at its longest time, if the worker reports that.
    """
    rows = []
    for histogram in histograms:
        buckets = [bucket for bucket in histogram["buckets"] if bucket[2] > 0]
        for place, (low, high, count) in enumerate(buckets):
            top = place == len(buckets) - 1 and histogram.get("max_us") is not None
            rows.append(
                {
                    "transaction_type": histogram["transaction_type"],
                    "time": histogram["time"],
                    "low_us": float(low),
                    "high_us": max(float(low), min(float(high), float(histogram["max_us"]))) if top else float(high),
                    "count": int(count),
                }
            )
    return rows


class _Recent:
    """A cache of the most recently read tables, at most 128 MiB. Each chapter of a report reads all runs.

    A file that has changed is read again.
    """

    _MOST_BYTES = 128 << 20

    def __init__(self) -> None:
        self._tables: dict[tuple[Path, int, int, int], tuple[pl.DataFrame, int]] = {}
        self._bytes = 0

    def get(self, path: Path, read: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """Return the table of a file; read the file only if the cache lacks its table."""
        try:
            seen = path.stat()
        except OSError:
            return read()  # `read` raises the error that names the fault.
        key = (path.absolute(), seen.st_ino, seen.st_size, seen.st_mtime_ns)
        if key in self._tables:
            table, size = self._tables.pop(key)
        else:
            table = read()
            self._bytes += (size := int(table.estimated_size()))
        self._tables[key] = table, size  # The table read last moves to the end. The cache drops tables from the front.
        while self._bytes > self._MOST_BYTES:
            self._bytes -= self._tables.pop(next(iter(self._tables)))[1]
        return table


_recent = _Recent()


@dataclass(frozen=True)
class RunRecord:
    """One published run: `run` is its run.json, typed. Its methods read samples and traces from disk."""

    folder: Path
    run: Run = field(repr=False)
    registry: Registry = field(repr=False)

    @property
    def run_id(self) -> str:
        """Return the random name of the run."""
        return self.run.run_id

    @property
    def ok(self) -> bool:
        """Return whether the run ended as planned, so that its numbers may be used."""
        return self.run.status == "ok"

    @property
    def failure(self) -> Failure | None:
        """Return why the run failed or was interrupted; None if it ended as planned."""
        told = self.run.failure
        return Failure.told(told.model_dump()) if told else None

    @property
    def reason(self) -> str | None:
        """Return the failure as a sentence; None for a run that ended as planned."""
        failure = self.failure
        return failure.sentence() if failure else None

    def samples(self) -> pl.DataFrame:
        """Return the rows of samples.parquet, one per sample, metric and subject. Callers must not change the table."""
        path = self.folder / "samples.parquet"
        return _recent.get(
            path, lambda: _table(path, SAMPLE_COLUMNS, lambda rows: wrong_samples(rows, self.registry.raw))
        )

    def values(self) -> dict[str, Value]:
        """Return every derived value of the measured window that has a formula, or the reason for its absence."""
        return values_in(Window.of(self.samples(), MEASURE, self.registry.courses), self.registry.derived)

    def measured(self) -> MeasuredRun:
        """Read samples and latencies, and return the run with the values of its windows."""
        known, samples, timed = self.registry, self.samples(), of_window(self.latency())
        owned, window = known.of_engine(self.run.engine), Window.of(samples, MEASURE, known.courses)
        phases = {phase.name: Window.of(samples, phase.name, known.courses) for phase in self.run.phases}
        return MeasuredRun(
            run=self.run,
            engine=owned,
            raw=known.raw,
            window=window,
            values=values_in(window, known.derived) | percentiles(timed),
            latency_us=total_us(timed),
            latency_n=sum(row[4] for row in timed.iter_rows() if row[1] == "service"),
            phases={name: values_in(phase, known.derived) for name, phase in phases.items()},
            drift=drift(samples, owned.own_work, owned.counts_late_s),
            device_drift=device_drift(samples),
        )

    def latency(self) -> pl.DataFrame:
        """Return the rows of latency.parquet: the histogram buckets of every transaction type.

        Callers must not change the table.
        """
        path = self.folder / "latency.parquet"
        return _recent.get(path, lambda: _table(path, LATENCY_COLUMNS, wrong_latencies))

    def block_trace(self) -> pl.DataFrame | None:
        """Return block-trace.parquet, one row per event of the block layer; None if the run has no good trace."""
        if self.run.block_trace is None or self.run.block_trace.status != "ok":
            return None
        return _table(self.folder / BLOCK_TRACE_FILE, BLOCK_TRACE_COLUMNS, wrong_trace)

    def page_trace(self) -> pl.DataFrame | None:
        """Return page-trace.parquet, one row per access to a page of the pool; None if the run has no good trace."""
        if self.run.page_trace is None or self.run.page_trace.status != "ok":
            return None
        return _table(self.folder / PAGE_TRACE_FILE, page_trace_words().columns, wrong_page_trace)

    def log(self) -> str:
        """Return the worker's log, as text."""
        return (self.folder / "worker.log").read_text(encoding="utf-8", errors="replace")


class SweepFolder:
    """The results of one command: the requested experiment, the host, and one folder per run."""

    PRINTED: ClassVar = ("path", "experiment")

    def __init__(
        self,
        path: Path,
        registry: Registry,
        plan: dict[str, Any],
        host: dict[str, Any],
        experiment_toml: str,
        asked: dict[str, Any],
        merged: list[dict[str, Any]] | None = None,
    ) -> None:
        self.path = path
        self.registry = registry
        self.plan = plan
        self.host = host
        self.experiment_toml = experiment_toml
        self.asked = asked
        """The tables of experiment.toml."""
        self.merged = merged
        """The hosts of a merged sweep, as in hosts.json; None for a sweep that `bufferlab run` made."""
        self.stop: StoredStop | None = None
        """The decision on the number of blocks to run; None if the number was fixed before the sweep began."""

    @property
    def experiment(self) -> str:
        """Return the experiment's name."""
        return str(self.plan["experiment"])

    @property
    def stops_itself(self) -> bool:
        """Return whether the sweep itself decides how many blocks its answer needs (`repetitions = "auto"`)."""
        design = self.asked.get("design")
        return isinstance(design, dict) and design.get("repetitions") == AUTO

    @property
    def blocks(self) -> tuple[int, ...]:
        """Return the blocks whose runs this folder should contain, in the plan's order."""
        planned = blocks_of(self.plan)
        return planned if self.stop is None else planned[: self.stop.blocks]

    @property
    def is_running(self) -> bool:
        """Return whether a process is adding runs to this folder; False on a file system without locks.

        The method tries the folder's lock, and releases it at once.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # The file system has no locks.
            return False
        finally:
            os.close(descriptor)
        return False

    @property
    def planned_cells(self) -> set[tuple[int, int]]:
        """Return (point, block) of every run that this folder should contain."""
        blocks = self.blocks
        return {cell for cell in cells_of(self.plan) if cell[1] in blocks}

    @property
    def hosts(self) -> list[HostBlocks]:
        """Return each host that measured, with its blocks."""
        if self.merged is None:
            return [HostBlocks(self.host, self.blocks)]
        return [HostBlocks(one["host"], tuple(sorted(map(int, one["blocks"])))) for one in self.merged]

    @classmethod
    def create(
        cls,
        parent: Path | str,
        registry: Registry,
        experiment_toml_text: str,
        plan: Mapping[str, Any],
        host: Mapping[str, Any],
        *,
        now: datetime | None = None,
        name: str | None = None,
        hosts: Sequence[HostBlocks] = (),
        fill: Callable[[Path], None] = lambda _: None,
    ) -> SweepFolder:
        """Make `<parent>/<experiment>-<YYYYmmdd-HHMMSS>`, where <experiment> is `plan["experiment"]`, and open it.

        The folder appears with everything that `fill` writes, or not at all. If the name is taken, a number is added to
        it; a `name` that the caller chose must be free. `hosts` are the hosts of a merged sweep.
        """
        parent = Path(parent)
        tries = 1000 if name is None else 1
        name = name or f"{plan['experiment']}-{(now or datetime.now(UTC)):%Y%m%d-%H%M%S}"
        stamp = {"format": FORMAT, "format_version": FORMAT_VERSION}
        with into(parent, "the sweep folder", "nothing of it is kept", "run the command again"):
            parent.mkdir(parents=True, exist_ok=True)
            with marked.folder(parent.resolve(), f"{TEMPORARY}{secrets.token_hex(6)}", 0o777) as temporary:
                (temporary / "runs").mkdir()
                (temporary / "experiment.toml").touch(experiment_mode(experiment_toml_text))
                write_bytes(temporary / "experiment.toml", experiment_toml_text.encode())
                write_bytes(temporary / "plan.json", json_bytes({**plan, **stamp}))
                write_bytes(temporary / "host.json", json_bytes({**host, **stamp}))
                if hosts:
                    told = [one._asdict() for one in hosts]
                    write_bytes(temporary / HOSTS_FILE, json_bytes({"hosts": told, **stamp}))
                fill(temporary)
                sync_folder(temporary)
                path = rename_to_free_name(temporary, parent, name, tries)
                sync_folder(parent)
        return cls.open(path, registry)

    @classmethod
    def open(cls, path: Path | str, registry: Registry) -> SweepFolder:
        """Open a sweep folder; its metrics and parameters must be in the registry.

        Ignores leftovers of an interrupted publication (`.tmp-*`). Raises DataFileError, which names the file, if a
        file is foreign, truncated or damaged, and EnvironmentLackingError if a file cannot be read.
        """
        path = Path(path)
        with _readable(path):
            return cls._opened(path, registry)

    @classmethod
    def _opened(cls, path: Path, registry: Registry) -> SweepFolder:
        if not path.is_dir():
            raise DataFileError("there is no such sweep folder", str(path), _WRONG_FOLDER_HINT)
        plan = {"points": [], "runs": [], **_read_stamped(path / "plan.json", StoredPlan)}
        host = _read_stamped(path / "host.json", StoredHost)
        toml = path / "experiment.toml"
        if not toml.is_file():
            raise DataFileError("the sweep folder lacks experiment.toml", str(toml), _WRONG_FOLDER_HINT)
        if not (path / "runs").exists():
            raise DataFileError("the sweep folder lacks its runs/ folder", str(path / "runs"), _WRONG_FOLDER_HINT)
        with own_folder(path / "runs"):
            pass
        text, asked = read_toml(toml, COPY_HINT)
        merged = _read_stamped(path / HOSTS_FILE, StoredHosts)["hosts"] if (path / HOSTS_FILE).exists() else None
        sweep = cls(path, registry, plan, host, text, asked, merged)
        if sweep.stops_itself:
            validated(StoredAim, asked["design"], toml, COPY_HINT)
        if os.path.lexists(path / STOP_FILE):
            told = _read_stamped(path / STOP_FILE, StoredStop, f"remove it; bufferlab run --resume {path} decides anew")
            if not sweep.stops_itself:
                what = "stop.json is of another sweep: this one has a fixed number of blocks"
                raise DataFileError(what, str(path / STOP_FILE), "remove it")
            sweep.stop = StoredStop(blocks=told["blocks"], enough=told["enough"])
        sweep.runs()
        return sweep

    def publish_run(
        self,
        run: Run,
        samples: Sequence[Mapping[str, Any]],
        latency: Sequence[Mapping[str, Any]],
        log: str,
        beside: Mapping[str, str] = MappingProxyType({}),
        tables: Mapping[str, Path] = MappingProxyType({}),
    ) -> RunRecord:
        """Write one run atomically: even after a power cut, the run is on disk completely or not at all.

        `samples` are rows of `sample_rows`, `latency` rows of `latency_rows`. `beside` has the text of further files by
        name (a server's configuration). `tables` has Parquet files that are already on disk (a block trace). Runs that
        failed or were interrupted are published too, with the files that they have. Raises InternalError for a bug in
        bufferlab: the run is published already, or the run or its rows break the stored format. Raises
        EnvironmentLackingError if the file system refuses a write; then no part of the run remains.
        """
        run_id = run.run_id
        final = self.path / "runs" / run_id
        with (
            self.changing("the results of a run"),
            marked.folder(final.parent, f"{TEMPORARY}{run_id}", 0o777) as temporary,
        ):
            sampled, timed = _frame(samples, SAMPLE_COLUMNS), _frame(latency, LATENCY_COLUMNS)
            if why := wrong_samples(sampled, self.registry.raw) or wrong_latencies(timed):
                raise InternalError(f"rows of a run do not follow the stored format: {why}", str(temporary))
            write_parquet(temporary / "samples.parquet", sampled, _VERSION)
            write_parquet(temporary / "latency.parquet", timed, _VERSION)
            for name, text in {"worker.log": log, **beside}.items():
                write_bytes(temporary / name, text.encode(errors="backslashreplace"))
            for name, path in tables.items():
                copy(path, temporary / name)
            stored = (path for path in sorted(temporary.iterdir()) if path.name != marked.MARK)
            files = {path.name: _fingerprint(path) for path in stored}
            try:
                document = Run.model_validate({**run.model_dump(), "files": files}, context=self.registry)
            except ValidationError as error:
                raise InternalError(f"a run does not follow the stored format: {error}", str(temporary)) from error
            write_bytes(temporary / "run.json", _sealed(document.model_dump(mode="json")))
            sync_folder(temporary)
            if final.exists():
                raise InternalError(f"the run {run_id} is already published", str(final))
            temporary.rename(final)
            sync_folder(final.parent)
        for name in ("samples.parquet", "latency.parquet"):
            decoding.made_here(files[name]["sha256"])
        return RunRecord(final, document, self.registry)

    def changing(self, what: str) -> AbstractContextManager[None]:
        """Context manager for writing `what` into the folder.

        Raises EnvironmentLackingError if the file system refuses a write; its hint is the command to resume the sweep.
        """
        return into(self.path, what, "earlier runs are kept", f"bufferlab run --resume {self.path}")

    def runs(self) -> list[RunRecord]:
        """Return all published runs in the order in which they started.

        Raises DataFileError, which names the file, if a run is damaged, and EnvironmentLackingError if one cannot be
        read.
        """
        with _readable(self.path):
            folders = sorted(entry for entry in (self.path / "runs").iterdir() if not entry.name.startswith(TEMPORARY))
            records = [open_run(folder, self.registry) for folder in folders]
        return sorted(records, key=lambda record: (record.run.started_at, record.run.order, record.run_id))

    def clean_temporaries(self) -> list[str]:
        """Remove the temporary folders of interrupted publications; return their names."""
        return marked.remove_leftovers(self.path / "runs", f"{TEMPORARY}*")

    def write_summary(self, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Replace summary.parquet; return its path. Every report makes the file again, so a user may delete it."""
        frame = _frame(rows, SUMMARY_COLUMNS)
        return self._replace("summary.parquet", lambda path: write_parquet(path, frame, _VERSION))

    def write_derived(self, name: str, content: str | bytes) -> Path:
        """Replace one file that a report makes, completely or not at all; return its path.

        Such files are report.html, .md or .pdf, figures/*.svg and tables/*.csv.
        """
        data = content if isinstance(content, bytes) else content.encode(errors="backslashreplace")
        return self._replace(name, lambda path: write_bytes(path, data))

    def summary(self) -> pl.DataFrame:
        """Return summary.parquet as the last report wrote it."""
        return _table(self.path / "summary.parquet", SUMMARY_COLUMNS)

    def write_stop(self, stop: StoredStop) -> None:
        """Store in stop.json the decision on the number of blocks to run."""
        stamp = {"format": FORMAT, "format_version": FORMAT_VERSION}
        data = json_bytes({**stop.model_dump(mode="json"), **stamp})
        self._replace(STOP_FILE, lambda path: write_bytes(path, data))
        self.stop = stop

    def write_experiment(self, text: str) -> None:
        """Replace experiment.toml. The caller has to open the folder again afterwards."""

        def write(path: Path) -> None:
            path.touch(experiment_mode(text))
            write_bytes(path, text.encode())

        self._replace("experiment.toml", write)

    def write_other_pools(self, found: OtherPools) -> Path:
        """Replace other-pools.json, which is made from the plan, the runs and their page traces; return its path."""
        data = json_bytes(found.model_dump(mode="json"))
        return self._replace(OTHER_POOLS_FILE, lambda path: write_bytes(path, data))

    def other_pools(self) -> OtherPools | None:
        """Return the predictions in other-pools.json; None if the sweep has no such file.

        Raises DataFileError if the file is damaged, or was made from the traces or points of another sweep.
        """
        path = self.path / OTHER_POOLS_FILE
        if not path.exists():
            return None
        hint = f"remove it; bufferlab run --resume {self.path} makes it anew"
        found = validated(OtherPools, read_json(path, hint), path, hint)
        # Reading runs computes hashes of all their files, so read them only if a prediction comes from a traced run.
        files = {record.run_id: record.run.files for record in self.runs() if record.ok} if found.of else {}
        for one in found.of:
            stored = files.get(one.traced.run_id, {}).get(PAGE_TRACE_FILE)
            if stored is None or stored.sha256 != one.traced.page_trace_sha256:
                raise DataFileError("it was made from a page trace that is not of this sweep", str(path), hint)
        planned = {point["index"] for point in self.plan["points"]}
        if found.generated and not {point.index for point in found.generated.points} <= planned:
            raise DataFileError("it predicts a point that is not of this sweep", str(path), hint)
        return found

    def _replace(self, name: str, write: Callable[[Path], None]) -> Path:
        target = self.path / name
        command = f"bufferlab report {self.path}, or bufferlab run --resume {self.path} where runs are missing"
        with into(target, "the report", "the runs are kept", command), ExitStack() as stack:
            folder = self.path
            if target.parent != self.path:
                with suppress(FileExistsError):  # A dangling symbolic link raises FileExistsError too.
                    target.parent.mkdir()
                folder = stack.enter_context(own_folder(target.parent))
            beside = self.path.resolve()
            marked.remove_leftovers(beside, f"{TEMPORARY}*")
            temporary = stack.enter_context(marked.folder(beside, f"{TEMPORARY}{secrets.token_hex(6)}", 0o777))
            write(temporary / target.name)
            (temporary / target.name).rename(folder / target.name)
        return target


def experiment_mode(text: str) -> int:
    """Return the mode of experiment.toml before the umask: 0o600 if the text may hold private data.

    A choose(...) in a script lists values that script-from-slow-log took from a user's log.
    """
    return 0o600 if "choose(" in text else 0o666


@contextmanager
def own_folder(path: Path) -> Iterator[Path]:
    """Context manager for a folder inside a sweep folder. Its path stays valid even if a folder above is renamed.

    Raises DataFileError for a link or a file, and OSError if the folder cannot be opened.
    """
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(marked.opened(path))
        except NotADirectoryError:
            what = "this is a link or a file, not a folder; nothing is written where it leads"
            raise DataFileError(what, str(path), "remove it") from None
        yield Path(f"/proc/self/fd/{descriptor}")


def open_run(folder: Path, registry: Registry) -> RunRecord:
    """Open the folder of one published run and check the hash of each of its files.

    Raises DataFileError if a file is missing or changed, or if run.json is damaged, has another format version, belongs
    to another run's folder, or names a file outside of its folder.
    """
    path = folder / "run.json"
    document = read_json(path)
    seal = document.pop("seal", None)
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise DataFileError(
            f"run.json has format version {version!r}; this bufferlab reads version {FORMAT_VERSION}",
            str(path),
            "use the bufferlab version that wrote it (host and versions are in run.json)",
        )
    run = validated(Run, document, path, known=registry)
    if seal != _seal(document):
        raise DataFileError("run.json was changed after it was written", str(path), RESUME_HINT)
    if run.run_id != folder.name:
        raise DataFileError(f"this is the run {run.run_id}, in another run's folder", str(folder), RESUME_HINT)
    for name, stored in run.files.items():
        if Path(name).name != name or len(name.encode()) > _LONGEST_NAME:
            raise DataFileError(f"it names a file outside its folder: {name[:_LONGEST_NAME]}", str(path), RESUME_HINT)
        _check_stored(folder / name, stored.bytes, stored.sha256)
    return RunRecord(folder, run.model_copy(update={"workload": Told(run.workload, path)}), registry)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Context manager for reading a folder. Raises EnvironmentLackingError if the file system refuses a read."""
    try:
        yield
    except OSError as error:
        where = os.fsdecode(error.filename) if error.filename else str(path)
        what = f"the sweep folder cannot be read: {error.strerror or error}"
        raise EnvironmentLackingError(what, where, "make it readable, or use another copy of the folder") from error


def _check_stored(path: Path, size: int, sha256: str) -> None:
    if not path.is_file():
        raise DataFileError("a file of this run is missing", str(path), RESUME_HINT)
    if (found := path.stat().st_size) != size:  # Check before hashing: a link may lead to an endless file.
        raise DataFileError(f"the file holds {found} bytes, {size} were written", str(path), RESUME_HINT)
    if _fingerprint(path)["sha256"] != sha256:
        raise DataFileError("the file is damaged: its contents are not what was written", str(path), RESUME_HINT)


def _read_stamped(path: Path, model: type[BaseModel], hint: str | None = None) -> dict[str, Any]:
    """Read a JSON file of the sweep folder, which must name its format and the format's version.

    Raises DataFileError if it does not, or does not fit `model`. Give a `hint` for files that a folder need not have.
    """
    if hint is None and not path.exists():
        inside = sorted(path.parent.glob(f"*/{path.name}"))
        hint = f"give the newest sweep in it, {inside[-1].parent}" if inside else _WRONG_FOLDER_HINT
        raise DataFileError(f"this is not a sweep folder: it has no {path.name}", str(path.parent), hint)
    document = read_json(path, hint or COPY_HINT)
    if document.get("format") != FORMAT:
        raise DataFileError(f"{path.name} was not written by bufferlab", str(path), hint or _WRONG_FOLDER_HINT)
    if document.get("format_version") != FORMAT_VERSION:
        raise DataFileError(
            f"{path.name} has format version {document.get('format_version')!r}, not {FORMAT_VERSION}",
            str(path),
            "use the bufferlab version that wrote it",
        )
    validated(model, document, path, hint or COPY_HINT)
    return document


def _seal(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()


def _sealed(document: dict[str, Any]) -> bytes:
    """Return the bytes of run.json with a hash of the content, which reveals even a flipped bit in a number."""
    return json_bytes({**document, "seal": _seal(document)})


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def polars_schema(columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of a stored table with their polars types."""
    import polars as pl

    types = {"f64": pl.Float64, "i64": pl.Int64, "i32": pl.Int32, "str": pl.String}
    types |= {"u8": pl.UInt8, "u16": pl.UInt16, "u32": pl.UInt32}
    return {name: types[kind] for name, kind in columns.items()}


def _frame(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(
        {name: [row.get(name) for row in rows] for name in columns}, schema=polars_schema(columns), strict=True
    )


def write_block_trace(path: Path, parts: Iterable[pl.DataFrame]) -> None:
    """Write block-trace.parquet from consecutive frames; only one of them is in memory at a time."""
    _write_parts(path, parts, BLOCK_TRACE_COLUMNS)


def write_page_trace(path: Path, parts: Iterable[pl.DataFrame]) -> None:
    """Write page-trace.parquet from consecutive frames; only one of them is in memory at a time."""
    _write_parts(path, parts, page_trace_words().columns)


def _write_parts(path: Path, parts: Iterable[pl.DataFrame], stored: Mapping[str, str]) -> None:
    import polars as pl

    columns = polars_schema(stored)
    written: list[Path] = []
    for number, part in enumerate(parts):
        if dict(part.schema) != columns:
            raise InternalError("a trace does not have the columns of the stored format", str(path))
        written.append(path.with_name(f"{path.name}.{number}"))
        write_parquet(written[-1], part, {})
    write_parquet(path, pl.scan_parquet(written, glob=False) if written else pl.LazyFrame(schema=columns), _VERSION)
    for part_path in written:
        part_path.unlink()


def _table(
    path: Path, columns: Mapping[str, str], wrong: Callable[[pl.DataFrame], str | None] | None = None
) -> pl.DataFrame:
    frame = read_parquet(path, polars_schema(columns), FORMAT_VERSION)
    if wrong is not None and (why := wrong(frame)) is not None:
        raise DataFileError(f"{path.name} does not follow the stored format: {why}", str(path), RESUME_HINT)
    return frame
