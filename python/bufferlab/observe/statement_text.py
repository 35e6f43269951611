"""Decides whether and how a statement's text is shown. Servers normalise texts, but not all of them.

PostgreSQL keeps comments, and utility statements as they were sent (pg_stat_statements.c, pgss_ProcessUtility): with
passwords, and with values. So a text is shown only when it begins as a query or a change of rows, and whatever literal
or comment is left in it goes.
"""

from __future__ import annotations

import re

from bufferlab.texts import printable

_LONGEST_CHARACTERS = 1000
_SHOWN = frozenset(("SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "WITH", "VALUES", "TABLE"))
_TOKEN = re.compile(
    r"(?P<comment>/\*.*?(?:\*/|\Z)|--[^\n]*)"
    # A backslash may escape a quote or not, which depends on a setting: from there on nothing is shown.
    r"|(?P<literal>'(?:[^'\\]|'')*(?:'|\\.*|\Z)|\$(?P<tag>[A-Za-z_]\w*|)\$.*?(?:\$(?P=tag)\$|\Z)"
    r"|(?<![\w$`\"])\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)"
    r"|(?P<name>\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\$\d+)",
    re.DOTALL,
)
_MONITORING = re.compile(
    r"\b(?:information_schema|performance_schema|pg_catalog|pg_stat\w*|pg_buffercache\w*|pg_settings|pg_locks"
    r"|pg_database|pg_replication_slots|pg_prepared_xacts)\b"
)


def shown(text: str) -> str | None:
    """Return a statement's text as it may be shown; None for a utility statement, and for what is not understood.

    >>> shown("/* user 7 */ SELECT * FROM t WHERE a = $1 AND b = 'x' AND c = 5")
    'SELECT * FROM t WHERE a = $1 AND b = ? AND c = ?'
    >>> shown("ALTER USER me PASSWORD 'secret'") is None
    True
    """
    plain = " ".join(_TOKEN.sub(_kept, text).split())
    first = re.match(r"[\s(]*([A-Za-z]+)", plain)
    # A comment inside a comment leaves its end behind.
    if first is None or first[1].upper() not in _SHOWN or "*/" in plain:
        return None
    cut = plain if len(plain) <= _LONGEST_CHARACTERS else plain[:_LONGEST_CHARACTERS] + " ..."
    return printable(cut)


def is_monitoring(text: str) -> bool:
    """Return whether a statement asks for the server's own views, as ours do."""
    return _MONITORING.search(text.lower()) is not None


def _kept(found: re.Match[str]) -> str:
    if found["comment"]:
        return " "
    return found["name"] or "?"
