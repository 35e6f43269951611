"""Makes a sentence on points whose few runs agree more closely than counts scatter by chance.

A mean's interval comes from the runs of its point alone. If three runs happen to agree, it is far too narrow. Counts
of independent events scatter at least as Poisson's distribution does: their variance is their mean, and the sum of
squared deviations divided by the mean follows chi-square (Fisher's index of dispersion, 1925). Runs that read the same
pages each time, as a full scan does, agree without luck. Then half of the points or more agree so closely, and the
sentence is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from bufferlab.chapter import known_scatter, words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.results.metrics import phase_of
from bufferlab.stats.rounding import sample_deviation

_MISSES = frozenset({"pages_read", "demand_misses"})
"""The counters whose events may come by chance; a transaction's gets hardly differ from run to run."""
_LEAST_RUNS = 3
"""With fewer runs the interval may come from the known scatter of other sweeps, and is not narrow by luck."""
_BY_CHANCE = 0.01
"""If all runs are independent, a sentence appears in at most this share of sweeps."""


def sentence(analysis: Analysis, metric: str, points: Sequence[PointRuns] | None = None) -> str | None:
    """Return a sentence that names the points of `points` (None for all) whose runs agree too closely; None if there
    are none, or if half of them agree as closely."""
    counter = known_scatter.COUNTED.get(analysis.metric(metric).count)
    if counter not in _MISSES or phase_of(metric)[0]:
        return None
    judged = [one for one in analysis.points if len(one.values(metric)) >= _LEAST_RUNS]
    close = [one for one in judged if is_close(*_counts(one, metric, counter), _BY_CHANCE / len(judged))]
    named = [one for one in close if (points is None or one in points) and _has_interval(analysis, metric, one)]
    if not named or (len(judged) > 1 and 2 * len(close) >= len(judged)):
        return None
    named_by = analysis.short_label if len(analysis.groups) < 2 else attrgetter("label")
    where = ", ".join(map(named_by, named))
    counted = min(_counts(one, metric, counter)[1] for one in named)
    label = words.lowered(analysis.metric(metric).label)
    return (
        f"The runs of {where} agree more closely in {label} than independent counts do: counts of "
        f"{round(counted):,} scatter by {words.two_digits(counted**-0.5)} % by chance. If the runs need not "
        "read the same pages, the narrow interval is luck: --repetitions 5 shows it."
    )


def is_close(values: Sequence[float], counted: float, chance: float) -> bool:
    """Return whether independent counts would agree as closely as these values with less than this probability.

    `counted` is the mean count behind a value.
    """
    from scipy.special import chdtr

    if counted < 1:
        return False
    relative, df = sample_deviation(values) / (sum(values) / len(values)), len(values) - 1
    return float(chdtr(df, df * relative**2 * counted)) < chance


def _has_interval(analysis: Analysis, metric: str, point: PointRuns) -> bool:
    mean = analysis.mean(metric, point)
    return mean is not None and mean.has_interval


def _counts(point: PointRuns, metric: str, counter: str) -> tuple[list[float], float]:
    """Return the runs' values of a metric, and the mean of their counts in the window; a mean of 0 without counts."""
    values = [value for _, _, value in point.values(metric)]
    counts = [count for run in point.ok if (count := run.window.change(counter).value) is not None]
    return values, sum(counts) / len(counts) if counts else 0.0
