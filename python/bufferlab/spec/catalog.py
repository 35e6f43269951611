"""Finds built-in experiments: the folders that hold an experiment.toml.

They stand in experiments/ at the root of the checkout, where an editable installation finds them.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from bufferlab.errors import SpecError

_PACKAGE = Path(__file__).resolve().parent.parent

SEARCH_PATH: tuple[Path, ...] = (
    # <checkout>/python/bufferlab.
    _PACKAGE.parent.parent / "experiments",
)
FILE_NAME = "experiment.toml"


def builtin_experiments() -> dict[str, Path]:
    """Return the path of every built-in experiment's TOML, keyed by name."""
    found: dict[str, Path] = {}
    for root in SEARCH_PATH:
        for file in sorted(root.glob(f"*/{FILE_NAME}")):
            found.setdefault(file.parent.name, file)
    return found


def find_experiment(path_or_name: str) -> Path:
    """Return the TOML's path for a built-in name or a path (of a file, or of a folder that holds one).

    Raises SpecError when there is no such experiment or file.
    """
    known = builtin_experiments()
    if path_or_name in known:
        return known[path_or_name]
    path = Path(path_or_name)
    if path.is_dir() and (path / FILE_NAME).is_file():
        return path / FILE_NAME
    if path.is_file():
        return path
    looks_like_path = "/" in path_or_name or path_or_name.endswith(".toml")
    what = f'no file "{path_or_name}"' if looks_like_path else f'no experiment "{path_or_name}"'
    if path.is_dir():
        what = f'the folder "{path_or_name}" holds no {FILE_NAME}'
    close = get_close_matches(path_or_name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    hint += f"built in: {', '.join(known) or 'none found'}; or give the path of a TOML file"
    raise SpecError(what, "argument EXPERIMENT", hint)
