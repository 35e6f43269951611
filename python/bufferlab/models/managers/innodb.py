"""What the models of InnoDB share: when `old_blocks_time` decides more than a trace can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bufferlab.models.managers.declaration import BothEnds, Point, Server, Settings

PRESUMES: Mapping[str, int | str] = {"buffer_pool_instances": 1, "change_buffering": "none"}
READ_AHEAD = ("innodb_buffer_pool_read_ahead", "innodb_buffer_pool_read_ahead_rnd")

_NEVER = 2**32 - 1
"""The `old_blocks_time` with which no page becomes young."""
_OLD_MIN_LEN = 512
"""Shortest list with an old sublist (buf0lru.h, BUF_LRU_OLD_MIN_LEN)."""
_SAFE = 5
"""A sublist that lives this many times `old_blocks_time` is predicted."""
_FORGETS = 10
"""A window that fills the pool this many times forgets how the run came to it."""


def common(values: Mapping[str, int]) -> dict[str, int]:
    """Return the settings that every model of InnoDB takes."""
    return {
        "old_blocks_pct": values["old_blocks_pct"],
        "old_blocks_time_ms": values["old_blocks_time"],
        "lru_scan_depth": values["lru_scan_depth"],
    }


def both_ends(settings: Callable[[Server, Mapping[str, int]], Settings]) -> Callable[[Point], BothEnds | None]:
    """Return the function that tells of a point whether its old sublist lives too short, in the window or before it.

    Which pages are young then depends on speed and on history for thousands of transactions: seen on MySQL 5.7.22.
    """

    def at(point: Point) -> BothEnds | None:
        time_s = point.values["old_blocks_time"] / 1000
        speeds = {"trace's speed": point.reads_per_s}
        if point.turnovers_in_window < _FORGETS:
            speeds["trace's speed before the window"] = point.reads_per_s_before
        speed, reads_per_s = max(speeds.items(), key=lambda one: one[1])
        if not time_s or point.frames < _OLD_MIN_LEN or not reads_per_s:
            return None
        life_s = point.frames * point.values["old_blocks_pct"] / 100 / reads_per_s
        if life_s >= _SAFE * time_s:
            return None
        why = (
            f"old_blocks_time is {time_s:g} s and the old sublist lives {life_s:.2g} s at the {speed}, less than "
            f"{_SAFE} times as long: which pages become young depends on speed and history"
        )
        ends = [("old_blocks_time 0", 0), ("never young", _NEVER)]
        first, last = (
            (name, settings(point.server, {**point.values, "old_blocks_time": time_ms})) for name, time_ms in ends
        )
        return BothEnds(why, (first, last))

    return at
