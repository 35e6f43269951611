"""Servers in unusual set-ups: commands observe each, or refuse it with code 3 and a true sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from bufferlab.engines.servers import child_process, user
from support import innodb, postgres, prepared
from support.core import ROOT

pytestmark = [pytest.mark.real, pytest.mark.slow]

POOLER = """\
[databases]
* = host=127.0.0.1 port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
admin_users = me
pool_mode = {mode}
default_pool_size = 3
ignore_startup_parameters = {ignored}
logfile = {folder}/log
pidfile = {folder}/pid
"""


class Cluster:
    """A PostgreSQL on a port of the loopback that accepts every login; `me` is its superuser."""

    def __init__(self, port: int, root: Path, process: subprocess.Popen[bytes]) -> None:
        self.port, self.root, self.process = port, root, process
        self.log = root / "listening.log"

    def url(self, name: str = "me", database: str = "shop", port: int = 0) -> str:
        return f"postgres://{name}@127.0.0.1:{port or self.port}/{database}"

    def ask(self, sql: str, database: str = "postgres", name: str = "me", port: int = 0) -> list[tuple[Any, ...]]:
        place = {"host": "127.0.0.1", "port": port or self.port, "user": name, "dbname": database}
        with psycopg.connect(**place, autocommit=True, client_encoding="UTF8") as connection:  # type: ignore[arg-type]
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with postgres.folder() as path:
        place = postgres.Place(postgres.build("postgres-15"), path).initialise()
        with postgres.listening(place, "host all all 127.0.0.1/32 trust\n") as (port, process):
            found = Cluster(port, path, process)
            found.ask("CREATE ROLE me SUPERUSER LOGIN", name="bufferlab")
            found.ask("CREATE DATABASE shop")
            yield found


def command(*arguments: str | Path, seconds: float = 100) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "BUFFERLAB_PASSWORD": ""}
    return prepared.run(arguments, environment, seconds)


def refused(*arguments: str | Path) -> str:
    """Return the error of a command that ends with 3 within 40 s."""
    began_s = time.monotonic()
    done = command(*arguments)
    assert done.returncode == 3, done.stdout + done.stderr
    assert time.monotonic() - began_s < 40
    return done.stderr


# Encodings.


@pytest.mark.parametrize("how", ["database", "role"])
def test_texts_are_read_whatever_the_encoding_is(cluster: Cluster, how: str) -> None:
    if how == "database":
        cluster.ask("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
        cluster.ask("CREATE ROLE plain SUPERUSER LOGIN")
        url = cluster.url("plain", "ascii")
    else:
        cluster.ask("CREATE ROLE latin SUPERUSER LOGIN")
        cluster.ask("ALTER ROLE latin SET client_encoding = 'SQL_ASCII'")
        url = cluster.url("latin")
    seen = command("observe", url, "--duration", "2s", "--json")
    assert seen.returncode == 0, seen.stderr
    doctor = command("doctor", "--server", url, "--json")
    assert doctor.returncode == 0, doctor.stderr
    found = {one["name"]: one["detail"] for one in json.loads(doctor.stdout)["findings"]}
    assert found["version"].startswith("PostgreSQL 15")
    done = command("run", "hot-rows", "--engine", "postgres", "--quick", "--server", url, "--dry-run")
    assert "bug" not in done.stderr
    assert done.returncode in (0, 2), done.stderr


def test_a_text_that_is_no_utf8_is_shown_and_ends_nothing(cluster: Cluster) -> None:
    cluster.ask("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with psycopg.connect(
        host="127.0.0.1", port=cluster.port, user="me", dbname="bytes", client_encoding="SQL_ASCII"
    ) as other:
        # The server shows another session's statement byte by byte.
        other.execute(b"SELECT '\xe9\xff'")
        seen = command("observe", cluster.url("me", "bytes"), "--duration", "2s")
    assert seen.returncode == 0, seen.stderr


# Poolers.


@contextmanager
def pooler(cluster: Cluster, mode: str, ignored: str) -> Iterator[int]:
    if not shutil.which("pgbouncer"):
        pytest.skip("NOT TESTED: there is no pgbouncer here (apt-get install pgbouncer)")
    with postgres.folder() as folder:
        own = free_port()
        text = POOLER.format(port=cluster.port, own=own, mode=mode, ignored=ignored, folder=folder)
        (folder / "pgbouncer.ini").write_text(text)
        (folder / "users").write_text('"me" ""\n')
        owner = user.server_user()
        user.give(folder, owner)
        uid, gid = owner or (None, None)
        running = subprocess.Popen(["pgbouncer", "-q", str(folder / "pgbouncer.ini")], user=uid, group=gid)
        try:
            until_s = time.monotonic() + 10
            while time.monotonic() < until_s:
                try:
                    cluster.ask("SELECT 1", "shop", port=own)
                    break
                except psycopg.OperationalError:
                    time.sleep(0.05)
            yield own
        finally:
            running.terminate()
            running.wait(10)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.mark.parametrize("ignored", ["options, extra_float_digits", "extra_float_digits"])
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_is_refused_and_its_sessions_stay_as_they_were(cluster: Cluster, mode: str, ignored: str) -> None:
    with pooler(cluster, mode, ignored) as port:
        for asked in ("observe", "advise"):
            assert "a pooler such as pgbouncer answers" in refused(asked, cluster.url(port=port))
        assert "a pooler such as pgbouncer answers" in refused("doctor", "--server", cluster.url(port=port))
        # The pooler hands out its three sessions in turn.
        for setting, usual in (("lock_timeout", "0"), ("default_transaction_read_only", "off")):
            assert {cluster.ask(f"SHOW {setting}", "shop", port=port)[0][0] for _ in range(6)} == {usual}


@pytest.mark.parametrize("asked", [("observe",), ("doctor", "--server"), ("run", "hot-rows", "--engine", "postgres",
                                   "--quick", "--server")], ids=["observe", "doctor", "run"])  # fmt: skip
def test_a_server_that_lets_one_in_and_says_nothing_is_left_soon(cluster: Cluster, asked: tuple[str, ...]) -> None:
    with pooler(cluster, "transaction", "options, extra_float_digits") as port:
        # A paused pooler accepts every login, and hands out no session.
        admin = psycopg.connect(host="127.0.0.1", port=port, user="me", dbname="pgbouncer", autocommit=True)
        admin.execute(b"PAUSE", prepare=False)
        assert re.search(r"it did not (answer|finish the login) within", refused(*asked, cluster.url(port=port)))
        admin.execute(b"RESUME", prepare=False)
        admin.close()


# Accounts.


def test_a_role_that_may_not_log_in_any_more_is_not_tried_again(cluster: Cluster) -> None:
    name = "monitor"
    cluster.ask(f"CREATE ROLE {name} LOGIN")
    cluster.ask(f"GRANT pg_monitor TO {name}")

    def lock_out() -> None:
        time.sleep(3)
        cluster.ask(f"ALTER ROLE {name} NOLOGIN")
        cluster.ask(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'")

    thread = threading.Thread(target=lock_out)
    before = cluster.log.read_text().count(name)
    thread.start()
    done = command("observe", cluster.url(name), "--duration", "30s", "--json")
    thread.join()
    seen = json.loads(done.stdout)
    assert done.returncode == 1
    assert seen["events"][-1]["kind"] == "refused"
    # One try is by libpq, which does not report the error code, and one by the core.
    assert cluster.log.read_text().count(name) - before <= 2


@contextmanager
def unguarded(place: innodb.Place) -> Iterator[Path]:
    """Yield the socket of a server on this data directory that checks no rights."""
    path = place.root / "open.sock"
    binary = str(place.build.binary)
    share = [f"--lc-messages-dir={place.build.share}"] if place.build.share else []
    command = [binary, "--no-defaults", *share, f"--datadir={place.data}", f"--socket={path}", "--skip-networking",
               f"--pid-file={place.root / 'pid'}", "--skip-grant-tables"]  # fmt: skip
    uid, gid = user.server_user() or (None, None)
    user.give(place.root, user.server_user())
    running = subprocess.Popen(
        child_process.loaded(command, place.build.libraries), user=uid, group=gid, stderr=subprocess.DEVNULL,
        env=dict(child_process.environment(place.build.libraries)),
    )  # fmt: skip
    try:
        until_s = time.monotonic() + 30
        while not path.exists() and time.monotonic() < until_s:
            time.sleep(0.05)
        yield path
    finally:
        running.terminate()
        running.wait(30)


def test_a_mysql_that_checks_no_rights_is_refused_with_the_reason() -> None:
    with innodb.folder() as path:
        place = innodb.Place(innodb.build("mysql-5.7"), path).initialise()
        with unguarded(place) as socket_path:
            url = f"mysql://me@localhost/lab?socket={socket_path}"
            done = command("doctor", "--server", url)
            assert done.returncode == 3
            assert "--skip-grant-tables" in done.stdout
            assert "start it without that" in " ".join(done.stdout.split())
            assert "its primary" not in done.stdout
            seen = command("observe", f"mysql://me@localhost?socket={socket_path}", "--duration", "2s")
            assert seen.returncode == 0, seen.stderr


def test_a_locked_account_of_mysql_is_not_tried_again() -> None:
    with innodb.folder() as path:
        place = innodb.Place(innodb.build("mysql-5.7"), path).initialise()
        with place.server() as server:
            root = pymysql.connect(unix_socket=str(server.socket), user="root", autocommit=True)
            root.cursor().execute("CREATE USER monitor@localhost")

            def lock_out() -> None:
                time.sleep(3)
                root.cursor().execute("ALTER USER monitor@localhost ACCOUNT LOCK")
                with root.cursor() as cursor:
                    cursor.execute("SELECT id FROM information_schema.processlist WHERE user = 'monitor'")
                    for (number,) in cursor.fetchall():
                        cursor.execute(f"KILL {number}")

            thread = threading.Thread(target=lock_out)
            thread.start()
            url = f"mysql://monitor@localhost?socket={server.socket}"
            done = command("observe", url, "--duration", "30s", "--json")
            thread.join()
            assert json.loads(done.stdout)["events"][-1]["kind"] == "refused"
            with root.cursor() as cursor:
                cursor.execute("SHOW GLOBAL STATUS LIKE 'Locked_connects'")
                assert cursor.fetchone() == ("Locked_connects", "1")
            root.close()


# Settings that a server gives new sessions.


def test_sessions_of_postgres_are_not_those_that_a_role_or_database_asks_for(cluster: Cluster) -> None:
    cluster.ask("CREATE ROLE other")
    cluster.ask("CREATE ROLE turned LOGIN")
    cluster.ask("GRANT other TO turned")
    cluster.ask("ALTER ROLE turned SET role = 'other'")
    cluster.ask('CREATE DATABASE "Odd-name" OWNER turned')
    cluster.ask("ALTER ROLE turned SET statement_timeout = '1ms'")
    cluster.ask("CREATE DATABASE turned OWNER turned")
    seen = command("observe", cluster.url("turned", "Odd-name"), "--duration", "2s")
    assert seen.returncode == 0, seen.stderr
    done = command("doctor", "--server", cluster.url("turned", "turned"), "--json")
    assert done.returncode == 0, done.stdout + done.stderr


def test_sessions_of_mysql_are_not_those_that_the_server_gives_others() -> None:
    with innodb.folder() as path:
        place = innodb.Place(innodb.build("mysql-8.0"), path).initialise()
        with place.server() as server:
            root = pymysql.connect(unix_socket=str(server.socket), user="root", autocommit=True)
            for setting in ("sql_select_limit = 1", "sql_mode = 'ANSI_QUOTES'", "wait_timeout = 1",
                            "max_join_size = 1", "max_execution_time = 1"):  # fmt: skip
                root.cursor().execute(f"SET GLOBAL {setting}")
            root.cursor().execute("CREATE USER plain@localhost IDENTIFIED WITH mysql_native_password BY ''")
            root.cursor().execute("GRANT PROCESS ON *.* TO plain@localhost")
            root.cursor().execute("GRANT ALL ON lab.* TO plain@localhost")
            url = f"mysql://plain@localhost/lab?socket={server.socket}"
            seen = command("observe", url, "--duration", "3s", "--json")
            assert seen.returncode == 0, seen.stderr
            done = command("doctor", "--server", url, "--json")
            assert done.returncode == 0, done.stdout + done.stderr


# Programs.


def test_a_script_that_starts_a_server_is_measured_by_its_binary(tmp_path: Path) -> None:
    with postgres.folder() as folder:
        script = folder / "postgres"
        binary = postgres.build("postgres-17").binary
        script.write_text(f'#!/bin/sh\nexec {binary} "$@"\n')
        script.chmod(0o755)
        sweep = ("run", "hot-rows", "--engine", "postgres", "--quick", "--server", script, "--out", folder / "out")
        planned = command(*sweep, "--dry-run")
        assert planned.returncode == 0, planned.stderr
        done = command(*sweep, "--set", "rows=20000", "--sweep", "hot_rows=2000,4000", "--probe", "page-trace",
                       seconds=300)  # fmt: skip
        assert done.returncode == 0, done.stderr
        run = json.loads(next((folder / "out").glob("hot-rows-*/runs/*/run.json")).read_text())
        assert run["page_trace"]["status"] == "ok"
        assert str(binary) in json.dumps(run)


def test_a_frozen_server_is_left_soon_and_goes_on_afterwards(cluster: Cluster) -> None:
    cluster.process.send_signal(signal.SIGSTOP)
    try:
        assert "cannot be used" in refused("doctor", "--server", cluster.url())
    finally:
        cluster.process.send_signal(signal.SIGCONT)
    assert cluster.ask("SELECT 1") == [(1,)]
