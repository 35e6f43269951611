"""Measures the cost of the MySQL client, of its two ways of sending, and of the loader; compares it with sysbench.

    PYTHONPATH=python .venv/bin/python benches/mysql_client.py [--server mariadb-10.11] [--pairs 5]

The server is a private MariaDB. Both programs send the same prepared point select to the same table with 8 connections,
in turn, so that a slow minute affects both. They use the Unix socket, and TCP, which a separate relay process (socat)
connects to the server's socket. Client processor time is user and system time of the whole client process. Every timed
part is checked: sysbench's and our transactions must equal the server's own counts. Prints a Markdown table.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server_bench import begun

from bufferlab.engines.innodb import programs
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.native import native
from bufferlab.engines.servers import data_folder, user
from bufferlab.engines.servers.behaviour import ServerBehaviour
from bufferlab.engines.servers.private_server import PrivateServer

CONNECTIONS = 8
ROWS = 100_000
SELECTS = 200_000
TRANSACTIONS = 20_000
WAREHOUSES = 4
SCRIPT = f"\\set id random(1, {ROWS})\nSELECT c FROM sbtest1 WHERE id = :id;\n"


def main() -> None:
    """Load the data, run both programs in turn, and print the table."""
    with begun(__doc__, "mariadb-10.11", pairs=5) as (arguments, folder):
        measure(folder, arguments.server, arguments.pairs)


def measure(folder: Path, server_name: str, pairs: int) -> None:
    """Do all measurements in one folder, and print the table."""
    flavour: programs.Flavour = "mariadb" if "mariadb" in server_name else "mysql"
    family, database = InnodbFamily(flavour), folder / "database"
    knobs = {"page_size": 16384, "server": server_name}
    loaded = ServerBehaviour(family).load(
        {
            "database": str(database),
            "knobs": knobs,
            "workload": {"name": "tpcc", "warehouses": WAREHOUSES, "load_seed": 1},
            "threads": 2,
        },
        lambda event: None,
    )
    print("| what | n | median | lowest to highest | unit |\n| --- | ---: | ---: | ---: | --- |")
    show("load of 4 warehouses", [loaded["rows"] / loaded["seconds"]], "rows/s")
    show("copy of the data directory over the load", [copy_seconds(database) / loaded["seconds"]], "ratio")
    build, identity = programs.find(flavour, server_name), data_folder.read_identity(database)
    with PrivateServer(
        family,
        build,
        database / "data",
        folder / "server",
        user=user.server_user(),
        login=(identity.user, identity.password),
        settings={"innodb_buffer_pool_size": str(2 << 30), "innodb_flush_log_at_trx_commit": "0"},
        connections=2 * CONNECTIONS,
    ) as server:
        sysbench(server, None, "prepare")
        with relay(server.socket) as port:
            for way, tcp in (("Unix socket", None), ("TCP", port)):
                point_selects(way, server, identity, pairs, tcp)
                ways_of_sending(way, server, identity, pairs, tcp)


@dataclass(frozen=True)
class Spent:
    """A client's processor time per transaction, in microseconds."""

    user: float
    system: float
    wall: float = 0.0
    """The window's time per transaction, in microseconds."""

    @property
    def both(self) -> float:
        """Return user plus system time."""
        return self.user + self.system


def point_selects(
    way: str,
    server: PrivateServer,
    identity: data_folder.Identity,
    pairs: int,
    port: int | None,
) -> None:
    """Measure the same select with both programs, and print its rows."""
    script = {"name": "script", "source": "select.sql", "text": SCRIPT, "variables": {}, "seed": 1}
    ours, theirs = [], []
    for _ in range(pairs):
        theirs.append(timed_sysbench(server, port))
        ours.append(run_core(server, identity, script, SELECTS, "spec", port))
    show_spent(f"{way}: sysbench, a prepared point select", theirs, "client us/statement")
    show_spent(f"{way}: bufferlab, the same", ours, "client us/statement")
    show(f"{way}: ratio of the pairs", [a.both / b.both for a, b in zip(ours, theirs, strict=True)], "ratio")


def ways_of_sending(
    way: str,
    server: PrivateServer,
    identity: data_folder.Identity,
    pairs: int,
    port: int | None,
) -> None:
    """Measure TPC-C sent statement by statement and in batches, and print its rows."""
    times: dict[str, list[Spent]] = {"spec": [], "batched": []}
    for turn in range(pairs):
        for sending, found in times.items():
            workload = {"name": "tpcc", "warehouses": WAREHOUSES, "load_seed": 1, "seed": turn}
            found.append(run_core(server, identity, workload, TRANSACTIONS, sending, port))
    for sending, found in times.items():
        show_spent(f"{way}: TPC-C, {sending}", found, "client us/transaction")
    ratios = [b.both / a.both for a, b in zip(times["spec"], times["batched"], strict=True)]
    show(f"{way}: batched over spec", ratios, "ratio")


def run_core(
    server: PrivateServer,
    identity: data_folder.Identity,
    workload: dict[str, Any],
    count: int,
    sending: str,
    port: int | None,
    *,
    connections: int = CONNECTIONS,
    security: dict[str, Any] | None = None,
) -> Spent:
    """Run a job of the core; return the client's processor time per transaction, by samples at the window's edges."""
    edges: list[dict[str, int]] = []

    def hear(text: str) -> None:
        event = json.loads(text)
        if event["event"] == "sample" and event.get("edge"):
            wanted = ("process_user_us", "process_system_us", "questions")
            edges.append({v["metric"]: v["count"] for v in event["values"] if v["metric"] in wanted})

    job = {
        **job_of(server, identity, workload, sending, port, connections=connections, security=security),
        "warm_up": {"max_transactions": 2000, "max_seconds": 5},
        "measure": {"transactions": count, "max_seconds": 120},
    }
    result = json.loads(native().run("mysql", json.dumps(job), hear))
    first, last = edges
    done = result["measured"]["transactions"]
    asked = last["questions"] - first["questions"]
    if done != count or asked < 0.9 * done:
        raise SystemExit(f"{done} transactions of {count}, {asked} statements at the server: not what was to be timed")
    used = ((last[name] - first[name]) / done for name in ("process_user_us", "process_system_us"))
    return Spent(*used, result["measured"]["seconds"] * 1e6 / done)


def job_of(
    server: PrivateServer,
    identity: data_folder.Identity,
    workload: dict[str, Any],
    sending: str,
    port: int | None = None,
    *,
    connections: int = CONNECTIONS,
    security: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the job of a closed loop for the core, without the limits of its warm-up and window."""
    return {
        "target": {
            "place": {"tcp": {"host": "127.0.0.1", "port": port}} if port else {"socket": str(server.socket)},
            "user": identity.user,
            "password": identity.password,
            "database": data_folder.DATABASE,
            **({"security": security} if security else {}),
        },
        "server_pid": server.pid,
        "datadir": None,
        "connections": connections,
        "statements": sending,
        "frames": (2 << 30) // 16384,
        "workload": workload,
        "load": {"mode": "closed"},
        "phases": [],
        "sample_interval_ms": 1000,
        "program": None,
    }


def sysbench(server: PrivateServer, port: int | None, command: str, *more: str) -> subprocess.Popen[str]:
    """Start sysbench's point selects, with the account that needs no password. Wait for the command `prepare`."""
    where = ["--mysql-host=127.0.0.1", f"--mysql-port={port}"] if port else [f"--mysql-socket={server.socket}"]
    process = subprocess.Popen(
        [
            "sysbench", "oltp_point_select", *where, "--mysql-user=bufferlab_ext",
            f"--mysql-db={data_folder.DATABASE}", "--tables=1", f"--table-size={ROWS}", *more, command,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    if command == "prepare" and process.wait() != 0:
        raise SystemExit("sysbench prepare failed")
    return process


def timed_sysbench(server: PrivateServer, port: int | None) -> Spent:
    """Run sysbench; return its processor time per select."""
    process = sysbench(server, port, "run", f"--threads={CONNECTIONS}", f"--events={SELECTS}", "--time=0")
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = status
    done = next(int(line.split()[1]) for line in text.splitlines() if line.strip().startswith("read:"))
    if status != 0 or done != SELECTS:
        raise SystemExit(f"sysbench ended with {status} after {done} selects")
    return Spent(used.ru_utime * 1e6 / done, used.ru_stime * 1e6 / done)


@contextmanager
def relay(path: Path) -> Iterator[int]:
    """Context manager for a TCP port on the loopback that is connected to the socket.

    So a client uses TCP, while the server listens on no port.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    listen = f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr,nodelay"
    process = subprocess.Popen(["socat", listen, f"UNIX-CONNECT:{path}"])
    try:
        for _ in range(100):
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def show_spent(what: str, values: list[Spent], unit: str) -> None:
    """Print two rows: the whole processor time, and the user time."""
    show(what, [value.both for value in values], unit)
    show(f"{what}, user time", [value.user for value in values], unit)


def copy_seconds(database: Path) -> float:
    """Copy the directory, and return the seconds until the copy is on the device."""
    started = time.monotonic()
    subprocess.run(["cp", "-a", "--reflink=auto", str(database), f"{database}-copy"], check=True)
    os.sync()
    seconds = time.monotonic() - started
    shutil.rmtree(f"{database}-copy")
    return seconds


def show(what: str, values: list[float], unit: str, number: Callable[[float], str] = "{:,.3g}".format) -> None:
    """Print one row."""
    span = f"{number(min(values))} to {number(max(values))}" if len(values) > 1 else ""
    print(f"| {what} | {len(values)} | {number(statistics.median(values))} | {span} | {unit} |", flush=True)


if __name__ == "__main__":
    main()
