"""Compares the advice for live servers with the measured reads of other pool sizes. Called by advice-cells.

For each load, a server runs with a pool of 20 % of its database, and `bufferlab advise` watches it. Then larger pools
are measured, and for the tier `full` also half the pool. The advice is asked for and stored before the measurement. The
observed run and the measured run have the same transactions after the same warm-up: PostgreSQL moves changed rows to
other pages, so that a load reads fewer pages for its hot rows as time goes on. Reads are compared per transaction:
reads per second are divided by the transactions per second that the advice counted. If purge reads each changed row
again, reads depend on the speed, so the measurement then has the rate at which `advise` watched.

Each server has one load with the settings that its package ships, in a pool of at least 256 MiB, and one load with
bufferlab's own settings.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from prediction_cells import minutes_since, run, sweep_folder

from bufferlab.registry import open_sweep

SIZES = {"half": 0.5, "1.25": 1.25, "1.5": 1.5, "double": 2.0, "4": 4.0}
"""Name -> size to ask about, as a multiple of the present one. The tier `misses` gives no answer for half."""
PRESENT = "pool_size=20%"
WITHIN_S, LONGEST_S = 90, 600
"""The length of an observation in seconds, and the longest one for a size that needs more."""
START_S = 210
"""The seconds by which the run's window is longer than the observation of its server. The run is stopped when the
advice is there."""
LEAST_READS = 0.1
"""Reads per transaction below which an error or a change counts as none."""
LARGEST = 0.12
"""The relative error above which the summary counts an error as large."""
KEPT = Path(__file__).with_name("advice-cells.json")
"""The file with the rows of cells that were measured before."""
_TPCC = "tools/prediction-cells.toml"
_HOT = "tools/advice-cells-hot-rows.toml"
_NEEDS = re.compile(r"record for (\d+) (min|s) at least")


@dataclass(frozen=True)
class Cell:
    """A load on a server, for which advice and measurement are compared."""

    name: str
    load: tuple[str, ...]
    engine: str
    server: str
    rate: int
    """Transactions per second during observation and measurement: few enough to leave processors free, as in
    production."""
    tier: Literal["misses", "full"] = "misses"
    within_s: int = WITHIN_S
    """The length of the observation in seconds."""
    settings: str = "laboratory"
    """The server's settings: "laboratory" for bufferlab's own, else those that its package ships."""
    at_rate: bool = True
    """Whether the measurement has the same rate as the observation."""
    only: str = ""
    """The only size to ask about; "" for all sizes."""

    @property
    def transactions(self) -> int:
        """Return the transactions of each measured run: as many as in an observation."""
        return self.rate * self.within_s

    @property
    def sizes(self) -> dict[str, float]:
        """Return name -> multiple of the present size, for the sizes that the tier judges."""
        judged = {name: ratio for name, ratio in SIZES.items() if ratio > 1 or self.tier == "full"}
        return {self.only: judged[self.only]} if self.only else judged

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the arguments of `bufferlab run`, without those for the points."""
        return (*self.load, "--engine", self.engine, "--server", self.server, "--connections", "8", "--no-page-trace",
                "--share-device")  # fmt: skip


def _set(**values: str | int) -> tuple[str, ...]:
    return tuple(word for name, value in values.items() for word in ("--set", f"{name}={value}"))


_OF_INNODB = {"flush_log_at_trx_commit": 1, "old_blocks_time": 1000}
_SHIPPED: dict[str, dict[str, str | int]] = {
    "postgres-15": {"autovacuum": "on", "synchronous_commit": "on", "synchronize_seqscans": "on", "jit": "on"},
    "mysql-5.7": {**_OF_INNODB, "flush_method": "fsync", "adaptive_hash_index": "on", "change_buffering": "all",
                  "lru_scan_depth": 1024},
    "mysql-9": {**_OF_INNODB, "flush_method": "O_DIRECT", "adaptive_hash_index": "off", "change_buffering": "all",
                "lru_scan_depth": 1024},
    "mariadb-10.11": {**_OF_INNODB, "flush_method": "O_DIRECT", "adaptive_hash_index": "off",
                      "change_buffering": "none", "lru_scan_depth": 1536},
    "mariadb-11.8": {**_OF_INNODB, "flush_method": "O_DIRECT", "adaptive_hash_index": "off", "lru_scan_depth": 1536},
}  # fmt: skip
"""Server -> those settings of its package's configuration that affect reads. Asynchronous I/O is never set."""
_SHIPPED["postgres-17"] = _SHIPPED["postgres-15"]
_SHIPPED["postgres-18"] = {**_SHIPPED["postgres-15"], "data_checksums": "on"}
_SHIPPED["mysql-8.0"] = _SHIPPED["mysql-5.7"]


def _tpcc(server: str, *, shipped: bool = False, **values: str) -> Cell:
    """Return a cell of TPC-C. With shipped settings it has so much data that a fifth of it is 256 MiB."""
    engine = server.partition("-")[0]
    load = (_TPCC, *_set(warehouses=(14 if engine == "postgres" else 17) if shipped else 2))
    return _cell(f"{server}-tpcc", load, server, 200 if shipped else 100, shipped, values)


def _hot_rows(server: str, *, shipped: bool = False, **values: str) -> Cell:
    """Return a cell of single-row selects and updates, whose rows follow a power law.

    With shipped settings it has so much data that a fifth of it is 256 MiB.
    """
    load = (_HOT, *(_set(rows=6_000_000, hot_rows=6_000_000) if shipped else ()))
    return _cell(f"{server}-hot-rows", load, server, 2000, shipped, values)


def _cell(name: str, load: tuple[str, ...], server: str, rate: int, shipped: bool, values: Mapping[str, str]) -> Cell:
    more = (*_set(**_SHIPPED[server] if shipped else {}), *_set(**values))
    whose = " and ".join(filter(None, ("as shipped" if shipped else "laboratory", *values.values())))
    ending = "".join(f"-{value}" for value in values.values())
    return Cell(name + ending, (*load, *more), server.partition("-")[0], server, rate, settings=whose)


MISSES = (
    _tpcc("postgres-15"), _hot_rows("postgres-15", shipped=True),
    _tpcc("postgres-17", shipped=True), _hot_rows("postgres-17"),
    _tpcc("postgres-18", shipped=True), _hot_rows("postgres-18"),
    _tpcc("postgres-18", io_method="io_uring"), _hot_rows("postgres-18", io_method="io_uring"),
    _tpcc("mysql-5.7"), _hot_rows("mysql-5.7", shipped=True),
    _tpcc("mysql-8.0", shipped=True), _hot_rows("mysql-8.0"),
    _tpcc("mysql-9"), _hot_rows("mysql-9", shipped=True),
    _tpcc("mariadb-10.11", shipped=True), _hot_rows("mariadb-10.11"),
    _tpcc("mariadb-11.8"), _hot_rows("mariadb-11.8", shipped=True),
)  # fmt: skip


def _full(cell: Cell, **more: Any) -> Cell:
    return replace(cell, name=f"{cell.name}-full", tier="full", **more)


# The slow servers need more than three minutes to read as many pages as their pools have.
FULL = (
    *(_full(cell, at_rate=False) for server in ("mysql-5.7", "postgres-17")
      for cell in (_tpcc(server), _hot_rows(server))),
    *(_full(cell) for cell in (_tpcc("mariadb-11.4"), _hot_rows("mariadb-11.4"))),
    _full(replace(_tpcc("mysql-5.7"), name="mysql-5.7-tpcc-slow", load=(_TPCC, *_set(warehouses=3))), rate=2,
          within_s=LONGEST_S),
    _full(replace(_tpcc("postgres-17"), name="postgres-17-tpcc-slow"), rate=5, within_s=LONGEST_S),
)  # fmt: skip


def of_build(asked: str) -> Cell:
    """Return the cell of a build given as NAME=ENGINE:PATH, which need not be in the tables. Its only size is twice the
    pool."""
    if not (found := re.fullmatch(r"([\w.-]+)=(mysql|mariadb|postgres):(/.+)", asked)):
        raise argparse.ArgumentTypeError(f"{asked} is not NAME=ENGINE:PATH")
    name, engine, path = found.groups()
    return Cell(name, (_TPCC, *_set(warehouses=2)), engine, path, 100, only="double")


def advised(folder: Path, cell: Cell) -> bool:
    """Get the advice for a server, with a second, longer observation if a size needs it; return whether it answered."""
    first = looked(folder, cell, cell.name, cell.sizes, cell.within_s)
    if first is None:
        return False
    needed_s = needed(first, cell)
    return not needed_s or looked(folder, cell, f"{cell.name}-long", {"4": 4.0}, needed_s) is not None


def needed(told: dict[str, Any], cell: Cell) -> int:
    """Return the seconds of observation that an answer asks for to judge the largest size; 0 if it asks for none."""
    present = told["present"]["pool_size_bytes"]
    largest = next((one for one in told["sizes"] if one["pool_size_bytes"] == int(SIZES["4"] * present)), None)
    remedy = ((largest or {}).get("cannot_say") or {}).get("remedy") or ""
    found = _NEEDS.search(remedy)
    if cell.tier == "full" or not found:
        return 0
    seconds = int(found[1]) * (60 if found[2] == "min" else 1)
    return seconds if cell.within_s < seconds <= LONGEST_S else 0


def looked(folder: Path, cell: Cell, name: str, sizes: Mapping[str, float], within_s: int) -> dict[str, Any] | None:
    """Return the answer of `advise`, from its file or by running it; None if it gave none."""
    answer = folder / f"{name}.json"
    if not answer.exists():
        with running(folder, replace(cell, within_s=within_s)) as (url, password):
            shares = ",".join(f"{100 * ratio:g}%" for ratio in sizes.values())
            asked = ["advise", url, "--sizes", shares, "--within", f"{within_s}s", "--tier", cell.tier]
            environment = {**os.environ, "BUFFERLAB_PASSWORD": password}
            told = subprocess.run(
                ["./bufferlab", *asked, "--yes", "--json"], capture_output=True, text=True, env=environment, check=False
            )
        answer.with_suffix(".log").write_text(told.stderr)
        if told.returncode not in (0, 1) or not told.stdout:
            return None
        answer.write_text(told.stdout)
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


@contextmanager
def running(folder: Path, cell: Cell) -> Iterator[tuple[str, str]]:
    """Context manager for a private server in a run's measured window; yields its URL and our password for it."""
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
    """Wait until a run measures; return its server's URL, and our password for it. Raise SystemExit if it fails."""
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
    """Do the parts of a cell that are missing; return whether the cell is complete."""
    return advised(folder, cell) and run(folder, cell.name, (*cell.asked, *points(folder, cell)))


def points(folder: Path, cell: Cell) -> tuple[str, ...]:
    """Return the arguments for a run that measures exactly the sizes that the advice was about."""
    present = json.loads((folder / f"{cell.name}.json").read_text())["present"]["pool_size_bytes"]
    sizes = ",".join(f"{int(ratio * present)}B" for ratio in cell.sizes.values())
    rate = ("--set", f"rate={cell.rate}") if cell.at_rate else ()
    return (*rate, "--transactions", str(cell.transactions), "--repetitions", "2", "--sweep", f"pool_size={sizes}")


def measured(folder: Path, cell: Cell) -> dict[Any, list[float]]:
    """Return size of the pool in bytes -> reads per transaction of each measured run."""
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


def rows(folder: Path, cell: Cell) -> Iterator[dict[str, Any]]:
    """Yield a row for each size of a cell, if the cell is complete."""
    if not (folder / f"{cell.name}.done").exists():
        return
    truth = measured(folder, cell)
    first = json.loads((folder / f"{cell.name}.json").read_text())
    longer = folder / f"{cell.name}-long.json"
    for name, ratio in cell.sizes.items():
        is_longer = name == "4" and longer.exists()
        told = json.loads(longer.read_text()) if is_longer else first
        units_per_s = told["counted"]["units"] / told["counted"]["seconds"] if told["counted"]["seconds"] else 0.0
        present = told["present"]["pool_size_bytes"]
        size = next((one for one in told["sizes"] if one["pool_size_bytes"] == int(ratio * present)), None)
        per = {key: size[key] / units_per_s if size and size[key] is not None and units_per_s else None
               for key in ("reads_per_s", "low", "high")}  # fmt: skip
        # The server's pool is a whole number of pages, so take the nearest size.
        runs = truth[min(truth, key=lambda measured_bytes: abs(measured_bytes - ratio * present))]
        own = told["counted"]["reads"] / told["counted"]["units"] if told["counted"]["units"] else None
        why = (size or {}).get("cannot_say") or {}
        yield {"load": cell.name, "settings": cell.settings, "pool_bytes": present, "look_s": round(told["seconds"]),
               "turnover_s": turnover_s(told), "tier": cell.tier, "size": name, "own": own, "runs": runs,
               "told": per["reads_per_s"], "low": per["low"], "high": per["high"],
               "by": (size or {}).get("tier"), "cannot_say": why.get("why")}  # fmt: skip


def turnover_s(told: dict[str, Any]) -> float | None:
    """Return the seconds in which an advised server read as many pages as its pool has; None if it read none."""
    counted = told["counted"]
    return told["present"]["pool_pages"] * counted["seconds"] / counted["reads"] if counted["reads"] else None


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table, with a summary."""
    heads = (
        "| load | settings | present pool, MiB | look, s | turnover, s | pool | reads now | measured | told | bounds"
    )
    heads += " | error | by |"
    lines = [heads, "|---" * (heads.count("|") - 1) + "|"]
    for row in found:
        truth = fmean(row["runs"])
        told = "cannot say" if row["told"] is None else f"{row['told']:.3f}"
        bounds = "-" if row["high"] is None else f"{row['low'] or 0:.3f}-{row['high']:.3f}"
        error = "-" if row["told"] is None or not truth else f"{row['told'] / truth - 1:+.1%}"
        own = "-" if row["own"] is None else f"{row['own']:.3f}"
        turnover = "-" if row["turnover_s"] is None else f"{row['turnover_s']:.0f}"
        runs = ", ".join(f"{one:.3f}" for one in row["runs"])
        cells = (row["load"], row["settings"], f"{row['pool_bytes'] / (1 << 20):.0f}", str(row["look_s"]), turnover,
                 row["size"], own, runs, told, bounds, error, row["by"] or "-")  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"{row['load']} {row['size']}: {row['cannot_say']}" for row in found if row["cannot_say"]]
    return "\n".join((*lines, *summary(found)))


def summary(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each tier: how often it answers, its errors, and how often its bounds contain the truth.

    An answer is a value or only an upper bound. A bound has no error; it is right if the measured value is below it.
    """
    for tier in ("full", "misses"):
        # A size that the tier `full` left to the tier `misses` counts only as a cell of `misses`.
        cells = [{**row, "truth": fmean(row["runs"])} for row in found if (row["by"] or row["tier"]) == tier]
        answered = [row for row in cells if row["cannot_say"] is None and row["high"] is not None]
        told = [row for row in answered if row["told"] is not None]
        if not told:
            yield f"{tier}: answers none of {len(cells)}"
            continue
        errors = [abs(row["told"] / row["truth"] - 1) for row in told if row["truth"]]
        large = [row for row in told if abs(row["told"] - row["truth"]) > max(LEAST_READS, LARGEST * row["truth"])]
        signs = sum(_wrong_sign(row) for row in told)
        held = sum(row["low"] <= row["truth"] <= row["high"] for row in answered)
        widths = [
            f"{name}: {median(halves):.0%}"
            for name in SIZES
            if (halves := [(row["high"] - row["low"]) / 2 / row["told"] for row in told
                           if row["told"] and row["size"] == name])
        ]  # fmt: skip
        yield (
            f"{tier}: answers {len(answered)} of {len(cells)}; mean error {fmean(errors):.1%},"
            f" largest {max(errors):.1%}, {len(large)} above {LARGEST:.0%} and {LEAST_READS} reads;"
            f" {signs} with the wrong sign; bounds hold {held} of {len(answered)},"
            f" median half-widths {', '.join(widths)}"
        )


def cost_table(folder: Path, cells: Sequence[Cell]) -> str:
    """Return a Markdown table of each observation's cost, measured and predicted, in per cent of a processor."""
    lines = ["| load | attached | foretold | by its events | measured (95 %) | the command itself |"]
    lines.append("|---" * lines[0].count(" | ") + "|---|")
    for cell in cells:
        file = folder / f"{cell.name}.json"
        for one in json.loads(file.read_text())["cost"] if file.exists() else ():
            measured = "-"
            if one["server_cores"] is not None:
                found, low, high = (f"{100 * one[key]:.2f}" for key in ("server_cores", "low", "high"))
                measured = f"{found} ({low} to {high})"
            shares = (f"{100 * one[key]:.2f}" for key in ("foretold_cores", "by_events_cores"))
            told = (cell.name, one["tier"], *shares, measured, f"{100 * one['ours_cores']:.2f}")
            lines.append(f"| {' | '.join(told)} |")
    return "\n".join(lines)


def _wrong_sign(row: dict[str, Any]) -> bool:
    """Return whether the advice said that reads fall although they clearly rise, or the reverse."""
    change, told = row["truth"] - row["own"], row["told"] - row["own"]
    return bool(abs(change) > max(LEAST_READS, 0.1 * row["own"]) and change * told <= 0)


def main() -> int:
    """Do the cells that the arguments ask for; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--full", action="store_true", help="the loads of the tier full, which the kept rows lack")
    parser.add_argument(
        "--build", action="append", default=[], type=of_build, metavar="NAME=ENGINE:PATH",
        help="twice the pool of a server by its path, or with --full half of it, in place of the loads; again for more",
    )  # fmt: skip
    parser.add_argument("--only", default="", help="names of loads, with commas between them")
    parser.add_argument("--keep", action="store_true", help=f"note the rows of loads that are done in {KEPT.name}")
    given = parser.parse_args()
    builds = [_full(cell, only="half") for cell in given.build] if given.full else given.build
    every = tuple(builds) or (FULL if given.full else MISSES)
    names = given.only.split(",") if given.only else [cell.name for cell in every]
    if unknown := {*names} - {cell.name for cell in every}:
        parser.error(f"no loads are named {', '.join(sorted(unknown))}")
    given.folder.mkdir(parents=True, exist_ok=True)
    # After SIGTERM exit normally, so that the watched server ends too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    wanted, started = [cell for cell in every if cell.name in names], time.monotonic()
    failed = [cell.name for cell in wanted if cell.name not in kept and not judged(given.folder, cell)]
    for cell in every:
        if found := list(rows(given.folder, cell)):
            kept.setdefault(cell.name, found)
    if given.keep:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    print(table([row for cell in every for row in kept.get(cell.name, ())]))
    print(cost_table(given.folder, every))
    print(f"all after {minutes_since(started)}")
    for name in failed:
        print(f"not done: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
