"""The load and the queries with which bufferlab learns a build of PostgreSQL on a private server.

Autovacuum is off, so that only the load's sessions touch the pool.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.lesson import WITH_DROP, Counted, Lesson, Page, Settled
from bufferlab.errors import EnvironmentLackingError

ROWS = 60_000
_FIRST_WITH_IO = 16
"""The first version with pg_stat_io, which counts creations and evictions."""
_FIRST_TO_PUBLISH = 15
"""The first version that publishes a session's counts immediately on request."""
_FIRST_WITH_OWN_VIEW = 17
"""The first version with the view pg_stat_checkpointer, which counts checkpoints."""
_CHECKPOINT_SECONDS = 30.0


class PostgresLesson(Lesson):
    """The load and queries for learning PostgreSQL."""

    programs = ("postgres", "initdb")
    page_size_bytes = 8192
    has_rings = True
    has_checkpoints = True
    make: ClassVar = (
        "CREATE TABLE learn_t (id int PRIMARY KEY, v int NOT NULL, filler char(200) NOT NULL)",
        f"INSERT INTO learn_t SELECT i, 0, 'x' FROM generate_series(1, {ROWS}) AS i",
        "CREATE TABLE learn_n (id serial PRIMARY KEY, filler char(400) NOT NULL)",
        "ANALYZE",
        "CHECKPOINT",
    )

    def settings(self, build: Build) -> Mapping[str, str]:
        """Return the settings. The pool is as small as possible: it must hold a scan's ring and many pinned pages."""
        return {
            "shared_buffers": "4MB", "autovacuum": "off", "bgwriter_lru_maxpages": "0", "synchronize_seqscans": "off",
            "max_parallel_workers_per_gather": "0", "fsync": "off", "jit": "off", "max_wal_size": "256MB",
        }  # fmt: skip

    def work(self, connection: Client, seed: int, statements: int) -> None:
        """Do one session's part of a window, while a cursor pins a page."""
        chosen = random.Random(seed)
        # A sequential scan would use a ring.
        connection.ask("SET enable_seqscan = off")
        connection.ask("BEGIN")
        connection.ask(f"DECLARE pinned CURSOR FOR SELECT id FROM learn_t WHERE id > {chosen.randint(1, ROWS)}")
        connection.ask("FETCH 1 FROM pinned")
        for number in range(statements):
            row = chosen.randint(1, ROWS)
            if number % 10 == 0:
                connection.ask(f"UPDATE learn_t SET v = v + 1 WHERE id = {row}")
            elif number % 50 == 1:
                connection.ask("INSERT INTO learn_n (filler) SELECT 'x' FROM generate_series(1, 150)")
            elif number % 50 == 2:
                connection.ask(f"SELECT sum(v) FROM learn_t WHERE id BETWEEN {row} AND {row + 300}")
            else:
                connection.ask(f"SELECT filler FROM learn_t WHERE id = {row}")
        connection.ask("COMMIT")

    def scan(self, connection: Client) -> None:
        """Scan the large table, for which PostgreSQL uses a ring."""
        connection.ask("SELECT count(*), max(filler) FROM learn_t")

    def grow_and_drop(self, connection: Client, seed: int) -> None:
        connection.ask(
            f"CREATE TABLE learn_d{seed} AS SELECT i, repeat('y', 300) AS filler FROM generate_series(1, 2000) i"
        )
        connection.ask(f"DROP TABLE learn_d{seed}")

    def checkpoint(self, connection: Client, build: Build) -> None:
        """Write all dirty pages, and wait until the checkpointer has published its counts, which it does just after its
        answer."""
        before, _ = _checkpoints(connection, build.numbers[0])
        connection.ask("CHECKPOINT")
        deadline = time.monotonic() + _CHECKPOINT_SECONDS
        while _checkpoints(connection, build.numbers[0])[0] == before:
            if time.monotonic() > deadline:
                raise EnvironmentLackingError("the private server does not count its checkpoint", str(build.binary))
            time.sleep(0.02)

    def counts_sessions_writes(self, build: Build) -> bool:
        """Return True from 16 on.

        Up to 15 the server's count of sessions' writes includes the pages by which files grow, and is published late.
        """
        return build.numbers[0] >= _FIRST_WITH_IO

    def others(self, connection: Client) -> int:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        return int(connection.rows(sql)[0][0])

    def settled(self, connection: Client, build: Build, begun_ns: int) -> Settled:
        """Return the counters, after the session has published its own.

        Up to 14 a separate process collects the counts, twice a second, so that they may lack those of this session.
        """
        if build.numbers[0] < _FIRST_TO_PUBLISH:
            time.sleep(1.0)
            counted = _counted(connection, build.numbers[0])
            return Settled(begun_ns, time.monotonic_ns(), counted)
        connection.ask("SELECT pg_stat_force_next_flush()")
        at_ns = time.monotonic_ns()
        return Settled(at_ns, at_ns, _counted(connection, build.numbers[0]))

    def compared(self, build: Build, window: str) -> Iterator[tuple[str, ...]]:
        has_io = build.numbers[0] >= _FIRST_WITH_IO
        if not has_io and window == WITH_DROP:
            return  # The unpublished counts of a dropped table are lost.
        growth = () if has_io else ("create",)  # A page by which a file grew counts as one that was not in the pool.
        yield ("get", *growth)
        yield ("read", *growth)
        yield from [("create",), ("evict",)] if has_io else []

    def prepare_list(self, connection: Client) -> None:
        """Install pg_buffercache. Raises ServerError if the server's package lacks it."""
        connection.ask("CREATE EXTENSION IF NOT EXISTS pg_buffercache")

    def resident(self, connection: Client) -> set[Page]:
        sql = (
            "SELECT reltablespace, reldatabase, relfilenode, relforknumber, relblocknumber FROM pg_buffercache"
            " WHERE relfilenode IS NOT NULL"
        )
        return {tuple(map(int, page)) for page in connection.rows(sql)}

    def objects(self, connection: Client) -> frozenset[int]:
        """Return the file numbers of the relations that exist."""
        rows = connection.rows("SELECT pg_relation_filenode(oid) FROM pg_class")
        return frozenset(int(one) for (one,) in rows if one)


def _counted(connection: Client, major: int) -> Counted:
    """Return the counters.

    Up to 15 `get` and `read` include the pages by which tables and indexes grew, and `write` has the writes of
    checkpoints alone.
    """
    columns = "sum(blks_hit), sum(blks_read), sum(tup_inserted) + sum(tup_updated) + sum(tup_deleted)"
    ((hits, reads, rows),) = connection.rows(f"SELECT {columns} FROM pg_stat_database")
    get, read, change = int(hits + reads), int(reads), int(rows)
    _, write = _checkpoints(connection, major)
    if major < _FIRST_WITH_IO:
        return Counted(get, read, None, None, write, change)
    # From 18 on an operation may have several pages, and bytes are counted too.
    unit, pages = ("_bytes", " / 8192") if major >= 18 else ("s", "")
    # A checkpoint's writes are in both views. In pg_stat_checkpointer they are published together with the checkpoint.
    by_others = f"CASE WHEN backend_type <> 'checkpointer' THEN write{unit} ELSE 0 END"
    counts = [f"sum({each}){pages}" for each in (f"read{unit}", f"extend{unit}", by_others)]
    io = f"SELECT {', '.join(counts)}, sum(evictions) + sum(reuses) FROM pg_stat_io WHERE object = 'relation'"
    ((read, create, others, evict),) = connection.rows(io)
    return Counted(get, int(read), int(create), int(evict), write + int(others), change)


def _checkpoints(connection: Client, major: int) -> tuple[int, int]:
    """Return how many checkpoints were requested, and how many pages checkpoints wrote."""
    sql = "SELECT checkpoints_req, buffers_checkpoint FROM pg_stat_bgwriter"
    if major >= _FIRST_WITH_OWN_VIEW:
        sql = "SELECT num_requested, buffers_written FROM pg_stat_checkpointer"
    ((asked, written),) = connection.rows(sql)
    return int(asked), int(written)


LESSON = PostgresLesson()
