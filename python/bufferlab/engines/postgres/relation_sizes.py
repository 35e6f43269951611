"""Measures loaded tables and their index trees: it queries the server, then counts pages in its closed files.

The server names relations and their files. The pages of each level are counted in the closed cluster (bufpage.h: page
header; nbtree.h: BTPageOpaqueData at the page's end, level at 8, flags at 12). sizes.json in the data's folder stores
the result. The files' numbers say which relation each page of a trace belongs to.

A table of PostgreSQL is a heap, and a row is found by its key through an index. The `level_pages` of a table are those
of its key's index, from the root, and the heap's pages last: the path of a select by key.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bufferlab.engines.behaviour import OwnedPages
from bufferlab.engines.postgres.declaration import PAGE_BYTES
from bufferlab.engines.servers import data_folder
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import Sizes, StoredTree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_SEGMENT_PAGES = 131_072
"""RELSEG_SIZE, in pages: a relation continues in another file after each 1 GiB."""
_HEADER_BYTES, _POINTER_BYTES, _SPECIAL_BYTES = 24, 4, 16
_HEADER = struct.Struct("<HHH")
"""The fields of a page's header from byte 12: end of item pointers, start of items, start of the special space."""
_OPAQUE = struct.Struct("<IIIHH")
_DELETED, _META, _HALF_DEAD = 1 << 2, 1 << 3, 1 << 4

OWN_SCHEMAS = r"SELECT oid FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'"
"""The query for the schemas that are not the system's: the workload's `public`, or all schemas of a restored dump."""
_RELATIONS = f"""
WITH ours AS ({OWN_SCHEMAS})
SELECT c.oid::bigint, c.relname, c.relkind, coalesce(i.indrelid, 0)::bigint, coalesce(i.indisprimary, false),
       coalesce(a.amname, ''), pg_relation_size(c.oid, 'main'), pg_relation_filepath(c.oid), c.reltoastrelid::bigint,
       greatest(c.reltuples, 0)::bigint
FROM pg_class c
LEFT JOIN pg_index i ON i.indexrelid = c.oid
LEFT JOIN pg_am a ON a.oid = c.relam
WHERE c.relkind IN ('r', 'i', 't', 'm')
  AND (c.relnamespace IN (TABLE ours)
       OR c.oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace IN (TABLE ours))
       OR i.indrelid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace IN (TABLE ours)))
ORDER BY c.oid
"""
_COLUMNS = ("oid", "name", "kind", "table_oid", "primary", "method", "bytes", "file", "toast_oid", "rows")


def sizes(connection: Client, build: Build, schema: str, *, trees: bool) -> Sizes:
    """Return the bytes of the workload's tables and indexes; with `trees`, also each relation and its file.

    The statistics must be fresh (ANALYZE).
    """
    relations = [
        dict(zip(_COLUMNS, (_plain(value) for value in row), strict=True)) for row in connection.rows(_RELATIONS)
    ]
    found = sizes_of(relations)
    return found if trees else Sizes(found.allocated_bytes)


def sizes_of(relations: list[dict[str, Any]]) -> Sizes:
    """Return the sum of these relations' bytes, with a function that counts their trees."""
    allocated_bytes = sum(relation["bytes"] for relation in relations)
    return Sizes(allocated_bytes, {"relations": relations}, lambda data: count(data, relations))


def count(data: Path, relations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the trees of all tables of a closed cluster, as run.json's `database.shape` has them."""
    trees = {
        relation["oid"]: _count_index(data / relation["file"], relation["bytes"])
        for relation in relations
        if relation["kind"] == "i" and relation["method"] == "btree"
    }
    bytes_of = {relation["oid"]: relation["bytes"] for relation in relations}
    shapes = []
    for table in sorted((relation for relation in relations if relation["kind"] == "r"), key=lambda row: row["name"]):
        own = [relation for relation in relations if relation["table_oid"] == table["oid"] and relation["oid"] in trees]
        key = next((index for index in own if index["primary"]), None)
        toast_pages = bytes_of.get(table["toast_oid"], 0) // PAGE_BYTES
        shapes.append(_table(table, trees[key["oid"]] if key else None, data, toast_pages))
        shapes += [_index(index, table, trees[index["oid"]]) for index in own if index is not key]
    pages = sum(bytes_of.values()) // PAGE_BYTES
    return {"page_size_bytes": PAGE_BYTES, "pages": pages, "free_pages": 0, "trees": shapes}


def _table(table: Mapping[str, Any], key: StoredTree | None, data: Path, toast_pages: int) -> dict[str, Any]:
    heap_pages = table["bytes"] // PAGE_BYTES
    payload, unused = _count_heap(data / table["file"], table["bytes"])
    key = key or StoredTree()
    heap = StoredTree(rows=table["rows"], payload_bytes=payload, unused_bytes=unused + key.unused_bytes)
    return heap.shape(table["name"], table["name"], [*key.level_pages, heap_pages], toast_pages)


def _index(index: Mapping[str, Any], table: Mapping[str, Any], tree: StoredTree) -> dict[str, Any]:
    # Deduplication merges equal keys into one entry, so there are fewer entries than rows.
    tree.rows = index["rows"] or tree.rows
    return tree.shape(index["name"], table["name"], tree.level_pages)


def _count_index(file: Path, size_bytes: int) -> StoredTree:
    tree = StoredTree()
    for number, page in enumerate(_pages(file, size_bytes)):
        lower, upper, special = _HEADER.unpack_from(page, 12)
        if number == 0 or special != PAGE_BYTES - _SPECIAL_BYTES:
            continue  # This is the meta page, or a page that was never used.
        _, following, level, flags, _ = _OPAQUE.unpack_from(page, special)
        if flags & (_DELETED | _META | _HALF_DEAD):
            continue
        tree.levels[level] += 1
        tree.payload_bytes += special - upper
        tree.unused_bytes += upper - lower
        if level == 0:
            # Every leaf except the right-most begins with its high key, which is not an entry.
            tree.rows += (lower - _HEADER_BYTES) // _POINTER_BYTES - bool(following)
    return tree


def levels(file: Path, blocks: Sequence[int]) -> list[int]:
    """Return the level of each of these pages of a closed B-tree; 0 for a leaf, and for a page that is in no file."""
    found = dict.fromkeys(blocks, 0)
    for segment in {block // _SEGMENT_PAGES for block in blocks}:
        path = _segment(file, segment)
        if not path.exists():
            continue
        with path.open("rb") as opened:
            for block in blocks:
                if block // _SEGMENT_PAGES == segment:
                    at = block % _SEGMENT_PAGES * PAGE_BYTES + PAGE_BYTES - _SPECIAL_BYTES
                    special = os.pread(opened.fileno(), _SPECIAL_BYTES, at)
                    if len(special) == _SPECIAL_BYTES:
                        _, _, found[block], _, _ = _OPAQUE.unpack(special)
    return [found[block] for block in blocks]


def _count_heap(file: Path, size_bytes: int) -> tuple[int, int]:
    """Return (bytes of rows, free bytes) of a table's heap, summed over the pages of its file."""
    payload = unused = 0
    for page in _pages(file, size_bytes):
        lower, upper, special = _HEADER.unpack_from(page, 12)
        payload += special - upper
        unused += upper - lower
    return payload, unused


def _pages(file: Path, size_bytes: int) -> Any:
    """Yield every page of a relation, in all its segments."""
    for segment in range(-(-size_bytes // (_SEGMENT_PAGES * PAGE_BYTES))):
        with _segment(file, segment).open("rb") as opened:
            while len(page := opened.read(PAGE_BYTES)) == PAGE_BYTES:
                yield page


def _segment(file: Path, segment: int) -> Path:
    return file if segment == 0 else file.with_name(f"{file.name}.{segment}")


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str | bool) else str(value)


_FORKS = ("", " (fsm)", " (vm)", " (init)")
"""The forks of common/relpath.c: the main fork, the free space map, the visibility map, the initial fork."""
_FIRST_OF_USERS = 16384
"""FirstNormalObjectId of access/transam.h: the system's own relations have smaller numbers."""


def owners(database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]]) -> list[OwnedPages]:
    """Return the relations of a closed cluster that a trace touched, with their pages; system relations share one name.

    A page's number is its relation's index in `relations` (tablespace, database, relation, fork) times 2^32, plus its
    number in the relation.
    """
    import numpy as np  # Import late: it would take a third of a worker's start time, and few workers need it.

    stored = data_folder.read_sizes(database)["relations"]
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
                above_leaves = np.array(levels(file, (own & np.uint64(0xFFFFFFFF)).tolist()), int) > 0
                interior.append(own[above_leaves])
        found.setdefault(name, []).append(own)
    above = np.concatenate(interior)
    ordered = sorted(found, key=lambda name: (name.startswith("("), name))
    all_pages = {name: np.concatenate(found[name]) for name in ordered}
    return [OwnedPages(name, pages, np.intersect1d(pages, above)) for name, pages in all_pages.items()]


def elsewhere(database: Path, relations: Sequence[Sequence[int]]) -> list[int]:
    """Return the indexes of the `relations` that do not belong to the workload's database."""
    files = [str(one["file"]) for one in data_folder.read_sizes(database)["relations"]]
    # In the default tablespace a file is base/DATABASE/FILE.
    ours = {int(Path(file).parent.name) for file in files}
    return [place for place, (_, number, _, _) in enumerate(relations) if number not in ours]


def _number(relation: Mapping[str, object]) -> int:
    """Return the number of a relation's file (relfilenode), which is the file's name."""
    return int(Path(str(relation["file"])).name)


def _names(relations: Sequence[Mapping[str, object]]) -> dict[int, str]:
    """Return names by the relation's file number: a table's name, or TABLE.INDEX for an index."""
    tables = {one["oid"]: one["name"] for one in relations}
    return {
        _number(one): f"{tables[one['table_oid']]}.{one['name']}" if one["table_oid"] in tables else str(one["name"])
        for one in relations
    }
