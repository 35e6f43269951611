"""Counts false alarms of `history`, and the steps that it finds, in simulated histories; measures sweeps for them.

A measured sweep is `run buffer-size --engine sqlite --quick --no-page-trace --sweep pool_size=20%` with its own seed.
Some sweeps have a pool of 18.5 % instead, as an unnoticed change. Some simulated histories draw whole sweeps from
these, with replacement, so that metrics keep their common scatter. Others have metrics with normal scatter, of which
all metrics of a sweep share half of the variance. See tools/history-alarms and docs/statistics.md.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from quick_sweeps import LEVEL, interval, quick_sweep, with_time_left

from bufferlab.stats.changes import FALSE_ALARMS, MIN_STRETCH, changes
from bufferlab.stats.levels import change_of, scatter

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]

TABLE = Path(__file__).parents[1] / "tests/fixtures/history/sqlite-sweeps.csv"
POOLS = {"same": "20%", "smaller": "18.5%"}
#: The first seed of each kind, far from the seeds of tools/known-scatter.csv and tools/same-or-doubled.csv.
FIRST_SEEDS = {"same": 730_000, "smaller": 740_000}
_KEYS = ("kind", "sweep")
SWEEPS = 40
_CAP_S = 600.0
NEAR = 3
"""A change counts as found if it is reported at most this many sweeps from its true place."""
_STEP = 2.0
_RATIO = 4.0
"""The assumed logarithm of a likelihood ratio's threshold, until simulations have determined the threshold."""
_FIGURES = 8
"""The number of metrics in a simulated history, such as two counts at each of four settings."""


def main(arguments: Sequence[str]) -> None:
    """Measure sweeps, or simulate histories and print the tables."""
    parser = argparse.ArgumentParser(prog="tools/history-alarms", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the sweeps that the table lacks")
    parser.add_argument("--sweeps", type=int, default=SWEEPS, metavar="N", help="sweeps of one setting (40)")
    parser.add_argument("--smaller", type=int, default=12, metavar="N", help="sweeps with a smaller pool (12)")
    parser.add_argument("--table", type=Path, metavar="FILE", help="where they stand (simulated from: the fixture)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulated histories")
    given = parser.parse_args(arguments)
    if given.measure:
        if given.table is None:
            parser.error("--measure needs --table FILE: the fixture is replaced whole")
        measure({"same": given.sweeps, "smaller": given.smaller}, given.table)
        return
    share, measured = 0.1 if given.quick else 1.0, real(given.table or TABLE)
    counted = (alarms_table(measured, int(500 * share)), steps_table(measured, int(200 * share)))
    for part in (*counted, power_table(int(4000 * share)), planted_lines(measured)):
        for line in part:
            print(line, flush=True)
        print()


def measure(wanted: dict[str, int], table: Path) -> None:
    """Measure the sweeps that a table lacks, and add each one to the table when it has ended."""
    there = {(row["kind"], int(row["sweep"])) for row in _rows(table)}
    asked = [(kind, number) for kind, count in wanted.items() for number in range(count)]
    left = [one for one in asked if one not in there]
    table.parent.mkdir(parents=True, exist_ok=True)
    print(f"{table}: {len(asked) - len(left)} of {len(asked)} sweeps are there", file=sys.stderr)
    for kind, number in with_time_left(left):
        _add(_measured(kind, number), table)


def _measured(kind: str, number: int) -> dict[str, str]:
    """Measure a sweep, remove its folder, and return its row."""
    from bufferlab.report.comparison.history_sweeps import told_of

    with tempfile.TemporaryDirectory(prefix="history-alarms-") as folder:
        # On a busy machine, time limits must not end the warm-up or the window before their transactions are done.
        told = told_of(quick_sweep(Path(folder), POOLS[kind], FIRST_SEEDS[kind] + number, _CAP_S).path, ())
    (point,) = told.points
    figures = {name: repr(values[0]) for name, values in point.values.items() if name not in told.blocked}
    return {"kind": kind, "sweep": str(number), **figures}


def _rows(table: Path) -> list[dict[str, str]]:
    if not table.exists():
        return []
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _add(row: dict[str, str], table: Path) -> None:
    rows = _rows(table)
    with table.open("a", newline="", encoding="utf-8") as file:
        # Sweeps with windows of a minute have more metrics, so take only those of the table's first row.
        writer = csv.DictWriter(file, list(rows[0] if rows else row), extrasaction="ignore", lineterminator="\n")
        if not rows:
            writer.writeheader()
        writer.writerow(row)


@dataclass(frozen=True)
class Real:
    """The measured sweeps as logarithms: a row per sweep, a column per metric."""

    metrics: tuple[str, ...]
    same: Array
    smaller: Array

    @property
    def planted(self) -> Array:
        """Return the sweeps with equal settings, with those of the smaller pool in place of the last ones."""
        return np.concatenate([self.same[: SWEEPS - len(self.smaller)], self.smaller])


def real(table: Path = TABLE) -> Real:
    """Return the measured sweeps, without CPU times, which depend on other work on the machine.

    Metrics that are zero in any sweep, or the same in all sweeps, are left out.
    """
    rows = sorted(_rows(table), key=lambda row: int(row["sweep"]))
    numbers = {
        metric: {kind: [float(row[metric] or "nan") for row in rows if row["kind"] == kind] for kind in POOLS}
        for metric in rows[0]
        if metric not in _KEYS and "_us_" not in metric
    }
    kept = {
        metric: of
        for metric, of in numbers.items()
        if all(value > 0 for values in of.values() for value in values) and len(set(of["same"])) > 1
    }
    same, smaller = (np.log(np.column_stack([of[kind] for of in kept.values()])) for kind in POOLS)
    return Real(tuple(kept), same, smaller)


def drawn_from(table: Array) -> Draw:
    """Return a function that draws sweeps from measured ones, with replacement."""
    return lambda random, sweeps: table[random.integers(0, len(table), sweeps)]


def normal(deviation: float, figures: int = _FIGURES, lag_one: float = 0.0) -> Draw:
    """Return a function that draws sweeps with normal scatter. The metrics of a sweep share half of its variance."""

    def draw(random: np.random.Generator, sweeps: int) -> Array:
        own, shared = random.normal(size=(sweeps, figures)), random.normal(size=(sweeps, 1))
        scattered = np.asarray((own + shared) / 2**0.5, dtype=np.float64)
        for place in range(1, sweeps if lag_one else 0):
            scattered[place] = lag_one * scattered[place - 1] + (1 - lag_one**2) ** 0.5 * scattered[place]
        return deviation * scattered

    return draw


def alarms(draw: Draw, sweeps: int, histories: int, seed: int) -> int:
    """Return the number of histories without a change in which a change is reported."""
    random = np.random.default_rng(seed)
    return sum(any(changes(draw(random, sweeps)).changes) for _ in range(histories))


def alarms_rows(measured: Real) -> list[tuple[str, Draw, int]]:
    """Return (name, draw, number of sweeps) of each kind of history in which false alarms are counted."""
    as_measured = f"as {len(measured.same)} sweeps of SQLite, {len(measured.metrics)} figures"
    return [
        (as_measured, drawn_from(measured.same), SWEEPS),
        *((f"normal, {percent} %", normal(percent / 100), SWEEPS) for percent in (1, 2, 5)),
        *(("normal, 2 %", normal(0.02), sweeps) for sweeps in (9, 15, 100)),
        *((f"normal, 2 %, lag-one {lag}", normal(0.02, lag_one=lag), SWEEPS) for lag in (0.2, 0.4)),
    ]


def alarms_table(measured: Real, histories: int) -> Iterator[str]:
    """Yield the table of false alarms."""
    yield "| scatter | sweeps | histories | told a change | 95 % interval |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for place, (name, draw, sweeps) in enumerate(alarms_rows(measured)):
        found = alarms(draw, sweeps, histories, 100 + place)
        low, high = interval(found, histories)
        yield f"| {name} | {sweeps} | {histories} | {found / histories:.1%} | {low:.1%} to {high:.1%} |"


@dataclass
class Tally:
    """The counts of planted steps by how they were reported."""

    found: int = 0
    exact: int = 0
    others: int = 0
    """The number of histories in which any other change was reported, in this metric or another."""
    covered: int = 0
    """The number of found steps whose true size lies in the interval of the reported size."""
    placed: int = 0
    """The number of found steps whose true place is among the places reported."""


def steps(draw: Draw, columns: Sequence[int], place: int, size: float, histories: int, seed: int) -> Tally:
    """Plant a step in some metrics, and count how it is reported in the first of them.

    The step, at sweep `place`, has a size of `size` standard deviations.
    """
    random, tally = np.random.default_rng(seed), Tally()
    deviations, first = draw(np.random.default_rng(seed + 1), 4000).std(axis=0), columns[0]
    step = size * float(deviations[first])
    for _ in range(histories):
        table = draw(random, SWEEPS).copy()
        table[place:, columns] += size * deviations[list(columns)]
        told = changes(table).changes
        near = [one for one in told[first] if abs(one.place - place) <= NEAR]
        elsewhere = any(told[other] for other in range(len(told)) if other not in columns)
        tally.others += elsewhere or any(len(told[column]) > 1 for column in columns)
        if near:
            edges = [0, *(one.place for one in told[first]), SWEEPS]
            parts = [table[a:b, first] for a, b in pairwise(edges)]
            estimate = change_of(parts, 1 + told[first].index(near[0]), "linear", LEVEL)
            assert estimate.ci_low is not None
            assert estimate.ci_high is not None
            tally.found += 1
            tally.exact += near[0].place == place
            tally.covered += estimate.ci_low <= step <= estimate.ci_high
            tally.placed += near[0].earliest <= place <= near[0].latest
    return tally


def steps_rows(measured: Real) -> list[tuple[str, Draw, list[int], int, float]]:
    """Return the steps to plant: (name, draw, metrics that have the step, its place, its size in deviations)."""
    # A commit that reads more also misses more, so plant the step in all counts of reads and misses.
    moved = [place for place, metric in enumerate(measured.metrics) if metric.startswith(("read", "misses"))]
    of_sqlite = ("as SQLite, in reads", drawn_from(measured.same), moved)
    of_one = ("normal, 1 figure", normal(0.02, 1), [0])
    of_several = (f"normal, in 1 of {_FIGURES} figures", normal(0.02), [0])
    return [
        *((*of, place, 2.0) for of in (of_sqlite, of_one, of_several) for place in (10, 20, 30)),
        *((*of_several, place, size) for place, size in ((35, 2.0), (35, 3.0), (37, 3.0), (37, 5.0), (38, 5.0))),
    ]


def steps_table(measured: Real, histories: int) -> Iterator[str]:
    """Yield the table of planted steps."""
    heads = ("scatter", "step, in scatters", "sweeps since it", "found within 3, %", "at its very sweep, %")
    yield f"| {' | '.join((*heads, 'size covered, %', 'place covered, %', 'anything else told, %'))} |"
    yield f"| --- |{' ---: |' * (len(heads) + 2)}"
    for number, (name, draw, columns, place, size) in enumerate(steps_rows(measured)):
        tally = steps(draw, columns, place, size, histories, 500 + number)
        shares = [
            f"{100 * tally.found / histories:.0f}",
            *(f"{100 * one / max(1, tally.found):.0f}" for one in (tally.exact, tally.covered, tally.placed)),
            f"{100 * tally.others / histories:.1f}",
        ]
        yield f"| {name} | {size:g} | {SWEEPS - place} | {' | '.join(shares)} |"


def power_table(histories: int) -> Iterator[str]:
    """Yield a table of how often a step of _STEP standard deviations is found at FALSE_ALARMS by several tests.

    The first test knows the step's place; the others search for it. The last one is made for this step: it uses, at
    each place, the likelihood ratio of a step of that size, and leaves out five places at both ends.
    """
    heads = ("figures", "sweeps since the step", "place known: found, %", "as `history`: found, %", "within 3, %")
    yield f"| {' | '.join((*heads, 'made for the step: found, %', 'within 3, %'))} |"
    yield f"|{' ---: |' * (len(heads) + 2)}"
    left = np.arange(1, SWEEPS)
    errors = (SWEEPS / (left * (SWEEPS - left))) ** 0.5
    expected, from_ends = _STEP / errors, np.minimum(left, SWEEPS - left)
    tests = ((from_ends >= MIN_STRETCH) * 1.0, (from_ends >= 5) / (expected / 2 + _RATIO / expected))

    def scores(table: Array) -> Array:
        centred = table - table.mean(axis=0)
        return np.asarray(np.abs(np.cumsum(centred, axis=0)[:-1]) * errors[:, None] / centred.std(axis=0, ddof=1))

    for figures in (1, _FIGURES):
        draw, random = normal(1.0, figures), np.random.default_rng(900 + figures)
        chance = np.stack([scores(draw(random, SWEEPS)) for _ in range(5 * histories)])
        for since in (5, 6, 8, 10, 20):
            place, step = SWEEPS - since, np.zeros((SWEEPS, figures))
            step[place:, 0] = _STEP
            seen = np.stack([scores(draw(random, SWEEPS) + step)[:, 0] for _ in range(histories)])
            rare = np.quantile(chance[:, place - 1].max(axis=1), 1 - FALSE_ALARMS)
            shares = [float(np.mean(seen[:, place - 1] > rare))]
            for weights in tests:
                rare = np.quantile((chance * weights[:, None]).max(axis=(1, 2)), 1 - FALSE_ALARMS)
                found = (seen * weights).max(axis=1) > rare
                near = np.abs((seen * (weights > 0)).argmax(axis=1) + 1 - place) <= NEAR
                shares += [float(found.mean()), float((found & near).mean())]
            yield f"| {figures} | {since} | {' | '.join(f'{100 * share:.0f}' for share in shares)} |"


def planted_lines(measured: Real) -> Iterator[str]:
    """Yield the changes reported in the measured sweeps: unchanged, and with smaller pools from one sweep on."""
    for name, table in (("as measured", measured.same), ("smaller pools", measured.planted)):
        found = dict(zip(measured.metrics, changes(table).changes, strict=True))
        places = sorted({one.place + 1 for of in found.values() for one in of})
        figures = [metric for metric, of in found.items() if of]
        yield f"{name}: changes at sweep {places} of {', '.join(figures) or 'no figure'}"
    moved = measured.smaller.mean(axis=0) - measured.same.mean(axis=0)
    for place, metric in enumerate(measured.metrics):
        deviation, other = scatter([measured.same[:, place]])[0], float(np.expm1(moved[place]))
        yield f"{metric}: scatter {100 * deviation:.2f} %, smaller pools {100 * other:+.1f} %"


if __name__ == "__main__":
    main(sys.argv[1:])
