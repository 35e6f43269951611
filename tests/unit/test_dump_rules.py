"""Which statements of a mysqldump are sent, left out or refused, and how the dump's code is changed."""

from __future__ import annotations

import io
import time
from contextlib import suppress

import pytest

from bufferlab.engines.innodb.dump_rules import Rules
from bufferlab.engines.innodb.dump_text import DumpTextError, Splitter

CREATE = b"CREATE TABLE `t` (`id` int NOT NULL, `select` text COMMENT 'INTO OUTFILE', PRIMARY KEY (`id`)) ENGINE=InnoDB"


def judged(text: bytes, flavour: str = "mysql", version: int = 80032) -> list[tuple[str, bytes] | None]:
    rules = Rules()
    return [rules.judge(one) for one in Splitter(io.BytesIO(text), flavour, version)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"INSERT INTO `t` VALUES (1,'a;b'),(-2.5e-3,1e5,7.E+2,_binary '\\0\\'\\\\'),(0x00FF,NULL);", "rows"),
        (b"INSERT  IGNORE INTO `t` (`id`, `a b`) VALUES\n(1,b'101'),\n(DEFAULT,\"x\");", "rows"),
        (b"REPLACE INTO `t` VALUES (1);", "rows"),
        (CREATE + b";", "other"),
        (b"/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;", "setting"),
        (b"/*!40101 SET NAMES utf8mb4 */;", "setting"),
        (b"SET @MYSQLDUMP_TEMP_LOG_BIN = @@SESSION.SQL_LOG_BIN;", "setting"),
        (b"/*!40000 ALTER TABLE `t` DISABLE KEYS */;", "other"),
        (b"SELECT SETVAL(`s`, 1001, 0);", "other"),
        (b"CREATE VIEW `v` AS SELECT 1 AS `id`;", "code"),
        (b"USE `shop`;", None),
        (b"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8 */;", None),
        (b"LOCK TABLES `t` WRITE;", None),
        (b"SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a:1-5';", None),
        (b"SET @@SESSION.SQL_LOG_BIN= 0;", None),
        (b"SET LOCAL SQL_LOG_OFF=0, LOCAL LOG_SLOW_QUERY=0 ;", None),  # Written by mariadb-dump --skip-log-queries.
        (b"CHANGE MASTER TO MASTER_LOG_FILE='b', MASTER_LOG_POS=4;", None),
        (b"DELIMITER ;;\n/*!50106 CREATE*/ /*!50117 DEFINER=`r`@`%`*/ /*!50106 EVENT e DO a */;;", None),
    ],
)  # fmt: skip
def test_what_mysqldump_writes_is_sent_or_left_out(text: bytes, kind: str | None) -> None:
    (found,) = judged(text)
    assert (found and found[0]) == kind


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"SELECT * FROM `t` INTO OUTFILE '/tmp/x';", "INTO OUTFILE"),
        (b"SELECT 1 INTO/**/DUMPFILE '/tmp/x';", "INTO DUMPFILE"),
        (b"LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE `t`;", "LOAD DATA"),
        (b"CREATE VIEW `v` AS SELECT load_file('/etc/passwd');", "load_file"),
        (b"CREATE VIEW `v` AS SELECT `load_file` ('/etc/passwd');", "LOAD_FILE"),
        (b"/*!50001 CREATE VIEW `v` AS SELECT LOAD_FILE(0x2f) */;", "LOAD_FILE"),
        (b"CREATE FUNCTION `f` RETURNS STRING SONAME 'x.so';", "SONAME"),
        (b"INSERT INTO `t` VALUES (LOAD_FILE('/etc/passwd'));", "LOAD_FILE"),
        (b"INSERT INTO `t` VALUES (SLEEP(1000));", "does not write"),
        (b"INSERT INTO `t` VALUES (e(1));", "does not write"),
        (b"INSERT INTO `t` VALUES (xabc(1));", "does not write"),
        (b"INSERT INTO `t` VALUES (TRUEFALSE(1));", "does not write"),
        (b"INSERT INTO `t` VALUES (0x1fz(1));", "does not write"),
        (b"INSERT INTO `t` SELECT * FROM `u`;", "does not write"),
        (b"INSERT INTO `mysql`.`user` VALUES (1);", "does not write"),
        (b"INSTALL PLUGIN x SONAME 'y';", "SONAME"),
        (b"INSTALL COMPONENT 'file://x';", "does not write"),
        (b"GRANT ALL ON *.* TO x;", "GRANT ALL"),
        (b"CREATE USER x;", "CREATE USER"),
        (b"SET GLOBAL general_log_file = '/tmp/x';", "SET GLOBAL"),
        (b"SET @@global.init_connect = 'x';", "@@global"),
        (b"SET PASSWORD = 'x';", "does not write"),
        (b"SET NAMES gbk;", "gbk"),
        (b"SET sql_mode = 'NO_BACKSLASH_ESCAPES';", "NO_BACKSLASH_ESCAPES"),
        (b"SET @a = 'ANSI_QUOTES';", "ANSI"),
        (b"USE `mysql`;", "the system's database mysql"),
        (b"USE `a`;\nUSE `b`;", "a second database"),
        (b"SOURCE /tmp/x;", "a command of the mysql client: SOURCE"),
        (b"SYSTEM id;", "a command of the mysql client: SYSTEM"),
        (b"CREATE TABLE `t` (a int) ENGINE=FEDERATED;", "the engine FEDERATED"),
        (b"CREATE TABLE `t` (a int) ENGINE='CONNECT';", "the engine"),
        (b'CREATE TABLE `t` (a int) ENGINE="FEDERATED";', "the engine"),
        (b"CREATE TABLE `t` (a int) DATA DIRECTORY='/tmp';", "DATA DIRECTORY"),
        (b"CREATE TABLE `t` (a int) CONNECTION = 'mysql://x';", "CONNECTION"),
        (b"CREATE TABLE `t` AS SELECT 1;", "CREATE TABLE of a query"),
        (b"CREATE TABLESPACE x ADD DATAFILE '/tmp/x';", "TABLESPACE"),
        (b"CREATE SERVER x FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x');", "CREATE SERVER"),
        (b"DO SLEEP(1000);", "does not write"),
        (b"BEGIN; DROP TABLE IF EXISTS `t` CASCADE; COMMIT;", "DROP TABLE"),
    ],
)  # fmt: skip
def test_everything_else_refuses_the_dump_by_name_and_line(text: bytes, what: str) -> None:
    with pytest.raises(DumpTextError) as raised:
        judged(b"\n" + text)
    assert what in raised.value.what
    assert raised.value.line == 2 + text.count(b"\n")


@pytest.mark.parametrize(
    "text",
    [
        b"SET " + b"@a=1," * 40 + b"!;",
        b"CREATE TABLE `t` (a int) ENGINE" + b" " * 200_000 + b"(;",
        b"INSERT INTO `t` VALUES " + b"(1,'a')," * 50_000 + b"f(1);",
    ],
)
def test_no_rule_takes_more_time_than_in_proportion(text: bytes) -> None:
    before = time.process_time()
    with suppress(DumpTextError):
        judged(text)
    # It takes a tenth of a second; parsing parts twice would take hours.
    assert time.process_time() - before < 10


def test_a_statement_hidden_behind_a_quote_in_a_comment_of_another_version_is_seen() -> None:
    hidden = b"/*!99999 ' */ SELECT LOAD_FILE('/etc/passwd'); -- ' */\n"
    with pytest.raises(DumpTextError, match="LOAD_FILE"):
        judged(hidden)


def test_code_of_the_dump_loses_its_definer_and_gets_its_owners_rights() -> None:
    text = (
        b"DELIMITER ;;\n"
        b"/*!50003 CREATE*/ /*!50017 DEFINER=`ro``ot`@`local;host`*/ /*!50003 TRIGGER t BEFORE INSERT ON a "
        b"FOR EACH ROW BEGIN SET @x = 'DEFINER=`a`@`b` '; END */;;\n"
        b"CREATE DEFINER='root'@'%' PROCEDURE `p`() SQL SECURITY INVOKER BEGIN SELECT 'SQL SECURITY INVOKER'; END ;;\n"
        b"DELIMITER ;\n"
        b"/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=root@localhost SQL SECURITY INVOKER */\n"
        b"/*!50001 VIEW `v` AS SELECT 1 */;"
    )
    trigger, procedure, view = (b" ".join(one[1].split()) for one in judged(text) if one)
    assert trigger == (b"CREATE TRIGGER t BEFORE INSERT ON a FOR EACH ROW BEGIN SET @x = 'DEFINER=`a`@`b` '; END")
    assert procedure == b"CREATE PROCEDURE `p`() SQL SECURITY DEFINER BEGIN SELECT 'SQL SECURITY INVOKER'; END"
    assert view == b"CREATE ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW `v` AS SELECT 1"
