"""What can never work on a server that bufferlab did not start (docs/existing-server.md): checks that change nothing.

A pre-flight makes them before a load (`preflight`), and each run makes them again (`running`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.read_ahead_knob import AS_IS
from bufferlab.engines.read_ahead_knob import NAME as READ_AHEAD
from bufferlab.engines.servers.existing import changes
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.family import Family
from bufferlab.knob import Native, Values, values_of
from bufferlab.units import format_bytes


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


def not_allowed(
    family: Family, wanted: Mapping[str, Sequence[str]], told: Mapping[str, str], left: Sequence[str] = ()
) -> EngineFailure:
    """Return the failure that names the settings which nobody allowed to change, each with the values asked for."""
    sizes = _sizes_of(family)
    differing = ", ".join(
        f"{name} is {_shown(name, told.get(name, 'unknown'), sizes)}, "
        f"{', '.join(_shown(name, value, sizes) for value in values)} asked"
        for name, values in wanted.items()
    )
    hint = f"ask for what it has (--set), or let bufferlab change what can be changed and put it back: {changes.ALLOW}"
    if left:
        hint = f"bufferlab doctor puts back what an earlier run left; or {hint}"
    what = "; ".join([f"the server runs with other settings: {differing}", *left])
    return EngineFailure("usage", what, ", ".join(wanted), hint)


def _sizes_of(family: Family) -> frozenset[str]:
    """Return the variables whose values are bytes."""
    return frozenset(knob.spelling for knob in family.declaration.knobs if knob.unit == "bytes")


def _shown(name: str, value: str, sizes: Collection[str]) -> str:
    return format_bytes(int(value)) if name in sizes and value.isdecimal() else value
