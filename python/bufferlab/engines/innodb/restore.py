"""Restores a mysqldump into the workload's empty database of a private server, statement by statement.

The mysql client is not used. It would execute client commands in the dump, fetched builds do not have it, and each
statement must pass dump_rules.py. The connection allows only one statement at a time (no CLIENT_MULTI_STATEMENTS).
"""

from __future__ import annotations

import re
import secrets
from contextlib import closing

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.innodb import accounts, control
from bufferlab.engines.innodb.dump_rules import Rules, require_plain_quotes
from bufferlab.engines.innodb.dump_text import MOST_STATEMENT_BYTES, DumpTextError, Splitter, version_id
from bufferlab.engines.servers import restoring
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import Client, ServerError
from bufferlab.engines.servers.data_folder import DATABASE, Identity
from bufferlab.engines.servers.restoring import Dump, Restorer
from bufferlab.engines.servers.signs_of_life import OnWait

_PACKET_BYTES = MOST_STATEMENT_BYTES + (1 << 20)
_VALUES = re.compile(r"'.*'(?= for (?:key|column) '[^']*'(?: at row [0-9]+)?\Z)|['\"].*['\"]", re.DOTALL)
"""Matches a message from its first to its last quote, except a key's or column's name at its end.

No server escapes the quotes of a value in its messages: "Duplicate entry 'O'Brien' for key 'name'".
"""
_LEXER_SETTINGS = "SELECT CONCAT(@@SESSION.sql_mode, ' ', @@SESSION.character_set_client)"
"""The query for the settings that decide where the server ends a quoted text."""
_OF_VALUES = frozenset(
    ("1048", "1062", "1171", "1215", "1216", "1217", "1230", "1263", "1264", "1265", "1292", "1366", "1367", "1406",
     "1441", "1451", "1452", "1586")
)  # fmt: skip
"""The error codes whose messages may contain values of rows: duplicates, foreign keys, NULL, and values that do not
fit."""


def restore(
    server: Restorer, build: Build, dump: Dump, identity: Identity, owner: tuple[int, int] | None, wait: OnWait
) -> tuple[str, str]:
    """Restore the dump; return the login for the data, which is the login of the identity.

    The server must already have the identity's account and the empty database. Raises EngineFailure with the dump's
    line.
    """
    dump.head(build)
    login = (restoring.USER, secrets.token_urlsafe(24))
    with closing(server.connect()) as connection:
        connection.rows(f"SET GLOBAL max_allowed_packet = {_PACKET_BYTES}")
        accounts.make_restorer(connection, login, build)
    server.log_in_as(*login)
    with closing(server.connect(DATABASE, patient=True)) as connection, dump.path.open("rb") as file:
        rules = Rules()
        try:
            for statement in Splitter(file, build.flavour, version_id(build.numbers)):
                if (judged := rules.judge(statement)) is not None:
                    kind, text = judged
                    _send(connection, text, f"{dump.path}:{statement.line}", has_values=kind == "rows")
                    if kind == "setting":
                        # Stored code of the dump cannot change these settings for later statements: the server restores
                        # both settings after it (sp_head.cc, execute).
                        ((told,),) = connection.rows(_LEXER_SETTINGS)
                        require_plain_quotes(statement, control.text(told).encode())
        except DumpTextError as error:
            raise EngineFailure("usage", error.what, f"{dump.path}:{error.line}", error.hint) from error
        connection.rows("COMMIT")
    server.log_in_as(identity.user, identity.password)
    return (identity.user, identity.password)


def _send(connection: Client, text: bytes, place: str, *, has_values: bool) -> None:
    try:
        connection.ask(text)
    except ServerError as error:
        # A statement that creates an index over rows can also fail, with values of these rows in the message.
        raise _failure(error, place, has_values=has_values or error.code in _OF_VALUES) from None


def _failure(error: ServerError, place: str, *, has_values: bool) -> EngineFailure:
    """Return the failure in the server's words, without values of rows, because results store these words."""
    said = _VALUES.sub("'...'", error.message, count=1) if has_values else error.message
    what = f"the server refuses a statement of the dump: {said} (error {error.code})"
    hint = "restore it by hand into a server of this version to see more; was it taken of another version?"
    return EngineFailure("usage", what, place, hint)
