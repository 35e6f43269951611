"""Computes the frames that a server's settings leave for data, before it is started and as it was read back. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bufferlab.knob import Value

#: MariaDB's own LRU scan depth from 10.11 on, where none was asked for. The value that a server tells replaces it.
_DEPTH = 1536


def mariadb_data_frames(values: Mapping[str, Value], frames: int) -> int:
    """Return how many of a pool's frames hold pages. A build whose version is not known yet is taken for a new one."""
    from bufferlab.theory.hot_rows import frames_of_data  # It needs numpy, half of the start of a worker.

    found = re.search(r"(\d+)\.(\d+)", str(values.get("version") or values.get("server") or ""))
    if found and (int(found[1]), int(found[2])) < (10, 5):
        return frames
    return frames_of_data(frames, int(values.get("lru_scan_depth") or _DEPTH))
