"""Gathers a server's texts: its status at the edges of a window, and the end of its log when a run fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

SERVER = "server"
"""The folder, next to a run's database, in which its server keeps its socket, logs and pid."""

_LOG_BYTES = 64 << 10


def engine_status(events: Sequence[Mapping[str, Any]]) -> str:
    """Return the status texts one after the other, each under a line that says when it was taken."""
    return "\n".join(f"{_header(event)}\n{str(event['text']).rstrip()}\n" for event in events)


def log_ends(home: Path) -> str:
    """Return the last 64 KiB of every log of a run's server; "" if there is none."""
    found = ""
    for path in sorted([*(home / SERVER).glob("*.log"), *(home / SERVER).glob("*.err")]):
        with suppress(OSError), path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            found += f"\n=== the end of the server's {path.name}\n{file.read().decode('utf-8', 'replace')}"
    return found


def _header(event: Mapping[str, Any]) -> str:
    edge = f", the window's {event['edge']}" if event.get("edge") else ""
    return f"=== t = {event['t_s']:.3f} s, phase {event['phase']}{edge}"
