"""Tables with one row per point: counts per unit of work and per second, parts of the window, steps."""

from __future__ import annotations

from collections.abc import Sequence

from bufferlab.chapter import numbers_in_doubt, words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Row, Table
from bufferlab.chapter.point_table import claims_blocked, headed, point_table
from bufferlab.engines import registry as engines
from bufferlab.report import predicted
from bufferlab.results.metrics import Metric, per_work
from bufferlab.results.timeline import finest_share, measured_instants, part, samples_of
from bufferlab.stats.known_scatter import CLAIM_TIMES
from bufferlab.units import format_bytes, format_count

#: The columns of the main table on a terminal, which fit into 100 characters. The page has all columns.
_BRIEF = (
    "Point", "n", "Reads (pages)", "Misses (gets)", "Writes (pages)", "Hit ratio",
    "New-Orders per second", "Transactions per second",
)  # fmt: skip
_IO = ("reads", "misses", "writes", "read_bytes", "write_bytes")


def step_table(analysis: Analysis, metrics: Sequence[str] = ()) -> Table | None:
    """Return the table of steps between neighbouring points, with the verdict on each metric; None if there are none.

    The default is the headline alone. For a sweep of one block, the table has only metrics of known scatter: the steps
    of other metrics allow no claim.
    """
    metrics = _judged(analysis, metrics or (analysis.headline,))
    if not metrics:
        return None
    rows = []
    for a, b in analysis.steps():
        step = f"{analysis.short_label(a)} → {analysis.short_label(b)}"
        step = ": ".join(filter(None, [analysis.rest_label(a), step]))
        rows.append((step, *(verdict_cell(analysis, metric, a.index, b.index) for metric in metrics)))
    if not rows:
        return None
    heads = ("<Step", *(f"<{analysis.metric(metric).label}" for metric in metrics))
    caption = "95 % intervals that hold together for all steps of a column (Šidák). n counts runs on each side."
    caption = _caption(analysis, metrics, caption)
    return Table.of("steps", "Step by step", heads, rows, caption, brief=True)


def spans_table(analysis: Analysis) -> Table | None:
    """Return the table with the change from first to last point of each group; None if there are none.

    It is used for sweeps of several groups, which have too many steps for a table next to the figure.
    """
    if not _judged(analysis, (analysis.headline,)):
        return None
    rows = []
    for group in analysis.groups:
        ran = analysis.distinct(group, analysis.headline)
        if len(ran) < 2:
            continue
        ends = f"{analysis.short_label(ran[0])} → {analysis.short_label(ran[-1])}"
        said = verdict_cell(analysis, analysis.headline, ran[0].index, ran[-1].index)
        rows.append((": ".join(filter(None, [group.label, ends])), said))
    if not rows:
        return None
    heads = ("<Points", f"<{analysis.metric(analysis.headline).label}")
    caption = "95 % intervals that hold together for all steps and ends (Šidák). n counts runs on each side."
    caption = _caption(analysis, (analysis.headline,), caption)
    return Table.of("steps", "From end to end", heads, rows, caption, brief=True)


def _judged(analysis: Analysis, metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the metrics whose steps can be judged: all with two blocks or more, else only those of known scatter."""
    if len({run.run.block for run in analysis.runs}) > 1:
        return tuple(metrics)
    return tuple(metric for metric in metrics if _rests_on_known(analysis, metric))


def _rests_on_known(analysis: Analysis, metric: str) -> bool:
    fit = analysis.fit(metric)
    return fit is not None and any(fit.step(a, b).times is not None for a, b in fit.comparisons)


def _caption(analysis: Analysis, metrics: Sequence[str], caption: str) -> str:
    """Return the caption on intervals. It says whether they rest on a known scatter, and names failed checks."""
    doubted = numbers_in_doubt.caption(analysis.checks, map(analysis.metric, metrics))
    return _of_intervals(analysis, metrics, caption) + doubted


def _of_intervals(analysis: Analysis, metrics: Sequence[str], caption: str) -> str:
    if not any(_rests_on_known(analysis, metric) for metric in metrics):
        return caption
    known = (
        "With one or two runs a point, the intervals of counts come from the scatter of earlier runs; that of a change "
        f"reaches {CLAIM_TIMES:g} times the usual difference of two runs to each side."
    )
    return known if len({run.run.block for run in analysis.runs}) < 2 else f"{caption} {known}"


def verdict_cell(analysis: Analysis, metric: str, a: int, b: int) -> str:
    """Return the cell with the verdict on one step of one metric."""
    found = analysis.verdict(metric, a, b)
    if found is None:
        return words.NOTHING
    blocked = analysis.claim_blocked(metric)
    if blocked and found.direction != "identical":
        return f"not claimed ({blocked})"
    return words.verdict(found, words.unit_of_change(analysis.metric(metric)))


def main_table(analysis: Analysis) -> Table:
    """Return the main table: counts per unit of work with intervals, hit ratio and throughput, by point."""
    first, rest = (analysis.reads, "misses", "writes"), ("read_bytes", "write_bytes", "page_gets")
    metrics = (
        *(analysis.per_work(name) for name in first),
        *("hit_ratio", analysis.work_per_s),
        *(analysis.per_work(name) for name in rest),
    )
    caption = "Means over the runs of a point with 95 % intervals for the mean of many such runs."
    if all(len(point.ok) < 2 for point in analysis.points):
        caption = "One run of each point: no interval."
    if analysis.unit_of_work == "new_order":
        caption += " Per New-Order divides by New-Orders completed, the 1 % rolled back included."
    files = engines.chapters(analysis.engine).bytes_written(analysis.runs)
    if files and analysis.fit(analysis.per_work("write_bytes")) is not None:
        caption += f" Bytes written are those of {words.listing(files)} together."
    caption += predicted.note_of_ranges(analysis)
    caption += claims_blocked(analysis, analysis.work_per_s, " of throughput")
    id = f"per-{analysis.unit_of_work.replace('_', '-')}"
    return point_table(analysis, id, f"Per {analysis.work_noun}", headed(analysis, metrics), caption, brief=_BRIEF)


def per_transaction(analysis: Analysis) -> Table | None:
    """Return the table of counts and CPU per transaction of any type; only of CPU if the main table has the counts."""
    metrics = ("cpu_us_per_transaction", "driver_cpu_us_per_transaction", "processor_wait_share")
    if analysis.unit_of_work == "transaction":
        title = "CPU per transaction"
        return point_table(
            analysis, "cpu-per-transaction", title, headed(analysis, metrics), "Rolled back ones included."
        )
    heads = headed(analysis, (*(per_work(name, "transaction") for name in _IO), *metrics))
    return point_table(analysis, "per-transaction", "Per transaction of any type", heads, "Rolled back ones included.")


def per_second(analysis: Analysis) -> Table:
    """Return the table of counts per second of the measured window."""
    new_orders = ("new_orders_committed_per_s", "new_orders_rolled_back_per_s")
    metrics = (
        *(f"{name}_per_s" for name in _IO),
        *(new_orders if analysis.unit_of_work == "new_order" else ("rows_per_s",)),
        "transactions_per_s",
        "transactions_rolled_back_per_s",
    )
    title = "Per second of the measured window"
    return point_table(analysis, "per-second", title, headed(analysis, metrics), "Rates of this host.")


def sizes(analysis: Analysis) -> Table | None:
    """Return the table of pool sizes as requested, as run, and as shares of the database's size; None without a pool.

    The database's sizes are those after the load and at the window's end.
    """
    rows = []
    for point in analysis.points:
        first = point.ok[0] if point.ok else None
        setting, base = (point.settings.get(first.engine.pool), first.run.database) if first else (None, None)
        if setting is None or not isinstance(setting.value, int) or not base:
            continue
        pool = setting.value
        cells = (
            analysis.name_of(point),
            format_bytes(setting.planned) if isinstance(setting.planned, int) else words.NOTHING,
            format_bytes(pool),
            _frames(point, pool),
            format_bytes(base.bytes_loaded),
            *(words.share(pool / whole) if whole else words.NOTHING for whole in (base.bytes_loaded, base.bytes_end)),
        )
        rows.append(Row(cells, "differs" if setting.differs else ""))
    heads = ("<Point", "Asked in bytes", "Pool", "Frames", "Database as loaded", "Pool / loaded", "Pool / at the end")
    caption = (
        "As the engine says itself; shares and reads belong to the pool that ran. A pool is counted in page frames "
        "only; what manages them comes on top."
    )
    return Table.of("sizes", "Pool and database", heads, rows, caption) if rows else None


def _frames(point: PointRuns, pool: int) -> str:
    """Return the cell with the pool's frames that the engine reported, or their range over the runs.

    Runs may differ by chance: a chunk of the pool may lose a page to alignment. If the engine reports no frames,
    compute them from the pool's bytes.
    """
    told = sorted({run.window.level("pool_frames").value or 0 for run in point.ok})
    if not told[0]:
        page = point.number("page_size")
        return format_count(pool / page) if page else words.NOTHING
    return format_count(told[0]) if len(told) == 1 else f"{told[0]:,.0f} to {told[-1]:,.0f}"


def parts_of_window(analysis: Analysis) -> Table | None:
    """Return the table of hit ratio and headline in the start, middle and end of the window; None without samples.

    It shows whether these values drifted during the measurement.
    """
    rows, shares, skipped, told = [], set(), 0, False
    derived = [analysis.metric(name) for name in ("hit_ratio", analysis.headline)]
    for point in analysis.points:
        per_part: dict[tuple[str, int], list[float]] = {}
        used = 0
        for record in (record for record in point.records if record.ok):
            instants = measured_instants(samples_of(record.samples(), derived))
            share = finest_share(instants)
            if share is None:
                skipped += 1
                continue
            shares.add(share)
            used += 1
            for place, start in enumerate((0.0, 0.5 - share / 2, 1.0 - share)):
                window = part(instants, start, start + share)
                for metric in derived:
                    value = metric.quantity().evaluate(window).value
                    if value is not None:
                        per_part.setdefault((metric.name, place), []).append(value)
        told |= bool(per_part)
        rows += [_parts_row(analysis.name_of(point), used, derived, per_part)] if used else []
    if not told:
        return None
    second = words.with_unit(derived[1].label, derived[1])
    heads = ("<Point", "n", "Hit ratio, start", "50 %", "end", f"{second}, start", "50 %", "end")
    return Table.of("parts", "Start, 50 % and end", heads, rows, _parts_caption(shares, skipped))


def _parts_row(label: str, used: int, derived: Sequence[Metric], per_part: dict[tuple[str, int], list[float]]) -> Row:
    cells = [label, str(used)]
    for metric in derived:
        for place in range(3):
            values = per_part.get((metric.name, place), [])
            mean = sum(values) / len(values) if values else None
            cells.append(words.cell(metric, mean))
    return Row(tuple(cells))


def _parts_caption(shares: set[float], skipped: int) -> str:
    widths = words.listing(sorted({"tenth" if share <= 0.1 else "third" for share in shares}))
    caption = f"Means over runs of the first, middle and last {widths} of the measured window, from the samples."
    return caption + (f" {words.plural(skipped, 'run')} had too few samples for that." if skipped else "")
