"""The fake engine's knobs: an imaginary pool, and ways to misbehave. Hidden from `bufferlab list`.

Its runs say source = predicted, inputs = given and clock = virtual: nothing of it is a measurement.
"""

from __future__ import annotations

from bufferlab.engines.declaration import EngineDeclaration, Rates
from bufferlab.engines.sqlite.results import RESULTS
from bufferlab.knob import Knob, KnobKind
from bufferlab.units import KIB, MIB

DECLARATION = EngineDeclaration(
    name="fake",
    meaning="a scripted engine for tests: counters from a formula, a virtual clock",
    knobs=(
        Knob("page_size", "page_size_bytes", KnobKind.SIZE, "bytes", "4k", "bytes of a page",
             minimum=512, maximum=64 * KIB, power_of_two=True, decides_file=True),
        Knob("pool_size", "pool_size_bytes", KnobKind.SIZE_OR_SHARE, "bytes", "20%", "bytes of the pool",
             minimum=4 * KIB),
        Knob("behave", "behave", KnobKind.CHOICE, "", "ok", "what goes wrong in a run",
             choices=("ok", "crash", "silent", "stubborn", "io_error", "full_disk", "fill_disk", "corrupt", "capped",
                      "other_setting", "paused", "unanswered")),
        Knob("load_behave", "load_behave", KnobKind.CHOICE, "", "ok", "what goes wrong in the load",
             choices=("ok", "crash", "silent", "full_disk", "corrupt"), decides_file=True),
        Knob("pace_ms", "pace_ms", KnobKind.COUNT, "ms", "0", "real time slept for each virtual second",
             maximum=60_000),
    ),
    rates=Rates(
        load_bytes_per_s=100 * MIB,
        restore_bytes_per_s=1000 * MIB,
        warm_up_bytes_per_s=1000 * MIB,
        transactions_per_s=100_000.0,
        check_bytes_per_s=1000 * MIB,
    ),
    max_connections=1,
    connections_reason="the fake engine has one imaginary connection",
    results=RESULTS,  # It counts as SQLite does.
    needs_disk=False,
    frame_knob="pool_size",
    page_knob="page_size",
    min_frames=1,
    file_format="own",
    size_factor=0.005,
    source="predicted",
    inputs="given",
    clock="virtual",
    hidden=True,
)  # fmt: skip
