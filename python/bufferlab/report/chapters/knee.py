"""The chapter on the knee, the number of hot rows that just fit the pool. It plots misses against hot rows.

An analytic model predicts the knee from the table's tree and the pool's frames, without using the measurement.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group, PointRuns
from bufferlab.chapter.elements import Curve, Dot, Figure, Mark, PointsPlot, Section, Series, Table
from bufferlab.chapter.points_figure import dot, points_data
from bufferlab.engines import registry as engines
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.fit import Fit, fit
from bufferlab.stats.knee import hinge_zero
from bufferlab.theory.hot_rows import (
    EDGE_ROWS,
    Layout,
    estimated_tree,
    fit_effective_frames,
    miss_ratio,
    predicted_knee,
)
from bufferlab.units import format_bytes, format_count

_MISSES = "misses_per_transaction"
_TABLE = "sbtest1"
_BRIEF = ("Page", "Layout", "Frames", "Predicted knee (rows)", "Fitted knee (rows)", "Fitted / predicted")
#: The number of points of a drawn curve.
_CURVE_STEPS = 120
#: A straight line, which needs no model, is fitted to points up to this multiple of the predicted knee. Beyond it, the
#: curve of misses bends.
_HINGE_REACH = 1.6


@dataclass(frozen=True)
class _Line:
    """One group of points (one line of the figure), with the model's inputs and its results."""

    place: int
    group: Group
    points: tuple[PointRuns, ...]
    tree: dict[str, Any]
    rows: int
    frames: int
    """The number of frames for pages of data: `pool_frames` minus the frames that the server keeps free."""
    pool_frames: int
    layout: Layout
    even: bool
    """Whether every hot row is read equally often. Only then are the model's curve and fit valid."""
    knee: int | None

    @property
    def page_size_bytes(self) -> int:
        return self.points[0].number("page_size") or 0

    def measured(self) -> list[tuple[Hashable, int, float]]:
        """Return (block, hot rows, misses per transaction) of every run."""
        return [
            (run.run.block, int(run.run.workload["hot_rows"]), value.value)
            for point in self.points
            for run in point.ok
            if (value := run.values[_MISSES]).value is not None
        ]


def knee(analysis: Analysis) -> Section | None:
    """Return the chapter; None if the number of hot rows was not varied, or no group has two points with misses."""
    if analysis.axis != "hot_rows":
        return None
    lines = [line for place, group in enumerate(analysis.groups) if (line := _line(place, group)) is not None]
    if not lines:
        return None
    fitted = _fitted_knees(lines)
    blocks: list[Table | Figure] = [_figure(analysis, lines, fitted), _table(lines, fitted)]
    ratios = _ratios(lines, fitted)
    return Section("knee", "The knee", _intro(lines, fitted), (*blocks, *([ratios] if ratios.rows else [])))


@dataclass(frozen=True)
class FoundKnee:
    """One group's knee in rows, as predicted and as measured, with the ratio of the two."""

    group: Group
    predicted: int
    fitted: Estimate
    ratio: Estimate


def found_knees(analysis: Analysis) -> list[FoundKnee]:
    """Return the knees of all groups for which a knee was predicted and also found in the measurements."""
    if analysis.axis != "hot_rows":
        return []
    lines = [line for place, group in enumerate(analysis.groups) if (line := _line(place, group)) is not None]
    fitted = _fitted_knees(lines)
    return [
        FoundKnee(line.group, line.knee, fitted.mean(line.place), ratio)
        for line in lines
        if fitted is not None and line.knee and (ratio := _against_prediction(line, fitted)) is not None
    ]


def _line(place: int, group: Group) -> _Line | None:
    points = tuple(point for point in group.points if point.values(_MISSES))
    page_size_bytes = points[0].number("page_size") if points else None
    if len(points) < 2 or not page_size_bytes:
        return None
    run = points[0].ok[0]
    engine, workload = engines.declaration(run.run.engine), run.run.workload
    if any(run.knob(name) not in (value, None) for name, value in engine.shares_refer_to.items()):
        return None  # The model does not know tables of another storage engine.
    rows = int(workload["rows"])
    shape = run.run.database.shape if run.run.database else None
    told = next((one for one in shape.trees if one.name == _TABLE), None) if shape else None
    tree = told.model_dump() if told else estimated_tree(rows, page_size_bytes)
    tree = {**tree, EDGE_ROWS: engine.edge_rows}
    frames_told = [_frames(run, page_size_bytes) for point in points for run in point.ok]
    pool_frames = round(sum(frames_told) / len(frames_told))
    frames = engine.frames_of_data({name: one.actual for name, one in run.settings.items()}, pool_frames)
    layout: Layout = workload["layout"]
    even = not float(workload.get("zipf") or 0)
    found = predicted_knee(tree, rows, frames, layout)
    return _Line(place, group, points, tree, rows, frames, pool_frames, layout, even, found)


def _frames(run: MeasuredRun, page_size_bytes: int) -> int:
    """Return the pool's frames: as the engine reports them, else the pages that fit into the pool's bytes."""
    told = run.window.level("pool_frames").value
    pool = run.knob("pool_size")
    return int(told) if told else pool // page_size_bytes if isinstance(pool, int) else 0


def _fitted_knees(lines: Sequence[_Line]) -> Fit | None:
    """Fit the model's knee to each line in each block; return the fit of the knees over blocks; None if there are
    none."""
    values = []
    for line in lines:
        measured = line.measured()
        for block in dict.fromkeys(block for block, _, _ in measured) if line.even else ():
            pairs = [(hot_rows, misses) for at, hot_rows, misses in measured if at == block]
            frames = fit_effective_frames(pairs, line.tree, line.rows, line.layout, line.frames)
            found = predicted_knee(line.tree, line.rows, frames, line.layout) if frames else None
            if found:
                values.append((line.place, block, float(found)))
    present = {place for place, _, _ in values}
    pairs_compared = [(a.place, b.place) for a, b in _comparable(lines) if {a.place, b.place} <= present]
    return fit(values, comparisons=pairs_compared) if values else None


def _comparable(lines: Sequence[_Line]) -> list[tuple[_Line, _Line]]:
    """Return pairs of lines that differ only in page size (larger pages first) or only in layout (scattered first)."""
    pairs = []
    for a, b in combinations(lines, 2):
        differing = {name for name in a.points[0].swept if a.points[0].swept[name] != b.points[0].swept.get(name)}
        if differing - {"hot_rows"} == {"page_size"}:
            pairs.append((a, b) if a.page_size_bytes > b.page_size_bytes else (b, a))
        if differing - {"hot_rows"} == {"layout"}:
            pairs.append((a, b) if a.layout == "scattered" else (b, a))
    return pairs


def _intro(lines: Sequence[_Line], fitted: Fit | None) -> str:
    text = (
        "The knee is the number of hot rows whose pages just fill the pool: leaves, the interior pages above them and "
        "the file's first page. The model reckons it from the table's tree and the pool's frames alone, without those "
        "that a server keeps free."
    )
    ratios = [ratio for line in lines if (ratio := _against_prediction(line, fitted)) is not None]
    if not ratios:
        return text
    low, high = min(ratio.value for ratio in ratios) - 1, max(ratio.value for ratio in ratios) - 1
    return f"{text} Measured, it lies {_off(low)}{f' to {_off(high)}' if len(ratios) > 1 else ''} the predicted one."


def _off(share: float) -> str:
    return f"{100 * abs(share):.1f} % {'above' if share >= 0 else 'below'}"


def _against_prediction(line: _Line, fitted: Fit | None) -> Estimate | None:
    """Return the fitted knee of a line divided by the predicted one; None if one of them is missing."""
    if fitted is None or not line.knee or line.place not in fitted.points:
        return None
    mean = fitted.mean(line.place)
    low, high = (None if bound is None else bound / line.knee for bound in (mean.ci_low, mean.ci_high))
    return Estimate(mean.value / line.knee, low, high, mean.n, mean.df, mean.note)


def _figure(analysis: Analysis, lines: Sequence[_Line], fitted: Fit | None) -> Figure:
    series: list[Series] = []
    curves: list[Curve] = []
    marks: list[Mark] = []
    for place, line in enumerate(lines):
        series.append(Series(line.group.label, tuple(_dot(analysis, point) for point in line.points), joined=False))
        if line.even:
            curves.append(_curve(line, place, series[-1]))
        if line.knee:
            marks.append(Mark(line.knee, "" if marks else "predicted knee", place, dashed=True))
    for place, line in enumerate(lines):
        if fitted and line.place in fitted.points:
            label = "" if any(mark.label == "fitted knee" for mark in marks) else "fitted knee"
            marks.append(Mark(fitted.mean(line.place).value, label, place))
    plot = PointsPlot(
        x_label="Hot rows",
        y_label=analysis.metric(_MISSES).label,
        series=tuple(series),
        x_is_log=True,
        y_is_log=False,
        curves=tuple(curves),
        marks=tuple(marks),
    )
    title = "Misses against hot rows"
    caption = "Open dots: runs. Filled: mean with its 95 % interval."
    if curves:
        caption += " Lines: the model, which was not fitted to them (each hot row read as often, LRU)."
    caption += " Dashed: predicted knee."
    if fitted:
        caption += " Dotted: fitted knee."
    alt = "; ".join(_said(line, fitted) for line in lines)
    return Figure("knee-figure", title, f"{title}. {alt}.", caption, plot, points_data(plot, "knee-figure", title))


def _dot(analysis: Analysis, point: PointRuns) -> Dot:
    hot_rows = int(point.ok[0].run.workload["hot_rows"])
    return dot(analysis, _MISSES, point, float(hot_rows), f"{hot_rows:,}")


def _curve(line: _Line, place: int, series: Series) -> Curve:
    low, high = (math.log(bound(dot.x for dot in series.dots)) for bound in (min, max))
    steps = (low + (high - low) * step / _CURVE_STEPS for step in range(_CURVE_STEPS + 1))
    xs = tuple(dict.fromkeys(round(math.exp(step)) for step in steps))
    ys = tuple(miss_ratio(x, line.tree, line.rows, line.frames, line.layout) for x in xs)
    return Curve("" if place else "model", tuple(float(x) for x in xs), ys, place)


def _said(line: _Line, fitted: Fit | None) -> str:
    label = line.group.label or "hot rows"
    predicted = f"predicted knee {format_count(line.knee)} rows" if line.knee else "no predicted knee"
    if fitted and line.place in fitted.points:
        return f"{label}: {predicted}, fitted {words.count(fitted.mean(line.place))}"
    return f"{label}: {predicted}"


def _table(lines: Sequence[_Line], fitted: Fit | None) -> Table:
    rows = []
    for line in lines:
        against = _against_prediction(line, fitted)
        leaves = line.tree["level_pages"][-1]
        cells = (
            format_bytes(line.page_size_bytes),
            line.layout,
            *_others(line),
            _of_pool(line),
            format_count(leaves),
            format_count(sum(line.tree["level_pages"][:-1])),
            words.number(line.rows / leaves),
            format_count(line.knee) if line.knee else "none",
            words.count(fitted.mean(line.place)) if fitted and line.place in fitted.points else words.NOTHING,
            words.interval(against) if against else words.NOTHING,
            _hinge(line),
        )
        rows.append(cells)
    n = {fitted.mean(line.place).n for line in lines if fitted and line.place in fitted.points}
    each = words.plural(max(n), "block") if len(n) == 1 else f"{min(n)} to {max(n)} blocks" if n else "blocks"
    blocks = f" over {each}"
    others = (f"<{name.replace('_', ' ').capitalize()}" for name in _other_names(lines[0]))
    heads = (
        "Page", "<Layout", *others, "Frames", "Leaf pages", "Interior pages", "Rows per page",
        "Predicted knee (rows)", "Fitted knee (rows)", "Fitted / predicted", "Straight line (rows)",
    )  # fmt: skip
    caption = (
        "Frames: those that hold pages, of the pool's, as the server told them; means over runs. "
        "Fitted: in every block the frames with which the model comes nearest to the measured misses, and the knee of "
        f"a pool of so many; 95 % interval{blocks}. Straight line: where a line through the misses leaves zero, "
        f"without any model, from points up to {_HINGE_REACH} times the predicted knee."
    )
    return Table.of("knees", "Predicted and fitted knees", heads, rows, caption, brief=_BRIEF)


def _of_pool(line: _Line) -> str:
    of = f" of {format_count(line.pool_frames)}" if line.frames < line.pool_frames else ""
    return f"{format_count(line.frames)}{of}"


def _other_names(line: _Line) -> list[str]:
    return [name for name in line.points[0].swept if name not in ("hot_rows", "page_size", "layout")]


def _others(line: _Line) -> list[str]:
    return [line.points[0].swept[name] for name in _other_names(line)]


def _hinge(line: _Line) -> str:
    near = [
        (block, float(hot_rows), misses)
        for block, hot_rows, misses in line.measured()
        if line.knee and hot_rows <= _HINGE_REACH * line.knee
    ]
    if len({hot_rows for _, hot_rows, _ in near}) < 3:
        return words.NOTHING
    found = hinge_zero(near)
    return words.count(found) if math.isfinite(found.value) else words.NOTHING


def _ratios(lines: Sequence[_Line], fitted: Fit | None) -> Table:
    rows = []
    for a, b in _comparable(lines):
        if fitted is None or (a.place, b.place) not in fitted.comparisons or not a.knee or not b.knee:
            continue
        measured, predicted = fitted.step(a.place, b.place), b.knee / a.knee
        cells = (
            f"{b.group.label} against {a.group.label}",
            str(measured.n),
            words.interval(measured),
            words.number(predicted),
            words.number(measured.value / predicted),
        )
        rows.append(cells)
    heads = ("<Knees", "n", "Measured ratio", "Predicted ratio", "Measured / predicted")
    caption = "Fitted knees divided, block by block; 95 % intervals that hold together (Šidák)."
    return Table.of("knee-ratios", "How the knee moves", heads, rows, caption)
