"""Base tables, then a profile ([quick], [full], [smoke]), then flags: one document, and where each value came from.

Does not judge any value: model.py and knobs.py do, and ask here for the origin of what they refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bufferlab.spec.lines import KeyPath, line_of
from bufferlab.spec.overrides import PROFILES, Overrides


@dataclass
class Merged:
    """The experiment's document after merging, with the origin of its values."""

    document: dict[str, Any]
    file: str
    lines: dict[KeyPath, int]
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


def merge(tables: dict[str, Any], file: str, lines: dict[KeyPath, int], overrides: Overrides) -> Merged:
    """Apply the profile and the flags to the tables of the TOML."""
    base = {key: value for key, value in tables.items() if key not in PROFILES}
    merged = Merged(_copy(base), file, lines)
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
        _drop_rivals(onto, here)
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
    )
    for path, value, flag in simple:
        if value is not None:
            _set(merged, path, value, f"{flag} {value}")
    for name, value in overrides.set_knobs:
        merged.document.get("sweep", {}).pop(name, None)
        _set(merged, ("knobs", name), value, f"--set {name}={value}")
    for name, values in overrides.sweep:
        merged.document.get("knobs", {}).pop(name, None)
        _set(merged, ("sweep", name), list(values), f"--sweep {name}={','.join(values)}")


def _set(merged: Merged, path: KeyPath, value: Any, flag: str) -> None:
    table = merged.document
    for key in path[:-1]:
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            return  # The TOML has a value where a table belongs; the model says so.
        table = inner
    _drop_rivals(table, path)
    table[path[-1]] = value
    merged.flags[path] = flag


def _drop_rivals(table: dict[str, Any], path: KeyPath) -> None:
    """A later word on how long to measure replaces the earlier one; a duration becomes the cap of a count."""
    if path == ("measure", "duration"):
        table.pop("transactions", None)
        table.pop("max_duration", None)
    elif path == ("measure", "transactions") and "duration" in table:
        table["max_duration"] = table.pop("duration")


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_copy(inner) for inner in value]
    return value
