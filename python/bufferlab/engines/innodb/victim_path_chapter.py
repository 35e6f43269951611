"""The chapter on the victim path: whether frames came from the free list, LRU tail scans or single-page flushes.

`engines.innodb.metrics` defines the victim path and names its source. For versions that do not count it, the chapter
says why.
"""

from __future__ import annotations

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Column, Figure, Row, Section, StackedPlot, Table
from bufferlab.chapter.point_table import means_over_runs, point_table
from bufferlab.chapter.points_figure import Axis

_SHARES = ("free_list_share", "lru_scan_share", "single_page_share")
_PARTS = ("free list", "LRU scan by the user thread", "single-page flush by the user thread")
_COUNTS = ("frame_requests", "free_list_hits", "lru_scan_hits", "single_page_flushes")


def victim_path(analysis: Analysis) -> Section:
    """Return the section with the victim path's shares and counts per point, or the reason why they are missing."""
    told = [point for point in analysis.points if point.ok and all(point.values(name) for name in _SHARES)]
    reasons = {run.values["lru_scan_share"].reason for run in analysis.runs} - {None}
    missing = f" Not measurable in some runs: {'; '.join(sorted(map(str, reasons)))}." if reasons else ""
    if not told:
        return Section("victim-path", "Where frames came from", missing.strip(), ())
    intro = (
        "A thread that needs a frame takes it from the free list, which the page cleaner fills. Where that is empty, "
        "it scans the LRU tail for a clean page, and failing that writes one page itself and waits for it. "
        "Identical runs differ in these shares more than in reads: look at the intervals."
    )
    return Section(
        "victim-path", "Where frames came from", intro + missing, (_figure(analysis, told), _table(analysis))
    )


def _figure(analysis: Analysis, told: list[PointRuns]) -> Figure:
    # Use arithmetic means: means of logarithms would not add up to one.
    shares = tuple(tuple(_plain_mean(point, name) for name in _SHARES) for point in told)
    # The axis shows the pool size in bytes, not the percentage.
    named = ((analysis.tick(point), analysis.rest_label(point)) for point in told)
    bars = tuple("\n".join(filter(None, names)).replace(", ", "\n") for names in named)
    axis = Axis.of(analysis, told).label
    title = "How searches for a frame ended"
    plot = StackedPlot(axis, "Searches for a frame (%)", bars, _PARTS, shares)
    rows = tuple(
        Row((bar.replace("\n", ", "), *(f"{share:.6g}" for share in parts)))
        for bar, parts in zip(bars, shares, strict=True)
    )
    columns = (Column("Point", numeric=False), *(Column(part) for part in _PARTS))
    data = Table("victim-path-figure-data", f"Data: {title}", columns, rows, "Shares, means over runs.", folded=True)
    ends = []
    for place in (0, -1):
        parts = (f"{words.share(share, 2)} {part}" for part, share in zip(_PARTS, shares[place], strict=True))
        ends.append(f"{bars[place]}: {', '.join(parts)}")
    alt = f"{title}. {'; '.join(ends)}.".replace("\n", ", ")
    caption = (
        "Shares of the searches for a frame, means over runs; each bar adds to 100 %. Thin parts are in the table."
    )
    return Figure("victim-path-figure", title, alt, caption, plot, data)


def _plain_mean(point: PointRuns, name: str) -> float:
    values = [value for _, _, value in point.values(name)]
    return sum(values) / len(values)


def _table(analysis: Analysis) -> Table:
    heads = {
        "Free list": "free_list_share",
        "LRU scan": "lru_scan_share",
        "Single page": "single_page_share",
        "Given back": "frames_given_back_share",
        **{words.heading(analysis.metric(metric)): metric for metric in map(analysis.per_work, _COUNTS)},
        "Single-page flushes per second": "single_page_flushes_per_s",
    }
    caption = (
        f"{means_over_runs(analysis)}; counts per {analysis.work_noun}. S searches, L passes that found the free list "
        "empty, W waits for a free frame, F failed flushes: free list S − L + F, LRU scan L − W, single page W − F, "
        "which add to S by construction. A single-page flush may also find a clean page and write nothing. Given "
        "back: of all searches, those for a page that was in the pool already, mostly undo."
    )
    return point_table(analysis, "victim-path-table", "Victim path", heads, caption, folded=True)
