"""The process of a server: by the socket, by its thread, or by the number that a container gave the thread."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bufferlab.advise import server_process
from bufferlab.engines.servers.questions import NotTold
from bufferlab.observe.looker import Facts

UPTIME_S = 500.0


def facts(thread: int | None) -> Facts:
    return Facts("mysql", "8.0.15", (8, 0, 15), "a", 16384, 1 << 26, "transaction", "", UPTIME_S, thread)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A host with a shell, and a server whose process 700 and thread 701 are 1 and 30 in its container."""
    tick = os.sysconf("SC_CLK_TCK")
    (tmp_path / "uptime").write_text("1000.0 1.0\n")
    for pid, name, tasks in ((30, "bash", {30: "30"}), (700, "mysqld", {700: "700\t1", 701: "701\t30"})):
        stat = f"{pid} ({name}) S 1 " + " ".join(["0"] * 17) + f" {int((1000 - UPTIME_S - 1) * tick)} 0"
        for task, numbers in tasks.items():
            folder = tmp_path / f"{pid}/task/{task}"
            folder.mkdir(parents=True)
            status = f"Name:\t{name}\nTgid:\t{pid}\nPPid:\t1\nNSpid:\t{numbers}\n"
            for place in (folder, tmp_path / f"{task}"):
                place.mkdir(exist_ok=True)
                (place / "status").write_text(status)
                (place / "comm").write_text(name)
                (place / "stat").write_text(stat)
    return tmp_path


@pytest.mark.parametrize(("thread", "peer"), [(701, None), (None, 700), (30, None), (30, 700)])
def test_the_first_process_is_found(proc: Path, thread: int | None, peer: int | None) -> None:
    assert server_process.find(facts(thread), peer, proc) == 700


def test_a_server_elsewhere_is_not_found(proc: Path) -> None:
    for thread in (None, 30_000):
        found = server_process.find(facts(thread), None, proc)
        assert isinstance(found, NotTold)
    (proc / "uptime").write_text("5000.0 1.0\n")
    assert isinstance(server_process.find(facts(30), 700, proc), NotTold), "it is older than the server says"
