"""Read a TOML, merge profile and flags, validate everything, and report all problems at once."""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from bufferlab.engines import registry as engines
from bufferlab.errors import Problem, SpecError
from bufferlab.spec.catalog import find_experiment
from bufferlab.spec.knobs import judge_knobs, judge_workload
from bufferlab.spec.lines import key_lines
from bufferlab.spec.merge import Merged, merge
from bufferlab.spec.model import Experiment
from bufferlab.spec.overrides import PROFILES, Overrides
from bufferlab.workloads import registry as workloads

_NO_OVERRIDES = Overrides()


def load(path_or_name: str | Path, overrides: Overrides = _NO_OVERRIDES) -> Experiment:
    """The experiment of a built-in name or a path, with the flags applied. SpecError lists every problem."""
    path = find_experiment(str(path_or_name))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"cannot read the experiment: {error}", str(path), "give a readable UTF-8 TOML file") from error
    return loads(text, _shown(path), overrides)


def loads(text: str, file: str, overrides: Overrides = _NO_OVERRIDES) -> Experiment:
    """The same from a text; `file` is what errors name."""
    tables = _parse(text, file)
    merged = merge(tables, file, key_lines(text), overrides)
    problems = _missing_profile(merged, tables)
    engine_name = _known(merged, ("engine",), engines.names(hidden=True), "engine", problems)
    workload_name = _known(merged, ("workload", "name"), workloads.names(), "workload", problems)
    if engine_name:
        judged = judge_knobs(merged, engines.declaration(engine_name))
        problems += judged.problems
        merged.document["knobs"] = judged.knobs
        merged.document["sweep"] = judged.sweep
        if workload_name:
            problems += judge_workload(merged, workloads.declaration(workload_name), engines.declaration(engine_name))
    merged.document.setdefault("profile", overrides.profile or "default")
    if overrides.profile:
        merged.document["profile"] = overrides.profile
    experiment = _validate(merged, problems)
    if problems or experiment is None:
        raise SpecError.of(problems)
    return experiment


def _parse(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
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


def _known(merged: Merged, path: tuple[str, ...], names: list[str], kind: str, problems: list[Problem]) -> str | None:
    """The name at `path` if the registry has it; a missing one is left to the model."""
    value: Any = merged.document
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    if isinstance(value, str) and value in names:
        return value
    if isinstance(value, str):
        close = get_close_matches(value, names, n=1)
        shown = [name for name in names if name != "fake"]
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(shown)}"
        problems.append(Problem(f'no {kind} "{value}"', merged.where(path), hint))
    return None


def _validate(merged: Merged, problems: list[Problem]) -> Experiment | None:
    """The model's own judgement; what knobs.py and the registries already said is not repeated."""
    document = dict(merged.document)
    if problems:
        # Unjudged knobs are not texts yet; the model would complain of them a second time.
        document["knobs"], document["sweep"] = {}, {}
    try:
        return Experiment.model_validate(document, strict=None)
    except ValidationError as error:
        for detail in error.errors():
            problem = _problem(merged, detail)
            if not any(known.where == problem.where for known in problems):
                problems.append(problem)
        return None


def _problem(merged: Merged, detail: ErrorDetails) -> Problem:
    path = tuple(str(part) for part in detail["loc"] if part != "parameters" and not isinstance(part, int))
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


def _limit(detail: ErrorDetails) -> str | None:
    """What may be written where a number was beyond its limits, or was no number."""
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
    model: Any = Experiment
    for part in path[:-1]:
        model = model.model_fields[part].annotation
    known = [*model.model_fields, *(PROFILES if len(path) == 1 else ())]
    if len(path) == 1:
        known.remove("profile")
    close = get_close_matches(path[-1], known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"


def _shown(path: Path) -> str:
    """The path as the user would type it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
