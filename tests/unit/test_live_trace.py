"""Attaching to a running server: the places of the probes, every refusal by name, and the contents of a trace's
file."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bufferlab.cli import doctor
from bufferlab.engines.native import native
from bufferlab.engines.servers import page_sites
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import Facts
from bufferlab.errors import BufferlabError, EnvironmentLackingError, SpecError
from bufferlab.live import live_trace
from bufferlab.live.live_trace import LiveTrace, SitePlan, recorded
from bufferlab.results.trace_words import page_trace_words
from support.fake import wait_until

KINDS = page_trace_words().kinds
SITES = page_sites.PageSites(
    "MySQL 5.7.99",
    {
        "fields": ["space:u32"],
        "modes_if_in_pool": [11],
        "site": [
            {"at": "got", "kinds": ["get"], "offset": 1, "byte": 2, "fetch": ["%di"], "late": True},
            {"at": "got_or_read", "kinds": ["get", "read"], "kinds_if_flag": ["create"], "offset": 3, "byte": 2,
             "fetch": ["%di"]},
        ],
    },
)  # fmt: skip


OF_POSTGRES = page_sites.PageSites("PostgreSQL 17.99", SITES.settings)


def facts(flavour: Flavour) -> Facts:
    return Facts(flavour, "5.7.99", (5, 7, 99), "here", 16384, 1 << 27, "transaction", "", 1.0)


@contextmanager
def running(binary: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([str(binary), "60"]) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process whose binary counts as a known build, on a host that can trace."""
    shutil.copy("/bin/sleep", tmp_path / "mysqld")
    monkeypatch.setattr(page_sites, "known", lambda table, binary, in_use: SITES)
    monkeypatch.setattr(live_trace, "native", lambda: SimpleNamespace(live_trace_check=lambda: None))
    with running(tmp_path / "mysqld") as process:
        yield process


def test_a_plan_names_the_server_the_place_and_the_probes(server: subprocess.Popen[bytes], tmp_path: Path) -> None:
    full = live_trace.plan(server.pid, facts("mysql"), "full")
    where = f"MySQL 5.7.99, process {server.pid} ({tmp_path / 'mysqld'}), in this process alone"
    assert f"2 breakpoints (uprobes) in {where}" in full.sentence
    assert "container" not in full.sentence
    assert json.loads(full.job(tmp_path / "spool", 24, 1000.0)) == {
        "pid": server.pid,
        "events_per_s_max": 1000.0,
        "forks": False,
        "trace": {
            "sites": {
                "binary": f"/proc/{server.pid}/exe",
                "spool": {"path": str(tmp_path / "spool"), "limit_bytes": 24},
                "fields": ["space:u32"],
                "modes_if_in_pool": [11],
                "sites": [
                    {"at": "got", "kinds": ["get"], "offset": 1, "byte": 2, "fetch": ["%di"]},
                    {"at": "got_or_read", "kinds": ["get", "read"], "kinds_if_flag": ["create"], "offset": 3,
                     "byte": 2, "fetch": ["%di"]},
                ],
            },
        },
    }  # fmt: skip


def test_a_binary_that_was_replaced_on_the_disk_is_still_the_processes_own(
    server: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (tmp_path / "mysqld").unlink()
    shutil.copy("/bin/sleep", tmp_path / "mysqld")
    with running(tmp_path / "mysqld"):
        assert live_trace.plan(server.pid, facts("mysql"), "full").program == str(tmp_path / "mysqld")


def test_another_server_of_the_binary_is_refused_where_sessions_are_processes_and_a_child_is_not(
    server: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "mysqld") as other:
        assert live_trace.plan(server.pid, facts("mysql"), "full").pid == server.pid, "its threads alone are stopped"
        monkeypatch.setattr(page_sites, "known", lambda table, binary, in_use: OF_POSTGRES)
        with pytest.raises(EnvironmentLackingError) as refused:
            live_trace.plan(server.pid, facts("postgres"), "full")
    assert f"process {other.pid}" in refused.value.what
    monkeypatch.setattr(page_sites, "running", lambda binary: [os.getpid(), server.pid])
    found = live_trace.plan(os.getpid(), facts("postgres"), "full")
    assert found.pid == os.getpid(), "we started the other"
    assert json.loads(found.job(tmp_path / "spool", 24, 1000.0))["forks"]


def test_a_server_that_a_loader_started_is_found_behind_it_and_so_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (loader,) = {Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines() if "/ld-" in line}
    monkeypatch.setattr(page_sites, "known", lambda table, binary, in_use: OF_POSTGRES)
    monkeypatch.setattr(live_trace, "native", lambda: SimpleNamespace(live_trace_check=lambda: None))
    shutil.copy("/bin/sleep", tmp_path / "mysqld")
    shutil.copy(loader, tmp_path / "ld-linux-x86-64.so.2")
    command = [str(tmp_path / "ld-linux-x86-64.so.2"), str(tmp_path / "mysqld"), "60"]

    @contextmanager
    def started() -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(command) as process:
            try:
                maps = Path(f"/proc/{process.pid}/maps")
                wait_until(lambda: "mysqld" in maps.read_text(), "the loader to map the program")
                yield process
            finally:
                process.kill()

    with started() as first:
        found = live_trace.plan(first.pid, facts("postgres"), "full")
        assert (found.binary, found.program) == (Path(f"/proc/{first.pid}/root{tmp_path}/mysqld"), f"{tmp_path}/mysqld")
        with started() as second, pytest.raises(EnvironmentLackingError, match=f"process {second.pid}"):
            live_trace.plan(first.pid, facts("postgres"), "full")


def test_a_build_that_is_not_known_is_refused_by_name(
    server: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_sites, "known", lambda table, binary, in_use: None)
    with pytest.raises(SpecError, match="not known where this build's functions") as refused:
        live_trace.plan(server.pid, facts("mysql"), "full")
    assert refused.value.where == f"{tmp_path / 'mysqld'}, process {server.pid}"
    assert str(refused.value.hint).endswith(f"sudo bufferlab learn {tmp_path / 'mysqld'}")
    (tmp_path / "mysqld").unlink()
    shutil.copy("/bin/sleep", tmp_path / "mysqld")
    with pytest.raises(SpecError) as refused:
        live_trace.plan(server.pid, facts("mysql"), "full")
    assert str(refused.value.hint).endswith(f"sudo bufferlab learn --pid {server.pid}"), "the path is another file's"


def test_a_process_that_is_not_what_the_server_said_is_refused(server: subprocess.Popen[bytes]) -> None:
    with pytest.raises(SpecError, match=r"this process is MySQL 5\.7\.99, and the server said that it is MariaDB"):
        live_trace.plan(server.pid, facts("mariadb"), "full")


def test_a_process_that_has_ended_is_refused(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.wait()
    with pytest.raises(EnvironmentLackingError, match="its process has ended"):
        live_trace.plan(server.pid, facts("mysql"), "full")


def test_a_user_who_may_not_look_at_the_process_is_told_to_be_root(
    server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "readlink", denied)
    with pytest.raises(EnvironmentLackingError, match="may not look at its process") as refused:
        live_trace.plan(server.pid, facts("mysql"), "full")
    assert "root" in str(refused.value.hint)


def test_a_kernel_that_is_too_old_is_refused_by_its_version_and_doctor_says_the_same(
    server: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = partial(native().live_trace_check, "4.18.0-553.el8.x86_64")
    old = SimpleNamespace(live_trace_check=check, call_trace_check=lambda: None)
    monkeypatch.setattr(live_trace, "native", lambda: old)
    monkeypatch.setattr(doctor, "native", lambda: old)
    with pytest.raises(EnvironmentLackingError, match=r"need Linux 5\.8 or later, .* 4\.18\.0-553") as refused:
        live_trace.plan(server.pid, facts("mysql"), "full")
    assert "newer kernel" in str(refused.value.hint)
    (told,) = (finding for finding in doctor._probes(tmp_path) if finding.name == "server pages")
    assert (told.ok, told.needed) == (False, False)
    assert told.detail.startswith(refused.value.what)


def test_another_processor_is_refused(server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(EnvironmentLackingError, match="this processor"):
        live_trace.plan(server.pid, facts("mysql"), "full")


def ended(spool: Path, rows: list[tuple[int, int, int, int]], **told: Any) -> LiveTrace:
    """Return a finished trace whose file has rows of time, object, page and thread."""
    records = np.zeros(len(rows), list(page_trace_words().record))
    for name, column in zip(("t_ns", "object", "page", "thread"), zip(*rows, strict=True), strict=False):
        records[name] = column
    records["kind"] = KINDS.index("read")
    records.tofile(spool)
    usual = {"state": "attached", "start_ns": 1000, "end_ns": 9_001_000, "problem": None, "over_limit_bytes": None,
             "lost": 0, "relations": [], "frames": None}  # fmt: skip
    core: Any = SimpleNamespace(told=lambda: "{}", finish=lambda: json.dumps({**usual, **told}))
    return LiveTrace(SitePlan(1, "full", "MySQL 5.7.99", Path("exe"), "mysqld", False, SITES, 2.0, False), core, spool)


def test_only_accesses_that_all_processors_recorded_are_told_and_pages_are_numbered(tmp_path: Path) -> None:
    rows = [(999, 1, 1, 1), (1000, 7, 5, 1), (3_001_000, 3, 9, 70_000), (9_001_000, 7, 5, 2), (9_001_001, 1, 2, 3)]
    told = recorded(ended(tmp_path / "spool", rows, relations=[[1, 2, 3, 0]]))
    assert (told.seconds, told.ended, told.tier, told.relations) == (0.009, "whole", "full", ((1, 2, 3, 0),))
    assert {name: column.tolist() for name, column in told.columns.items()} == {
        "page": [1, 0, 1],
        "kind": [KINDS.index("read")] * 3,
        "latch": [0, 0, 0],
        "thread": [1, 70_000 - 65_536, 2],
        "delta_us": [0, 3000, 6000],
    }
    assert (told.object.tolist(), told.page_in_object.tolist()) == ([3, 7], [9, 5])


@given(
    rows=st.lists(
        st.tuples(
            st.integers(1000, 9_001_000),
            st.integers(0, 2**32 - 1),
            st.integers(0, 2**32 - 1),
            st.integers(0, 2**32 - 1),
        ),
        min_size=1,
    ).map(sorted)
)
def test_any_accesses_are_those_of_the_file_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int]]
) -> None:
    told = recorded(ended(tmp_path_factory.mktemp("any") / "spool", rows))
    page, times_us = told.columns["page"], told.columns["delta_us"].cumsum()
    for row, (t_ns, of_object, page_in_object, _) in enumerate(rows):
        assert (told.object[page[row]], told.page_in_object[page[row]]) == (of_object, page_in_object)
        assert times_us[row] == (t_ns - 1000) // 1000
    assert len(told.object) == len({row[1:3] for row in rows}) == page.max() + 1


@pytest.mark.parametrize(
    ("told", "stopped", "expected"),
    [
        ({}, False, "whole"),
        ({}, True, "stopped"),
        ({"state": "rate"}, True, "rate"),
        ({"state": "gone"}, False, "gone"),
        ({"state": "limit"}, False, "limit"),
        ({"over_limit_bytes": 24}, False, "limit"),
        ({"state": "rate", "lost": 3}, False, "lost"),
    ],
)
def test_the_end_of_a_trace_has_a_reason(tmp_path: Path, told: dict[str, Any], stopped: bool, expected: str) -> None:
    assert recorded(ended(tmp_path / "spool", [], **told), stopped=stopped).ended == expected


def test_a_trace_without_a_file_tells_no_access_and_one_that_could_not_be_written_is_an_error(tmp_path: Path) -> None:
    trace = ended(tmp_path / "spool", [(2000, 1, 1, 1)])
    trace.spool.unlink()
    assert [len(column) for column in recorded(trace).columns.values()] == [0] * 5
    with pytest.raises(BufferlabError, match="No space left"):
        recorded(ended(tmp_path / "spool", [], problem="the page trace could not be written: No space left on device"))
    with ended(tmp_path / "spool", [(2000, 1, 1, 1)]) as trace:
        assert trace.told() == {}
    assert not trace.spool.exists()
