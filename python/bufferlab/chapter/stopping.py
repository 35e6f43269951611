"""Decides whether a sweep with `repetitions = "auto"` has enough blocks, and how many should be enough.

Only the headline metric decides. A sweep has enough blocks if each of its steps is resolved, or shown to be smaller
than the experiment's smallest effect that matters. If the experiment requires a precision of means, the means must have
it too.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.stats import stopping
from bufferlab.stats.fit import Fit
from bufferlab.stats.stopping import Aim, Step

Reason = Literal["resolved", "cap", "fixed", "interrupted", "running"]
"""The reason why a sweep does no more runs: its answer is resolved, the maximum number of blocks is done ("cap"),
their number was fixed before, or it ended before its plan ("interrupted"). "running": it will do more runs."""


def is_enough(analysis: Analysis) -> bool:
    """Return whether the runs so far reach the sweep's aim; False if no run has the headline metric."""
    fit = analysis.fit(analysis.headline)
    return fit is not None and stopping.is_enough(fit, _steps(analysis, fit), _aim(analysis))


def blocks_needed(analysis: Analysis, at_most: int) -> int:
    """Return how many blocks, at most `at_most`, should reach the sweep's aim, computed from its first blocks."""
    fit = analysis.fit(analysis.headline)
    return stopping.blocks_needed(fit, _steps(analysis, fit), _aim(analysis), at_most) if fit else at_most


def is_undecided(analysis: Analysis) -> bool:
    """Return whether the sweep may need more blocks: it has not decided on their number, and they are not enough."""
    stop, design = analysis.sweep.stop, analysis.sweep.asked.get("design", {})
    return stop is not None and stop.enough is None and stop.blocks < design["at_most"] and not is_enough(analysis)


def reason(analysis: Analysis) -> Reason:
    """Return why the sweep does no more runs (interrupted; plan, aim or maximum reached), or that it is running."""
    if analysis.missing_cells or is_undecided(analysis):
        return "running" if analysis.sweep.is_running else "interrupted"
    if not analysis.sweep.stops_itself:
        return "fixed"
    return "resolved" if is_enough(analysis) else "cap"


def said(analysis: Analysis) -> str:
    """Return a sentence on how many blocks are done and whether they are enough.

    Return "" if the number of blocks was fixed before, or if no run has the headline metric.
    """
    fit = analysis.fit(analysis.headline)
    if not analysis.sweep.stops_itself or fit is None:
        return ""
    aim, steps = _aim(analysis), _steps(analysis, fit)
    lacking = sum(not stopping.is_shown(fit, step, aim) for step in steps)
    vague = sum(not stopping.is_precise(fit, point, aim) for point in fit.points)
    title = words.lowered(analysis.metric(analysis.headline).label)
    whole, planned = len(analysis.whole_blocks), len(analysis.sweep.blocks)
    blocks = f"{words.plural(whole, 'block')} of at most {analysis.sweep.asked['design']['at_most']}"
    if not steps and not vague:
        return f"{blocks} were enough: {title} has no step to resolve."
    if not lacking and not vague:
        return f"{blocks} were enough: each step of {title} is resolved, or shown to be below {_per_cent(aim)}."
    told = []
    if lacking:
        of = f"{lacking} of {words.plural(len(steps), 'step')} of {title}"
        told.append(f"{of} {_are(lacking)} neither resolved nor shown to be below {_per_cent(aim)}")
    if vague:
        told.append(f"{vague} of {words.plural(len(fit.points), 'mean')} {_are(vague)} less precise than asked")
    more = f"; {planned} should do" if planned > whole else ""
    return f"After {blocks}, {words.listing(told)}{more}."


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _per_cent(aim: Aim) -> str:
    return f"{100 * aim.smallest_effect:g} %"


def _steps(analysis: Analysis, fit: Fit) -> list[Step]:
    steps: list[tuple[Hashable, Hashable]] = [(a.index, b.index) for a, b in analysis.steps()]
    return [step for step in steps if step in fit.comparisons]


def _aim(analysis: Analysis) -> Aim:
    design = analysis.sweep.asked["design"]
    return Aim(float(design["smallest_effect"]), design.get("precision"))
