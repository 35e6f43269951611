"""Dumps made by the real tools, restored into real private servers: their contents, their rights, and what is left.

All need --all: each needs a server to dump from and one to restore into.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.dump_contents import has_rows
from bufferlab.engines.postgres import control as postgres_control
from bufferlab.engines.servers import data_folder, restoring
from bufferlab.engines.servers.client import ServerError
from bufferlab.engines.servers.dump_head import read_head, sha256_of
from bufferlab.engines.servers.fetched import servers_root
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import SpecError
from support import core, dumps, innodb, postgres, prepared

pytestmark = [pytest.mark.real, pytest.mark.slow]

OF_INNODB = ["mysql-5.7", "mysql-8.0", "mariadb-11.4"]


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function from a server's name to its dump; each dump is made once."""
    known: dict[str, Path] = {}

    def dump(name: str) -> Path:
        if name not in known:
            folder = tmp_path_factory.mktemp(name)
            known[name] = dumps.pg_dump(folder) if name.startswith("postgres") else dumps.mysqldump(name, folder)
        return known[name]

    return dump


@pytest.fixture
def root() -> Iterator[Path]:
    with innodb.folder() as path:
        yield path


def load(name: str, dump: Path, root: Path) -> Path:
    """Restore the dump in a load's worker; return the database."""
    flavour = read_head(dump).flavour
    knobs = {"page_size": 8192 if flavour == "postgres" else 16384, "server": name}
    told = {"path": str(dump), "sha256": sha256_of(dump), "size_bytes": dump.stat().st_size}
    workload = {"name": "script", "dump": told}
    job = {"database": str(root / "database"), "knobs": knobs, "threads": 2, "workload": workload}
    engines.behaviour(flavour).load(job, lambda event: None)
    return root / "database"


def served(database: Path, name: str) -> PrivateServer:
    """Return a server on the restored database, as a check starts it."""
    identity = data_folder.read_identity(database)
    assert identity.restored
    family = engines.behaviour(identity.flavour).family  # type: ignore[attr-defined]
    given: Mapping[str, Any] = {"page_size": identity.page_size_bytes}
    build = family.find(name)
    owner = engines.behaviour(identity.flavour).server_user()
    subprocess.run(["chown", "-R", f"{owner[0]}:{owner[1]}", database] if owner else ["true"], check=True)
    return PrivateServer(
        family, build, database / "data", database.parent / "server", user=owner, own_net=True,
        login=(identity.user, identity.password), settings=family.settings(build, given, "check"),
    )  # fmt: skip


def networks(server: PrivateServer) -> list[str]:
    """Return the network devices that the server's process sees."""
    lines = Path(f"/proc/{server.pid}/net/dev").read_text().splitlines()[2:]
    return [line.split(":")[0].strip() for line in lines]


@pytest.mark.parametrize("name", OF_INNODB)
def test_a_mysqldump_is_restored_row_by_row_with_code_that_may_do_nothing_else(
    name: str, dumped: Callable[[str], Path], root: Path
) -> None:
    require_shop_of_mysql(load(name, dumped(name), root), name)


# This client does not support the passwords of MySQL 5.7.
@pytest.mark.parametrize("name", ["mysql-8.0", pytest.param("mysql-9", marks=pytest.mark.servers)])
def test_a_dump_by_oracles_mysqldump_is_restored(name: str, root: Path, tmp_path: Path) -> None:
    made = dumps.mysqldump(name, tmp_path, tool=dumps.tool("mysqldump", "9"))
    assert made.read_bytes().startswith(b"-- MySQL dump 10.13  Distrib 9.")
    require_shop_of_mysql(load(name, made, root), name)


def require_shop_of_mysql(database: Path, name: str) -> None:
    """Require all rows and code of the shop, and that the code's account has no other rights."""
    assert database.stat().st_mode & 0o777 == 0o700
    with served(database, name) as server, closing(server.connect("bufferlab")) as connection:
        assert networks(server) == ["lo"]

        def ask(query: str) -> list[tuple[Any, ...]]:
            return connection.rows(query)

        assert ask("SELECT count(*), sum(price) FROM product") == [
            (dumps.ROWS, 30 + sum(i * 7919 % 9900 for i in range(3, dumps.ROWS + 1)))
        ]
        ((note, raw),) = ask("SELECT note, raw FROM product WHERE id = 1")
        assert note == "it's; -- no /* comment */ # \\ ' \0 \x1a `x` \n*/ é"
        assert raw == bytes.fromhex("00270A5C0D1A22")
        assert ask("SELECT note, raw FROM product WHERE id = 2") == [(None, b"\\'")]
        assert ask("SELECT count(*) FROM dear WHERE id <= 2") == [(1,)]
        ask("INSERT INTO sale (product) VALUES (2), (2)")
        assert ask("SELECT sold FROM product WHERE id = 2") == [(2,)]
        assert ask("SELECT half(8)") == [(4,)]
        definers = {
            text
            for kind in ("VIEWS", "TRIGGERS", "ROUTINES")
            for (text,) in ask(f"SELECT DEFINER FROM information_schema.{kind} WHERE DEFINER NOT LIKE 'mariadb.sys%' "
                               "AND DEFINER NOT LIKE 'mysql.%'")
        }  # fmt: skip
        assert definers == {f"{restoring.USER}@localhost"}
        modes = ask("SELECT SECURITY_TYPE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'bufferlab'")
        assert set(modes) == {("DEFINER",)}
        grants = [text for (text,) in ask(f"SHOW GRANTS FOR '{restoring.USER}'@'localhost'")]
        assert all("USAGE ON *.*" in text or "ON `bufferlab`.*" in text for text in grants), grants


def test_a_pg_dump_is_restored_and_its_code_has_no_superusers_rights(dumped: Callable[[str], Path], root: Path) -> None:
    require_shop_of_postgres(load("postgres-15", dumped("postgres-15"), root), "postgres-15")


@pytest.mark.parametrize(
    ("version", "dumped_from", "restored_into", "compression"),
    [
        ("16", "postgres-15", "postgres-15", "gzip"),
        ("17", "postgres-17", "postgres-17", "zstd"),
        # A pg_restore newer than the server sets options that the server does not know.
        ("17", "postgres-15", "postgres-15", "lz4"),
        ("18", "postgres-17", "postgres-17", "gzip"),
        pytest.param("16", "postgres-16", "postgres-16", "gzip", marks=pytest.mark.servers),
        pytest.param("18", "postgres-18", "postgres-18", "none", marks=pytest.mark.servers),
    ],
)
def test_a_dump_by_a_later_pg_dump_is_restored(
    version: str,
    dumped_from: str,
    restored_into: str,
    compression: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool = dumps.tool("pg_dump", version)
    made = dumps.pg_dump(tmp_path, f"--compress={compression}", server=dumped_from, tool=tool)
    assert read_head(made).made_by.split(".")[0] == version
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    require_shop_of_postgres(load(restored_into, made, root), restored_into)


def require_shop_of_postgres(database: Path, name: str) -> None:
    """Require all rows and code of the shop, and that the code's role has no other rights."""
    assert data_folder.read_identity(database).user == restoring.USER
    with served(database, name) as server, closing(server.connect()) as connection:
        assert networks(server) == ["lo"]

        def ask(query: str) -> list[tuple[Any, ...]]:
            return connection.rows(query)

        assert ask("SELECT count(*) FROM store.product") == [(dumps.ROWS,)]
        ask("INSERT INTO sale (product) VALUES (2), (2)")
        assert ask("SELECT sold FROM store.product WHERE id = 2") == [(2,)]
        assert ask("SELECT rolsuper, rolcreaterole FROM pg_roles WHERE rolname = session_user") == [(False, False)]
        with pytest.raises(ServerError) as refused:
            ask("COPY sale FROM PROGRAM 'id'")
        assert refused.value.code == postgres_control.MAY_NOT


@pytest.mark.parametrize(
    ("added", "what"),
    [
        ("SELECT * FROM `product` INTO OUTFILE '/tmp/x';", "INTO OUTFILE"),
        ("\\! touch /tmp/x\n", "a backslash outside quotes"),
        ("SET SQL_MODE=1048576;", "the setting NO_BACKSLASH_ESCAPES"),
        ("SET SQL_MODE='A\\NSI_QUOTES';", "the setting ANSI"),
        ("SET CHARACTER_SET_CLIENT=28;", "the setting gbk"),
        ("/*!50003 CREATE*/ /*!50003 PROCEDURE p() SELECT LOAD_FILE('/etc/passwd') */;", "LOAD_FILE"),
        ("INSERT INTO `product` VALUES (1, 1, 1, 'a-secret-value', NULL);", "error 1062"),
    ],
)
def test_a_hostile_mysqldump_is_refused_with_its_line_and_without_its_values(
    added: str, what: str, dumped: Callable[[str], Path], root: Path
) -> None:
    text = dumped("mysql-5.7").read_bytes().decode("latin-1")
    body, end = text.rsplit("-- Dump completed", 1)
    hostile = root / "hostile.sql"
    hostile.write_bytes(f"{body}{added}\n-- Dump completed{end}".encode("latin-1"))
    with pytest.raises(EngineFailure) as raised:
        load("mysql-5.7", hostile, root)
    assert what in raised.value.what
    assert str(raised.value.where) == f"{hostile}:{body.count(chr(10)) + 1}"
    assert "a-secret-value" not in raised.value.what


def test_a_pg_dump_that_wants_a_superuser_or_was_cut_short_is_refused(
    dumped: Callable[[str], Path], root: Path, tmp_path: Path
) -> None:
    cut = tmp_path / "cut.dump"
    whole = dumped("postgres-15").read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    more = "CREATE FUNCTION bad() RETURNS int LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_call_handler';"
    grand = dumps.pg_dump(tmp_path, rows=10, more=more)
    for place, dump, what in (("a", cut, "pg_restore"), ("b", grand, "permission denied for language c")):
        (root / place).mkdir(mode=0o711)
        with pytest.raises(EngineFailure, match=what) as raised:
            load("postgres-15", dump, root / place)
        assert raised.value.where == str(dump)
        assert postgres.processes(root / place) == []


WHOLE, NO_ROWS = True, False


@pytest.mark.parametrize("name", innodb.EVERY_DAY)
def test_what_a_dump_holds_is_told_of_what_the_tool_writes(name: str, tmp_path: Path) -> None:
    tool = shutil.which("mariadb-dump")
    if tool is None:
        pytest.skip("NOT TESTED: there is no mariadb-dump here (package mariadb-client)")
    made: dict[str, Path] = {}
    with innodb.folder() as folder:
        place = innodb.Place(innodb.build(name), folder).initialise()
        with place.server() as server:
            with closing(server.connect()) as connection:
                others = ("CREATE DATABASE shop", "CREATE DATABASE other", "CREATE TABLE other.t (a INT)", "USE shop")
                for statement in (*others, *dumps.SHOP_OF_MYSQL):
                    connection.ask(statement)
            reached = ("--no-defaults", f"--socket={server.socket}", "--user=root")
            for key, asked in DUMPED.items():
                made[key] = tmp_path / f"{key}.sql"
                subprocess.run([tool, *reached, f"--result-file={made[key]}", *asked.split()], check=True)
    told: dict[str, object] = {}
    for key, path in made.items():
        try:
            told[key] = has_rows(path, read_head(path))
        except SpecError as error:
            told[key] = error.what
    assert told == {
        "whole": WHOLE,
        "one_of_several": WHOLE,
        "one_row_a_statement": WHOLE,
        "no_rows": NO_ROWS,
        "two": "the dump holds a second database, other beside shop",
        "view": "the dump holds views alone, and the tables that they read are missing",
        "rows": "the dump holds rows without their tables (--no-create-info, --data-only)",
        "bare": "the dump was written with --skip-comments or --compact: it tells neither its server nor its end",
        "compact": "the dump was written with --skip-comments or --compact: it tells neither its server nor its end",
    }


DUMPED = {
    "whole": "--routines shop",
    "one_of_several": "--databases shop",
    "one_row_a_statement": "--skip-extended-insert --hex-blob --complete-insert shop",
    "no_rows": "--no-data --routines shop",
    "two": "--routines --databases shop other",
    "view": "shop dear",
    "rows": "--no-create-info --skip-triggers shop",
    "bare": "--skip-comments shop",
    "compact": "--compact shop",
}


def test_a_restore_ends_before_the_disk_is_full(
    dumped: Callable[[str], Path], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restoring, "_LEAST_FREE_BYTES", 1 << 60)
    monkeypatch.setattr("bufferlab.engines.innodb.dump_text._CHUNK_BYTES", 4096)
    with pytest.raises(EngineFailure) as raised:
        load("mysql-5.7", slow(dumped("mysql-5.7"), root), root)
    assert raised.value.failure.kind == "full_disk"


def slow(dump: Path, root: Path) -> Path:
    """Return the same dump with many short statements before its end, which take longer than a check of the disk."""
    body, end = dump.read_bytes().rsplit(b"-- Dump completed", 1)
    path = root / "slow.sql"
    path.write_bytes(body + b"ANALYZE TABLE `product`;\n" * 5000 + b"-- Dump completed" + end)
    return path


LOOK = "-- transaction: look weight=4\n\\set id random(3, {rows})\nSELECT price, note FROM {table} WHERE id = :id;\n"
SELL = "-- transaction: sell\n\\set id random(3, {rows})\nINSERT INTO sale (product) VALUES (:id);\n"


@pytest.mark.parametrize(
    ("name", "table", "pools"),
    [("mysql-5.7", "product", "8MiB,16MiB"), ("postgres-15", "store.product", "2MiB,8MiB")],
)
def test_a_script_on_a_dump_is_measured_traced_and_predicted_and_leaves_no_row_behind(
    name: str, table: str, pools: str, dumped: Callable[[str], Path], root: Path
) -> None:
    mine = root / "mine.sql"
    mine.write_text((LOOK + SELL).format(rows=dumps.ROWS, table=table))
    for folder in ("out", "data", "cache"):
        (root / folder).mkdir(mode=0o711)
    (root / "cache" / "servers").symlink_to(servers_root())
    environment = core.environment(root)
    places = ("--out", root / "out", "--data-dir", root / "data", "--share-device")
    asked = ("run", mine, "--load", dumped(name), "--server", name, "--sweep", f"pool_size={pools.split(',')[-1]}")
    done = prepared.run([*asked, "--repetitions", "1", "--smoke", "--probe", "page-trace", *places], environment, 900)
    assert done.returncode == 0, done.stderr
    assert "kept until the sweep ends" in done.stderr
    assert list((root / "cache" / "data").rglob("manifest.json")) == [], "the restored database is removed"
    assert list((root / "data").rglob("*.ibd")) == []
    (folder,) = (root / "out").iterdir()
    needle = f"{dumps.ROWS // 2:0120d}".encode()
    held = [path for path in folder.rglob("*") if path.is_file() and needle in path.read_bytes()]
    assert held == [], "no report, log or sample holds a row"
    assert any(folder.rglob("page-trace.parquet")), done.stderr
    predicted = prepared.run(
        ["predict", folder, "--sweep", f"pool_size={pools}", "--out", root / "out"], environment, 600
    )
    assert predicted.returncode == 0, predicted.stderr
    assert os.listdir(root / "data") == []
