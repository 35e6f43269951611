"""Handles `--probe block-trace`: refuses early if tracing is impossible, requests the trace from the core, stores it.

A trace that lost events is marked as failed and has no table. Its run is kept. The core's records (`Event::record` in
crates/bufferlab-probe) become block-trace.parquet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bufferlab.engines import registry as engines
from bufferlab.engines.native import ask_host, failure_of_core, native
from bufferlab.errors import Failure, SpecError
from bufferlab.execute.host.restore_host import clean_tracefs
from bufferlab.execute.probes.command_line_probe import EndedRun
from bufferlab.results.schema import BLOCK_TRACE_COLUMNS, BlockTrace
from bufferlab.results.store import BLOCK_TRACE_FILE, write_block_trace
from bufferlab.units import MIB, format_bytes

if TYPE_CHECKING:
    import polars as pl


DEFAULT_BUFFER_BYTES = 8 * MIB
"""The kernel's buffer for each processor: it holds a tenth of a second at 400,000 requests per second and processor."""
_SPOOL = "block-trace"
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
"""The initial PID namespace as /proc/self/ns/pid shows it.

PROC_PID_INIT_INO of the kernel's include/linux/proc_ns.h.
"""


@dataclass(frozen=True)
class BlockTraceAsked:
    """A requested trace: the size of the kernel's buffer for each processor, and the steps to record."""

    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    every_step: bool = False
    """Whether to record also how each request was allocated, plugged and inserted, which costs more."""

    name: ClassVar[str] = "block_trace"

    def job(self, home: Path) -> dict[str, Any]:
        """Return the probe's part of a run's job: the file for the trace, and the size of the kernel's buffer."""
        kib = max(1, self.buffer_bytes // 1024)
        return {"spool": str(home / _SPOOL), "buffer_kib_per_cpu": kib, "every_step": self.every_step}

    def require(self, engine: str, job: Mapping[str, Any]) -> None:
        """Refuse a run whose device cannot be traced. Raises as the function `require` does."""
        require(engine, job)

    def keep(self, run: EndedRun) -> tuple[BlockTrace, Path | None]:
        """Decode the trace. Return run.json's `block_trace`, and the Parquet file if the trace is good."""
        return keep(self, run.result, run.home)


def require(engine: str, job: Mapping[str, Any]) -> None:
    """Refuse, before anything starts, a run that cannot be traced.

    `job` is the run's job as far as it is known (database, knobs). Raises SpecError for an engine or a server whose
    device cannot be traced from here, and EnvironmentLackingError if this host or user cannot trace.
    """
    if engines.declaration(engine).clock != "wall":
        raise SpecError(
            f"the engine {engine} makes no block requests", "--probe block-trace", "leave it out, or use a real engine"
        )
    if "://" in str(job.get("knobs", {}).get("server", "")):
        raise SpecError(
            "the device of a server that runs already is not known here",
            "--probe block-trace",
            "leave it out, or let bufferlab start the server",
        )
    check(_some_device() if engines.behaviour(engine).makes_its_device else Path(job["database"]))


def _some_device() -> Path:
    """Return any block device, for an engine whose own device exists only during a run.

    Whether this user may trace does not depend on the device.
    """
    nodes = (Path("/dev") / device.name for device in Path("/sys/block").glob("*"))
    return next((node for node in nodes if node.exists()), Path("/"))


def check(path: Path) -> str:
    """Return the device of a path. Raises EnvironmentLackingError, with the reason, if it cannot be traced."""
    told = ask_host("block requests cannot be traced", lambda: native().block_trace_check(str(path)))
    return str(json.loads(told)["device"])


def keep(asked: BlockTraceAsked, result: Mapping[str, Any] | None, home: Path) -> tuple[BlockTrace, Path | None]:
    """Decode the trace of a run that has ended.

    Return run.json's `block_trace`, and the Parquet file of a good trace.
    """
    told = result["recorded"].get(asked.name) if result else None
    if told is None:
        clean_tracefs()  # The worker died: remove its tracefs instance now, not at the next start.
        return _failed({}, "the run ended before the trace did", "repeat the run"), None
    stored = _stored(told)
    problem = _problem(asked, told)
    if problem:
        return _failed(stored, *problem), None
    out, records = home / BLOCK_TRACE_FILE, home / f"{_SPOOL}.records"
    try:
        decoded = json.loads(native().block_trace_decode(told["spool"], str(records)))
    except Exception as error:
        failure = failure_of_core(error) or Failure(str(error))
        return _failed(stored, failure.what, failure.hint), None
    stored |= {name: decoded[name] for name in ("events", "actions", "plugs_elsewhere")}
    if decoded["events_read"] != told["events_read"]:
        reason = f"the kernel handed over {told['events_read']:,} events, and {decoded['events_read']:,} were found"
        return _failed(stored, reason, "please report this with the kernel's version"), None
    write_block_trace(out, frames(records, told["window_start_ns"]))
    records.unlink()
    return BlockTrace(**stored, status="ok"), out


def _stored(told: Mapping[str, Any]) -> dict[str, Any]:
    start, end = told["window_start_ns"], told["window_end_ns"]
    same = ("device", "devices", "buffer_kib_per_cpu", "cpus", "pages", "spool_bytes", "reader_wakeups", "lost")
    return {
        **{name: told[name] for name in same},
        "partitions": dict(told["partitions"]),
        "names": dict(told["names"]),
        "pids_are_the_hosts": in_pid_namespace(),
        "window_start_ns": start,
        "window_ns": end - start if start is not None and end is not None else None,
        "reader_cpu_us": told["reader_cpu_ns"] / 1000,
    }


def in_pid_namespace() -> bool:
    """Return whether PIDs here differ from those in the kernel's events, because of a PID namespace."""
    return os.readlink("/proc/self/ns/pid") != _INITIAL_PID_NAMESPACE


def _failed(stored: dict[str, Any], reason: str, hint: str | None) -> BlockTrace:
    return BlockTrace(**stored, status="failed", reason=reason, hint=hint)


def _problem(asked: BlockTraceAsked, told: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Return why the trace is unreliable, and a hint; None if it is reliable."""
    if told["problem"]:
        return str(told["problem"]), "look at the spool's disk, and at the kernel log (dmesg)"
    if told["window_start_ns"] is None:
        return "the measured window was not reached", None
    lost = {name.replace("_", " "): count for name, count in told["lost"].items() if count}
    if not lost:
        return None
    counted = ", ".join(f"{name} {count:,}" for name, count in lost.items())
    larger = format_bytes(4 * asked.buffer_bytes).replace(" ", "")
    return (
        f"the kernel's buffer of {format_bytes(asked.buffer_bytes)} per processor was too small, events were lost:"
        f" {counted}",
        f"repeat with a larger buffer: --trace-buffer {larger}",
    )


_CHUNK_EVENTS = 500_000
_RECORD = np.dtype(
    [
        ("t_ns", "<u8"),
        ("sector", "<u8"),
        ("other_sector", "<u8"),
        ("device", "<u4"),
        ("from_device", "<u4"),
        ("sectors", "<u4"),
        ("requests", "<u4"),
        ("pid", "<i4"),
        ("error", "<i4"),
        ("cpu", "<u2"),
        ("action", "u1"),
        ("unused", "u1"),
        ("flags", "S10"),
        ("unused_too", "S2"),
        ("comm", "S16"),
    ]
)


def frames(records: Path, start_ns: int) -> Iterator[pl.DataFrame]:
    """Yield the records of a decoded trace as rows of block-trace.parquet, at most 500,000 at a time.

    Times count from `start_ns`, the start of the measured window.
    """
    with records.open("rb") as file:
        while len(chunk := np.fromfile(file, dtype=_RECORD, count=_CHUNK_EVENTS)):
            yield _frame(chunk, start_ns)


def _frame(chunk: np.ndarray[Any, Any], start_ns: int) -> pl.DataFrame:
    import polars as pl

    def numbers(name: str) -> pl.Series:
        values = chunk[name]
        return pl.Series(name, values.astype(np.int64) if values.dtype.kind == "u" else values)

    def words(name: str) -> pl.Series:
        """Return a column of many rows with few distinct texts. Each distinct text is decoded only once."""
        texts, places = np.unique(chunk[name], return_inverse=True)
        return pl.Series(name, [text.decode("utf-8", "replace") or None for text in texts], dtype=pl.String)[places]

    def devices(name: str) -> pl.Series:
        found, places = np.unique(chunk[name], return_inverse=True)
        texts = [f"{number >> 20}:{number & 0xFFFFF}" for number in found.tolist()]
        return pl.Series(name, texts, dtype=pl.String)[places]

    action = pl.Series("action", [chr(code) for code in range(128)])[chunk["action"].astype(np.int64) & 127]
    is_plug, is_remap = action.is_in(["P", "U"]), action == "A"

    def where(mask: pl.Series, series: pl.Series) -> pl.Series:
        return series.to_frame().select(pl.when(mask).then(pl.col(series.name))).to_series()

    columns = {
        "t_ns": pl.Series(chunk["t_ns"].astype(np.int64) - start_ns),
        "cpu": numbers("cpu"),
        "action": action,
        "device": devices("device"),
        # A flush has no sector: the kernel reports the largest 64-bit number, which is -1 here and becomes 0.
        "sector": where(~is_plug, numbers("sector").clip(0)),
        "sectors": where(~is_plug & (action != "X"), numbers("sectors")),
        "flags": words("flags"),
        "pid": numbers("pid"),
        "comm": words("comm"),
        "error": where(action == "C", numbers("error")),
        "requests": where(action == "U", numbers("requests")),
        "from_device": where(is_remap, devices("from_device")),
        "from_sector": where(is_remap, numbers("other_sector")),
        "split_sector": where(action == "X", numbers("other_sector")),
    }
    types = {"i64": pl.Int64, "i32": pl.Int32, "str": pl.String}
    return pl.DataFrame([series.alias(name).cast(types[BLOCK_TRACE_COLUMNS[name]]) for name, series in columns.items()])
