"""The words of a reader for the settings of random reads: axes, legends, sentences. Pure data."""

from __future__ import annotations

from bufferlab.engines.read_ahead_knob import READ_AHEAD_WORDS
from bufferlab.results.check import SettingWords

#: The settings in the order in which a point is named.
SETTING_WORDS = {
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

OVER_TIME = {
    "iops": "Reads per second",
    "device_requests_per_s": "Device requests per second",
}
