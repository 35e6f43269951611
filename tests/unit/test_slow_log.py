"""Slow query logs of five servers, rotated, cut, mangled and forged: they give the same script, and no output shows a
value.

tests/support/slow_logs.py made the logs in tests/fixtures/slow-log, on private servers.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bufferlab.engines.native import native
from bufferlab.errors import DataFileError, SpecError
from bufferlab.report.json_output import printed
from bufferlab.slow_log import Made, make_script
from bufferlab.slow_log import transactions as grouping
from bufferlab.slow_log.entries import MOST_STATEMENT_BYTES, LogEntry, entries
from bufferlab.slow_log.script import write_script
from bufferlab.slow_log.transactions import Transactions
from campaign import mutate
from docs.documents import ROOT
from support.slow_logs import SECRETS

LOGS = sorted((ROOT / "tests/fixtures/slow-log").glob("*.log"))
OF_5_7 = ROOT / "tests/fixtures/slow-log/mysql-5.7.log"


def read(data: bytes) -> list[LogEntry]:
    return list(entries(io.BytesIO(data)))


def made_of(folder: Path, *logs: bytes, **options: object) -> Made:
    files = []
    for number, log in enumerate(logs):
        files.append(folder / f"{number}.log")
        files[-1].write_bytes(log)
    return make_script(files, **options)  # type: ignore[arg-type]


def kinds(made: Made) -> list[tuple[int, str]]:
    return [(section.weight, "; ".join(section.kind.digests)) for section in made.script.sections]


BUY = (
    "SELECT price, sold FROM product WHERE id = ? FOR UPDATE; UPDATE product SET sold = sold + ? WHERE id = ?; "
    "INSERT INTO sale(product, customer, note, code, at) VALUES (...)"
)
RENAME = "SELECT name FROM product WHERE id IN (...); UPDATE product SET name = ? WHERE id = ?"


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_every_server_tells_the_same_transactions(log: Path) -> None:
    made = make_script([log])
    assert made.schema == "shop"
    assert kinds(made)[:4] == [
        (6, BUY),
        (6, "SELECT COUNT(*) ?, SUM(price) FROM product WHERE id BETWEEN ? AND ? GROUP BY sold ORDER BY ?"),
        (4, RENAME),
        (2, RENAME),
    ]
    assert [section.kind.frame for section in made.script.sections[:4]] == ["COMMIT", "", "COMMIT", "ROLLBACK"]
    assert dict(made.left_out)["SET"] == 5
    assert made.notes == ()
    # Only these two logs record which statement failed.
    assert dict(made.left_out).get("that failed", 0) == (2 if log.stem == "mysql-9" else 0)


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_the_core_takes_the_script_and_a_person_is_told_no_value(log: Path) -> None:
    made = make_script([log])
    native().check_script("mine.sql", made.script.text, "{}")
    told = json.dumps(printed(made), ensure_ascii=False)
    for secret in SECRETS:
        assert secret not in told
    assert all(secret.replace("'", "''") in made.script.text for secret in SECRETS[:1] + SECRETS[2:3])


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_as_many_entries_are_read_as_a_plain_search_finds(log: Path) -> None:
    data = log.read_bytes()
    found = re.findall(rb"(?m)^# Query_time: (\d+\.\d+)", data)
    made = read(data)
    assert [entry.command for entry in made if entry.command] == ["open", *(e.command for e in made[1:] if e.command)]
    assert [entry.seconds for entry in made[1:]] == [float(seconds) for seconds in found]


def test_a_script_draws_the_values_of_one_transaction_together() -> None:
    section = make_script([OF_5_7]).script.text.split("-- transaction: ")[3]
    assert section.splitlines() == [
        "t3_update_product weight=4",
        "\\set seen random(1, 4)",
        "\\set v1 choose(:seen,1,2,4,5)",
        "\\set v2 choose(:seen,4,5,7,8)",
        "\\set v3 choose(:seen,6,11,21,26)",
        "\\set v4 choose(:seen,'O''Brien 1','O''Brien 2','O''Brien 4','O''Brien 5')",
        "BEGIN;",
        "SELECT name FROM product WHERE id IN (:v1, :v2, :v3, :v3);",
        "UPDATE IGNORE product SET name = :v4 WHERE id = :v1;",
        "COMMIT;",
        "",
    ]


PERCONA = b"""\
# Time: 2024-03-01T10:00:00.000001Z
# User@Host: app[app] @  [10.0.0.1]  Id:     7
# Schema: shop  Last_errno: %d  Killed: 0
# Query_time: 0.000120  Lock_time: 0.000010  Rows_sent: 1  Rows_examined: 1  Rows_affected: 0
# Bytes_sent: 66  Tmp_tables: 0  Tmp_disk_tables: 0  Tmp_table_sizes: 0
# InnoDB_trx_id: 1A2B
# QC_Hit: No  Full_scan: No  Full_join: No  Tmp_table: No  Tmp_table_on_disk: No
# Log_slow_rate_type: query  Log_slow_rate_limit: %d
SET timestamp=1709287200;
%s;
"""


def of_percona(sql: bytes, *, error: int = 0, limit: int = 1, routine: bytes = b"") -> bytes:
    entry = PERCONA % (error, limit, sql)
    return entry.replace(b"# InnoDB", b"# Stored_routine: " + routine + b"\n# InnoDB") if routine else entry


def test_perconas_fields_are_read() -> None:
    (entry,) = read(of_percona(b"SELECT 1 FROM t"))
    assert entry == LogEntry(session=7, schema="shop", seconds=0.00012, sql="SELECT 1 FROM t")
    assert read(of_percona(b"SELECT 1 FROM t", error=1062))[0].failed
    assert read(of_percona(b"SELECT 1 FROM t", limit=100))[0].sampled
    assert read(of_percona(b"SELECT 1 FROM t", routine=b"shop.buy"))[0].inside


def mariadb(session: int, *statements: str, schema: str = "shop", seconds: float = 0.001) -> bytes:
    return b"".join(
        b"# User@Host: me[me] @ localhost []\n# Thread_id: %d  Schema: %s  QC_hit: No\n"
        b"# Query_time: %f  Lock_time: 0.0\n"
        b"SET timestamp=1709287200;\n%s;\n" % (session, schema.encode(), seconds, sql.encode())
        for sql in statements
    )


def grouped(*logs: bytes, by: grouping.By = "transaction") -> tuple[list[tuple[int, str, str]], dict[str, int]]:
    found = Transactions(by)
    for log in logs:
        for entry in entries(io.BytesIO(log)):
            found.take(entry)
    found.end()
    made = [(kind.count, kind.frame, "; ".join(kind.digests)) for kind in found.kinds.values()]
    return made, {why: count for why, count in found.left_out.items() if count}


def test_sessions_are_kept_apart() -> None:
    log = (
        mariadb(1, "BEGIN", "SELECT 1 FROM t")
        + mariadb(2, "SELECT a FROM t")
        + mariadb(1, "UPDATE t SET a = 1", "COMMIT")
    )
    assert grouped(log)[0] == [(1, "COMMIT", "SELECT ? FROM t; UPDATE t SET a = ?"), (1, "", "SELECT a FROM t")]
    assert len(grouped(log, by="statement")[0]) == 3


def test_a_session_whose_autocommit_is_off_needs_no_begin() -> None:
    log = mariadb(1, "SET autocommit=0", "SELECT 1 FROM t", "SELECT 2 FROM t", "COMMIT", "SELECT 3 FROM t", "ROLLBACK")
    log += mariadb(1, "SET NAMES utf8, autocommit = 1", "SELECT 4 FROM t")
    assert grouped(log)[0] == [
        (1, "COMMIT", "SELECT ? FROM t; SELECT ? FROM t"),
        (1, "ROLLBACK", "SELECT ? FROM t"),
        (1, "", "SELECT ? FROM t"),
    ]


def test_a_commit_without_a_begin_tells_that_autocommit_is_off() -> None:
    log = mariadb(1, "SELECT 1 FROM t", "COMMIT", "SELECT 1 FROM t", "UPDATE t SET a = 2", "COMMIT")
    assert grouped(log)[0] == [(1, "COMMIT", "SELECT ? FROM t"), (1, "COMMIT", "SELECT ? FROM t; UPDATE t SET a = ?")]


def test_a_guess_that_would_never_end_is_taken_back() -> None:
    log = mariadb(1, "COMMIT", *["SELECT 1 FROM t"] * 250)
    assert grouped(log) == ([(250, "", "SELECT ? FROM t")], {})


def test_begin_and_ddl_end_what_is_open() -> None:
    log = mariadb(
        1, "BEGIN", "SELECT 1 FROM t", "START TRANSACTION READ ONLY", "SELECT a FROM t", "CREATE TABLE u (a INT)"
    )
    assert grouped(log) == ([(1, "COMMIT", "SELECT ? FROM t"), (1, "COMMIT", "SELECT a FROM t")], {"CREATE": 1})


def test_a_chained_end_begins_the_next_transaction() -> None:
    log = mariadb(
        1,
        "BEGIN",
        "SELECT 1 FROM t",
        "COMMIT AND CHAIN",
        "SELECT a FROM t",
        "ROLLBACK AND NO CHAIN",
        "SELECT 2, 3 FROM t",
    )
    assert grouped(log)[0] == [
        (1, "COMMIT", "SELECT ? FROM t"),
        (1, "ROLLBACK", "SELECT a FROM t"),
        (1, "", "SELECT ?, ? FROM t"),
    ]


def test_what_the_log_does_not_end_is_left_out() -> None:
    quit_ = mariadb(1, "# administrator command: Quit")
    assert read(quit_)[0].command == "Quit"
    log = mariadb(1, "BEGIN", "SELECT 1 FROM t") + quit_ + mariadb(1, "SELECT 2 FROM t")
    assert grouped(log) == ([(1, "", "SELECT ? FROM t")], {"in a transaction without an end": 1})
    start = b"/usr/sbin/mysqld, Version: 5.7.22-log (MySQL). started with:\nTcp port: 3306  Unix socket: /s\nTime  Id\n"
    log = mariadb(1, "BEGIN", "SELECT 1 FROM t") + start + mariadb(1, "SELECT 2 FROM t")
    assert grouped(log) == ([(1, "", "SELECT ? FROM t")], {"in a transaction without an end": 1})


@pytest.mark.parametrize("undone", ["ROLLBACK TO s", "CALL p()", "EXECUTE stmt"])
def test_a_transaction_whose_work_would_be_another_is_left_out(undone: str) -> None:
    log = mariadb(1, "BEGIN", "UPDATE t SET a = 1", "SAVEPOINT s", "INSERT INTO t VALUES (1)", undone, "COMMIT")
    assert grouped(log)[0] == []


def test_a_transaction_is_whole_or_left_out() -> None:
    log = mariadb(
        1, "BEGIN", "SELECT 1 FROM t", "SELECT @x", "COMMIT", "BEGIN", "SELECT 1 FROM t", "SHOW TABLES", "COMMIT"
    )
    reasons = {
        "with a session's own @variable": 1,
        "in a transaction with a statement that is left out": 1,
        "SHOW": 1,
    }
    assert grouped(log) == ([(1, "COMMIT", "SELECT ? FROM t")], reasons)
    assert grouped(mariadb(1, "BEGIN", *["SELECT 1 FROM t"] * 201, "COMMIT")) == (
        [],
        {"in a transaction of more than 200 statements": 201},
    )
    inside = of_percona(b"UPDATE t SET a = NAME_CONST('x', 5)", routine=b"shop.buy")
    assert grouped(of_percona(b"BEGIN") + inside + of_percona(b"SELECT 1 FROM t") + of_percona(b"COMMIT")) == (
        [(1, "COMMIT", "SELECT ? FROM t")],
        {"of a stored routine": 1},
    )


def test_without_sessions_each_statement_is_alone_and_a_note_says_so(tmp_path: Path) -> None:
    log = re.sub(rb"  Id: +\d+", b"", OF_5_7.read_bytes())
    made = made_of(tmp_path, log)
    assert {section.kind.frame for section in made.script.sections} == {""}
    assert "do not tell their connection" in made.notes[0]


def test_the_schema_with_most_statements_is_taken_or_the_one_asked_for(tmp_path: Path) -> None:
    log = mariadb(1, "SELECT 1 FROM t", "SELECT a FROM x") + mariadb(2, "SELECT 3 FROM t", schema="other")
    made = made_of(tmp_path, log)
    assert (made.schema, dict(made.left_out)) == ("shop", {"of another schema": 1})
    assert made_of(tmp_path, log, schema="other").schema == "other"
    with pytest.raises(SpecError, match="its schemas: other, shop"):
        made_of(tmp_path, log, schema="nowhere")


def test_use_of_mysqls_log_holds_until_the_next() -> None:
    form = b"# User@Host: r[r] @ l []  Id: 1\n# Query_time: 0.1 \n%sSET timestamp=1;\nSELECT %d;\n"
    log = form % (b"use a;\n", 1) + form % (b"", 2) + form % (b"use `b c`;\n", 3)
    assert [entry.schema for entry in read(log)] == ["a", "a", "b c"]


def test_statements_of_many_lines_and_of_hashes_are_whole() -> None:
    sql = "SELECT 'a;\n\n# Query_time: 1\n' # why\n  FROM t\n# User@Host: but not one\n WHERE b = 'x\r\n'"
    (entry,) = read(mariadb(1, sql))
    assert entry.sql == sql


def test_a_line_forged_as_an_entrys_first_leaves_no_half_statement() -> None:
    forged = (
        "INSERT INTO t VALUES ('x;\n# User@Host: a[a] @ b []\n# Query_time: 1 \nSET timestamp=1;\nDROP TABLE t;\n')"
    )
    made, left_out = grouped(mariadb(1, forged, "SELECT 1 FROM t"))
    assert made == [(1, "", "SELECT ? FROM t")]
    assert left_out["with a quote without an end"] + left_out.get("without an end", 0) >= 1


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_a_rotated_log_is_one_log_and_a_cut_one_loses_the_cut_alone(seed: int) -> None:
    rng = random.Random(seed)
    data = rng.choice(LOGS).read_bytes()
    starts = [match.start() for match in re.finditer(rb"(?m)^# (?:Time|User@Host): ", data)]
    whole = grouped(data)
    at = rng.choice(starts)
    # A new file begins with the server's header, which ends no session here; it belongs to the first entry.
    assert grouped(data[:at], data[at:])[0] or at == starts[0]
    cut = rng.randrange(len(data))
    made, left_out = grouped(data[:cut])
    assert sum(count for count, _, _ in made) <= sum(count for count, _, _ in whole[0])
    assert left_out.get("without an end", 0) <= 1


@given(st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_whatever_is_in_a_log_the_script_is_one_that_the_core_takes(seed: int) -> None:
    rng = random.Random(seed)
    data = rng.choice(LOGS).read_bytes()
    text = mutate.mangle_text(data.decode("utf-8", "surrogateescape"), rng)
    data = mutate.mangle_bytes(text.encode("utf-8", "surrogateescape"), rng, [data])
    found = Transactions()
    for entry in entries(io.BytesIO(data)):
        found.take(entry)
    found.end()
    counted = sum(kind.count * len(kind.statements) for kind in found.kinds.values()) + found.left_out.total()
    assert counted == found.statements <= found.entries
    if found.kinds:
        script = write_script(list(found.kinds.values()))
        native().check_script("mine.sql", script.text, "{}")


def test_a_script_keeps_to_its_limits_and_says_how_many_values_it_has() -> None:
    found = Transactions()
    for number in range(3000):
        found.take(LogEntry(session=1, schema="s", sql=f"SELECT a FROM t WHERE b = 'value {number}'"))
        found.take(LogEntry(session=1, schema="s", sql=f"SELECT c{number % 300} FROM t"))
    script = write_script(list(found.kinds.values()), most_bytes=30_000)
    assert 24_000 < len(script.text) <= 30_000
    assert len(script.sections) == 100
    values = [int(value) for value in re.findall(r"'value (\d+)'", script.text)]
    assert len(values) == script.sections[0].kept < 3000
    assert max(values) - min(values) > 2900


def test_values_that_do_not_fit_in_memory_leave_a_uniform_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_MOST_VALUE_BYTES", 100_000)
    found = Transactions()
    for number in range(20_000):
        found.take(LogEntry(schema="s", sql=f"SELECT a FROM t WHERE b = {number}"))
    (kind,) = found.kinds.values()
    values = [int(str(value)) for (value,) in kind.samples]
    assert kind.count == 20_000
    assert 200 < len(values) < 900
    # The mean of n uniform numbers up to N has a standard error of N / sqrt(12 n).
    assert abs(sum(values) / len(values) - 10_000) < 5 * 20_000 / (12 * len(values)) ** 0.5


def test_only_samples_hold_values_that_vary_and_no_name_is_longer_than_a_servers() -> None:
    found = Transactions()
    for number in range(3):
        found.take(LogEntry(schema="s", sql=f"SELECT a FROM t WHERE b = 5 AND c = '{number * 'x'}'"))
        found.take(LogEntry(schema="s", sql=f"CREATE TEMPORARY TABLE a.`{'b' * (63 + number)}` (a INT)"))
    (kind,) = found.kinds.values()
    assert (kind.first, kind.varies) == ([5, None], [False, True])
    assert sorted(map(len, found._temporary)) == [63, 64]


def test_many_kinds_leave_the_frequent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_MOST_KINDS", 50)
    found = Transactions()
    for number in range(1000):
        found.take(LogEntry(schema="s", sql="SELECT a FROM t"))
        found.take(LogEntry(schema="s", sql=f"SELECT c{number} FROM t"))
    assert max(kind.count for kind in found.kinds.values()) == 1000
    assert len(found.kinds) <= 50
    assert sum(kind.count for kind in found.kinds.values()) + found.left_out.total() == 2000


@pytest.mark.parametrize("line", [b"# User@Host: " + b"[" * 60_000, b"a" + b", Version: " * 5_000 + b"\t"])
def test_a_line_made_to_look_like_an_entrys_first_takes_time_in_proportion(line: bytes) -> None:
    before = time.process_time()
    read(mariadb(1, "SELECT 'a").removesuffix(b";\n") + (b"\n" + line) * 30 + b"';\n")
    # It takes a few milliseconds; quadratic time in a line's length would be four seconds, or minutes.
    assert time.process_time() - before < 2


def test_a_gigantic_line_and_a_gigantic_log_take_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    with path.open("wb") as file:
        file.write(mariadb(1, "SELECT 1 FROM t"))
        file.write(mariadb(1, "INSERT INTO t VALUES ('X')").replace(b"X", b"x" * (24 << 20)))
        file.write(b"\0" * (12 << 20) + b"\n" + mariadb(1, "SELECT 2 FROM t"))
    code = f"""
import resource
from pathlib import Path
from bufferlab.slow_log import make_script
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
made = make_script([Path({str(path)!r})])
assert made.statements_in_script == 2, made.left_out
assert dict(made.left_out) == {{"longer than {MOST_STATEMENT_BYTES >> 10} KiB": 1}}, made.left_out
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20_000, "kibibytes"


@pytest.mark.parametrize("content", [b"", b"\0\xff" * 5000, b"# Time: 1\n", b"x, Version: 5 started with:\n"])
def test_nothing_read_is_an_error_of_the_file(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no entry of a slow query log was found"):
        made_of(tmp_path, content)


def test_a_log_without_a_statement_of_work_is_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="none of the log's 1 statement can stand in a script"):
        made_of(tmp_path, mariadb(1, "SHOW TABLES"))
    with pytest.raises(DataFileError, match="cannot be read"):
        make_script([tmp_path / "nowhere.log"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataFileError, match="not a regular file"):
        make_script([tmp_path / "pipe"])
