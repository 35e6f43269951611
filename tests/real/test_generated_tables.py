"""Generated page accesses compared with a real trace of the same transactions, table by table.

For each table and index the generated distinct pages in 50, 500 and 2,000 transactions are within 2 %, or two pages, of
the trace's, and the gets within 5 %. This holds for leaves and for the pages above them, on SQLite also for each type
of transaction. Exceptions are listed by table with their cause. Objects of the server itself, whose names are in
parentheses, are not compared. With one connection both sides have the same transactions in the same order. Of eight
connections, each does as many as it can, and transactions at a stretch's edges overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bufferlab.engines.native import native
from bufferlab.engines.servers.fetched import servers_root
from bufferlab.traces import page_trace
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
    """The most by which generated numbers may differ from the trace's, as shares; an exception has a `cause`."""

    gets: float = 0.05
    pages: float = 0.02
    cause: str = ""


EXCEPTIONS: dict[str, dict[str, Promise]] = {
    "sqlite": {},
    "mysql": {
        "new_order": Promise(
            pages=0.05,
            cause="a leaf that the purge frees sooner is taken sooner again, and the purge comes with time: in 2,000 "
            "transactions four runs had 87, 87, 87 and 89 pages, and 89.5 were generated; on a starved host, where the "
            "purge came late, one had 48.3 in 50, and 50.6 are generated",
        ),
    },
    "postgres": {},
}
"""The exceptions by engine and table; they also hold for the table's indexes."""


TYPES = ("new_order", "payment", "order_status", "delivery", "stock_level")
"""The transaction types, in the order of the workload's own list."""
TELLING = (("new_order", "item"), ("payment", "history"), ("delivery", "new_order"), ("stock_level", "stock"))
"""A type and a table that it touches, but that no type after it touches."""
FIRST = 1000
"""The number of the window's first transactions that are compared by type."""
Counts = dict[tuple[str, str, bool], tuple[int, int]]
"""Gets and distinct pages, by type, by table or index, and by whether the pages are above the leaves."""


def traced(root: Path, engine: str, **asked: Any) -> Path:
    """Run the experiment with a trace; return its sweep's folder."""
    toml = root / "by-table.toml"
    toml.write_text(TOML.format(engine=engine, **asked))
    for folder in ("measured", "predicted", "data"):
        (root / folder).mkdir(mode=0o711)
    (root / "cache").mkdir(mode=0o711)
    (root / "cache" / "servers").symlink_to(servers_root())
    run = ("run", toml, "--probe", "page-trace", "--share-device", "--out", root / "measured")
    bufferlab(root, *run, "--data-dir", root / "data")
    return next((root / "measured").glob("by-table-*"))


def compared(root: Path, measured: Path) -> dict[str, Any]:
    """Predict the experiment without a run; return the table of `accuracy` by table."""
    bufferlab(root, "predict", root / "by-table.toml", "--out", root / "predicted")
    predicted = next((root / "predicted").glob("by-table-*"))
    told: dict[str, Any] = json.loads(bufferlab(root, "accuracy", measured, predicted, "--json"))
    assert not told["stretches"][0]["differ"]
    (tables,) = told["touched"]
    assert tables["same_seed"]
    return {one["name"]: one for one in tables["objects"]}


def bufferlab(root: Path, *arguments: str | Path) -> str:
    done = prepared.run(arguments, core.environment(root), 1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


def require_promised(engine: str, objects: dict[str, Any], count: int) -> None:
    """Require that every table and index is within its limits."""
    exceptions = EXCEPTIONS[engine]
    assert len(exceptions) <= 3
    names = [name for name in objects if "(" not in name]
    assert len(names) == count
    broken = [
        f"{name}{level}: {one}"
        for name in names
        for level, pages in levels(objects[name])
        for one in beyond(pages, exceptions.get(name.partition(".")[0], Promise()))
    ]
    assert not broken, "\n".join(broken)


def levels(one: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the leaves of an object, or the pages of a heap, and the pages above them."""
    above = one["interior"]
    if one["name"] == "sqlite_schema":
        # No rules describe the catalogue's layout; its first page is above a leaf that no statement gets.
        yield "", one
        return
    yield ", above the leaves", above

    def below(all_levels: dict[str, Any], interior: dict[str, Any]) -> dict[str, Any]:
        return {side: all_levels[side] - interior[side] for side in ("measured", "generated")}

    pages = {stretch: below(own, above["pages"][stretch]) for stretch, own in one["pages"].items()}
    yield "", {"gets": below(one["gets"], above["gets"]), "pages": pages}


def beyond(one: dict[str, Any], promise: Promise) -> list[str]:
    """Return the numbers that differ from the trace by more than the limits, in words."""
    gets = one["gets"]
    told = [("gets", gets["measured"], gets["generated"], promise.gets * gets["measured"])]
    for stretch, pages in one["pages"].items():
        measured = pages["measured"]
        far = max(promise.pages * measured, 2.0)
        told.append((f"pages in {stretch}", measured, pages["generated"], far))
    return [
        f"{what} were {measured:.4g}, and {generated:.4g} are generated"
        for what, measured, generated, far in told
        if abs(generated - measured) > far
    ]


@pytest.fixture(scope="module")
def sqlite(disk: Path) -> Path:
    """Return a folder with a traced run of SQLite."""
    root = disk / "by-table"
    root.mkdir()
    traced(root, "sqlite", workload=tpcc(1), page_size="4KiB", server="", transactions=2000)
    return root


def test_sqlites_tables_are_generated_as_they_are_traced(sqlite: Path) -> None:
    require_promised("sqlite", compared(sqlite, next((sqlite / "measured").glob("by-table-*"))), 12)


def test_sqlites_transactions_of_each_type_are_generated_as_they_are_traced(sqlite: Path) -> None:
    trace = page_trace.read(next((sqlite / "measured").glob("by-table-*")))
    done, measured = by_type(trace)
    expected, generated = generated_by_type(trace)
    assert done == expected
    assert {kind for kind, _, _ in measured} == {*TYPES}
    broken = [
        f"{' '.join(map(str, key))}: {gets} gets of {pages} pages, and {own_gets} of {own_pages} are generated"
        for key in sorted({*measured, *generated})
        for (gets, pages), (own_gets, own_pages) in [(measured.get(key, (0, 0)), generated.get(key, (0, 0)))]
        if abs(own_gets - gets) > 0.05 * gets or abs(own_pages - pages) > max(0.02 * pages, 2)
    ]
    assert not broken, "\n".join(broken)


def by_type(trace: page_trace.RunTrace) -> tuple[dict[str, int], Counts]:
    """Return how many of the window's first transactions are of each type, and what they touched.

    A transaction of SQLite begins with a get of the file's first page. A rollback and a reading of the engine's
    counters get this page, too.
    """
    ends = {one.name: one.first_page + (one.interior or 0) for one in trace.stored.objects}
    is_first = (pl.col("object") == "sqlite_schema") & (pl.col("kind") == "get")
    rows = trace.named().filter(pl.col("in_window") & pl.col("kind").is_in(("get", "create")))
    rows = rows.with_columns(is_first.cum_sum().alias("at"), pl.col("object").cast(pl.String))
    own = rows.filter((~is_first).any().over("at")).with_columns(pl.col("at").rank("dense").alias("at"))
    own = own.filter(pl.col("at") <= FIRST).with_columns(
        (pl.col("page") < pl.col("object").replace_strict(ends)).alias("above"),
        pl.coalesce(
            *(pl.when((pl.col("object") == table).any().over("at")).then(pl.lit(kind)) for kind, table in TELLING),
            pl.lit("order_status"),
        ).alias("type"),
    )
    counted = own.group_by("type", "object", "above").agg(pl.len(), pl.col("page").n_unique().alias("pages"))
    counts = {(kind, name, above): (gets, pages) for kind, name, above, gets, pages in counted.rows()}
    done = dict(own.group_by("type").agg(pl.col("at").n_unique()).rows())
    return done, {key: count for key, count in counts.items() if key[1] not in ("sqlite_schema", "(free)")}


def generated_by_type(trace: page_trace.RunTrace) -> tuple[dict[str, int], Counts]:
    """Return the same for the same transactions, generated."""
    run = trace.record.run
    job = {
        "engine": "sqlite",
        "page_size_bytes": 4096,
        "workload": {name: run.workload[name] for name in ("warehouses", "load_seed", "skew")} | {"seed": run.seed},
        "connections": 1,
        "prefill": True,
        "pools": [{"model": "lru", "settings": {}, "frames": 100}],
        "warm_up": {"transactions": run.warm_up.transactions},
        "window_transactions": FIRST,
        "census": True,
    }
    told = json.loads(native().generate(json.dumps(job)))
    (pool,) = told["pools"]
    done = {kind: pool["committed"][at] + pool["rolled_back"][at] for at, kind in enumerate(TYPES)}
    counts = {}
    for one in told["census"]:
        for at, kind in enumerate(TYPES):
            both = [(level["gets_by_type"][at], level["pages_by_type"][at]) for level in (one, one["interior"])]
            (gets, pages), (gets_above, pages_above) = both
            counts[kind, one["name"], True] = gets_above, pages_above
            counts[kind, one["name"], False] = gets - gets_above, pages - pages_above
    return done, {key: count for key, count in counts.items() if count[0] and key[1] != "sqlite_schema"}


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize(("server", "page_size", "tables"), [("mysql-5.7", "16KiB", 11), ("postgres-17", "8KiB", 19)])
def test_a_servers_tables_are_generated_as_they_are_traced(server: str, page_size: str, tables: int) -> None:
    engine = server.partition("-")[0]
    (postgres if engine == "postgres" else innodb).build(server)
    with innodb.folder() as root:
        asked = {"workload": tpcc(4), "page_size": page_size, "transactions": 4000}
        objects = compared(root, traced(root, engine, server=f'server = "{server}"', **asked))
    require_promised(engine, objects, tables)


@pytest.mark.slow
@pytest.mark.servers
def test_postgres_moves_hot_rows_as_it_is_traced_to() -> None:
    """The heap, its key, and the index on k, which gets an entry when an update moves a row to another page."""
    postgres.build("postgres-17")
    with innodb.folder() as root:
        asked = {"workload": HOT_ROWS, "page_size": "8KiB", "server": 'server = "postgres-17"', "transactions": 10000}
        objects = compared(root, traced(root, "postgres", **asked))
    require_promised("postgres", objects, 3)
    assert objects["sbtest1.k_1"]["gets"]["measured"] > 0.05
