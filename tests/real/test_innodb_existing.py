"""A server that bufferlab did not start: bufferlab uses one schema of it, and leaves its settings unchanged."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control, programs
from bufferlab.engines.innodb.connection import FORM, connect
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.servers.existing.address import parse, private
from bufferlab.engines.servers.hosts.running import RunningHost
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.engines.servers.run import SchemaMark
from bufferlab.errors import EnvironmentLackingError
from bufferlab.knob import Native
from support import innodb
from support.existing import FROM_THE_ENVIRONMENT, HOT_ROWS, READS, TPCC, Existing, relay
from support.fake import wait_until

pytestmark = pytest.mark.real

MIB = 1 << 20
MYSQL = RunningHost(InnodbFamily("mysql"))
RUN = InnodbFamily("mysql").run
SETTINGS = ("innodb_buffer_pool_size", "innodb_lru_scan_depth", "innodb_io_capacity")


class Server(Existing):
    """A separate server of this test."""

    def __init__(self, server: PrivateServer, root: Path) -> None:
        self.server = server
        url = f"mysql://bufferlab@localhost/lab?socket={server.socket}"
        knobs = {"page_size": 16384, "pool_size": 64 * MIB, "statements": "spec"}
        # bufferlab's default is another value than this server's, so do not ask for the default.
        super().__init__("mysql", url, root, {**knobs, "flush_method": "O_DIRECT"})

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self.server.connect()) as connection:
            return connection.rows(query)

    def sweep(self) -> subprocess.CompletedProcess[str]:
        """Run a sweep by the command line that asks for the server's settings."""
        return self.command(
            "run", "hot-rows", "--engine", "mysql", "--server", self.url,
            "--smoke", "--set", "pool_size=64MiB", "--set", "lru_scan_depth=auto", "--set", "old_blocks_time=auto",
            "--set", "rows=20000", "--repetitions", "1",
            "--sweep", "hot_rows=500,5000", "--connections", "2", "--share-device",
            "--out", self.root / "out", "--json",
        )  # fmt: skip

    def settings(self) -> dict[str, str]:
        with closing(self.server.connect()) as connection:
            return {name: control.variables(connection)[name] for name in SETTINGS}


@pytest.fixture(scope="module")
def started() -> Iterator[Server]:
    """Start MySQL 5.7 with a pool of 64 MiB in chunks of 16 MiB."""
    with innodb.folder() as path:
        place = innodb.Place(innodb.build("mysql-5.7"), path)
        place.settings = {"innodb_buffer_pool_chunk_size": str(16 * MIB)}
        place.initialise()
        identity = place.with_accounts()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BUFFERLAB_PASSWORD", identity.password)
            patch.setenv("BUFFERLAB_CACHE", str(path / "cache"))
            with place.server((identity.user, identity.password), connections=20) as server:
                yield Server(server, path)


@pytest.fixture
def existing(started: Server, tmp_path: Path) -> Server:
    """Return the server without a schema of bufferlab."""
    started.ask("DROP DATABASE IF EXISTS lab")
    return Server(started.server, tmp_path)


@pytest.fixture
def loaded(started: Server, tmp_path: Path) -> Server:
    """Return the server with hot rows. A test leaves them unchanged, so that the next test need not load them."""
    server = Server(started.server, tmp_path)
    with closing(started.server.connect()) as connection:
        mark = RUN.marked(connection, "lab")
    drop = lambda: started.ask("DROP DATABASE IF EXISTS lab")  # noqa: E731
    server.load_hot_rows_once(started.root / "hot-rows", mark, drop)
    return server


def test_a_server_is_reached_over_tcp_as_well(existing: Server) -> None:
    with relay(existing.server.socket) as port:
        existing.url = f"mysql://bufferlab@127.0.0.1:{port}/lab"
        assert existing.load(HOT_ROWS).kind == "ok"
        before = existing.settings()
        outcome = existing.run(READS)
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        assert outcome.result["measured"]["transactions"] == 300
        assert existing.settings() == before


def test_an_account_that_must_use_tls_gets_that_as_its_hint(existing: Server) -> None:
    existing.ask("CREATE USER IF NOT EXISTS 'needs_tls'@'localhost' IDENTIFIED BY 'secret' REQUIRE SSL")
    address = parse(existing.url.replace("bufferlab@", "needs_tls@"), FORM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUFFERLAB_PASSWORD", "secret")
        with pytest.raises(EnvironmentLackingError, match="Access denied") as caught:
            connect(address)
    assert "REQUIRE SSL" in str(caught.value.hint)


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mysql-8.0", "mysql-9"])
def test_a_new_account_with_caching_sha2_password_logs_in_over_tcp(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a relay to the socket, the client would not need the server's key."""
    port = innodb.listen(monkeypatch)
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "a secret")
    keys = {"caching_sha2_password_auto_generate_rsa_keys": "ON"}
    with innodb.folder() as path:
        place = innodb.Place(innodb.build(name), path).initialise()
        with place.server(connections=20, settings=keys) as server:
            with closing(server.connect()) as connection:
                for statement in (
                    "CREATE USER new@'%' IDENTIFIED WITH caching_sha2_password BY 'a secret'",
                    "GRANT ALL ON lab.* TO new@'%'",
                    "GRANT PROCESS ON *.* TO new@'%'",
                ):
                    connection.rows(statement)
            knobs: dict[str, Native] = {"page_size": 16384, "pool_size": 64 * MIB, "statements": "spec"}
            existing = Existing("mysql", f"mysql://new@127.0.0.1:{port}/lab", tmp_path, knobs)
            assert existing.load(HOT_ROWS).kind == "ok"
            outcome = existing.run(READS)
            assert outcome.kind == "ok", outcome


def test_a_run_measures_with_the_settings_as_found_and_changes_none(existing: Server) -> None:
    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    outcome = existing.run(READS)
    assert outcome.kind == "ok", outcome
    result = outcome.result
    assert result is not None
    assert existing.settings() == before
    assert result["actual"]["pool_size"] == 64 * MIB
    assert result["actual"]["lru_scan_depth"] == 1024
    assert result["measured"]["transactions"] == 300
    assert "only reads" in result["start"]
    assert "not bufferlab's own" in result["caveats"][0]
    assert result["notes"]["server"] == FROM_THE_ENVIRONMENT
    assert "flush_method" in result["as_found"]
    check = existing.do("check", workload=READS, delivered_orders=[])
    assert check.result is not None, check
    assert all(condition["passed"] for condition in check.result["conditions"])
    secret = os.environ["BUFFERLAB_PASSWORD"]
    assert secret not in str(outcome) + existing.log.read_text()
    assert existing.holding(secret) == []


def test_other_peoples_connections_are_told(loaded: Server) -> None:
    with closing(loaded.server.connect()), closing(loaded.server.connect()):
        result = loaded.run(READS).result
    assert result is not None
    assert any("2 other connections were open" in said for said in result["caveats"])


def test_settings_that_the_server_has_otherwise_are_named_with_both_values_and_none_is_changed(loaded: Server) -> None:
    before = loaded.settings()
    outcome = loaded.run(READS, pool_size=32 * MIB, buffer_pool_instances=2)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert (
        "innodb_buffer_pool_size is 64 MiB, 32 MiB asked; innodb_buffer_pool_instances is 1, 2" in outcome.failure.what
    )
    assert f"--set pool_size={64 * MIB} --set buffer_pool_instances=1" in str(outcome.failure.hint)
    assert "private server" in str(outcome.failure.hint)
    assert loaded.run(READS, buffer_pool_instances=1).kind == "ok"
    assert loaded.settings() == before


def test_another_page_size_is_refused_before_anything_is_loaded(existing: Server) -> None:
    knobs = {"server": existing.url, "page_size": 4096}
    outcome = existing.do("load", knobs=knobs, workload=HOT_ROWS, threads=2)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "pages of 16384 bytes" in outcome.failure.what
    assert existing.ask("SHOW DATABASES LIKE 'lab'") == []


def test_a_server_that_nobody_may_write_is_called_that(existing: Server) -> None:
    existing.ask("SET GLOBAL super_read_only = ON")
    try:
        outcome = existing.load(HOT_ROWS)
    finally:
        existing.ask("SET GLOBAL super_read_only = OFF")
        existing.ask("SET GLOBAL read_only = OFF")
    assert outcome.kind == "environment", outcome
    assert outcome.failure is not None
    assert "--super-read-only" in outcome.failure.what
    assert "name its primary" in str(outcome.failure.hint)


def test_a_schema_that_is_somebody_elses_is_refused_and_left_alone(existing: Server) -> None:
    existing.ask("CREATE DATABASE lab")
    existing.ask("CREATE TABLE lab.theirs (id INT PRIMARY KEY)")
    outcome = existing.load(HOT_ROWS)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "tables that bufferlab did not make (theirs" in outcome.failure.what
    assert existing.ask("SHOW TABLES FROM lab") == [("theirs",)]


def test_rows_that_a_run_updated_are_loaded_anew_for_the_next(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    as_loaded = existing.ask("SELECT SUM(k) FROM lab.sbtest1")
    for _ in range(2):
        outcome = existing.run({**READS, "update_percent": 100})
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        assert "loaded into the server's schema for it" in outcome.result["start"]
        # The workload itself does not change this column.
        assert existing.ask("SELECT SUM(k) FROM lab.sbtest1") == as_loaded
        existing.ask("UPDATE lab.sbtest1 SET k = 0")


@pytest.mark.slow  # The test loads TPC-C twice.
def test_a_workload_that_writes_finds_its_data_loaded_anew(existing: Server) -> None:
    assert existing.load(TPCC).kind == "ok"
    for _ in range(2):
        outcome = existing.run({**TPCC, "seed": 5}, 200)
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        assert "loaded into the server's schema for it" in outcome.result["start"]
    check = existing.do("check", workload=TPCC, delivered_orders=outcome.result["delivered_orders"])
    assert check.result is not None, check
    # Two runs on the same data would have delivered twice as much as the second one counted.
    assert [condition["passed"] for condition in check.result["conditions"]] == [True] * 13


def test_a_stop_request_ends_a_run_and_leaves_the_settings(loaded: Server) -> None:
    before = loaded.settings()
    assert loaded.run_and_stop().kind == "interrupted"
    assert loaded.settings() == before


def test_whoever_comes_after_a_killed_worker_finds_the_schema_free_and_the_settings_as_before(loaded: Server) -> None:
    before = loaded.settings()
    assert loaded.run_and_kill().kind == "crash"
    wait_until(lambda: not _sessions(loaded), "the killed worker's connections to end", 30)
    outcome = loaded.run(READS)
    assert outcome.result is not None, outcome
    assert outcome.result["confounds"] == []
    assert loaded.settings() == before


def test_two_runs_do_not_use_one_schema(loaded: Server) -> None:
    with MYSQL.locked(MYSQL.parse(loaded.url)):
        outcome = loaded.run(READS)
        assert outcome.kind == "environment"
        assert outcome.failure is not None
        assert "another run of bufferlab uses this schema" in outcome.failure.what
        other = Server(loaded.server, loaded.root / "other")
        other.root.mkdir()
        other.url = loaded.url.replace("/lab?", "/other?")
        assert other.load(HOT_ROWS).kind == "ok"
    assert loaded.ask("SELECT COUNT(*) FROM lab.sbtest1") == loaded.ask("SELECT COUNT(*) FROM other.sbtest1")
    loaded.ask("DROP DATABASE other")


def test_what_somebody_else_changes_during_a_run_fails_it(loaded: Server) -> None:
    before = loaded.settings()

    def interfere(event: dict[str, Any]) -> None:
        if event.get("event") == "sample" and event.get("edge") == "start":
            loaded.ask("SET GLOBAL innodb_lru_scan_depth = 300")

    try:
        outcome = loaded.run(READS, 40_000, interfere)
        assert outcome.kind == "environment", outcome
        assert outcome.failure is not None
        assert "lru_scan_depth from 1024 to 300" in outcome.failure.what
    finally:
        loaded.ask(f"SET GLOBAL innodb_lru_scan_depth = {before['innodb_lru_scan_depth']}")


def test_a_table_or_view_of_somebody_elses_in_our_schema_is_refused_and_nothing_is_dropped(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    existing.ask("CREATE TABLE lab.users_own (id INT PRIMARY KEY)")
    existing.ask("CREATE VIEW lab.seen AS SELECT id FROM lab.sbtest1")
    shutil.rmtree(existing.database)
    outcome = existing.load(TPCC)
    assert outcome.kind == "usage", outcome
    assert outcome.failure is not None
    assert "tables that bufferlab did not make (seen, users_own)" in outcome.failure.what
    there = {"bufferlab_marker", "sbtest1", "seen", "users_own"}
    assert {name for (name,) in existing.ask("SHOW TABLES FROM lab")} == there
    existing.ask("DROP VIEW lab.seen")
    existing.ask("DROP TABLE lab.users_own")
    assert existing.load(HOT_ROWS).kind == "ok"


STRANGE = {
    "trigger pwn on sbtest1 (BEFORE)": (
        "CREATE TRIGGER lab.pwn BEFORE UPDATE ON lab.sbtest1 FOR EACH ROW SET NEW.pad = CURRENT_USER()",
        "DROP TRIGGER lab.pwn",
    ),
    "function evil (": (
        "CREATE FUNCTION lab.evil() RETURNS INT SQL SECURITY INVOKER READS SQL DATA RETURN 1", "DROP FUNCTION lab.evil"
    ),
    "event later (": ("CREATE EVENT lab.later ON SCHEDULE EVERY 1 YEAR DO SET @a = 1", "DROP EVENT lab.later"),
    "index mine on sbtest1 (c)": ("CREATE INDEX mine ON lab.sbtest1 (c)", "DROP INDEX mine ON lab.sbtest1"),
    "table sbtest1 (id, k, c, pad, kept)": (
        "ALTER TABLE lab.sbtest1 ADD kept TEXT", "ALTER TABLE lab.sbtest1 DROP COLUMN kept"
    ),
}  # fmt: skip
"""Objects that another account with rights on our schema can put there: our word for it, and statements that make and
remove it."""


def test_what_others_put_on_our_tables_is_named_and_neither_run_nor_dropped(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    address = MYSQL.parse(existing.url)
    with closing(existing.server.connect()) as connection:
        for named, (make, undo) in STRANGE.items():
            connection.rows(make)
            before = RUN.objects(connection, "lab")
            with pytest.raises(EngineFailure) as caught:
                RUN.claim(connection, address)
            assert caught.value.kind == "usage"
            assert named in caught.value.what
            if "trigger" in named:
                assert existing.run({**READS, "update_percent": 100}).kind == "usage"
            assert RUN.objects(connection, "lab") == before
            connection.rows(undo)
        # A table that took the name of one of ours, even if the list contains the name.
        connection.rows("DROP TABLE lab.sbtest1")
        connection.rows("CREATE TABLE lab.sbtest1 (precious INT)")
        with pytest.raises(EngineFailure, match=r"did not make \(sbtest1\)"):
            RUN.claim(connection, address)
        connection.rows("DROP TABLE lab.sbtest1")
        RUN.claim(connection, address)


@pytest.fixture
def tenant(existing: Server) -> Iterator[Server]:
    """Return the server with the schema lab, in which another account has all rights, and no other rights."""
    existing.ask("CREATE DATABASE lab")
    existing.ask("CREATE USER tenant@localhost IDENTIFIED WITH mysql_native_password BY 'rented'")
    existing.ask("GRANT ALL ON lab.* TO tenant@localhost")
    existing.ask("GRANT PROCESS ON *.* TO tenant@localhost")
    try:
        yield existing
    finally:
        existing.ask("DROP USER tenant@localhost")


def test_an_account_with_great_rights_does_not_enter_a_schema_where_others_may_make_functions(
    tenant: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = tenant.load(HOT_ROWS)
    assert outcome.kind == "environment", outcome
    assert outcome.failure is not None
    assert "functions that tenant@localhost may make there would run with them" in outcome.failure.what
    assert "an account with PROCESS and ALL on lab.*" in str(outcome.failure.hint)
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "rented")
    tenant.url = tenant.url.replace("//bufferlab@", "//tenant@")
    assert tenant.load(HOT_ROWS).kind == "ok"
    outcome = tenant.run(READS)
    assert outcome.kind == "ok", outcome


def test_a_view_that_a_tenant_planted_in_the_markers_place_runs_nothing(tenant: Server) -> None:
    address = MYSQL.parse(tenant.url)
    with closing(tenant.server.connect()) as connection:
        RUN.claim(connection, address)
        RUN.mark(connection, "lab", SchemaMark("d", "clean", ()))
    with closing(connect(private(str(tenant.server.socket), "tenant", "rented"), "lab")) as evil:
        # A view in place of the mark, whose function would run with the rights of the user who reads or writes it.
        evil.rows("CREATE TABLE seen (who TEXT)")
        evil.rows("CREATE FUNCTION spy() RETURNS TEXT SQL SECURITY INVOKER MODIFIES SQL DATA "
                           "BEGIN INSERT INTO lab.seen VALUES (CURRENT_USER()); RETURN 'x'; END")  # fmt: skip
        evil.rows("ALTER TABLE bufferlab_marker RENAME hidden")
        evil.rows("CREATE SQL SECURITY INVOKER VIEW bufferlab_marker AS "
                           "SELECT id, data_id, state, made, spy() AS objects FROM hidden")  # fmt: skip
        with closing(tenant.server.connect()) as connection:
            assert RUN.marked(connection, "lab") is None
            for write in (
                lambda: RUN.mark(connection, "lab", SchemaMark("d", "clean", ())),
                lambda: RUN.claim(connection, address),
            ):
                with pytest.raises(EngineFailure):
                    write()
        assert tenant.load(HOT_ROWS).kind == "environment"
        assert evil.rows("SELECT * FROM seen") == []
    assert tenant.ask("SHOW TABLES FROM lab LIKE 'hidden'") == [("hidden",)]


@pytest.mark.slow
def test_a_server_that_is_stopped_fails_the_run(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    begun = time.monotonic()

    def freeze(event: dict[str, Any]) -> None:
        if event.get("event") == "sample" and event.get("edge") == "start":
            os.kill(existing.server.pid, signal.SIGSTOP)

    try:
        outcome = existing.run(READS, 100_000_000, freeze, silent_seconds=150)
    finally:
        os.kill(existing.server.pid, signal.SIGCONT)
    assert time.monotonic() - begun < 150
    assert outcome.kind == "io", outcome
    assert outcome.failure is not None
    assert "has not answered for 30 s" in outcome.failure.what


@pytest.mark.figures
def test_a_sweep_through_the_command_line_leaves_settings_and_no_password(existing: Server) -> None:
    before = existing.settings()
    done = existing.sweep()
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [point["status"] for point in answer["points"]] == ["ok", "ok"]
    (caveats,) = (check["detail"] for check in answer["checks"] if check["name"] == "foreign_server")
    assert "not bufferlab's own" in caveats
    assert "other connections" not in caveats + done.stderr
    assert "no_confounds" not in answer["failed_checks"]
    assert re.search(r"^loaded [0-9.]+ MiB in .* \(20,000 rows\); kept in \S+/lab$", done.stderr, re.MULTILINE)
    assert existing.settings() == before
    for name in ("run.json", "report.html"):
        assert any(FROM_THE_ENVIRONMENT in file.read_text() for file in (existing.root / "out").rglob(name)), name
    assert existing.holding(os.environ["BUFFERLAB_PASSWORD"]) == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in programs.PACKAGES])
def test_lock_marker_and_rights_are_the_same_on_every_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with innodb.folder() as path:
        place = innodb.Place(innodb.build(name), path).initialise()
        identity = place.with_accounts()
        monkeypatch.setenv("BUFFERLAB_PASSWORD", identity.password)
        host = RunningHost(place.family)
        with place.server((identity.user, identity.password), connections=20) as server:
            url = f"mysql://bufferlab@localhost/lab?socket={server.socket}"
            lab, other = (host.parse(url.replace("/lab?", f"/{of}?")) for of in ("lab", "other"))
            with closing(server.connect()) as connection:
                # The question which other users may make functions uses SQL that every server understands.
                RUN.require_safe_for(connection, lab)
                connection.rows("CREATE USER tenant@localhost IDENTIFIED BY 'a tenant of lab'")
                for grant in ("CREATE ROUTINE ON lab.*", "TRIGGER ON `l%`.*", "CREATE VIEW ON lab.t"):
                    connection.rows("CREATE DATABASE IF NOT EXISTS lab")
                    connection.rows("CREATE TABLE IF NOT EXISTS lab.t (id INT)")
                    connection.rows(f"GRANT {grant} TO tenant@localhost")
                    with pytest.raises(EngineFailure, match="functions that tenant@localhost may make"):
                        RUN.require_safe_for(connection, lab)
                    connection.rows(f"REVOKE {grant} FROM tenant@localhost")
                    RUN.require_safe_for(connection, lab)
                connection.rows("DROP DATABASE lab")
                with host.locked(lab), host.locked(other):
                    assert not RUN.lock(connection, "lab", 0.1)
                    RUN.claim(connection, lab)
                    RUN.mark(connection, "lab", SchemaMark("d", "clean", ("t",)))
                assert RUN.lock(connection, "lab", 5)
        with (
            place.server((identity.user, identity.password), connections=20) as server,
            closing(server.connect()) as connection,
        ):
            assert RUN.marked(connection, "lab") == SchemaMark("d", "clean", ("t",))


def _sessions(existing: Server) -> list[tuple[Any, ...]]:
    time.sleep(0.05)
    return [row for row in existing.ask("SHOW PROCESSLIST") if row[3] == "lab"]
