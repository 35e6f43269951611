"""Stores and reads sizes.json next to a server's data: the sizes of the tables, and their trees.

innodb/table_sizes.py and postgres/relation_sizes.py ask the servers and count the trees in the closed files.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bufferlab.engines.servers.user import write_for
from bufferlab.errors import DataFileError

_FILE = "sizes.json"
_FORMAT = "bufferlab-server-sizes"


@dataclass(frozen=True)
class Sizes:
    """What a server tells of loaded tables, and the way to count their trees in its closed files."""

    allocated_bytes: int
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The server's answer, which sizes.json keeps."""
    count: Callable[[Path], dict[str, Any]] | None = None
    """Returns the trees in a closed data directory; None: its files are not ours to read."""

    def store(self, database: Path) -> None:
        """Count the trees in the closed files and write sizes.json. Before: the server has stopped cleanly."""
        shape = self.count and self.count(database / "data")
        head = {"format": _FORMAT, "format_version": 1, "allocated_bytes": self.allocated_bytes, "shape": shape}
        # The folder is the server's user's, who may have put a link there.
        write_for(database / _FILE, json.dumps({**head, **self.asked}, indent=1) + "\n", None)


def store_where_known(sizes: Sizes, database: Path) -> None:
    """Write sizes.json of a user's own tables, without the trees where their files cannot be counted.

    Compressed and encrypted tables have other pages, and some names are spelt otherwise in the file system.
    """
    try:
        sizes.store(database)
    except (OSError, ValueError, LookupError, struct.error):
        replace(sizes, count=None).store(database)


def tree_shape(
    name: str,
    table: str,
    levels: Sequence[int],
    *,
    rows: int,
    leaf_pages: int,
    overflow_pages: int,
    payload_bytes: int,
    unused_bytes: int,
) -> dict[str, Any]:
    """Return one tree as run.json's `database.shape` has it. `levels` are its pages by level, the root first."""
    return {
        "name": name,
        "table": table,
        "kind": "table" if name == table else "index",
        "rows": rows,
        "leaf_pages": leaf_pages,
        "interior_pages": sum(levels) - leaf_pages,
        "overflow_pages": overflow_pages,
        "height": len(levels),
        "level_pages": list(levels),
        "payload_bytes": payload_bytes,
        "unused_bytes": unused_bytes,
    }


def read(database: Path) -> dict[str, Any]:
    """Return the content of sizes.json; raise DataFileError when there is none."""
    path = database / _FILE
    try:
        document: dict[str, Any] = json.loads(path.read_text())
        if document["format"] != _FORMAT:
            raise ValueError("it is of another program")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataFileError(
            f"this is not a data directory that bufferlab loaded: {error}", str(path), "delete it; it is loaded again"
        ) from error
    return document
