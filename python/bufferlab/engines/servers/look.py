"""The interface for observing one family of servers: how to connect, the server's facts, counters, pool, refusals.

An implementation holds no connection. It gets `query`, which runs one statement and returns rows as dictionaries with
keys in lower case. `query` raises `Refused` for one statement that the server refuses, and `Lost` if the connection is
gone.

A query may fail because the account lacks a privilege, because the server lacks a table, or because it took too long.
In these cases the result is a reason (`NotTold`), with a command line or statement that would make the query possible.
Every other error passes through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.client import Client, ServerError
from bufferlab.engines.servers.existing.address import Address
from bufferlab.versions import SERVERS

NAME = "bufferlab-observe"
"""The name that bufferlab's sessions have on the server (program_name, application_name)."""
STATEMENT_SECONDS = 5
LOCK_SECONDS = 2

Row = Mapping[str, object]
Query = Callable[[str], list[dict[str, Any]]]
"""A function that sends one statement without parameters, in autocommit, and returns its rows by column name."""

MISFITS = (LookupError, TypeError, ValueError, ArithmeticError)
"""The exceptions for an answer that does not fit its query: a missing row or column, or a wrong number."""
NOT_UNDERSTOOD = "the server's answer does not fit the question"
NOT_A_SERVER = "is this a database server, or a program that stands before one? Name the server itself"

Refusal = Literal["rights", "missing", "slow"]

_REFUSALS: Mapping[str, Refusal] = {
    # MySQL and MariaDB: ER_DBACCESS_DENIED_ERROR, ER_TABLEACCESS_DENIED_ERROR, ER_COLUMNACCESS_DENIED_ERROR,
    # ER_SPECIFIC_ACCESS_DENIED_ERROR.
    "1044": "rights", "1142": "rights", "1143": "rights", "1227": "rights",
    # ER_BAD_DB_ERROR, ER_BAD_FIELD_ERROR, ER_UNKNOWN_TABLE, ER_NO_SUCH_TABLE, ER_UNKNOWN_SYSTEM_VARIABLE.
    "1049": "missing", "1054": "missing", "1109": "missing", "1146": "missing", "1193": "missing",
    # ER_LOCK_WAIT_TIMEOUT, ER_QUERY_INTERRUPTED, ER_STATEMENT_TIMEOUT of MariaDB, ER_QUERY_TIMEOUT of MySQL.
    "1205": "slow", "1317": "slow", "1969": "slow", "3024": "slow",
    # PostgreSQL: insufficient_privilege; undefined_table, _function, _column, invalid_schema_name,
    # object_not_in_prerequisite_state (a library that is not loaded); query_canceled, lock_not_available.
    "42501": "rights",
    "42P01": "missing", "42883": "missing", "42703": "missing", "3F000": "missing", "55000": "missing",
    "57014": "slow", "55P03": "slow",
}  # fmt: skip
_WHY: Mapping[Refusal, str] = {
    "rights": "the account may not ask {}",
    "missing": "the server has no view that tells {}",
    "slow": "the server did not tell in time {}",
}


@dataclass(frozen=True)
class NotTold:
    """The reason why a value is unknown, and the command or statement that would change that, if one exists."""

    why: str
    remedy: str | None = None
    refusal: Refusal | None = None
    """The kind of the server's refusal; None if the server was not queried, or answered that it has no value."""


@dataclass(frozen=True)
class Question:
    """A statement that changes nothing, its subject in words, and the remedy against each kind of refusal."""

    sql: str
    subject: str
    remedies: Mapping[Refusal, str] = field(default_factory=dict)


def ask(query: Query, question: Question) -> list[dict[str, object]] | NotTold:
    """Return the rows that answer a query, or why they are missing.

    Errors that are not refusals pass through, such as a lost connection.
    """
    try:
        return query(question.sql)
    except Exception as error:  # An exception of `Look` has the server's error as its cause.
        refusal = refusal_of(error)
        if refusal is None:
            raise
        return NotTold(_WHY[refusal].format(question.subject), question.remedies.get(refusal), refusal)


def refusal_of(error: BaseException) -> Refusal | None:
    """Return the kind of refusal of a ServerError, or of an exception that one caused; None for any other error.

    >>> refusal_of(ServerError("1227", "Access denied")), refusal_of(ServerError("1064", "a mistake"))
    ('rights', None)
    """
    if isinstance(error, ServerError) and error.code in _REFUSALS:
        return _REFUSALS[error.code]
    return refusal_of(error.__cause__) if error.__cause__ else None


def integer(value: object) -> int:
    """Return an integer from a client's value: an int, a Decimal from a sum, or None (0) for an empty sum."""
    return int(value) if value is not None else 0  # type: ignore[call-overload]


def seconds(value: object) -> float:
    """Return a time from a client, in its unit, as a float; 0 for None."""
    return float(value) if value is not None else 0.0  # type: ignore[arg-type]


def text(value: object) -> str | None:
    """Return a text from a client, None for NULL; some servers return names as bytes."""
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class Refused(Exception):
    """The error for one statement that the server refused: for a missing privilege, an unknown name or a time limit.

    The session continues.
    """


class Lost(Exception):
    """The error for a connection that is gone."""


@dataclass(frozen=True)
class Facts:
    """The facts about a server that are read once, when an observation connects."""

    flavour: Flavour
    version: str
    numbers: tuple[int, ...]
    """The parts of the server's version as integers, such as (8, 0, 41) or (17, 2)."""
    identity: str
    """A text that identifies the server: it survives a restart, and is different for another server."""
    page_size_bytes: int
    pool_size_bytes: int
    transactions: str
    """The unit of the count `transactions`: "transaction", or "explicit commit"."""
    no_time: str
    """Why the time of reads is unknown, with the remedy; "" if it is known."""
    uptime_s: float
    """The server's uptime in seconds when it gave these facts."""
    thread: int | None = None
    """The thread or process id of bufferlab's session on the server's host; None if it is unknown."""
    data_directory: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        """The name of the server's flavour as people write it, such as MariaDB."""
        return SERVERS[self.flavour]


@dataclass(frozen=True)
class Sample:
    """One reading of a server's counters."""

    t_s: float
    """The time on the observer's monotonic clock."""
    counters: Mapping[str, int]
    """Counters that only grow between resets."""
    levels: Mapping[str, float]
    own: Mapping[str, int]
    """For each counter, the part that bufferlab's session added since the observation began."""
    started_s: float
    """The server's computed start time. A slow answer may make it earlier; only a restart makes it later."""
    reset_s: float | None = None
    """The time of the last reset of the counters, on a server clock; None without a reset, or if unknown."""
    read_s: Mapping[str, float] = field(default_factory=dict)
    """The read times of counts that were read after `t_s`, by name: on a busy host it may be seconds later."""


@dataclass(frozen=True)
class Unpublished:
    """The sessions whose work the server's counts may lack: a session publishes its counts when its transaction
    ends."""

    sessions: int = 0
    """How many sessions worked in a transaction that began before the observation."""
    hidden: int = 0
    """How many other sessions may have worked in such a transaction: the account cannot see their work."""
    readers: tuple[int, ...] = ()
    """The PIDs, on the server's host, of the processes that read for these sessions; empty if not all are known."""
    read_bytes: int | None = None
    """The bytes that read calls of these processes returned during the observation; None if they cannot be read."""


@dataclass(frozen=True)
class PoolLevels:
    """The state of the pool at one moment: each value by its name, which includes the unit, and the reason for each
    missing value."""

    values: Mapping[str, float]
    why_not: Mapping[str, str]


@dataclass(frozen=True)
class LargeObject:
    """A table, an index or a database that is larger than the pool, with its number of sequentially read rows."""

    rows_read: int
    """An upper bound on the object's rows that were read sequentially since the server's start."""
    pool_rows: float
    """The least number of rows whose pages fill the pool. If fewer rows were read, no scan filled the pool."""
    remedy: str | None = None
    """The command or statement that would make `rows_read` known; None if it is known, or if none would help."""


@dataclass(frozen=True)
class DataSize:
    """The size of the data of all databases, which share the pool, and the objects larger than the pool."""

    size_bytes: int
    larger: Mapping[str, LargeObject]
    """The objects larger than the pool, by name."""


class Look(ABC):
    """The functions for observing one family of servers."""

    @abstractmethod
    def watch(self, address: Address) -> Client:
        """Open a session that is read-only, named and limited in time. Raises EnvironmentLackingError if it cannot."""

    def own_at_start(self, connection: Client) -> int:
        """Return how many statements of this session the server has counted so far, this query included."""
        return 0

    @abstractmethod
    def facts(self, query: Query) -> Facts:
        """Return the server's facts; called once."""

    @abstractmethod
    def sample(self, query: Query, facts: Facts, t_s: float, own: Callable[[], int]) -> Sample:
        """Return the server's present counters and levels; the present is `t_s` on the observer's clock.

        `own` returns how many statements the observation has sent so far.
        """

    def derive(self, grown: Mapping[str, int], facts: Facts) -> dict[str, float]:
        """Return the counts of an interval, by the names of `Counts`, computed from the growth of the counters."""
        return dict(grown)

    def pool(self, query: Query, facts: Facts) -> PoolLevels:
        """Return the pool's present size, contents and dirty pages, as far as the server shows them."""
        return PoolLevels({"pool_size_bytes": facts.pool_size_bytes}, {})

    def own_total(self, query: Query) -> Mapping[str, float]:
        """Return the part of bufferlab's session in quantities from which samples do not subtract it; called once, at
        the end."""
        return {}

    def data(self, query: Query, facts: Facts) -> DataSize | NotTold:
        """Return the size of all databases' data and the objects larger than the pool, or why it is unknown."""
        return NotTold("the server does not tell how large its data are")

    def unpublished(self, query: Query, seconds: float) -> Unpublished:
        """Return which sessions worked in transactions that began before the last `seconds` seconds."""
        return Unpublished()
