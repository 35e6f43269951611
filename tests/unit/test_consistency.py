"""Each condition of TPC-C must notice exactly its own rows: a test corrupts one row, and exactly the expected
conditions fail.

These tests make the database in Python, from the specification's rules and a few transactions; only the tables'
definitions come from the loader.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.sqlite.consistency_by_sqlite3 import check
from bufferlab.engines.workload_conditions import TREES, WorkloadCondition, check_by_two, conditions
from bufferlab.errors import DataFileError
from support.corrupted import corrupt, failed

SCHEMA = Path(__file__).parents[2] / "crates/bufferlab-drive/dialects/sqlite/tpcc/schema.sql"
WAREHOUSES, DISTRICTS, CUSTOMERS = 2, 10, 30
INITIAL_DELIVERED = 21  # 70 % of the orders, like 2100 of 3000.
WORKLOAD = {"name": "tpcc", "warehouses": WAREHOUSES, "initial_delivered": INITIAL_DELIVERED}


class Shop:
    """A small TPC-C database and the transactions that change it (1.3, 2.4-2.7, 4.3.3.1, all at reduced size)."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.delivered: Counter[tuple[int, int]] = Counter()
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript(SCHEMA.read_text())
        self.connection.execute("BEGIN")
        for w in range(1, WAREHOUSES + 1):
            self.insert("warehouse", w_id=w, w_ytd=DISTRICTS * CUSTOMERS * 1000)
            for d in range(1, DISTRICTS + 1):
                self.load_district(w, d)

    def insert(self, table: str, **values: int | None) -> None:
        """Insert a row with these values; columns that no condition reads are zero."""
        columns = [row[1] for row in self.connection.execute(f"PRAGMA table_info({table})")]
        unknown = values.keys() - set(columns)
        assert not unknown, f"{table} has no {unknown}"
        row = [values.get(column, 0) for column in columns]
        self.connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)

    def load_district(self, w: int, d: int) -> None:
        self.insert("district", d_w_id=w, d_id=d, d_ytd=CUSTOMERS * 1000, d_next_o_id=CUSTOMERS + 1)
        for c in range(1, CUSTOMERS + 1):
            self.insert("customer", c_w_id=w, c_d_id=d, c_id=c, c_balance=-1000, c_ytd_payment=1000)
            self.insert("history", h_w_id=w, h_d_id=d, h_c_w_id=w, h_c_d_id=d, h_c_id=c, h_amount=1000)
        customers = self.random.sample(range(1, CUSTOMERS + 1), CUSTOMERS)
        for o, c in enumerate(customers, 1):
            self.insert_order(w, d, o, c, delivered=o <= INITIAL_DELIVERED)

    def insert_order(self, w: int, d: int, o: int, c: int, *, delivered: bool) -> None:
        lines = self.random.randint(5, 15)
        carrier = self.random.randint(1, 10) if delivered else None
        self.insert("orders", o_w_id=w, o_d_id=d, o_id=o, o_c_id=c, o_carrier_id=carrier, o_ol_cnt=lines)
        if not delivered:
            self.insert("new_order", no_w_id=w, no_d_id=d, no_o_id=o)
        for n in range(1, lines + 1):
            amount = 0 if delivered else self.random.randint(1, 999_999)
            line = {"ol_w_id": w, "ol_d_id": d, "ol_o_id": o, "ol_number": n, "ol_amount": amount}
            self.insert("order_line", **line, ol_delivery_d=1 if delivered else None)

    def district(self) -> tuple[int, int]:
        return self.random.randint(1, WAREHOUSES), self.random.randint(1, DISTRICTS)

    def new_order(self) -> None:
        w, d = self.district()
        (o,) = self.one("SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", w, d)
        self.run("UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?", o + 1, w, d)
        self.insert_order(w, d, o, self.random.randint(1, CUSTOMERS), delivered=False)

    def payment(self) -> None:
        (w, d), (cw, cd) = self.district(), self.district()
        c, amount = self.random.randint(1, CUSTOMERS), self.random.randint(100, 500_000)
        self.run("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", amount, w)
        self.run("UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?", amount, w, d)
        self.run(
            "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ? "
            "WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            *(amount, amount, cw, cd, c),
        )
        self.insert("history", h_w_id=w, h_d_id=d, h_c_w_id=cw, h_c_d_id=cd, h_c_id=c, h_amount=amount)

    def deliver(self) -> None:
        w, d = self.district()
        oldest = self.one("SELECT min(no_o_id) FROM new_order WHERE no_w_id = ? AND no_d_id = ?", w, d)
        order = (w, d, oldest[0])
        self.run("DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", *order)
        self.run("UPDATE orders SET o_carrier_id = 7 WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?", *order)
        lines = "WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?"
        self.run(f"UPDATE order_line SET ol_delivery_d = 2 {lines}", *order)
        (amount,) = self.one(f"SELECT sum(ol_amount) FROM order_line {lines}", *order)
        (c,) = self.one("SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?", *order)
        self.run(
            "UPDATE customer SET c_balance = c_balance + ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            *(amount, w, d, c),
        )
        self.delivered[w, d] += 1

    def run(self, statement: str, *values: int) -> None:
        """Change exactly one row, or the lines of one order."""
        changed = self.connection.execute(statement, values).rowcount
        assert changed == 1 or (changed > 1 and "order_line" in statement), f"{changed} rows: {statement}"

    def one(self, query: str, *values: int) -> Any:
        return self.connection.execute(query, values).fetchone()


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[int]]]:
    """Return a valid database after a few transactions, and the orders that these delivered."""
    path = tmp_path_factory.mktemp("shop") / "tpcc.db"
    shop = Shop(path, seed=20_260_101)
    for _ in range(100):
        shop.new_order()
        shop.payment()
    for _ in range(60):
        shop.deliver()
    # District 1 of warehouse 1 certainly had a delivery: several cases below need a delivered line that cost money.
    shop.district = lambda: (1, 1)  # type: ignore[method-assign]
    shop.deliver()
    shop.connection.execute("COMMIT")
    shop.connection.close()
    return path, [[w, d, count] for (w, d), count in shop.delivered.items()]


@pytest.fixture
def database(pristine: tuple[Path, list[list[int]]], tmp_path: Path) -> Path:
    return Path(shutil.copy(pristine[0], tmp_path / "tpcc.db"))


@pytest.fixture
def delivered(pristine: tuple[Path, list[list[int]]]) -> list[list[int]]:
    return pristine[1]


def test_an_untouched_database_passes_all_twelve_conditions_and_its_trees_are_sound(
    database: Path, delivered: list[list[int]]
) -> None:
    result = check(database, WORKLOAD, delivered)
    assert [row["condition"] for row in result["conditions"]] == [TREES, *range(1, 13)]
    assert failed(result) == set(), result
    assert all(row["violations"] == 0 and row["example"] is None for row in result["conditions"])
    assert result["seconds"] > 0


def test_a_freshly_loaded_database_needs_no_deliveries_to_pass(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "tpcc.db", seed=1)
    shop.connection.execute("COMMIT")
    shop.connection.close()
    assert failed(check(tmp_path / "tpcc.db", WORKLOAD, [])) == set()


# The order of district (1, 1) that the fixture delivered, and the oldest one still undelivered.
LAST_DELIVERED = "(SELECT min(no_o_id) - 1 FROM new_order WHERE no_w_id = 1 AND no_d_id = 1)"
FIRST_UNDELIVERED = "(SELECT min(no_o_id) FROM new_order WHERE no_w_id = 1 AND no_d_id = 1)"
LAST_ORDER = "(SELECT max(o_id) FROM orders WHERE o_w_id = 1 AND o_d_id = 1)"
DISTRICT_OF_ORDER = "o_w_id = 1 AND o_d_id = 1"
DISTRICT_OF_NEW_ORDER = "no_w_id = 1 AND no_d_id = 1"
DISTRICT_OF_LINE = "ol_w_id = 1 AND ol_d_id = 1"
SOME_CUSTOMER = "c_w_id = 2 AND c_d_id = 3 AND c_id = 4"
SOME_PAYMENT = "rowid = 17"  # A loaded payment of warehouse 1, district 1, customer 17.
ORPHAN_LINE = (
    "INSERT INTO order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,"
    " ol_dist_info) VALUES (1, 1, 99999, 1, 1, 1, 5, 0, '')"
)
EMPTY_ORDER = (
    "INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)"
    " VALUES (1, 1, 0, 1, 0, 5, 0, 1)"
)

# The change to one row, the reason why it breaks a condition, and the exact set of conditions that must fail.
CASES = {
    # W_YTD is compared with D_YTD (1) and with the payments (8); D_YTD with W_YTD (1) and the payments (9).
    "a warehouse's total": ("UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 2", {1, 8}),
    "a district's total": ("UPDATE district SET d_ytd = d_ytd - 1 WHERE d_w_id = 2 AND d_id = 10", {1, 9}),
    "a lost district": ("DELETE FROM district WHERE d_w_id = 1 AND d_id = 5", {1}),
    # Only 2 looks at D_NEXT_O_ID.
    "the next order's number": ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 1", {2}),
    # The numbers of new orders still have no gap (3), but no longer end where the orders do (2).
    "a lost newest new order": (
        f"DELETE FROM new_order WHERE {DISTRICT_OF_NEW_ORDER} AND no_o_id = {LAST_ORDER}",
        {2, 5, 11},
    ),
    # A gap (3), an order without carrier and new order (5), one too few to count (11).
    "a new order lost from the middle": (
        f"DELETE FROM new_order WHERE {DISTRICT_OF_NEW_ORDER} AND no_o_id = {FIRST_UNDELIVERED} + 1",
        {3, 5, 11},
    ),
    # The count stays right (11); two orders no longer agree with their carriers (5).
    "a new order that names an old order": (
        f"UPDATE new_order SET no_o_id = 3 WHERE {DISTRICT_OF_NEW_ORDER} AND no_o_id = {FIRST_UNDELIVERED}",
        {3, 5},
    ),
    # The line counts in its district (4), but belongs to no order (6, 7) and no customer (10, 12).
    "a line of no order": (ORPHAN_LINE, {4}),
    "a lost line of an undelivered order": (
        f"DELETE FROM order_line WHERE {DISTRICT_OF_LINE} AND ol_o_id = {FIRST_UNDELIVERED} AND ol_number = 1",
        {4, 6},
    ),
    "a lost line of a delivered order": (
        f"DELETE FROM order_line WHERE {DISTRICT_OF_LINE} AND ol_o_id = {LAST_DELIVERED} AND ol_number = 1",
        {4, 6, 10, 12},
    ),
    # The lines say delivered while the carrier says not (7), as the lack of a new order does (5).
    "a lost carrier": (f"UPDATE orders SET o_carrier_id = NULL WHERE {DISTRICT_OF_ORDER} AND o_id = 5", {5, 7}),
    "a carrier of an undelivered order": (
        f"UPDATE orders SET o_carrier_id = 5 WHERE {DISTRICT_OF_ORDER} AND o_id = {FIRST_UNDELIVERED}",
        {5, 7},
    ),
    # No gap (3) and the same end (2), but a delivered order has a new order (5), which is one too many (11).
    "a delivered order that is new again": (f"INSERT INTO new_order VALUES (1, 1, {LAST_DELIVERED})", {5, 11}),
    "an order's number of lines": (
        f"UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE {DISTRICT_OF_ORDER} AND o_id = 1",
        {4, 6},
    ),
    # The district's sum stays right (4), and neither order is delivered (7, 10, 12).
    "a line moved to the next order": (
        f"UPDATE order_line SET ol_o_id = ol_o_id + 1, ol_number = 99"
        f" WHERE {DISTRICT_OF_LINE} AND ol_o_id = {FIRST_UNDELIVERED} AND ol_number = 2",
        {6},
    ),
    # A loaded, delivered line costs nothing, so the customers' sums stay right (10, 12)...
    "a lost delivery date of a free line": (
        f"UPDATE order_line SET ol_delivery_d = NULL WHERE {DISTRICT_OF_LINE} AND ol_o_id = 1 AND ol_number = 1",
        {7},
    ),
    # ...but not those of a line that cost money.
    "a lost delivery date": (
        f"UPDATE order_line SET ol_delivery_d = NULL"
        f" WHERE {DISTRICT_OF_LINE} AND ol_o_id = {LAST_DELIVERED} AND ol_number = 1",
        {7, 10, 12},
    ),
    "a delivery date of an undelivered line": (
        f"UPDATE order_line SET ol_delivery_d = 1"
        f" WHERE {DISTRICT_OF_LINE} AND ol_o_id = {FIRST_UNDELIVERED} AND ol_number = 1",
        {7, 10, 12},
    ),
    "a delivered line's amount": (
        f"UPDATE order_line SET ol_amount = ol_amount + 1"
        f" WHERE {DISTRICT_OF_LINE} AND ol_o_id = {LAST_DELIVERED} AND ol_number = 1",
        {10, 12},
    ),
    # The totals are right among themselves (1) and wrong against the payments.
    "a payment moved to the other warehouse": (f"UPDATE history SET h_w_id = 2 WHERE {SOME_PAYMENT}", {8, 9}),
    "a payment moved to another district": (f"UPDATE history SET h_d_id = 2 WHERE {SOME_PAYMENT}", {9}),
    "a payment of another customer": (f"UPDATE history SET h_c_id = 18 WHERE {SOME_PAYMENT}", {10}),
    "a payment's amount": (f"UPDATE history SET h_amount = h_amount + 1 WHERE {SOME_PAYMENT}", {8, 9, 10}),
    "a lost payment": (f"DELETE FROM history WHERE {SOME_PAYMENT}", {8, 9, 10}),
    "a customer's balance": (f"UPDATE customer SET c_balance = c_balance + 1 WHERE {SOME_CUSTOMER}", {10, 12}),
    "a customer's payments": (f"UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE {SOME_CUSTOMER}", {12}),
    # An order without lines, delivered, older than all others: nothing but the number of orders is wrong.
    "an order too many": (EMPTY_ORDER, {11}),
}


@pytest.mark.parametrize(("statement", "expected"), CASES.values(), ids=CASES.keys())
def test_one_corrupted_row_breaks_exactly_the_conditions_that_speak_of_it(
    database: Path, delivered: list[list[int]], statement: str, expected: set[int]
) -> None:
    corrupt(database, statement)
    assert failed(check(database, WORKLOAD, delivered)) == expected


def test_every_condition_is_broken_by_some_case_that_its_neighbours_survive() -> None:
    # If two conditions failed only in the same cases, one query could be a copy of the other.
    cases_by_condition = {
        number: frozenset(name for name, (_, expected) in CASES.items() if number in expected)
        for number in range(1, 13)
    }
    assert all(cases_by_condition.values())
    assert len(set(cases_by_condition.values())) == 12


def test_deliveries_that_the_driver_did_not_count_break_condition_11(
    database: Path, delivered: list[list[int]]
) -> None:
    w, d, orders = delivered[0]
    miscounted = [[w, d, orders - 1], *delivered[1:]]
    result = check(database, WORKLOAD, miscounted)
    assert failed(result) == {11}
    (example,) = [row["example"] for row in result["conditions"] if row["condition"] == 11]
    assert (example["d_w_id"], example["d_id"]) == (w, d)


def test_deliveries_given_in_parts_are_added(database: Path, delivered: list[list[int]]) -> None:
    w, d, orders = delivered[0]
    in_parts = [[w, d, orders - 1], [w, d, 1], *delivered[1:]]
    assert failed(check(database, WORKLOAD, in_parts)) == set()


def test_a_full_size_database_is_expected_unless_the_workload_says_otherwise(
    database: Path, delivered: list[list[int]]
) -> None:
    result = check(database, {"name": "tpcc", "warehouses": WAREHOUSES}, delivered)
    (row,) = [row for row in result["conditions"] if not row["passed"]]
    assert (row["condition"], row["violations"]) == (11, WAREHOUSES * DISTRICTS)


def test_violations_are_counted_and_the_first_is_named_by_its_key(database: Path, delivered: list[list[int]]) -> None:
    for c in (4, 9):
        corrupt(database, f"UPDATE customer SET c_ytd_payment = 0 WHERE c_w_id = 2 AND c_d_id = 3 AND c_id = {c}")
    result = check(database, WORKLOAD, delivered)
    (row,) = [row for row in result["conditions"] if not row["passed"]]
    assert row["violations"] == 2
    assert {name: row["example"][name] for name in ("c_w_id", "c_d_id", "c_id")} == {
        "c_w_id": 2,
        "c_d_id": 3,
        "c_id": 4,
    }


def test_every_condition_cites_its_clause_and_says_what_must_hold() -> None:
    folder = Path(__file__).parents[2] / "python/bufferlab/workloads/tpcc/consistency"
    for condition in conditions("tpcc"):
        text = (folder / f"condition_{condition.number:02}.sql").read_text()
        assert text.startswith(f"-- TPC-C 3.3.2.{condition.number}: {condition.name}\n")
        assert "LIMIT" not in text, "a query must return every violation"


def test_a_workload_without_conditions_has_none() -> None:
    assert conditions("no_such_workload") == []


# The closed file, the log next to it, and the files that a check leaves.


def snapshot(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_check_leaves_no_files_and_changes_none(database: Path, delivered: list[list[int]]) -> None:
    before = snapshot(database.parent)
    check(database, WORKLOAD, delivered)
    assert snapshot(database.parent) == before


@pytest.fixture
def with_log(database: Path, tmp_path: Path) -> Path:
    """Return a database whose last change, a corruption, is only in the write-ahead log next to it."""
    folder = tmp_path / "copy"
    folder.mkdir()
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE district SET d_next_o_id = 0 WHERE d_w_id = 1 AND d_id = 1")
        # Copied while open: closing would move the log into the file.
        for suffix in ("", "-wal"):
            shutil.copy(f"{database}{suffix}", folder)
    return folder / database.name


def test_what_stands_only_in_the_log_is_checked_too(with_log: Path, delivered: list[list[int]]) -> None:
    before = snapshot(with_log.parent)
    assert failed(check(with_log, WORKLOAD, delivered)) == {2}
    after = snapshot(with_log.parent)
    assert {name: after[name] for name in before} == before


def test_a_closed_database_in_log_mode_is_read_without_making_a_log(database: Path, delivered: list[list[int]]) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = snapshot(database.parent)
    assert failed(check(database, WORKLOAD, delivered)) == set()
    assert snapshot(database.parent) == before


def test_a_database_that_was_left_in_the_middle_of_a_transaction_is_refused(database: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        # A tiny cache writes changed pages early, so their old contents must be in the journal.
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN")
        connection.execute("UPDATE order_line SET ol_amount = 0")
        for suffix in ("", "-journal"):
            shutil.copy(f"{database}{suffix}", folder)
        connection.execute("ROLLBACK")
    with pytest.raises(DataFileError) as raised:
        check(folder / database.name, WORKLOAD, [])
    assert "log beside it" in raised.value.what
    assert "recovers" in (raised.value.hint or "")


def test_a_path_with_characters_that_mean_something_in_an_address_is_opened(
    database: Path, delivered: list[list[int]], tmp_path: Path
) -> None:
    folder = tmp_path / "100% of ?size=4&x #1"
    folder.mkdir()
    odd = Path(shutil.copy(database, folder))
    assert failed(check(odd, WORKLOAD, delivered)) == set()


# Damaged files, and files of another kind.


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no database file") as raised:
        check(tmp_path / "nowhere.db", WORKLOAD, [])
    assert raised.value.where == str(tmp_path / "nowhere.db")


def test_a_file_of_another_program_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 1000)
    with pytest.raises(DataFileError, match="not a SQLite database") as raised:
        check(path, WORKLOAD, [])
    assert raised.value.exit_code == 65


def test_a_database_of_another_program_is_told_by_its_missing_table(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(DataFileError, match="no such table: warehouse"):
        check(path, WORKLOAD, [])


def test_a_table_lost_later_is_told_too(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DROP TABLE history")
    with pytest.raises(DataFileError, match="no such table: history") as raised:
        check(database, WORKLOAD, [])
    assert raised.value.hint


def test_damaged_pages_are_an_error_and_not_a_pass(database: Path) -> None:
    content = bytearray(database.read_bytes())
    for start in range(4096, len(content), 4096):
        content[start : start + 64] = bytes(64)
    database.write_bytes(content)
    with pytest.raises(DataFileError, match="damaged"):
        check(database, WORKLOAD, [])


def test_a_file_cut_short_is_an_error_and_not_a_pass(database: Path) -> None:
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 2)
    with pytest.raises(DataFileError, match="damaged"):
        check(database, WORKLOAD, [])


def test_one_wrong_page_number_is_found_in_the_trees_and_nothing_is_asked_of_them(database: Path) -> None:
    """The root of a large table points half of its rows to the wrong page."""
    with closing(sqlite3.connect(database)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'order_line'").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    with database.open("r+b") as file:
        file.seek((root - 1) * page_bytes)
        page = bytearray(file.read(page_bytes))
        assert page[0] in (2, 5), "an interior page"  # sqlite.org/fileformat2.html, 1.6
        page[8:12] = (root + 1).to_bytes(4, "big")  # The page number of the right-most child.
        file.seek((root - 1) * page_bytes)
        file.write(page)
    (row,) = check(database, WORKLOAD, [])["conditions"]
    assert (row["condition"], row["passed"]) == (TREES, False)
    assert row["violations"] >= 1
    assert "page" in row["example"]["message"].lower()


def test_a_script_promises_nothing_but_sound_trees(database: Path) -> None:
    result = check(database, {"name": "script", "source": "x.sql", "text": "SELECT 1;"}, [])
    assert [(row["condition"], row["passed"]) for row in result["conditions"]] == [(TREES, True)]


def test_empty_tables_do_not_pass_for_a_consistent_database(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA.read_text())
    with pytest.raises(DataFileError, match="0 warehouses where 2 are expected"):
        check(path, WORKLOAD, [])


def test_another_number_of_warehouses_is_another_database(database: Path, delivered: list[list[int]]) -> None:
    with pytest.raises(DataFileError, match="2 warehouses where 3 are expected"):
        check(database, {**WORKLOAD, "warehouses": 3}, delivered)


class StopAsked(Exception):
    """The exception by which a caller stops a check."""


def test_a_check_stops_with_the_exception_of_whoever_interrupts_it(
    database: Path, delivered: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bufferlab.engines.sqlite.consistency_by_sqlite3._INSTRUCTIONS_PER_INTERRUPT", 1000)
    calls = 0

    def interrupt() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise StopAsked

    with pytest.raises(StopAsked):
        check(database, WORKLOAD, delivered, interrupt=interrupt)
    assert calls == 3


def test_a_check_that_nobody_interrupts_asks_and_goes_on(
    database: Path, delivered: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bufferlab.engines.sqlite.consistency_by_sqlite3._INSTRUCTIONS_PER_INTERRUPT", 1000)
    asked: list[None] = []
    result = check(database, WORKLOAD, delivered, interrupt=lambda: asked.append(None))
    assert failed(result) == set()
    assert len(asked) > 10


CONDITIONS = [WorkloadCondition(number, "what must hold", "SELECT 1") for number in range(1, 9)]


def asked_by_two(*, sound: bool, fails: bool = False) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the results of a check by two sessions, and the conditions that each session asked, in order."""
    asked: list[int] = []

    def some(session: None, left: Iterator[WorkloadCondition]) -> list[dict[str, Any]]:
        rows = []
        for condition in left:
            asked.append(condition.number)
            if fails:
                raise StopAsked
            rows.append({"condition": condition.number, "passed": True})
        return rows

    trees = {"condition": 0, "passed": sound}
    return check_by_two(nullcontext, lambda session: trees, some, CONDITIONS), asked


def test_two_sessions_ask_each_condition_once_and_answer_in_the_specifications_order() -> None:
    rows, asked = asked_by_two(sound=True)
    assert [row["condition"] for row in rows] == list(range(9))
    assert sorted(asked) == list(range(1, 9))


def test_of_a_damaged_tree_two_sessions_tell_nothing_else_and_of_a_sound_one_every_failure() -> None:
    assert asked_by_two(sound=False)[0] == [{"condition": 0, "passed": False}]
    assert asked_by_two(sound=False, fails=True)[0] == [{"condition": 0, "passed": False}]
    with pytest.raises(StopAsked):
        asked_by_two(sound=True, fails=True)
