"""Questions to a server that we only look at, and its refusals as reasons. This file knows no SQL and no connection.

A question may fail because the account lacks a right, because the server lacks a table, or because it took too long.
All three are answers: they become a reason, with the line that would make the question possible. Every other error
passes through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from bufferlab.engines.servers.client import ServerError

Row = Mapping[str, object]
Query = Callable[[str], list[dict[str, object]]]
"""Sends one statement without parameters, in autocommit, and returns its rows by column name."""

MISFITS = (LookupError, TypeError, ValueError, ArithmeticError)
"""The errors of reading an answer that does not fit its question: a missing row or column, or a wrong number."""
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
    "rights": "the account may not ask",
    "missing": "the server does not have the view that tells it",
    "slow": "the server did not answer in time",
}


@dataclass(frozen=True)
class NotTold:
    """The reason why a figure is not known, and the line that would change that, if one exists."""

    why: str
    remedy: str | None = None
    refusal: Refusal | None = None
    """The kind of the server's refusal; None if it was not asked, or answered that it does not know."""


@dataclass(frozen=True)
class Question:
    """A statement that changes nothing, its subject in words, and the line that helps against each refusal."""

    sql: str
    subject: str
    remedies: Mapping[Refusal, str] = field(default_factory=dict)


def ask(query: Query, question: Question) -> list[dict[str, object]] | NotTold:
    """Return the rows that answer a question, or why they are missing.

    Errors that are not refusals pass through, such as a lost connection.
    """
    try:
        return query(question.sql)
    except Exception as error:  # A look's own error has the server's error as its cause.
        refusal = refusal_of(error)
        if refusal is None:
            raise
        return NotTold(f"{question.subject}: {_WHY[refusal]}", question.remedies.get(refusal), refusal)


def refusal_of(error: BaseException) -> Refusal | None:
    """Return the kind of refusal in a ServerError, or in an error that one caused; None for any other error.

    >>> refusal_of(ServerError("1227", "Access denied")), refusal_of(ServerError("1064", "a mistake"))
    ('rights', None)
    """
    if isinstance(error, ServerError) and error.code in _REFUSALS:
        return _REFUSALS[error.code]
    return refusal_of(error.__cause__) if error.__cause__ else None


def integer(value: object) -> int:
    """Return a count from a client: an int, a Decimal of a sum, or None (0) for a sum of nothing."""
    return int(value) if value is not None else 0  # type: ignore[call-overload]


def seconds(value: object) -> float:
    """Return a time from a client, in its unit, as a float; 0 for None."""
    return float(value) if value is not None else 0.0  # type: ignore[arg-type]


def text(value: object) -> str | None:
    """Return a text from a client; some servers return names as bytes."""
    if value is None:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
