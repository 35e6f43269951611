"""Reads captions: lines that say which setting and which time the following piece of a document is about.

A caption is a short separate line, "page size = 4KB" or "depth: 128, after 100 seconds / 1200 seconds"; a Markdown
heading may be one. Settings of a configuration file (innodb_...=...) are not captions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CAPTION = re.compile(
    r"[#*\s>]*(?P<name>[A-Za-z][A-Za-z _-]{1,30}?)\s*(?:=|:)\s*"
    r"(?P<value>\d+(?:\.\d+)?\s?[A-Za-z%]{0,4})\s*(?:[,;(].*)?\**"
)
_NOT_SWEPT = re.compile(
    r"innodb_|.*(rate|memory|runtime|duration|seed|version|scale|bits|total|revision|time|cores?|port)$", re.IGNORECASE
)
_TIME = re.compile(
    r"(?:^|[\s,;(=:@])(?P<t>\d{1,7}(?:\.\d+)?)\s*(?:s|secs?|seconds?)\b(?:\s*(?:/|of)\s*\d{1,7}\s*(?:s|secs?|seconds?)?)?",
    re.IGNORECASE,
)
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Caption:
    """A setting's label ("page size = 4KB") and, if stated, the seconds since the start."""

    label: str
    t_s: float | None = None


def read_caption(text: str) -> Caption | None:
    """Return the caption in a line; None when the line is not one.

    >>> read_caption("Page size = 4KB, progress: 100 seconds / 1200 seconds")
    Caption(label='page size = 4KB', t_s=100.0)
    >>> read_caption("Free buffers          40")
    """
    if len(text) > _LONGEST or "|" in text or "\t" in text:
        return None
    match = _CAPTION.fullmatch(text.strip())
    if match is None or _NOT_SWEPT.match(match["name"]):
        return None
    label = f"{' '.join(match['name'].lower().split())} = {match['value'].replace(' ', '')}"
    rest = text.strip()[match.end("value") :]
    time = _TIME.search(rest)
    if time is None:
        # "ibuf aio reads: 0, log i/o's: 0" is a list of counters, not a heading.
        return None if rest.lstrip().startswith((",", ";")) else Caption(label)
    return Caption(label, float(time["t"]))
