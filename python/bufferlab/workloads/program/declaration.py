"""An external load program: a template for its command, and the statements counted as its transactions. Pure data.

The engine fills in the template (engines/innodb/accounts.py), and takes the counts from the server. It does not need
the program's own report. Otherwise a run is like one of bufferlab's workloads.
"""

from __future__ import annotations

import re

from bufferlab.knob import Knob
from bufferlab.units import MIB
from bufferlab.workloads.declaration import Impossible, Parameters, WorkloadDeclaration

PLACEHOLDERS = ("socket", "user", "database", "connections", "defaults_file", "folder")
"""The names in braces that a template may have."""

_GUESS_BYTES = 64 * MIB
_NAMED = re.compile(r"\{([^{}]*)\}")
_SYSBENCH = (
    "sysbench oltp_read_only --db-driver=mysql --mysql-socket={socket} --mysql-user={user} --mysql-db={database} "
    "--tables=1 --table-size=400000 --threads={connections} --time=0 --events=0 run"
)


def _impossible(parameters: Parameters) -> Impossible | None:
    """Return why `exec` cannot be run: it has an unknown name in braces, or {password}. None if it can."""
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    for name in _NAMED.findall(str(parameters["exec"])):
        if name == "password":
            return Impossible(
                "exec names {password}: a password on a command line can be read by every user of this host",
                "leave it out: {user} needs none on our socket; or give the program {defaults_file}",
            )
        if name not in PLACEHOLDERS:
            return Impossible(f"exec names the unknown placeholder {{{name}}}", f"known: {known}")
    return None


def _estimate_bytes(parameters: Parameters, page_size_bytes: int) -> int:
    """Return a guess: bufferlab loads no data here, so it does not know their size."""
    return _GUESS_BYTES


_PARAMETERS: tuple[Knob, ...] = (
    Knob.text("exec", "the program with its arguments; no shell reads it, and it must run until it is ended",
              pattern=r"[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]{1,4000}",
              example="a command; {socket} {user} {database} {connections} {defaults_file} {folder} are filled in",
              default=_SYSBENCH, sweepable=False),
    Knob.choice("counts", ("com_commit", "questions"),
                "the server's counter that is its transactions: commits, or statements where each is one",
                spelling="kind_of_transaction", default="com_commit"),
    Knob.choice("data", ("hot_rows", "tpcc"),
                "the tables that are loaded for it: hot_rows is sysbench's sbtest1, tpcc TPC-C's nine",
                default="hot_rows", decides_file=True, sweepable=False),
)  # fmt: skip

DECLARATION = WorkloadDeclaration(
    name="program",
    version=1,
    meaning="an external load program such as sysbench, started against our server; its transactions are counted there",
    words="program",
    parameters=_PARAMETERS,
    transaction_types=("program",),
    headline="reads_per_transaction",
    compared=(
        "reads_per_transaction",
        "misses_per_transaction",
        "page_gets_per_transaction",
        "writes_per_transaction",
        "read_bytes_per_transaction",
        "write_bytes_per_transaction",
        "transactions_per_s",
    ),
    estimate_bytes=_estimate_bytes,
    grows_bytes_per_transaction=500.0,
    caveat="a program of the user's: its transactions are what the server counted, and nothing is known of their times",
    data_parameter="data",
    impossible=_impossible,
    needs_server=True,
)
