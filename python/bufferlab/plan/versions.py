"""Finds settings that a server's version does not have, before anything starts. It is pure and asks no server.

"auto" is never refused: it means "where the version has the setting".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import Problem
from bufferlab.knob import AUTO
from bufferlab.plan.grid import Point
from bufferlab.versions import has, in_words

VersionOf = Callable[[Mapping[str, int | str]], str]
"""A function that returns the server's version at a point, from the point's native knobs."""


def lacking(engine: EngineDeclaration, points: Sequence[Point], version_of: VersionOf) -> list[Problem]:
    """Return a problem for each setting, or value of one, that a point's server version does not have; each once."""
    problems: dict[tuple[str, str], Problem] = {}
    for point in points:
        version = version_of(point.native_knobs)
        for knob in engine.knobs:
            asked = point.settings[knob.name].asked
            versions = dict(knob.value_versions).get(asked, knob.versions)
            if asked == AUTO or has(versions, engine.name, version):
                continue
            what = knob.name if versions == knob.versions else f"{knob.name} = {asked}"
            problem = Problem(
                f"{engine.name} {version} has no {what}; {in_words(versions)} has",
                f"point {point.label}"
                if knob.name in point.swept or "server" in point.swept
                else f"{knob.name} = {asked}",
                f"leave {knob.name} out, or choose another server with --server",
            )
            problems.setdefault((what, version), problem)
    return list(problems.values())
