"""The checks before runs on a server that bufferlab did not start, and the settings that can never work there.

No statement changes anything. docs/existing-server.md lists the refusals; a test tries each. Each run repeats the
checks of settings that can never work (running.py). A requested setting that no such server can support becomes a
caveat of each run. A setting with a value that the server could have but has not becomes a confound, which fails the
check `confounds`.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from bufferlab.engines.behaviour import EngineFailure, ServerCheck, Wanted
from bufferlab.engines.read_ahead_knob import AS_IS
from bufferlab.engines.read_ahead_knob import NAME as READ_AHEAD
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.existing import passwords
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.family import Family, ReadBack
from bufferlab.engines.servers.run import Difference, Survey
from bufferlab.knob import AUTO, Knob, Native, Values, values_of
from bufferlab.units import UnitError, format_bytes


@dataclass(frozen=True)
class Others:
    """The number of other clients' connections: before a run's drivers began, and after they ended."""

    before: int
    after: int
    busy: int | None
    """How many connections of `after` sent a statement since the drivers began; None if the account may not see it."""

    @property
    def confounds(self) -> list[str]:
        """Return a sentence on connections that may have used the pool; [] if none did."""
        most = max(self.before, self.after)
        if most and self.busy is None:
            return [f"{most} other connections were open: what they asked for is in the counters too"]
        if worked := (self.busy or 0) + max(0, self.before - self.after):
            return [f"{worked} of {most} other connections were used, and what they asked for is in the counters too"]
        return []

    @property
    def caveats(self) -> list[str]:
        """Return a sentence on other connections if some were open but none sent a statement; else []."""
        most = max(self.before, self.after)
        return [f"{most} other connections were open and asked for nothing"] if most and not self.confounds else []


def caveats(
    others: Others, told: ReadBack, asked: Collection[str], as_found: Collection[str], job: Mapping[str, Any]
) -> list[str]:
    """Return sentences on guarantees that a run on a user's server lacks, and on settings that bufferlab did not
    change."""
    said = ["the server is not bufferlab's own: its counters are of everything it did, and pages lie where it put them"]
    said += others.caveats
    if job["warm_up"]["max_transactions"] == 0:
        said.append("the window did not begin with an empty pool, as it does on a server of bufferlab's own")
    if as_found:
        shown = ", ".join(f"{name} = {told.actual[name]}" for name in as_found)
        said.append(f"as the server has it, not as on a server of bufferlab's own: {shown}")
    return [*said, *(words for name, words in told.standing.items() if name not in asked)]


def confounds(others: Others, told: ReadBack, asked: Collection[str]) -> list[str]:
    """Return sentences on other connections that were active, and on requested settings that this server could have but
    has not.

    `told` compares the server's values with the requested ones.
    """
    unasked = {words for name, words in told.standing.items() if name not in asked}
    return [*others.confounds, *(words for words in told.confounds if words not in unasked)]


def asked_of(family: Family, knobs: Values) -> dict[str, Native]:
    """Return the knobs that the user set. bufferlab's own defaults do not apply to a user's server."""
    declaration = family.declaration
    defaults = values_of(declaration.defaults())
    kept = (declaration.results.pool, declaration.page_knob)
    return {name: value for name, value in knobs.items() if name in kept or defaults.get(name) != value}


def require_no_program(job: Mapping[str, Any]) -> None:
    """Raise EngineFailure for a job that needs an external load generator."""
    if job.get("program"):
        raise EngineFailure(
            "usage",
            "external programs are started against bufferlab's own servers only",
            "--server",
            "leave --server out, or use a workload of bufferlab's",
        )


def refuse_host_settings(asked: Values) -> None:
    """Raise EngineFailure for settings of the server's host, which may be another host."""
    for knob, unset in (("memory_limit", "off"), (READ_AHEAD, AS_IS), ("storage_engine", "innodb")):
        if asked.get(knob, unset) != unset:
            what = f"{knob} is set around servers that bufferlab starts, not around one that runs already"
            raise EngineFailure("usage", what, knob, f"--set {knob}={unset}, or leave --server out")


def require_made_with(family: Family, told: Mapping[str, str], asked: Values, address: Address) -> None:
    """Raise EngineFailure unless the server, with the variables `told`, was initialised with the requested settings."""
    for knob, (variable, words) in family.running.made_with.items():
        has = told[variable]
        if str(asked.get(knob, has)) != has:
            what = f"{knob} needs another server: this one was made with {words.format(has)}"
            raise EngineFailure("usage", what, address.place, f"--set {knob}={has}")


def other_settings(family: Family, differing: Mapping[str, Collection[Difference]], address: Address) -> EngineFailure:
    """Return the failure that names the settings with other values on the server, and all their requested values."""
    knobs = family.declaration.by_name()
    sizes = {name for name, knob in knobs.items() if knob.unit == "bytes"}
    said, as_it_has = [], []
    for name, (first, *more) in differing.items():
        asked = ", ".join(_shown(each.asked, name in sizes) for each in (first, *more))
        if first.has is None:
            said.append(f"it has no variable {first.variable} ({asked} asked)")
        else:
            said.append(f"{first.variable} is {_shown(first.has, name in sizes)}, {asked} asked")
            if own := _own(knobs.get(name), first.has):
                as_it_has.append(f"--set {shlex.quote(f'{name}={own}')}")
    what = f"the server runs with other settings, and bufferlab changes none there: {'; '.join(said)}"
    hint = "use a private server (--server with a name or path), or set them there yourself and run again"
    if as_it_has:
        hint = f"ask for what it has: {' '.join(as_it_has)}; {hint}"
    return EngineFailure("usage", what, address.place, hint)


def _own(knob: Knob | None, has: str) -> str | None:
    """Return the value of the knob for which the server's present value is kept; None if the knob has no such value."""
    if knob is None:
        return has
    try:
        knob.parse(has)
    except UnitError:
        return None if knob.auto is None else AUTO
    return has


def _shown(value: str, is_size: bool) -> str:
    return format_bytes(int(value)) if is_size and value.isdecimal() else value


_ELSEWHERE = "the server is on another host: no lock is taken on this host's disk, and figures of the device are null"
_HERE = "the server is on this host: runs hold the lock of the disk under --data-dir; figures of the device are null"
_PERHAPS = "the address is this host's, a tunnel or a container may be behind it: treated as on this host"
_ALWAYS_NULL = "the server's process and device, the page cache, the pages of trees: bufferlab did not start the server"


def checks(family: Family, address: Address, found: Build, wanted: Wanted) -> Iterator[ServerCheck]:
    """Yield the results of checking the server, in the order in which they are shown. Changes nothing.

    The client's exceptions (FAILURES) may pass through.
    """
    facts = family.running.survey(address)
    yield ServerCheck("version", True, facts.version)
    yield _connection(address, facts)
    yield ServerCheck("password", True, passwords.source_words(address, family.form))
    yield from _between(facts)
    yield _writable(facts)
    yield from (ServerCheck("replication", False, said) for said in facts.roles)
    yield from _rights(facts, family.form.schema)
    yield from _schema(family, address, facts, wanted)
    yield from _settings(family, address, found, facts, wanted)
    yield ServerCheck("place", True, {True: _HERE, False: _ELSEWHERE, None: _PERHAPS}[facts.is_here])
    yield from (ServerCheck("will be null", True, said) for said in (_ALWAYS_NULL, *facts.nulls))


def _connection(address: Address, facts: Survey) -> ServerCheck:
    way = f"the socket {address.socket}" if address.socket else f"TCP to {address.server}"
    return ServerCheck("connection", True, f"{way}, {f'TLS: {facts.tls}' if facts.tls else 'not encrypted'}")


def _between(facts: Survey) -> Iterator[ServerCheck]:
    if facts.proxy:
        what = f"{facts.proxy} stands between us and the server: untested"
        yield ServerCheck("proxy", False, what, "name the server itself: locks belong to one connection")
    if facts.managed:
        yield ServerCheck("managed service", False, f"{facts.managed} runs the server: untested")


def _writable(facts: Survey) -> ServerCheck:
    if facts.read_only:
        hint = "name its primary, or a server that may be written"
        return ServerCheck("may be written", False, f"the server is read only: {facts.read_only}", hint, "environment")
    return ServerCheck("may be written", True, "yes")


def _rights(facts: Survey, word: str) -> Iterator[ServerCheck]:
    for right, grant in facts.missing.items():
        yield ServerCheck("rights", False, f"the account lacks {right}", grant, "environment")
    if facts.unguarded:
        what = f"{facts.unguarded}: whoever reaches it may do everything, and put code of theirs into any {word}"
        yield ServerCheck("rights", False, what, "start it without that, or name another server", "environment")
    elif not facts.missing:
        yield ServerCheck("rights", True, "the account has what a run needs")


def _schema(family: Family, address: Address, facts: Survey, wanted: Wanted) -> Iterator[ServerCheck]:
    word = family.form.schema
    if facts.schema_bytes is None:
        yield ServerCheck(word, True, f"there is none named {address.schema}: a load makes it")
    elif not facts.missing and not facts.unguarded:

        def ours() -> str:
            family.running.require_safe(address)
            with closing(family.connect(address)) as connection:
                family.running.require_ours(connection, address)
            return f"{address.schema} holds nothing but what bufferlab made ({format_bytes(facts.schema_bytes or 0)})"

        yield _tried(word, ours)
    yield _space(facts, wanted.load_bytes)


def _space(facts: Survey, load_bytes: int | None) -> ServerCheck:
    free = _free_bytes(facts)
    if free is None:
        return ServerCheck("space", True, "what is free where the server's data are cannot be seen from here")
    what = f"{format_bytes(free)} free where the server's data are"
    if not load_bytes:
        return ServerCheck("space", True, what)
    what += f", about {format_bytes(load_bytes)} to load"
    # A load first drops the tables of an earlier load, so their bytes count as free.
    if free + (facts.schema_bytes or 0) < load_bytes:
        return ServerCheck("space", False, what, "make room, or ask for less data", "environment")
    return ServerCheck("space", True, what)


def _settings(family: Family, address: Address, found: Build, facts: Survey, wanted: Wanted) -> Iterator[ServerCheck]:
    pool, page = format_bytes(facts.pool_bytes), format_bytes(facts.page_bytes)
    yield ServerCheck("sizes", True, f"a pool of {pool}, pages of {page}")
    if not wanted.points:
        return
    if wanted.has_program:
        yield _tried("program", lambda: require_no_program({"program": True}))
    each = [asked_of(family, knobs) for knobs in wanted.points]
    requirements = [
        require
        for asked in each
        for require in (
            partial(refuse_host_settings, asked),
            partial(require_made_with, family, facts.variables, asked, address),
        )
    ]
    refused = [check for check in dict.fromkeys(_tried("settings", one) for one in requirements) if not check.ok]
    differing: dict[str, dict[Difference, None]] = {}
    with closing(family.connect(address, family.system_database)) as connection:
        for asked in each:
            for name, difference in family.running.differing(connection, found, asked).items():
                if name not in family.running.made_with:  # Another check reports the settings in `made_with`.
                    differing.setdefault(name, {})[difference] = None
    if differing:
        error = other_settings(family, differing, address)
        refused.append(ServerCheck("settings", False, error.what, error.hint, "usage"))
    yield from refused or [ServerCheck("settings", True, "the server has what is asked for")]


def _tried(name: str, require: Callable[[], str | None]) -> ServerCheck:
    """Call `require` and return its answer as a check; after an EngineFailure, return a check that refuses the run."""
    try:
        return ServerCheck(name, True, require() or "")
    except EngineFailure as error:
        return ServerCheck(name, False, error.what, error.hint, "usage" if error.kind == "usage" else "environment")


def _free_bytes(facts: Survey) -> int | None:
    """Return the free bytes on the device of the server's data; None if this host cannot see it."""
    if facts.is_here and facts.data_folder:
        with suppress(OSError):
            return shutil.disk_usage(facts.data_folder).free
    return None
