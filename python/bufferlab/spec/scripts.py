"""Reads the scripts of an experiment once, stores their text in it, and has the core's parser check them.

A user's TOML names a script by a path relative to the TOML. The experiment.toml of a sweep folder contains the script's
name and text, so that the folder needs no other file. The [phases.NAME] tables hold scripts too, which run on the warm
database after the main window; experiment.py validates their keys and values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.errors import BufferlabError, Problem
from bufferlab.spec.profiles import Merged

MAX_BYTES = 4 << 20
"""The largest script, in bytes.

Scripts made from a slow log contain lists of values; a larger file was named by mistake.
"""

_Path = tuple[str, ...]


def read_script(merged: Merged, path: _Path, value: Any, problems: list[Problem]) -> dict[str, str] | None:
    """Return {source, text} of the script named at `path`; add a problem and return None if it cannot be read."""
    if isinstance(value, dict):
        return _embedded(merged, path, value, problems)
    where = merged.where(path)
    if not isinstance(value, str) or not value.strip():
        problems.append(Problem(f"{path[-1]} = {value} is not the path of a file", where, "write the path of a script"))
        return None
    # A path in a flag is relative to the current folder, a path in a TOML to the TOML's folder.
    file = Path(value) if path in merged.flags else merged.folder / value
    try:
        if file.exists() and not file.is_file():
            kind = "a folder" if file.is_dir() else "no regular file"
            problems.append(Problem(f"the script {value} is {kind}", where, "write the path of a script"))
            return None
        if file.stat().st_size > MAX_BYTES:
            what = f"the script {value} is {file.stat().st_size:,} bytes; a script has at most {MAX_BYTES:,}"
            problems.append(Problem(what, where, "load large data with SELECT over a generated series in the setup"))
            return None
        return {"source": Path(value).name, "text": file.read_text(encoding="utf-8")}
    except UnicodeDecodeError:
        problems.append(Problem(f"the script {value} is not UTF-8 text", where, "save it as UTF-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = "give the path of a text file"
        if path not in merged.flags:
            hint += f"; a path in a TOML begins at the TOML's folder: looked for {file}"
        problems.append(Problem(f"the script {value} cannot be read: {reason}", where, hint))
    return None


def check_script(
    script: Mapping[str, str], variables: Mapping[str, Any], problems: list[Problem]
) -> Mapping[str, Any]:  # fmt: skip
    """Have the core parse the script; return its contents.

    If it cannot be parsed, add a problem that names the script's line, and return {}.
    """
    core = _core()
    if core is None:
        return {}  # The native core is missing, so nothing can run; the command `run` reports that.
    try:
        told: Mapping[str, Any] = json.loads(
            core.check_script(script["source"], script["text"], json.dumps(dict(variables)))
        )
    except core.NativeError as error:
        _, what, place, hint = error.args
        problems.append(Problem(what, place or script["source"], hint))
        return {}
    return told


def _embedded(merged: Merged, path: _Path, value: Mapping[str, Any], problems: list[Problem]) -> dict[str, str] | None:
    source, text = value.get("source"), value.get("text")
    if set(value) == {"source", "text"} and isinstance(source, str) and isinstance(text, str):
        return {"source": source, "text": text}
    problems.append(
        Problem(f"{path[-1]} is neither a path nor source and text", merged.where(path), "write the path of a script")
    )
    return None


def _core() -> Any:
    """Return the native core; None if this installation has none."""
    from bufferlab.engines.native import native

    try:
        return native()
    except BufferlabError:
        return None


_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TAKEN = ("load", "prefill", "warm_up", "measure", "closing")
"""The stages that every run has. Samples and progress use their names, so no phase may have one of them."""


def gather_phases(merged: Merged, problems: list[Problem]) -> tuple[dict[str, Any], ...]:
    """Return the phases in the order written, with the texts of their scripts; add errors to `problems`."""
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
