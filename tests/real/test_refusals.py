"""Cases that can never work on a server by URL (docs/existing-server.md) are refused soon, and change nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bufferlab import spec
from bufferlab.errors import BufferlabError, EnvironmentLackingError, SpecError
from bufferlab.execute import preflight
from bufferlab.execute.sweep import SweepOptions, prepare_estimate, run_sweep
from bufferlab.spec import Overrides
from support import innodb, postgres
from support.existing import Existing

pytestmark = pytest.mark.real

MIB = 1 << 20
SECONDS = 2.0
"""The seconds within which a refusal must come."""
PROGRAM = """
format_version = 1
name = "program"
question = "What does a program read?"
engine = "mariadb"
workload = { exec = "sysbench {socket} run", rows = 1000 }
sweep.pool_size = ["64MiB"]
warm_up = { max_transactions = 100, max_duration = "5s" }
measure = { transactions = 100, max_duration = "5s" }
"""


@dataclass(frozen=True)
class Case:
    """One row of the table in the docs."""

    words: str
    """A pattern in the message."""
    settings: dict[str, str] = field(default_factory=dict)
    sweep: tuple[str, ...] = ()
    """The swept pool sizes."""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """Statements that undo the case, after those that make it."""
    user: str = "bufferlab"
    engine: str = ""
    experiment: str = "hot-rows"
    kind: type[BufferlabError] = SpecError


MARIADB = {
    "another page size": Case("page_size needs another server.*16384 bytes", {"page_size": "4k"}),
    "a setting fixed at the start": Case(
        r"innodb_flush_method is .*, O_DSYNC asked.*a private server", {"flush_method": "O_DSYNC"}
    ),
    "a setting of other versions": Case(
        r"mariadb 10\.11\.\d+ has no buffer_pool_chunk_size", {"buffer_pool_chunk_size": "2MiB"}
    ),
    "a swept setting": Case(
        "innodb_buffer_pool_size is 64 MiB, 8 MiB, 16 MiB asked.*--set pool_size=67108864", sweep=("8MiB", "16MiB")
    ),
    "a variable that the server lacks": Case("no variable nonsense", {"var.nonsense": "1"}),
    "a setting of the host": Case("read_ahead is set around servers that bufferlab starts", {"read_ahead": "0"}),
    "an external program": Case("external programs are started against", experiment="PROGRAM"),
    "another engine": Case("this is a mariadb server", engine="mysql", kind=EnvironmentLackingError),
    "somebody else's tables": Case(
        r"has tables that bufferlab did not make \(orders\)",
        before=("CREATE DATABASE lab", "CREATE TABLE lab.orders AS SELECT 7 AS id"), after=("DROP DATABASE lab",),
    ),
    "somebody else's code": Case(
        "has objects that bufferlab did not make",
        before=("CREATE DATABASE lab", "CREATE FUNCTION lab.f() RETURNS INT RETURN 7"), after=("DROP DATABASE lab",),
    ),
    "code of others with great rights": Case(
        "rights beyond lab, and functions that maker@localhost may make there",
        before=("CREATE DATABASE lab", "GRANT ALL ON lab.* TO maker@localhost"),
        after=("REVOKE ALL ON lab.* FROM maker@localhost", "DROP DATABASE lab"), kind=EnvironmentLackingError,
    ),
    "a server that is read only": Case(
        "the server is read only: read_only = ON",
        before=("SET GLOBAL read_only = ON",), after=("SET GLOBAL read_only = OFF",), user="small",
        kind=EnvironmentLackingError,
    ),
    "rights that are missing": Case("the account lacks .*INSERT.* on lab", user="poor", kind=EnvironmentLackingError),
}  # fmt: skip

POSTGRES = {
    "another size of shared_buffers": Case(
        "shared_buffers is 16 MiB, 8 MiB, 32 MiB asked.*--set pool_size=16777216", sweep=("8MiB", "32MiB")
    ),
    "a server made otherwise": Case("data_checksums needs another server", {"data_checksums": "on"}),
    "a setting fixed at the start": Case("wal_buffers is .*, 1 MiB asked.*--set wal_buffers=", {"wal_buffers": "1MiB"}),
    "a session's setting": Case("random_page_cost is 4, 1.5 asked", {"random_page_cost": "1.5"}),
    "a setting of the host": Case("memory_limit is set around servers", {"memory_limit": "1GiB"}),
    "somebody else's tables": Case(
        r"has tables that bufferlab did not make \(orders\)",
        before=("CREATE DATABASE lab", "lab: CREATE TABLE orders AS SELECT 7 AS id"), after=("DROP DATABASE lab",),
    ),
    "a server that is read only": Case(
        "read only: default_transaction_read_only = on",
        before=("ALTER ROLE small SET default_transaction_read_only = on",),
        after=("ALTER ROLE small RESET default_transaction_read_only",), user="small", kind=EnvironmentLackingError,
    ),
    "a database of another owner": Case(
        "the account lacks to own lab, which bufferlab owns",
        before=("CREATE DATABASE lab",), after=("DROP DATABASE lab",), user="small", kind=EnvironmentLackingError,
    ),
    "no database and no right to make one": Case(
        "the account lacks a database lab, or CREATEDB", user="small", kind=EnvironmentLackingError
    ),
}  # fmt: skip
IN_LAB = "lab: "
"""Prefix of a statement that is for the database lab."""
UNSTEADY = ("timestamp", "gtid", "pseudo", "last_insert", "rand_seed", "in_transaction", "insert_id", "read_only")
"""Parts of the names of variables that change with a session or the time, or that a case itself sets."""


class Server(Existing):
    """A separate server of this test, and everything on it that a refusal must leave unchanged."""

    def __init__(
        self, engine: str, url: str, root: Path, secret: str, ask: Callable[..., list[tuple[Any, ...]]]
    ) -> None:
        super().__init__(engine, url, root, {})
        self.secret, self.ask = secret, ask

    def overrides(self, case: Case) -> Overrides:
        url = self.url.replace("bufferlab@", f"{case.user}@")
        pool = {} if case.sweep else {"pool_size": "64MiB" if self.engine == "mariadb" else "16MiB"}
        asked = {"server": url, **pool, **case.settings}
        if self.engine == "mariadb" and case.user != "small":
            asked = {"lru_scan_depth": "auto", "old_blocks_time": "auto", **asked}
        return Overrides(
            profile=None if case.experiment == "PROGRAM" else "smoke",
            engine=case.engine or self.engine,
            set_knobs=tuple(asked.items()),
            # Numbers of rows, because shares of a knee depend on the pool.
            sweep=(("hot_rows", ("500",)), *([("pool_size", case.sweep)] if case.sweep else [])),
        )

    def loaded(self, case: Case, folder: Path) -> spec.Experiment:
        name: str | Path = case.experiment
        if name == "PROGRAM":
            name = folder / "program.toml"
            name.write_text(PROGRAM)
            return spec.load(name, Overrides(set_knobs=(("server", self.url),)))
        return spec.load(name, self.overrides(case))

    def everything(self) -> str:
        if self.engine == "mariadb":
            told = dict(self.ask("SHOW GLOBAL VARIABLES"))
            tables = self.ask(
                "SELECT table_schema, table_name, create_time FROM information_schema.tables "
                "WHERE table_schema NOT IN ('information_schema', 'performance_schema', 'sys') ORDER BY 1, 2"
            )
            sums = [self.ask(f"CHECKSUM TABLE `{schema}`.`{name}`") for schema, name, _ in tables if schema == "lab"]
            steady = {name: value for name, value in told.items() if not any(part in name for part in UNSTEADY)}
            return json.dumps([steady, tables, sums, self.ask("SHOW DATABASES")], default=str, indent=1)
        (folder,) = self.ask("SHOW data_directory")[0]
        databases = self.ask("SELECT datname, datacl::text, shobj_description(oid, 'pg_database') FROM pg_database")
        there = [name for (name, _, _) in databases if name == "lab"]
        query = "SELECT relname, relfilenode, relpages FROM pg_class ORDER BY oid"
        return json.dumps(
            [
                self.ask("SELECT name, setting FROM pg_settings ORDER BY 1"),
                databases,
                self.ask("SELECT setdatabase, setrole, setconfig FROM pg_db_role_setting ORDER BY 1, 2"),
                (Path(folder) / "postgresql.auto.conf").read_text(),
                [self.ask(query, name) for name in there],
                [self.ask("SELECT md5(string_agg(o::text, ' ')) FROM orders o", name) for name in there if
                 self.ask("SELECT 1 FROM pg_class WHERE relname = 'orders'", name)],
            ],
            default=str, indent=1,
        )  # fmt: skip


@pytest.fixture(scope="module")
def started_mariadb() -> Iterator[Server]:
    """Start MariaDB with a pool of 64 MiB; `small` may use lab_small, `poor` may read lab, `maker` has no rights
    yet."""
    with innodb.folder() as path:
        place = innodb.Place(innodb.build("mariadb-10.11"), path).initialise()
        identity = place.with_accounts()
        with place.server((identity.user, identity.password), connections=20) as server:

            def ask(query: str) -> list[tuple[Any, ...]]:
                with closing(server.connect()) as connection:
                    return connection.rows(query)

            for name in ("small", "poor", "maker"):
                ask(f"CREATE USER {name}@localhost IDENTIFIED BY '{identity.password}'")
            ask("GRANT ALL ON `lab_small`.* TO small@localhost")
            for name in ("small", "poor"):
                ask(f"GRANT PROCESS ON *.* TO {name}@localhost")
            ask("GRANT SELECT ON lab.* TO poor@localhost")
            url = f"mysql://bufferlab@localhost/lab?socket={server.socket}"
            yield Server("mariadb", url, path, identity.password, ask)


@pytest.fixture(scope="module")
def started_postgresql() -> Iterator[Server]:
    """Start PostgreSQL with shared buffers of 16 MiB; `small` may only log in."""
    with postgres.folder() as path:
        place = postgres.Place(postgres.build("postgres-17"), path).initialise()
        with place.server(connections=20) as server:

            def ask(query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
                name = "lab" if query.startswith(IN_LAB) else database
                with closing(server.connect(name)) as connection:
                    return connection.rows(query.removeprefix(IN_LAB))

            ask(f"CREATE ROLE small LOGIN PASSWORD '{place.identity.password}'")
            url = f"postgres://bufferlab@localhost/lab?socket={server.socket.parent}"
            yield Server("postgres", url, path, place.identity.password, ask)


@pytest.fixture
def mariadb(started_mariadb: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Return the server, with its password in the environment of this one test."""
    monkeypatch.setenv("BUFFERLAB_PASSWORD", started_mariadb.secret)
    monkeypatch.setenv("BUFFERLAB_CACHE", str(started_mariadb.root / "cache"))
    return started_mariadb


@pytest.fixture
def postgresql(started_postgresql: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("BUFFERLAB_PASSWORD", started_postgresql.secret)
    monkeypatch.setenv("BUFFERLAB_CACHE", str(started_postgresql.root / "cache"))
    return started_postgresql


def is_refused(server: Server, case: Case, folder: Path) -> None:
    experiment = server.loaded(case, folder)
    options = SweepOptions(share_device=True)
    for statement in case.before:
        server.ask(statement)
    try:
        before, moments = server.everything(), [time.monotonic()]
        with pytest.raises(case.kind) as real:
            run_sweep(experiment, folder / "runs", options=options)
        moments.append(time.monotonic())
        with pytest.raises(case.kind) as dry:
            prepare_estimate(experiment, options)
        moments.append(time.monotonic())
        assert server.everything() == before
    finally:
        for statement in case.after:
            server.ask(statement)
    # Each message about a server is short, and has a hint.
    assert [problem for problem in real.value.problems if len(problem.what) > 400 or not problem.hint] == []
    real.match(f"(?s){case.words}")
    dry.match(f"(?s){case.words}")
    # The shorter of two tries: other programs may use the processors.
    assert min(later - earlier for earlier, later in pairwise(moments)) < SECONDS
    assert not list((folder / "runs").glob("*-*"))


@pytest.mark.parametrize("name", MARIADB)
def test_what_can_never_work_on_mariadb_is_refused(mariadb: Server, name: str, tmp_path: Path) -> None:
    case = MARIADB[name]
    # The account has a separate schema, so that no other user may make functions in the schema of the others.
    if case.user == "small":
        mariadb.url = mariadb.url.replace("/lab?", "/lab_small?")
    try:
        is_refused(mariadb, case, tmp_path)
    finally:
        mariadb.url = mariadb.url.replace("/lab_small?", "/lab?")


@pytest.mark.parametrize("name", POSTGRES)
def test_what_can_never_work_on_postgresql_is_refused(postgresql: Server, name: str, tmp_path: Path) -> None:
    is_refused(postgresql, POSTGRES[name], tmp_path)


@pytest.mark.parametrize("engine", ["mariadb", "postgres"])
def test_a_look_at_a_server_tells_what_it_is_and_changes_nothing(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    server: Server = request.getfixturevalue("mariadb" if engine == "mariadb" else "postgresql")
    before = server.everything()
    told = server.command("doctor", "--server", server.url, "--json")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert (found["engine"], found["status"], found["server"]) == (engine, "ok", server.url)
    said = {finding["name"]: finding["detail"] for finding in found["findings"]}
    assert "not encrypted" in said["connection"]
    assert said["sizes"].startswith(f"a pool of {64 if engine == 'mariadb' else 16} MiB")
    assert "there is none named lab" in said["schema" if engine == "mariadb" else "database"]
    assert server.secret not in told.stdout + told.stderr
    _, cost, findings = prepare_estimate(server.loaded(Case(""), tmp_path))
    preflight.require(findings)
    assert (cost.data_bytes, cost.cache_bytes) == (0, 0)
    assert server.everything() == before
