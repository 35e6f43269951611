"""The list of engines, one line per engine: their declarations, chapters and behaviours by name.

Each is loaded when it is asked for. Declarations are pure data. Behaviour may need the native core: `bufferlab list`
works where an engine cannot.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from bufferlab.engines.behaviour import Behaviour

if TYPE_CHECKING:
    from bufferlab.chapter.engine_chapters import EngineChapters
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
    """Return the engines' names; with `hidden`, also of those that exist for tests."""
    return [name for name in ENGINES if hidden or not declaration(name).hidden]


def declaration(name: str) -> EngineDeclaration:
    """Return the engine's declaration; raise KeyError for an unknown name."""
    return cast("EngineDeclaration", import_module(f"{ENGINES[name]}.declaration").DECLARATION)


def behaviour(name: str) -> Behaviour:
    """Return the engine's behaviour, imported as late as possible; raise KeyError for an unknown name."""
    return cast(Behaviour, import_module(f"{ENGINES[name]}.behaviour").BEHAVIOUR)


def chapters(name: str) -> EngineChapters:
    """Return the chapters that the engine adds to a report; none for an unknown name."""
    # Imported here, because reports need numpy and scipy, and callers that want a declaration do not.
    from bufferlab.chapter.engine_chapters import EngineChapters

    module = declaration(name).chapters if name in ENGINES else ""
    return cast(EngineChapters, import_module(module).CHAPTERS) if module else EngineChapters()
