"""Dumps of small shops, made by the real tools: mysqldump and mariadb-dump of fetched builds, Debian's pg_dump.

Other versions of the tools are looked for in the folders that the variable BUFFERLAB_DUMPERS names, as PATH does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from bufferlab.engines.servers.fetched import servers_root
from support import innodb, postgres
from support.core import usual_cache

ROWS = 20_000
TROUBLE = "it''s; -- no /* comment */ # \\\\ \\' \\0 \\Z `x` \\n*/ é"
"""A MySQL string literal with every character sequence that could confuse a parser of statements."""
SHOP_OF_MYSQL = (
    "CREATE TABLE product (id INT PRIMARY KEY, price INT NOT NULL, sold INT NOT NULL DEFAULT 0, note VARCHAR(200), "
    "raw VARBINARY(40), KEY (price)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    "CREATE TABLE sale (id INT AUTO_INCREMENT PRIMARY KEY, product INT NOT NULL, "
    "FOREIGN KEY (product) REFERENCES product (id)) ENGINE=InnoDB",
    f"INSERT INTO product VALUES (1, 10, 0, '{TROUBLE}', 0x00270A5C0D1A22), (2, 20, 0, NULL, '\\\\\\'')",
    "CREATE VIEW dear AS SELECT id, price FROM product WHERE price > 15",
    "CREATE TRIGGER counted AFTER INSERT ON sale FOR EACH ROW "
    "BEGIN UPDATE product SET sold = sold + 1 WHERE id = NEW.product; /* of */ END",
    "CREATE PROCEDURE twice (IN x INT) SQL SECURITY INVOKER BEGIN SELECT 2 * x; END",
    "CREATE FUNCTION half (x INT) RETURNS INT DETERMINISTIC RETURN x / 2",
)
DUMPERS = {"mysql": ("mariadb-10.2", "bin/mysqldump"), "mariadb": ("mariadb-11.4", "bin/mariadb-dump")}
"""The dump tool for each kind of server, with the fetched build that has it. MariaDB's mysqldump also dumps MySQL's
servers."""


def tool(name: str, version: str) -> Path:
    """Return a dump program of that version or one of its minor versions; skip the test with a message if there is
    none."""
    for path in _tools(name):
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        if re.search(rf"\(PostgreSQL\) {version}\b|Ver {version}\b", said) and "MariaDB" not in said:
            return path
    pytest.skip(f"NOT TESTED: there is no {name} {version} here (BUFFERLAB_DUMPERS can name its folder)")


def _tools(name: str) -> Iterator[Path]:
    folders = [Path(folder) for folder in os.environ.get("BUFFERLAB_DUMPERS", "").split(os.pathsep) if folder]
    folders += [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), Path("/usr/bin")]
    return (folder / name for folder in folders if (folder / name).is_file())


def mysqldump(
    name: str, folder: Path, *options: str, rows: int = ROWS, more: Sequence[str] = (), tool: Path | None = None
) -> Path:
    """Dump the shop from that server; return the file, which only its owner may read. `tool`: Oracle's mysqldump."""
    build = innodb.build(name)
    dumped = folder / "shop.sql"
    is_oracles = tool is not None
    tool = tool or _dumper(build.flavour, folder)
    with innodb.folder() as root:
        place = innodb.Place(build, root).initialise()
        identity = place.with_accounts()
        with place.server((identity.user, identity.password)) as server:
            with closing(server.connect()) as connection:
                for statement in ("CREATE DATABASE shop", "USE shop", *SHOP_OF_MYSQL, *more):
                    connection.ask(statement)
                for first in range(3, rows + 1, 1000):
                    some = range(first, min(first + 1000, rows + 1))
                    values = (f"({i}, {i * 7919 % 9900}, '{i:0120d}', x'{f'{i % 256:02x}' * 20}')" for i in some)
                    connection.ask(f"INSERT INTO product (id, price, note, raw) VALUES {', '.join(values)}")
                if is_oracles:  # Since 9.0 Oracle's mysqldump does not support native passwords.
                    how = f"WITH caching_sha2_password BY '{identity.password}'"
                    connection.ask(f"CREATE USER dumper@localhost IDENTIFIED {how}")
                    connection.ask("GRANT ALL ON *.* TO dumper@localhost")
            user, plain = (identity.user, "--skip-ssl") if not is_oracles else ("dumper", "--ssl-mode=DISABLED")
            secret = folder / "client.cnf"
            secret.write_text(f"[client]\npassword={identity.password}\n")
            command = [tool, f"--defaults-file={secret}", f"--socket={server.socket}", f"--user={user}",
                       plain, "--routines", "--default-character-set=utf8mb4", *options,
                       f"--result-file={dumped}", "shop"]  # fmt: skip
            _dump(command)
    dumped.chmod(0o600)
    return dumped


def _dump(command: Sequence[object], environment: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def _dumper(flavour: str, folder: Path) -> Path:
    """Return an executable copy of the dump tool: the fetched folders must not change."""
    name, inside = DUMPERS[flavour]
    with usual_cache():
        innodb.build(name)
        found = servers_root() / name / inside
    if not found.is_file():
        pytest.skip(f"NOT TESTED: {name} has no {inside}")
    copy = folder / found.name
    shutil.copyfile(found, copy)
    copy.chmod(0o700)
    return copy


SHOP_OF_POSTGRES = """
CREATE SCHEMA store;
CREATE TABLE store.product (id integer PRIMARY KEY, price integer NOT NULL, sold integer NOT NULL DEFAULT 0, note text);
CREATE INDEX ON store.product (price);
CREATE TABLE sale (id serial PRIMARY KEY, product integer NOT NULL REFERENCES store.product);
INSERT INTO store.product
  SELECT i, i * 7919 % 9900, 0, lpad(i::text, 120, '0') FROM generate_series(1, {rows}) AS n (i);
CREATE VIEW dear AS SELECT id, price FROM store.product WHERE price > 15;
CREATE FUNCTION counted() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN UPDATE store.product SET sold = sold + 1 WHERE id = NEW.product; RETURN NEW; END';
CREATE TRIGGER counted AFTER INSERT ON sale FOR EACH ROW EXECUTE FUNCTION counted();
"""


def pg_dump(
    folder: Path,
    *options: str,
    rows: int = ROWS,
    more: str = "",
    form: str = "-Fc",
    server: str = "postgres-15",
    tool: Path | None = None,
) -> Path:
    """Dump the shop from a PostgreSQL server (15 by default) by a pg_dump (Debian's by default); return the file."""
    tool = tool or next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"))), None)
    if tool is None:
        pytest.skip("NOT TESTED: there is no pg_dump here (package postgresql-client)")
    dumped = folder / "shop.dump"
    with postgres.folder() as root:
        place = postgres.Place(postgres.build(server), root).initialise()
        with place.server() as server:
            with closing(server.connect()) as connection:
                for statement in (SHOP_OF_POSTGRES.format(rows=rows) + more).split(";\n"):
                    connection.ask(statement)
            environment = {**os.environ, "PGPASSWORD": place.identity.password}
            reached = ("-h", server.socket.parent, "-p", "5432", "-U", place.identity.user, "-d", "bufferlab")
            command = [tool, form, *reached, "--extension=plpgsql", *options, f"--file={dumped}"]
            _dump(command, environment)
    dumped.chmod(0o600)
    return dumped
