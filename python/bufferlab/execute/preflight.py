"""Checks already running servers, before anything is loaded, for whether the runs of a plan can work there."""

from __future__ import annotations

from bufferlab.engines import registry as engines
from bufferlab.engines.behaviour import ServerCheck, Wanted
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.errors import BufferlabError, EnvironmentLackingError, Problem, SpecError
from bufferlab.plan import Plan

Findings = dict[str, list[ServerCheck]]
"""The checks of each server, by its URL."""


def look(plan: Plan) -> Findings:
    """Return the checks of each server that the plan names by URL. Changes nothing.

    Raises EnvironmentLackingError if a server cannot be queried.
    """
    experiment = plan.experiment
    behaviour, found = engines.behaviour(experiment.engine), Findings()
    for url in dict.fromkeys(str(point.knobs["server"]) for point in plan.points if is_url(point.knobs.get("server"))):
        points = [point for point in plan.points if point.knobs["server"] == url]
        wanted = Wanted(
            points=tuple(dict(knobs) for knobs in dict.fromkeys(tuple(point.knobs.items()) for point in points)),
            has_program=experiment.workload.name == "program",
            load_bytes=max(point.database_bytes for point in points),
        )
        found[url] = behaviour.preflight(url, wanted)
    return found


def require(findings: Findings) -> None:
    """Raise SpecError or EnvironmentLackingError, with every reason, if no run can work on a server.

    The error also lists, at its end, other faults of that server, because nothing else would report them.
    """
    wrong = [(url, check) for url, checks in findings.items() for check in checks if not check.ok]
    refused = [(url, check) for url, check in wrong if check.refuses]
    if not refused:
        return
    ordered = [*refused, *((url, check) for url, check in wrong if check.hint and not check.refuses)]
    first, *more = [Problem(check.detail, url, check.hint) for url, check in ordered]
    kind: type[BufferlabError] = SpecError if refused[0][1].refuses == "usage" else EnvironmentLackingError
    raise kind(first.what, first.where, first.hint, more=more)


def look_at(url: str) -> tuple[str, list[ServerCheck]]:
    """Return the engine of a server, and the checks that need no experiment.

    Raises SpecError if the URL is not a server's, EnvironmentLackingError if the server cannot be queried.
    """
    scheme = url.partition("://")[0]
    for name in engines.names():
        if scheme in (behaviour := engines.behaviour(name)).url_schemes:
            engine = behaviour.engine_of(url)
            return engine, engines.behaviour(engine).preflight(url, Wanted())
    raise SpecError("this is not the URL of a server", "--server", "write mysql://user@host/schema")
