"""The part of a family for runs on a server that bufferlab did not start, in one schema that it owns and marks.

The part holds no connection and no state. hosts/running.py does the runs, and hosts/preflight.py checks the server
before them.

The mark of a claimed schema says which data it holds, and which tables bufferlab created there. bufferlab drops only
tables in the mark's list of names. A load writes the list, from its CREATE statements, before it creates the first
table. So the list also covers the tables of a killed load. Another account that may write in the schema may also write
the list. So each family also queries the server for the owners of these tables.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from bufferlab.engines.behaviour import EngineFailure, NativeKnobs
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.client import Client, ServerError
from bufferlab.engines.servers.existing.address import Address, Form


class Difference(NamedTuple):
    """A setting whose value on a running server differs from the requested one; values are texts."""

    variable: str
    """The server's name for the setting."""
    asked: str
    has: str | None
    """The server's value, in the form in which users write it; None if the server has no such variable."""


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


@dataclass(frozen=True)
class Survey:
    """The facts about a server that bufferlab reads before runs, through the account in the URL."""

    version: str
    """The version as the server reports it."""
    tls: str | None
    """The TLS version and cipher of bufferlab's connection; None if it is not encrypted."""
    variables: Mapping[str, str]
    """The text value of every server variable, by name."""
    page_bytes: int
    pool_bytes: int
    schema_bytes: int | None
    """The bytes of the URL's schema; None if it does not exist."""
    missing: Mapping[str, str]
    """The privileges that a run needs and the account lacks, each with the statement that grants it."""
    read_only: str = ""
    """The reason why this account, or every account, may not write; "" if this account may."""
    unguarded: str = ""
    """The reason why every client of the server may do everything; "" if the server checks passwords and privileges."""
    roles: tuple[str, ...] = ()
    """Sentences on the server's replication role: replica, primary, member of a cluster."""
    proxy: str = ""
    """The proxy or pooler between bufferlab and the server; "" if none was recognised."""
    managed: str = ""
    """The cloud service that runs the server, such as Amazon RDS; "" if none was recognised."""
    nulls: tuple[str, ...] = ()
    """Sentences on metrics that a run on this server will not have, each with the reason."""
    data_folder: str | None = None
    """The server's data directory, as its host names it; None if the account may not see it."""
    is_here: bool | None = None
    """Whether the server is on this host; None if unknown: a local address may be a tunnel's or a container's."""


class FamilyRun(ABC):
    """The way to run in one schema of an already running server."""

    needs: str
    """The hint that names the privileges which an account needs, with the placeholder {schema}."""
    clients_query: str
    """The query for the number of connected clients, bufferlab's included: the last value of its only row."""
    version_query = "SELECT VERSION()"
    read_only: tuple[str, ...] = ()
    """The codes of the errors by which the server refuses writes of every account."""
    made_with: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """For each knob that is fixed when a server is initialised, the variable that shows it, and words for a message."""
    core_words: ClassVar[Mapping[str, Any]] = {}
    """Additional entries of the core's job, which forbid the core some steps on such a server."""

    @abstractmethod
    def survey(self, address: Address) -> Survey:
        """Return the facts of the server and of the account. Changes nothing, and runs no code of other accounts."""

    @abstractmethod
    def variables(self, connection: Client) -> Mapping[str, str]:
        """Return the text value of every server variable, by name."""

    @abstractmethod
    def differing(self, connection: Client, found: Build, asked: NativeKnobs) -> dict[str, Difference]:
        """Return the settings whose values on the server differ from the requested ones, by name."""

    @abstractmethod
    def require_safe(self, address: Address) -> None:
        """Raise EngineFailure if other accounts may put code into the schema that would run with the account's
        privileges.

        The check fails if bufferlab's account has more privileges than the schema needs, and either other accounts may
        create functions or triggers there, or the account cannot see which accounts may. The schema must exist. Runs no
        code of the schema.
        """

    @abstractmethod
    def lock(self, connection: Client, schema: str, seconds: float) -> bool:
        """Take the schema's lock until the connection ends; return False if another holds it for all the `seconds`.

        The server must release it when the connection ends, for any reason.
        """

    @abstractmethod
    def objects(self, connection: Client, schema: str) -> list[str]:
        """Describe everything in the schema except the mark: tables with their columns, indexes, code, keys."""

    @abstractmethod
    def require_ours(self, connection: Client, address: Address) -> Any:
        """Raise EngineFailure if the schema contains something that bufferlab did not create. Changes nothing.

        The schema must exist.
        """

    @abstractmethod
    def claim(self, connection: Client, address: Address) -> None:
        """Claim and empty the schema for bufferlab: create it if it is missing, and drop the tables of an earlier load.

        Before it drops anything, raises EngineFailure if the schema contains something that bufferlab did not create.
        Afterwards `mark` can be called.
        """

    @abstractmethod
    def mark(self, connection: Client, schema: str, mark: SchemaMark) -> None:
        """Replace the schema's mark: which data it holds, their state, and the tables created for them.

        `claim` must have been called for these data, now or by an earlier run.
        """

    @abstractmethod
    def marked(self, connection: Client, schema: str) -> SchemaMark | None:
        """Return the schema's mark; None if the schema does not exist, or has no readable mark."""

    # Only some families override the following methods.

    def make_sure_of(self, address: Address) -> None:  # noqa: B027 - most connections enter no schema.
        """Create the schema if it is missing and the family's connections need one.

        Must not touch an existing schema's contents.
        """

    def busy(self, connection: Client, seconds: float) -> int | None:
        """Return how many other clients sent a statement in the last `seconds` - 1 seconds: the server rounds to whole
        seconds.

        Return None if the account may not see the work of others.
        """
        return None

    def flavour_of(self, told: str) -> Flavour | None:
        """Return the flavour of a server, by its answer to `version_query`; None if the family has only one flavour."""
        return None

    # All families share the following methods.

    def clients(self, connection: Client) -> int:
        """Return how many clients are connected to the server now, bufferlab's connections included."""
        return int((connection.rows(self.clients_query) or [(0,)])[0][-1])

    def is_read_only(self, error: BaseException) -> bool:
        """Return whether the server refused a statement because the server is read-only for every account."""
        return isinstance(error, ServerError) and error.code in self.read_only
