"""Base tables, then a profile ([quick], [full], [smoke]), then flags: one document, and where each value came from.

Does not judge any value: model.py and settings.py do, and ask here for the origin of what they refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bufferlab.spec.lines import KeyPath, line_of
from bufferlab.spec.overrides import PROFILES, Overrides

NOT_PARAMETERS = ("name", "connections")
"""Keys of [workload] that are no settings of a point."""
_SETTINGS = ("knobs", "workload", "sweep")


@dataclass
class Merged:
    """The experiment's document after merging, with the origin of its values."""

    document: dict[str, Any]
    file: str
    lines: dict[KeyPath, int]
    folder: Path = Path()
    """Where relative paths of the file begin."""
    flags: dict[KeyPath, str] = field(default_factory=dict)
    profile_keys: dict[KeyPath, KeyPath] = field(default_factory=dict)

    def where(self, path: KeyPath) -> str:
        """File, line and key of a value, or the flag that set it."""
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.flags:
                return self.flags[path[:depth]]
        for depth in range(len(path), 0, -1):
            if path[:depth] in self.profile_keys:
                path = self.profile_keys[path[:depth]] + path[depth:]
                break
        line = line_of(self.lines, path)
        place = f"{self.file}:{line}" if line else self.file
        return f"{place} ({'.'.join(path)})" if path else place


def merge(
    tables: dict[str, Any], file: str, lines: dict[KeyPath, int], overrides: Overrides, folder: Path = Path()
) -> Merged:
    """Apply the profile and the flags to the tables of the TOML."""
    base = {key: value for key, value in tables.items() if key not in PROFILES}
    merged = Merged(_copy(base), file, lines, folder)
    if overrides.profile is not None:
        _apply_profile(merged, tables.get(overrides.profile), overrides.profile)
    _apply_flags(merged, overrides)
    return merged


def _apply_profile(merged: Merged, table: Any, profile: str) -> None:
    if table is None:
        merged.document["profile_missing"] = profile
        merged.flags[("profile_missing",)] = f"--{profile}"
        return
    if isinstance(table, dict):
        _overlay(merged, merged.document, table, (), (profile,))


def _overlay(merged: Merged, onto: dict[str, Any], table: dict[str, Any], path: KeyPath, at: KeyPath) -> None:
    for key, value in table.items():
        here, there = (*path, key), (*at, key)
        if isinstance(value, dict) and isinstance(onto.get(key), dict):
            _overlay(merged, onto[key], value, here, there)
            continue
        _drop_rivals(merged.document, here)
        onto[key] = _copy(value)
        merged.profile_keys[here] = there


def _apply_flags(merged: Merged, overrides: Overrides) -> None:
    simple: tuple[tuple[KeyPath, Any, str], ...] = (
        (("engine",), overrides.engine, "--engine"),
        (("design", "repetitions"), overrides.repetitions, "--repetitions"),
        (("design", "seed"), overrides.seed, "--seed"),
        (("measure", "transactions"), overrides.transactions, "--transactions"),
        (("measure", "duration"), overrides.duration, "--duration"),
        (("workload", "warehouses"), overrides.warehouses, "--warehouses"),
        (("workload", "connections"), overrides.connections, "--connections"),
        (("knobs", "script"), overrides.script, "argument"),
    )
    for path, value, flag in simple:
        if value is not None:
            _set(merged, path, value, f"{flag} {value}")
    # A flag does not say whose a setting is; settings.py finds its owner.
    for name, value in overrides.set_knobs:
        _set(merged, ("knobs", name), value, f"--set {name}={value}")
    for name, values in overrides.sweep:
        _set(merged, ("sweep", name), list(values), f"--sweep {name}={','.join(values)}")


def _set(merged: Merged, path: KeyPath, value: Any, flag: str) -> None:
    table = merged.document
    for key in path[:-1]:
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            return  # The TOML has a value where a table belongs; the model says so.
        table = inner
    _drop_rivals(merged.document, path)
    table[path[-1]] = value
    merged.flags[path] = flag


def _drop_rivals(document: dict[str, Any], path: KeyPath) -> None:
    """A later word on the same thing replaces the earlier one, also where that stands in another table."""
    if len(path) != 2:
        return
    table, name = path
    measure = document.get("measure")
    if table == "measure" and isinstance(measure, dict):
        if name == "duration":
            measure.pop("transactions", None)
            measure.pop("max_duration", None)
        elif name == "transactions" and "duration" in measure:
            # A duration becomes the cap of a count.
            measure["max_duration"] = measure.pop("duration")
    elif table in _SETTINGS and name not in NOT_PARAMETERS:
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
