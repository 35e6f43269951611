"""The knobs of a file or block device that is only read, and of the host under it. Pure data.

Read-ahead has two settings here, because the kernel has two: the device's (`read_ahead`) and the descriptor's
(`advice`, POSIX_FADV_RANDOM). Settings of the host are restored after the run (engines/host_settings.py).
"""

from __future__ import annotations

from bufferlab.engines.declaration import DeclaredRates, EngineDeclaration
from bufferlab.engines.read_ahead_knob import AS_IS, READ_AHEAD
from bufferlab.knob import Knob, Values
from bufferlab.units import GIB, KIB, MIB

OWN = "own"
"""The value of `path` for a file that bufferlab creates itself."""
OWN_BYTES = 1 * GIB
"""The default size of the file that bufferlab creates; the setting file_size changes it."""


def _data_bytes(knobs: Values) -> int:
    """Return the bytes that bufferlab must create: 0 for a path that exists."""
    return int(knobs.get("file_size", OWN_BYTES)) if knobs.get("path", OWN) == OWN else 0


_KNOBS: tuple[Knob, ...] = (
    Knob.text("path", "what is read: own makes a file of random bytes and keeps it; another path is only ever read",
              pattern=r"own|/[^\x00-\x1f\x7f]{1,4000}", example="own, or the full path of a file or block device",
              default=OWN, decides_file=True),
    Knob.size("file_size", "bytes that are read, from the beginning; auto: 1 GiB of our own file, all of another path",
              default="auto", auto="", minimum=64 * KIB, decides_file=True),
    Knob.choice("io_mode", ("direct", "buffered", "mmap"),
                "direct: past the page cache (O_DIRECT); buffered: through it; mmap: copied out of a mapping",
                default="direct"),
    READ_AHEAD,
    Knob.choice("advice", ("none", "random"),
                "random: the kernel is told that reads are random (POSIX_FADV_RANDOM, MADV_RANDOM)", default="none"),
    Knob.choice("cache", ("cold", "warm"),
                "the page cache when the window begins: nothing of the file, or all of it; looked at with mincore",
                default="cold"),
    Knob.choice("backend", ("auto", "io_uring", "threads"),
                "who reads; auto: io_uring where it is allowed, else a thread with pread for each read in flight",
                default="auto"),
    Knob.choice("device", (AS_IS, "loop", "tmpfs_loop"),
                "as_is: the path itself; loop: a loop device over it; tmpfs_loop: over a copy in memory; need root",
                default=AS_IS),
)  # fmt: skip

DECLARATION = EngineDeclaration(
    name="file",
    meaning="a file, a loop device over one, or a block device, read only: the storage without a database",
    knobs=_KNOBS,
    rates=DeclaredRates(
        load_bytes_per_s=300 * MIB,
        restore_bytes_per_s=1000 * MIB,
        warm_up_bytes_per_s=10_000 * MIB,
        transactions_per_s=15_000.0,
        check_bytes_per_s=10_000 * MIB,
    ),
    max_connections=1,
    connections_reason="reads in flight are queue_depth and threads of the workload",
    results_in="bufferlab.engines.file.results",
    chapters="bufferlab.engines.file.chapters",
    page_knob="",
    data_is_read_only=True,
    data_bytes=_data_bytes,
    workloads=("random_read",),
    changes_host=True,
    notes=(
        "mmap: a file that is shortened meanwhile, or a device that fails, ends the worker with SIGBUS, which is told",
    ),
)
