"""Which second client checks the consistency conditions on an engine's closed files. Runs inside the worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import ChecksItself


def check(engine: str, job: Mapping[str, Any], on_event: Callable[[str], None]) -> dict[str, Any]:
    """The workload's conditions on the job's database: {seconds, conditions}."""
    if engines.declaration(engine).file_format == "own":
        return cast(ChecksItself, engines.behaviour(engine)).check(job, on_event)
    from bufferlab.execute import consistency

    return consistency.check(Path(job["database"]), job["workload"], job["delivered_orders"])
