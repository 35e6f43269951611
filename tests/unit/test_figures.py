"""Figures as people see them: names at the ends of lines, no line hidden by another, runs next to their own point."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Canvas

from bufferlab.chapter.elements import (
    Column,
    Curve,
    Dot,
    Figure,
    HistogramPlot,
    Look,
    Mark,
    PanelsPlot,
    PointsPlot,
    Series,
    Steps,
    Table,
    TimePlot,
    Trace,
)
from bufferlab.chapter.points_figure import side_by_side
from bufferlab.report.figures.points import apart, draw_panels, draw_points
from bufferlab.report.figures.svg import _lay_out, draw, draw_times

pytestmark = pytest.mark.figures

LOOKS: tuple[tuple[str, Look], ...] = (("model", "line"), ("LRU", "yardstick"), ("OPT", "floor"))
SIZES = (8.0, 16.0, 32.0, 40.0)


def lines(*heights: tuple[float, ...], y_is_log: bool = False) -> PointsPlot:
    """Return a plot with a line through SIZES for each style, and a series of measured runs next to the first line."""
    series, curves = [], []
    for place, ((label, look), ys) in enumerate(zip(LOOKS, heights, strict=False)):
        dots = tuple(Dot(x, f"{x:.0f} MiB", (), y, None, None) for x, y in zip(SIZES, ys, strict=True))
        series.append(Series(label, dots, joined=False))
        curves.append(Curve("", SIZES, ys, place, look))
    runs = tuple(
        Dot(x, f"{x:.0f} MiB", (y, 1.1 * y, 1.2 * y, 0.9 * y, 1.05 * y), 1.05 * y, y, 1.1 * y)
        for x, y in zip(SIZES, heights[0], strict=True)
    )
    series.append(Series("measured", runs, joined=False))
    return PointsPlot(
        "Pool", "Reads", tuple(series), x_is_log=True, y_is_log=y_is_log, curves=tuple(curves), names_at_ends=True
    )


def svg(plot: PointsPlot | HistogramPlot) -> str:
    return draw(Figure("figure", "A figure", "", "", plot, Table("data", "Data", (Column("Point"),), ())))


def texts(drawn: str) -> dict[str, tuple[float, float]]:
    """Return where each text of a figure begins, in points from the upper left corner."""
    found = re.findall(r'<text [^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]+)</text>', drawn)
    return {text: (float(x), float(y)) for x, y, text in found}


def test_each_line_has_its_name_at_its_end_and_no_name_is_on_another() -> None:
    drawn = svg(lines((50.0, 20.0, 5.0, 1.0), (50.0, 20.0, 5.0, 1.0), (30.0, 10.0, 2.0, 0.9)))
    found, axes = texts(drawn), draw_points(lines((50.0, 20.0, 5.0, 1.0))).axes[0]
    names = [found[name] for name in ("model", "LRU", "OPT", "measured")]
    assert len({x for x, _ in names}) == 1, "they stand under each other"
    assert names[0][0] > max(x for text, (x, _) in found.items() if text.endswith("MiB")), "right of the last point"
    heights = sorted(y for _, y in names)
    assert min(b - a for a, b in pairwise(heights)) >= 10, "points: as high as the letters"
    assert axes.get_legend() is None
    assert drawn.count(">LRU</text>") == 1


def test_a_yardstick_is_seen_where_another_line_covers_it() -> None:
    same = (50.0, 20.0, 5.0, 1.0)
    axes = draw_points(lines(same, same, (30.0, 10.0, 2.0, 0.9))).axes[0]
    drawn = {line.get_gid() or "model": line for line in axes.lines if len(line.get_xdata()) == len(SIZES)}
    model, yardstick = drawn["model"], drawn["panel-0-series-1"]
    assert list(model.get_ydata()) == list(yardstick.get_ydata()), "one lies on the other"
    assert yardstick.get_linewidth() >= model.get_linewidth() + 2
    assert yardstick.get_zorder() < model.get_zorder()
    assert yardstick.is_dashed()
    assert yardstick.get_color() != model.get_color()


def test_runs_stay_nearer_to_their_own_point_than_to_the_next() -> None:
    plot = lines((50.0, 20.0, 5.0, 1.0))
    axes = draw_points(plot).axes[0]
    of_runs = [line for line in axes.lines if line.get_fillstyle() == "none" and len(line.get_xdata()) == 5]
    assert len(of_runs) == len(SIZES)
    for x, line in zip(SIZES, of_runs, strict=True):
        xs = [float(one) for one in line.get_xdata()]
        # 32 and 40, the last two points, are nearest to each other.
        assert max(max(one / x, x / one) for one in xs) <= (40 / 32) ** 0.16


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_names_are_spread_in_the_order_of_their_lines(wanted: list[float]) -> None:
    least = 0.15
    heights = apart(wanted, least)
    assert all(-1e-9 <= height <= 1 + 1e-9 for height in heights)
    ordered = [heights[place] for place in sorted(range(len(wanted)), key=lambda place: wanted[place])]
    assert all(b - a >= least - 1e-9 for a, b in pairwise(ordered))
    if all(b - a >= least for a, b in pairwise(sorted(wanted))):
        assert heights == pytest.approx(wanted), "names that do not meet stay where their lines end"


def test_a_mark_says_what_it_is_beside_itself() -> None:
    plot = lines((50.0, 20.0, 5.0, 1.0))
    marked = PointsPlot(
        "Pool", "Reads", plot.series, x_is_log=False, y_is_log=False, marks=(Mark(16.0, "knee: 16 MiB", 1),),
        names_at_ends=True,
    )  # fmt: skip
    found = texts(svg(marked))
    assert found["16 MiB"][0] < found["knee: 16 MiB"][0] + 40
    assert found["knee: 16 MiB"][0] < found["32 MiB"][0]


def test_ratios_near_one_fill_the_height_of_a_figure_over_time() -> None:
    trace = Trace("block 1", (1.0, 2.0, 3.0, 4.0), (0.0, 60.0, 99.1, 99.3), 2.0)
    low, high = draw_times(TimePlot(("5 %",), "Hit ratio (%)", ((trace,),), y_from_zero=False)).axes[0].get_ylim()
    assert 98 < low < 99.1
    assert 99.3 < high < 100
    assert draw_times(TimePlot(("5 %",), "Reads", ((trace,),))).axes[0].get_ylim()[0] == 0


def shown_at(axis: Axis) -> list[tuple[str, float, float]]:
    """Return the texts of a drawn axis, each with its left and right end in pixels."""
    figure = axis.get_figure()
    assert isinstance(figure, Canvas)
    figure.draw_without_rendering()
    boxes = [(label.get_text(), label.get_window_extent()) for label in axis.get_ticklabels() if label.get_text()]
    return [(text, box.x0, box.x1) for text, box in boxes]


def test_numbers_of_a_narrow_axis_have_the_digits_that_tell_them_apart() -> None:
    trace = Trace("block 1", (1.0, 2.0, 3.0, 4.0), (0.0, 96.53, 97.12, 96.8), 1.5)
    axes = draw_times(TimePlot(("5 %",), "Hit ratio (%)", ((trace,),), y_from_zero=False)).axes[0]
    numbers = [text for text, _, _ in shown_at(axes.yaxis)]
    assert len(numbers) > 3
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("names_at_ends", [True, False])
@pytest.mark.parametrize("first_line", ["", "10 %\n"])
def test_both_ends_of_an_axis_are_named_and_no_name_is_on_another(names_at_ends: bool, first_line: str) -> None:
    """The pools have 31 to 189 MiB, as in sweeps by shares of the database."""
    sizes = (31.0, 63.0, 94.0, 126.0, 158.0, 189.0)
    dots = tuple(Dot(x, f"{first_line}{x:.0f}.25 MiB", (), 500 / x, None, None) for x in sizes)
    series, points = (Series("model", dots, joined=True),), "Pool: asked (% of the database) and actual size"
    plot = PointsPlot(points, "Reads", series, x_is_log=True, y_is_log=True, names_at_ends=names_at_ends)
    panels = PanelsPlot((plot, plot), is_one_metric=True)
    for drawn in (draw_points(plot), draw_panels(panels)):
        found = shown_at(drawn.axes[0].xaxis)
        assert found[0][0].startswith(f"{first_line}31.25")
        assert found[-1][0].startswith(f"{first_line}189.25")
        assert all(end < begin for (_, _, end), (_, begin, _) in pairwise(found))


@pytest.mark.parametrize(
    ("lowest", "is_log"),
    [pytest.param(1.0, True, id="all-above-zero"), pytest.param(0.0, False, id="zero-has-no-logarithm")],
)
def test_panels_of_one_metric_share_the_kind_of_their_axis(lowest: float, is_log: bool) -> None:
    """One panel alone would be logarithmic and the other linear, so the same height would mean two numbers."""
    steep = replace(lines((500.0, 20.0, 5.0, 1.0), y_is_log=True), title="steep")
    flat = replace(lines((5.0, 4.0, 3.0, lowest)), title="flat")
    for plots in ((steep, flat), (flat, steep)):
        shown, data = side_by_side(plots, "figure", "A figure")
        assert isinstance(shown, PanelsPlot)
        assert [panel.y_is_log for panel in shown.panels] == [is_log] * 2
        assert len(data.rows) == sum(len(one.dots) for plot in plots for one in plot.series)
        assert {axes.get_yscale() for axes in draw_panels(shown).axes} == {"log" if is_log else "linear"}


def test_a_plot_without_another_beside_it_stays_as_it_is() -> None:
    alone = lines((500.0, 20.0, 5.0, 1.0), y_is_log=True)
    assert side_by_side([alone], "figure", "A figure")[0] is alone


def test_sizes_of_an_advice_have_room_between_their_names() -> None:
    """The axis extends half a step beyond both ends, so 125 and 150 % of the pool are nearer than they seem."""
    dots = tuple(Dot(0.64 * of, f"{of:.0f} %\n{0.64 * of:.0f} MiB", (), 1.0, None, None) for of in (100, 125, 150, 400))
    plot = PointsPlot("Pool", "Reads", (Series("", dots),), x_is_log=True, y_is_log=False, x_in_bytes=True)
    found = shown_at(draw_points(plot).axes[0].xaxis)
    assert all(begin - end > 8 for (_, _, end), (_, begin, _) in pairwise(found)), found


def test_the_title_of_panels_stands_in_the_middle_of_their_axes_and_numbers_of_one_histogram_are_level() -> None:
    panels = PanelsPlot((replace(lines((5.0, 4.0, 3.0, 1.0)), x_is_names=True, y_label="Reads per second"),) * 2)
    drawn = draw_panels(panels)
    _lay_out(drawn)
    (title,) = (text for text in drawn.texts if text.get_text() == "Reads per second")
    ends = [end for axes in drawn.axes for end in axes.get_position().intervaly]
    assert title.get_position()[1] == pytest.approx((min(ends) + max(ends)) / 2)
    steps = ((Steps("5 %", (1.0, 10.0, 100.0), (0.5, 0.5)),),)
    level = svg(HistogramPlot(("Latency (ms)",), steps, (False,), "Transactions (%)"))
    assert "rotate(-30" not in level


def test_an_axis_with_nothing_to_name_has_no_tick() -> None:
    series = tuple(Series(name, (Dot(0.0, "", (), 5.0, None, None),), joined=False) for name in "ab")
    plot = PointsPlot("", "Reads", series, x_is_log=False, y_is_log=False, x_is_words=True)
    assert list(draw_points(plot).axes[0].get_xticks()) == []


def test_values_of_points_and_runs_are_told_where_a_reader_points_at_them() -> None:
    dots = (Dot(1.0, "5 %\n8 MiB", (3.0, 5.0), 4.0, 2.0, 6.0), Dot(2.0, "10 %", (1.0,), 1.0, None, None))
    plot = PointsPlot("Pool", "Reads", (Series("a < b", dots),), x_is_log=False, y_is_log=False)
    told = re.findall(
        "<title>(.*?)</title>", draw(Figure("points", "Points", "", "", plot, Table("data", "Data", (), ())))
    )
    assert told == ["Points", "a &lt; b, 5 % = 8 MiB: 4.00 (2.0–6.0), n = 2", "a &lt; b, 10 %: 1.00, n = 1"]
    run = Trace("block 1", (1.0, 2.0, 3.0), (9.0, 2.0, 4.0), 1.0)
    over_time = draw(
        Figure("time", "Time", "", "", TimePlot(("5 %",), "Reads", ((run,),), y_is_log=True), Table("d", "D", (), ()))
    )
    assert "<title>5 %, block 1: 3.00 in the mean of its samples</title>" in over_time
    assert '<g id="panel-0-series-0"><title>' in over_time
