"""Stores the results of a long benchmark, a line of a file per turn, so that the same command resumes it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

Turn = TypeVar("Turn")
Done = TypeVar("Done")


def read(state: Path | None, turn: type[Turn], done: type[Done]) -> dict[Turn, Done]:
    """Return turn -> result from a file, as objects of the dataclasses `turn` and `done`; ignore an incomplete line."""
    found = {}
    for line in state.read_text().splitlines() if state and state.exists() else ():
        try:
            noted = json.loads(line)
        except ValueError:
            continue
        found[turn(**noted["turn"])] = done(**noted["done"])
    return found


def note(state: Path | None, turn: Any, done: Any) -> None:
    """Add a turn with its result to the file."""
    if state:
        with state.open("a") as file:
            file.write("\n" + json.dumps({"turn": asdict(turn), "done": asdict(done)}) + "\n")
