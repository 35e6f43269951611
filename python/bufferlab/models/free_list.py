"""How many frames of a pool hold pages of data, where a server keeps others free for the next reads.

MariaDB's page cleaner, from 10.5 on, begins when the free list is shorter than half of innodb_lru_scan_depth and frees
pages at the LRU list's tail until it is that long, as long as more than 256 pages are left (buf0lru.cc:
buf_LRU_get_free_block; buf0flu.cc: buf_flush_LRU_list_batch). So the list is on average three quarters of it long.
Elsewhere the cleaner looks once a second, and a thread that finds the list empty frees a page by itself: where a pool
misses often, nothing is kept free.
"""

from __future__ import annotations

_LEAST_DATA = 256


def frames_of_data(frames: int, depth: int) -> int:
    """Of a pool's frames those that hold pages, on average, where so deep a free list is kept.

    >>> frames_of_data(507, 100), frames_of_data(507, 1536), frames_of_data(200, 1536)
    (432, 256, 200)
    """
    return max(frames - 3 * depth // 4, min(frames, _LEAST_DATA))
