"""Knobs and workload parameters, judged by what the engine and the workload declare.

Turns what was written into canonical text (equal settings, equal text) and collects every problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import Problem
from bufferlab.spec.merge import Merged
from bufferlab.units import UnitError, format_bytes, parse_bytes, parse_size
from bufferlab.workloads.declaration import WorkloadDeclaration


@dataclass
class Judged:
    """Knobs in canonical text, and what was wrong with the rest."""

    knobs: dict[str, str] = field(default_factory=dict)
    sweep: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def judge_knobs(merged: Merged, engine: EngineDeclaration) -> Judged:
    """Check [knobs] and [sweep] against the engine; fill in the defaults of what neither names."""
    judged = Judged()
    scalars = _table(merged, "knobs", judged)
    lists = _table(merged, "sweep", judged)
    for name, values in lists.items():
        _judge_sweep(merged, engine, name, values, judged)
    for name, value in scalars.items():
        if name in lists:
            judged.problems.append(
                Problem(
                    f"{name} is set and swept at once",
                    merged.where(("knobs", name)),
                    "leave it out of [knobs], or of [sweep]",
                )
            )
            continue
        text = _judge_value(merged, engine, ("knobs", name), value, judged)
        if text is not None:
            judged.knobs[name] = text
    for knob in engine.knobs:
        if knob.name not in lists and knob.name not in scalars:
            judged.knobs[knob.name] = knob.parse(knob.default)
    judged.knobs = {knob.name: judged.knobs[knob.name] for knob in engine.knobs if knob.name in judged.knobs}
    if not judged.problems:
        _judge_frames(merged, engine, judged)
    return judged


def judge_workload(merged: Merged, workload: WorkloadDeclaration, engine: EngineDeclaration) -> list[Problem]:
    """Check the workload's parameters and the connections; fill in defaults in the document."""
    problems = []
    table = merged.document["workload"]
    for key, value in table.items():
        if key in ("name", "connections"):
            continue
        where = merged.where(("workload", key))
        parameter = workload.parameter(key)
        if parameter is None:
            known = ["name", "connections", *workload.defaults()]
            problems.append(
                Problem(f'workload {workload.name} has no parameter "{key}"', where, _did_you_mean(key, known))
            )
        elif isinstance(value, bool) or not isinstance(value, int):
            hint = f"write {parameter.minimum} or more"
            problems.append(Problem(f"{key} = {value} is not a whole number", where, hint))
        elif not parameter.minimum <= value <= parameter.maximum:
            problems.append(
                Problem(
                    f"{key} = {value} cannot be",
                    where,
                    f"write a whole number from {parameter.minimum:,} to {parameter.maximum:,}",
                )
            )
    for name, default in workload.defaults().items():
        table.setdefault(name, default)
    connections = table.get("connections", 1)
    if isinstance(connections, int) and connections > engine.max_connections:
        problems.append(
            Problem(
                f"{connections} connections: {engine.name} takes {engine.max_connections}",
                merged.where(("workload", "connections")),
                engine.connections_reason,
            )
        )
    return problems


def _table(merged: Merged, name: str, judged: Judged) -> Mapping[str, Any]:
    table = merged.document.get(name, {})
    if isinstance(table, dict):
        return table
    judged.problems.append(Problem(f"{name} is not a table", merged.where((name,)), f"write [{name}]"))
    return {}


def _judge_sweep(merged: Merged, engine: EngineDeclaration, name: str, values: Any, judged: Judged) -> None:
    path = ("sweep", name)
    if not isinstance(values, list) or not values:
        judged.problems.append(
            Problem(f"sweep of {name} is not a list of values", merged.where(path), f'write {name} = ["…", "…"]')
        )
        return
    texts = [_judge_value(merged, engine, path, value, judged) for value in values]
    known = [text for text in texts if text is not None]
    twice = sorted({text for text in known if known.count(text) > 1})
    if twice:
        judged.problems.append(
            Problem(f"sweep of {name} holds {', '.join(twice)} twice", merged.where(path), "use repetitions to repeat")
        )
    judged.sweep[name] = tuple(known)


def _judge_value(
    merged: Merged, engine: EngineDeclaration, path: tuple[str, str], value: Any, judged: Judged
) -> str | None:
    name = path[1]
    knob = engine.knob(name)
    if knob is None:
        hint = _did_you_mean(name, list(engine.by_name()))
        problem = Problem(f'engine {engine.name} has no knob "{name}"', merged.where(path), hint)
        if problem not in judged.problems:
            judged.problems.append(problem)
        return None
    try:
        return knob.parse(value)
    except UnitError as error:
        what = error.what if error.what.startswith(name) else f"{name} = {error.what}"
        judged.problems.append(Problem(what, merged.where(path), error.hint))
        return None


def _judge_frames(merged: Merged, engine: EngineDeclaration, judged: Judged) -> None:
    """A pool in bytes must hold the engine's minimum of frames at every page size it meets."""
    page_knob, frame_knob = engine.page_knob, engine.frame_knob
    pages = judged.sweep.get(page_knob) or (judged.knobs[page_knob],)
    pools = judged.sweep.get(frame_knob) or (judged.knobs[frame_knob],)
    largest_page_bytes = max(parse_bytes(page) for page in pages)
    need_bytes = largest_page_bytes * engine.min_frames
    path = ("sweep" if frame_knob in judged.sweep else "knobs", frame_knob)
    for pool in pools:
        size = parse_size(pool)
        if size.size_bytes is not None and size.size_bytes < need_bytes:
            judged.problems.append(
                Problem(
                    f"{frame_knob} = {pool} is {size.size_bytes // largest_page_bytes} frames of "
                    f"{format_bytes(largest_page_bytes)}; {engine.name} needs {engine.min_frames}",
                    merged.where(path),
                    f"write {format_bytes(need_bytes)} or more",
                )
            )


def _did_you_mean(word: str, known: list[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
