"""Validates all settings of an experiment against the declarations of engine, workload and load.

Each value becomes one `Setting` with a canonical text, so that equal values have equal texts. All problems are
collected. This module reads no files: scripts.py reads scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.errors import Problem
from bufferlab.knob import CONNECTIONS, LOAD_KNOBS, Knob, KnobKind, Setting
from bufferlab.spec.profiles import NOT_SETTINGS, Merged
from bufferlab.texts import PASSWORD_HINT, address_has_password, has_password
from bufferlab.units import UnitError, format_bytes
from bufferlab.workloads import registry as workloads
from bufferlab.workloads.declaration import WorkloadDeclaration


@dataclass
class Judged:
    """The valid settings of an experiment, and the problems of the refused ones."""

    knobs: dict[str, Setting] = field(default_factory=dict)
    """The settings of the engine and the load."""
    parameters: dict[str, Setting] = field(default_factory=dict)
    """The parameters of the workload, without files."""
    sweep: dict[str, tuple[Setting, ...]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class _Known:
    """The settings that exist for this engine and workload, and for the load."""

    engine: EngineDeclaration
    workload: WorkloadDeclaration | None
    """The workload's declaration; None if its name is missing or unknown.

    An unknown setting may then be a parameter of the intended workload.
    """

    @cached_property
    def homes(self) -> dict[str, tuple[str, Knob]]:
        """Return for each setting's name the TOML table that it belongs to, and its knob."""
        parameters = self.workload.parameters if self.workload else ()
        return {
            **{knob.name: ("knobs", knob) for knob in (*self.engine.knobs, *LOAD_KNOBS)},
            **{knob.name: ("workload", knob) for knob in (CONNECTIONS, *parameters)},
        }

    def home(self, name: str) -> tuple[str, Knob] | None:
        """Return table and knob of one setting, also of a variable for the server; None if the name is unknown."""
        variable = self.engine.variable(name)
        return self.homes.get(name) or (("knobs", variable) if variable else None)


def judge_settings(merged: Merged, engine: EngineDeclaration, workload: WorkloadDeclaration | None) -> Judged:
    """Check [knobs], [workload] and [sweep]; fill in defaults for missing settings."""
    judged, known = Judged(), _Known(engine, workload)
    lists = _table(merged, "sweep", judged)
    for name, values in lists.items():
        _judge_sweep(merged, known, name, values, judged)
    given: dict[str, Setting | None] = {}
    for table in ("knobs", "workload"):
        for name, value in _table(merged, table, judged).items():
            if table == "workload" and (name in NOT_SETTINGS or workload is None):
                continue
            path = (table, name)
            if name in lists:
                hint = f"leave it out of [{table}], or of [sweep]"
                judged.problems.append(Problem(f"{name} is set and swept at once", merged.where(path), hint))
            elif _belongs(merged, known, path, judged):
                given[name] = _judge_value(merged, known, path, value, judged)
    variables = {name: home for name in given if name not in known.homes and (home := known.home(name))}
    for name, (table, knob) in {**known.homes, **variables}.items():
        if name in lists or knob.kind is KnobKind.FILE:
            continue
        default = engine.default_connections if knob is CONNECTIONS else knob.default
        setting = given[name] if name in given else knob.parse(default)
        if setting is not None:
            # The number of connections is a setting of the load, although the TOML has it in [workload].
            of_workload = table == "workload" and knob is not CONNECTIONS
            (judged.parameters if of_workload else judged.knobs)[name] = setting
    _judge_connections(merged, engine, judged)
    if not judged.problems:
        _judge_frames(merged, engine, judged)
        _judge_only_on(merged, engine, workload, judged)
    return judged


def on_its_data(merged: Merged, workload: WorkloadDeclaration) -> WorkloadDeclaration:
    """Return the workload with the parameters of the data that it uses, if the workload can choose its data."""
    if not workload.data_parameter:
        return workload
    name = workload.data_parameter
    for table in ("knobs", "workload"):
        value = merged.document.get(table, {})
        chosen = value.get(name) if isinstance(value, dict) else None
        if isinstance(chosen, str):
            return workloads.on_data(workload, chosen)
    knob = workload.parameter(name)
    return workloads.on_data(workload, knob.default if knob else "")


def _table(merged: Merged, name: str, judged: Judged) -> Mapping[str, Any]:
    table = merged.document.get(name, {})
    if isinstance(table, dict):
        return table
    judged.problems.append(Problem(f"{name} is not a table", merged.where((name,)), f"write [{name}]"))
    return {}


def _belongs(merged: Merged, known: _Known, path: tuple[str, str], judged: Judged) -> bool:
    """Return whether a name is a known setting in the TOML table it belongs to; add a problem if not.

    For a setting given by a flag, the table does not matter.
    """
    table, name = path
    home = known.home(name)
    if home is None:
        if known.workload is not None or table == "sweep":
            _unknown(merged, known, path, judged)
        return False
    if home[0] != table and path not in merged.flags:
        of_workload = known.workload if home[0] == "workload" else None
        owner = f"workload {of_workload.name}" if of_workload else "the engine or the load"
        judged.problems.append(
            Problem(f"{name} is a setting of {owner}", merged.where(path), f"write it under [{home[0]}]")
        )
        return False
    return True


def _unknown(merged: Merged, known: _Known, path: tuple[str, str], judged: Judged) -> None:
    name = path[1]
    workload = f", workload {known.workload.name}" if known.workload else ""
    what = f'there is no setting "{name}" of engine {known.engine.name}{workload} or the load'
    problem = Problem(what, merged.where(path), _hint_for_unknown(name, known, is_flag=path in merged.flags))
    if problem not in judged.problems:
        judged.problems.append(problem)


def _hint_for_unknown(name: str, known: _Known, *, is_flag: bool) -> str:
    elsewhere = [
        other
        for other in workloads.names()
        if workloads.declaration(other).parameter(name) and (known.workload is None or other != known.workload.name)
    ]
    if elsewhere:
        return f"{name} is a setting of workload {' and '.join(elsewhere)}"
    names = list(known.homes)
    close = get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]}?"
    others = [other for other in engines.names() if engines.declaration(other).knob(name)]
    if others:
        to_do = "add --engine NAME" if is_flag else "a setting of one engine alone stands in [engines.NAME]"
        return f"{name} is a setting of engine {' and '.join(others)}; {to_do}"
    prefix = known.engine.passes_through
    variable = f"; a variable of the server is written {prefix}NAME" if prefix else ""
    return f"known: {', '.join(names)}{variable}"


def _judge_sweep(merged: Merged, known: _Known, name: str, values: Any, judged: Judged) -> None:
    path = ("sweep", name)
    _, knob = known.home(name) or ("", None)
    if knob is None:
        _unknown(merged, known, path, judged)
        return
    if not knob.sweepable:
        judged.problems.append(
            Problem(f"{name} cannot be swept", merged.where(path), "run one sweep for each value, then compare them")
        )
        return
    if not isinstance(values, list) or not values:
        judged.problems.append(
            Problem(f"sweep of {name} is not a list of values", merged.where(path), f'write {name} = ["…", "…"]')
        )
        return
    settings = [_judge_value(merged, known, path, value, judged) for value in values]
    right = [setting for setting in settings if setting is not None]
    twice = sorted({setting.asked for setting in right if right.count(setting) > 1})
    if twice:
        judged.problems.append(
            Problem(f"sweep of {name} holds {', '.join(twice)} twice", merged.where(path), "use repetitions to repeat")
        )
    judged.sweep[name] = tuple(right)


def _judge_value(merged: Merged, known: _Known, path: tuple[str, str], value: Any, judged: Judged) -> Setting | None:
    name = path[1]
    _, knob = known.home(name) or ("", None)
    if knob is None or knob.kind is KnobKind.FILE:
        return None
    judges = address_has_password if name == "server" else has_password
    if judges(str(value)):
        what = f"{name}: a URL with a password is kept in results; it is not used"
        judged.problems.append(Problem(what, merged.where(path), PASSWORD_HINT))
        return None
    try:
        return knob.parse(value)
    except UnitError as error:
        what = error.what if error.what.startswith(name) else f"{name} = {error.what}"
        judged.problems.append(Problem(what, merged.where(path), error.hint))
        return None


def _place(merged: Merged, name: str) -> str:
    """Return where a setting is given: file, line and key in a TOML, or the flag."""
    tables = [table for table in ("sweep", "knobs", "workload") if isinstance(merged.document.get(table), dict)]
    return merged.where((next(table for table in tables if name in merged.document[table]), name))


def _judge_connections(merged: Merged, engine: EngineDeclaration, judged: Judged) -> None:
    """Add a problem if the experiment requests more connections than the engine supports, with the engine's reason."""
    given = judged.sweep.get(CONNECTIONS.name) or filter(None, [judged.knobs.get(CONNECTIONS.name)])
    most = max((setting.number for setting in given), default=0)
    if most > engine.max_connections:
        what = f"{most} connections: {engine.name} takes {engine.max_connections}"
        problem = Problem(what, _place(merged, CONNECTIONS.name), engine.connections_reason)
        if CONNECTIONS.name in judged.sweep and engine.max_connections == 1:
            # Report only this problem: problems with other settings that the engine lacks would distract from it.
            judged.problems[:] = [problem]
        else:
            judged.problems.append(problem)


def _judge_only_on(
    merged: Merged, engine: EngineDeclaration, workload: WorkloadDeclaration | None, judged: Judged
) -> None:
    """Add a problem for each workload parameter or value that this engine does not support."""
    for limit in workload.only_on if workload else ():
        name, value = limit.parameter, limit.value
        if engine.hidden or engine.name in limit.engines:
            continue
        asked = judged.sweep.get(name) or (judged.parameters[name],)
        if value in map(str, asked):
            what = f"{name} = {value} cannot be on {engine.name}: {limit.why}"
            hint = f"choose another {name}, or --engine {' or '.join(limit.engines)}"
            judged.problems.append(Problem(what, _place(merged, name), hint))


def _judge_frames(merged: Merged, engine: EngineDeclaration, judged: Judged) -> None:
    """Add a problem for each pool in bytes that holds fewer frames of the largest page than the engine needs."""
    page_knob, frame_knob = engine.page_knob, engine.results.pool
    if not frame_knob:
        return
    pages = judged.sweep.get(page_knob) or (judged.knobs[page_knob],)
    pools = judged.sweep.get(frame_knob) or (judged.knobs[frame_knob],)
    largest_page_bytes = max(page.number for page in pages)
    need_bytes = largest_page_bytes * engine.min_frames
    path = ("sweep" if frame_knob in judged.sweep else "knobs", frame_knob)
    for pool in pools:
        if pool.ratio is None and pool.number < need_bytes:
            judged.problems.append(
                Problem(
                    f"{frame_knob} = {pool} is {pool.number // largest_page_bytes} frames of "
                    f"{format_bytes(largest_page_bytes)}; {engine.name} needs {engine.min_frames}",
                    merged.where(path),
                    f"write {format_bytes(need_bytes)} or more",
                )
            )
