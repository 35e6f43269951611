"""The list of engines: one line per engine, nothing else to edit.

A worker process asks this file alone: the registry loads every declaration, which takes longer than the rest of a
worker's start.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from bufferlab.engines.behaviour import Behaviour

if TYPE_CHECKING:
    from bufferlab.engines.declaration import EngineDeclaration

ENGINES: dict[str, str] = {
    "sqlite": "bufferlab.engines.sqlite",
    "mysql": "bufferlab.engines.mysql",
    "mariadb": "bufferlab.engines.mariadb",
    "file": "bufferlab.engines.file",
    "postgres": "bufferlab.engines.postgres",
    "fake": "bufferlab.engines.fake",
    "fake_server": "bufferlab.engines.fake_server",
}


def declaration(name: str) -> EngineDeclaration:
    """Return the engine's declaration; raise KeyError for an unknown name."""
    return cast("EngineDeclaration", import_module(f"{ENGINES[name]}.declaration").DECLARATION)


def behaviour(name: str) -> Behaviour:
    """Return the engine's behaviour, imported as late as possible; raise KeyError for an unknown name."""
    return cast(Behaviour, import_module(f"{ENGINES[name]}.behaviour").BEHAVIOUR)
