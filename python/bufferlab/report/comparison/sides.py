"""Matches the two sides of a comparison: points of A and B with the same settings, and points without a partner.

Two sweep folders are matched by every setting that either of them swept. Two settings of one sweep are matched by its
other swept settings. This file judges nothing: guard.py finds objections to the comparison, and
compare_metrics.py compares the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.engines import registry as engines
from bufferlab.errors import SpecError
from bufferlab.knob import LOAD_KNOBS, Knob
from bufferlab.registry import declared
from bufferlab.results.store import SweepFolder
from bufferlab.units import UnitError, readable
from bufferlab.workloads import registry as workloads

_NOT_SETTINGS = ("name", "version")


@dataclass(frozen=True)
class MatchedSetting:
    """The swept settings, by name, of a point that both sides of a comparison have."""

    place: int
    settings: dict[str, str]

    @property
    def label(self) -> str:
        """Return the settings in words, such as "pool size 10 %"; "" if only the compared setting was swept."""
        return ", ".join(f"{name.replace('_', ' ')} {readable(value)}" for name, value in self.settings.items())


@dataclass(frozen=True)
class MatchedPoint(MatchedSetting):
    """A point of side A and the point of side B that has the same settings."""

    a: PointRuns
    b: PointRuns

    @property
    def both(self) -> tuple[PointRuns, PointRuns]:
        """Return the point of A and the point of B."""
        return self.a, self.b


@dataclass(frozen=True)
class FigureAt:
    """The base class of results about one metric at one setting."""

    metric: str
    setting: MatchedSetting

    @property
    def unit(self) -> str:
        """Return the unit of its numbers."""
        return declared(self.metric).unit

    @property
    def settings(self) -> dict[str, str]:
        """Return the swept settings."""
        return self.setting.settings


@dataclass(frozen=True)
class Sides:
    """Both sides, read and matched. For two settings of one sweep, `a` and `b` are the same analysis."""

    PRINTED: ClassVar = ("one_sweep", "name_a", "name_b", "a", "b", "matched", "only_a", "only_b")

    a: Analysis
    b: Analysis
    name_a: str
    name_b: str
    matched: tuple[MatchedPoint, ...]
    only_a: tuple[PointRuns, ...]
    only_b: tuple[PointRuns, ...]
    chosen: frozenset[str] = frozenset()
    """The settings in which the two sides differ because the user named them (--between)."""

    @property
    def one_sweep(self) -> bool:
        """Return whether both sides ran in one sweep, in turns."""
        return self.a is self.b


def of_two_folders(first: SweepFolder, second: SweepFolder) -> Sides:
    """Match two sweeps by the settings that either of them swept. Raises SpecError if no point has a partner."""
    a, b = Analysis.of(first), Analysis.of(second)
    names = _swept_names([*a.points, *b.points])
    matched, only_a, only_b = _match(a.points, b.points, names)
    if not matched and len(only_a) == len(only_b) == 1 and only_a[0].ok and only_b[0].ok:
        # If each sweep has only one point, these two points are the pair that the user means.
        matched, only_a, only_b = (MatchedPoint(0, {}, only_a[0], only_b[0]),), (), ()
    if not matched:
        raise SpecError(
            "no point of A has the settings of a point of B with runs that ended well",
            f"{first.path} and {second.path}",
            f"A has {_listed(only_a, names)}; B has {_listed(only_b, names)}",
        )
    return Sides(a, b, "A", "B", matched, only_a, only_b)


def of_one_folder(folder: SweepFolder, first: str, second: str) -> Sides:
    """Match two settings of one sweep, each written as setting=value (several joined by commas).

    Raises SpecError for a malformed text, a setting that was not swept, a value that is wrong or that no point has, for
    two equal sides, and if no point has a partner.
    """
    analysis = Analysis.of(folder)
    wanted = [_settings_of_text(analysis, text) for text in (first, second)]
    if wanted[0] == wanted[1]:
        raise SpecError("both sides are the same setting", f"--between {first} {second}", "name two that differ")
    chosen = frozenset(name for want in wanted for name in want)
    sides = [_having(analysis, want, text) for want, text in zip(wanted, (first, second), strict=True)]
    rest = [name for name in _swept_names(analysis.points) if name not in chosen]
    matched, only_a, only_b = _match(sides[0], sides[1], rest)
    if not matched:
        raise SpecError(
            "the two settings have no point in common with runs that ended well",
            f"--between {first} {second}",
            f"the first has {_listed(only_a, rest)}; the second has {_listed(only_b, rest)}",
        )
    name_a, name_b = (_said(want) for want in wanted)
    return Sides(analysis, analysis, name_a, name_b, matched, only_a, only_b, chosen)


def asked_of(point: PointRuns) -> dict[str, str]:
    """Return the requested value of every setting of a point, by name: settings of the load, the workload and the
    engine."""
    found = {knob.name: knob.default for knob in LOAD_KNOBS}
    if point.records:
        record = point.records[0]
        found |= {name: str(value) for name, value in record.run.workload.items() if _is_setting(name, value)}
        found |= {name: one.asked for name, one in record.run.settings.items() if one.asked is not None}
    return {**found, **point.swept}


def _is_setting(name: str, value: Any) -> bool:
    return name not in _NOT_SETTINGS and isinstance(value, str | int | float)


def _swept_names(points: Iterable[PointRuns]) -> list[str]:
    return list(dict.fromkeys(name for point in points for name in point.swept))


def _match(
    of_a: Iterable[PointRuns], of_b: Iterable[PointRuns], names: list[str]
) -> tuple[tuple[MatchedPoint, ...], tuple[PointRuns, ...], tuple[PointRuns, ...]]:
    """Return the pairs of points that have good runs and agree in the settings `names`, and the other points of each
    side."""
    partners = {_place(point, names): point for point in of_b}
    matched: list[MatchedPoint] = []
    only_a = []
    for point in of_a:
        partner = partners.get(_place(point, names))
        if partner is None or not point.ok or not partner.ok:
            only_a.append(point)
            continue
        asked = asked_of(point)
        settings = {name: asked[name] for name in names if name in asked}
        matched.append(MatchedPoint(len(matched), settings, point, partner))
        del partners[_place(point, names)]
    return tuple(matched), tuple(only_a), tuple(partners.values())


def _place(point: PointRuns, names: list[str]) -> tuple[str | None, ...]:
    asked = asked_of(point)
    return tuple(asked.get(name) for name in names)


def _settings_of_text(analysis: Analysis, text: str) -> dict[str, str]:
    """Return setting=value[,setting=value] as a table of canonical texts.

    Raises SpecError for a malformed text, for a setting that the sweep did not sweep, and for a wrong value.
    """
    swept = _swept_names(analysis.points)
    found = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise SpecError(f'"{part}" is not setting=value', f"--between {text}", "such as --between pool_size=10% …")
        if name not in swept:
            there = ", ".join(swept) or "nothing"
            hint = f"it swept {there}; `compare` takes two folders as well"
            raise SpecError(f"{name} was not swept in this sweep", f"--between {text}", hint)
        found[name] = _canonical(analysis, name, value, text)
    return found


def _having(analysis: Analysis, want: Mapping[str, str], text: str) -> list[PointRuns]:
    found = [point for point in analysis.points if all(point.swept.get(name) == value for name, value in want.items())]
    if not found:
        there = "; ".join(
            f"{name} = {', '.join(dict.fromkeys(point.swept[name] for point in analysis.points))}" for name in want
        )
        raise SpecError(f"the sweep has no point with {_said(want)}", f"--between {text}", f"it has {there}")
    return found


def _canonical(analysis: Analysis, name: str, value: str, text: str) -> str:
    """Return the canonical text of a setting's value: "4KiB" for "4k". Raises SpecError for an invalid value."""
    knob = _declared(analysis, name)
    if knob is None:
        return value
    try:
        return knob.parse(value).asked
    except UnitError as error:
        raise SpecError(error.what, f"--between {text}", error.hint) from error


def _declared(analysis: Analysis, name: str) -> Knob | None:
    """Return the declaration of a setting; None if this bufferlab lacks it, because a newer one made the folder."""
    used = {str(record.run.workload.get("name")) for point in analysis.points for record in point.records}
    known = [*LOAD_KNOBS]
    with suppress(KeyError):
        known += engines.declaration(str(analysis.sweep.plan.get("engine"))).knobs
    for one in sorted(used & {*workloads.names()}):
        known += workloads.declaration(one).parameters
    return next((knob for knob in known if knob.name == name), None)


def _said(want: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {readable(value)}" for name, value in want.items())


def _listed(points: Iterable[PointRuns], names: list[str]) -> str:
    shown = []
    for point in points:
        asked = asked_of(point)
        said = _said({name: asked[name] for name in names if name in asked}) or point.label
        shown.append(said if point.ok else f"{said} (no run ended well)")
    return "; ".join(shown) or "no point"
