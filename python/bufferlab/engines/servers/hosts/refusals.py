"""What can never work on a server that bufferlab did not start (docs/existing-server.md): checks that change nothing.

A pre-flight makes them before a load (`preflight`), and each run makes them again (`running`).
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from typing import Any

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.read_ahead_knob import AS_IS
from bufferlab.engines.read_ahead_knob import NAME as READ_AHEAD
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.family import Difference, Family
from bufferlab.knob import AUTO, Knob, Native, Values, values_of
from bufferlab.units import UnitError, format_bytes


def asked_of(family: Family, knobs: Values) -> dict[str, Native]:
    """Return the knobs that were asked for. bufferlab's own defaults are not applied to somebody else's server."""
    declaration = family.declaration
    defaults = values_of(declaration.defaults())
    kept = (declaration.results.pool, declaration.page_knob)
    return {name: value for name, value in knobs.items() if name in kept or defaults.get(name) != value}


def require_no_program(job: Mapping[str, Any]) -> None:
    """Raise EngineFailure for a job of an external program."""
    if job.get("program"):
        raise EngineFailure(
            "usage",
            "external programs are started against bufferlab's own servers only",
            "--server",
            "leave --server out, or use a workload of bufferlab's",
        )


def refuse_host_settings(asked: Values) -> None:
    """Raise EngineFailure for settings of the server's host, which may not be this one."""
    for knob, unset in (("memory_limit", "off"), (READ_AHEAD, AS_IS)):
        if asked.get(knob, unset) != unset:
            what = f"{knob} is set around servers that bufferlab starts, not around one that runs already"
            raise EngineFailure("usage", what, knob, f"--set {knob}={unset}, or leave --server out")


def require_made_with(family: Family, told: Mapping[str, str], asked: Values, address: Address) -> None:
    """Raise EngineFailure unless the server, with the variables `told`, was made with what is asked for."""
    for knob, (variable, words) in family.made_with.items():
        has = told[variable]
        if str(asked.get(knob, has)) != has:
            what = f"{knob} needs another server: this one was made with {words.format(has)}"
            raise EngineFailure("usage", what, address.place, f"--set {knob}={has}")


def other_settings(family: Family, differing: Mapping[str, Collection[Difference]], address: Address) -> EngineFailure:
    """Return the failure that names the settings which the server has otherwise, each with every value asked for."""
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
    """Return the value by which a run asks for what the server has; None where the setting cannot have it."""
    if knob is None:
        return has
    try:
        knob.parse(has)
    except UnitError:
        return None if knob.auto is None else AUTO
    return has


def _shown(value: str, is_size: bool) -> str:
    return format_bytes(int(value)) if is_size and value.isdecimal() else value
