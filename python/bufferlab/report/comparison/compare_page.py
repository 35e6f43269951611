"""Makes the answer of `compare`, which every format shows. docs/compare.md describes the object of --json."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Banner, Dot, EffectsPlot, Figure, PointsPlot, Ratio, Section, Series, Table
from bufferlab.chapter.points_figure import dot, points_data, reads_better_on_a_log_axis
from bufferlab.registry import declared
from bufferlab.report.answer import banners
from bufferlab.report.comparison.compare_metrics import SidesCompared
from bufferlab.report.comparison.compare_words import answer, limits, table, title_of, unmatched
from bufferlab.report.comparison.fail_if import ON_UNDECIDED, Outcome, sentences, span
from bufferlab.report.comparison.sides import MatchedPoint
from bufferlab.report.detail_tables import check_table, failed_checks
from bufferlab.report.document import OF_SIDES, Look, Note, Report, stamped
from bufferlab.results.check_parts import Check
from bufferlab.units import readable

#: The most rows of the figure of changes.
_MOST_CHANGES = 12
RULE_LOOKS: dict[Outcome, Look] = {"broken": "bad", "holds": "good", "undecided": "doubt"}


def as_report(compared: SidesCompared) -> Report:
    """Return a comparison as the document that every output format shows."""
    sides, figures = compared.sides, table(compared)
    checks = tuple(_checks(compared))
    report = Report(
        title="compare",
        question=_question(compared),
        answer=answer(compared),
        facts=_facts(compared),
        differs=_one_that_differs(compared),
        banners=tuple(_banners(compared)),
        headline=_figure(compared),
        limits=tuple(limits(compared)),
        sections=(
            Section("figures", "The figures", "", tuple(filter(None, [changes(compared), _rules(compared), figures]))),
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
        parts=OF_SIDES,
        notes=tuple(_notes(compared)),
        data=compared,
    )
    sources = dict.fromkeys(f"{name}: {of.source}" for name, of in ((sides.name_a, sides.a), (sides.name_b, sides.b)))
    return stamped(report, sides.a.source if sides.one_sweep else "\n".join(sources))


def _notes(compared: SidesCompared) -> Iterator[Note]:
    for judged in compared.rules:
        yield from (Note(said, look=RULE_LOOKS[judged.outcome]) for said in sentences(judged))
    if any(judged.outcome == "undecided" for judged in compared.rules):
        yield Note(ON_UNDECIDED)
    yield from (Note(line, indent=2) for line in unmatched(compared))


def _rules(compared: SidesCompared) -> Table | None:
    """Return the table of the rules of --fail-if at every matched setting; None without a rule."""
    rows = [
        (judged.rule.text, point.setting.label, point.outcome, span(judged, point))
        for judged in compared.rules
        for point in judged.points
    ]
    heads = ("<Rule", "<Setting", "<Outcome", "<Change (95 %)")
    return Table.of("rules", "What would fail", heads, rows) if rows else None


def _checks(compared: SidesCompared) -> Iterator[Check]:
    """Yield the integrity checks of both sweeps; only once if the sides are of one sweep."""
    sides = compared.sides
    if sides.one_sweep:
        yield from sides.a.checks
        return
    for name, analysis in ((sides.name_a, sides.a), (sides.name_b, sides.b)):
        yield from (replace(check, title=f"{name}: {check.title}") for check in analysis.checks)


def _figure(compared: SidesCompared) -> Figure | None:
    """Return the plot of the headline metric at every matched setting, with both sides; None if a side lacks values."""
    sides, metric = compared.sides, compared.headline
    sides_drawn = (
        (sides.name_a, sides.a, [(match, match.a) for match in sides.matched]),
        (sides.name_b, sides.b, [(match, match.b) for match in sides.matched]),
    )
    series = [Series(name, tuple(_dots(of, metric, matches)), joined=False) for name, of, matches in sides_drawn]
    has_settings = any(match.settings for match in sides.matched)
    if not has_settings and all(one.dots for one in series):
        # With a single matched setting, the axis has one place for each side.
        named = (replace(one.dots[0], x=float(x), tick=one.label) for x, one in enumerate(series))
        series = [Series("", tuple(named), joined=False)]
    values = [value for one in series for dot in one.dots for value in dot.runs]
    if not all(one.dots for one in series):
        return None
    y_is_log = reads_better_on_a_log_axis(values)
    title = declared(metric).label
    plot = PointsPlot(
        "Setting" if has_settings else "Side",
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


def changes(compared: SidesCompared) -> Figure | None:
    """Return the plot of changes with their intervals: B divided by A, in a row for each metric and setting.

    It shows the first _MOST_CHANGES judged ratios, those of the headline metric first. Return None if there are none.
    """
    names = dict.fromkeys([compared.headline, *compared.metrics])
    judged = [
        (title_of(one.metric) + (f", {one.setting.label}" if one.setting.label else ""), one.found.verdict.estimate)
        for name in names
        for one in compared.of(name)
        if one.found and one.outcome in ("different", "not_distinguishable") and one.found.verdict.contrast == "ratio"
    ][:_MOST_CHANGES]
    if not judged:
        return None
    sides = compared.sides
    ratios = tuple((Ratio(found.value, found.ci_low, found.ci_high),) for _, found in judged)
    title = f"{sides.name_b} over {sides.name_a}, as ratios"
    plot = EffectsPlot(tuple(row for row, _ in judged), ("",), ("",), (ratios,))
    rows = [(row, words.ratio(found)) for row, found in judged]
    data = Table.of("changes-data", f"Data: {title}", ("<Figure", "Ratio (95 %)"), rows, folded=True)
    caption = (
        "The change of each figure with its 95 % interval. An interval that crosses the line at × 1 is a change that "
        "cannot be told from none. The axis is logarithmic."
    )
    alt = f"{title}: {'; '.join(f'{row} {shown}' for row, shown in rows)}."
    return Figure("changes", title, alt, caption, plot, data)


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


def _one_that_differs(compared: SidesCompared) -> str:
    """Return in words the only setting that differs between two sweeps, or "".

    If several differ, a warning lists them. Settings named by --between are already in the names of the sides.
    """
    sides, differing = compared.sides, compared.differing_settings
    if sides.one_sweep or len(differing) != 1:
        return ""
    ((name, (a, b)),) = differing.items()
    return f"Setting that differs: {name} {a} ({sides.name_a}), {b} ({sides.name_b})."


def _what_differs(compared: SidesCompared) -> Table:
    rows = [(name, *pair) for name, pair in compared.differing_settings.items()]
    heads = ("<Setting", f"<{compared.sides.name_a}", f"<{compared.sides.name_b}")
    caption = "As asked; the first matched setting at which they differ." if rows else "Nothing was asked differently."
    return Table.of("differs", "Settings that differ", heads, rows, caption)


def _left_out(compared: SidesCompared) -> Table | None:
    rows = [(line,) for line in unmatched(compared)]
    return Table.of("unmatched", "Without a partner", ("<Point",), rows) if rows else None
