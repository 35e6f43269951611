"""Decodes Parquet files in a child process before this process decodes them, so that a bad file ends only the child.

A damaged file made polars 2.1.0 end the process (SIGABRT), which no `except` catches. A check of the file's bytes
would find only the kinds of damage that it foresees. So a child with limits of memory and processor time decodes each
file first. One child decodes all files of a command. It starts in a quarter of a second and takes one or two
milliseconds a file.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bufferlab.errors import EnvironmentLackingError

_PR_SET_PDEATHSIG = 1

_ROWS_OF_ANY_FILE = 2_000_000
_ROWS_PER_BYTE = 4
"""The most rows that a table may have per byte of its file, in addition to _ROWS_OF_ANY_FILE.

A run on an idle server, sampled each second, has two rows per byte. A table made to exhaust the memory has fifty.
"""
_LONGEST_TEXT_BYTES = 4096
_TEXT_OF_ANY_FILE_BYTES = 128 << 20
_TEXT_PER_BYTE = 256
"""The bytes of text that a table may have per byte of its file. Each repetition of a text counts.

One byte of a file may hold two rows of samples, which have 120 bytes of text.
"""
_MEMORY_OF_ANY_FILE_BYTES = 512 << 20
_MEMORY_PER_BYTE = 512
_SECONDS_OF_ANY_FILE = 10
_BYTES_PER_SECOND = 1 << 20

_decoded: set[bytes] = set()
"""The SHA-256 hashes of files that a child has decoded or this process has written: reports read each file often."""
_children: list[subprocess.Popen[str]] = []
"""The running child as the only entry; empty if none is running."""


def refusal(path: Path) -> str | None:
    """Return why a Parquet file must not be decoded in this process; None if it may be.

    Raises OSError if the file cannot be read, and EnvironmentLackingError if the child does not start.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    if digest not in _decoded:
        if why := _answer(path):
            return why
        _decoded.add(digest)
    return None


def made_here(sha256: str) -> None:
    """Remember the hash of a file that this process wrote from its own tables, so that the file needs no check."""
    _decoded.add(bytes.fromhex(sha256))


def _answer(path: Path) -> str:
    """Let the child decode a file; return the error, or "" for a good file."""
    with _child() as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(str(path.absolute())) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        if line:
            return str(json.loads(line))
    _end()
    size = path.stat().st_size
    return (
        f"cannot be decoded: polars breaks off, or needs more than {_most_memory(size) >> 20:,} MiB"
        f" or {_most_seconds(size):,} s of processor time"
    )


@contextmanager
def _child() -> Iterator[subprocess.Popen[str]]:
    """Context manager for the child; starts one if none is alive.

    An exception inside the context ends the child: its late answer would otherwise be treated as the answer for the
    next file.
    """
    if _children and _children[0].poll() is not None:
        _end()
    if not _children:
        _children.append(_started())
    try:
        yield _children[0]
    except BaseException:
        _end()
        raise


def _started() -> subprocess.Popen[str]:
    # -P: a module in the current folder must not shadow one of Python's.
    command = [sys.executable, "-P", "-m", "bufferlab.results.decoding"]
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"}
    # In its own process group the child does not receive Ctrl-C. An interrupted command may still write a report, and
    # needs the child for that.
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        encoding="ascii",
        process_group=0,
    )
    assert child.stdout is not None
    if not child.stdout.readline():
        child.kill()
        child.communicate()
        what = "the process that decodes tables did not start"
        raise EnvironmentLackingError(what, " ".join(command), "end other programs: it needs 100 MiB of memory")
    return child


def _end() -> None:
    for child in _children:
        child.kill()
        child.communicate()
    _children.clear()


atexit.register(_end)


def _most_memory(size: int) -> int:
    return _MEMORY_OF_ANY_FILE_BYTES + _MEMORY_PER_BYTE * size


def _most_seconds(size: int) -> int:
    return _SECONDS_OF_ANY_FILE + size // _BYTES_PER_SECOND


def main() -> None:
    """Run as the child: decode the files whose paths come on standard input; print each one's error, or ""."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import polars as pl

    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    mapped, largest = pages * resource.getpagesize(), 0
    print(flush=True)
    for line in sys.stdin:
        path = json.loads(line)
        # The limit follows the largest file so far, because memory of an earlier file may still be mapped.
        largest = max(largest, size := os.stat(path).st_size)
        _limit(resource.RLIMIT_AS, mapped + _most_memory(largest))
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + _most_seconds(size))
        try:
            wrong = _wrong(path, size)
        except (ValueError, OSError, pl.exceptions.PolarsError) as error:
            wrong = f"is truncated or damaged: {error}"
        except pl.exceptions.PanicException:
            wrong = "is truncated or damaged"
        print(json.dumps(wrong), flush=True)


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _wrong(path: str, size: int) -> str:
    """Decode a file; return why its table is too large for the file's size, or "" if it is not."""
    import polars as pl

    table = pl.scan_parquet(path, glob=False)
    rows, most_rows = table.select(pl.len()).collect().item(), _ROWS_OF_ANY_FILE + _ROWS_PER_BYTE * size
    if rows > most_rows:
        return f"claims {rows:,} rows, more than {most_rows:,} for its size"
    # Lengths are summed in 64 bits, because the 32 bits of polars would overflow.
    lengths = table.collect().select(pl.col(pl.String).str.len_bytes().cast(pl.Int64).fill_null(0))
    if any(length > _LONGEST_TEXT_BYTES for row in lengths.max().rows() for length in row if length is not None):
        return f"has texts of more than {_LONGEST_TEXT_BYTES} bytes"
    text, most_text = sum(map(sum, lengths.sum().rows())), _TEXT_OF_ANY_FILE_BYTES + _TEXT_PER_BYTE * size
    return f"has {text:,} bytes of text, more than {most_text:,} for its size" if text > most_text else ""


if __name__ == "__main__":
    main()
