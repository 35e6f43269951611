"""Settings of somebody else's server, changed while it runs and put back whatever happens.

Before the first change the values found are written to a file of their own (0600, no password), locked while they are
in use. Whoever finds such a file that nobody holds, puts the values back: the next run on that server, the end of a
sweep, `bufferlab doctor`.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.servers.boot import OnWait
from bufferlab.engines.servers.builds import servers_root
from bufferlab.engines.servers.existing.address import Address, Form, parse
from bufferlab.errors import BufferlabError

ALLOW = "--allow-online-changes"
_FORMAT = "bufferlab-online-changes"


class Settings(Protocol):
    """How a family's settings are changed while a server runs."""

    unusable: tuple[type[Exception], ...]
    """What its client raises when the server fails it."""

    def found(self, connection: Any, address: Address, wanted: Mapping[str, str]) -> dict[str, Any]:
        """What is to be put back later, by variable. EngineFailure where one cannot be changed; nothing is then."""

    def change(self, connection: Any, address: Address, name: str, value: str, on_wait: OnWait) -> None:
        """Give a variable another value, and see that it has it; EngineFailure names the variable."""

    def put_back(self, address: Address, found: Mapping[str, Any]) -> list[str]:
        """Put `found` back over a connection of its own; the variables that had another value."""


def state_folder() -> Path:
    """Where values to be put back are kept."""
    return servers_root().parent / "online-changes"


@contextmanager
def changed(
    settings: Settings, connection: Any, address: Address, wanted: Mapping[str, str], on_wait: OnWait
) -> Iterator[None]:
    """The server with these variables, and then with its own again.

    EngineFailure names the variable that cannot be changed while the server runs; nothing is changed then.
    """
    if not wanted:
        yield
        return
    found = settings.found(connection, address, wanted)
    path = _file(address)
    with _held(path) as descriptor:
        if descriptor is None:
            what = "another run of bufferlab has changed this server's settings"
            raise EngineFailure("environment", what, str(path), "wait for it to end")
        _put_back_from(settings, descriptor, address)
        _write(descriptor, {"format": _FORMAT, "url": address.url, "variables": found})
        try:
            for name, value in wanted.items():
                settings.change(connection, address, name, value, on_wait)
            yield
        except Exception as error:
            try:
                _put_back_from(settings, descriptor, address)
            except (BufferlabError, EngineFailure) as second:
                # Why the run failed matters more than that its settings are still there: both are told.
                raise _both(error, second, found) from error
            except settings.unusable as second:
                raise _both(error, second, found) from error
            path.unlink(missing_ok=True)
            raise
        _put_back_from(settings, descriptor, address)
        path.unlink(missing_ok=True)


def put_back(settings: Settings, address: Address) -> list[str]:
    """Put back what a run that was killed left changed; the variables' names, none when nothing was."""
    path = _file(address)
    if not path.exists():
        return []
    with _held(path) as descriptor:
        if descriptor is None:
            return []  # A run is using the server now, and will put them back itself.
        names = _put_back_from(settings, descriptor, address)
        path.unlink(missing_ok=True)
        return names


def put_back_everywhere(settings: Settings, form: Form) -> list[tuple[str, list[str] | str]]:
    """The same for every server of a family there is a file of: its URL, and what was put back or why it was not."""
    done: list[tuple[str, list[str] | str]] = []
    for path in sorted(state_folder().glob("*.json")) if state_folder().is_dir() else []:
        with suppress(OSError, ValueError, KeyError, TypeError):
            url = json.loads(path.read_text())["url"]
            if urlsplit(url).scheme not in form.schemes:
                continue
            try:
                names = put_back(settings, parse(url, form))
            except (BufferlabError, EngineFailure) as error:
                done.append((url, error.what))
            except settings.unusable as error:
                done.append((url, str(error)))
            else:
                done.append((url, names))
    return done


def _both(error: Exception, second: Exception, found: Mapping[str, Any]) -> EngineFailure:
    """What failed, and that settings could not be put back after it."""
    core = len(error.args) == 4  # The core's errors: kind, what, where, hint.
    kind = getattr(error, "kind", None) or (error.args[0] if core else "engine")
    what = getattr(error, "what", None) or (error.args[1] if core else str(error))
    why = getattr(second, "what", None) or str(second)
    hint = "when the server answers again: bufferlab doctor"
    return EngineFailure(kind, f"{what}; and {', '.join(found)} could not be put back: {why}", None, hint)


def _file(address: Address) -> Path:
    return state_folder() / f"{address.name}.json"


@contextmanager
def _held(path: Path) -> Iterator[int | None]:
    """The file, made if need be, locked for us; None when another run holds it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            # The one who held it before us may have removed it when it was done.
            if os.fstat(descriptor).st_nlink:
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _put_back_from(settings: Settings, descriptor: int, address: Address) -> list[str]:
    text = os.pread(descriptor, 1 << 20, 0)
    if not text:
        return []
    # A connection of its own: the one that changed them may be what failed.
    names = settings.put_back(address, json.loads(text)["variables"])
    os.ftruncate(descriptor, 0)
    return sorted(names)


def _write(descriptor: int, document: Mapping[str, Any]) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(document, indent=1).encode() + b"\n", 0)
    os.fsync(descriptor)
