"""The chapter that compares storage engines of MariaDB: from how many hot rows on each reads from storage, and how it
divides the memory.

One measure serves all of them: the bytes that the kernel read from storage for the server's process. An engine's own
counters count other things (MyISAM's leave out rows). The knee needs no model of an engine. If selects hit N rows
uniformly and the memory holds K of them, a fraction of 1 - K/N of the selects misses. This holds for any replacement
policy and any number of rows in a block. So reads against 1/N are a straight line beyond K, and zero before
(stats/knee.py, `hinge_zero`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group, PointRuns
from bufferlab.chapter.elements import Figure, Mark, PointsPlot, Section, Series, Table
from bufferlab.chapter.points_figure import dot, points_data
from bufferlab.engines.innodb.metrics import BLOCKS_FROM_STORAGE
from bufferlab.engines.innodb.storage_engines import BESIDE_CACHE_BYTES, INNODB, KNOB, LEVELS, STORAGE_ENGINES, of
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.knee import hinge_zero
from bufferlab.units import MIB, format_bytes, format_count

_ROW_BYTES = 4 + 4 + 120 + 60
"""The bytes of a row in sysbench's table, by column: id, k, c and pad (schema.sql)."""
_ROW_OVERHEAD_BYTES = 56
"""The overhead of a cached row, in bytes: memcached's item header with its CAS (memcached.h, struct _stritem)."""
_LEAST = 0.01
"""A point counts as reading from storage if it reads more than this number of blocks of 4 KiB per select."""
_REACH = 1.6
"""The line is fitted to the points with at most this many times the hot rows of the first reading point.

It includes at least two reading points.
"""
_HOT = "hot_rows"


@dataclass(frozen=True)
class _Line:
    """The points of one storage engine, page size and layout, in the order of their hot rows."""

    group: Group
    points: tuple[PointRuns, ...]
    knee: Estimate | None
    """The knee in rows; None if no point reads from storage, or if all do."""
    between: str
    """The words that a table shows if no knee was found."""
    budget_bytes: int

    @property
    def label(self) -> str:
        """Return the line's name, also for a line that is the only one."""
        return self.group.label or str(self.points[0].ok[0].knob(KNOB))

    @property
    def row_cache_rows(self) -> float:
        """Return how many rows a cache of single rows would hold in the same memory."""
        return self.budget_bytes / (_ROW_BYTES + _ROW_OVERHEAD_BYTES)


def compared(analysis: Analysis) -> Section | None:
    """Return the chapter; None unless the sweep varies the storage engine, or some tables are not in InnoDB.

    Knees are included only if the sweep varies the number of hot rows.
    """
    runs = [run for run in analysis.runs if run.knob(KNOB) is not None]
    if not any(KNOB in point.swept or of({KNOB: str(run.knob(KNOB))}) for point in analysis.points for run in point.ok):
        return None
    lines = _lines(analysis) if analysis.axis == _HOT else []
    blocks: list[Table | Figure] = [_figure(analysis, lines), _knees(lines)] if lines else []
    return Section("storage-engines", "Storage engines", _intro(lines), (*blocks, _memory(analysis), _apart(runs)))


def best(analysis: Analysis) -> list[str]:
    """Return sentences on the storage engine, page size and layout that hold most hot rows; [] if no knee was found."""
    if analysis.axis != _HOT or not any(KNOB in point.swept for point in analysis.points):
        return []
    found = [line for line in _lines(analysis) if line.knee is not None]
    if len(found) < 2:
        return []
    today = max((line for line in found if _is_innodb(line)), key=_value, default=None)
    others = [line for line in found if not _is_innodb(line)]
    said = []
    if today:
        said.append(f"With InnoDB as it is, {today.label} holds most hot rows: {_rows(today)}.")
    if others:
        other = max(others, key=_value)
        said.append(f"Of the other storage engines, {other.label} holds most: {_rows(other)}.")
    cache = found[0].row_cache_rows
    said.append(f"A cache of single rows would hold {format_count(round(cache))} in the same memory.")
    return said


def _is_innodb(line: _Line) -> bool:
    return str(line.points[0].ok[0].knob(KNOB)) == INNODB


def _value(line: _Line) -> float:
    return line.knee.value if line.knee else 0.0


def _rows(line: _Line) -> str:
    return words.count(line.knee) if line.knee else line.between


def _lines(analysis: Analysis) -> list[_Line]:
    lines = []
    for group in analysis.groups:
        points = tuple(point for point in group.points if point.ok and point.values(_metric(analysis)))
        if len(points) > 1:
            knee, between = _knee(analysis, points)
            lines.append(_Line(group, points, knee, between, int(points[0].settings["pool_size"].planned or 0)))
    return lines


def _metric(analysis: Analysis) -> str:
    return analysis.per_work(BLOCKS_FROM_STORAGE)


def _hot_rows(point: PointRuns) -> int:
    return int(point.ok[0].run.workload[_HOT])


def _knee(analysis: Analysis, points: Sequence[PointRuns]) -> tuple[Estimate | None, str]:
    """Return the knee, where a straight line through the reads crosses zero, and "".

    Without a knee, return None and words for the range of rows in which it may lie.
    """
    ordered = sorted(points, key=_hot_rows)
    read = [mean.value if (mean := analysis.mean(_metric(analysis), point)) else 0.0 for point in ordered]
    first = next((place for place, blocks in enumerate(read) if blocks > _LEAST), None)
    least, most = (format_count(_hot_rows(ordered[place])) for place in (0, -1))
    if first is None:
        return None, f"no knee between {least} and {most} rows"
    if first == 0:
        return None, f"below {least} rows"
    reading = [_hot_rows(point) for point, blocks in zip(ordered, read, strict=True) if blocks > _LEAST]
    bracket = f"between {format_count(_hot_rows(ordered[first - 1]))} and {format_count(reading[0])} rows"
    if len(reading) < 2:
        return None, bracket
    reach = max(_REACH * reading[0], reading[1])
    near = [
        (run.run.block, -1 / _hot_rows(point), blocks)
        for point in ordered
        if _hot_rows(point) <= reach
        for run in point.ok
        if (blocks := run.values[_metric(analysis)].value) is not None
    ]
    found = hinge_zero(near)
    if math.isfinite(found.value):
        knee, low, high = (None if x is None else -1 / x for x in (found.value, found.ci_low, found.ci_high))
        assert knee is not None
        if high is not None and high < 0:  # The interval includes 1/N = 0, so it has no upper end.
            low = high = None
        return replace(found, value=knee, ci_low=low, ci_high=high), ""
    return None, bracket


def _intro(lines: Sequence[_Line]) -> str:
    text = (
        "Each point's server has the same memory besides what it takes at rest, if memory_limit is pool; its storage "
        "engine divides it. Reads are those of the kernel for the server's process, in blocks of 4 KiB."
    )
    if lines:
        row = _ROW_BYTES + _ROW_OVERHEAD_BYTES
        text += (
            " The knee is the number of hot rows from which on selects read. A cache of single rows would take "
            f"{_ROW_BYTES} bytes of columns and {_ROW_OVERHEAD_BYTES} bytes of its own (memcached's) a row, {row} "
            "together."
        )
    return text


def _figure(analysis: Analysis, lines: Sequence[_Line]) -> Figure:
    metric = _metric(analysis)
    series = [
        Series(line.label, tuple(dot(analysis, metric, point, float(_hot_rows(point)), f"{_hot_rows(point):,}")
                                       for point in line.points))
        for line in lines
    ]  # fmt: skip
    marks = [Mark(line.knee.value, "" if place else "knee", place) for place, line in enumerate(lines) if line.knee]
    plot = PointsPlot(
        x_label="Hot rows", y_label=analysis.metric(metric).label, series=tuple(series), x_is_log=True, y_is_log=False,
        marks=tuple(marks),
    )  # fmt: skip
    title, id = "Reads from storage against hot rows", "storage-engines-figure"
    alt = "; ".join(f"{line.label}: {_rows(line)}" for line in lines)
    caption = "Open dots: runs. Filled: mean with its 95 % interval. Dotted: knee."
    return Figure(id, title, f"{title}. {alt}.", caption, plot, points_data(plot, id, title))


def _knees(lines: Sequence[_Line]) -> Table:
    rows = []
    for line in sorted(lines, key=_value, reverse=True):
        mib = line.budget_bytes / MIB
        known = line.knee is not None and mib > 0
        rows.append((
            line.label,
            str(len({run.run.block for point in line.points for run in point.ok})),
            _rows(line),
            words.number(_value(line) / mib) if known else words.NOTHING,
            words.share(_value(line) / line.row_cache_rows) if known else words.NOTHING,
        ))  # fmt: skip
    heads = ("<Storage engine, pages, layout", "n", "Knee (rows)", "Rows a MiB", "Of a row cache")
    caption = (
        "The knee with its 95 % interval over blocks: where a straight line through the reads against 1 / hot rows "
        f"leaves zero, from points up to {_REACH} times the first that reads. Of a row cache: the knee over the rows "
        "that a cache of single rows would hold in the same memory."
    )
    return Table.of("storage-engine-knees", "Hot rows that the memory holds", heads, rows, caption, brief=True)


def _memory(analysis: Analysis) -> Table:
    """Return a table of how each storage engine divided the memory, at its point with most hot rows or transactions."""
    last: dict[tuple[str, ...], PointRuns] = {}
    for point in analysis.points:
        if point.ok and point.ok[0].knob("memory_at_rest_bytes") is not None:
            last[tuple(value for name, value in point.swept.items() if name in (KNOB, "page_size"))] = point
    rows = [(" ".join(names) or str(point.ok[0].knob(KNOB)), *_division(point)) for names, point in last.items()]
    heads = ("<Storage engine, pages", "Limit", "At rest", "Cache", "Of it filled", "Memtables", "Index, filter",
             "Page cache", "Grown", "Left")  # fmt: skip
    caption = (
        "One run of each. Limit: the cgroup's. At rest: the server before its first connection, with an idle InnoDB "
        "where tables are in another storage engine. Cache: as set. Of it filled, memtables, index and filter: by the "
        "engine's own account, where it has one. Page cache: pages of files. Grown: what processes took since, cache "
        f"included. Left: nobody took it; {format_bytes(BESIDE_CACHE_BYTES)} were kept for connections."
    )
    return Table.of("memory-division", "How the memory was divided", heads, rows, caption)


def _division(point: PointRuns) -> tuple[str, ...]:
    run = point.ok[-1]

    def told(name: str) -> int | None:
        value = run.knob(name)
        return value if isinstance(value, int) else None

    limit, rest, held, cached = (
        told(f"memory_{name}_bytes") for name in ("limit", "at_rest", "held", "page_cache")
    )  # fmt: skip
    grown = held - rest if held is not None and rest is not None else None
    left = limit - held - cached if limit and held is not None and cached is not None else None
    parts = (limit, rest, told("pool_size"), told("memory_cache_bytes"), told("memory_memtables_bytes"),
             told("memory_readers_bytes"), cached, grown, left)  # fmt: skip
    return tuple(words.NOTHING if part is None else format_bytes(max(0, part)) for part in parts)


def _apart(runs: Sequence[MeasuredRun]) -> Table:
    """Return a table with each storage engine's remaining differences from InnoDB, and with the LSM levels that had
    files."""
    rows = []
    for name in dict.fromkeys(str(run.knob(KNOB)) for run in runs):
        if name not in STORAGE_ENGINES:
            continue
        levels = {run.knob(LEVELS) for run in runs if str(run.knob(KNOB)) == name} - {None}
        counted = f"; levels in its runs: {words.listing(sorted(map(str, levels)))}" if levels else ""
        rows.append((name, f"{STORAGE_ENGINES[name].differs}{counted}"))
    heads = ("<Storage engine", "<Differs from InnoDB")
    return Table.of("not-comparable", "What is not comparable", heads, rows)
