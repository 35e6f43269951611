"""The process that communicates with Ray: it dispatches a sweep's blocks and reports to its parent, like a worker.

It is a separate process because Ray's waits have no time limit, and because Ray ends the process of a driver whose head
is gone. The command, which is the parent, survives both. When the courier ends, the cluster ends all its tasks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.execute.run.worker import Tell, leave, serve

MODULE = "bufferlab.execute.fleet.courier"
SILENT_S = 400.0
"""The longest silence of the courier in seconds: two rounds of small tasks, each with Ray's time limit."""


def main() -> int:
    """Do the job on standard input: connect, dispatch, report. Return 0 after a result, 1 after an error."""
    return serve(_gathered)


_FILES = ("RAY_AUTH_TOKEN_PATH", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
"""Ray's environment variables that name a file."""


def _gathered(envelope: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    _leave_folder()
    from bufferlab.execute.fleet.dispatch import Gather
    from bufferlab.execute.fleet.gathering import Gathering
    from bufferlab.execute.fleet.ray_cluster import RayCluster
    from bufferlab.execute.stop import StopRequest

    def send(event: Mapping[str, Any]) -> None:
        tell(json.dumps(event))

    job = envelope["job"]
    gathering = Gathering.open(Path(job["folder"]))
    cluster = RayCluster(job["address"])
    with StopRequest() as stop:  # Ray installs its own signal handlers when it connects.
        return Gather(cluster, gathering, job["versions"], send, lambda: stop.requested).do()


def _leave_folder() -> None:
    """Change to the root folder: on every node Ray searches the driver's current folder for modules, before all others.

    In the current folder another user's module could replace one of Python's.
    """
    for name in _FILES:
        if found := os.environ.get(name):
            os.environ[name] = os.path.abspath(found)
    os.chdir("/")


if __name__ == "__main__":
    leave(main())  # Do not wait for Ray's threads: the cluster notices that the process is gone.
