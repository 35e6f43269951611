"""A server that bufferlab did not start: one schema of it is used, its settings are as before however a run ends."""

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

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control, owned_schema, packages
from bufferlab.engines.innodb.connection import FORM, connect
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.innodb.global_variables import GlobalVariables
from bufferlab.engines.servers.existing import changes, journal
from bufferlab.engines.servers.existing.address import parse, private
from bufferlab.engines.servers.existing.mark import Mark
from bufferlab.engines.servers.hosts.running import RunningHost
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError, Problem
from bufferlab.knob import Native
from support import innodb
from support.existing import FROM_THE_ENVIRONMENT, HOT_ROWS, READS, TPCC, Existing, relay
from support.fake import wait_until

pytestmark = pytest.mark.real

MIB = 1 << 20
MYSQL = RunningHost(InnodbFamily("mysql"))
IO = "innodb_io_capacity"
SETTINGS = ("innodb_buffer_pool_size", "innodb_lru_scan_depth", "innodb_io_capacity")


class Server(Existing):
    """A server of the test's own."""

    def __init__(self, server: PrivateServer, root: Path) -> None:
        self.server = server
        url = f"mysql://bufferlab@localhost/lab?socket={server.socket}"
        knobs = {"page_size": 16384, "pool_size": 32 * MIB, "statements": "spec"}
        # A default of bufferlab's, which this server does not have: not asked of it.
        super().__init__("mysql", url, root, {**knobs, "flush_method": "O_DIRECT"})

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self.server.connect()) as connection:
            return control.rows(connection, query)

    def sweep(self, *more: str) -> subprocess.CompletedProcess[str]:
        """A sweep through the command line, which asks for a pool of 32 MiB."""
        return self.command(
            "run", "hot-rows", "--engine", "mysql", "--server", self.url,
            "--smoke", "--set", "pool_size=32MiB", "--set", "rows=20000", "--repetitions", "1",
            "--sweep", "hot_rows=500,5000", "--connections", "2", "--share-device",
            "--out", self.root / "out", "--json", *more,
        )  # fmt: skip

    def settings(self) -> dict[str, str]:
        with closing(self.server.connect()) as connection:
            return {name: control.variables(connection)[name] for name in SETTINGS}


@pytest.fixture(scope="module")
def started() -> Iterator[Server]:
    """MySQL 5.7 with a pool of 64 MiB in chunks of 16 MiB."""
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
    """The server with no schema of bufferlab's."""
    started.ask("DROP DATABASE IF EXISTS lab")
    return Server(started.server, tmp_path)


@pytest.fixture
def loaded(started: Server, tmp_path: Path) -> Server:
    """The server with hot rows, which a test leaves as they are: the next one has them without a load."""
    server = Server(started.server, tmp_path)
    with closing(started.server.connect()) as connection:
        mark = owned_schema.marked(connection, "lab")
    drop = lambda: started.ask("DROP DATABASE IF EXISTS lab")  # noqa: E731
    server.load_hot_rows_once(started.root / "hot-rows", mark, drop)
    return server


def test_a_server_is_reached_over_tcp_as_well(existing: Server) -> None:
    with relay(existing.server.socket) as port:
        existing.url = f"mysql://bufferlab@127.0.0.1:{port}/lab"
        assert existing.load(HOT_ROWS).kind == "ok"
        before = existing.settings()
        outcome = existing.run(READS, lru_scan_depth=256)
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        assert outcome.result["measured"]["transactions"] == 300
        assert outcome.result["actual"]["lru_scan_depth"] == 256
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
    """Over a relay to the socket it would not need the server's key."""
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
                    control.rows(connection, statement)
            knobs: dict[str, Native] = {"page_size": 16384, "pool_size": 64 * MIB, "statements": "spec"}
            existing = Existing("mysql", f"mysql://new@127.0.0.1:{port}/lab", tmp_path, knobs)
            assert existing.load(HOT_ROWS).kind == "ok"
            outcome = existing.run(READS, allowed=False)
            assert outcome.kind == "ok", outcome


def test_a_run_changes_what_may_be_changed_and_puts_it_back(existing: Server) -> None:
    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    outcome = existing.run(READS, lru_scan_depth=256)
    assert outcome.kind == "ok", outcome
    result = outcome.result
    assert result is not None
    assert existing.settings() == before
    assert not list(journal.folder().glob("*"))
    # As read back between the change and the first transaction.
    assert result["actual"]["pool_size"] == 32 * MIB
    assert result["actual"]["lru_scan_depth"] == 256
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


def test_without_leave_nothing_is_changed_and_the_setting_is_named(loaded: Server) -> None:
    before = loaded.settings()
    outcome = loaded.run(READS, allowed=False)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "innodb_buffer_pool_size is 64 MiB, 32 MiB asked" in outcome.failure.what
    assert outcome.failure.hint is not None
    assert "--allow-online-changes" in outcome.failure.hint
    assert loaded.run(READS, allowed=False, pool_size=64 * MIB).kind == "ok"
    assert loaded.settings() == before


def test_what_needs_a_restart_is_refused_by_name_and_what_was_changed_before_is_put_back(loaded: Server) -> None:
    before = loaded.settings()
    outcome = loaded.run(READS, lru_scan_depth=256, buffer_pool_instances=2)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "innodb_buffer_pool_instances needs a restart" in outcome.failure.what
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
        # The workload itself leaves this column alone.
        assert existing.ask("SELECT SUM(k) FROM lab.sbtest1") == as_loaded
        existing.ask("UPDATE lab.sbtest1 SET k = 0")


@pytest.mark.slow  # TPC-C is loaded twice.
def test_a_workload_that_writes_finds_its_data_loaded_anew(existing: Server) -> None:
    assert existing.load(TPCC).kind == "ok"
    for _ in range(2):
        outcome = existing.run({**TPCC, "seed": 5}, 200)
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        assert "loaded into the server's schema for it" in outcome.result["start"]
    check = existing.do("check", workload=TPCC, delivered_orders=outcome.result["delivered_orders"])
    assert check.result is not None, check
    # Two runs on the same data would have delivered twice what the second one counted.
    assert [condition["passed"] for condition in check.result["conditions"]] == [True] * 13


def test_settings_are_put_back_after_a_stop_request(loaded: Server) -> None:
    before = loaded.settings()
    assert loaded.run_and_stop().kind == "interrupted"
    assert loaded.settings() == before


def test_settings_that_a_killed_worker_left_are_put_back_by_whoever_comes_next_where_nobody_changed_them_since(
    loaded: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before, cache = loaded.settings(), os.environ["BUFFERLAB_CACHE"]
    assert loaded.run_and_kill(lru_scan_depth=256, io_capacity=150).kind == "crash"
    changed = loaded.settings()
    assert changed["innodb_lru_scan_depth"] == "256"
    (state,) = journal.folder().glob("*.json")
    assert state.stat().st_mode & 0o777 == 0o600
    assert os.environ["BUFFERLAB_PASSWORD"] not in state.read_text()
    wait_until(lambda: not _sessions(loaded), "the killed worker's connections to end", 30)
    try:
        loaded.ask("SET GLOBAL innodb_io_capacity = 190")
        # Without leave nothing is put back, and what is left is told. The schema's lock went with its connection.
        outcome = loaded.run(READS, allowed=False)
        assert outcome.result is not None, outcome
        said = " ".join(outcome.result["confounds"])
        assert "innodb_lru_scan_depth is 256, as an earlier run of bufferlab left it; it was 1024" in said
        assert "innodb_io_capacity is" not in said
        assert loaded.settings() == {**changed, "innodb_io_capacity": "190"}
        # A bufferlab with another cache finds on the server what it has no journal of, and sets nothing by it.
        monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "another"))
        address = MYSQL.parse(loaded.url)
        with pytest.raises(EngineFailure) as caught, changes.turn(GlobalVariables(), address):
            pytest.fail("it believed the mark")
        assert "SET GLOBAL innodb_lru_scan_depth = 1024" in caught.value.what
        assert loaded.settings() == {**changed, "innodb_io_capacity": "190"}
        monkeypatch.setenv("BUFFERLAB_CACHE", cache)
        left = ["innodb_buffer_pool_size", "innodb_lru_scan_depth"]
        assert put_back_everywhere() == [(loaded.url, left)]
        assert put_back_everywhere() == []
        assert loaded.ask("SELECT changed FROM lab.bufferlab_marker") == [(None,)]
        assert loaded.settings() == {**before, "innodb_io_capacity": "190"}
    finally:
        loaded.ask(f"SET GLOBAL innodb_io_capacity = {before['innodb_io_capacity']}")


def test_while_one_run_may_change_settings_no_other_may_and_what_others_change_fails_it(loaded: Server) -> None:
    before, refused = loaded.settings(), []

    def interfere(event: dict[str, Any]) -> None:
        if event.get("event") == "sample" and event.get("edge") == "start":
            other = MYSQL.parse(loaded.url.replace("/lab?", "/other?"))
            with pytest.raises(EngineFailure) as caught, changes.turn(GlobalVariables(), other, 0.1):
                pytest.fail("two at a time")
            refused.append(caught.value.what)
            loaded.ask("SET GLOBAL innodb_lru_scan_depth = 300")

    try:
        outcome = loaded.run(READS, 40_000, interfere, lru_scan_depth=256)
        assert refused == ["another run of bufferlab may change this server's settings"]
        assert outcome.kind == "environment", outcome
        assert outcome.failure is not None
        assert "lru_scan_depth from 256 to 300" in outcome.failure.what
        assert loaded.settings() == {**before, "innodb_lru_scan_depth": "300"}
    finally:
        loaded.ask(f"SET GLOBAL innodb_lru_scan_depth = {before['innodb_lru_scan_depth']}")


def test_a_second_sweep_that_may_change_settings_is_refused_before_it_loads(existing: Server) -> None:
    with engines.behaviour("mysql").reserved([existing.url.replace("/lab?", "/other?")]):
        done = existing.sweep("--allow-online-changes")
    assert done.returncode == 3, done.stderr
    assert "another sweep of bufferlab may change this server's settings" in done.stderr
    assert existing.ask("SHOW DATABASES LIKE 'lab'") == []


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
"""What another account with rights on our schema can put there, by what we call it, and how it is taken away again."""


def test_what_others_put_on_our_tables_is_named_and_neither_run_nor_dropped(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    address = MYSQL.parse(existing.url)
    with closing(existing.server.connect()) as connection:
        for named, (make, undo) in STRANGE.items():
            control.rows(connection, make)
            before = owned_schema.objects(connection, "lab")
            with pytest.raises(EngineFailure) as caught:
                owned_schema.claim(connection, address)
            assert caught.value.kind == "usage"
            assert named in caught.value.what
            if "trigger" in named:
                assert existing.run({**READS, "update_percent": 100}).kind == "usage"
            assert owned_schema.objects(connection, "lab") == before
            control.rows(connection, undo)
        # A table that took the name of one of ours, whatever the list says.
        control.rows(connection, "DROP TABLE lab.sbtest1")
        control.rows(connection, "CREATE TABLE lab.sbtest1 (precious INT)")
        with pytest.raises(EngineFailure, match=r"did not make \(sbtest1\)"):
            owned_schema.claim(connection, address)
        control.rows(connection, "DROP TABLE lab.sbtest1")
        owned_schema.claim(connection, address)


@pytest.fixture
def tenant(existing: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The schema lab, in which another account has all rights, and no others."""
    existing.ask("CREATE DATABASE lab")
    existing.ask("CREATE USER tenant@localhost IDENTIFIED WITH mysql_native_password BY 'rented'")
    existing.ask("GRANT ALL ON lab.* TO tenant@localhost")
    existing.ask("GRANT PROCESS ON *.* TO tenant@localhost")
    monkeypatch.setenv("BUFFERLAB_ADMIN_PASSWORD", os.environ["BUFFERLAB_PASSWORD"])
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
    assert "?admin_user=bufferlab" in str(outcome.failure.hint)
    # As the tenant, with settings changed by the other account.
    before = tenant.settings()
    monkeypatch.setenv("BUFFERLAB_PASSWORD", "rented")
    tenant.url = tenant.url.replace("//bufferlab@", "//tenant@") + "&admin_user=bufferlab"
    assert tenant.load(HOT_ROWS).kind == "ok"
    outcome = tenant.run(READS, lru_scan_depth=256)
    assert outcome.kind == "ok", outcome
    assert outcome.result is not None
    assert outcome.result["actual"]["lru_scan_depth"] == 256
    assert tenant.settings() == before
    assert not list(journal.folder().glob("*"))


def test_a_record_and_a_view_that_a_tenant_planted_set_nothing_and_run_nothing(
    tenant: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = MYSQL.parse(tenant.url)
    settings, since = GlobalVariables(), ""
    with closing(tenant.server.connect()) as connection:
        owned_schema.claim(connection, address)
        owned_schema.mark(connection, "lab", Mark("d", "clean", ()))
        since = settings.since(connection)
    variables = {"general_log_file": {"found": "/tmp/x"}, "innodb_lru_scan_depth": {"found": "7777"}}
    record = {"format": "bufferlab-online-changes", "format_version": 2, "url": "", "since": since}
    planted = json.dumps({**record, "variables": variables})
    with closing(connect(private(str(tenant.server.socket), "tenant", "rented"), "lab")) as evil:
        control.rows(evil, "UPDATE bufferlab_marker SET changed = %s", (planted,))
        before = tenant.settings()
        assert tenant.sweep("--allow-online-changes").returncode == 3
        with pytest.raises(EnvironmentLackingError) as refused, changes.reserved(settings, [address]):
            pass
        said = str(refused.value)
        assert '"general_log_file" is' in said
        assert "written by whoever may write there" in said
        assert "By hand: SET GLOBAL innodb_lru_scan_depth = 7777" in said
        assert "SET GLOBAL general_log_file" not in said
        assert tenant.settings() == before
        assert "/tmp/x" in tenant.command("doctor", "--forget-mark", tenant.url).stdout
        assert changes.left(settings, address) == []
        # A view in the marker's place, whose function would run with the rights of whoever reads or writes it.
        control.rows(evil, "CREATE TABLE seen (who TEXT)")
        control.rows(evil, "CREATE FUNCTION spy() RETURNS TEXT SQL SECURITY INVOKER MODIFIES SQL DATA "
                           "BEGIN INSERT INTO lab.seen VALUES (CURRENT_USER()); RETURN 'x'; END")  # fmt: skip
        control.rows(evil, "ALTER TABLE bufferlab_marker RENAME hidden")
        control.rows(evil, "CREATE SQL SECURITY INVOKER VIEW bufferlab_marker AS "
                           "SELECT id, data_id, state, made, objects, spy() AS changed FROM hidden")  # fmt: skip
        with closing(tenant.server.connect()) as connection:
            assert owned_schema.records(connection) == {}
            assert owned_schema.marked(connection, "lab") is None
            for write in (
                lambda: owned_schema.record(connection, "lab", None),
                lambda: owned_schema.mark(connection, "lab", Mark("d", "clean", ())),
                lambda: owned_schema.claim(connection, address),
            ):
                with pytest.raises(EngineFailure):
                    write()
        assert tenant.load(HOT_ROWS).kind == "environment"
        assert control.rows(evil, "SELECT * FROM seen") == []
    assert tenant.ask("SHOW TABLES FROM lab LIKE 'hidden'") == [("hidden",)]


@pytest.mark.slow
def test_a_server_that_is_stopped_fails_the_run_and_the_doctor_puts_its_settings_back(existing: Server) -> None:
    before = existing.settings()
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
    assert "innodb_buffer_pool_size could not be put back" in outcome.failure.what
    assert "bufferlab doctor" in str(outcome.failure.hint)
    wait_until(lambda: not _sessions(existing), "the failed run's connections to end", 30)
    assert put_back_everywhere() == [(existing.url, ["innodb_buffer_pool_size"])]
    assert existing.settings() == before


@pytest.mark.figures
def test_a_sweep_through_the_command_line_leaves_settings_and_no_password(existing: Server) -> None:
    before = existing.settings()
    done = existing.sweep("--allow-online-changes")
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


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in packages.PACKAGES])
def test_locks_start_and_marker_are_the_same_on_every_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with innodb.folder() as path:
        place = innodb.Place(innodb.build(name), path).initialise()
        identity = place.with_accounts()
        monkeypatch.setenv("BUFFERLAB_PASSWORD", identity.password)
        monkeypatch.setenv("BUFFERLAB_CACHE", str(path / "cache"))
        settings, host = GlobalVariables(), RunningHost(place.family)
        started = []
        for _ in range(2):
            with place.server((identity.user, identity.password), connections=20) as server:
                url = f"mysql://bufferlab@localhost/lab?socket={server.socket}"
                lab, other = (host.parse(url.replace("/lab?", f"/{of}?")) for of in ("lab", "other"))
                with closing(server.connect()) as connection:
                    started.append(settings.since(connection))
                    clock = control.rows(connection, "SELECT UNIX_TIMESTAMP()")[0][0]
                    uptime = int(control.status(connection, "Uptime")["uptime"])
                    assert abs(int(started[-1]) - (clock - uptime)) <= 2
                    if len(started) == 1:
                        # Who else may make functions is asked in words that every server understands.
                        owned_schema.require_safe(connection, lab)
                        control.rows(connection, "CREATE USER tenant@localhost IDENTIFIED BY 'a tenant of lab'")
                        for grant in ("CREATE ROUTINE ON lab.*", "TRIGGER ON `l%`.*", "CREATE VIEW ON lab.t"):
                            control.rows(connection, "CREATE DATABASE IF NOT EXISTS lab")
                            control.rows(connection, "CREATE TABLE IF NOT EXISTS lab.t (id INT)")
                            control.rows(connection, f"GRANT {grant} TO tenant@localhost")
                            with pytest.raises(EngineFailure, match="functions that tenant@localhost may make"):
                                owned_schema.require_safe(connection, lab)
                            control.rows(connection, f"REVOKE {grant} FROM tenant@localhost")
                            owned_schema.require_safe(connection, lab)
                        control.rows(connection, "DROP DATABASE lab")
                        # A lock each: none releases another.
                        with (
                            host.locked(lab),
                            changes.reserved(settings, [lab]),
                            changes.turn(settings, lab) as turn,
                        ):
                            for lock in ("lab", changes.CHANGING, changes.SWEEP):
                                assert settings.is_held(connection, lock)
                            with pytest.raises(EngineFailure), changes.turn(settings, other, 0.1):
                                pytest.fail("two at a time")
                            owned_schema.claim(connection, lab)
                            owned_schema.mark(connection, "lab", Mark("d", "clean", ("t",)))
                            # As one that is killed: it is never left.
                            turn.changed({IO: "150"}, lambda what: None).__enter__()
                        assert changes.left(settings, other)[0].startswith(f"{IO} is 150, as an earlier run")
                        monkeypatch.setenv("BUFFERLAB_CACHE", str(path / "another"))
                        assert f'"{IO}" is "150"' in changes.left(settings, other)[0]
                        monkeypatch.setenv("BUFFERLAB_CACHE", str(path / "cache"))
                    else:
                        # Its own configuration stands, though it might be what the run had set.
                        control.rows(connection, f"SET GLOBAL {IO} = 150")
                        with changes.turn(settings, other) as turn:
                            assert turn.left == []
                        assert control.variables(connection)[IO] == "150"
                        assert owned_schema.records(connection) == {}
                        assert owned_schema.marked(connection, "lab") == Mark("d", "clean", ("t",))
        assert started[0] != started[1]


def put_back_everywhere() -> list[tuple[str, list[str] | Problem]]:
    return engines.behaviour("mysql").put_back()


def _sessions(existing: Server) -> list[tuple[Any, ...]]:
    time.sleep(0.05)
    return [row for row in existing.ask("SHOW PROCESSLIST") if row[3] == "lab"]
