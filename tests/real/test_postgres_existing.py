"""A PostgreSQL that bufferlab did not start: one database of it is used, its settings are as before in the end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.existing import owned_database
from bufferlab.engines.postgres.existing.existing_postgres import ExistingPostgres
from bufferlab.engines.postgres.existing.server_settings import ServerSettings
from bufferlab.engines.postgres.private_postgres import PrivatePostgres
from bufferlab.engines.servers.existing import changes, journal
from bufferlab.engines.servers.existing.mark import Mark
from bufferlab.errors import EnvironmentLackingError
from bufferlab.results.store import SweepFolder
from support import postgres
from support.existing import HOT_ROWS, READS, TPCC, Existing, relay
from support.fake import wait_until

pytestmark = pytest.mark.real

MIB = 1 << 20
CHANGED: dict[str, int | str] = {"bgwriter_lru_maxpages": 7, "random_page_cost": "1.5"}
"""The first is the server's alone, the second a session's."""
PLAIN = "a plain role's password"


class Server(Existing):
    """A server of the test's own."""

    def __init__(self, server: PrivatePostgres, root: Path, user: str = "bufferlab") -> None:
        self.server = server
        url = f"postgres://{user}@localhost/lab?socket={server.socket.parent}"
        knobs: dict[str, int | str] = {"page_size_bytes": 8192, "pool_size_bytes": 16 * MIB, "statements": "spec"}
        # A default of bufferlab's, which this server does not have: not asked of it.
        super().__init__("postgres", url, root, {**knobs, "synchronous_commit": "off"})

    def ask(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with closing(self.server.connect(database)) as connection:
            return control.rows(connection, query)

    def settings(self) -> tuple[dict[str, str], list[tuple[Any, ...]], str]:
        """As new sessions have them, those of databases and roles, and what ALTER SYSTEM wrote."""
        names = ", ".join(f"'{name}'" for name in (*CHANGED, "shared_buffers"))
        told = dict(self.ask(f"SELECT name, setting FROM pg_settings WHERE name IN ({names})"))
        (folder,) = self.ask("SHOW data_directory")[0]
        return (
            told,
            self.ask("SELECT setconfig FROM pg_db_role_setting"),
            (Path(folder) / "postgresql.auto.conf").read_text(),
        )


both = pytest.mark.parametrize("started", ["postgres-15", "postgres-17"], indirect=True, scope="module")
"""What differs by version: settings, rights, and what puts them back."""


@pytest.fixture(scope="module", params=["postgres-15", pytest.param("postgres-17", marks=pytest.mark.slow)])
def started(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server with shared buffers of 16 MiB, a superuser, and a role that may do nothing but log in."""
    with postgres.folder() as path:
        place = postgres.Place(postgres.build(request.param), path).initialise()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BUFFERLAB_PASSWORD", place.identity.password)
            patch.setenv("BUFFERLAB_CACHE", str(path / "cache"))
            with place.server(connections=20) as server:
                started = Server(server, path)
                started.ask(f"CREATE ROLE plain LOGIN PASSWORD '{PLAIN}'".replace("'s p", "''s p"))
                # Something that is set already, and must be as it was.
                started.ask("ALTER SYSTEM SET bgwriter_lru_maxpages = 55")
                started.ask("SELECT pg_reload_conf()")
                yield started


@pytest.fixture
def existing(started: Server, tmp_path: Path) -> Server:
    """The server with no database of bufferlab's."""
    started.ask("DROP DATABASE IF EXISTS lab")
    return Server(started.server, tmp_path)


@pytest.fixture
def plain(existing: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    """The same, reached as the role without rights."""
    monkeypatch.setenv("BUFFERLAB_PASSWORD", PLAIN)
    return Server(existing.server, tmp_path, "plain")


def test_a_server_is_reached_over_tcp_as_well(existing: Server) -> None:
    with relay(existing.server.socket) as port:
        existing.url = f"postgres://bufferlab@127.0.0.1:{port}/lab"
        assert existing.load(HOT_ROWS).kind == "ok"
        before = existing.settings()
        outcome = existing.run(READS, **CHANGED)
        assert outcome.kind == "ok", outcome
        assert outcome.result is not None
        assert outcome.result["measured"]["transactions"] == 300
        assert existing.settings() == before


@both
def test_a_run_changes_what_may_be_changed_and_puts_it_back(existing: Server) -> None:
    during: list[list[tuple[Any, ...]]] = []

    def look(event: dict[str, Any]) -> None:
        if event.get("event") == "sample" and event.get("edge") == "start":
            query = "SELECT setting FROM pg_settings WHERE name IN ('bgwriter_lru_maxpages', 'random_page_cost')"
            during.extend(existing.ask(f"{query} ORDER BY name", database) for database in ("lab", "postgres"))

    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    outcome = existing.run(READS, 20_000, look, **CHANGED)
    assert outcome.kind == "ok", outcome
    result = outcome.result
    assert result is not None
    # What a session can have for itself, other databases' sessions did not see.
    assert during == [[("7",), ("1.5",)], [("7",), ("4",)]]
    assert existing.settings() == before
    assert before[0]["bgwriter_lru_maxpages"] == "55"
    assert not list(journal.folder().glob("*"))
    assert {name: result["actual"][name] for name in CHANGED} == CHANGED
    assert result["actual"]["pool_size_bytes"] == 16 * MIB
    assert result["measured"]["transactions"] == 20_000
    assert "only reads" in result["start"]
    assert "not bufferlab's own" in result["confounds"][0]
    assert "synchronous_commit" in result["as_found"]
    check = existing.do("check", workload=READS, delivered_orders=[])
    assert check.result is not None, check
    assert all(condition["passed"] for condition in check.result["conditions"])
    secret = os.environ["BUFFERLAB_PASSWORD"]
    assert secret not in str(outcome) + existing.log.read_text()
    assert existing.holding(secret) == []


@both
def test_a_databases_own_setting_is_put_back_as_it_was(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    existing.ask("ALTER DATABASE lab SET random_page_cost = 2.25")
    existing.ask("ALTER DATABASE lab SET work_mem = '7MB'")
    before = existing.settings()
    assert existing.run(READS, random_page_cost="1.5").kind == "ok"
    assert existing.settings() == before
    assert sorted(before[1][0][0]) == ["random_page_cost=2.25", "work_mem=7MB"]


def test_other_peoples_connections_are_told(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    with closing(existing.server.connect("postgres")), closing(existing.server.connect("postgres")):
        result = existing.run(READS).result
    assert result is not None
    assert any("2 other connections were open" in said for said in result["confounds"])
    result = existing.run(READS).result
    assert result is not None
    assert not any("other connections" in said for said in result["confounds"])


def test_without_leave_nothing_is_changed_and_the_setting_is_named(existing: Server) -> None:
    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    outcome = existing.run(READS, allowed=False, **CHANGED)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "bgwriter_lru_maxpages is 55, 7 asked" in outcome.failure.what
    assert "--allow-online-changes" in str(outcome.failure.hint)
    assert existing.run(READS, allowed=False, bgwriter_lru_maxpages=55).kind == "ok"
    assert existing.settings() == before


def test_what_needs_a_restart_is_refused_by_name_and_nothing_is_changed(existing: Server) -> None:
    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    outcome = existing.run(READS, pool_size_bytes=32 * MIB, **CHANGED)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert "shared_buffers is 16 MiB" in outcome.failure.what
    assert "needs a restart" in outcome.failure.what
    assert f"--set pool_size={16 * MIB}" in str(outcome.failure.hint)
    assert existing.settings() == before


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"page_size_bytes": 4096}, "page_size needs another server: this one was made with 8192"),
        ({"data_checksums": "on"}, "data_checksums needs another server: this one was made with off"),
    ],
)
def test_what_a_server_is_made_with_is_refused_before_anything_is_loaded(
    existing: Server, knobs: dict[str, int | str], words: str
) -> None:
    outcome = existing.load(HOT_ROWS, **knobs)
    assert outcome.kind == "usage"
    assert outcome.failure is not None
    assert words in outcome.failure.what
    assert existing.ask("SELECT 1 FROM pg_database WHERE datname = 'lab'") == []


@pytest.mark.parametrize("knobs", [{"memory_limit_bytes": 64 * MIB}, {"read_ahead": "0"}])
def test_what_is_the_hosts_is_not_set_around_it(existing: Server, knobs: dict[str, int | str]) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    outcome = existing.run(READS, **knobs)
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
        # Two runs on the same data would have delivered twice what the second one counted.
        assert [condition["passed"] for condition in check.result["conditions"]] == [True] * 13


def test_a_database_that_has_gone_is_loaded_anew(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    existing.ask("DROP DATABASE lab")
    outcome = existing.run(READS)
    assert outcome.kind == "ok", outcome


def test_two_runs_do_not_use_one_database(existing: Server) -> None:
    with closing(existing.server.connect("postgres")) as other:
        control.rows(other, "SELECT pg_advisory_lock(hashtext('bufferlab'), hashtext('lab'))")
        outcome = existing.load(HOT_ROWS)
    assert outcome.kind == "environment"
    assert outcome.failure is not None
    assert "another run of bufferlab uses this database" in outcome.failure.what


def test_settings_are_put_back_after_a_stop_request(existing: Server) -> None:
    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    assert existing.run_and_stop(**CHANGED).kind == "interrupted"
    assert existing.settings() == before


@both
def test_settings_that_a_killed_worker_left_are_put_back_by_whoever_comes_next(existing: Server) -> None:
    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    assert existing.run_and_kill(**CHANGED).kind == "crash"
    assert existing.settings() != before
    (state,) = journal.folder().glob("*.json")
    assert state.stat().st_mode & 0o777 == 0o600
    assert os.environ["BUFFERLAB_PASSWORD"] not in state.read_text()
    wait_until(lambda: not _sessions(existing), "the killed worker's connections to end", 30)
    server = ExistingPostgres()
    assert server.put_back_everywhere() == [(existing.url, sorted(CHANGED))]
    wait_until(lambda: existing.settings() == before, "the server to take its settings back", 10)
    assert server.put_back_everywhere() == []
    # And the database's lock went with its connection.
    assert existing.run(READS).kind == "ok"


def test_what_a_killed_run_left_is_put_back_from_the_databases_comment_where_it_is_still_ours(
    existing: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings, before = ServerSettings(), existing.settings()
    lab, other = (ExistingPostgres().parse(existing.url.replace("/lab?", f"/{name}?")) for name in ("lab", "other"))
    owned_database.claim(lab)
    with closing(existing.server.connect("postgres")) as connection:
        owned_database.mark(connection, "lab", Mark("d", "clean", ()))
        wanted = {name: str(value) for name, value in CHANGED.items()}
        with changes.turn(settings, lab) as turn:
            assert settings.is_held(connection, changes.CHANGING)
            with pytest.raises(EngineFailure, match="another run"), changes.turn(settings, other, 0.1):
                pytest.fail("two at a time")
            # As one that is killed: it is never left.
            turn.changed(connection, wanted, lambda what: None).__enter__()
        wait_until(lambda: not settings.is_held(connection, changes.CHANGING), "the lock to end", 10)
    existing.ask("ALTER DATABASE lab SET random_page_cost = 3.5")
    left = "bgwriter_lru_maxpages is 7, as an earlier run of bufferlab left it; it was 55"
    assert changes.left(settings, other) == [left]
    monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "another"))
    with pytest.raises(EngineFailure) as caught, changes.turn(settings, other):
        pytest.fail("it took our value for the owner's")
    assert left in caught.value.what
    with changes.turn(settings, lab) as turn:
        assert turn.left == ["bgwriter_lru_maxpages"]
    wait_until(lambda: existing.settings()[0] == before[0], "the server to take its setting back", 10)
    assert existing.settings()[1:] == ([(["random_page_cost=3.5"],)], before[2])
    with changes.turn(settings, other) as turn:
        assert turn.left == []


def test_one_sweep_at_a_time_may_change_settings_whatever_its_database(existing: Server) -> None:
    server, other = ExistingPostgres(), existing.url.replace("/lab?", "/other?")
    with (
        server.reserved([existing.url, other]),
        pytest.raises(EnvironmentLackingError, match="another sweep"),
        server.reserved([other]),
    ):
        pytest.fail("two at a time")
    with server.reserved([other]):
        pass


def test_what_somebody_else_made_in_our_database_is_refused_and_nothing_is_dropped(existing: Server) -> None:
    assert existing.load(HOT_ROWS).kind == "ok"
    address = ExistingPostgres().parse(existing.url)
    tables = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relname <> 'pg_buffercache'"
    tables += " AND relnamespace = 'public'::regnamespace"
    for make, drop, said in (
        ("CREATE TABLE users_own (id INT)", "DROP TABLE users_own", "did not make (users_own)"),
        ("CREATE VIEW seen AS SELECT id FROM sbtest1", "DROP VIEW seen", "did not make (seen)"),
        ("CREATE SCHEMA sbtest CREATE TABLE sbtest1 (id INT)", "DROP SCHEMA sbtest CASCADE", "did not make (sbtest1)"),
        (
            "CREATE FUNCTION rows() RETURNS BIGINT LANGUAGE SQL BEGIN ATOMIC SELECT count(*) FROM sbtest1; END",
            "DROP FUNCTION rows", "function rows() depends on table sbtest1",
        ),
    ):  # fmt: skip
        existing.ask(make, "lab")
        there = existing.ask(tables, "lab")
        with pytest.raises(EngineFailure) as caught:
            owned_database.claim(address)
        assert caught.value.kind == "usage"
        assert said in caught.value.what
        assert existing.ask(tables, "lab") == there
        existing.ask(drop, "lab")
    owned_database.claim(address)
    assert existing.ask(tables, "lab") == []


def test_what_the_server_alone_has_is_put_back_even_when_the_database_has_gone(existing: Server) -> None:
    before = existing.settings()
    assert existing.load(HOT_ROWS).kind == "ok"
    assert existing.run_and_kill(**CHANGED).kind == "crash"
    wait_until(lambda: not _sessions(existing), "the killed worker's connections to end", 30)
    existing.ask("DROP DATABASE lab")
    assert ExistingPostgres().put_back_everywhere() == [(existing.url, ["bgwriter_lru_maxpages"])]
    wait_until(lambda: existing.settings() == before, "the server to take its setting back", 10)
    assert not list(journal.folder().glob("*"))


@both
def test_a_role_needs_no_more_than_a_database_of_its_own(plain: Server) -> None:
    refused = plain.load(HOT_ROWS)
    assert refused.kind == "environment"
    assert refused.failure is not None
    assert refused.failure.hint == "CREATE DATABASE lab OWNER plain"
    plain.ask("CREATE DATABASE lab OWNER plain")
    loaded = plain.load(HOT_ROWS)
    assert loaded.kind == "ok", loaded
    outcome = plain.run(READS, random_page_cost="1.5")
    assert outcome.kind == "ok", outcome
    check = plain.do("check", workload=READS, delivered_orders=[])
    assert check.result is not None, check
    assert all(condition["passed"] for condition in check.result["conditions"])
    before = plain.settings()
    refused = plain.run(READS, **CHANGED)
    assert refused.kind == "environment", refused
    assert refused.failure is not None
    assert "may not see what ALTER SYSTEM has set" in refused.failure.what
    assert "GRANT SELECT ON pg_file_settings" in str(refused.failure.hint)
    assert plain.settings() == before


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


def test_a_sweep_through_the_command_line_leaves_settings_and_no_password(existing: Server) -> None:
    before = existing.settings()
    out = existing.root / "out"
    done = existing.command(
        "run", "hot-rows", "--engine", "postgres", "--server", existing.url,
        "--smoke", "--set", "pool_size=16MiB", "--set", "rows=20000", "--sweep", "hot_rows=500,5000",
        "--set", "bgwriter_lru_maxpages=7", "--repetitions", "1", "--connections", "2", "--allow-online-changes",
        "--share-device", "--out", out, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [point["status"] for point in answer["points"]] == ["ok", "ok"]
    assert "not bufferlab's own" in done.stderr
    assert existing.settings() == before
    assert list(out.rglob("*.json"))
    assert existing.holding(os.environ["BUFFERLAB_PASSWORD"]) == []


def test_a_query_of_tpc_h_is_answered_there_and_its_pool_is_not_called_empty(existing: Server) -> None:
    out = existing.root / "out"
    done = existing.command(
        "run", "index-scan", "--engine", "postgres", "--server", existing.url,
        "--smoke", "--set", "pool_size=16MiB", "--repetitions", "1", "--share-device", "--out", out, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [point["status"] for point in json.loads(done.stdout)["points"]] == ["ok"] * 3
    (sweep,) = out.glob("index-scan-*")
    for record in SweepFolder.open(sweep).runs():
        assert record.run.workload["drawn"]["answers_checked"] == 2
        assert all(row.passed for row in record.run.consistency.conditions)
        assert any("did not begin with an empty pool" in check.detail for check in record.run.integrity)


def _sessions(existing: Server) -> list[tuple[Any, ...]]:
    time.sleep(0.05)
    return existing.ask("SELECT pid FROM pg_stat_activity WHERE datname = 'lab'")
