"""Looks at real servers: the tables that fill the pool, the work of statements, other work, and the cost for the
host."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from pymysql.constants import COMMAND

from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import NotTold, Query
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.live import confounds, digests, host_side, pool_contents
from support import innodb, postgres

pytestmark = pytest.mark.real

SLOW = [pytest.mark.servers, pytest.mark.slow]
OTHERS = ("mysql-5.7", "mysql-8.0", "mysql-9", "mariadb-10.2", "mariadb-11.8")
ROWS = 4096
CALLS = 50
SECRET = "a secret"


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return the condition's value once it is true."""
    end_s = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end_s, condition
        time.sleep(0.05)
    return found


@contextmanager
def running(work: Callable[[], Any]) -> Iterator[None]:
    """Run a statement meanwhile; it may end by an error when it is killed."""

    def quietly() -> None:
        with suppress(pymysql.MySQLError, psycopg.Error):
            work()

    thread = threading.Thread(target=quietly)
    thread.start()
    yield
    thread.join()


@contextmanager
def looking(server: PrivateServer, user: str, password: str) -> Iterator[Query]:
    """Yield a function that asks questions over a session of the core, as a look does."""
    with closing(server.family.connect(replace(server.address, user=user, secret=password))) as connection:

        def query(sql: str) -> list[dict[str, object]]:
            names, rows = connection.ask(sql)
            return [dict(zip(map(str.lower, names), row, strict=True)) for row in rows]

        yield query


@dataclass
class Mysql:
    server: PrivateServer
    asked: Flavour
    data: Path

    def connect(self, user: str = "root") -> Any:
        return pymysql.connect(unix_socket=str(self.server.socket), user=user, autocommit=True)

    def looking(self, user: str = "looker") -> AbstractContextManager[Query]:
        return looking(self.server, user, "")

    def run(self, *statements: str) -> None:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)


@pytest.fixture(
    scope="module",
    params=["mariadb-10.11", *(pytest.param(name, marks=SLOW) for name in OTHERS)],
)
def mysql(request: pytest.FixtureRequest) -> Iterator[Mysql]:
    """Yield a server with performance_schema, a table of 4,096 rows, and accounts with and without the rights of a
    look."""
    build = innodb.build(request.param)
    with innodb.folder() as path:
        place = innodb.Place(build, path).initialise()
        with place.server(settings={"performance_schema": "ON"}) as server:
            made = Mysql(server, build.flavour, place.data)
            made.run(
                "CREATE DATABASE lab",
                "CREATE TABLE lab.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200), KEY v (v)) ENGINE = InnoDB",
                "INSERT INTO lab.t (v) VALUES (REPEAT('a', 200))",
                *["INSERT INTO lab.t (v) SELECT v FROM lab.t"] * 12,
                "CREATE USER looker@localhost",
                "GRANT PROCESS ON *.* TO looker@localhost",
                "GRANT SELECT ON performance_schema.* TO looker@localhost",
                "CREATE USER poor@localhost",
                "UPDATE performance_schema.setup_instruments SET enabled = 'YES' WHERE name LIKE 'wait/lock/meta%'",
            )
            yield made


def test_the_pool_of_mysql_is_told_by_index(mysql: Mysql) -> None:
    with mysql.looking() as query:
        (row,) = query("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_total'")
        pages = int(str(row["value"]))
        told = pool_contents.look(query, mysql.asked, pages, limit=1000)
    assert not isinstance(told, NotTold), told
    assert told.pages == pages
    assert sum(one.share_ratio for one in told.objects) == pytest.approx(1)
    own = {one.index: one for one in told.objects if one.table == "lab.t"}
    assert own.keys() == {"PRIMARY", "v"}
    # In each tree 4,096 rows of at least 200 bytes fill at least 60 pages of 16 KiB.
    assert all(55 < one.pages < 120 for one in own.values()), own
    assert all(one.dirty_pages <= one.pages and (one.old_pages or 0) <= one.pages for one in told.objects)


def test_statements_of_mysql_have_their_counts_and_no_literal(mysql: Mysql) -> None:
    with mysql.looking() as query:
        first = digests.start(query, mysql.asked)
        assert isinstance(first, digests.Snapshot), first
        mysql.run(
            *[f"SELECT id FROM lab.t WHERE v = '{SECRET}' /* {SECRET} */ AND id < {n}" for n in range(CALLS)],
            f"CREATE USER new@localhost IDENTIFIED BY '{SECRET}'",
            "DROP USER new@localhost",
        )
        told = digests.finish(query, mysql.asked, first)
    assert isinstance(told, digests.Digests), told
    (ours,) = [one for one in told.statements if "`lab`" in one.text]
    assert ours.calls == CALLS
    assert ours.seconds > 0
    assert told.utility_calls >= 2
    assert told.monitoring_calls >= 1
    assert SECRET not in repr(told)
    assert "new" not in repr(told)


def _prepared(connection: Any, sql: str, times: int) -> None:
    """Prepare a statement without parameters by the protocol, and execute it `times` times."""

    def skip(ends: int) -> None:
        while ends:
            ends -= connection._read_packet().is_eof_packet()

    connection._execute_command(COMMAND.COM_STMT_PREPARE, sql)
    number, columns = struct.unpack_from("<IH", connection._read_packet().get_all_data(), 1)
    skip(bool(columns))
    for _ in range(times):
        connection._execute_command(COMMAND.COM_STMT_EXECUTE, struct.pack("<IBI", number, 0, 1))
        connection._read_packet()
        skip(2)
    connection.ping()  # The server counts a statement after its answer, but before the next command.


def test_prepared_statements_of_mysql_are_counted_with_a_digest_or_all_together(mysql: Mysql) -> None:
    with mysql.looking() as query, closing(mysql.connect()) as connection:
        first = digests.start(query, mysql.asked)
        assert isinstance(first, digests.Snapshot), first
        _prepared(connection, f"SELECT id FROM lab.t WHERE v = '{SECRET}' OR id < 3", CALLS)
        told = digests.finish(query, mysql.asked, first)
    assert isinstance(told, digests.Digests), told
    (ours,) = [one for one in told.statements if one.calls == CALLS]
    counts_rows = mysql.server.build.flavour == "mysql" or mysql.server.build.numbers > (10, 3)
    assert ours.rows_returned == (2 * CALLS if counts_rows else 0)
    assert ours.text.startswith("SELECT") or "no digests of them" in ours.text
    assert CALLS <= told.calls < 2 * CALLS
    assert SECRET not in repr(told)


def test_what_mysql_does_besides_is_seen(mysql: Mysql) -> None:
    is_mariadb, numbers = mysql.server.build.flavour == "mariadb", mysql.server.build.numbers
    # MySQL 5.7 has no such lock; MariaDB shows it since 10.5.
    has_lock = numbers >= (10, 5) if is_mariadb else numbers >= (8,)
    with (
        mysql.looking() as query,
        closing(mysql.connect()) as old,
        closing(mysql.connect()) as locking,
        closing(mysql.connect()) as dumper,
    ):
        # If ages depended on the session's time zone, they would be five hours.
        query("SET time_zone = '+05:00'")
        old.cursor().execute("BEGIN")
        old.cursor().execute("SELECT * FROM lab.t LIMIT 1")
        if has_lock:
            locking.cursor().execute("BACKUP STAGE START" if is_mariadb else "LOCK INSTANCE FOR BACKUP")
        dump = "SELECT /*!40001 SQL_NO_CACHE */ SLEEP(60)"

        def seen() -> dict[str, list[confounds.Confound]]:
            told = confounds.find(query, mysql.asked, long_s=0)
            assert bool(told.not_told) is (is_mariadb and not has_lock), told.not_told
            return {kind: [one for one in told.found if one.kind == kind] for kind in ("backup", "long_transaction")}

        with running(lambda: dumper.cursor().execute(dump)):
            dumping = until(lambda: [one for one in seen()["backup"] if "mysqldump" in one.sentence])
            mysql.run(f"KILL {dumper.thread_id()}")
        assert f"session {dumper.thread_id()} of root" in dumping[0].sentence
        transaction = seen()["long_transaction"][0]
        assert "is idle in it" in transaction.sentence
        assert (transaction.seconds or 0) < 3600
        held = [one for one in seen()["backup"] if "holds the lock of a backup" in one.sentence]
        assert bool(held) is has_lock, held


def test_an_alter_table_that_waits_is_seen(mysql: Mysql) -> None:
    with mysql.looking() as query, closing(mysql.connect()) as old:
        old.cursor().execute("BEGIN")
        old.cursor().execute("SELECT * FROM lab.t LIMIT 1")
        with running(lambda: mysql.run("ALTER TABLE lab.t ADD COLUMN w INT, ALGORITHM = COPY")):
            found = until(lambda: [o for o in confounds.find(query, mysql.asked).found if o.kind == "definition"])
            old.cursor().execute("ROLLBACK")
        assert "has run ALTER TABLE for" in found[0].sentence
        mysql.run("ALTER TABLE lab.t DROP COLUMN w")


def test_an_account_of_mysql_without_rights_is_told_the_grants(mysql: Mysql) -> None:
    with mysql.looking("poor") as query:
        pool = pool_contents.look(query, mysql.asked, 1000)
        statements = digests.start(query, mysql.asked)
        others = confounds.find(query, mysql.asked)
    assert isinstance(pool, NotTold)
    assert isinstance(statements, NotTold)
    remedies = [pool.remedy, statements.remedy, *(one.remedy for one in others.not_told)]
    process, select = "GRANT PROCESS ON *.* TO the account", "GRANT SELECT ON performance_schema.* TO the account"
    # MariaDB before 10.5 has no view of locks.
    assert [one for one in remedies if one] == [process, select, process, select][: len(remedies)]


def test_the_thread_and_the_process_of_mysql_are_found(mysql: Mysql) -> None:
    with mysql.looking() as query:
        sql = (
            "SELECT TID AS thread FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
            if mysql.asked == "mariadb"
            else "SELECT thread_os_id AS thread FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()"
        )
        thread = int(str(query(sql)[0]["thread"]))
        (row,) = query("SHOW GLOBAL STATUS LIKE 'Uptime'")
        pid = host_side.server_pid(thread, float(str(row["value"])))
        assert pid == mysql.server.pid
        before = host_side.thread_processor_s(thread)
        first = host_side.read(pid, str(mysql.data))
        query("SELECT COUNT(*) FROM information_schema.INNODB_BUFFER_PAGE")
        after = host_side.thread_processor_s(thread)
        work = host_side.between(first, host_side.read(pid, str(mysql.data)))
    assert before is not None
    assert after is not None
    assert 0 < after - before < 60
    assert work.read_bytes is not None
    assert work.device is not None


@dataclass
class Postgres:
    server: PrivateServer
    asked: Flavour
    data: Path

    def connect(self) -> psycopg.Connection[Any]:
        ours = self.server.address
        return psycopg.connect(
            host=ours.socket, user=ours.user, password=ours.secret, dbname="bufferlab", autocommit=True
        )

    def looking(self, user: str = "looker") -> AbstractContextManager[Query]:
        return looking(self.server, user, "x")

    def run(self, *statements: str) -> None:
        with closing(self.connect()) as connection:
            for statement in statements:
                connection.execute(statement.encode())


@pytest.fixture(
    scope="module",
    params=["postgres-17", *(pytest.param(name, marks=SLOW) for name in ("postgres-15", "postgres-16", "postgres-18"))],
)
def database(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """Yield a server with both extensions, a table of 4,096 rows, and roles with and without the rights of a look."""
    build = postgres.build(request.param)
    with postgres.folder() as path:
        place = postgres.Place(build, path).initialise()
        with place.server() as server, closing(server.connect("postgres")) as connection:
            connection.ask("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'")
            connection.ask("ALTER SYSTEM SET track_io_timing = on")
        with place.server() as server:
            made = Postgres(server, "postgres", place.data)
            made.run(
                "CREATE EXTENSION pg_buffercache",
                "CREATE EXTENSION pg_stat_statements",
                "CREATE TABLE t (id int PRIMARY KEY, v text)",
                f"INSERT INTO t SELECT g, repeat('a', 200) FROM generate_series(1, {ROWS}) AS g",
                "CREATE ROLE looker LOGIN PASSWORD 'x'",
                "GRANT pg_monitor TO looker",
                "CREATE ROLE poor LOGIN PASSWORD 'x'",
            )
            yield made


def test_the_buffers_of_postgres_are_told_by_relation(database: Postgres) -> None:
    with database.looking() as query:
        told = pool_contents.look(query, database.asked, 2048, limit=1000)
    assert not isinstance(told, NotTold), told
    assert told.pages == 2048
    assert sum(one.share_ratio for one in told.objects) == pytest.approx(1)
    by_name = {(one.table, one.index): one for one in told.objects}
    # 33 rows of 232 bytes fill a page.
    assert ROWS // 34 <= by_name["public.t", None].pages <= ROWS // 30
    assert by_name["public.t", "t_pkey"].pages > 5
    assert by_name["(other databases)", None].pages > 0
    assert by_name["pg_catalog.pg_class", None].pages > 0


def test_statements_of_postgres_have_their_counts_and_no_literal(database: Postgres) -> None:
    with database.looking() as query:
        first = digests.start(query, database.asked)
        assert isinstance(first, digests.Snapshot), first
        database.run(
            *[f"SELECT v FROM t WHERE v = '{SECRET}' /* {SECRET} */ AND id < {n}" for n in range(CALLS)],
            f"ALTER ROLE poor PASSWORD '{SECRET}'",
            "ALTER ROLE poor PASSWORD 'x'",
            f"CREATE TABLE other AS SELECT '{SECRET}' AS s",
            f"SELECT '{SECRET}' AS s INTO another",
        )
        told = digests.finish(query, database.asked, first)
    assert isinstance(told, digests.Digests), told
    (ours,) = [one for one in told.statements if " FROM t " in one.text]
    assert ours.calls == CALLS
    assert (ours.hit_pages or 0) > 0
    assert told.utility_calls >= 3
    assert told.monitoring_calls >= 1
    assert SECRET not in repr(told)


def test_what_postgres_does_besides_is_seen(database: Postgres) -> None:
    with database.looking() as query, closing(database.connect()) as old, closing(database.connect()) as other:
        old.execute("BEGIN")
        old.execute("SELECT 1 FROM t")
        other.execute("SET vacuum_cost_delay = 100")
        other.execute("SET vacuum_cost_limit = 1")
        with running(lambda: other.execute("VACUUM (DISABLE_PAGE_SKIPPING) t")):
            found = until(lambda: [o for o in confounds.find(query, database.asked).found if o.kind == "maintenance"])
            database.run(f"SELECT pg_terminate_backend({other.info.backend_pid})")
        assert "runs VACUUM on t (" in found[0].sentence
        told = confounds.find(query, database.asked, long_s=0)
    assert told.not_told == ()
    assert "and is idle in it" in next(one.sentence for one in told.found if one.kind == "long_transaction")


def test_a_role_of_postgres_without_rights_is_told_the_grant(database: Postgres) -> None:
    with database.looking("poor") as query:
        pool = pool_contents.look(query, database.asked, 2048)
        others = confounds.find(query, database.asked)
    assert isinstance(pool, NotTold)
    assert [pool.remedy, *(one.remedy for one in others.not_told)] == ["GRANT pg_monitor TO the role"] * 2


def test_the_processes_of_postgres_are_found(database: Postgres) -> None:
    with database.looking() as query:
        thread = int(str(query("SELECT pg_backend_pid() AS thread")[0]["thread"]))
        (row,) = query("SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8 AS age")
        pid = host_side.server_pid(thread, float(str(row["age"])))
        assert pid == database.server.pid
        first = host_side.read(pid, str(database.data))
        query("SELECT count(*) FROM pg_class, generate_series(1, 1000)")
        work = host_side.between(first, host_side.read(pid, str(database.data)))
        assert (host_side.thread_processor_s(thread) or 0) > 0
    assert (work.processor_cores or 0) >= 0
    assert work.read_bytes is not None
    assert work.device is not None
