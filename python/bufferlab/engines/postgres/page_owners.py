"""Tells which relation each page of a trace belongs to, by the numbers of the relations' files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bufferlab.engines.servers import stored_sizes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FORKS = ("", " (fsm)", " (vm)", " (init)")
"""Of common/relpath.c: the main fork, the free space map, the visibility map, the initial fork."""
_FIRST_OF_USERS = 16384
"""FirstNormalObjectId of access/transam.h: the system's own relations have smaller numbers."""


def owners(
    database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]
) -> list[tuple[str, NDArray[np.uint64]]]:
    """Return the relations of a closed cluster that a trace touched, with their pages; the system's go together.

    A page is its relation's place in `relations` (tablespace, database, relation, fork) times 2^32 plus its number.
    """
    import numpy as np  # Of a worker's start it would be a third, and few workers need it.

    names = _names(stored_sizes.read(database)["relations"])
    number_of = touched >> np.uint64(32)
    found: dict[str, list[NDArray[np.uint64]]] = {}
    for place, (_, _, number, fork) in enumerate(relations):
        if number < _FIRST_OF_USERS:
            name = "(catalog)"
        else:
            name = names.get(number, "(other)") + (_FORKS[fork] if fork < len(_FORKS) else "")
        found.setdefault(name, []).append(touched[number_of == place])
    ordered = sorted(found, key=lambda name: (name.startswith("("), name))
    return [(name, np.concatenate(found[name])) for name in ordered]


def elsewhere(database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
    """Return the places of those relations that do not belong to the workload's database."""
    files = [str(one["file"]) for one in stored_sizes.read(database)["relations"]]
    # base/DATABASE/FILE, of the default tablespace.
    ours = {int(Path(file).parent.name) for file in files}
    return [place for place, (_, number, _, _) in enumerate(relations) if number not in ours]


def _names(relations: Sequence[Mapping[str, object]]) -> dict[int, str]:
    """Return names by the number of the file: a table's own, an index's after its table's."""
    tables = {one["oid"]: one["name"] for one in relations}
    return {
        int(Path(str(one["file"])).name): f"{tables[one['table_oid']]}.{one['name']}"
        if one["table_oid"] in tables
        else str(one["name"])
        for one in relations
    }
