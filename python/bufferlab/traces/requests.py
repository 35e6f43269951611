"""Divides the requests of a block trace into the pages that they touch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bufferlab.traces.numbering import in_files
from bufferlab.traces.page_trace import Accesses, TraceReading, number_of
from bufferlab.traces.unpacked import most_accesses, too_many

DEFAULT_PAGE_BYTES = 4096
SECTOR_BYTES = 512
#: The largest plausible offset and size of a request, in bytes. Their sum must fit into 64 bits.
MOST_OFFSET_BYTES, MOST_SIZE_BYTES = 1 << 62, 1 << 40


@dataclass(frozen=True)
class Requests:
    """The requests of a block trace; all arrays are of one length."""

    first_byte: NDArray[np.uint64]
    """The offset in bytes of each request, below MOST_OFFSET_BYTES."""
    size_bytes: NDArray[np.uint64] | None
    """The size in bytes of each request, below MOST_SIZE_BYTES; None if each request is of one page."""
    time_s: NDArray[np.float64]
    file: NDArray[np.uint32] | None = None
    """The number of the disk or file; None if there is only one disk or file."""
    kind: NDArray[np.uint8] | None = None
    """The code of each request's kind; None if all are gets."""


def touched(
    requests: Requests, page_bytes: int, path: Path, page_size_bytes: int | None, how: TraceReading
) -> Accesses:
    """Return a touch for each page of `page_bytes` that a request covers, in the order of the requests' times.

    Raise DataFileError when there are more touches than fit into the free memory.
    """
    first = requests.first_byte // np.uint64(page_bytes)
    order = None
    if (requests.time_s[1:] < requests.time_s[:-1]).any():
        order = np.argsort(requests.time_s, kind="stable")
    if requests.size_bytes is None:
        request = order
        page = first if order is None else first[order]
    else:
        last = (requests.first_byte + np.maximum(requests.size_bytes, 1) - np.uint64(1)) // np.uint64(page_bytes)
        count = last - first + np.uint64(1)
        if int(count.max()) > most_accesses() or float(count.sum(dtype=np.float64)) > most_accesses():
            raise too_many(path)
        rows = np.arange(len(first)) if order is None else order
        count = count[rows].astype(np.int64)
        request = np.repeat(rows, count)
        # Touch number n belongs to a request. Its page is the request's first page + n - the number of touches before
        # the request.
        page = np.arange(len(request), dtype=np.uint64)
        page += np.repeat(first[rows] - (np.cumsum(count) - count).astype(np.uint64), count)
    rows_of = slice(None) if request is None else request
    file = None if requests.file is None else requests.file[rows_of]
    kind = np.full(len(page), number_of("get"), np.uint8) if requests.kind is None else requests.kind[rows_of]
    return Accesses(in_files(page, file), kind, requests.time_s[rows_of], page_size_bytes, reading=how)
