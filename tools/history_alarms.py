"""Counts false alarms of `history` over simulated histories, and the steps that it finds; measures real sweeps for it.

A measured sweep is `run buffer-size --engine sqlite --quick --no-page-trace --sweep pool_size=20%` with a seed of its
own, or with a pool of 18.5 %, which stands for a change that nobody wrote down. Simulated histories draw their sweeps
from these with replacement, whole, so that figures scatter together as they do; or have figures with normal scatter,
half of whose variance all figures of a sweep share. See tools/history-alarms and docs/statistics.md.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bufferlab.stats.changes import changes
from bufferlab.stats.levels import change_of, scatter
from bufferlab.units import format_duration

Array = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Array]

TABLE = Path(__file__).parents[1] / "tests/fixtures/history/sqlite-sweeps.csv"
POOLS = {"same": ("20%",), "smaller": ("18.5%",)}
#: Far from the seeds of tools/known-scatter.csv and of tools/same-or-doubled.csv.
FIRST_SEEDS = {"same": 730_000, "smaller": 740_000}
_KEYS = ("kind", "sweep", "point")
SWEEPS = 40
_CAP_S = 600.0
NEAR = 3
"""A change is found where it is told this near to its true place."""
_FIGURES = 8
"""Of a simulated history, such as two counts at each of four settings."""
_LEVEL = 0.95


def main(arguments: Sequence[str]) -> None:
    """Measure, or simulate and print."""
    parser = argparse.ArgumentParser(prog="tools/history-alarms", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the sweeps that the table lacks")
    parser.add_argument("--sweeps", type=int, default=SWEEPS, metavar="N", help="sweeps of one setting (40)")
    parser.add_argument("--smaller", type=int, default=15, metavar="N", help="sweeps with a smaller pool (15)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the simulated histories")
    given = parser.parse_args(arguments)
    if given.measure:
        measure({"same": given.sweeps, "smaller": given.smaller})
        return
    share = 0.1 if given.quick else 1.0
    for line in (*alarms_table(int(500 * share)), "", *steps_table(int(200 * share)), "", *planted_lines()):
        print(line, flush=True)


def measure(wanted: dict[str, int]) -> None:
    """Measure what the table lacks, and add each sweep to it as it ends."""
    there = {(row["kind"], int(row["sweep"])) for row in _rows()}
    left = [(kind, number) for kind, count in wanted.items() for number in range(count)]
    left, began = [one for one in left if one not in there], time.monotonic()
    for done, (kind, number) in enumerate(left, start=1):
        rows = _measured(kind, number)
        _add(rows)
        rest = (time.monotonic() - began) / done * (len(left) - done)
        print(f"{kind} {number}: about {format_duration(rest)} left", file=sys.stderr, flush=True)


def _measured(kind: str, number: int) -> list[dict[str, str]]:
    """Measure a sweep; return a row for each point. Its folder is removed."""
    from bufferlab.execute.probes.planned_traces import TraceWish
    from bufferlab.execute.sweep import SweepOptions, run_sweep
    from bufferlab.report.history_sweeps import told_of
    from bufferlab.spec import Overrides, load

    sweep = (("pool_size", POOLS[kind]),)
    seed = FIRST_SEEDS[kind] + number
    experiment = load("buffer-size", Overrides(profile="quick", engine="sqlite", sweep=sweep, seed=seed))
    # A busy machine shall end neither the warm-up nor the window before their transactions are done.
    warm_up = experiment.warm_up.model_copy(update={"max_duration": _CAP_S})
    measured = experiment.measure.model_copy(update={"max_duration": _CAP_S})
    experiment = experiment.model_copy(update={"warm_up": warm_up, "measure": measured})
    with tempfile.TemporaryDirectory(prefix="history-alarms-") as folder:
        outcome = run_sweep(experiment, Path(folder), options=SweepOptions(page_trace=TraceWish(unwanted=True)))
        if outcome.signal_number is not None:
            sys.exit(128 + outcome.signal_number)
        told = told_of(outcome.folder.path, ())
    as_known = dict(zip(POOLS[kind], POOLS["same"], strict=True))
    return [
        {
            "kind": kind,
            "sweep": str(number),
            "point": as_known[point.swept["pool_size"]],
            **{name: repr(values[0]) for name, values in point.values.items() if name not in told.blocked},
        }
        for point in told.points
    ]


def _rows() -> list[dict[str, str]]:
    if not TABLE.exists():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _add(rows: Sequence[dict[str, str]]) -> None:
    heads, new = list(_rows()[0]) if TABLE.exists() else list(rows[0]), not TABLE.exists()
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    with TABLE.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, heads, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


@dataclass(frozen=True)
class Real:
    """The measured sweeps: a row a sweep, a column a figure at a point, as logarithms."""

    names: tuple[tuple[str, str], ...]
    """(metric, point) of each column."""
    same: Array
    smaller: Array


def real() -> Real:
    """Return what was measured, but for CPU times: they tell what else ran on the machine.

    Figures that are zero anywhere, or the same everywhere, are left out.
    """
    rows = _rows()
    metrics = [name for name in rows[0] if name not in _KEYS and "_us_" not in name]
    names = tuple((metric, point) for metric in metrics for point in POOLS["same"])
    tables = []
    for kind in POOLS:
        cells = {(int(row["sweep"]), row["point"]): row for row in rows if row["kind"] == kind}
        sweeps = sorted({sweep for sweep, _ in cells})
        tables.append(
            np.array([[float(cells[sweep, point][metric] or "nan") for metric, point in names] for sweep in sweeps])
        )
    kept = [
        place
        for place in range(len(names))
        if all((table[:, place] > 0).all() for table in tables) and np.ptp(tables[0][:, place]) > 0
    ]
    same, smaller = (np.log(table[:, kept]) for table in tables)
    return Real(tuple(names[place] for place in kept), same, smaller)


def drawn_from(table: Array) -> Draw:
    """Return a draw of sweeps from measured ones, with replacement."""
    return lambda random, sweeps: table[random.integers(0, len(table), sweeps)]


def normal(deviation: float, figures: int = _FIGURES, lag_one: float = 0.0) -> Draw:
    """Return a draw of sweeps with normal scatter: half of its variance is a sweep's, half a figure's own."""

    def draw(random: np.random.Generator, sweeps: int) -> Array:
        own, shared = random.normal(size=(sweeps, figures)), random.normal(size=(sweeps, 1))
        scattered = np.asarray((own + shared) / 2**0.5, dtype=np.float64)
        for place in range(1, sweeps if lag_one else 0):
            scattered[place] = lag_one * scattered[place - 1] + (1 - lag_one**2) ** 0.5 * scattered[place]
        return deviation * scattered

    return draw


def alarms(draw: Draw, sweeps: int, histories: int, seed: int) -> int:
    """Return in how many histories without a change any change is told."""
    random = np.random.default_rng(seed)
    return sum(any(changes(draw(random, sweeps)).changes) for _ in range(histories))


def alarms_rows() -> list[tuple[str, Draw, int]]:
    """Return the kinds of scatter of which false alarms are counted, each with the sweeps of a history."""
    measured = real().same
    return [
        (f"as {len(measured)} sweeps of SQLite, {measured.shape[1]} figures", drawn_from(measured), SWEEPS),
        *((f"normal, {percent} %", normal(percent / 100), SWEEPS) for percent in (1, 2, 5)),
        *(("normal, 2 %", normal(0.02), sweeps) for sweeps in (9, 15, 100)),
        *((f"normal, 2 %, lag-one {lag}", normal(0.02, lag_one=lag), SWEEPS) for lag in (0.2, 0.4)),
    ]


def alarms_table(histories: int) -> Iterator[str]:
    """Yield the table of false alarms."""
    yield "| scatter | sweeps | histories | told a change | 95 % interval |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for place, (name, draw, sweeps) in enumerate(alarms_rows()):
        found = alarms(draw, sweeps, histories, 100 + place)
        low, high = interval(found, histories)
        yield f"| {name} | {sweeps} | {histories} | {found / histories:.1%} | {low:.1%} to {high:.1%} |"


@dataclass
class Tally:
    """What was told of planted steps."""

    found: int = 0
    exact: int = 0
    others: int = 0
    """Histories in which anything else was told, of this figure or of another."""
    covered: int = 0
    """Steps found whose size lies in its interval."""
    placed: int = 0
    """Steps found whose place lies among the places that are told."""


def steps(draw: Draw, columns: Sequence[int], place: int, size: float, histories: int, seed: int) -> Tally:
    """Plant a step of `size` scatters at a place in some figures, and count what is told of the first of them."""
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
            estimate = change_of(parts, 1 + told[first].index(near[0]), "linear", _LEVEL)
            assert estimate.ci_low is not None
            assert estimate.ci_high is not None
            tally.found += 1
            tally.exact += near[0].place == place
            tally.covered += estimate.ci_low <= step <= estimate.ci_high
            tally.placed += near[0].earliest <= place <= near[0].latest
    return tally


def steps_rows() -> list[tuple[str, Draw, list[int], int, float]]:
    """Return the planted steps: the scatter, the figures that have it, its place, and its size in scatters."""
    measured = real()
    # A commit that reads more misses more: counts of the same pages move together.
    moved = [place for place, (metric, _) in enumerate(measured.names) if metric.startswith(("read", "misses"))]
    of_sqlite = ("as SQLite, in reads", drawn_from(measured.same), moved)
    of_one = ("normal, 1 figure", normal(0.02, 1), [0])
    of_several = (f"normal, in 1 of {_FIGURES} figures", normal(0.02), [0])
    return [
        *((*of, place, 2.0) for of in (of_sqlite, of_one, of_several) for place in (10, 20, 30)),
        *((*of_several, place, size) for place, size in ((35, 2.0), (35, 3.0), (37, 3.0), (37, 5.0), (38, 5.0))),
    ]


def steps_table(histories: int) -> Iterator[str]:
    """Yield the table of planted steps."""
    heads = ("scatter", "step, in scatters", "sweeps since it", "found within 3, %", "at its very sweep, %")
    yield f"| {' | '.join((*heads, 'size covered, %', 'place covered, %', 'anything else told, %'))} |"
    yield f"| --- |{' ---: |' * (len(heads) + 2)}"
    for number, (name, draw, columns, place, size) in enumerate(steps_rows()):
        tally = steps(draw, columns, place, size, histories, 500 + number)
        shares = [
            f"{100 * tally.found / histories:.0f}",
            *(f"{100 * one / max(1, tally.found):.0f}" for one in (tally.exact, tally.covered, tally.placed)),
            f"{100 * tally.others / histories:.1f}",
        ]
        yield f"| {name} | {size:g} | {SWEEPS - place} | {' | '.join(shares)} |"


def planted() -> Array:
    """Return the measured sweeps with smaller pools in place of the last ones."""
    measured = real()
    return np.concatenate([measured.same[: SWEEPS - len(measured.smaller)], measured.smaller])


def planted_lines() -> Iterator[str]:
    """Yield what is told of the measured sweeps, as they are and with smaller pools from one sweep on."""
    measured, table = real(), planted()
    for name, told in (("as measured", measured.same), ("smaller pools", table)):
        found = changes(told)
        places = sorted({one.place for of in found.changes for one in of})
        figures = [
            f"{metric} at {point}" for (metric, point), of in zip(measured.names, found.changes, strict=True) if of
        ]
        yield f"{name}: changes at sweep {[place + 1 for place in places]} of {len(figures)} figures"
        for one in figures:
            yield f"  {one}"
    moved = measured.smaller.mean(axis=0) - measured.same.mean(axis=0)
    for place, (metric, point) in enumerate(measured.names):
        deviation, other = scatter([measured.same[:, place]])[0], float(np.expm1(moved[place]))
        yield f"{metric} at {point}: scatter {100 * deviation:.2f} %, smaller pools {100 * other:+.1f} %"


def interval(found: int, of: int) -> tuple[float, float]:
    """Return the exact interval of a binomial share (Clopper and Pearson, Biometrika 26, 1934)."""
    from scipy.special import betaincinv

    tail = (1 - _LEVEL) / 2
    low = float(betaincinv(found, of - found + 1, tail)) if found else 0.0
    high = float(betaincinv(found + 1, of - found, 1 - tail)) if found < of else 1.0
    return low, high


if __name__ == "__main__":
    main(sys.argv[1:])
