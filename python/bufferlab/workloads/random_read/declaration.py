"""The parameters of random reads: their size, places and depth. Pure data: the core drives, models/ has the costs."""

from __future__ import annotations

from bufferlab.knob import Knob, KnobKind
from bufferlab.units import GIB, MIB
from bufferlab.workloads.declaration import Impossible, Parameters, WorkloadDeclaration

_SECTOR_BYTES = 512


def _estimate_bytes(parameters: Parameters, page_size_bytes: int) -> int:
    """Return a guess. It is not used where the engine tells the size of its data, as by its knob file_size."""
    return GIB


def _impossible(parameters: Parameters) -> Impossible | None:
    size = int(parameters["io_size_bytes"])
    if size % _SECTOR_BYTES:
        return Impossible(f"io_size = {size} bytes is not a multiple of 512", "choose a multiple of 512 bytes")
    return None


DECLARATION = WorkloadDeclaration(
    name="random_read",
    version=1,
    meaning="random reads of a file or block device; each read is a transaction",
    parameters=(
        Knob(
            name="io_size",
            native_name="io_size_bytes",
            kind=KnobKind.SIZE,
            unit="bytes",
            default="8k",
            minimum=_SECTOR_BYTES,
            maximum=MIB,
            meaning="bytes of a read, a multiple of 512",
        ),
        Knob(
            name="alignment",
            native_name="alignment",
            kind=KnobKind.CHOICE,
            unit="",
            default="io_size",
            choices=("512", "4096", "io_size"),
            meaning="every offset is a multiple of it; io_size: as a database's pages lie",
        ),
        Knob(
            name="offsets",
            native_name="offsets",
            kind=KnobKind.CHOICE,
            unit="",
            default="random",
            choices=("random", "sequential", "zipf"),
            meaning="random: anywhere alike; sequential: one after the other; zipf: few places often",
        ),
        Knob(
            name="zipf",
            native_name="zipf",
            kind=KnobKind.NUMBER,
            unit="",
            default="0.99",
            maximum=3,
            meaning="with offsets = zipf: exponent of Zipf's law over the places",
        ),
        Knob(
            name="queue_depth",
            native_name="queue_depth",
            kind=KnobKind.COUNT,
            unit="",
            default="1",
            minimum=1,
            maximum=256,
            meaning="reads that each thread keeps in flight",
        ),
        Knob(
            name="threads",
            native_name="threads",
            kind=KnobKind.COUNT,
            unit="",
            default="1",
            minimum=1,
            maximum=64,
            meaning="threads that read, each with reads in flight of its own",
        ),
        Knob(
            name="load_seed",
            native_name="load_seed",
            kind=KnobKind.COUNT,
            unit="",
            default="20260101",
            maximum=2**53 - 1,
            decides_file=True,
            meaning="seed of the bytes of a file of our own",
        ),
    ),
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
