"""The chapter on the effect of innodb_lru_scan_depth.

The depth is the number of pages to which the page cleaner fills each free list (buf0flu.cc: buf_flush_LRU_list_batch).
So a deeper scan gives more free frames and less cache.

Trends are over log2 of the depth. They show reads, the cache that is left, and how often user threads had to find a
frame themselves. All confidence intervals of a sweep hold simultaneously at 95 % (Sidak).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group, PointRuns
from bufferlab.chapter.elements import Column, Figure, PanelsPlot, PointsPlot, Row, Section, Table
from bufferlab.chapter.point_table import Heads, means_over_runs, point_table
from bufferlab.chapter.points_figure import points_figure
from bufferlab.results.metrics import Metric
from bufferlab.stats.best import equivalence_set
from bufferlab.stats.comparison import single_level
from bufferlab.stats.trend import MIN_POINTS, Trend, Turn, trend, turn
from bufferlab.stats.verdict import Verdict

DEPTH = "lru_scan_depth"
_LEVEL = 0.95
_BESIDE_HEADLINE = ("effective_cache_pages", "lru_scan_share", "single_page_share")


@dataclass(frozen=True)
class FoundTrend:
    """The trend of one metric of one group of points over innodb_lru_scan_depth."""

    group: Group
    metric: Metric
    trend: Trend
    first: float
    last: float
    """The metric's mean at the largest depth; `first` is that at the smallest."""
    turn: Turn | None = None
    """The depth at which the metric turns from falling to rising or back; None if it does not turn.

    A slope does not describe a metric that turns.
    """


def is_scan_depth(analysis: Analysis) -> bool:
    """Return whether this sweep varies innodb_lru_scan_depth to measure its effect."""
    return analysis.axis == DEPTH


def found_trends(analysis: Analysis) -> list[FoundTrend]:
    """Return the trends of a scan-depth sweep, the headline's first in each group; an empty list for other sweeps."""
    if not is_scan_depth(analysis):
        return []
    names = (analysis.headline, *_BESIDE_HEADLINE)
    placed = [(group, metric, _placed(analysis, group, metric)) for group in analysis.groups for metric in names]
    asked = [one for one in placed if len({x for x, _, _ in one[2]}) >= MIN_POINTS]
    level = single_level(_LEVEL, len(asked))
    found = []
    for group, metric, rows in asked:
        fit = analysis.fit(metric)
        ends = [point for point in group.points if point.values(metric)]
        assert fit is not None
        first, last = (fit.mean(point.index).value for point in (ends[0], ends[-1]))
        turned = turn(fit, [point.index for point in ends if point.index in fit.points], level)
        of = analysis.metric(metric)
        found.append(FoundTrend(group, of, trend(rows, level=level, scale=of.scale), first, last, turned))
    return found


def _placed(analysis: Analysis, group: Group, metric: str) -> list[tuple[float, int, float]]:
    """Return (log2 of the depth, block, value of the metric) of each run of the group; no item for a depth of 0."""
    rows: list[tuple[float, int, float]] = []
    for point in group.points:
        depth = analysis.axis_value(point)
        if depth and depth > 0:
            rows += [(math.log2(depth), int(str(block)), value) for _, block, value in point.values(metric)]
    return rows


def answer(analysis: Analysis) -> list[str]:
    """Return the sweep's answer, a sentence or two per group; an empty list if the headline has no interval."""
    trends = found_trends(analysis)
    told = []
    for group in analysis.groups:
        mine = [one for one in trends if one.group is group]
        if mine and mine[0].metric.name == analysis.headline and mine[0].trend.direction != "no_interval":
            told.append(_sentence(analysis, group, mine))
    return told


def _sentence(analysis: Analysis, group: Group, trends: Sequence[FoundTrend]) -> str:
    points = [point for point in group.points if point.ok]
    depths = " to ".join(analysis.tick(point) for point in (points[0], points[-1]))
    shares = [_share_of_pool(analysis, point) for point in (points[0], points[-1])]
    of_pool = f" ({shares[0]:.3g} to {shares[1]:.3g} % of the pool)" if shares[0] and shares[1] else ""
    n = min(one.trend.slope.n for one in trends)
    basis = f"95 % intervals that hold together, {words.plural(n, 'run')} a point"
    turned = [f"{_subject(one)} {turn_words(analysis, one)}" for one in trends if one.turn]
    straight = words.listing([_told(one) for one in trends if not one.turn and one.trend.direction != "no_interval"])
    parts = (
        [f"with every doubling of the scan depth, on average from {depths}{of_pool}, {straight}"] if straight else []
    )
    found = "; ".join([*turned, *parts])
    lead = f"With {group.label}: {found}" if group.label else f"{found[0].upper()}{found[1:]}"
    return " ".join(filter(None, [f"{lead} ({basis}).", _path_missing(analysis, trends), throughput(analysis, group)]))


def _told(found: FoundTrend) -> str:
    said = _of_several(found, slope_words(found))
    return f"{_subject(found)}{': ' if not found.trend.resolved else ' '}{said} ({_ends(found)})"


def _subject(found: FoundTrend) -> str:
    title = words.lowered(found.metric.label)
    return title if "per" in title.split() else f"the {title}"


def _of_several(found: FoundTrend, said: str) -> str:
    """Return a phrase for one of several metrics of the answer: "Reads rise", "the share rises"."""
    several = "per" in found.metric.label.split()
    return said.replace("rises", "rise").replace("falls", "fall") if several else said


def turn_words(analysis: Analysis, found: FoundTrend) -> str:
    """Return the words for a metric that turns: "fall by 12-15 % from 128 (34.0 pages) to 512 (29.4) and rise by
    ..."."""
    one, fit = found.turn, analysis.fit(found.metric.name)
    assert one is not None
    assert fit is not None
    unit = _unit_of_change(found.metric)
    ticks: dict[Hashable, str] = {point.index: analysis.tick(point) for point in found.group.points}
    places = (one.before.a, one.point, one.after.b)
    factor = 100 if found.metric.is_share else 1
    at = [f"{ticks[place]} ({words.number(factor * fit.mean(place).value)})" for place in places]
    before, after = (f"{side.direction} by {words.change(side, unit)}" for side in (one.before, one.after))
    return _of_several(found, f"{before} from {at[0]} to {at[1]} and {after} from there to {at[2]}")


def slope_words(found: FoundTrend) -> str:
    """Return the trend in words: "rises by 4.1-4.6 %", or "not resolved (-1 to +2 %)"."""
    one, unit = found.trend, _unit_of_change(found.metric)
    low, high = one.slope.ci_low, one.slope.ci_high
    if low is None or high is None:
        return "identical at every depth" if one.slope.identical else f"no interval ({one.slope.note})"
    slope = Verdict(None, None, one.direction, one.slope, one.contrast, one.detectable)
    if one.resolved:
        return f"{one.direction} by {words.change(slope, unit)}"
    return f"not resolved ({words.signed_change(slope, unit)})"


def _unit_of_change(metric: Metric) -> str:
    return words.unit_of_change(metric).partition("/")[0]


def _ends(found: FoundTrend) -> str:
    if found.metric.is_share:
        return f"{words.number(100 * found.first)} to {words.number(100 * found.last)} % of the searches"
    return f"{words.number(found.first)} to {words.number(found.last)} pages"


def _share_of_pool(analysis: Analysis, point: PointRuns) -> float | None:
    """Return innodb_lru_scan_depth, summed over all instances, in per cent of the pool's frames; None if unknown."""
    pool, page, depth = point.number("pool_size"), point.number("page_size"), analysis.axis_value(point)
    if not pool or not page or depth is None:
        return None
    return 100 * depth * (point.number("buffer_pool_instances") or 1) * page / pool


def _path_missing(analysis: Analysis, trends: Sequence[FoundTrend]) -> str:
    if any(one.metric.is_share for one in trends):
        return ""
    if all(run.run.source == "predicted" for run in analysis.runs):
        return "The model does not know where frames come from: a run measures it."
    reasons = {run.values["lru_scan_share"].reason for run in analysis.runs} - {None}
    return f"Where frames came from is not measurable: {min(map(str, reasons))}." if reasons else ""


def throughput(analysis: Analysis, group: Group) -> str:
    """Return a sentence on which depths may have the highest throughput, or why none can be named."""
    metric = analysis.work_per_s
    fit = analysis.fit(metric)
    places = [point.index for point in group.points if fit and point.index in fit.points]
    if fit is None or len(places) < 2:
        return "Throughput was not measured."
    if blocked := analysis.claim_blocked(metric):
        return f"Throughput: not claimed ({blocked})."
    found = equivalence_set(fit, "more", places)
    if found.note:
        return f"Throughput: not resolved ({found.note})."
    members = [analysis.tick(point) for point in group.points if point.index in found.members]
    if len(members) == 1:
        return f"Throughput is best at {members[0]}."
    if not found.others:
        return f"No depth can be told apart in throughput: {words.listing(members)} may each be the best."
    return f"In throughput {words.listing(members)} cannot be told apart as the best."


def scan_depth(analysis: Analysis) -> Section | None:
    """Return the section with figures and tables over the depth; None for other sweeps, or without any results."""
    trends = found_trends(analysis)
    if not is_scan_depth(analysis):
        return None
    tables = (_points(analysis), _trend_table(analysis, trends), _apart(analysis))
    figure = _figure(analysis)
    blocks = (*((figure,) if figure else ()), *(table for table in tables if table.rows))
    intro = (
        "The depth is how many free frames the page cleaner keeps in each instance of the pool, not how far user "
        "threads scan (at most 100 pages since MySQL 5.7; only 5.6 scans to the depth). Frames kept free hold no page."
    )
    return Section("scan-depth", "Scan depth", intro, blocks) if blocks else None


def _figure(analysis: Analysis) -> Figure | None:
    panels, data = [], []
    for metric in (analysis.headline, *_BESIDE_HEADLINE):
        found = points_figure(analysis, metric, "scan-depth-figure")
        if found and isinstance(found.plot, PointsPlot):
            panels.append(found.plot)
            data += [Row((found.plot.y_label, *row.cells)) for row in found.data.rows]
    if not panels:
        return None
    columns = (Column("Figure", numeric=False), *found_columns())
    title = "What the scan depth changes"
    table = Table("scan-depth-figure-data", f"Data: {title}", columns, tuple(data), "", folded=True)
    ends = (
        f"{panel.y_label} {words.number(one.dots[0].mean)} at {one.dots[0].tick}, "
        f"{words.number(one.dots[-1].mean)} at {one.dots[-1].tick}"
        for panel in panels
        for one in panel.series
    )
    dots = "Open dots: runs. Filled: mean with its 95 % interval."
    if all(len(point.ok) < 2 for point in analysis.points):
        dots = "Each dot is one run, without an interval."
    caption = f"{dots} Shares are of the searches for a free frame. Each panel has its own vertical axis."
    return Figure("scan-depth-figure", title, f"{title}: {'; '.join(ends)}.", caption, PanelsPlot(tuple(panels)), table)


def found_columns() -> tuple[Column, ...]:
    """Return the columns, after the metric's name, of the table with a metric's values at several points."""
    heads = ("n", "mean", "95 % from", "to", "runs")
    return (Column("Point", numeric=False), *(Column(head) for head in heads))


def _points(analysis: Analysis) -> Table:
    headline = analysis.metric(analysis.headline).label
    heads: Heads = {
        "Of the pool": lambda point: _of_pool(_share_of_pool(analysis, point)),
        headline: analysis.headline,
        "Effective cache (pages)": "effective_cache_pages",
        "Effective cache (MiB)": lambda point: _mib(analysis, point),
        "Free list (pages)": "free_list_pages",
        "Free list, least": lambda point: words.number(_mean(analysis, "free_list_min_pages", point)),
        "LRU scan": "lru_scan_share",
        "Single page": "single_page_share",
    }
    caption = (
        f"{means_over_runs(analysis)}. Effective cache and free list: means over the measured window; least: mean of "
        "each run's shortest sample. LRU scan, single page: shares of the searches for a frame."
    )
    brief = ("Point", "Of the pool", headline, "Effective cache (MiB)", "LRU scan", "Single page")
    return point_table(analysis, "scan-depth-points", "Over the scan depth", heads, caption, brief=brief)


def _of_pool(share: float | None) -> str:
    return words.NOTHING if share is None else f"{words.number(share)} %"


def _mib(analysis: Analysis, point: PointRuns) -> str:
    cache, page = _mean(analysis, "effective_cache_pages", point), point.number("page_size")
    return f"{cache * page / 1024**2:,.1f}" if cache is not None and page else words.NOTHING


def _mean(analysis: Analysis, metric: str, point: PointRuns) -> float | None:
    found = analysis.mean(metric, point)
    return found.value if found else None


def _trend_table(analysis: Analysis, trends: Sequence[FoundTrend]) -> Table:
    several = len(analysis.groups) > 1
    rows = tuple(
        Row(
            (
                *((one.group.label,) if several else ()),
                one.metric.label,
                str(one.trend.slope.n),
                f"turns: {turn_words(analysis, one)}" if one.turn else slope_words(one),
                words.NOTHING if one.trend.order_p is None else f"{one.trend.order_p:.2g}",
                _findable(one),
            ),
            "" if one.turn or one.trend.resolved else "quiet",
        )
        for one in trends
    )
    first = (Column("Points", numeric=False),) if several else ()
    columns = (
        *first,
        Column("Figure", numeric=False),
        Column("n"),
        Column("Change per doubling", numeric=False),
        Column("p of the order"),
        Column("Would have been found"),
    )
    caption = (
        "Mean slope on a scale of doublings, taken in each repetition; 95 % intervals that hold together for all rows "
        "(Šidák). p: Page's test of the order alone, exact. A trend is claimed when both agree. A figure that goes one "
        "way and then the other is told by its two sides, at the level of all points that might be the turning one."
    )
    return Table("trends", "Trends over the scan depth", columns, rows, caption)


def _findable(found: FoundTrend) -> str:
    size = found.trend.detectable
    if size is None:
        return words.NOTHING
    if found.trend.contrast == "ratio":
        return f"{words.number(100 * (size - 1))} %"
    return words.number((100 if found.metric.is_share else 1) * size)


def _apart(analysis: Analysis) -> Table:
    """Return the table that lists, for each depth, the depths whose throughput does not differ significantly."""
    metric, rows = analysis.work_per_s, []
    fit = analysis.fit(metric)
    blocked = analysis.claim_blocked(metric)
    for group in analysis.groups:
        points = [point for point in group.points if fit and point.index in fit.points]
        pairs = list(combinations([point.index for point in points], 2))
        if fit is None or not pairs:
            continue
        level = single_level(_LEVEL, len(pairs))
        apart = set()
        for a, b in pairs:
            step = fit.compare(a, b, level)
            still = 1.0 if fit.contrast == "ratio" else 0.0
            if step.ci_low is not None and step.ci_high is not None and not step.ci_low <= still <= step.ci_high:
                apart |= {(a, b), (b, a)}
        for point in points:
            alike = [p for p in points if p is not point and (blocked or (point.index, p.index) not in apart)]
            names = ", ".join(analysis.tick(p) for p in alike) or "none"
            shown = words.cell(analysis.metric(metric), analysis.mean(metric, point))
            rows.append(Row((analysis.name_of(point), shown, names)))
    columns = (
        Column("Scan depth", numeric=False),
        Column(analysis.metric(metric).label),
        Column("Cannot be told apart from", numeric=False),
    )
    caption = "All pairs of depths hold together at 95 % (Šidák). Not told apart is not the same as equal."
    if blocked:
        caption += f" Nothing is told apart here: {blocked}."
    return Table("throughput-alike", "Throughput: which depths are alike", columns, tuple(rows), caption)
