"""What every engine's behaviour.py offers to `execute` and to `bufferlab doctor`.

The generic half (caching, copying, supervising, publishing) is `execute`'s; here is only what differs
between engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

OnEvent = Callable[[str], None]
"""Takes one event, a JSON object as text."""

NativeKnobs = Mapping[str, int | str]
"""Knob values as the core takes them, keyed by native name."""


@dataclass(frozen=True)
class Found:
    """An engine that can be used here."""

    version: str
    core_version: str
    where: str


@dataclass(frozen=True)
class HostCheck:
    """One thing `doctor` looked at: can it be used, and if not why and what to do."""

    name: str
    ok: bool
    detail: str
    hint: str | None = None


class Behaviour(Protocol):
    """Drives one engine. `load`, `run` and `cancel` are called inside the worker process."""

    def find(self) -> Found:
        """The engine as it is here, or EnvironmentLackingError."""
        ...

    def check_directory(self, directory: Path, knobs: NativeKnobs) -> list[HostCheck]:
        """Can a database in this directory be measured with these knobs?"""
        ...

    def data_recipe(self, knobs: NativeKnobs, workload: Mapping[str, Any]) -> dict[str, Any]:
        """Everything that decides the bytes of the loaded database; its hash is `data_key`.

        `workload` is the load job's, with its version: of a script's text only the setup decides.
        """
        ...

    def allocated_bytes(self, database: Path) -> int:
        """Bytes of data and indexes the closed database has allocated."""
        ...

    def shape(self, database: Path) -> dict[str, Any] | None:
        """The trees of the closed database as run.json's `database.shape` has them; None where none can be told."""
        ...

    def load(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """Load a new database and close it."""
        ...

    def run(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """One run: open, warm up, measure, close."""
        ...

    def cancel(self) -> None:
        """Ask the running load or run to stop soon; called from another thread."""
        ...


class ChecksItself(Protocol):
    """An engine whose files no second client reads checks the workload's conditions itself."""

    def check(self, job: Mapping[str, Any], on_event: OnEvent) -> dict[str, Any]:
        """The consistency conditions on the closed database: {seconds, conditions}."""
        ...


class EngineFailure(Exception):
    """What an engine's load or run raises inside the worker; the core's own error has the same fields."""

    def __init__(self, kind: str, what: str, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(kind, what, where, hint)
        self.kind, self.what, self.where, self.hint = kind, what, where, hint
