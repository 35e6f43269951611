"""The read-ahead knob in the words of reports.

This module is separate from the knob's, because `bufferlab list` needs the knob but not the results' schema.
"""

from __future__ import annotations

from bufferlab.engines.read_ahead_knob import AS_IS
from bufferlab.results.check_parts import SettingWords

READ_AHEAD_WORDS = SettingWords(
    "read-ahead", "Read-ahead of the device (KiB)", "read-ahead", "KiB", values={AS_IS: "the host's read-ahead"}
)
