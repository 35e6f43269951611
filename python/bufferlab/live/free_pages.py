"""Finds why pages of the pool are free, and a remedy: the pool was never filled, or InnoDB's page cleaner keeps them
free.

The cleaner evicts pages until `innodb_lru_scan_depth` of each instance are free (buf0flu.cc, buf_flush_LRU_list_batch):
once a second on MySQL, and on MariaDB from 10.5 on whenever only half of them are left. A read takes its frame from
this free list.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bufferlab.live import constants
from bufferlab.live.look_result import Seen
from bufferlab.units import format_bytes, format_percent

_DEPTH = "innodb_lru_scan_depth"
_LEAST_DEPTH = 100
"""The least value of innodb_lru_scan_depth (ha_innodb.cc)."""
_RESERVE = 2
"""The recommended length of the free list, as a multiple of the pages taken in the busiest second.

In experiments/scan-depth on MySQL 5.7, with 6,400 pages, 128 free ones sufficed. A depth of 1,024 read 6 % more, and no
difference in throughput was resolved.
"""
_NO_MATTER = 0.01
"""If a lower depth gains less than this fraction of the pool for data, it changes little.

In the trials of docs/advice-accuracy.md 25 % more frames save up to 37 % of the reads, so 1 % more saves about 1.5 %.
"""


def ratio(seen: Seen) -> float:
    """Return the fraction of the pool that was free at both ends of the observation; 0 if unknown."""
    ends = [end["free_pages"] / max(1, end["pool_pages"]) for end in _ends(seen)
            if {"free_pages", "pool_pages"} <= end.keys()]  # fmt: skip
    return min(ends) if len(ends) == 2 else 0.0


def _ends(seen: Seen) -> list[Mapping[str, float]]:
    return [one.values for one in (seen.begin, seen.end) if one]


def _instances(seen: Seen) -> int:
    return max(1, int(seen.facts.settings.get("innodb_buffer_pool_instances", 1)))


def was_never_filled(seen: Seen) -> bool:
    """Return whether much of the pool is free, and more than the page cleaner keeps free."""
    share, pages = ratio(seen), seen.begin.values.get("pool_pages", 0)
    kept = int(seen.facts.settings.get(_DEPTH, 0)) * _instances(seen)
    return share >= constants.FREE_RATIO and share * pages > constants.BEYOND_CLEANER * kept


@dataclass(frozen=True)
class Kept:
    """The pages that InnoDB's page cleaner keeps free, and the scan depth that would suffice."""

    depth: int
    instances: int
    free_pages: float
    """The mean number of free pages during the observation."""
    pool_pages: float
    page_size_bytes: int
    most_per_s: float
    """The most pages read or created in a second, averaged over the pool's instances."""

    @property
    def enough(self) -> int:
        """Return the scan depth that keeps _RESERVE times as many pages free as were taken in the busiest second.

        >>> Kept(1024, 1, 900.0, 8192.0, 16384, 130.5).enough
        261
        """
        return max(_LEAST_DEPTH, math.ceil(_RESERVE * self.most_per_s))

    @property
    def gained_pages(self) -> int:
        """Return the number of free pages that a scan depth of `enough` would give to data; 0 if there are none.

        >>> Kept(1024, 1, 900.0, 8192.0, 16384, 130.5).gained_pages
        639
        """
        return max(0, math.floor(self.free_pages) - self.instances * self.enough)

    @property
    def sentence(self) -> str:
        """Return the sentences on these pages: the gain of a lower depth, or why it should stay."""
        setting = f"{_DEPTH} is {self.depth:,}" + (
            f" in each of {self.instances} instances" if self.instances > 1 else ""
        )
        kept = (
            f"The page cleaner keeps {format_percent(self.free_pages / self.pool_pages)} of the pool free ({setting})"
        )
        if not self.gained_pages:
            return (
                f"{kept}. No lower depth is safe by this look: in one second {self._came:,} pages came in, and the "
                f"free list should have {_RESERVE} times as many. SET GLOBAL would try one without a restart: "
                "Innodb_buffer_pool_wait_free shows whether the list runs empty."
            )
        size = format_bytes(self.gained_pages * self.page_size_bytes)
        if self.gained_pages < _NO_MATTER * self.pool_pages:
            return f"{kept}. It hardly matters: a lower depth would leave {self.gained_pages:,} pages ({size}) to data."
        return (
            f"{kept}. SET GLOBAL {_DEPTH} = {self.enough} would leave {self.gained_pages:,} of these pages ({size}) to "
            f"data, without a restart; the busiest second of the look took {self._came:,}."
        )

    @property
    def _came(self) -> int:
        return math.ceil(self.most_per_s * self.instances)


def kept(seen: Seen) -> Kept | None:
    """Return the pages that the page cleaner keeps free; None if there are few, or they have another cause."""
    rows, settings = seen.window.rows, seen.facts.settings
    free = [row.levels["free_pages"] for row in rows if "free_pages" in row.levels]
    free = free or [end["free_pages"] for end in _ends(seen) if "free_pages" in end]
    pages = seen.begin.values.get("pool_pages", 0.0)
    if not int(settings.get(_DEPTH, 0)) or not free or not pages or was_never_filled(seen):
        return None
    came = [
        (row.counts.get("pages_read", 0.0) + row.counts.get("pages_created", 0.0)) / row.seconds
        for row in rows
        if row.seconds
    ]
    found = Kept(
        int(settings[_DEPTH]), _instances(seen), sum(free) / len(free), pages, seen.facts.page_size_bytes,
        max(came, default=0.0) / _instances(seen),
    )  # fmt: skip
    return found if found.free_pages >= _NO_MATTER * pages and seen.window.totals["misses"] else None
