"""Databases with one wrong row, and the result of their consistency check."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any


def corrupt(database: Path, statement: str) -> None:
    """Run a statement that changes exactly one row."""
    with closing(sqlite3.connect(database)) as connection, connection:
        cursor = connection.execute(statement)
        assert cursor.rowcount == 1, f"changed {cursor.rowcount} rows, not one: {statement}"


def failed(result: dict[str, Any]) -> set[int]:
    return {row["condition"] for row in result["conditions"] if not row["passed"]}


def corrupt_behind_the_index(database: Path, index: str, statement: str) -> None:
    """Change exactly one row while the schema lacks an index, so that the index's tree keeps the old value."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        entry = connection.execute("SELECT * FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (index,))
    corrupt(database, statement)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", entry)
