"""Made-up traces of block requests, and real ones of a loop device (root only)."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bufferlab.engines.native import native
from bufferlab.execute.probes.block_trace_probe import frames
from bufferlab.results.schema import BLOCK_TRACE_COLUMNS

SECTOR = 512


def trace_of(events: Iterable[dict[str, Any]]) -> pl.DataFrame:
    """Return rows of block-trace.parquet; each event gives only the columns that differ from the usual values."""
    usual: dict[str, Any] = {"cpu": 0, "device": "7:0", "flags": "R", "pid": 100, "comm": "reader"}
    types: dict[str, Any] = {"i64": pl.Int64, "i32": pl.Int32, "str": pl.String}
    rows = [{**usual, **event} for event in events]
    return pl.DataFrame(
        {name: [row.get(name) for row in rows] for name in BLOCK_TRACE_COLUMNS},
        schema={name: types[kind] for name, kind in BLOCK_TRACE_COLUMNS.items()},
    )


def require_tracing() -> None:
    """Skip the test if this user may not trace or make loop devices."""
    if os.geteuid() != 0:
        pytest.skip("tracing block requests needs root")
    try:
        native().block_trace_check("/dev/loop0" if Path("/dev/loop0").exists() else "/")
    except Exception as error:
        pytest.skip(f"no block trace here: {error}")


@contextmanager
def loop_device(backing: Path, size_bytes: int) -> Iterator[str]:
    """Yield the name of a loop device over a new file; skip the test if this host allows none."""
    backing.write_bytes(os.urandom(1 << 20) * (size_bytes >> 20))
    made = subprocess.run(["losetup", "--find", "--show", str(backing)], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no loop device can be made here: {made.stderr.strip()}")
    device = made.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)
        backing.unlink()


def read_direct(device: str, offsets: Iterable[int], size_bytes: int) -> int:
    """Read past the page cache, `size_bytes` at each offset; return the number of reads."""
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    count = 0
    try:
        with mmap.mmap(-1, size_bytes) as buffer:
            for offset in offsets:
                assert os.preadv(descriptor, [buffer], offset) == size_bytes
                count += 1
    finally:
        os.close(descriptor)
    return count


class Traced:
    """A block trace, from arming to its table."""

    def __init__(self, path: str, place: Path, buffer_kib: int = 1024, *, every_step: bool = False) -> None:
        self.place = place
        asked = {"spool": str(place / "spool"), "buffer_kib_per_cpu": buffer_kib, "every_step": every_step}
        self._trace = native().block_trace(path, json.dumps(asked))

    def __enter__(self) -> Traced:
        self._trace.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._trace.end()
        self.told: dict[str, Any] = json.loads(self._trace.finish())

    def table(self) -> pl.DataFrame:
        """Return the decoded events."""
        records = self.place / "records"
        self.decoded: dict[str, Any] = json.loads(native().block_trace_decode(self.told["spool"], str(records)))
        return pl.concat([trace_of([]), *frames(records, self.told["window_start_ns"])])


def instances() -> list[str]:
    """Return the names of bufferlab's instances in tracefs, listed through a temporary mount."""
    look = "mount -t tracefs none /mnt && ls /mnt/instances"
    listed = subprocess.run(["unshare", "-m", "sh", "-c", look], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split() if name.startswith("bufferlab-")]
