"""The chapter on throughput against connections: which numbers of connections may be the best, and where time goes.

A best number is claimed only if the windows were long, and bufferlab's client used little processor time, so that the
server could use the rest. Otherwise the chapter says which of these conditions was not met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, Group, PointRuns
from bufferlab.chapter.elements import Dot, Figure, PointsPlot, Row, Section, Series, Table
from bufferlab.chapter.point_table import means_over_runs, point_rows, point_table
from bufferlab.chapter.points_figure import Axis, dot, points_data
from bufferlab.results.check_parts import MeasuredRun
from bufferlab.results.metrics import per_work
from bufferlab.stats.best import BestSet, equivalence_set
from bufferlab.stats.estimate import Estimate
from bufferlab.stats.fit import fit

AXIS = "connections"
#: If bufferlab's client takes more than this share of all processors' time, the curve shows the client's limits too.
MOST_CLIENT_SHARE = 0.20
_WORKER, _SERVER = "worker_cpu_share", "server_cpu_share"
_LATENCIES = (("median", "latency_p50_us"), ("p99", "latency_p99_us"))


@dataclass(frozen=True)
class Concurrency:
    """One group of points along the connections, with the best numbers of connections, or why none is claimed."""

    place: int
    group: Group
    points: tuple[PointRuns, ...]
    """The points that have a throughput."""
    best: BestSet | None
    """The numbers of connections that may be the best; None if no number is claimed as the best."""
    refused: str
    """The reason why no number is claimed as the best; "" if some are."""
    highest: PointRuns
    """The point with the highest mean throughput."""


def concurrency(analysis: Analysis) -> Section | None:
    """Return the chapter; None for a sweep that did not vary the connections of a server in a closed loop."""
    found = found_concurrency(analysis)
    if not found:
        return None
    best = _best_table(analysis, found)
    blocks: list[Table | Figure | None] = [
        _throughput_figure(analysis, found),
        _table(analysis),
        best if best.rows else None,
        _latency_figure(analysis, found),
        _times(analysis),
    ]
    shown = tuple(block for block in blocks if block is not None)
    return Section("concurrency", "Throughput against connections", _intro(analysis, found), shown)


def asks_for_throughput(analysis: Analysis) -> bool:
    """Return whether the sweep measures throughput: it varies connections, in windows of a fixed time."""
    measure = analysis.sweep.asked.get("measure")
    return analysis.axis == AXIS and isinstance(measure, dict) and "transactions" not in measure


def found_concurrency(analysis: Analysis) -> list[Concurrency]:
    """Return the result for each group of points of different connections; [] unless all runs are closed loops."""
    is_closed = all(run.engine.is_server and not run.open_loop for run in analysis.runs)
    if analysis.axis != AXIS or not is_closed:
        return []
    found = []
    for place, group in enumerate(analysis.groups):
        points = tuple(point for point in group.points if point.values(analysis.work_per_s))
        if points:
            found.append(_of_group(analysis, place, group, points))
    return found


def _of_group(analysis: Analysis, place: int, group: Group, points: tuple[PointRuns, ...]) -> Concurrency:
    metric = analysis.work_per_s
    cells = [(_count(point), block, value) for point in points for _, block, value in point.values(metric)]
    throughput = fit(cells, comparisons=())
    highest = max(points, key=lambda point: throughput.mean(_count(point)).value)
    blocked = analysis.claim_blocked(metric)
    refused = f"the runs allow no claim about a rate ({blocked})" if blocked else _why_the_clients(analysis, points)
    if refused or len(points) < 2:
        return Concurrency(place, group, points, None, refused, highest)
    best = equivalence_set(throughput, "more")
    return Concurrency(place, group, points, None if best.note else best, best.note or "", highest)


def _why_the_clients(analysis: Analysis, points: Sequence[PointRuns]) -> str:
    """Return why the curve also shows limits of bufferlab's client; "" if it shows only the server's limits."""
    client = _client(analysis, points)
    if client is None or client.share <= MOST_CLIENT_SHARE:
        return ""
    shown = "shows the client as much as the server" if _is_here(analysis) else "may show the client's host"
    return (
        f"our own client took {client.took} at {client.where}, and above {words.share(MOST_CLIENT_SHARE, 0)} the curve "
        f"{shown}"
    )


def _is_here(analysis: Analysis) -> bool:
    """Return whether the server runs on this host; its processor time is known only then."""
    return analysis.fit(_SERVER) is not None


@dataclass(frozen=True)
class _Client:
    """The largest share of the usable processors' time that bufferlab's client took, and the point at which it took
    it."""

    share: float
    where: str

    @property
    def took(self) -> str:
        """Return the share in words."""
        return f"{words.share(self.share, 0)} of the processors"


def _client(analysis: Analysis, points: Sequence[PointRuns]) -> _Client | None:
    """Return the largest share of processor time that bufferlab's client took at these points; None if unknown."""
    means = [(mean.value, point) for point in points if (mean := analysis.mean(_WORKER, point)) is not None]
    shares = [(_all_over_usable(analysis) * value, point) for value, point in means]
    if not shares:
        return None
    worst, at = max(shares, key=lambda pair: pair[0])
    return _Client(worst, words.plural(_count(at), "connection"))


def _count(point: PointRuns) -> int:
    """Return the number of connections that ran transactions at a point."""
    return point.ok[0].connections


def sentence(analysis: Analysis, found: Concurrency) -> str:
    """Return the sentences on the best numbers of connections in one group, or why none is claimed."""
    where = f"With {found.group.label}: throughput" if found.group.label else "Throughput"
    mean = analysis.mean(analysis.work_per_s, found.highest)
    shown = words.cell(analysis.metric(analysis.work_per_s), mean)
    most = words.plural(_count(found.highest), "connection")
    said = f"{where} is highest at {most}, {shown} {analysis.work_noun}s a second"
    client = _client(analysis, found.points)
    told = f" Our own client took at most {client.took}, at {client.where}." if client else ""
    if found.best is None:
        told = "" if client and client.took in found.refused else told
        return f"{said}; no number can be claimed as the best{f': {found.refused}' if found.refused else ''}.{told}"
    members = [str(count) for count in found.best.members]
    if len(members) == 1:
        return f"{said}, more than at any other number of them.{told}"
    # A member of the set may be the best, but may also be worse than the best. So the sentence says by how much at
    # most.
    worst = max(found.best.behind[count] for count in found.best.members)
    far = "" if worst > words.WIDEST_FACTOR else f"; each is {words.two_digits(1 - 1 / worst)} % behind it at most"
    return f"{said}. {words.listing(members)} connections cannot be told apart as the best{far}.{told}"


def _intro(analysis: Analysis, found: Sequence[Concurrency]) -> str:
    text = "Each connection sends its next transaction when its last has ended."
    # If the sweep measures throughput, its answer already has these sentences.
    if asks_for_throughput(analysis):
        return text
    return " ".join([text, *(sentence(analysis, one) for one in found)])


def _throughput_figure(analysis: Analysis, found: Sequence[Concurrency]) -> Figure | None:
    axis = Axis.of(analysis, [point for one in found for point in one.points])
    metric = analysis.work_per_s
    series = tuple(
        Series(
            one.group.label,
            tuple(dot(analysis, metric, point, axis.place(point), analysis.tick(point)) for point in one.points),
            joined=axis.is_numeric,
        )
        for one in found
    )
    label = words.axis_title(analysis.metric(metric))
    plot = PointsPlot("Connections", label, series, axis.is_log, y_is_log=False, x_is_words=not axis.is_numeric)
    title = "Throughput against connections"
    caption = f"{_dots(analysis)} The vertical axis starts at zero."
    alt = " ".join(sentence(analysis, one) for one in found)
    return Figure("throughput", title, f"{title}. {alt}", caption, plot, points_data(plot, "throughput", title))


def _dots(analysis: Analysis) -> str:
    """Return the caption's sentences on the dots of a figure."""
    if all(len(point.ok) < 2 for point in analysis.points):
        return "Each dot is one run, without an interval."
    return "Open dots: runs. Filled: mean over runs with its 95 % interval."


def _latency_figure(analysis: Analysis, found: Sequence[Concurrency]) -> Figure | None:
    axis = Axis.of(analysis, [point for one in found for point in one.points])
    several = len(found) > 1
    series = []
    for one in found:
        for title, metric in _LATENCIES:
            dots = [
                Dot(axis.place(point), analysis.tick(point), runs, *bounds)
                for point in one.points
                if (runs := tuple(value / 1000 for _, _, value in point.values(metric)))
                and (bounds := _bounds(_in_ms(analysis, metric, point)))
            ]
            label = f"{title}, {one.group.label}" if several else title
            series.append(Series(label, tuple(dots), joined=axis.is_numeric))
    if not all(len(one.dots) > 1 for one in series):
        return None
    plot = PointsPlot(
        "Connections",
        "Time of a transaction (ms)",
        tuple(series),
        axis.is_log,
        y_is_log=True,
        x_is_words=not axis.is_numeric,
    )
    title = "Time of a transaction against connections"
    caption = (
        f"All transaction types together. {_dots(analysis)} The vertical axis is logarithmic. In a closed loop nobody "
        "waits for a connection."
    )
    ends = (
        f"{one.label}: {words.number(one.dots[0].mean)} ms at {one.dots[0].tick}, "
        f"{words.number(one.dots[-1].mean)} ms at {one.dots[-1].tick}"
        for one in series
    )
    return Figure(
        "transaction-time",
        title,
        f"{title}. {'; '.join(ends)}.",
        caption,
        plot,
        points_data(plot, "transaction-time", title),
    )


def _in_ms(analysis: Analysis, metric: str, point: PointRuns) -> Estimate | None:
    """Return the mean, in milliseconds, of a metric in microseconds; None if the point has no value."""
    mean = analysis.mean(metric, point)
    if mean is None:
        return None
    low, high = (None if bound is None else bound / 1000 for bound in (mean.ci_low, mean.ci_high))
    return replace(mean, value=mean.value / 1000, ci_low=low, ci_high=high)


def _bounds(mean: Estimate | None) -> tuple[float, float | None, float | None] | None:
    return None if mean is None else (mean.value, mean.ci_low, mean.ci_high)


def _ms(analysis: Analysis, metric: str) -> Callable[[PointRuns], str]:
    def cell(point: PointRuns) -> str:
        mean = _in_ms(analysis, metric, point)
        return words.NOTHING if mean is None else words.interval(mean)

    return cell


def _table(analysis: Analysis) -> Table:
    per_s = analysis.metric(analysis.work_per_s)
    heads: dict[str, str | Callable[[PointRuns], str]] = {
        per_s.label: analysis.work_per_s,
        **{f"{title} (ms)": _ms(analysis, metric) for title, metric in _LATENCIES},
        "Client's CPU": _WORKER,
        "Server's CPU": _SERVER,
        "Waiting for a processor": "processor_wait_share",
    }
    host = "our client runs on the server's host" if _is_here(analysis) else "our client's are of its own host"
    caption = (
        f"{means_over_runs(analysis)}. CPU: of the time of all processors; {host}. "
        "Waiting for a processor: of the time that threads of client and server ran or could have run."
    )
    brief = ("Point", per_s.label, "median (ms)", "p99 (ms)", "Client's CPU", "Server's CPU")
    return point_table(analysis, "connections", "Throughput and time by connections", heads, caption, brief=brief)


def _best_table(analysis: Analysis, found: Sequence[Concurrency]) -> Table:
    """Return the table that says of each number of connections whether it may be the best."""
    rows = []
    for one in found:
        if one.best is None:
            continue
        for point in one.points:
            behind = one.best.behind[_count(point)]
            cells = (
                *((one.group.label,) if len(found) > 1 else ()),
                str(_count(point)),
                str(len(point.values(analysis.work_per_s))),
                "yes" if _count(point) in one.best.members else "no",
                "not known" if behind > words.WIDEST_FACTOR else f"{words.two_digits(1 - 1 / behind)} %",
            )
            rows.append(cells)
    caption = (
        "May be the best: a set that holds the number with the highest throughput with 95 % confidence (Hsu's "
        "comparisons with the best). Behind: of the best one's throughput."
    )
    first = ("<Points",) if len(found) > 1 else ()
    heads = (*first, "Connections", "n", "<May be the best", "Behind the best by at most")
    return Table.of("best-connections", "Which numbers of connections may be the best", heads, rows, caption)


@dataclass(frozen=True)
class _Time:
    """The parts of a transaction's time in one run, in milliseconds per transaction; None for unknown parts."""

    whole: float | None
    server: float | None
    client: float | None
    queue: float | None

    @property
    def rest(self) -> float | None:
        """Return the rest of the time, which went to locks, reads and the log; None if a part is unknown.

        The result is also None if the parts exceed the whole, because they include the server's background threads.
        """
        parts = (self.server, self.client, self.queue)
        if self.whole is None or any(part is None for part in parts):
            return None
        left = self.whole - sum(part for part in parts if part is not None)
        return left if left >= 0 else None


def _time_of(run: MeasuredRun) -> _Time:
    """Return the parts of a transaction's time in a run. In a closed loop each connection always runs a transaction."""

    def value(name: str, factor: float) -> float | None:
        found = run.values[name].value
        return None if found is None else factor * found

    return _Time(
        whole=value("seconds_per_transaction", 1e3 * run.connections),
        server=value("server_cpu_us_per_transaction", 1e-3),
        client=value("cpu_us_per_transaction", 1e-3),
        queue=value("processor_wait_us_per_transaction", 1e-3),
    )


_PARTS: tuple[tuple[str, Callable[[_Time], float | None]], ...] = (
    ("A transaction (ms)", lambda one: one.whole),
    ("Server's CPU (ms)", lambda one: one.server),
    ("Client's CPU (ms)", lambda one: one.client),
    ("Waiting for a processor (ms)", lambda one: one.queue),
    ("Other waits (ms)", lambda one: one.rest),
)


def _times(analysis: Analysis) -> Table | None:
    """Return the table of the parts of a transaction's time at each point, with the waits that the engine counts."""
    own = [per_work(count, "transaction") for count in analysis.runs[0].engine.waits]
    own = [metric for metric in own if analysis.fit(metric) is not None]
    times = {point.index: [_time_of(run) for run in point.ok] for point in analysis.points}

    def row(point: PointRuns) -> Row:
        cells = [_mean(times[point.index], part) for _, part in _PARTS]
        counts = [words.cell(analysis.metric(metric), analysis.mean(metric, point)) for metric in own]
        return Row((analysis.name_of(point), str(len(point.ok)), *cells, *counts))

    heads = ("<Point", "n", *(title for title, _ in _PARTS), *(_title(analysis, metric) for metric in own))
    caption = (
        f"{means_over_runs(analysis)}, of a transaction of any type. Other waits are what is left: locks, reads, the "
        "log, and the way between client and server. CPU and waiting have those of the server's background threads "
        f"too: what is left may be more than is shown, and {words.NOTHING} stands where they had more than all of it."
    )
    if own:
        meant = (f"{analysis.metric(metric).label}: {analysis.metric(metric).meaning}." for metric in own)
        caption += f" The last columns are what the server tells of its waits. {' '.join(meant)}"
    rows = point_rows(analysis.points, len(heads), row, analysis.name_of)
    return Table.of("transaction-times", "Where a transaction's time goes", heads, rows, caption) if rows else None


def _all_over_usable(analysis: Analysis) -> float:
    """Return the host's processors divided by those that bufferlab's processes may use, which affinity or a quota
    limits."""
    usable = {str(told.get("host_id")): told.get("cores") for told, _ in analysis.sweep.hosts}
    found = [
        # Subtract 1, because the subject "all" is not a processor.
        (len(run.window.subjects("cpu_usr_us")) - 1) / cores
        for run in analysis.runs
        if isinstance(cores := usable.get(run.run.host), int) and cores > 0
    ]
    return max([1.0, *found])


def _title(analysis: Analysis, metric: str) -> str:
    declared = analysis.metric(metric)
    return words.with_unit(declared.label, declared)


def _mean(times: Sequence[_Time], part: Callable[[_Time], float | None]) -> str:
    known = [value for one in times if (value := part(one)) is not None and math.isfinite(value)]
    if len(known) < len(times) or not known:
        return words.NOTHING
    cells = [(0, place, value) for place, value in enumerate(known)]
    mean = fit(cells, comparisons=(), scale="linear").mean(0)
    # The fit may give a lower end below 0, which no time can have.
    return words.with_bounds(replace(mean, ci_low=None if mean.ci_low is None else max(0.0, mean.ci_low)))
