"""The load and the queries with which bufferlab learns a build of MySQL or MariaDB on a private server.

Purge, the page cleaner and the change buffer continue after the load. So counters are read once they stop changing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from typing import ClassVar

from bufferlab.engines.innodb.option_file import with_one_chunk
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.lesson import Counted, Lesson, Page, Settled
from bufferlab.errors import EnvironmentLackingError
from bufferlab.units import MIB

ROWS = 60_000
_DIGITS = "(SELECT 0 AS d" + "".join(f" UNION ALL SELECT {digit}" for digit in range(1, 10)) + ")"
_NUMBERS = "a.d + 10 * b.d + 100 * c.d"
_OF_NUMBERS = f"{_DIGITS} AS a, {_DIGITS} AS b, {_DIGITS} AS c"
_OF_THE_SERVER = ("event_scheduler", "system user")
_STILL_SECONDS = 0.25
_PATIENCE_SECONDS = 60.0
_FIRST_WITHOUT_CHANGE_BUFFER = (11, 0)
"""The first version of MariaDB without a change buffer (server change MDEV-29694)."""
_STANDING = ((10, 11, 5),)
"""The versions of MariaDB whose status variable for page gets never changes: `srv_export_innodb_status` does not update
it."""
_LIST = "SELECT SPACE, PAGE_NUMBER FROM information_schema.INNODB_BUFFER_PAGE WHERE PAGE_STATE = 'FILE_PAGE'"
_COUNTERS = ("buffer_pool_read_requests", "pages_read", "pages_created", "buffer_pool_pages_data")


class MysqlLesson(Lesson):
    """The load and queries for learning MySQL."""

    programs = ("mysqld",)
    page_size_bytes = 16384
    makes_resident_pages = True
    make: ClassVar = (
        "CREATE TABLE learn_t (id int PRIMARY KEY, v int NOT NULL, k int NOT NULL, filler char(200) NOT NULL, KEY (k))"
        " ENGINE=InnoDB CHARACTER SET latin1",
        *(f"INSERT INTO learn_t SELECT {1000 * step} + {_NUMBERS} + 1, 0, {_NUMBERS}, 'x' FROM {_OF_NUMBERS}"
          for step in range(ROWS // 1000)),
        "CREATE TABLE learn_n (id int AUTO_INCREMENT PRIMARY KEY, filler char(200) NOT NULL)"
        " ENGINE=InnoDB CHARACTER SET latin1",
    )  # fmt: skip

    def settings(self, build: Build) -> Mapping[str, str]:
        """Return the settings: a small pool with few free pages, and the features that the builds enable by default."""
        asked = {
            "innodb_page_size": str(self.page_size_bytes), "innodb_buffer_pool_size": str(8 * MIB),
            "innodb_lru_scan_depth": "100", "innodb_flush_log_at_trx_commit": "0", "innodb_flush_method": "nosync",
            "innodb_doublewrite": "OFF", "innodb_stats_auto_recalc": "OFF", "innodb_stats_persistent": "OFF",
            "innodb_random_read_ahead": "ON", "innodb_change_buffering": "all", "innodb_adaptive_hash_index": "ON",
        }  # fmt: skip
        return with_one_chunk(build.flavour, build.version, asked)

    def work(self, connection: Client, seed: int, statements: int) -> None:
        """Do one session's part of a window: short transactions on rows that all sessions use often."""
        chosen = random.Random(seed)
        for number in range(statements):
            row = chosen.randint(1, ROWS) if number % 2 else chosen.randint(1, 300)
            if number % 10 == 0:
                connection.ask(f"UPDATE learn_t SET v = v + 1, k = k + 1 WHERE id = {chosen.randint(1, ROWS)}")
            elif number % 50 == 1:
                connection.ask(f"INSERT INTO learn_n (filler) SELECT 'x' FROM {_OF_NUMBERS} WHERE c.d < 3")
            elif number % 50 == 2:
                connection.ask(f"SELECT sum(v) FROM learn_t WHERE id BETWEEN {row} AND {row + 300}")
            elif number % 50 == 3:
                connection.ask(f"SELECT max(filler) FROM learn_t WHERE k = {chosen.randint(0, 999)}")
            else:
                connection.ask(f"SELECT filler FROM learn_t WHERE id = {row}")

    def scan(self, connection: Client) -> None:
        connection.ask("SELECT count(*), max(filler) FROM learn_t")

    def grow_and_drop(self, connection: Client, seed: int) -> None:
        connection.ask(
            f"CREATE TABLE learn_d{seed} ENGINE=InnoDB AS SELECT {_NUMBERS} AS i, repeat('y', 300) AS filler"
            f" FROM {_OF_NUMBERS}"
        )
        connection.ask(f"DROP TABLE learn_d{seed}")

    def others(self, connection: Client) -> int:
        ((own,),) = connection.rows("SELECT connection_id()")
        found = [(row[0], row[1]) for row in connection.rows("SHOW PROCESSLIST")]
        return sum(number != own and user not in _OF_THE_SERVER for number, user in found)

    def settled(self, connection: Client, build: Build, begun_ns: int) -> Settled:
        """Return the counters once they have not changed for a quarter of a second.

        Raises EnvironmentLackingError if they never stop changing.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        begun_ns, before = time.monotonic_ns(), _counted(connection)
        while time.monotonic() < deadline:
            time.sleep(_STILL_SECONDS)
            at_ns, now = time.monotonic_ns(), _counted(connection)
            if now == before:
                return Settled(begun_ns, at_ns, now)
            begun_ns, before = at_ns, now
        raise EnvironmentLackingError("the counters of the private server do not stand still", build.version)

    def compared(self, build: Build, window: str) -> Iterator[tuple[str, ...]]:
        yield ("get", "get_if_in_pool")
        yield from [("read",), ("create",), ("evict",)]

    def resident(self, connection: Client) -> set[Page]:
        return {(int(space), int(page)) for space, page in connection.rows(_LIST)}


def _counted(connection: Client) -> Counted:
    """Return the counters. Evicted pages are computed: the pages read and created, minus those still in the pool."""
    rows = dict(connection.rows("SHOW GLOBAL STATUS LIKE 'Innodb%page%'"))
    rows.update(connection.rows("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'"))
    get, read, create, there = (int(rows[f"Innodb_{name}"]) for name in _COUNTERS)
    return Counted(get, read, create, read + create - there)


class MariadbLesson(MysqlLesson):
    """The load and queries for learning MariaDB."""

    programs = ("mariadbd",)
    never_listed = frozenset({(0, 0)})

    def settings(self, build: Build) -> Mapping[str, str]:
        asked = dict(super().settings(build))
        if build.numbers >= _FIRST_WITHOUT_CHANGE_BUFFER:
            del asked["innodb_change_buffering"]
        return asked

    def compared(self, build: Build, window: str) -> Iterator[tuple[str, ...]]:
        every = super().compared(build, window)
        return (kinds for kinds in every if kinds[0] != "get" or build.numbers not in _STANDING)

    def resident(self, connection: Client) -> set[Page]:
        return self.listing(connection)[0]

    def listing(self, connection: Client) -> tuple[set[Page], int]:
        """Return the pages that the server lists, and the number of pages that are free in their tablespace.

        The server lists all of these free pages as the first page of the first tablespace.
        """
        rows: list[Page] = [(int(space), int(page)) for space, page in connection.rows(_LIST)]
        return {*rows} - self.never_listed, sum(row in self.never_listed for row in rows)


LESSONS: Mapping[str, Lesson] = {"mysql": MysqlLesson(), "mariadb": MariadbLesson()}
