"""The verdicts of a sweep in sentences: the effect of each step on each metric that the workload compares."""

from __future__ import annotations

from itertools import groupby, pairwise

from bufferlab.chapter.analysis import Analysis, Group
from bufferlab.chapter.words import NOTHING
from bufferlab.report.points_tables import verdict_cell


def verdicts(analysis: Analysis) -> list[str]:
    """Return a sentence for each compared metric, with all its steps, or the change from end to end of each group."""
    one_group = len(analysis.groups) == 1
    found = []
    for metric in analysis.compared:
        told = [said for group in analysis.groups if (said := _of_group(analysis, metric, group, steps=one_group))]
        if told:
            found.append(f"{analysis.metric(metric).label}: {'; '.join(told)}.")
    return found


def _of_group(analysis: Analysis, metric: str, group: Group, *, steps: bool) -> str:
    """Return the verdicts on the steps of a group, or on the change from its first to its last point.

    Neighbouring steps with the same words are joined.
    """
    ran = analysis.distinct(group, metric)
    pairs = list(pairwise(ran)) if steps else [(ran[0], ran[-1])] if len(ran) > 1 else []
    judged = [(a, b, verdict_cell(analysis, metric, a.index, b.index)) for a, b in pairs]
    told = []
    for said, of in groupby(judged, key=lambda one: one[2]):
        alike = list(of)
        ends = f"{analysis.short_label(alike[0][0])} to {analysis.short_label(alike[-1][1])}"
        many = f" ({len(alike)} steps)" if len(alike) > 1 else ""
        if said != NOTHING:
            told.append(f"{ends}{many}: {said}")
    where = f"{group.label}: " if group.label and told else ""
    return where + "; ".join(told)
