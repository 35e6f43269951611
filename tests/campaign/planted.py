"""Objects that a tenant plants in the schema that bufferlab is to use: none of them may run with a superuser's rights.

A tenant owns one database (PostgreSQL) or has all rights on one schema (MySQL). The tenant plants any of these: a list
of tables, code on tables, objects in their place. Then sweeps run as the server's superuser and as the tenant. In the
end the server must have its owner's settings. Each planted object must be in its place, or a sweep must have refused it
by name. All planted code that ran must have had only the tenant's rights.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bufferlab.engines.innodb.connection import connect as innodb_connect
from bufferlab.engines.innodb.run import InnodbRun
from bufferlab.engines.postgres import control as postgres_control
from bufferlab.engines.postgres.connection import connect as postgres_connect
from bufferlab.engines.postgres.run import PostgresRun
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.existing.address import private
from campaign import witness
from campaign.pairs import SERVERS, Owned, ended
from campaign.place import Place, place
from campaign.records import Finding, Record, State
from support import innodb

_TENANT, _PASSWORD = "tenant", "rented"
_MYSQL_PLANTS = (
    "CREATE TRIGGER pwn BEFORE {when} ON sbtest1 FOR EACH ROW SET @a = spy()",
    "RENAME TABLE sbtest1 TO hidden; CREATE SQL SECURITY INVOKER VIEW sbtest1 AS "
    "SELECT id, k, spy() AS c, pad FROM hidden",
    "RENAME TABLE bufferlab_marker TO hidden_marker; CREATE SQL SECURITY INVOKER VIEW bufferlab_marker AS "
    "SELECT id, data_id, state, made, spy() AS objects FROM hidden_marker",
    "CREATE FUNCTION count_it() RETURNS INT SQL SECURITY INVOKER READS SQL DATA RETURN 1",
    "CREATE TABLE precious (id INT); UPDATE bufferlab_marker SET made = '[\"precious\", \"sbtest1\"]'",
    "ALTER TABLE sbtest1 ADD kept INT", "CREATE INDEX theirs ON sbtest1 (c)", "DROP TABLE sbtest1",
    "UPDATE bufferlab_marker SET made = '{{', state = 'clean'", "UPDATE bufferlab_marker SET objects = '[[[['",
)  # fmt: skip
_MYSQL_SPY = (
    "CREATE TABLE seen (who TEXT, file TEXT) COMMENT = 'bufferlab'",
    "CREATE FUNCTION spy() RETURNS TEXT SQL SECURITY INVOKER MODIFIES SQL DATA "
    "BEGIN INSERT INTO lab.seen VALUES (CURRENT_USER(), ''); RETURN 'x'; END",
)
_POSTGRES_PLANTS = (
    "CREATE TRIGGER pwn BEFORE {when} ON sbtest1 FOR EACH ROW EXECUTE FUNCTION hidden.spy_trigger()",
    "ALTER TABLE sbtest1 RENAME TO old; CREATE VIEW sbtest1 AS SELECT id, k, hidden.spy()::text AS c, pad FROM old",
    "CREATE POLICY mine ON sbtest1 USING (hidden.spy() > 0); ALTER TABLE sbtest1 ENABLE ROW LEVEL SECURITY; "
    "ALTER TABLE sbtest1 FORCE ROW LEVEL SECURITY",
    "CREATE FUNCTION count(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT hidden.spy()::bigint'",
    "CREATE FUNCTION pg_relation_size(oid) RETURNS bigint LANGUAGE sql AS 'SELECT hidden.spy()::bigint'",
    "CREATE VIEW pg_settings AS SELECT hidden.spy()::text AS name; ALTER DATABASE lab SET search_path = public",
    "CREATE RULE pwn AS ON UPDATE TO sbtest1 DO ALSO SELECT hidden.spy()",
    "ALTER DATABASE lab SET search_path = hidden, public", "ALTER TABLE sbtest1 ADD kept INT",
    "CREATE INDEX theirs ON sbtest1 (c)", "DROP TABLE sbtest1", "CREATE TABLE precious (id INT)",
)  # fmt: skip
_POSTGRES_SPY = (
    "CREATE SCHEMA hidden CREATE TABLE seen (who TEXT, rights TEXT)",
    "CREATE FUNCTION hidden.spy() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RESET ROLE; RESET SESSION AUTHORIZATION; "
    "INSERT INTO hidden.seen VALUES (session_user, current_setting('is_superuser')); RETURN 1; END $$",
    "CREATE FUNCTION hidden.spy_trigger() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN PERFORM hidden.spy(); RETURN NEW; END $$",
)


@dataclass(frozen=True)
class Tenancy:
    """The means of a tenant on one family of servers, by separate sessions."""

    plants: Sequence[str]
    spy: Sequence[str]
    begin: Callable[[], None]
    """Make the tenant's empty schema `lab` again, as the server's owner."""
    ask: Callable[[str], list[tuple[Any, ...]]]
    """Run one statement in `lab` as the tenant."""
    seen: str
    """The query for the rights with which the tenant's code ran."""
    forge: Callable[[], None]
    """Forge the mark: it says that the load made the spy's table, and that all objects in `lab` were there after the
    load."""
    there: str
    """The query for the names of all relations in `lab`."""


@contextmanager
def _mysql(owned: Owned) -> Iterator[Tenancy]:
    socket = owned.url.partition("socket=")[2]

    def session(user: str, password: str, schema: str | None) -> Client:
        return innodb_connect(private(socket, user, password), schema)

    def great(query: str) -> None:
        with closing(session("bufferlab", owned.password, None)) as connection:
            connection.rows(query)

    def ask(query: str) -> list[tuple[Any, ...]]:
        with closing(session(_TENANT, _PASSWORD, "lab")) as connection:
            return connection.rows(query)

    def begin() -> None:
        great("DROP DATABASE IF EXISTS lab")
        great("CREATE DATABASE lab")

    def forge() -> None:
        with closing(session(_TENANT, _PASSWORD, None)) as connection:
            mark = InnodbRun().marked(connection, "lab")
            assert mark is not None
            there = tuple(InnodbRun().objects(connection, "lab"))
            InnodbRun().mark(connection, "lab", replace(mark, made=(*mark.made, "seen"), objects=there))

    great(f"CREATE USER {_TENANT}@localhost IDENTIFIED WITH mysql_native_password BY '{_PASSWORD}'")
    great(f"GRANT ALL ON lab.* TO {_TENANT}@localhost")
    great(f"GRANT PROCESS ON *.* TO {_TENANT}@localhost")
    seen = f"SELECT who FROM seen WHERE who <> '{_TENANT}@localhost'"
    yield Tenancy(_MYSQL_PLANTS, _MYSQL_SPY, begin, ask, seen, forge, "SHOW TABLES")


@contextmanager
def _postgres(owned: Owned) -> Iterator[Tenancy]:
    folder = owned.url.partition("socket=")[2]

    def session(user: str, password: str, database: str) -> Client:
        return postgres_connect(private(folder, user, password, database, postgres_control.PORT))

    def great(query: str) -> None:
        with closing(session("bufferlab", owned.password, "postgres")) as connection:
            connection.rows(query)

    def ask(query: str) -> list[tuple[Any, ...]]:
        with closing(session(_TENANT, _PASSWORD, "lab")) as connection:
            return connection.rows(query)

    def begin() -> None:
        great("DROP DATABASE IF EXISTS lab WITH (FORCE)")
        great(f"CREATE DATABASE lab OWNER {_TENANT}")

    def forge() -> None:
        with closing(session(_TENANT, _PASSWORD, "lab")) as connection:
            mark = PostgresRun().marked(connection, "lab")
            assert mark is not None
            there = tuple(PostgresRun().objects(connection, "lab"))
            PostgresRun().mark(connection, "lab", replace(mark, made=(*mark.made, "hidden.seen"), objects=there))

    great(f"CREATE ROLE {_TENANT} LOGIN PASSWORD '{_PASSWORD}'")
    seen = f"SELECT * FROM hidden.seen WHERE who <> '{_TENANT}' OR rights <> 'off'"
    there = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') AND relnamespace = 'public'::regnamespace"
    yield Tenancy(_POSTGRES_PLANTS, _POSTGRES_SPY, begin, ask, seen, forge, there)


_TENANCIES = {"mysql": _mysql, "postgres": _postgres}


def run(state: State, name: str, *, seed: int, seconds: float, goal: int) -> None:
    """Plant objects and run sweeps for `seconds`, or until the goal of trials is reached."""
    family = f"planted:{name}"
    if state.total(family).trials >= goal:
        return
    with innodb.folder() as root, SERVERS[name](root) as owned, _TENANCIES[name](owned) as tenancy, place() as where:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and (number := state.total(family).trials) < goal:
            rng = random.Random(f"{family}/{seed}/{number}")
            record = _trial(state, where, owned, tenancy, family, f"{seed}/{number}", rng)
            state.add(record)
            print(f"{family} seed {record.seed}: {dict(record.counts)}", flush=True)


def _trial(
    state: State, where: Place, owned: Owned, tenancy: Tenancy, family: str, seed: str, rng: random.Random
) -> Record:
    """Load as the tenant, plant objects, run sweeps with both accounts; return the faults at the end."""
    tenancy.begin()
    folder = where.root / seed.replace("/", "-")
    folder.mkdir()
    environment = where.environment(where.root / f"cache-{rng.randrange(2)}")
    as_tenant = owned.url.format("lab").replace("bufferlab@", f"{_TENANT}@")
    options = ("--share-device", "--out", folder / "out")

    def sweep(url: str, log: str, password: str) -> int:
        text = owned.toml("lab", 20_000).replace(owned.url.format("lab"), url)
        text = text.replace("update_percent = 0", f"update_percent = {rng.choice((0, 50))}")
        (folder / "planted.toml").write_text(text)
        started = {**environment, "BUFFERLAB_PASSWORD": password}
        return ended(where.start(["run", folder / "planted.toml", *options], folder / log, started))

    counts = Counter({f"first {sweep(as_tenant, 'first.log', _PASSWORD)}": 1})
    planted = _plant(tenancy, rng)
    counts.update(f"planted {what.split()[0]}" for what in planted)
    before, names = owned.look(), sorted(tenancy.ask(tenancy.there))
    wrong = []
    for who, url, password in (
        ("great", owned.url.format("lab"), owned.password), ("tenant", as_tenant, _PASSWORD)
    ):  # fmt: skip
        code = sweep(url, f"{who}.log", password)
        counts[f"{who} {code}"] += 1
        wrong += judged(who, code, (folder / f"{who}.log").read_text(errors="replace"))
    wrong += witness.differences("setting of the server", _without_tables(before), _without_tables(owned.look()))
    with suppress(Exception):
        counts["planted code ran"] += len(tenancy.ask(tenancy.seen.partition(" WHERE ")[0])) > 0
        wrong += [f"planted code ran as {row}" for row in tenancy.ask(tenancy.seen)]
    if gone := {str(name) for (name,) in names if "precious" in str(name) or "hidden" in str(name)} - {
        str(name) for (name,) in tenancy.ask(tenancy.there)
    }:
        wrong.append(f"the tenant's {', '.join(sorted(gone))} is gone")
    wrong += [f"{path} was made" for path in (Path("/var/tmp/planted"),) if path.exists()]
    files: dict[str, bytes | Path] = {path.name: path for path in folder.glob("*.log")}
    files["planted.txt"] = "\n".join([*planted, *wrong]).encode()
    kept = state.keep(family, seed, files) if wrong else ""
    return Record(family, seed, 1, dict(counts), [Finding(what, seed, kept) for what in wrong])


def _plant(tenancy: Tenancy, rng: random.Random) -> list[str]:
    """Plant up to three objects, and often a forged list; return them in words."""
    planted = []
    for statement in tenancy.spy:
        tenancy.ask(statement)
    for drawn in rng.sample(tenancy.plants, rng.choice((1, 1, 2, 3))):
        with suppress(Exception):  # One planted object may prevent another.
            for statement in drawn.format(when=rng.choice(("INSERT", "UPDATE"))).split("; "):
                tenancy.ask(statement)
            planted.append(drawn)
    if rng.random() < 0.6:
        with suppress(Exception):  # A planted object may have replaced the mark.
            tenancy.forge()
            planted.append("forged list of what the load made")
    return planted


def judged(who: str, code: int, said: str) -> list[str]:
    """Return the faults of a sweep that met planted objects."""
    wrong = []
    if code not in (0, 1, 2, 3) or (who == "great" and code == 0):
        wrong.append(f"the sweep of the {who} account ended with code {code}")
    if "Traceback (most recent call last)" in said:
        wrong.append("a traceback on standard error")
    if "\x1b[31m" in said:
        wrong.append("a control character on standard error")
    return wrong


def _without_tables(looked: Mapping[str, str]) -> dict[str, str]:
    # The tenant may use ALTER DATABASE; these are values of sessions, not of the server.
    return {name: value for name, value in looked.items() if name not in ("search_path",)}
