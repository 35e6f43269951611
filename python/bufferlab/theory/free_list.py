"""Predicts how many frames of a pool hold pages of data, where a server keeps others free for the next reads.

From 10.5 on, MariaDB's page cleaner begins when the free list is shorter than half of innodb_lru_scan_depth. It frees
pages at the LRU list's tail until the free list has that depth, as long as more than 256 pages are left (buf0lru.cc:
buf_LRU_get_free_block; buf0flu.cc: buf_flush_LRU_list_batch). So the list has three quarters of that depth on average.
In other servers and versions the cleaner looks once a second, and a thread that finds the list empty frees a page by
itself. So a pool that misses often keeps nothing free.
"""

from __future__ import annotations

_LEAST_DATA = 256


def frames_of_data(frames: int, depth: int) -> int:
    """Return how many of a pool's frames hold pages on average, for this innodb_lru_scan_depth.

    >>> frames_of_data(507, 100), frames_of_data(507, 1536), frames_of_data(200, 1536)
    (432, 256, 200)
    """
    return max(frames - 3 * depth // 4, min(frames, _LEAST_DATA))
