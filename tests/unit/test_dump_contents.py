"""bufferlab lists a dump's contents before it starts a server: databases, tables, views, rows, and the server's family.

mariadb-dump of MariaDB 10.11.19 and pg_dump of PostgreSQL 15.18 made the dumps in tests/fixtures/dumps, of a club with
members and visits. A row, a trigger and a procedure of the club contain lines that look like a dump's statements.
"""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from bufferlab import spec
from bufferlab.engines import dump_contents
from bufferlab.engines.dump_contents import has_rows
from bufferlab.engines.servers.dump_head import Archive, CutArchiveError, entries_of, read_head
from bufferlab.errors import SpecError
from bufferlab.spec import Overrides
from docs.documents import ROOT
from support.fake import Bench

DUMPS = ROOT / "tests/fixtures/dumps"
HEAD = "-- MySQL dump 10.13  Distrib {0}, for Linux (x86_64)\n--\n-- Host: db    Database: \n-- Server version\t{0}\n\n"
TAIL = "\n-- Dump completed on 2026-11-25 12:00:00\n"
TABLE = "CREATE TABLE `{}` (\n  `id` int NOT NULL\n) ENGINE=InnoDB;\n"
ROWS = "INSERT INTO `{}` VALUES (1),(2);\n"
VIEW = (
    "/*!50001 CREATE VIEW `{0}` AS SELECT \n 1 AS `id`*/;\n/*!50001 DROP VIEW IF EXISTS `{0}`*/;\n"
    "/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`me`@`%` SQL SECURITY DEFINER */\n"
    "/*!50001 VIEW `{0}` AS select `t`.`id` AS `id` from `t` */;\n"
)
OLD_VIEW = (
    "/*!50001 CREATE TABLE `{0}` (\n  `id` tinyint NOT NULL\n) ENGINE=MyISAM */;\n"
    "/*!50001 DROP TABLE IF EXISTS `{0}`*/;\n"
) + VIEW.split("\n", 3)[3]
USE = "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `{0}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n\nUSE `{0}`;\n"
CODE = (
    "DELIMITER ;;\n/*!50003 CREATE*/ /*!50003 PROCEDURE `p`()\nBEGIN\nINSERT INTO `t` VALUES (1);\nEND */;;\n"
    "DELIMITER ;\n"
)


def of_mysql(folder: Path, *parts: str, version: str = "8.0.36") -> Path:
    path = folder / "app.sql"
    path.write_text(HEAD.format(version) + "".join(parts) + TAIL)
    return path


def line_of(path: Path, text: str) -> int:
    return 1 + path.read_text().split(text)[0].count("\n")


def holds_rows(path: Path) -> bool:
    return has_rows(path, read_head(path))


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("mariadb-10.11-whole.sql", True),
        ("mariadb-10.11-one-of-databases.sql", True),
        ("mariadb-10.11-no-data.sql", False),
        ("postgres-15-whole.dump", True),
        ("postgres-15-mat.dump", True),
        ("postgres-15-schema.dump", False),
    ],
)
def test_a_dump_of_one_database_tells_whether_it_holds_rows(name: str, rows: bool) -> None:
    assert holds_rows(DUMPS / name) == rows


@pytest.mark.parametrize(
    ("name", "what", "line", "hint"),
    [
        ("mariadb-10.11-two.sql", "a second database, books beside club", 113, "dump one database"),
        ("mariadb-10.11-view.sql", "views alone", 27, "mysqldump"),
        ("mariadb-10.11-no-create-info.sql", "rows without their tables", 24, "mysqldump"),
        ("mariadb-10.11-routines.sql", "no table", None, "mysqldump"),
        ("mariadb-10.11-skip-comments.sql", "--skip-comments or --compact", None, "without --skip-comments"),
        ("mariadb-10.11-compact.sql", "--skip-comments or --compact", None, "without --skip-comments"),
        ("mariadb-10.11-xml.sql", "mysqldump --xml", None, "mysqldump"),
        ("postgres-15-view.dump", "views alone", None, "pg_dump -Fc"),
        ("postgres-15-data.dump", "rows without their tables", None, "pg_dump -Fc"),
    ],
)
def test_a_dump_that_cannot_become_a_database_is_refused_with_its_line(
    name: str, what: str, line: int | None, hint: str
) -> None:
    with pytest.raises(SpecError) as raised:
        holds_rows(DUMPS / name)
    assert what in raised.value.what
    assert raised.value.where == str(DUMPS / name) + (f":{line}" if line else "")
    assert hint in str(raised.value.hint)


@pytest.mark.parametrize(
    ("parts", "at", "what"),
    [
        ([USE.format("shop"), TABLE.format("t"), ROWS.format("t"), USE.format("b2")], "CREATE DATABASE /*!32312 IF NOT "
         "EXISTS*/ `b2`", "a second database, b2 beside shop"),
        # --no-create-db writes only USE; of three --databases the error names the second.
        (["USE `a`;\n", TABLE.format("t"), ROWS.format("t"), "USE `b`;\n", "USE `c`;\n"], "USE `b`", "b beside a"),
        (["USE `a`;\n", TABLE.format("t"), ROWS.format("t"), "USE `mysql`;\n"], "USE `mysql`", "the system's database"),
        ([VIEW.format("v"), VIEW.format("w")], "CREATE VIEW `v`", "views alone"),
        ([OLD_VIEW.format("v")], "CREATE ALGORITHM", "views alone"),
        ([VIEW.format("v"), CODE], "CREATE VIEW `v`", "views alone"),
        ([ROWS.format("t"), ROWS.format("u")], "INSERT INTO `t`", "rows without their tables"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("version", ["5.7.44", "8.0.36", "9.1.0"])
def test_mysqls_dumps_are_refused_alike(parts: list[str], at: str, what: str, version: str, tmp_path: Path) -> None:
    path = of_mysql(tmp_path, *parts, version=version)
    with pytest.raises(SpecError) as raised:
        holds_rows(path)
    assert what in raised.value.what
    assert raised.value.where == f"{path}:{line_of(path, at)}"


@pytest.mark.parametrize(
    ("parts", "rows"),
    [
        ([TABLE.format("t"), ROWS.format("t")], True),
        ([USE.format("a"), TABLE.format("t"), ROWS.format("t"), USE.format("a"), VIEW.format("v")], True),
        ([OLD_VIEW.format("v"), TABLE.format("t"), ROWS.format("t")], True),
        ([TABLE.format("t"), "INSERT  IGNORE INTO `t` VALUES (1);\n"], True),
        ([TABLE.format("t"), "REPLACE INTO `t` (`id`) VALUES (1);\n"], True),
        ([TABLE.format("t"), VIEW.format("v"), CODE], False),
        # A user indented these lines by hand.
        (["  " + TABLE.format("t"), "  " + ROWS.format("t")], True),
        (["create table t (a int);\n", "insert into `t` values (1);\n"], True),
    ],
)
def test_what_is_whole_is_taken(parts: list[str], rows: bool, tmp_path: Path) -> None:
    assert holds_rows(of_mysql(tmp_path, *parts)) == rows


def test_code_and_rows_that_look_like_a_dump_are_none(tmp_path: Path) -> None:
    code = CODE.replace("INSERT INTO `t` VALUES (1);", "/*\nUSE `x`;\nUSE `y`;\nCREATE TABLE `z` (\n*/")
    row = "INSERT INTO `t` VALUES ('\nUSE `x`;\nUSE `y`;\n');\n"
    assert holds_rows(of_mysql(tmp_path, TABLE.format("t"), row, code))
    with pytest.raises(SpecError, match="no table"):
        holds_rows(of_mysql(tmp_path, code))


def test_lines_are_found_wherever_a_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump_contents, "_MARGIN_BYTES", 64)
    rng = random.Random(5)
    for _ in range(40):
        monkeypatch.setattr(dump_contents, "_CHUNK_BYTES", rng.randrange(70, 400))
        padding = "-- " + "x" * rng.randrange(300) + "\n"
        whole = [padding, USE.format("shop"), TABLE.format("t"), padding, ROWS.format("t")]
        assert holds_rows(of_mysql(tmp_path, *whole))
        with pytest.raises(SpecError, match="a second database"):
            holds_rows(of_mysql(tmp_path, *whole, padding, USE.format("other")))


def test_an_archive_that_is_cut_is_refused_and_one_of_a_later_format_left_to_pg_restore(tmp_path: Path) -> None:
    whole = (DUMPS / "postgres-15-whole.dump").read_bytes()
    kinds = entries_of(io.BytesIO(whole))
    assert kinds is not None
    assert {"TABLE", "TABLE DATA", "VIEW", "MATERIALIZED VIEW", "CONSTRAINT"} < kinds
    told = set()
    for cut in range(0, 1600, 7):
        try:
            told.add(entries_of(io.BytesIO(whole[:cut])) == kinds)
        except CutArchiveError:
            told.add(None)
    assert told == {None}, "the table of contents is longer"
    cut_path = tmp_path / "cut.dump"
    cut_path.write_bytes(whole[:500])
    with pytest.raises(SpecError, match="the dump ends within its table of contents"):
        holds_rows(cut_path)
    later = whole[:6] + bytes([99]) + whole[7:]
    assert entries_of(io.BytesIO(later)) is None


@pytest.mark.parametrize("version", [(1, 12), (1, 13), (1, 14), (1, 15), (1, 16)])
def test_the_tables_of_contents_of_all_formats_are_read(version: tuple[int, int]) -> None:
    def number(value: int) -> bytes:
        return (b"\1" if value < 0 else b"\0") + abs(value).to_bytes(4, "little")

    def text(value: str | None) -> bytes:
        return number(-1) if value is None else number(len(value)) + value.encode()

    def entry(kind: str) -> bytes:
        begin = number(7) + number(1) + text("1259") + text("16385") + text("t") + text(kind) + number(2)
        names = [text("CREATE TABLE"), text(""), text(None), text("public"), text("")]
        more = text("heap") if version >= (1, 14) else b""
        relation = number(114) if version >= (1, 16) else b""
        return b"".join([begin, *names, more, relation, text("me"), text("false"), text("3"), text(None), bytes(9)])

    compression = b"\1" if version >= (1, 15) else number(6)
    head = b"PGDMP" + bytes([*version, 0, 4, 8, 1]) + compression + number(1) * 7
    head += text("shop") + text("15.6") + text("15.6")
    file = io.BytesIO(head + number(2) + entry("TABLE") + entry("TABLE DATA"))
    archive = Archive(file)
    assert archive.head().version == "15.6"
    assert archive.kinds() == {"TABLE", "TABLE DATA"}
    assert file.read() == b""


LOOK = "-- transaction: look\nSELECT name FROM member WHERE id = 1; -- INSERT nothing\n"
FILL = "-- transaction: fill\n\\set id random(1, 9)\nINSERT INTO visit (member) VALUES (:id);\n"


def asked(folder: Path, dump: str, script: str = LOOK, **more: object) -> spec.Experiment:
    mine = folder / "mine.sql"
    mine.write_text(script)
    return spec.load(mine, Overrides(dump=str(DUMPS / dump), **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("dump", ["mariadb-10.11-no-data.sql", "postgres-15-schema.dump"])
def test_a_dump_without_rows_is_for_a_script_that_inserts(dump: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="holds no rows, and the script inserts none"):
        asked(tmp_path, dump)
    assert asked(tmp_path, dump, FILL + LOOK).workload.dump is not None


@pytest.mark.parametrize(
    ("dump", "more", "what"),
    [
        ("mariadb-10.11-whole.sql", {"set_knobs": (("server", "mysql-8.0"),)}, "the server is MySQL 8.0: a dump goes"),
        (
            "mariadb-10.11-whole.sql",
            {"set_knobs": (("server", "mysql-9"),), "engine": "mysql"},
            "the server is MySQL 9",
        ),
        ("mariadb-10.11-whole.sql", {"set_knobs": (("server", "postgres-17"),)}, "the server is PostgreSQL 17"),
        ("postgres-15-whole.dump", {"set_knobs": (("server", "mariadb-11.4"),)}, "the server is MariaDB 11.4"),
        ("mariadb-10.11-whole.sql", {"sweep": (("server", ("mariadb-11.4", "mysql-5.7")),)}, "the server is MySQL 5.7"),
        (
            "mariadb-10.11-whole.sql",
            {"set_knobs": (("server", "mariadb-10.2"),)},
            "newer than the server, MariaDB 10.2",
        ),
    ],
)
def test_a_server_of_another_family_or_an_older_one_is_refused_with_that_reason(
    dump: str, more: dict[str, object], what: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError) as raised:
        asked(tmp_path, dump, **more)
    assert raised.value.what.startswith("the dump is of ")
    assert what in raised.value.what
    assert "or later by --server; `bufferlab engines` lists their names" in str(raised.value.hint)


@pytest.mark.parametrize("server", ["mariadb-10.11", "mariadb-11.8", "/opt/mariadb/bin/mariadbd", "path"])
def test_a_server_of_the_dumps_own_family_is_taken(server: str, tmp_path: Path) -> None:
    assert asked(tmp_path, "mariadb-10.11-whole.sql", set_knobs=(("server", server),)).engine == "mariadb"


def test_a_dry_run_refuses_what_a_run_would_and_tells_of_empty_tables(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "bench")
    for name, script in (("look.sql", LOOK), ("fill.sql", FILL)):
        (tmp_path / name).write_text(script)
    refused = bench.bufferlab("run", tmp_path / "look.sql", "--load", DUMPS / "mariadb-10.11-two.sql", "--dry-run")
    assert (refused.code, "mariadb-10.11-two.sql:113" in refused.err) == (2, True), refused.err
    planned = bench.bufferlab("run", tmp_path / "fill.sql", "--load", DUMPS / "mariadb-10.11-no-data.sql", "--dry-run")
    assert planned.code == 0, planned.err
    assert "the dump mariadb-10.11-no-data.sql holds no rows: its tables are empty until" in planned.out
