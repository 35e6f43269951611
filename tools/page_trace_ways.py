"""Two witnesses of one server's page accesses, and what other pools would have read by each. Called by page-trace-ways.

Each seed is run both ways, and who begins alternates. From each trace the model and LRU tell the reads of half the
pool, of the pool and of twice the pool. The ways agree on a pool where the means of their runs differ by no more than
the scatter of runs of one way lets expect (Student's interval of 95 %, one variance for both). The server is a copy:
the kernel would stop in every other server of the same file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, variance
from typing import Any

from bufferlab.engines.servers.builds import servers_root
from bufferlab.stats.estimate import quantile_of_t
from support import innodb
from support.core import ROOT

WAYS = {"inside": "page-trace", "uprobes": "page-trace=uprobes"}
POOLS = ("15%", "30%", "60%")
"""The traced pool is the middle one."""
BY = ("predicted", "lru")
"""What tells the reads: the model of the server, and the LRU curve."""
_HEAD = ("by", "pool", "reads, inside", "reads, uprobes", "the ways differ by", "runs let expect (95 %)", "agree")

Reads = dict[tuple[str, str], list[int]]
"""The reads of each pool in POOLS, by what tells them, of the runs of one way."""


def main() -> int:
    """Run, predict, print; return 1 when the ways do not agree."""
    parser = argparse.ArgumentParser(prog="tools/page-trace-ways", description=__doc__)
    parser.add_argument("--server", default="mysql-5.7")
    parser.add_argument("--transactions", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error("--seeds: one run of each way does not tell what runs differ by; take two or more")
    found: dict[str, Reads] = {way: {} for way in WAYS}
    with innodb.folder() as root:
        shutil.copytree(servers_root() / arguments.server, root / "servers" / arguments.server, symlinks=True)
        for seed in range(1, arguments.seeds + 1):
            for way in WAYS if seed % 2 else reversed(WAYS):
                print(f"{arguments.server}, seed {seed}, {way}", file=sys.stderr)
                points = predicted(root, traced(root, arguments.server, way, seed, arguments.transactions))
                for pool, point in zip(POOLS, points, strict=True):
                    for by in BY:
                        found[way].setdefault((by, pool), []).append(point[by]["reads"])
    lines, agree = table(found)
    print("\n".join(lines))
    return int(not agree)


def table(found: Mapping[str, Reads]) -> tuple[list[str], bool]:
    """Return the Markdown table, and whether the ways agree everywhere."""
    lines = [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
    agree = True
    for key in ((by, pool) for by in BY for pool in POOLS):
        inside, uprobes = (found[way][key] for way in WAYS)
        apart, expected = abs(fmean(inside) - fmean(uprobes)), expected_of(inside, uprobes)
        agree &= apart <= expected
        reads = (", ".join(f"{one:,}" for one in side) for side in (inside, uprobes))
        mean = fmean(inside)
        differences = (f"{count:,.0f} ({count / mean:.2%})" if mean else f"{count:,.0f}" for count in (apart, expected))
        cells = (*key, *reads, *differences, "yes" if apart <= expected else "no")
        lines.append(f"| {' | '.join(cells)} |")
    return lines, agree


def expected_of(one: list[int], other: list[int]) -> float:
    """Return by how much the means of as many runs differ at most, in 95 % of cases, where the ways do not differ."""
    scatter = math.sqrt((variance(one) + variance(other)) / 2)
    return quantile_of_t(0.975, 2.0 * (len(one) - 1)) * scatter * math.sqrt(2 / len(one))


def traced(root: Path, server: str, way: str, seed: int, transactions: int) -> Path:
    """Do a traced run; return its sweep's folder."""
    out = root / f"{way}-{seed}"
    asked = ("run", "buffer-size", "--engine", server.split("-")[0], "--set", f"server={server}", "--warehouses", "1",
             "--connections", "8", "--sweep", f"pool_size={POOLS[1]}", "--transactions", str(transactions),
             "--repetitions", "1", "--seed", str(seed), "--probe", WAYS[way], "--share-device",
             "--out", str(out))  # fmt: skip
    bufferlab(root, *asked)
    (plan,) = out.glob("*/plan.json")
    return plan.parent


def predicted(root: Path, sweep: Path) -> list[dict[str, Any]]:
    """Return what pools would have read by the trace of a sweep's only run, in the order of POOLS."""
    said = bufferlab(root, "predict", str(sweep), "--sweep", f"pool_size={','.join(POOLS)}", "--out",
                     str(root / "predicted"), "--json")  # fmt: skip
    points: list[dict[str, Any]] = json.loads(said)["points"]
    return points


def bufferlab(root: Path, *asked: str) -> str:
    """Run the command; return what it prints. A failure ends the tool with its words."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUFFERLAB_CACHE": str(root)}
    done = subprocess.run(
        [sys.executable, "-m", "bufferlab", *asked], env=environment, capture_output=True, text=True
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"bufferlab {' '.join(asked)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
