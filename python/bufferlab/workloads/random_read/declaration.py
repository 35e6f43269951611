"""The parameters of random reads: size, offsets and depth.

Pure data; the core does the reads, theory/ computes their costs.
"""

from __future__ import annotations

from bufferlab.knob import Knob
from bufferlab.units import GIB, MIB
from bufferlab.workloads.declaration import Impossible, Parameters, WorkloadDeclaration

_SECTOR_BYTES = 512


def _estimate_bytes(parameters: Parameters, page_size_bytes: int) -> int:
    """Return a guess. It is not used if the engine's knobs give the size of its data, as file_size does."""
    return GIB


def _impossible(parameters: Parameters) -> Impossible | None:
    size = int(parameters["io_size"])
    if size % _SECTOR_BYTES:
        return Impossible(f"io_size = {size} bytes is not a multiple of 512", "choose a multiple of 512 bytes")
    return None


_PARAMETERS: tuple[Knob, ...] = (
    Knob.size("io_size", "bytes of a read, a multiple of 512", default="8k", minimum=_SECTOR_BYTES, maximum=MIB),
    Knob.choice("alignment", ("512", "4096", "io_size"),
                "every offset is a multiple of it; io_size: as a database's pages lie", default="io_size"),
    Knob.choice("offsets", ("random", "sequential", "zipf"),
                "random: anywhere alike; sequential: one after the other; zipf: few places often", default="random"),
    Knob.number("zipf", "with offsets = zipf: exponent of Zipf's law over the places", default="0.99", maximum=3),
    Knob.count("queue_depth", "reads that each thread keeps in flight", default="1", minimum=1, maximum=256),
    Knob.count("threads", "threads that read, each with reads in flight of its own", default="1", minimum=1,
               maximum=64),
    Knob.count("load_seed", "seed of the bytes of a file of our own", default="20260101", maximum=2**53 - 1,
               decides_file=True),
)  # fmt: skip

DECLARATION = WorkloadDeclaration(
    name="random_read",
    version=1,
    meaning="random reads of a file or block device; each read is a transaction",
    words="random reads",
    parameters=_PARAMETERS,
    transaction_types=("read",),
    headline="requests_per_read",
    compared=(
        "requests_per_read",
        "device_bytes_per_read",
        "pages_touched_per_read",
        "iops",
        "read_mb_per_s",
        "reads_cv",
        "requests_cv",
        "cpu_us_per_transaction",
    ),
    estimate_bytes=_estimate_bytes,
    grows_bytes_per_transaction=0.0,
    caveat="reads of one file without a database: what the storage gives at best to whoever asks in this way",
    impossible=_impossible,
    engines=("file",),
)
