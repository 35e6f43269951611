"""Tells which relation each page of a trace belongs to, by the numbers of the relations' files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bufferlab.engines.behaviour import OwnedPages
from bufferlab.engines.postgres import relation_sizes
from bufferlab.engines.servers import stored_sizes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FORKS = ("", " (fsm)", " (vm)", " (init)")
"""Of common/relpath.c: the main fork, the free space map, the visibility map, the initial fork."""
_FIRST_OF_USERS = 16384
"""FirstNormalObjectId of access/transam.h: the system's own relations have smaller numbers."""


def owners(database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]) -> list[OwnedPages]:
    """Return the relations of a closed cluster that a trace touched, with their pages; the system's go together.

    A page is its relation's place in `relations` (tablespace, database, relation, fork) times 2^32 plus its number.
    """
    import numpy as np  # Of a worker's start it would be a third, and few workers need it.

    stored = stored_sizes.read(database)["relations"]
    names, trees = _names(stored), {_number(one): one for one in stored if one.get("method") == "btree"}
    number_of = touched >> np.uint64(32)
    found: dict[str, list[NDArray[np.uint64]]] = {}
    interior = [touched[:0]]
    for place, (_, _, number, fork) in enumerate(relations):
        own = touched[number_of == place]
        if number < _FIRST_OF_USERS:
            name = "(catalog)"
        else:
            name = names.get(number, "(other)") + (_FORKS[fork] if fork < len(_FORKS) else "")
            if number in trees and not fork:
                file = database / "data" / trees[number]["file"]
                levels = relation_sizes.levels(file, (own & np.uint64(0xFFFFFFFF)).tolist())
                interior.append(own[np.array(levels, int) > 0])
        found.setdefault(name, []).append(own)
    above = np.concatenate(interior)
    ordered = sorted(found, key=lambda name: (name.startswith("("), name))
    all_pages = {name: np.concatenate(found[name]) for name in ordered}
    return [OwnedPages(name, pages, np.intersect1d(pages, above)) for name, pages in all_pages.items()]


def elsewhere(database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
    """Return the places of those relations that do not belong to the workload's database."""
    files = [str(one["file"]) for one in stored_sizes.read(database)["relations"]]
    # base/DATABASE/FILE, of the default tablespace.
    ours = {int(Path(file).parent.name) for file in files}
    return [place for place, (_, number, _, _) in enumerate(relations) if number not in ours]


def _number(relation: Mapping[str, object]) -> int:
    """Return the number of a relation's file."""
    return int(Path(str(relation["file"])).name)


def _names(relations: Sequence[Mapping[str, object]]) -> dict[int, str]:
    """Return names by the number of the file: a table's own, an index's after its table's."""
    tables = {one["oid"]: one["name"] for one in relations}
    return {
        _number(one): f"{tables[one['table_oid']]}.{one['name']}" if one["table_oid"] in tables else str(one["name"])
        for one in relations
    }
