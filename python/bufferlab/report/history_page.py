"""Shows a history: as a report for the writers that sweeps have, as one table for CSV, and as the object of --json.

docs/history.md describes the object; its numbers are unrounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from bufferlab.chapter import words
from bufferlab.chapter.blocks import (
    Banner,
    Column,
    Curve,
    Dot,
    Figure,
    Mark,
    PanelsPlot,
    PointsPlot,
    Row,
    Section,
    Series,
    Table,
)
from bufferlab.chapter.points_figure import points_data, side_by_side
from bufferlab.registry import declared
from bufferlab.report.compare_page import RULE_STYLES, rule_as_json
from bufferlab.report.compare_words import title_of
from bufferlab.report.document import Report, stamped
from bufferlab.report.history import History, Step
from bufferlab.report.history import Series as Told
from bufferlab.report.history_sweeps import SweepTold
from bufferlab.report.history_words import (
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
from bufferlab.stats.changes import FALSE_ALARMS

if TYPE_CHECKING:
    from rich.console import Group

#: The most panels of the figure: those with a change come first.
_MOST_PANELS = 8
_MOST_BANNERS = 6
#: The least widths of columns of words, which break into lines.
_WIDTHS = {"Figure": 19, "Setting": 14, "Change (95 %)": 12}


def as_report(history: History, *, figure: bool = True) -> Report:
    """Return the history in the shape that every writer of reports takes; without `figure` it draws nothing."""
    changes, first = changes_table(history), history.kept[0]
    tables = [_rules(history), changes, beside_table(history), series_table(history)]
    report = Report(
        title="history",
        question=f"Did a figure of {first.like['experiment']} change over {len(history.kept)} sweeps, and since which?",
        answer=answer(history),
        facts=_facts(history),
        banners=tuple(_banners(history)),
        headline=_figure(history) if figure else None,
        steps=None,
        limits=tuple(limits(history)),
        sections=(
            Section("figures", "The figures", "", tuple(filter(None, tables))),
            Section("sweeps", "The sweeps", "", tuple(filter(None, [apart_table(history), sweeps_table(history)]))),
        ),
        lead=changes.id,
        checks=(),
        status="ok",
    )
    return stamped(report, " · ".join([*_facts(history), "bufferlab"]))


def terminal(history: History) -> Group:
    """Return the history as an object that rich can print: the answer first."""
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    report, changes = as_report(history, figure=False), changes_table(history).filled
    lines: list[Text | RichTable] = [Text(report.answer, style="bold"), Text("")]
    lines += [Text(f"! {banner.text}", style="yellow") for banner in report.banners]
    lines.append(Text(" · ".join(report.facts), style="dim"))
    if changes.rows:
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in changes.columns:
            justify: Literal["left", "right"] = "right" if column.numeric else "left"
            drawn.add_column(Text(column.title), justify=justify, overflow="fold", min_width=_WIDTHS.get(column.title))
        for row in changes.rows:
            drawn.add_row(*(Text(cell) for cell in row.cells))
        lines += [drawn, Text(changes.caption, style="dim")]
    if beside := beside_table(history):
        lines += [Text(f"  {where}: {what} {before} before, {since} since") for where, what, before, since in
                  (row.cells for row in beside.rows)]  # fmt: skip
    for judged in history.rules:
        lines += [Text(said, style=RULE_STYLES[judged.outcome]) for said in rule_lines(history, judged)]
    return Group(*lines)


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
    """Return the rules of --fail-if at every setting; None where there is none."""
    rows = tuple(Row((line,)) for judged in history.rules for line in rule_lines(history, judged))
    return Table("rules", "What would fail", (Column("Rule", numeric=False),), rows) if rows else None


def _figure(history: History) -> Figure:
    """Return the headline at every setting over the sweeps, and further figures that change, in panels of their own."""
    of_headline = history.of(history.headline)
    changing = [one for one in history.series if one.steps and one.metric != history.headline]
    shown = sorted([*of_headline, *changing], key=lambda one: not one.steps)[:_MOST_PANELS]
    several = len({one.metric for one in shown}) > 1
    panels = [_panel(one, with_metric=several) for one in shown]
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


def _panel(told: Told, *, with_metric: bool) -> PointsPlot:
    metric = declared(told.metric)
    factor = 100.0 if metric.is_share else 1.0
    dots = tuple(
        Dot(float(place), str(place), (), factor * value, None, None)
        for place, value in enumerate(told.values, start=1)
        if value is not None
    )
    levels = [
        Curve("level" if not start else "", (start + 1.0, float(end)), (factor * level, factor * level), 0)
        for start, end, level in told.levels()
    ]
    places = [step.change.place + 1 for step in told.steps]
    marks = [Mark(float(place), f"from sweep {place}", 1, dashed=True) for place in places]
    named = [title_of(told.metric)] if with_metric or not told.setting.label else []
    return PointsPlot(
        x_label="Sweep",
        y_label=words.axis_title(metric),
        series=(Series("sweep", dots, joined=False),),
        x_is_log=False,
        y_is_log=False,
        y_from_zero=False,
        y_in_bytes=metric.top_unit == "bytes",
        curves=tuple(levels),
        marks=tuple(marks),
        title=", ".join([*named, *filter(None, [told.setting.label])]),
    )


def values_table(history: History) -> Table:
    """Return every value of every figure, a row for each sweep: what --format csv prints."""
    heads = ("sweep", "name", "folder", "began_at", "metric", "unit", "settings", "value", "runs", "level", "change")
    rows = []
    for one in history.series:
        levels = {place: level for start, end, level in one.levels() for place in range(start, end)}
        firsts = {step.change.place for step in one.steps}
        settings = ",".join(f"{name}={value}" for name, value in one.setting.settings.items())
        for place, (sweep, value) in enumerate(zip(history.kept, one.values, strict=True)):
            if value is not None:
                rows.append(
                    Row(
                        (
                            str(place + 1),
                            sweep.name,
                            str(sweep.path),
                            _began(sweep) or "",
                            one.metric,
                            declared(one.metric).unit,
                            settings,
                            repr(value),
                            str(one.runs[place]),
                            "" if one.unclaimed else repr(levels[place]),
                            "first" if place in firsts else "",
                        )
                    )
                )
    return Table("history", "", tuple(Column(head, numeric=False) for head in heads), tuple(rows))


def _began(sweep: SweepTold) -> str | None:
    return sweep.began_at.isoformat() if sweep.began_at else None


HISTORY_VERSION = 1


def as_json(history: History) -> dict[str, Any]:
    """Return the object; later versions add keys and never rename them."""
    return {
        "history_version": HISTORY_VERSION,
        "status": "ok",
        "answer": answer(history),
        "headline": history.headline,
        "order": history.sweeps.order,
        "false_alarms": FALSE_ALARMS,
        "too_short": history.is_too_short,
        "sweeps": [
            {
                "sweep": place,
                "name": sweep.name,
                "line": sweep.line,
                "folder": str(sweep.path),
                "began_at": _began(sweep),
                "runs": sweep.runs,
                "failed_runs": sweep.failed_runs,
                "failed_checks": list(sweep.failed_checks),
            }
            for place, sweep in enumerate(history.kept, start=1)
        ],
        "apart": [
            {
                "name": one.sweep.name,
                "folder": str(one.sweep.path),
                "differs": {name: {"own": own, "others": others} for name, (own, others) in one.differs.items()},
            }
            for one in history.sweeps.apart
        ],
        "changes": [
            {
                "sweep": event.place + 1,
                "name": history.kept[event.place].name,
                "earliest": event.earliest + 1,
                "latest": event.latest + 1,
                "beside": {name: {"before": before, "since": since} for name, (before, since) in event.beside.items()},
                "figures": [_step(series, step) for series, step in event.figures],
            }
            for event in history.events
        ],
        "figures": [_series(one) for one in history.series],
        "rules": [rule_as_json(judged) for judged in history.rules],
        "since": history.since + 1,
        "warnings": [banner.text for banner in _banners(history)],
        "limits": limits(history),
    }


def _step(series: Told, step: Step) -> dict[str, Any]:
    estimate = step.found.verdict.estimate
    return {
        "metric": series.metric,
        "unit": declared(series.metric).unit,
        "settings": series.setting.settings,
        "sweep": step.change.place + 1,
        "earliest": step.change.earliest + 1,
        "latest": step.change.latest + 1,
        "p": step.change.p,
        "before": step.found.value_a,
        "since": step.found.value_b,
        "n_before": step.found.n_a,
        "n_since": step.found.n_b,
        "contrast": step.found.verdict.contrast,
        "value": estimate.value,
        "ci_low": estimate.ci_low,
        "ci_high": estimate.ci_high,
    }


def _series(series: Told) -> dict[str, Any]:
    return {
        "metric": series.metric,
        "unit": declared(series.metric).unit,
        "settings": series.setting.settings,
        "scale": series.scale,
        "values": list(series.values),
        "runs": list(series.runs),
        "scatter": series.scatter,
        "smallest_detectable": series.detectable,
        "reason": series.unclaimed,
    }
