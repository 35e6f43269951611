"""Gathers the [phases.NAME] tables: scripts that run on the warm database after the main window.

experiment.py validates their keys and values.
"""

from __future__ import annotations

import re
from typing import Any

from bufferlab.errors import Problem
from bufferlab.spec.merge import Merged
from bufferlab.spec.scripts import read_script

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TAKEN = ("load", "prefill", "warm_up", "measure", "closing")
"""The names of the stages that every run has: samples and progress use them."""


def gather_phases(merged: Merged, problems: list[Problem]) -> tuple[dict[str, Any], ...]:
    """Return the phases in the order written, with the texts of their scripts; add to `problems` what is wrong."""
    tables = merged.document.get("phases", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        problems.append(Problem("phases are not tables", merged.where(("phases",)), "write [phases.NAME]"))
        return ()
    phases = [_phase(merged, name, table, problems) for name, table in tables.items()]
    return tuple(phase for phase in phases if phase is not None)


def _phase(merged: Merged, name: str, table: dict[str, Any], problems: list[Problem]) -> dict[str, Any] | None:
    where = merged.where(("phases", name))
    if not _NAME.fullmatch(name):
        problems.append(Problem(f'"{name}" is not a name for a phase', where, "write a-z, 0-9 and _, a letter first"))
        return None
    if name in _TAKEN:
        hint = f"every run has stages named {', '.join(_TAKEN)}; choose another name"
        problems.append(Problem(f'the name "{name}" of a phase is taken', where, hint))
        return None
    phase = {**table, "name": name}
    if "script" in table:
        script = read_script(merged, ("phases", name, "script"), table["script"], problems)
        if script is None:
            return None
        phase["script"] = script
    return phase
