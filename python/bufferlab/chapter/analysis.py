"""Turns stored runs into estimates: the points of a sweep in order, and one fit per metric.

It decides which points are compared with each other. It makes no sentences, tables or pictures.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

from bufferlab.chapter import known_scatter, words
from bufferlab.knob import UNLIMITED, Value
from bufferlab.results import metrics
from bufferlab.results.check_parts import ALL, Check, MeasuredRun, Numbers, SettingWords
from bufferlab.results.checks_of_every_engine import check_sweep
from bufferlab.results.gaps import Gaps
from bufferlab.results.metrics import phase_of, qualified
from bufferlab.results.schema import IntegrityRow, StoredPlan, StoredPoint, StoredSetting
from bufferlab.results.store import RunRecord, SweepFolder
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.fit import Fit, fit
from bufferlab.stats.stopping import LOOKS
from bufferlab.stats.verdict import SweepVerdict, Verdict, judge, judge_sweep
from bufferlab.units import format_bytes, readable

#: The headline metric of a workload that this version of bufferlab does not know.
_HEADLINE_OF_UNKNOWN = "reads_per_transaction"
#: The shortest window that allows claims on writes and rates, which depend on checkpoints and other load on the host.
LONG_WINDOW_SECONDS = 60.0
#: The least number of complete blocks (with a good run of each point) for claims in a sweep of several hosts. A block
#: runs on one host; in incomplete blocks, points may also differ because different hosts ran them.
_LEAST_ACROSS_HOSTS = 2
#: Matches a value made of words. Readers see its underscores as spaces.
_A_WORD = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_MADE_HERE_TOO = frozenset({"warm_up_gate"})


@dataclass(frozen=True)
class PointRuns:
    """A point of the sweep with its runs."""

    PRINTED: ClassVar = ("label", "swept", "status", "reason", "runs")

    index: int
    label: str
    swept: dict[str, str]
    key: str
    records: tuple[RunRecord, ...]
    ok: tuple[MeasuredRun, ...]
    planned: dict[str, StoredSetting] = field(default_factory=dict)
    """Name of a setting -> setting with the planned value."""

    @property
    def runs(self) -> int:
        """Return the number of runs that ended well."""
        return len(self.ok)

    @property
    def failures(self) -> list[RunRecord]:
        """Return the failed runs of those blocks in which no other run of this point ended well."""
        done = {run.run.block for run in self.ok}
        return [record for record in self.records if not record.ok and record.run.block not in done]

    @property
    def settings(self) -> dict[str, StoredSetting]:
        """Return name -> setting, from the first run that ended well; the planned settings if none did."""
        return self.ok[0].settings if self.ok else self.planned

    def value(self, name: str) -> Value:
        """Return a setting's value in the first run that ended well, else the planned value; None without either."""
        setting = self.settings.get(name)
        return setting.value if setting else None

    def number(self, name: str) -> int | None:
        """Return the value of a setting if it is a whole number, else None."""
        found = self.value(name)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    @property
    def status(self) -> str:
        """Return the status of the point as a whole."""
        if self.failures or not self.records:
            return self.failures[0].run.status if self.failures else "skipped"
        return "ok"

    @property
    def reason(self) -> str | None:
        """Return why the point, or one of its runs, did not end well; None if all did."""
        if not self.records:
            return "this point has not been run"
        return self.failures[0].reason if self.failures else None

    def values(self, metric: str) -> list[tuple[Hashable, Hashable, float]]:
        """Return (point, block, value) of every good run that has the metric, in the measured window or in a phase."""
        phase, name = phase_of(metric)
        found: list[tuple[Hashable, Hashable, float]] = []
        for run in self.ok:
            value = (run.phases.get(phase, {}) if phase else run.values).get(name)
            if value is not None and value.value is not None:
                found.append((self.index, run.run.block, value.value))
        return found


@dataclass(frozen=True)
class Group:
    """A group of points that differ only in the axis, in the order of their values on it."""

    label: str
    points: tuple[PointRuns, ...]


@dataclass
class Analysis:
    """A sweep whose runs have been read, with its points in order."""

    PRINTED: ClassVar = ("sweep",)

    sweep: SweepFolder
    points: tuple[PointRuns, ...]
    axis: str | None
    """The setting along which points are compared; None if there is none."""
    groups: tuple[Group, ...]
    headline: str
    """The metric that answers the experiment's question."""
    compared: tuple[str, ...]
    """The metrics whose steps are judged, the headline first."""
    reads: str = "reads"
    """The count of reads that tables begin with: reads of the device if pool and page cache share one memory limit."""
    knob_words: Mapping[str, SettingWords] = field(default_factory=dict)
    """Setting of the engine -> the words that readers see for it and its values."""
    fixed: frozenset[str] = frozenset()
    """The swept settings that have only one value, so that no two points differ in them."""
    workload: str = ""
    """The name of the sweep's workload."""
    _fits: dict[str, Fit | None] = field(default_factory=dict)

    @classmethod
    def of(cls, sweep: SweepFolder, runs: Sequence[tuple[RunRecord, MeasuredRun | None]] | None = None) -> Analysis:
        """Return the analysis of a sweep. Read all its runs, unless `runs` has them, good runs with their values."""
        points = _points(
            sweep, [(one, one.measured() if one.ok else None) for one in sweep.runs()] if runs is None else runs
        )
        registry = sweep.registry
        ran = {run.run.engine for point in points for run in point.records}
        engines = [registry.of_engine(name) for name in sorted(ran | {str(sweep.plan.get("engine", ""))})]
        knob_words = {name: words for engine in engines for name, words in engine.knob_words.items()}
        axis = _axis(points, {engine.pool for engine in engines})
        fixed = _fixed(points)
        groups = _groups(points, axis, fixed, knob_words)
        points = tuple(point for group in groups for point in group.points)
        workload = _workload(sweep, points)
        declared = registry.questions.get(workload)
        headline = declared.headline if declared else _HEADLINE_OF_UNKNOWN
        compared = declared.compared if declared else (headline,)
        if logs := {engine.log for engine in engines} - {""}:
            compared = tuple(_of_servers(registry.metric(name), min(logs)) for name in compared)
        told = registry.metric(headline)
        reads = "reads"
        if told.count == reads and told.work and (of_device := _device_reads(points)):
            reads, headline = of_device, metrics.per_work(of_device, told.work)
            compared = (headline, *compared)
        of_axis = knob_words.get(axis or "")
        if of_axis and of_axis.count and told.work:
            headline = metrics.per_work(of_axis.count, told.work)
            compared = (headline, *(name for name in compared if name != headline))
        return cls(sweep, points, axis, groups, headline, compared, reads, knob_words, fixed, workload)

    def metric(self, name: str) -> metrics.Metric:
        """Return the declaration of a metric."""
        return self.sweep.registry.metric(name)

    @property
    def runs(self) -> list[MeasuredRun]:
        """Return every run that ended well."""
        return [run for point in self.points for run in point.ok]

    @property
    def across_hosts(self) -> bool:
        """Return whether several hosts measured this sweep, each in its own blocks."""
        return len(self.sweep.hosts) > 1

    @cached_property
    def whole_blocks(self) -> tuple[int, ...]:
        """Return the blocks that have a good run of each point. Points without any good run are ignored."""
        ran = [{run.run.block for run in point.ok} for point in self.points if point.ok]
        return tuple(block for block in self.sweep.blocks if ran and all(block in blocks for blocks in ran))

    @property
    def missing_cells(self) -> set[tuple[int, int]]:
        """Return (point, block) of every planned run that was not made, not even with a failure."""
        done = {(record.run.point.index, record.run.block) for point in self.points for record in point.records}
        return self.sweep.planned_cells - done

    @cached_property
    def _begun_blocks(self) -> set[int]:
        """Return the blocks that lack runs. A fit leaves their runs out, unless it has a known scatter."""
        return {block for _, block in self.missing_cells}

    @property
    def engine(self) -> str:
        """Return the name of the engine of the first good run; "" if no run ended well."""
        return self.runs[0].run.engine if self.runs else ""

    @property
    def source(self) -> str:
        """Return the source line below every figure: engines, versions, runs per point, date; "" without a run."""
        runs = self.runs
        if not runs:
            return ""
        engines = dict.fromkeys(run.engine_and_version for run in runs)
        counts = sorted({len(point.ok) for point in self.points if point.ok})
        n = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
        day = min(run.run.started_at for run in runs)[:10]
        predicted = ", predicted" if any(run.run.source == "predicted" for run in runs) else ""
        hosts = f" · {len(self.sweep.hosts)} hosts" if self.across_hosts else ""
        return f"{', '.join(engines)}{predicted} · {n}{hosts} · {day} · bufferlab"

    @property
    def unit_of_work(self) -> metrics.Work:
        """Return the unit of work that this workload's counts refer to."""
        return self.metric(self.headline).work or "transaction"

    @property
    def work_noun(self) -> str:
        """Return the unit of work as readers see it: "New-Order"."""
        return metrics.WORK[self.unit_of_work]

    def per_work(self, count: str) -> str:
        """Return the name of the metric for a count per unit of work: "reads" -> "reads_per_new_order"."""
        return metrics.per_work(count, self.unit_of_work)

    @property
    def work_per_s(self) -> str:
        """Return the name of the metric for the throughput in units of work."""
        return f"{self.unit_of_work}s_per_s"

    @cached_property
    def phases(self) -> tuple[str, ...]:
        """Return the names of all phases that runs had after their measured windows, in order."""
        return tuple(dict.fromkeys(name for run in self.runs for name in run.phases))

    @cached_property
    def checks(self) -> list[Check]:
        """Return the integrity checks over all good runs, and those that the executor made during the runs."""
        found = [*check_sweep(self.runs), *_executor_checks(self.runs)]
        return [_not_of_smoke(check) for check in found] if self.is_smoke else found

    @cached_property
    def is_smoke(self) -> bool:
        """Return whether the sweep ran with the smoke sizes, which only show that everything works."""
        return bool(self.sweep.asked.get("profile") == "smoke")

    @cached_property
    def shortest_window_s(self) -> float | None:
        """Return the length of the shortest measured window; None if no time passes in any, as in predictions."""
        return min((run.window.seconds for run in self.runs if run.window.seconds), default=None)

    @property
    def looks(self) -> int:
        """Return how often the sweep may be evaluated before it stops; its intervals hold over all evaluations."""
        return LOOKS if self.sweep.stops_itself else 1

    def fit(self, metric: str) -> Fit | None:
        """Return the fit of one metric over all points and blocks; None if no good run has a value.

        Blocks that lack runs are left out, unless the metric has a known scatter, or no other block is left.
        """
        if metric not in self._fits:
            values = [value for point in self.points for value in point.values(metric)]
            runs = {point.index: point.ok for point in self.points} if not phase_of(metric)[0] else {}
            # A known scatter holds only between runs of the same host.
            scatter = {} if self.across_hosts else known_scatter.deviations(runs, self.metric(metric))
            if not scatter:
                values = [value for value in values if value[1] not in self._begun_blocks] or values
            comparisons, scale = self._comparisons({value[0] for value in values}), self.metric(metric).scale
            self._fits[metric] = (
                fit(values, comparisons=comparisons, scale=scale, looks=self.looks, known_scatter=scatter)
                if values
                else None
            )
        return self._fits[metric]

    def mean(self, metric: str, point: PointRuns) -> Estimate | None:
        """Return the mean of a metric over a point's runs; None if no run has the metric."""
        found = self.fit(metric)
        return found.mean(point.index) if found and point.index in found.points else None

    def verdicts(self, metric: str, group: Group) -> SweepVerdict | None:
        """Return the verdicts along one group; None if fewer than two of its `distinct` points have the metric."""
        found = self.fit(metric)
        places = [point.index for point in self.distinct(group, metric)]
        return judge_sweep(found, places) if found and len(places) > 1 else None

    def verdict(self, metric: str, a: int, b: int) -> Verdict | None:
        """Return the verdict on point b against point a, both given by index; None if the fit does not compare them."""
        found = self.fit(metric)
        return judge(found, a, b) if found and (a, b) in found.comparisons else None

    def steps(self) -> list[tuple[PointRuns, PointRuns]]:
        """Return all groups' pairs of neighbouring points that have good runs and ran with different axis values."""
        return [pair for group in self.groups for pair in pairwise(self._apart([p for p in group.points if p.ok]))]

    def distinct(self, group: Group, metric: str) -> list[PointRuns]:
        """Return the points of a group that have the metric. Of neighbours that `ran_alike`, keep only the first."""
        found = self.fit(metric)
        return self._apart([point for point in group.points if found and point.index in found.points])

    def ran_alike(self, a: PointRuns, b: PointRuns) -> bool:
        """Return whether two points of a group ran with one axis value, even if different values were requested."""
        values = [point.value(self.axis) if self.axis else None for point in (a, b)]
        return values[0] is not None and values[0] == values[1]

    def _apart(self, points: list[PointRuns]) -> list[PointRuns]:
        kept = points[:1]
        for point in points[1:]:
            if not self.ran_alike(kept[-1], point):
                kept.append(point)
        return kept

    @property
    def too_few_blocks(self) -> str | None:
        """Return why a sweep of several hosts allows no claims; None if it allows claims, or has one host."""
        whole = len(self.whole_blocks)
        if not self.across_hosts or whole >= _LEAST_ACROSS_HOSTS:
            return None
        hosts = words.plural(len(self.sweep.hosts), "host")
        return f"{words.plural(whole, 'whole block')}, a claim across {hosts} needs {_LEAST_ACROSS_HOSTS}"

    def claim_blocked(self, metric: str) -> str | None:
        """Return why no claim on this metric is allowed, even with narrow intervals; None if claims are allowed."""
        if self.too_few_blocks:
            return self.too_few_blocks
        if self.metric(metric).is_timed and (broken := self.with_gaps(phase_of(metric)[0])):
            worst = max(gaps.sum_s for _, gaps in broken)
            return f"gaps of {words.number(worst)} s, in {len(broken)} of {words.plural(len(self.runs), 'run')}"
        if not all(run.engine.needs_long_windows for run in self.runs):
            return None
        window_s = self._shortest_s(metric)
        if self.metric(metric).needs_long_window and window_s is not None and window_s < LONG_WINDOW_SECONDS:
            shown = f"{window_s:.0f}" if window_s >= 1 else f"{window_s:.1g}"
            return f"window {shown} s, needs {LONG_WINDOW_SECONDS:.0f} s"
        return None

    def with_gaps(self, phase: str = "") -> list[tuple[MeasuredRun, Gaps]]:
        """Return the good runs whose window, or phase `phase`, has such long gaps that its times cannot be used."""
        found = []
        for run in self.runs:
            values = run.phases.get(phase, {}) if phase else run.values
            told = (values[name].value for name in ("longest_gap_s", "gaps_s", "measured_seconds") if name in values)
            match list(told):
                case [float(longest_s), float(sum_s), float(window_s)]:
                    gaps = Gaps(longest_s, sum_s)
                    if gaps.exceed(window_s):
                        found.append((run, gaps))
        return found

    def _comparisons(self, present: set[Hashable]) -> list[tuple[Hashable, Hashable]]:
        pairs: list[tuple[Hashable, Hashable]] = []
        for group in self.groups:
            places = [p.index for p in self._apart([point for point in group.points if point.index in present])]
            pairs += pairwise(places)
            if len(places) > 2:
                pairs.append((places[0], places[-1]))
        return pairs

    def _shortest_s(self, metric: str) -> float | None:
        phase, _ = phase_of(metric)
        if not phase:
            return self.shortest_window_s
        windows = [point.values(qualified(phase, "measured_seconds")) for point in self.points]
        return min((seconds for values in windows for _, _, seconds in values), default=None)

    @property
    def axis_in_bytes(self) -> bool:
        """Return whether the axis is a number of bytes."""
        settings = (point.settings.get(self.axis or "") for point in self.points)
        return any(setting is not None and setting.unit == "bytes" for setting in settings)

    def short_label(self, point: PointRuns) -> str:
        """Return the point's axis value as requested ("5 %"); without an axis, its whole label."""
        if self.axis is None or self.axis not in point.swept:
            return self.rest_label(point) or point.label
        return value_words(self.knob_words.get(self.axis), point.swept[self.axis])

    def name_of(self, point: PointRuns) -> str:
        """Return a point's name in a table: its axis value, with the actual size of a share, and other swept
        settings."""
        asked, _, actual = self.tick(point).partition("\n")
        shown = f"{asked} ({actual})" if actual and not self.axis_in_bytes else asked
        if self.axis is None:
            return shown
        return ", ".join(filter(None, [shown, self.rest_label(point)]))

    def rest_label(self, point: PointRuns, but: str = "") -> str:
        """Return in words the swept settings except the axis and `but`: "page size 4 KiB, layout clustered"."""
        return _rest_label(point, {self.axis or "", but, *self.fixed}, self.knob_words)

    def value_label(self, name: str, value: str) -> str:
        """Return a value of a setting in words, without the setting's name: "4 KiB", "direct"."""
        return value_words(self.knob_words.get(name), value)

    def setting_label(self, name: str, value: str) -> str:
        """Return a setting with its value in words: "page size 4 KiB", "read-ahead 128 KiB", "direct"."""
        return _setting_label(name, value, self.knob_words)

    def axis_value(self, point: PointRuns) -> float | None:
        """Return the axis value with which the point ran (or was planned) if it is a number, else None."""
        value = point.value(self.axis) if self.axis else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def axis_bytes(self, point: PointRuns) -> int | None:
        """Return the point's axis value if a run ended well and the value is a whole number, else None."""
        return point.number(self.axis) if self.axis and point.ok else None

    def tick(self, point: PointRuns) -> str:
        """Return the label of a point at an axis: the requested value, and below it the actual bytes or count."""
        asked, value = self.short_label(point), self.axis_value(point)
        if value is None or point.swept.get(self.axis or "") is None:
            return asked
        if self.axis_in_bytes:
            actual = format_bytes(value) if point.ok else asked
            return actual if asked.replace(" ", "") == actual.replace(" ", "") else f"{asked}\n{actual}"
        if asked.endswith("%") and value >= 1:
            return f"{asked}\n{value:,.0f}"
        return f"{value:,.0f}" if value == int(value) and value >= 1000 else asked


def value_words(said: SettingWords | None, value: str) -> str:
    """Return a value as readers see it at an axis: "index scan", "128 KiB", "direct".

    >>> value_words(None, "4096"), value_words(None, "64MiB"), value_words(None, "index_scan")
    ('4,096', '64 MiB', 'index scan')
    """
    if said and value in said.values:
        return said.values[value]
    if said and said.unit and value.isdecimal():
        return f"{int(value):,} {said.unit}"
    if value.isdecimal():
        return f"{int(value):,}"
    return value.replace("_", " ") if _A_WORD.fullmatch(value) else readable(value)


def _setting_label(name: str, value: str, knob_words: Mapping[str, SettingWords]) -> str:
    said = knob_words.get(name)
    if said and value in said.values:
        return said.values[value]
    return f"{said.name if said and said.name else name.replace('_', ' ')} {value_words(said, value)}"


def _rest_label(point: PointRuns, apart: set[str], knob_words: Mapping[str, SettingWords]) -> str:
    # Settings come in the order of the engine's words, so that all legends have the same order.
    order = {name: place for place, name in enumerate(knob_words)}
    rest = sorted((name for name in point.swept if name not in apart), key=lambda name: order.get(name, len(order)))
    return ", ".join(_setting_label(name, point.swept[name], knob_words) for name in rest)


def _of_servers(metric: metrics.Metric, log: str) -> str:
    """Return the name of the metric that replaces `metric` for a server, or `metric`'s own name.

    A server has its own `log`, and its CPU time is that of its process, not of the driver's.
    """
    if metric.count == "wal_write_bytes" and metric.work:
        return metrics.per_work(log, metric.work)
    return "server_cpu_us_per_transaction" if metric.name == "cpu_us_per_transaction" else metric.name


def _device_reads(points: tuple[PointRuns, ...]) -> str:
    """Return the engine's count of device reads if, in every good run, pool and page cache share one limit; else ""."""
    told = {run.engine.device_reads if run.divides_memory else "" for point in points for run in point.ok}
    return told.pop() if len(told) == 1 else ""


def _points(sweep: SweepFolder, runs: Sequence[tuple[RunRecord, MeasuredRun | None]]) -> tuple[PointRuns, ...]:
    planned = {point.index: point for point in StoredPlan.model_validate(sweep.plan).points}
    for record, _ in runs:
        run, place = record.run, record.run.point
        told = StoredPoint(**place.model_dump(), point_key=run.point_key, settings=run.settings)
        planned.setdefault(place.index, told)
    return tuple(
        PointRuns(
            index=index,
            label=point.label,
            swept=point.swept,
            key=point.point_key,
            records=tuple(mine := [record for record, _ in runs if record.run.point.index == index]),
            ok=tuple(one for record, one in runs if one is not None and record.run.point.index == index),
            planned=point.settings or (mine[0].run.settings if mine else {}),
        )
        for index, point in sorted(planned.items())
    )


def _workload(sweep: SweepFolder, points: tuple[PointRuns, ...]) -> str:
    """Return the name of the sweep's workload, from its first run, or else from the experiment."""
    name = next((record.run.workload.get("name") for point in points for record in point.records), None)
    if name is None:
        table = sweep.asked.get("workload")
        name = table.get("name") if isinstance(table, dict) else None
    return str(name)


def _swept_values(points: tuple[PointRuns, ...]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for point in points:
        for knob, value in point.swept.items():
            values.setdefault(knob, set()).add(value)
    return values


def _axis(points: tuple[PointRuns, ...], pools: set[str]) -> str | None:
    """Return the swept setting along which points are compared; None if no setting has two values.

    It is the setting with most values; if several have as many, the pool's size, else the first in the plan.
    """
    values = _swept_values(points)
    swept = [knob for knob in values if len(values[knob]) > 1]
    if not swept:
        return None
    return max(swept, key=lambda knob: (len(values[knob]), knob in pools, -swept.index(knob)))


def _fixed(points: tuple[PointRuns, ...]) -> frozenset[str]:
    """Return the swept settings with only one value; an empty set if no setting has several."""
    values = _swept_values(points)
    alone = frozenset(knob for knob, found in values.items() if len(found) == 1)
    return alone if alone != values.keys() else frozenset()


def _groups(
    points: tuple[PointRuns, ...], axis: str | None, fixed: frozenset[str], knob_words: Mapping[str, SettingWords]
) -> tuple[Group, ...]:
    members: dict[str, list[PointRuns]] = {}
    for point in points:
        label = _rest_label(point, {axis, *fixed}, knob_words) if axis else ""
        members.setdefault(label, []).append(point)
    return tuple(Group(label, tuple(sorted(found, key=lambda p: _rank(p, axis)))) for label, found in members.items())


def _rank(point: PointRuns, axis: str | None) -> tuple[float, int]:
    """Return a sort key: numbers by size, an unlimited rate last, words in the order of the plan."""
    if axis is None or axis not in point.swept:
        return 0.0, point.index
    value = point.value(axis)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), point.index
    return (math.inf if value == UNLIMITED else 0.0), point.index


_NOT_OF_SMOKE = ("warm_up_gates", "steady_window", "page_gets_constant", "littles_law", "arrival_rate")
"""The checks that a sweep with smoke sizes may fail.

They need a warm pool, or a window so long that transactions cut by its ends, and their mix, do not matter.
"""


def _not_of_smoke(check: Check) -> Check:
    """Return a check of a sweep with smoke sizes; if it failed and is in _NOT_OF_SMOKE, as not applicable.

    Such sweeps cannot pass these checks: their warm-ups end at a time limit, and their windows are short.
    """
    if check.name not in _NOT_OF_SMOKE or check.status != "failed":
        return check
    return replace(check, status="not_applicable", detail=f"not asked of a smoke size ({check.detail})")


#: Check -> kinds of numbers that its failure puts in doubt; all kinds, if the check is missing here. A window that
#: ended at its time limit has fewer transactions than others, but counts are shown per transaction, so they stay valid.
_TOUCHED: Mapping[str, tuple[Numbers, ...]] = {"window_complete": ("times",), "phases_complete": ("times",)}

#: Name of a check that only the executor makes -> the condition that holds if it passes.
_TITLES = {
    "same_start": "Every run began with the loaded data",
    "settings_applied": "The engine ran with the settings asked for",
    "no_confounds": "Nothing else changed with the settings",
    "window_complete": "Every window held the transactions asked for",
    "phases_complete": "Every phase after the window did its transactions",
    "window_ran_through": "No window stood still or went on for long after its time",
}


def _executor_checks(runs: list[MeasuredRun]) -> list[Check]:
    """Return the checks in run.json that are not made again from samples: one per name, failed if any run failed it."""
    rows: dict[str, list[tuple[MeasuredRun, IntegrityRow]]] = {}
    for run in runs:
        for row in run.run.integrity:
            if row.name not in _MADE_HERE_TOO:
                rows.setdefault(row.name, []).append((run, row))
    checks = []
    for name, found in rows.items():
        order = {"failed": 0, "passed": 1, "not_applicable": 2}
        worst, row = min(found, key=lambda pair: order[pair[1].status])
        where = f" ({worst.label})" if row.status == "failed" else f" ({len(found)} runs)"
        title = _TITLES.get(name, name.replace("_", " ").capitalize())
        checks.append(Check(name, title, row.status, row.detail + where, _TOUCHED.get(name, ALL)))
    return checks
