"""Generated page accesses beside a real trace of the same transactions, table by table: what the rules promise.

Each table and index has within 2 %, or two pages, as many distinct pages in 50, 500 and 2,000 transactions as the
trace, and gets within 5 %. Exceptions are listed by table with their cause. Objects of the server's own, in
parentheses, are not promised. One connection has the same transactions on both sides in the same order; of eight, each
does as many as it can, and those at a stretch's edges overlap.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.servers.builds import servers_root
from support import core, innodb, postgres, prepared

pytestmark = pytest.mark.real

TOML = """\
format_version = 1
name = "by-table"
question = "Are the generated accesses those of a real run?"
engine = "{engine}"
[workload]
{workload}
connections = 1
[reference]
page_size = "{page_size}"
[knobs]
page_size = "{page_size}"
{server}
[sweep]
pool_size = ["30%"]
[warm_up]
min_transactions = 500
max_transactions = 500
max_duration = "5min"
on_cap = "report"
[measure]
transactions = {transactions}
max_duration = "10min"
[design]
repetitions = 1
seed = 1
"""


def tpcc(warehouses: int) -> str:
    return f'name = "tpcc"\nwarehouses = {warehouses}'


HOT_ROWS = """\
name = "hot_rows"
rows = 100000
hot_rows = 2000
update_percent = 20"""


@dataclass(frozen=True)
class Promise:
    """How far generated numbers may be from the trace's, as shares; `cause` of an exception."""

    gets: float = 0.05
    pages: float = 0.02
    cause: str = ""


EXCEPTIONS: dict[str, dict[str, Promise]] = {
    "sqlite": {},
    "mysql": {
        "order_line": Promise(
            pages=0.04,
            cause="3.6 % too few pages in 50 transactions, 2.6 % in 500; batches of rows behind a range's end, and the "
            "bytes of leaves that dates split, were twice as much and are generated now; what is left is not found",
        ),
    },
    "postgres": {},
}
"""By engine and table, for the indexes of the table too."""


def compared(root: Path, engine: str, **asked: Any) -> dict[str, Any]:
    """Run the experiment with a trace, predict it from no run, and return what `accuracy` tells by table."""
    toml = root / "by-table.toml"
    toml.write_text(TOML.format(engine=engine, **asked))
    for folder in ("measured", "predicted", "data"):
        (root / folder).mkdir(mode=0o711)
    (root / "cache").mkdir(mode=0o711)
    (root / "cache" / "servers").symlink_to(servers_root())
    run = ("run", toml, "--probe", "page-trace", "--share-device", "--out", root / "measured")
    bufferlab(root, *run, "--data-dir", root / "data")
    bufferlab(root, "predict", toml, "--out", root / "predicted")
    sweeps = [next((root / side).glob("by-table-*")) for side in ("measured", "predicted")]
    told: dict[str, Any] = json.loads(bufferlab(root, "accuracy", *sweeps, "--json"))
    assert not told["transactions"]["warm_up"]["differ"]
    (tables,) = told["by_table"]
    assert tables["same_seed"]
    return {one["name"]: one for one in tables["objects"]}


def bufferlab(root: Path, *arguments: str | Path) -> str:
    done = prepared.run(arguments, core.environment(root), 1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


def require_promised(engine: str, objects: dict[str, Any], count: int) -> None:
    """Every table and index is as promised."""
    exceptions = EXCEPTIONS[engine]
    assert len(exceptions) <= 3
    names = [name for name in objects if "(" not in name]
    assert len(names) == count
    broken = [
        f"{name}: {one}"
        for name in names
        for one in beyond(objects[name], exceptions.get(name.partition(".")[0], Promise()))
    ]
    assert not broken, "\n".join(broken)


def beyond(one: dict[str, Any], promise: Promise) -> list[str]:
    """What is farther from the trace than promised, in words."""
    gets = one["gets"]
    told = [("gets", gets["measured"], gets["generated"], promise.gets * gets["measured"])]
    for pages in one["pages"]:
        measured = pages["measured"]
        far = max(promise.pages * measured, 2.0)
        told.append((f"pages in {pages['transactions']}", measured, pages["generated"], far))
    return [
        f"{what} were {measured:.4g}, and {generated:.4g} are generated"
        for what, measured, generated, far in told
        if abs(generated - measured) > far
    ]


def test_sqlites_tables_are_generated_as_they_are_traced(disk: Path) -> None:
    root = disk / "by-table"
    root.mkdir()
    objects = compared(root, "sqlite", workload=tpcc(1), page_size="4KiB", server="", transactions=2000)
    require_promised("sqlite", objects, 12)


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize(("server", "page_size", "tables"), [("mysql-5.7", "16KiB", 11), ("postgres-17", "8KiB", 19)])
def test_a_servers_tables_are_generated_as_they_are_traced(server: str, page_size: str, tables: int) -> None:
    engine = server.partition("-")[0]
    (postgres if engine == "postgres" else innodb).build(server)
    with innodb.folder() as root:
        asked = {"workload": tpcc(4), "page_size": page_size, "transactions": 4000}
        objects = compared(root, engine, server=f'server = "{server}"', **asked)
    require_promised(engine, objects, tables)


@pytest.mark.slow
@pytest.mark.servers
def test_postgres_moves_hot_rows_as_it_is_traced_to() -> None:
    """The heap, its key, and the index on k, which takes an entry where an update leaves its page."""
    postgres.build("postgres-17")
    with innodb.folder() as root:
        asked = {"workload": HOT_ROWS, "page_size": "8KiB", "server": 'server = "postgres-17"', "transactions": 10000}
        objects = compared(root, "postgres", **asked)
    require_promised("postgres", objects, 3)
    assert objects["sbtest1.k_1"]["gets"]["measured"] > 0.05
