"""What a private PostgreSQL is asked while bufferlab learns its build: the load, its counters, its resident pages.

The load has what makes attempts fail: dirty pages, pinned pages, a pool that is much smaller than the data, several
sessions. Nothing but its own sessions touches the pool: autovacuum is off.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import NamedTuple

from bufferlab.engines.servers.client import Client

Page = tuple[int, int, int, int, int]
"""A page: tablespace, database, relation, fork and block."""

ROWS = 60_000
SETTINGS: Mapping[str, str] = {
    "shared_buffers": "4MB", "autovacuum": "off", "bgwriter_lru_maxpages": "0", "synchronize_seqscans": "off",
    "max_parallel_workers_per_gather": "0", "fsync": "off", "jit": "off", "max_wal_size": "256MB",
}  # fmt: skip
"""The settings of the private server, by its names. The pool is as small as a ring and many pins allow."""
LISTS_PAGES = "CREATE EXTENSION IF NOT EXISTS pg_buffercache"
"""The statement that makes `resident` possible."""
MAKE = (
    "CREATE TABLE learn_t (id int PRIMARY KEY, v int NOT NULL, filler char(200) NOT NULL)",
    f"INSERT INTO learn_t SELECT i, 0, 'x' FROM generate_series(1, {ROWS}) AS i",
    "CREATE TABLE learn_n (id serial PRIMARY KEY, filler char(400) NOT NULL)",
    "ANALYZE",
    "CHECKPOINT",
)
"""The statements that make the data."""
LEAST_RECORDED: Mapping[str, int] = {"get": 5000, "read": 1000, "create": 100, "evict": 1000}
"""The accesses that the windows together must have at least, by kind, before a build is believed."""


def work(connection: Client, seed: int, statements: int) -> None:
    """Do a session's part of a window: reads, changes, growth, and a cursor that pins its page meanwhile."""
    chosen = random.Random(seed)
    # A scan of the whole table would use a ring.
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


def scan(connection: Client) -> None:
    """Read the large table from its first to its last page, which PostgreSQL does through a ring."""
    connection.ask("SELECT count(*), max(filler) FROM learn_t")


def grow_and_drop(connection: Client, seed: int) -> None:
    """Make a table and drop it, so that its pages leave without a victim being looked for."""
    connection.ask(
        f"CREATE TABLE learn_d{seed} AS SELECT i, repeat('y', 300) AS filler FROM generate_series(1, 2000) i"
    )
    connection.ask(f"DROP TABLE learn_d{seed}")


class Counted(NamedTuple):
    """The server's counters at one moment, in pages since its start."""

    get: int
    read: int
    create: int | None
    evict: int | None
    """Pages that made room for others; None up to 15, which does not count them, nor creations."""


def counted(connection: Client, major: int) -> Counted:
    """Return the counters. Up to 15 `get` and `read` have the pages by which tables and indexes grew, too."""
    ((hits, reads),) = connection.rows("SELECT sum(blks_hit), sum(blks_read) FROM pg_stat_database")
    get, read = int(hits + reads), int(reads)
    if major < 16:
        return Counted(get, read, None, None)
    # From 18 on operations may have several pages each, and bytes are counted too.
    columns = "read_bytes) / 8192, sum(extend_bytes) / 8192" if major >= 18 else "reads), sum(extends)"
    io = f"SELECT sum({columns}, sum(evictions) + sum(reuses) FROM pg_stat_io WHERE object = 'relation'"
    ((read, create, evict),) = connection.rows(io)
    return Counted(get, int(read), int(create), int(evict))


def published(connection: Client, major: int) -> bool:
    """Let the session publish its own counts; return whether the version can be asked to (from 15 on).

    Up to 14 a separate process collects the counts, twice a second; this function waits for it.
    """
    if major < 15:
        time.sleep(1.0)
        return False
    connection.ask("SELECT pg_stat_force_next_flush()")
    return True


def others(connection: Client) -> int:
    """Return the number of other client sessions: their counts are published when they end."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    return int(connection.rows(sql)[0][0])


def resident(connection: Client) -> set[Page]:
    """Return the pages in the pool's buffers, by pg_buffercache."""
    sql = (
        "SELECT reltablespace, reldatabase, relfilenode, relforknumber, relblocknumber FROM pg_buffercache"
        " WHERE relfilenode IS NOT NULL"
    )
    return {(int(a), int(b), int(c), int(d), int(e)) for a, b, c, d, e in connection.rows(sql)}


def relations(connection: Client) -> set[int]:
    """Return the file numbers of the relations that exist: pages of dropped ones leave without a trace."""
    return {int(one) for (one,) in connection.rows("SELECT pg_relation_filenode(oid) FROM pg_class") if one}
