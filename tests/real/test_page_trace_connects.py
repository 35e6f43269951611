"""Page traces of servers that start a thread or process for each connection: no access is lost, however fast they
come."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from bufferlab.engines.servers import page_sites
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.results.trace_words import page_trace_words
from support import innodb, postgres

pytestmark = [pytest.mark.real, pytest.mark.slow]

CONNECTS = int(os.environ.get("BUFFERLAB_TEST_CONNECTS", "20000"))
_AT_ONCE = 8
_ALONE = 20
_GETS = [page_trace_words().kinds.index(kind) for kind in ("get", "get_if_in_pool")]

Records = NDArray[Any]


class Traced:
    """A private server that records itself, with a table `t` of a hundred rows; its records, once it has ended."""

    def __init__(self, place: innodb.Place | postgres.Place, server: PrivateServer) -> None:
        self.place, self.server = place, server
        self.records: Records = np.empty(0)
        self.told: dict[str, Any] = {}

    def gets(self, begun_ns: int, ended_ns: int, objects: list[int] | None = None) -> int:
        """Return the number of gets between two moments: of all pages, or of those of some objects."""
        times = self.records["t_ns"]
        chosen = (times > begun_ns) & (times < ended_ns) & np.isin(self.records["kind"], _GETS)
        return int((chosen if objects is None else chosen & np.isin(self.records["object"], objects)).sum())

    def gets_of_others(self, moment: Moment) -> int:
        """Return the number of gets while a session read the counters, without that session's own."""
        of_others = np.isin(self.records["thread"], self.told["threads"].index(moment.process), invert=True)
        times = self.records["t_ns"][of_others & np.isin(self.records["kind"], _GETS)]
        return int(((times > moment.begun_ns) & (times < moment.ended_ns)).sum())


@contextmanager
def traced(place: innodb.Place | postgres.Place, settings: dict[str, str]) -> Iterator[Traced]:
    """Yield the server while it records."""
    family = place.server().family
    spool = {"path": str(place.root / "spool"), "limit_bytes": 1 << 30}
    asked = {"spool": spool, "required": True}
    with page_sites.recording(family.page_sites_table, place.build, asked, print) as trace:
        assert trace is not None
        with place.server(settings=settings, connections=_AT_ONCE, trace=trace) as server:
            trace.require_on()
            found = Traced(place, server)
            yield found
        found.told = trace.added_to({"recorded": {"page_trace": {}}})["recorded"]["page_trace"]
    found.records = np.fromfile(spool["path"], np.dtype(list(page_trace_words().record)))


def storm(found: Traced, connect: Callable[[], Any], connects: int) -> None:
    """Connect `connects` times, several at once; each connection reads one row and ends.

    If a busy host lets a client wait too long, the client tries again; the first try sends no query.
    """
    unanswered = found.place.server().family.unanswered

    def patient() -> Any:
        for _ in range(10):
            with suppress(*unanswered):
                return connect()
        return connect()

    def one(number: int) -> None:
        with closing(patient()) as connection:
            assert ask(connection, "SELECT v FROM t WHERE id = 7") == [(7,)]

    with ThreadPoolExecutor(_AT_ONCE) as several:
        assert sum(1 for _ in several.map(one, range(connects))) == connects


def ask(connection: Any, statement: str) -> Any:
    return connection.ask(statement)[1]


class Moment(NamedTuple):
    """The server's counters, read by a separate session between two moments."""

    begun_ns: int
    counts: list[int]
    ended_ns: int
    process: int
    """The session's number on the server; on PostgreSQL the number of its process."""


def counted(connect: Callable[[], Any], statement: str) -> Moment:
    """Return the server's counters. The session that reads them ends."""
    now_ns = time.monotonic_ns()
    with closing(connect()) as connection:
        counts = [int(row[-1]) for row in ask(connection, statement)]
        return Moment(now_ns, counts, time.monotonic_ns(), connection.id)


def quiet(connect: Callable[[], Any], statement: str) -> Moment:
    """Return `counted` for a moment at which the asking session is the only one, as the second number shows."""
    for tries in range(15):
        # The session that asked before must also have ended, which takes time on a busy host.
        time.sleep(0.1 * 2 ** min(tries, 6))
        moment = counted(connect, statement)
        if moment.counts[1] == 1:
            return moment
    raise AssertionError(f"sessions do not end: {moment}")


def require_nothing_lost(found: Traced, moments: list[Moment], objects: list[int]) -> tuple[int, int]:
    """Require that each connection got as many pages of the table as a single one. Return the recorded and counted
    gets."""
    assert (found.told["lost"], found.told["problem"]) == (0, None)
    alone, begun, ended = moments
    each, rest = divmod(found.gets(alone.begun_ns, begun.begun_ns, objects), _ALONE)
    assert each > 0
    assert rest == 0, "connects that come one after another differ"
    assert found.gets(begun.begun_ns, ended.begun_ns, objects) == each * CONNECTS
    recorded, counts = found.gets(begun.begun_ns, ended.begun_ns), ended.counts[0] - begun.counts[0]
    print(found.place.build.version, CONNECTS, "connects, gets of t each", each, "all", recorded, "counted", counts)
    return recorded, counts


@pytest.fixture
def root() -> Iterator[Path]:
    with innodb.folder() as path:
        yield path


def test_no_access_is_lost_of_mysqls_threads_that_live_for_one_query(root: Path) -> None:
    place = innodb.Place(innodb.build("mysql-5.7"), root).initialise()
    # A get through the hash index counts twice, and statistics are computed at any time.
    settings = {"thread_cache_size": "0", "innodb_adaptive_hash_index": "OFF", "innodb_stats_auto_recalc": "OFF"}
    status = (
        "SHOW GLOBAL STATUS WHERE Variable_name IN"
        " ('Innodb_buffer_pool_read_requests', 'Threads_connected', 'Threads_created')"
    )
    with traced(place, settings) as found:
        with closing(found.server.connect("mysql")) as connection:
            ask(connection, "CREATE DATABASE storm")
            ask(connection, "CREATE TABLE storm.t (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB")
            ask(connection, "INSERT INTO storm.t VALUES " + ", ".join(f"({one}, {one})" for one in range(100)))
            space = "SELECT space FROM information_schema.innodb_sys_tables WHERE name = 'storm/t'"
            objects = [int(row[0]) for row in ask(connection, space)]

        def connect() -> Any:
            return found.server.connect("storm")

        storm(found, connect, 1)
        moments = [quiet(connect, status)]
        storm(found, connect, _ALONE)
        moments.append(quiet(connect, status))
        storm(found, connect, CONNECTS)
        moments.append(quiet(connect, status))
    recorded, counts = require_nothing_lost(found, moments, objects)
    assert moments[2].counts[2] - moments[1].counts[2] > CONNECTS, "each connection has a thread of its own"
    assert recorded == pytest.approx(counts, rel=0.0005, abs=8)


def test_no_access_is_lost_of_postgresqls_sessions_that_live_for_one_query(root: Path) -> None:
    place = postgres.Place(postgres.build("postgres-17"), root).initialise()
    status = (
        "SELECT sum(blks_hit + blks_read) FROM pg_stat_database"
        " UNION ALL SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " UNION ALL SELECT sum(sessions) FROM pg_stat_database"
    )
    with traced(place, {}) as found:

        def connect() -> Any:
            return found.server.connect("bufferlab")

        with closing(connect()) as connection:
            connection.ask("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER NOT NULL)")
            connection.ask("INSERT INTO t SELECT i, i FROM generate_series(1, 100) AS many (i)")
            connection.ask("VACUUM ANALYZE t")
            files = ask(connection, "SELECT pg_relation_filenode('t'), pg_relation_filenode('t_pkey')")[0]

        storm(found, connect, 1)
        moments = [quiet(connect, status)]
        storm(found, connect, _ALONE)
        moments.append(quiet(connect, status))
        storm(found, connect, CONNECTS)
        moments.append(quiet(connect, status))
    objects = [number for number, relation in enumerate(found.told["relations"]) if relation[2] in files]
    recorded, counts = require_nothing_lost(found, moments, objects)
    assert moments[2].counts[2] - moments[1].counts[2] >= CONNECTS, "each connection has a session of its own"
    # While a session reads the counters, others may continue, such as those of autovacuum.
    before, behind = (found.gets_of_others(moment) for moment in moments[1:])
    assert -before <= counts - recorded <= behind
