"""The engines of the catalog by name: declarations, chapters, behaviours.

Declarations are pure data. When this module is imported, it hands their part on results in to `results`.
Behaviour (which may need the native core) is loaded only when an engine is used, so that `bufferlab list` works where
an engine cannot.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from bufferlab.engines.catalog import ENGINES, behaviour, declaration
from bufferlab.results import handed_in

if TYPE_CHECKING:
    from bufferlab.chapter.own import OwnChapters

__all__ = ["ENGINES", "behaviour", "chapters", "declaration", "names"]


def names(*, hidden: bool = False) -> list[str]:
    """Return the engines' names; with `hidden`, also of those that exist for tests."""
    return [name for name in ENGINES if hidden or not declaration(name).hidden]


def chapters(name: str) -> OwnChapters:
    """Return the chapters that the engine adds to a report; none for an unknown name."""
    # Imported here, because reports need numpy and scipy, and callers that want a declaration do not.
    from bufferlab.chapter.own import OwnChapters

    module = declaration(name).chapters if name in ENGINES else ""
    return cast(OwnChapters, import_module(module).CHAPTERS) if module else OwnChapters()


handed_in.hand_in({name: declaration(name).results for name in ENGINES})
