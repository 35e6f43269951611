"""Two sweeps at once in two schemas of one server that bufferlab did not start.

Each must finish, and neither may touch the other's schema, the owner's schema or a setting. In one pair in four a sweep
is killed and started again.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign import witness
from campaign.kills import left_over
from campaign.place import Place, place
from campaign.records import Finding, Record, State
from support import innodb, postgres

_SHARE_OF_KILLS = 1 / 4
_LONGEST_SECONDS = 300.0
_LATEST_START_SECONDS = 12.0
_ROWS = (20_000, 21_000)
"""The number of rows that each of the two sweeps loads."""

_TOML = """\
format_version = 1
name = "pairs"
question = "Do two sweeps on one server disturb each other?"
engine = "{engine}"
[workload]
name = "hot_rows"
rows = {rows}
layout = "scattered"
update_percent = 0
[knobs]
pool_size = "{pool}"
server = "{url}"
[sweep]
hot_rows = [1000, 2000]
[warm_up]
max_transactions = 1000
max_duration = "5s"
on_cap = "report"
[measure]
duration = "2s"
[design]
repetitions = 1
seed = 1
"""


@dataclass(frozen=True)
class Owned:
    """Another user's server, with the owner's means to check it."""

    engine: str
    url: str
    """The server's URL, with a placeholder for the schema's name."""
    password: str
    pool: str
    look: Callable[[], Mapping[str, str]]
    """Return every setting of the server and the content of the owner's own table."""
    rows: Callable[[str], int]
    """Return the number of rows in the table of one of our schemas."""

    def toml(self, schema: str, rows: int) -> str:
        """Return an experiment on `rows` rows in the schema."""
        return _TOML.format(engine=self.engine, pool=self.pool, url=self.url.format(schema), rows=rows)


@contextmanager
def _mysql(root: Path) -> Iterator[Owned]:
    """Start MySQL 5.7 with a schema of its owner."""
    made = innodb.Place(innodb.build("mysql-5.7"), root)
    made.initialise()
    identity = made.with_accounts()

    with made.server((identity.user, identity.password), connections=40) as server:

        def ask(query: str) -> list[tuple[Any, ...]]:
            with closing(server.connect()) as connection:
                return connection.rows(query)

        def rows(schema: str) -> int:
            return int(ask(f"SELECT COUNT(*) FROM {schema}.sbtest1")[0][0])

        def look() -> dict[str, str]:
            told = {str(name): str(value) for name, value in ask("SHOW GLOBAL VARIABLES")}
            # The server changes these variables by itself.
            told = {name: value for name, value in told.items() if name not in ("timestamp", "gtid_executed")}
            return {**told, "the owner's table": str(ask("SELECT * FROM theirs.precious"))}

        ask("CREATE DATABASE theirs")
        ask("CREATE TABLE theirs.precious (id INT PRIMARY KEY)")
        ask("INSERT INTO theirs.precious VALUES (1), (2), (3)")
        url = f"mysql://bufferlab@localhost/{{}}?socket={server.socket}"
        yield Owned("mysql", url, identity.password, "64MiB", look, rows)


@contextmanager
def _postgres(root: Path) -> Iterator[Owned]:
    """Start PostgreSQL 17 with a database of its owner."""
    made = postgres.Place(postgres.build("postgres-17"), root).initialise()
    identity = made.identity
    with made.server(connections=40) as server:

        def ask(query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
            with closing(server.connect(database)) as connection:
                return connection.rows(query)

        def rows(database: str) -> int:
            return int(ask("SELECT count(*) FROM sbtest1", database)[0][0])

        def look() -> dict[str, str]:
            told = {str(name): str(value) for name, value in ask("SELECT name, setting FROM pg_settings")}
            told["ALTER SYSTEM"] = (made.data / "postgresql.auto.conf").read_text()
            return {**told, "the owner's table": str(ask("SELECT * FROM precious", "theirs"))}

        ask("CREATE DATABASE theirs")
        ask("CREATE TABLE precious AS SELECT generate_series(1, 3) AS id", "theirs")
        url = f"postgres://bufferlab@localhost/{{}}?socket={server.socket.parent}"
        yield Owned("postgres", url, identity.password, "16MiB", look, rows)


SERVERS = {"mysql": _mysql, "postgres": _postgres}


def run(state: State, name: str, *, seed: int, seconds: float, goal: int) -> None:
    """Start pairs of sweeps on one server for `seconds`, or until the goal of pairs is reached."""
    family = f"pairs:{name}"
    if state.total(family).trials >= goal:
        return
    with innodb.folder() as root, SERVERS[name](root) as owned, place() as where:
        ends = time.monotonic() + seconds
        number = state.total(family).counts["pairs started"]
        while time.monotonic() < ends and state.total(family).trials < goal:
            rng = random.Random(f"{family}/{seed}/{number}")
            record = _trial(state, where, owned, family, f"{seed}/{number}", rng)
            state.add(record)
            print(f"{family} seed {record.seed}: {dict(record.counts)}", flush=True)
            number += 1


def _trial(state: State, where: Place, owned: Owned, family: str, seed: str, rng: random.Random) -> Record:
    """Start one sweep, and the other while the first is alive; kill one of them or none; return the faults at the
    end."""
    before, shared = owned.look(), witness.shared_memory()
    same_cache = rng.random() < 0.5
    sides = []
    for side in range(2):
        folder = where.root / f"{seed.replace('/', '-')}-{side}"
        folder.mkdir()
        (folder / "pairs.toml").write_text(owned.toml(_schema(side), _ROWS[side]))
        cache = where.cache if same_cache or not side else where.root / "cache-of-another"
        environment = where.environment(cache, BUFFERLAB_PASSWORD=owned.password)
        if not same_cache and side:
            environment["BUFFERLAB_LOCKS"] = str(where.root / "locks-of-another")
        sides.append((folder, environment))

    def start(side: int, log: str) -> subprocess.Popen[bytes]:
        folder, environment = sides[side]
        arguments: list[str | Path] = ["run", folder / "pairs.toml", "--out", folder / "out", "--share-device"]
        return where.start(arguments, folder / log, environment)

    processes = [start(0, "command.log")]
    _wait(processes[0], rng.uniform(0.0, _LATEST_START_SECONDS))
    processes.append(start(1, "command.log"))
    overlapped = processes[0].poll() is None
    killed = None
    if rng.random() < _SHARE_OF_KILLS:
        killed = rng.randrange(2)
        _wait(processes[killed], rng.uniform(1.0, _LATEST_START_SECONDS))
        processes[killed].send_signal(signal.SIGKILL)
    codes = [ended(process) for process in processes]
    counts = Counter({"pairs started": 1, "pairs killed": int(killed is not None)})
    counts.update(f"exit {code}" for code in codes)
    wrong = left_over(where, shared)
    if killed is not None:
        # The next sweep finds the killed sweep's schema free, and loads it completely.
        codes[killed] = ended(start(killed, "again.log"))
        counts[f"again {codes[killed]}"] += 1
    wrong += judged(codes, [owned.rows(_schema(side)) for side in range(2)])
    wrong += witness.differences("setting of the server", before, owned.look())
    files: dict[str, bytes | Path] = {
        f"{side}-{path.name}": path for side, (folder, _) in enumerate(sides) for path in folder.glob("*.log")
    }
    for path in files.values():
        if isinstance(path, Path) and "Traceback (most recent call last)" in path.read_text(errors="replace"):
            wrong.append("a traceback on standard error")
    files["wrong.txt"] = "\n".join(wrong).encode()
    kept = state.keep(family, seed, files) if wrong else ""
    findings = [Finding(what, seed, kept) for what in wrong]
    return Record(family, seed, int(overlapped), dict(counts), findings)


def _schema(side: int) -> str:
    return f"lab{side}"


def judged(codes: Sequence[int], rows: Sequence[int]) -> list[str]:
    """Return the faults of two sweeps' ends: a sweep that did not finish, or a schema without its own rows."""
    wrong = [f"sweep {side} of the pair ended with code {code}" for side, code in enumerate(codes, 1) if code]
    return wrong + [
        f"the schema of sweep {side} holds {found:,} rows in place of {loaded:,}"
        for side, (found, loaded) in enumerate(zip(rows, _ROWS, strict=True), 1)
        if found != loaded
    ]


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def ended(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a sweep; kill a sweep that takes too long."""
    try:
        return process.wait(_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
