"""Measures the cost of a page trace: alternating runs, with and without it, of the same number of transactions.

    PYTHONPATH=python .venv/bin/python benches/page_trace_cost.py [--server mysql-5.7 mysql-8.0 postgres-17] [--pairs 8]
        [--transactions 8000] [--pool 60%] [--set debug_io_direct=data] [--state FILE]

TPC-C with one warehouse. With a pool of 60 % of the database few gets read, and the recorder's share is largest. With a
pool of 20 % nearly all requests of the device are the server's, and their ratios scatter least.
Without `--server` the engine is SQLite. Its processor time is that of the driver's thread in the window, which runs
SQLite, its pool and the recorder. A server's processor time is that of its processes, for eight connections together;
the recorder's thread has its own column. Servers take turns too, pair by pair. A failed trace stops the benchmark. The
machine must be otherwise idle. With `--state`, each finished run is stored in FILE, and the same command resumes with
the missing runs. Prints a Markdown table with 99 % intervals. Requests of the device include those of other programs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kept
from random_read_fio import ratio

from bufferlab.registry import open_sweep

_EXPERIMENT = Path(__file__).parents[1] / "tests/fixtures/page-trace/pool-sizes.toml"
_LEVEL = 0.99
_SQLITE = "sqlite"
_HEAD = ("server", "pairs", "transactions/s without", "with", "ratio",
         "CPU a transaction without, us", "with, us", "ratio",
         "device reads a transaction without", "ratio", "device writes a transaction without", "ratio",
         "gets a transaction", "recorder an access, ns")  # fmt: skip


@dataclass(frozen=True)
class Done:
    """The results of one run: per transaction, except the first and the last one."""

    transactions_per_s: float
    cpu_us: float
    """Processor time of the thread or the processes that run the engine."""
    gets: float
    device_reads: float
    device_writes: float
    recorder_us: float = 0.0
    """Processor time of the recorder's thread over the whole run, per access."""


@dataclass(frozen=True)
class Turn:
    """A run to do, as the file of finished runs identifies it."""

    server: str
    transactions: int
    pair: int
    traced: bool
    pool: str = "60%"
    settings: str = ""
    """Settings in the form of `run --set`, separated by spaces."""


def main() -> None:
    """Run both sides in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", nargs="+", default=[_SQLITE])
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--transactions", type=int, default=8000)
    parser.add_argument("--pool", default="60%")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--state", type=Path)
    arguments = parser.parse_args()
    done = kept.read(arguments.state, Turn, Done)
    for turn in turns(arguments):
        if turn not in done:
            done[turn] = run(turn)
            kept.note(arguments.state, turn, done[turn])
    print("| " + " | ".join(_HEAD) + " |")
    print("|---" * len(_HEAD) + "|")
    for server in arguments.server:
        wanted = sorted((turn for turn in turns(arguments) if turn.server == server), key=lambda turn: turn.pair)
        plain, traced = ([done[turn] for turn in wanted if turn.traced is traced] for traced in (False, True))
        print("| " + " | ".join(row(server, plain, traced)) + " |")


def turns(arguments: argparse.Namespace) -> Iterator[Turn]:
    """Yield all runs in order: a pair for each server, then further pairs, in which the other side goes first."""
    for pair in range(arguments.pairs):
        for server in arguments.server:
            for traced in (False, True) if pair % 2 else (True, False):
                settings = " ".join(arguments.settings)
                yield Turn(server, arguments.transactions, pair, traced, arguments.pool, settings)


def row(server: str, plain: list[Done], traced: list[Done]) -> list[str]:
    """Return the cells of a server's row, in the order of `_HEAD`."""

    def median(of: list[Done], name: str) -> float:
        return float(statistics.median(getattr(one, name) for one in of))

    def ratios(name: str) -> str:
        pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(plain, traced, strict=True)]
        return ratio([b / a for a, b in pairs], _LEVEL) if all(a > 0 < b for a, b in pairs) else "-"

    return [
        server, str(len(plain)),
        *(f"{median(of, 'transactions_per_s'):,.0f}" for of in (plain, traced)), ratios("transactions_per_s"),
        *(f"{median(of, 'cpu_us'):,.1f}" for of in (plain, traced)), ratios("cpu_us"),
        f"{median(plain, 'device_reads'):.2f}", ratios("device_reads"),
        f"{median(plain, 'device_writes'):.2f}", ratios("device_writes"),
        f"{median(plain, 'gets'):.1f}", f"{1000 * median(traced, 'recorder_us'):.0f}",
    ]  # fmt: skip


def run(turn: Turn) -> Done:
    """Do one run in a temporary folder."""
    more = ["--probe", "page-trace"] if turn.traced else ["--no-page-trace"]
    with tempfile.TemporaryDirectory(prefix="bench-", dir=Path.cwd()) as out:
        what = [str(_EXPERIMENT)]
        if turn.server != _SQLITE:
            what = ["buffer-size", "--engine", turn.server.split("-")[0], "--set", f"server={turn.server}",
                    "--warehouses", "1"]  # fmt: skip
        command = [sys.executable, "-m", "bufferlab", "run", *what, "--quick", "--sweep", f"pool_size={turn.pool}",
                   "--repetitions", "1", "--transactions", str(turn.transactions), "--out", out, *more,
                   *(f"--set={setting}" for setting in turn.settings.split())]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        (folder,) = (path.parent for path in Path(out).glob("*/plan.json"))
        (record,) = open_sweep(folder).runs()
        trace = record.run.page_trace
        if turn.traced and (trace is None or trace.status != "ok"):
            raise SystemExit(f"the trace is not good: {trace}")
        samples, measured = record.samples(), record.run.measured
        assert measured is not None

        def growth(metric: str) -> float:
            edges = samples.filter((samples["metric"] == metric) & (samples["phase"] == "measure"))
            start, end = (edges.filter(edges["edge"] == edge)["count"][0] for edge in ("start", "end"))
            return float(end - start) / measured.transactions

        recorder_us = (trace.reader_cpu_us or 0.0) / sum(trace.events.values()) if trace else 0.0
        of_engine = ("driver_cpu_us",) if turn.server == _SQLITE else ("server_user_us", "server_system_us")
        return Done(
            transactions_per_s=measured.transactions / measured.seconds,
            cpu_us=sum(map(growth, of_engine)),
            gets=growth("page_gets"),
            device_reads=growth("device_reads"),
            device_writes=growth("device_writes"),
            recorder_us=recorder_us,
        )


if __name__ == "__main__":
    main()
