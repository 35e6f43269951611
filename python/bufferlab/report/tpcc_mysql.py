"""Prints a run of TPC-C in the format of tpcc-mysql, to compare it with logs: interval lines, constraint check, TpmC.

The lines follow Percona-Lab/tpcc-mysql, src/main.c, in every character. The numbers have other sources:

- Counters are exact, because each connection counts separately. tpcc-mysql's connections share counters without a lock,
  which loses counts.
- Lines and totals cover whole seconds of the measured window, with counters interpolated between samples. The rest
  after the last whole second is left out, as tpcc-mysql leaves out the rest after its last interval.
- 95 %, 99 % and max_rt of a line come from the sampled second that overlaps the line's second most, because percentiles
  of several seconds cannot be merged.
- A transaction is late if it took longer than the specification's limit, in seconds unless milliseconds are requested.
  The number of late transactions comes from the stored histogram of the whole window.
- TpmC counts New-Orders, rolled back ones included, as tpcc-mysql does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from bufferlab.results.timeline import Instant, measured_instants

if TYPE_CHECKING:
    import polars as pl

    from bufferlab.results.schema import Run
    from bufferlab.results.store import RunRecord

TYPES = ("new_order", "payment", "order_status", "delivery", "stock_level")
#: The specification's limits of response times (TPC-C 5.2.5.3) in seconds, by type. tpcc-mysql uses the same numbers as
#: milliseconds.
LIMITS = (5, 5, 5, 80, 20)
LimitUnit = Literal["s", "ms"]
_NAMES = ("New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level")
#: (place in TYPES, least share in per cent, name as printed, share as printed) of each line of the mix.
_MIX = (
    (1, 43.0, "        Payment", "43.0"),
    (2, 4.0, "   Order-Status", " 4.0"),
    (3, 4.0, "       Delivery", " 4.0"),
    (4, 4.0, "    Stock-Level", " 4.0"),
)
_RESPONSE_PERCENT = 90.0


class NothingToPrintError(ValueError):
    """The error for a run that cannot be printed in this format, with the reason."""


@dataclass(frozen=True)
class PrintedLine:
    """One interval line; tuples are in the order of TYPES. Percentiles are New-Order's."""

    elapsed_s: int
    counts: tuple[int, ...]
    p95_ms: float
    p99_ms: float
    max_ms: tuple[float, ...]


@dataclass(frozen=True)
class Total:
    """The line of raw results of one transaction type: numbers of transactions and their mean time."""

    on_time: int
    late: int
    retries: int
    mean_ms: float

    @property
    def done(self) -> int:
        """Return the number of completed transactions, in time or late."""
        return self.on_time + self.late


@dataclass(frozen=True)
class TpccOutput:
    """The numbers of one run, ready to be printed."""

    caption: str
    warehouses: int
    connections: int
    ramp_up_s: int
    seconds: int
    left_out_s: float
    """The rest of the window after the last whole second, in seconds."""
    lines: tuple[PrintedLine, ...]
    totals: tuple[Total, ...]
    limits_ms: tuple[int, ...]

    @property
    def tpmc(self) -> float:
        """Return the New-Orders per minute of the window's whole seconds."""
        return self.totals[0].done * 60.0 / self.seconds


def output_of(record: RunRecord, limit_unit: LimitUnit = "s") -> TpccOutput:
    """Return the numbers of a published run that tpcc-mysql would print.

    Raises NothingToPrintError if its workload is not TPC-C, or if its window is shorter than a second.
    """
    run = record.run
    if run.workload["name"] != "tpcc":
        raise NothingToPrintError(f"the workload is {run.workload['name']}, not tpcc")
    points = measured_instants(record.samples())
    whole_s = points[-1].t_s - points[0].t_s if points else 0.0
    seconds = int(whole_s + 1e-6)
    if seconds < 1:
        raise NothingToPrintError(f"its window of {whole_s:.2f} s has no whole second")
    factor = 1000 if limit_unit == "s" else 1
    limits_ms = tuple(limit * factor for limit in LIMITS)
    done = [_by_second(points, ("transactions_committed", "transactions_rolled_back"), kind, seconds) for kind in TYPES]
    return TpccOutput(
        caption=_caption(run),
        warehouses=int(run.workload.get("warehouses", 0)),
        connections=int(run.workload.get("connections", 1)),
        ramp_up_s=round(run.warm_up.seconds if run.warm_up else 0.0),
        seconds=seconds,
        left_out_s=max(0.0, whole_s - seconds),
        lines=tuple(_lines(points, done, seconds)),
        totals=tuple(_totals(record.latency(), points, done, limits_ms, seconds)),
        limits_ms=limits_ms,
    )


def render(output: TpccOutput) -> str:
    """Return the text of a run as tpcc-mysql would print it, below a line that names the run."""
    return (
        "\n".join([*_head(output), *map(_interval_line, output.lines), "", "STOPPING THREADS", "", *_end(output)])
        + "\n"
    )


def _head(output: TpccOutput) -> Iterator[str]:
    yield output.caption
    yield "<Parameters>"
    yield f"  [warehouse]: {output.warehouses}"
    yield f" [connection]: {output.connections}"
    yield f"     [rampup]: {output.ramp_up_s} (sec.)"
    yield f"    [measure]: {output.seconds} (sec.)"
    yield from ("", "MEASURING START.", "")


def _interval_line(line: PrintedLine) -> str:
    others = ", ".join(
        f"{count}|{slowest:.3f}" for count, slowest in zip(line.counts[1:], line.max_ms[1:], strict=True)
    )
    return (
        f"{line.elapsed_s:4d}, trx: {line.counts[0]}, 95%: {line.p95_ms:.3f}, 99%: {line.p99_ms:.3f},"
        f" max_rt: {line.max_ms[0]:.3f}, {others}"
    )


def _end(output: TpccOutput) -> Iterator[str]:
    yield "<Raw Results>"
    for place, (total, limit) in enumerate(zip(output.totals, output.limits_ms, strict=True)):
        yield (
            f"  [{place}] sc:{total.on_time} lt:{total.late}  rt:{total.retries}  fl:0"
            f" avg_rt: {total.mean_ms:.1f} ({limit})"
        )
    yield f" in {output.seconds} sec."
    yield from ("", "<Raw Results2(sum ver.)>")
    for place, total in enumerate(output.totals):
        yield f"  [{place}] sc:{total.on_time}  lt:{total.late}  rt:{total.retries}  fl:0 "
    yield from ("", "<Constraint Check> (all must be [OK])", " [transaction percentage]")
    whole = sum(total.done for total in output.totals)
    for place, needed, name, shown in _MIX:
        percent = 100.0 * output.totals[place].done / whole if whole else 0.0
        yield f"{name}: {percent:3.2f}% (>={shown}%){_verdict(percent >= needed)}"
    yield " [response time (at least 90% passed)]"
    for name, total in zip(_NAMES, output.totals, strict=True):
        percent = 100.0 * total.on_time / total.done if total.done else 0.0
        yield f"{name:>15}: {percent:3.2f}% {_verdict(percent >= _RESPONSE_PERCENT)}"
    yield from ("", "<TpmC>", f"                 {output.tpmc:.3f} TpmC")


def _verdict(ok: bool) -> str:
    return " [OK]" if ok else " [NG] *"


def _caption(run: Run) -> str:
    """Return the line that names a run: "pool_size = 10% (block 0, run 0123456789abcdef)"."""
    swept = [f"{name} = {value}" for name, value in run.point.swept.items()]
    first, *others = swept or [run.experiment]
    rest = [*others, f"block {run.block}", f"run {run.run_id}"]
    return f"{first} ({', '.join(rest)})"


def _by_second(points: Sequence[Instant], metrics: Sequence[str], kind: str, seconds: int) -> list[int]:
    """Return the sum of the counters `metrics` since the window began, as integers, at seconds 0, 1, ... `seconds`.

    The counters are interpolated between samples, and never fall.
    """
    times = [point.t_s - points[0].t_s for point in points]
    values = [sum(_number(point, metric, kind) for metric in metrics) for point in points]
    found: list[int] = []
    for second in range(seconds + 1):
        # The end sample may come a little before the last whole second, because the window's length was rounded up.
        after = min(bisect_left(times, second), len(times) - 1)
        before = max(0, after - 1)
        width = times[after] - times[before]
        share = min(1.0, (second - times[before]) / width) if width > 0 else 1.0
        at = values[before] + share * (values[after] - values[before])
        found.append(max(round(at - values[0]), found[-1] if found else 0))
    return found


def _number(point: Instant, metric: str, kind: str) -> float:
    reading = point.readings.get(metric, {}).get(kind)
    return float(reading.number) if reading is not None and reading.number is not None else 0.0


def _lines(points: Sequence[Instant], done: list[list[int]], seconds: int) -> Iterator[PrintedLine]:
    slots = _slots(points, seconds)
    for second in range(1, seconds + 1):
        of = slots.get(second, [])
        # Take the percentiles of the longest stretch in the second, and the maximum of all its stretches.
        longest = max(of, key=lambda stretch: stretch[0], default=(0.0, None))[1]
        yield PrintedLine(
            second,
            tuple(counts[second] - counts[second - 1] for counts in done),
            _number(longest, "service_p95_us", TYPES[0]) / 1000 if longest else 0.0,
            _number(longest, "service_p99_us", TYPES[0]) / 1000 if longest else 0.0,
            tuple(
                max((_number(point, "service_max_us", kind) for _, point in of), default=0.0) / 1000 for kind in TYPES
            ),
        )


def _slots(points: Sequence[Instant], seconds: int) -> dict[int, list[tuple[float, Instant]]]:
    """Return second (from 1) -> the stretches between samples whose middle lies in it, as (length in s, end sample)."""
    slots: dict[int, list[tuple[float, Instant]]] = {}
    for before, after in pairwise(points):
        start, end = before.t_s - points[0].t_s, after.t_s - points[0].t_s
        slot = int((start + end) / 2) + 1
        if slot <= seconds and end > start:
            slots.setdefault(slot, []).append((end - start, after))
    return slots


def _totals(
    latency: pl.DataFrame, points: Sequence[Instant], done: list[list[int]], limits_ms: Sequence[int], seconds: int
) -> Iterator[Total]:
    for kind, counts, limit_ms in zip(TYPES, done, limits_ms, strict=True):
        buckets = [
            (low, high, count) for of, time, low, high, count in latency.iter_rows() if of == kind and time == "service"
        ]
        n = sum(count for _, _, count in buckets)
        late = sum(count * _beyond(low, high, 1000.0 * limit_ms) for low, high, count in buckets)
        mean_us = sum((low + high) / 2 * count for low, high, count in buckets) / n if n else 0.0
        whole = counts[-1]
        # The histogram covers the whole window, the count only its whole seconds. So the number of late transactions is
        # scaled.
        slow = min(whole, round(late * whole / n)) if n else 0
        retries = _by_second(points, ("transaction_retries",), kind, seconds)[-1]
        yield Total(whole - slow, slow, retries, mean_us / 1000)


def _beyond(low: float, high: float, limit: float) -> float:
    """Return the share of a bucket that is at or above the limit, if times are spread evenly within the bucket."""
    if limit <= low:
        return 1.0
    return 0.0 if limit >= high else (high - limit) / (high - low)
