"""Finds the password of an account on a running server; it is nowhere in arguments, logs and results.

The order, of which the first that has a password wins: the file that the URL names, bufferlab's environment variable,
the places where the server's own clients look (`Form.usual_password`), and when the server refuses an account for which
there was none, a prompt on the terminal. A worker finds what was typed in the environment that it inherits.
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

ADMIN_PASSWORD = "BUFFERLAB_ADMIN_PASSWORD"
"""The environment variable that holds the password of the URL's `admin_user`."""
_TYPED = "BUFFERLAB_TYPED"
"""The environment variable with the names of those variables whose values were typed."""
T = TypeVar("T")


class LoginRefusedError(EnvironmentLackingError):
    """The error that a running server refuses a login, and will refuse the next one too."""


class DeniedError(LoginRefusedError):
    """The error that a running server refuses the user or the password."""


@dataclass(frozen=True)
class Password:
    """An account's password."""

    text: str = field(repr=False)
    source: str | None
    """Words for the place that has it; None: there is none, and `text` is ""."""


def find(address: Address, form: Form) -> Password:
    """Return the password for the address's account.

    Raises EnvironmentLackingError when the file that the URL names cannot be read or has none for this account, and
    when others may read the file that has it.
    """
    if address.secret is not None:
        return Password(address.secret, "bufferlab's own account")
    if address.password_file is not None:
        return _of_file(Path(address.password_file), address, form)
    variable = _variable(address)
    if variable in os.environ:
        typed = variable in os.environ.get(_TYPED, "").split()
        return Password(os.environ[variable], "the terminal" if typed else f"the environment variable {variable}")
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
    """Return in words where the passwords of the URL's accounts are; never a password. Raises as `find` does."""
    sources = [find(account, form).source for account in dict.fromkeys((address, address.admin))]
    words = [f"from {source}" if source else "none" for source in sources]
    return f"{words[0]}; of {address.admin_user} {words[1]}" if address.admin_user else words[0]


def logged_in(address: Address, form: Form, attempt: Callable[[str], T]) -> T:
    """Return what `attempt` returns for the account's password: a connection.

    Where there is no password and `attempt` raises DeniedError, ask for one on the terminal, once, and try again.
    """
    found = find(address, form)
    try:
        return attempt(found.text)
    except DeniedError:
        if found.source is not None or not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
            raise
    typed = getpass.getpass(f"Password of {address.user} on {address.server}: ")
    connection = attempt(typed)
    variable = _variable(address)
    os.environ[variable] = typed
    os.environ[_TYPED] = f"{os.environ.get(_TYPED, '')} {variable}".strip()
    return connection


def _variable(address: Address) -> str:
    return ADMIN_PASSWORD if address.is_admin else PASSWORD


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
    """Raise EnvironmentLackingError when anybody but the file's owner may read it."""
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise EnvironmentLackingError("others may read this password file", str(path), f"chmod 600 {path}")
