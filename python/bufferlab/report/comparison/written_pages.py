"""Compares predicted with measured writes, point by point: a part of `accuracy`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from bufferlab.chapter import words
from bufferlab.chapter.analysis import PointRuns
from bufferlab.chapter.elements import Table
from bufferlab.registry import declared
from bufferlab.report.comparison.sides import Sides
from bufferlab.results.metrics import Work
from bufferlab.stats.estimate import Estimate

_YES = {None: words.NOTHING, True: "yes", False: "no"}


@dataclass(frozen=True)
class PointWrites:
    """The writes of a point that was measured and predicted, in pages per unit of work."""

    ALSO_PRINTED: ClassVar = ("error", "inside")

    label: str
    measured: Estimate
    least: float | None
    """The lower end of the predicted range; None if writes are not predicted. Without a range both ends are equal."""
    most: float | None
    why_not: str | None
    """The reason why writes are not predicted; None if they are."""
    doubts: tuple[str, ...]

    @property
    def error(self) -> float | None:
        """Return how far the nearer end is from the measured mean, 0 if the mean lies in the range; 0.01 is 1 %."""
        if self.least is None or self.most is None or not self.measured.value:
            return None
        nearest = min(max(self.measured.value, self.least), self.most)
        return nearest / self.measured.value - 1

    @property
    def inside(self) -> bool | None:
        """Return whether the measured interval and the predicted range have a number in common; None without one."""
        low, high = self.measured.ci_low, self.measured.ci_high
        if self.least is None or self.most is None or low is None or high is None:
            return None
        return low <= self.most and self.least <= high


def written(sides: Sides, unit: Work) -> Iterable[PointWrites]:
    """Yield the writes of each point on both sides, for predictions of a model that knows writes."""
    fit = sides.a.fit(f"writes_per_{unit}")
    for match in sides.matched:
        mean = fit.mean(match.a.index) if fit and match.a.index in fit.points else None
        told = _of_point(match.b, unit)
        if mean is not None and told is not None:
            yield PointWrites(sides.a.name_of(match.a), mean, *told)


def _of_point(point: PointRuns, unit: Work) -> tuple[float | None, float | None, str | None, tuple[str, ...]] | None:
    predictions = [run.run.prediction for run in point.ok if run.run.prediction]
    found = [(one.writes, one.writes_per) for one in predictions if one.writes]
    if len(found) != 1:
        return None
    writes, per = found[0]
    doubts = tuple(doubt.name for doubt in writes.doubts)
    return (per["least"][unit], per["most"][unit], None, doubts) if per else (None, None, writes.why_not, doubts)


def answer(found: Sequence[PointWrites], unit: Work) -> str:
    """Return a sentence on the errors of the writes; "" where none are predicted."""
    errors = [one.error for one in found if one.error is not None]
    if not errors:
        return ""
    title, where = declared(f"writes_per_{unit}").label, "at all" if len(errors) == len(found) else "at"
    largest = max(errors, key=abs)
    return (
        f"{title} that the model predicts are within {abs(100 * largest):.1f} % of the measured ones {where} "
        f"{words.plural(len(errors), 'point')}."
    )


def table(found: Sequence[PointWrites], unit: Work) -> Table:
    """Return the table of measured and predicted writes."""
    metric = declared(f"writes_per_{unit}")
    heads = ("<Point", "n", "Measured", "Model", "Error", "<In the interval", "<Doubts")
    rows = [
        (
            one.label,
            str(one.measured.n),
            words.cell(metric, one.measured),
            _told(one),
            words.signed_share(one.error),
            _YES[one.inside],
            ", ".join(name.replace("_", " ") for name in one.doubts),
        )
        for one in found
    ]
    caption = (
        f"{words.axis_title(metric)}. Measured: mean with its 95 % interval. A prediction with two ends is a range: "
        "its error is that of the nearer end, and 0 if the mean lies in the range."
    )
    return Table.of("writes-accuracy", "Writes, point by point", heads, rows, caption, brief=True)


def _told(one: PointWrites) -> str:
    if one.least is None or one.most is None:
        return "not predicted"
    return " to ".join(words.four_digits(number) for number in sorted({one.least, one.most}))
