"""The fake engine's knobs: an imaginary pool, and ways to misbehave. Hidden from `bufferlab list`.

Its runs have source = predicted, inputs = given and clock = virtual, because none of their numbers is measured.
"""

from __future__ import annotations

from bufferlab.engines.declaration import DeclaredRates, EngineDeclaration
from bufferlab.knob import Knob
from bufferlab.units import KIB, MIB

_KNOBS: tuple[Knob, ...] = (
    Knob.size("page_size", "bytes of a page", default="4k", minimum=512, maximum=64 * KIB, power_of_two=True,
              decides_file=True),
    Knob.size_or_share("pool_size", "bytes of the pool", default="20%", minimum=4 * KIB),
    Knob.choice("behave", ("ok", "crash", "silent", "stubborn", "io_error", "full_disk", "fill_disk", "corrupt",
                           "capped", "other_setting", "paused", "unanswered"),
                "what goes wrong in a run", default="ok"),
    Knob.choice("load_behave", ("ok", "crash", "silent", "full_disk", "corrupt"), "what goes wrong in the load",
                default="ok", decides_file=True),
    Knob.count("pace_ms", "real time slept for each virtual second", unit="ms", default="0", maximum=60_000),
)  # fmt: skip

DECLARATION = EngineDeclaration(
    name="fake",
    meaning="a scripted engine for tests: counters from a formula, a virtual clock",
    knobs=_KNOBS,
    rates=DeclaredRates(
        load_bytes_per_s=100 * MIB,
        restore_bytes_per_s=1000 * MIB,
        warm_up_bytes_per_s=1000 * MIB,
        transactions_per_s=100_000.0,
        check_bytes_per_s=1000 * MIB,
    ),
    max_connections=1,
    connections_reason="the fake engine has one imaginary connection",
    results_in="bufferlab.engines.sqlite.results",  # It emits the counters of SQLite.
    needs_disk=False,
    size_factor=0.005,
    source="predicted",
    inputs="given",
    clock="virtual",
    hidden=True,
)
