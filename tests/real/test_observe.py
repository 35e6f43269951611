"""A look at a real server: it shows the server's own counts under a known load, and leaves an idle server as it is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines.innodb import control as innodb_control
from bufferlab.engines.servers.look import NotTold, Refused
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.live import observation, observe_page, sentence
from bufferlab.live.digests import Digests
from bufferlab.live.host_side import HostWork
from bufferlab.live.look_result import Seen
from bufferlab.live.observation import Observation
from bufferlab.live.pool_contents import PoolContents
from bufferlab.live.session import Session, address_of, family_of
from bufferlab.live.window import LookWindow, SampledRow
from support import innodb, postgres

pytestmark = pytest.mark.real

SELECTS = 300
ROWS = 4_000
TRANSACTIONS = "SELECT SUM(COUNT_STAR) FROM performance_schema.events_transactions_summary_global_by_event_name"


@pytest.fixture(autouse=True)
def two_samples_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look mostly waits for samples; tests/cli/test_observe_command.py tests the user's interval."""
    monkeypatch.setattr(observation, "_INTERVAL_SECONDS", 0.5)


class Load:
    """A listener that runs a known load in the first second, and requests a stop after three rows."""

    def __init__(self, work: Callable[[], object] | None = None, stop_after: int = 3) -> None:
        self.work, self.stop_after, self.rows = work, stop_after, 0

    def row(self, row: SampledRow, window: LookWindow) -> None:
        self.rows += 1
        if self.rows == 1 and self.work:
            self.work()

    def event(self, event: object) -> None: ...

    @property
    def requested(self) -> bool:
        return self.rows >= self.stop_after


def look(url: str, load: Load) -> Seen:
    family = family_of(url)
    with Session(family, address_of(url, family)) as session:
        return Observation(session, load).run(60, load)


@pytest.fixture(scope="module", params=["mariadb-10.11", pytest.param("mysql-9", marks=pytest.mark.slow)])
def mysql(request: pytest.FixtureRequest) -> Iterator[tuple[PrivateServer, str]]:
    with innodb.folder() as path, pytest.MonkeyPatch.context() as patch:
        place = innodb.Place(innodb.build(request.param), path).initialise()
        identity = place.with_accounts()
        patch.setenv("BUFFERLAB_PASSWORD", identity.password)
        settings = {"performance_schema": "ON", "performance_schema_instrument": "%=ON", "log_bin": "log"}
        with place.server((identity.user, identity.password), settings=settings) as server:
            yield server, f"mysql://{identity.user}@localhost?socket={server.socket}"


_OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgres-15", "postgres-18")]


@pytest.fixture(scope="module", params=["postgres-17", *_OTHERS])
def postgresql(request: pytest.FixtureRequest) -> Iterator[tuple[PrivateServer, str]]:
    with postgres.folder() as path, pytest.MonkeyPatch.context() as patch:
        place = postgres.Place(postgres.build(request.param), path).initialise()
        patch.setenv("BUFFERLAB_PASSWORD", place.identity.password)
        with place.server(connections=20) as server:
            folder = server.socket.parent
            yield server, f"postgres://{place.identity.user}@localhost/postgres?socket={folder}"


def _filled(connection: Any) -> None:
    connection.rows("CREATE TABLE filled (id INT PRIMARY KEY, filler CHAR(200))")
    connection.rows("INSERT INTO filled VALUES " + ", ".join(f"({number}, 'x')" for number in range(ROWS)))


def _at_rest(connection: Any) -> None:
    """Wait until MySQL 9 has written earlier commits into its table of GTIDs, which it does in a separate
    transaction."""
    counted: list[tuple[Any, ...]] = []
    while counted != (counted := connection.rows(TRANSACTIONS)):
        time.sleep(1)


def test_counts_are_those_of_the_server_itself(mysql: tuple[PrivateServer, str]) -> None:
    server, url = mysql
    with closing(server.connect("bufferlab")) as connection:
        _filled(connection)
        _at_rest(connection)

        def counted(name: str) -> int:
            return int(innodb_control.status(connection, name)[name.lower()])

        def work() -> None:
            transactions.append(int(connection.rows(TRANSACTIONS)[0][0]))
            for number in range(SELECTS // 2):
                connection.rows(f"SELECT filler FROM filled WHERE id = {number}")
            connection.rows("BEGIN")
            for number in range(SELECTS // 2):
                connection.rows(f"SELECT filler FROM filled WHERE id = {number}")
            connection.rows("COMMIT")
            transactions.append(int(connection.rows(TRANSACTIONS)[0][0]))

        transactions: list[int] = []
        before = counted("Innodb_buffer_pool_read_requests")
        seen = look(url, Load(work))
        gets = counted("Innodb_buffer_pool_read_requests") - before
    totals = seen.window.totals
    assert totals["statements"] == SELECTS + 4
    assert seen.facts.transactions == "transaction"
    assert totals["transactions"] == transactions[1] - transactions[0]
    # MySQL 9 opens a table in a separate transaction.
    assert SELECTS // 2 + 1 <= totals["transactions"] <= SELECTS // 2 + 2, "Handler_commit would be another number"
    assert SELECTS <= totals["page_gets"] <= gets
    assert seen.time_ratio is not None
    assert seen.begin.values["pool_size_bytes"] == 64 << 20
    assert seen.begin.why_not.keys() <= {"instances", "chunk_size"}
    assert seen.cost.core_ratio is not None, "the server is on this host"
    host, contents, statements = seen.inside.host, seen.inside.pool_contents, seen.inside.statements
    assert isinstance(host, HostWork)
    assert host.device is not None
    assert isinstance(contents, PoolContents)
    assert "bufferlab.filled" in {one.table for one in contents.objects}
    assert isinstance(statements, Digests)
    assert SELECTS in {one.calls for one in statements.statements if "filled" in one.text}
    assert seen.window.events == []
    assert "Per transaction" in str(observe_page.as_report(seen))


def test_a_write_from_our_session_is_refused(mysql: tuple[PrivateServer, str]) -> None:
    _, url = mysql
    family = family_of(url)
    with Session(family, address_of(url, family)) as session, pytest.raises(Refused, match=r"(?i)read.only"):
        session.query("CREATE TABLE bufferlab.mine (id INT)")


def test_an_account_with_few_rights_is_told_less_and_a_revoked_right_is_said(
    mysql: tuple[PrivateServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = mysql
    with closing(server.connect()) as connection:
        for statement in ("CREATE USER watcher@localhost", "GRANT SELECT ON performance_schema.* TO watcher@localhost"):
            connection.rows(statement)

        def revoke() -> None:
            connection.rows("REVOKE SELECT ON performance_schema.* FROM watcher@localhost")

        monkeypatch.setenv("BUFFERLAB_PASSWORD", "")
        seen = look(url.replace("bufferlab@", "watcher@"), Load(revoke, stop_after=4))
        connection.rows("DROP USER watcher@localhost")
    assert [event.kind for event in seen.window.events] == ["right"]
    assert "statement_ps" in seen.window.events[0].what
    assert 0 < seen.window.seconds_of["statement_ms"] < seen.window.seconds_of["page_gets"]
    assert isinstance(seen.inside.pool_contents, NotTold)
    assert "PROCESS" in (seen.inside.pool_contents.remedy or "")


def test_an_idle_server_stays_as_it_is(mysql: tuple[PrivateServer, str]) -> None:
    server, url = mysql

    def state() -> list[Any]:
        with closing(server.connect()) as connection:
            told = innodb_control.variables(connection)
            tables = connection.rows("SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES ORDER BY 1, 2")
            log = {name for name in told if name not in ("timestamp", "rand_seed1", "rand_seed2")}
            return [{name: told[name] for name in log if "gtid" not in name}, tables]

    with closing(server.connect()) as connection:
        _at_rest(connection)
    before = state()
    seen = look(url, Load())
    assert state() == before
    assert seen.window.totals["statements"] == 0
    assert seen.window.totals["transactions"] == 0
    assert seen.window.totals["misses"] == 0
    assert "Misses are not what slows this server" in sentence.observed(seen)


def test_counts_are_those_of_postgresql_itself(postgresql: tuple[PrivateServer, str]) -> None:
    server, url = postgresql
    with closing(server.connect("postgres")) as connection:
        _filled(connection)

        def work() -> None:
            for number in range(SELECTS):
                connection.rows(f"SELECT filler FROM filled WHERE id = {number}")
            connection.rows("SELECT pg_stat_force_next_flush()")

        connection.rows("VACUUM ANALYZE filled")
        connection.rows("SELECT pg_stat_force_next_flush()")
        seen = look(url, Load(work))
    totals = seen.window.totals
    # An autovacuum worker may run meanwhile; the launcher commits nothing.
    assert SELECTS + 1 <= totals["transactions"] <= SELECTS + 10
    assert 2 * SELECTS <= totals["page_gets"] <= 10 * SELECTS
    assert seen.time_ratio is None
    assert "track_io_timing is off" in str(observe_page.as_report(seen).limits) or not totals["misses"]
    assert seen.cost.core_ratio is not None
    assert "log_age_bytes" in seen.begin.values


WIDE = "SELECT g AS id, repeat('x', 800) AS filler FROM generate_series(1, 24000) AS g"
WIDE_PAGES = 24_000 // 9
"""The pages of the table `wide`: nine rows fill a page. The pool has 2,048 pages."""


def _scan(server: PrivateServer, *before: str, scans: int = 5, table: str = "wide") -> None:
    """Scan a table `scans` times in a session that publishes its counts before it drops its own tables."""
    with closing(server.connect("postgres")) as connection:
        for statement in ("SET max_parallel_workers_per_gather = 0", *before):
            connection.rows(statement)
        for _ in range(scans):
            connection.rows(f"SELECT count(filler) FROM {table}")
        connection.rows("SELECT pg_stat_force_next_flush()")


@pytest.fixture(scope="module")
def wide(postgresql: tuple[PrivateServer, str]) -> tuple[PrivateServer, str]:
    """Return the server with a table larger than its pool, already scanned once, so that its rows have their hint
    bits."""
    server, _ = postgresql
    with closing(server.connect("postgres")) as connection:
        for statement in (f"CREATE TABLE wide AS {WIDE}", "CHECKPOINT"):
            connection.rows(statement)
    _scan(server, scans=1)
    return postgresql


def _require_the_reads_of_proc(seen: Seen, pages: float) -> None:
    """Require that the pages equal those that the server's processes read by /proc/PID/io."""
    host = seen.inside.host
    assert isinstance(host, HostWork)
    assert host.read_bytes
    assert pages == pytest.approx(host.read_bytes / seen.facts.page_size_bytes, rel=0.05)


@pytest.mark.slow
def test_pages_of_temporary_tables_are_none_of_the_pool(wide: tuple[PrivateServer, str]) -> None:
    server, url = wide
    seen = look(url, Load(lambda: _scan(server, f"CREATE TEMP TABLE mine AS {WIDE}", table="mine")))
    totals = seen.window.totals
    if seen.facts.numbers[0] < 16:
        assert totals["misses"] > 4 * WIDE_PAGES
        assert "counts among them reads of temporary tables" in sentence.observed(seen)
        return
    assert totals["misses"] < 500
    assert totals["evicted_pages"] < 500
    assert totals["temporary_pages_read"] == pytest.approx(5 * WIDE_PAGES, rel=0.05)
    assert "pages of temporary tables a second" in sentence.observed(seen)


@pytest.mark.slow
def test_scans_of_several_sessions_are_counted_once_and_named_as_a_ring(wide: tuple[PrivateServer, str]) -> None:
    server, url = wide

    def work() -> None:
        with ThreadPoolExecutor(4) as sessions:
            for done in [sessions.submit(_scan, server) for _ in range(4)]:
                done.result()

    seen = look(url, Load(work))
    _require_the_reads_of_proc(seen, seen.window.totals["misses"])
    if seen.facts.numbers[0] >= 16:
        assert seen.window.totals["ring_pages_read"] > 0.9 * seen.window.totals["misses"]
        assert "a pool of more than four times the table" in sentence.observed(seen)


@pytest.mark.slow
def test_a_session_that_has_published_nothing_is_said_with_the_bytes_that_it_read(
    wide: tuple[PrivateServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = wide
    with closing(server.connect("postgres")) as connection:

        def scan() -> None:
            connection.rows("SELECT count(filler) FROM wide")

        for statement in ("SET max_parallel_workers_per_gather = 0", "BEGIN", "SELECT 1"):
            connection.rows(statement)
        time.sleep(0.1)
        seen = look(url, Load(scan))
        assert seen.unpublished.sessions == 1
        _require_the_reads_of_proc(seen, (seen.unpublished.read_bytes or 0) / seen.facts.page_size_bytes)
        told = sentence.observed(seen)
        assert "1 session worked in transactions that began before this look" in told
        assert "/proc/PID/io" in told
        assert "not what slows" not in told
        assert look(url, Load()).unpublished.sessions == 0, "it did nothing in this look"
        for statement in ("CREATE ROLE watcher LOGIN PASSWORD 'watches'", "COMMIT"):
            connection.rows(statement)
        monkeypatch.setenv("BUFFERLAB_PASSWORD", "watches")
        hidden = look(url.replace("bufferlab@", "watcher@"), Load())
        connection.rows("DROP ROLE watcher")
    assert hidden.unpublished.hidden >= 1
    assert hidden.window.totals["misses"] or "GRANT pg_monitor" in sentence.observed(hidden)


def test_an_idle_postgresql_counts_nothing_of_ours(postgresql: tuple[PrivateServer, str]) -> None:
    _, url = postgresql
    seen = look(url, Load())
    assert seen.window.totals["transactions"] <= 3
    assert seen.window.totals["page_gets"] <= 30
    family = family_of(url)
    with Session(family, address_of(url, family)) as session, pytest.raises(Refused, match="read-only"):
        session.query("CREATE TABLE mine (id INT)")


def test_a_role_that_may_only_log_in_is_told_the_counts(
    postgresql: tuple[PrivateServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url = postgresql
    with closing(server.connect("postgres")) as connection:
        connection.rows("CREATE ROLE watcher LOGIN PASSWORD 'watches'")
        monkeypatch.setenv("BUFFERLAB_PASSWORD", "watches")
        seen = look(url.replace("bufferlab@", "watcher@"), Load())
        connection.rows("DROP ROLE watcher")
    assert seen.window.events == []
    assert {"page_gets", "pages_read", "pages_written", "transactions"} <= seen.window.totals.keys()
    assert {"free_pages", "dirty_pages"} <= seen.begin.why_not.keys()


def test_a_flush_of_the_status_is_said_and_no_count_is_negative(mysql: tuple[PrivateServer, str]) -> None:
    server, url = mysql
    with closing(server.connect()) as connection:
        seen = look(url, Load(lambda: connection.rows("FLUSH STATUS")))
    _require_reset(seen)


def test_a_reset_of_the_statistics_is_said_and_no_count_is_negative(postgresql: tuple[PrivateServer, str]) -> None:
    server, url = postgresql
    with closing(server.connect("postgres")) as connection:
        seen = look(url, Load(lambda: connection.rows("SELECT pg_stat_reset()")))
    _require_reset(seen)


def test_the_crash_of_a_session_of_postgresql_is_said_to_be_a_restart(
    postgresql: tuple[PrivateServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process and its start time stay; shared_buffers and the statistics start again."""
    server, url = postgresql
    monkeypatch.setattr(observation, "_INTERVAL_SECONDS", 1.0)  # The server needs a second to come back.

    def crash() -> None:
        with closing(server.connect("postgres")) as connection:
            # bufferlab's private servers end after a crash; other servers do not.
            connection.rows("ALTER SYSTEM SET restart_after_crash = on")
            connection.rows("SELECT pg_reload_conf()")
            time.sleep(0.5)
            ((pid,),) = connection.rows("SELECT pg_backend_pid()")
            os.kill(pid, signal.SIGKILL)

    seen = look(url, Load(crash))
    kinds = [event.kind for event in seen.window.events]
    assert (kinds[0], kinds[-2:]) == ("lost", ["back", "restart"]), kinds
    assert min(seen.window.totals.values()) >= 0


def _require_reset(seen: Seen) -> None:
    assert [event.kind for event in seen.window.events] == ["reset"]
    assert len(seen.window.rows) == 3
    assert min(seen.window.totals.values()) >= 0


def test_a_real_restart_is_survived_and_said(tmp_path: Path) -> None:
    with innodb.folder() as path, pytest.MonkeyPatch.context() as patch:
        place = innodb.Place(innodb.build("mariadb-10.11"), path).initialise()
        identity = place.with_accounts()
        patch.setenv("BUFFERLAB_PASSWORD", identity.password)
        patch.setattr(observation, "_INTERVAL_SECONDS", 1.0)  # The server reports its uptime in whole seconds.
        login = (identity.user, identity.password)
        first, second = place.server(login), place.server(login)
        first.__enter__()

        def restart() -> None:
            first.__exit__(None, None, None)
            second.__enter__()

        try:
            seen = look(f"mysql://{identity.user}@localhost?socket={first.socket}", Load(restart))
        finally:
            second.__exit__(None, None, None)
    assert [event.kind for event in seen.window.events] == ["lost", "back", "restart"]
    assert seen.facts.no_time.startswith("performance_schema is off"), "as MariaDB ships"
    assert seen.ended == "stopped"
    assert seen.end is not None
