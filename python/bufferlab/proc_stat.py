"""Reads /proc/PID/stat, the kernel's facts about a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def processes(proc: Path = Path("/proc")) -> Iterator[int]:
    """Yield the numbers (PIDs) of all processes. Raises OSError if `proc` cannot be read."""
    return (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())


def stat_fields(pid: int | str, proc: Path = Path("/proc")) -> list[str]:
    """Return the fields of a process that follow its name, from the state on (proc_pid_stat(5): field 3).

    A process chooses its name, which may have any bytes, even brackets and invalid UTF-8. Raises OSError if the process
    has ended or its file cannot be read.
    """
    return (proc / f"{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
