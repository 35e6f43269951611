"""The parameters of a user's own SQL script. Pure data; docs/scripts.md says how a script is written.

The core reads the script's transactions from its text; Python does not know them.
"""

from __future__ import annotations

from bufferlab.knob import Knob
from bufferlab.units import MIB
from bufferlab.workloads.declaration import Parameters, WorkloadDeclaration

_GUESS_BYTES = 64 * MIB


def _estimate_bytes(parameters: Parameters, page_size_bytes: int) -> int:
    """Return a guess: the size of the data that a script's setup makes is unknown until it has run once."""
    return _GUESS_BYTES


_PARAMETERS: tuple[Knob, ...] = (
    Knob.file("script", "the script; its text is kept with the results", default="", decides_file=True,
              sweepable=False),
    Knob.choice("data", ("setup", "tpcc", "hot_rows", "dump"),
                "what is loaded before the script's setup: nothing (setup alone), another workload's tables, or a dump",
                default="setup", decides_file=True, sweepable=False),
    Knob.file("dump", "with data = dump: the mysqldump, or pg_dump -Fc, that a private server restores", default="",
              decides_file=True, sweepable=False),
)  # fmt: skip

DECLARATION = WorkloadDeclaration(
    name="script",
    version=1,
    meaning="your own SQL script: weighted transactions with random variables (docs/scripts.md)",
    words="script",
    parameters=_PARAMETERS,
    transaction_types=(),
    headline="reads_per_transaction",
    compared=(
        "reads_per_transaction",
        "misses_per_transaction",
        "page_gets_per_transaction",
        "writes_per_transaction",
        "read_bytes_per_transaction",
        "write_bytes_per_transaction",
        "cpu_us_per_transaction",
        "transactions_per_s",
    ),
    estimate_bytes=_estimate_bytes,
    grows_bytes_per_transaction=500.0,
    caveat="a script of the user's: nothing but what the script itself checks is checked of its answers",
    relative_cost=0.2,
    data_parameter="data",
)
