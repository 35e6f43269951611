"""Compares random reads by fio and by bufferlab's driver, in turn: reads per second, and processor time per read.

    PYTHONPATH=python .venv/bin/python benches/random_read_fio.py [--pairs 20] [--seconds 5] [--file /path/to/file]

Both read the same file with O_DIRECT and io_uring at the same size and depth. Each run has its own seed, because a
cache below this host may hold the pages of an earlier run. The side that goes first alternates from pair to pair.
Processor time is that of the whole process with all its threads, from its exit (wait4). Ours includes the start of
Python, so the time inside the window has its own column. Kernel threads outside of both processes (a loop device's,
kblockd) are not counted. Prints a Markdown table with intervals. Needs fio (Debian's package is enough); without --file
this program makes a file of 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bufferlab.engines.native import native
from bufferlab.stats.estimate import quantile_of_t

SIZES = {"4k": 4096, "8k": 8192, "16k": 16384}
DEPTHS = (1, 16)
#: Depth -> goal: the lower bound of our reads per second divided by fio's must exceed this.
AIMS = {1: 0.90, 16: 0.95}
FILE_BYTES = 1 << 30

_OURS = """
import json, sys
from bufferlab import _native
edges = []
def hear(text):
    event = json.loads(text)
    if event["event"] == "sample" and event["edge"]:
        edges.append({row["metric"]: row["count"] for row in event["values"] if row["count"] is not None})
result = json.loads(_native.run("file", sys.stdin.read(), hear))
spent = [edge["process_user_us"] + edge["process_system_us"] for edge in edges if "process_user_us" in edge]
print(json.dumps({**result["measured"], "run": result["actual"]["backend_run"], "window_us": spent[-1] - spent[0]}))
"""


@dataclass(frozen=True)
class Done:
    """The results of one run of either program."""

    reads_per_s: float
    cpu_us: float
    """Processor time of the whole process, per read."""
    window_cpu_us: float
    """Processor time in the measured window alone, per read; fio does not report it."""


def main() -> None:
    """Run both programs in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)))
    arguments = parser.parse_args()
    fio = shutil.which("fio")
    if fio is None:
        raise SystemExit("fio is not installed: apt-get install fio")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as folder:
        file = arguments.file or made(Path(folder) / "file")
        print(subprocess.run([fio, "--version"], capture_output=True, text=True, check=True).stdout.strip(), "\n")
        print(
            "| size | depth | pairs | fio, reads/s | ours, reads/s | ratio (95 %) | aim | CPU per read, ours over fio "
            "(95 %) | fio, us | ours, us | ours in the window, us |\n|---" + "|---:" * 10 + "|"
        )
        for size in arguments.sizes.split(","):
            for depth in map(int, arguments.depths.split(",")):
                measure(fio, file, size, depth, arguments.pairs, arguments.seconds)


def made(file: Path) -> Path:
    """Make a file of random bytes; return its path."""
    job = {"path": str(file), "bytes": FILE_BYTES, "seed": secrets.randbits(53)}
    native().load("file", json.dumps(job), lambda event: None)
    return file


def measure(fio: str, file: Path, size: str, depth: int, pairs: int, seconds: float) -> None:
    """Do the pairs of runs at one size and depth, and print their row."""
    theirs: list[Done] = []
    mine: list[Done] = []
    for pair in range(pairs):
        turns = [lambda: theirs.append(by_fio(fio, file, SIZES[size], depth, seconds)),
                 lambda: mine.append(by_us(file, SIZES[size], depth, seconds))]  # fmt: skip
        for turn in turns if pair % 2 == 0 else reversed(turns):
            turn()
    rate = ratio([b.reads_per_s / a.reads_per_s for a, b in zip(theirs, mine, strict=True)])
    cpu = ratio([b.cpu_us / a.cpu_us for a, b in zip(theirs, mine, strict=True)])
    median = statistics.median
    print(
        f"| {size} | {depth} | {pairs} | {median(run.reads_per_s for run in theirs):,.0f} | "
        f"{median(run.reads_per_s for run in mine):,.0f} | {rate} | > {AIMS.get(depth, 0.95)} | {cpu} | "
        f"{median(run.cpu_us for run in theirs):.2f} | {median(run.cpu_us for run in mine):.2f} | "
        f"{median(run.window_cpu_us for run in mine):.2f} |",
        flush=True,
    )


def by_fio(fio: str, file: Path, size: int, depth: int, seconds: float) -> Done:
    """Run fio; return its results, with its own count of reads and its own time."""
    command = [
        fio, "--name=reads", f"--filename={file}", "--readonly", "--rw=randread", "--direct=1", "--ioengine=io_uring",
        f"--bs={size}", f"--iodepth={depth}", "--thread", "--time_based", f"--runtime={seconds}s", "--norandommap",
        "--randrepeat=0", f"--randseed={secrets.randbits(32)}", "--output-format=json",
    ]  # fmt: skip
    text, cpu_s = timed(command, "")
    reads: dict[str, Any] = json.loads(text[text.index("{") :])["jobs"][0]["read"]
    if reads["io_bytes"] != reads["total_ios"] * size:
        raise SystemExit(f"fio read {reads['io_bytes']} bytes in {reads['total_ios']} reads of {size}")
    cpu_us = cpu_s * 1e6 / reads["total_ios"]
    return Done(reads["total_ios"] / (reads["runtime"] / 1000), cpu_us, cpu_us)


def by_us(file: Path, size: int, depth: int, seconds: float) -> Done:
    """Run bufferlab's driver in its own process; return its results."""
    text, cpu_s = timed([sys.executable, "-P", "-c", _OURS], json.dumps(job_of(file, size, depth, seconds)))
    found = json.loads(text)
    if found["run"] != "io_uring":
        raise SystemExit(f"our reads were made by {found['run']}, not by io_uring")
    reads = found["transactions"]
    return Done(reads / found["seconds"], cpu_s * 1e6 / reads, found["window_us"] / reads)


def job_of(path: Path, size: int, depth: int, seconds: float) -> dict[str, Any]:
    """Return the core's job for direct random reads of a file or device, with a new seed."""
    return {
        "path": str(path),
        "range_bytes": file_bytes(path) // size * size,
        "below": [],
        "io_mode": "direct",
        "advise_random": False,
        "cache": "cold",
        "backend": "io_uring",
        "read_ahead_kib": None,
        "reads": {
            "io_size_bytes": size, "alignment_bytes": size, "order": "random", "queue_depth": depth, "threads": 1,
            "seed": secrets.randbits(53),
        },
        "warm_up": {"max_transactions": 1, "max_seconds": 1.0},
        "measure": {"transactions": 2**53 - 1, "max_seconds": seconds},
        "sample_interval_ms": 1000,
    }  # fmt: skip


def timed(command: list[str], text: str) -> tuple[str, float]:
    """Run a command with `text` as its input; return its output and its processor time in seconds."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(text)
    process.stdin.close()
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} ended with {process.returncode}: {said[-2000:]}")
    return said, used.ru_utime + used.ru_stime


def file_bytes(file: Path) -> int:
    """Return the size of a file or block device in bytes."""
    with file.open("rb") as opened:
        return opened.seek(0, os.SEEK_END)


def spread(values: list[float], level: float = 0.95) -> str:
    """Return the mean with Student's interval, as text."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:.2f}"
    half = quantile_of_t((1 + level) / 2, len(values) - 1.0) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.2f} ({mean - half:.2f}-{mean + half:.2f})"


def ratio(ratios: list[float], level: float = 0.95) -> str:
    """Return the geometric mean of paired ratios with Student's interval over the pairs, as text."""
    if len(ratios) < 2:
        return f"{ratios[0]:.3f}"
    mean, low, high = bounds(ratios, level)
    return f"{mean:.3f} ({low:.3f}-{high:.3f})"


def bounds(ratios: list[float], level: float) -> tuple[float, float, float]:
    """Return the geometric mean of at least two paired ratios, and the ends of Student's interval over the pairs."""
    logs = [math.log(value) for value in ratios]
    mean = statistics.fmean(logs)
    half = quantile_of_t((1 + level) / 2, len(logs) - 1.0) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


if __name__ == "__main__":
    main()
