"""Measures the cost of `bufferlab advise` to a server while attached: alternating windows with and without it.

    PYTHONPATH=python .venv/bin/python benches/advise_cost.py [--server mysql-5.7] [--pairs 8] [--seconds 60]
        [--pool-mib 1024] [--rows 8000000] [--rate R] [--state FILE]

Needs root. One private server has a table of about twice its pool. Eight connections in a closed loop select single
rows, some hotter than others; a tenth of the statements are updates. With `--rate`, R transactions begin per second in
an open loop: as in production, this leaves processors free, which a closed loop does not. Latency is then the response
time, waiting included. Both windows of a pair have the same statements, and before each window the same load runs until
`advise` has attached, or would have. `advise` records misses, its default tier, and stays attached for the whole
window. The machine must be otherwise idle. With `--state`, each finished window is stored in FILE, and the same command
resumes with the incomplete pairs. Prints a Markdown table with 99 % intervals. Processor time is that of the server's
threads (schedstat).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kept
import polars as pl
from mysql_client import CONNECTIONS, job_of
from random_read_fio import bounds, spread

from bufferlab.engines.innodb import programs
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.native import native
from bufferlab.engines.servers import data_folder, user
from bufferlab.engines.servers.behaviour import ServerBehaviour
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.live.tiers import Processors
from bufferlab.results.latency import latency_values
from bufferlab.results.store import latency_rows
from bufferlab.units import MIB

LEAD_S = 25
"""Seconds of load before the window: `advise` watches for 5 s, waits 5 s and then attaches; the rest is for its start.
"""
LEAST_WITHIN_S = 2
"""The least number of seconds by which the attachment must be longer than the window, because it began before it."""
LEVEL = 0.99
THROUGHPUT, LATENCY = (0.95, 1.05), (0.8, 1.25)
"""The limits between which the intervals of the ratios must lie. They must also contain 1."""
PATIENCE_S = 10.0
_WITHOUT_END = 2**53 - 1
_SCRIPT = """\
-- transaction: look weight=9
\\set rank random_zipfian(1, {rows}, 0.9)
\\set id 1 + (:rank * 7919) % {rows}
SELECT c FROM sbtest1 WHERE id = :id;
-- transaction: change
\\set rank random_zipfian(1, {rows}, 0.9)
\\set id 1 + (:rank * 7919) % {rows}
UPDATE sbtest1 SET c = REVERSE(c) WHERE id = :id;
"""
_HEAD = ("server", "pairs", "transactions/s without", "with", "ratio", "within 0.95-1.05",
         "p99.9 without, ms", "with, ms", "ratio", "within 0.80-1.25",
         "CPU a transaction without, us", "added, us", "foretold, us", "by its stops, us", "added over foretold",
         "stops a second", "recorder, of a processor")  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """A window to measure, as the file of finished windows identifies it."""

    server: str
    pool_mib: int
    rows: int
    seconds: int
    pair: int
    attached: bool
    rate_per_s: float = 0.0
    """Transactions that begin per second; 0 for a closed loop."""


@dataclass(frozen=True)
class Done:
    """The results of a window. Times are per transaction, except `p999_us`."""

    transactions_per_s: float
    p999_us: float
    cpu_us: float
    """Processor time of the server's threads."""
    foretold_us: float = 0.0
    """The cost of stops that `advise` predicted from the rates before it attached."""
    by_stops_us: float = 0.0
    """The cost of the stops that occurred, each with the time that `advise` assumes for one."""
    stops_per_s: float = 0.0
    recorder: float = 0.0
    """Processors that the command `advise` itself used."""


def main() -> None:
    """Load the table, measure the windows in turn, and print the table of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="mysql-5.7")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--pool-mib", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rate", type=float, default=0.0, metavar="R", help="transactions a second (closed loop)")
    parser.add_argument("--warm-seconds", type=int, default=180)
    parser.add_argument("--state", type=Path)
    arguments = parser.parse_args()
    done = whole_pairs(kept.read(arguments.state, Turn, Done))
    wanted = list(turns(arguments))
    if missing := [turn for turn in wanted if turn not in done]:
        root = user.default_root() or Path(tempfile.gettempdir())
        root.mkdir(parents=True, exist_ok=True, mode=0o711)
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir=root))
        folder.chmod(0o711)
        try:
            for turn, found in measured(folder, missing, arguments.warm_seconds):
                done[turn] = found
                kept.note(arguments.state, turn, found)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    in_order = sorted(wanted, key=lambda turn: turn.pair)
    plain, attached = ([done[turn] for turn in in_order if turn.attached is side] for side in (False, True))
    print("\n".join(table(arguments.server, plain, attached)))


def turns(arguments: argparse.Namespace) -> Iterator[Turn]:
    """Yield all windows in order. The side that goes first alternates from pair to pair."""
    for pair in range(arguments.pairs):
        for attached in (False, True) if pair % 2 else (True, False):
            asked = arguments.server, arguments.pool_mib, arguments.rows, arguments.seconds
            yield Turn(*asked, pair, attached, arguments.rate)


def whole_pairs(done: Mapping[Turn, Done]) -> dict[Turn, Done]:
    """Return the windows whose pair is complete. Both windows of a pair must come from the same start of the server."""

    def pair(turn: Turn) -> tuple[Any, ...]:
        return (turn.server, turn.pool_mib, turn.rows, turn.seconds, turn.pair, turn.rate_per_s)

    sides = [pair(turn) for turn in done]
    return {turn: found for turn, found in done.items() if sides.count(pair(turn)) == 2}


def measured(folder: Path, wanted: Sequence[Turn], warm_s: int) -> Iterator[tuple[Turn, Done]]:
    """Start one server; yield the windows measured on it, in turn."""
    name, rows, pool_bytes = wanted[0].server, wanted[0].rows, wanted[0].pool_mib * MIB
    flavour: programs.Flavour = "mariadb" if "mariadb" in name else "mysql"
    family, database = InnodbFamily(flavour), folder / "database"
    workload = {"name": "hot_rows", "rows": rows, "load_seed": 1}
    knobs = {"page_size": 16384, "server": name}
    job = {"database": str(database), "knobs": knobs, "workload": workload, "threads": 2}
    ServerBehaviour(family).load(job, lambda event: None)
    identity = data_folder.read_identity(database)
    settings = {
        "innodb_buffer_pool_size": str(pool_bytes), "innodb_flush_method": "O_DIRECT",
        "innodb_flush_log_at_trx_commit": "0", "innodb_log_file_size": str(256 * MIB),
    }  # fmt: skip
    with PrivateServer(
        family, programs.find(flavour, name), database / "data", folder / "server", user=user.server_user(),
        login=(identity.user, identity.password), settings=settings, connections=2 * CONNECTIONS,
    ) as server:  # fmt: skip
        drive(server, identity, rows, seed=0, lead_s=warm_s, seconds=1)
        for turn in wanted:
            yield turn, window(server, identity, turn)


def window(server: PrivateServer, identity: data_folder.Identity, turn: Turn) -> Done:
    """Measure one window, with `advise` attached or without."""
    if not turn.attached:
        return drive(server, identity, turn.rows, turn.pair + 1, LEAD_S, turn.seconds, turn.rate_per_s)
    url = f"mysql://{identity.user}@localhost?socket={server.socket}"
    # Give `advise` so much time that it does not end by itself: it gets SIGINT after the window.
    within_s = 2 * (LEAD_S + turn.seconds)
    command = [sys.executable, "-m", "bufferlab", "advise", url, "--within", f"{within_s}s", "--yes", "--json"]
    environment = {**os.environ, "BUFFERLAB_PASSWORD": identity.password}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            found = drive(server, identity, turn.rows, turn.pair + 1, LEAD_S, turn.seconds, turn.rate_per_s)
        finally:
            process.send_signal(signal.SIGINT)
            told, said = process.communicate()
    if process.returncode != 128 + signal.SIGINT:
        raise SystemExit(f"advise ended with {process.returncode}: {said}")
    return with_cost(found, json.loads(told), turn.seconds)


def with_cost(found: Done, told: Mapping[str, Any], seconds: float) -> Done:
    """Add the costs that `advise` reports. Raises SystemExit if it was not attached for the whole window."""
    attached, costs = told["attached"], told["cost"]
    if len(attached) != 1 or attached[0]["ended"] != "stopped" or attached[0]["seconds"] < seconds + LEAST_WITHIN_S:
        raise SystemExit(f"advise was not attached for the whole window: {attached}")
    stops_per_s = attached[0]["stops"] / attached[0]["seconds"]
    a_transaction_us = 1e6 / found.transactions_per_s
    return Done(
        found.transactions_per_s, found.p999_us, found.cpu_us, costs[0]["foretold_cores"] * a_transaction_us,
        costs[0]["by_events_cores"] * a_transaction_us, stops_per_s, costs[0]["ours_cores"],
    )  # fmt: skip


def drive(
    server: PrivateServer, identity: data_folder.Identity, rows: int, seed: int, lead_s: float, seconds: float,
    rate_per_s: float = 0.0,
) -> Done:  # fmt: skip
    """Run the load for `lead_s` seconds, which do not count, then for a window of `seconds`."""
    processors, spent_s = Processors(server.pid), []

    def hear(text: str) -> None:
        event = json.loads(text)
        if event["event"] == "sample" and event.get("edge"):
            spent_s.append(processors.grown()[0])

    script = {
        "name": "script", "source": "advise.sql", "text": _SCRIPT.format(rows=rows), "variables": {}, "seed": seed,
    }  # fmt: skip
    endless = {"min_transactions": _WITHOUT_END, "max_transactions": _WITHOUT_END}
    open_loop = {"mode": "open", "rate_per_s": rate_per_s, "arrivals": "poisson", "patience_s": PATIENCE_S}
    job = {
        **job_of(server, identity, script, "spec"),
        "load": open_loop if rate_per_s else {"mode": "closed"},
        "warm_up": {**endless, "max_seconds": lead_s},
        "measure": {"transactions": _WITHOUT_END, "max_seconds": seconds},
    }
    result = json.loads(native().run("mysql", json.dumps(job), hear))
    done = result["measured"]
    return Done(
        done["transactions"] / done["seconds"], p999_us(result["latency"]), 1e6 * spent_s[1] / done["transactions"]
    )


def p999_us(histograms: Sequence[Mapping[str, Any]]) -> float:
    """Return the latency that one transaction of a thousand exceeds, of all types together."""
    frame = pl.DataFrame(latency_rows(histograms))
    frame = frame.filter(pl.col("time") == ("response" if "response" in frame["time"] else "service"))
    (every,) = latency_values([frame.with_columns(transaction_type=pl.lit("every"))])
    return every.percentiles_us[0.999]


def table(server: str, plain: Sequence[Done], attached: Sequence[Done]) -> list[str]:
    """Return the Markdown table of pairs in their order."""

    def median(of: Sequence[Done], name: str) -> float:
        return float(statistics.median(getattr(one, name) for one in of))

    def ratio(name: str, within: tuple[float, float]) -> tuple[str, str]:
        ratios = [getattr(b, name) / getattr(a, name) for a, b in zip(plain, attached, strict=True)]
        mean, low, high = bounds(ratios, LEVEL) if len(ratios) > 1 else (ratios[0], 0.0, math.inf)
        met = within[0] <= low <= 1 <= high <= within[1]
        return f"{mean:.3f} ({low:.3f}-{high:.3f})", "yes" if met else "no"

    added = [b.cpu_us - a.cpu_us for a, b in zip(plain, attached, strict=True)]
    foretold_us = statistics.fmean(one.foretold_us for one in attached)
    row = (
        server, str(len(plain)),
        *(f"{median(of, 'transactions_per_s'):,.0f}" for of in (plain, attached)),
        *ratio("transactions_per_s", THROUGHPUT),
        *(f"{median(of, 'p999_us') / 1000:.2f}" for of in (plain, attached)),
        *ratio("p999_us", LATENCY),
        f"{median(plain, 'cpu_us'):.1f}", spread(added, LEVEL), f"{foretold_us:.2f}",
        f"{statistics.fmean(one.by_stops_us for one in attached):.2f}",
        spread([one / foretold_us for one in added], LEVEL),
        f"{median(attached, 'stops_per_s'):,.0f}", f"{median(attached, 'recorder'):.3f}",
    )  # fmt: skip
    return [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|", f"| {' | '.join(row)} |"]


if __name__ == "__main__":
    main()
