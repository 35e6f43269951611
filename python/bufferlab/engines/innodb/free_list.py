"""Frames that a server's settings leave for data, before it is started and as it was read back. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bufferlab.knob import Value
from bufferlab.models.free_list import frames_of_data

#: Where nothing is asked: MariaDB's own from 10.11 on. What a server tells replaces it.
_DEPTH = 1536


def mariadb_data_frames(values: Mapping[str, Value], frames: int) -> int:
    """Of a pool's frames those that hold pages; a build whose version is not known yet is taken for a new one."""
    found = re.search(r"(\d+)\.(\d+)", str(values.get("version") or values.get("server") or ""))
    if found and (int(found[1]), int(found[2])) < (10, 5):
        return frames
    return frames_of_data(frames, int(values.get("lru_scan_depth") or _DEPTH))
