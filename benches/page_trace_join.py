"""Measures the cost of a page trace to PostgreSQL per get: a join in memory on servers with and without a trace.

    PYTHONPATH=python .venv/bin/python benches/page_trace_join.py [--server postgres-17] [--pairs 16] [--joins 10]

A nested loop looks up the item of each order line in `stock` of TPC-C. It does little else than get pages of a pool
that holds all of them, so that no other statement shows the recorder's cost as clearly. Each turn starts a new server:
one join warms its pool, then the same session repeats the join. Processor time is that session's own, in ns
(/proc/PID/schedstat); gets are those that EXPLAIN counts. If a join reads pages, or a trace lost an access, the
benchmark stops. The machine must be otherwise idle. Prints a Markdown table with 95 % intervals over the pairs.
"""

from __future__ import annotations

import json
import statistics
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from random_read_fio import ratio, spread
from server_bench import begun

from bufferlab.engines.postgres import programs
from bufferlab.engines.postgres.family import PostgresFamily
from bufferlab.engines.servers import data_folder, page_sites, user
from bufferlab.engines.servers.behaviour import ServerBehaviour
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.units import GIB

AIM_NS = 15.0
"""The goal: the most processor time of the session that the trace may add per get, in nanoseconds."""
_JOIN = "SELECT count(*) FROM order_line JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id"
_PLAN = ("enable_hashjoin", "enable_mergejoin", "enable_memoize", "enable_material", "enable_bitmapscan", "jit")
_SETTINGS = {"shared_buffers": "512MB", "autovacuum": "off", "max_parallel_workers_per_gather": "0"}
_KINDS_OF_GETS = ("get", "get_if_in_pool")


@dataclass(frozen=True)
class Joined:
    """The results of one server's joins."""

    cpu_ns: float
    """The session's processor time per get."""
    gets: int
    """The gets of one join."""
    waits: int = 0
    """The number of times that the session waited for the trace's reader."""


def main() -> None:
    """Load the data, join in turn with and without a trace, and print the table."""
    with begun(__doc__, "postgres-17", pairs=16, joins=10) as (arguments, folder):
        load(folder, arguments.server)
        turns = [
            (traced, joined(folder, arguments.server, traced, arguments.joins))
            for pair in range(arguments.pairs)
            for traced in ((False, True) if pair % 2 else (True, False))
        ]
    plain, traced = ([done for is_traced, done in turns if is_traced is wanted] for wanted in (False, True))
    print("\n".join(table(arguments.server, plain, traced)))


def table(server: str, plain: list[Joined], traced: list[Joined]) -> list[str]:
    """Return the Markdown table of pairs in their order."""
    head = ("server", "pairs", "gets a join", "session a get without, ns", "with, ns", "ratio (95 %)",
            "difference, ns (95 %)", "waits", f"aim <= {AIM_NS:.0f} ns")  # fmt: skip
    pairs = [(one.cpu_ns, other.cpu_ns) for one, other in zip(plain, traced, strict=True)]
    dearer_ns = [other - one for one, other in pairs]
    row = (
        server, str(len(pairs)), f"{plain[0].gets:,}",
        *(f"{statistics.median(side):.1f}" for side in zip(*pairs, strict=True)),
        ratio([other / one for one, other in pairs]), spread(dearer_ns), str(sum(one.waits for one in traced)),
        "met" if statistics.fmean(dearer_ns) <= AIM_NS else "missed",
    )  # fmt: skip
    return [f"| {' | '.join(head)} |", "|---" * len(head) + "|", f"| {' | '.join(row)} |"]


def load(folder: Path, server: str) -> None:
    """Load TPC-C with one warehouse."""
    job = {
        "database": str(folder / "database"),
        "knobs": {"page_size": 8192, "server": server},
        "workload": {"name": "tpcc", "warehouses": 1, "load_seed": 1},
        "threads": 1,
    }
    ServerBehaviour(PostgresFamily()).load(job, lambda event: None)


def joined(folder: Path, server: str, traced: bool, joins: int) -> Joined:
    """Start a server, with a trace or without, repeat the join `joins` times in one session, and stop the server."""
    family, build = PostgresFamily(), programs.find(server)
    identity = data_folder.read_identity(folder / "database")
    spool = folder / "spool"
    asked = {"spool": {"path": str(spool), "limit_bytes": 64 * GIB}, "required": True}
    with page_sites.recording(family.page_sites_table, build, asked, print) if traced else nullcontext() as trace:
        with (
            PrivateServer(
                family, build, folder / "database" / "data", folder / "server", user=user.server_user(),
                login=(identity.user, identity.password), settings=_SETTINGS, trace=trace,
            ) as running,
            closing(running.connect("bufferlab", patient=True)) as connection,
        ):  # fmt: skip
            if trace:
                trace.require_on()
            for setting in _PLAN:
                connection.execute(f"SET {setting} = off")
            gets = gets_of(connection)
            session = Path(f"/proc/{connection.info.backend_pid}/schedstat")
            before_ns = cpu_ns(session)
            for _ in range(joins):
                connection.execute(_JOIN).fetchall()
            took_ns = cpu_ns(session) - before_ns
        told = trace.added_to({"recorded": {"page_trace": {}}})["recorded"]["page_trace"] if trace else {}
    spool.unlink(missing_ok=True)
    if trace:
        recorded = sum(told["events"].get(kind, 0) for kind in _KINDS_OF_GETS)
        if told["lost"] or told["problem"] or recorded < (joins + 2) * gets:
            raise SystemExit(f"the trace is not good: {recorded:,} gets, {told['lost']} lost, {told['problem']}")
    return Joined(took_ns / (joins * gets), gets, told.get("waits", 0))


def gets_of(connection: Any) -> int:
    """Join twice, so that the pool has all pages; return the gets of the second join."""
    for _ in range(2):
        ((said,),) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {_JOIN}").fetchall()
    plan = (json.loads(said) if isinstance(said, str) else said)[0]["Plan"]
    if plan["Shared Read Blocks"] or "Nested Loop" not in json.dumps(plan):
        raise SystemExit(f"the join reads {plan['Shared Read Blocks']} pages, or is no nested loop: {plan}")
    return int(plan["Shared Hit Blocks"])


def cpu_ns(schedstat: Path) -> int:
    """Return the processor time of a process, in nanoseconds, from its schedstat file."""
    return int(schedstat.read_text().split()[0])


if __name__ == "__main__":
    main()
