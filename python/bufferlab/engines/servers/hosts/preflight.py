"""The pre-flight of runs on a server that bufferlab did not start: what is there, and what can never work.

Every statement only asks. docs/existing-server.md lists what is refused; a test tries each.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import Literal, TypeVar

from bufferlab.engines.behaviour import EngineFailure, ServerCheck, Wanted
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.existing import changes, passwords, whereabouts
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.existing.facts import Facts
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.hosts.refusals import (
    asked_of,
    not_allowed,
    refuse_host_settings,
    require_made_with,
    require_no_program,
)
from bufferlab.units import format_bytes

T = TypeVar("T")

_ELSEWHERE = "the server is on another host: no lock is taken on this host's disk, and figures of the device are null"
_HERE = "the server is on this host: runs hold the lock of the disk under --data-dir; figures of the device are null"
_PERHAPS = "the address is this host's, a tunnel or a container may be behind it: treated as on this host"
_ALWAYS_NULL = "the server's process and device, the page cache, the pages of trees: bufferlab did not start the server"


def checks(family: Family, address: Address, found: Build, wanted: Wanted) -> Iterator[ServerCheck]:
    """Yield what is found at the server, in the order in which a reader wants it. Changes nothing.

    The client's exceptions (`Family.unusable`) may pass through.
    """
    facts = family.look(address)
    yield ServerCheck("version", True, facts.version)
    yield _connection(address, facts)
    yield ServerCheck("password", True, passwords.source_words(address, family.form))
    yield from _between(facts)
    yield _writable(facts)
    yield from (ServerCheck("replication", False, said) for said in facts.roles)
    yield from _rights(facts, family.form.schema)
    yield from _schema(family, address, facts, wanted)
    yield from _settings(family, address, found, facts, wanted)
    yield from _left(family, address)
    yield ServerCheck("place", True, {True: _HERE, False: _ELSEWHERE, None: _PERHAPS}[facts.is_here])
    yield from (ServerCheck("will be null", True, said) for said in (_ALWAYS_NULL, *facts.nulls))


def _connection(address: Address, facts: Facts) -> ServerCheck:
    way = f"the socket {address.socket}" if address.socket else f"TCP to {address.server}"
    return ServerCheck("connection", True, f"{way}, {f'TLS: {facts.tls}' if facts.tls else 'not encrypted'}")


def _between(facts: Facts) -> Iterator[ServerCheck]:
    if facts.proxy:
        what = f"{facts.proxy} stands between us and the server: untested"
        yield ServerCheck("proxy", False, what, "name the server itself: locks and settings belong to one connection")
    if facts.managed:
        what = f"{facts.managed} runs the server: untested"
        yield ServerCheck("managed service", False, what, "it may refuse SET GLOBAL and ALTER SYSTEM to every account")


def _writable(facts: Facts) -> ServerCheck:
    if facts.read_only:
        hint = "name its primary, or a server that may be written"
        return ServerCheck("may be written", False, f"the server is read only: {facts.read_only}", hint, "environment")
    return ServerCheck("may be written", True, "yes")


def _rights(facts: Facts, word: str) -> Iterator[ServerCheck]:
    for right, grant in facts.missing.items():
        yield ServerCheck("rights", False, f"the account lacks {right}", grant, "environment")
    if facts.unguarded:
        what = f"{facts.unguarded}: whoever reaches it may do everything, and put code of theirs into any {word}"
        yield ServerCheck("rights", False, what, "start it without that, or name another server", "environment")
    elif not facts.missing:
        yield ServerCheck("rights", True, "the account has what a run needs")


def _rights_to_change(facts: Facts, kind: Literal["", "environment"]) -> Iterator[ServerCheck]:
    """Yield what keeps the account from changing settings, as a check that refuses if `kind` says so."""
    name = "rights to change settings"
    for right, grant in facts.missing_to_change.items():
        what = f"the account lacks {right}, which {changes.ALLOW} needs"
        yield ServerCheck(name, False, what, f"{grant}; or name another account by ?admin_user=", kind)
    if facts.changes_in_part:
        yield ServerCheck(name, False, facts.changes_in_part, "name a superuser by ?admin_user=")
    elif not facts.missing_to_change:
        yield ServerCheck(name, True, "the account has them")


def _schema(family: Family, address: Address, facts: Facts, wanted: Wanted) -> Iterator[ServerCheck]:
    word = family.form.schema
    if facts.schema_bytes is None:
        yield ServerCheck(word, True, f"there is none named {address.schema}: a load makes it")
    elif not facts.missing and not facts.unguarded:

        def ours() -> str:
            family.require_safe(address)
            with closing(family.connect(address)) as connection:
                family.owned.require_ours(connection, address)
            return f"{address.schema} holds nothing but what bufferlab made ({format_bytes(facts.schema_bytes or 0)})"

        yield _tried(word, ours)
    yield _space(facts, wanted.load_bytes)


def _space(facts: Facts, load_bytes: int | None) -> ServerCheck:
    free = _free_bytes(facts)
    if free is None:
        return ServerCheck("space", True, "what is free where the server's data are cannot be seen from here")
    what = f"{format_bytes(free)} free where the server's data are"
    if not load_bytes:
        return ServerCheck("space", True, what)
    what += f", about {format_bytes(load_bytes)} to load"
    # A load drops what an earlier one made.
    if free + (facts.schema_bytes or 0) < load_bytes:
        return ServerCheck("space", False, what, "make room, or ask for less data", "environment")
    return ServerCheck("space", True, what)


def _settings(family: Family, address: Address, found: Build, facts: Facts, wanted: Wanted) -> Iterator[ServerCheck]:
    pool, page = format_bytes(facts.pool_bytes), format_bytes(facts.page_bytes)
    yield ServerCheck("sizes", True, f"a pool of {pool}, pages of {page}")
    if not wanted.points:
        yield from _rights_to_change(facts, "")
        yield from _changeable(family, facts)
        return
    if wanted.has_program:
        yield _tried("program", lambda: require_no_program({"program": True}))
    refused = _Refused()
    differing: dict[str, dict[str, None]] = {}
    made_with = {variable for variable, _ in family.made_with.values()}  # Told in words of their own.
    with (
        closing(family.connect(address, family.system_database)) as connection,
        closing(family.online.connect(address)) if wanted.may_change else nullcontext() as changing,
    ):
        for knobs in wanted.points:
            asked = asked_of(family, knobs)
            differs = refused.of(partial(family.wanted, connection, found, asked)) or {}
            differs = {name: value for name, value in differs.items() if name not in made_with}
            requirements: list[Callable[[], object]] = [
                partial(refuse_host_settings, asked),
                partial(require_made_with, family, facts.variables, asked, address),
                partial(_require_room, facts, int(asked[family.declaration.results.pool]), address),
                *(partial(_refuse_fixed, facts, name, value) for name, value in differs.items()),
            ]
            if wanted.may_change:
                requirements.append(partial(family.online.found, changing, address, differs))
            for require in requirements:
                refused.of(require)
            for name, value in differs.items():
                differing.setdefault(name, {})[value] = None
    yield from refused.checks()
    changed = {name: tuple(values) for name, values in differing.items() if name not in facts.fixed}
    if changed and not wanted.may_change:
        error = not_allowed(family, changed, facts.variables)
        yield ServerCheck("settings", False, error.what, error.hint, "usage")
    elif changed:
        yield from _rights_to_change(facts, "environment")
        yield ServerCheck("settings", True, f"runs would change, and put back: {', '.join(changed)}")
    elif not refused.first:
        yield ServerCheck("settings", True, "the server has what is asked for; runs would change nothing")


class _Refused:
    """The failures of many points: of those with one place and hint, the first and their number."""

    def __init__(self) -> None:
        self.first: dict[tuple[str | None, str | None], EngineFailure] = {}
        self._times: dict[tuple[str | None, str | None], set[str]] = {}

    def of(self, require: Callable[[], T]) -> T | None:
        """Call and return the answer; keep the failure of a call that raises one, and return None."""
        try:
            return require()
        except EngineFailure as error:
            key = (error.where, error.hint)
            self.first.setdefault(key, error)
            self._times.setdefault(key, set()).add(error.what)
            return None

    def checks(self) -> Iterator[ServerCheck]:
        """Yield a check that is not ok for each."""
        for key, error in self.first.items():
            more = len(self._times[key]) - 1
            what = error.what + (f"; and {more} more such value{'s' if more > 1 else ''}" if more else "")
            yield ServerCheck("settings", False, what, error.hint, _kind(error))


def _require_room(facts: Facts, pool_bytes: int, address: Address) -> None:
    """Raise EngineFailure for a pool that is larger than the memory of this host, or of the server's control group."""
    if facts.largest_pool_bytes and pool_bytes > facts.largest_pool_bytes:
        most = format_bytes(facts.largest_pool_bytes)
        what = f"a pool of {format_bytes(pool_bytes)} is beyond innodb_buffer_pool_size_max = {most}"
        raise EngineFailure("usage", what, address.place, "ask for a smaller pool_size")
    if not facts.is_here or pool_bytes <= facts.pool_bytes:
        return
    host_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group_bytes = whereabouts.memory_limit_bytes(facts.pid) if facts.pid else None
    least = min(host_bytes, group_bytes or host_bytes)
    if pool_bytes > least:
        whose = "this host" if least == host_bytes else "the server's control group"
        what = f"a pool of {format_bytes(pool_bytes)} does not fit into {whose}'s {format_bytes(least)} of memory"
        raise EngineFailure("environment", what, address.place, "ask for a smaller pool_size")


def _refuse_fixed(facts: Facts, name: str, value: str) -> None:
    if name in facts.fixed:
        has = facts.variables.get(name, "unknown")
        hint = "set it in the server's own configuration and restart it, or ask for what it has"
        what = f"{name} is {has}, {value} asked: it needs a restart of the server"
        raise EngineFailure("usage", what, f"var.{name}", hint)


def _changeable(family: Family, facts: Facts) -> Iterator[ServerCheck]:
    """Yield which settings a sweep could change on this server, and which it could not."""
    there = [knob for knob in family.declaration.knobs if knob.spelling.lower() in facts.variables]
    for name, is_fixed in (("a sweep can change", False), ("fixed until a restart", True)):
        names = [knob.name for knob in there if (knob.spelling.lower() in facts.fixed) == is_fixed]
        yield ServerCheck(name, True, ", ".join(names) or "nothing")


def _left(family: Family, address: Address) -> Iterator[ServerCheck]:
    """Yield what killed runs left changed; nothing is put back."""
    try:
        left = changes.left(family.online, address)
    except family.unusable as error:
        said = str(error.args[-1] if error.args else error).strip()
        yield ServerCheck("left by killed runs", False, f"cannot be told: {said}")
        return
    for said in left:
        yield ServerCheck("left by killed runs", False, said, "bufferlab doctor puts back what killed runs left")


def _tried(name: str, require: Callable[[], str | None]) -> ServerCheck:
    """Call and return the answer as a check; of a failure one that refuses."""
    try:
        return ServerCheck(name, True, require() or "")
    except EngineFailure as error:
        return ServerCheck(name, False, error.what, error.hint, _kind(error))


def _kind(error: EngineFailure) -> Literal["usage", "environment"]:
    return "usage" if error.kind == "usage" else "environment"


def _free_bytes(facts: Facts) -> int | None:
    """Return the free bytes where the server's data are; None where this host cannot see them."""
    if facts.is_here and facts.data_folder:
        with suppress(OSError):
            return shutil.disk_usage(facts.data_folder).free
    return None
