"""Changes settings of somebody else's running server for one run, and puts them back even after a crash.

Settings belong to the server, not to a schema or a URL. So one run at a time may change them: it holds a lock that the
server keeps for one connection, and that ends with its holder. The values found are written down before the first
change: in the journal on this host, and in the mark of the schema, which tells a bufferlab with another cache.

Only the journal puts back, and a value only while it is still the one we set; any other value was set by its owner.
Whoever may write in the schema may write its mark, so the mark names values and sets none.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from bufferlab.engines.behaviour import EngineFailure, failure_of
from bufferlab.engines.servers.existing import journal
from bufferlab.engines.servers.existing.address import Address, Form, parse
from bufferlab.engines.servers.existing.journal import Journal, Record
from bufferlab.engines.servers.signs_of_life import OnWait
from bufferlab.errors import BufferlabError, DataFileError, EnvironmentLackingError, Problem

ALLOW = "--allow-online-changes"
CHANGING = "online-changes"
"""The lock of a run that may change settings. No schema has this name, which has a hyphen."""
SWEEP = "online-changes-sweep"
"""The lock of a sweep whose runs may change settings: between two of its runs no other sweep begins."""
LOCK_SECONDS = 5.0
"""How long to wait for a lock whose holder may be ending."""
_BUSY = "another run of bufferlab may change this server's settings"
_GLANCE_SECONDS = 1.0
"""A killed holder's connection ends within this time; a live one's does not."""
_SHOWN, _LONGEST = 3, 60
"""The settings and the characters that a message repeats of a mark: its writer chose how many there are."""


class Settings(ABC):
    """How a family's settings are locked, changed and put back while a server runs.

    `change` and `restore` are called only while this process holds the lock CHANGING. Settings are read and changed
    over connections of `connect`, marks are read and written over those of `reader` and `holding`.
    """

    unusable: tuple[type[Exception], ...]
    """The exceptions of the family's client when the server fails a statement."""
    opened: Callable[[Address], Any]
    """Opens a connection that enters no schema of ours, and whose reads time out; the caller closes it."""
    opened_for_lock: Callable[[Address], Any]
    """Opens such a connection for a lock and for marks, which may wait for others."""
    records: Callable[[Any], dict[str, str]]
    """Returns the texts of the records in the marks that the account may see, by schema. Runs no code of others."""
    record: Callable[[Any, str, str | None], None]
    """Replaces the record in a schema's mark; None removes it. Runs no code of others with our rights."""

    def connect(self, address: Address) -> Any:
        """Open a connection that may change settings, as the URL's `admin_user` if it names one."""
        return self.opened(address.admin)

    def reader(self, address: Address) -> Any:
        """Open a connection of the URL's user."""
        return self.opened(address)

    @contextmanager
    def holding(self, address: Address, lock: str, seconds: float) -> Iterator[Any]:
        """Context manager for a new connection of the URL's user that holds the lock; None if another has it that long.

        A new one for each lock: before MySQL 5.7.5 a second lock of a connection releases the first.
        """
        with closing(self.opened_for_lock(address)) as connection:
            yield connection if self.lock(connection, lock, seconds) else None

    @abstractmethod
    def lock(self, connection: Any, lock: str, seconds: float) -> bool:
        """Take the lock for as long as the connection lives; return False if another has it that long.

        The server must release it when the connection ends, for any reason.
        """

    @abstractmethod
    def is_held(self, connection: Any, lock: str) -> bool:
        """Return whether any connection holds the lock."""

    @abstractmethod
    def identity(self, connection: Any) -> str:
        """Return a file name that identifies the server: the same for every URL and account that reach it."""

    def since(self, connection: Any) -> str:
        """Return a text that differs after a restart that undid our changes; constant where no restart undoes them."""
        return ""

    @abstractmethod
    def found(self, connection: Any, address: Address, wanted: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Return, by variable, the entry of a record: `found`, the value now, and what `restore` needs to know.

        Changes nothing. Raises EngineFailure when one of them cannot be changed while the server runs.
        """

    @abstractmethod
    def change(
        self, connection: Any, address: Address, name: str, value: str, on_wait: OnWait, on_set: Callable[[], None]
    ) -> None:
        """Give a variable another value, and wait until the server runs with it. Raises EngineFailure, which names it.

        Before: the record with its `found` value is kept. Calls `on_set` once the server tells the new value.
        """

    def settle(self, connection: Any) -> None:
        """Wait until no change is under way: until then a variable may tell its value of before."""
        return  # On most servers none is, once the statement has ended.

    @abstractmethod
    def now(self, connection: Any, variables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the present values of a record's variables, in the form of `found`; leave out those that are gone.

        A stranger may have written the entries: one that does not say where its variable was changed is left out.
        """

    @abstractmethod
    def restore(self, connection: Any, name: str, entry: Mapping[str, Any]) -> None:
        """Give a variable the value that its record's entry says was found."""

    def statement(self, schema: str, name: str, entry: Mapping[str, Any]) -> str | None:
        """Return the statement by which an owner gives a variable the value that an entry says was found.

        None unless a knob of this family has that variable and can have that value: a stranger may have written both.
        """
        return None


class Turn:
    """The right of one run to change a server's settings; no other run has it at the same time."""

    def __init__(self, settings: Settings, address: Address, lock: Any, file: Journal) -> None:
        self._settings, self._address, self._lock, self.journal = settings, address, lock, file
        self.left: list[str] = []
        """The variables that earlier runs had left changed and that this one has put back."""

    @contextmanager
    def changed(self, wanted: Mapping[str, str], on_wait: OnWait) -> Iterator[None]:
        """Context manager that gives the server these variables; leaving puts the server's own values back.

        Raises EngineFailure, which names it, when a variable cannot be changed while the server runs. What was
        changed before it is put back.
        """
        if not wanted:
            yield
            return
        try:
            # Closed before the block: no connection that may change settings is open while others' code may run.
            with closing(self._settings.connect(self._address)) as connection:
                self._change(connection, wanted, on_wait)
            yield
        except Exception as error:
            try:
                self.put_back()
            except BufferlabError as second:
                # Why the run failed matters more than that the settings are still changed: the error says both.
                raise _both(error, second, wanted) from error
            except self._settings.unusable as second:
                raise _both(error, second, wanted) from error
            raise
        self.put_back()
        self._require_lock()

    def _change(self, connection: Any, wanted: Mapping[str, str], on_wait: OnWait) -> None:
        settings, address = self._settings, self._address
        record = Record(address.url, settings.since(connection), settings.found(connection, address, wanted))
        for entry in record.variables.values():
            entry["ours"] = entry["found"]  # Not begun: any other value is the owner's.

        def keep() -> None:
            self.journal.write(record)
            settings.record(self._lock, address.schema, replace(record, url="").text())

        for name, value in wanted.items():
            entry = record.variables[name]
            del entry["ours"]  # From now on, until it is read back, another value than the owner's is ours.
            keep()

            def on_set(name: str = name, entry: dict[str, Any] = entry) -> None:
                # The server may have rounded it, so read the value back.
                entry["ours"] = settings.now(connection, {name: entry})[name]
                keep()

            settings.change(connection, address, name, value, on_wait, on_set)

    def put_back(self) -> list[str]:
        """Put back what the journal says is changed and is still so; return the variables' names."""
        record, names = self.journal.read(), list[str]()
        # A new connection, because the one that changed them may have failed.
        with closing(self._settings.connect(self._address)) as connection:
            self._settings.settle(connection)
            if record:
                names = _put_back(self._settings, connection, record)
            self._told_by_marks(connection)
        self.journal.clear()
        return sorted(names)

    def require_none_left(self) -> None:
        """Raise EngineFailure when a mark says that a setting is changed, it still is, and no journal here says so."""
        with closing(self._settings.connect(self._address)) as connection:
            for schema, told in self._told_by_marks(connection).items():
                raise EngineFailure(
                    "environment",
                    told,
                    f"{self._address.server}/{schema}",
                    "put it back by hand, or by bufferlab doctor on the host and with the cache of that run; "
                    f"then, or if no run wrote this: bufferlab doctor --forget-mark {self._address.at(schema)}",
                )

    def _told_by_marks(self, connection: Any) -> dict[str, str]:
        """Return, by schema, what the marks say is still changed; remove the records that say nothing true any more."""
        settings, told = self._settings, {}
        for schema, text in settings.records(self._lock).items():
            if said := _said_by_mark(settings, connection, schema, text):
                told[schema] = said
            else:
                # If the account may not write there, the record stays.
                with suppress(EngineFailure, *settings.unusable):
                    settings.record(self._lock, schema, None)
        return told

    def _require_lock(self) -> None:
        """Raise EngineFailure when the lock was lost while settings were changed: others may have changed them too."""
        held = False
        with suppress(*self._settings.unusable):
            held = self._settings.is_held(self._lock, CHANGING)
        if not held:
            what = "the connection that kept other runs from changing this server's settings was cut"
            raise EngineFailure("io", what, self._address.place, "run it again")


@contextmanager
def turn(settings: Settings, address: Address, seconds: float = LOCK_SECONDS) -> Iterator[Turn]:
    """Context manager for the right to change a server's settings; entering puts back what earlier runs left.

    Raises EngineFailure while another run has it.
    """
    with _turn(settings, address, seconds) as mine:
        if mine is None:
            raise EngineFailure("environment", _BUSY, address.place, "wait for it to end")
        mine.left = mine.put_back()
        mine.require_none_left()
        yield mine


@contextmanager
def reserved(settings: Settings, addresses: Collection[Address]) -> Iterator[list[tuple[str, list[str]]]]:
    """Context manager for a sweep's right to change the settings of these servers; no other sweep has it meanwhile.

    Yields (URL, variables) of what entering put back. Raises EnvironmentLackingError while another sweep has a server.
    """
    with ExitStack() as stack:
        servers, done = set[str](), []
        for address in addresses:
            try:
                with closing(settings.connect(address)) as connection:
                    server = settings.identity(connection)
                if server in servers:
                    continue
                servers.add(server)
                if stack.enter_context(settings.holding(address, SWEEP, LOCK_SECONDS)) is None:
                    what = "another sweep of bufferlab may change this server's settings"
                    hint = f"wait for it to end, or leave out {ALLOW}"
                    raise EnvironmentLackingError(what, address.place, hint)
                with turn(settings, address) as mine:
                    done.append((address.url, mine.left))
            except EngineFailure as error:
                raise EnvironmentLackingError(error.what, error.where, error.hint) from error
            except settings.unusable as error:
                raise EnvironmentLackingError(f"the server said: {_said(error)}", address.place) from error
        yield done


def put_back_everywhere(
    settings: Settings, form: Form, urls: Collection[str] | None = None
) -> list[tuple[str, list[str] | Problem]]:
    """Put back what killed runs left changed on a family's servers: those at `urls`, or all that have a journal here.

    Return each server's URL with the variables that were put back, or with the reason why they were not.
    """
    done: list[tuple[str, list[str] | Problem]] = []
    for path, record in journal.every():
        if urlsplit(record.url).scheme not in form.schemes or (urls is not None and record.url not in urls):
            continue
        try:
            with _turn(settings, parse(record.url, form), _GLANCE_SECONDS) as mine:
                if mine is None:
                    continue  # A run is using the server now, and will put its changes back itself.
                if mine.journal.path != path:
                    what = "another server answers at this URL now"
                    hint = "if the server whose settings were changed is no more, delete this file"
                    raise EnvironmentLackingError(what, str(path), hint)
                done.append((record.url, mine.put_back()))
        except BufferlabError as error:
            done.append((record.url, Problem(error.what, error.where, error.hint)))
        except settings.unusable as error:
            done.append((record.url, Problem(_said(error), str(path))))
    return done


def left(settings: Settings, address: Address) -> list[str]:
    """Return a sentence for each setting that an earlier run left changed, or that another may change now.

    Changes nothing.
    """
    with closing(settings.connect(address)) as connection:
        if settings.is_held(connection, CHANGING):
            return ["another run of bufferlab may change this server's settings at the same time"]
        said = list[str]()
        try:
            if record := journal.read(journal.path_of(settings.identity(connection))):
                said += [f"{name} is {now}, as an earlier run of bufferlab left it; it was {entry['found'] or 'unset'}"
                         for name, (now, entry) in _still_ours(settings, connection, record).items()]  # fmt: skip
        except (DataFileError, EngineFailure) as error:
            said.append(f"{error.what} ({error.where}): it says what an earlier run left changed on this server")
        if said:
            return said
        with closing(settings.reader(address)) as reader:
            marks = settings.records(reader)
        told = (_said_by_mark(settings, connection, schema, text) for schema, text in marks.items())
        return [sentence for sentence in told if sentence]


def forget(settings: Settings, address: Address) -> str | None:
    """Remove the record of changed settings from a schema's mark; return what it said, None when there was none.

    Puts nothing back. Raises EngineFailure while a run may change the server's settings.
    """
    with settings.holding(address, CHANGING, _GLANCE_SECONDS) as lock:
        if lock is None:
            raise EngineFailure("environment", _BUSY, address.place, "wait for it to end")
        text = settings.records(lock).get(address.schema)
        if text is not None:
            settings.record(lock, address.schema, None)
        return text


@contextmanager
def _turn(settings: Settings, address: Address, seconds: float) -> Iterator[Turn | None]:
    """Context manager for the right, before anything is put back; yields None while another run has it."""
    with settings.holding(address, CHANGING, seconds) as lock:
        if lock is None:
            yield None
            return
        with journal.held(settings.identity(lock)) as file:
            yield Turn(settings, address, lock, file) if file else None


def _said_by_mark(settings: Settings, connection: Any, schema: str, text: str) -> str | None:
    """Return what a mark says is still changed, as the words of a stranger; None when it says nothing that is true."""
    try:
        ours = _still_ours(settings, connection, Record.parse(text, schema))
    except (DataFileError, EngineFailure) as error:
        return f"the mark of {schema}, written by whoever may write there, tells of changed settings: {error.what}"
    if not ours:
        return None
    told = [
        f"{_quoted(name)} is {_quoted(now)}, it was {_quoted(entry['found'])}" for name, (now, entry) in ours.items()
    ]
    by_hand = [said for name, (_, entry) in ours.items() if (said := settings.statement(schema, name, entry))]
    more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return (
        f"the mark of {schema}, written by whoever may write there, says that an earlier run changed settings, and no "
        f"journal here says so: {'; '.join(told[:_SHOWN])}{more}; bufferlab puts nothing back by that word alone"
        + (f". By hand: {'; '.join(by_hand[:_SHOWN])}" if by_hand else "")
    )


def _quoted(value: object) -> str:
    """Return a stranger's value as JSON, which escapes what a terminal obeys; a long one is cut."""
    text = "not set" if value is None else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def _still_ours(settings: Settings, connection: Any, record: Record) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return (present value, entry) of each variable in a record that still has the value a bufferlab run gave it."""
    if record.since != settings.since(connection):
        return {}
    now = settings.now(connection, record.variables)
    # Without `ours` the run was killed between the change and its note: another value than the owner's is ours.
    return {name: (now[name], entry) for name, entry in record.variables.items()
            if name in now and now[name] != entry["found"] and now[name] == entry.get("ours", now[name])}  # fmt: skip


def _put_back(settings: Settings, connection: Any, record: Record) -> list[str]:
    """Put back the values that are still ours, the last change first; return their variables."""
    ours = _still_ours(settings, connection, record)
    for name, (_, entry) in reversed(ours.items()):
        settings.restore(connection, name, entry)
    return list(ours)


def _both(error: Exception, second: Exception, wanted: Mapping[str, Any]) -> EngineFailure:
    """Return the failure that says why the run failed, and why the settings could not be put back after it."""
    first = failure_of(error)
    kind = "engine" if first.kind == "internal" else first.kind  # A driver's error is no bug of bufferlab's.
    what = f"{first.what}; and {', '.join(wanted)} could not be put back: {failure_of(second).what}"
    return EngineFailure(kind, what, None, "when the server answers again: bufferlab doctor")


def _said(error: Exception) -> str:
    return str(error.args[-1] if error.args else error).strip()
