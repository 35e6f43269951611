"""The objects that all runs of a sweep share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.execute.asked_probe import AskedProbe
from bufferlab.execute.rates import KnownRates
from bufferlab.execute.reach import Owner
from bufferlab.execute.restore import Method
from bufferlab.execute.stop import StopRequest
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Experiment


@dataclass
class SweepContext:
    """The objects of a sweep that each of its runs uses."""

    experiment: Experiment
    engine: EngineDeclaration
    folder: SweepFolder
    scratch: Path
    method: Method
    versions: dict[str, str]
    host_id: str
    stop: StopRequest
    rates: KnownRates
    owner: Owner | None = None
    """The user whom the server runs as: copies of the database are given to this user. None: copies stay ours."""
    allow_online_changes: bool = False
    probes: tuple[AskedProbe, ...] = ()
    """Probes beyond those that watch every run."""
