"""Users' scripts on the real engine, from start to end: setup, weights, parameters, rows, phases, errors with their
line."""

from __future__ import annotations

import importlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import core, postgres, windows
from support.fake import Bench, wait

pytestmark = pytest.mark.real

SHOP = """-- A shop.
-- setup
CREATE TABLE product(id INTEGER PRIMARY KEY, price REAL NOT NULL, v TEXT);
CREATE TABLE sale(id INTEGER PRIMARY KEY, product INTEGER NOT NULL, note TEXT);
INSERT INTO product
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows) SELECT i, i / 2.0, 'a;b -- c' FROM n;
-- transaction: look weight=3
\\set id random(1, :rows - 9)
SELECT v FROM product WHERE id BETWEEN :id AND :id + 9;
-- transaction: buy weight=1
\\set id random_zipfian(1, :rows, 0.9)
BEGIN;
INSERT INTO sale(product, note) VALUES(:id, ':id');
SELECT price FROM product WHERE id = :id;
COMMIT;
"""


@pytest.fixture
def shop(disk: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield a loaded shop of 2000 products."""
    database = disk / f"{request.node.name[:50].replace('/', '_')}.db"
    loaded = windows.load_script(database, SHOP, rows=2000)
    assert loaded["tables"] == {"product": 2000, "sale": 0}
    yield database
    database.unlink()


def test_a_script_runs_with_its_weights_parameters_and_row_counts(shop: Path) -> None:
    run = windows.run(shop, windows.script(SHOP, rows=2000), transactions=2000)
    window = run.window()
    looks, buys = (window.delta("transactions_committed", kind) for kind in ("look", "buy"))
    assert looks + buys == 2000
    # Three in four; the standard deviation of this binomial count is 19.
    assert looks == pytest.approx(1500, abs=100)
    assert window.delta("rows_returned", "look") == 10 * looks
    assert window.delta("rows_returned", "buy") == buys
    with sqlite3.connect(shop) as connection:
        sold, notes = connection.execute("SELECT count(*), count(DISTINCT note) FROM sale").fetchone()
        first, everything = connection.execute("SELECT sum(product = 1), count(*) FROM sale").fetchone()
        outside = connection.execute("SELECT count(*) FROM sale WHERE product NOT BETWEEN 1 AND 2000").fetchone()[0]
    connection.close()
    assert sold == run.window().end["transactions_committed", "buy"], "every purchase of warm-up and window is there"
    assert notes == 1, "a variable inside a string was replaced"
    assert outside == 0
    # The first rank's share: 1 / sum of k^-0.9.
    share = 1 / sum(k**-0.9 for k in range(1, 2001))
    assert first / everything == pytest.approx(share, abs=4 * (share / everything) ** 0.5)


def test_the_same_seed_gives_the_same_statements_and_another_seed_others(shop: Path, disk: Path) -> None:
    def sales(seed: int) -> list[tuple[int, ...]]:
        copy = core.copy(shop, disk / "seeds.db")
        windows.run(copy, windows.script(SHOP, seed=seed, rows=2000), transactions=500)
        with sqlite3.connect(copy) as connection:
            rows = connection.execute("SELECT product FROM sale ORDER BY id DESC LIMIT 50").fetchall()
        connection.close()
        copy.unlink()
        return rows

    first = sales(1)
    assert sales(1) == first
    assert sales(2) != first


def test_the_same_setup_gives_the_same_file_and_other_variables_another(disk: Path) -> None:
    files = []
    for name, rows in (("a", 500), ("b", 500), ("c", 501)):
        windows.load_script(disk / f"setup-{name}.db", SHOP, rows=rows)
        files.append((disk / f"setup-{name}.db").read_bytes())
    assert files[0] == files[1] != files[2]


def test_decimals_reach_the_engine_as_numbers(shop: Path) -> None:
    text = "\\set limit 999.75 / 1.0\nSELECT id FROM product WHERE price > :limit;"
    run = windows.run(shop, windows.script(text), transactions=100)
    # Prices are 0.5, 1.0, ... 1000.0: one is above. A text would compare as above every number, and return no row.
    assert run.window().delta("rows_returned", "script") == 100


def test_rollback_is_counted_and_undoes(shop: Path) -> None:
    text = "BEGIN; DELETE FROM product WHERE id = :transaction_number; ROLLBACK;"
    window = windows.run(shop, windows.script(text), transactions=300).window()
    assert window.delta("transactions_rolled_back", "script") == 300
    assert window.delta("transactions_committed", "script") == 0
    with sqlite3.connect(shop) as connection:
        assert connection.execute("SELECT count(*) FROM product").fetchone() == (2000,)
    connection.close()


def test_phases_run_after_the_window_between_edges_of_their_own(shop: Path) -> None:
    scan = "\\set id random(1, 1000)\nSELECT v FROM product WHERE id BETWEEN :id AND :id + 99;"
    insert = (
        "-- setup\nCREATE TABLE extra(id INTEGER PRIMARY KEY, v TEXT);\n-- transaction: one\n"
        "INSERT INTO extra(v) VALUES('0123456789012345678901234567890123456789');"
    )
    phases = [
        {"name": name, "source": f"{name}.sql", "text": text, "variables": {}, "transactions": n, "max_seconds": 20.0}
        for name, text, n in (("range_scan", scan, 50), ("insert", insert, 400))
    ]
    run = windows.run(shop, windows.script(SHOP, rows=2000), transactions=200, phases=phases)
    assert [(phase["name"], phase["transactions"]) for phase in run.answer["phases"]] == [
        ("range_scan", 50),
        ("insert", 400),
    ]
    assert run.answer["measured"]["transactions"] == 200
    scanned, inserted = run.window("range_scan"), run.window("insert")
    assert scanned.delta("rows_returned", "range_scan.script") == 5000
    assert inserted.delta("transactions_committed", "insert.one") == 400
    assert inserted.delta("wal_write_bytes") > 400 * 4096
    # The setup's pages are outside its edges: it makes one more table, but only pages of its inserts count.
    assert 4 <= inserted.delta("pages_created") <= 20
    assert scanned.delta("wal_write_bytes") == 0
    assert "range_scan.script" not in {subject for _, subject in run.window().end}
    kinds = {entry["transaction_type"] for entry in run.answer["latency"]}
    assert kinds == {"look", "buy", "range_scan.script", "insert.one"}
    order = [event["phase"] for event in run.events if event["event"] == "phase"]
    assert order == ["warm_up", "measure", "range_scan", "insert", "closing"]


def test_a_scan_of_any_length_needs_no_memory_for_its_rows(shop: Path) -> None:
    # A million rows of 100 bytes, which the driver drops.
    text = "SELECT printf('%0100d', a.id) FROM product a, product b LIMIT 1000000;"
    phase = {"name": "large", "source": "large.sql", "text": text, "variables": {}, "transactions": 1}
    run = windows.run(shop, windows.script(SHOP, rows=2000), transactions=50, phases=[{**phase, "max_seconds": 60.0}])
    window = run.window("large")
    assert window.delta("rows_returned", "large.script") == 1_000_000
    assert window.end["resident_bytes", ""] - window.start["resident_bytes", ""] < 8 << 20


@pytest.mark.parametrize(
    ("text", "where", "what", "hint"),
    [
        ("SELECT 1;\nSELECT nope FROM product;", "my.sql:2", "no such column", "correct the statement"),
        ("SELECT * FROM other;", "my.sql:1", "no such table", "setup section"),
        ("SELECT ?;", "my.sql:1", "1 parameters, and the script gives it 0", "as :name"),
        ("\n\\set a 5 / (:transaction_number - 20)\nSELECT :a;", "my.sql:2", "division by zero", "max(1"),
        ("SELECT 1;\nINSERT INTO product VALUES(1, 1, 1);", "my.sql:2", "UNIQUE constraint failed", "failed in the"),
        ("SELECT :idd;", "my.sql:1", "the variable :idd has no value", "\\set"),
    ],
    ids=["column", "table", "placeholder", "division", "constraint", "variable"],
)
def test_an_error_names_the_line_of_the_script(shop: Path, text: str, where: str, what: str, hint: str) -> None:
    with pytest.raises(core.CoreError) as raised:
        windows.run(shop, windows.script(text), transactions=100)
    error = raised.value
    assert (error.kind, error.where) == ("usage", where)
    assert what in error.what
    assert hint in error.hint


def test_a_failing_setup_names_its_line(disk: Path) -> None:
    with pytest.raises(core.CoreError) as raised:
        windows.load_script(disk / "failing.db", "-- setup\nCREATE TABLE a(b);\n\nINSERT INTO c VALUES(1);\n")
    assert (raised.value.kind, raised.value.where) == ("usage", "my.sql:4")
    assert "no such table: c" in raised.value.what


def test_a_phase_that_cannot_run_is_refused_before_the_run_begins(shop: Path) -> None:
    phase = {"name": "measure", "source": "p.sql", "text": "SELECT 1;", "variables": {}, "transactions": 1}
    for changed, what in (({}, "is no name for a phase"), ({"name": "p", "text": "SELECT :x;"}, ":x has no value")):
        with pytest.raises(core.CoreError, match=what):
            windows.run(shop, windows.script(SHOP, rows=2000), phases=[{**phase, **changed, "max_seconds": 1.0}])


def test_a_script_can_be_checked_without_a_database() -> None:
    core_module = importlib.import_module("bufferlab._native")
    facts = json.loads(core_module.check_script("shop.sql", SHOP, '{"rows": 2000, "zipf": 0.5}'))
    assert facts == {
        "transactions": [
            {"name": "look", "weight": 3, "statements": 1},
            {"name": "buy", "weight": 1, "statements": 4},
        ],
        "setup_statements": 3,
        "variables_used": ["rows"],
    }
    with pytest.raises(core_module.NativeError) as raised:
        core_module.check_script("shop.sql", "SELECT 1;\n\\sleep 1 s\n", "{}")
    kind, what, where, hint = raised.value.args
    assert (kind, where) == ("usage", "shop.sql:2")
    assert "\\sleep is no command" in what
    assert "rate" in hint


@pytest.mark.slow
def test_the_example_and_a_script_of_ones_own_run_on_postgresql(tmp_path: Path) -> None:
    server = postgres.build("postgres-17").binary
    mine = tmp_path / "mine.sql"
    mine.write_text(
        "-- setup\nCREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);\n"
        "INSERT INTO t SELECT i, lpad(i::text, 400, '0') FROM generate_series(1, 40000) AS many (i);\n"
        "-- transaction: look\n\\set id random(1, 40000)\nSELECT v FROM t WHERE id = :id;\n"
    )
    for script in ("script", str(mine)):
        with postgres.folder() as folder:
            asked = ("--engine", "postgres", "--server", server, "--smoke", "--out", folder / "runs", "--json")
            ended = wait(Bench(folder).start("run", script, *asked), 900)
        assert ended.code == 0, ended.err
        reads = [
            one["value"]
            for point in ended.json["points"]
            for one in point["summaries"]
            if one["metric"] == "reads_per_transaction"
        ]
        assert reads[0] > reads[-1]
