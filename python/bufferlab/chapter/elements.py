"""The elements of a report as data: tables, figures and sections, with finished words and numbers, and no markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from bufferlab.chapter.words import NOTHING

#: The factor by which an interval may exceed the runs' values before the axis cuts it (squared on a log axis). The
#: interval of two runs that differ may be so long that an axis with the whole interval would hide the runs.
INTERVAL_REACH = 2.5

#: The largest factor by which the axis of effects extends beyond the effects. Longer intervals are cut.
EFFECTS_REACH = 4.0

#: The styles of lines that were not measured.
Look = Literal["line", "dashed", "yardstick", "floor"]
#: The styles of lines whose series have no markers.
WHOLE_SERIES = ("yardstick", "floor")

#: The most rows of a table that a page shows unfolded; longer tables are folded.
LONGEST_OPEN = 10
#: The most panels of a figure over time that a page shows unfolded.
MOST_OPEN_PANELS = 6


@dataclass(frozen=True)
class Column:
    """A column of a table; numbers are aligned to the right."""

    title: str
    numeric: bool = True


@dataclass(frozen=True)
class Row:
    """A row of a table, its cells as text."""

    cells: tuple[str, ...]
    mark: Literal["", "failed", "differs", "passed", "quiet"] = ""


@dataclass(frozen=True)
class Table:
    """A table with a title. If it is `folded`, a page shows only the title until a reader opens it."""

    id: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    folded: bool = False
    brief: tuple[str, ...] = ()
    """The columns that a terminal shows. If empty, a terminal does not show the table."""

    @classmethod
    def of(
        cls,
        id: str,
        title: str,
        heads: Iterable[str],
        rows: Iterable[Row | Iterable[str]],
        caption: str = "",
        *,
        folded: bool = False,
        brief: Sequence[str] | bool = (),
    ) -> Table:
        """Return a table of heads and rows. A "<" at the beginning of a head marks a column of words; it is not shown.

        `brief` names the columns that a terminal shows; True stands for all.
        """
        columns = tuple(Column(head.removeprefix("<"), numeric=not head.startswith("<")) for head in heads)
        shown = tuple(one.title for one in columns) if brief is True else tuple(brief or ())
        told = tuple(row if isinstance(row, Row) else Row(tuple(row)) for row in rows)
        return cls(id, title, columns, told, caption, folded, shown)

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the heads of the columns."""
        return tuple(column.title for column in self.columns)

    @property
    def folds(self) -> bool:
        """Return whether a page shows only the table's title until a reader opens it."""
        return self.folded or len(self.rows) > LONGEST_OPEN

    @property
    def filled(self) -> Table:
        """Return the table as readers see it: without the columns that have no value in any row."""
        return self.of_columns(
            place
            for place in range(len(self.columns))
            if not place or not self.rows or any(row.cells[place] not in ("", NOTHING) for row in self.rows)
        )

    @property
    def shortened(self) -> Table:
        """Return the table as a terminal shows it: with the columns that `brief` names and that have a value."""
        filled = self.filled
        return filled.of_columns(place for place, column in enumerate(filled.columns) if column.title in self.brief)

    def of_columns(self, places: Iterable[int]) -> Table:
        """Return the table with only these columns, given by index."""
        kept = tuple(places)
        columns = tuple(self.columns[place] for place in kept)
        rows = tuple(replace(row, cells=tuple(row.cells[place] for place in kept)) for row in self.rows)
        return replace(self, columns=columns, rows=rows)


@dataclass(frozen=True)
class Dot:
    """One point of a figure: its runs, and their mean with the mean's interval."""

    x: float
    tick: str
    runs: tuple[float, ...]
    mean: float
    ci_low: float | None
    ci_high: float | None


@dataclass(frozen=True)
class Series:
    """Dots that belong together. A line joins them, unless the axis has no order or a model's curve replaces it."""

    label: str
    dots: tuple[Dot, ...]
    joined: bool = True


@dataclass(frozen=True)
class Curve:
    """A line that was not measured (a model's), in the colour of a series."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    series: int
    look: Look = "line"
    """The style of the line.

    A dashed line lets a line under it show through. A yardstick is wide, dashed and drawn below all others, so that it
    is visible even where another line covers it. A floor is dotted. Neither of the last two has markers.
    """
    end: str = ""
    """The word at the curve's right end, outside the axes; "" for none."""


@dataclass(frozen=True)
class Mark:
    """A marked place on the horizontal axis: a line from top to bottom, in the colour of a series."""

    x: float
    label: str
    series: int
    dashed: bool = False


@dataclass(frozen=True)
class Band:
    """A shaded area between two lines, in a series' colour. It replaces the intervals' bars at the series' dots."""

    xs: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    series: int


@dataclass(frozen=True)
class PointsPlot:
    """A picture of a metric over the points of a sweep: every run, and means with intervals."""

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_is_log: bool
    y_is_log: bool
    y_from_zero: bool = True
    value_labels: bool = False
    x_in_bytes: bool = False
    curves: tuple[Curve, ...] = ()
    marks: tuple[Mark, ...] = ()
    y_in_bytes: bool = False
    x_is_words: bool = False
    """Whether the horizontal axis has words in place of numbers. Series are then side by side, without lines."""
    x_is_names: bool = False
    """Whether places on a numeric axis have long names, drawn slanted; if there are many, some are left out."""
    names_at_ends: bool = False
    """Whether each series has its name at the end of its line, instead of in a legend."""
    title: str = ""
    """The words that distinguish this panel from other panels of the same metric; "" if it is the only one."""
    bands: tuple[Band, ...] = ()
    note: str = ""
    """A remark on all values, written above the axes, such as that differences are not resolved."""

    @property
    def cuts_intervals(self) -> bool:
        """Return whether some interval is too long to be drawn whole."""
        if self.y_limits is None:
            return False
        low, high = self.y_limits
        dots = [dot for one in self.series for dot in one.dots]
        lows = [dot.ci_low for dot in dots if dot.ci_low is not None and self.y_is_log]
        return any((dot.ci_high or 0.0) > high for dot in dots) or any(bound < low for bound in lows)

    @property
    def y_span(self) -> tuple[float, float]:
        """Return the least and the largest value that the vertical axis must show; long intervals are cut to it."""
        dots = [dot for one in self.series for dot in one.dots]
        values = [value for dot in dots for value in (dot.mean, *dot.runs)]
        power = 2 if self.y_is_log else 1
        reach_low, reach_high = min(values) / INTERVAL_REACH**2, max(values) * INTERVAL_REACH**power
        low = min([max(dot.ci_low, reach_low) for dot in dots if dot.ci_low is not None] + values)
        return low, max([min(dot.ci_high, reach_high) for dot in dots if dot.ci_high is not None] + values)

    @property
    def y_limits(self) -> tuple[float, float] | None:
        """Return the ends of the vertical axis, with room for numbers; None if it covers everything that is drawn."""
        low, high = self.y_span
        if self.y_is_log:
            return low / 1.2, high * 1.45
        return (0.0, high * 1.15 or 1.0) if self.y_from_zero else None


@dataclass(frozen=True)
class Level:
    """A stretch of a run at one level of its rate, in seconds of the run."""

    start_s: float
    end_s: float
    mean: float


@dataclass(frozen=True)
class Trace:
    """One run over time: the end of each sampling interval in seconds, and the rate in it (None if it is missing)."""

    label: str
    t_s: tuple[float, ...]
    values: tuple[float | None, ...]
    window_start_s: float | None
    levels: tuple[Level, ...] = ()
    """The levels of the measured window, in order; () if no change of level is resolved."""
    is_wide: bool = False
    """Whether the line is drawn wide and pale, so that it stays visible under another line."""


@dataclass(frozen=True)
class TimePlot:
    """A picture of a rate second by second: one panel per point, all with the same vertical axis."""

    panels: tuple[str, ...]
    y_label: str
    traces: tuple[tuple[Trace, ...], ...]
    """For each panel, the runs of its point."""
    y_from_zero: bool = True
    """Whether the vertical axis starts at zero. Otherwise it covers the values of the measured windows."""
    y_is_log: bool = False


@dataclass(frozen=True)
class PanelsPlot:
    """A picture of several metrics over the same points, or of one metric by a factor, with a panel for each."""

    panels: tuple[PointsPlot, ...]
    is_one_metric: bool = False
    """Whether all panels show the same metric; then they have the same vertical axis."""


@dataclass(frozen=True)
class Ratio:
    """An effect: a ratio with its interval."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class EffectsPlot:
    """A forest plot: effects as ratios with their intervals about one, a row per effect, a panel per metric."""

    rows: tuple[str, ...]
    series: tuple[str, ...]
    """The names of the sets of runs from which effects were computed: all runs, or those at one level of a factor. """
    panels: tuple[str, ...]
    ratios: tuple[tuple[tuple[Ratio | None, ...], ...], ...]
    """The effects as [panel][row][series]; None for a missing effect."""

    def limits(self, panel: int) -> tuple[float, float]:
        """Return the ends of a panel's axis, which includes all effects and the ratio one."""
        ratios = [one for row in self.ratios[panel] for one in row if one is not None]
        values = [one.value for one in ratios] or [1.0]
        low, high = min(values) / EFFECTS_REACH, max(values) * EFFECTS_REACH
        ends = [min(max(end, low), high) for one in ratios for end in (one.low, one.high) if end is not None]
        reached = [*values, 1.0, *ends]
        return min(0.9, min(reached) / 1.15), max(1.1, max(reached) * 1.15)

    @property
    def cuts_intervals(self) -> bool:
        """Return whether some interval is too long to be drawn whole."""
        for place, rows in enumerate(self.ratios):
            low, high = self.limits(place)
            ends = [end for row in rows for one in row if one for end in (one.low, one.high) if end is not None]
            if any(not low <= end <= high for end in ends):
                return True
        return False


@dataclass(frozen=True)
class StackedPlot:
    """A picture of shares that add up to one: a bar per point, with a part for each kind."""

    x_label: str
    y_label: str
    bars: tuple[str, ...]
    parts: tuple[str, ...]
    shares: tuple[tuple[float, ...], ...]
    """The shares as [bar][part]; the parts of a bar add up to one."""


@dataclass(frozen=True)
class Cloud:
    """A set of dots that stand for single things such as requests, without runs or intervals."""

    label: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True)
class ScatterPlot:
    """A picture of clouds of dots on the same axes."""

    x_label: str
    y_label: str
    clouds: tuple[Cloud, ...]


@dataclass(frozen=True)
class Steps:
    """A histogram: bucket `i` reaches from edge `i` to edge `i + 1`."""

    label: str
    edges: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True)
class HistogramPlot:
    """A picture of histograms of shares, in panels side by side."""

    x_labels: tuple[str, ...]
    panels: tuple[tuple[Steps, ...], ...]
    x_in_bytes: tuple[bool, ...]
    y_label: str


@dataclass(frozen=True)
class Figure:
    """A picture, with words for readers who cannot see it, and its data as a table."""

    id: str
    title: str
    alt: str
    caption: str
    plot: PointsPlot | TimePlot | PanelsPlot | EffectsPlot | StackedPlot | ScatterPlot | HistogramPlot
    data: Table
    source: str = ""
    """The engine, version, runs and date, written below the picture, which may be seen without its page."""

    @property
    def is_tall(self) -> bool:
        """Return whether the picture would fill a screen. Then a page shows only its title until a reader opens it."""
        return isinstance(self.plot, TimePlot) and len(self.plot.panels) > MOST_OPEN_PANELS


@dataclass(frozen=True)
class Section:
    """A chapter of the report."""

    id: str
    title: str
    intro: str
    blocks: tuple[Table | Figure, ...]
    folded: bool = False
    """Whether a page folds all tables and figures of this section."""
    open_figures: int = 0
    """The number of figures that a page shows unfolded; 0 lets the page decide."""


@dataclass(frozen=True)
class Banner:
    """A warning at the top of a report, to read before believing its numbers."""

    kind: Literal["danger", "warning"]
    text: str
