"""Counts the differences that `compare` claims in pairs of quick sweeps: with equal pools, and with a doubled pool.

Each side of a pair is `run buffer-size --engine sqlite --quick --no-page-trace --sweep pool_size=20%` (40 % if it is
doubled), a sweep of one run with its own seed. `compare` judges the pair by the shipped scatter of counts. See
tools/same-or-doubled and docs/statistics.md.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal

from quick_sweeps import LEVEL, interval, quick_sweep, with_time_left

from bufferlab.report.comparison.compare_metrics import SidesCompared, compare_sides
from bufferlab.report.comparison.sides import of_two_folders

TABLE = Path(__file__).with_name("same-or-doubled.csv")
Kind = Literal["same", "doubled"]
#: Kind of pair -> pool of the pair's second side; the first side has 20 %.
POOLS: dict[Kind, str] = {"same": "20%", "doubled": "40%"}
#: The first seed of each kind, far from the seeds of the runs behind tools/known-scatter.csv.
FIRST_SEEDS: dict[Kind, int] = {"same": 710_000, "doubled": 720_000}


@dataclass(frozen=True)
class Pair:
    """A pair of sweeps, as `compare` judged it."""

    kind: Kind
    pair: int
    reads_a: float
    """Reads per New-Order."""
    reads_b: float
    judged: int
    """The number of metrics on which one run per side allows a claim."""
    claimed: str
    """The names of the metrics claimed to be different, joined by blanks."""
    failed_checks: str
    """The names of the checks that failed on any side, joined by blanks."""
    seconds: float


def main(arguments: Sequence[str]) -> None:
    """Measure the pairs that are missing in the table, add each one when it has ended, and print a summary of the
    table."""
    parser = argparse.ArgumentParser(prog="tools/same-or-doubled", description=__doc__)
    parser.add_argument("--pairs", type=int, default=200, metavar="N", help="pairs of one setting (200)")
    parser.add_argument("--doubled", type=int, default=20, metavar="N", help="pairs with a doubled pool (20)")
    given = parser.parse_args(arguments)
    rows = table()
    for kind, number in with_time_left(list(lacking(rows, {"same": given.pairs, "doubled": given.doubled}))):
        rows.append(measured(kind, number))
        add(rows[-1])
        print(f"{kind} {number}: {rows[-1].claimed or 'nothing'} claimed", file=sys.stderr)
    print("\n".join(said(rows)))


def lacking(rows: Sequence[Pair], asked: dict[Kind, int]) -> Iterator[tuple[Kind, int]]:
    """Yield the pairs that are asked for but missing in the table, with both kinds evenly mixed."""
    there = {(row.kind, row.pair) for row in rows}
    spread = sorted((number / count, kind, number) for kind, count in asked.items() for number in range(count))
    yield from ((kind, number) for _, kind, number in spread if (kind, number) not in there)


def measured(kind: Kind, number: int) -> Pair:
    """Measure and judge one pair, and remove its folders."""
    began, seed = time.monotonic(), FIRST_SEEDS[kind] + 2 * number
    with tempfile.TemporaryDirectory(prefix="same-or-doubled-") as folder:
        first, second = Path(folder, "a"), Path(folder, "b")
        a, b = quick_sweep(first, POOLS["same"], seed), quick_sweep(second, POOLS[kind], seed + 1)
        compared = compare_sides(of_two_folders(a, b))
        return judged(kind, number, compared, time.monotonic() - began)


def judged(kind: Kind, number: int, compared: SidesCompared, seconds: float) -> Pair:
    """Return the table's row for a comparison."""
    reads = compared.of(compared.headline)[0].found
    assert reads is not None
    failed = {
        check.name for side in (compared.sides.a, compared.sides.b) for check in side.checks if check.status == "failed"
    }
    return Pair(
        kind,
        number,
        round(reads.value_a, 4),
        round(reads.value_b, 4),
        sum(figure.outcome != "not_claimed" for figure in compared.figures),
        " ".join(figure.metric for figure in compared.figures if figure.outcome == "different"),
        " ".join(sorted(failed)),
        round(seconds, 1),
    )


def table() -> list[Pair]:
    """Return the rows of the table."""
    if not TABLE.exists():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [
            Pair(
                **{
                    **row,
                    **{name: int(row[name]) for name in ("pair", "judged")},
                    **{name: float(row[name]) for name in ("reads_a", "reads_b", "seconds")},
                }
            )
            for row in csv.DictReader(file)
        ]


def add(row: Pair) -> None:
    """Add a row to the table. If there is no table yet, begin it with its head."""
    new = not TABLE.exists()
    with TABLE.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow([field.name for field in fields(Pair)])
        writer.writerow(astuple(row))


def said(rows: Sequence[Pair]) -> Iterator[str]:
    """Yield the lines of a summary of the table."""
    same, doubled = ([row for row in rows if row.kind == kind] for kind in POOLS)
    if same:
        wrong = sum(bool(row.claimed) for row in same)
        low, high = interval(wrong, len(same))
        yield (
            f"one setting: {wrong} of {len(same)} pairs claim something, {wrong / len(same):.1%} "
            f"({LEVEL:.0%} interval {low:.2%} to {high:.2%}); of the {sum(row.judged for row in same)} metrics judged "
            f"{sum(len(row.claimed.split()) for row in same)}"
        )
    if doubled:
        found = sum("reads_per_new_order" in row.claimed.split() and row.reads_b < row.reads_a for row in doubled)
        low, high = interval(found, len(doubled))
        yield (
            f"twice the pool: fewer reads are claimed in {found} of {len(doubled)} pairs, {found / len(doubled):.1%} "
            f"({LEVEL:.0%} interval {low:.1%} to {high:.1%})"
        )
    failed = [row for row in rows if row.failed_checks]
    yield f"checks failed in {len(failed)} of {len(rows)} pairs"
    for name in sorted({name for row in failed for name in row.failed_checks.split()}):
        yield f"  {name}: {sum(name in row.failed_checks.split() for row in failed)}"


if __name__ == "__main__":
    main(sys.argv[1:])
