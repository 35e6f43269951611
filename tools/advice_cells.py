"""Advice for servers that run is set beside what other pools were measured to read. Called by advice-cells.

Of each load: for each tier a server begins to run at 20 % of its database, and `bufferlab advise` looks at it; then
half of that pool and larger ones are measured. The advice is asked and kept before the truth is. Looks and
measurements are the same transactions after the same warm-up: PostgreSQL moves rows that are changed to other pages, so
that a load reads less of its hot rows as time goes on. A load's unit is its transaction, and reads a second are divided
by the transactions a second that the advice counted. Where purge goes back to each changed row, it also reads less or
more at another speed: there the truth is measured at the rate of the look, elsewhere as fast as it goes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from prediction_cells import minutes_since, run, sweep_folder

from bufferlab.registry import open_sweep

TIERS = ("misses", "full")
SIZES = {"half": 0.5, "1.25": 1.25, "1.5": 1.5, "double": 2.0, "4": 4.0}
"""By name, the sizes asked about, of the present one."""
PRESENT = "pool_size=20%"
WITHIN_S = 90
SLOW_WITHIN_S = 600
"""Of a pool that turns over in minutes; the default of `advise --within`."""
START_S = 210
"""The window of the run beside which the server is looked at is so much longer than the look; the advice ends it."""
LEAST_READS = 0.1
"""Reads a transaction: an error, or a change, below that counts for none."""
LARGEST = 0.12
"""The error of one cell that is called large."""
_TPCC = ("tools/prediction-cells.toml", "--set", "warehouses=2")
_TPCC_LARGER = ("tools/prediction-cells.toml", "--set", "warehouses=3")
_HOT = ("tools/advice-cells-hot-rows.toml",)


@dataclass(frozen=True)
class Cell:
    """A load on a server."""

    name: str
    load: tuple[str, ...]
    engine: str
    server: str
    rate: int
    """Transactions a second while the server is looked at: production leaves processors free."""
    tiers: tuple[str, ...] = TIERS
    """Those that are asked."""
    within_s: int = WITHIN_S
    """A look lasts so long."""
    at_rate: bool = False
    """Whether the truth is measured at the rate too."""

    @property
    def transactions(self) -> int:
        """Of each measured run: those of a look."""
        return self.rate * self.within_s

    @property
    def asked(self) -> tuple[str, ...]:
        """What `bufferlab run` is asked, without the points."""
        return (*self.load, "--engine", self.engine, "--server", self.server, "--connections", "8", "--no-page-trace")


def _loads(engine: str, server: str, tiers: tuple[str, ...] = TIERS, *, at_rate: bool = False) -> tuple[Cell, Cell]:
    tpcc = Cell(f"{server}-tpcc", _TPCC, engine, server, 100, tiers, at_rate=at_rate)
    return tpcc, Cell(f"{server}-hot-rows", _HOT, engine, server, 2000, tiers, at_rate=at_rate)


# Pools that need more than three minutes to bring in as many pages as they have.
SLOW = (
    Cell("mysql-5.7-tpcc-slow", _TPCC_LARGER, "mysql", "mysql-5.7", 2, within_s=SLOW_WITHIN_S),
    Cell("postgres-17-tpcc-slow", _TPCC, "postgres", "postgres-17", 5, within_s=SLOW_WITHIN_S),
)
CELLS = (*_loads("mysql", "mysql-5.7"), *_loads("postgres", "postgres-17"), *SLOW)
# There is no model of MySQL 9: advise refuses its full tier.
OTHERS = (*_loads("mariadb", "mariadb-11.4", at_rate=True), *_loads("mysql", "mysql-9", TIERS[:1], at_rate=True))


def advised(folder: Path, cell: Cell) -> bool:
    """Look at a server at the present size, once in each tier; return whether all have answered."""
    for tier in cell.tiers:
        answer = folder / f"{cell.name}-{tier}.json"
        if answer.exists():
            continue
        with running(folder, cell) as (url, password):
            sizes = ",".join(f"{100 * ratio:g}%" for ratio in SIZES.values())
            asked = ["advise", url, "--sizes", sizes, "--within", f"{cell.within_s}s", "--tier", tier]
            environment = {**os.environ, "BUFFERLAB_PASSWORD": password}
            told = subprocess.run(
                ["./bufferlab", *asked, "--yes", "--json"], capture_output=True, text=True, env=environment, check=False
            )
        answer.with_suffix(".log").write_text(told.stderr)
        if told.returncode in (0, 1) and told.stdout:
            answer.write_text(told.stdout)
    return all((folder / f"{cell.name}-{tier}.json").exists() for tier in cell.tiers)


@contextmanager
def running(folder: Path, cell: Cell) -> Iterator[tuple[str, str]]:
    """Context manager for a private server in the window of a run; yields its URL and our password there."""
    with tempfile.TemporaryDirectory(prefix="advice-", dir="/var/tmp") as home:
        Path(home).chmod(0o711)
        one = ("--sweep", PRESENT, "--set", f"rate={cell.rate}", "--repetitions", "1")
        window = ("--duration", f"{cell.within_s + START_S}s")
        asked = ("./bufferlab", "run", *cell.asked, *one, *window, "--data-dir", home, "--out", f"{home}/out")
        with (folder / f"{cell.name}-run.log").open("w") as log:
            process = subprocess.Popen(asked, stdout=log, stderr=log)
            try:
                yield until_measured(process, Path(home), folder / f"{cell.name}-run.log", cell)
            finally:
                process.terminate()
                process.wait()


def until_measured(process: subprocess.Popen[bytes], home: Path, log: Path, cell: Cell) -> tuple[str, str]:
    """Wait until a run measures; return the URL of its server, and our password there. Raise SystemExit if it fails."""
    while "measuring" not in log.read_text():
        if process.poll() is not None:
            raise SystemExit(f"{cell.name}: the run ended before it measured, see {log}")
        time.sleep(0.5)
    (socket,) = (path for path in home.rglob("*") if not path.is_symlink() and stat.S_ISSOCK(path.stat().st_mode))
    (identity,) = home.rglob("auth.json")
    told = json.loads(identity.read_text())
    scheme, where = ("postgres", socket.parent) if cell.engine == "postgres" else ("mysql", socket)
    return f"{scheme}://{told['user']}@localhost/bufferlab?socket={where}", told["password"]


def judged(folder: Path, cell: Cell) -> bool:
    """Do what a load lacks; return whether it is whole."""
    return advised(folder, cell) and run(folder, cell.name, (*cell.asked, *points(folder, cell)))


def points(folder: Path, cell: Cell) -> tuple[str, ...]:
    """Return what a run is asked to measure the very sizes that the advice was about."""
    present = json.loads((folder / f"{cell.name}-{TIERS[0]}.json").read_text())["present"]["pool_size_bytes"]
    sizes = ",".join(f"{int(ratio * present)}B" for ratio in SIZES.values())
    rate = ("--set", f"rate={cell.rate}") if cell.at_rate else ()
    return (*rate, "--transactions", str(cell.transactions), "--repetitions", "2", "--sweep", f"pool_size={sizes}")


def measured(folder: Path, cell: Cell) -> dict[Any, list[float]]:
    """Return the reads a transaction of each measured run, by the size of its pool in bytes."""
    sweep = sweep_folder(folder / cell.name)
    assert sweep is not None
    reads: dict[Any, list[float]] = {}
    for record in open_sweep(sweep).runs():
        if record.run.measured is None:
            continue
        samples = record.samples()
        edges = samples.filter((samples["metric"] == "pages_read") & (samples["phase"] == "measure"))
        start, end = (edges.filter(edges["edge"] == edge)["count"][0] for edge in ("start", "end"))
        size = record.run.settings["pool_size"].planned
        reads.setdefault(size, []).append((end - start) / record.run.measured.transactions)
    return reads


def rows(folder: Path, cells: Sequence[Cell]) -> Iterator[dict[str, Any]]:
    """Yield a row for each load, tier and size of which both are known."""
    for cell in cells:
        if not (folder / f"{cell.name}.done").exists():
            continue
        truth = measured(folder, cell)
        for tier in cell.tiers:
            file = folder / f"{cell.name}-{tier}.json"
            if not file.exists():
                continue
            told = json.loads(file.read_text())
            units_per_s = told["counted"]["units"] / told["counted"]["seconds"] if told["counted"]["seconds"] else 0.0
            present = told["present"]["pool_size_bytes"]
            for name, ratio in SIZES.items():
                size = next((one for one in told["sizes"] if one["pool_size_bytes"] == int(ratio * present)), None)
                per = {key: size[key] / units_per_s if size and size[key] is not None and units_per_s else None
                       for key in ("reads_per_s", "low", "high")}  # fmt: skip
                # The server's pool is a whole number of pages.
                runs = truth[min(truth, key=lambda measured_bytes: abs(measured_bytes - ratio * present))]
                own = told["counted"]["reads"] / told["counted"]["units"] if told["counted"]["units"] else None
                why = (size or {}).get("cannot_say") or {}
                yield {"load": cell.name, "turnover_s": turnover_s(told), "tier": tier, "size": name, "own": own,
                       "truth": fmean(runs), "n": len(runs),
                       "told": per["reads_per_s"], "low": per["low"], "high": per["high"],
                       "by": (size or {}).get("tier"), "cannot_say": why.get("why")}  # fmt: skip


def turnover_s(told: dict[str, Any]) -> float | None:
    """Return the seconds in which an advised server read as many pages as its pool has; None where it read none."""
    counted = told["counted"]
    return told["present"]["pool_pages"] * counted["seconds"] / counted["reads"] if counted["reads"] else None


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the rows as Markdown, and what they come to."""
    heads = "| load | turnover, s | asked tier | pool | reads now | measured (n) | told | bounds | error | by |"
    lines = [heads, "|---" * (heads.count("|") - 1) + "|"]
    for row in found:
        told = "cannot say" if row["told"] is None else f"{row['told']:.3f}"
        bounds = "-" if row["high"] is None else f"{row['low'] or 0:.3f}-{row['high']:.3f}"
        error = "-" if row["told"] is None else f"{row['told'] / row['truth'] - 1:+.1%}" if row["truth"] else "-"
        own = "-" if row["own"] is None else f"{row['own']:.3f}"
        turnover = "-" if row["turnover_s"] is None else f"{row['turnover_s']:.0f}"
        cells = (row["load"], turnover, row["tier"], row["size"], own, f"{row['truth']:.3f} ({row['n']})", told, bounds,
                 error, row["by"] or "-")  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"{row['load']} {row['tier']} {row['size']}: {row['cannot_say']}" for row in found if row["cannot_say"]]
    return "\n".join((*lines, *summary(found)))


def summary(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each tier: what it answers, its errors, and how often its bounds hold the truth."""
    for tier in ("full", "misses"):
        # A size that `full` handed on is a cell of `misses` alone, which is asked about larger sizes only.
        mine = [row for row in found if (row["by"] or row["tier"]) == tier]
        cells = [row for row in mine if tier == "full" or row["size"] != "half"]
        told = [row for row in cells if row["told"] is not None]
        if not told:
            yield f"{tier}: answers none of {len(cells)}"
            continue
        errors = [abs(row["told"] / row["truth"] - 1) for row in told if row["truth"]]
        large = [row for row in told if abs(row["told"] - row["truth"]) > max(LEAST_READS, LARGEST * row["truth"])]
        signs = sum(_wrong_sign(row) for row in told)
        held = sum(row["low"] <= row["truth"] <= row["high"] for row in told)
        wide = median((row["high"] - row["low"]) / 2 / row["told"] for row in told if row["told"])
        yield (
            f"{tier}: answers {len(told)} of {len(cells)}; mean error {fmean(errors):.1%}, largest {max(errors):.1%},"
            f" {len(large)} above {LARGEST:.0%} and {LEAST_READS} reads; {signs} with the wrong sign;"
            f" bounds hold {held}, median half-width {wide:.0%}"
        )


def cost_table(folder: Path, cells: Sequence[Cell]) -> str:
    """Return as Markdown what each look cost, in per cent of a processor: measured beside foretold."""
    lines = ["| load | asked tier | attached | foretold | by its stops | measured (95 %) | the command itself |"]
    lines.append("|---" * lines[0].count(" | ") + "|---|")
    for cell in cells:
        for tier in cell.tiers:
            file = folder / f"{cell.name}-{tier}.json"
            for one in json.loads(file.read_text())["cost"] if file.exists() else ():
                measured = "-"
                if one["server_cores"] is not None:
                    found, low, high = (f"{100 * one[key]:.2f}" for key in ("server_cores", "low", "high"))
                    measured = f"{found} ({low} to {high})"
                shares = (f"{100 * one[key]:.2f}" for key in ("foretold_cores", "by_events_cores"))
                told = (cell.name, tier, one["tier"], *shares, measured, f"{100 * one['ours_cores']:.2f}")
                lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines)


def _wrong_sign(row: dict[str, Any]) -> bool:
    """Return whether reads were told to fall where they clearly rise, or to rise where they fall."""
    change, told = row["truth"] - row["own"], row["told"] - row["own"]
    return bool(abs(change) > max(LEAST_READS, 0.1 * row["own"]) and change * told <= 0)


def main() -> int:
    """Do what the arguments ask; return 1 when something could not be done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="also the servers that take longer")
    parser.add_argument("--only", default="", help="names of loads, with commas between them")
    given = parser.parse_args()
    every = (*CELLS, *OTHERS)
    names = given.only.split(",") if given.only else [cell.name for cell in (every if given.all else CELLS)]
    if unknown := {*names} - {cell.name for cell in every}:
        parser.error(f"no loads are named {', '.join(sorted(unknown))}")
    given.folder.mkdir(parents=True, exist_ok=True)
    # The server that is looked at ends with us.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    wanted, started = [cell for cell in every if cell.name in names], time.monotonic()
    failed = [cell.name for cell in wanted if not judged(given.folder, cell)]
    print(table(list(rows(given.folder, wanted))))
    print(cost_table(given.folder, wanted))
    print(f"all after {minutes_since(started)}")
    for name in failed:
        print(f"not done: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
