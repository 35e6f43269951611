"""The core's sessions for questions, on real servers: values as from PyMySQL and psycopg, and every limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg
import pymysql
import pytest

from bufferlab.engines.servers.client import Client, LostError, ServerError
from bufferlab.engines.servers.private_server import PrivateServer
from support import innodb, postgres
from support.core import ROOT

pytestmark = [pytest.mark.real, pytest.mark.slow]

MIB = 1 << 20
PROMPT_SECONDS = 2.0


@dataclass
class Served:
    """A server with a table that has one row of each type, and a row of NULLs."""

    server: PrivateServer
    ask: Callable[[str], tuple[list[str], list[tuple[Any, ...]]]]
    """Returns the answer of PyMySQL or psycopg."""

    @property
    def engine(self) -> str:
        return "postgres" if self.server.build.flavour == "postgres" else "mysql"

    def session(self, seconds: float | None = 60.0, **more: Any) -> Client:
        address = self.server.address
        target = address.target(str(address.secret), str(self.server.socket))
        return Client(self.engine, target, seconds=seconds, name="test", **more)

    def sleeping(self, seconds: int) -> str:
        return f"SELECT pg_sleep({seconds})" if self.engine == "postgres" else f"SELECT SLEEP({seconds})"


TABLE_OF_MYSQL = (
    "CREATE TABLE each_type (a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, d INT, e BIGINT, f BIGINT UNSIGNED, g YEAR, "
    "h FLOAT, i DOUBLE, j DECIMAL(40, 9), k VARCHAR(60), l TEXT, m VARBINARY(60), n BLOB, o ENUM('ä', 'b'), "
    "p SET('x', 'y'), q BIT(12), r CHAR(5), s BINARY(3), t BOOLEAN) DEFAULT CHARSET = utf8mb4",
    "INSERT INTO each_type VALUES (-128, 65535, -8388608, -2147483648, -9223372036854775808, 18446744073709551615, "
    "2026, 1.5, -2.5e-300, 12345678901234567890.123456789, 'Zürich 😀 it''s \\\\', '', x'00ff2761', x'', 'ä', 'x,y', "
    "b'101010101010', 'ab', x'80ff00', TRUE)",
    "INSERT INTO each_type (a) VALUES (NULL)",
)
TABLE_OF_POSTGRES = (
    "CREATE TABLE each_type (a int2, b int4, c int8, d oid, e float4, f float8, g numeric, h text, i varchar(60), "
    "j char(5), k name, l bool, m bool)",
    "INSERT INTO each_type VALUES (-32768, -2147483648, -9223372036854775808, 4294967295, 1.1, -2.5e-300, "
    "12345678901234567890.123456789, 'Zürich 😀 it''s \\', '', 'ab', 'a name', true, false)",
    "INSERT INTO each_type (a) VALUES (NULL)",
)
QUESTIONS_OF_MYSQL = (
    "SELECT * FROM each_type",
    "SELECT * FROM each_type WHERE FALSE",
    "SELECT NULL, '', 0, -1, 1.50, 1e300, TRUE, 1 = 2, _utf8mb4'😀' AS `a ``name ü`",
    "SELECT SUM(e), SUM(i), AVG(a), COUNT(*), MAX(k), MIN(CONCAT(k, m)) FROM each_type",
    "SHOW GLOBAL VARIABLES LIKE 'innodb%'",
    "SHOW GLOBAL STATUS LIKE 'Innodb_page%'",
    "SHOW TABLE STATUS LIKE 'nothing'",
    "SHOW ENGINES",
    "CHECK TABLE each_type",
    "SELECT table_name, engine, table_rows, column_type FROM information_schema.tables JOIN "
    "information_schema.columns USING (table_schema, table_name) WHERE table_schema = 'bufferlab' ORDER BY 1, 4",
    "SET @x = 1",
    "SELECT REPEAT('é', 100000)",
)
QUESTIONS_OF_POSTGRES = (
    "SELECT * FROM each_type",
    "SELECT * FROM each_type WHERE false",
    "SELECT NULL, '', 0, -1, 1.50, 1e300, true, 'NaN'::float8, '-Infinity'::float8, '😀' AS \"a \"\"name 😀\"",
    "SELECT sum(c), sum(f), avg(a), count(*), max(h), bool_or(l) FROM each_type",
    "SELECT name, setting, unit FROM pg_settings WHERE name LIKE 'shared%' ORDER BY 1",
    "SELECT datname, oid, datconnlimit, datallowconn FROM pg_database ORDER BY 1",
    "SET work_mem = '4MB'",
    "SHOW work_mem",
    "",
    "SELECT repeat('é', 100000)",
)


def _mysql(name: str) -> Iterator[Served]:
    with innodb.folder() as path:
        place = innodb.Place(innodb.build(name), path).initialise()
        identity = place.with_accounts()
        with place.server((identity.user, identity.password), connections=20) as server:

            def ask(sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
                ours = server.address
                with (
                    pymysql.connect(
                        unix_socket=ours.socket,
                        user=ours.user,
                        password=str(ours.secret),
                        database=ours.schema,
                        autocommit=True,
                    ) as connection,
                    connection.cursor() as cursor,
                ):
                    cursor.execute(sql)
                    return [one[0] for one in cursor.description or ()], list(cursor.fetchall())

            for statement in TABLE_OF_MYSQL:
                ask(statement)
            yield Served(server, ask)


def _postgres(name: str) -> Iterator[Served]:
    with postgres.folder() as path:
        place = postgres.Place(postgres.build(name), path).initialise()
        with place.server(connections=20) as server:

            def ask(sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
                ours = server.address
                with psycopg.connect(
                    host=ours.socket, user=ours.user, password=ours.secret, dbname=ours.schema, autocommit=True
                ) as connection:
                    cursor = connection.execute(sql.encode())
                    return [one.name for one in cursor.description or ()], (
                        cursor.fetchall() if cursor.description else []
                    )

            for statement in TABLE_OF_POSTGRES:
                ask(statement)
            yield Served(server, ask)


@pytest.fixture(scope="module", params=["mysql-5.7", "mariadb-10.11", "postgres-17"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    yield from (_postgres if request.param.startswith("postgres") else _mysql)(request.param)


def exact(rows: list[tuple[Any, ...]]) -> list[tuple[tuple[type, str], ...]]:
    """Return the rows with their types: True is not 1, 1.50 is not 1.5, and NaN equals NaN."""
    return [tuple((type(value), repr(value)) for value in row) for row in rows]


def test_values_are_those_of_the_other_client(served: Served) -> None:
    with closing(served.session()) as session:
        for question in QUESTIONS_OF_POSTGRES if served.engine == "postgres" else QUESTIONS_OF_MYSQL:
            names, rows = session.ask(question)
            other_names, other_rows = served.ask(question)
            assert names == other_names, question
            assert exact(rows) == exact(other_rows), question


def test_after_the_error_of_a_statement_the_session_goes_on(served: Served) -> None:
    missing, syntax = ("42P01", "42601") if served.engine == "postgres" else ("1146", "1064")
    with closing(served.session()) as session:
        for code, statement in ((missing, "SELECT * FROM nothing"), (syntax, "SELEC 1"), (missing, "DROP TABLE no")):
            if served.engine == "mysql" and statement.startswith("DROP"):
                code = "1051"
            with pytest.raises(ServerError) as caught:
                session.ask(statement)
            try:
                served.ask(statement)
            except (pymysql.MySQLError, psycopg.Error) as other:
                words = other.diag.message_primary if isinstance(other, psycopg.Error) else other.args[1]
            assert (caught.value.code, caught.value.message) == (code, words)
            assert session.is_open
            assert session.ask("SELECT 1")[1] == [(1,)]


def test_a_statement_may_be_larger_than_a_packet(served: Served) -> None:
    if served.engine == "mysql":
        served.ask(f"SET GLOBAL max_allowed_packet = {128 * MIB}")
    with closing(served.session()) as session:
        for size in (16 * MIB - 30, 16 * MIB - 1, 16 * MIB, 33 * MIB):
            head, tail = "SELECT length('", "')"
            text = "x" * (size - len(head) - len(tail))
            assert session.ask(f"{head}{text}{tail}")[1] == [(len(text),)], size


def test_an_answer_may_be_as_large_as_it_is_allowed(served: Served) -> None:
    some = "generate_series(1, 20)" if served.engine == "postgres" else "information_schema.columns LIMIT 20"
    large = f"SELECT repeat('x', {MIB}) FROM {some}"
    session = served.session()
    with pytest.raises(LostError, match="longer than"):
        session.ask(large)
    assert not session.is_open
    assert session.id is session.descriptor is None
    with pytest.raises(LostError, match="closed"):
        session.ask("SELECT 1")
    with closing(served.session()) as session:
        session.allow_bytes(40 * MIB)
        assert sum(len(text) for (text,) in session.ask(large)[1]) == 20 * MIB
        assert session.ask("SELECT 1")[1] == [(1,)]


def test_a_statement_that_takes_too_long_is_given_up_in_time(served: Served) -> None:
    session = served.session(seconds=1.0)
    began_s = time.monotonic()
    with pytest.raises(LostError, match="it did not answer within 1 s"):
        session.ask(served.sleeping(3))
    assert time.monotonic() - began_s < PROMPT_SECONDS
    assert not session.is_open
    with closing(served.session(seconds=None)) as patient:
        assert len(patient.ask(served.sleeping(2))[1]) == 1


def test_a_session_is_the_one_that_the_server_shows(served: Served) -> None:
    own = "SELECT pg_backend_pid()" if served.engine == "postgres" else "SELECT CONNECTION_ID()"
    with closing(served.session()) as session, closing(served.session()) as other:
        assert session.ask(own)[1] == [(session.id,)]
        assert session.descriptor is not None
        assert os.readlink(f"/proc/self/fd/{session.descriptor}").startswith("socket:")
        end = f"SELECT pg_terminate_backend({session.id})" if served.engine == "postgres" else f"KILL {session.id}"
        other.ask(end)
        with pytest.raises(LostError):
            session.ask("SELECT 1")
        assert not session.is_open
        assert other.is_open


def test_prepared_statements_keep_apart_when_some_are_refused(served: Served) -> None:
    if served.engine != "postgres":
        pytest.skip("sessions with MySQL and MariaDB prepare nothing")
    with closing(served.session(prepares=True)) as session:
        for number in range(3):
            session.ask(f"SELECT {number}")
        # The first statement cannot be planned; the second is planned and fails when it runs.
        for refused in ("SELECT * FROM nothing", "SELECT 1 / count(*) FROM each_type WHERE false") * 2:
            with pytest.raises(ServerError, match=r"does not exist|division by zero"):
                session.ask(refused)
            for number in range(6):
                assert session.ask(f"SELECT {number}")[1] == [(number,)]


SLEEPER = """
import json, signal, sys
from bufferlab.engines.servers.client import Client
# A shell without job control starts its background jobs with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
engine, target, sleeping = json.loads(sys.argv[1])
client = Client(engine, target, seconds=None, name="sleeper")
print(client.id, flush=True)
try:
    client.ask(sleeping)
except KeyboardInterrupt:
    print("interrupted", client.is_open, flush=True)
"""


def test_ctrl_c_ends_the_wait_for_an_answer(served: Served) -> None:
    address = served.server.address
    target = address.target(str(address.secret), str(served.server.socket))
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER, json.dumps([served.engine, target, served.sleeping(60)])],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        text=True,
    ) as child:
        assert child.stdout is not None
        assert int(child.stdout.readline())
        time.sleep(0.5)
        began_s = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted False\n"
        assert time.monotonic() - began_s < PROMPT_SECONDS
        assert child.wait(10) == 0
