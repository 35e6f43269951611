"""Two sweeps at once on one server that bufferlab did not start, both allowed to change its settings.

The second must wait its turn or be refused; in the end the server has its owner's settings. One pair in four is killed.
"""

from __future__ import annotations

import json
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

from bufferlab.engines.innodb import control as innodb_control
from bufferlab.engines.postgres import control as postgres_control
from campaign import witness
from campaign.kills import left_over
from campaign.place import Place, place
from campaign.records import Finding, Record, State
from support import innodb, postgres

_SHARE_OF_KILLS = 1 / 4
_LONGEST_SECONDS = 300.0
_LATEST_START_SECONDS = 12.0

_TOML = """\
format_version = 1
name = "pairs"
question = "Do two sweeps on one server disturb each other?"
engine = "{engine}"
[workload]
name = "hot_rows"
rows = 20000
hot_rows = 2000
layout = "scattered"
update_percent = 0
[knobs]
pool_size = "{pool}"
server = "{url}"
[sweep]
{setting} = [{values}]
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
    """A server of somebody else's, and how its owner looks at it."""

    engine: str
    url: str
    """With one place for the schema's name."""
    password: str
    pool: str
    setting: str
    own: Callable[[str], None]
    """Give the setting a value as its owner does."""
    look: Callable[[], Mapping[str, str]]
    """Return every setting of the server and the content of the owner's own table."""

    def toml(self, schema: str, values: Sequence[int]) -> str:
        """Return an experiment that sweeps the setting over these values."""
        shown, url = ", ".join(map(str, values)), self.url.format(schema)
        return _TOML.format(engine=self.engine, pool=self.pool, url=url, setting=self.setting, values=shown)


@contextmanager
def _mysql(root: Path) -> Iterator[Owned]:
    """Start MySQL 5.7 with a schema of its owner's."""
    made = innodb.Place(innodb.build("mysql-5.7"), root)
    made.initialise()
    identity = made.with_accounts()

    with made.server((identity.user, identity.password), connections=40) as server:

        def ask(query: str) -> list[tuple[Any, ...]]:
            with closing(server.connect()) as connection:
                return innodb_control.rows(connection, query)

        def own(value: str) -> None:
            ask(f"SET GLOBAL innodb_lru_scan_depth = {value}")

        def look() -> dict[str, str]:
            told = {str(name): str(value) for name, value in ask("SHOW GLOBAL VARIABLES")}
            # What the server changes by itself.
            told = {name: value for name, value in told.items() if name not in ("timestamp", "gtid_executed")}
            return {**told, "the owner's table": str(ask("SELECT * FROM theirs.precious"))}

        ask("CREATE DATABASE theirs")
        ask("CREATE TABLE theirs.precious (id INT PRIMARY KEY)")
        ask("INSERT INTO theirs.precious VALUES (1), (2), (3)")
        url = f"mysql://bufferlab@localhost/{{}}?socket={server.socket}"
        yield Owned("mysql", url, identity.password, "64MiB", "lru_scan_depth", own, look)


@contextmanager
def _postgres(root: Path) -> Iterator[Owned]:
    """Start PostgreSQL 17 with a database of its owner's."""
    made = postgres.Place(postgres.build("postgres-17"), root).initialise()
    identity = made.identity
    with made.server(connections=40) as server:

        def ask(query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
            with closing(server.connect(database)) as connection:
                return postgres_control.rows(connection, query)

        def own(value: str) -> None:
            ask(f"ALTER SYSTEM SET bgwriter_lru_maxpages = {value}")
            ask("SELECT pg_reload_conf()")

        def look() -> dict[str, str]:
            told = {str(name): str(value) for name, value in ask("SELECT name, setting FROM pg_settings")}
            told["ALTER SYSTEM"] = (made.data / "postgresql.auto.conf").read_text()
            return {**told, "the owner's table": str(ask("SELECT * FROM precious", "theirs"))}

        ask("CREATE DATABASE theirs")
        ask("CREATE TABLE precious AS SELECT generate_series(1, 3) AS id", "theirs")
        url = f"postgres://bufferlab@localhost/{{}}?socket={server.socket.parent}"
        yield Owned("postgres", url, identity.password, "16MiB", "bgwriter_lru_maxpages", own, look)


SERVERS = {"mysql": _mysql, "postgres": _postgres}


def run(state: State, name: str, *, seed: int, seconds: float, goal: int) -> None:
    """Start pairs of sweeps on one server for so long, or until there were as many as the goal."""
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
    """Start one sweep, the other while it lives, kill one of them or none; return what was wrong at the end."""
    owned.own(str(rng.randrange(300, 900)))
    before, shared = owned.look(), witness.shared_memory()
    same_cache = rng.random() < 0.5
    sides = []
    for side in range(2):
        folder = where.root / f"{seed.replace('/', '-')}-{side}"
        folder.mkdir()
        (folder / "pairs.toml").write_text(owned.toml(f"lab{side}", [1000 + side, 2000 + side]))
        cache = where.cache if same_cache or not side else where.root / "cache-of-another"
        environment = where.environment(cache, BUFFERLAB_PASSWORD=owned.password)
        if not same_cache and side:
            environment["BUFFERLAB_LOCKS"] = str(where.root / "locks-of-another")
        sides.append((folder, environment))
    processes: list[subprocess.Popen[bytes]] = []
    for place_in_pair, (folder, environment) in enumerate(sides):
        if place_in_pair:
            _wait(processes[0], rng.uniform(0.0, _LATEST_START_SECONDS))
        arguments: list[str | Path] = [
            "run",
            folder / "pairs.toml",
            "--out",
            folder / "out",
            "--allow-online-changes",
            "--share-device",
        ]
        processes.append(where.start(arguments, folder / "command.log", environment))
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
        # Documented: after a kill the next run on that server, or doctor, puts settings back.
        for _, environment in sides:
            where.start(["doctor"], where.root / "doctor.log", environment).wait()
    wrong += judged(codes, killed, [_windows(folder / "out") for folder, _ in sides])
    wrong += witness.differences("setting of the server", before, owned.look())
    wrong += [f"journal left: {path.name}" for path in where.root.glob("**/online-changes/*.json")]
    logs: dict[str, bytes | Path] = {
        f"command-{side}.log": folder / "command.log" for side, (folder, _) in enumerate(sides)
    }
    for path in logs.values():
        if isinstance(path, Path) and "Traceback (most recent call last)" in path.read_text(errors="replace"):
            wrong.append("a traceback on standard error")
    logs["wrong.txt"] = "\n".join(wrong).encode()
    kept = state.keep(family, seed, logs) if wrong else ""
    findings = [Finding(what, seed, kept) for what in wrong]
    return Record(family, seed, int(overlapped), dict(counts), findings)


def judged(codes: Sequence[int], killed: int | None, windows: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """Return what is wrong with how two sweeps ended: a code that is not promised, or runs at the same time."""
    wrong = []
    for side, code in enumerate(codes):
        # One that runs on when the other was killed may be refused a turn, too.
        if side != killed and code not in (0, 3):
            wrong.append(f"sweep {side + 1} of the pair ended with code {code}")
    if killed is None and 0 not in codes:
        wrong.append(f"neither sweep of the pair was done: codes {codes[0]} and {codes[1]}")
    for begun, ended in windows[0]:
        if any(begun < other_ended and other_begun < ended for other_begun, other_ended in windows[1]):
            wrong.append(f"both sweeps measured at the same time, at {begun}")
    return wrong


def _windows(out: Path) -> list[tuple[str, str]]:
    """Return when the good runs of a sweep began and ended."""
    runs = [json.loads(path.read_text()) for path in out.glob("pairs-*/runs/*/run.json")]
    return [(run["started_at"], run["ended_at"]) for run in runs if run["status"] == "ok"]


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def ended(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a sweep; one that takes too long is killed."""
    try:
        return process.wait(_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
