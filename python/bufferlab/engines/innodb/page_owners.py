"""Tells which index each page of a trace belongs to, by the pages' headers in the closed tablespaces.

fil0fil.h: a page's type is at byte 24, its tablespace at 34; page0page.h: its level is at 64, the index's number at 66.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bufferlab.engines.behaviour import OwnedPages
from bufferlab.engines.innodb.table_sizes import INDEX_PAGE, compressed_page_bytes
from bufferlab.engines.servers import stored_sizes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEAD_BYTES = 74
_UNDO_PAGE = 2
_DEFAULT_PAGE_BYTES = 16384
_UNDO, _SYSTEM, _BESIDE, _TEMPORARY = "(undo)", "(system)", "(space management)", "(temporary)"


def owners(database: Path, touched: NDArray[np.uint64]) -> list[OwnedPages]:
    """Return the indexes, undo logs and system pages of a closed database that a trace touched, with their pages.

    A page is its tablespace times 2^32 plus its number. A table has the name of its clustered index's pages.
    """
    import numpy as np  # Of a worker's start it would be a third, and few workers need it.

    sizes = stored_sizes.read(database)
    names = {
        one["index_id"]: one["table"] if one["clustered"] else f"{one['table']}.{one['name']}"
        for one in sizes["indexes"]
    }
    # Of a user's tables whose files could not be counted there is no shape.
    page_bytes = (sizes["shape"] or sizes).get("page_size_bytes", _DEFAULT_PAGE_BYTES)
    found: dict[str, list[NDArray[np.uint64]]] = {}
    interior = [touched[:0]]
    for space, file, own_bytes in _tablespaces(database / "data"):
        own = touched[touched >> np.uint64(32) == space]
        if not len(own):
            continue
        types, levels, indexes = _headers(file, own & np.uint64(0xFFFFFFFF), own_bytes or page_bytes)
        beside = _BESIDE if file.suffix == ".ibd" else _SYSTEM
        for number in np.unique(indexes[types == INDEX_PAGE]):
            pages = own[(types == INDEX_PAGE) & (indexes == number)]
            found.setdefault(names.get(int(number), _SYSTEM), []).append(pages)
        interior.append(own[(types == INDEX_PAGE) & (levels > 0)])
        found.setdefault(_UNDO, []).append(own[types == _UNDO_PAGE])
        found.setdefault(beside, []).append(own[(types != INDEX_PAGE) & (types != _UNDO_PAGE)])
    known = np.concatenate([pages for all_pages in found.values() for pages in all_pages] or [touched[:0]])
    # The file of temporary tables goes with its server.
    found[_TEMPORARY] = [np.setdiff1d(touched, known)]
    ordered = sorted(found, key=lambda name: (name.startswith("("), name))
    above = np.concatenate(interior)
    all_pages = {name: np.concatenate(found[name]) for name in ordered}
    return [OwnedPages(name, pages, np.intersect1d(pages, above)) for name, pages in all_pages.items()]


def _tablespaces(data: Path) -> Iterator[tuple[int, Path, int | None]]:
    """Yield the number and the file of each tablespace, and the bytes of its pages where they are compressed.

    The system's has several files; we look into its first.
    """
    for pattern in ("ibdata1", "undo*", "*.ibd", "*/*.ibd"):
        for file in sorted(data.glob(pattern)):
            with file.open("rb") as opened:
                head = opened.read(_HEAD_BYTES)
            if len(head) == _HEAD_BYTES:
                yield int.from_bytes(head[34:38], "big"), file, compressed_page_bytes(head)


def _headers(
    file: Path, numbers: NDArray[np.uint64], page_bytes: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint16], NDArray[np.uint64]]:
    """Return type, level and index of these pages; of those that the file does not have, zeroes."""
    import numpy as np

    whole = file.stat().st_size // page_bytes
    pages = np.memmap(file, np.uint8, "r", shape=(whole, page_bytes))
    heads = np.zeros((len(numbers), _HEAD_BYTES), np.uint8)
    there = numbers < whole
    heads[there] = pages[numbers[there], :_HEAD_BYTES]
    types, levels = (heads[:, at : at + 2].copy().view(">u2").ravel() for at in (24, 64))
    return types, levels, heads[:, 66:74].copy().view(">u8").ravel()
