"""Reads, checks and writes the files of a sweep folder, which may be damaged, foreign or malicious.

The size of every file is checked before it is read into memory. A file with a fault raises DataFileError, which names
the file. schema.py defines the documents' contents. This module calls write and fsync itself, so that a full disk
raises an OSError with its errno; the error of a library would have only text.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from bufferlab.errors import DataFileError, EnvironmentLackingError, InternalError, SpecError
from bufferlab.results import decoding
from bufferlab.results.trace_words import page_trace_words
from bufferlab.texts import parse_toml

if TYPE_CHECKING:
    import polars as pl

    from bufferlab.results.metrics import Metric
    from bufferlab.results.registry import Registry

RESUME_HINT = "delete that run's folder and repeat the run command with --resume, or use another copy of the folder"
COPY_HINT = "it must be as `bufferlab run` wrote it; use another copy of the folder"

_MOST_TEXT_BYTES = 32 << 20
_DEEPEST = 32
"""The most levels of nesting in a JSON document; bufferlab's documents have eight."""
_LARGEST = 1 << 64
"""JSON integers must be below this: larger ones cannot be counters, and very long ones would exhaust the memory."""
_GREATEST = 2.0**63

_CURES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EROFS: "make the disk writable, or work on a copy of the folder",
    errno.EACCES: "make the folder writable, or work on a copy of it",
    errno.EPERM: "make the folder writable, or work on a copy of it",
    errno.ENOENT: "put the folder back",
}

_Model = TypeVar("_Model", bound=BaseModel)


class Told(dict[str, Any]):
    """A table of a file whose keys depend on the workload or engine. Looking up a missing key raises DataFileError."""

    def __init__(self, told: Mapping[str, Any], path: Path) -> None:
        super().__init__(told)
        self._path = path

    def __missing__(self, key: str) -> Any:
        raise DataFileError(f"{self._path.name} does not say {key}", str(self._path), RESUME_HINT)


def read_text(path: Path, hint: str = RESUME_HINT) -> str:
    """Return the text of a file.

    Raises DataFileError if it is missing, not a regular file, above 32 MiB, or not UTF-8, and EnvironmentLackingError
    if this user may not read it.
    """
    with _reading(path, hint):
        if not path.is_file():
            what = "is no regular file" if path.exists() else "is missing"
            raise DataFileError(f"{path.name} {what}", str(path), hint)
        with path.open("rb") as file:
            data = file.read(_MOST_TEXT_BYTES + 1)
        if len(data) > _MOST_TEXT_BYTES:
            raise DataFileError(f"{path.name} has more than {_MOST_TEXT_BYTES >> 20} MiB", str(path), hint)
        return data.decode("utf-8")


def read_toml(path: Path, hint: str = RESUME_HINT) -> tuple[str, dict[str, Any]]:
    """Return a TOML file's text and its tables. Raises DataFileError if malformed, and `read_text`'s errors."""
    text = read_text(path, hint)
    with _reading(path, hint):
        return text, parse_toml(text)


def read_json(path: Path, hint: str = RESUME_HINT) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises DataFileError if the file holds no JSON object, is nested too deep, or has numbers or texts that JSON cannot
    store. Raises the errors of `read_text` too.
    """
    text = read_text(path, hint)
    with _reading(path, hint):
        document = json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_finite)
        _require_plain(document)
    if not isinstance(document, dict):
        raise DataFileError(f"{path.name} does not hold a JSON object", str(path), hint)
    return document


def validated(
    model: type[_Model], document: Mapping[str, Any], path: Path, hint: str = RESUME_HINT, known: Registry | None = None
) -> _Model:
    """Return the document as an instance of `model`.

    Raises DataFileError, which names the wrong field, if it does not fit.
    """
    try:
        return model.model_validate(document, context=known)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise DataFileError(f"{path.name} is damaged at {place}: {first['msg']}", str(path), hint) from error


def read_parquet(path: Path, columns: Mapping[str, Any], version: int, hint: str = RESUME_HINT) -> pl.DataFrame:
    """Return a Parquet file's table.

    Raises DataFileError if the file is missing, not a regular file, damaged, too large when decoded
    (`decoding.refusal`), or of another format version, or if it has other columns. Raises EnvironmentLackingError if it
    cannot be read.
    """
    import polars as pl

    with _reading(path, hint):
        if path.exists() and not path.is_file():  # Reading a pipe or a device may never end.
            raise DataFileError(f"{path.name} is no regular file", str(path), hint)
        if why := decoding.refusal(path):
            raise DataFileError(f"{path.name} {why}", str(path), hint)
        told = pl.read_parquet_metadata(path).get("format_version")
        table = pl.scan_parquet(path, glob=False)
        # The order of columns matters too, because readers unpack rows by position.
        if told != str(version) or list(table.collect_schema().items()) != list(columns.items()):
            raise DataFileError(f"{path.name} does not have the columns of format version {version}", str(path), hint)
        return table.collect()


def wrong_samples(samples: pl.DataFrame, raw: Mapping[str, Metric]) -> str | None:
    """Return why rows cannot be samples, or None if they can.

    Counters must be integers in `count`, gauges floats in `value`, and a missing number needs a reason.
    """
    rules = _rules_of_samples(tuple((name, metric.kind) for name, metric in raw.items()))
    # One pass checks all rules, because reports read every run several times.
    broken = samples.select(wrong.any().alias(str(place)) for place, (wrong, _) in enumerate(rules)).row(0)
    for (wrong, why), is_broken in zip(rules, broken, strict=True):
        if is_broken:
            return f"{samples.filter(wrong)['metric'][0]!r} {why}"
    return None


@cache
def _rules_of_samples(kinds: tuple[tuple[str, str], ...]) -> tuple[tuple[pl.Expr, str], ...]:
    """Return (test for a faulty row, message). Cached, because building the tests takes as long as applying them."""
    import polars as pl

    kind = pl.col("metric").replace_strict(dict(kinds), default=None, return_dtype=pl.String)
    counter, has_count, has_value = kind == "counter", pl.col("count").is_not_null(), pl.col("value").is_not_null()
    number, other = (
        pl.when(counter).then(has_count).otherwise(has_value),
        (pl.when(counter).then(has_value).otherwise(has_count)),
    )
    unknown = "comes from a probe, and the registry lacks it"
    return (
        (pl.any_horizontal(pl.col("t_s", "phase", "metric", "subject", "probe").is_null()), "lacks a time or a name"),
        (kind.is_null(), unknown),
        (counter & other, "is a counter but came in the column 'value'"),
        (other, "is a gauge but came in the column 'count'"),
        (~number & pl.col("reason").fill_null("").eq(""), "has neither a number nor a reason"),
        (_beyond("t_s") | _beyond("value"), "has a number that nothing can count"),
        (~pl.col("edge").fill_null("start").is_in(["start", "end"]), "stands at an edge that no window has"),
        (
            pl.col("edge").is_not_null() & pl.struct("phase", "edge", "metric", "subject").is_duplicated(),
            "was sampled twice at one edge",
        ),
    )


def wrong_latencies(latencies: pl.DataFrame) -> str | None:
    """Return why rows cannot be the buckets of histograms, or None if they can."""
    import polars as pl

    low, high = pl.col("low_us"), pl.col("high_us")
    wrong = pl.any_horizontal(pl.all().is_null()) | _beyond("low_us") | _beyond("high_us") | (low < 0) | (high < low)
    return (
        "a bucket has no limits, or less than nothing in it" if _any(latencies, wrong | (pl.col("count") < 0)) else None
    )


def wrong_trace(trace: pl.DataFrame) -> str | None:
    """Return why rows cannot be the events of a block trace, or None if they can."""
    import polars as pl

    needed = pl.col("t_ns", "cpu", "action", "device", "pid")
    size = pl.col("sector", "sectors")
    wrong = (
        pl.any_horizontal(needed.is_null())
        | ~pl.col("device").str.contains(r"^[0-9]{1,4}:[0-9]{1,7}$")
        | pl.any_horizontal((size < 0).fill_null(False) | (size > 1 << 62).fill_null(False))
        | (pl.col("sectors").fill_null(0) > 0) & pl.col("sector").is_null()
    )
    return "an event has no time, action, device or place" if _any(trace, wrong) else None


def wrong_page_trace(trace: pl.DataFrame) -> str | None:
    """Return why rows cannot be the accesses of a page trace, or None if they can."""
    import polars as pl

    wrong = pl.any_horizontal(pl.all().is_null()) | (pl.col("kind") >= len(page_trace_words().kinds))
    if _any(trace, wrong):
        return "an access has no page, kind or time"
    # Pages are numbered without gaps, and each was accessed. So a page number above the number of accesses is wrong. It
    # would also cost memory.
    beyond = pl.col("page") >= trace.height
    return "a page has a number beyond all accesses" if _any(trace, beyond) else None


def _any(frame: pl.DataFrame, wrong: pl.Expr) -> bool:
    return bool(frame.select(wrong.fill_null(True).any()).item())


def _beyond(name: str) -> pl.Expr:
    import polars as pl

    column = pl.col(name)
    return (column.is_nan() | (column.abs() > _GREATEST)).fill_null(False)


@contextmanager
def _reading(path: Path, hint: str) -> Iterator[None]:
    import polars as pl

    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DataFileError(f"{path.name} is missing", str(path), hint) from error
    except OSError as error:
        what = f"{path.name} cannot be read: {error.strerror or error}"
        raise EnvironmentLackingError(what, str(path), "make it readable, or use another copy of the folder") from error
    except (ValueError, RecursionError, OverflowError, pl.exceptions.PolarsError) as error:
        raise DataFileError(f"{path.name} is truncated or damaged: {error}", str(path), hint) from error


def _integer(text: str) -> int:
    number = int(text) if len(text) < 22 else _LARGEST
    if abs(number) >= _LARGEST:
        raise ValueError("it holds an integer of more than 64 bits")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a number")
    return number


def _require_plain(document: Any) -> None:
    """Raise ValueError for a document that is nested too deep, or has text that UTF-8 cannot write.

    The function does not recurse, because it looks for documents that are too deep for recursion.
    """
    level, depth = [document], 0
    while level:
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
        below: list[Any] = []
        for value in level:
            if isinstance(value, str):
                value.encode()  # A lone half of a surrogate pair raises UnicodeEncodeError, which is a ValueError.
            elif isinstance(value, dict):
                below += [*value, *value.values()]
            elif isinstance(value, list):
                below += value
        level, depth = below, depth + 1


@contextmanager
def into(place: Path, what: str, kept: str, then: str) -> Iterator[None]:
    """Context manager that turns an OSError of the work inside into EnvironmentLackingError.

    The error names `place`, the data that are kept, a remedy and the next command (`then`). So the work inside must
    write only the file `place`, or files in that folder.
    """
    try:
        yield
    except OSError as error:
        cure = _CURES.get(error.errno or 0, "look at the disk")
        raise EnvironmentLackingError(
            f"{what} cannot be written: {error.strerror or error}", str(place), f"{kept}; {cure}, then: {then}"
        ) from error


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a document as the bytes of a JSON file: indented, keys sorted, UTF-8."""
    return (json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file and wait until it is on disk (fsync)."""
    with path.open("wb") as file:
        file.write(data)
        _sync(file)


def copy(source: Path, target: Path) -> None:
    """Copy a file and wait until the copy is on disk (fsync)."""
    with source.open("rb") as old, target.open("wb") as new:
        shutil.copyfileobj(old, new, 1 << 20)
        _sync(new)


def sync_folder(path: Path) -> None:
    """Wait until the entries of a folder are on disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def taken(path: Path) -> SpecError:
    """Return the error for a new folder whose path exists already."""
    return SpecError("something is at this path already", str(path), "name a folder that is not there yet")


def rename_to_free_name(temporary: Path, parent: Path, name: str, tries: int) -> Path:
    """Rename a folder to `parent / name`, without replacing anything; return its new path.

    If the name is taken, `name-2`, `name-3` and so on are tried, `tries` names in all. Raises SpecError if the only
    name is taken, InternalError if all of several are, and OSError for any other refusal.
    """
    for number in range(1, 1 + tries):
        target = parent / (name if number == 1 else f"{name}-{number}")
        if os.path.lexists(target):
            continue
        try:
            return temporary.rename(target)
        except OSError:
            if not os.path.lexists(target):
                raise
    if tries == 1:
        raise taken(parent / name)
    raise InternalError(f"{tries:,} folders are called {name}", str(parent))


def write_parquet(path: Path, frame: pl.DataFrame | pl.LazyFrame, metadata: Mapping[str, str]) -> None:
    """Write a frame as Parquet and wait until it is on disk. Raises OSError if the write fails."""
    import polars as pl

    with path.open("wb") as file:
        sink = _Sink(file)
        target = cast("IO[bytes]", sink)
        try:
            frame.lazy().sink_parquet(target, metadata=dict(metadata), compression="zstd", maintain_order=True)
        except pl.exceptions.PolarsError as error:
            if sink.refused is None:
                raise
            raise sink.refused from error
        _sync(file)


class _Sink(io.RawIOBase):
    """A file for polars to write to. It keeps the system's OSError; polars itself would keep only the error's text.

    It hides the file's descriptor, because polars would write to that directly.
    """

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file
        self.refused: OSError | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.refused = error
            raise


def _sync(file: io.BufferedWriter) -> None:
    file.flush()
    os.fsync(file.fileno())
