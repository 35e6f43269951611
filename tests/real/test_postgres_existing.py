"""A PostgreSQL that bufferlab did not start: bufferlab uses one database of it, and leaves its settings unchanged."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres.connection import connect
from bufferlab.engines.postgres.family import PostgresFamily
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.hosts.running import RunningHost
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.knob import Native
from bufferlab.registry import open_sweep
from support import postgres
from support.existing import FROM_THE_ENVIRONMENT, HOT_ROWS, READS, TPCC, Existing, relay
from support.fake import wait_until

pytestmark = pytest.mark.real

POSTGRES = RunningHost(PostgresFamily())
RUN = POSTGRES.family.running

MIB = 1 << 20
CHANGED: dict[str, Native] = {"bgwriter_lru_maxpages": 7, "random_page_cost": 1.5}
"""Settings with other values than the server's: the first belongs only to the server, the second to a session, too."""
PLAIN = "a plain role's password"


def claim(address: Address) -> None:
    """Make the mark as a load does."""
    RUN.make_sure_of(address)
    with closing(connect(address)) as connection:
        RUN.claim(connection, address)


class Server(Existing):
    """A separate server of this test."""

    def __init__(self, server: PrivateServer, root: Path, user: str = "bufferlab") -> None:
        self.server = server
        url = f"postgres://{user}@localhost/lab?socket={server.socket.parent}"
        knobs: dict[str, Native] = {"page_size": 8192, "pool_size": 16 * MIB, "statements": "spec"}
        # bufferlab's default is another value than this server's, so do not ask for the default.
        super().__init__("postgres", url, root, {**knobs, "synchronous_commit": "off"})

    def ask(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with closing(self.server.connect(database)) as connection:
            return connection.rows(query)

    def settings(self) -> tuple[dict[str, str], list[tuple[Any, ...]], str]:
        """Return the settings of new sessions, those of databases and roles, and those that ALTER SYSTEM wrote."""
        names = ", ".join(f"'{name}'" for name in (*CHANGED, "shared_buffers"))
        told = dict(self.ask(f"SELECT name, setting FROM pg_settings WHERE name IN ({names})"))
        (folder,) = self.ask("SHOW data_directory")[0]
        return (
            told,
            self.ask("SELECT setconfig FROM pg_db_role_setting"),
            (Path(folder) / "postgresql.auto.conf").read_text(),
        )


@pytest.fixture(scope="module", params=["postgres-15", pytest.param("postgres-17", marks=pytest.mark.slow)])
def started(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Start a server with shared buffers of 16 MiB, a superuser, and a role that may only log in."""
    with postgres.folder() as path:
        place = postgres.Place(postgres.build(request.param), path).initialise()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BUFFERLAB_PASSWORD", place.identity.password)
            patch.setenv("BUFFERLAB_CACHE", str(path / "cache"))
            with place.server(connections=20) as server:
                started = Server(server, path)
                started.ask(f"CREATE ROLE plain LOGIN PASSWORD '{PLAIN}'".replace("'s p", "''s p"))
                # A setting that is set already must stay as it was.
                started.ask("ALTER SYSTEM SET bgwriter_lru_maxpages = 55")
                started.ask("SELECT pg_reload_conf()")
                yield started


@pytest.fixture
def existing(started: Server, tmp_path: Path) -> Server:
    """Return the server without a database of bufferlab."""
    started.ask("DROP DATABASE IF EXISTS lab")
    return Server(started.server, tmp_path)


@pytest.fixture
def loaded(started: Server, tmp_path: Path) -> Server:
    """Return the server with hot rows. A test leaves them unchanged, so that the next test need not load them."""
    server = Server(started.server, tmp_path)
    with closing(started.server.connect("postgres")) as connection:
        mark = RUN.marked(connection, "lab")
    drop = lambda: started.ask("DROP DATABASE IF EXISTS lab")  # noqa: E731
    server.load_hot_rows_once(started.root / "hot-rows", mark, drop)
    return server


@pytest.fixture
def plain(existing: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    """Return the same server, reached as the role without rights."""
    monkeypatch.setenv("BUFFERLAB_PASSWORD", PLAIN)
    return Server(existing.server, tmp_path, "plain")


def test_a_server_is_reached_over_tcp_as_well(existing: Server) -> None:
    with relay(existing.server.socket) as port:
        existing.url = f"postgres://bufferlab@127.0.0.1:{port}/lab"
        assert existing.load(HOT_ROWS).kind == "ok"
        before = existing.settings()
        outcome = existing.run(READS)
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        assert outcome.result["measured"]["transactions"] == 300
        assert existing.settings() == before


def test_a_run_measures_with_the_settings_as_found_and_changes_none(existing: Server) -> None:
    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    outcome = existing.run(READS, bgwriter_lru_maxpages=55)
    assert outcome.kind == "ok", outcome
    result = outcome.result
    assert result is not None
    assert existing.settings() == before
    assert result["actual"]["bgwriter_lru_maxpages"] == 55
    assert result["actual"]["pool_size"] == 16 * MIB
    assert result["measured"]["transactions"] == 300
    assert "only reads" in result["start"]
    assert "not bufferlab's own" in result["caveats"][0]
    assert result["notes"]["server"] == FROM_THE_ENVIRONMENT
    assert "synchronous_commit" in result["as_found"]
    check = existing.do("check", workload=READS, delivered_orders=[])
    assert check.result is not None, check
    assert all(condition["passed"] for condition in check.result["conditions"])
    secret = os.environ["BUFFERLAB_PASSWORD"]
    assert secret not in str(outcome) + existing.log.read_text()
    assert existing.holding(secret) == []


def test_a_databases_own_setting_is_what_a_run_compares(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    existing.ask("ALTER DATABASE lab SET random_page_cost = 2.25")
    outcome = existing.run(READS, random_page_cost=1.5)
    assert outcome.failure is not None
    assert "random_page_cost is 2.25, 1.5 asked" in outcome.failure.what
    assert existing.run(READS, random_page_cost=2.25).kind == "ok"


def test_other_peoples_connections_are_told(loaded: Server) -> None:
    with closing(loaded.server.connect("postgres")), closing(loaded.server.connect("postgres")):
        result = loaded.run(READS).result
    assert result is not None
    assert any("2 other connections were open" in said for said in result["caveats"])
    result = loaded.run(READS).result
    assert result is not None
    assert not any("other connections" in said for said in [*result["confounds"], *result["caveats"]])


def test_settings_that_the_server_has_otherwise_are_named_with_both_values_and_none_is_changed(loaded: Server) -> None:
    before = loaded.settings()
    outcome = loaded.run(READS, pool_size=32 * MIB, **CHANGED)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "shared_buffers is 16 MiB, 32 MiB asked; bgwriter_lru_maxpages is 55, 7 asked" in outcome.failure.what
    assert f"--set pool_size={16 * MIB} --set bgwriter_lru_maxpages=55" in str(outcome.failure.hint)
    assert loaded.run(READS, bgwriter_lru_maxpages=55).kind == "ok"
    assert loaded.settings() == before


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"page_size": 4096}, "page_size needs another server: this one was made with 8192"),
        ({"data_checksums": "on"}, "data_checksums needs another server: this one was made with off"),
    ],
)
def test_what_a_server_is_made_with_is_refused_before_anything_is_loaded(
    existing: Server, knobs: dict[str, Native], words: str
) -> None:
    outcome = existing.load(HOT_ROWS, **knobs)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert words in outcome.failure.what
    assert existing.ask("SELECT 1 FROM pg_database WHERE datname = 'lab'") == []


@pytest.mark.parametrize("knobs", [{"memory_limit": 64 * MIB}, {"read_ahead": "0"}])
def test_what_is_the_hosts_is_not_set_around_it(loaded: Server, knobs: dict[str, Native]) -> None:
    outcome = loaded.run(READS, **knobs)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "around servers that bufferlab starts" in outcome.failure.what


def test_a_database_that_is_somebody_elses_is_refused_and_left_alone(existing: Server) -> None:
    existing.ask("CREATE DATABASE lab")
    existing.ask("CREATE TABLE theirs (id INT PRIMARY KEY)", "lab")
    outcome = existing.load(HOT_ROWS)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "tables that bufferlab did not make (theirs" in outcome.failure.what
    assert existing.ask("SELECT relname FROM pg_class WHERE relname = 'theirs'", "lab") == [("theirs",)]


@pytest.mark.slow  # test_innodb_existing.py tests the same in the code that both share
def test_a_workload_that_writes_finds_its_data_loaded_anew(existing: Server) -> None:
    assert existing.load(TPCC).kind == "ok"
    for _ in range(2):
        outcome = existing.run({**TPCC, "seed": 5}, 200)
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        assert "loaded into the server's database for it" in outcome.result["start"]
        delivered = outcome.result["delivered_orders"]
        check = existing.do("check", workload=TPCC, delivered_orders=delivered)
        assert check.result is not None, check
        # Two runs on the same data would have delivered twice as much as the second one counted.
        assert [condition["passed"] for condition in check.result["conditions"]] == [True] * 13


def test_a_database_that_has_gone_is_loaded_anew(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    existing.ask("DROP DATABASE lab")
    outcome = existing.run(READS)
    assert outcome.kind == "ok", outcome


def test_two_runs_do_not_use_one_database(existing: Server) -> None:
    with closing(existing.server.connect("postgres")) as other:
        other.rows("SELECT pg_advisory_lock(hashtext('bufferlab'), hashtext('lab'))")
        outcome = existing.load(HOT_ROWS)
    assert outcome.kind == "environment"
    assert outcome.failure is not None
    assert "another run of bufferlab uses this database" in outcome.failure.what


def test_a_stop_request_ends_a_run_and_leaves_the_settings(loaded: Server) -> None:
    before = loaded.settings()
    assert loaded.run_and_stop().kind == "interrupted"
    assert loaded.settings() == before


def test_whoever_comes_after_a_killed_worker_finds_the_database_free_and_the_settings_as_before(loaded: Server) -> None:
    before = loaded.settings()
    assert loaded.run_and_kill().kind == "crash"
    wait_until(lambda: not _sessions(loaded), "the killed worker's connections to end", 30)
    assert loaded.run(READS).kind == "ok"
    assert loaded.settings() == before


STRANGE = {
    "trigger pwn on table sbtest1": (
        "CREATE TRIGGER pwn BEFORE UPDATE ON sbtest1 FOR EACH ROW EXECUTE FUNCTION evil()", "DROP FUNCTION evil CASCADE"
    ),
    "policy mine on table sbtest1": ("CREATE POLICY mine ON sbtest1 USING (true)", "DROP POLICY mine ON sbtest1"),
    "rule nothing on table sbtest1": (
        "CREATE RULE nothing AS ON DELETE TO sbtest1 DO INSTEAD NOTHING", "DROP RULE nothing ON sbtest1"
    ),
    "index mine (c)": ("CREATE INDEX mine ON sbtest1 (c)", "DROP INDEX mine"),
    "table sbtest1 (id, k, c, pad, kept)": (
        "ALTER TABLE sbtest1 ADD kept TEXT DEFAULT 'precious'", "ALTER TABLE sbtest1 DROP kept"
    ),
    "function count(bigint)": (
        "CREATE FUNCTION count(bigint) RETURNS int LANGUAGE sql AS 'SELECT 1'", "DROP FUNCTION count(bigint)"
    ),
    "view sbtest1 (id)": ("DROP TABLE sbtest1; CREATE VIEW sbtest1 AS SELECT 1 AS id", "DROP VIEW sbtest1"),
}  # fmt: skip
"""Objects that an owner can put into our database: our word for it, and statements that make and remove it."""
EVIL = """
CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RESET ROLE; RESET SESSION AUTHORIZATION;
  NEW.pad := current_user || current_setting('is_superuser');
  RETURN NEW;
END $$
"""


def test_what_an_owner_put_into_our_database_is_named_and_neither_run_nor_dropped(plain: Server) -> None:
    plain.ask("CREATE DATABASE lab OWNER plain")
    address = POSTGRES.parse(plain.url)
    assert plain.load(HOT_ROWS).kind == "ok"
    with closing(connect(address)) as owner:
        for named, (make, undo) in STRANGE.items():
            if "trigger" in named:
                owner.rows(EVIL)
            for statement in make.split("; "):
                owner.rows(statement)
            before = RUN.objects(owner, "lab")
            assert named in before
            with pytest.raises(EngineFailure) as caught:
                claim(address)
            assert caught.value.kind == "usage"
            assert named in caught.value.what
            if "trigger" in named or "view" in named:
                outcome = plain.run({**READS, "update_percent": 100})
                assert outcome.kind == "usage", outcome
            assert RUN.objects(owner, "lab") == before
            owner.rows(undo)


def test_a_trigger_that_a_planted_list_hides_gets_no_rights_even_if_it_resets_its_role(plain: Server) -> None:
    plain.ask("CREATE DATABASE lab OWNER plain")
    assert plain.load(HOT_ROWS).kind == "ok"
    with closing(connect(POSTGRES.parse(plain.url))) as owner:
        owner.rows(EVIL)
        owner.rows(STRANGE["trigger pwn on table sbtest1"][0])
        mark = RUN.marked(owner, "lab")
        assert mark is not None
        RUN.mark(owner, "lab", replace(mark, objects=tuple(RUN.objects(owner, "lab"))))
        outcome = plain.run({**READS, "update_percent": 100})
        assert outcome.kind == "ok", outcome
        ran = owner.rows("SELECT DISTINCT trim(pad) FROM sbtest1 WHERE pad LIKE '%off%' OR pad LIKE '%on%'")
    assert ran == [("plainoff",)]


def test_a_superuser_does_not_enter_a_database_where_others_may_make_functions(
    existing: Server,
) -> None:
    existing.ask("CREATE DATABASE lab OWNER plain")
    outcome = existing.load(HOT_ROWS)
    assert outcome.kind == "environment", outcome
    assert outcome.failure is not None
    assert "bufferlab has great rights, and plain may make functions and triggers in lab" in outcome.failure.what
    assert "a role that owns lab" in str(outcome.failure.hint)
    existing.ask("DROP DATABASE lab")
    assert existing.load(HOT_ROWS).kind == "ok"
    existing.ask("GRANT CREATE ON SCHEMA public TO plain", "lab")
    assert existing.run(READS).kind == "environment"
    existing.ask("REVOKE CREATE ON SCHEMA public FROM plain", "lab")
    existing.ask("GRANT CREATE ON SCHEMA public TO PUBLIC", "lab")
    outcome = existing.run(READS)
    assert outcome.failure is not None
    assert "everybody may make functions" in outcome.failure.what


def test_tables_that_another_role_owns_are_not_dropped_whatever_the_mark_says(existing: Server) -> None:
    existing.ask("CREATE DATABASE lab")
    existing.ask("CREATE TABLE users (id INT)", "lab")
    existing.ask("ALTER TABLE users OWNER TO plain", "lab")
    told = {"data_id": "d", "state": "clean", "made": ["users"], "objects": ["table users (id)"]}
    existing.ask(f"COMMENT ON DATABASE lab IS 'bufferlab: {json.dumps(told)}'")
    outcome = existing.load(HOT_ROWS)
    assert outcome.kind == "usage", outcome
    assert outcome.failure is not None
    assert "did not make (users)" in outcome.failure.what
    assert existing.ask("SELECT count(*) FROM users", "lab") == [(0,)]


def test_names_are_looked_for_in_our_schema_whatever_the_database_says(plain: Server) -> None:
    plain.ask("CREATE DATABASE lab OWNER plain")
    plain.ask("ALTER DATABASE lab SET search_path = evil, public, pg_catalog")
    plain.ask("ALTER ROLE plain SET search_path = evil, pg_catalog")
    assert plain.load(HOT_ROWS).kind == "ok"
    assert plain.run(READS).kind == "ok"
    assert plain.ask("SELECT schemaname FROM pg_tables WHERE tablename = 'sbtest1'", "lab") == [("public",)]
    plain.ask("ALTER ROLE plain RESET search_path")


def test_what_somebody_else_made_in_our_database_is_refused_and_nothing_is_dropped(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    address = POSTGRES.parse(existing.url)
    tables = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relname <> 'pg_buffercache'"
    tables += " AND relnamespace = 'public'::regnamespace"
    for make, drop, said in (
        ("CREATE TABLE users_own (id INT)", "DROP TABLE users_own", "did not make (users_own)"),
        ("CREATE VIEW seen AS SELECT id FROM sbtest1", "DROP VIEW seen", "did not make (seen)"),
        ("CREATE SCHEMA sbtest CREATE TABLE sbtest1 (id INT)", "DROP SCHEMA sbtest CASCADE", "did not make (sbtest1)"),
        (
            "CREATE FUNCTION rows() RETURNS BIGINT LANGUAGE SQL BEGIN ATOMIC SELECT count(*) FROM sbtest1; END",
            "DROP FUNCTION rows", "did not make (function rows())",
        ),
    ):  # fmt: skip
        existing.ask(make, "lab")
        there = existing.ask(tables, "lab")
        with pytest.raises(EngineFailure) as caught:
            claim(address)
        assert caught.value.kind == "usage"
        assert said in caught.value.what
        assert existing.ask(tables, "lab") == there
        existing.ask(drop, "lab")
    claim(address)
    assert existing.ask(tables, "lab") == []


def test_a_role_needs_no_more_than_a_database_of_its_own(plain: Server) -> None:
    refused = plain.load(HOT_ROWS)
    assert refused.kind == "environment"
    assert refused.failure is not None
    assert refused.failure.hint == "CREATE DATABASE lab OWNER plain"
    plain.ask("CREATE DATABASE lab OWNER plain")
    loaded = plain.load(HOT_ROWS)
    assert loaded.kind == "ok", loaded
    outcome = plain.run(READS)
    assert outcome.kind == "ok", outcome
    check = plain.do("check", workload=READS, delivered_orders=[])
    assert check.result is not None, check
    assert all(condition["passed"] for condition in check.result["conditions"])


def test_a_server_that_nobody_may_write_is_called_that(existing: Server) -> None:
    try:
        existing.ask("ALTER SYSTEM SET default_transaction_read_only = on")
        existing.ask("SELECT pg_reload_conf()")
        wait_until(lambda: existing.ask("SHOW default_transaction_read_only") == [("on",)], "it to be read-only", 10)
        outcome = existing.load(HOT_ROWS)
        assert outcome.kind == "environment", outcome
        assert outcome.failure is not None
        assert "read-only transaction" in outcome.failure.what
        assert "name its primary" in str(outcome.failure.hint)
    finally:
        existing.ask("ALTER SYSTEM RESET default_transaction_read_only")
        existing.ask("SELECT pg_reload_conf()")
    wait_until(lambda: existing.ask("SHOW default_transaction_read_only") == [("off",)], "it to be written", 10)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgres://nobody_here@localhost/lab?socket={}", "password authentication failed"),
        ("postgres://bufferlab@localhost/lab?socket=/nowhere", "No such file"),
        ("postgres://bufferlab@localhost:1/lab", "refused"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named_with_a_hint(existing: Server, url: str, words: str) -> None:
    existing.url = url.format(existing.server.socket.parent)
    outcome = existing.load(HOT_ROWS)
    assert outcome.kind == "environment", outcome
    assert outcome.failure is not None
    assert words in outcome.failure.what
    assert outcome.failure.hint


@pytest.mark.figures
def test_a_sweep_through_the_command_line_leaves_settings_and_no_password(existing: Server) -> None:
    before = existing.settings()
    out = existing.root / "out"
    done = existing.command(
        "run", "hot-rows", "--engine", "postgres", "--server", existing.url,
        "--smoke", "--set", "pool_size=16MiB", "--set", "rows=20000", "--sweep", "hot_rows=500,5000",
        "--set", "bgwriter_lru_maxpages=55", "--repetitions", "1", "--connections", "2", "--share-device",
        "--out", out, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [point["status"] for point in answer["points"]] == ["ok", "ok"]
    (caveats,) = (check["detail"] for check in answer["checks"] if check["name"] == "foreign_server")
    assert "not bufferlab's own" in caveats
    assert "no_confounds" not in answer["failed_checks"]
    assert existing.settings() == before
    for name in ("run.json", "report.html"):
        assert any(FROM_THE_ENVIRONMENT in file.read_text() for file in out.rglob(name)), name
    assert existing.holding(os.environ["BUFFERLAB_PASSWORD"]) == []


@pytest.mark.slow  # 20 s
def test_a_query_of_tpc_h_is_answered_there_and_its_pool_is_not_called_empty(existing: Server) -> None:
    out = existing.root / "out"
    done = existing.command(
        "run", "index-scan", "--engine", "postgres", "--server", existing.url,
        "--smoke", "--set", "pool_size=16MiB", "--repetitions", "1", "--share-device", "--out", out, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [point["status"] for point in json.loads(done.stdout)["points"]] == ["ok"] * 3
    (sweep,) = out.glob("index-scan-*")
    for record in open_sweep(sweep).runs():
        assert record.run.workload["drawn"]["answers_checked"] == 2
        assert all(row.passed for row in record.run.consistency.conditions)
        assert any("did not begin with an empty pool" in check.detail for check in record.run.integrity)


def _sessions(existing: Server) -> list[tuple[Any, ...]]:
    time.sleep(0.05)
    return existing.ask("SELECT pid FROM pg_stat_activity WHERE datname = 'lab'")
