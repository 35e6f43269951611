"""Advice on real servers under a load: larger pools read less, and no probe is left, however the look ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from real.test_live_trace import ALL, ONE, Served, kernel, served
from support import innodb
from support.core import ROOT
from support.fake import wait_until
from support.json_documents import DOCUMENTS
from support.traced_servers import bpf_programs, records

__all__ = ["kernel"]

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    with innodb.folder() as root, served(request.param, root) as made:
        yield made


def started(server: Served, *arguments: str) -> subprocess.Popen[str]:
    user, password = server.server.login
    folder = server.server.socket
    if server.flavour == "postgres":
        url = f"postgres://{user}@localhost/postgres?socket={folder.parent}"
    else:
        url = f"mysql://{user}@localhost?socket={folder}"
    temporary = server.root / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT / "python"), "BUFFERLAB_PASSWORD": password, "TMPDIR": str(temporary)
    }  # fmt: skip
    command = [sys.executable, "-m", "bufferlab", "advise", url, "--yes", "--max-cpu", "100%", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[Any, str]:
    out, err = process.communicate(timeout=300)
    print(out, err)
    assert process.returncode in (0, 1, 130), err
    return DOCUMENTS["advise"].model_validate(json.loads(out)), err


@pytest.mark.parametrize("server", ALL, indirect=True)
def test_a_larger_pool_is_told_to_read_less_and_nothing_is_left(server: Served, tmp_path: Path) -> None:
    page = tmp_path / "advice.html"
    sizes = ("--sizes", "50%,150%,300%", "--within", "60s", "--html", str(page))
    with server.working():
        told, err = ended(started(server, *sizes, "--json"))
    assert "(BPF) note each read and write call of" in " ".join(err.split())
    smaller, present, larger, largest = told.sizes
    assert smaller.cannot_say
    assert present.tier == "counted"
    assert present.reads_per_s
    if told.status == "cannot_say":
        # In a pool of 6 MiB InnoDB's free list is a large part, so the evictions of many pages are not seen.
        assert larger.cannot_say
        assert "leaving was not seen" in larger.cannot_say.why
    assert larger.reads_per_s is None or larger.reads_per_s < present.reads_per_s
    assert largest.cannot_say or (largest.high or 0.0) < 0.5 * present.reads_per_s, "it holds the whole table"
    if server.flavour != "postgres":  # A look at PostgreSQL needs two checkpoints.
        assert present.writes_low_per_s == present.writes_high_per_s is not None
    if larger.writes_low_per_s is not None:
        assert 0 <= larger.writes_low_per_s <= larger.writes_high_per_s == present.writes_high_per_s
    assert [one.ended for one in told.attached] == ["whole"]
    assert told.cost[0].ours_cores < 1
    # Bounds are drawn for each size that has them.
    assert ("shade" in page.read_text()) == (told.status != "cannot_say")
    assert told.needs_restart == (server.flavour == "postgres")
    server.require_untouched()


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_full_judges_smaller_sizes_or_says_why_not(server: Served) -> None:
    with server.working():
        told, _ = ended(started(server, "--sizes", "75%,150%", "--within", "60s", "--tier", "full", "--json"))
    assert {one.tier for one in told.attached} == {"full", "misses"}
    smaller, present, larger = told.sizes
    assert present.reads_per_s
    if smaller.cannot_say is None:
        assert smaller.reads_per_s
        assert smaller.reads_per_s > present.reads_per_s
    if larger.cannot_say is None:
        assert (larger.reads_per_s or larger.high or 0.0) < present.reads_per_s
    else:
        assert "changed" not in larger.cannot_say.why, "the load is the same all the time"
    server.require_untouched()


def _attached(process: subprocess.Popen[str]) -> None:
    wait_until(lambda: process.poll() is not None or records(process.pid), "the programs", 120)
    assert process.poll() is None


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_ctrl_c_detaches_and_tells_what_was_seen_and_a_kill_leaves_no_program(server: Served) -> None:
    before = bpf_programs()
    with server.working():
        process = started(server, "--within", "10m", "--json")
        _attached(process)
        process.send_signal(signal.SIGINT)
        told, _ = ended(process)
        assert process.returncode == 130
        assert told.status == "interrupted"
        server.require_untouched()
        process = started(server, "--within", "10m")
        _attached(process)
        process.kill()
        process.communicate(timeout=60)
        wait_until(lambda: bpf_programs() <= before, "the programs to go", 10)
        assert list((server.root / "temporary").iterdir()) == []
        server.require_untouched()
    server.work(100)
