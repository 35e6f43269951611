"""The chapter on the best setting: a set of points that may be the best, and the benefit of each further MiB.

A single best point is claimed only if its difference from every other point is resolved. Settings of the workload or
the load have no best value, because users cannot choose how much work there is, nor how it arrives.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group
from bufferlab.chapter.elements import Row, Section, Table
from bufferlab.engines import registry as engines
from bufferlab.results.metrics import Metric
from bufferlab.stats.best import BestSet, equivalence_set
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.fit import Fit
from bufferlab.stats.knee import Knee, Marginal, knee_of_curve
from bufferlab.units import MIB, format_bytes


def best(analysis: Analysis) -> Section | None:
    """Return the chapter: points that may be the best, and for sizes the benefit of each step per MiB.

    The result is None if the axis is not a setting of the engine, or if no claim is allowed.
    """
    if not is_of_the_engine(analysis):
        return None
    sets = _sets(analysis)
    steps, said = _marginal(analysis)
    blocks = tuple(table for table in (sets, steps) if table.rows)
    return Section("best", "Which is best", " ".join(said), blocks, folded=True) if blocks else None


def is_of_the_engine(analysis: Analysis) -> bool:
    """Return whether the axis is a setting of the engine; no other setting has a best value."""
    name = next((run.run.engine for run in analysis.runs), None)
    return name in engines.names() and analysis.axis in engines.declaration(name).by_name()


def _sets(analysis: Analysis) -> Table:
    rows = []
    for group in analysis.groups:
        for metric in (analysis.headline, analysis.work_per_s):
            fit = analysis.fit(metric)
            places = [point.index for point in group.points if fit and point.index in fit.points]
            if fit is None or len(places) < 2 or analysis.claim_blocked(metric):
                continue
            better: Literal["less", "more"] = "less" if analysis.metric(metric).better == "lower" else "more"
            found = equivalence_set(fit, better, places)
            cells = (
                *((group.label,) if len(analysis.groups) > 1 else ()),
                analysis.metric(metric).label,
                _names(analysis, group, (found.observed,)),
                _names(analysis, group, found.members),
                _behind(found, fit, analysis.metric(metric)),
                _names(analysis, group, found.others) if found.others else "none",
            )
            rows.append(Row(cells, "quiet" if found.note else ""))
    first = ("<Points",) if len(analysis.groups) > 1 else ()
    heads = (*first, "<Metric", "<Best mean", "<May be the best", "<Behind the best by at most", "<Beaten")
    caption = (
        "May be the best: a set that holds the truly best point with 95 % confidence (Hsu's comparisons with the "
        "best). Several members mean that this sweep cannot tell them apart, not that they are equal."
    )
    return Table.of("best-set", "Points that may be the best", heads, rows, caption)


def _names(analysis: Analysis, group: Group, places: tuple[object, ...]) -> str:
    return ", ".join(analysis.short_label(point) for point in group.points if point.index in places)


def _behind(found: BestSet, fit: Fit, metric: Metric) -> str:
    if found.note:
        return f"not known: {found.note}"
    worst = max((found.behind[place] for place in found.members), default=0.0)
    if len(found.members) == 1:
        return "it is the best"
    if fit.contrast == "ratio":
        if worst > words.WIDEST_FACTOR:
            return "not known: intervals too wide"
        return f"{words.two_digits(worst - 1)} %"
    factor = 100.0 if metric.is_share else 1.0
    return f"{words.number(factor * worst)} {words.unit_of_change(metric)}".strip()


def _marginal(analysis: Analysis) -> tuple[Table, list[str]]:
    """Return the table of the headline's change per MiB at each step of a size, and sentences on it."""
    rows: list[Row] = []
    said: list[str] = []
    fit = analysis.fit(analysis.headline)
    groups = analysis.groups if analysis.axis_in_bytes and analysis.axis != "page_size" else ()
    for group in groups if fit else ():
        assert fit is not None
        sizes: dict[Hashable, int] = {
            point.index: size
            for point in analysis.distinct(group, analysis.headline)
            if (size := analysis.axis_bytes(point)) is not None
        }
        if len(sizes) < 2:
            continue
        found = knee_of_curve(fit, sizes)
        if not any(step.benefit.has_interval for step in found.steps):
            continue  # With one run per point no step has an interval; "no step was shown" would mislead.
        rows += [_step_row(analysis, group, step) for step in found.steps]
        sentence = _sentence(analysis, group, found)
        said.append(f"{sentence[0].upper()}{sentence[1:]}")
    unit = analysis.metric(analysis.headline).top_unit
    saved = f"{analysis.metric(analysis.headline).label} saved per MiB ({unit})"
    heads = (*(("<Points",) if len(analysis.groups) > 1 else ()), "From", "To", "MiB more", saved, "<Resolved")
    caption = "95 % intervals that hold together for all steps. Not resolved: the step may have brought nothing."
    return Table.of("marginal", "What each further MiB brings", heads, rows, caption), said


def _step_row(analysis: Analysis, group: Group, step: Marginal) -> Row:
    benefit = step.benefit
    cells = (
        *((group.label,) if len(analysis.groups) > 1 else ()),
        format_bytes(step.from_bytes),
        format_bytes(step.to_bytes),
        words.number((step.to_bytes - step.from_bytes) / MIB),
        _interval(benefit),
        "yes" if step.resolved else "no",
    )
    return Row(cells, "" if step.resolved else "quiet")


def _interval(found: Estimate) -> str:
    """Return a value with its interval in words: with "to", because a dash before a negative bound would mislead."""
    if found.ci_low is None or found.ci_high is None:
        return words.number(found.value)
    return f"{words.number(found.value)} ({words.number(found.ci_low)} to {words.number(found.ci_high)})".replace(
        "-", "−"
    )


def _sentence(analysis: Analysis, group: Group, found: Knee) -> str:
    where = f"With {group.label}: " if group.label else ""
    title = words.lowered(analysis.metric(analysis.headline).label)
    if found.size_bytes is None:
        return f"{where}no step was shown to bring fewer {title}."
    size = format_bytes(found.size_bytes)
    steps = [step for step in found.steps if step.to_bytes <= found.size_bytes]
    resolved = sum(step.resolved for step in steps)
    if resolved < len(steps):
        told = f"{resolved} of {words.plural(len(steps), 'step')} up to {size} were shown to bring fewer {title}"
        return f"{where}{told}; no later one was." if found.beyond else f"{where}{told}."
    if found.beyond is None:
        return f"{where}every step up to the largest, {size}, brought fewer {title}."
    high = found.beyond.benefit.ci_high
    if high is not None and high < 0:
        return f"{where}up to {size}, a larger size brought fewer {title}; the next step brought more."
    most = f"; it brought at most {words.number(high)} fewer per MiB" if high is not None else ""
    beyond = format_bytes(found.beyond.to_bytes)
    return f"{where}up to {size}, a larger size brought fewer {title}; the step to {beyond} was not resolved{most}."
