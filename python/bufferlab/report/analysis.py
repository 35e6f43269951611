"""From stored runs to estimates: which points there are, how they are ordered, and one fit per metric.

It decides what is compared with what. Knows nothing of sentences, tables or pictures.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from bufferlab.results.integrity import Check, MeasuredRun, check_sweep
from bufferlab.results.store import RunRecord, SweepFolder
from bufferlab.stats.model import Fit, fit
from bufferlab.stats.verdict import SweepVerdict, Verdict, judge, judge_sweep
from bufferlab.units import UnitError, format_bytes, parse_size

#: The figure that answers the experiment's question.
HEADLINE = "reads_per_new_order"
#: Writes and rates depend on checkpoints and on the host's weather: shorter windows cannot claim them.
LONG_WINDOW_SECONDS = 60.0
#: A ratio of shares near one says nothing; these are compared by difference.
_MADE_HERE_TOO = frozenset({"warm_up_gate"})
_LINEAR = frozenset({"hit_ratio"})


def needs_long_window(metric: str) -> bool:
    """Whether a claim about this metric needs a window of a minute or more."""
    return metric.endswith("_per_s") or metric.startswith(("write", "wal_write", "device_write"))


@dataclass(frozen=True)
class PointRuns:
    """A point of the sweep with its runs."""

    index: int
    label: str
    swept: dict[str, str]
    key: str
    records: tuple[RunRecord, ...]
    ok: tuple[MeasuredRun, ...]

    @property
    def failures(self) -> list[RunRecord]:
        """The runs that did not end well and whose place no later run took."""
        done = {run.run["block"] for run in self.ok}
        return [record for record in self.records if not record.ok and record.run["block"] not in done]

    @property
    def actual(self) -> dict[str, Any]:
        """The knobs as read back, of the first run that ended well."""
        return dict(self.ok[0].run["knobs_actual"]) if self.ok else {}

    @property
    def status(self) -> str:
        """How the point as a whole ended."""
        if self.failures or not self.records:
            return self.failures[0].run["status"] if self.failures else "skipped"
        return "ok"

    @property
    def reason(self) -> str | None:
        """Why the point, or one of its runs, did not end well."""
        if not self.records:
            return "this point has not been run"
        return self.failures[0].run["reason"] if self.failures else None

    def values(self, metric: str) -> list[tuple[Hashable, Hashable, float]]:
        """(point, block, value) of every run that has the metric."""
        return [
            (self.index, run.run["block"], value) for run in self.ok if (value := run.figures[metric].value) is not None
        ]


@dataclass(frozen=True)
class Group:
    """Points that differ in the axis knob alone, in its order."""

    label: str
    points: tuple[PointRuns, ...]


@dataclass
class Analysis:
    """A sweep, read and ready to be asked."""

    sweep: SweepFolder
    points: tuple[PointRuns, ...]
    axis: str | None
    """The knob along which points are compared."""
    groups: tuple[Group, ...]
    _fits: dict[str, Fit | None] = field(default_factory=dict)

    @classmethod
    def of(cls, sweep: SweepFolder) -> Analysis:
        """Read every run of a sweep."""
        points = _points(sweep)
        axis = _axis(points)
        return cls(sweep, points, axis, _groups(points, axis))

    @property
    def runs(self) -> list[MeasuredRun]:
        """Every run that ended well."""
        return [run for point in self.points for run in point.ok]

    @cached_property
    def checks(self) -> list[Check]:
        """The integrity checks over all runs, and those the executor made itself."""
        return [*check_sweep(self.runs), *_executor_checks(self.runs)]

    @cached_property
    def shortest_window_s(self) -> float | None:
        """The shortest measured window."""
        return min((run.window.seconds for run in self.runs if run.window.seconds is not None), default=None)

    def fit(self, metric: str) -> Fit | None:
        """The model of one metric over all points and blocks; none when no run has it."""
        if metric not in self._fits:
            values = [value for point in self.points for value in point.values(metric)]
            comparisons = self._comparisons({value[0] for value in values})
            scale = "linear" if metric in _LINEAR else "auto"
            self._fits[metric] = fit(values, comparisons=comparisons, scale=scale) if values else None  # type: ignore[arg-type]
        return self._fits[metric]

    def verdicts(self, metric: str, group: Group) -> SweepVerdict | None:
        """The verdicts along one group; none when fewer than two of its points have the metric."""
        found = self.fit(metric)
        places = [point.index for point in group.points if found and point.index in found.points]
        return judge_sweep(found, places) if found and len(places) > 1 else None

    def verdict(self, metric: str, a: int, b: int) -> Verdict | None:
        """The verdict on one step, if both points have the metric."""
        found = self.fit(metric)
        return judge(found, a, b) if found and (a, b) in found.comparisons else None

    def steps(self) -> list[tuple[PointRuns, PointRuns]]:
        """Neighbouring points that ran, in every group."""
        return [pair for group in self.groups for pair in pairwise([p for p in group.points if p.ok])]

    def claim_blocked(self, metric: str) -> str | None:
        """Why nothing may be claimed about this metric, whatever its interval; None when claims are allowed."""
        window_s = self.shortest_window_s
        if needs_long_window(metric) and window_s is not None and window_s < LONG_WINDOW_SECONDS:
            return f"window {window_s:.0f} s, needs {LONG_WINDOW_SECONDS:.0f} s"
        return None

    def _comparisons(self, present: set[Hashable]) -> list[tuple[Hashable, Hashable]]:
        pairs: list[tuple[Hashable, Hashable]] = []
        for group in self.groups:
            places = [point.index for point in group.points if point.index in present]
            pairs += pairwise(places)
            if len(places) > 2:
                pairs.append((places[0], places[-1]))
        return pairs

    def short_label(self, point: PointRuns) -> str:
        """The axis knob's value alone ("5 %"), or the whole label when there is no axis."""
        return spaced(point.swept[self.axis]) if self.axis and self.axis in point.swept else point.label

    def axis_bytes(self, point: PointRuns) -> int | None:
        """What the axis knob really was, if it is a size."""
        value = actual_of(point.actual, self.axis) if self.axis else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def tick(self, point: PointRuns) -> str:
        """The point under an axis: what was asked, and the bytes it really was."""
        size = self.axis_bytes(point)
        asked = self.short_label(point)
        if size is None or not is_size(self.axis or ""):
            return asked
        actual = format_bytes(size)
        return actual if asked.replace(" ", "") == actual.replace(" ", "") else f"{asked}\n{actual}"


def actual_of(actual: dict[str, Any], knob: str) -> Any:
    """A knob as read back: the core names sizes with their unit."""
    return actual.get(knob, actual.get(f"{knob}_bytes"))


def is_size(knob: str) -> bool:
    """Whether a knob is a number of bytes."""
    return knob.removesuffix("_bytes").endswith(("size", "checkpoint"))


def spaced(value: str) -> str:
    """ "5%" and "64MiB" as people write them: "5 %", "64 MiB"."""
    match = re.fullmatch(r"([0-9.]+)(%|[KMGT]?i?B)", value)
    return f"{match[1]} {match[2]}" if match else value


def _points(sweep: SweepFolder) -> tuple[PointRuns, ...]:
    records = sweep.runs()
    planned = {int(point["index"]): point for point in sweep.plan.get("points", [])}
    for record in records:
        point = record.run["point"]
        planned.setdefault(point["index"], {**point, "point_key": record.run["point_key"]})
    return tuple(
        PointRuns(
            index=index,
            label=str(point["label"]),
            swept={name: str(value) for name, value in point["swept"].items()},
            key=str(point.get("point_key", "")),
            records=tuple(mine := [record for record in records if record.run["point"]["index"] == index]),
            ok=tuple(MeasuredRun.read(record) for record in mine if record.ok),
        )
        for index, point in sorted(planned.items())
    )


def _axis(points: tuple[PointRuns, ...]) -> str | None:
    """The swept knob to compare along: the pool if it is swept, else the one with most values."""
    values: dict[str, set[str]] = {}
    for point in points:
        for knob, value in point.swept.items():
            values.setdefault(knob, set()).add(value)
    swept = [knob for knob in values if len(values[knob]) > 1]
    if not swept:
        return None
    return next(
        (knob for knob in swept if knob.startswith("pool_size")), max(swept, key=lambda knob: len(values[knob]))
    )


def _groups(points: tuple[PointRuns, ...], axis: str | None) -> tuple[Group, ...]:
    members: dict[str, list[PointRuns]] = {}
    for point in points:
        rest = ", ".join(f"{knob} {value}" for knob, value in point.swept.items() if knob != axis)
        members.setdefault(rest, []).append(point)
    return tuple(Group(label, tuple(sorted(found, key=lambda p: _rank(p, axis)))) for label, found in members.items())


def _rank(point: PointRuns, axis: str | None) -> tuple[float, int]:
    """Sizes in the order of size, words in the order of the plan."""
    try:
        size = parse_size(point.swept[axis]) if axis else None
    except (UnitError, KeyError):
        size = None
    if size is None:
        return 0.0, point.index
    return float(size.ratio if size.ratio is not None else size.size_bytes or 0), point.index


def _executor_checks(runs: list[MeasuredRun]) -> list[Check]:
    """Checks stored in run.json that the samples do not repeat, one row per name: failed if any run failed it."""
    rows: dict[str, list[tuple[MeasuredRun, dict[str, Any]]]] = {}
    for run in runs:
        for row in run.run["integrity"]:
            if row["name"] in _MADE_HERE_TOO:
                continue
            rows.setdefault(row["name"], []).append((run, row))
    checks = []
    for name, found in rows.items():
        order = {"failed": 0, "passed": 1, "not_applicable": 2}
        worst, row = min(found, key=lambda pair: order[pair[1]["status"]])
        where = f" ({worst.label})" if row["status"] == "failed" else f" ({len(found)} runs)"
        checks.append(Check(name, name.replace("_", " ").capitalize(), row["status"], row["detail"] + where))
    return checks
