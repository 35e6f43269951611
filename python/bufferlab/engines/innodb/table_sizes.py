"""Measures loaded tables and their trees: it queries the server, then counts pages in the server's closed files.

The server names the indexes and their allocated pages. The pages of each level are counted in the .ibd files of the
closed database (fil0fil.h, page0page.h, fsp0fsp.h: page type at byte 24, tablespace at 34, level at 64, index id at 66;
extents' bitmaps say which pages are free). sizes.json in the data's folder stores the result. The same headers show
which index each page of a trace belongs to.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bufferlab.engines.behaviour import OwnedPages
from bufferlab.engines.innodb import control
from bufferlab.engines.servers import data_folder
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import Sizes, StoredTree

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


INDEX_PAGE = 17855
"""The page type of index pages (FIL_PAGE_INDEX)."""
_BLOB_PAGES = (10, 11, 12)
_HEADER = struct.Struct(">H")
_PAGE = struct.Struct(">HHH2xH6xH8xHQ")
"""The fields of an index page's header from byte 38.

They are directory slots, heap top, records in heap, garbage, records, level and index id.
"""
_FIRST_RECORD_BYTE = 120
_TRAILER_BYTES, _SLOT_BYTES = 8, 2
_EXTENTS_AT, _EXTENT_HEADER_BYTES = 150, 24


def sizes(connection: Client, build: Build, schema: str, *, trees: bool) -> Sizes:
    """Return the bytes of all tables together, from statistics that are refreshed first.

    With `trees`, also return those of each table, with its indexes.
    """
    for (table,) in connection.rows(f"SHOW TABLES FROM {control.quoted(schema)}"):
        connection.rows(f"ANALYZE TABLE {control.quoted(schema)}.{control.quoted(table)}")
    if build.flavour == "mysql" and build.numbers >= (8,):
        connection.rows("SET SESSION information_schema_stats_expiry = 0")
    told = connection.rows(
        "SELECT table_name, data_length, index_length FROM information_schema.tables WHERE table_schema = %s",
        (schema,),
    )
    allocated_bytes = sum(int(data or 0) + int(index or 0) for _, data, index in told)
    indexes = _indexes(connection, build, schema) if trees else []
    if not indexes:  # InnoDB knows no indexes of tables in other storage engines.
        return Sizes(allocated_bytes)
    page_bytes = int(control.variables(connection)["innodb_page_size"])
    tables = [{"name": str(name), "data_bytes": int(data or 0), "index_bytes": int(index or 0)}
              for name, data, index in sorted(told)]  # fmt: skip
    asked = {"tables": tables, "indexes": indexes, "page_size_bytes": page_bytes}
    return Sizes(allocated_bytes, asked, lambda data: count(data / schema, indexes, page_bytes))


def _indexes(connection: Client, build: Build, schema: str) -> list[dict[str, Any]]:
    # MySQL 8.0 renamed INNODB_SYS_INDEXES and INNODB_SYS_TABLES; MariaDB kept the names.
    sys = "" if build.flavour == "mysql" and build.numbers >= (8,) else "SYS_"
    indexes = connection.rows(
        f"SELECT t.name, i.name, i.index_id, i.type FROM information_schema.INNODB_{sys}INDEXES AS i "
        f"JOIN information_schema.INNODB_{sys}TABLES AS t ON t.table_id = i.table_id WHERE t.name LIKE %s",
        (f"{schema}/%",),
    )
    return [{"table": str(table).split("/", 1)[1], "name": str(name), "index_id": int(number),
             "clustered": bool(int(kind) & 1)} for table, name, number, kind in sorted(indexes)]  # fmt: skip


def count(folder: Path, indexes: list[dict[str, Any]], page_bytes: int) -> dict[str, Any]:
    """Return the trees of all tables in a folder of .ibd files, as run.json's `database.shape` has them."""
    pages = free_pages = 0
    shapes = []
    for table in sorted({index["table"] for index in indexes}):
        file = folder / f"{table}.ibd"
        trees, blobs, all_pages, free = _count_file(file, page_bytes)
        pages, free_pages = pages + all_pages, free_pages + free
        # The list begins with the clustered index; the others follow in the order of their creation.
        own = [index for index in indexes if index["table"] == table]
        for index in sorted(own, key=lambda index: (not index["clustered"], index["index_id"])):
            tree = trees.get(index["index_id"])
            if tree is None:
                continue
            name, overflow_pages = (table, blobs) if index["clustered"] else (index["name"], 0)
            shapes.append(tree.shape(name, table, tree.level_pages, overflow_pages))
    return {"page_size_bytes": page_bytes, "pages": pages, "free_pages": free_pages, "trees": shapes}


def _count_file(file: Path, page_bytes: int) -> tuple[dict[int, StoredTree], int, int, int]:
    """Return (trees by index id, overflow pages, pages, free pages) of one tablespace.

    Raises ValueError if its pages are compressed.
    """
    trees: dict[int, StoredTree] = defaultdict(StoredTree)
    blobs = free = number = 0
    descriptors = b""
    with file.open("rb") as opened:
        while len(page := opened.read(page_bytes)) == page_bytes:
            if number % page_bytes == 0:
                descriptors = page
            if number == 0 and compressed_page_bytes(page):
                raise ValueError("its pages are compressed")
            if _is_free(descriptors, number % page_bytes, page_bytes):
                free += 1
            else:
                (kind,) = _HEADER.unpack_from(page, 24)
                if kind == INDEX_PAGE:
                    _add(trees, page, page_bytes)
                elif kind in _BLOB_PAGES:
                    blobs += 1
            number += 1
    return trees, blobs, number, free


def compressed_page_bytes(first: bytes) -> int | None:
    """Return the page size of ROW_FORMAT=COMPRESSED, from the first bytes of its tablespace; None for other formats.

    FSP_SPACE_FLAGS (fsp0types.h) holds the ZIP_SSIZE, or marks MariaDB's full_crc32, whose tables have no such pages.
    """
    flags = int.from_bytes(first[54:58], "big")
    return 512 << (flags >> 1 & 0xF) if flags & 0x1E and not flags & 0x10 else None


def _add(trees: dict[int, StoredTree], page: bytes, page_bytes: int) -> None:
    slots, heap_top, _, garbage, records, level, index_id = _PAGE.unpack_from(page, 38)
    tree = trees[index_id]
    tree.levels[level] += 1
    payload = heap_top - _FIRST_RECORD_BYTE - garbage
    tree.payload_bytes += payload
    tree.unused_bytes += page_bytes - _TRAILER_BYTES - slots * _SLOT_BYTES - heap_top + garbage
    if level == 0:
        tree.rows += records


def _is_free(descriptors: bytes, place: int, page_bytes: int) -> bool:
    """Return whether a page is free, by the bitmap of its extent (XDES_FREE_BIT).

    `place` is the page's number, counted from the page that holds the descriptors.
    """
    # An extent has 1 MiB, but at least 64 pages.
    extent_pages = max(64, (1 << 20) // page_bytes)
    entry = _EXTENTS_AT + place // extent_pages * (_EXTENT_HEADER_BYTES + extent_pages // 4)
    bit = place % extent_pages * 2
    return bool(descriptors[entry + _EXTENT_HEADER_BYTES + bit // 8] >> bit % 8 & 1)


_HEAD_BYTES = 74
_UNDO_PAGE = 2
_DEFAULT_PAGE_BYTES = 16384
_UNDO, _SYSTEM, _BESIDE, _TEMPORARY = "(undo)", "(system)", "(space management)", "(temporary)"


def owners(database: Path, touched: NDArray[np.uint64], relations: Sequence[Sequence[int]] = ()) -> list[OwnedPages]:
    """Return the indexes, undo logs and system pages of a closed database that a trace touched, with their pages.

    A page's number in a trace is its tablespace's number times 2^32, plus its own. The pages of a clustered index get
    the table's name.
    """
    import numpy as np  # Import late: it would take a third of a worker's start time, and few workers need it.

    sizes = data_folder.read_sizes(database)
    names = {
        one["index_id"]: one["table"] if one["clustered"] else f"{one['table']}.{one['name']}"
        for one in sizes["indexes"]
    }
    # If the files of a user's tables could not be counted, the shape is missing.
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
    # The remaining pages belong to temporary tables, whose file disappears with the server.
    found[_TEMPORARY] = [np.setdiff1d(touched, known)]
    ordered = sorted(found, key=lambda name: (name.startswith("("), name))
    above = np.concatenate(interior)
    all_pages = {name: np.concatenate(found[name]) for name in ordered}
    return [OwnedPages(name, pages, np.intersect1d(pages, above)) for name, pages in all_pages.items()]


def _tablespaces(data: Path) -> Iterator[tuple[int, Path, int | None]]:
    """Yield number and file of each tablespace, and its page size in bytes if pages are compressed.

    The system tablespace may have several files; only the first is read.
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
    """Return type, level and index id of these pages; zeroes for pages that are not in the file."""
    import numpy as np

    whole = file.stat().st_size // page_bytes
    pages = np.memmap(file, np.uint8, "r", shape=(whole, page_bytes))
    heads = np.zeros((len(numbers), _HEAD_BYTES), np.uint8)
    there = numbers < whole
    heads[there] = pages[numbers[there], :_HEAD_BYTES]
    types, levels = (heads[:, at : at + 2].copy().view(">u2").ravel() for at in (24, 64))
    return types, levels, heads[:, 66:74].copy().view(">u8").ravel()
