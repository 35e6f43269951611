"""Runs the same experiments in two checkouts with their own programs, and compares counts. Called by same-truth.

On SQLite equal seeds give equal counts at every edge of every window, so the rows of samples are compared one by one,
except times, and counters of the host and the process. A sample within a window asks SQLite for its page count, which
gets two pages, and the number of samples depends on the clock; so these gets are subtracted. Experiments run without
their time limits, at which a slow host would end a warm-up earlier.

On servers counts vary. Twelve sweeps per side run in turn with the same seeds. Student's 99 % interval of the mean log
ratio over the pairs must contain 1, and must lie within 5 % of it. The number of pairs is fixed beforehand. One
interval in a hundred does not contain the true ratio by chance, so adding pairs until an interval contains 1 would
prove nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy import stats

SQLITE = ("buffer-size", "hot-rows", "page-size")
SERVERS = {"mysql-5.7": "mysql", "postgres-17": "postgres"}
RATIOS = ("reads_per_transaction", "misses_per_transaction", "writes_per_transaction")
PAIRS = 12
CONFIDENCE, FARTHEST = 0.99, 0.05

Row = tuple[int, str, str, str, str]
"""The key of a row: (number of the run in order, phase, edge, metric, subject)."""

#: A program that runs in the checkout's own interpreter, so that the version that wrote a file also reads it.
READ = """
import json, sys
try:
    from bufferlab.registry import open_sweep
except ImportError:  # An older tree.
    import bufferlab.engines.registry
    from bufferlab.results.store import SweepFolder

    open_sweep = SweepFolder.open
for at, record in enumerate(open_sweep(sys.argv[1]).runs()):
    for row in record.samples().iter_rows(named=True):
        if row["probe"] in ("engine", "workload") and row["count"] is not None:
            told = [at, row["phase"], row["edge"], row["metric"], row["subject"], row["count"]]
            print(json.dumps(told))
"""

#: Counter -> its increase by each sample inside a window, because the sample asks SQLite for its page count.
GETS_OF_A_SAMPLE = {"page_gets": 2, "pool_fetches": 2, "pool_hits": 2}


def counts(rows: Sequence[Sequence[Any]]) -> dict[Row, int]:
    """Return the counts at the edges, without times, and without the gets caused by samples."""
    found: dict[Row, int] = {}
    sampled: dict[tuple[int, str], int] = {}
    for run, phase, edge, metric, subject, count in rows:
        if edge is None:
            sampled[run, metric] = sampled.get((run, metric), 0) + 1
        elif not metric.endswith(("_ns", "_us")):
            own = GETS_OF_A_SAMPLE.get(metric, 0) * sampled.get((run, metric), 0)
            found[run, phase, edge, metric, subject] = count - own
    return found


def differences(before: Mapping[Row, int], after: Mapping[Row, int]) -> Iterator[str]:
    """Yield a line for each row that differs between the sides."""
    for row in sorted(before.keys() | after.keys()):
        one, other = before.get(row), after.get(row)
        if one != other:
            run, phase, edge, metric, subject = row
            name = f"{metric} {subject}".strip()
            yield f"run {run + 1}, {phase} {edge}: {name}: {_told(one)} before, {_told(other)} after"


def _told(count: int | None) -> str:
    return "no row" if count is None else f"{count:,}"


def interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean of the pairs' ratios after / before, and the ends of its interval."""
    logs = [math.log(b / a) for a, b in zip(before, after, strict=True)]
    mean = sum(logs) / len(logs)
    spread = math.sqrt(sum((each - mean) ** 2 for each in logs) / (len(logs) - 1) / len(logs))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1)) * spread
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


class Tree:
    """A built checkout, and the folder for its sweeps and databases."""

    def __init__(self, path: Path, work: Path) -> None:
        self.path = path.resolve()
        self.work = work
        work.mkdir(parents=True, exist_ok=True)

    def sweep(self, name: str, experiment: str, *words: str, cache: Path | None = None) -> Path:
        """Run an experiment; return its sweep folder. `cache` has databases and servers; the default is the user's."""
        places = {} if cache is None else {"BUFFERLAB_CACHE": str(cache)}
        out = ("--out", str(self.work / name), "--json")
        told = self._python("-m", "bufferlab", "run", str(self._untimed(experiment)), *words, *out, **places)
        return Path(json.loads(told)["sweep"])

    def _untimed(self, experiment: str) -> Path:
        """Copy an experiment of this checkout, with time limits that it never reaches; return the copy's path."""
        copy = self.work / "experiments" / experiment
        shutil.copytree(self.path / "experiments" / experiment, copy, dirs_exist_ok=True)
        file = copy / "experiment.toml"
        file.write_text(re.sub(r'max_duration = "\w+"', 'max_duration = "1h"', file.read_text()))
        return file

    def samples(self, sweep: Path) -> list[list[Any]]:
        """Return the rows of samples with the engine's and the workload's counts."""
        return [json.loads(line) for line in self._python("-c", READ, str(sweep)).splitlines()]

    def values(self, sweep: Path) -> dict[tuple[str, str], float | None]:
        """Return (point, metric) -> reported value."""
        answer = json.loads(self._python("-m", "bufferlab", "report", str(sweep), "--json"))
        return {
            (point["label"], row["metric"]): row["value"]
            for point in answer["points"]
            for row in point["summaries"]
            if row["metric"] in RATIOS
        }

    def _python(self, *words: str, **places: str) -> str:
        done = subprocess.run(
            [self.path / ".venv/bin/python", *words],
            env={**os.environ, "PYTHONPATH": str(self.path / "python"), **places},
            cwd=self.work,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"error: {self.path}: {' '.join(words[:4])} ended with {done.returncode}")
        return done.stdout


def same_on_sqlite(experiment: str, trees: tuple[Tree, Tree], seed: int) -> bool:
    """Print the rows that differ; return whether there are none."""
    told = []
    for tree in trees:
        # Each side loads its own database, so that loading is compared too.
        sweep = tree.sweep(experiment, experiment, "--smoke", "--seed", str(seed), cache=tree.work / "cache")
        told.append(counts(tree.samples(sweep)))
    found = list(differences(*told))
    print(f"{experiment}: {len(told[0]):,} rows, {len(found):,} differ")
    print("".join(f"  {line}\n" for line in found), end="", flush=True)
    return not found and bool(told[0])


def same_on_server(server: str, trees: tuple[Tree, Tree], seeds: range, options: Sequence[str]) -> bool:
    """Print the ratios; return whether every interval contains 1 and lies close to it."""
    words = ("--quick", "--engine", SERVERS[server], "--server", server, "--sweep", "pool_size=20%")
    sweeps: tuple[list[Path], list[Path]] = ([], [])
    for seed in seeds:
        # Each side goes first in every second pair, because the first server of a pair changes the host for the second.
        for side in (0, 1) if seed % 2 else (1, 0):
            sweeps[side].append(trees[side].sweep(server, "buffer-size", *words, *options, "--seed", str(seed)))
    sides = [[tree.values(sweep) for sweep in of_tree] for tree, of_tree in zip(trees, sweeps, strict=True)]
    same = bool(sides[0][0])
    for key in sides[0][0]:
        line, good = ratio_line(*([values.get(key) for values in side] for side in sides))
        print(f"{server}, {', '.join(key)}: {line}", flush=True)
        same = same and good
    return same


def ratio_line(before: Sequence[float | None], after: Sequence[float | None]) -> tuple[str, bool]:
    """Return a line on a metric's pairs, and whether the metric is the same on both sides."""
    if before == after:
        return "identical", True
    if not all(before) or not all(after):
        return f"no ratio: {before} before, {after} after", False
    ratio, low, high = interval([each for each in before if each], [each for each in after if each])
    wrong = " is not 1" if not low <= 1 <= high else " is too wide" if low < 1 - FARTHEST or high > 1 + FARTHEST else ""
    return f"{ratio:.4f} ({low:.4f} to {high:.4f}, {len(before)} pairs){wrong}", not wrong


def main() -> int:
    """Compare two trees; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="tools/same-truth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a checkout with its own build")
    parser.add_argument("after", type=Path, help="another one")
    parser.add_argument("--servers", action="store_true", help="MySQL 5.7 and PostgreSQL 17 too")
    parser.add_argument("--only", choices=(*SQLITE, *SERVERS), help="compare this alone")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="runs a side on servers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the transactions (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/bufferlab-same-truth"), help="default: %(default)s")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="of `bufferlab run`, for the servers' sweeps")
    asked = parser.parse_args()
    if asked.pairs < 2:
        parser.error("an interval needs two pairs")
    trees = Tree(asked.before, asked.work / "before"), Tree(asked.after, asked.work / "after")
    wanted = (asked.only,) if asked.only else (*SQLITE, *(SERVERS if asked.servers else ()))
    seeds = range(asked.seed, asked.seed + asked.pairs)
    same = [
        same_on_server(one, trees, seeds, asked.options) if one in SERVERS else same_on_sqlite(one, trees, asked.seed)
        for one in wanted
    ]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
