"""Makes foreign texts safe to show and to parse: it removes terminal control and passwords, and refuses deep nesting.

Files, servers and file names may have any characters. Code that shows such texts passes them through this module first.

An address is a URL, a DSN or `user:password@host`, even mistyped. Its password begins after the first `:` that follows
the user, or after the `=` of a word such as "password". It ends at the last `@`, or with the address. This rule holds
for addresses of servers and for the arguments of the command bufferlab. In other texts the end of an address is
unknown, so a password also ends at a blank.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

#: Matches control characters except newline and tab, marks of writing direction, Unicode's line ends, and lone
#: surrogates.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
PASSWORD_HINT = "leave it out of the URL: set BUFFERLAB_PASSWORD, or add ?password_file=/path (an option file)"
#: Matches passwords in texts that are not addresses.
_PASSWORD = re.compile(
    # A password in a URL, even if an @ or a blank in it is not written as %40 or %20.
    r"(?P<url>://[^\s:/?#@\"']*:)(?!…@)(?:\S{0,300}|(?![0-9]{1,5}[/?\s])[^\"'@\n]{0,80})(?=@)"
    # A password as an option: in a URL, in a list of options, or in a client's command.
    r"|(?P<option>\b(?:pass|passwd|password|passwort|passphrase|pwd|pw)\s?=\s?)(?!\.\.\.|…)"
    r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s&]+)"
    r"|(?P<client>\b(?:mysql|mariadb|psql)\b[^\n]{0,400}?\s-p)(?!…)\S+"
    # A password in a URL that lacks its scheme, or half of it.
    r"|(?P<plain>(?<![\w.:-])[\w.-]{1,32}:)(?!…)[^\s/]{1,80}(?=@)",
    re.IGNORECASE,
)
_SCHEME = r"(?<![^\s,(\"'])[A-Za-z][A-Za-z0-9+.-]*://"
_HOST = r"(?:\[[0-9A-Fa-f:.]*\]|[^\s:/?#@\[\],]*)(?::[0-9]{1,5})?(?:/[^\s:/?#@,]*)?"
#: Matches URLs in which no colon begins a password (with a user but no password, or without any @), and the text before
#: them.
_RIGHT_URLS = rf"(?:[^:@]*?{_SCHEME}(?:[^\s:/?#@]+@{_HOST}(?:\?[^\s,]*)?|{_HOST}(?:\?[^\s@,]*)?)(?=[\s,]|$))*"
_BEFORE_USER = re.compile(rf"{_RIGHT_URLS}(?P<scheme>[^:]*?{_SCHEME})?")
_WORD_OF_PASSWORD = re.compile(
    r"(?<!\w)(?!allow_unverified)\w{0,20}(?:pas|psw|pw)\w{0,20}(?<!file)\s{0,9}[=:]\s{0,9}(?=\S)"
    r"|\b(?:mysql|mariadb|psql)\b.{0,400}?\s-p(?=\S)",
    re.IGNORECASE | re.DOTALL,
)
_PATH = re.compile(r"(?:/(?!/)|\.\.?/|~)(?!.*://)", re.DOTALL)
_KEY = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_DEEPEST_TOML = 16
"""The most nested levels of tables and arrays in a TOML; an experiment has five."""
#: Matches a key of more than 64 parts, which is refused: tomllib and spec/lines.py need time proportional to the square
#: of its length.
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{4 * _DEEPEST_TOML}}}")
_TOO_DEEP = f"tables and arrays are nested more than {_DEEPEST_TOML} levels deep"


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises ValueError if it is nested too deep or has a whole number of more than 64 bits, and tomllib.TOMLDecodeError,
    with the place, if it is not TOML.
    """
    import tomllib  # Imported late, because most commands read no TOML.

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
    r"""Return the text with control characters as escapes, which a terminal shows instead of obeying.

    >>> printable("red: \x1b[31m\n")
    'red: \\x1b[31m\n'
    """
    return _UNPRINTABLE.sub(_escape, text)


def printable_json(text: str) -> str:
    r"""Return a JSON text of the same meaning, with control characters as JSON's escapes.

    >>> printable_json('"\x9b"')
    '"\\u009b"'
    """
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def without_password(text: str) -> str:
    """Return the text with an ellipsis in place of every password: of an address, an option, or the arguments.

    The arguments are those that were passed to `hide_passwords_of`.

    >>> without_password("server = mysql://me:secret@host/db"), without_password("host=h password=secret")
    ('server = mysql://me:…@host/db', 'host=h password=…')
    """
    if _of_arguments:
        text = _of_arguments.sub("…", text)
    return _PASSWORD.sub(lambda found: f"{found[found.lastgroup or 0]}…", text)


def has_password(text: str) -> bool:
    """Return whether the text seems to have a password in a URL, even a mistyped one, or in an option."""
    return _PASSWORD.search(text) is not None


def address_has_password(text: str) -> bool:
    """Return whether the text, which is meant as a server's address, may contain a password.

    >>> address_has_password("me:a b/c@host"), address_has_password("mysql://me@host:3306/lab?password_file=/a@b")
    (True, False)
    """
    return has_password(text) or _password_of(text) is not None


def hide_passwords_of(arguments: Sequence[str]) -> None:
    """From now on, let `without_password` hide the passwords in these arguments of the command, as typed.

    A shell splits a password with blanks into several arguments; each of its pieces is hidden.
    """
    global _of_arguments
    found = {(before, form) for group in _between_options(arguments) for before, piece in _pieces(group)
             for form in _forms(piece) if form}  # fmt: skip
    longest_first = sorted(found, key=lambda one: len(one[1]), reverse=True)
    any_of = "|".join(f"{before}{re.escape(form)}" for before, form in longest_first)
    _of_arguments = re.compile(rf"(?:{any_of})(?!\w)") if found else None


_of_arguments: re.Pattern[str] | None = None


def _password_of(address: str) -> tuple[int, int] | None:
    """Return (start, end) of the password in an address; None for a path or an address without a password."""
    if _PATH.match(address):
        return None
    word = _WORD_OF_PASSWORD.search(address)
    before = _BEFORE_USER.match(address)
    start, scheme = (before.end(), before["scheme"]) if before else (0, None)
    colon, last = address.find(":", start), address.rfind("@", start)
    begins = [word.end()] if word else []
    if 0 <= colon < last or (scheme and colon >= 0 > last):
        begins.append(colon + 1)
    if not begins:
        return None
    return min(begins), len(address) if word or last < 0 else last


def _between_options(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lists of arguments between options. Each list begins with the value of the option before it."""
    group: list[str] = []
    for argument in arguments:
        if argument.startswith("-"):
            yield group
            group = []
            argument = argument.partition("=")[2]
        if argument:
            group.append(argument)
    yield group


def _pieces(group: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (pattern, part) for each part of an argument that lies in a password.

    Passwords are searched in each argument, and in all arguments joined by blanks. The pattern matches the text before
    the part, so that a short password is not hidden inside other words.
    """
    for joined in (*([one] for one in group), [one for one in group if not _PATH.match(one)]):
        if span := _password_of(" ".join(joined)):
            start = 0
            for one in joined:
                first, last = max(0, span[0] - start), max(0, span[1] - start)
                if piece := one[first:last]:
                    yield (f"(?<={re.escape(one[first - 1])})" if first else r"(?<!\w)"), piece
                start += len(one) + 1


def _forms(piece: str) -> tuple[str, ...]:
    """Return a text in all forms that messages may show: unchanged, right-stripped, as in Python, JSON or paths."""
    return piece, piece.rstrip(), repr(piece)[1:-1], json.dumps(piece)[1:-1], re.sub("/+", "/", piece)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
