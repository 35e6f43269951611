"""Compares predictions with measurements in the cells of docs/prediction.md. Called by prediction-cells.

Each sweep has its own folder, and a complete one also a file next to the folder. An interrupted sweep is resumed; an
interrupted prediction is made again. A failed sweep is reported at the end, and the other sweeps are still done.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

FOUR = ("--warehouses", "4", "--connections", "8")
POOLS = "pool_size=10%,20%,30%,40%,50%"
DEPTHS = "lru_scan_depth=100,400,1024"
FEW = "pool_size=20%,30%,50%"


@dataclass(frozen=True)
class Cells:
    """A measured sweep, the traced run that predicts it, and the settings of both."""

    name: str
    source: str
    """The name of the traced run in `TRACES`; "" if the points are predicted without a run."""
    measured: tuple[str, ...]
    """The arguments of `bufferlab run`, without those for the points."""
    points: tuple[str, ...] = field(default=())
    """The arguments for the points, the same for both commands."""
    beside: str = ""
    """The name of other cells whose measured sweep these cells use; "" if they have their own."""


def _server(engine: str, server: str) -> tuple[str, ...]:
    return ("buffer-size", "--engine", engine, "--server", server, *FOUR)


def _sqlite() -> tuple[str, ...]:
    return ("tests/fixtures/page-trace/pool-sizes.toml", "--set", "warehouses=4", "--repetitions", "1")


def _runs(transactions: int, repetitions: int) -> tuple[str, ...]:
    return ("--transactions", str(transactions), "--repetitions", str(repetitions))


def _hot_rows() -> tuple[str, ...]:
    rows = ("--set", "layout=scattered", "--set", "page_size=16k", "--set", "hot_rows=700", "--repetitions", "1")
    return ("hot-rows", "--engine", "mysql", "--server", "mysql-5.7", *rows)


def _slow() -> tuple[str, ...]:
    """Return a load so slow that pages stay in the old sublist for nine times `old_blocks_time`.

    So the speed of the warm-up no longer matters.
    """
    slow = ("--set", "old_blocks_time=1000", "--set", "rate=50", "--warehouses", "1", "--connections", "8")
    long = ("--duration", "260s", "--repetitions", "1", "--sweep", "pool_size=40MiB")
    return ("buffer-size", "--engine", "mysql", "--server", "mysql-5.7", *slow, *long)


def _sysbench() -> tuple[str, ...]:
    return ("tools/prediction-cells-sysbench.toml", "--server", "mysql-5.7", "--connections", "8")


def _writes(engine: str, server: str) -> tuple[str, ...]:
    return ("tools/prediction-cells-writes.toml", "--engine", engine, "--server", server, "--connections", "8")


def _scans(script: str, connections: int) -> tuple[str, ...]:
    """Return a load of scans and look-ups on PostgreSQL. A share of the database is a share of all tables."""
    sql = ("--set", f"script=tools/prediction-cells-{script}.sql")
    return ("tools/prediction-cells-scans.toml", "--server", "postgres-17", *sql, "--connections", str(connections))


def _of_server(server: str) -> tuple[str, ...]:
    """Return a load with the server's own defaults for the old sublist and scan depth, else bufferlab's settings."""
    own = ("old_blocks_time=1000", "old_blocks_pct=37", "lru_scan_depth=1024")
    return (*_server("mysql", server), *(word for setting in own for word in ("--set", setting)))


def _few_hot_rows() -> tuple[str, ...]:
    rows = ("--set", "layout=scattered", "--set", "page_size=16k", "--set", "hot_rows=500", "--repetitions", "2")
    return ("hot-rows", "--engine", "mysql", "--server", "mysql-5.7", *rows)


def _shop(engine: str, server: str) -> tuple[str, ...]:
    return ("tools/prediction-cells-shop.toml", "--engine", engine, "--server", server, "--connections", "8")


def _trace(engine: str, server: str) -> tuple[str, ...]:
    return ("tools/prediction-cells.toml", "--engine", engine, "--server", server, "--connections", "8")


NEWER = {
    "mysql9": ("mysql", "mysql-9"),
    "postgres186": ("postgres", "postgres-18.6"),
    "postgres19": ("postgres", "postgres-19"),
    "mariadb118": ("mariadb", "mariadb-11.8"),
}
"""Name of cells -> (engine, server), for the servers that were measured last."""

TRACES = {
    **{name: _trace(*server) for name, server in NEWER.items()},
    **{f"{name}-shop": _shop(*server) for name, server in NEWER.items()},
    "mysql57": _trace("mysql", "mysql-5.7"),
    "postgres17": _trace("postgres", "postgres-17"),
    "postgres15": _trace("postgres", "postgres-15"),
    "sqlite": (*_sqlite(), "--sweep", "pool_size=25%"),
    "mysql80": _trace("mysql", "mysql-8.0"),
    "mariadb102": _trace("mariadb", "mariadb-10.2"),
    "mariadb114": _trace("mariadb", "mariadb-11.4"),
    "hot-rows": (*_hot_rows(), "--sweep", "pool_size=12MiB"),
    "slow": _slow(),
    "sysbench": _sysbench(),
    "scans-other-1": _scans("scans-other", 1),
    "scans-other-8": _scans("scans-other", 8),
    "scans-two": _scans("scans-two", 8),
    "scans-join": _scans("scans-join", 1),
    "writes80": _writes("mysql", "mysql-8.0"),
    "writes114": _writes("mariadb", "mariadb-11.4"),
    "own57": (*_of_server("mysql-5.7"), *_runs(8000, 1), "--sweep", "pool_size=128MiB"),
    "own80": (*_of_server("mysql-8.0"), *_runs(8000, 1), "--sweep", "pool_size=128MiB"),
    "few-hot-rows": (*_few_hot_rows()[:-1], "1", "--sweep", "pool_size=10MiB"),
    "young-400": (*_trace("mysql", "mysql-5.7"), "--smoke"),
    "young-2000": (*_trace("mysql", "mysql-5.7"), "--quick"),
}

#: The cells, the most informative first.
CELLS = (
    Cells("mysql57", "mysql57", (*_server("mysql", "mysql-5.7"), *_runs(6000, 3)), ("--sweep", POOLS)),
    Cells(
        "mysql57-depth30",
        "mysql57",
        (*_server("mysql", "mysql-5.7"), *_runs(6000, 1)),
        ("--set", "pool_size=30%", "--sweep", DEPTHS),
    ),
    Cells(
        "mysql57-depth50",
        "mysql57",
        (*_server("mysql", "mysql-5.7"), *_runs(6000, 1)),
        ("--set", "pool_size=50%", "--sweep", DEPTHS),
    ),
    Cells("postgres17", "postgres17", (*_server("postgres", "postgres-17"), *_runs(6000, 2)), ("--sweep", FEW)),
    Cells("postgres15", "postgres15", (*_server("postgres", "postgres-15"), *_runs(6000, 2)), ("--sweep", FEW)),
    Cells("sqlite", "sqlite", _sqlite(), ("--sweep", "pool_size=8%,15%,35%,60%")),
    Cells("mysql80", "mysql80", (*_server("mysql", "mysql-8.0"), *_runs(4000, 1)), ("--sweep", POOLS)),
    Cells("mariadb102", "mariadb102", (*_server("mariadb", "mariadb-10.2"), *_runs(4000, 1)), ("--sweep", POOLS)),
    Cells("mariadb114", "mariadb114", (*_server("mariadb", "mariadb-11.4"), *_runs(4000, 1)), ("--sweep", POOLS)),
    Cells("hot-rows", "hot-rows", _hot_rows(), ("--sweep", "pool_size=8MiB,10MiB,11MiB,12MiB,14MiB")),
    Cells("sysbench", "sysbench", (*_sysbench(), "--repetitions", "2"), ("--sweep", FEW)),
    Cells("slow", "slow", _slow()),
)


#: The cells of servers that were added after the models were made: two loads each, with two pools.
NEW_CELLS = (
    *(
        Cells(name, name, (*_server(*server), *_runs(6000, 2)), ("--sweep", "pool_size=20%,50%"))
        for name, server in NEWER.items()
    ),
    *(
        Cells(f"{name}-shop", f"{name}-shop", (*_shop(*server), "--repetitions", "2"), ("--sweep", "pool_size=20%,60%"))
        for name, server in NEWER.items()
    ),
)

#: Cells at the limits of the models. They test whether wrong predictions carry a verdict of doubt, and right
#: predictions do not.
BORDERS = (
    *(
        Cells(name, name, (*TRACES[name], "--repetitions", "2"), ("--sweep", "pool_size=20%,40%,80%"))
        for name in ("scans-other-1", "scans-other-8", "scans-two", "scans-join")
    ),
    *(
        Cells(name, name, (*_writes(engine, server), "--repetitions", "2"), ("--sweep", "pool_size=15%,30%,60%"))
        for name, engine, server in (("writes80", "mysql", "mysql-8.0"), ("writes114", "mariadb", "mariadb-11.4"))
    ),
    *(
        Cells(name, name, (*_of_server(server), *_runs(6000, 2)), ("--sweep", "pool_size=64MiB,128MiB,256MiB,384MiB"))
        for name, server in (("own57", "mysql-5.7"), ("own80", "mysql-8.0"))
    ),
    Cells("few-hot-rows", "few-hot-rows", _few_hot_rows(), ("--sweep", "pool_size=6MiB,8MiB,10MiB")),
    Cells("old", "mysql57", (*_server("mysql", "mysql-5.7"), *_runs(6000, 2)), ("--sweep", "pool_size=15%,25%,60%")),
    Cells("young-2000", "young-2000", (), ("--sweep", "pool_size=15%,25%,60%"), beside="old"),
    Cells("young-400", "young-400", (), ("--sweep", "pool_size=15%,25%,60%"), beside="old"),
)


def _no_run(engine: str, server: str = "") -> tuple[str, ...]:
    """Return a load that is predicted without any run."""
    return ("tools/no-run-cells.toml", "--engine", engine, *(("--server", server) if server else ()))


def _scale(name: str, engine: str, server: str, warehouses: int, points: str = POOLS) -> Cells:
    load = (*_no_run(engine, server), "--set", f"warehouses={warehouses}")
    return Cells(f"{name}-{warehouses}", "", load, ("--sweep", points))


def _page_sizes(name: str, load: tuple[str, ...], sizes: str, pool: str) -> Cells:
    return Cells(name, "", (*load, "--set", f"pool_size={pool}"), ("--sweep", f"page_size={sizes}"))


#: The cells that judge predictions without a run. Their counts were unknown while the rules of access were made.
NO_RUN = (
    *(_scale("mysql57", "mysql", "mysql-5.7", warehouses) for warehouses in (2, 6, 12)),
    *(
        _page_sizes(
            f"mysql57-pages-{pool}", (*_no_run("mysql", "mysql-5.7"), "--set", "warehouses=3"), "4k,8k,16k", pool
        )
        for pool in ("64MiB", "25%")
    ),
    *(_scale("postgres17", "postgres", "postgres-17", warehouses) for warehouses in (3, 8)),
    _page_sizes("sqlite-pages-20%", (*_no_run("sqlite"), "--set", "warehouses=3"), "4k,8k,16k,32k,64k", "20%"),
    *(
        _scale(server, engine, server, 3, "pool_size=15%,35%")
        for engine, server in (
            ("mysql", "mysql-8.0"),
            ("postgres", "postgres-15"),
            ("mariadb", "mariadb-10.2"),
            ("mariadb", "mariadb-11.4"),
        )
    ),
    *(
        _scale(server, engine, server, 5, "pool_size=15%,25%,50%")
        for engine, server in (("mysql", "mysql-8.0"), ("mysql", "mysql-9"), ("postgres", "postgres-18.6"))
    ),
)
TURNED_OVER = 3
"""How often the load must have filled a pool in its run, so that the cell counts."""
WRONG, RIGHT = 0.10, 0.05
"""The relative error from which on a prediction should carry a verdict of doubt, and the one below which it should
not."""


def sweep_folder(folder: Path) -> Path | None:
    """Return the sweep folder in `folder`; None if there is none."""
    return next((path.parent for path in sorted(folder.glob("*/plan.json"))), None)


def bufferlab(log: Path, *arguments: str) -> bool:
    """Run ./bufferlab, with its output in the file `log`; return whether it succeeded."""
    with log.open("a") as opened:
        return subprocess.run(["./bufferlab", *arguments], stdout=opened, stderr=opened, check=False).returncode == 0


def run(folder: Path, name: str, arguments: Sequence[str], command: str = "run") -> bool:
    """Do a sweep, or resume it; return whether it is complete."""
    done, into = folder / f"{name}.done", folder / name
    if done.exists():
        return True
    begun = sweep_folder(into)
    print(f"{name}: {'going on' if begun else 'begun'}", flush=True)
    # To resume a prediction, repeat its arguments, so that it can check that they are the same. A run remembers
    # its arguments, except the permission to share the device.
    again = arguments if command == "predict" else [one for one in arguments if one == "--share-device"]
    asked = (command, *again, "--resume", str(begun)) if begun else (command, *arguments, "--out", str(into))
    started, log = monotonic(), folder / f"{name}.log"
    if bufferlab(log, *asked):
        done.touch()
    print(f"{name}: {'done' if done.exists() else f'failed, see {log},'} after {minutes_since(started)}", flush=True)
    return done.exists()


def minutes_since(started: float) -> str:
    """Return the minutes since `started`, in words."""
    return f"{(monotonic() - started) / 60:.1f} min"


def table(folder: Path, cells: Cells) -> bool:
    """Predict measured points from their traced run, and print both; return whether that succeeded."""
    source = sweep_folder(folder / f"{cells.source}-trace")
    assert source is not None
    log, into = folder / f"{cells.name}-predicted.log", folder / f"{cells.name}-predicted"
    before = {*into.glob("*")}
    if not bufferlab(log, "predict", str(source), *cells.points, "--out", str(into)):
        return False
    (predicted,) = {*into.glob("*")} - before
    return beside(folder, cells, predicted)


def beside(folder: Path, cells: Cells, predicted: Path) -> bool:
    """Compare a prediction with the measurement; print the comparison and store it as JSON. Return whether that
    succeeded."""
    measured = sweep_folder(folder / (cells.beside or cells.name))
    assert measured is not None
    print(f"\n{cells.name}", flush=True)
    asked = ["./bufferlab", "accuracy", str(measured), str(predicted)]
    told = subprocess.run([*asked, "--json"], check=False, stdout=subprocess.PIPE)
    if told.returncode == 0:
        (folder / f"{cells.name}.json").write_bytes(told.stdout)
    return subprocess.run(asked, check=False).returncode == 0


def judged(folder: Path, wanted: Sequence[Cells]) -> str:
    """Return a text with the numbers of wrong and right predictions that carry a verdict, and unexpected cells."""
    told = [(cells.name, folder / f"{cells.name}.json") for cells in wanted]
    read = [(name, json.loads(file.read_text())["points"]) for name, file in told if file.exists()]
    points = [(f"{name} {point['label']}", point) for name, points in read for point in points]
    wrong = [(name, point) for name, point in points if _is_wrong(point)]
    right = [(name, point) for name, point in points if point["error"] is not None and abs(point["error"]) <= RIGHT]
    silent = [name for name, point in wrong if not _verdicts(point)]
    needless = [f"{name} ({_verdicts(point)[0]['name']})" for name, point in right if _verdicts(point)]
    refused = [name for name, point in points if point["predicted"] is None]
    return "\n".join(
        (
            f"{len(points)} predictions, {len(refused)} of them refused: {_named(refused)}",
            f"off by more than {WRONG:.0%}: {len(wrong)}, without a verdict {len(silent)}: {_named(silent)}",
            f"within {RIGHT:.0%}: {len(right)}, with a verdict {len(needless)}: {_named(needless)}",
        )
    )


def errors(folder: Path, wanted: Sequence[Cells]) -> str:
    """Return a text with each load's mean and largest error, over the cells that filled their pool often enough, and
    over all cells."""
    rows = []
    for cells in wanted:
        told, foretold = folder / f"{cells.name}.json", sweep_folder(folder / f"{cells.name}-predicted")
        if not told.exists() or foretold is None:
            continue
        often = _turned_over(foretold)
        points = [point for point in json.loads(told.read_text())["points"] if point["error"] is not None]
        counted = [
            abs(point["error"]) for point in points if often.get(str(point["match"]["settings"]), 0) >= TURNED_OVER
        ]
        every = [abs(point["error"]) for point in points]
        rows.append(f"{cells.name}: {_spread(counted)} turned over {TURNED_OVER} times; {_spread(every)} in all")
    return "\n".join(rows)


def _spread(found: Sequence[float]) -> str:
    return f"{len(found)} cells, mean {fmean(found):.1%}, largest {max(found):.1%}" if found else "no cells"


def _turned_over(foretold: Path) -> dict[str, float]:
    """Return label of a point -> how often a run filled its pool, for the run that filled it least often."""
    log = foretold.parent.parent / f"{foretold.parent.name}.log"
    line = next(line for line in reversed(log.read_text().splitlines()) if line.startswith('{"format_version"'))
    often: dict[str, float] = {}
    for run in json.loads(line)["predictions"]:
        swept = str(run["swept"])
        often[swept] = min(often.get(swept, inf), run["prediction"]["turnovers"])
    return often


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _verdicts(point: dict[str, Any]) -> list[dict[str, str]]:
    verdicts: list[dict[str, str]] = point["prediction"]["verdicts"]
    return verdicts


def _is_wrong(point: dict[str, Any]) -> bool:
    """Return whether a prediction's error exceeds WRONG for every value in the measured interval."""
    predicted, measured = point["predicted"], point["measured"]
    if predicted is None:
        return False
    ends = [measured[name] if measured[name] is not None else measured["value"] for name in ("ci_low", "ci_high")]
    return all(abs(predicted - end) > WRONG * end for end in ends) and not ends[0] <= predicted <= ends[1]


def failures(folder: Path, wanted: Sequence[Cells], runs_only: bool) -> Iterator[str]:
    """Do all sweeps and predictions; yield the names of those that failed."""
    for cells in wanted:
        if not cells.source:
            yield from _unrun(folder, cells, runs_only)
            continue
        traced = run(folder, f"{cells.source}-trace", (*TRACES[cells.source], "--probe", "page-trace"))
        if not (traced and (cells.beside or run(folder, cells.name, (*cells.measured, *cells.points)))):
            yield cells.name
        elif not runs_only and not table(folder, cells):
            yield f"{cells.name}, its prediction"


def _unrun(folder: Path, cells: Cells, runs_only: bool) -> Iterator[str]:
    """Predict points without a run, then measure them; yield the names of the steps that failed."""
    name = f"{cells.name}-predicted"
    if not run(folder, name, (*cells.measured, *cells.points, "--json"), "predict"):
        yield name
    elif not run(folder, cells.name, (*cells.measured, *cells.points, "--no-page-trace")):
        yield cells.name
    elif not runs_only and not ((found := sweep_folder(folder / name)) and beside(folder, cells, found)):
        yield f"{cells.name}, set beside its prediction"


def main() -> int:
    """Do the cells that the arguments ask for; return 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names of cells, with commas between them")
    parser.add_argument("--borders", action="store_true", help="do the cells that verdicts are judged by")
    parser.add_argument("--newer", action="store_true", help="do the cells of the servers in NEWER")
    parser.add_argument("--no-run", action="store_true", help="do the cells that are predicted from no run")
    parser.add_argument("--runs-only", action="store_true", help="measure, and print no table")
    given = parser.parse_args()
    every = NO_RUN if given.no_run else BORDERS if given.borders else NEW_CELLS if given.newer else CELLS
    names = given.only.split(",") if given.only else [cells.name for cells in every]
    if unknown := {*names} - {cells.name for cells in every}:
        parser.error(f"no cells are named {', '.join(sorted(unknown))}")
    given.folder.mkdir(parents=True, exist_ok=True)
    started = monotonic()
    wanted = [cells for cells in every if cells.name in names]
    failed = list(failures(given.folder, wanted, given.runs_only))
    print(f"all after {minutes_since(started)}")
    if given.borders:
        print(judged(given.folder, wanted))
    if given.no_run:
        print(errors(given.folder, wanted))
    for name in failed:
        print(f"not done: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
