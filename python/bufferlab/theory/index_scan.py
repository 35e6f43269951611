"""Predicts the pages that one query reads from a cold pool: by a sequential scan, an index scan, or a bitmap scan.

A sequential scan reads every page of the table once, with any pool size. An index scan gets a page for each row that it
wants. If a pool of B pages holds a part of the T pages of the table, a random row's page is in the pool with
probability B / T. So the scan reads about rows (1 - B / T) pages, but never fewer than the distinct pages of its rows
(Yao, CACM 20(4), 1977; `hot_rows.distinct_pages`). A bitmap scan first sorts the rows by page, and reads each page
once. An index scan and a bitmap scan also read the leaves of the part of the index that they scan. The model assumes
that rows are at random places in the table, and that the pool holds only pages of the table.
"""

from __future__ import annotations

from typing import Literal

from bufferlab.theory.hot_rows import distinct_pages

Plan = Literal["sequential", "index_scan", "bitmap"]


def pages_read(
    plan: Plan, table_pages: int, rows: int, wanted_rows: int, index_leaf_pages: int, pool_pages: float
) -> float:
    """Return the expected number of pages that miss a pool of `pool_pages` if a query wants `wanted_rows` of `rows`.

    >>> pages_read("sequential", 1000, 80_000, 40_000, 200, 100)
    1000.0
    >>> pages_read("index_scan", 1000, 80_000, 40_000, 200, 100)
    36100.0
    >>> round(pages_read("index_scan", 1000, 80_000, 40_000, 200, 2000))
    1100
    """
    if plan == "sequential":
        return float(table_pages)
    leaves = index_leaf_pages * wanted_rows / rows
    distinct = distinct_pages(wanted_rows, table_pages, rows)
    if plan == "bitmap":
        return leaves + distinct
    return leaves + max(distinct, wanted_rows * (1 - pool_pages / table_pages))
