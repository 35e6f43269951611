"""The block trace that a run was asked for: armed when it is known which device to trace.

Most engines work where their database is, and `execute` arms for them. One that makes its device in the run (a loop
device) says `arms_block_trace = True` and calls `arm` with it before the core begins. Where no trace was asked for that
does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.engines.native import native

_wanted: dict[str, Any] | None = None


def want(asked: Mapping[str, Any] | None) -> None:
    """What the worker's job asks for: where pages go, how large the kernel's buffer is; None for no trace."""
    global _wanted
    _wanted = dict(asked) if asked is not None else None


def arm(path: Path) -> None:
    """Prepare the trace of the device that this is, or that holds it."""
    if _wanted is not None:
        native().block_trace_arm(json.dumps({"path": str(path), **_wanted}))
