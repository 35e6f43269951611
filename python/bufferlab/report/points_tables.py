"""Tables with one row per point: counts per unit of work and per second, parts of the window, steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bufferlab.report import words
from bufferlab.report.analysis import Analysis, PointRuns, actual_of, rest_label
from bufferlab.report.model import Column, Row, Table
from bufferlab.results.check import MeasuredRun
from bufferlab.results.derive import FORMULAS
from bufferlab.results.timeline import finest_share, measured_instants, part
from bufferlab.units import format_bytes, format_count

#: What of the main table fits a terminal 100 columns wide; the page has the rest.
_BRIEF = (
    "Point", "n", "Reads (pages)", "Misses (gets)", "Writes (pages)", "Hit ratio",
    "New-Orders per second", "Transactions per second",
)  # fmt: skip
_IO = ("reads", "misses", "writes", "read_bytes", "write_bytes")


def step_table(analysis: Analysis, metrics: Sequence[str] = ()) -> Table | None:
    """One row per step between neighbouring points, with what may be said of each metric (of the headline alone)."""
    metrics = metrics or (analysis.headline,)
    rows = []
    for a, b in analysis.steps():
        step = f"{analysis.short_label(a)} → {analysis.short_label(b)}"
        step = ": ".join(filter(None, [rest_label(a, analysis.axis), step]))
        rows.append(Row((step, *(verdict_cell(analysis, metric, a.index, b.index) for metric in metrics))))
    if not rows:
        return None
    columns = (Column("Step", numeric=False), *(Column(words.title_of(metric), numeric=False) for metric in metrics))
    caption = "95 % intervals that hold together for all steps of a column (Šidák). n counts runs on each side."
    return Table("steps", "Step by step", columns, tuple(rows), caption)


def spans_table(analysis: Analysis) -> Table | None:
    """One row per group of points, from its first to its last: what fits beside a figure of many lines."""
    rows = []
    for group in analysis.groups:
        ran = analysis.distinct(group, analysis.headline)
        if len(ran) < 2:
            continue
        ends = f"{analysis.short_label(ran[0])} → {analysis.short_label(ran[-1])}"
        said = verdict_cell(analysis, analysis.headline, ran[0].index, ran[-1].index)
        rows.append(Row((": ".join(filter(None, [group.label, ends])), said)))
    if not rows:
        return None
    columns = (Column("Points", numeric=False), Column(words.title_of(analysis.headline), numeric=False))
    caption = "95 % intervals that hold together for all steps and ends (Šidák). n counts runs on each side."
    return Table("steps", "From end to end", columns, tuple(rows), caption)


def verdict_cell(analysis: Analysis, metric: str, a: int, b: int) -> str:
    """What may be said of one step of one metric."""
    found = analysis.verdict(metric, a, b)
    if found is None:
        return words.NOTHING
    blocked = analysis.claim_blocked(metric)
    if blocked and found.direction != "identical":
        return f"not resolved ({blocked})"
    unit = words.POINTS if metric == "hit_ratio" else words.unit_of(metric)
    return words.verdict(found, unit)


def main_table(analysis: Analysis) -> Table:
    """The table of the sweep: counts per unit of work with intervals, hit ratio and throughput."""
    first, rest = ("reads", "misses", "writes"), ("read_bytes", "write_bytes", "page_gets")
    if analysis.headline == analysis.per_work("device_pages"):
        # PostgreSQL reads a page at each miss: what differs is what the page cache had.
        first = ("device_pages", "misses", "writes")
    metrics = (
        *(analysis.per_work(name) for name in first),
        *("hit_ratio", analysis.work_per_s),
        *(analysis.per_work(name) for name in rest),
    )
    caption = "Means over the runs of a point with 95 % intervals for another run like them."
    if analysis.unit_of_work == "new_order":
        caption += " Per New-Order divides by New-Orders completed, the 1 % rolled back included."
    if any(run.is_innodb for run in analysis.runs):
        redo = [] if any(_leaves_out_redo(run) for run in analysis.runs) else ["redo log"]
        files = words.listing(["data files", "doublewrite buffer", *redo])
        caption += f" Bytes written are those of {files} together."
    if blocked := analysis.claim_blocked(analysis.work_per_s):
        caption += f" Differences of throughput are not resolved ({blocked})."
    noun = {"new_order": "New-Order", "transaction": "transaction"}[analysis.unit_of_work]
    id = analysis.per_work("x")[2:].replace("_", "-")
    return replace(point_table(analysis, id, f"Per {noun}", metrics, caption), brief=_BRIEF)


def _leaves_out_redo(run: MeasuredRun) -> bool:
    """MariaDB counts no redo in Innodb_data_written since 10.5."""
    return bool(run.run["engine"] == "mariadb" and run.version >= (10, 5))


def per_transaction(analysis: Analysis) -> Table | None:
    """The same counts over transactions of any type, where the main table is told per one type."""
    metrics = ("cpu_us_per_transaction", "driver_cpu_us_per_transaction")
    if analysis.unit_of_work == "transaction":
        return point_table(
            analysis, "cpu-per-transaction", "CPU per transaction", metrics, "Rolled back ones included."
        )
    counts = tuple(f"{name}_per_transaction" for name in _IO)
    return point_table(
        analysis,
        "per-transaction",
        "Per transaction of any type",
        (*counts, *metrics),
        "Rolled back ones included.",
    )


def per_second(analysis: Analysis) -> Table:
    """The same counts over the measured window."""
    new_orders = ("new_orders_committed_per_s", "new_orders_rolled_back_per_s")
    metrics = (
        *(f"{name}_per_s" for name in _IO),
        *(new_orders if analysis.unit_of_work == "new_order" else ("rows_per_s",)),
        "transactions_per_s",
        "transactions_rolled_back_per_s",
    )
    return point_table(analysis, "per-second", "Per second of the measured window", metrics, "Rates of this host.")


def point_table(analysis: Analysis, id: str, title: str, metrics: Sequence[str], caption: str) -> Table:
    """One row per point, one column per metric, each a mean with its interval; failed points with their reason."""
    rows = []
    for point in analysis.points:
        rows += [_point_row(analysis, point, metrics)] if point.ok else []
        rows += [_failure_row(analysis, point, len(metrics))] if point.status != "ok" else []
    columns = (
        Column("Point", numeric=False),
        Column("n"),
        *(Column(_headed(metric)) for metric in metrics),
    )
    return Table(id, title, columns, tuple(rows), caption)


def _point_row(analysis: Analysis, point: PointRuns, metrics: Sequence[str]) -> Row:
    cells = [analysis.name_of(point), str(len(point.ok))]
    for metric in metrics:
        fit = analysis.fit(metric)
        if fit is None or point.index not in fit.points:
            cells.append(words.NOTHING)
        elif metric == "hit_ratio":
            cells.append(_percent_interval(analysis, point))
        else:
            cells.append(words.interval(fit.mean(point.index), words.unit_of(metric)))
    return Row(tuple(cells))


def _failure_row(analysis: Analysis, point: PointRuns, width: int) -> Row:
    count = f"{len(point.failures)} of {len(point.records)} runs " if point.records else ""
    text = f"{count}{point.status}: {point.reason or 'no reason recorded'}"
    return Row((analysis.name_of(point), str(len(point.ok)), text, *("",) * (width - 1)), "failed")


def _percent_interval(analysis: Analysis, point: PointRuns) -> str:
    fit = analysis.fit("hit_ratio")
    assert fit is not None
    mean = fit.mean(point.index)
    if mean.ci_low is None or mean.ci_high is None:
        return words.share(mean.value, 2)
    return f"{words.share(mean.value, 2)} ({100 * mean.ci_low:.2f}–{min(100.0, 100 * mean.ci_high):.2f})"


def _headed(metric: str) -> str:
    title = words.title_of(metric)
    for tail in (" per New-Order", " per transaction", " per second", " per row"):
        title = title if title.startswith(("Rows", "Transactions")) else title.removesuffix(tail)
    unit = words.unit_of(metric).split("/")[0]
    shown = {"us": " (µs)", "pages": " (pages)", "gets": " (gets)"}.get(unit, "")
    if metric in ("new_orders_per_s", "transactions_per_s"):
        return words.title_of(metric)
    return title + shown


def sizes(analysis: Analysis) -> Table | None:
    """What the pool was asked to be, what it was, and its share of the database as loaded and as it ended."""
    rows = []
    for point in analysis.points:
        pool = actual_of(point.actual, "pool_size")
        base = point.ok[0].run["database"] if point.ok else None
        if not isinstance(pool, int) or not base:
            continue
        page = actual_of(point.actual, "page_size")
        rows.append(
            Row(
                (
                    analysis.name_of(point),
                    format_bytes(pool),
                    format_count(pool / page) if isinstance(page, int) and page else words.NOTHING,
                    format_bytes(base["bytes_loaded"]),
                    words.share(pool / base["bytes_loaded"]),
                    words.share(pool / base["bytes_end"]) if base.get("bytes_end") else words.NOTHING,
                )
            )
        )
    heads = ("Pool", "Frames", "Database as loaded", "Pool / loaded", "Pool / at the end")
    columns = (Column("Point", numeric=False), *(Column(head) for head in heads))
    caption = "A pool is counted in page frames only; what manages them comes on top."
    return Table("sizes", "Pool and database", columns, tuple(rows), caption) if rows else None


def parts_of_window(analysis: Analysis) -> Table | None:
    """Start, middle and end of the measured window: whether the figures still moved while they were measured."""
    rows, shares, skipped = [], set(), 0
    names = ("hit_ratio", analysis.headline)
    for point in analysis.points:
        per_part: dict[tuple[str, int], list[float]] = {}
        used = 0
        for record in (record for record in point.records if record.ok):
            instants = measured_instants(record.samples())
            share = finest_share(instants)
            if share is None:
                skipped += 1
                continue
            shares.add(share)
            used += 1
            for place, start in enumerate((0.0, 0.5 - share / 2, 1.0 - share)):
                window = part(instants, start, start + share)
                for name in names:
                    value = FORMULAS[name].evaluate(window).value
                    if value is not None:
                        per_part.setdefault((name, place), []).append(value)
        rows += [_parts_row(analysis.name_of(point), used, names, per_part)] if used else []
    if not shares:
        return None
    heads = ("n", "Hit ratio, start", "50 %", "end", f"{words.title_of(analysis.headline)}, start", "50 %", "end")
    columns = (Column("Point", numeric=False), *(Column(head) for head in heads))
    return Table("parts", "Start, 50 % and end", columns, tuple(rows), _parts_caption(shares, skipped))


def _parts_row(label: str, used: int, names: tuple[str, ...], per_part: dict[tuple[str, int], list[float]]) -> Row:
    cells = [label, str(used)]
    for name in names:
        for place in range(3):
            values = per_part.get((name, place), [])
            mean = sum(values) / len(values) if values else None
            cells.append(words.share(mean, 2) if name == "hit_ratio" else words.number(mean))
    return Row(tuple(cells))


def _parts_caption(shares: set[float], skipped: int) -> str:
    widths = words.listing(sorted({"tenth" if share <= 0.1 else "third" for share in shares}))
    caption = f"Means over runs of the first, middle and last {widths} of the measured window, from the samples."
    return caption + (f" {words.plural(skipped, 'run')} had too few samples for that." if skipped else "")
