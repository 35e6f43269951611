"""Finds the line number of each key in a TOML text. It parses no values: tomllib does.

It is a small scanner that follows toml.io/en/v1.0.0: tables, dotted and quoted keys, comments, and values that span
several lines (arrays, inline tables, multi-line strings).
"""

from __future__ import annotations

import re

KeyPath = tuple[str, ...]

_KEY_PART = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*(\.?)""")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of every table and key of a valid TOML text, keyed by its path.

    >>> key_lines("a = 1\\n[sweep]\\npool_size = [\\n  '5%',\\n]\\nb = 2")[("sweep", "b")]
    6
    """
    found: dict[KeyPath, int] = {}
    table: KeyPath = ()
    position, line = 0, 1
    while position < len(text):
        end = _end_of_line(text, position)
        stripped = text[position:end].strip()
        if stripped.startswith("["):
            table = _key_path(stripped.strip("[]# \t").split("]")[0])
            found.setdefault(table, line)
        elif stripped and not stripped.startswith("#"):
            key, equals = _key_before_equals(text, position)
            path = table + key
            for depth in range(len(table) + 1, len(path) + 1):
                found.setdefault(path[:depth], line)
            end = _end_of_value(text, equals + 1)
        line += text.count("\n", position, end + 1)
        position = end + 1
    return found


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of the key, or of the nearest enclosing table in the text; None if the text has neither."""
    for depth in range(len(path), 0, -1):
        if path[:depth] in lines:
            return lines[path[:depth]]
    return None


def _key_path(text: str) -> KeyPath:
    parts = []
    position = 0
    while match := _KEY_PART.match(text, position):
        parts.append(match[1].strip("\"'"))
        position = match.end()
        if not match[2]:
            break
    return tuple(parts)


def _key_before_equals(text: str, start: int) -> tuple[KeyPath, int]:
    position = start
    while match := _KEY_PART.match(text, position):
        position = match.end()
        if not match[2]:
            break
    return _key_path(text[start:position]), text.index("=", position)


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _end_of_value(text: str, start: int) -> int:
    """Return the end of the line on which the value that begins at `start` ends."""
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        if character in "\"'":
            position = _end_of_string(text, position)
            continue
        if character == "#":
            position = _end_of_line(text, position)
            continue
        if character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "\n" and depth <= 0:
            return position
        position += 1
    return len(text)


def _end_of_string(text: str, start: int) -> int:
    quote = text[start]
    long = text.startswith(quote * 3, start)
    close = quote * 3 if long else quote
    position = start + len(close)
    while position < len(text) and not text.startswith(close, position):
        position += 2 if text[position] == "\\" and quote == '"' else 1
    position += len(close)
    # Up to two quotes may precede the closing three.
    while long and text.startswith(quote, position):
        position += 1
    return position
