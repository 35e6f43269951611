"""`learn --pid N` on running servers: their builds are learnt, they keep working under load, and no probe stops
them."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bufferlab.engines.servers import page_sites
from bufferlab.learn import learning, of_process
from real.test_learn import recorders, root, shipped
from real.test_live_trace import Served, served

__all__ = ["root"]

pytestmark = [pytest.mark.real, pytest.mark.slow]


def code(pid: int, path: str, offset: int) -> bytes:
    """Return a byte of a program's code in a process's memory."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        first, end = (int(one, 16) for one in fields[0].split("-"))
        begin = int(fields[2], 16)
        named = fields[5].removesuffix(" (deleted)") if len(fields) > 5 else ""
        if named == path and "x" in fields[1] and begin <= offset < begin + end - first:
            with Path(f"/proc/{pid}/mem").open("rb") as memory:
                memory.seek(first + offset - begin)
                return memory.read(1)
    raise AssertionError(f"{path} is not in process {pid}")


@contextmanager
def untouched(server: Served) -> Iterator[None]:
    """Require that the server works meanwhile, and that its code has no breakpoint at any checked moment."""
    binary = server.server.build.binary
    sites = [(site["offset"], bytes([site["byte"]])) for site in shipped(server.server.build)["site"]]
    ended, looks, wrong = threading.Event(), [0], []

    def look() -> None:
        while not ended.wait(0.02):
            looks[0] += 1
            wrong.extend(place for place, byte in sites if code(server.pid, str(binary), place) != byte)

    thread = threading.Thread(target=look)
    with server.working():
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
    assert looks[0] > 20
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "is_replaced"),
    [("postgres-17", False), ("postgres-17", True), pytest.param("mysql-5.7", True, marks=pytest.mark.servers)],
)
def test_a_server_that_runs_teaches_its_build_and_is_not_touched(name: str, is_replaced: bool, root: Path) -> None:
    with served(name, root) as server:
        binary = server.server.build.binary
        digest = page_sites.text_sha256(binary)
        if is_replaced:
            # Replace the program as an update of the package does: the same build in another file.
            newer = Path(shutil.copy2(binary, binary.with_name("newer")))
            newer.replace(binary)
        with untouched(server), of_process.opened(server.pid) as (build, program):
            assert build.binary == binary
            assert (program.stat().st_ino == binary.stat().st_ino) != is_replaced
            outcome = learning.learn(build, print, program)
            assert outcome.wrong == []
            assert (outcome.entry.text_sha256, outcome.entry.proof["by"]) == (digest, recorders())
            learning.keep(outcome.entry, None)
            assert learning.kept(build, program) == outcome.entry
        server.work(100)
