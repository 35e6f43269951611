"""Rules about the status text: its rates, counters and pages, its counters in tables, and the order of printouts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from bufferlab.audit.evidence import AuditFinding, Case, CounterRates, Judges, RunEvidence, ordered_dumps, timed_dumps
from bufferlab.audit.parsers.blkparse import BlockTraceText
from bufferlab.audit.parsers.captions import Place
from bufferlab.audit.parsers.innodb_status import StatusDump
from bufferlab.audit.parsers.tables import Number, ResultRow, ResultTable

_RATES = ("reads_per_s", "creates_per_s", "writes_per_s")


def idle_rates(case: Case) -> Iterator[AuditFinding]:
    """Find "0.00 reads/s" in the status text although its counter of reads rose. Such rates cannot be used.

    The rates cover the time since the previous printout, which any client may have requested
    (`buf_refresh_io_stats`). The counters are totals since the server's start.

    Yield one finding for each file with such a printout.
    """
    for runs in case.runs_by_file.values():
        # Leave out runs whose count of reads falls: one printout is from another server, or was misread.
        level = [run for run in runs if all(name != "pages_read" for *_, name in _falls(run))]
        found = [(run, segment) for run in level for segment in run.segments() if _idle(segment)]
        if not found:
            continue
        run, segment = max(found, key=lambda one: one[1].read_per_s)
        change = segment.end.fields["pages_read"] - segment.start.fields["pages_read"]
        n = "1 printout says" if len(found) == 1 else f"{len(found)} printouts say"
        yield AuditFinding(
            found[0][1].end.place,
            f'{n} "0.00 reads/s" while Pages read went on, by {change:,.0f} in {segment.seconds:.0f} s at most'
            f" ({run.name})",
            "the rates on these lines, and the hit rate below them, are of another stretch of time, or of none",
            "; ".join(f"{run.name} until {_until(one)}: {one.read_per_s:.1f} reads/s" for run, one in found),
            {
                "printouts": len(found),
                "reads_per_s": [one.read_per_s for _, one in found],
                "pages_read_change": change,
                "seconds": segment.seconds,
            },
        )


def _idle(segment: CounterRates) -> bool:
    """Return whether the later printout has 0 reads, creates and writes per second, although pages were read."""
    fields = segment.end.fields
    printed = [fields[name] for name in _RATES if name in fields]
    return segment.read_per_s > 0.005 and "reads_per_s" in fields and not any(printed)


def _until(segment: CounterRates) -> str:
    return f"{segment.end.t_s:.0f} s" if segment.end.t_s is not None else f"{segment.end.at}"


#: Counters that only grow while a server runs: field of a printout -> words of the server's text.
_GROWING = {
    "pages_read": "Pages read",
    "pages_created": "Pages created",
    "pages_written": "Pages written",
    "made_young": "Pages made young",
    "os_reads": "OS file reads",
    "os_writes": "OS file writes",
    "os_fsyncs": "OS fsyncs",
    "lsn": "Log sequence number",
    "checkpoint_lsn": "Last checkpoint",
    "gets": "Innodb_buffer_pool_read_requests",
    "misses": "Innodb_buffer_pool_reads",
    "uptime_s": "Uptime",
}

_MOST_NAMES = 12

_Fall = tuple[StatusDump, StatusDump, str]
"""The printout with the smaller value of a counter, the printout before it in time, and the counter's name."""


def counters_fall(case: Case) -> Iterator[AuditFinding]:
    """Find counters that are smaller in a later printout, although a server only adds to them; also find resets of
    views.

    Yield a finding for each run with such a counter or reset.
    """
    for run in case.runs:
        if found := _falls(run):
            yield _counters_fall_finding(run, found)
        elif reset := _reset(run):
            yield _reset_finding(run, *reset)


def _falls(run: RunEvidence) -> list[_Fall]:
    return [
        (b, a, name)
        for a, b in pairwise(ordered_dumps(run.dumps))
        for name, before in _growing_of(a).items()
        if _growing_of(b).get(name, before) < before
    ]


def _growing_of(dump: StatusDump) -> dict[str, float]:
    """Return the counters of a printout: all of PostgreSQL's, by their own names, else those in _GROWING by field."""
    return dump.counters or {name: dump.fields[name] for name in _GROWING if name in dump.fields}


def _word(dump: StatusDump, name: str) -> str:
    return dump.words.get(name) or _GROWING.get(name, name)


def _reset(run: RunEvidence) -> tuple[StatusDump, str, str, str] | None:
    """Return the first printout after a reset of PostgreSQL's view, the view's row, and the old and new reset times.

    The result is None if no view was reset.
    """
    for a, b in pairwise(ordered_dumps(run.dumps)):
        for name, before in a.resets.items():
            if (after := b.resets.get(name, before)) != before:
                return b, name, before, after
    return None


def _reset_finding(run: RunEvidence, later: StatusDump, name: str, before: str, after: str) -> AuditFinding:
    row = name.partition(" of ")[2]
    return AuditFinding(
        later.place,
        f'"stats_reset"{f" of {row}" if row else ""} of {run.name} is {after[:40]}, and was {before[:40]}',
        "the counters were set back between the two printouts: no rate can be taken over them",
        "take rates before the reset and after it, never across",
        {"counters": ["stats_reset"], "from": before[:40], "to": after[:40], "falls": 1},
    )


def _counters_fall_finding(run: RunEvidence, found: list[_Fall]) -> AuditFinding:
    later, earlier, name = found[0]
    names = list(dict.fromkeys(_word(dump, field) for dump, _, field in found))
    others = f"; also {', '.join(names[1:_MOST_NAMES])}" if len(names) > 1 else ""
    others += f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    before, after = _growing_of(earlier)[name], _growing_of(later)[name]
    return AuditFinding(
        later.place,
        f'"{_word(later, name)}" of {run.name} falls from {before:,.0f} to {after:,.0f}{others}',
        "the server was started again, or the two printouts are of two servers, or a digit is wrong: no rate can be"
        " taken over them",
        "take rates before the fall and after it, never across",
        {
            "counters": names,
            "from": before,
            "to": after,
            "falls": len({id(dump) for dump, *_ in found}),
        },
    )


#: Counts of one printout may contradict each other by this share, because they change while the server reads them.
_MOVED = 0.01


def pages_in_pool(case: Case) -> Iterator[AuditFinding]:
    """Find printouts with more pages in the pool than it has, or more old or modified pages than pages.

    Yield a finding for each run with such a printout.
    """
    for run in case.runs:
        found = [one for dump in run.dumps for one in _too_many(dump)]
        if found:
            yield _pages_in_pool_finding(run, found)


_TooMany = tuple[StatusDump, str, float, str, float]


def _too_many(dump: StatusDump) -> Iterator[_TooMany]:
    fields = dump.fields
    free, there = fields.get("free_buffers"), fields.get("database_pages")
    # A page kept only in compressed form has no frame of its own. So the pool may hold more pages than frames.
    if free is not None and there is not None and not fields.get("unzip_lru_pages"):
        yield from _above(dump, "free buffers and database pages", free + there, "Buffer pool size", "pool_pages")
    for part, name in (("Modified db pages", "modified_pages"), ("Old database pages", "old_database_pages")):
        if (value := fields.get(name)) is not None:
            yield from _above(dump, part, value, "Database pages", "database_pages")


def _above(dump: StatusDump, part: str, value: float, whole: str, name: str) -> Iterator[_TooMany]:
    most = dump.fields.get(name)
    if most is not None and value > most * (1 + _MOVED):
        yield dump, part, value, whole, most


def _pages_in_pool_finding(run: RunEvidence, found: list[_TooMany]) -> AuditFinding:
    dump, part, value, whole, most = found[0]
    more = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
    return AuditFinding(
        dump.place,
        f'{part} of {run.name} are {value:,.0f}, and "{whole}" is {most:,.0f}{more}',
        "a pool cannot hold more pages than it has: one of the numbers is of another server, or a digit is wrong",
        f"{part}: at most {most:,.0f}, if {whole} is right",
        {"part": part, "pages": value, "most": most, "times": len(found)},
    )


_COUNTERS = {
    "pages_read": "Pages read",
    "pages_written": "written",
    "pages_created": "created",
    "os_reads": "OS file reads",
    "os_writes": "OS file writes",
}
_ROLES = ("reads_per_s", "writes_per_s", "iops")
#: The smallest counter that is searched in tables: numbers below this may equal a counter by chance.
_BY_CHANCE = 10_000
_ENOUGH_ROWS = 3
#: More reads per New-Order than this are impossible: a New-Order and its 1.3 other transactions touch 600 to 900 pages.
_MOST_READS_PER_NEW_ORDER = 2_000
#: A column counts as a counter with a level rate if its steps from row to row differ at most by this factor, and its
#: last value is at least this many times its first one.
_ALIKE = 2.0
_TIME = re.compile(r"(\d{1,7})\s*(s|secs?|seconds?)?\.?", re.IGNORECASE)
_TIME_NAME = re.compile(r"\b(time|seconds?|secs?|elapsed|progress|s)\b", re.IGNORECASE)

_Match = tuple[ResultRow, Number, RunEvidence, StatusDump, str]


def counters_as_rates(case: Case) -> Iterator[AuditFinding]:
    """Find counters since the server's start in a column of rates.

    Yield a finding for each table with a number that equals a printout's counter, grows evenly with time, or is too
    large for reads per second.
    """
    counters = _counters(case)
    for table in case.tables():
        beside = list(_beside(table, counters))
        if beside:
            yield _copied(table, beside)
        elif found := _growing(table) or _beyond(table):
            yield found


def _counters(case: Case) -> dict[float, tuple[RunEvidence, StatusDump, str]]:
    """Return value -> (run, printout, field) for each counter of at least _BY_CHANCE."""
    return {
        value: (run, dump, field)
        for run in case.runs
        for dump in run.dumps
        for field in _COUNTERS
        if (value := dump.fields.get(field, 0.0)) >= _BY_CHANCE
    }


def _beside(table: ResultTable, counters: dict[float, tuple[RunEvidence, StatusDump, str]]) -> Iterator[_Match]:
    for row in table.rows:
        for number in (number for role in _ROLES for number in row.values.get(role, ())):
            if number.decimals == 0 and number.value in counters:
                yield row, number, *counters[number.value]


def _copied(table: ResultTable, found: list[_Match]) -> AuditFinding:
    row, number, run, dump, field = found[0]
    others = f", and {len(found) - 1} more" if len(found) > 1 else ""
    rates = run.rates()
    change = None
    if rates is not None:
        change = (rates.end.fields.get(field, 0.0) - rates.start.fields.get(field, 0.0)) / rates.seconds
    corrected = (
        f"{change:.1f} per second of {_COUNTERS[field]}, between the printouts of {run.name}"
        if change is not None
        else "the change between two printouts, divided by the seconds between them"
    )
    return AuditFinding(
        row.place,
        f'{number} of {row.setting} stands in a column of rates per second, and is the counter "{_COUNTERS[field]}" of'
        f" the status text at {dump.place}{others}",
        "a counter since the start of the server is no rate: it grows with the length of the run",
        corrected,
        {"values": [one.value for _, one, *_ in found], "counter": _COUNTERS[field], "per_s": change},
    )


def _growing(table: ResultTable) -> AuditFinding | None:
    """Return a finding if whole numbers in a column of rates grow evenly with the times that name the rows."""
    for role in _ROLES:
        rows = [(_seconds(table, row), number) for row in table.rows if (number := row.first(role)) is not None]
        known = [(at, number) for at, number in rows if at is not None]
        if len(known) < _ENOUGH_ROWS or len(known) < len(rows) or any(number.decimals for _, number in known):
            continue
        if any(b <= a for (a, _), (b, _) in pairwise(known)) or known[-1][1].value < _BY_CHANCE:
            continue
        steps = [(y.value - x.value) / (b - a) for (a, x), (b, y) in pairwise(known)]
        if max(steps) > _ALIKE * min(steps) or known[-1][1].value < _ALIKE * known[0][1].value:
            continue
        values = " ".join(str(number) for _, number in known)
        rate = (known[-1][1].value - known[0][1].value) / (known[-1][0] - known[0][0])
        return AuditFinding(
            table.place,
            f"{values} grow by {min(steps):.1f} to {max(steps):.1f} in every second, row by row, in a column of rates",
            "a counter since a start grows so; a rate does not follow the time",
            f"{rate:.1f} per second from {known[0][0]} s to {known[-1][0]} s",
            {"values": [number.value for _, number in known], "per_s": rate, "steps_per_s": steps},
        )
    return None


def _seconds(table: ResultTable, row: ResultRow) -> int | None:
    match = _TIME.fullmatch(row.setting.strip())
    return int(match[1]) if match and (match[2] or _TIME_NAME.search(table.setting_name)) else None


def _beyond(table: ResultTable) -> AuditFinding | None:
    """Return a finding for the first row with more reads per New-Order than the pages that transactions can touch."""
    for row in table.rows:
        tpmc, reads = row.first("tpmc"), row.first("reads_per_s")
        if tpmc is None or reads is None or not tpmc.value:
            continue
        per_new_order = 60 * reads.value / tpmc.value
        if per_new_order > _MOST_READS_PER_NEW_ORDER:
            return AuditFinding(
                row.place,
                f"{reads} reads per second at {tpmc} TpmC ({row.setting}) are {per_new_order:,.0f} reads per New-Order;"
                " with the transactions beside it, it touches 600 to 900 pages",
                "this is no rate per second: a counter of the whole run, or requests of another load",
                "the change of the counter, divided by the seconds it was counted in",
                {"values": [reads.value], "reads_per_new_order": per_new_order, "per_s": None},
            )
    return None


_Back = tuple[Place, str, str, int]
"""The line that is out of order, its time, the time of the line above it, and the difference in seconds."""


def time_order(case: Case) -> Iterator[AuditFinding]:
    """Find interval lines, status printouts and block-trace events that come after later ones in the file.

    Yield a finding for each log, each load run, each run's printouts and each trace in which time runs backwards.
    """
    for trace in case.traces():
        if trace.clock.first_back:
            yield _trace_order_finding(trace, *trace.clock.first_back)
    for run in case.runs:
        for log in run.logs:
            back = [
                (b.place, f"{b.elapsed_s} s", f"{a.elapsed_s} s", b.elapsed_s - a.elapsed_s)
                for a, b in pairwise(log.intervals)
                if b.elapsed_s <= a.elapsed_s
            ]
            if back:
                order = " ".join(str(at) for at in sorted(interval.elapsed_s for interval in log.intervals))
                yield _time_order_finding("interval line", back, f"in order: {order} s")
        for load in run.loads:
            progress = [
                (b.place, f"{b.end_s:g} s", f"{a.end_s:g} s", round(b.end_s - a.end_s))
                for a, b in pairwise(load.intervals)
                if b.end_s < a.end_s
            ]
            if progress:
                yield _time_order_finding(f"line of {load.title}", progress, "rates are of the lines in their order")
        if back := list(_printouts(run)):
            yield _time_order_finding(
                f"status printout of {run.name}", back, "rates are taken in the order of the times"
            )


def _printouts(run: RunEvidence) -> Iterator[_Back]:
    for a, b in pairwise(run.dumps):
        if a.place.file != b.place.file:
            continue
        if a.t_s is not None and b.t_s is not None:
            if b.t_s < a.t_s:
                yield b.place, f"{b.t_s:g} s", f"{a.t_s:g} s", round(b.t_s - a.t_s)
        elif a.at is not None and b.at is not None and b.at < a.at:
            yield b.place, f"{b.at}", f"{a.at}", round((b.at - a.at).total_seconds())


def _trace_order_finding(trace: BlockTraceText, line: int, at_s: float, above_s: float) -> AuditFinding:
    times = trace.clock.backwards
    return AuditFinding(
        replace(trace.place, line=line),
        f"the event of {at_s:.9f} s stands below that of {above_s:.9f} s"
        + (f", and {times - 1} more like it" if times > 1 else ""),
        "blkparse puts events in the order of time: parts of a trace were put one behind the other, so times, waits and"
        " throughput are of no stretch of time",
        "give all parts to blkparse at once: `blkparse -i NAME`, without the number of a processor",
        {"time": at_s, "above": above_s, "seconds_back": above_s - at_s, "times": times},
    )


def _time_order_finding(kind: str, back: list[_Back], corrected: str) -> AuditFinding:
    (place, time, above, seconds), *more = back
    return AuditFinding(
        place,
        f"the {kind} of {time} stands below that of {above}" + (f", and {len(more)} more like it" if more else ""),
        "time runs backwards between them, so no rate can be taken: lines were moved, or a clock was set",
        corrected,
        {"time": time, "above": above, "seconds_back": -seconds, "times": len(back)},
    )


def _is_ordered(case: Case) -> bool:
    """Return whether the case has two lines, two timed printouts, or events, whose order in time can be judged."""
    lines = any(len(log.intervals) > 1 for log in case.logs()) or any(len(load.intervals) > 1 for load in case.loads())
    return (
        lines
        or any(len(timed_dumps(run.dumps)) > 1 for run in case.runs)
        or any(one.clock.events for one in case.traces())
    )


JUDGES: Judges = {
    "time-order": _is_ordered,
    "counters-as-rates": lambda case: any(
        {"reads_per_s", "writes_per_s", "iops"} & table.roles for table in case.tables()
    ),
    "counters-fall": lambda case: any(len(ordered_dumps(run.dumps)) > 1 for run in case.runs),
    "pages-in-pool": lambda case: any("database_pages" in dump.fields for run in case.runs for dump in run.dumps),
    "idle-rates": lambda case: any("reads_per_s" in one.end.fields for run in case.runs for one in run.segments()),
}
