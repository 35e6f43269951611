"""The part of a family for runs on a server that bufferlab did not start, in one schema that it owns and marks.

It holds no connection and no state. hosts/running.py does the runs, hosts/preflight.py looks beforehand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from bufferlab.engines.behaviour import NativeKnobs
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.client import Client, ServerError
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.existing.mark import SchemaMark


class Difference(NamedTuple):
    """A setting that a running server has at another value than the one asked for; values are texts."""

    variable: str
    """The server's word for the setting."""
    asked: str
    has: str | None
    """The server's value, in the form in which it can be asked for; None: it has no such variable."""


@dataclass(frozen=True)
class Survey:
    """The facts of a server that one look before runs found, with the account of a URL."""

    version: str
    """The version in the server's words."""
    tls: str | None
    """The version of TLS and the cipher of our connection; None: the connection is not encrypted."""
    variables: Mapping[str, str]
    """Every variable with the server's value in words."""
    page_bytes: int
    pool_bytes: int
    schema_bytes: int | None
    """The bytes of the URL's schema; None: the schema does not exist."""
    missing: Mapping[str, str]
    """The rights that a run needs and the account lacks, each with the statement that grants it."""
    read_only: str = ""
    """The reason why this account, or every account, may not write; "": this account may."""
    unguarded: str = ""
    """Why every client of the server may do everything; "": the server asks for a password and for rights."""
    roles: tuple[str, ...] = ()
    """Sentences on the server's place among others: replica, primary, cluster."""
    proxy: str = ""
    """The proxy or pooler between us and the server; "" if none was recognised."""
    managed: str = ""
    """The service that runs the server for its owner; "" if none was recognised."""
    nulls: tuple[str, ...] = ()
    """Sentences on figures that a run on this server will not have, each with the reason."""
    data_folder: str | None = None
    """The server's data directory, as its host names it; None: the account may not see it."""
    is_here: bool | None = None
    """Whether the server is on this host; None: its address is this host's, but may lead to a tunnel or a container."""


class FamilyRun(ABC):
    """The way to run in one schema of a server that runs already."""

    needs: str
    """The hint that names the privileges which an account needs, with a place for {schema}."""
    clients_query: str
    """The query for the number of clients connected now, ours included: the last value of its only row."""
    version_query = "SELECT VERSION()"
    read_only: tuple[str, ...] = ()
    """The codes of the errors with which the server refuses writes by every account."""
    made_with: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """By the name of a knob fixed when a server is made: the variable that shows it, and words for a message."""
    core_words: ClassVar[Mapping[str, Any]] = {}
    """Further entries of the core's job: they name the steps that the core must not do on such a server."""

    @abstractmethod
    def survey(self, address: Address) -> Survey:
        """Return the facts of the server and of the account. Changes nothing, and runs no code of others."""

    @abstractmethod
    def variables(self, connection: Client) -> Mapping[str, str]:
        """Return every variable of the server by its name, with the value in words."""

    @abstractmethod
    def differing(self, connection: Client, found: Build, asked: NativeKnobs) -> dict[str, Difference]:
        """Return the settings whose values on the server differ from those asked for, by their names."""

    @abstractmethod
    def require_safe(self, address: Address) -> None:
        """Raise EngineFailure when others may put code into the schema that would run with rights of our account.

        That is so if the account has more rights than the schema needs, and others may make functions or triggers
        there, or if the account may not see who may. Before: the schema exists. Runs no code of the schema.
        """

    @abstractmethod
    def lock(self, connection: Client, schema: str, seconds: float) -> bool:
        """Take the schema's lock until the connection ends; return False if another holds it for all the `seconds`.

        The server must release it when the connection ends, for any reason.
        """

    @abstractmethod
    def objects(self, connection: Client, schema: str) -> list[str]:
        """Describe all that the schema holds except the mark: tables with their columns, indexes, code, keys."""

    @abstractmethod
    def require_ours(self, connection: Client, address: Address) -> Any:
        """Raise EngineFailure when the schema holds something that bufferlab did not make. Changes nothing.

        Before: the schema exists.
        """

    @abstractmethod
    def claim(self, connection: Client, address: Address) -> None:
        """Make the schema ours and empty: create it if it is missing, and drop the tables of an earlier load.

        Raises EngineFailure, before it drops anything, when the schema holds something that bufferlab did not make.
        After: `mark` can be called.
        """

    @abstractmethod
    def mark(self, connection: Client, schema: str, mark: SchemaMark) -> None:
        """Replace the schema's mark: which data it holds, their state, and the tables made for them.

        Before: `claim` was called for these data, now or by an earlier run.
        """

    @abstractmethod
    def marked(self, connection: Client, schema: str) -> SchemaMark | None:
        """Return the schema's mark; None when the schema is missing, or has no readable mark."""

    # Only some families override the following methods.

    def make_sure_of(self, address: Address) -> None:  # noqa: B027 - most connections enter no schema.
        """Create the schema if it is missing and connections need one. Must not touch its contents."""

    def busy(self, connection: Client, seconds: float) -> int | None:
        """Return how many other clients sent a statement in the last `seconds` - 1: the server rounds to seconds.

        None if the account may not see others' work.
        """
        return None

    def flavour_of(self, told: str) -> Flavour | None:
        """Return the flavour of a server, by its answer to `version_query`; None: the family has only one."""
        return None

    # All families share the following methods.

    def clients(self, connection: Client) -> int:
        """Return how many clients are connected to the server now, bufferlab's connections included."""
        return int((connection.rows(self.clients_query) or [(0,)])[0][-1])

    def is_read_only(self, error: BaseException) -> bool:
        """Return whether the server refused a statement because no account may write there."""
        return isinstance(error, ServerError) and error.code in self.read_only
