"""Counts the New-Orders in a log of tpcc-mysql, and the seconds of its window: TpmC follows from both."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low

from bufferlab.importers.tpcc_mysql import TpccLog, spacing_s


@dataclass(frozen=True)
class Counted:
    """A number of New-Orders and the seconds in which they ended."""

    new_orders: int
    seconds: int

    @property
    def tpmc(self) -> float:
        """Return New-Orders per minute."""
        return 60 * self.new_orders / self.seconds

    def seconds_behind(self, tpmc: float) -> float:
        """Return the seconds over which these New-Orders give this TpmC."""
        return 60 * self.new_orders / tpmc


def lines_cover_s(log: TpccLog) -> int | None:
    """Return the seconds that the interval lines cover without a gap from the start, or None when one is missing."""
    step = spacing_s(log)
    if not step:
        return None
    times = sorted(interval.elapsed_s for interval in log.intervals)
    return times[-1] if times == list(range(step, times[-1] + 1, step)) else None


def slack(log: TpccLog, total: int) -> float:
    """Return the difference that two counts of the same transactions may have.

    The program adds to its totals without a lock, and goes on counting for a moment after the last line.
    """
    return max(0.005 * total, 2 * log.parameters.get("connection", 8))


def asked_s(log: TpccLog) -> int | None:
    """Return the window's seconds from the closing block, or from the parameters in whole intervals."""
    asked, step = log.parameters.get("measure"), spacing_s(log)
    return log.measured_s or (asked // step * step if asked and step else None)


def counted(log: TpccLog) -> Counted | None:
    """Return the New-Orders and seconds by raw results, sums or complete lines; None when the log has none of them."""
    covered, lines = lines_cover_s(log), sum(interval.counts[0] for interval in log.intervals)
    totals = [counts.success + counts.late for counts in (log.raw.get(0), log.summed.get(0)) if counts is not None]
    # Lines that end before the window does are an excerpt.
    if covered and covered == asked_s(log):
        totals.append(lines)
    if not totals:
        return None
    # Of three, take the one in the middle, which leaves out a single wrong one.
    total = median_low(totals) if len(totals) > 2 else totals[0]
    if covered and abs(lines - total) <= slack(log, total):
        return Counted(total, covered)
    return Counted(total, log.measured_s) if log.measured_s else None
