"""Which engines there are: one line per engine, nothing else to edit.

Declarations are loaded on request; behaviour (which may need the native core) only when an engine is
used, so that `bufferlab list` works where an engine cannot.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from bufferlab.engines.behaviour import Behaviour
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


def names(*, hidden: bool = False) -> list[str]:
    """The engines' names; with `hidden`, also those that exist for tests."""
    return [name for name in ENGINES if hidden or not declaration(name).hidden]


def declaration(name: str) -> EngineDeclaration:
    """What the engine says about itself. KeyError for an unknown name."""
    return cast(EngineDeclaration, import_module(f"{ENGINES[name]}.declaration").DECLARATION)


def behaviour(name: str) -> Behaviour:
    """What drives the engine; imported here, as late as possible."""
    return cast(Behaviour, import_module(f"{ENGINES[name]}.behaviour").BEHAVIOUR)
