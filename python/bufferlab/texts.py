"""Makes texts from elsewhere safe to show and to parse: no terminal control, no password of a URL, no deep nesting.

Files, servers and file names may hold any characters. Code that shows them passes them through here first.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

#: Control characters but newline and tab, marks of writing direction, Unicode's line ends, and lone surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
PASSWORD_HINT = "leave it out of the URL: set BUFFERLAB_PASSWORD, or add ?password_file=/path (an option file)"
_PASSWORD = re.compile(
    # In a URL, with the @ or blank that somebody forgot to write as %40 or %20.
    r"(?P<url>://[^\s:/?#@\"']*:)(?!…@)(?:[^\s\"']*|[^\"'@\n]{0,80})(?=@)"
    # As an option: of a URL, of a list of options, of a client.
    r"|(?P<option>\b(?:pass|passwd|password|passwort|passphrase|pwd|pw)\s?=\s?)(?!\.\.\.|…)[^\s&;,\"']+"
    r"|(?P<client>\b(?:mysql|mariadb|psql)\b[^\n]{0,400}?\s-p)(?!…)[^\s\"']+"
    # A URL without its scheme, or with half of it.
    r"|(?P<plain>(?<![\w.:-])[\w.-]{1,32}:)(?!…)[^\s/@\"']{1,80}(?=@)",
    re.IGNORECASE,
)
_KEY = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEPEST_TOML = 16
"""Levels of tables and arrays; an experiment has five."""
#: For a key of so many parts, tomllib and spec/lines.py take time that grows with the square of its length.
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{4 * _DEEPEST_TOML}}}")
_TOO_DEEP = f"tables and arrays are nested more than {_DEEPEST_TOML} levels deep"


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises ValueError when it is nested too deep, and tomllib.TOMLDecodeError, with the place, when it is not TOML.
    """
    if _LONG_KEY.search(text):
        raise ValueError(_TOO_DEEP)
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    level: list[Any] = [tables]
    for _ in range(_DEEPEST_TOML):
        named = (value.items() if isinstance(value, dict) else (("an array", one) for one in value) for value in level)
        found = [pair for pairs in named for pair in pairs]
        if large := next((name for name, one in found if isinstance(one, int) and abs(one) >= 1 << 64), None):
            raise ValueError(f"{large} holds a whole number of more than 64 bits")
        level = [one for _, one in found if isinstance(one, dict | list)]
        if not level:
            return tables
    raise ValueError(_TOO_DEEP)


def printable(text: str) -> str:
    r"""Return the text with control characters as escapes, which a terminal shows and does not obey.

    >>> printable("red: \x1b[31m\n")
    'red: \\x1b[31m\n'
    """
    return _UNPRINTABLE.sub(_escape, text)


def printable_json(text: str) -> str:
    r"""Return a JSON text with control characters as JSON's escapes; its meaning stays the same.

    >>> printable_json('"\x9b"')
    '"\\u009b"'
    """
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def without_password(text: str) -> str:
    """Return the text with an ellipsis in place of every password: of a URL, mistyped or not, or of an option.

    >>> without_password("server = mysql://me:secret@host/db"), without_password("host=h password=secret")
    ('server = mysql://me:…@host/db', 'host=h password=…')
    """
    return _PASSWORD.sub(lambda found: f"{found[found.lastgroup or 0]}…", text)


def has_password(text: str) -> bool:
    """Return whether the text has what looks like a password: of a URL, mistyped or not, or of an option."""
    return _PASSWORD.search(text) is not None


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
