"""Groups the statements of a log into transactions, session by session, and keeps the values seen of each kind.

A transaction's kind is the sequence of its statements' forms. The numbers of sessions and kinds, and the bytes of
values, are limited. If not all values fit, a uniform sample of them is kept (Vitter, "Random Sampling with a
Reservoir", 1985, Algorithm R).
"""

from __future__ import annotations

import random
import re
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bufferlab.slow_log.digest import SqlStatement
from bufferlab.slow_log.entries import LogEntry
from bufferlab.slow_log.named_tables import OF_SEVERAL_SCHEMAS
from bufferlab.slow_log.statement_cache import StatementReader
from bufferlab.slow_log.tokens import UnreadableError, Value, words

By = Literal["transaction", "statement"]

_MOST_SESSIONS = 10_000
_MOST_STATEMENTS = 200
"""The most statements of a transaction that a script repeats."""
_MOST_KINDS = 4_000
_MOST_VALUE_BYTES = 48 << 20
_MOST_TEXT_BYTES = 32 << 20
"""The limit, in bytes, for the texts of all kinds, and for the statements of all open transactions."""
_VALUE_BYTES = 60
"""The bytes of memory that a value takes in addition to its text."""
_MOST_DIGEST = 1_000
"""The maximum number of characters of a digest that are kept."""

_WORK = frozenset(("SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH"))
_SPOILING = _WORK | {"ROLLBACK", "CALL", "EXECUTE", "LOAD", "HANDLER"}
"""The first words of statements that do work or undo it.

If a script cannot contain such a statement, the script leaves out its whole transaction, which would do other work
without it.
"""
_COMMITTING = frozenset(("CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "GRANT", "REVOKE", "LOCK"))
"""The first words of statements that commit implicitly (MySQL Reference Manual, "Statements That Cause an Implicit
Commit")."""
_NAMED = _COMMITTING | words(
    "ANALYZE CALL CHECK DEALLOCATE DESC DESCRIBE DO EXECUTE EXPLAIN FLUSH HANDLER KILL LOAD OPTIMIZE PREPARE RESET SET "
    "SHOW UNLOCK USE XA"
)
_FIRST_WORD = re.compile(
    r"(?:\s+|\(|--\s[^\n]*\n|#[^\n]*\n|/\*(?![!+]|M!).*?\*/|/\*M?![0-9]*)*+([A-Za-z]+)(?:\s+([A-Za-z]+))?", re.DOTALL
)
_AUTOCOMMIT = re.compile(r"\bautocommit\s*:?=\s*'?(0|1|on|off|true|false)\b", re.IGNORECASE)
_TIME = re.compile(r"\s*SET\s+(?:SESSION\s+|LOCAL\s+|@@(?:SESSION\.|LOCAL\.)?)?timestamp\s*:?=[^,]*\Z", re.IGNORECASE)
_CHAINS = re.compile(r"\bAND\s+CHAIN\b", re.IGNORECASE)
_LEAVING = ("Quit", "Change user", "Reset connection")
_MOST_UNDECIDED = 200
"""The most steps of a connection that are held back while it is unknown whether autocommit is on."""
_TEMPORARY = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?TEMPORARY\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:[\w$`]+\s*\.\s*)?"
    r"`?([\w$]{1,64}+)(?![\w$]|`?\s*\.)",
    re.IGNORECASE,
)
"""Matches a statement that makes a temporary table.

The pattern limits the name to the servers' own limit, because many names are kept.
"""


@dataclass
class Kind:
    """All transactions of one form. `samples` are the values of these transactions, or of a uniform sample of them."""

    PRINTED: ClassVar = ("digests", "count", "seconds")

    schema: str
    statements: tuple[tuple[str, ...], ...]
    """The texts between the values of each statement, as in SqlStatement."""
    digests: tuple[str, ...]
    frame: str
    """The word that ends the transaction (COMMIT or ROLLBACK); "" for a single statement in autocommit."""
    first: list[Value]
    """The values of the first transaction, with None in place of each value that varies."""
    count: int = 0
    seconds: float = 0.0
    varies: list[bool] = field(default_factory=list)
    """Whether each value differs between transactions."""
    samples: list[tuple[Value, ...]] = field(default_factory=list)


@dataclass
class Tally:
    """The number of a digest's statements, and the time that they took."""

    count: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _Step:
    """A statement of a connection, or the end of a transaction that did not begin with BEGIN."""

    end: str = ""
    """The word that ends the transaction, COMMIT or ROLLBACK; "" for a statement."""
    statement: SqlStatement | None = None
    """The statement; None if no script can contain it."""
    seconds: float = 0.0
    spoils: bool = False
    """Whether scripts must leave the whole transaction out, because they would lack this statement."""


@dataclass
class _Session:
    schema: str = ""
    opened: list[SqlStatement] | None = None
    """The statements of the open transaction; None if there is none."""
    seconds: float = 0.0
    autocommit: bool | None = None
    """Whether autocommit is on; None while that is unknown."""
    undecided: list[_Step] = field(default_factory=list)
    """The steps held back until autocommit is known."""
    whole: bool = True
    """Whether a script can contain every statement of the open transaction."""
    held_bytes: int = 0
    guessed: bool = False
    """Whether `autocommit` was guessed, because the log has no SET for it."""
    noted: bool = False
    """Whether the session was counted in `Transactions.without_autocommit`."""


class Transactions:
    """The kinds of transactions of a log, and the numbers of statements that a script cannot contain.

    If the log does not show whether a connection's autocommit is on, that is guessed once for the whole connection. If
    the connection has neither SET autocommit nor BEGIN, autocommit is taken to be on, unless it has a COMMIT.
    """

    def __init__(self, by: By = "transaction", ansi_quotes: bool = False) -> None:
        self.by = by
        self._reader = StatementReader(ansi_quotes)
        self.kinds: dict[tuple[object, ...], Kind] = {}
        self.digests: dict[str, Tally] = {}
        self.left_out: Counter[str] = Counter()
        """Reason -> number of statements that are left out for this reason."""
        self.statements = 0
        """The number of all statements, including those that are left out."""
        self.entries = 0
        """The number of all entries: statements, including those that begin and end transactions, and commands."""
        self.seconds = 0.0
        self.rollbacks_of_nothing = 0
        self.without_autocommit = 0
        """The number of connections whose COMMIT without a BEGIN showed that autocommit is off."""
        self.without_session = 0
        self.sampled = False
        self.starts = 0
        self._sessions: OrderedDict[int, _Session] = OrderedDict()
        self._opened_again = False
        """Whether a file began with the lines that a server writes when it starts or reopens its log."""
        self._largest = 0
        """The largest connection number since the server's start."""
        self._temporary: set[str] = set()
        self._random = random.Random(0)
        self._most_samples = 1 << 20
        self._value_bytes = 0
        self._text_bytes = 0
        self._held_bytes = 0
        """The memory, in bytes, that open transactions take."""

    def take(self, entry: LogEntry) -> None:
        """Process the next entry of the log."""
        if entry.command == "start":
            self.starts += 1
            self.end()
            return
        if entry.command == "open":
            self._opened_again = True
            return
        if entry.session is not None:
            self._require_same_server(entry.session)
        self.entries += 1
        if entry.unread:
            self.statements += 1
            self.seconds += entry.seconds
            self.left_out[entry.unread] += 1
            if session := self._session(entry):
                self._do(session, _Step(spoils=True))
            return
        if entry.command:
            if entry.command in _LEAVING and entry.session is not None and entry.session in self._sessions:
                self._leave(entry.session)
            return
        self.sampled |= entry.sampled
        word, second = _words(entry.sql)
        session = self._session(entry)
        if self._control(session, word, second, entry):
            return
        self.statements += 1
        self.seconds += entry.seconds
        statement, spoils = self._read(entry, word)
        if session is None:
            if statement:
                self._add([statement], "", entry.seconds)
            return
        # A transaction's time does not include statements that are left out.
        self._do(session, _Step("", statement, entry.seconds if statement else 0.0, spoils))

    def _require_same_server(self, number: int) -> None:
        """End all sessions if this connection number shows that the server was restarted.

        Numbers grow until a restart. So an unknown number that is not above the largest one comes after a restart.
        """
        if self._opened_again and number <= self._largest:
            if number not in self._sessions:
                self.starts += 1
                self.end()
                self._largest = 0
            self._opened_again = False
        self._largest = max(self._largest, number)

    def _do(self, session: _Session, step: _Step) -> None:
        """Apply a step to its session's transaction, or hold it back until autocommit is known."""
        if session.opened is None and session.autocommit is None:
            if step.statement or step.end or step.spoils:
                session.undecided.append(step)
                self._hold(session, _step_bytes(step))
                if len(session.undecided) >= _MOST_UNDECIDED:
                    self._decide(session, autocommit=True)
            return
        if session.opened is None and session.autocommit is False:
            self._open(session)
        if step.end:
            self.rollbacks_of_nothing += session.opened is None and session.guessed and step.end == "ROLLBACK"
            self._close(session, step.end)
            return
        if session.opened is None:
            if step.statement:
                self._add([step.statement], "", step.seconds)
            return
        session.seconds += step.seconds
        session.whole &= not step.spoils
        if step.statement:
            if not session.opened:
                session.schema = step.statement.schema
            session.whole &= step.statement.schema == session.schema
            session.opened.append(step.statement)
            is_too_long = len(session.opened) > _MOST_STATEMENTS
            self._hold(session, _step_bytes(step))  # This may end the session.
            if is_too_long and session.opened:
                self._too_long(session)

    def _decide(self, session: _Session, *, autocommit: bool) -> None:
        """Guess autocommit for a session from its first statement on, and apply the steps held back."""
        session.autocommit, session.guessed = autocommit, True
        steps, session.undecided = session.undecided, []
        self._held_bytes -= session.held_bytes
        session.held_bytes = 0
        for step in steps:
            self._do(session, step)

    def end(self) -> None:
        """End all sessions, and leave out their open transactions."""
        for number in list(self._sessions):
            self._leave(number)

    def _session(self, entry: LogEntry) -> _Session | None:
        if entry.session is None:
            self.without_session += 1
        if entry.session is None or self.by == "statement":
            return None
        session = self._sessions.get(entry.session)
        if session is None:
            if len(self._sessions) >= _MOST_SESSIONS:
                self._leave(next(iter(self._sessions)))
            session = self._sessions[entry.session] = _Session()
        self._sessions.move_to_end(entry.session)
        return session

    def _hold(self, session: _Session, size_bytes: int) -> None:
        """Add the memory of a session's step. If all steps take too much, drop the sessions that were idle longest."""
        session.held_bytes += size_bytes
        self._held_bytes += size_bytes
        while self._held_bytes > _MOST_TEXT_BYTES and self._sessions:
            self._leave(next(iter(self._sessions)))

    def _leave(self, number: int) -> None:
        session = self._sessions.pop(number)
        if session.autocommit is None:
            self._decide(session, autocommit=True)
        if statements := self._taken(session):
            self.left_out["in a transaction without an end"] += len(statements)

    def _open(self, session: _Session) -> None:
        session.opened, session.seconds, session.whole = [], 0.0, True

    def _taken(self, session: _Session) -> list[SqlStatement]:
        """Close a session's transaction and return its statements."""
        statements, session.opened = session.opened or [], None
        self._held_bytes -= session.held_bytes
        session.held_bytes = 0
        return statements

    def _control(self, session: _Session | None, word: str, second: str, entry: LogEntry) -> bool:
        """If a statement begins or ends a transaction or sets autocommit, apply this to the session.

        Return whether the statement does nothing else.
        """
        is_set = word == "SET" and (found := _AUTOCOMMIT.search(entry.sql)) is not None
        is_start = word == "BEGIN" or (word == "START" and second == "TRANSACTION")
        is_end = word in ("COMMIT", "ROLLBACK") and not (word == "ROLLBACK" and _goes_back(entry.sql))
        says_no_more = is_start or is_end or word == "USE" or (word == "SET" and _TIME.match(entry.sql) is not None)
        if session is None or entry.failed:
            return says_no_more
        if word in _COMMITTING:
            self._do(session, _Step("COMMIT"))
        if is_start:
            self._settle(session)
            self._close(session, "COMMIT")
            self._open(session)
        elif is_end:
            self._end(session, word)
            if _CHAINS.search(entry.sql):
                self._settle(session)
                self._open(session)
        elif is_set and found:
            self._settle(session)
            self._close(session, "COMMIT")
            session.autocommit, session.guessed = found[1].lower() in ("1", "on", "true"), False
        return says_no_more

    def _settle(self, session: _Session) -> None:
        """Assume that a session's autocommit is on if it is unknown."""
        if session.autocommit is None:
            self._decide(session, autocommit=True)

    def _end(self, session: _Session, word: str) -> None:
        """End a session's transaction by COMMIT or ROLLBACK, even if the log does not show its begin."""
        is_known = session.autocommit is False or (session.autocommit and not session.guessed)
        if session.opened is None and word == "COMMIT" and not is_known:
            # The COMMIT ends a transaction without a BEGIN in the log, so autocommit was already off when the log
            # began.
            self.without_autocommit += not session.noted
            session.noted = True
            self._decide(session, autocommit=False)
        self._do(session, _Step(word))

    def _close(self, session: _Session, word: str) -> None:
        statements = self._taken(session)
        if statements and session.whole:
            self._add(statements, word, session.seconds)
        elif statements:
            self.left_out["in a transaction with a statement that is left out"] += len(statements)

    def _too_long(self, session: _Session) -> None:
        statements = self._taken(session)
        if session.guessed and session.autocommit is False:
            session.autocommit = True
            for statement in statements:
                self._add([statement], "", session.seconds / len(statements))
        else:
            self.left_out[f"in a transaction of more than {_MOST_STATEMENTS} statements"] += len(statements)

    def _read(self, entry: LogEntry, word: str) -> tuple[SqlStatement | None, bool]:
        """Return an entry's statement (None if it is left out), and whether its transaction is left out with it."""
        spoils = word in _SPOILING and not (entry.failed or entry.inside)
        if entry.failed:
            self.left_out["that failed"] += 1
        elif entry.inside:
            self.left_out["of a stored routine"] += 1
        elif word in ("SAVEPOINT", "RELEASE", "ROLLBACK"):
            self.left_out["SAVEPOINT"] += 1
        elif word not in _WORK:
            self.left_out[word if word in _NAMED else "of another kind"] += 1
            if (found := _TEMPORARY.match(entry.sql)) and len(self._temporary) < _MOST_KINDS:
                self._temporary.add(found[1])
        else:
            return self._work(entry)
        return None, spoils

    def _work(self, entry: LogEntry) -> tuple[SqlStatement | None, bool]:
        try:
            statement = self._reader.read(entry.sql, entry.schema)
        except UnreadableError as error:
            self.left_out[f"with {error}"] += 1
            return None, True
        if statement.why_not:
            self.left_out[statement.why_not] += 1
            return None, statement.why_not == OF_SEVERAL_SCHEMAS
        if self._temporary and not self._temporary.isdisjoint(re.findall(r"[\w$]+", statement.digest)):
            self.left_out["of a temporary table"] += 1
            return None, True
        digest = statement.digest[:_MOST_DIGEST]
        if digest not in self.digests and len(self.digests) >= _MOST_KINDS:
            _forget_rare(self.digests)
        tally = self.digests.setdefault(digest, Tally())
        tally.count += 1
        tally.seconds += entry.seconds
        return statement, False

    def _add(self, statements: Sequence[SqlStatement], frame: str, seconds: float) -> None:
        schema = statements[0].schema
        key = (schema, frame, *(statement.parts for statement in statements))
        values = tuple(value for statement in statements for value in statement.values)
        kind = self.kinds.get(key)
        if kind is None:
            if len(self.kinds) >= _MOST_KINDS:
                self._forget_kinds()
            self._text_bytes += sum(map(_text_bytes, statements))
            if self._text_bytes > _MOST_TEXT_BYTES:
                self._forget_kinds()
            digests = tuple(statement.digest[:_MOST_DIGEST] for statement in statements)
            parts = tuple(statement.parts for statement in statements)
            kind = self.kinds[key] = Kind(schema, parts, digests, frame, list(values), varies=[False] * len(values))
        kind.count += 1
        kind.seconds += seconds
        for at, (value, first) in enumerate(zip(values, kind.first, strict=True)):
            if value != first or type(value) is not type(first):
                kind.varies[at], kind.first[at] = True, None  # From now on only `samples` have the value.
        if len(kind.samples) < self._most_samples:
            kind.samples.append(values)
            self._value_bytes += _memory(values)
        elif (place := self._random.randrange(kind.count)) < self._most_samples:
            self._value_bytes += _memory(values) - _memory(kind.samples[place])
            kind.samples[place] = values
        if self._value_bytes > _MOST_VALUE_BYTES:
            self._thin()

    def _thin(self) -> None:
        """Halve the samples of the kinds with most samples. A random part of a uniform sample is uniform too."""
        most = max(len(kind.samples) for kind in self.kinds.values())
        self._most_samples = max(1, most // 2)
        for kind in self.kinds.values():
            if len(kind.samples) > self._most_samples:
                kind.samples = self._random.sample(kind.samples, self._most_samples)
        self._value_bytes = sum(_memory(values) for kind in self.kinds.values() for values in kind.samples)
        if self._most_samples == 1 and self._value_bytes > _MOST_VALUE_BYTES:
            self._forget_kinds()

    def _forget_kinds(self) -> None:
        """Leave out the rarer half of the kinds."""
        rare = sorted(self.kinds, key=lambda key: self.kinds[key].count)[: (len(self.kinds) + 1) // 2]
        for key in rare:
            kind = self.kinds.pop(key)
            self._value_bytes -= sum(map(_memory, kind.samples))
            self._text_bytes -= sum(_text_bytes(parts) for parts in kind.statements)
            self.left_out["in transactions of rare kinds"] += kind.count * len(kind.statements)


def _forget_rare(tallies: dict[str, Tally]) -> None:
    for digest in sorted(tallies, key=lambda digest: tallies[digest].count)[: len(tallies) // 2]:
        del tallies[digest]


def _step_bytes(step: _Step) -> int:
    return _text_bytes(step.statement) + _memory(step.statement.values) if step.statement else _VALUE_BYTES


def _text_bytes(of: SqlStatement | tuple[str, ...]) -> int:
    """Return an estimate of the memory, in bytes, that a statement's form takes."""
    parts = of.parts if isinstance(of, SqlStatement) else of
    return 50 * len(parts) + sum(map(len, parts))


def _memory(values: tuple[Value, ...]) -> int:
    return _VALUE_BYTES * (1 + len(values)) + sum([len(value) for value in values if isinstance(value, (str, bytes))])


def _words(sql: str) -> tuple[str, str]:
    """Return the first two words of a statement in capitals; "" for a missing word."""
    found = _FIRST_WORD.match(sql)
    return (found[1].upper(), (found[2] or "").upper()) if found else ("", "")


def _goes_back(sql: str) -> bool:
    """Return whether a ROLLBACK only returns to a savepoint, and so does not end the transaction."""
    return re.match(r"\s*ROLLBACK\s+(?:WORK\s+)?TO\b", sql, re.IGNORECASE) is not None
