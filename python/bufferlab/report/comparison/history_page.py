"""Makes the answer of `history`, which every format shows, and its table for CSV.

docs/history.md describes the object of --json.
"""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.chapter import words
from bufferlab.chapter.elements import (
    Banner,
    Curve,
    Dot,
    Figure,
    Mark,
    PanelsPlot,
    PointsPlot,
    Section,
    Series,
    Table,
)
from bufferlab.chapter.points_figure import points_data, side_by_side
from bufferlab.registry import declared
from bufferlab.report.comparison.compare_page import RULE_LOOKS
from bufferlab.report.comparison.compare_words import title_of
from bufferlab.report.comparison.fail_if import ON_UNDECIDED
from bufferlab.report.comparison.history import History
from bufferlab.report.comparison.history import HistorySeries as Told
from bufferlab.report.comparison.history_words import (
    answer,
    apart_table,
    apart_text,
    beside_table,
    changes_table,
    limits,
    rule_lines,
    series_table,
    sweeps_table,
)
from bufferlab.report.document import OF_SIDES, Note, Report, stamped

#: The most panels of the figure. Panels with a change come first.
_MOST_PANELS = 8
_MOST_BANNERS = 6


def as_report(history: History) -> Report:
    """Return a history as the document that every output format shows."""
    changes, first = changes_table(history), history.kept[0]
    tables = [_rules(history), changes, beside_table(history), series_table(history)]
    report = Report(
        title="history",
        question=f"Did a figure of {first.like['experiment']} change over {len(history.kept)} sweeps, and since which?",
        answer=answer(history),
        facts=_facts(history),
        banners=tuple(_banners(history)),
        headline=_figure(history),
        limits=tuple(limits(history)),
        sections=(
            Section("figures", "The figures", "", tuple(filter(None, tables))),
            Section("sweeps", "The sweeps", "", tuple(filter(None, [apart_table(history), sweeps_table(history)]))),
        ),
        lead=changes.id,
        parts=OF_SIDES,
        notes=tuple(_notes(history)),
        data=history,
    )
    return stamped(report, " · ".join([*_facts(history), "bufferlab"]))


def _notes(history: History) -> Iterator[Note]:
    if beside := beside_table(history):
        rows = (row.cells for row in beside.rows)
        yield from (
            Note(f"{where}: {what} {before} before, {since} since", indent=2) for where, what, before, since in rows
        )
    for judged in history.rules:
        yield from (Note(said, look=RULE_LOOKS[judged.outcome]) for said in rule_lines(history, judged))
    if any(judged.outcome == "undecided" for judged in history.rules):
        yield Note(ON_UNDECIDED)


def _facts(history: History) -> tuple[str, ...]:
    first, last = history.kept[0], history.kept[-1]
    engine = last.like["engine"]
    versions = dict.fromkeys(sweep.beside.get(engine, "?") for sweep in history.kept)
    shown = next(iter(versions)) if len(versions) == 1 else f"{len(versions)} versions"
    order = "in the order of their dates" if history.sweeps.order == "dates" else "in the order of --order"
    days = " to ".join(dict.fromkeys(f"{sweep.began_at:%Y-%m-%d}" for sweep in (first, last)))
    return (f"{engine} {shown}", f"{words.plural(len(history.kept), 'sweep')} {order}", days)


def _banners(history: History) -> Iterator[Banner]:
    apart = history.sweeps.apart
    for one in apart[:_MOST_BANNERS]:
        yield Banner("warning", apart_text(one))
    if len(apart) > _MOST_BANNERS:
        yield Banner("warning", f"{len(apart) - _MOST_BANNERS} more sweeps are set apart: see the table.")
    doubted = [sweep.name for sweep in history.kept if sweep.failed_checks]
    if doubted:
        titles = dict.fromkeys(title for sweep in history.kept for title in sweep.failed_checks)
        named = words.listing([*doubted[:_MOST_BANNERS], *(["others"] if len(doubted) > _MOST_BANNERS else [])])
        count = f"{len(doubted)} of {len(history.kept)} sweeps"
        yield Banner("warning", f"Checks failed in {count} ({named}): {'; '.join(titles)}.")


def _rules(history: History) -> Table | None:
    """Return the table of the rules of --fail-if; None without a rule."""
    rows = [(line,) for judged in history.rules for line in rule_lines(history, judged)]
    return Table.of("rules", "What would fail", ("<Rule",), rows) if rows else None


def _figure(history: History) -> Figure | None:
    """Return the plot: a panel for the headline metric at each setting, and one for each other metric that changes.

    Return None if no sweep has a value of these metrics.
    """
    of_headline = history.of(history.headline)
    changing = [one for one in history.series if one.steps and one.metric != history.headline]
    with_values = [one for one in (*of_headline, *changing) if any(value is not None for value in one.values)]
    shown = sorted(with_values, key=lambda one: not one.steps)[:_MOST_PANELS]
    if not shown:
        return None
    several = len({one.metric for one in shown}) > 1
    panels = [_panel(history, one, with_metric=several) for one in shown]
    title = f"{title_of(history.headline)} from sweep to sweep"
    every = (*of_headline, *changing)
    changed = sum(bool(one.steps) for one in every) - sum(bool(one.steps) for one in shown)
    left = words.plural(len(every) - len(shown), "more panel")
    more = f" Left out: {left}, {changed or 'none'} with a change." if len(every) > len(shown) else ""
    caption = (
        "Dots: the mean of each sweep's runs. Lines: the levels between changes. Upright: the "
        f"first sweep of a change. Axes do not start at zero.{more}"
    )
    if len(panels) == 1:
        return Figure("history", title, answer(history), caption, panels[0], points_data(panels[0], "history", title))
    _, data = side_by_side(panels, "history", title)
    return Figure("history", title, answer(history), caption, PanelsPlot(tuple(panels)), data)


def _panel(history: History, told: Told, *, with_metric: bool) -> PointsPlot:
    metric = declared(told.metric)
    factor = 100.0 if metric.is_share else 1.0
    dots = tuple(
        Dot(float(place), sweep.name, (), factor * value, None, None)
        for place, (sweep, value) in enumerate(zip(history.kept, told.values, strict=True), start=1)
        if value is not None
    )
    levels = [
        Curve("level" if not start else "", (start + 1.0, float(end)), (factor * level, factor * level), 0)
        for start, end, level in told.levels()
    ]
    places = [step.change.place + 1 for step in told.steps]
    marks = [Mark(float(place), f"from sweep {place}", 1, dashed=True) for place in places]
    named = [words.axis_title(metric)] if with_metric or not told.setting.label else []
    return PointsPlot(
        x_label="Sweep",
        y_label=words.axis_title(metric),
        series=(Series("sweep", dots, joined=False),),
        x_is_log=False,
        y_is_log=False,
        # If all values are zero, an axis centred on them would have negative numbers.
        y_from_zero=not any(told.values),
        y_in_bytes=metric.top_unit == "bytes",
        curves=tuple(levels),
        marks=tuple(marks),
        x_is_names=True,
        title=", ".join([*named, *filter(None, [told.setting.label])]),
    )


def values_table(history: History) -> Table:
    """Return the table that --format csv prints: one row for each metric, setting and sweep."""
    heads = ("sweep", "name", "folder", "began_at", "metric", "unit", "settings", "value", "runs", "level", "change")
    rows = []
    for one in history.series:
        levels = {place: level for start, end, level in one.levels() for place in range(start, end)}
        firsts = {step.change.place for step in one.steps}
        settings = ",".join(f"{name}={value}" for name, value in one.setting.settings.items())
        for place, (sweep, value) in enumerate(zip(history.kept, one.values, strict=True)):
            if value is not None:
                cells = (
                    str(place + 1),
                    sweep.name,
                    str(sweep.path),
                    sweep.began_at.isoformat() if sweep.began_at else "",
                    one.metric,
                    one.unit,
                    settings,
                    repr(value),
                    str(one.runs[place]),
                    "" if one.unclaimed else repr(levels[place]),
                    "first" if place in firsts else "",
                )
                rows.append(cells)
    return Table.of("history", "", heads, rows)
