"""Restores a dump of pg_dump's custom format into the workload's empty database of a private server, by pg_restore.

bufferlab opens the dump, and pg_restore inherits the descriptor, so that the user as which it runs needs no access to
the file. pg_restore has no network and little memory, and connects as a role that owns the database and has no further
privileges. Later runs connect as that role too: in PostgreSQL a trigger has the privileges of the user who fires it.
"""

from __future__ import annotations

import os
import re
import resource
import secrets
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.programs import pg_restore
from bufferlab.engines.servers import child_process, restoring
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.child_process import ended_by
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.data_folder import DATABASE, Identity
from bufferlab.engines.servers.restoring import Dump, Restorer
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.engines.servers.user import open_log, write_for
from bufferlab.units import GIB, MIB

_LEFT_OUT = (
    "--no-owner", "--no-privileges", "--no-comments", "--no-tablespaces", "--no-publications", "--no-subscriptions",
    "--no-security-labels",
)  # fmt: skip
"""Options of pg_restore that skip entries of the dump.

Skipped are entries that name roles, tablespaces and other servers, which do not exist here, and comments, which only a
superuser may set.
"""
_GRANTED = ("pg_monitor", "pg_checkpoint")
"""The roles whose privileges a run needs to read its counters."""
_LIMITS = {
    resource.RLIMIT_AS: 2 * GIB,
    resource.RLIMIT_FSIZE: 16 * MIB,
    resource.RLIMIT_CORE: 0,
}
"""The resource limits of pg_restore.

A damaged archive may request any amount of memory, and a dump's code may write warnings without end.
"""
_POLL_SECONDS = 0.1
_ERROR = re.compile(r"^pg_restore: error: (.*)$", re.MULTILINE)
_TOLERATED = re.compile(r'unrecognized configuration parameter "(?:transaction_timeout|idle_session_timeout)"')
"""Matches errors that do not fail a restore.

They concern settings that only a pg_restore newer than the server sets (_doSetFixedOutputState).
"""
_VALUE = re.compile(
    r"(?P<known>\b(?:relation|schema|type|role|extension|function|language|column|constraint|database|index|table|"
    r'collation|operator|parameter|view|sequence|trigger|method|class|aggregate|server|library)(?: name)?:? "[^"]*")'
    r'|".*"',
    re.DOTALL,
)
"""Matches a quoted name, or a message from a quoted value to its last quote: PostgreSQL escapes no quotes in values."""
_SYSTEM_DATABASES = (control.SYSTEM_DATABASE, "template1")


def restore(
    server: Restorer, build: Build, dump: Dump, identity: Identity, owner: tuple[int, int] | None, wait: OnWait
) -> tuple[str, str]:
    """Restore the dump; return the login of the role that owns the data.

    The server must already have the empty database and its extensions. Raises EngineFailure in the words of pg_restore,
    and EnvironmentLackingError if no pg_restore here can read the dump.
    """
    program = pg_restore(build, dump.head(build))
    login = (restoring.USER, secrets.token_urlsafe(24))
    for database in _SYSTEM_DATABASES:  # Vacuum them first: later, no user with that privilege logs in.
        with closing(server.connect(database, patient=True)) as connection:
            connection.rows("VACUUM (FREEZE, ANALYZE)")
    with closing(server.connect()) as connection:
        _make_role(connection, login)
    secret = server.home / "restore.password"
    try:
        write_for(secret, f"*:*:*:*:{login[1]}\n", owner)
        _run(program, _connection(server, secret), dump, server.home, owner, wait)
    finally:
        with suppress(FileNotFoundError):
            secret.unlink()
    server.log_in_as(*login)
    return login


def _make_role(connection: Client, login: tuple[str, str]) -> None:
    user, password = login
    name = control.identifier(user)
    connection.rows(f"CREATE ROLE {name} LOGIN PASSWORD %s", (password,))
    connection.rows(f"ALTER DATABASE {control.identifier(DATABASE)} OWNER TO {name}")
    for role in _GRANTED:
        connection.rows(f"GRANT {control.identifier(role)} TO {name}")
    if control.has_extension(connection, control.CHECKS):
        for function in ("bt_index_check(regclass)", "bt_index_check(regclass, boolean)"):
            connection.rows(f"GRANT EXECUTE ON FUNCTION {function} TO {name}")


def _connection(server: Restorer, secret: Path) -> str:
    """Return the connection string of libpq for the restoring role; it names the password's file, not the password."""
    words = {"host": server.socket.parent, "port": control.PORT, "dbname": DATABASE, "user": restoring.USER,
             "passfile": secret, "sslmode": "disable", "gssencmode": "disable"}  # fmt: skip
    return " ".join(f"{name}='{_escaped(str(value))}'" for name, value in words.items())


def _escaped(value: str) -> str:
    return re.sub(r"([\\'])", r"\\\1", value)


def _run(
    program: Build, connection: str, dump: Dump, home: Path, owner: tuple[int, int] | None, wait: OnWait
) -> None:  # fmt: skip
    log = home / "restore.log"
    log.unlink(missing_ok=True)  # The log is read for errors, so it must not contain those of an earlier restore.
    with open_log(log, owner) as output, dump.path.open("rb") as archive:
        running = child_process.start(
            [str(program.binary), "--dbname", connection, *_LEFT_OUT],
            user=owner, libraries=program.libraries, output=output, folder=home, stdin=archive, own_net=True,
            watch=_limit,
        )  # fmt: skip
    try:
        while running.poll() is None:
            wait("restoring")
            if _errors(log):
                break
            time.sleep(_POLL_SECONDS)
    finally:
        if running.poll() is None:
            running.kill()
        code = running.wait()
    if errors := _errors(log):
        what = f"pg_restore cannot restore the dump: {_VALUE.sub(_hidden, errors[0])}"
        raise EngineFailure("usage", what, str(dump.path), _hint(errors[0]))
    # pg_restore also exits with 1 after a tolerated error.
    if code != 0 and not _ERROR.search(_text(log)):
        what = f"pg_restore ended without a word ({ended_by(code)})"
        raise EngineFailure("usage", what, str(dump.path), "is the dump damaged? try: pg_restore -l")


def _limit(pid: int) -> None:
    for limit, most in _LIMITS.items():
        resource.prlimit(pid, limit, (most, most))


def _text(log: Path) -> str:
    """Return a log's text, up to the limit of its file.

    Symbolic links are not followed: the server's user may create one.
    """
    descriptor = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return (file.read(_LIMITS[resource.RLIMIT_FSIZE]) or b"").decode("utf-8", "replace")


def _errors(log: Path) -> Sequence[str]:
    """Return the errors in a log of pg_restore, without the tolerated ones."""
    return [said for said in _ERROR.findall(_text(log)) if not _TOLERATED.search(said)]


def _hidden(found: re.Match[str]) -> str:
    """Return a quoted word of a message unchanged if it is a name, and masked if it may be a value."""
    return found[0] if found["known"] else '"..."'


def _hint(error: str) -> str:
    if "permission denied" in error or "must be superuser" in error or "must be owner" in error:
        return (
            "it asks for a superuser's rights, which no dump is given here: leave that object out (pg_dump "
            "--exclude-table, --exclude-schema; of extensions only trusted ones can be restored)"
        )
    if "is not available" in error or "could not open extension" in error:
        return "the private server lacks that extension: choose another by --server, or leave its tables out"
    if "end of file" in error or "could not read" in error or "out of memory" in error:
        return "the dump was cut short or is damaged: write it again"
    if "unrecognized parameter" in error:
        # An example is pg_attver, which 15.20 stores with each column: older versions of pg_dump treat it as an option
        # that the user set.
        return (
            "the dumped server has an option that this one does not know: dump with a pg_dump as new as that server's "
            "last update, which leaves it out; or choose as new a server by --server"
        )
    return "try pg_restore by hand into an empty database of this version"
