"""Reads a TOML, merges profile and flags, validates everything, and reports all problems at once."""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bufferlab.catalog import find_experiment
from bufferlab.engines import registry as engines
from bufferlab.engines.declaration import EngineDeclaration
from bufferlab.engines.servers.dump_head import read_head
from bufferlab.errors import Problem, SpecError
from bufferlab.knob import KnobKind
from bufferlab.spec.dumps import read_dump, refuse_setup, require_servers_for
from bufferlab.spec.experiment import Experiment, Phase
from bufferlab.spec.lines import KeyPath, key_lines
from bufferlab.spec.profiles import ENGINES, NOT_SETTINGS, PROFILES, Merged, Overrides, merge
from bufferlab.spec.scripts import check_script, gather_phases, read_script
from bufferlab.spec.settings import Judged, judge_settings, on_its_data
from bufferlab.texts import parse_toml
from bufferlab.workloads import registry as workloads
from bufferlab.workloads.declaration import WorkloadDeclaration

SCRIPT_SUFFIX = ".sql"
SCRIPT_EXPERIMENT = "script"
"""The name of the built-in experiment that runs a user's script.

It is used if the user names a script, not an experiment.
"""

_MOST_BYTES = 16 << 20
"""The largest TOML, in bytes: the experiment.toml of a sweep folder contains the texts of its scripts."""
_NO_OVERRIDES = Overrides()


def load(path_or_name: str | Path, overrides: Overrides = _NO_OVERRIDES) -> Experiment:
    """Load the experiment of a built-in name or a path, and apply the flags. Raises a SpecError with every problem.

    The path of a script (`.sql`) loads the built-in experiment `script` with that file.
    """
    if str(path_or_name).endswith(SCRIPT_SUFFIX):
        overrides = replace(overrides, script=str(path_or_name))
        path_or_name = SCRIPT_EXPERIMENT
    if overrides.dump is not None:
        head = read_head(Path(overrides.dump))
        swept = [value for name, values in overrides.sweep if name == "server" for value in values]
        servers = [*swept, *(value for name, value in overrides.set_knobs if name == "server")]
        require_servers_for(overrides.dump, head, servers)
        overrides = replace(overrides, engine=overrides.engine or head.flavour)
    path = find_experiment(str(path_or_name))
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read the experiment: {error}", str(path), "give a readable UTF-8 TOML file") from error
    if len(data) > _MOST_BYTES:
        raise SpecError(f"an experiment has at most {_MOST_BYTES:,} bytes", str(path), "give another TOML file")
    return loads(text, _shown(path), overrides, path.parent)


def loads(text: str, file: str, overrides: Overrides = _NO_OVERRIDES, folder: Path = Path()) -> Experiment:
    """Load an experiment from a text. Relative paths of scripts are resolved against `folder`.

    Raises a SpecError with every problem, in which `file` is the text's name.
    """
    tables, lines = _parse(text, file), key_lines(text)
    experiment, problems = _experiment(tables, merge(tables, file, lines, overrides, folder), overrides)
    problems += _of_other_profiles(tables, file, lines, overrides, folder, problems)
    if problems or experiment is None:
        raise SpecError.of(problems)
    return experiment


def _experiment(
    tables: dict[str, Any], merged: Merged, overrides: Overrides
) -> tuple[Experiment | None, list[Problem]]:
    """Return the experiment of merged tables, and all its problems.

    The experiment may be None if there are problems.
    """
    problems = [*merged.problems, *_missing_profile(merged, tables), *_given_twice(overrides)]
    _name_program(merged)
    engine_name = _known(merged, ("engine",), engines.names(), "engine", problems, hidden=engines.names(hidden=True))
    workload_name = _known(merged, ("workload", "name"), workloads.names(), "workload", problems)
    if engine_name:
        engine = engines.declaration(engine_name)
        workload = on_its_data(merged, workloads.declaration(workload_name)) if workload_name else None
        judged = judge_settings(merged, engine, workload)
        problems += _of_other_engine(merged, tables, engine, overrides, judged.problems)
        if workload:
            problems += _without_server(merged, engine, workload)
            problems += _not_together(merged, engine, workload)
        _keep(merged, engine, judged, workload, problems)
    merged.document.setdefault("profile", overrides.profile or "default")
    if overrides.profile:
        merged.document["profile"] = overrides.profile
    return _validate(merged, problems), problems


def _of_other_engine(
    merged: Merged, tables: dict[str, Any], engine: EngineDeclaration, overrides: Overrides, problems: list[Problem]
) -> list[Problem]:
    """Return the problems. If the file is not for the flag's engine, one problem replaces those of the file's values.

    Such a file's settings may be unknown to the engine, so that a user would read a line about each of them. Problems
    that the file also has with its own engine stay.
    """
    written = tables.get("engine")
    if not overrides.engine or not isinstance(written, str):
        return problems
    declared = [engines.declaration(name) for name in engines.names()]
    meant = {written, *merged.sizes, *(each.family for each in declared if each.family and each.name == written)}
    fitting = [each.name for each in declared if {each.name, each.family} & meant]
    of_file = [problem for problem in problems if (problem.where or "").startswith(merged.file)]
    if engine.name in fitting or not fitting or not of_file:
        return problems
    alone = replace(overrides, engine=None)
    _, own = _experiment(tables, merge(tables, merged.file, merged.lines, alone, merged.folder), alone)
    places = {problem.where for problem in own}
    foreign = [problem for problem in of_file if problem.where not in places]
    if len(foreign) < 2:
        return problems
    what = f"this experiment is not for engine {engine.name}: {foreign[0].what}, and {len(foreign) - 1} more"
    hint = f"choose --engine {' or '.join(fitting)}, or write [engines.{engine.name}] into a copy of the file"
    return [problem for problem in problems if problem not in foreign] + [Problem(what, foreign[0].where, hint)]


def _of_other_profiles(
    tables: dict[str, Any],
    file: str,
    lines: dict[KeyPath, int],
    overrides: Overrides,
    folder: Path,
    known: list[Problem],
) -> list[Problem]:
    """Return the problems in profiles that the user did not choose, so that mistakes are reported before a first use.

    These profiles are checked with the file's engine and without flags, because flags apply to the chosen profile only.
    """
    found: list[Problem] = []
    for profile in PROFILES:
        if profile == overrides.profile or profile not in tables:
            continue
        asked = Overrides(profile=profile)
        _, problems = _experiment(tables, merge(tables, file, lines, asked, folder), asked)
        found += [one for one in problems if f"({profile}." in (one.where or "") and one not in known]
    return found


def _name_program(merged: Merged) -> None:
    """Give the name "program" to a workload that has an `exec` and no name: `workload = { exec = "sysbench ..." }`."""
    table = merged.document.get("workload")
    if isinstance(table, dict) and "exec" in table:
        table.setdefault("name", "program")


def _without_server(merged: Merged, engine: EngineDeclaration, workload: WorkloadDeclaration) -> list[Problem]:
    if engine.is_server or not workload.needs_server:
        return []
    servers = [name for name in engines.names() if engines.declaration(name).is_server]
    what = f"workload {workload.name} needs a server, and {engine.name} runs inside bufferlab"
    return [Problem(what, merged.where(("workload", "name")), f"choose --engine {' or '.join(servers)}")]


def _not_together(merged: Merged, engine: EngineDeclaration, workload: WorkloadDeclaration) -> list[Problem]:
    """Return a problem if the engine cannot run the workload; an empty list if it can.

    An engine without a database runs no SQL; a workload that reads a bare file cannot run in a database.
    """
    where = merged.where(("workload", "name"))
    if engine.workloads and workload.name not in engine.workloads:
        what = f"engine {engine.name} cannot be driven by workload {workload.name}"
        return [Problem(what, where, f"its workloads: {', '.join(engine.workloads)}; or choose another --engine")]
    if workload.engines and engine.name not in workload.engines:
        what = f"workload {workload.name} cannot run on engine {engine.name}"
        return [Problem(what, where, f"choose --engine {' or '.join(workload.engines)}")]
    return []


def _keep(
    merged: Merged,
    engine: EngineDeclaration,
    judged: Judged,
    workload: WorkloadDeclaration | None,
    problems: list[Problem],
) -> None:
    """Replace the settings as written by the validated settings; read the scripts and have the core check them."""
    script = _script(merged, workload, problems) if workload else None
    dump = read_dump(merged, engine, judged, script, problems) if workload and workload.parameter("dump") else None
    phases = gather_phases(merged, problems)
    merged.document |= {"knobs": judged.knobs, "sweep": judged.sweep, "phases": phases}
    table = merged.document.get("workload")
    if isinstance(table, dict):
        own = {key: table[key] for key in NOT_SETTINGS if key in table}
        merged.document["workload"] = {**own, "parameters": judged.parameters, "script": script, "dump": dump}
    if workload and not judged.problems:
        variables = _variables(workload, judged)
        for each in (script, *(phase.get("script") for phase in phases)):
            if each is not None:
                told = check_script(each, variables, problems)
                if each is script and dump is not None:
                    refuse_setup(told, script["source"], problems)


def _script(merged: Merged, workload: WorkloadDeclaration, problems: list[Problem]) -> dict[str, str] | None:
    """Return the source and text of the workload's script; None if the workload takes none.

    A flag puts the script among the knobs; a TOML has it in [workload]. If a script is missing or cannot be read,
    return None and add a problem.
    """
    knob = next((known for known in workload.parameters if known.kind is KnobKind.FILE), None)
    if knob is None:
        return None
    for table in ("knobs", "workload"):
        values = merged.document.get(table)
        if isinstance(values, dict) and knob.name in values:
            return read_script(merged, (table, knob.name), values[knob.name], problems)
    sweep = merged.document.get("sweep")
    if isinstance(sweep, dict) and knob.name in sweep:
        return None  # Reported elsewhere: files cannot be swept.
    problems.append(
        Problem(
            f"workload {workload.name} needs a {knob.name}",
            merged.where(("workload",)),
            f'write {knob.name} = "my.sql", or run `bufferlab run my.sql`',
        )
    )
    return None


def _variables(workload: WorkloadDeclaration, judged: Judged) -> dict[str, float]:
    """Return the variables that a script may use, with their values at one point.

    The count that a percentage stands for is unknown before the database is loaded, so 1 is used instead.
    """
    variables: dict[str, float] = {}
    for knob in workload.parameters:
        setting = judged.parameters.get(knob.name) or next(iter(judged.sweep.get(knob.name, ())), None)
        if setting is not None:
            value = setting.value if setting.ratio is None else 1
            if isinstance(value, int | float):
                variables[knob.spelling] = value
    return variables


def _given_twice(overrides: Overrides) -> list[Problem]:
    """Return a problem for each setting that two flags give: neither flag has precedence."""
    flags = [
        *((name, f"--set {name}={value}") for name, value in overrides.set_knobs),
        *((name, f"--sweep {name}={','.join(values)}") for name, values in overrides.sweep),
    ]
    if overrides.script is not None:
        flags.insert(0, ("script", f"argument {overrides.script}"))
    if overrides.dump is not None:
        flags += [(name, f"--load {overrides.dump}") for name in ("data", "dump")]
    if overrides.warehouses is not None:
        flags.append(("warehouses", f"--warehouses {overrides.warehouses}"))
    if overrides.connections is not None:
        flags.append(("connections", f"--connections {overrides.connections}"))
    names = [name for name, _ in flags]
    return [
        Problem(
            f"{name} is given twice",
            " and ".join(flag for known, flag in flags if known == name),
            f"give {name} once",
        )
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def _parse(text: str, file: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))
        where = f"{file}:{line[1]}" if line else file
        message = re.sub(r"\s*\(at .*\)$", "", str(error))
        raise SpecError(f"not valid TOML: {message}", where, "strings need quotes; lists are [a, b]") from error


def _missing_profile(merged: Merged, tables: dict[str, Any]) -> list[Problem]:
    profile = merged.document.pop("profile_missing", None)
    if profile is None:
        return []
    has = [f"--{name}" for name in PROFILES if name in tables]
    hint = f"it has {', '.join(has)}" if has else f"add a table [{profile}] with what differs"
    return [Problem(f"this experiment has no [{profile}] sizes", f"--{profile} ({merged.file})", hint)]


def _known(
    merged: Merged,
    path: tuple[str, ...],
    names: list[str],
    kind: str,
    problems: list[Problem],
    *,
    hidden: list[str] | None = None,
) -> str | None:
    """Return the name at `path` if the registry has it, hidden or not; else None.

    Add a problem for an unknown name. Experiment reports a missing one later.
    """
    value: Any = merged.document
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    if isinstance(value, str) and value in (hidden or names):
        return value
    if isinstance(value, str):
        close = get_close_matches(value, hidden or names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
        problems.append(Problem(f'no {kind} "{value}"', merged.where(path), hint))
    return None


def _validate(merged: Merged, problems: list[Problem]) -> Experiment | None:
    """Return the document as an Experiment; if it is not valid, add its problems and return None.

    A problem that settings.py or a registry has reported is not repeated.
    """
    document = dict(merged.document)
    if problems:
        # Settings that failed validation have no canonical text. Leave them out, or Experiment would report them a
        # second time.
        document |= {"knobs": {}, "sweep": {}}
        if isinstance(table := document.get("workload"), dict):
            document["workload"] = {key: table[key] for key in NOT_SETTINGS if key in table}
    try:
        return Experiment.model_validate(document, strict=None)
    except ValidationError as error:
        for detail in error.errors():
            problem = _problem(merged, document, detail)
            if not any(known.where == problem.where for known in problems):
                problems.append(problem)
        return None


def _problem(merged: Merged, document: dict[str, Any], detail: ErrorDetails) -> Problem:
    path = _path(document, detail["loc"])
    key = ".".join(path)
    where = merged.where(path)
    match detail["type"]:
        case "extra_forbidden":
            return Problem(f'unknown key "{path[-1]}"', where, _similar_key(path))
        case "missing":
            return Problem(f"{key} is missing", where, f"add {key} to the TOML")
        case "literal_error":
            expected = detail.get("ctx", {}).get("expected", "")
            return Problem(f"{key} = {detail['input']} cannot be", where, f"write {expected}")
    value = detail["input"]
    limit = _limit(detail)
    if limit is not None:
        return Problem(f"{key} = {value} cannot be", where, f"write {limit}")
    what, _, hint = detail["msg"].removeprefix("Value error, ").partition("; ")
    if isinstance(value, str | int | float) and str(value) not in what:
        what = f"{key} = {value}: {what[:1].lower()}{what[1:]}"
    return Problem(what if key in what else f"{key}: {what}", where, hint or "see experiments/*/experiment.toml")


def _path(document: dict[str, Any], place: tuple[int | str, ...]) -> tuple[str, ...]:
    """Return the TOML key path of a location in an Experiment. A phase is a table [phases.NAME] in the TOML."""
    if len(place) > 1 and place[0] == "phases" and isinstance(place[1], int):
        return ("phases", document["phases"][place[1]]["name"], *map(str, place[2:]))
    return tuple(str(part) for part in place if part != "parameters" and not isinstance(part, int))


def _limit(detail: ErrorDetails) -> str | None:
    """Return in words which values are allowed, for an error about a non-integer or a number beyond its limits.

    Return None for an error of another kind.
    """
    context = detail.get("ctx", {})
    match detail["type"]:
        case "greater_than_equal":
            return f"{context['ge']} or more"
        case "greater_than":
            return f"more than {context['gt']:g}"
        case "less_than_equal":
            return f"{context['le']:,} or less"
        case "int_type" | "int_parsing":
            return "a whole number"
    return None


def _similar_key(path: tuple[str, ...]) -> str:
    table: Any = Experiment
    if path[0] == "phases" and len(path) > 2:
        table, path = Phase, path[2:]
    for part in path[:-1]:
        table = table.model_fields[part].annotation
    known = [*table.model_fields, *((*PROFILES, ENGINES) if table is Experiment else ())]
    known = [name for name in known if (table, name) not in ((Experiment, "profile"), (Phase, "name"))]
    close = get_close_matches(path[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"


def _shown(path: Path) -> str:
    """Return the path as the user would type it: relative to the current folder if the path is below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
