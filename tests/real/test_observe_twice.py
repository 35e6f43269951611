"""The bound of twice the pool compared with servers: the second one has twice the pool and the same data.

Accesses are uniform, so the curve is the straight line and the bound has its lowest value.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from bufferlab.engines.servers.look import NotTold
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.live import sentence
from bufferlab.live.look_result import Seen, TwiceThePool
from bufferlab.live.observation import Observation
from bufferlab.live.session import Session, address_of, family_of
from bufferlab.live.window import LookWindow, SampledRow
from bufferlab.units import MIB
from support import innodb, postgres

pytestmark = [pytest.mark.real, pytest.mark.slow]

POOL_BYTES = 32 * MIB
ROWS = 400_000
"""Rows of 240 bytes with their overhead: about three pools."""
SESSIONS = 3
WARM_LOOKUPS = 20_000
"""The larger pool has at most 8,192 pages; after three lookups for each page it holds nearly all it can."""
LOOK_S = 20.0


@dataclass
class Data:
    """A database on disk, and the way to start a server on it with a given pool."""

    serve: Callable[[int], PrivateServer]
    url: Callable[[PrivateServer], str]
    unit: str
    """The counter that counts a lookup."""


_OTHERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mysql-9", "mariadb-11.8", "postgres-18")]


@pytest.fixture(params=["mysql-5.7", "postgres-17", *_OTHERS])
def data(request: pytest.FixtureRequest) -> Iterator[Data]:
    with innodb.folder() as root, pytest.MonkeyPatch.context() as patch:
        found = (
            _mysql(request.param, root) if request.param in innodb.programs.PACKAGES else _postgres(request.param, root)
        )
        made, password = found
        patch.setenv("BUFFERLAB_PASSWORD", password)
        with made.serve(4 * POOL_BYTES) as server, closing(server.connect("bufferlab")) as connection:
            connection.rows("CREATE TABLE filled (id INT PRIMARY KEY, filler CHAR(200))")
            connection.rows("INSERT INTO filled VALUES " + ", ".join(f"({row}, 'x')" for row in range(1000)))
            for rows in (1000 * 2**doubled for doubled in range(9)):
                connection.rows(f"INSERT INTO filled SELECT id + {rows}, filler FROM filled WHERE id < {ROWS - rows}")
            if made.unit == "transactions":
                connection.rows("VACUUM ANALYZE filled")
        yield made


def _mysql(name: str, root: Any) -> tuple[Data, str]:
    place = innodb.Place(innodb.build(name), root).initialise()
    identity = place.with_accounts()

    def serve(pool_bytes: int) -> PrivateServer:
        settings = {"innodb_buffer_pool_size": str(pool_bytes), "innodb_lru_scan_depth": "100"}
        return place.server((identity.user, identity.password), settings=settings)

    return Data(serve, lambda server: f"mysql://{identity.user}@localhost?socket={server.socket}", "statements"), \
        identity.password  # fmt: skip


def _postgres(name: str, root: Any) -> tuple[Data, str]:
    place = postgres.Place(postgres.build(name), root).initialise()
    identity = place.identity

    def serve(pool_bytes: int) -> PrivateServer:
        return place.server(connections=20, settings={"shared_buffers": f"{pool_bytes // MIB}MB"})

    def url(server: PrivateServer) -> str:
        return f"postgres://{identity.user}@localhost/bufferlab?socket={server.socket.parent}"

    return Data(serve, url, "transactions"), identity.password


class Listener:
    """A listener that calls a function after the first row."""

    requested = False

    def __init__(self, work: Callable[[], object] | None = None) -> None:
        self.work = work

    def row(self, row: SampledRow, window: LookWindow) -> None:
        if self.work:
            self.work()
            self.work = None

    def event(self, event: object) -> None: ...


@contextmanager
def working(server: PrivateServer) -> Iterator[None]:
    """Context manager for sessions that look up random rows; on entry the pool is warm."""
    done, is_over = [0] * SESSIONS, threading.Event()

    def work(session: int, connection: Any) -> None:
        draw = random.Random(session)
        while not is_over.is_set():
            connection.rows(f"SELECT filler FROM filled WHERE id = {draw.randrange(ROWS)}")
            done[session] += 1

    with ExitStack() as stack:
        connections = [stack.enter_context(closing(server.connect("bufferlab"))) for _ in range(SESSIONS)]
        threads = [threading.Thread(target=work, args=one) for one in enumerate(connections)]
        for thread in threads:
            thread.start()
        try:
            while sum(done) < WARM_LOOKUPS:
                time.sleep(0.1)
            yield
        finally:
            is_over.set()
            for thread in threads:
                thread.join()


def look(url: str, seconds: float, work: Callable[[], object] | None = None) -> Seen:
    family, listener = family_of(url), Listener(work)
    with Session(family, address_of(url, family)) as session:
        return Observation(session, listener).run(seconds, listener, asks_data=True)


def test_a_pool_of_twice_the_size_misses_no_more_than_the_bound(data: Data) -> None:
    with data.serve(POOL_BYTES) as server, working(server):
        seen = look(data.url(server), LOOK_S)
    found = seen.twice_the_pool
    print(found, sentence.observed(seen))
    assert isinstance(found, TwiceThePool), found
    with data.serve(2 * POOL_BYTES) as server, working(server):
        larger = look(data.url(server), LOOK_S)
    measured = (larger.per("misses", data.unit) or 0.0) / (seen.per("misses", data.unit) or 0.0)
    print(f"measured: {measured:.3f} of the misses")
    assert 0.3 < measured <= found.misses_ratio_at_most < 0.85


def test_a_scan_of_a_table_that_is_larger_than_the_pool_ends_the_claim(data: Data) -> None:
    with data.serve(POOL_BYTES) as server, closing(server.connect("bufferlab")) as connection, working(server):
        found = look(data.url(server), 5.0, lambda: connection.rows("SELECT count(filler) FROM filled"))
    told = found.twice_the_pool
    assert isinstance(told, NotTold)
    assert "larger than" in told.why or "read ahead" in told.why, told
