"""Reads the option files of MySQL's and MariaDB's clients, as their library reads them (mysys/my_default.cc).

Groups, quotes, escapes, comments after values, `!include` and `!includedir`. `.mylogin.cnf` is not read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from bufferlab.engines.servers.existing.address import Address

_USUAL_FILE = "~/.my.cnf"
_USUAL_GROUPS = ("client", "bufferlab")
_GROUPS = (*_USUAL_GROUPS, "mysql", "mariadb")
"""The groups of a file that a URL names: it may be one that was written for a client."""
_DEEPEST_INCLUDE = 10
_SPACE = " \t\n\v\f\r"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", '"': '"', "'": "'", "\\": "\\"}


class Line(NamedTuple):
    """An option of a group, or a directive: its group is then "!"."""

    group: str
    name: str
    value: str | None
    """None: the option stands without a value."""


class Option(NamedTuple):
    """An option with its value, and the file that has it."""

    name: str
    value: str | None
    file: Path


def lines(text: str) -> Iterator[Line]:
    r"""Yield the options and directives of a text; what the clients call an error ends it, as there.

    >>> list(lines("[client]\nuser=me # not root\npassword = 'a # b\\''\n!include /etc/more.cnf"))[1:]
    [Line(group='client', name='password', value="a # b'"), Line(group='!', name='include', value='/etc/more.cnf')]
    """
    group = None
    for raw in text.split("\n"):
        line = raw.strip(_SPACE)
        if not line or line[0] in "#;":
            continue
        if line[0] == "!":
            if directive := re.fullmatch(rf"(include|includedir)[{_SPACE}]+(.+)", line[1:].lstrip(_SPACE)):
                yield Line("!", directive[1], directive[2])
        elif line[0] == "[":
            if "]" not in line:
                return
            group = line[1 : line.index("]")].rstrip(_SPACE)
        elif group is None:
            return
        else:
            name, equals, value = _without_comment(line).partition("=")
            yield Line(group, name.rstrip(_SPACE), _unquoted(value.strip(_SPACE)) if equals else None)


def options(path: Path, groups: Collection[str], depth: int = 0) -> Iterator[Option]:
    """Yield the options of these groups in a file and in those that it includes, in the order in which they count.

    Raises OSError when `path` cannot be read, UnicodeDecodeError when it or an included file is not UTF-8. As the
    clients do, pass over an included file that cannot be read, or that everybody may write.
    """
    for line in lines(path.read_text("utf-8")):
        if line.group in groups:
            yield Option(line.name, line.value, path)
        elif line.group == "!" and line.value and depth < _DEEPEST_INCLUDE:
            place = Path(line.value)
            found = sorted(place.glob("*.cnf")) if line.name == "includedir" else [place]
            for file in found:
                if _is_usable(file):
                    yield from options(file, groups, depth + 1)


def password_in(path: Path, address: Address) -> tuple[str, Path] | None:
    """Return the last `password` of the groups that clients read, and its file, of a file that a URL names."""
    return _last_password(path, _GROUPS)


def usual_password(address: Address) -> tuple[str, Path] | None:
    """Return the last `password` of the groups [client] and [bufferlab] in ~/.my.cnf, and its file.

    None when the file names another user last: the password is that account's.
    """
    path = Path(_USUAL_FILE).expanduser()
    if not _is_usable(path):
        return None
    users = [option.value for option in options(path, _USUAL_GROUPS) if option.name == "user"]
    if users and users[-1] != address.user:
        return None
    return _last_password(path, _USUAL_GROUPS)


def _last_password(path: Path, groups: Collection[str]) -> tuple[str, Path] | None:
    found = None
    for option in options(path, groups):
        if option.name == "password":
            # Without a value it tells a client to ask.
            found = None if option.value is None else (option.value, option.file)
    return found


def _is_usable(path: Path) -> bool:
    """Return whether the clients would read this file."""
    return path.is_file() and os.access(path, os.R_OK) and not path.stat().st_mode & stat.S_IWOTH


def _without_comment(line: str) -> str:
    """Return the line up to the first # outside of quotes."""
    quote, escaped = "", False
    for place, letter in enumerate(line):
        if letter in "'\"" and not escaped and quote in ("", letter):
            quote = "" if quote else letter
        elif letter == "#" and not quote:
            return line[:place]
        escaped = bool(quote) and letter == "\\" and not escaped
    return line


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] in "'\"" and value[0] == value[-1]:
        value = value[1:-1]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), value, flags=re.DOTALL)
