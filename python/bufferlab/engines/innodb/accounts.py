"""The accounts of a private server: bufferlab's own, one for external programs, and no others.

The load makes them once, over a socket that only the server's user and root can reach.
"""

from __future__ import annotations

from bufferlab.engines.innodb import control
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client
from bufferlab.engines.servers.identity import DATABASE, Identity

PROGRAM_USER = "bufferlab_ext"
"""The account of programs that take a password on their command line only: it has no password and sees one database."""
#: The server's own accounts. They are locked, and parts of the server need them.
_INTERNAL = ("mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys")


def make(connection: Client, identity: Identity, build: Build) -> None:
    """Make bufferlab's accounts; remove root, the anonymous accounts and the test database."""
    how = _how(build)
    control.rows(connection, f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    for name, password in ((identity.user, identity.password), (PROGRAM_USER, "")):
        control.rows(connection, f"CREATE USER '{name}'@'localhost' {how} BY %s", (password,))
    control.rows(connection, f"GRANT ALL PRIVILEGES ON *.* TO '{identity.user}'@'localhost' WITH GRANT OPTION")
    control.rows(connection, f"GRANT ALL PRIVILEGES ON {DATABASE}.* TO '{PROGRAM_USER}'@'localhost'")
    kept = (*_INTERNAL, identity.user, PROGRAM_USER)
    for told in control.rows(connection, "SELECT user, host FROM mysql.user"):
        user, host = map(control.text, told)
        if user not in kept:
            control.rows(connection, "DROP USER %s@%s", (user, host))
    control.rows(connection, "DROP DATABASE IF EXISTS test")
    control.rows(connection, "FLUSH PRIVILEGES")


def make_restorer(connection: Client, login: tuple[str, str], build: Build) -> None:
    """Make the account that restores a dump: it may do anything in the workload's database, and nothing elsewhere."""
    user, password = login
    control.rows(connection, f"CREATE USER '{user}'@'localhost' {_how(build)} BY %s", (password,))
    control.rows(connection, f"GRANT ALL PRIVILEGES ON {DATABASE}.* TO '{user}'@'localhost'")


def _how(build: Build) -> str:
    # 8.0's own default asks for a key exchange when a program is not on the socket; every client has this plugin.
    native = build.flavour == "mysql" and (5, 7, 6) <= build.numbers < (8, 4)
    return "IDENTIFIED WITH mysql_native_password" if native else "IDENTIFIED"
