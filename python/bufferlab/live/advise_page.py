"""Builds the report of `advise`, which every output format shows, and the table of sizes for CSV."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bufferlab.chapter import words
from bufferlab.chapter.elements import Band, Banner, Column, Dot, Figure, Mark, PointsPlot, Row, Section, Series, Table
from bufferlab.engines.servers.look import NotTold
from bufferlab.live import free_pages, sentence
from bufferlab.live.advise import Advice
from bufferlab.live.bounds import SizeEstimate
from bufferlab.live.look_result import Seen
from bufferlab.live.observe_page import inside_sections, misses_figure
from bufferlab.live.tiers import TierCost
from bufferlab.models.limits import OWN_LIMIT
from bufferlab.report.document import Report, stamped
from bufferlab.units import format_bytes, format_duration, format_percent

_CANNOT = "cannot say"
_LITTLE = 0.01
"""Reads into memory outside the pool are mentioned among the limits only if they are at least this fraction of the
bytes read."""
_HEADS = ("Pool", "Reads/s", "95 % bounds", "Change", "Reading, ms/s", "Writes/s", "Of the present", "Tier")
_NUMBERS = (
    "Pool",
    "Reads a second",
    "From",
    "To",
    "Change in reads a second",
    "ms of reading a second",
    "Writes from",
    "Writes to",
    "Of the present",
    "Tier",
    "Why not",
)
"""The column headers of two tables of sizes: the one for readers, and the one for programs."""


def as_report(advice: Advice, *, is_interrupted: bool = False) -> Report:
    """Return the advice as the document that every output format shows."""
    facts, seen = advice.seen.facts, advice.seen
    is_judged = any(one.cannot_say is None for one in advice.others)
    length = format_duration(seen.window.seconds)
    report = Report(
        title="advise",
        question=f"What would this server read with {_asked(advice)} buffer pool?",
        answer=sentence.advised(advice),
        facts=(f"{facts.engine} {facts.version}", seen.server, length, *map(_spent, advice.cost), *_memory(advice)),
        banners=tuple(Banner("warning", _sentence(sentence.reason(one))) for one in advice.cannot_say),
        headline=_figure(advice),
        steps=_panel(advice),
        limits=tuple(_limits(advice)),
        limits_title="How to read this answer",
        sections=(Section("all-sizes", "All sizes", "", (sizes_table(advice),)), *_load(seen), *_sections(advice)),
        status="interrupted" if is_interrupted else "ok" if is_judged else "cannot_say",
        lead="all-sizes",
        data=advice,
    )
    return stamped(report, f"{facts.engine} {'.'.join(map(str, facts.numbers))} · {length} · bufferlab advise")


def _asked(advice: Advice) -> str:
    """Return in words which sizes the user asked about: larger, smaller, or both."""
    smaller = any(one.pool_size_bytes < advice.present_bytes for one in advice.others)
    larger = any(one.pool_size_bytes > advice.present_bytes for one in advice.others)
    return " or ".join(word for word, is_one in (("a larger", larger), ("a smaller", smaller)) if is_one) or "another"


def _spent(one: TierCost) -> str:
    """Return in words the processor time of a tier, computed from the number of its events."""
    server, ours = (format_percent(value) for value in (one.by_events_cores, one.ours_cores))
    return f"recording ({one.tier}) took {server} of a processor from the server and {ours} for itself"


def cost(one: TierCost) -> str:
    """Return the sentence on the measured and the predicted cost of a tier.

    If the measured cost's interval is too wide, the sentence says so. If it lies above twice the cost computed from the
    events, the sentence says that other work on the host may be included.
    """
    foretold = f"foretold {format_percent(one.foretold_cores)}"
    ours = f"the recorder itself took {format_percent(one.ours_cores)}."
    what = "stops" if one.tier == "full" else "calls"
    took, by_events = f"Recording ({one.tier}) took", format_percent(one.by_events_cores)
    from_server = "of a processor from the server"
    if one.server_cores is None or one.low is None or one.high is None:
        return f"{took} {by_events} {from_server}, by its {what} ({foretold}; not measured); {ours}"
    low, high = (format_percent(max(0.0, value)) for value in (one.low, one.high))
    is_more = one.low > 2 * one.by_events_cores
    more = f", more than its {what} explain: other work on the host may be in it" if is_more else ""
    if one.is_told:
        measured = f"{format_percent(one.server_cores)} {from_server} (measured: {low} to {high}; {foretold}"
        return f"{took} {measured}; by its {what} {by_events}{more}); {ours}"
    room = f": {low if one.low > 0 else 'nothing'} to {high}" if one.high > 0 else ""
    hidden = f"measured, the server's own changes hide it{room}{more}"
    return f"{took} {by_events} {from_server}, by its {what} ({foretold}; {hidden}); {ours}"


def _panel(advice: Advice) -> Table:
    """Return the table next to the figure: each size's reads with bounds, and the change."""
    rows = []
    for one in advice.sizes:
        told = sentence.verdict(one, advice)
        if one.cannot_say is None and one.high is not None and one.reads_per_s is not None and one.low is not None:
            reads = f"{words.number(one.reads_per_s)} ({_at_least(one.low)} to {_at_most(one.high)})"
        else:
            reads = "" if one.cannot_say else _reads(one)
        size = sentence.size_words(one, advice)
        rows.append(Row((size, ": ".join(filter(None, (reads, told.partition(" (")[0]))))))
    heads = (Column("Pool", numeric=False), Column("Reads a second, with bounds of 95 %: change", numeric=False))
    return Table("panel", "Sizes of the pool", heads, tuple(rows))


def _load(seen: Seen) -> list[Section]:
    """Return the chapter with the load during the observation; [] if no second was sampled."""
    if not seen.window.rows:
        return []
    figure = misses_figure(seen)
    return [Section("load", "The load", "The answer holds for this load: reads a second while we looked.", (figure,))]


def sizes_table(advice: Advice, *, with_reasons: bool = False) -> Table:
    """Return the table of sizes: reads with their bounds, change, and reading time.

    With `with_reasons` the table is for programs: changes are in reads per second, and a last column says why a size is
    not judged.
    """
    of_cells = _numbers if with_reasons else _cells
    rows = [Row(of_cells(one, advice), _mark(one, advice)) for one in advice.sizes]
    if not with_reasons:
        numeric = [head not in ("Tier", "Change") for head in _HEADS]
        columns = tuple(map(Column, _HEADS, numeric))
        # Show one of the two columns: both would not fit into 80 characters.
        last = "Writes/s" if all(one.read_ms_per_s is None for one in advice.sizes) else "Reading, ms/s"
        brief = ("Pool", "Reads/s", "95 % bounds", "Change", last)
        return Table("all-sizes", "Sizes of the pool", columns, tuple(rows), brief=brief)
    columns = tuple(Column(head, numeric=head not in ("Tier", "Why not")) for head in _NUMBERS)
    caption = sentence.advised(advice)
    return Table("all-sizes", "Sizes of the pool", columns, tuple(rows), caption, brief=_NUMBERS)


def _is_bound(one: SizeEstimate) -> bool:
    """Return whether only an upper bound of a size's reads is known."""
    return one.cannot_say is None and one.reads_per_s is None and one.high is not None


def _cells(one: SizeEstimate, advice: Advice) -> tuple[str, ...]:
    """Return the table cells of a size for readers. If a size has no estimate, the column of changes says why."""
    has_bounds = one.cannot_say is None and one.low is not None and one.reads_per_s is not None
    return (
        format_bytes(one.pool_size_bytes),
        _reads(one),
        f"{_at_least(one.low)} to {_at_most(one.high)}" if has_bounds else "",
        sentence.signed(one, advice),
        _number_or_nothing(one.read_ms_per_s),
        sentence.writes(one, advice),
        format_percent(one.pool_size_bytes / advice.present_bytes),
        one.tier if one.cannot_say is None else _CANNOT,
    )


def _numbers(one: SizeEstimate, advice: Advice) -> tuple[str, ...]:
    """Return the table cells of a size for programs."""
    return (
        format_bytes(one.pool_size_bytes),
        *map(words.number, (one.reads_per_s, one.low, one.high)),
        _change(one, advice),
        *map(words.number, (one.read_ms_per_s, one.writes_low_per_s, one.writes_high_per_s)),
        format_percent(one.pool_size_bytes / advice.present_bytes),
        one.tier if one.cannot_say is None else _CANNOT,
        sentence.reason(one.cannot_say) if one.cannot_say else "",
    )


def _at_least(value: float | None) -> str:
    """Return a lower bound as text, rounded down as in the answer's sentence; "" without a bound."""
    return "" if value is None else sentence.few_digits(value, math.floor)


def _at_most(value: float | None) -> str:
    return "" if value is None else sentence.few_digits(value, math.ceil)


def _reads(one: SizeEstimate) -> str:
    return f"≤ {_at_most(one.high)}" if _is_bound(one) else _number_or_nothing(one.reads_per_s)


def _number_or_nothing(value: float | None) -> str:
    return "" if value is None else words.number(value)


def _change(one: SizeEstimate, advice: Advice) -> str:
    """Return the table cell with the difference between a size's reads per second and the present ones."""
    present = advice.now.reads_per_s
    if one.reads_per_s is None or present is None or one.pool_size_bytes == advice.present_bytes:
        return words.NOTHING
    change = one.reads_per_s - present
    return f"{'+' if change > 0 else ''}{words.number(change)}"


def _mark(one: SizeEstimate, advice: Advice) -> Any:
    return "passed" if one.pool_size_bytes == advice.present_bytes else "quiet" if one.cannot_say else ""


def _figure(advice: Advice) -> Figure | None:
    """Return the figure of reads per second over sizes, with shaded bounds; the present size and the memory are marked.

    Return None if fewer than two sizes were judged.
    """
    told = [one for one in advice.sizes if one.cannot_say is None]
    if len(told) < 2:
        return None
    dots = tuple(_dot(one, advice) for one in told)
    marks = [Mark(float(advice.present_bytes), f"now: {format_bytes(advice.present_bytes)}", 0)]
    room, largest = advice.largest_bytes, told[-1].pool_size_bytes
    if room is not None and room <= largest:
        marks.append(Mark(float(room), f"memory there is: {format_bytes(room)}", 1, dashed=True))
    # For a size without bounds, such as the present one, the band has no width.
    lows = tuple(dot.mean if dot.ci_low is None else dot.ci_low for dot in dots)
    highs = tuple(dot.mean if dot.ci_high is None else dot.ci_high for dot in dots)
    plot = PointsPlot(
        x_label="Buffer pool",
        y_label="Reads a second",
        series=(Series("Reads", dots),),
        x_is_log=True,
        y_is_log=False,
        x_in_bytes=True,
        marks=tuple(marks),
        bands=(Band(tuple(dot.x for dot in dots), lows, highs, 0),),
    )
    caption = "Shaded: bounds of 95 %. The present size was counted, not estimated."
    if any(map(_is_bound, told)):
        caption += " A dot with the shade from zero up to it is a bound: fewer reads than that."
    alt = f"A line over sizes of the pool. {sentence.advised(advice)}"
    return Figure("sizes", "Reads a second, by the size of the pool", alt, caption, plot, _data(told))


def _dot(one: SizeEstimate, advice: Advice) -> Dot:
    # If only an upper bound is known, the dot is at that bound.
    value = one.reads_per_s if one.reads_per_s is not None else one.high or 0.0
    tick = f"{format_percent(one.pool_size_bytes / advice.present_bytes)}\n{format_bytes(one.pool_size_bytes)}"
    return Dot(float(one.pool_size_bytes), tick, (), value, one.low, one.high)


def _data(told: Sequence[SizeEstimate]) -> Table:
    heads = tuple(map(Column, ("Pool (bytes)", "Reads a second", "From", "To")))

    def plain(value: float | None) -> str:
        return words.NOTHING if value is None else f"{value:.6g}"

    rows = tuple(
        Row((str(one.pool_size_bytes), plain(one.reads_per_s), plain(one.low), plain(one.high))) for one in told
    )
    return Table("sizes-data", "Data: reads a second, by the size of the pool", heads, rows, folded=True)


def _sections(advice: Advice) -> tuple[Section, ...]:
    heads = tuple(Column(title, title not in ("Tier", "Ended")) for title in ("Tier", "Seconds", "Ended", "Events"))
    rows = tuple(
        Row((one.recorded.tier, f"{one.attached_s:.1f}", one.recorded.ended, f"{one.stops:,}"))
        for one in advice.attached
    )
    attached = Table("attached", "What was attached", heads, rows)
    costs = tuple(
        Row((one.tier, *map(format_percent, (one.foretold_cores, one.by_events_cores)), _measured(one),
             *(words.NOTHING if value is None else format_percent(value) for value in (one.low, one.high)),
             format_percent(one.ours_cores)))
        for one in advice.cost
    )  # fmt: skip
    titles = ("Tier", "Foretold", "By its events", "Measured", "From", "To", "The recorder's own")
    columns = tuple(Column(title, title != "Tier") for title in titles)
    measured = Table("cost", "What it cost, in processors", columns, costs)
    intro = " ".join(map(cost, advice.cost)) + (
        " Measured: the processor time of the server's threads a page get, with the recorder attached and without, and "
        "that of bufferlab's process. The table has no measured value where the server's own seconds differ by more "
        "than the recording takes."
    )
    told = (Section("cost", "What it cost", intro, (attached, measured)),) if rows else ()
    # A terminal does not show the sections on findings inside the server, because the answer would scroll out of sight.
    return (*told, *(replace(one, blocks=tuple(map(_page_only, one.blocks))) for one in inside_sections(advice.seen)))


def _measured(one: TierCost) -> str:
    """Return the cell with the measured cost of a tier, if its confidence interval is narrow enough."""
    return format_percent(one.server_cores) if one.is_told and one.server_cores is not None else words.NOTHING


def _page_only(block: Table | Figure) -> Table | Figure:
    return replace(block, brief=()) if isinstance(block, Table) else block


def _memory(advice: Advice) -> list[str]:
    if advice.memory_left is None:
        return []
    return [f"the {advice.memory_left.by} has {format_bytes(advice.memory_left.size_bytes)} of memory left"]


def _limits(advice: Advice) -> list[str]:
    cached = "" if advice.reads_are == "device reads" else "; reads that the operating system's cache has are reads too"
    limits = [
        f"The answer holds for the load of the window{cached}. If the server does more statements with another pool, "
        "reads a second grow with them; the change in per cent holds for each statement."
    ]
    if advice.needs_restart:
        limits = [
            "shared_buffers changes with a restart of the server, and the pool is empty then.",
            "Reads are those that PostgreSQL asks of the system: fewer are no fewer reads of the device. "
            f"{_page_cache(advice)}, and memory that shared_buffers takes is the page cache's no longer.",
        ]
    if advice.present.read_us is None:
        why = advice.seen.facts.no_time or "no read was timed"
        limits.append(f"The time of reading, and so the time that fewer reads save, cannot be told: {why}.")
        limits += _waiting(advice)
    elif not advice.needs_restart:
        limits.append(f"A read took {words.number(advice.present.read_us)} µs; fewer reads may also be faster ones.")
    if (elsewhere := max((one.recorded.elsewhere_ratio for one in advice.attached), default=0.0)) >= _LITTLE:
        share = format_percent(elsewhere)
        limits.append(
            f"{share} of the bytes that it read went into other memory than the pool's: a backup's, or sorts'."
        )
    if longest := max((one.longest_pages or 0 for one in advice.others), default=0):
        reach = format_bytes((longest + advice.present.pool_pages) * advice.present.page_size_bytes)
        beyond = any(_is_bound(one) for one in advice.sizes)
        above = ". A larger pool reads no more than what was left there, so it has a bound alone" if beyond else ""
        limits.append(f"This look tells of pools up to {reach}{above}.")
    if any(one.writes_high_per_s is not None for one in advice.others):
        later = "" if advice.needs_restart else (
            " InnoDB may write less than the lower bound: in a larger pool changes may grow older before it writes "
            "them, and with innodb_flush_neighbors it also writes neighbours of the pages that it evicts."
        )  # fmt: skip
        limits.append(
            "Writes are of pages of the pool, without the log and copies. With checkpoints as now a larger pool writes "
            "at most as much as the present one, and spares at most the writes of pages that it would have kept. How "
            f"many of these its checkpoints write all the same is not known, so writes have bounds alone.{later}"
        )
        if any(one.writes_high_per_s is None for one in advice.others if _is_judged_smaller(one, advice)):
            limits.append(
                "The writes of smaller pools have no bounds here: with innodb_flush_neighbors InnoDB also writes "
                "neighbours of the pages that it evicts."
            )
    limits += _widened(advice)
    limits += [
        f"The tier {one.recorded.tier} was detached after {one.attached_s:.0f} s, because it came to more events than "
        "--max-cpu allows, for a fifth of a second. Of this window it has that time alone: a larger --max-cpu would "
        "let it go on."
        for one in advice.attached
        if one.recorded.ended == "rate"
    ]
    if free := free_pages.kept(advice.seen):
        limits.append(free.sentence)
    limits += [_sentence(f"not looked at: {sentence.reason(one)}") for one in advice.not_looked_at]
    return [*_refusals(advice), *limits, *(_sentence(sentence.reason(one)) for one in advice.cannot_say[1:])]


def _is_judged_smaller(one: SizeEstimate, advice: Advice) -> bool:
    return one.cannot_say is None and one.pool_size_bytes < advice.present_bytes


def _widened(advice: Advice) -> list[str]:
    """Return sentences that say why the bounds of smaller pools are wide: the method's error, a late purge, other
    speeds."""

    def shares(of: Callable[[SizeEstimate], float | None]) -> str:
        told = [(one, share) for one in advice.others if (share := of(one)) is not None]
        return ", ".join(f"{format_percent(share)} at {format_bytes(one.pool_size_bytes)}" for one, share in told)

    found = []
    own = next((one.own_error for one in advice.others if one.own_error is not None), None)
    if own is not None:
        wider = " The bounds of smaller pools include an error as large as that." if abs(own) > OWN_LIMIT else ""
        found.append(
            f"At the present size the model reads {format_percent(abs(own))} {'less' if own < 0 else 'more'} than the "
            f"server did.{wider}"
        )
    if late := shares(lambda one: one.late_purge_share):
        found.append(
            "In a smaller pool InnoDB's purge, which removes old versions of rows, may fall behind and read pages "
            f"again. For that case the upper bounds of smaller pools include more reads: {late}."
        )
    if speed := shares(lambda one: one.speed_share):
        found.append(
            f"innodb_old_blocks_time is {advice.present.settings.get('old_blocks_time', 0):,} ms, so what a smaller "
            "pool keeps depends on how fast the load runs. Between a load that only waits for its reads and one of "
            f"twice the present speed the reads differ by {speed}. The bounds include that."
        )
    return found


def _waiting(advice: Advice) -> list[str]:
    """Return the sentence on the time spent reading at each size whose reads are known; [] if no size has known reads.

    The time is computed for the read times of a fast and of a slow SSD.
    """
    low, high = sentence.READ_MS
    told = [one for one in advice.sizes if one.cannot_say is None and one.reads_per_s is not None]

    def waits(one: SizeEstimate) -> str:
        ends = (sentence.few_digits(ms * (one.reads_per_s or 0.0), round) for ms in (low, high))
        size = "now" if one.pool_size_bytes == advice.present_bytes else f"with {format_bytes(one.pool_size_bytes)}"
        return f"{size} {' to '.join(ends)}"

    each = ", ".join(map(waits, told))
    return [f"If a read takes {low:g} to {high:g} ms, sessions wait for reads, in ms a second: {each}."] if told else []


def _page_cache(advice: Advice) -> str:
    """Return words on the fraction of the reads that the page cache served."""
    host = advice.seen.inside.host
    share = None if isinstance(host, NotTold) else host.page_cache_ratio
    return (
        "How many of them the page cache served is not known"
        if share is None
        else f"The page cache served {format_percent(share)} of them"
    )


def _refusals(advice: Advice) -> list[str]:
    """Return a sentence for each reason why sizes were not judged, with the sizes to which it applies."""
    sizes: dict[str, list[str]] = {}
    for one in advice.others:
        if one.cannot_say:
            sizes.setdefault(sentence.reason(one.cannot_say), []).append(format_bytes(one.pool_size_bytes))
    return [f"Cannot say for {', '.join(found)}: {why}." for why, found in sizes.items()]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
