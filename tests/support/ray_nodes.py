"""Nodes of a Ray cluster on this machine, for tests: started with a token, and ended by their process numbers."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

START_S = 120
TRIES = 4
STORE_BYTES = 80_000_000
"""The smallest object store that Ray makes: files of nodes do not go through it."""


@dataclass
class RayNodes:
    """A head without CPUs, and nodes of one CPU each."""

    place: Path
    environment: dict[str, str]
    port: int = 0
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Return the address that `--ray` takes."""
        return f"127.0.0.1:{self.port}"

    def start_head(self) -> None:
        """Start the head, and wait until it has a port."""
        with socket.socket() as free:
            free.bind(("", 0))
            self.port = free.getsockname()[1]
        options = ["--head", f"--port={self.port}", "--include-dashboard=false", f"--temp-dir={self.place / 'r'}"]
        self._start("head", *options, "--num-cpus=0")

    def start_node(self) -> subprocess.Popen[bytes]:
        """Start a node, and wait until it takes tasks."""
        return self._start(f"node-{len(self.nodes)}", f"--address={self.address}", "--num-cpus=1")

    def raylet(self, node: subprocess.Popen[bytes]) -> int:
        """Return the number of the node's raylet, the parent of its workers."""
        return next(pid for pid in descendants(node.pid) if _words(pid)[0].endswith("/raylet"))

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        """Kill a node and all processes that it started, by their numbers, so that none can clean up."""
        for pid in [node.pid, *descendants(node.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        node.wait()

    def end(self) -> None:
        """End all nodes, the head last, as Ctrl-C does; kill the remaining processes after ten seconds."""
        for node in reversed(self.nodes):
            pids = descendants(node.pid)
            node.terminate()
            with suppress(subprocess.TimeoutExpired):
                node.wait(10)
            for pid in [node.pid, *pids]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            node.wait()

    def _start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """Start a node; start it again if it gave up, as Ray does if starting takes more than 30 s on a busy host."""
        for attempt in range(TRIES):
            log = self.place / f"{name}-{attempt}.log"
            node = self._process(log, *options)
            deadline = time.monotonic() + START_S
            try:
                while node.poll() is None and time.monotonic() < deadline:
                    if "Ray runtime started" in log.read_text(errors="replace"):
                        self.nodes.append(node)
                        return node
                    time.sleep(0.1)
            finally:
                if node not in self.nodes:  # Also after an interrupt no node may stay.
                    self.kill(node)
        raise AssertionError(f"{name} did not start: {log.read_text(errors='replace')[-3000:]}")

    def _process(self, log: Path, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-W", "ignore", "-m", "ray.scripts.scripts", "start", "--block", *options]
        quiet = ["--disable-usage-stats", "--include-log-monitor=false", f"--object-store-memory={STORE_BYTES}"]
        with log.open("wb") as out:
            return subprocess.Popen(
                [*command, *quiet], env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )


@contextmanager
def ray_nodes(count: int, environment: Mapping[str, str]) -> Iterator[RayNodes]:
    """Yield a head and `count` nodes; afterwards all of them and their files are gone."""
    # The path of a socket has 107 bytes at most, of which Ray's own names take 70.
    place = Path(tempfile.mkdtemp(prefix="ray-", dir="/var/tmp"))
    own = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    cluster = RayNodes(place, {**environment, **own})
    try:
        cluster.start_head()
        for _ in range(count):
            cluster.start_node()
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(place, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started, children before grandchildren."""
    found, parents = [pid], _parents()
    for above in found:
        found += [child for child, parent in parents.items() if parent == above]
    return found[1:]


def of_environment(name: str, value: str) -> dict[int, str]:
    """Return the processes whose environment has that variable, with their command lines."""
    found = {}
    for pid in _parents():
        with suppress(OSError):
            if f"{name}={value}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found[pid] = " ".join(_words(pid))
    return found


def _words(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    return [""]


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    return found
