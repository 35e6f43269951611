"""What a random read covers and must cost, from its size and alignment alone.

A read of s bytes at a random multiple of a covers whole and partial pages of p bytes. Only where its offset lies in
its first page matters: at r = 0, g, 2g, ... p - g with g = gcd(a, p), each as often. From r it covers
ceil((r + s) / p) pages. With n = p / g places and k = ceil(s / g) steps that is ceil((j + k) / n) at place j, and

    sum over j of ceil((j + k) / n) = k + n - 1,   so that   E = (k + n - 1) / n.

(The n numbers j + k are consecutive, and ceil(m / n) summed over n consecutive m from k is k + n - 1.) For s = 8 KiB,
p = 4 KiB: a = 512 gives (16 + 7) / 8 = 2.875 pages, a = 4096 gives 2. Bytes that had to be fetched are E p, the
amplification E p / s. Without read-ahead the kernel asks for each missing page by itself; one touched before is
cached, so that N reads of a file of M pages ask for about M (1 - (1 - E / M)^N): each page is missed by a read with
probability 1 - E / M. Ends of the file, which are covered by fewer places, are left out.
"""

from __future__ import annotations

from math import gcd

PAGE_BYTES = 4096
"""Of the page cache."""


def pages_per_read(io_size_bytes: int, alignment_bytes: int) -> float:
    """Mean pages that a read covers, whole or in part.

    >>> pages_per_read(8192, 512), pages_per_read(16384, 512), pages_per_read(8192, 4096), pages_per_read(512, 512)
    (2.875, 4.875, 2.0, 1.0)
    """
    step = gcd(alignment_bytes, PAGE_BYTES)
    places, steps = PAGE_BYTES // step, -(-io_size_bytes // step)
    return (steps + places - 1) / places


def amplification(io_size_bytes: int, alignment_bytes: int) -> float:
    """Bytes of the pages a read covers, over the bytes it asks for.

    >>> amplification(8192, 512)
    1.4375
    """
    return pages_per_read(io_size_bytes, alignment_bytes) * PAGE_BYTES / io_size_bytes


def pages_first_touched(io_size_bytes: int, alignment_bytes: int, file_bytes: int, reads: float) -> float:
    """Mean pages that `reads` uniformly random reads find missing in a cache that held nothing and keeps everything.

    >>> round(pages_first_touched(8192, 512, 1 << 30, 10_000) / 10_000, 3)
    2.723
    """
    pages = file_bytes / PAGE_BYTES
    if pages <= 0:
        return 0.0
    missed = max(0.0, 1 - pages_per_read(io_size_bytes, alignment_bytes) / pages)
    return pages * float(1 - missed**reads)
