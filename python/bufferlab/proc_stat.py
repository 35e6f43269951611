"""Reads what the kernel tells of a process in /proc/PID/stat."""

from __future__ import annotations

from pathlib import Path


def stat_fields(pid: int | str, proc: Path = Path("/proc")) -> list[str]:
    """Return the fields behind the name, from the state on (proc_pid_stat(5): field 3). Raises OSError.

    The name is any bytes that the process chose, brackets and what is no UTF-8 among them.
    """
    return (proc / f"{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
