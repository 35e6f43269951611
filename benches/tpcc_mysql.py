"""Compares our client's cost per TPC-C transaction with tpcc-mysql's, in turn: processor time and context switches.

    PYTHONPATH=python .venv/bin/python benches/tpcc_mysql.py --peer FOLDER/tpcc_start [--pairs 7] [--seconds 10]

Both drive the same private MariaDB and the same tables with 8 connections over its Unix socket; nothing is read from
the device. The order of tpcc-mysql and our two ways of sending, `spec` and `batched`, rotates from round to round.
tpcc-mysql's numbers are those of its whole process (wait4), with its 8 logins and 280 preparations; ours are those of
the whole process in the measured window, with the sampler. tpcc-mysql's transactions are those that it counts: all but
the last of each connection. The server has more commits, because tpcc-mysql's Delivery commits each district. Prints a
Markdown table: medians with the lowest and highest, and geometric means of the rounds' ratios with Student's interval.

To build the peer: `git clone https://github.com/Percona-Lab/tpcc-mysql && make -C tpcc-mysql/src`, which needs Debian's
libmariadb-dev-compat. tpcc-mysql has another name for one table, for which this program makes a view.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mysql_client import CONNECTIONS, WAREHOUSES, job_of
from random_read_fio import ratio
from server_bench import begun

from bufferlab.engines.innodb import control
from bufferlab.engines.innodb import programs as innodb
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.native import native
from bufferlab.engines.servers import data_folder, user
from bufferlab.engines.servers.behaviour import ServerBehaviour
from bufferlab.engines.servers.private_server import PrivateServer

PEER = "tpcc-mysql"
WAYS = ("spec", "batched")
#: Way of sending -> goal: the largest share of tpcc-mysql's processor time per transaction that ours may take.
AIMS = {"spec": 0.80, "batched": 0.35}
#: An account without a password, because tpcc-mysql would show a password in the process list.
ACCOUNT = "bufferlab_ext"
COUNTERS = ("Com_commit", "Com_rollback", "Questions")


@dataclass(frozen=True)
class Window:
    """The results of one program's window, per transaction."""

    user_us: float
    system_us: float
    sleeps: float
    """Voluntary context switches per transaction."""
    preemptions: float
    """Involuntary context switches per transaction."""
    statements: float
    """Statements per transaction, as the server counted them."""
    per_s: float
    """Transactions per second."""

    @property
    def cpu_us(self) -> float:
        """Return user plus system time."""
        return self.user_us + self.system_us


def main() -> None:
    """Load the data, run both programs in turn, and print the table."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peer", type=Path, help="tpcc-mysql's tpcc_start")
    with begun(__doc__, "mariadb-10.11", parents=[parser], pairs=7, seconds=10) as (arguments, folder):
        show(measure(folder, arguments))


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, list[Window]]:
    """Return program -> its windows, one per round; without a peer, only those of our two ways of sending."""
    flavour: innodb.Flavour = "mariadb" if "mariadb" in arguments.server else "mysql"
    family, database = InnodbFamily(flavour), folder / "database"
    workload = {"name": "tpcc", "warehouses": WAREHOUSES, "load_seed": 1}
    knobs = {"page_size": 16384, "server": arguments.server}
    job = {"database": str(database), "knobs": knobs, "workload": workload, "threads": 2}
    ServerBehaviour(family).load(job, lambda event: None)
    build, identity = innodb.find(flavour, arguments.server), data_folder.read_identity(database)
    programs = [PEER, *WAYS] if arguments.peer else list(WAYS)
    found: dict[str, list[Window]] = {program: [] for program in programs}
    with PrivateServer(
        family, build, database / "data", folder / "server", user=user.server_user(),
        login=(identity.user, identity.password),
        settings={"innodb_buffer_pool_size": str(2 << 30), "innodb_flush_log_at_trx_commit": "0"},
        connections=2 * CONNECTIONS,
    ) as server:  # fmt: skip
        with closing(server.connect(data_folder.DATABASE)) as connection:
            connection.rows("CREATE VIEW new_orders AS SELECT no_w_id, no_d_id, no_o_id FROM new_order")
        for turn in range(arguments.pairs):
            first = turn % len(programs)
            for program in programs[first:] + programs[:first]:
                if program == PEER:
                    window = by_peer(server, arguments.peer, arguments.seconds)
                else:
                    window = by_us(server, identity, {**workload, "seed": turn}, program, arguments.seconds)
                found[program].append(window)
    return found


def by_us(
    server: PrivateServer, identity: data_folder.Identity, workload: dict[str, Any], sending: str, seconds: float
) -> Window:
    """Run one window of our client. Its processor time is the core's, from the samples at the window's edges."""
    edges: list[dict[str, int]] = []

    def hear(text: str) -> None:
        event = json.loads(text)
        if event["event"] == "sample" and event.get("edge"):
            counts = {row["metric"]: row["count"] for row in event["values"]}
            used = resource.getrusage(resource.RUSAGE_SELF)
            edges.append({**counts, "sleeps": used.ru_nvcsw, "preemptions": used.ru_nivcsw})

    job = {
        **job_of(server, identity, workload, sending),
        "warm_up": {"max_transactions": 1000, "max_seconds": 2},
        "measure": {"transactions": 1 << 40, "max_seconds": seconds},
    }
    measured = json.loads(native().run("mysql", json.dumps(job), hear))["measured"]
    first, last = edges
    done = measured["transactions"]
    names = ("process_user_us", "process_system_us", "sleeps", "preemptions", "questions")
    return Window(*((last[name] - first[name]) / done for name in names), done / measured["seconds"])


def by_peer(server: PrivateServer, program: Path, seconds: int) -> Window:
    """Run tpcc-mysql once. Its processor time is that of the whole process, including its start."""
    with closing(server.connect()) as connection, tempfile.TemporaryFile("w+") as output:
        before = counted(connection)
        process = subprocess.Popen(
            [
                str(program), "-h", "localhost", "-S", str(server.socket), "-d", data_folder.DATABASE, "-u", ACCOUNT,
                "-w", str(WAREHOUSES), "-c", str(CONNECTIONS), "-r", "0", "-l", str(seconds), "-i", str(seconds),
            ],
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        after = counted(connection)
        output.seek(0)
        done = told(output.read())
    ends, statements = (b - a for a, b in zip(before, after, strict=True))
    if status != 0 or not 0 < done <= ends or ends > 2 * done:
        raise SystemExit(f"tpcc-mysql ended with {status} and told of {done} transactions; the server counted {ends}")
    times = (used.ru_utime * 1e6, used.ru_stime * 1e6, used.ru_nvcsw, used.ru_nivcsw, statements)
    return Window(*(value / done for value in times), done / seconds)


def told(output: str) -> int:
    """Return the number of transactions that tpcc-mysql reports: of all types, late ones included."""
    return sum(int(ok) + int(late) for ok, late in re.findall(r"^  \[\d\] sc:(\d+) lt:(\d+) ", output, re.MULTILINE))


def counted(connection: Any) -> list[int]:
    """Return the server's counts of ended transactions and of statements."""
    commits, rollbacks, statements = (int(control.status(connection, name)[name.lower()]) for name in COUNTERS)
    return [commits + rollbacks, statements]


def show(found: dict[str, list[Window]]) -> None:
    """Print a row for each quantity, and the ratios to tpcc-mysql's."""
    rows: dict[str, Callable[[Window], float]] = {
        "client CPU, us": lambda window: window.cpu_us,
        "of it user time, us": lambda window: window.user_us,
        "of it system time, us": lambda window: window.system_us,
        "voluntary switches": lambda window: window.sleeps,
        "involuntary switches": lambda window: window.preemptions,
        "statements": lambda window: window.statements,
        "transactions/s": lambda window: window.per_s,
    }
    n = len(next(iter(found.values())))
    print(f"| a transaction, median of {n} (lowest-highest) | {' | '.join(found)} |\n|---|{'---:|' * len(found)}")
    for what, value in rows.items():
        print(f"| {what} | {' | '.join(spread([value(one) for one in windows]) for windows in found.values())} |")
    for what, value in (("client CPU", rows["client CPU, us"]), ("transactions/s", rows["transactions/s"])):
        base = next(iter(found))
        cells = [
            ratio([value(one) / value(other) for one, other in zip(windows, found[base], strict=True)])
            for program, windows in found.items() if program != base
        ]  # fmt: skip
        print(f"| {what}, ratio to {base}'s (95 %) | | {' | '.join(cells)} |", flush=True)
    if PEER in found:
        print(f"| aim of the client CPU | | {' | '.join(f'<= {AIMS[way]:.2f}' for way in WAYS)} |")


def spread(values: list[float]) -> str:
    """Return the median with the lowest and the highest value, as text."""
    number = "{:,.0f}" if min(values) >= 100 else "{:,.1f}" if min(values) >= 10 else "{:,.2f}"
    low, middle, high = (number.format(value) for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low}-{high})"


if __name__ == "__main__":
    main()
