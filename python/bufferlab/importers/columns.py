"""Finds the role of a table's column from its header: throughput, requests per second, hit ratio, victim path."""

from __future__ import annotations

import re
from functools import lru_cache

_ROLES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (role, re.compile(pattern, re.IGNORECASE))
    for role, pattern in (
        ("reads_per_tx", r"\b(?:reads?|r)\s*(?:per|/)\s*(?:new[- ]?orders?|tx|trx|transactions?|NO)\b"),
        ("writes_per_tx", r"\b(?:writes?|w)\s*(?:per|/)\s*(?:new[- ]?orders?|tx|trx|transactions?|NO)\b"),
        ("tpmc", r"\btpm-?c\b"),
        ("reads_per_s", r"\br\s?/\s?s\b|\breads?\s?(?:/|per)\s?s(?:ec)?\b"),
        ("writes_per_s", r"\bw\s?/\s?s\b|\bwrites?\s?(?:/|per)\s?s(?:ec)?\b"),
        ("iops", r"\bIOPS\b"),
        ("mb_per_s", r"\bMBPS\b|\bMB/s\b"),
        ("hit", r"\bhit\b"),
        ("free_list", r"\bfree[\s_-]*list\b|\bstep\s*1\b"),
        ("lru_scan", r"\blru[\s_-]*scan\b(?![\s_-]*depth)|\bstep\s*2\b"),
        ("single_page", r"\bsingle[\s_-]*page\b|\bstep\s*3\b"),
        ("spread", r"±|\b(?:sd|std|stdev|stddev|ci|cv|95\s?%|interval|min|max)\b"),
        ("n", r"\b(?:n|runs|reps|repetitions)\b$"),
    )
)


_ANY = re.compile("|".join(pattern.pattern for _, pattern in _ROLES), re.IGNORECASE)


def may_be_header(line: str) -> bool:
    """Return whether some column of a line could have a role. Called for every line, so it must be quick."""
    return _ANY.search(line) is not None


@lru_cache(maxsize=4096)
def role_of(header: str) -> str | None:
    """Return the role of a header cell; None when it has none.

    >>> role_of("I/O r/s"), role_of("Hit Ratio Start"), role_of("Buffer Size")
    ('reads_per_s', 'hit', None)
    """
    if len(header) > 80:
        return None
    return next((role for role, pattern in _ROLES if pattern.search(header)), None)
