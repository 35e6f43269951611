"""Explains why a MySQL or MariaDB process failed, from how it ended and the end of its log."""

from __future__ import annotations

import re
from functools import partial

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.child_process import failed

_UNKNOWN = re.compile(r"unknown (?:variable|option) '([^']*)'")
_BAD_VALUE = re.compile(
    r"(?:[Ee]rror while setting value '[^']*' to|used for variable|[Vv]alue .*of variable) '([^']*)'"
)


def refused_setting(log_text: str) -> EngineFailure | None:
    """Return the failure of a server that refused a variable, in the server's words; None when it failed otherwise.

    A variable without a knob is asked for as var.NAME. Warnings say the same of what is optional (loose_).
    """
    for line in log_text.splitlines():
        if "[ERROR]" not in line:
            continue
        said = line.split("[ERROR]", 1)[1].strip()
        if found := _UNKNOWN.search(line):
            name = found[1].split("=")[0].replace("-", "_").lstrip("_")
            what, hint = (
                "does not know",
                "look it up in the manual of this version; `bufferlab list engines` shows knobs",
            )
        elif found := _BAD_VALUE.search(line):
            name = found[1].replace("-", "_")
            what, hint = "refuses the value of", "look up in the manual which values this version takes"
        else:
            continue
        return EngineFailure("usage", f"the server {what} the variable {name}: it says: {said}", f"var.{name}", hint)
    return None


failure = partial(
    failed,
    refused=lambda text, what, place: refused_setting(text),
    disk_full=("errno: 28", "No space left", "Disk is full", "OS error number 28"),
    grave=r"\[ERROR\]|\[FATAL\]|cannot be run|Assertion",
    beside=r"\[Warning\]",
)
"""Returns why a server's process failed."""
