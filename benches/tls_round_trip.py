"""Measures the cost of TLS to a round trip: one TCP connection to a private server, with and without TLS in turn.

    PYTHONPATH=python .venv/bin/python benches/tls_round_trip.py [--server mariadb-10.11] [--pairs 5]

The server is MariaDB or MySQL. A round trip is a prepared point select of a row in the pool. The side that goes first
alternates from pair to pair. The server listens on the loopback, with a certificate that openssl makes. The client does
not verify it (sslmode=require): verification is part of the handshake, not of round trips. The server must have counted
all selects. Prints a Markdown table.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mysql_client import SCRIPT, Spent, run_core
from server_bench import begun

from bufferlab.engines.innodb import programs
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.servers import data_folder, user
from bufferlab.engines.servers.behaviour import ServerBehaviour
from bufferlab.engines.servers.existing.address import Security
from bufferlab.engines.servers.private_server import PrivateServer

SELECTS = 50_000
ROWS = 100_000
SIDES = {"without": "disable", "with": "require"}


class Listening(InnodbFamily):
    """The InnoDB family, with servers that also listen on a port of the loopback."""

    port = 0

    def configuration(self, *given: Any, **named: Any) -> str:
        """Return the text of the server's option file."""
        text = super().configuration(*given, **named)
        return text.replace("skip_networking", f"port = {self.port}\nbind_address = 127.0.0.1")


def main() -> None:
    """Load the data, measure both sides in turn, and print the table."""
    with begun(__doc__, "mariadb-10.11", pairs=5) as (arguments, folder):
        show(measure(folder, arguments.server, arguments.pairs))


def measure(folder: Path, server_name: str, pairs: int) -> dict[str, list[Spent]]:
    """Return side -> time and processor time of a round trip in each of its windows."""
    flavour: programs.Flavour = "mariadb" if "mariadb" in server_name else "mysql"
    family, database = Listening(flavour), folder / "database"
    knobs, workload = {"page_size": 16384, "server": server_name}, {"name": "hot_rows", "rows": ROWS, "load_seed": 1}
    job = {"database": str(database), "knobs": knobs, "workload": workload, "threads": 2}
    ServerBehaviour(InnodbFamily(flavour)).load(job, lambda event: None)
    build, identity = programs.find(flavour, server_name), data_folder.read_identity(database)
    with socket.create_server(("127.0.0.1", 0)) as free:
        family.port = free.getsockname()[1]
    settings = {"innodb_buffer_pool_size": str(2 << 30), **certificate(folder)}
    if flavour == "mysql":
        settings["tls_version"] = "TLSv1.2,TLSv1.3"
    found: dict[str, list[Spent]] = {side: [] for side in SIDES}
    with PrivateServer(
        family, build, database / "data", folder / "server", user=user.server_user(),
        login=(identity.user, identity.password), settings=settings, connections=20,
    ) as server:  # fmt: skip
        with closing(server.connect()) as connection:
            connection.rows("CREATE USER afar@'%'")
            connection.rows(f"GRANT ALL ON {data_folder.DATABASE}.* TO afar@'%'")
            connection.rows("GRANT PROCESS ON *.* TO afar@'%'")
        for turn in range(pairs):
            for side in sorted(SIDES, reverse=bool(turn % 2)):
                found[side].append(round_trips(server, family.port, SIDES[side], SELECTS, turn))
    return found


def round_trips(server: Any, port: int, mode: str, count: int, seed: int) -> Spent:
    """Return the mean time and processor time of `count` selects on one connection."""
    account: Any = SimpleNamespace(user="afar", password="")
    script = {"name": "script", "source": "select.sql", "text": SCRIPT, "variables": {}, "seed": seed}
    return run_core(server, account, script, count, "spec", port, connections=1, security=Security(mode).job())


def certificate(folder: Path) -> dict[str, str]:
    """Make a certificate; return the settings of a server that uses it."""
    place = folder / "certificate"
    place.mkdir(mode=0o755)
    key, cert = place / "own.key", place / "own.pem"
    words = f"req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 -keyout {key} -out {cert}"
    subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    user.give(key, user.server_user())
    return {"ssl_cert": str(cert), "ssl_key": str(key)}


def show(found: Mapping[str, list[Spent]]) -> None:
    """Print a row for each quantity: both medians, and the pairs' differences (median, lowest and highest)."""
    print("| a round trip, us | pairs | without TLS | with TLS | difference (lowest to highest) |")
    print("|---|---:|---:|---:|---:|")
    for what, value in (("wall time", lambda one: one.wall), ("client CPU", lambda one: one.both)):
        without, with_tls = ([value(one) for one in found[side]] for side in SIDES)
        more = [b - a for a, b in zip(without, with_tls, strict=True)]
        cells = [f"{statistics.median(side):.2f}" for side in (without, with_tls)]
        span = f"{statistics.median(more):.2f} ({min(more):.2f} to {max(more):.2f})"
        print(f"| {what} | {len(more)} | {' | '.join(cells)} | {span} |", flush=True)


if __name__ == "__main__":
    main()
