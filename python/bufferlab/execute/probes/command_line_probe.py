"""The facts about an ended run that its probes need: those for which the user asks on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
