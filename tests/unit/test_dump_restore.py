"""Restores of a mysqldump to a fake server: how the server's refusals are reported, and that they show no values of
rows."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import restore
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client, LostError, ServerError
from bufferlab.engines.servers.data_folder import new_identity
from bufferlab.engines.servers.restoring import Dump

BUILD = Build("mysql-8.0", "mysql", "8.0.33", Path("/nowhere/mysqld"))
HEAD = b"-- MySQL dump 10.13  Distrib 8.0.33, for Linux (x86_64)\n-- Server version\t8.0.33\n"
TAIL = b"\n-- Dump completed on 2026-11-25 12:00:00\n"

Refusals = dict[bytes, ServerError | LostError]
"""The server's error for each statement that begins with these bytes."""


class Connection(Client):
    """A session with such a server."""

    engine = "mysql"

    def __init__(self, refusals: Refusals) -> None:
        self.refusals = refusals
        self.sent: list[bytes] = []
        self.mode = "STRICT_TRANS_TABLES"

    def ask(self, sql: str | bytes) -> tuple[list[str], list[tuple[str]]]:
        if isinstance(sql, bytes):
            self.sent.append(sql.strip())
            for begin, error in self.refusals.items():
                if self.sent[-1].startswith(begin):
                    raise error
            return [], []
        # MySQL 5.7 to 9 and MariaDB read the number as bits; in this mode a backslash escapes nothing.
        if self.sent[-1:] == [b"SET SQL_MODE=1048576"]:
            self.mode = "NO_BACKSLASH_ESCAPES"
        if self.sent[-1:] == [b"SET SQL_MODE='A\\NSI_QUOTES'"]:
            self.mode = "ANSI_QUOTES"
        return [""], [(f"{self.mode} utf8mb4",)]

    def close(self) -> None:
        pass


class Server:
    """The fake server of a restore."""

    home = socket = Path("/nowhere")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def connect(self, database: str | None = None, *, patient: bool = False) -> Connection:
        return self.connection

    def log_in_as(self, user: str, password: str) -> None:
        pass


def restored(folder: Path, statements: bytes, refusals: Refusals | None = None) -> Connection:
    """Restore a dump of these statements; return the connection that the restore used."""
    text = HEAD + statements + TAIL
    path = folder / "app.sql"
    path.write_bytes(text)
    connection = Connection(refusals or {})
    dump = Dump(path, hashlib.sha256(text).hexdigest())
    restore.restore(Server(connection), BUILD, dump, new_identity(BUILD, 16_384), None, lambda what: None)
    return connection


def refused(folder: Path, statements: bytes, refusals: Refusals | None = None) -> EngineFailure:
    """Restore a dump that must be refused; return its failure."""
    with pytest.raises(EngineFailure) as raised:
        restored(folder, statements, refusals)
    return raised.value


ROW = b"INSERT INTO `t` VALUES (1,'x');"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ServerError("1062", "Duplicate entry 'O'Secret for key 'a' for key 't.PRIMARY'"),
         "Duplicate entry '...' for key 't.PRIMARY' (error 1062)"),
        (ServerError("1366", "Incorrect integer value: 'it's Secret' for column 'id' at row 3"),
         "Incorrect integer value: '...' for column 'id' at row 3 (error 1366)"),
        (ServerError("1366", "Incorrect integer value: 'a'Secret\n' for column `b`.`t`.`id` at row 3"),
         "Incorrect integer value: '...' for column `b`.`t`.`id` at row 3 (error 1366)"),
        (ServerError("3140", "Invalid JSON text: \"a \"Secret\" b\" in value for column 't.j'."), "(error 3140)"),
        (ServerError("3819", "Check constraint 'c' is violated."), "(error 3819)"),
        (ServerError("4025", "CONSTRAINT `c` failed for `b`.`t`"), "`c` failed for `b`.`t` (error 4025)"),
    ],
)  # fmt: skip
def test_a_row_that_the_server_refuses_names_its_line_and_no_value(
    error: ServerError, told: str, tmp_path: Path
) -> None:
    failure = refused(tmp_path, b"\n" + ROW, {b"INSERT": error})
    assert failure.what.startswith("the server refuses a statement of the dump: ")
    assert failure.what.endswith(told)
    assert "Secret" not in failure.what
    assert failure.where == f"{tmp_path}/app.sql:4"
    assert failure.hint


def test_an_index_that_the_rows_refuse_tells_no_value_and_a_definition_tells_its_words(tmp_path: Path) -> None:
    index = b"ALTER TABLE `t` ADD UNIQUE KEY `a` (`a`);"
    failure = refused(tmp_path, index, {b"ALTER": ServerError("1062", "Duplicate entry 'O'Secret' for key 't.a'")})
    assert "Secret" not in failure.what
    assert "'t.a'" in failure.what
    table = b"CREATE TABLE `t` (a int) COLLATE=utf8mb4_0900_ai_ci;"
    failure = refused(tmp_path, table, {b"CREATE": ServerError("1273", "Unknown collation: 'utf8mb4_0900_ai_ci'")})
    assert "Unknown collation: 'utf8mb4_0900_ai_ci' (error 1273)" in failure.what


@pytest.mark.parametrize("setting", [b"SQL_MODE=1048576", b"SQL_MODE='A\\NSI_QUOTES'"])
def test_a_setting_that_hides_what_it_sets_is_refused_when_the_server_tells_it(setting: bytes, tmp_path: Path) -> None:
    code = b"CREATE PROCEDURE p() COMMENT '\\' SQL SECURITY INVOKER COMMENT 'x' SELECT 'x';\n"
    failure = refused(tmp_path, b"SET SQL_MODE='NO_ZERO_DATE';\nSET " + setting + b";\n" + code)
    assert "under which quotes end elsewhere" in failure.what
    assert failure.where == f"{tmp_path}/app.sql:4"


def test_a_server_that_went_away_is_no_mistake_of_the_dump(tmp_path: Path) -> None:
    with pytest.raises(LostError, match="closed the connection"):
        restored(tmp_path, ROW, {b"INSERT": LostError("it closed the connection")})
