"""Times `predict`, its replay alone, and libCacheSim's replay of the same accesses with the same pools.

    PYTHONPATH=python .venv/bin/python benches/predict.py RUN --peer PYTHON [--pairs 5] [--measured SWEEP]

RUN is a run with a page trace. PYTHON is an interpreter that has the package libcachesim (0.3.5 is the version
compared), which replays its LRU and its Clock. For both programs the time is the processor time of the whole process,
on one core; for `predict` it includes the report with its figures. SWEEP is a measured sweep of the same points, whose
run times are printed for comparison. Prints two Markdown tables.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from random_read_fio import ratio, timed

from bufferlab.models import source
from bufferlab.models.predict import of_server, replay
from bufferlab.registry import open_sweep
from bufferlab.traces import files, page_trace

_PEER = """
import json, sys
import libcachesim as lcs
init = lcs.ReaderInitParam(ignore_obj_size=True)
ratios = []
for size in map(int, sys.argv[2].split(",")):
    for kind in (lcs.LRU, lcs.Clock):
        reader = lcs.TraceReader(sys.argv[1], lcs.TraceType.ORACLE_GENERAL_TRACE, init)
        ratios.append(kind(cache_size=size).process_trace(reader)[0])
print(json.dumps(ratios))
"""
_POOLS = "10%,15%,20%,25%,30%,40%,50%"


def main() -> None:
    """Run both programs in turn, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--pools", default=_POOLS)
    parser.add_argument("--measured", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = [sys.executable, "-m", "bufferlab", "predict", str(arguments.run), "--json",
                "--sweep", f"pool_size={arguments.pools}", "--out", f"{folder}/runs"]  # fmt: skip
        told = json.loads(timed(["taskset", "-c", "1", *ours], "")[0])
        _alone(source.read(arguments.run), told, arguments.pairs)
        _whole(ours, told, arguments, Path(folder))


def _alone(traced: source.Source, told: dict[str, Any], pairs: int) -> None:
    """Print the speed of replays in memory: of the model, LRU and OPT."""
    manager, rows = of_server(traced.server), traced.trace.table.height
    assert manager
    seen = traced.seen(told["predictions"][0]["prediction"]["values"])
    settings = manager.settings(seen, seen.pool)
    print("| replayed alone | rows | n | M accesses/s |")
    print("|---" * 4 + "|")
    for name, obeyed in ((manager.name, settings), ("lru", {}), ("opt", {})):
        rates = []
        for _ in range(pairs):
            start = time.perf_counter()
            replay(traced, name, obeyed, traced.frames)
            rates.append(rows / (time.perf_counter() - start) / 1e6)
        middle = statistics.median(rates)
        print(f"| {name} | {rows:,} | {pairs} | {middle:.1f} ({min(rates):.1f}-{max(rates):.1f}) |")


def _whole(ours: list[str], told: dict[str, Any], arguments: argparse.Namespace, folder: Path) -> None:
    """Run both programs in turn; print their processor times, and the time of the measured sweep."""
    file = folder / "accesses.oracleGeneral"
    with file.open("wb") as written:
        files.write_oracle_general(page_trace.read(arguments.run).accesses(), written)
    sizes = ",".join(str(run["prediction"]["pool_frames"]) for run in told["predictions"])
    theirs = [arguments.peer, "-c", _PEER, str(file), sizes]
    cpu_s_of: dict[str, list[float]] = {"ours": [], "theirs": []}
    took_s = []
    for pair in range(arguments.pairs):
        turns = (("ours", ours), ("theirs", theirs))
        for name, command in turns if pair % 2 else reversed(turns):
            start = time.perf_counter()
            _, spent_s = timed(["taskset", "-c", "1", *command], "")
            cpu_s_of[name].append(spent_s)
            if name == "ours":
                took_s.append(time.perf_counter() - start)
    print("\n| points | pairs | CPU s, predict | CPU s, libCacheSim (LRU and Clock) | ratio | predict, s |")
    print("|---" * 6 + "|")
    ours_s, theirs_s = (statistics.median(cpu_s_of[name]) for name in ("ours", "theirs"))
    pairs = ratio([mine / peer for mine, peer in zip(cpu_s_of["ours"], cpu_s_of["theirs"], strict=True)])
    counts, wall_s = f"{len(told['predictions'])} | {arguments.pairs}", statistics.median(took_s)
    print(f"| {counts} | {ours_s:.2f} | {theirs_s:.2f} | {pairs} | {wall_s:.2f} |")
    if arguments.measured:
        spent = [
            datetime.fromisoformat(record.run.ended_at) - datetime.fromisoformat(record.run.started_at)
            for record in open_sweep(arguments.measured).runs()
        ]
        measured_s = sum(one.total_seconds() for one in spent)
        print(f"\n{len(spent)} runs were measured in {measured_s:.0f} s, "
              f"{measured_s / wall_s:.0f} times as long.")  # fmt: skip


if __name__ == "__main__":
    main()
