"""Shows a comparison: as a report for the writers that sweeps have, and as the one object of `compare --json`.

docs/compare.md describes the object; its numbers are unrounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.blocks import Banner, Column, Dot, Figure, PointsPlot, Row, Section, Series, Table
from bufferlab.chapter.points_figure import dot, points_data, reads_better_on_a_log_axis
from bufferlab.registry import declared
from bufferlab.report.answer import banners
from bufferlab.report.compare_guard import differing_settings
from bufferlab.report.compare_metrics import MetricCompared, SidesCompared
from bufferlab.report.compare_rules import RuleJudged, sentences, span
from bufferlab.report.compare_sides import MatchedPoint
from bufferlab.report.compare_words import answer, limits, table, unmatched
from bufferlab.report.detail_tables import check_table, failed_checks
from bufferlab.report.document import Report, stamped
from bufferlab.results.sweep_checks import Check
from bufferlab.units import readable

if TYPE_CHECKING:
    from rich.console import Group

RULE_STYLES = {"broken": "bold red", "holds": "green", "undecided": "yellow"}
#: The widths of columns of words, which break into lines; the others share the rest of the terminal.
_WIDTHS = {"Figure": 19, "Verdict": 15, "Detectable": 10}


def as_report(compared: SidesCompared, *, figure: bool = True) -> Report:
    """Return the comparison in the shape that every writer of reports takes.

    Without `figure` it needs no file beside it.
    """
    sides, figures = compared.sides, table(compared)
    checks = tuple(_checks(compared))
    report = Report(
        title="compare",
        question=_question(compared),
        answer=answer(compared),
        facts=_facts(compared),
        banners=tuple(_banners(compared)),
        headline=_figure(compared) if figure else None,
        steps=None,
        limits=tuple(limits(compared)),
        sections=(
            Section("figures", "The figures", "", tuple(filter(None, [_rules(compared), figures]))),
            Section(
                "checks",
                "Can the numbers be believed?",
                "",
                tuple(filter(None, [failed_checks(checks), check_table(checks)])),
            ),
            Section("sides", "The two sides", "", tuple(filter(None, [_what_differs(compared), _left_out(compared)]))),
        ),
        lead=figures.id,
        checks=checks,
        status="ok",
    )
    sources = dict.fromkeys(f"{name}: {of.source}" for name, of in ((sides.name_a, sides.a), (sides.name_b, sides.b)))
    return stamped(report, sides.a.source if sides.one_sweep else "\n".join(sources))


def terminal(compared: SidesCompared) -> Group:
    """Return the comparison as an object that rich can print: the answer first."""
    from rich import box
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    report, figures = as_report(compared), table(compared).filled
    lines: list[Text | RichTable] = [Text(report.answer, style="bold"), Text("")]
    for banner in report.banners:
        style = "bold red" if banner.kind == "danger" else "yellow"
        lines.append(Text(f"{'!!' if banner.kind == 'danger' else '!'} {banner.text}", style=style))
    lines.append(Text(" · ".join(report.facts), style="dim"))
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in figures.columns:
        justify: Literal["left", "right"] = "right" if column.numeric else "left"
        drawn.add_column(Text(column.title), justify=justify, width=_WIDTHS.get(column.title))
    for row in figures.rows:
        drawn.add_row(*(Text(cell) for cell in row.cells), style="bold" if row.mark == "differs" else None)
    lines += [drawn, Text(figures.caption, style="dim")]
    for judged in compared.rules:
        lines += [Text(said, style=RULE_STYLES[judged.outcome]) for said in sentences(judged)]
    lines += [Text(f"  {line}") for line in unmatched(compared)]
    return Group(*lines)


def _rules(compared: SidesCompared) -> Table | None:
    """Return the rules of --fail-if at every matched setting; None where there is none."""
    rows = tuple(
        Row((judged.rule.text, point.match.label, point.outcome, span(judged, point)))
        for judged in compared.rules
        for point in judged.points
    )
    columns = tuple(Column(head, numeric=False) for head in ("Rule", "Setting", "Outcome", "Change (95 %)"))
    return Table("rules", "What would fail", columns, rows) if rows else None


def _checks(compared: SidesCompared) -> Iterator[Check]:
    """Yield the integrity checks of both sweeps; of one sweep, once."""
    sides = compared.sides
    if sides.one_sweep:
        yield from sides.a.checks
        return
    for name, analysis in ((sides.name_a, sides.a), (sides.name_b, sides.b)):
        yield from (replace(check, title=f"{name}: {check.title}") for check in analysis.checks)


def _figure(compared: SidesCompared) -> Figure | None:
    """Return the headline at every matched setting, side by side; None where a side lacks it."""
    sides, metric = compared.sides, compared.headline
    sides_drawn = (
        (sides.name_a, sides.a, [(match, match.a) for match in sides.matched]),
        (sides.name_b, sides.b, [(match, match.b) for match in sides.matched]),
    )
    series = [Series(name, tuple(_dots(of, metric, matches)), joined=False) for name, of, matches in sides_drawn]
    values = [value for one in series for dot in one.dots for value in dot.runs]
    if not all(one.dots for one in series):
        return None
    y_is_log = reads_better_on_a_log_axis(values)
    title = declared(metric).label
    plot = PointsPlot(
        "Setting" if any(match.settings for match in sides.matched) else "",
        words.axis_title(declared(metric)),
        tuple(series),
        x_is_log=False,
        y_is_log=y_is_log,
        x_is_words=True,
    )
    caption = (
        "Open dots: the runs. Filled: mean with its 95 % interval for the mean of many such runs. Whether two means "
        "differ is said by the interval of their change, in the table; overlap here does not say it."
    )
    where = words.plural(len(sides.matched), "setting")
    alt = f"{title} of {sides.name_a} and {sides.name_b} at {where}; the table has the numbers."
    name = f"compared-{metric.replace('_', '-')}"
    return Figure(name, title, alt, caption, plot, points_data(plot, name, title))


def _dots(analysis: Analysis, metric: str, points: list[tuple[MatchedPoint, PointRuns]]) -> Iterator[Dot]:
    for match, point in points:
        if analysis.mean(metric, point) is not None:
            tick = "\n".join(readable(value) for value in match.settings.values())
            yield dot(analysis, metric, point, float(match.place), tick)


def _question(compared: SidesCompared) -> str:
    sides = compared.sides
    if sides.one_sweep:
        return f"{sides.a.sweep.path.name}: does {sides.name_b} differ from {sides.name_a}?"
    return f"Does {sides.b.sweep.path.name} (B) differ from {sides.a.sweep.path.name} (A)?"


def _facts(compared: SidesCompared) -> tuple[str, ...]:
    sides = compared.sides
    count = words.plural(len(sides.matched), "matched setting")
    left = len(sides.only_a) + len(sides.only_b)
    where: tuple[str, ...] = (
        (f"sweep {sides.a.sweep.path}",) if sides.one_sweep else (f"A {sides.a.sweep.path}", f"B {sides.b.sweep.path}")
    )
    return (*where, count, *((f"{left} without a partner",) if left else ()))


def _banners(compared: SidesCompared) -> list[Banner]:
    sides = compared.sides
    found = [Banner("danger", f"Compared by --force although {problem.what}.") for problem in compared.forced]
    found += [Banner("warning", text) for text in compared.warnings]
    if sides.one_sweep:
        return found + banners(sides.a)
    for name, analysis in ((sides.name_a, sides.a), (sides.name_b, sides.b)):
        found += [replace(banner, text=f"{name}: {banner.text}") for banner in banners(analysis)]
    return found


def _what_differs(compared: SidesCompared) -> Table:
    rows = tuple(Row((name, a, b)) for name, (a, b) in differing_settings(compared.sides).items())
    columns = tuple(Column(head, numeric=False) for head in ("Setting", compared.sides.name_a, compared.sides.name_b))
    caption = "As asked; the first matched setting at which they differ." if rows else "Nothing was asked differently."
    return Table("differs", "Settings that differ", columns, rows, caption)


def _left_out(compared: SidesCompared) -> Table | None:
    rows = tuple(Row((line,)) for line in unmatched(compared))
    return Table("unmatched", "Without a partner", (Column("Point", numeric=False),), rows) if rows else None


COMPARISON_VERSION = 1


def as_json(compared: SidesCompared) -> dict[str, Any]:
    """Return the object; later versions add keys and never rename them."""
    sides = compared.sides
    return {
        "comparison_version": COMPARISON_VERSION,
        "status": "ok",
        "answer": answer(compared),
        "headline": compared.headline,
        "method": compared.method,
        "one_sweep": sides.one_sweep,
        "a": _side(sides.name_a, sides.a),
        "b": _side(sides.name_b, sides.b),
        "differing_settings": {name: {"a": a, "b": b} for name, (a, b) in differing_settings(sides).items()},
        "warnings": list(compared.warnings),
        "forced": [problem.as_dict() for problem in compared.forced],
        "limits": limits(compared),
        "rules": [rule_as_json(judged) for judged in compared.rules],
        "points": [
            {
                "settings": match.settings,
                "a": match.a.label,
                "b": match.b.label,
                "figures": [
                    _figure_as_json(figure) for figure in compared.figures if figure.match.place == match.place
                ],
            }
            for match in sides.matched
        ],
        "unmatched": {"a": _points(sides.only_a), "b": _points(sides.only_b)},
    }


def _side(name: str, analysis: Analysis) -> dict[str, Any]:
    return {"name": name, "sweep": str(analysis.sweep.path), "experiment": analysis.sweep.experiment}


def _points(points: tuple[PointRuns, ...]) -> list[dict[str, Any]]:
    return [{"label": point.label, "settings": point.swept, "runs": len(point.ok)} for point in points]


def rule_as_json(judged: RuleJudged) -> dict[str, Any]:
    """Return how a rule was judged, at every pair of points, as --json has it."""
    return {
        "rule": judged.rule.text,
        "metric": judged.rule.metric,
        "limit": judged.rule.limit,
        "outcome": judged.outcome,
        "level": judged.level,
        "points": [
            {
                "settings": point.match.settings,
                "outcome": point.outcome,
                "low": _finite(point.low),
                "high": _finite(point.high),
                "reason": point.reason,
            }
            for point in judged.points
        ],
    }


def _figure_as_json(figure: MetricCompared) -> dict[str, Any]:
    found = figure.found
    estimate = found.verdict.estimate if found else None
    return {
        "metric": figure.metric,
        "unit": declared(figure.metric).unit,
        "outcome": figure.outcome,
        "reason": figure.reason,
        "a": found.value_a if found else None,
        "b": found.value_b if found else None,
        "n_a": found.n_a if found else 0,
        "n_b": found.n_b if found else 0,
        "contrast": found.verdict.contrast if found else None,
        "value": estimate.value if estimate else None,
        "ci_low": _finite(estimate.ci_low) if estimate else None,
        "ci_high": _finite(estimate.ci_high) if estimate else None,
        "level": figure.level,
        "smallest_detectable": _finite(found.verdict.detectable) if found else None,
    }


def _finite(number: float | None) -> float | None:
    """Return a number that JSON has: None where an interval's end lies beyond all floats."""
    return number if number is not None and math.isfinite(number) else None
