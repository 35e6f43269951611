"""Compares predicted with measured writes, point by point: a part of `accuracy`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Table
from bufferlab.registry import declared
from bufferlab.report.comparison.sides import Sides
from bufferlab.results.metrics import Work
from bufferlab.stats.estimate import Estimate
from bufferlab.units import format_bytes

_YES = {None: words.NOTHING, True: "yes", False: "no"}


@dataclass(frozen=True)
class PointWrites:
    """The writes of a point that was measured and predicted, in pages per unit of work."""

    ALSO_PRINTED: ClassVar = ("error", "inside", "bytes_error")

    label: str
    measured: Estimate
    least: float | None
    """The lower end of the predicted range; None if writes are not predicted. Without a range both ends are equal."""
    most: float | None
    why_not: str | None
    """The reason why writes are not predicted; None if they are."""
    doubts: tuple[str, ...]
    written_bytes: Estimate | None
    """The bytes that the server's processes wrote, by the kernel's count: bytes sent to storage with direct I/O, else
    bytes of write calls. None if the kernel did not count them, and for asynchronous writes of buffered files."""
    least_bytes: float | None
    """The lower end of the predicted bytes of pages, copies and log; None if they are not predicted."""
    most_bytes: float | None

    @property
    def bytes_error(self) -> float | None:
        """Return the relative distance of the nearer end of the predicted bytes from the measured mean; 0.01 is 1 %."""
        return None if self.written_bytes is None else _error(self.written_bytes, self.least_bytes, self.most_bytes)

    @property
    def error(self) -> float | None:
        """Return the relative distance of the range's nearer end from the measured mean; 0 if the mean lies in the
        range; 0.01 is 1 %."""
        return _error(self.measured, self.least, self.most)

    @property
    def inside(self) -> bool | None:
        """Return whether the measured interval and the predicted range overlap; None if one of them is missing."""
        low, high = self.measured.ci_low, self.measured.ci_high
        if self.least is None or self.most is None or low is None or high is None:
            return None
        return low <= self.most and self.least <= high


def _error(measured: Estimate, least: float | None, most: float | None) -> float | None:
    if least is None or most is None or not measured.value:
        return None
    return min(max(measured.value, least), most) / measured.value - 1


def written(sides: Sides, unit: Work) -> Iterable[PointWrites]:
    """Yield the measured and predicted writes of each point, if the model predicts writes."""
    for match in sides.matched:
        mean = _mean(sides.a, f"writes_per_{unit}", match.a)
        told = [one for run in match.b.ok if (one := run.run.prediction) and one.writes]
        found = [one.writes for one in told if one.writes]
        # If generated runs predict no writes, their own report gives the reason.
        if mean is None or not found or (told[0].generated and not found[0].ends):
            continue
        per = [one.writes_per for one in told]
        least, most = ((fmean(one[end][unit] for one in per) if all(per) else None) for end in ("least", "most"))
        sent = [
            (min(ends) / one.work[unit], max(ends) / one.work[unit])
            for one, writes in zip(told, found, strict=True)
            if (ends := writes.bytes_of_ends)
        ]
        has_bytes = len(sent) == len(told)
        yield PointWrites(
            label=sides.a.name_of(match.a),
            measured=mean,
            least=least,
            most=most,
            why_not=None if all(per) else next(filter(None, (one.why_not for one in found)), None),
            doubts=tuple(dict.fromkeys(doubt.name for one in found for doubt in one.doubts)),
            written_bytes=_mean(sides.a, f"{count}_per_{unit}", match.a) if (count := _bytes_of(match.a)) else None,
            least_bytes=fmean(low for low, _ in sent) if has_bytes else None,
            most_bytes=fmean(high for _, high in sent) if has_bytes else None,
        )


def _bytes_of(point: PointRuns) -> str:
    """Return the name of the metric with the kernel's count of the bytes that the point's server wrote; "" if there is
    none.

    For buffered files it is the count of write calls: the kernel counts whole folios of the page cache as sent to
    storage.
    """
    if all(run.engine.reads_directly(run) for run in point.ok):
        return "storage_write_bytes"
    return "call_write_bytes" if all(run.engine.writes_by_calls for run in point.ok) else ""


def _mean(analysis: Analysis, metric: str, point: PointRuns) -> Estimate | None:
    fit = analysis.fit(metric)
    return fit.mean(point.index) if fit and point.index in fit.points else None


def answer(found: Sequence[PointWrites], unit: Work) -> str:
    """Return a sentence on the errors of the writes; "" where none are predicted."""
    errors = [one.error for one in found if one.error is not None]
    if not errors:
        return ""
    title, where = declared(f"writes_per_{unit}").label, "at all" if len(errors) == len(found) else "at"
    largest = max(errors, key=abs)
    if len(found) == 1:
        return f"{title} that the model predicts are within {abs(100 * largest):.1f} % of the measured ones."
    return (
        f"{title} that the model predicts are within {abs(100 * largest):.1f} % of the measured ones {where} "
        f"{words.plural(len(errors), 'point')}."
    )


def table(found: Sequence[PointWrites], unit: Work) -> Table:
    """Return the table of measured and predicted writes."""
    metric, of_bytes = (declared(f"{count}_per_{unit}") for count in ("writes", "storage_write_bytes"))
    heads = ("<Point", "n", "Measured", "Model", "Error", "<In the interval", "<Doubts", "Bytes measured",
             "Bytes by the model", "Error of bytes")  # fmt: skip
    rows = [
        (
            one.label,
            str(one.measured.n),
            words.cell(metric, one.measured),
            _told(one),
            words.signed_share(one.error),
            _YES[one.inside],
            ", ".join(name.replace("_", " ") for name in one.doubts),
            words.cell(of_bytes, one.written_bytes),
            _in_bytes(one),
            words.signed_share(one.bytes_error),
        )
        for one in found
    ]
    caption = (
        f"{words.axis_title(metric)}. Measured: mean with its 95 % interval. A prediction with two ends is a range: "
        "its error is that of the nearer end, and 0 if the mean lies in the range. Bytes are those of the server's "
        "processes by the kernel's count: with direct I/O those sent to storage, which have whole pages of a log that "
        "the page cache holds, else those of write calls, which also have pages by which files grow, and a log's pages "
        "that are written again at the next commit. The model has the bytes of pages, copies and log."
    )
    brief = ("Point", "n", "Measured", "Model", "Error", "In the interval", "Doubts")
    return Table.of("writes-accuracy", "Writes, point by point", heads, rows, caption, brief=brief)


def _in_bytes(one: PointWrites) -> str:
    if one.least_bytes is None or one.most_bytes is None:
        return "not predicted"
    return " to ".join(format_bytes(round(number)) for number in sorted({one.least_bytes, one.most_bytes}))


def _told(one: PointWrites) -> str:
    if one.least is None or one.most is None:
        return "not predicted"
    return " to ".join(words.four_digits(number) for number in sorted({one.least, one.most}))
