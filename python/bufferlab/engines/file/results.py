"""The part of the results that belongs to random reads of a bare file: metrics, formulas and checks."""

from __future__ import annotations

from bufferlab.engines.file.checks import CHECKS
from bufferlab.engines.file.metrics import Rates, Reads
from bufferlab.engines.file.words import OVER_TIME, SETTING_WORDS
from bufferlab.results.check import EngineResults
from bufferlab.results.metrics import Device

RESULTS = EngineResults(
    raw=Reads.rows,
    derived=Rates.rows,
    courses=frozenset({Reads.logical_reads.name, Device.device_reads.name}),
    checks=CHECKS,
    knob_words=SETTING_WORDS,
    over_time=OVER_TIME,
    pool="",
    version_of="Linux",
    # A file that is only read has no checkpoints, which a long window would even out.
    needs_long_windows=False,
)
