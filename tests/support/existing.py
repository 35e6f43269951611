"""A server that runs already, and jobs on it in separate workers; each family's tests say how to query it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bufferlab.engines.servers.run import SchemaMark
from bufferlab.execute.run.supervise import Outcome, supervise
from bufferlab.execute.stop import StopRequest
from bufferlab.knob import Native
from support import prepared
from support.core import ROOT
from support.fake import children

HOT_ROWS = {"name": "hot_rows", "rows": 20_000, "load_seed": 1}
READS = {**HOT_ROWS, "hot_rows": 2_000, "layout": "scattered", "zipf": 0, "update_percent": 0, "seed": 3}
TPCC = {"name": "tpcc", "warehouses": 1, "load_seed": 1}
FROM_THE_ENVIRONMENT = "password: from the environment variable BUFFERLAB_PASSWORD"


class Existing:
    """A server of which bufferlab knows only the URL. `knobs` are the settings that every run asks for."""

    def __init__(self, engine: str, url: str, root: Path, knobs: dict[str, Native]) -> None:
        self.engine, self.url, self.root, self.knobs = engine, url, root, knobs
        self.database, self.log = root / "database", root / "worker.log"
        self.stop = StopRequest()

    def do(
        self,
        kind: str,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        silent_seconds: float = 60,
        **job: Any,
    ) -> Outcome:
        return supervise(
            kind,
            self.engine,
            {"database": str(self.database), **job},
            log_file=self.log,
            stop=self.stop,
            silent_seconds=silent_seconds,
            on_event=on_event or (lambda event: None),
        )

    def load(self, workload: dict[str, Any], **knobs: Native) -> Outcome:
        asked = {"server": self.url, "page_size": self.knobs["page_size"], **knobs}
        return self.do("load", knobs=asked, workload=workload, threads=2)

    def load_hot_rows_once(self, kept: Path, mark: SchemaMark | None, drop: Callable[[], object]) -> None:
        """Load the hot rows, unless the server still has an earlier test's load, whose note is in the folder `kept`."""
        note = kept / "existing.json"
        if (
            not note.exists()
            or mark is None
            or [mark.data_id, mark.state] != [json.loads(note.read_text())["data_id"], "clean"]
        ):
            drop()
            assert self.load(HOT_ROWS).kind == "ok"
            shutil.rmtree(kept, ignore_errors=True)
            self.database.rename(kept)
        shutil.copytree(kept, self.database)

    def run(
        self,
        workload: dict[str, Any],
        transactions: int = 300,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        *,
        silent_seconds: float = 60,
        **knobs: Native,
    ) -> Outcome:
        return self.do(
            "run",
            on_event,
            silent_seconds,
            knobs={"server": self.url, **self.knobs, **knobs},
            connections=2,
            workload=workload,
            load={"mode": "closed"},
            warm_up={"max_transactions": 300, "max_seconds": 60},
            measure={"transactions": transactions, "max_seconds": 60},
            phases=[],
            sample_interval_ms=1000,
        )

    def run_and_stop(self, **knobs: Native) -> Outcome:
        """Do a run that gets a request to stop in its measured window."""

        def ask_to_stop(event: dict[str, Any]) -> None:
            if event.get("event") == "sample" and event.get("edge") == "start":
                threading.Timer(0.5, lambda: setattr(self.stop, "signal_number", signal.SIGTERM)).start()

        return self.run(READS, 100_000_000, ask_to_stop, **knobs)

    def run_and_kill(self, **knobs: Native) -> Outcome:
        """Do a run whose worker is killed in its measured window."""

        def kill(event: dict[str, Any]) -> None:
            if event.get("event") == "sample" and event.get("edge") == "start":
                (worker,) = (pid for pid in children(os.getpid()) if _is_worker(pid))
                os.kill(worker, signal.SIGKILL)

        return self.run(READS, 100_000_000, kill, **knobs)

    def command(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run `bufferlab ARGUMENTS` in this test's environment to its end."""
        return prepared.run(arguments, {**os.environ, "PYTHONPATH": str(ROOT / "python")}, 300)

    def holding(self, secret: str) -> list[Path]:
        """Return the files of this test that contain `secret`."""
        return [file for file in self.root.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]


def _is_worker(pid: int) -> bool:
    try:
        return b"bufferlab.execute.run.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@contextmanager
def relay(place: Path | int) -> Iterator[int]:
    """Yield the port of a loopback listener that forwards each connection to a Unix socket, or to another port."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_INET if isinstance(place, int) else socket.AF_UNIX)
                far.connect(("127.0.0.1", place) if isinstance(place, int) else str(place))
                ends.extend((near, far))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    ends: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for end in ends:
                # A thread that waits in recv keeps a closed socket open.
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
