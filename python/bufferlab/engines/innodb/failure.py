"""Explains why a MySQL or MariaDB process failed, from how it ended and the end of its log."""

from __future__ import annotations

import re
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.child_process import ended_by, lacks, missing_library, tail

_LINES = 60
_UNKNOWN = re.compile(r"unknown (?:variable|option) '([^']*)'")
_BAD_VALUE = re.compile(
    r"(?:[Ee]rror while setting value '[^']*' to|used for variable|[Vv]alue .*of variable) '([^']*)'"
)


def failure(what: str, code: int | None, log: Path) -> EngineFailure:
    """Return why a server's process failed, from how it ended and the end of its log."""
    text = tail(log, _LINES)
    if library := missing_library(text):
        return EngineFailure("environment", lacks(library), str(log), "install the package")
    if "errno: 28" in text or "No space left" in text or "Disk is full" in text or "OS error number 28" in text:
        return EngineFailure("full_disk", f"{what}: the disk is full", str(log), "free some space")
    ended = "" if code is None else f" ({ended_by(code)})"
    errors = [line for line in text.splitlines() if re.search(r"\[ERROR\]|\[FATAL\]|cannot be run|Assertion", line)]
    others = [line for line in text.splitlines() if "[Warning]" not in line]
    said = "\n".join(errors[-6:] or others[-4:]) or "nothing"
    if refused := refused_setting(text):
        return refused
    return EngineFailure("engine", f"{what}{ended}; its log ends with:\n{said}", str(log), "see the server's log")


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
