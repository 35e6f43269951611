"""Rules about one log of tpcc-mysql: limits, totals, percentiles and first lines; also other tools' first lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from statistics import mean, median, stdev

from bufferlab.audit.evidence import AuditFinding, Case, Judges
from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.load_run import LoadRun
from bufferlab.audit.parsers.tpcc_mysql import TYPES, Interval, ResponseCheck, TpccLog, TransactionCounts
from bufferlab.units import format_percent

#: The limits of response times, by type of transaction. The specification means seconds, but tpcc-mysql compares the
#: same numbers with milliseconds.
LIMITS = (5, 5, 5, 80, 20)
_NEEDED = 90.0


def response_limits(case: Case) -> Iterator[AuditFinding]:
    """Find wrong failures (NG) in tpcc-mysql's response-time check, which treats limits in seconds as milliseconds.

    Source: src/main.c, `rt_limit[5] = {5, 5, 5, 80, 20}`, and src/driver.c, which compares them with a time in ms.
    TPC-C 5.2.5.4 sets 5, 5, 5, 80 and 20 seconds. The options -0 to -4 give other limits; then the raw results show
    them.

    Yield one finding for each closing block with NG lines that would pass in seconds, or cannot be judged.
    """
    for log in case.logs():
        refused = {
            at: log.response[name]
            for at, name in enumerate(TYPES)
            if name in log.response and not log.response[name].ok and _default_limit(log, at)
        }
        judged = {at: _share_within(log, at) for at in refused}
        wrong = {at: found for at, found in refused.items() if judged[at] is None or (judged[at] or 0) >= _NEEDED}
        if wrong:
            yield _response_limits_finding(log, wrong, judged)


def _default_limit(log: TpccLog, at: int) -> bool:
    """Return whether a type's limit is tpcc-mysql's default; True if the log prints no limit."""
    shown = [counts.limit for counts in (log.raw.get(at), log.summed.get(at)) if counts and counts.limit is not None]
    return all(limit == LIMITS[at] for limit in shown)


def _share_within(log: TpccLog, at: int) -> float | None:
    """Return the least possible share, in per cent, of a type's transactions that took less than the limit in seconds.

    The result is None if no interval line counts the type.
    """
    if not log.intervals:
        return None
    limit_ms = 1000 * LIMITS[at]
    total = sum(interval.counts[at] for interval in log.intervals)
    within = 0.0
    for interval in log.intervals:
        if interval.max_ms[at] < limit_ms:
            within += interval.counts[at]
        elif at == 0 and interval.p99_ms is not None and interval.p99_ms < limit_ms:
            within += 0.99 * interval.counts[at]
        elif at == 0 and interval.p95_ms is not None and interval.p95_ms < limit_ms:
            within += 0.95 * interval.counts[at]
    return 100 * within / total if total else None


def _response_limits_finding(
    log: TpccLog, wrong: dict[int, ResponseCheck], judged: dict[int, float | None]
) -> AuditFinding:
    said = ", ".join(f"{TYPES[at]} {found.percent:g} %" for at, found in wrong.items())
    limits = "/".join(str(LIMITS[at]) for at in wrong)
    n = len(log.intervals)
    if n:
        parts = [_within(log, at, judged[at]) for at in wrong]
        corrected = f"[OK]: within {limits} s at least: {', '.join(parts)}, by the {n} interval lines given"
    else:
        corrected = f"not known here: no interval line tells the slowest; run it again with limits of {limits} s in ms"
    return AuditFinding(
        next(iter(wrong.values())).place,
        f"[NG] for {said}: the limits {limits} were compared in milliseconds, and are meant in seconds",
        "the check says nothing about whether the system was slow",
        corrected,
        {
            "percent_said": {TYPES[at]: found.percent for at, found in wrong.items()},
            "percent_within_seconds": {TYPES[at]: judged[at] for at in wrong},
            "slowest_ms": {TYPES[at]: max((i.max_ms[at] for i in log.intervals), default=None) for at in wrong},
        },
    )


def _within(log: TpccLog, at: int, share: float | None) -> str:
    """Return the words on one type: the share within its limit, or that no interval line counts the type."""
    if share is None:
        return f"{TYPES[at]} not known, the lines count none"
    return f"{TYPES[at]} {share:.4g} % (slowest {max(i.max_ms[at] for i in log.intervals):.0f} ms)"


#: The tolerance in percentage points: programs print percentages with two decimals, people may write one decimal.
_PERCENT = 0.06


def totals_agree(case: Case) -> Iterator[AuditFinding]:
    """Compare interval lines, raw results, sums and printed percentages, which must count the same transactions.

    Yield a finding for each log with counts that disagree.
    """
    for log in case.logs():
        found = [*_counts(log), *_percentages(log)]
        if found:
            yield _totals_agree_finding(log, found)


_Contradiction = tuple[str, float, float, float | None, Place | None]
"""(both numbers' names, first number, second number, right number if known, place of the second number if known)."""


def totals(log: TpccLog, at: int) -> list[tuple[str, int]]:
    """Return the counts of one transaction type, each with the name of the part of the log that has it."""
    found = []
    if log.complete_s:
        found.append(("interval lines", sum(interval.counts[at] for interval in log.intervals)))
    for name, block in (("raw results", log.raw), ("sums", log.summed)):
        if counts := block.get(at):
            found.append((name, counts.success + counts.late))
    return found


def _counts(log: TpccLog) -> Iterator[_Contradiction]:
    for at, kind in enumerate(TYPES):
        every = totals(log, at)
        numbers = [number for _, number in every]
        for (one, a), (other, b) in pairwise(every):
            if abs(a - b) > log.slack(max(a, b)):
                # If two of three counts agree, these two are taken as right.
                right = next((x for x, y in combinations(numbers, 2) if abs(x - y) <= log.slack(max(x, y))), None)
                yield f"{kind} in {one} and {other}", a, b, right, None
                break


def _percentages(log: TpccLog) -> Iterator[_Contradiction]:
    blocks = [block for block in (log.raw, log.summed) if len(block) == len(TYPES)]
    for shown, share, words in ((log.mix, _share_of_all, "of all"), (log.response, _share_in_time, "within the limit")):
        for at, kind in enumerate(TYPES):
            found = shown.get(kind)
            shares = [value for block in blocks if (value := share(block, at)) is not None]
            if found and shares and all(abs(found.percent - value) > _PERCENT for value in shares):
                name = f"per cent {words}, {kind}, by counts and printed"
                yield name, shares[0], found.percent, shares[0], found.place


def _share_of_all(block: dict[int, TransactionCounts], at: int) -> float | None:
    total = sum(counts.success + counts.late for counts in block.values())
    return 100 * (block[at].success + block[at].late) / total if total else None


def _share_in_time(block: dict[int, TransactionCounts], at: int) -> float | None:
    total = block[at].success + block[at].late
    return 100 * block[at].success / total if total else None


def _totals_agree_finding(log: TpccLog, found: list[_Contradiction]) -> AuditFinding:
    listed = "; ".join(f"{name}: {a:,.10g} against {b:,.10g}" for name, a, b, *_ in found)
    where = found[0][-1]
    known = "; ".join(f"{name}: {value:,.6g}" for name, _, _, value, _ in found if value is not None)
    return AuditFinding(
        where or log.tpmc_place or log.place,
        f"{log.name} counts the same transactions differently: {listed}",
        "one of the numbers is not of this run, or was changed; TpmC follows from one of them",
        known or "neither can be told to be right: find the log that each is of, or run it again",
        {
            "what": [one for one, *_ in found],
            "first": [first for _, first, *_ in found],
            "second": [second for _, _, second, *_ in found],
            "right": [value for *_, value, _ in found],
        },
    )


_BIN = 0.0005
#: tpcc-mysql prints shorter times as 1 ms.
_LEAST_MS = 1.001

_Above = tuple[Interval, str, float, str, float]


def above_maximum(case: Case) -> Iterator[AuditFinding]:
    """Find percentiles above the maximum of their line, or above a higher percentile.

    Source: tpcc-mysql, src/sb_percentile.c, which prints the nearest bin; bins are 0.03 % wide and begin at 1 ms.

    Yield a finding for each log with such lines.
    """
    for log in case.logs():
        found = [one for interval in log.intervals for one in _above(interval)]
        if found:
            yield _above_maximum_finding(log, found)


def _above(interval: Interval) -> Iterator[_Above]:
    p95, p99 = interval.p95_ms, interval.p99_ms
    if p95 is None or p99 is None:
        return
    most = interval.max_ms[0]
    for lower, low, higher, high in (
        ("95 %", p95, "max", most),
        ("99 %", p99, "max", most),
        ("95 %", p95, "99 %", p99),
    ):
        if low > max(high * (1 + _BIN), _LEAST_MS):
            yield interval, lower, low, higher, high
            return


def _above_maximum_finding(log: TpccLog, found: list[_Above]) -> AuditFinding:
    interval, lower, low, higher, high = found[0]
    lines = len(found)
    more = f", and in {lines - 1} more of {len(log.intervals)} lines" if lines > 1 else ""
    return AuditFinding(
        interval.place,
        f"at {interval.elapsed_s} s {lower} of the New-Orders took up to {low:g} ms, and {higher} is {high:g} ms{more}",
        "no percentile can be above the maximum, or above a higher one: one of the two is wrong",
        f"{lower}: at most {high:g} ms, if {higher} is right",
        {
            "at_s": interval.elapsed_s,
            "lower": lower,
            "lower_ms": low,
            "higher": higher,
            "higher_ms": high,
            "lines": lines,
        },
    )


_ENOUGH_LINES = 6
#: First lines are slow if they are 30 % and 2.5 standard deviations below the later lines. A single slow line must be
#: 50 % below, because during the first line clients also connect and prepare.
_FAR, _FAR_ALONE, _DEVIATIONS = 0.3, 0.5, 2.5
#: If the slow lines lower the throughput by less than 2 %, they are not reported.
_MATTERS = 0.02


_Line = tuple[float, float, Place]
"""The seconds from the start to a line, the line's count or rate, and its place."""


def cold_start(case: Case) -> Iterator[AuditFinding]:
    """Find runs whose first lines have far lower throughput than the later ones: counting began with a cold pool.

    Yield a finding for each log, and each load generator's lines of progress, that begin far below their later level.
    """
    for log in case.logs():
        if may_be_cold(log):
            found = _slow(sorted((float(one.elapsed_s), one.counts[0], one.place) for one in log.intervals))
            yield from [_cold_log_finding(log, *found)] if found else []
    for load in case.loads():
        if load_may_be_cold(load):
            found = _slow([(line.end_s, line.per_s, line.place) for line in load.intervals])
            yield from [_cold_load_finding(load, *found)] if found else []


def may_be_cold(log: TpccLog) -> bool:
    """Return whether a log has enough lines to show whether throughput had settled."""
    return len(log.intervals) >= _ENOUGH_LINES and bool(log.covered_s)


def load_may_be_cold(load: LoadRun) -> bool:
    """Return whether a load generator's lines can show that throughput had settled.

    There must be enough lines of similar length, and no set rate, because lines would follow that rate.
    """
    ends = [0.0, *(line.end_s for line in load.intervals)]
    steps = [b - a for a, b in pairwise(ends)]
    return len(load.intervals) >= _ENOUGH_LINES and not load.paced and min(steps) > 0 and max(steps) <= 1.5 * min(steps)


def _slow(lines: list[_Line]) -> tuple[list[_Line], list[_Line]] | None:
    """Return the slow first lines, and all other lines; None if no first lines are slow."""
    counts = [count for _, count, _ in lines]
    later = counts[len(counts) // 2 :]
    settled, scatter = median(later), stdev(later)
    bar = settled - max(_FAR * settled, _DEVIATIONS * scatter)
    slow = next((at for at, count in enumerate(counts) if count >= bar), len(counts))
    if not 0 < slow <= len(counts) // 2 or (slow == 1 and counts[0] >= _FAR_ALONE * settled):
        return None
    if 1 - mean(counts) / mean(counts[slow:]) < _MATTERS:
        return None
    return lines[:slow], lines[slow:]


def _cold_log_finding(log: TpccLog, slow: list[_Line], others: list[_Line]) -> AuditFinding:
    cold, warm = ([int(count) for _, count, _ in lines] for lines in (slow, others))
    whole, rest, until_s = mean([*cold, *warm]), mean(warm), round(slow[-1][0])
    per_minute = 60 / (log.spacing_s or 1)
    ramp = log.parameters.get("rampup")
    said = f" after a ramp-up of {ramp} s" if ramp is not None else ""
    return AuditFinding(
        slow[0][-1],
        f"until {until_s} s{said} {min(cold)} to {max(cold)} New-Orders a line, later {min(warm)} to {max(warm)}",
        f"the pool was filling: TpmC mixes two states, and is {format_percent(1 - whole / rest)} below the second",
        f"{rest * per_minute:.1f} TpmC after {until_s} s, not {whole * per_minute:.1f}; a ramp-up"
        " must last until throughput is level",
        {
            "rampup_s": ramp,
            "cold_s": until_s,
            "cold_counts": cold,
            "tpmc": whole * per_minute,
            "tpmc_settled": rest * per_minute,
        },
    )


def _cold_load_finding(load: LoadRun, slow: list[_Line], others: list[_Line]) -> AuditFinding:
    cold, warm = ([rate for _, rate, _ in lines] for lines in (slow, others))
    whole, rest, until_s = mean([*cold, *warm]), mean(warm), slow[-1][0]
    return AuditFinding(
        slow[0][-1],
        f"until {until_s:g} s {load.title} has {min(cold):g} to {max(cold):g} a second in its lines, later"
        f" {min(warm):g} to {max(warm):g}",
        f"caches were filling: the rate of the run mixes two states, and is {format_percent(1 - whole / rest)} below"
        " the second",
        f"{rest:.1f} per second after {until_s:g} s, not {whole:.1f}; a warm-up must last until throughput is level",
        {"cold_s": until_s, "cold_per_s": cold, "per_s": whole, "per_s_settled": rest},
    )


JUDGES: Judges = {
    "response-limits": lambda case: any(log.response for log in case.logs()),
    "totals-agree": lambda case: any(
        len(totals(log, 0)) > 1 or ((log.mix or log.response) and log.raw) for log in case.logs()
    ),
    "above-maximum": lambda case: any(log.intervals for log in case.logs()),
    "cold-start": lambda case: any(map(may_be_cold, case.logs())) or any(map(load_may_be_cold, case.loads())),
}
