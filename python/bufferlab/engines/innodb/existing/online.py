"""Settings of somebody else's server, changed while it runs and put back whatever happens.

Before the first change the values found are written to a file of their own (0600, no password), locked while they are
in use. Whoever finds such a file that nobody holds, puts the values back: the next run on that server, the end of a
sweep, `bufferlab doctor`.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymysql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.existing.address import Address, connect, parse
from bufferlab.engines.servers.builds import servers_root
from bufferlab.errors import BufferlabError

ALLOW = "--allow-online-changes"
_FORMAT = "bufferlab-online-changes"
_READ_ONLY = 1238
_DENIED = (1227, 1044)
_POOL = "innodb_buffer_pool_size"
_RESIZE_SECONDS = 900.0
_POLL_SECONDS = 0.1


def state_folder() -> Path:
    """Where values to be put back are kept."""
    return servers_root().parent / "online-changes"


@contextmanager
def changed(
    connection: Any, address: Address, wanted: Mapping[str, str], on_wait: Callable[[str], None]
) -> Iterator[None]:
    """The server with these variables, and then with its own again.

    EngineFailure names the variable that cannot be changed while the server runs; nothing is changed then.
    """
    if not wanted:
        yield
        return
    before = control.variables(connection)
    missing = [name for name in wanted if name not in before]
    if missing:
        what = f"the server has no variable {missing[0]}"
        raise EngineFailure("usage", what, f"var.{missing[0]}", "look it up in the manual of this version")
    if _POOL in wanted:
        _refuse_fatal_resize(before)
    found = {name: before[name] for name in wanted}
    path = state_folder() / f"{address.name}.json"
    with _held(path) as descriptor:
        if descriptor is None:
            what = "another run of bufferlab has changed this server's settings"
            raise EngineFailure("environment", what, str(path), "wait for it to end")
        _put_back_from(descriptor, address)
        _write(descriptor, {"format": _FORMAT, "url": address.url, "variables": found})
        try:
            for name, value in wanted.items():
                _set(connection, name, value, on_wait)
            yield
        except Exception as error:
            try:
                _put_back_from(descriptor, address)
            except (BufferlabError, EngineFailure, pymysql.MySQLError) as second:
                # Why the run failed matters more than that its settings are still there: both are told.
                raise _both(error, second, found) from error
            path.unlink(missing_ok=True)
            raise
        _put_back_from(descriptor, address)
        path.unlink(missing_ok=True)


def _both(error: Exception, second: Exception, found: Mapping[str, str]) -> EngineFailure:
    """What failed, and that settings could not be put back after it."""
    core = len(error.args) == 4  # The core's errors: kind, what, where, hint.
    kind = getattr(error, "kind", None) or (error.args[0] if core else "engine")
    what = getattr(error, "what", None) or (error.args[1] if core else str(error))
    why = getattr(second, "what", None) or str(second)
    hint = "when the server answers again: bufferlab doctor"
    return EngineFailure(kind, f"{what}; and {', '.join(found)} could not be put back: {why}", None, hint)


def _refuse_fatal_resize(told: Mapping[str, str]) -> None:
    """EngineFailure where a resize of the pool ends the server.

    MySQL 5.7 reckons a chunk without the page its descriptors take; once these pages together are a chunk, it takes the
    pool for a chunk smaller than it is. Seen on 5.7.22 with 64 chunks of 1 MiB: shrunk after that, the server crashed.
    """
    pool, chunk, page = (
        int(told.get(name, 0)) for name in (_POOL, "innodb_buffer_pool_chunk_size", "innodb_page_size")
    )
    if told.get("version", "").startswith("5.7.") and pool * page >= chunk * chunk > 0:
        what = f"MySQL 5.7 can crash when a pool of {pool // chunk} chunks of {chunk} bytes is resized"
        raise EngineFailure("usage", what, f"var.{_POOL}", f"--set pool_size={pool}, or larger chunks at the server")


def put_back(address: Address) -> list[str]:
    """Put back what a run that was killed left changed; the variables' names, none when nothing was."""
    path = state_folder() / f"{address.name}.json"
    if not path.exists():
        return []
    with _held(path) as descriptor:
        if descriptor is None:
            return []  # A run is using the server now, and will put them back itself.
        names = _put_back_from(descriptor, address)
        path.unlink(missing_ok=True)
        return names


def put_back_everywhere() -> list[tuple[str, list[str] | str]]:
    """The same for every server there is a file of: its URL, and what was put back or why it was not."""
    done: list[tuple[str, list[str] | str]] = []
    for path in sorted(state_folder().glob("*.json")) if state_folder().is_dir() else []:
        with suppress(OSError, ValueError, KeyError, TypeError):
            url = json.loads(path.read_text())["url"]
            try:
                names = put_back(parse(url))
            except (BufferlabError, EngineFailure) as error:
                done.append((url, error.what))
            else:
                done.append((url, names))
    return done


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


def _put_back_from(descriptor: int, address: Address) -> list[str]:
    text = os.pread(descriptor, 1 << 20, 0)
    if not text:
        return []
    found: dict[str, str] = json.loads(text)["variables"]
    # A connection of its own: the one that changed them may be what failed.
    with closing(connect(address, answer_seconds=control.ANSWER_SECONDS)) as connection:
        told = control.variables(connection)
        # Those that are as they were cannot be set, some of them: they were refused when they were to be changed.
        changed = [name for name in reversed(found) if told.get(name) != found[name]]
        for name in changed:
            _set(connection, name, found[name], lambda what: None)
    os.ftruncate(descriptor, 0)
    return sorted(changed)


def _write(descriptor: int, document: Mapping[str, Any]) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(document, indent=1).encode() + b"\n", 0)
    os.fsync(descriptor)


def _set(connection: Any, name: str, value: str, on_wait: Callable[[str], None]) -> None:
    number = value.lstrip("-").replace(".", "", 1).isdigit()
    try:
        with connection.cursor() as cursor:
            # A number must not be quoted, a word must be; the name is one the server told us.
            cursor.execute(f"SET GLOBAL {name} = " + (value if number else "%s"), None if number else (value,))
    except pymysql.MySQLError as error:
        code, said = (*error.args, "")[:2]
        if code == _READ_ONLY:
            what, hint = f"{name} needs a restart of the server ({said})", "set it in the server's own option file"
        elif code in _DENIED:
            what, hint = f"the account may not change {name} ({said})", "grant SUPER or SYSTEM_VARIABLES_ADMIN"
        else:
            what, hint = f"{name} = {value} was refused: {said}", "see the manual of this version"
        raise EngineFailure("usage", what, f"var.{name}", hint) from error
    if name == _POOL:
        _wait_for_pool(connection, on_wait)


def _wait_for_pool(connection: Any, on_wait: Callable[[str], None]) -> None:
    """Until the pool is as large as it was told to be: it is resized in the background, page by page."""
    deadline = time.monotonic() + _RESIZE_SECONDS
    while True:
        told = control.status(connection, "Innodb_buffer_pool_resize_status").get(
            "innodb_buffer_pool_resize_status", ""
        )
        # "Requested to resize" is told before the statement ends; afterwards what is being done, and last this.
        if not told or told.startswith("Completed") or "did not change" in told:
            return
        if "failed" in told.lower() or "abort" in told.lower() or time.monotonic() > deadline:
            raise EngineFailure("engine", f"the pool was not resized: {told}", f"var.{_POOL}", "see the server's log")
        on_wait("resizing its pool")
        time.sleep(_POLL_SECONDS)
