"""Questions to a server that runs already before a load, and conditions that its runs cannot meet; tested without a
server."""

from __future__ import annotations

import pytest

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import ServerCheck, Wanted
from bufferlab.engines.innodb.connection import FORM
from bufferlab.engines.innodb.family import InnodbFamily
from bufferlab.engines.servers.existing import whereabouts
from bufferlab.engines.servers.existing.address import Address, parse
from bufferlab.engines.servers.family import ReadBack
from bufferlab.engines.servers.hosts.preflight import Others, caveats, confounds, other_settings
from bufferlab.engines.servers.run import Difference, Survey
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute import preflight
from bufferlab.execute.run.run_checks import _foreign_server
from bufferlab.results.check_parts import FOREIGN_SERVER

GIB = 1 << 30
FACTS = Survey(
    version="10.11.19-MariaDB",
    tls=None,
    variables={},
    page_bytes=16384,
    pool_bytes=GIB,
    schema_bytes=None,
    missing={},
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
    """No host has the address 192.0.2.1 (RFC 5737)."""
    assert whereabouts.may_be_here(address(host, more)) is here


def test_a_name_that_nobody_knows_may_be_this_hosts() -> None:
    assert whereabouts.may_be_here(address("no-such-host.invalid"))


@pytest.mark.parametrize(("server", "here"), [("mysql://me@192.0.2.1/lab", False), ("path", True)])
def test_a_server_on_another_host_uses_no_device_of_this_one(server: str, here: bool) -> None:
    assert engines.behaviour("mariadb").uses_this_host({"server": server}) is here
    assert engines.behaviour("sqlite").uses_this_host({})


def test_a_setting_that_the_server_has_otherwise_is_told_with_every_value_asked_and_how_to_ask_for_its_own() -> None:
    pool, own = "innodb_buffer_pool_size", str(64 << 20)
    differing = {
        "pool_size": [Difference(pool, str(8 << 20), own), Difference(pool, str(16 << 20), own)],
        "var.nonsense": [Difference("nonsense", "1", None)],
        "var.init_connect": [Difference("init_connect", "SET @a = 1", "SET @b = 2")],
    }
    error = other_settings(InnodbFamily("mariadb"), differing, address("localhost"))
    assert error.kind == "usage"
    assert f"{pool} is 64 MiB, 8 MiB, 16 MiB asked; it has no variable nonsense (1 asked); init_connect" in error.what
    hint = str(error.hint)
    assert f"ask for what it has: --set pool_size={own} --set 'var.init_connect=SET @b = 2'; use a private" in hint
    assert "set them there yourself and run again" in hint


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
