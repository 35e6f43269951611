"""Stores and reads sizes.json next to a server's data: the sizes of the tables, and their trees.

innodb/table_sizes.py and postgres/relation_sizes.py ask the servers and count the trees in the closed files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bufferlab.errors import DataFileError

_FILE = "sizes.json"
_FORMAT = "bufferlab-server-sizes"


def store(
    database: Path, allocated_bytes: int, shape: Mapping[str, Any] | None, asked: Mapping[str, Any] | None = None
) -> None:
    """Write the counts into sizes.json: `shape` is None if we cannot read the files, `asked` is the server's answer."""
    head = {"format": _FORMAT, "format_version": 1, "allocated_bytes": allocated_bytes, "shape": shape}
    (database / _FILE).write_text(json.dumps({**head, **(asked or {})}, indent=1) + "\n")


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
