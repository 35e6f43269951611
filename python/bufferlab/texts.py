"""Texts from elsewhere made safe to show: no control of the terminal, no password of a URL.

Files, servers and names of files may hold anything; whoever shows them comes here.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

#: Control characters but newline and tab, what turns the direction of writing, other ends of lines, halves of pairs.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
PASSWORD_HINT = "leave it out of the URL: set BUFFERLAB_PASSWORD, or add ?password_file=/path (an option file)"
_PASSWORD = re.compile(r"(://[^\s:/?#@\"']*):[^\s\"']*@")
_KEY = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEPEST_TOML = 16
"""Levels of tables and arrays; an experiment has five."""
#: Keys of so many parts take tomllib, and whoever notes their places, the square of their length.
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{4 * _DEEPEST_TOML}}}")
_TOO_DEEP = f"tables and arrays are nested more than {_DEEPEST_TOML} levels deep"


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. ValueError (tomllib.TOMLDecodeError with its place) when it is none, or too deep."""
    if _LONG_KEY.search(text):
        raise ValueError(_TOO_DEEP)
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level: list[Any] = [tables]
    for _ in range(_DEEPEST_TOML):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [one for values in inner for one in values if isinstance(one, dict | list)]
        if not level:
            return tables
    raise ValueError(_TOO_DEEP)


def printable(text: str) -> str:
    r"""The text with control characters as escapes: a terminal shows them and does not obey.

    >>> printable("red: \x1b[31m\n")
    'red: \\x1b[31m\n'
    """
    return _UNPRINTABLE.sub(_escape, text)


def printable_json(text: str) -> str:
    r"""The same of a JSON text, in JSON's own escapes: its meaning stays.

    >>> printable_json('"\x9b"')
    '"\\u009b"'
    """
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def without_password(text: str) -> str:
    """The text with an ellipsis in place of every password of a URL.

    >>> without_password("server = mysql://me:secret@host/db")
    'server = mysql://me:…@host/db'
    """
    return _PASSWORD.sub(r"\1:…@", text)


def has_password(text: str) -> bool:
    """Whether a URL in the text has a password."""
    return _PASSWORD.search(text) is not None


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
