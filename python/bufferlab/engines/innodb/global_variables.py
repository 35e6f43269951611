"""Changes global variables of an existing MySQL or MariaDB by SET GLOBAL while it runs, and locks them meanwhile."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pymysql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.innodb import owned_schema as schemas
from bufferlab.engines.innodb.connection import connect
from bufferlab.engines.innodb.option_file import VARIABLES, as_asked
from bufferlab.engines.servers.existing.address import ANSWER_SECONDS, Address
from bufferlab.engines.servers.existing.changes import Settings
from bufferlab.engines.servers.signs_of_life import OnWait

_READ_ONLY = 1238
_DENIED = (1227, 1044)
_POOL = "innodb_buffer_pool_size"
_RESIZE_SECONDS = 900.0
_POLL_SECONDS = 0.1
_LOCK_NAME_LENGTH = 64
"""The longest name of a lock in MySQL 5.7.5 and later."""
_SOME_TIME = 2_147_000_000


class GlobalVariables(Settings):
    """The global variables of a server."""

    unusable = (pymysql.MySQLError,)
    opened = staticmethod(partial(connect, seconds=ANSWER_SECONDS))
    opened_for_lock = staticmethod(connect)
    records = staticmethod(schemas.records)
    record = staticmethod(schemas.record)

    def lock(self, connection: Any, lock: str, seconds: float) -> bool:
        """Take the lock by GET_LOCK."""
        ((got,),) = control.rows(connection, "SELECT GET_LOCK(%s, %s)", (_name(lock), seconds))
        # The connection must not be idle for longer than the server allows.
        control.rows(connection, "SET SESSION wait_timeout = 31536000")
        return bool(got == 1)

    def is_held(self, connection: Any, lock: str) -> bool:
        """Return whether any connection holds the lock (IS_USED_LOCK)."""
        ((holder,),) = control.rows(connection, "SELECT IS_USED_LOCK(%s)", (_name(lock),))
        return holder is not None

    def identity(self, connection: Any) -> str:
        """Return a hash of the server's UUID, host, port, socket and data directory.

        MariaDB lacks a UUID; a copied data directory shares it.
        """
        told = control.variables(connection)
        parts = [told.get(name, "") for name in ("server_uuid", "hostname", "port", "socket", "datadir")]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]

    def since(self, connection: Any) -> str:
        """Return the second in which the server was started: SET GLOBAL lasts until the next start.

        Uptime is the statement's time less that second (mysqld.cc, show_starttime), and a session may set that time.
        With a fixed time the result changes neither when a clock is set nor when a second passes.
        """
        control.rows(connection, f"SET SESSION timestamp = {_SOME_TIME}")
        uptime = int(control.status(connection, "Uptime")["uptime"])
        control.rows(connection, "SET SESSION timestamp = DEFAULT")
        return str(_SOME_TIME - uptime)

    def found(self, connection: Any, address: Address, wanted: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Return the present values."""
        told = control.variables(connection)
        missing = [name for name in wanted if name not in told]
        if missing:
            what = f"the server has no variable {missing[0]}"
            raise EngineFailure("usage", what, f"var.{missing[0]}", "look it up in the manual of this version")
        if _POOL in wanted:
            _refuse_fatal_resize(told)
        return {name: {"found": told[name]} for name in wanted}

    def change(
        self, connection: Any, address: Address, name: str, value: str, on_wait: OnWait, on_set: Callable[[], None]
    ) -> None:
        """Set the variable by SET GLOBAL, and wait while the server resizes its pool."""
        _set(connection, name, value)
        if name == _POOL:
            # The variable tells the old size until the pool has the new one.
            _wait_for_pool(connection, on_wait)
        on_set()

    def settle(self, connection: Any) -> None:
        """Wait until the server resizes its pool no more; a resize that failed has ended too."""
        _wait_for_pool(connection, lambda what: None, must_succeed=False)

    def now(self, connection: Any, variables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the present values."""
        told = control.variables(connection)
        return {name: told[name] for name in variables if name in told}

    def restore(self, connection: Any, name: str, entry: Mapping[str, Any]) -> None:
        """Set the variable by SET GLOBAL to the value that was found."""
        _set(connection, name, entry["found"])
        if name == _POOL:
            _wait_for_pool(connection, lambda what: None)

    def statement(self, schema: str, name: str, entry: Mapping[str, Any]) -> str | None:
        """Return a SET GLOBAL, where a knob has the variable and takes the value."""
        knob, found = VARIABLES.knob(name), entry["found"]
        if knob is None or not isinstance(found, str) or not found.isascii():
            return None
        if not knob.fits(as_asked(knob.name, found)):
            return None
        return f"SET GLOBAL {name} = {found}"


def _name(lock: str) -> str:
    return f"bufferlab.{lock}"[:_LOCK_NAME_LENGTH]


def _set(connection: Any, name: str, value: str) -> None:
    """Set a variable by SET GLOBAL. Raises EngineFailure, which names the variable, if it cannot be set."""
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


def _refuse_fatal_resize(told: Mapping[str, str]) -> None:
    """Raise EngineFailure where a resize of the pool may end the server, as one has ended MySQL 5.7.22."""
    pool, chunk, page = (
        int(told.get(name, 0)) for name in (_POOL, "innodb_buffer_pool_chunk_size", "innodb_page_size")
    )
    if told.get("version", "").startswith("5.7.") and pool * page >= chunk * chunk > 0:
        what = "MySQL 5.7 may end while it resizes this pool, as 5.7.22 has"
        raise EngineFailure("usage", what, f"var.{_POOL}", f"--set pool_size={pool}, or larger chunks at the server")


def _wait_for_pool(connection: Any, on_wait: OnWait, *, must_succeed: bool = True) -> None:
    """Wait until the pool is as large as it was told to be. The server resizes it in the background, page by page.

    Raises EngineFailure when that takes too long, or fails where it `must_succeed`.
    """
    deadline = time.monotonic() + _RESIZE_SECONDS
    while True:
        told = control.status(connection, "Innodb_buffer_pool_resize_status").get(
            "innodb_buffer_pool_resize_status", ""
        )
        # The server tells "Requested to resize" before the statement ends, then each step, and at last this.
        if not told or told.startswith("Completed") or "did not change" in told:
            return
        has_failed = "failed" in told.lower() or "abort" in told.lower()
        if has_failed and not must_succeed:
            return
        if has_failed or time.monotonic() > deadline:
            raise EngineFailure("engine", f"the pool was not resized: {told}", f"var.{_POOL}", "see the server's log")
        on_wait("resizing its pool")
        time.sleep(_POLL_SECONDS)
