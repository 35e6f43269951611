"""Numbers pages consecutively from 0, given their names or their numbers in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

_SAMPLED = 100


def of_names(names: pl.Series) -> NDArray[np.uint32]:
    """Return each name's rank among all distinct names.

    Names that are integers are not sorted as text, which is slow.
    """
    import polars as pl

    if names.head(_SAMPLED).cast(pl.UInt64, strict=False).null_count():
        return _ranked(names)
    number = names.cast(pl.UInt64, strict=False)
    is_written_otherwise = (names.str.starts_with("0") & (names.str.len_bytes() > 1)) | names.str.starts_with("+")
    if not number.null_count() and not is_written_otherwise.any():
        return of_numbers(number.to_numpy())
    return _ranked(names)


def of_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Return each number's rank among all distinct numbers. Numbers without wide gaps need no sort."""
    if len(numbers) and numbers.max() < 4 * len(numbers):
        there = np.zeros(int(numbers.max()) + 1, np.uint32)
        there[numbers] = 1
        places: NDArray[np.uint32] = np.cumsum(there, dtype=np.uint32)[numbers] - np.uint32(1)
        return places
    import polars as pl

    return _ranked(pl.Series(numbers))


def in_files(numbers: NDArray[np.uint64], file: NDArray[np.uint32] | None) -> NDArray[np.uint32]:
    """Return each page's rank among all distinct pages; equal numbers in different files are different pages."""
    if file is None or not len(file) or not file.max():
        return of_numbers(numbers)
    if (int(file.max()) + 1) * (int(numbers.max()) + 1) >= 1 << 64:
        numbers = of_numbers(numbers).astype(np.uint64)
    return of_numbers(file.astype(np.uint64) * (numbers.max() + np.uint64(1)) + numbers)


def _ranked(values: pl.Series) -> NDArray[np.uint32]:
    return values.rank("dense").to_numpy().astype(np.uint32) - np.uint32(1)
