"""Predicts the pages that a random read covers, and the bytes that it costs, from its size and alignment alone.

A read of s bytes, at a random multiple of a bytes, covers whole and partial pages of p bytes. Only its offset r in the
first page matters: r = 0, g, 2g, ... p - g with g = gcd(a, p), each equally likely. From r the read covers
ceil((r + s) / p) pages. With n = p / g offsets and k = ceil(s / g) steps that is ceil((j + k) / n) at offset j, and

    sum over j of ceil((j + k) / n) = k + n - 1,   so that   E = (k + n - 1) / n.

(The n numbers j + k are consecutive, and ceil(m / n) summed over n consecutive m from k is k + n - 1.) For s = 8 KiB,
p = 4 KiB: a = 512 gives (16 + 7) / 8 = 2.875 pages, a = 4096 gives 2. The bytes to fetch are E p, the amplification is
E p / s. Without read-ahead the kernel requests each missing page separately, and a page read before is cached. A read
of a file of M pages leaves a given page untouched with probability 1 - E / M. So N reads request about
M (1 - (1 - E / M)^N) pages. This neglects that fewer reads cover the ends of the file.
"""

from __future__ import annotations

from math import gcd

PAGE_BYTES = 4096
"""The size of a page in the kernel's page cache, in bytes."""


def pages_per_read(io_size_bytes: int, alignment_bytes: int) -> float:
    """Return the mean number of pages that a read covers wholly or in part.

    >>> pages_per_read(8192, 512), pages_per_read(16384, 512), pages_per_read(8192, 4096), pages_per_read(512, 512)
    (2.875, 4.875, 2.0, 1.0)
    """
    step = gcd(alignment_bytes, PAGE_BYTES)
    places, steps = PAGE_BYTES // step, -(-io_size_bytes // step)
    return (steps + places - 1) / places


def amplification(io_size_bytes: int, alignment_bytes: int) -> float:
    """Return the bytes of the pages that a read covers, divided by the bytes that it requests.

    >>> amplification(8192, 512)
    1.4375
    """
    return pages_per_read(io_size_bytes, alignment_bytes) * PAGE_BYTES / io_size_bytes


def pages_first_touched(io_size_bytes: int, alignment_bytes: int, file_bytes: int, reads: float) -> float:
    """Return the mean number of pages that `reads` random reads miss in a cache that is empty at first and keeps all.

    >>> round(pages_first_touched(8192, 512, 1 << 30, 10_000) / 10_000, 3)
    2.723
    """
    pages = file_bytes / PAGE_BYTES
    if pages <= 0:
        return 0.0
    missed = max(0.0, 1 - pages_per_read(io_size_bytes, alignment_bytes) / pages)
    return pages * float(1 - missed**reads)
