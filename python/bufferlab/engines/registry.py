"""Which engines there are: one line per engine, nothing else to edit.

Declarations are pure data, and what they say of results is handed in to `results` when this module is imported.
Behaviour (which may need the native core) is loaded only when an engine is used, so that `bufferlab list` works where
an engine cannot.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from bufferlab.engines.behaviour import Behaviour
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.results import families

if TYPE_CHECKING:
    from bufferlab.chapter.own import OwnChapters

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


def chapters(name: str) -> OwnChapters:
    """Return what the engine adds to a report; nothing for an unknown name."""
    # Imported here: reports need numpy and scipy, and whoever asks for a declaration does not.
    from bufferlab.chapter.own import OwnChapters

    module = declaration(name).chapters if name in ENGINES else ""
    return cast(OwnChapters, import_module(module).CHAPTERS) if module else OwnChapters()


def behaviour(name: str) -> Behaviour:
    """What drives the engine; imported here, as late as possible."""
    return cast(Behaviour, import_module(f"{ENGINES[name]}.behaviour").BEHAVIOUR)


families.hand_in({name: declaration(name).results for name in ENGINES})
