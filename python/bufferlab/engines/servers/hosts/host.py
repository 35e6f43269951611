"""What jobs on private servers and on those that run already share: the request to stop, and the core's job."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from bufferlab.engines.behaviour import EngineFailure, OnEvent
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.signs_of_life import OnWait, patience

_NOT_THE_CORES = ("database", "knobs", "program")
"""Entries of a job that the core does not take."""


class Host:
    """One way to meet the servers of a family; its `load`, `run` and `check` are called in the worker."""

    def __init__(self, family: Family, cancelled: threading.Event | None = None) -> None:
        self.family, self.cancelled = family, cancelled or threading.Event()

    def require_not_cancelled(self) -> None:
        """Raise EngineFailure when a stop was asked for."""
        if self.cancelled.is_set():
            raise EngineFailure("interrupted", "stopped on request")

    def patience(self, on_event: OnEvent) -> OnWait:
        """Return the function to call while a server is waited for; it raises once a stop was asked for."""
        return patience(on_event, self.cancelled.is_set)

    def load_job(self, job: Mapping[str, Any], address: Address) -> dict[str, Any]:
        """Return the core's job of a load: the workload, and where the server is."""
        return {"target": self.family.target(address), "workload": dict(job["workload"]), "threads": job["threads"]}

    def run_job(
        self, job: Mapping[str, Any], address: Address, frames: int, *, pid: int | None = None, data: str | None = None
    ) -> dict[str, Any]:
        """Return the core's job of a run: its own entries, and where the server and its data are, if they are ours."""
        return {
            **{name: value for name, value in job.items() if name not in _NOT_THE_CORES},
            "target": self.family.target(address),
            "server_pid": pid,
            "datadir": data,
            "statements": job["knobs"].get("statements", "spec"),
            "frames": frames,
        }
