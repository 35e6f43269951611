"""Compares the time of `predict` on one core with that on all cores: of its replays alone, and of the whole command.

    PYTHONPATH=python .venv/bin/python benches/predict_threads.py RUN --pools 5%,10%,... [--before CHECKOUT]
    PYTHONPATH=python .venv/bin/python benches/predict_threads.py buffer-size --engine mysql --server mysql-5.7
        --pools 5%,10%,...

RUN is a run with a page trace, or an experiment, whose accesses are generated. Both sides take turns, A B A B: A
predicts in one thread, B in one thread per core. For the whole command, A is the command of CHECKOUT, another built
working copy, if one is named; else it is this checkout's, limited to one core by taskset. If the numbers of both sides
differ, the benchmark stops. Prints a Markdown table, and the peak memory of each command.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from random_read_fio import ratio

from bufferlab.cli.options import server_setting
from bufferlab.execute.predicted_sweep import _origin
from bufferlab.models.ahead import Ahead
from bufferlab.spec import Overrides

ROOT = Path(__file__).resolve().parents[1]


class Spent(NamedTuple):
    """The time and the results of one try."""

    seconds: float
    peak_bytes: int
    found: Any


def main() -> None:
    """Try both sides in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("asked", type=Path)
    parser.add_argument("--pools", required=True)
    parser.add_argument("--engine")
    parser.add_argument("--server")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--before", type=Path)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"| what | pairs | A, s | B on {cores} cores, s | A / B (95 %) | peak of A, MB | of B, MB |")
    print("|---" * 7 + "|")
    alone = replays(arguments)
    show("replays or generated runs", arguments.pairs, lambda: alone(1), lambda: alone(cores))
    with tempfile.TemporaryDirectory() as folder:
        options = [str(arguments.asked), "--json", "--sweep", f"pool_size={arguments.pools}", "--out", f"{folder}/runs"]
        for name in ("engine", "server"):
            options += [f"--{name}", told] if (told := getattr(arguments, name)) else []
        one_core = [] if arguments.before else ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        before = arguments.before or ROOT
        show(
            "the command",
            arguments.pairs,
            lambda: command(one_core, before, options),
            lambda: command([], ROOT, options),
        )


def replays(arguments: argparse.Namespace) -> Callable[[int], Spent]:
    """Return a function that does all replays in a given number of threads."""
    knobs = server_setting(arguments.server)
    sweep = (("pool_size", tuple(arguments.pools.split(","))),)
    origin = _origin(arguments.asked, Overrides(engine=arguments.engine, set_knobs=knobs, sweep=sweep), None, None)
    points = origin.plan.points

    def all_of_them(threads: int) -> Spent:
        begun = time.perf_counter()
        with Ahead(
            lambda run, watch: origin.predicted(run, points[run.point], watch), origin.plan.runs, threads
        ) as ahead:
            found = [predicted.prediction.model_dump() for _, predicted in ahead.results(lambda _: None)]
        return Spent(time.perf_counter() - begun, 0, found)

    all_of_them(1)
    return all_of_them


def command(prefix: list[str], checkout: Path, options: list[str]) -> Spent:
    """Run `bufferlab predict` of a checkout; return its time and results."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "python")}
    whole = [*prefix, sys.executable, "-m", "bufferlab", "predict", *options]
    begun = time.perf_counter()
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True)
    assert process.stdout
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - begun
    if process.returncode:
        raise SystemExit(f"{' '.join(whole)} ended with {process.returncode}")
    return Spent(seconds, 1024 * used.ru_maxrss, json.loads(said) | {"sweep": ""})


def show(what: str, pairs: int, a: Callable[[], Spent], b: Callable[[], Spent]) -> None:
    """Try both sides in turn, and print a row of the table."""
    tried = [(a(), b()) for _ in range(pairs)]
    if any(before.found != now.found for before, now in tried):
        raise SystemExit("the two sides predict different numbers")
    sides = [([one.seconds for one in side], max(one.peak_bytes for one in side)) for side in zip(*tried, strict=True)]
    times = [f"{statistics.median(took):.2f} ({min(took):.2f}-{max(took):.2f})" for took, _ in sides]
    shown = [f"{peak / 1e6:.0f}" if peak else "-" for _, peak in sides]
    faster = ratio([before.seconds / now.seconds for before, now in tried])
    print(f"| {what} | {pairs} | {' | '.join(times)} | {faster} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
