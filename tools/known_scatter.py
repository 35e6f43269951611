"""Derives the shipped scatter of counts from repeated runs. See tools/known-scatter and docs/statistics.md.

A row of tools/known-scatter.csv is a count at a point of a measured sweep with two runs or more: what ran, the mean
count in its windows, and the relative standard deviation of the count per unit of work. The shipped scatter has the
most likely floor and number of events for the workload that scatters most, with a variance raised to an upper bound.
All other rows must be below it.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.known_scatter import COUNTED
from bufferlab.registry import open_sweep
from bufferlab.stats.known_scatter import KnownScatter

TABLE = Path(__file__).with_name("known-scatter.csv")
SHIPPED = Path(__file__).parents[1] / "python/bufferlab/stats/known_scatter.toml"
#: The workload whose counts scatter most. It gives the bound; the points of all other workloads must be below it.
_WIDEST = "tpcc"
#: 99.7 % of the standard deviations of two runs are below three times the true one.
_MOST_TIMES = 3.0
#: Counter -> count per unit of work. Bytes read are left out: they follow from the pages read.
_COUNTS = {counter: count for count, counter in COUNTED.items() if count != "read_bytes"}
#: The probability with which the shipped variance is above the true one.
LEVEL = 0.95


@dataclass(frozen=True)
class Repeated:
    """One counter in the repeated runs of one point."""

    sweep: str
    engine: str
    workload: str
    point: str
    counter: str
    runs: int
    counted: float
    deviation: float


def main(arguments: Sequence[str]) -> None:
    """Add sweeps to the table, and write the file to ship."""
    rows = table()
    for argument in arguments:
        found = list(repeated(Path(argument)))
        names = {row.sweep for row in found}
        rows = [*(row for row in rows if row.sweep not in names), *found]
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Repeated)])
        writer.writerows(astuple(row) for row in rows)
    SHIPPED.write_text(shipped(rows), encoding="utf-8")
    print(f"written: {SHIPPED}")


def table() -> list[Repeated]:
    """Return the rows of the table."""
    if not TABLE.exists():
        return []
    with TABLE.open(newline="", encoding="utf-8") as file:
        return [
            Repeated(
                **{
                    **row,
                    "runs": int(row["runs"]),
                    "counted": float(row["counted"]),
                    "deviation": float(row["deviation"]),
                }
            )
            for row in csv.DictReader(file)
        ]


def repeated(folder: Path) -> Iterator[Repeated]:
    """Yield a row for each count at each point of a measured sweep that has more than one run."""
    analysis = Analysis.of(open_sweep(folder))
    if any(run.run.source != "measured" for run in analysis.runs):
        raise SystemExit(f"{folder} was not measured")
    began = min(run.run.started_at for run in analysis.runs)
    for counter, count in _COUNTS.items():
        for point in analysis.points:
            values = np.array([value for _, _, value in point.values(analysis.per_work(count))])
            seen = [run.window.change(counter).value or 0.0 for run in point.ok]
            if len(values) < 2 or not values.all():
                continue
            run = point.ok[0]
            deviation = float(np.log(values).std(ddof=1))
            yield Repeated(
                f"{analysis.sweep.experiment} {began:.16}",
                run.engine_and_version,
                str(run.run.workload["name"]),
                point.label,
                counter,
                len(values),
                round(float(np.mean(seen)), 1),
                float(f"{deviation:.6g}"),
            )


def shipped(rows: Sequence[Repeated]) -> str:
    """Return the text of the file to ship."""
    engines = sorted({row.engine for row in rows})
    names = sorted({row.workload for row in rows})
    runs = sum(row.runs for row in rows if row.counter == "pages_read")
    sweeps = {row.sweep for row in rows}
    said = f"{runs} runs in {len(sweeps)} sweeps of {', '.join(names)} on {', '.join(engines)}"
    lines = [
        "# How far runs of one setting differ in a count: see known_scatter.py. tools/known-scatter makes this file",
        "# from tools/known-scatter.csv, whose rows name the sweep, the engine, the point and its runs.",
        f"source = {said!r}".replace("'", '"'),
        f"workloads = {names!r}".replace("'", '"'),
    ]
    for counter in _COUNTS:
        mine = [row for row in rows if row.counter == counter]
        found = fitted([row for row in mine if row.workload == _WIDEST], runs=sum(row.runs for row in mine))
        for row in mine:
            if row.deviation > _MOST_TIMES * found.deviation(row.counted) / row.counted:
                raise SystemExit(f"scatters more than is shipped: {row}")
        lines += ["", f"[counters.{counter}]", f"floor = {found.floor:.3g}", f"events = {found.events:.3g}"]
        lines += [f"runs = {found.runs}"]
    return "\n".join(lines) + "\n"


def fitted(rows: Sequence[Repeated], runs: int) -> KnownScatter:
    """Return the scatter that explains repeated runs: the most likely floor and events, raised to an upper bound.

    `runs` is the number of runs for which it must hold.

    The variance of n runs is chi-square with n - 1 degrees of freedom. The points of a sweep share their blocks, and so
    the blocks' random deviations. So, for the bound, all points of a sweep together count with the degrees of freedom
    of one point.
    """
    from scipy.special import chdtri

    counted = np.array([row.counted for row in rows])
    squares = np.array([row.deviation**2 for row in rows])
    weights = np.array([row.runs - 1.0 for row in rows])
    best, floor, events = np.inf, 0.0, 1.0
    for tried_floor in (0.0, *np.geomspace(1e-4, 0.1, 61)):
        for tried_events in np.geomspace(1.0, 1000.0, 121):
            expected = tried_floor**2 + tried_events / counted
            loss = float(np.sum(weights * (np.log(expected) + squares / expected)))
            if loss < best:
                best, floor, events = loss, float(tried_floor), float(tried_events)
    free = sum({row.sweep: row.runs - 1 for row in rows}.values())
    above = free / float(chdtri(free, LEVEL))
    return KnownScatter(floor * above**0.5, events * above, runs)


if __name__ == "__main__":
    main(sys.argv[1:])
