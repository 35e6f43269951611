"""The device's read-ahead as a knob of the engines whose reads go through the page cache. Pure data."""

from __future__ import annotations

from bufferlab.knob import Knob

AS_IS = "as_is"
"""The value that does not change the host's setting."""
NAME = "read_ahead"

READ_AHEAD = Knob.text(
    NAME,
    "the device's read-ahead (read_ahead_kb) during a run, put back afterwards; for reads through the "
    "page cache; needs root",
    pattern=r"as_is|0|[1-9][0-9]{0,5}",
    example="as_is, or KiB such as 0 or 128",
    default=AS_IS,
    spelling="",
)
