"""The points of a sweep: every combination of the swept knobs, in the order written.

Resolves shares of the database into bytes of whole frames; does not order or repeat anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import SpecError
from bufferlab.results.keys import point_key
from bufferlab.spec import Experiment
from bufferlab.units import format_bytes, parse_size
from bufferlab.workloads import registry as workloads


@dataclass(frozen=True)
class Point:
    """One setting of every knob."""

    index: int
    label: str
    swept: dict[str, str]
    knobs_asked: dict[str, str]
    """Canonical text of every knob, as asked: "10%"."""
    native_knobs: dict[str, int | str] = field(hash=False)
    """As the core takes them: bytes, a pool in whole frames."""
    point_key: str

    def as_dict(self) -> dict[str, Any]:
        """The point as plan.json holds it."""
        return {
            "index": self.index,
            "label": self.label,
            "point_key": self.point_key,
            "swept": self.swept,
            "knobs_asked": self.knobs_asked,
            "native_knobs": self.native_knobs,
        }


def workload_identity(experiment: Experiment) -> dict[str, Any]:
    """The workload as keys and run.json name it."""
    return {
        "name": experiment.workload.name,
        "version": workloads.declaration(experiment.workload.name).version,
        "connections": experiment.workload.connections,
        **experiment.workload.parameters,
    }


def points_of(experiment: Experiment, database_bytes: int) -> list[Point]:
    """Every point; `database_bytes` is the whole of which a share is a share."""
    engine = engines.declaration(experiment.engine)
    names = list(experiment.sweep)
    points = []
    for index, values in enumerate(product(*experiment.sweep.values())):
        swept = dict(zip(names, values, strict=True))
        asked = {**experiment.knobs, **swept}
        ordered = {knob.name: asked[knob.name] for knob in engine.knobs}
        points.append(
            Point(
                index=index,
                label=_label(swept),
                swept=swept,
                knobs_asked=ordered,
                native_knobs=_native(engine, ordered, database_bytes),
                point_key=point_key(
                    experiment=experiment.name,
                    engine=experiment.engine,
                    workload=workload_identity(experiment),
                    knobs_asked=ordered,
                ),
            )
        )
    return points


def needs_database_bytes(experiment: Experiment) -> bool:
    """Is any knob asked as a share of the database?"""
    values = [*experiment.knobs.values(), *(value for values in experiment.sweep.values() for value in values)]
    return any(value.endswith("%") for value in values)


def _label(swept: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in swept.items()) or "as set"


def _native(engine: EngineDeclaration, asked: dict[str, str], database_bytes: int) -> dict[str, int | str]:
    native = {knob.native_name: knob.native(asked[knob.name], database_bytes) for knob in engine.knobs}
    page, frames = (engine.by_name()[name] for name in (engine.page_knob, engine.frame_knob))
    page_bytes, pool_bytes = int(native[page.native_name]), int(native[frames.native_name])
    whole_frames = pool_bytes // page_bytes
    if whole_frames < engine.min_frames:
        text = asked[frames.name]
        share = f" of {format_bytes(database_bytes)}" if parse_size(text).ratio is not None else ""
        raise SpecError(
            f"{frames.name} = {text}{share} is {whole_frames} frames of {format_bytes(page_bytes)}; "
            f"{engine.name} needs {engine.min_frames}",
            f"point {frames.name} = {text}",
            f"ask for {format_bytes(engine.min_frames * page_bytes)} or more, or for more warehouses",
        )
    native[frames.native_name] = whole_frames * page_bytes
    return native
