"""The part of the results that belongs to random reads of a bare file: metrics, formulas, checks and the words
of its settings.
"""

from __future__ import annotations

from bufferlab.engines.file.checks import CHECKS
from bufferlab.engines.file.metrics import Rates, Reads
from bufferlab.engines.read_ahead_knob import READ_AHEAD_WORDS
from bufferlab.results.check import EngineResults, SettingWords
from bufferlab.results.metrics import Device

#: The settings in the order in which a point is named.
_SETTING_WORDS = {
    "device": SettingWords(
        "the device",
        "Device",
        values={"as_is": "the file as it is", "loop": "loop device", "tmpfs_loop": "loop device over memory"},
    ),
    "io_mode": SettingWords(
        "the I/O mode", "I/O mode", values={"direct": "direct", "buffered": "buffered", "mmap": "mapped"}
    ),
    "io_size": SettingWords("the size of a read", "Size of a read", "reads of"),
    "alignment": SettingWords(
        "the alignment",
        "Alignment of offsets",
        values={"io_size": "aligned", "512": "512 B aligned", "4096": "4 KiB aligned"},
    ),
    "read_ahead": READ_AHEAD_WORDS,
}

_OVER_TIME = {
    "iops": "Reads per second",
    "device_requests_per_s": "Device requests per second",
}

RESULTS = EngineResults(
    raw=Reads.rows,
    derived=Rates.rows,
    courses=frozenset({Reads.logical_reads.name, Device.device_reads.name}),
    checks=CHECKS,
    knob_words=_SETTING_WORDS,
    over_time=_OVER_TIME,
    version_of="Linux",
    # A file that is only read has no checkpoints, which a long window would even out.
    needs_long_windows=False,
)
