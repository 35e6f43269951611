"""Compares the time to generate page accesses and replay them in one exact pool with libCacheSim's LRU replay alone.

    PYTHONPATH=python .venv/bin/python benches/generate.py --peer PYTHON [--warehouses 1000] [--pairs 5]

PYTHON is an interpreter that has the package libcachesim (0.3.5 is the version compared). Our program generates TPC-C
on InnoDB with pages of 16 KiB and replays each access at once in an LRU pool, and in another process in the model of
MySQL 5.7. libCacheSim reads a file of the same accesses, which crates/bufferlab-generate/examples/stream.rs has written
before, and replays only LRU. Times are processor time of one core from the first access to the last, without the layout
of the database, start-up, and writing the file. If the numbers of pages that entered LRU differ, the benchmark stops.
Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from random_read_fio import ratio

ROOT = Path(__file__).resolve().parents[1]
MODELS: dict[str, dict[str, Any]] = {
    "lru": {},
    "innodb57": {
        "old_blocks_pct": 37, "old_blocks_time": 0, "lru_scan_depth": 100, "flush_neighbors": 1, "wakes_cleaner": True,
    },
}  # fmt: skip
_OURS = """
import json, sys, time
from bufferlab.engines.native import native
job = json.load(sys.stdin)
empty = json.dumps({**job, "pools": []})
native().generate(empty, None)
begin = time.process_time()
native().generate(empty, None)
laid_out = time.process_time()
told = json.loads(native().generate(json.dumps(job), None))
end = time.process_time()
assert told["way"]["name"] == "exact", told["way"]
(pool,) = told["pools"]
entered = pool["evictions"] + pool["frames_used"]
# InnoDB's get of a bitmap page for each page read is counted, and not played.
print(json.dumps([pool["gets"] - pool["misses"], entered, end - laid_out - (laid_out - begin)]))
"""
_PEER = """
import json, sys, time
import libcachesim as lcs
file, frames, touches, gets = sys.argv[1], *map(int, sys.argv[2:])
reader = lcs.TraceReader(file, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam(ignore_obj_size=True))
cache = lcs.LRU(cache_size=frames)
begin = time.process_time()
missed = cache.process_trace(reader)[0]
print(json.dumps([gets, round(missed * touches), time.process_time() - begin]))
"""
_ONE_CORE = ["taskset", "-c", "1"]


def job_of(warehouses: int, transactions: int, frames: int, model: str = "lru") -> dict[str, Any]:
    """Return the core's job for one exact pool, with a window that begins with the first transaction."""
    return {
        "engine": "innodb",
        "page_size_bytes": 16384,
        "workload": {"warehouses": warehouses, "load_seed": 20260101, "seed": 1},
        "one_in": 1,
        "connections": 8,
        "pools": [{"model": model, "settings": MODELS[model], "frames": frames}],
        "warm_up": {"transactions": 0},
        "window_transactions": transactions,
    }


def main() -> None:
    """Run both programs in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--warehouses", type=int, default=1000)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=500_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="for the file of accesses, 5 KB a transaction; the usual one")
    arguments = parser.parse_args()
    jobs = {name: json.dumps(job_of(arguments.warehouses, arguments.transactions, arguments.frames, name))
            for name in MODELS}  # fmt: skip
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        file = Path(folder) / "accesses.oracleGeneral"
        touches, gets = _written(file, jobs["lru"])
        commands = {name: [sys.executable, "-c", _OURS] for name in MODELS}
        commands["libCacheSim"] = [arguments.peer, "-c", _PEER, str(file), *map(str, (arguments.frames, touches, gets))]
        spent_s: dict[str, list[float]] = {name: [] for name in commands}
        for pair in range(arguments.pairs):
            entered = {}
            for name, command in commands.items() if pair % 2 else reversed(commands.items()):
                told = json.loads(_said([*_ONE_CORE, *command], jobs.get(name, "")))
                entered[name] = told[1]
                spent_s[name].append(told[2])
                if told[0] != gets:
                    raise SystemExit(f"{name} heard {told[0]:,} gets, and the file has {gets:,}")
            if entered["lru"] != entered["libCacheSim"]:
                raise SystemExit(f"{entered['lru']:,} pages entered LRU here, {entered['libCacheSim']:,} there")
    print(f"{arguments.warehouses:,} warehouses, {touches:,} accesses, {arguments.frames:,} frames, "
          f"{arguments.pairs} pairs.\n")  # fmt: skip
    print("| what | M accesses/s of one core, median (lowest-highest) | CPU time over libCacheSim's |")
    print("|---" * 3 + "|")
    for name, times_s in spent_s.items():
        rates = [touches / each / 1e6 for each in times_s]
        what = name if name == "libCacheSim" else f"generator and {name}"
        pairs = [mine / peer for mine, peer in zip(times_s, spent_s["libCacheSim"], strict=True)]
        over = "1" if name == "libCacheSim" else ratio(pairs)
        print(f"| {what} | {statistics.median(rates):.1f} ({min(rates):.1f}-{max(rates):.1f}) | {over} |")


def _written(file: Path, text: str) -> tuple[int, int]:
    """Write the accesses of a job to a file; return their number, and the number of gets among them."""
    cargo = ["cargo", "build", "--quiet", "--release", "--locked", "-p", "bufferlab-generate", "--example", "stream"]
    subprocess.run(cargo, cwd=ROOT, check=True)
    touches, gets = json.loads(_said([str(ROOT / "target/release/examples/stream"), str(file)], text))
    return touches, gets


def _said(command: list[str], text: str) -> str:
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main()
