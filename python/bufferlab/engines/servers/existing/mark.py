"""The mark of a schema that bufferlab has claimed: which data it holds, and which tables bufferlab created there.

bufferlab drops only tables in the mark's list of names. A load writes the list before it creates the first table, from
its CREATE statements, so that the list also covers the tables of a killed load. Another account that may write in the
schema may also write the list, so each family also queries the server for the owners of these tables.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.existing.address import Address, Form

_NOT_SQL = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'", re.DOTALL)
_CREATE = re.compile(
    r"(?:\A|;)\s*CREATE\b(?P<how>[^;(]*?)\b(?:TABLE|VIEW|SEQUENCE)\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"(?P<name>(?:[\w$]+|`[^`]+`|\"[^\"]+\")(?:\s*\.\s*(?:[\w$]+|`[^`]+`|\"[^\"]+\"))?)",
    re.IGNORECASE,
)
_SHOWN = 3


@dataclass(frozen=True)
class SchemaMark:
    """The mark of one schema: which data it holds, their state, and what bufferlab created there."""

    data_id: str
    state: str
    """The state of the data: clean, loading or written (see hosts/running.py)."""
    made: tuple[str, ...]
    """The tables, views and sequences of bufferlab's load, as its statements name them."""
    objects: tuple[str, ...] = ()
    """Everything that the schema contains after a complete load, in words; () if no load was completed."""


def made_by(schema_sql: str) -> tuple[str, ...]:
    """Return the names of the tables, views and sequences that statements create, as written there.

    Temporary tables are left out, because they end with their session. Only CREATE statements are recognised.

    >>> made_by("CREATE TABLE a (id INT); CREATE TEMPORARY TABLE b (id INT); CREATE OR REPLACE VIEW `v` AS SELECT 1")
    ('a', '`v`')
    >>> made_by("-- CREATE TABLE no\\nCREATE INDEX i ON a (k); CREATE TABLE IF NOT EXISTS lab.c (t TEXT DEFAULT ';')")
    ('lab.c',)
    """
    # Replace each string by an empty one, not by a blank, so that the words around it keep their meaning.
    plain = _NOT_SQL.sub(lambda found: "''" if found[0].startswith("'") else " ", schema_sql)
    return tuple(found["name"] for found in _CREATE.finditer(plain) if "TEMP" not in found["how"].upper())


def parts_of(name: str, *, folds: bool) -> tuple[str, ...]:
    """Return (name,) or (schema, name) of a name as SQL writes it; `folds` turns unquoted parts into lower case.

    >>> parts_of('lab."Big"', folds=True), parts_of("`a`", folds=False)
    (('lab', 'Big'), ('a',))
    """
    found = re.findall(r"`([^`]+)`|\"([^\"]+)\"|([\w$]+)", name)
    return tuple(quoted or double or (plain.lower() if folds else plain) for quoted, double, plain in found)


def require_as_loaded(there: Collection[str], mark: SchemaMark | None, address: Address, form: Form) -> bool:
    """Return whether everything that the load created is in the schema; raise EngineFailure for anything that it did
    not create.

    After an incomplete load, only stored code is refused (`CODE`), because it would run in bufferlab's sessions.
    """
    known = mark.objects if mark else ()
    strange = [said for said in there if (said not in known if known else said.startswith(CODE))]
    require_none(strange, address, form, "objects")
    return set(there) >= set(known)


CODE = ("function ", "procedure ", "trigger ", "rule ", "policy ", "event ", "operator ", "aggregate ")
"""The first words of objects that contain code, or rules for other statements."""


def require_none(theirs: Collection[str], address: Address, form: Form, kind: str = "tables") -> None:
    """Raise EngineFailure if `theirs` names anything: bufferlab did not create it, so the caller must touch nothing."""
    if theirs:
        names = sorted(theirs)
        more = f" and {len(names) - _SHOWN} others" if len(names) > _SHOWN else ""
        raise EngineFailure(
            "usage",
            f"the {form.schema} {address.schema} has {kind} that bufferlab did not make "
            f"({', '.join(names[:_SHOWN])}{more})",
            address.place,
            f"move or drop them, or name a new or empty {form.schema} in the URL",
        )
