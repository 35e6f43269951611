"""The process that does one block on a node: it calls `run_sweep` and reports events to its parent, like a worker.

The process ends when its standard input is closed, and the kernel kills it when its parent ends. So nothing outlives a
node. It does not use Ray. Its children get none of Ray's variables, one of which is the cluster's token.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bufferlab.errors import Problem
from bufferlab.execute.progress import Standing, SweepStatus
from bufferlab.execute.run.worker import Tell, leave, serve

MODULE = "bufferlab.execute.fleet.block"
BEAT_S = 5.0
"""Seconds between two signs of life of the process that does a block."""
_SHOWN_S = 1.0

Send = Callable[[Mapping[str, Any]], None]


def main() -> int:
    """Do the job on standard input. Return 0 after a result was sent, 1 after an error or without a parent."""
    return serve(_do)


def _do(envelope: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    for name in [name for name in os.environ if name.startswith("RAY_")]:
        del os.environ[name]

    def send(event: Mapping[str, Any]) -> None:
        tell(json.dumps(event))

    threading.Thread(target=_beat, args=(send,), daemon=True).start()
    return do(envelope["job"], Telling(send))


def _beat(send: Send) -> None:
    while True:
        time.sleep(BEAT_S)
        send({"event": "beat"})


class Telling:
    """A progress display that sends each update to the parent process."""

    def __init__(self, send: Send) -> None:
        self._send, self._last = send, -_SHOWN_S

    def show(self, status: SweepStatus) -> None:
        """Send the block's completed fraction and remaining seconds to the parent, at most once a second."""
        if time.monotonic() - self._last >= _SHOWN_S:
            self._last = time.monotonic()
            self._send({"event": "status", "done": status.done, "seconds_left": status.seconds_left})

    def look(self, standing: Standing) -> None:
        """Send nothing: the command, which gets the block's runs, shows the answer."""

    def say(self, text: str) -> None:
        """Send a line of text to the parent."""
        self._send({"event": "said", "text": text})

    def warn(self, problem: Problem) -> None:
        """Send to the parent a problem that did not stop the block."""
        self._send({"event": "warned", **problem.as_dict()})


def do(job: Mapping[str, Any], progress: Telling) -> dict[str, Any]:
    """Do a block into the folder `out`, or its missing runs into the sweep folder `resume`. Return how it ended.

    Raises the errors of `run_sweep`.
    """
    from pydantic import TypeAdapter

    from bufferlab.execute.fleet.node_options import NodeOptions
    from bufferlab.execute.sweep import run_sweep
    from bufferlab.spec import loads

    experiment = loads(job["experiment"], "the experiment of the command")
    before = Path(job["resume"]) if job["resume"] else None
    told = TypeAdapter(NodeOptions).validate_python(job["options"])
    options = told.for_block(job["block"], job["device_wait_s"])
    ended = run_sweep(experiment, Path(job["out"]), before, progress, options)
    return {"failed": ended.failed, "status": "interrupted" if ended.signal_number is not None else "ended"}


if __name__ == "__main__":
    leave(main())
