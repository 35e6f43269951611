"""Reads the scripts of an experiment once, keeps them as text with it, and has the core's parser check them.

In a TOML a script is a path, relative to the TOML. In an experiment as run it is its source and text, so that a
sweep folder needs no other file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.errors import BufferlabError, Problem
from bufferlab.spec.merge import Merged

MAX_BYTES = 1 << 20
"""The largest script: people write scripts by hand, and a larger file was named by mistake."""

_Path = tuple[str, ...]


def read_script(merged: Merged, path: _Path, value: Any, problems: list[Problem]) -> dict[str, str] | None:
    """Return {source, text} of the script named at `path`; None, and a problem added, when it cannot be read."""
    if isinstance(value, dict):
        return _embedded(merged, path, value, problems)
    where = merged.where(path)
    if not isinstance(value, str) or not value.strip():
        problems.append(Problem(f"{path[-1]} = {value} is not the path of a file", where, "write the path of a script"))
        return None
    # A path in a flag begins at the current folder, a path in a TOML at the TOML's folder.
    file = Path(value) if path in merged.flags else merged.folder / value
    try:
        if file.is_dir():
            problems.append(Problem(f"the script {value} is a folder", where, "write the path of a script"))
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


def check_script(script: Mapping[str, str], variables: Mapping[str, Any], problems: list[Problem]) -> None:
    """Have the core parse the script; add a problem that names the script's line if it cannot."""
    core = _core()
    if core is None:
        return  # Nothing can run without a core, and `run` reports that.
    try:
        core.check_script(script["source"], script["text"], json.dumps(dict(variables)))
    except core.NativeError as error:
        _, what, place, hint = error.args
        problems.append(Problem(what, place or script["source"], hint))


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
