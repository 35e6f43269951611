"""Compares predicted with measured writes, in the pool of a traced run, in half of it, and in twice of it.

The rules were fixed before the runs, except for the next rule, which at first used pages per second. A cell counts if
each of its windows has 120 s or more, and the pages written per transaction in the two halves of each window differ by
at most 5 %; otherwise its row says "not steady". In the traced run's own pool the predicted pages per transaction must
be within 5 % of the measured mean, in half the pool within 10 %. In twice the pool the mean must lie in the predicted
range, whose ends may differ by a factor of 1.5. A prediction that overlaps the measured interval counts as exact.
Called by write-cells; sweep folders are kept, and interrupted sweeps are resumed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import prediction_cells

STEADY = 0.05
"""The largest relative difference between a window's halves in pages written per transaction, by the smaller one."""
LEAST_S = 120.0
"""The shortest window of a cell, in seconds."""
LIMITS = {"own": 0.05, "half": 0.10, "double": 0.0}
"""Pool of a cell -> its largest allowed error."""
POOLS = {"15%": "half", "30%": "own", "60%": "double"}


@dataclass(frozen=True)
class Load:
    """A server under one load: the arguments of its traced run and of its measured sweep."""

    name: str
    asked: tuple[str, ...]

    @property
    def traced(self) -> tuple[str, ...]:
        return (*self.asked, "--repetitions", "1", "--sweep", "pool_size=30%", "--probe", "page-trace")

    @property
    def measured(self) -> tuple[str, ...]:
        return (*self.asked, "--no-page-trace")


def _tpcc(engine: str, server: str, *more: str) -> tuple[str, ...]:
    return ("tools/write-cells.toml", "--engine", engine, "--server", server, "--connections", "8", *more)


_EIGHT_CHECKPOINTS = ("--set", "page_size=8k", "--set", "checkpoint_timeout=30s", "--duration", "240s")
"""Arguments with which each half of a window has four checkpoints."""
LOADS = (
    Load("mysql57", _tpcc("mysql", "mysql-5.7")),
    Load("mysql80", _tpcc("mysql", "mysql-8.0")),
    Load("mysql9", _tpcc("mysql", "mysql-9")),
    Load("mariadb1011", _tpcc("mariadb", "mariadb-10.11")),
    Load("postgres17", _tpcc("postgres", "postgres-17", *_EIGHT_CHECKPOINTS)),
    Load("postgres18", _tpcc("postgres", "postgres-18", *_EIGHT_CHECKPOINTS, "--set", "data_checksums=on")),
)


@dataclass(frozen=True)
class Halves:
    """The comparison of a window's halves: the window's seconds, and ratios of the second half to the first, minus
    one."""

    seconds: float
    per_transaction: float
    """The ratio in pages written per transaction, which the model predicts."""
    per_second: float
    """The ratio in pages written per second, which also depends on the device's speed."""

    @property
    def steady(self) -> bool:
        """Return whether the window is long enough, and its halves are similar enough."""
        return self.seconds >= LEAST_S and abs(math.log1p(self.per_transaction)) <= math.log1p(STEADY)


def halves(samples: pl.DataFrame) -> Halves | None:
    """Return how the halves of a run's window compare; None if a half lacks samples, pages or transactions."""
    pages, transactions = (_by_half(samples, metric) for metric in ("pages_written", "transactions_committed"))
    if pages is None or transactions is None:
        return None
    per_second = pages[1] / pages[0]
    return Halves(pages[2], per_second * transactions[0] / transactions[1] - 1, per_second - 1)


def _by_half(samples: pl.DataFrame, metric: str) -> tuple[float, float, float] | None:
    """Return a counter's rate in each half of the window, and the window's seconds; None without samples or growth."""
    rows = samples.filter((pl.col("metric") == metric) & (pl.col("phase") == "measure")).sort("t_s")
    edges = [rows.filter(pl.col("edge") == edge) for edge in ("start", "end")]
    if any(edge.is_empty() for edge in edges):
        return None
    start, end = (edge.row(0, named=True) for edge in edges)
    middle_s = (start["t_s"] + end["t_s"]) / 2
    # The sample nearest to the middle divides the window into unequal parts, so rates are compared.
    middle = rows.sort((pl.col("t_s") - middle_s).abs()).row(0, named=True)
    changes = [(b["count"] - a["count"], b["t_s"] - a["t_s"]) for a, b in ((start, middle), (middle, end))]
    if any(count <= 0 or seconds <= 0 for count, seconds in changes):
        return None
    first, second = (count / seconds for count, seconds in changes)
    return first, second, end["t_s"] - start["t_s"]


def verdict(pool: str, row: dict[str, Any], *, steady: bool) -> str:
    """Return in words whether a row of `accuracy` meets the rule for its pool."""
    if not steady:
        return "not steady"
    if row["error"] is None:
        return "not predicted"
    return "kept" if row["inside"] or abs(row["error"]) <= LIMITS[pool] else "missed"


def rows(folder: Path, load: Load) -> Iterator[str]:
    """Yield a line for each cell of a load, from the measured sweep and the stored accuracy."""
    sweep = prediction_cells.sweep_folder(folder / load.name)
    assert sweep is not None
    windows: dict[str, list[Halves | None]] = {}
    for run in sorted(sweep.glob("runs/*/run.json")):
        told = json.loads(run.read_text())
        if told["status"] == "ok":
            found = halves(pl.read_parquet(run.parent / "samples.parquet"))
            windows.setdefault(told["point"]["swept"]["pool_size"], []).append(found)
    for row in json.loads((folder / f"{load.name}.json").read_text())["writes"]:
        # A label has "15 %" where the setting has "15%".
        size = row["label"].replace(" ", "")
        of, pool = windows.get(size, []), POOLS[size]
        steady = bool(of) and all(one is not None and one.steady for one in of)
        a_transaction = ", ".join("-" if one is None else f"{one.per_transaction:+.1%}" for one in of)
        a_second = ", ".join("-" if one is None else f"{one.per_second:+.1%}" for one in of)
        measured, ends = row["measured"], (row["least"], row["most"])
        predicted = "not predicted" if None in ends else " to ".join(f"{one:.4g}" for one in sorted({*ends}))
        error = "" if row["error"] is None else f"{row['error']:+.1%}"
        interval = "" if measured["ci_low"] is None else f" ({measured['ci_low']:.4g} to {measured['ci_high']:.4g})"
        yield (
            f"{load.name} {pool}: measured {measured['value']:.4g}{interval}, n = {measured['n']}, predicted "
            f"{predicted}, {error}, halves {a_transaction} a transaction ({a_second} a second): "
            f"{verdict(pool, row, steady=steady)}"
        )


def main() -> int:
    """Do the cells that the arguments ask for; return 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="mysql57", help="names of loads, with commas between them")
    parser.add_argument("--runs-only", action="store_true", help="measure, and print no table")
    parser.add_argument("--share-device", action="store_true", help="use the device although another sweep does")
    given = parser.parse_args()
    names, failed = given.only.split(","), []
    if unknown := {*names} - {load.name for load in LOADS}:
        parser.error(f"no loads are named {', '.join(sorted(unknown))}")
    given.folder.mkdir(parents=True, exist_ok=True)
    for load in (one for one in LOADS if one.name in names):
        cells = prediction_cells.Cells(load.name, load.name, load.measured, ("--sweep", "pool_size=15%,30%,60%"))
        shared = ("--share-device",) if given.share_device else ()
        traced = prediction_cells.run(given.folder, f"{load.name}-trace", (*load.traced, *shared))
        if not traced or not prediction_cells.run(given.folder, load.name, (*load.measured, *cells.points, *shared)):
            failed.append(load.name)
        elif not given.runs_only:
            if prediction_cells.table(given.folder, cells):
                print("\n".join(rows(given.folder, load)), flush=True)
            else:
                failed.append(f"{load.name}, its prediction")
    for name in failed:
        print(f"not done: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
