"""What is asked of a server that runs already before a load, and what its runs cannot meet, without a server."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import EngineFailure, ServerCheck, Wanted
from bufferlab.engines.innodb.connection import FORM
from bufferlab.engines.servers.existing import whereabouts
from bufferlab.engines.servers.existing.address import Address, parse
from bufferlab.engines.servers.existing.facts import Facts
from bufferlab.engines.servers.family import ReadBack
from bufferlab.engines.servers.hosts import preflight as preflights
from bufferlab.engines.servers.hosts.caveats import Others, caveats, confounds
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute import preflight
from bufferlab.execute.run.run_checks import _foreign_server
from bufferlab.results.check import FOREIGN_SERVER

GIB = 1 << 30
FACTS = Facts(
    version="10.11.19-MariaDB",
    tls=None,
    variables={},
    fixed=frozenset({"innodb_page_size"}),
    page_bytes=16384,
    pool_bytes=GIB,
    schema_bytes=None,
    missing={},
    missing_to_change={},
    is_here=True,
)


def address(host: str, more: str = "") -> Address:
    return parse(f"mysql://me@{host}/lab{more}", FORM)


@pytest.mark.parametrize(
    ("host", "more", "here"),
    [
        ("127.0.0.1", "", True),
        ("localhost", "", True),
        ("192.0.2.1", "", False),
        ("192.0.2.1", "?socket=/a.sock", True),
    ],
)
def test_an_address_of_this_host_is_one_that_can_be_bound(host: str, more: str, here: bool) -> None:
    """192.0.2.1 is nobody's (RFC 5737)."""
    assert whereabouts.may_be_here(address(host, more)) is here


def test_a_name_that_nobody_knows_may_be_this_hosts() -> None:
    assert whereabouts.may_be_here(address("no-such-host.invalid"))


@pytest.mark.parametrize(("server", "here"), [("mysql://me@192.0.2.1/lab", False), ("path", True)])
def test_a_server_on_another_host_uses_no_device_of_this_one(server: str, here: bool) -> None:
    assert engines.behaviour("mariadb").uses_this_host({"server": server}) is here
    assert engines.behaviour("sqlite").uses_this_host({})


def test_the_process_at_the_other_end_of_a_socket_is_told(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert whereabouts.peer(ours) == os.getpid()
    with socket.socket() as unconnected:
        assert whereabouts.peer(unconnected) is None


def test_the_least_limit_of_the_groups_above_a_process_counts(tmp_path: Path) -> None:
    inner = tmp_path / "system.slice" / "mariadb.service"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text(f"{2 * GIB}\n")
    (tmp_path / "memory.max").write_text(f"{1 << 62}\n")
    assert whereabouts._limits(tmp_path, "/system.slice/mariadb.service", "memory.max") == [2 * GIB]
    assert whereabouts._limits(tmp_path, "/gone", "memory.max") == []


def test_a_pool_beyond_the_control_group_of_the_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Facts(**{**vars(FACTS), "pid": 4321})
    monkeypatch.setattr(whereabouts, "memory_limit_bytes", lambda pid: 2 * GIB if pid == 4321 else None)
    preflights._require_room(here, 2 * GIB, address("localhost"))
    with pytest.raises(EngineFailure, match=r"the server's control group's 2 GiB"):
        preflights._require_room(here, 2 * GIB + 1, address("localhost"))
    with pytest.raises(EngineFailure, match="this host's"):
        preflights._require_room(FACTS, 1 << 50, address("localhost"))
    for elsewhere in (False, None):
        preflights._require_room(Facts(**{**vars(FACTS), "is_here": elsewhere}), 1 << 50, address("db"))


def test_mariadbs_own_bound_of_the_pool_is_told_wherever_the_server_is() -> None:
    bounded = Facts(**{**vars(FACTS), "is_here": False, "largest_pool_bytes": GIB})
    with pytest.raises(EngineFailure, match=r"innodb_buffer_pool_size_max = 1 GiB"):
        preflights._require_room(bounded, GIB + 1, address("db"))


def test_the_failures_of_many_points_are_one_line_each() -> None:
    refused = preflights._Refused()

    def fail(value: int) -> None:
        raise EngineFailure("usage", f"{value} asked", "var.a", "hint")

    for value in (1, 2, 2, 3):
        assert refused.of(lambda: fail(value)) is None  # noqa: B023
    assert refused.of(lambda: 7) == 7
    assert list(refused.checks()) == [
        ServerCheck("settings", False, "1 asked; and 2 more such values", "hint", "usage")
    ]


def test_every_refusal_is_told_and_the_first_decides_the_exit_code() -> None:
    good = ServerCheck("rights", True, "yes")
    caveat = ServerCheck("replication", False, "the binary log is on")
    usage = ServerCheck("settings", False, "a is 1, 2 asked", "--set a=1", "usage")
    environment = ServerCheck("rights", False, "the account lacks PROCESS", "GRANT PROCESS", "environment")
    preflight.require({"mysql://a@b/c": [good, caveat]})
    with pytest.raises(SpecError) as spec:
        preflight.require({"mysql://a@b/c": [good, usage, environment]})
    assert [problem.what for problem in spec.value.problems] == [usage.detail, environment.detail]
    assert spec.value.where == "mysql://a@b/c"
    with pytest.raises(EnvironmentLackingError):
        preflight.require({"mysql://a@b/c": [environment, usage]})


def test_a_url_of_no_server_is_wrong_usage_and_an_engine_without_urls_says_so() -> None:
    with pytest.raises(SpecError, match="not the URL of a server"):
        preflight.look_at("http://me@localhost/lab")
    for ask in (
        engines.behaviour("sqlite").engine_of,
        lambda url: engines.behaviour("sqlite").preflight(url, Wanted()),
    ):
        with pytest.raises(EnvironmentLackingError, match="no servers that run already"):
            ask("mysql://me@localhost/lab")


@pytest.mark.parametrize(
    ("others", "confounded", "told"),
    [
        (Others(0, 0, 0), None, None),
        (Others(2, 2, 0), None, "2 other connections were open and asked for nothing"),
        (Others(2, 2, 1), "1 of 2 other connections were used", None),
        (Others(3, 1, 0), "2 of 3 other connections were used", None),
        (Others(0, 2, None), "2 other connections were open", None),
    ],
)
def test_connections_that_worked_are_a_confound_and_idle_ones_a_caveat(
    others: Others, confounded: str | None, told: str | None
) -> None:
    for said, wanted in ((others.confounds, confounded), (others.caveats, told)):
        assert len(said) == (wanted is not None)
        assert (wanted or "") in " ".join(said)


def test_what_nobody_asked_for_is_a_caveat_and_what_was_asked_for_a_confound() -> None:
    standing = {"autovacuum": "autovacuum is on"}
    told = ReadBack(
        {"jit": "on"}, 10, ["the pool is 8 MiB where 7 MiB were asked for", "autovacuum is on"], {}, standing
    )
    job = {"warm_up": {"max_transactions": 0}}
    said = caveats(Others(0, 0, 0), told, ["pool_size"], ["jit"], job)
    assert [part for part in said if "autovacuum" in part or "jit = on" in part or "empty pool" in part] == said[1:]
    assert confounds(Others(0, 0, 0), told, ["pool_size"]) == ["the pool is 8 MiB where 7 MiB were asked for"]
    assert "autovacuum is on" in confounds(Others(0, 0, 0), told, ["autovacuum"])
    assert "autovacuum is on" not in caveats(Others(0, 0, 0), told, ["autovacuum"], [], job)


def test_caveats_fail_no_check() -> None:
    row = _foreign_server(["one", "two"])
    assert (row.name, row.status, row.detail) == (FOREIGN_SERVER, "not_applicable", "one; two")
