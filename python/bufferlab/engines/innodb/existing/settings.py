"""Global variables of somebody else's MySQL or MariaDB, changed by SET GLOBAL while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pymysql

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import control
from bufferlab.engines.innodb.existing.connection import connect
from bufferlab.engines.servers.boot import OnWait
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.server import ANSWER_SECONDS

_READ_ONLY = 1238
_DENIED = (1227, 1044)
_POOL = "innodb_buffer_pool_size"
_RESIZE_SECONDS = 900.0
_POLL_SECONDS = 0.1


class GlobalVariables:
    """As `changes.Settings` says."""

    unusable: tuple[type[Exception], ...] = (pymysql.MySQLError,)

    def found(self, connection: Any, address: Address, wanted: Mapping[str, str]) -> dict[str, Any]:
        """The values there are."""
        told = control.variables(connection)
        missing = [name for name in wanted if name not in told]
        if missing:
            what = f"the server has no variable {missing[0]}"
            raise EngineFailure("usage", what, f"var.{missing[0]}", "look it up in the manual of this version")
        if _POOL in wanted:
            _refuse_fatal_resize(told)
        return {name: told[name] for name in wanted}

    def change(self, connection: Any, address: Address, name: str, value: str, on_wait: OnWait) -> None:
        """SET GLOBAL; a pool that is resized is waited for."""
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

    def put_back(self, address: Address, found: Mapping[str, Any]) -> list[str]:
        """Those that have another value now; one that was refused has not, and some cannot be set at all."""
        with closing(connect(address, answer_seconds=ANSWER_SECONDS)) as connection:
            told = control.variables(connection)
            changed = [name for name in reversed(list(found)) if told.get(name) != found[name]]
            for name in changed:
                self.change(connection, address, name, found[name], lambda what: None)
        return changed


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


def _wait_for_pool(connection: Any, on_wait: OnWait) -> None:
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
