"""The statements of the application in a slow query log, those of clients and monitors, and counts that add up.

The log in tests/fixtures/slow-log/clients is of MariaDB 10.11.19. Its connections are those of mariadb, mariadb-dump
and mariadb-admin, of an application, of a connection pool and of a monitor.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from bufferlab.engines.native import native
from bufferlab.errors import DataFileError, SpecError
from bufferlab.slow_log import Made, make_script
from bufferlab.slow_log.digest import read_statement
from bufferlab.slow_log.entries import MOST_STATEMENT_BYTES, Reader, entries
from bufferlab.slow_log.tokens import UnreadableError
from docs.documents import ROOT

CLIENTS = ROOT / "tests/fixtures/slow-log/clients/mariadb-10.11.log"
BANNER = (
    "/usr/sbin/mysqld, Version: {} (MySQL). started with:\nTcp port: 3306  Unix socket: /s\n"
    "Time                 Id Command    Argument\n"
)
OF_THE_CLIENT = "of the client, which name no table"
OTHER = "of another schema"


def mysql(*statements: tuple[int, str], version: str = "8.0.36") -> str:
    """Return MySQL's log of statements, each with its connection; `a|SELECT 1` is logged after a `use a`."""
    text = BANNER.format(version)
    for second, (session, sql) in enumerate(statements):
        use, _, rest = sql.rpartition("|")
        text += (
            f"# Time: 2025-02-11T09:{second // 60:02}:{second % 60:02}.500000Z\n# User@Host: a[a] @ h [10.0.0.9]  Id: "
            f"{session:5}\n# Query_time: 0.000{second % 900 + 100}  Lock_time: 0.000001 Rows_sent: 1  "
            "Rows_examined: 1\n"
            f"{f'use {use};' + chr(10) if use else ''}SET timestamp={1739264400 + second};\n{rest};\n"
        )
    return text


def of(session: int, *statements: str) -> list[tuple[int, str]]:
    return [(session, sql) for sql in statements]


def made_of(folder: Path, log: str, **options: object) -> Made:
    path = folder / "slow.log"
    path.write_bytes(log.encode("latin-1"))
    made = make_script([path], **options)  # type: ignore[arg-type]
    native().check_script("mine.sql", made.script.text, "{}")
    assert made.statements_in_script + sum(dict(made.left_out).values()) == made.statements
    return made


def sections(made: Made) -> list[tuple[int, str, str]]:
    return [(one.weight, one.kind.frame, "; ".join(one.kind.digests)) for one in made.script.sections]


PRICE = "SELECT price FROM article WHERE id = ?"
CHATTER = ("select @@version_comment limit 1", "SELECT DATABASE()", "SELECT 1")


def test_five_clients_that_ask_for_themselves_have_five_transactions(tmp_path: Path) -> None:
    log = []
    for number, article in enumerate((4, 21, 38, 55, 72)):
        log += of(30 + number, *CHATTER, f"shop|SELECT price FROM article WHERE id = {article}")
        log += of(30 + number, "SELECT @@session.tx_isolation", "# administrator command: Quit")
    made = made_of(tmp_path, mysql(*log))
    assert sections(made) == [(5, "", PRICE)]
    assert (made.entries, made.statements, dict(made.left_out)) == (30, 25, {OF_THE_CLIENT: 20})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT NOW(6), LAST_INSERT_ID(), FOUND_ROWS()",
        "select 1 from DUAL where 2 > 1",
        "SELECT @@GLOBAL.gtid_mode, connection_id()",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SELECT EXTRACT(YEAR FROM '2024-01-02'), TRIM(LEADING '0' FROM '007'), SUBSTRING('abc' FROM 2)",
        "SELECT * FROM (SELECT 1 AS a, 'x' AS b) AS t WHERE t.a = 1",
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT MAX(i) FROM n",
        "SELECT j.a FROM JSON_TABLE('[1]', '$[*]' COLUMNS(a INT PATH '$')) AS j",
        "SELECT CAST('1' AS DECIMAL(8, 2)), CONVERT('x' USING utf8mb4), IF(1, 2, 3), sys.format_bytes(5)",
        "SELECT /*!40001 SQL_NO_CACHE */ UUID()",
    ],
)
def test_a_statement_that_names_no_table_is_the_clients(sql: str, tmp_path: Path) -> None:
    made = made_of(tmp_path, mysql(*of(7, "shop|UPDATE stock SET left_over = 2", sql, sql)))
    assert sections(made) == [(1, "", "UPDATE stock SET left_over = ?")]
    assert dict(made.left_out) == {OF_THE_CLIENT: 2}


@pytest.mark.parametrize(
    ("sql", "digest"),
    [
        ("SELECT price_of(4)", "SELECT price_of(?)"),
        ("SELECT shop.price_of(4) FROM dual", "SELECT price_of(?) FROM dual"),
        ("SELECT `price_of`(4), NOW()", "SELECT price_of(?), NOW()"),
        ("SELECT NEXT VALUE FOR shop.number", "SELECT NEXT VALUE FOR number"),
        ("SELECT LASTVAL(shop.number), NEXTVAL(number)", "SELECT LASTVAL(number), NEXTVAL(number)"),
        ("SELECT (SELECT MAX(id) FROM article)", "SELECT (SELECT MAX(id) FROM article)"),
        ("SELECT EXTRACT(YEAR FROM sold) FROM (article)", "SELECT EXTRACT(YEAR FROM sold) FROM (article)"),
        ("WITH dear AS (SELECT id FROM article) SELECT * FROM dear", None),
    ],
)
def test_a_stored_function_a_sequence_and_a_table_anywhere_are_the_applications(
    sql: str, digest: str | None, tmp_path: Path
) -> None:
    made = made_of(tmp_path, mysql(*of(7, f"shop|{sql}")))
    ((_, _, told),) = sections(made)
    assert (made.schema, made.left_out) == ("shop", {})
    assert digest is None or told == digest


def test_a_clients_question_in_a_transaction_is_dropped_from_it(tmp_path: Path) -> None:
    log = of(3, "shop|BEGIN", "SELECT 1", "UPDATE stock SET left_over = 4", "SELECT LAST_INSERT_ID()", "COMMIT")
    made = made_of(tmp_path, mysql(*log))
    assert sections(made) == [(1, "COMMIT", "UPDATE stock SET left_over = ?")]
    assert (made.entries, made.statements) == (5, 3)


GLOBAL_STATUS = "SELECT VARIABLE_VALUE FROM {} WHERE VARIABLE_NAME = 'Innodb_rows_read'"


@pytest.mark.parametrize(
    ("monitors", "count"),
    [
        (GLOBAL_STATUS.format("performance_schema.global_status"), 18),
        (GLOBAL_STATUS.format("information_schema.GLOBAL_STATUS"), 7),
        (GLOBAL_STATUS.format("`INFORMATION_SCHEMA`.`GLOBAL_STATUS`"), 3),
        ("SELECT a.x FROM sys.schema_unused_indexes AS a JOIN sys.host_summary b ON a.x = b.x", 30),
        ("SELECT user, host FROM mysql.user, article", 11),
        ("mysql|SELECT host FROM user", 9),
        ("UPDATE performance_schema.setup_consumers SET enabled = 'YES'", 4),
    ],
)
def test_the_servers_own_schemas_are_never_the_applications(monitors: str, count: int, tmp_path: Path) -> None:
    log = [(8, f"shop|SELECT price FROM article WHERE id = {40 + number}") for number in range(6)]
    made = made_of(tmp_path, mysql(*log, *[(55, monitors)] * count))
    assert (made.schema, sections(made), made.left_out) == ("shop", [(6, "", PRICE)], {OTHER: count})
    assert list(made.digests) == [PRICE]
    with pytest.raises(SpecError, match='no statement in the schema "mysql"'):
        made_of(tmp_path, mysql(*log, *[(55, monitors)] * count), schema="mysql")


def test_a_monitors_question_in_a_transaction_is_dropped_from_it_and_a_second_schemas_is_not(tmp_path: Path) -> None:
    begin, change, end = "shop|BEGIN", "UPDATE stock SET left_over = 4", "COMMIT"
    monitored = of(3, begin, change, GLOBAL_STATUS.format("performance_schema.global_status"), end)
    assert sections(made_of(tmp_path, mysql(*monitored))) == [(1, "COMMIT", "UPDATE stock SET left_over = ?")]
    mixed = of(4, begin, change, "INSERT INTO audit.log VALUES (1)", end)
    made = made_of(tmp_path, mysql(*monitored, *mixed))
    assert dict(made.left_out) == {OTHER: 1, "in a transaction with a statement that is left out": 2}
    joined = of(5, begin, change, "SELECT 1 FROM stock JOIN audit.log USING (id)", end)
    made = made_of(tmp_path, mysql(*monitored, *joined))
    left_out = {OTHER: 1, "of several schemas": 1, "in a transaction with a statement that is left out": 1}
    assert dict(made.left_out) == left_out


@pytest.mark.parametrize(
    ("sql", "script"),
    [
        ("SELECT price FROM shop.article WHERE id = 13", "SELECT price FROM article WHERE id = 13;"),
        ("SELECT a.x FROM shop.article a, `shop`.`stock` WHERE shop.stock.id = a.id",
         "SELECT a.x FROM article a, `stock` WHERE stock.id = a.id;"),
        ("DELETE shop.article, s FROM shop.article JOIN shop.stock AS s USING (id)",
         "DELETE IGNORE article, s FROM article JOIN stock AS s USING (id);"),
        ("DELETE FROM a USING shop.article AS a JOIN (shop.stock, shop.sale)",
         "DELETE IGNORE FROM a USING article AS a JOIN (stock, sale);"),
        ("UPDATE shop.article, shop.stock SET shop.article.price = 4",
         "UPDATE IGNORE article, stock SET article.price = 4;"),
        ("INSERT LOW_PRIORITY INTO shop.sale(id) SELECT shop.stock.id FROM shop.stock ON DUPLICATE KEY UPDATE id = 1",
         "INSERT LOW_PRIORITY INTO sale(id) SELECT stock.id FROM stock ON DUPLICATE KEY UPDATE id = 1;"),
        ("SELECT STRAIGHT_JOIN x FROM {oj shop.a LEFT JOIN shop.b ON shop.a.x = shop.b.x}",
         "SELECT STRAIGHT_JOIN x FROM { oj a LEFT JOIN b ON a.x = b.x };"),
        ("SELECT shop.article.*, EXTRACT(DAY FROM shop.article.at) FROM shop.article USE INDEX (at) FOR UPDATE",
         "SELECT article.*, EXTRACT(DAY FROM article.at) FROM article USE INDEX (at) FOR UPDATE;"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("use", ["", "shop|", "elsewhere|"])
def test_names_of_one_schema_are_without_it_in_the_script(sql: str, script: str, use: str, tmp_path: Path) -> None:
    # If every name has one schema, the statement belongs to it, even if the connection has another one.
    made = made_of(tmp_path, mysql(*of(6, f"{use}{sql}", sql, sql)))
    assert (made.schema, made.left_out) == ("shop", {})
    assert made.script.text.splitlines()[-1] == script


def test_reads_of_one_schema_without_a_use_are_five_of_five(tmp_path: Path) -> None:
    log = mysql(*[(6, f"SELECT price FROM shop.article WHERE id = {number}") for number in (1, 4, 7, 10, 13)])
    made = made_of(tmp_path, log)
    assert (made.schema, made.statements_in_script, made.notes) == ("shop", 5, ())
    assert "shop." not in made.script.text


UPDATE = "UPDATE stock SET left_over = left_over - 1 WHERE article = {}"
ONE = "UPDATE stock SET left_over = left_over - ? WHERE article = ?"


def changes(end: str, *articles: int) -> list[str]:
    return [text for article in articles for text in (UPDATE.format(article), end)]


def test_a_rollback_that_nothing_began_is_a_pools_and_a_note_says_so(tmp_path: Path) -> None:
    made = made_of(tmp_path, mysql((9, "shop|ROLLBACK"), *of(9, *changes("ROLLBACK", 20, 21, 22, 23))))
    assert sections(made) == [(4, "", ONE)]
    assert (made.entries, made.statements, made.left_out) == (9, 4, {})
    (note,) = made.notes
    assert note.startswith("5 ROLLBACKs without a BEGIN left out, as of a pool: autocommit is taken to be on")


def test_a_commit_that_nothing_began_tells_the_whole_connection(tmp_path: Path) -> None:
    log = of(9, *changes("ROLLBACK", 20, 21), *changes("COMMIT", 22), *changes("ROLLBACK", 23))
    made = made_of(tmp_path, mysql(*of(1, "shop|SELECT price FROM article"), *log))
    assert sections(made) == [(3, "ROLLBACK", ONE), (1, "COMMIT", ONE), (1, "", "SELECT price FROM article")]
    (note,) = made.notes
    assert note.startswith("autocommit is taken to be off on 1 connection, because a COMMIT there has no BEGIN")


@pytest.mark.parametrize(
    ("statements", "kinds", "notes"),
    [
        # A BEGIN shows that autocommit is on: each statement outside of transactions is then one alone.
        (["BEGIN", *changes("COMMIT", 1), *changes("ROLLBACK", 2, 3)], [(2, "", ONE), (1, "COMMIT", ONE)], 1),
        # After a SET autocommit nothing needs to be assumed.
        (["SET autocommit = 1", *changes("ROLLBACK", 1, 2)], [(2, "", ONE)], 0),
        (["SET autocommit = 1", *changes("COMMIT", 1, 2)], [(2, "", ONE)], 0),
        (["SET autocommit = 0", *changes("ROLLBACK", 1, 2)], [(2, "ROLLBACK", ONE)], 0),
        # The connection never ends a transaction.
        ([text for text in changes("", 1, 2, 3) if text], [(3, "", ONE)], 0),
        # The end is far after the beginning: there are more single statements than the command keeps.
        ([*changes("ROLLBACK", *range(150)), *changes("COMMIT", 150, 151)], [(151, "", ONE), (1, "COMMIT", ONE)], 2),
    ],
)
def test_without_a_begin_one_guess_is_made_for_a_connection(
    statements: Sequence[str], kinds: list[tuple[int, str, str]], notes: int, tmp_path: Path
) -> None:
    made = made_of(tmp_path, mysql((4, f"shop|{statements[0]}"), *of(4, *statements[1:])))
    assert sections(made) == kinds
    assert len(made.notes) == notes


def test_a_pool_on_one_connection_tells_nothing_of_another(tmp_path: Path) -> None:
    both = [pair for pairs in zip(of(1, *changes("ROLLBACK", 1, 2, 3)), of(2, *changes("COMMIT", 1, 2, 3)), strict=True)
            for pair in pairs]  # fmt: skip
    made = made_of(tmp_path, mysql(*both))
    assert sorted(sections(made)) == [(3, "", ONE), (3, "COMMIT", ONE)]
    assert len(made.notes) == 2


def test_a_cut_last_entry_is_one_of_the_logs_statements(tmp_path: Path) -> None:
    log = mysql(
        *of(3, "shop|BEGIN", "UPDATE stock SET left_over = 4 WHERE article = 2", "COMMIT", "SHOW TABLES"),
        *of(4, "SELECT price FROM article WHERE id = 6", "SELECT price FROM article"),
    )
    made = made_of(tmp_path, log.removesuffix("e;\n"))
    assert (made.entries, made.statements, made.statements_in_script) == (6, 4, 2)
    assert dict(made.left_out) == {"SHOW": 1, "without an end": 1}


@pytest.mark.parametrize(
    ("cut", "all_statements", "left_out"),
    [
        ("\nSELECT price FROM article WHERE id = 3;\n", 2, {"without an end": 1}),  # Only its head is there.
        ("timestamp=1739264401;\nSELECT price FROM article WHERE id = 3;\n", 2, {"without an end": 1}),
        ("WHERE id = 3;\n", 2, {"without an end": 1}),
        ("  Lock_time: 0.000001 Rows_sent: 1  Rows_examined: 1\nSET timestamp=1739264401;\n"
         "SELECT price FROM article WHERE id = 3;\n", 2, {"without an end": 1}),
        ("SELECT price FROM article WHERE id = 3;\n", 2, {"without an end": 1}),
        ("\n", 2, {}),  # Only the last line's end is missing.
        (";\n", 2, {"without an end": 1}),
        ("", 2, {}),
    ],
)  # fmt: skip
def test_wherever_the_last_entry_is_cut_the_counts_add_up(
    cut: str, all_statements: int, left_out: dict[str, int], tmp_path: Path
) -> None:
    log = mysql(*of(4, "shop|SELECT price FROM article WHERE id = 6", "SELECT price FROM article WHERE id = 3"))
    at = log.rfind(cut) if cut else len(log)
    made = made_of(tmp_path, log[:at])
    assert (made.statements, dict(made.left_out)) == (all_statements, left_out)


def test_a_statement_that_is_too_long_is_counted_and_spoils_its_transaction(tmp_path: Path) -> None:
    insert = f"INSERT INTO stock VALUES ('{'x' * MOST_STATEMENT_BYTES}')"
    made = made_of(tmp_path, mysql(*of(4, "shop|SELECT 1 FROM stock", "BEGIN", UPDATE.format(2), insert, "COMMIT")))
    reasons = {"longer than 256 KiB": 1, "in a transaction with a statement that is left out": 1}
    assert (made.statements, dict(made.left_out)) == (3, reasons)


def test_uses_and_times_of_their_own_are_no_statements(tmp_path: Path) -> None:
    log = mysql(*of(4, "shop|SELECT 1 FROM stock", "use shop", "# administrator command: Init DB", "START TRANSACTION"))
    log += mysql(*of(6, "SET timestamp=1739264400", "SET @@session.timestamp = 1.5"))
    log += mysql(*of(5, "SET SESSION sql_mode = ''", "ROLLBACK TO SAVEPOINT s", "/*!40103 SET TIME_ZONE='+00:00' */"))
    made = made_of(tmp_path, log)
    assert (made.entries, made.statements) == (9, 4)
    assert dict(made.left_out) == {"SET": 2, "SAVEPOINT": 1}


@pytest.mark.parametrize(
    ("statements", "reasons"),
    [
        (["CALL book(3)", "CALL book(4)", "SHOW STATUS", "SET NAMES latin1", "SELECT price INTO @p FROM article"],
         "5 statements can stand in a script: 2 CALL, 1 SHOW, 1 SET, 1 with a session's own @variable"),
        (["SHOW TABLES"], "1 statement can stand in a script: 1 SHOW"),
        (["SELECT 1", "SELECT NOW()", "DO SLEEP(1)"], f"3 statements can stand in a script: 2 {OF_THE_CLIENT}, 1 DO"),
        ([GLOBAL_STATUS.format("sys.metrics")] * 4, f"4 statements can stand in a script: 4 {OTHER}"),
        (["LOAD DATA INFILE 'x' INTO TABLE t", "ANALYZE TABLE t"], "1 LOAD, 1 ANALYZE"),
    ],
)  # fmt: skip
def test_where_nothing_fits_the_reasons_are_told(statements: Sequence[str], reasons: str, tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as raised:
        made_of(tmp_path, mysql(*of(5, *statements)))
    assert reasons in raised.value.what
    assert "long_query_time" not in str(raised.value.hint)


def test_where_only_parts_of_transactions_are_logged_the_hint_says_how_to_log_all(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="1 in a transaction without an end") as raised:
        made_of(tmp_path, mysql(*of(5, "shop|BEGIN", "SELECT price FROM article")))
    assert "long_query_time = 0" in str(raised.value.hint)


def test_an_empty_log_that_was_rotated_is_none_of_them(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="no entry of a slow query log was found"):
        made_of(tmp_path, BANNER.format("8.4.3"))


GENERAL_57 = (
    "2024-06-03T07:00:01.204118Z\t   30 Connect\tshop@web1 on shop using TCP/IP\n"
    "2024-06-03T07:00:01.204200Z\t   30 Query\tSELECT price FROM article WHERE id = 4\n"
)
GENERAL_OF_MARIADB = "240603  7:00:01\t     8 Connect\tshop@web1 on shop\n\t\t     8 Query\tselect 1\n"
POSTGRES = "2024-06-03 07:00:01.204 UTC [812] LOG:  duration: 0.301 ms  statement: SELECT price FROM article\n"
TABLE = (
    "+----------------------------+------------+------------+\n"
    "| start_time                 | user_host                    | query_time      | lock_time | rows_sent |\n"
    "| 2024-06-03 07:00:01.204118 | shop[shop] @ web1 [10.1.0.7] | 00:00:00.000301 | 0 | 1 |\n"
)
VERTICAL = "*** 1. row ***\n    start_time: 2024-06-03 07:00:01.204118\n     user_host: shop[shop] @ web1 [10.1.0.7]\n"
AS_CSV = '"2024-06-03 07:00:01.204118","shop[shop] @ web1 [10.1.0.7]","00:00:00.000301","00:00:00.000002",1,2,"shop"\n'


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (BANNER.format("8.0.36") + GENERAL_57, "a general query log", "slow_query_log = ON"),
        (BANNER.format("10.11.6-MariaDB") + GENERAL_OF_MARIADB, "a general query log", "slow_query_log = ON"),
        (GENERAL_OF_MARIADB.split("\n")[1] + "\n", "a general query log", "long_query_time = 0"),
        (POSTGRES, "PostgreSQL's log", "alone"),
        ('2024-06-03 07:00:01.204 UTC,"shop","shop",812,"[local]",665d,1,"SELECT",,3/2,0,LOG,00000,"duration: 1 ms"\n',
         "PostgreSQL's log", "alone"),
        ('{"timestamp":"2024-06-03 07:00:01.204 UTC","error_severity":"LOG","message":"duration"}\n',
         "PostgreSQL's log", "alone"),
        (TABLE, "kept as a table (log_output = TABLE)", "log_output = 'FILE'"),
        (VERTICAL, "kept as a table", "log_output = 'FILE'"),
        (AS_CSV, "kept as a table", "log_output = 'FILE'"),
        ("start_time\tuser_host\tquery_time\n2024-06-03 07:00:01\tshop[shop] @ web1 []\t00:00:00\n",
         "as a table", "FILE"),
        ("LOCK TABLES `slow_log` WRITE;\nINSERT INTO `slow_log` VALUES ('2024-06-03 07:00:01'", "as a table", "FILE"),
        ("# at 4\n#240603  7:00:01 server id 1  end_log_pos 126 CRC32 0x1 Start: binlog v 4\n", "a binary log", "slow"),
        ("Count: 5  Time=0.00s (0s)  Lock=0.00s (0s)  Rows=1.0 (5), shop[shop]@web1\n  SELECT N\n",
         "a summary", "itself"),
        ("# 120ms user time, 10ms system time\n# Overall: 5 total, 1 unique, 2.5 QPS, 0.00x concurrency ___\n",
         "a summary", "itself"),
        ("\x1f\x8b\x08", "the log is compressed", "unpack"),
    ],
)  # fmt: skip
def test_another_log_is_named(text: str, what: str, hint: str, tmp_path: Path) -> None:
    with pytest.raises(DataFileError) as raised:
        made_of(tmp_path, text)
    assert what in raised.value.what
    assert hint in str(raised.value.hint)
    assert "price" not in str(raised.value)


def test_another_log_among_several_is_named_too(tmp_path: Path) -> None:
    for name, text in (("a.log", mysql(*of(1, "shop|SELECT a FROM t"))), ("b.log", POSTGRES)):
        (tmp_path / name).write_text(text)
    with pytest.raises(DataFileError, match="PostgreSQL's log") as raised:
        make_script([tmp_path / "a.log", tmp_path / "b.log"])
    assert raised.value.where == str(tmp_path / "b.log")


def test_what_stands_before_the_first_entry_is_named(tmp_path: Path) -> None:
    log = mysql(*of(4, "shop|SELECT a FROM t"))
    made = made_of(tmp_path, "  FROM article\n WHERE id = 3;\n\n" + log)
    assert made.notes == ("2 lines of no entry: not read",)
    reader = Reader()
    list(entries(io.BytesIO(log.encode()), reader))
    assert reader.lines_outside == 0


@pytest.mark.parametrize("number", ["1.1e0", "-1.1e0", "1.1", "1e+30", "2.5e-07"])
def test_a_number_that_stays_in_the_statement_is_a_double_or_a_decimal_as_it_was(number: str, tmp_path: Path) -> None:
    log = mysql(*of(8, *["test|UPDATE product SET price = price * " + number] * 3))
    statement = f"UPDATE IGNORE product SET price = price * {number};"
    assert statement in made_of(tmp_path, log).script.text.splitlines()


@pytest.mark.parametrize(
    ("values", "script"),
    [
        (("0x0a", "0x10", "0x7f"), ["\\set v1 choose(:seen,10,16,127)", "SELECT pad FROM t WHERE id = :v1;"]),
        (("0xFF", "7", "b'101'", "-1.5e0"), ["\\set v1 choose(:seen,255,7,5,-1.5)"]),
        (("0x1", "-0x20", "+0x3"), ["\\set v1 choose(:seen,1,-32,3)"]),
        # A signed BIGINT cannot hold it, and the server converts a text exactly.
        (("0x0001", "0xffffffffffffffff"), ["\\set v1 choose(:seen,1,'18446744073709551615')"]),
        # These stay bytes: longer than a number, next to a text, or next to x'...'.
        (("0x0102030405060708090a", "0x0b"), ["\\set v1 choose(:seen,'0102030405060708090a','0b')",
                                              "SELECT pad FROM t WHERE id = UNHEX(:v1);"]),
        (("0x6162", "'ab'"), ["\\set v1 choose(:seen,'6162','6162')"]),
        (("x'0a'", "0x0b"), ["\\set v1 choose(:seen,'0a','0b')"]),
        (("_binary 0x0a", "_binary 0x0b"), ["\\set v1 choose(:seen,'0a','0b')"]),
        # A literal that never changes stays as it was written.
        (("0x14", "0x14"), ["SELECT pad FROM t WHERE id = 0x14;"]),
        (("x'14'",), ["SELECT pad FROM t WHERE id = x'14';"]),
        (("-x'14'",), ["SELECT pad FROM t WHERE id = - x'14';"]),
    ],
)  # fmt: skip
def test_a_hexadecimal_literal_is_a_number_beside_numbers(
    values: Sequence[str], script: Sequence[str], tmp_path: Path
) -> None:
    made = made_of(
        tmp_path, mysql(*of(8, "test|SELECT 1 FROM t", *[f"SELECT pad FROM t WHERE id={v}" for v in values]))
    )
    lines = made.script.text.splitlines()
    assert [line for line in script if line not in lines] == []
    has_number = script[0].startswith("\\set") and "UNHEX" not in made.script.text
    assert ["UNHEX(HEX(:v1))" in note for note in made.notes] == [True] * has_number


def test_a_list_of_hexadecimal_literals_has_as_many_values_as_before(tmp_path: Path) -> None:
    made = made_of(tmp_path, mysql(*of(8, "test|SELECT a FROM t WHERE k IN (0x0a, 0x1b, 0x2c) AND f & 0x04 = 0x04")))
    assert made.script.text.splitlines()[-1] == (
        "SELECT a FROM t WHERE k IN (0x0a, 0x1b, 0x2c, 0x2c) AND f & 0x04 = 0x04;"
    )


def test_of_real_clients_the_applications_statements_are_in_the_script() -> None:
    made = make_script([CLIENTS])
    assert (made.schema, made.entries, made.statements) == ("shop", 77, 71)
    assert made.statements_in_script + sum(dict(made.left_out).values()) == made.statements
    joined = "SELECT a.price FROM article a JOIN stock s ON s.article = a.id WHERE a.id = ?"
    left_over = "SELECT left_over FROM stock WHERE article = ?; UPDATE stock SET left_over = ? WHERE article = ?"
    assert sections(made) == [
        (3, "", ONE),
        (3, "", joined),
        (2, "", "SELECT id FROM article WHERE id = ?"),
        (2, "", "SELECT price_of(?)"),
        (1, "ROLLBACK", left_over),
        (1, "COMMIT", left_over),
        (1, "", PRICE),
        (1, "", "SELECT id FROM article WHERE code = ?"),
        (1, "", "SELECT id FROM article WHERE flags & ? = ?"),
        (1, "", "SELECT NEXT VALUE FOR number"),
    ]
    assert "\\set v1 choose(:seen,10,27)\nSELECT id FROM article WHERE id = :v1;" in made.script.text
    left_out = dict(made.left_out)
    assert (left_out[OTHER], left_out[OF_THE_CLIENT], left_out["SET"]) == (12, 7, 20)
    assert [note.split(" ", 2)[0] for note in made.notes] == ["3", "autocommit", "values"]


@pytest.mark.parametrize(
    "sql",
    ["SELECT " + "(" * 3_000, "SELECT 1 FROM " + "(" * 3_000 + "a" + ")" * 3_000, "WITH " + "a AS (SELECT 1), " * 2_000,
     "SELECT " + "a.b.c," * 3_000, "DELETE " + "a.b," * 3_000, ")" * 3_000, "FROM . . FROM a. FROM a.* FROM a.b.c.d"],
)  # fmt: skip
def test_names_are_found_in_whatever_is_no_statement_in_proportion_to_its_length(sql: str) -> None:
    before = time.process_time()
    with suppress(UnreadableError):
        read_statement(sql, "shop")
    # It takes a twentieth of a second; quadratic time in the length would be a minute.
    assert time.process_time() - before < 5


def rotated(folder: Path, first: str, second: str) -> Made:
    """Return the result for a log in two files."""
    paths = [folder / "slow.log.1", folder / "slow.log"]
    for path, text in zip(paths, (first, second), strict=True):
        path.write_text(text)
    return make_script(paths)


def test_a_transaction_goes_on_in_the_next_file_of_a_rotated_log(tmp_path: Path) -> None:
    """FLUSH SLOW LOGS writes a server start's header into the next file, although the connections stay."""
    take, put = "SELECT n FROM item WHERE id = {} FOR UPDATE", "UPDATE item SET n = 1 WHERE id = {}"
    whole = ("shop|BEGIN", take.format(1), put.format(1), "COMMIT")
    before = mysql(*of(7, *whole), *of(7, "BEGIN", take.format(2)))
    made = rotated(tmp_path, before, mysql(*of(7, f"shop|{put.format(2)}", "COMMIT")))
    assert (made.statements_in_script, [section.kind.count for section in made.script.sections]) == (4, [2])
    assert not dict(made.left_out)


def test_a_server_that_was_started_between_two_files_ends_transactions(tmp_path: Path) -> None:
    """After a start the server numbers its connections from the beginning again."""
    before = mysql(*of(97, "shop|BEGIN", "UPDATE item SET n = 1 WHERE id = 2"))
    made = rotated(tmp_path, before, mysql(*of(5, "shop|SELECT n FROM item WHERE id = 3")))
    assert made.statements_in_script == 1
    assert dict(made.left_out) == {"in a transaction without an end": 1}


def test_the_time_of_a_statement_that_failed_is_none_of_its_transactions(tmp_path: Path) -> None:
    put = "UPDATE item SET n = 1 WHERE id = 2"
    log = mysql(*of(3, "shop|BEGIN", put, put, "COMMIT"))
    first = log.index("# Query_time: 0.000101")
    failed = log[first:].replace("# Query_time: 0.000101", "# Query_time: 50.000101  Last_errno: 1205", 1)
    (section,) = made_of(tmp_path, log[:first] + failed).script.sections
    assert len(section.kind.statements) == 1
    assert section.kind.seconds < 1
