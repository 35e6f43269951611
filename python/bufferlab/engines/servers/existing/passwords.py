"""Finds the password of an account on a running server. It never appears in arguments, logs or results.

The first of these sources that has a password is used: the file that the URL names, bufferlab's environment variable,
the places where the server's own clients look (`Form.usual_password`). If there is none and the server refuses the
account, a prompt on the terminal asks for it. A worker inherits a typed password in its environment.
"""

from __future__ import annotations

import getpass
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bufferlab.engines.servers.existing.address import PASSWORD, Address, Form
from bufferlab.errors import EnvironmentLackingError

_TYPED = "BUFFERLAB_TYPED"
"""The environment variable that is set if the user typed the password."""
T = TypeVar("T")


class LoginRefusedError(EnvironmentLackingError):
    """The error for a login that a running server refuses, and would refuse again."""


class DeniedError(LoginRefusedError):
    """The error for a running server that refuses the user or the password."""


@dataclass(frozen=True)
class Password:
    """The password of an account, and where it was found."""

    text: str = field(repr=False)
    source: str | None
    """Where the password was found, in words. If none was found, it is None and `text` is ""."""


def find(address: Address, form: Form) -> Password:
    """Return the password for the address's account.

    If no source has one, it is "" and its source is None. Raises EnvironmentLackingError if the file that the URL names
    cannot be read or has no password for this account, if a file is not UTF-8, and if other users may read the file
    with the password.
    """
    if address.secret is not None:
        return Password(address.secret, "bufferlab's own account")
    if address.password_file is not None:
        return _of_file(Path(address.password_file), address, form)
    if PASSWORD in os.environ:
        source = "the terminal" if _TYPED in os.environ else f"the environment variable {PASSWORD}"
        return Password(os.environ[PASSWORD], source)
    try:
        found = form.usual_password(address)
    except UnicodeDecodeError as error:
        raise EnvironmentLackingError(f"a file of passwords cannot be read: {error}", str(address.place)) from error
    if found is None:
        return Password("", None)
    text, place = found
    if isinstance(place, Path):
        _require_private(place)
    return Password(text, str(place))


def source_words(address: Address, form: Form) -> str:
    """Return in words the source of the password, never the password. Raises as `find` does."""
    source = find(address, form).source
    return f"from {source}" if source else "none"


def logged_in(address: Address, form: Form, attempt: Callable[[str], T]) -> T:
    """Call `attempt` with the account's password; return the connection that it returns.

    Without a password, if `attempt` raises DeniedError, ask for one on the terminal, once, and try again.
    """
    found = find(address, form)
    try:
        return attempt(found.text)
    except DeniedError:
        if found.source is not None or not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            raise
    typed = getpass.getpass(f"Password of {address.user} on {address.server}: ")
    connection = attempt(typed)
    os.environ |= {PASSWORD: typed, _TYPED: "1"}
    return connection


def _of_file(path: Path, address: Address, form: Form) -> Password:
    try:
        _require_private(path)
        found = form.password_in(path, address)
        if found is not None:
            _require_private(found[1])
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentLackingError(
            f"the password file cannot be read: {getattr(error, 'strerror', None) or error}", str(path)
        ) from error
    if found is None:
        hint = f"write it like this: {form.password_example}"
        raise EnvironmentLackingError("there is no password in this file", str(path), hint)
    return Password(found[0], str(found[1]))


def _require_private(path: Path) -> None:
    """Raise EnvironmentLackingError if users other than the file's owner may read it."""
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise EnvironmentLackingError("others may read this password file", str(path), f"chmod 600 {path}")
