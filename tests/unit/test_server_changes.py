"""Settings of a server that is not ours: one holder at a time, put back only while they are ours, whatever was torn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bufferlab.cli import doctor
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb.connection import FORM
from bufferlab.engines.servers.existing import changes, journal, mark
from bufferlab.engines.servers.existing.address import Address, parse
from bufferlab.engines.servers.existing.journal import Record
from bufferlab.errors import DataFileError, EnvironmentLackingError, Problem

DEPTH, POOL = "innodb_lru_scan_depth", "innodb_buffer_pool_size"


class Died(BaseException):
    """Stands for SIGKILL: nobody handles it."""


class FakeServer(changes.Settings):
    """A server's variables, locks and records, and how they are changed, without a server."""

    unusable: tuple[type[Exception], ...] = (ConnectionError,)

    def __init__(self) -> None:
        self.variables = {DEPTH: "1024", POOL: "64"}
        self.locks: set[str] = set()
        self.kept: dict[str, str] = {}
        self.started = 1
        self.is_up = True

    def close(self) -> None:
        """A connection's."""

    def connect(self, address: Address) -> FakeServer:
        if not self.is_up:
            raise ConnectionError("it is down")
        return self

    opened_for_lock = connect

    def lock(self, connection: Any, lock: str, seconds: float) -> bool:
        raise AssertionError("locks are taken by `holding`")

    def reader(self, address: Address) -> FakeServer:
        return self.connect(address)

    @contextmanager
    def holding(self, address: Address, lock: str, seconds: float) -> Iterator[FakeServer | None]:
        self.connect(address)
        if lock in self.locks:
            yield None
            return
        self.locks.add(lock)
        try:
            yield self
        finally:
            self.locks.discard(lock)

    def is_held(self, connection: Any, lock: str) -> bool:
        return lock in self.locks

    def identity(self, connection: Any) -> str:
        return "the-server"

    def since(self, connection: Any) -> str:
        return str(self.started)

    def found(self, connection: Any, address: Address, wanted: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        return {name: {"found": self.variables[name]} for name in wanted}

    def change(
        self, connection: Any, address: Address, name: str, value: str, on_wait: object, on_set: Callable[[], None]
    ) -> None:
        # As a pool that is rounded up to whole chunks.
        self.variables[name] = str((int(value) + 15) // 16 * 16) if name == POOL else value
        on_set()

    def now(self, connection: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.variables[name] for name in variables if name in self.variables}

    def restore(self, connection: Any, name: str, entry: Mapping[str, Any]) -> None:
        self.variables[name] = entry["found"]

    def statement(self, schema: str, name: str, entry: Mapping[str, Any]) -> str | None:
        return f"SET {name} = {entry['found']}" if name in (DEPTH, POOL) else None

    def records(self, connection: Any) -> dict[str, str]:
        return dict(self.kept)

    def record(self, connection: Any, schema: str, text: str | None) -> None:
        self.kept.pop(schema, None)
        if text is not None:
            self.kept[schema] = text

    def restart(self) -> None:
        """With its own configuration, as a server that only forgets what was set while it ran."""
        self.started += 1
        self.variables = {DEPTH: "1024", POOL: "64"}
        self.locks.clear()


LAB = parse("mysql://me@localhost/lab?socket=/run/a.sock", FORM)
OTHER = parse("mysql://me@db.example/other", FORM)
WANTED = {DEPTH: "256", POOL: "20"}


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A cache of the test's own; calling it moves to another one, as another account or container has."""

    def use(name: str) -> None:
        monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / name))

    use("cache")
    return use


def change(
    server: FakeServer, address: Address = LAB, wanted: Mapping[str, str] = WANTED, then: Callable[[], None] = list
) -> None:
    """A run that changes settings, and what happens while it measures."""
    with changes.turn(server, address) as turn, turn.changed(wanted, lambda what: None):
        then()


def killed(server: FakeServer, address: Address = LAB, wanted: Mapping[str, str] = WANTED) -> None:
    """A run that dies while it measures: the server ends its connections, and the kernel its locks."""

    def die() -> None:
        raise Died

    with pytest.raises(Died):
        change(server, address, wanted, die)


def everywhere(server: FakeServer) -> list[tuple[str, list[str] | Problem]]:
    return changes.put_back_everywhere(server, FORM)


def test_settings_are_changed_and_put_back_and_nothing_is_left_here_or_there(server: FakeServer) -> None:
    seen: dict[str, str] = {}
    change(server, then=lambda: seen.update(server.variables))
    assert seen == {DEPTH: "256", POOL: "32"}
    assert server.variables == {DEPTH: "1024", POOL: "64"}
    assert (server.kept, server.locks, list(journal.folder().iterdir())) == ({}, set(), [])


def test_a_second_run_on_the_server_is_refused_though_schema_url_and_cache_differ(
    server: FakeServer, cache: Callable[[str], None]
) -> None:
    def second() -> None:
        cache("another")
        with pytest.raises(EngineFailure) as caught:
            change(server, OTHER)
        cache("cache")
        assert caught.value.kind == "environment"
        assert "another run of bufferlab may change this server's settings" in caught.value.what
        assert server.variables == {DEPTH: "256", POOL: "32"}

    change(server, then=second)
    assert server.variables == {DEPTH: "1024", POOL: "64"}


def test_a_second_sweep_is_refused_between_two_runs_of_the_first_and_servers_of_two_urls_are_one(
    server: FakeServer,
) -> None:
    with changes.reserved(server, [LAB, OTHER]) as done:
        assert done == [(LAB.url, [])]
        with pytest.raises(EnvironmentLackingError, match="another sweep"), changes.reserved(server, [OTHER]):
            pytest.fail("it was let in")
        change(server)
    with changes.reserved(server, [OTHER]):
        pass


@pytest.mark.parametrize("address", [LAB, OTHER], ids=["same", "other"])
def test_whoever_comes_after_a_killed_run_puts_the_owners_value_back_first(
    server: FakeServer, address: Address
) -> None:
    killed(server)
    assert server.variables == {DEPTH: "256", POOL: "32"}
    with changes.reserved(server, [address]) as done:
        assert done == [(address.url, sorted(WANTED))]
    change(server, address, {DEPTH: "77"})
    assert server.variables == {DEPTH: "1024", POOL: "64"}
    assert server.kept == {}


def test_the_doctor_puts_back_what_a_killed_run_left(server: FakeServer) -> None:
    killed(server)
    assert everywhere(server) == [(LAB.url, sorted(WANTED))]
    assert everywhere(server) == []
    assert server.variables == {DEPTH: "1024", POOL: "64"}


@pytest.mark.parametrize("address", [LAB, OTHER], ids=["same", "other"])
def test_a_mark_alone_is_heeded_and_nothing_is_set_by_it(
    server: FakeServer, cache: Callable[[str], None], address: Address
) -> None:
    killed(server)
    cache("another")
    with pytest.raises(EnvironmentLackingError) as caught, changes.reserved(server, [address]):
        pytest.fail("it went on")
    assert caught.value.exit_code == 3
    assert "written by whoever may write there" in caught.value.what
    assert f'"{DEPTH}" is "256", it was "1024"' in caught.value.what
    assert f"By hand: SET {DEPTH} = 1024; SET {POOL} = 64" in caught.value.what
    assert (
        f"bufferlab doctor --forget-mark {LAB.url.replace(LAB.host, address.host).split('?')[0]}" in caught.value.hint
    )
    assert server.variables == {DEPTH: "256", POOL: "32"}
    # Once its values are the owner's again, the record says nothing that is true.
    server.variables = {DEPTH: "1024", POOL: "64"}
    change(server, address)
    assert server.kept == {}


def planted(**variables: object) -> str:
    return Record("", "1", {name: {"found": found} for name, found in variables.items()}).text()


@pytest.mark.parametrize("schema", ["lab", "evil"])
def test_a_planted_record_sets_nothing_and_its_writers_words_are_escaped(server: FakeServer, schema: str) -> None:
    server.variables |= {"archive_command": "", "other\x1b[31m": "x"}
    before = dict(server.variables)
    server.kept[schema] = planted(archive_command="touch /tmp/pwned", **{"other\x1b[31m": ["\u202e"] * 99})
    for act in (lambda: change(server), lambda: change(server, wanted={})):
        with pytest.raises(EngineFailure) as caught:
            act()
        assert caught.value.kind == "environment"
        assert f"the mark of {schema}, written by whoever may write there" in caught.value.what
        assert '"archive_command" is "", it was "touch /tmp/pwned"' in caught.value.what
        assert "By hand" not in caught.value.what
        assert caught.value.what.isprintable()
        assert len(caught.value.what) < 600
    assert everywhere(server) == []
    assert server.variables == before
    (said,) = changes.left(server, LAB)
    assert "whoever may write there" in said


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '{"format": "bufferlab-online-changes"}', "\x00"])
def test_a_record_in_a_mark_that_cannot_be_read_stops_the_run_by_name(server: FakeServer, text: str) -> None:
    server.kept["lab"] = text
    with pytest.raises(EngineFailure, match="whoever may write there") as caught:
        change(server)
    assert "--forget-mark" in str(caught.value.hint)
    assert len(changes.left(server, LAB)) == 1


def test_a_mark_is_forgotten_on_request_and_nothing_is_set(server: FakeServer, cache: Callable[[str], None]) -> None:
    killed(server)
    cache("another")
    assert "1024" in str(changes.forget(server, LAB))
    assert changes.forget(server, LAB) is None
    assert server.variables == {DEPTH: "256", POOL: "32"}
    change(server, wanted={DEPTH: "77"})
    server.locks.add(changes.CHANGING)
    with pytest.raises(EngineFailure, match="another run"):
        changes.forget(server, LAB)


def test_a_journal_that_others_may_write_is_not_believed(server: FakeServer, tmp_path: Path) -> None:
    killed(server)
    (path,) = journal.folder().iterdir()
    path.chmod(0o660)
    with pytest.raises(DataFileError, match="others may write"):
        change(server)
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((DataFileError, OSError)):
        change(server)
    assert server.variables == {DEPTH: "256", POOL: "32"}


def test_what_the_owner_has_changed_since_is_the_owners(server: FakeServer) -> None:
    killed(server)
    server.variables[DEPTH] = "4096"
    assert everywhere(server) == [(LAB.url, [POOL])]
    assert server.variables == {DEPTH: "4096", POOL: "64"}
    change(server, then=lambda: server.variables.update({DEPTH: "2048"}))
    assert server.variables == {DEPTH: "2048", POOL: "64"}


def test_after_a_restart_the_servers_own_configuration_stands(server: FakeServer) -> None:
    killed(server)
    server.restart()
    # It happens to be what the run had set.
    server.variables[DEPTH] = "256"
    assert everywhere(server) == [(LAB.url, [])]
    assert server.variables == {DEPTH: "256", POOL: "64"}
    assert list(journal.folder().iterdir()) == []


def test_a_run_killed_before_it_noted_what_it_set_is_put_back_as_well(server: FakeServer) -> None:
    def change_and_die(*given: Any) -> None:
        FakeServer.change(server, *given[:-1], die)

    def die() -> None:
        raise Died

    server.change = change_and_die  # type: ignore[method-assign]
    with pytest.raises(Died):
        change(server, wanted={POOL: "20"})
    assert everywhere(server) == [(LAB.url, [POOL])]
    assert server.variables[POOL] == "64"


def test_a_change_that_is_under_way_is_waited_for_before_it_is_put_back(server: FakeServer) -> None:
    """A pool that is resized in the background: the variable tells the old size until it has the new one."""
    under_way: dict[str, str] = {}

    def begin_and_fail(connection: Any, address: Address, name: str, value: str, *_: object) -> None:
        under_way[name] = value
        raise EngineFailure("interrupted", "interrupted", None, None)

    server.change = begin_and_fail  # type: ignore[method-assign]
    server.settle = lambda connection: server.variables.update(under_way)  # type: ignore[method-assign]
    with pytest.raises(EngineFailure):
        change(server, wanted={POOL: "128"})
    assert server.variables[POOL] == "64"
    assert (server.kept, list(journal.every())) == ({}, [])


def test_a_setting_that_was_not_reached_is_the_owners(server: FakeServer) -> None:
    def refuse(connection: Any, address: Address, name: str, *_: object) -> None:
        server.variables[POOL] = "512"  # By the owner, meanwhile.
        raise EngineFailure("usage", "refused", None, None)

    server.change = refuse  # type: ignore[method-assign]
    with pytest.raises(EngineFailure):
        change(server)
    assert server.variables == {DEPTH: "1024", POOL: "512"}


def test_a_mark_whose_truth_the_account_may_not_see_stops_nobody_else(server: FakeServer) -> None:
    """As a setting of ALTER SYSTEM on PostgreSQL, which an ordinary account may not read."""

    def unseen(connection: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
        raise EngineFailure("environment", "the account may not see it", None, None)

    server.kept["lab"] = Record("", "1", {DEPTH: {"found": "1"}}).text()
    server.now = unseen  # type: ignore[method-assign]
    (said,) = changes.left(server, OTHER)
    assert said.startswith("the mark of lab")
    assert "the account may not see it" in said
    assert everywhere(server) == []
    with pytest.raises(EngineFailure, match="the mark of lab"):
        change(server, OTHER)


def test_what_an_earlier_run_left_is_told_without_touching_it(server: FakeServer, cache: Callable[[str], None]) -> None:
    assert changes.left(server, LAB) == []
    killed(server)
    told = changes.left(server, OTHER)
    assert [said.split(",")[0] for said in told] == [f"{DEPTH} is 256", f"{POOL} is 32"]
    cache("another")
    (said,) = changes.left(server, OTHER)
    assert said.startswith("the mark of lab, written by whoever may write there")
    assert server.variables == {DEPTH: "256", POOL: "32"}


def test_a_run_that_changes_settings_now_is_told_to_one_that_does_not(server: FakeServer) -> None:
    told: list[str] = []
    change(server, then=lambda: told.extend(changes.left(server, OTHER)))
    assert told == ["another run of bufferlab may change this server's settings at the same time"]


@pytest.mark.parametrize("torn", ['{"format": "bufferl', "[]", '{"format": "bufferlab-online-changes"}', "[" * 100_000])
def test_a_torn_journal_is_named_and_stops_only_runs_that_would_change_that_server(
    server: FakeServer, torn: str
) -> None:
    killed(server)
    (path,) = journal.folder().iterdir()
    path.write_text(torn)
    (problem,) = journal.unreadable()
    assert problem.where == str(path)
    assert everywhere(server) == []
    assert str(path) in changes.left(server, LAB)[0]
    with pytest.raises(DataFileError) as caught:
        change(server)
    assert caught.value.where == str(path)
    assert "delete" in str(caught.value.hint)
    assert server.variables == {DEPTH: "256", POOL: "32"}
    other = FakeServer()
    other.identity = lambda connection: "another"  # type: ignore[method-assign]
    change(other, OTHER)


def test_the_doctor_names_a_journal_that_cannot_be_read(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(server)
    (path,) = journal.folder().iterdir()
    path.write_text("{")
    monkeypatch.setattr(doctor, "restore_host", list)
    (finding,) = doctor._left_changed()
    assert not finding.ok
    assert str(path) in finding.detail
    assert "delete this file" in str(finding.hint)


def test_a_server_that_is_down_is_told_and_its_journal_kept(server: FakeServer) -> None:
    killed(server)
    server.is_up = False
    ((url, problem),) = everywhere(server)
    assert url == LAB.url
    assert isinstance(problem, Problem)
    assert problem.what == "it is down"
    server.is_up = True
    assert everywhere(server) == [(LAB.url, sorted(WANTED))]


def test_a_journal_of_a_server_that_is_no_longer_at_its_url_is_told_and_kept(server: FakeServer) -> None:
    killed(server)
    server.identity = lambda connection: "a new server"  # type: ignore[method-assign]
    ((_, problem),) = everywhere(server)
    assert isinstance(problem, Problem)
    assert "another server answers at this URL" in problem.what
    assert str(journal.path_of("the-server")) == problem.where
    assert server.variables == {DEPTH: "256", POOL: "32"}


def test_a_run_whose_lock_was_cut_says_so(server: FakeServer) -> None:
    with pytest.raises(EngineFailure, match="was cut"):
        change(server, then=server.locks.clear)
    assert server.variables == {DEPTH: "1024", POOL: "64"}


def test_names_of_tables_are_found_in_the_statements_that_make_them() -> None:
    made = mark.made_by(
        """
        SET x = 1; -- CREATE TABLE of_a_comment
        create table if not exists "Mixed" (id INT) ; CREATE UNLOGGED TABLE b AS SELECT 'CREATE TABLE of_a_string';
        INSERT INTO b VALUES ('; CREATE TABLE of_another (');
        CREATE ALGORITHM = MERGE VIEW lab.v AS SELECT 1; CREATE MATERIALIZED VIEW m AS SELECT 1; CREATE SEQUENCE s;
        CREATE FUNCTION f() RETURNS TABLE (a INT) AS 'SELECT 1'; CREATE LOCAL TEMP TABLE gone (id INT)
        """
    )
    assert made == ('"Mixed"', "b", "lab.v", "m", "s")
