"""Defines a probe that the user requests on the command line: how it is refused, passed to the core, and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from bufferlab.results.page_traces import PageTrace
from bufferlab.results.schema import BlockTrace


@dataclass(frozen=True)
class EndedRun:
    """The facts about an ended run that its probes need."""

    engine: str
    result: Mapping[str, Any] | None
    """The core's answer; None if there is none."""
    home: Path
    """The run's folder, into which the core wrote its records."""
    database: Path
    """The path of the run's database, which is closed."""
    samples: Sequence[Mapping[str, Any]]
    """The rows of the run's samples.parquet."""
    block: int = 0
    """The run's block in its sweep."""


class AskedProbe(Protocol):
    """A probe that the user requests on the command line, in addition to those that every run has."""

    name: ClassVar[str]
    """The probe's name in a job, in the core's answer and in run.json."""

    def job(self, home: Path) -> dict[str, Any]:
        """Return the probe's part of a run's job; the probe's records go into the run's folder `home`."""

    def require(self, engine: str, job: Mapping[str, Any]) -> None:
        """Refuse, before anything starts, a run that the probe cannot record.

        `job` is the run's job as far as it is known (database, knobs). Raises SpecError or EnvironmentLackingError.
        """

    def keep(self, run: EndedRun) -> tuple[BlockTrace | PageTrace, Path | None]:
        """Return the probe's part of run.json, and the Parquet file of a good table."""
