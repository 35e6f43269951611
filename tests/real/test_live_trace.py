"""Attaching to running servers: the recorded accesses equal the counted ones, and the servers keep working in any
case."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from bufferlab.engines.innodb import control as innodb_control
from bufferlab.engines.native import native
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.look import Facts, NotTold
from bufferlab.engines.servers.private_server import PrivateServer
from bufferlab.errors import EnvironmentLackingError
from bufferlab.live import host_side, live_trace
from bufferlab.live.frames import listed_buffers
from bufferlab.live.live_trace import Tier, recorded
from bufferlab.results.trace_words import page_trace_words
from support import innodb, postgres
from support.core import ROOT
from support.fake import wait_until
from support.traced_servers import bpf_programs

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROWS, STATEMENTS = 40_000, 3_000
LIMIT_BYTES = 256 << 20
KINDS = page_trace_words().kinds
ALL = [
    "mysql-5.7",
    "postgres-17",
    *(pytest.param(one, marks=pytest.mark.servers) for one in ("mariadb-11.4", "mysql-9")),
]
ANY = [
    "mysql-5.7",
    "postgres-17",
    *(
        pytest.param(one, marks=pytest.mark.servers)
        for one in (
            "mysql-8.0",
            "mysql-9",
            "mariadb-10.11",
            "mariadb-11.8",
            "postgres-15",
            "postgres-18",
        )
    ),
]
"""Builds whose calls are followed: any build, with known sites or not."""
ONE = ["mysql-5.7"]
RELEASES = ["", "5.15.0-91-generic"]
"""This kernel, and a release without links of many places."""
_HOLD = """\
import sys, time
from pathlib import Path
from bufferlab.engines.servers.look import Facts
from bufferlab.live import live_trace
facts = Facts(sys.argv[2], "", (), "", 16384, 1 << 20, "", "", 1.0)
plan = live_trace.plan(int(sys.argv[1]), facts, "full")
trace = live_trace.attach(plan, Path(sys.argv[3]), events_per_s_max=1e9, limit_bytes=1 << 28)
print("attached", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def kernel() -> None:
    """Skip the test with a message if this kernel cannot watch a program for us."""
    try:
        native().live_trace_check()
    except Exception as error:
        pytest.skip(f"NOT TESTED: page accesses of servers cannot be recorded here: {error}")


@dataclass(frozen=True)
class OfKernel(live_trace.SitePlan):
    """A plan that is attached as on a kernel of another release."""

    release: str = ""

    def job(self, spool: Path, limit_bytes: int, events_per_s_max: float) -> str:
        return json.dumps({**json.loads(super().job(spool, limit_bytes, events_per_s_max)), "release": self.release})


@dataclass
class Served:
    """A server with a table larger than its pool, and the questions to it."""

    server: PrivateServer
    root: Path

    @property
    def flavour(self) -> Any:
        return self.server.build.flavour

    @property
    def pid(self) -> int:
        return self.server.pid

    @property
    def facts(self) -> Facts:
        """Return the facts that a look at the server would find."""
        pool_bytes = 2 << 20 if self.flavour == "postgres" else 6 << 20
        page_bytes = 8192 if self.flavour == "postgres" else 16384
        version, numbers = self.server.build.version, self.server.build.numbers[:2]
        return Facts(self.flavour, version, numbers, "here", page_bytes, pool_bytes, "transaction", "", 1.0)

    def plan(self, tier: Tier) -> live_trace.LivePlan:
        return live_trace.plan(self.pid, self.facts, tier)

    @contextmanager
    def attached(self, tier: Tier, events_per_s_max: float = 1e9, release: str = "") -> Iterator[live_trace.LiveTrace]:
        spool = self.root / f"spool-{time.monotonic_ns()}"
        plan = self.plan(tier)
        if release:
            assert isinstance(plan, live_trace.SitePlan)
            plan = OfKernel(**vars(plan), release=release)
        with live_trace.attach(plan, spool, events_per_s_max=events_per_s_max, limit_bytes=LIMIT_BYTES) as trace:
            yield trace

    def fill(self) -> None:
        with closing(self.server.connect("bufferlab")) as connection:
            connection.ask("CREATE TABLE t (id INT PRIMARY KEY, v INT NOT NULL, filler CHAR(200) NOT NULL)")
            for first in range(0, ROWS, 1000):
                rows = ", ".join(f"({number}, 0, 'x')" for number in range(first, first + 1000))
                connection.ask(f"INSERT INTO t VALUES {rows}")

    def work(self, statements: int = STATEMENTS, seed: int = 1) -> None:
        """Run statements in one session, and end it: PostgreSQL publishes the session's counts then."""
        chosen = np.random.default_rng(seed).integers(0, ROWS, statements).tolist()
        with closing(self.server.connect("bufferlab")) as connection:
            for place, number in enumerate(chosen):
                if place % 10:
                    connection.ask(f"SELECT filler FROM t WHERE id = {number}")
                else:
                    connection.ask(f"UPDATE t SET v = v + 1 WHERE id = {number}")

    def counted(self) -> Mapping[str, int]:
        """Return the server's own counts of gets and of reads."""
        with closing(self.server.connect("bufferlab")) as connection:
            if self.flavour == "postgres":
                # A session publishes its counts when it ends, a moment after its client has disconnected.
                others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
                wait_until(lambda: connection.ask(others)[1] == [(1,)], "the other sessions to end")
                counts = "SELECT sum(blks_hit), sum(blks_read) FROM pg_stat_database"
                ((hits, reads),) = connection.ask(counts)[1]
                return {"get": int(hits + reads), "read": int(reads)}
            # Purge continues after the statements have ended.
            found: dict[str, int] = {}
            while found != (found := self._counted(connection)):
                time.sleep(0.5)
            return found

    @staticmethod
    def _counted(connection: Any) -> dict[str, int]:
        told = innodb_control.status(connection, "Innodb_%")
        return {"get": int(told["innodb_buffer_pool_read_requests"]), "read": int(told["innodb_pages_read"])}

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run a load in two sessions meanwhile, which must succeed; it is paced, so that a busy machine does not change
        it."""
        ended, failed = threading.Event(), []

        def work(seed: int) -> None:
            try:
                while not ended.is_set():
                    due_s = time.monotonic() + 2
                    self.work(200, seed)
                    ended.wait(max(0.0, due_s - time.monotonic()))
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert failed == []

    def require_untouched(self) -> None:
        """Require that the process has no probe: attaching would refuse it."""
        with self.attached("full"):
            pass


def copied(build: Build, root: Path) -> Build:
    """Return the same build in a separate folder: if other tests run the same file, attaching is refused."""
    top = next(parent for parent in build.binary.parents if parent.parent.name == "servers")
    shutil.copytree(top, root / "build", symlinks=True)
    moved = {
        name: root / "build" / path.relative_to(top)
        for name in ("binary", "share", "libraries", "system_tables")
        if (path := getattr(build, name)) is not None
    }
    return replace(build, **moved)


@contextmanager
def served(name: str, root: Path, moved: Callable[[Build, Path], Build] = copied) -> Iterator[Served]:
    """Yield a server in a folder, with the table loaded."""
    if name.startswith("postgres"):
        of_postgres = postgres.Place(moved(postgres.build(name), root), root).initialise()
        with of_postgres.server(connections=20, settings={"shared_buffers": "2MB"}) as server:
            made = Served(server, root)
            made.fill()
            yield made
        return
    place = innodb.Place(moved(innodb.build(name), root), root).initialise()
    identity = place.with_accounts()
    # The models assume that changes are not buffered; MariaDB from 11 on has no such setting.
    settings = {"innodb_buffer_pool_size": str(6 << 20), "loose_innodb_change_buffering": "none"}
    with place.server((identity.user, identity.password), settings=settings, connections=20) as server:
        made = Served(server, root)
        made.fill()
        yield made


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    with innodb.folder() as root, served(request.param, root) as made:
        yield made


def require_calls_counted(server: Served) -> None:
    """Require that the pages that calls read into frames equal the server's count, and that nearly all frames become
    known."""
    before = server.counted()
    with server.attached("misses") as trace:
        for seed in range(3):
            server.work(seed=seed)
        told = recorded(trace)
        outcome = trace.finish()
    growth = server.counted()["read"] - before["read"]
    seen = outcome["frames"]
    print(server.server.build.name, seen, growth, {name: outcome[name] for name in ("reader_cpu_ns", "detach_ns")})
    assert (told.ended, outcome["lost"], outcome["left_out_calls"]) == ("whole", 0, 0)
    assert growth > 1500
    # Between the counters and the trace sessions begin and end, which read a few pages of the catalogue.
    assert growth * 0.97 - 50 <= seen["read_pages"] <= growth + 20
    assert seen["unnamed_pages"] < 0.25 * seen["read_pages"]
    assert seen["odd_reads"] == 0
    kinds = [int((told.columns["kind"] == KINDS.index(name)).sum()) for name in ("read", "evict", "get")]
    assert kinds[2] == 0
    # In such a small pool InnoDB's free list is a large part: pages are evicted a while before their frames are filled.
    if told.cannot_say is None:
        assert kinds[0] > 500
        assert kinds[1] >= 0.9 * kinds[0]
    else:
        assert seen["moved_pages"] > 0.04 * seen["read_pages"], told.cannot_say


@pytest.mark.parametrize("server", ANY, indirect=True)
def test_misses_of_any_build_are_the_pages_that_it_counts_as_read(server: Served) -> None:
    require_calls_counted(server)


def require_counted(server: Served, release: str) -> None:
    """Require that `full` records what the server counts, except for accesses between the counters and the trace."""
    before = server.counted()
    with server.attached("full", release=release) as trace:
        server.work()
        # Sessions of a few milliseconds each.
        for seed in range(20):
            server.work(10, seed)
        server.counted()
        told = recorded(trace)
        outcome = trace.finish()
    after = server.counted()
    assert (told.ended, outcome["lost"], outcome["other_stops"]) == ("whole", 0, 0)
    kinds = {name: int((told.columns["kind"] == number).sum()) for number, name in enumerate(KINDS)}
    growth = {name: after[name] - before[name] for name in after}
    print(server.server.build.name, kinds, growth, {name: outcome[name] for name in ("reader_cpu_ns", "detach_ns")})
    assert growth["read"] > 500
    assert growth["read"] * 0.97 - 50 <= kinds["read"] <= growth["read"] + 20
    assert kinds["evict"] > 500
    gets = kinds["get"] + kinds["get_if_in_pool"]
    if server.server.build.name.startswith("mariadb"):
        # The server does not count optimistic gets (page_sites.toml).
        assert gets > 0.9 * growth["get"]
    else:
        assert growth["get"] * 0.95 - 2000 <= gets <= growth["get"] * 1.005
    assert len(told.columns["page"]) == sum(kinds.values()) == len(told.columns["delta_us"])
    assert told.columns["page"].max() + 1 == len(told.object) == len(told.page_in_object)
    assert told.columns["delta_us"].sum() / 1e6 <= told.seconds
    assert (len(told.relations) > 0) == (server.flavour == "postgres")


# A site of PostgreSQL 15 is passed only after a counter was raised.
@pytest.mark.parametrize(
    "server", [*(pytest.param(name, marks=pytest.mark.servers) for name in ("postgres-15", "postgres-18")),
               "postgres-17"], indirect=True)  # fmt: skip
def test_a_list_of_postgresqls_buffers_names_every_frame_and_its_log_is_none_of_the_pool(server: Served) -> None:
    with closing(server.server.connect("bufferlab")) as connection:
        connection.ask("CREATE EXTENSION IF NOT EXISTS pg_buffercache")

        def query(sql: str) -> list[dict[str, Any]]:
            heads, rows = connection.ask(sql)
            return [dict(zip(heads, row, strict=True)) for row in rows]

        with server.attached("misses") as trace:
            server.work(300)
            found = listed_buffers(query, server.pid)
            assert not isinstance(found, NotTold)
            trace.name_frames(found)
            server.work(seed=2)
            outcome = trace.finish()
            told = recorded(trace)
    seen, frames = outcome["frames"], server.facts.pool_size_bytes // server.facts.page_size_bytes
    # Before the list is taken, the load has read into some frames again: for those the calls decide.
    assert (seen["used_lists"], seen["frames"]) == (1, frames)
    assert seen["listed_frames"] > 0.2 * frames
    # Only reads before the list are into frames of unknown pages, except for a few pages whose eviction was not seen.
    assert seen["unnamed_pages"] < 1.5 * frames
    assert told.cannot_say is None
    # Rows are changed in place: the load makes few pages, and none of the log, whose buffers are in the same memory.
    assert seen["created_pages"] < 0.1 * seen["written_pages"]


@pytest.mark.parametrize(
    "server",
    [*ALL, *(pytest.param(name, marks=pytest.mark.servers) for name in ("postgres-15", "postgres-19"))],
    indirect=True,
)
@pytest.mark.parametrize("release", RELEASES)
def test_full_records_what_the_server_counts_and_leaves_nothing(server: Served, release: str) -> None:
    require_counted(server, release)
    server.require_untouched()


@pytest.mark.servers
def test_a_server_behind_its_own_loader_is_found_over_tcp_and_its_program_behind_the_loader() -> None:
    with innodb.folder() as root:
        place = postgres.Place(postgres.build("postgres-19"), root).initialise()
        user = place.identity.user
        with (
            postgres.listening(place, "host all all 127.0.0.1/32 trust\n") as (port, running),
            psycopg.connect(host="127.0.0.1", port=port, user=user, dbname="postgres") as session,
        ):
            facts = Facts("postgres", "19.0", (19, 0), "", 8192, 2 << 20, "transaction", "", 1.0,
                          thread=session.info.backend_pid)  # fmt: skip
            assert host_side.find(facts, None) == running.pid
            plan = live_trace.plan(running.pid, facts, "full")
            assert isinstance(plan, live_trace.SitePlan)
            assert plan.program == str(place.build.binary)


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_above_the_limit_a_trace_detaches_itself_within_half_a_second(server: Served) -> None:
    with server.working():
        time.sleep(0.5)
        with server.attached("full", events_per_s_max=100.0) as trace:
            wait_until(lambda: trace.told()["detached"], "the trace to detach itself", 10)
            told = recorded(trace)
            outcome = trace.finish()
        assert told.ended == outcome["state"] == "rate"
        assert len(told.columns["page"]) > 0
        attached_s = (outcome["end_ns"] - outcome["start_ns"] + outcome["detach_ns"]) / 1e9
        print(f"attached {attached_s:.3f} s, of it {outcome['detach_ns'] / 1e9:.3f} s to detach")
        assert attached_s < 0.5
        server.require_untouched()


@pytest.mark.parametrize("server", ["mysql-5.7", "postgres-17"], indirect=True)
def test_a_kill_of_the_attached_command_leaves_no_probe_and_the_server_goes_on(server: Served) -> None:
    before = bpf_programs()
    command = [sys.executable, "-c", _HOLD, str(server.pid), server.flavour, str(server.root / "held")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with server.working():
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as holder:
            try:
                assert holder.stdout is not None
                assert holder.stdout.readline() == "attached\n"
                with pytest.raises(EnvironmentLackingError, match="other code at"), server.attached("full"):
                    pass
            finally:
                holder.kill()
        wait_until(lambda: bpf_programs() <= before, "the programs to go", 10)
        server.require_untouched()
    server.work(100)


@pytest.mark.parametrize("server", ["mysql-5.7", "postgres-17"], indirect=True)
def test_another_server_of_the_binary_is_not_mixed_in_and_one_that_dies_ends_the_trace(server: Served) -> None:
    family = postgres if server.flavour == "postgres" else innodb
    with server.attached("full") as trace:
        second = server.root / "second"
        second.mkdir(mode=0o711)
        family.Place(server.server.build, second).initialise()
        told = trace.told()
        # If sessions are processes, the kernel also stops another server's processes, and the trace reports these
        # stops.
        assert (told["other_stops"] > 0) == bool(told["other_processes"]) == (server.flavour == "postgres")
        assert server.pid not in told["other_processes"]
        server.work(100)
        server.server.abandon()
        wait_until(lambda: trace.told()["detached"], "the trace to see that the server has gone", 10)
        ended = recorded(trace)
    assert ended.ended == "gone"
    assert len(ended.columns["page"]) > 0
    with pytest.raises(EnvironmentLackingError, match=r"has ended|not known"):
        server.plan("full")
    with pytest.raises(EnvironmentLackingError, match="has ended"):
        server.plan("misses")


_IN_A_CONTAINER = """\
import subprocess, sys
from dataclasses import replace
from pathlib import Path
from real import test_live_trace as tests
root, name = Path(sys.argv[1]), sys.argv[2]

def overlaid(build, root):
    here = tests.copied(build, root)
    for folder in ("nothing", "seen"):
        (root / folder).mkdir()
    layers = f"lowerdir={root}/nothing:{root}/build"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(root / "seen")], check=True)
    paths = {one: getattr(here, one) for one in ("binary", "share", "libraries", "system_tables")}
    return replace(here, **{
        one: root / "seen" / path.relative_to(root / "build") for one, path in paths.items() if path is not None
    })

with tests.served(name, root, overlaid) as server:
    print(server.pid, flush=True)
    for line in sys.stdin:
        server.work()
        print("done", flush=True)
"""


@pytest.mark.parametrize("name", ONE)
def test_a_server_that_sees_other_files_is_traced_by_its_own_root(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests'}"}
    with innodb.folder() as root:
        words = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            sys.executable,
            "-c",
            _IN_A_CONTAINER,
            str(root),
            name,
        ]
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as inner:
            assert inner.stdin is not None
            assert inner.stdout is not None
            pid = int(inner.stdout.readline())
            facts = Facts("mysql", "5.7.22", (5, 7, 22), "", 16384, 6 << 20, "", "", 1.0)
            assert live_trace.plan(pid, facts, "misses").pid == pid
            plan = live_trace.plan(pid, facts, "full")
            assert isinstance(plan, live_trace.SitePlan)
            assert "of its container" in plan.sentence
            assert not Path(plan.program).exists(), "only the server sees it there"
            with live_trace.attach(plan, tmp_path / "spool", events_per_s_max=1e9, limit_bytes=LIMIT_BYTES) as trace:
                inner.stdin.write("work\n")
                inner.stdin.flush()
                assert inner.stdout.readline() == "done\n"
                told = recorded(trace)
            inner.stdin.close()
        assert inner.returncode == 0
    assert told.ended == "whole"
    assert int((told.columns["kind"] == KINDS.index("read")).sum()) > 500
