"""What a page trace costs: runs of as many transactions with it and without it in turn, with intervals.

    PYTHONPATH=python .venv/bin/python benches/page_trace_cost.py [--server mysql-5.7] [--pairs 8] [--transactions 8000]

TPC-C with one warehouse in a pool of 60 % of the database, where few gets read and the recorder's share is largest.
Without `--server`, SQLite: processor time is that of the driver's thread in the window, in which SQLite, its pool and
the recorder run. Of a server it is that of the server's processes, eight connections together; the recorder's thread
stands beside it. A trace that is not good ends the benchmark. Prints a Markdown table. Everything else must rest.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from random_read_fio import ratio, spread

from bufferlab.registry import open_sweep

_EXPERIMENT = Path(__file__).parents[1] / "tests/fixtures/page-trace/pool-sizes.toml"


@dataclass(frozen=True)
class Done:
    """One run."""

    transactions_per_s: float
    cpu_us: float
    """Of whoever runs the engine, for each transaction."""
    gets: float
    """For each transaction."""
    recorder_us: float = 0.0
    """Of the recorder's thread over the whole run, for each access."""


def main() -> None:
    """Run in turn, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server")
    parser.add_argument("--probe", default="page-trace")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--transactions", type=int, default=8000)
    arguments = parser.parse_args()
    plain: list[Done] = []
    traced: list[Done] = []
    for pair in range(arguments.pairs):
        turns = ((plain, ["--no-page-trace"]), (traced, ["--probe", arguments.probe]))
        for done, more in turns if pair % 2 else reversed(turns):
            done.append(run(arguments.server, arguments.transactions, more))
    pairs = list(zip(plain, traced, strict=True))
    print("| pairs | transactions/s without | with | ratio (95 %) | CPU a transaction without, us | with, us "
          "| difference, us (95 %) | CPU ratio (95 %) | gets a transaction | CPU a get, ns "
          "| recorder an access, ns |")  # fmt: skip
    print("|---" * 11 + "|")
    median = statistics.median
    more_us = [b.cpu_us - a.cpu_us for a, b in pairs]
    gets = median(a.gets for a in plain)
    print(
        f"| {len(pairs)} | {median(a.transactions_per_s for a in plain):,.0f} | "
        f"{median(b.transactions_per_s for b in traced):,.0f} | "
        f"{ratio([b.transactions_per_s / a.transactions_per_s for a, b in pairs])} | "
        f"{median(a.cpu_us for a in plain):.1f} | {median(b.cpu_us for b in traced):.1f} | {spread(more_us)} | "
        f"{ratio([b.cpu_us / a.cpu_us for a, b in pairs])} | "
        f"{gets:.1f} | {1000 * statistics.fmean(more_us) / gets:.0f} | "
        f"{1000 * median(b.recorder_us for b in traced):.0f} |"
    )


def run(server: str | None, transactions: int, more: list[str]) -> Done:
    """One run in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as out:
        what = [str(_EXPERIMENT)]
        if server:
            what = ["buffer-size", "--engine", server.split("-")[0], "--set", f"server={server}", "--warehouses", "1"]
        command = [sys.executable, "-m", "bufferlab", "run", *what, "--quick", "--sweep", "pool_size=60%",
                   "--repetitions", "1", "--transactions", str(transactions), "--out", out, *more]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        (folder,) = (path.parent for path in Path(out).glob("*/plan.json"))
        (record,) = open_sweep(folder).runs()
        if "--probe" in more and (record.run.page_trace is None or record.run.page_trace.status != "ok"):
            raise SystemExit(f"the trace is not good: {record.run.page_trace}")
        samples, measured = record.samples(), record.run.measured
        assert measured is not None

        def growth(metric: str) -> float:
            edges = samples.filter((samples["metric"] == metric) & (samples["phase"] == "measure"))
            start, end = (edges.filter(edges["edge"] == edge)["count"][0] for edge in ("start", "end"))
            return float(end - start) / measured.transactions

        trace = record.run.page_trace
        recorder_us = (trace.reader_cpu_us or 0.0) / sum(trace.events.values()) if trace else 0.0
        cpu_us = sum(map(growth, ("server_user_us", "server_system_us") if server else ("driver_cpu_us",)))
        return Done(measured.transactions / measured.seconds, cpu_us, growth("page_gets"), recorder_us)


if __name__ == "__main__":
    main()
