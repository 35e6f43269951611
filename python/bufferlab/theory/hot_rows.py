"""The analytic model of the workload hot_rows: how many hot rows fit into a pool, and how often it misses beyond that.

The model needs only a b-tree's number of pages per level, and knows no engine. Distinct pages follow the hypergeometric
distribution (Yao, CACM 20(4), 1977); misses of LRU follow Che's approximation (Che, Tung and Wang, IEEE JSAC 20(7),
2002) under independent references. The estimated tree follows SQLite's file format, sections 1.6 and 2.1.

From 10.5 on, MariaDB's page cleaner begins when the free list is shorter than half of innodb_lru_scan_depth. It frees
pages at the LRU list's tail until the free list has that depth, as long as more than 256 pages are left (buf0lru.cc:
buf_LRU_get_free_block; buf0flu.cc: buf_flush_LRU_list_batch). So the free list has three quarters of that depth on
average. In other servers and versions the cleaner checks once a second, and a thread that finds the free list empty
frees a page itself. So a pool with many misses has almost no free frames. `frames_of_data` predicts how many frames
hold pages in MariaDB from 10.5 on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Layout = Literal["scattered", "clustered"]

#: The key, in a tree's table, for the number of rows in a leaf's neighbours whose lookup also gets this leaf.
EDGE_ROWS = "edge_rows"
#: The pages besides the tree that every transaction reads: the file's first page.
_FIRST_PAGE = 1
_LEAF_HEADER_BYTES, _INTERIOR_HEADER_BYTES, _CELL_POINTER_BYTES, _CHILD_POINTER_BYTES = 8, 12, 2, 4
#: The bytes of the two texts of sysbench's table: ten and five groups of eleven digits, joined by a dash.
_C_BYTES, _PAD_BYTES = 119, 59
#: The bytes of the record's header (the header's length, id as NULL, k, c, pad), and of the record's length.
_RECORD_HEADER_BYTES, _RECORD_LENGTH_BYTES = 7, 2
#: The fill of a table's interior pages after a load in key order, as a fraction (observed on SQLite 3.40 and 3.50).
_INTERIOR_FILL = 0.9
#: Numbers of hot rows per page that are further from the mean than this many standard deviations are neglected.
_STANDARD_DEVIATIONS = 12.0


def estimated_tree(rows: int, page_size_bytes: int) -> dict[str, Any]:
    """Return {"rows", "level_pages"} of sysbench's table on SQLite, filled in key order; levels begin at the root.

    >>> estimated_tree(400_000, 16_384)["level_pages"]
    [1, 3, 4763]
    """
    pages = 0
    for first, last, key_bytes in _key_lengths(rows):
        cell = _row_bytes(rows, key_bytes) + _CELL_POINTER_BYTES
        pages += math.ceil((last - first + 1) / max(1, int((page_size_bytes - _LEAF_HEADER_BYTES) / cell)))
    interior_cell = _CHILD_POINTER_BYTES + _varint_bytes(rows) + _CELL_POINTER_BYTES
    # A page has one child more than it has cells: the header has the right-most child's pointer.
    fan_out = int(_INTERIOR_FILL * (page_size_bytes - _INTERIOR_HEADER_BYTES) / interior_cell) + 1
    levels = [pages]
    while levels[0] > 1:
        levels.insert(0, math.ceil(levels[0] / fan_out))
    return {"rows": rows, "level_pages": levels}


def distinct_pages(hot_rows: float, pages: float, rows: int | None = None, edge_rows: int = 0) -> float:
    """Return the expected number of pages that hold at least one of `hot_rows` rows drawn without replacement.

    `rows` is the number of the table's rows; without it, pages are assumed to have many rows each: P(1-exp(-N/P)). The
    `edge_rows` neighbouring rows of each page count as rows of that page.

    >>> round(distinct_pages(8447, 137_152))
    8192
    """
    if pages <= 1:
        return float(min(pages, hot_rows))
    if rows is None:
        return pages * -math.expm1(-hot_rows / pages)
    kinds = _page_kinds(pages, rows, edge_rows)
    return pages - sum(count * _untouched(hot_rows, held, rows) for held, count in kinds)


def touched_pages(hot_rows: float, tree: Mapping[str, Any], rows: int, layout: Layout) -> list[float]:
    """Return the expected number of pages that lookups touch on each level of the tree, from the root to the leaves."""
    levels = _levels(tree)
    if layout == "clustered":
        # This is the mean number of pages that N consecutive rows touch if they begin at a random row of a page.
        return [min(float(pages), 1 + (hot_rows - 1 + edge) * pages / rows) for pages, edge in levels]
    return [distinct_pages(hot_rows, pages, rows, edge) for pages, edge in levels]


def predicted_knee(tree: Mapping[str, Any], rows: int, frames: float, layout: Layout) -> int | None:
    """Return the largest number of hot rows whose pages all fit: leaves, interior pages above them, the first page.

    Return None if the whole table fits, because there cannot be a knee, and 0 if not even one row's pages fit.
    """

    def fits(hot_rows: int) -> bool:
        return sum(touched_pages(hot_rows, tree, rows, layout)) + _FIRST_PAGE <= frames

    if fits(rows):
        return None
    low, high = 0, rows
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def miss_ratio(hot_rows: int, tree: Mapping[str, Any], rows: int, frames: float, layout: Layout) -> float:
    """Return the misses per select of a warm LRU pool. Each select draws one of the hot rows with equal probability."""
    return _misses(_references(hot_rows, _levels(tree), rows, layout), frames)


def fit_effective_frames(
    measured: Sequence[tuple[int, float]], tree: Mapping[str, Any], rows: int, layout: Layout, frames: float
) -> float | None:
    """Return the number of frames with which the model fits measured (hot rows, misses per select) by least squares.

    The search goes from a quarter of `frames` to four times `frames`. Return None if no measurement has more than 0.01
    misses per select, because then none determines a knee.
    """
    from scipy.optimize import minimize_scalar

    curves = [(_references(hot_rows, _levels(tree), rows, layout), misses) for hot_rows, misses in measured]
    if not any(misses > 0.01 for _, misses in curves):
        return None

    def squares(log_frames: float) -> float:
        return sum((_misses(references, math.exp(log_frames)) - misses) ** 2 for references, misses in curves)

    # The sum of squares is flat far from its minimum, so the search is first coarse, then fine around the best point.
    grid = np.linspace(math.log(frames / 4), math.log(frames * 4), 41)
    best = int(np.argmin([squares(float(place)) for place in grid]))
    bounds = (grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    found = minimize_scalar(squares, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return math.exp(float(found.x))


@dataclass(frozen=True)
class _References:
    """The kinds of pages: the number of pages of each kind, and how often a select refers to one of them."""

    pages: Array
    per_select: Array


def _levels(tree: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return (pages, edge rows) of each level. Only on the level of the leaves may a lookup get a neighbour too."""
    *interior, leaves = tree["level_pages"]
    return (*((pages, 0) for pages in interior), (leaves, tree.get(EDGE_ROWS, 0) if leaves > 1 else 0))


@lru_cache(maxsize=256)
def _references(hot_rows: int, levels: tuple[tuple[int, int], ...], rows: int, layout: Layout) -> _References:
    kinds: list[tuple[float, float]] = [(1.0, 1.0)]  # The first page of the file: every select refers to it.
    for pages, edge in levels:
        if layout == "clustered":
            tree = {"level_pages": [pages], EDGE_ROWS: edge}
            (reached,) = touched_pages(hot_rows, tree, rows, layout)
            kinds.append((reached, (1 + edge * pages / rows) / reached))
        elif pages == 1:
            kinds.append((1.0, 1.0))
        else:
            kinds += _by_hot_rows(hot_rows, pages, rows, edge)
    counts, rates = np.array(kinds, dtype=np.float64).T
    return _References(counts, rates)


def _by_hot_rows(hot_rows: int, pages: int, rows: int, edge_rows: int) -> Iterable[tuple[float, float]]:
    """Return (number of pages, references per select) by h, the number of hot rows in a page: h/N references each.

    The distribution of h is hypergeometric.
    """
    from scipy.special import gammaln

    def log_choose(n: Any, k: Any) -> Any:
        return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)

    kinds: list[tuple[float, float]] = []
    for held, count in _page_kinds(pages, rows, edge_rows):
        mean = hot_rows * held / rows
        reach = _STANDARD_DEVIATIONS * math.sqrt(mean) + 10
        least, most = max(0, held - (rows - hot_rows)), min(held, hot_rows)
        hot = np.arange(max(1, least, math.floor(mean - reach)), min(most, math.ceil(mean + reach)) + 1)
        log_share = log_choose(held, hot) + log_choose(rows - held, hot_rows - hot) - float(log_choose(rows, hot_rows))
        kinds += zip((count * np.exp(log_share)).tolist(), (hot / hot_rows).tolist(), strict=True)
    return kinds


def _misses(references: _References, frames: float) -> float:
    """Return the misses per select by Che's approximation: a page stays for a time T after its last use.

    T is the time at which the pages that stay fill the frames.
    """
    from scipy.optimize import brentq

    pages, rates = references.pages, references.per_select
    if float(pages.sum()) <= frames:
        return 0.0

    def too_many(log_selects: float) -> float:
        return float(pages @ -np.expm1(-rates * math.exp(log_selects))) - frames

    high = math.log(50 / float(rates.min()))
    low = math.log(1e-6)
    if too_many(low) >= 0:
        return float(pages @ rates)
    if too_many(high) <= 0:
        return 0.0
    selects = math.exp(brentq(too_many, low, high, xtol=1e-10))
    return float((pages * rates) @ np.exp(-rates * selects))


def _page_kinds(pages: float, rows: int, edge_rows: int = 0) -> list[tuple[int, float]]:
    """Return (rows whose lookup gets a page, number of such pages) with whole rows, so that pages and rows add up."""
    low = int(rows // pages)
    fuller = rows - low * pages
    kinds = ((low, pages - fuller), (low + 1, fuller))
    return [(min(rows, held + edge_rows), count) for held, count in kinds if held and count]


def _untouched(hot_rows: float, held: int, rows: int) -> float:
    """Return the probability that none of a page's rows is hot."""
    if hot_rows > rows - held:
        return 0.0
    cold = math.lgamma(rows - held + 1) - math.lgamma(rows - held - hot_rows + 1)
    return math.exp(cold - math.lgamma(rows + 1) + math.lgamma(rows - hot_rows + 1))


def _key_lengths(rows: int) -> Iterable[tuple[int, int, int]]:
    """Yield (first id, last id, bytes of their varints) over the ids 1..rows."""
    first = 1
    while first <= rows:
        key_bytes = _varint_bytes(first)
        last = min(rows, 2 ** (7 * key_bytes) - 1)
        yield first, last, key_bytes
        first = last + 1


def _varint_bytes(value: int) -> int:
    """Return the bytes of a number as SQLite's variable-length integer, which has seven bits per byte."""
    return max(1, math.ceil(value.bit_length() / 7))


def _row_bytes(rows: int, key_bytes: int) -> float:
    """Return a leaf cell's bytes: the record's length, key, header, k (mean over 1..rows) and the two texts."""
    fixed = _RECORD_LENGTH_BYTES + key_bytes + _RECORD_HEADER_BYTES + _C_BYTES + _PAD_BYTES
    return fixed + _mean_integer_bytes(rows)


def _mean_integer_bytes(rows: int) -> float:
    """Return the mean bytes of k in a record if k is spread evenly over 1..rows: 1, 2, 3, 4 or 6 bytes by its value."""
    total, below = 0.0, 0
    for limit, width in ((2**7 - 1, 1), (2**15 - 1, 2), (2**23 - 1, 3), (2**31 - 1, 4), (2**47 - 1, 6)):
        upto = min(rows, limit)
        total += max(0, upto - below) * width
        below = max(below, upto)
    return total / rows


_LEAST_DATA = 256


def frames_of_data(frames: int, depth: int) -> int:
    """Return the mean number of a pool's frames that hold pages, for an innodb_lru_scan_depth of `depth`.

    >>> frames_of_data(507, 100), frames_of_data(507, 1536), frames_of_data(200, 1536)
    (432, 256, 200)
    """
    return max(frames - 3 * depth // 4, min(frames, _LEAST_DATA))
