"""The part of the results that belongs to random reads of a bare file: metrics, formulas and checks."""

from __future__ import annotations

from bufferlab.engines.file.checks import CHECKS
from bufferlab.engines.file.formulas import QUANTITIES, READS, REQUESTS
from bufferlab.engines.file.metrics import DERIVED, RAW
from bufferlab.engines.file.words import OVER_TIME, SETTING_WORDS
from bufferlab.results.check import EngineResults

RESULTS = EngineResults(
    raw=RAW,
    derived=DERIVED,
    quantities=QUANTITIES,
    courses=frozenset({READS, REQUESTS}),
    checks=CHECKS,
    knob_words=SETTING_WORDS,
    over_time=OVER_TIME,
    has_pool=False,
    version_of="Linux",
    # A file that is only read has no checkpoints, which a long window would even out.
    needs_long_windows=False,
)
