"""What a worker does: one job of some kind, by the engine it names; and what went wrong, in words for the parent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import Behaviour
from bufferlab.errors import BufferlabError
from bufferlab.execute.checkers import check
from bufferlab.execute.storage import is_full


def canceller(job: dict[str, Any]) -> Callable[[], None]:
    """What asks the job's engine to stop where it is."""
    return engines.behaviour(job["engine"]).cancel


def do(job: dict[str, Any], send: Callable[[str], None], stopped: threading.Event) -> dict[str, Any]:
    """Do the job; what it comes to. Raises what the engine raises, which `described` puts into words."""
    engine = engines.behaviour(job["engine"])
    match job["kind"]:
        case "load":
            return engine.load(job["job"], send)
        case "run":
            return _run(engine, job["job"], send)
        case "check":
            return check(job["engine"], job["job"], send, stopped)
        case "shape":
            return {"shape": engine.shape(Path(job["job"]["database"]))}
        case kind:
            raise ValueError(f"no such kind of job: {kind}")


def _run(engine: Behaviour, job: dict[str, Any], send: Callable[[str], None]) -> dict[str, Any]:
    if "block_trace" not in job:
        return engine.run(job, send)
    # Only where it is asked for: what keeps traces imports more than the rest of the worker together.
    from bufferlab.execute.block_trace import run_traced

    return run_traced(engine, job, send)


def described(error: Exception) -> dict[str, str | None]:
    """kind, what, where, hint of the core's error, an engine's, ours, or a surprise."""
    if isinstance(error, BufferlabError):
        return {"kind": "environment", "what": error.what, "where": error.where, "hint": error.hint}
    if isinstance(error, OSError):
        disk = "full_disk" if is_full(error) else "io"
        return {"kind": disk, "what": str(error.strerror or error), "where": error.filename, "hint": None}
    kind = getattr(error, "kind", None)
    if isinstance(kind, str):
        return {"kind": kind, **{name: getattr(error, name, None) for name in ("what", "where", "hint")}}
    if len(error.args) == 4 and all(isinstance(part, str | None) for part in error.args):
        return dict(zip(("kind", "what", "where", "hint"), error.args, strict=True))
    import traceback

    traceback.print_exc()
    return {"kind": "internal", "what": f"{type(error).__name__}: {error}", "where": None, "hint": None}
