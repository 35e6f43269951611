"""Times `curve` for every pool size and libCacheSim's replay for three sizes, in turn, on one file of page accesses.

    PYTHONPATH=python .venv/bin/python benches/curve.py FILE.oracleGeneral --peer PYTHON [--pairs 7]

PYTHON is an interpreter that has the package libcachesim (0.3.5 is the version compared). For both programs the time is
the processor time of the whole process, on one core; a third process times the Rust core's pass alone. If misses at the
three sizes differ, the benchmark stops. Prints a Markdown table. `bufferlab curve RUN --to` writes such a file.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from random_read_fio import ratio, timed

_PEER = """
import json, sys
import libcachesim as lcs
init = lcs.ReaderInitParam(ignore_obj_size=True)
ratios = []
for size in map(int, sys.argv[2].split(",")):
    reader = lcs.TraceReader(sys.argv[1], lcs.TraceType.ORACLE_GENERAL_TRACE, init)
    ratios.append(lcs.LRU(cache_size=size).process_trace(reader)[0])
print(json.dumps(ratios))
"""
_PASS = """
import json, sys, time
from pathlib import Path
from bufferlab.traces import curve, files
accesses = files.read(Path(sys.argv[1]))
start = time.perf_counter()
curve.curve(accesses, None, lambda done: None)
print(json.dumps([len(accesses.page), accesses.pages, time.perf_counter() - start]))
"""


def main() -> None:
    """Run both programs in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--peer", required=True)
    parser.add_argument("--pairs", type=int, default=7)
    arguments = parser.parse_args()
    one_core = ["taskset", "-c", "1"]
    alone = [json.loads(_run([*one_core, sys.executable, "-c", _PASS, arguments.file])) for _ in range(arguments.pairs)]
    accesses, pages, _ = alone[0]
    sizes = [max(1, pages * percent // 100) for percent in (5, 20, 60)]
    ours = [sys.executable, "-m", "bufferlab", "curve", arguments.file, "--json",
            "--sizes", ",".join(f"{size}pages" for size in sizes)]  # fmt: skip
    theirs = [arguments.peer, "-c", _PEER, str(Path(arguments.file).absolute()), ",".join(map(str, sizes))]
    cpu_s_of: dict[str, list[float]] = {"ours": [], "theirs": []}
    for pair in range(arguments.pairs):
        found = {}
        for name, command in (("ours", ours), ("theirs", theirs)) if pair % 2 else (("theirs", theirs), ("ours", ours)):
            text, spent_s = timed([*one_core, *command], "")
            found[name] = json.loads(text)
            cpu_s_of[name].append(spent_s)
        mine = [row["lru_misses"] for row in found["ours"]["curve"]]
        if mine != [round(share * accesses) for share in found["theirs"]]:
            raise SystemExit(f"misses differ: {mine} here, {found['theirs']} of {accesses} there")
    rate = statistics.median(accesses / seconds / 1e6 for _, _, seconds in alone)
    ours_s, theirs_s = (statistics.median(cpu_s_of[name]) for name in ("ours", "theirs"))
    print("| accesses | pages | the pass alone, M/s | pairs | CPU s, all sizes | CPU s, libCacheSim, 3 sizes | ratio |")
    print("|---" * 7 + "|")
    pairs = ratio([mine / peer for mine, peer in zip(cpu_s_of["ours"], cpu_s_of["theirs"], strict=True)])
    print(f"| {accesses:,} | {pages:,} | {rate:.1f} | {arguments.pairs} | {ours_s:.2f} | {theirs_s:.2f} | {pairs} |")


def _run(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
