"""What random reads of a bare file own of their results."""

from __future__ import annotations

from bufferlab.engines.file.checks import CHECKS
from bufferlab.engines.file.formulas import formulas
from bufferlab.engines.file.metrics import DERIVED, RAW
from bufferlab.results.check import EngineResults

RESULTS = EngineResults(
    raw=RAW,
    derived=DERIVED,
    formulas=formulas,
    checks=CHECKS,
    has_pool=False,
    # What is only read has no checkpoints that a long window would even out.
    needs_long_windows=False,
)
