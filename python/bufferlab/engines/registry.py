"""The list of engines: their declarations, behaviours, chapters, and the servers that can be fetched.

Declarations are pure data. A behaviour is imported at first use, because it may need the native core: `bufferlab list`
works where an engine cannot. A behaviour is the class `BEHAVIOUR` in the module `behaviour` of the engine's folder. A
server has a module `family` instead, with its `FAMILIES`. A module `bufferlab_engines` on Python's path adds engines of
other authors: its `ENGINES` has the form of the one here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.file.declaration import DECLARATION as FILE
from bufferlab.engines.innodb.declaration import MARIADB, MYSQL
from bufferlab.engines.postgres.declaration import DECLARATION as POSTGRES
from bufferlab.engines.sqlite.declaration import DECLARATION as SQLITE

if TYPE_CHECKING:
    from bufferlab.chapter.engine_chapters import EngineChapters
    from bufferlab.engines.behaviour import Behaviour
    from bufferlab.engines.servers.builds import Build, Listed
    from bufferlab.engines.servers.family import Family
    from bufferlab.engines.servers.fetch import Servers

_LIST = (SQLITE, MYSQL, MARIADB, FILE, POSTGRES)


def folder(name: str) -> str:
    """Return the name of the package of one of bufferlab's engines; raise KeyError for an unknown name."""
    return f"bufferlab.engines.{declaration(name).family or name}"


def servers() -> list[str]:
    """Return the names of bufferlab's engines that are database servers."""
    return [declared.name for declared in _LIST if find_spec(f"{folder(declared.name)}.family")]


@cache
def family(name: str) -> Family:
    """Return the family of an engine in `servers`. Its module is imported at the first call."""
    return cast("Family", import_module(f"{folder(name)}.family").FAMILIES[name])


def families() -> list[Family]:
    """Return the families of all database servers that bufferlab supports: MySQL, MariaDB, PostgreSQL."""
    return [family(engine) for engine in servers()]


def _to_fetch() -> list[Servers]:
    folders = dict.fromkeys(map(folder, servers()))
    return [cast("Servers", import_module(f"{one}.programs").SERVERS) for one in folders]


def fetchable_servers() -> tuple[str, ...]:
    """Return the name of every server that can be fetched."""
    return tuple(name for servers in _to_fetch() for name in servers.packages)


def fetch_server(name: str, say: Callable[[str], None]) -> Build:
    """Return the server of that name, and fetch it if it is missing. Raise KeyError for an unknown name."""
    from bufferlab.engines.servers.fetch import fetch

    found = next((servers for servers in _to_fetch() if name in servers.packages), None)
    if found is None:
        raise KeyError(name)
    return fetch(found.packages[name], found.ask_version, say)


def listed_servers() -> list[Listed]:
    """Return a line for every server that is installed or can be fetched: the build, or why it cannot be used."""
    return [line for servers in _to_fetch() for line in servers.listed(tuple(servers.packages))]


def _behaviour(name: str) -> Behaviour:
    if name not in servers():
        return cast("Behaviour", import_module(f"{folder(name)}.behaviour").BEHAVIOUR())
    from bufferlab.engines.servers.behaviour import ServerBehaviour

    return ServerBehaviour(family(name))


ENGINES: dict[str, tuple[EngineDeclaration, Callable[[], Behaviour]]] = {
    declared.name: (declared, partial(_behaviour, declared.name)) for declared in _LIST
}
if find_spec("bufferlab_engines"):
    ENGINES |= import_module("bufferlab_engines").ENGINES


def names(*, hidden: bool = False) -> list[str]:
    """Return the engines' names; with `hidden`, also of those that exist only for tests."""
    return [name for name, (declared, _) in ENGINES.items() if hidden or not declared.hidden]


def declaration(name: str) -> EngineDeclaration:
    """Return the declaration of the engine of that name; raise KeyError for an unknown one."""
    return ENGINES[name][0]


@cache
def behaviour(name: str) -> Behaviour:
    """Return the engine's behaviour; raise KeyError for an unknown name. Its module is imported at the first call."""
    return ENGINES[name][1]()


def chapters(name: str) -> EngineChapters:
    """Return the chapters that the engine adds to a report; none for an unknown name."""
    # Import late: this import needs numpy and scipy, which callers of other functions do not need.
    from bufferlab.chapter.engine_chapters import EngineChapters

    module = declaration(name).chapters if name in ENGINES else ""
    return cast("EngineChapters", import_module(module).CHAPTERS) if module else EngineChapters()
