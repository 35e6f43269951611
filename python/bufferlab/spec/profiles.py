"""Merges base tables, the engine's tables, a profile and flags, in this order, and records each value's origin.

[engines.NAME] holds the differences on one engine. NAME is the engine's name or its family's (the family innodb has the
engines mysql and mariadb). Its [knobs] and [sweep] tables replace the base tables whole, because another engine has
other knobs. Its other tables change single values. After [engines.NAME] come the profiles [quick], [full] and [smoke],
and after them [engines.NAME.quick].

`Overrides` holds the flags. This module validates no values: experiment.py and settings.py do. If they refuse a value,
they use the origin that this module recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bufferlab.engines import registry
from bufferlab.errors import Problem
from bufferlab.knob import AUTO
from bufferlab.spec.experiment import AIM
from bufferlab.spec.lines import KeyPath, line_of
from bufferlab.units import brief

Profile = Literal["quick", "full", "smoke"]
PROFILES: tuple[Profile, ...] = ("quick", "full", "smoke")


@dataclass(frozen=True)
class Overrides:
    """The values of flags. None or empty means that the flag was not given.

    `set_knobs` and `sweep` hold settings of engine, workload and load alike.
    """

    profile: Profile | None = None
    engine: str | None = None
    script: str | None = None
    """The path of the script given in place of an experiment; None if none was given."""
    dump: str | None = None
    """The path of the dump whose data the script uses; None if none was given."""
    set_knobs: tuple[tuple[str, str], ...] = ()
    sweep: tuple[tuple[str, tuple[str, ...]], ...] = ()
    repetitions: int | Literal["auto"] | None = None
    precision: str | None = None
    transactions: int | None = None
    duration: str | None = None
    warehouses: int | None = None
    connections: int | None = None
    warm_up_min: int | None = None
    warm_up_max: int | None = None
    warm_up_time: str | None = None
    seed: int | None = None


NOT_SETTINGS = ("name",)
"""The keys of [workload] that are not settings."""
_SETTINGS = ("knobs", "workload", "sweep")
ENGINES = "engines"
_REPLACED = ("knobs", "sweep")
"""The tables that an engine replaces whole: they are not merged key by key with the base tables."""


@dataclass
class Merged:
    """The merged document of an experiment, with the origin of its values."""

    document: dict[str, Any]
    file: str
    lines: dict[KeyPath, int]
    folder: Path = Path()
    """The folder against which relative paths in the file are resolved."""
    flags: dict[KeyPath, str] = field(default_factory=dict)
    profile_keys: dict[KeyPath, KeyPath] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    """The problems found in the merged tables."""
    sizes: tuple[str, ...] = ()
    """The names of the engines and families for which the experiment has tables."""

    def where(self, path: KeyPath) -> str:
        """Return file, line and key of a value, or the flag that set it."""
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.flags:
                return self.flags[path[:depth]]
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.profile_keys:
                path = self.profile_keys[path[:depth]] + path[depth:]
                break
        # The name of a variable for the server, such as var.innodb_x, contains dots, which TOML reads as nested tables.
        line = line_of(self.lines, tuple(part for key in path for part in key.split(".")))
        place = f"{self.file}:{line}" if line else self.file
        return f"{place} ({'.'.join(path)})" if path else place


def merge(
    tables: dict[str, Any], file: str, lines: dict[KeyPath, int], overrides: Overrides, folder: Path = Path()
) -> Merged:
    """Apply the engine's tables, the profile and the flags to the tables of the TOML."""
    base = {key: value for key, value in tables.items() if key not in (*PROFILES, ENGINES)}
    merged = Merged(_copy(base), file, lines, folder)
    own = _engine_tables(merged, tables.get(ENGINES, {}), overrides.engine or base.get("engine"))
    for name, table in own:
        _apply_engine(merged, {key: value for key, value in table.items() if key not in PROFILES}, (ENGINES, name))
    if overrides.profile is not None:
        mine = [(name, table[overrides.profile]) for name, table in own if overrides.profile in table]
        if overrides.profile in tables or not mine:
            _apply_profile(merged, tables.get(overrides.profile), overrides.profile)
        for name, table in mine:
            _apply_engine(merged, table, (ENGINES, name, overrides.profile))
    _flatten(merged)
    _apply_flags(merged, overrides)
    return merged


def _engine_tables(merged: Merged, tables: Any, engine: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the experiment's tables for this engine: the table of its family first, then the engine's own."""
    declared = {name: registry.declaration(name) for name in registry.names(hidden=True)}
    known = {*declared, *(each.family for each in declared.values() if each.family)}
    if not isinstance(tables, dict):
        merged.problems.append(Problem("engines is not a table", merged.where((ENGINES,)), "write [engines.NAME]"))
        return []
    for name, table in tables.items():
        if name not in known or not isinstance(table, dict):
            what = f'there is no engine "{name}"' if isinstance(table, dict) else f"engines.{name} is not a table"
            shown = sorted(known - {each.name for each in declared.values() if each.hidden})
            hint = f"write [engines.NAME]; known: {', '.join(shown)}"
            merged.problems.append(Problem(what, merged.where((ENGINES, name)), hint))
    merged.sizes = tuple(tables)
    if not isinstance(engine, str) or engine not in declared:
        return []
    wanted = (declared[engine].family, engine)
    return [(name, tables[name]) for name in wanted if isinstance(tables.get(name), dict)]


def _apply_engine(merged: Merged, table: Any, at: KeyPath) -> None:
    if not isinstance(table, dict):
        merged.problems.append(Problem(f"{'.'.join(at)} is not a table", merged.where(at), f"write [{'.'.join(at)}]"))
        return
    for name in _REPLACED:
        if isinstance(table.get(name), dict) and (name == "sweep" or at[-1] not in PROFILES):
            merged.document[name] = {}
    _overlay(merged, merged.document, table, (), at)


def _flatten(merged: Merged) -> None:
    """Turn the nested table that TOML makes of `var.innodb_x = 4` into one setting whose name contains a dot."""
    for name in ("knobs", "sweep"):
        table = merged.document.get(name)
        if isinstance(table, dict):
            nested = [(key, inner) for key, inner in table.items() if isinstance(inner, dict)]
            for key, inner in nested:
                del table[key]
                table.update({f"{key}.{variable}": value for variable, value in inner.items()})


def _apply_profile(merged: Merged, table: Any, profile: str) -> None:
    if table is None:
        merged.document["profile_missing"] = profile
        merged.flags[("profile_missing",)] = f"--{profile}"
        return
    if isinstance(table, dict):
        _overlay(merged, merged.document, table, (), (profile,))


def _overlay(merged: Merged, onto: dict[str, Any], table: dict[str, Any], path: KeyPath, at: KeyPath) -> None:
    inner = {key for key, value in table.items() if isinstance(value, dict) and isinstance(onto.get(key), dict)}
    for key, value in table.items():
        if key not in inner:
            _drop_rivals(merged.document, (*path, key), value)
    for key, value in table.items():
        here, there = (*path, key), (*at, key)
        if key in inner:
            _overlay(merged, onto[key], value, here, there)
        else:
            onto[key] = _copy(value)
            merged.profile_keys[here] = there


def _apply_flags(merged: Merged, overrides: Overrides) -> None:
    simple: tuple[tuple[KeyPath, Any, str], ...] = (
        (("engine",), overrides.engine, "--engine"),
        (("design", "repetitions"), overrides.repetitions, "--repetitions"),
        (("design", "precision"), overrides.precision, "--precision"),
        (("design", "seed"), overrides.seed, "--seed"),
        (("measure", "transactions"), overrides.transactions, "--transactions"),
        (("measure", "duration"), overrides.duration, "--duration"),
        (("warm_up", "min_transactions"), overrides.warm_up_min, "--warm-up-min"),
        (("warm_up", "max_transactions"), overrides.warm_up_max, "--warm-up-max"),
        (("warm_up", "max_duration"), overrides.warm_up_time, "--warm-up-time"),
        (("workload", "warehouses"), overrides.warehouses, "--warehouses"),
        (("workload", "connections"), overrides.connections, "--connections"),
        (("knobs", "script"), overrides.script, "argument"),
        (("knobs", "dump"), overrides.dump, "--load"),
    )
    for path, value, flag in simple:
        if value is not None:
            _set(merged, path, value, f"{flag} {brief(value)}")
    if overrides.dump is not None:
        _set(merged, ("knobs", "data"), "dump", f"--load {brief(overrides.dump)}")
    # A flag does not say whether a setting is the engine's or the workload's; settings.py finds its owner.
    for name, value in overrides.set_knobs:
        _set(merged, ("knobs", name), value, f"--set {name}={brief(value)}")
    for name, values in overrides.sweep:
        _set(merged, ("sweep", name), list(values), f"--sweep {name}={','.join(map(brief, values))}")


def _set(merged: Merged, path: KeyPath, value: Any, flag: str) -> None:
    try:
        "".join((*path, *(map(str, value) if isinstance(value, list) else [str(value)]))).encode()
    except UnicodeEncodeError:
        # Results are UTF-8 text and cannot store other bytes from the command line.
        merged.problems.append(Problem("a setting's value is not UTF-8", flag, "write it in UTF-8"))
        return
    table = merged.document
    for key in path[:-1]:
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            return  # The TOML has a value in the place of a table; Experiment reports it.
        table = inner
    _drop_rivals(merged.document, path, value)
    table[path[-1]] = value
    merged.flags[path] = flag


def _drop_rivals(document: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Remove the settings that a later setting at `path` replaces, also those in another table.

    In [measure], transactions and duration exclude each other; a duration becomes the cap of a later count. A later
    number of repetitions removes the keys that belong to "auto".
    """
    if len(path) != 2:
        return
    table, name = path
    measure, design = document.get("measure"), document.get("design")
    if path == ("design", "repetitions") and value != AUTO and isinstance(design, dict):
        for key in AIM:
            design.pop(key, None)
    elif table == "measure" and isinstance(measure, dict):
        if name == "duration":
            measure.pop("transactions", None)
            measure.pop("max_duration", None)
        elif name == "transactions" and "duration" in measure:
            # A later transaction count keeps the earlier duration as its cap.
            measure["max_duration"] = measure.pop("duration")
    elif table in _SETTINGS and name != "name":
        for other in _SETTINGS:
            rival = document.get(other)
            if other != table and isinstance(rival, dict):
                rival.pop(name, None)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner) for inner in value]
    return value
