"""Mutator of tables: hostile values, rows and columns. Every choice comes from the random generator that is given."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

from campaign import mutate

_Change = Callable[[pl.DataFrame, Any, random.Random], pl.DataFrame]
_FLOATS = (None, 0.0, -1.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), 1.5)
_INTEGERS = (None, 0, -1, 1, 2**63 - 1, -(2**63), 10**15)


def _values(frame: pl.DataFrame, _columns: Any, rng: random.Random) -> pl.DataFrame:
    """Put hostile values of the right type into some rows of one column."""
    if not frame.height or not frame.width:
        return frame
    name = rng.choice(frame.columns)
    values: list[Any] = frame[name].to_list()
    kind = frame.schema[name]
    choices: Sequence[Any]
    if kind == pl.Float64:
        choices = _FLOATS
    elif kind == pl.Int64:
        choices = _INTEGERS
    elif kind.is_unsigned_integer():
        bits = 8 if kind == pl.UInt8 else 16 if kind == pl.UInt16 else 32
        choices = (None, 0, 1, 6, 7, 2**bits - 1)
    elif kind == pl.String:
        known = [value for value in set(values) if value is not None]
        choices = (None, *sorted(known)[:20], *(word for word in mutate.WORDS if len(word) < 1000))
    else:
        return frame
    wanted = rng.choice(choices)
    share = rng.choice((0.0, 0.01, 0.5, 1.0))
    only = rng.randrange(len(values))
    changed = [wanted if at == only or rng.random() < share else value for at, value in enumerate(values)]
    return frame.with_columns(pl.Series(name, changed, dtype=kind))


def _rows(frame: pl.DataFrame, _columns: Any, rng: random.Random) -> pl.DataFrame:
    """Remove, double, reverse or shuffle rows."""
    height = frame.height
    match rng.randrange(7):
        case 0:
            return frame.clear()
        case 1:
            return frame.head(rng.randint(0, height))
        case 2:
            return pl.concat([frame, frame])
        case 3:
            return frame.reverse()
        case 4:
            return frame.sample(fraction=1, shuffle=True, seed=rng.randrange(2**31))
        case 5 if "metric" in frame.columns and height:
            return frame.filter(pl.col("metric") != rng.choice(frame["metric"].to_list()))
        case 6 if "edge" in frame.columns and height:
            return frame.filter(pl.col("edge").is_null() | (pl.col("edge") != rng.choice(("start", "end"))))
    return frame.sample(fraction=rng.random(), seed=rng.randrange(2**31))


def _columns(frame: pl.DataFrame, columns: Any, rng: random.Random) -> pl.DataFrame:
    """Drop, rename, add, reorder or retype a column."""
    if not frame.width:
        return frame
    name = rng.choice(frame.columns)
    match rng.randrange(6):
        case 0:
            return frame.drop(name)
        case 1:
            return frame.rename({name: "other"}) if "other" not in frame.columns else frame
        case 2:
            return frame.with_columns(pl.lit(1).alias("more"))
        case 3:
            return frame.select(sorted(frame.columns))
        case 4:
            kinds = (pl.String, pl.Float32, pl.Int32, pl.Categorical, pl.Binary)
            return frame.with_columns(pl.col(name).cast(rng.choice(kinds), strict=False))
    return frame.with_columns(pl.col(name).implode().alias("list")) if frame.height else frame.select(list(columns))


_CHANGES: tuple[_Change, ...] = (_values, _values, _values, _rows, _rows, _columns)


def mangle_table(frame: pl.DataFrame, columns: Any, rng: random.Random) -> pl.DataFrame:
    """Return the table with values, rows or a column changed. Raises PolarsError for a type that its values lack."""
    return rng.choice(_CHANGES)(frame, columns, rng)
