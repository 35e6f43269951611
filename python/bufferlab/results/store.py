"""The sweep folder on disk: created, published run by run without half-written files, opened with suspicion.

It stores and returns; it computes no figure. Publication is the usual recipe (rename(2), fsync(2)): write
beside, fsync the files, rename, fsync the parent. A crash leaves a whole run or a `.tmp-*` folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bufferlab import marked
from bufferlab.errors import DataFileError, InternalError
from bufferlab.marked import TEMPORARY
from bufferlab.results import metrics
from bufferlab.results.keys import canonical_json
from bufferlab.results.schema import (
    BLOCK_TRACE_COLUMNS,
    FORMAT_VERSION,
    LATENCY_COLUMNS,
    SAMPLE_COLUMNS,
    SUMMARY_COLUMNS,
    Run,
)

if TYPE_CHECKING:
    import polars as pl

FORMAT = "bufferlab-sweep"
BLOCK_TRACE_FILE = "block-trace.parquet"
_RESUME_HINT = "delete that run's folder and repeat the run command with --resume, or use another copy of the folder"
_WRONG_FOLDER_HINT = "give the folder that `bufferlab run` printed, usually runs/<experiment>-<date>-<time>"


def new_run_id() -> str:
    """A random name for a run; it carries no meaning, so it can never lie."""
    return secrets.token_hex(8)


def sample_rows(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of samples.parquet in one `sample` event of the worker."""
    return [
        {
            "t_s": float(event["t_s"]),
            "phase": event["phase"],
            "edge": event.get("edge"),
            "metric": value["metric"],
            "subject": value.get("subject", ""),
            "count": value.get("count"),
            "value": value.get("value"),
            "reason": value.get("reason"),
            "probe": value["probe"],
        }
        for value in event["values"]
    ]


def latency_rows(histograms: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of latency.parquet in the worker's `latency`; the top bucket ends at the maximum seen."""
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


@dataclass(frozen=True)
class RunRecord:
    """One published run: `run` is its run.json; the samples are read from disk when asked for."""

    folder: Path
    run: dict[str, Any] = field(repr=False)

    @property
    def run_id(self) -> str:
        """The random name of the run."""
        return str(self.run["run_id"])

    @property
    def ok(self) -> bool:
        """Whether the run ended as planned and may be used for figures."""
        return bool(self.run["status"] == "ok")

    def samples(self) -> pl.DataFrame:
        """samples.parquet: one row per sample and metric."""
        return _read_parquet(self.folder / "samples.parquet", SAMPLE_COLUMNS)

    def latency(self) -> pl.DataFrame:
        """latency.parquet: the histogram buckets of every transaction type."""
        return _read_parquet(self.folder / "latency.parquet", LATENCY_COLUMNS)

    def block_trace(self) -> pl.DataFrame | None:
        """block-trace.parquet: one row per event of the block layer; None when there is no good trace."""
        if (self.run.get("block_trace") or {}).get("status") != "ok":
            return None
        return _read_parquet(self.folder / BLOCK_TRACE_FILE, BLOCK_TRACE_COLUMNS)

    def log(self) -> str:
        """The worker's log, as text."""
        return (self.folder / "worker.log").read_text(encoding="utf-8", errors="replace")


class SweepFolder:
    """The results of one command: how it was asked for, where it ran, and one folder per run."""

    def __init__(self, path: Path, plan: dict[str, Any], host: dict[str, Any], experiment_toml: str) -> None:
        self.path = path
        self.plan = plan
        self.host = host
        self.experiment_toml = experiment_toml

    @property
    def experiment(self) -> str:
        """The experiment's name."""
        return str(self.plan["experiment"])

    @classmethod
    def create(
        cls,
        parent: Path | str,
        experiment_toml_text: str,
        plan: Mapping[str, Any],
        host: Mapping[str, Any],
        *,
        now: datetime | None = None,
    ) -> SweepFolder:
        """Make `<parent>/<experiment>-<YYYYmmdd-HHMMSS>`; `plan["experiment"]` names the experiment.

        The folder appears whole or not at all. A name that is taken gets a number behind it.
        """
        parent = Path(parent)
        name = f"{plan['experiment']}-{(now or datetime.now(UTC)):%Y%m%d-%H%M%S}"
        stamp = {"format": FORMAT, "format_version": FORMAT_VERSION}
        parent.mkdir(parents=True, exist_ok=True)
        with marked.folder(parent.resolve(), f"{TEMPORARY}{secrets.token_hex(6)}", 0o777) as temporary:
            (temporary / "runs").mkdir()
            _write(temporary / "experiment.toml", experiment_toml_text.encode())
            _write(temporary / "plan.json", _pretty({**plan, **stamp}))
            _write(temporary / "host.json", _pretty({**host, **stamp}))
            _sync_folder(temporary)
            path = _rename_to_free_name(temporary, parent, name)
            _sync_folder(parent)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path | str) -> SweepFolder:
        """Open a sweep folder; a foreign, truncated or damaged one is a DataFileError that names the file.

        Leftovers of an interrupted publication (`.tmp-*`) are not runs and are ignored here.
        """
        path = Path(path)
        if not path.is_dir():
            raise DataFileError("there is no such sweep folder", str(path), _WRONG_FOLDER_HINT)
        plan = _read_stamped(path / "plan.json")
        host = _read_stamped(path / "host.json")
        if not isinstance(plan.get("experiment"), str):
            raise DataFileError(
                "plan.json does not say which experiment it is", str(path / "plan.json"), _WRONG_FOLDER_HINT
            )
        toml = path / "experiment.toml"
        if not toml.is_file():
            raise DataFileError("the sweep folder lacks experiment.toml", str(toml), _WRONG_FOLDER_HINT)
        if not (path / "runs").exists():
            raise DataFileError("the sweep folder lacks its runs/ folder", str(path / "runs"), _WRONG_FOLDER_HINT)
        with own_folder(path / "runs"):
            pass
        sweep = cls(path, plan, host, toml.read_text(encoding="utf-8"))
        sweep.runs()
        return sweep

    def publish_run(
        self,
        run: Mapping[str, Any],
        samples: Sequence[Mapping[str, Any]],
        latency: Sequence[Mapping[str, Any]],
        log: str,
        beside: Mapping[str, str] = MappingProxyType({}),
        tables: Mapping[str, Path] = MappingProxyType({}),
    ) -> RunRecord:
        """Write one run whole: it is there afterwards, also after a power cut, or it is not there at all.

        `samples` are flat rows (see `sample_rows`), `latency` flat rows (see `latency_rows`), `beside` further text
        files by name (a server's configuration), `tables` Parquet files made elsewhere (a block trace). A run that
        failed or was interrupted is published too, with what it has. Rows that break the rules are our bug.
        """
        _check_samples(samples)
        run_id = str(run["run_id"])
        final = self.path / "runs" / run_id
        with marked.folder(final.parent, f"{TEMPORARY}{run_id}", 0o777) as temporary:
            _write_parquet(temporary / "samples.parquet", samples, SAMPLE_COLUMNS)
            _write_parquet(temporary / "latency.parquet", latency, LATENCY_COLUMNS)
            for name, text in {"worker.log": log, **beside}.items():
                _write(temporary / name, text.encode())
            for name, path in tables.items():
                _copy(path, temporary / name)
            stored = (path for path in sorted(temporary.iterdir()) if path.name != marked.MARK)
            files = {path.name: _fingerprint(path) for path in stored}
            try:
                document = Run.model_validate({**run, "format_version": FORMAT_VERSION, "files": files})
            except ValidationError as error:
                raise InternalError(f"a run does not follow the stored format: {error}", str(temporary)) from error
            _write(temporary / "run.json", _sealed(document.model_dump(mode="json")))
            _sync_folder(temporary)
            if final.exists():
                raise InternalError(f"the run {run_id} is already published", str(final))
            temporary.rename(final)
            _sync_folder(final.parent)
        return RunRecord(final, document.model_dump(mode="json"))

    def runs(self) -> list[RunRecord]:
        """Every published run in the order they were run; a damaged one is a DataFileError that names it."""
        folders = sorted(entry for entry in (self.path / "runs").iterdir() if not entry.name.startswith(TEMPORARY))
        records = [_open_run(folder) for folder in folders]
        return sorted(records, key=lambda record: (record.run["started_at"], record.run["order"], record.run_id))

    def clean_temporaries(self) -> list[str]:
        """Remove what interrupted publications left behind; the names removed."""
        return marked.remove_leftovers(self.path / "runs", f"{TEMPORARY}*")

    def write_summary(self, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Replace summary.parquet, which is derived and can be deleted at any time."""
        return self._replace("summary.parquet", lambda path: _write_parquet(path, rows, SUMMARY_COLUMNS))

    def write_derived(self, name: str, content: str) -> Path:
        """Replace one derived text file (report.html, report.md, figures/*.svg), whole or not at all."""
        return self._replace(name, lambda path: _write(path, content.encode()))

    def summary(self) -> pl.DataFrame:
        """summary.parquet as last written by a report."""
        return _read_parquet(self.path / "summary.parquet", SUMMARY_COLUMNS)

    def _replace(self, name: str, write: Any) -> Path:
        target = self.path / name
        with ExitStack() as stack:
            folder = self.path
            if target.parent != self.path:
                with suppress(FileExistsError):  # Of a link that leads nowhere too.
                    target.parent.mkdir()
                folder = stack.enter_context(own_folder(target.parent))
            temporary = folder / f"{TEMPORARY}{secrets.token_hex(4)}-{target.name}"
            try:
                write(temporary)
                temporary.rename(folder / target.name)
            finally:
                temporary.unlink(missing_ok=True)
        return target


@contextmanager
def own_folder(path: Path) -> Iterator[Path]:
    """An open folder inside a sweep folder, by a path that stays right; DataFileError for a link to elsewhere."""
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(marked.opened(path))
        except NotADirectoryError:
            what = "this is a link or a file, not a folder; nothing is written where it leads"
            raise DataFileError(what, str(path), "remove it") from None
        yield Path(f"/proc/self/fd/{descriptor}")


def _check_samples(samples: Sequence[Mapping[str, Any]]) -> None:
    """Counters are exact integers, gauges are floats, and a missing number has a reason."""
    for row in samples:
        metric = metrics.RAW.get(row["metric"])
        if metric is None:
            raise InternalError(f"a probe emitted {row['metric']!r}, which the registry lacks", row["probe"])
        wanted, other = ("count", "value") if metric.kind == "counter" else ("value", "count")
        if row.get(other) is not None:
            raise InternalError(f"{metric.name} is a {metric.kind} but came in the column {other!r}", row["probe"])
        if row.get(wanted) is None and not row.get("reason"):
            raise InternalError(f"{metric.name} has neither a number nor a reason", row["probe"])


def _open_run(folder: Path) -> RunRecord:
    path = folder / "run.json"
    document = _read_json(path)
    seal = document.pop("seal", None)
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise DataFileError(
            f"run.json has format version {version!r}; this bufferlab reads version {FORMAT_VERSION}",
            str(path),
            "use the bufferlab version that wrote it (host and versions are in run.json)",
        )
    try:
        run = Run.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DataFileError(f"run.json is damaged at {place}: {first['msg']}", str(path), _RESUME_HINT) from error
    if seal != _seal(document):
        raise DataFileError("run.json was changed after it was written", str(path), _RESUME_HINT)
    if run.run_id != folder.name:
        raise DataFileError(f"this is the run {run.run_id}, in another run's folder", str(folder), _RESUME_HINT)
    for name, stored in run.files.items():
        _check_stored(folder / name, stored.bytes, stored.sha256)
    return RunRecord(folder, run.model_dump(mode="json"))


def _check_stored(path: Path, size: int, sha256: str) -> None:
    if not path.is_file():
        raise DataFileError("a file of this run is missing", str(path), _RESUME_HINT)
    found = _fingerprint(path)
    if found["bytes"] != size:
        raise DataFileError(f"the file holds {found['bytes']} bytes, {size} were written", str(path), _RESUME_HINT)
    if found["sha256"] != sha256:
        raise DataFileError("the file is damaged: its contents are not what was written", str(path), _RESUME_HINT)


def _read_stamped(path: Path) -> dict[str, Any]:
    """A JSON file of the sweep folder that must say whose it is and in which version."""
    if not path.is_file():
        raise DataFileError(f"this is not a sweep folder: it has no {path.name}", str(path.parent), _WRONG_FOLDER_HINT)
    document = _read_json(path)
    if document.get("format") != FORMAT:
        raise DataFileError(f"{path.name} was not written by bufferlab", str(path), _WRONG_FOLDER_HINT)
    if document.get("format_version") != FORMAT_VERSION:
        raise DataFileError(
            f"{path.name} has format version {document.get('format_version')!r}, not {FORMAT_VERSION}",
            str(path),
            "use the bufferlab version that wrote it",
        )
    return document


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataFileError(f"{path.name} is missing", str(path), _RESUME_HINT) from error
    except (UnicodeDecodeError, json.JSONDecodeError, NotADirectoryError) as error:
        raise DataFileError(f"{path.name} is truncated or damaged: {error}", str(path), _RESUME_HINT) from error
    if not isinstance(document, dict):
        raise DataFileError(f"{path.name} does not hold a JSON object", str(path), _RESUME_HINT)
    return document


def _pretty(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _seal(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()


def _sealed(document: dict[str, Any]) -> bytes:
    """run.json with a hash of itself, so that a flipped bit in a number is noticed too."""
    return _pretty({**document, "seal": _seal(document)})


def _fingerprint(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as old, target.open("wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)
        new.flush()
        os.fsync(new.fileno())


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename_to_free_name(temporary: Path, parent: Path, name: str) -> Path:
    """Rename without replacing: a rename onto a non-empty folder fails, and the next number is tried."""
    for number in range(1, 1000):
        target = parent / (name if number == 1 else f"{name}-{number}")
        if target.exists():
            continue
        try:
            return temporary.rename(target)
        except OSError:
            if not target.exists():
                raise
    raise InternalError(f"a thousand sweep folders are called {name}", str(parent))


def _polars_schema(columns: Mapping[str, str]) -> dict[str, Any]:
    import polars as pl

    types = {"f64": pl.Float64, "i64": pl.Int64, "i32": pl.Int32, "str": pl.String}
    return {name: types[kind] for name, kind in columns.items()}


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> None:
    import polars as pl

    frame = pl.DataFrame(
        {name: [row.get(name) for row in rows] for name in columns},
        schema=_polars_schema(columns),
        strict=True,
    )
    frame.write_parquet(path, metadata={"format_version": str(FORMAT_VERSION)}, compression="zstd")
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_block_trace(path: Path, parts: Iterable[pl.DataFrame]) -> None:
    """block-trace.parquet from frames that follow one another; memory holds one of them."""
    import polars as pl

    columns = _polars_schema(BLOCK_TRACE_COLUMNS)
    written: list[Path] = []
    for number, part in enumerate(parts):
        if dict(part.schema) != columns:
            raise InternalError("a block trace does not have the columns of the stored format", str(path))
        written.append(path.with_name(f"{path.name}.{number}"))
        part.write_parquet(written[-1], compression="zstd")
    whole = pl.scan_parquet(written, glob=False) if written else pl.LazyFrame(schema=columns)
    whole.sink_parquet(path, metadata={"format_version": str(FORMAT_VERSION)}, compression="zstd", maintain_order=True)
    for part_path in written:
        part_path.unlink()


def _read_parquet(path: Path, columns: Mapping[str, str]) -> pl.DataFrame:
    import polars as pl

    try:
        version = pl.read_parquet_metadata(path).get("format_version")
        frame = pl.read_parquet(path, glob=False)
    except FileNotFoundError as error:
        raise DataFileError(f"{path.name} is missing", str(path), _RESUME_HINT) from error
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataFileError(f"{path.name} is truncated or damaged: {error}", str(path), _RESUME_HINT) from error
    if version != str(FORMAT_VERSION) or dict(frame.schema) != _polars_schema(columns):
        raise DataFileError(
            f"{path.name} does not have the columns of format version {FORMAT_VERSION}",
            str(path),
            _RESUME_HINT,
        )
    return frame
