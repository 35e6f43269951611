"""Makes sentences of an answer in addition to those on the headline metric: on knees, saturation, best points, and the
benefit of a MiB.

A sentence claims no more than its interval allows, and says so if the interval allows no claim. Numbers come from the
chapters and `stats`, words from `words`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Literal

from bufferlab.chapter import numbers_in_doubt, words
from bufferlab.chapter.analysis import Analysis, Group, PointRuns
from bufferlab.engines import registry as engines
from bufferlab.report.chapters.best import is_of_the_engine
from bufferlab.report.chapters.concurrency import asks_for_throughput, found_concurrency, sentence
from bufferlab.report.chapters.knee import FoundKnee, found_knees
from bufferlab.report.chapters.latency_rate import Saturation, saturation
from bufferlab.results.metrics import Metric, phase_of, qualified
from bufferlab.stats.best import BestSet, equivalence_set
from bufferlab.stats.knee import Knee, Marginal, knee_of_curve
from bufferlab.units import MIB, format_bytes

#: The metrics that may describe a phase, in order of preference: the first one that its runs have is used. Rates are
#: not among them, because they need long windows.
_TOLD_OF_A_PHASE = (
    "read_bytes_per_row",
    "reads_per_row",
    "write_bytes_per_transaction",
    "wal_write_bytes_per_transaction",
)

#: From this ratio on a sentence says "times as many" instead of "per cent more".
_MANY_TIMES = 3.0


def instead(analysis: Analysis) -> str:
    """Return the sentences that answer the sweep in place of the headline metric's change; "" if there are none.

    Their subjects are knees, served rates, peaks of throughput, or findings of the engine's chapters.
    """
    # With too few blocks the headline's sentence is needed: it gives the reason why nothing is claimed.
    if analysis.too_few_blocks:
        return ""
    if own := engines.chapters(analysis.engine).answer(analysis):
        return " ".join(own)
    # The sentence compares a predicted with a measured knee, which a predicted sweep lacks.
    knees = found_knees(analysis) if not any(run.run.prediction for run in analysis.runs) else []
    found = [_knee(one) for one in knees] or [_saturation(one) for one in saturation(analysis)]
    if asks_for_throughput(analysis):
        found += _peaks(analysis)
    return " ".join(found)


def of_group(analysis: Analysis, group: Group, metric: str) -> Iterator[str]:
    """Yield the sentences that follow a group's headline sentence: the best points, the benefit of a larger pool."""
    fit = analysis.fit(metric)
    points = analysis.distinct(group, metric)
    if fit is None or len(points) < 2 or analysis.claim_blocked(metric) or not is_of_the_engine(analysis):
        return
    if analysis.metric(metric).better in ("lower", "higher") and len(points) > 2:
        better: Literal["less", "more"] = "less" if analysis.metric(metric).better == "lower" else "more"
        best = equivalence_set(fit, better, [point.index for point in points])
        if len(best.members) > 1 and best.others and not best.note:
            yield _best(analysis, points, best, metric, "less" if better == "less" else "more")
    sizes: dict[Hashable, int] = {
        point.index: size for point in points if (size := analysis.axis_bytes(point)) is not None
    }
    is_pool = analysis.axis_in_bytes and analysis.axis != "page_size"
    if is_pool and len(points) > 2 and len(set(sizes.values())) == len(points):
        said = _marginal(knee_of_curve(fit, sizes), analysis.metric(metric))
        if said:
            yield said


def of_pages(analysis: Analysis) -> Iterator[str]:
    """Yield a sentence for each group of a sweep of the page size, on the change from the smallest to the largest page.

    It has the bytes read, and one metric of each phase.
    """
    for group in analysis.groups if analysis.axis == "page_size" else ():
        told = [said for name in _told_of_pages(analysis, group) if (said := _span(analysis, group, name))]
        points = [point for point in group.points if point.ok]
        if told:
            where = f"With {group.label}, from" if group.label else "From"
            ends = f"{analysis.short_label(points[0])} to {analysis.short_label(points[-1])} pages"
            yield f"{where} {ends}: {'; '.join(told)}."


def _told_of_pages(analysis: Analysis, group: Group) -> Iterator[str]:
    yield analysis.per_work("read_bytes")
    for phase in analysis.phases:
        yield from [name for told in _TOLD_OF_A_PHASE if _moves(group, name := qualified(phase, told))][:1]


def _span(analysis: Analysis, group: Group, metric: str) -> str | None:
    found = analysis.verdicts(metric, group)
    if found is None or analysis.claim_blocked(metric):
        return None
    phase, _ = phase_of(metric)
    declared = analysis.metric(metric)
    title, unit = words.lowered(declared.label), words.unit_of_change(declared)
    title = f"{title} of the phase {phase.replace('_', ' ')}" if phase else title
    span = found.span
    if span.direction == "rises" and span.contrast == "ratio" and (span.estimate.ci_low or 0) >= _MANY_TIMES:
        times = words.outward_range(span.estimate.ci_low or 0, span.estimate.ci_high or 0)
        return f"{title} rise to {times} times as many"
    said = words.verdict(span, unit).replace("rises", "rise").replace("falls", "fall")
    return f"{title} {'are ' if said.startswith('not') else ''}{said}"


def _moves(group: Group, metric: str) -> bool:
    return any(value for point in group.points for _, _, value in point.values(metric))


def _knee(found: FoundKnee) -> str:
    where = f"With {found.group.label}: the" if found.group.label else "The"
    fitted, ratio = words.count(found.fitted), words.interval(found.ratio)
    basis = (
        f"95 % intervals, n = {found.fitted.n}" if found.fitted.has_interval else f"no interval, n = {found.fitted.n}"
    )
    said = (
        f"{where} knee was found at {fitted} hot rows, predicted at {found.predicted:,}: measured / predicted {ratio}"
    )
    low, high = found.ratio.ci_low, found.ratio.ci_high
    if low is None or high is None:
        return f"{said} ({basis})."
    agrees = ", which cannot be told from one" if low <= 1 <= high else ""
    return f"{said}{agrees} ({basis})."


def _saturation(found: Saturation) -> str:
    where = f"With {found.group.label}: the" if found.group.label else "The"
    if found.first_not_served_per_s is None:
        return f"{where} database kept up with every rate offered, up to {found.served_per_s:,g} transactions a second."
    mean = f" (mean of {words.plural(found.runs, 'run')})"
    beyond = f"of {found.first_not_served_per_s:,g} it completed {found.completed_per_s or 0:,.0f} a second{mean}"
    if found.served_per_s is None:
        return f"{where} database kept up with no rate offered; {beyond}."
    return f"{where} highest rate served was {found.served_per_s:,g} transactions a second; {beyond}."


def _peaks(analysis: Analysis) -> Iterator[str]:
    """Yield a sentence on the peak throughput of each group, and one on failed checks that put throughput in doubt."""
    told = [sentence(analysis, one) for one in found_concurrency(analysis)]
    yield from told
    doubting = numbers_in_doubt.doubting(analysis.checks, analysis.metric(analysis.work_per_s))
    titles = [numbers_in_doubt.named(check) for check in doubting]
    if told and titles:
        yield f"Throughput is in doubt, because this did not hold: {'; '.join(titles)}."


def _best(analysis: Analysis, points: Sequence[PointRuns], best: BestSet, metric: str, less: str) -> str:
    """Return the sentence on several points that may be the best.

    It claims that all of them are better than the rest only if each pair's difference is resolved.
    """
    members = [analysis.short_label(point) for point in points if point.index in best.members]
    together = "both" if len(members) == 2 else "all"
    side = {"less": "below", "more": "above"}[less]
    said = f"{words.listing(members)} cannot be told apart as the best"
    if best.beat_all_others:
        return f"{said}; {together} are {side} the rest."
    return f"{said}; each of the rest is beaten by at least one of them."


def _marginal(found: Knee, metric: Metric) -> str | None:
    """Return a sentence on the saving of the last useful step, and the most that the next step may save.

    The result is None if a step has no interval.
    """
    what = f"{metric.top_unit} per {metric.per}" if metric.per else metric.top_unit
    if any(not step.benefit.has_interval for step in found.steps):
        return None
    if found.size_bytes is None:
        return f"No step was shown to save {what}."
    last = next(step for step in found.steps if step.to_bytes == found.size_bytes)
    low, high = last.benefit.ci_low, last.benefit.ci_high
    if low is None or high is None:
        return None
    saved = words.outward_range(low * _mib_more(last), high * _mib_more(last))
    said = f"The step from {format_bytes(last.from_bytes)} to {format_bytes(last.to_bytes)} saved {saved} {what}"
    if found.beyond is None:
        return f"{said}."
    most = found.beyond.benefit.ci_high
    if most is not None and most < 0:
        return f"{said}; the step to {format_bytes(found.beyond.to_bytes)} cost some."
    beyond = f"{said}; beyond {format_bytes(found.size_bytes)} nothing more was resolved"
    if most is None:
        return f"{beyond}."
    return f"{beyond}, the next step saves {words.number(most * _mib_more(found.beyond))} at most."


def _mib_more(step: Marginal) -> float:
    return (step.to_bytes - step.from_bytes) / MIB
