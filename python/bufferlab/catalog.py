"""Finds the built-in experiments, each a folder with an experiment.toml, and reads their heads without checking them.

They are in the package's folder `experiments`. In a checkout this is a link to experiments/ at the checkout's root, so
that a checkout runs its own experiments.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bufferlab.errors import SpecError
from bufferlab.texts import parse_toml

#: The folder of the built-in experiments.
EXPERIMENTS = (Path(__file__).parent / "experiments").resolve()
FILE_NAME = "experiment.toml"


def builtin_experiments() -> dict[str, Path]:
    """Return name of a built-in experiment -> path of its TOML."""
    return {file.parent.name: file for file in sorted(EXPERIMENTS.glob(f"*/{FILE_NAME}"))}


@dataclass(frozen=True)
class Head:
    """The head of a built-in experiment's TOML. Reading it is quick, because it needs no schema."""

    name: str
    question: str
    engine: str
    workload: str
    sweep: tuple[str, ...]
    """The names of the settings that are swept."""


def heads() -> list[Head]:
    """Return the heads of all built-in experiments."""
    found = []
    for name, file in builtin_experiments().items():
        table = parse_toml(file.read_text(encoding="utf-8"))
        found.append(
            Head(name, table["question"], table["engine"], table["workload"]["name"], tuple(table.get("sweep", ())))
        )
    return found


def find_experiment(path_or_name: str) -> Path:
    """Return the path of the TOML or script of a built-in name, a file, or a folder with experiment.toml.

    Raises SpecError if there is none.
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
    from difflib import get_close_matches

    close = get_close_matches(path_or_name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    hint += f"built in: {', '.join(known) or 'none found'}; or give the path of a TOML file"
    raise SpecError(what, "argument EXPERIMENT", hint)
