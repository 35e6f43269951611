"""Makes the answer of a sweep's report in a few sentences, its limits, and the warnings before it.

The verdict on the sweep decides the sentence, and the intervals fill it. No sentence claims more than the intervals
show.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log

from bufferlab.chapter import known_scatter, numbers_in_doubt, stopping, words
from bufferlab.chapter.analysis import LONG_WINDOW_SECONDS, Analysis, Group, PointRuns
from bufferlab.chapter.elements import Banner
from bufferlab.engines import registry as engines
from bufferlab.knob import Value
from bufferlab.report import close_runs, early_windows, findings, predicted
from bufferlab.report.chapters.concurrency import asks_for_throughput
from bufferlab.report.chapters.hosts import differ_more
from bufferlab.report.chapters.without_a_run import without_run
from bufferlab.results import blocks
from bufferlab.results.check_parts import FOREIGN_SERVER, MeasuredRun, numbers_of
from bufferlab.stats.known_scatter import CLAIM_TIMES, source
from bufferlab.stats.noise import detectable
from bufferlab.stats.rounding import sample_deviation
from bufferlab.stats.verdict import SweepVerdict
from bufferlab.units import format_bytes, readable
from bufferlab.workloads import registry as workloads

#: The check that lists settings which the server changed by itself because a swept setting changed. Readers should know
#: of them, but they put no number in doubt.
_CONFOUNDED = "no_confounds"
_SMOKE = "This is a smoke size: it shows that everything runs; its warm-ups are too short to believe its numbers."
#: If the write-ahead log served at least this share of the misses, the limits of the answer mention it.
LOG_SHARE_WORTH_SAYING = 0.005
#: If threads waited for a processor for at least this share of their time, the limits mention it. From 20 % on, waiting
#: changes times more than most settings do.
WAITING_SHARE_WORTH_SAYING = 0.20
GROWN, STILL_GROWS = 1.10, 1.002
"""The growth of the database from its load to a window, and in a window, from which on the limits mention it."""
_SAME_POOL = 1.02
"""The ratio up to which pools count as equal: they are rounded to whole frames."""
_KNOB_WORDS = {
    "pool_size": "the buffer pool",
    "page_size": "the page",
    "hot_rows": "the number of hot rows",
    "plan": "the plan",
    "rate": "the rate of arrivals",
    "connections": "the number of connections",
    "server": "the server build",
}


def answer(analysis: Analysis, metric: str | None = None) -> str:
    """Return the sweep's answer in sentences on `metric`; by default, on the question of the swept setting, or on the
    headline metric."""
    said = _answer(analysis, metric)
    return f"{said} {_SMOKE}" if analysis.is_smoke and analysis.runs else said


def _answer(analysis: Analysis, metric: str | None) -> str:
    if metric is None and (told_instead := findings.instead(analysis)):
        return " ".join([told_instead, *_doubt(analysis, analysis.headline)])
    metric = metric or analysis.headline
    told = [sentence for group in analysis.groups if (sentence := _of_group(analysis, group, metric))]
    told += findings.of_pages(analysis) if told else []
    if told:
        return " ".join([*told, *_doubt(analysis, metric)])
    return _without_figures(analysis, metric)


def _doubt(analysis: Analysis, metric: str) -> Iterator[str]:
    """Yield a sentence that the answer's metric is in doubt, if a failed check puts its numbers in doubt."""
    if titles := [
        numbers_in_doubt.named(one) for one in numbers_in_doubt.doubting(analysis.checks, analysis.metric(metric))
    ]:
        yield f"{analysis.metric(metric).label} are in doubt, because this did not hold: {'; '.join(titles)}."


def _without_figures(analysis: Analysis, metric: str) -> str:
    """Return a sentence on a sweep without measured numbers: its predictions before any run, or why its runs failed."""
    failed = [record for point in analysis.points for record in point.failures]
    ended_badly = any(record.run.status == "failed" for record in failed)
    if not analysis.runs and not ended_badly and (told := _predicted(analysis)):
        return told
    if analysis.runs or not failed:
        reasons = [point.reason for point in analysis.points if point.reason]
        return f"No run gave a figure for {_title(analysis, metric)}" + (f": {reasons[0]}." if reasons else ".")
    said = f"None of {words.plural(len(failed), 'run')} ended well" if len(failed) > 1 else "The run did not end well"
    reasons = list(dict.fromkeys(str(record.reason) for record in failed))
    return f"{said}: {reasons[0]}." if len(reasons) == 1 else f"{said}, for {len(reasons)} reasons."


def _predicted(analysis: Analysis) -> str:
    """Return a sentence with the predictions that were made before any run; "" if the sweep has none."""
    found = without_run(analysis)
    told = []
    for group in analysis.groups if found else ():
        points = [point for point in group.points if found and point.index in found.means]
        if found and points:
            metric, where = analysis.metric(found.metric), f"with {group.label} " if group.label else ""
            first, last = (words.number(found.means[point.index].value) for point in (points[0], points[-1]))
            went = f"are {first}" if len(points) < 2 else f"go from {first} to {last}"
            route = f"at {_place(analysis, points[0])}" if len(points) < 2 else _route(analysis, points[0], points[-1])
            told.append(f"{where}{words.lowered(metric.label)} {went} {metric.top_unit} {route}")
    return f"Predicted, before any run: {'; '.join(told)}." if told else ""


def limits(analysis: Analysis, metric: str | None = None) -> list[str]:
    """Return the limits of the answer, each in a sentence."""
    metric = metric or (analysis.work_per_s if asks_for_throughput(analysis) else analysis.headline)
    if predicted.said(analysis):
        return [*filter(None, [_caveat(analysis)]), *predicted.limits(analysis)]
    found = [_noise(analysis, metric), _uneven(analysis, metric), close_runs.sentence(analysis, metric)]
    found += [_long_window(analysis), _growing(analysis), _waiting(analysis), _shares(analysis), *_settings(analysis)]
    found += ["Each metric's intervals hold together for all its steps; over many metrics at once they do not."]
    found += [_servers(analysis), stopping.said(analysis), _some_blocks(analysis), _hosts(analysis)]
    found += differ_more(analysis)
    return [*filter(None, [_caveat(analysis), _foreign_server(analysis)]), *filter(None, found)]


def banners(analysis: Analysis) -> list[Banner]:
    """Return the warnings to read before the answer: predicted numbers, failed checks, gaps, failed or missing runs."""
    found = []
    if whose := predicted.said(analysis):
        found.append(Banner("warning", whose))
        doubts = [*predicted.doubts(analysis), *predicted.doubts_of_writes(analysis)]
        found += [Banner("warning", doubt) for doubt in doubts]
    elif any(
        one.run.source == "predicted" and not one.run.prediction for point in analysis.points for one in point.records
    ):
        text = "Not a result: these numbers come from the scripted engine used in tests. No database was measured."
        found.append(Banner("danger", text))
    if numbers_in_doubt.failed(analysis.checks):
        found.append(_failed_checks(analysis))
    found += [Banner("warning", text) for text in early_windows.warnings(analysis)]
    if said_of_gaps := _gaps(analysis):
        found.append(Banner("warning", said_of_gaps))
    missing = sum(len(point.failures) for point in analysis.points)
    unrun = _unrun(analysis)
    if missing and analysis.runs:
        text = f'{words.plural(missing, "run")} did not end well: see the reasons under "Runs that did not end well".'
        found.append(Banner("warning", text))
    if unrun:
        found.append(Banner("warning", unrun))
    return found


def _failed_checks(analysis: Analysis) -> Banner:
    """Return a banner with the failed checks, the numbers that they put in doubt, and the numbers not affected."""
    failed = numbers_in_doubt.failed(analysis.checks)
    made = sum(check.status != "not_applicable" for check in analysis.checks)
    said = [f"{len(failed)} of {words.plural(made, 'check')} failed."]
    wrong = [check for check in failed if check.name != _CONFOUNDED]
    touched = numbers_in_doubt.in_words(wrong) if wrong else ""
    is_every = touched == numbers_in_doubt.EVERY
    if wrong:
        tail = (
            "do not use the numbers before reading why" if is_every else "of the other numbers these checks say nothing"
        )
        said.append(f"In doubt: {touched}; {tail}. What should hold: {'; '.join(map(numbers_in_doubt.named, wrong))}.")
    confounds = [check.detail for check in failed if check.name == _CONFOUNDED]
    if confounds:
        said.append(f"The server did something beside what was asked: {'; '.join(confounds)}.")
    is_told = is_every or numbers_in_doubt.doubting(wrong, analysis.metric(analysis.headline))
    return Banner("danger" if is_told else "warning", " ".join(said))


def _gaps(analysis: Analysis) -> str:
    """Return the sentences on windows with large gaps, in which no work was done, and on their effect; "" if there are
    none."""
    told = []
    for phase in ("", *analysis.phases):
        if broken := analysis.with_gaps(phase):
            run, gaps = max(broken, key=lambda pair: pair[1].sum_s)
            window = f"phase {phase}" if phase else "the measured window"
            told.append(
                f"{window} of {words.plural(len(broken), 'run')} (the longest gap at {run.label}: "
                f"{words.number(gaps.longest_s)} s; all its gaps: {words.number(gaps.sum_s)} s)"
            )
    if not told:
        return ""
    return (
        f"Gaps in {words.listing(told)}: the worker, the server or the host stood still or was overloaded. "
        "Throughput and times are not resolved; counts stand."
    )


#: The most points that the banner of an interrupted sweep names.
_MOST_NAMED = 6


def _unrun(analysis: Analysis) -> str:
    """Return the sentences on runs of the plan that are missing, with the command that does them; "" if there are
    none."""
    planned = analysis.sweep.planned_cells
    missing = [point for point, _ in analysis.missing_cells]
    if not missing and not stopping.is_undecided(analysis):
        return ""
    if analysis.sweep.is_running:
        done_runs = len(planned) - len(missing)
        are = "is" if done_runs == 1 else "are"
        return f"Running: {words.plural(done_runs, 'run')} {are} done, and more are to come."
    counts = [(analysis.name_of(point), missing.count(point.index)) for point in analysis.points]
    named = [f"{name} ({count})" for name, count in counts if count]
    if len(named) > _MOST_NAMED:
        named = [*named[: _MOST_NAMED - 1], words.plural(len(named) - _MOST_NAMED + 1, "other point")]
    said = "the sweep had not decided yet how many more blocks it needs."
    if missing:
        said = f"{len(missing)} of {words.plural(len(planned), 'run')} are missing, at {words.listing(named)}."
    if analysis.sweep.merged is not None:
        return f"Not whole: {said} On their host resume the folder that was merged, then merge again."
    go_on = f"To go on: bufferlab {predicted.command(analysis) or 'run'} --resume {analysis.sweep.path}"
    return f"Interrupted: {said} {go_on}"


def _title(analysis: Analysis, metric: str) -> str:
    return words.lowered(analysis.metric(metric).label)


def _of_group(analysis: Analysis, group: Group, metric: str) -> str | None:
    with_figures = analysis.distinct(group, metric)
    where = f"With {group.label}: " if group.label else ""
    if not with_figures:
        return None
    found = analysis.verdicts(metric, group)
    if found is None:
        told = [_single(analysis, with_figures[0], metric)]
    else:
        told = [_sentence(analysis, with_figures, metric, found), *findings.of_group(analysis, group, metric)]
    first, *more = [*_count(analysis, group, metric), *told, *_alike(analysis, group)]
    return " ".join([where + first, *more])


def _count(analysis: Analysis, group: Group, metric: str) -> Iterator[str]:
    """If `metric` is a time or rate, yield a sentence on one of the counts that the workload compares, because counts
    scatter less.

    If there are several counts, prefer those without a doubt, then those with a resolved change from the first point to
    the last, then those of the database: the device's counts include requests of other programs.
    """
    if not analysis.metric(metric).is_timed:
        return
    counts = (name for name in analysis.compared if analysis.metric(name).work and not analysis.metric(name).is_timed)
    told = [(name, found) for name in counts if (found := analysis.verdicts(name, group)) is not None]

    def last(pair: tuple[str, SweepVerdict]) -> tuple[bool, bool, bool]:
        counted = analysis.metric(pair[0])
        doubted = bool(numbers_in_doubt.doubting(analysis.checks, counted))
        return doubted, not pair[1].span.resolved, "device" in numbers_of(counted)

    for name, found in sorted(told, key=last)[:1]:
        yield _sentence(analysis, analysis.distinct(group, name), name, found)


def _alike(analysis: Analysis, group: Group) -> Iterator[str]:
    """Yield sentences on neighbouring points for which different values were requested, but that ran with the same
    value."""
    for a, b in pairwise([point for point in group.points if point.ok]):
        if analysis.ran_alike(a, b):
            asked, ran = analysis.short_label(a), _place(analysis, b)
            yield f"{asked} and {ran} ran the same setting, so there is no step between them."


_SHOWS_SCATTER = 3
"""The least number of runs that show how much a run scatters."""


def _single(analysis: Analysis, point: PointRuns, metric: str) -> str:
    fit = analysis.fit(metric)
    assert fit is not None
    mean = fit.mean(point.index)
    shown = words.cell(analysis.metric(metric), mean)
    tail = "95 % interval" if mean.has_interval else "no interval"
    title, place = analysis.metric(metric).label, _place(analysis, point)
    where = f" at {place}" if point.swept else ""
    if words.is_unknown(mean):
        return f"{title}{where}: {shown}."
    return f"{title}{where}: {shown} ({tail}, n = {mean.n}).{_could_find(analysis, point, metric)}"


def _could_find(analysis: Analysis, point: PointRuns, metric: str) -> str:
    """Return a sentence on the smallest change that another sweep like this one would show; "" if it is unknown.

    It is unknown of an embedded engine, whose runs with equal seeds count the same: there pairs scatter far less.
    """
    declared = analysis.metric(metric)
    if analysis.claim_blocked(metric) or declared.is_share or not all(run.engine.is_server for run in point.ok):
        return ""
    values = [value for run in point.ok if (value := run.values[metric].value) is not None]
    if len(values) < _SHOWS_SCATTER or min(values) <= 0 or max(values) == min(values):
        return ""
    found = detectable(sample_deviation([log(value) for value in values]), len(values), paired=True)
    return (
        f" By the scatter of these runs, compare of two such sweeps would find a change of about "
        f"{words.two_digits(found - 1)} %; more --repetitions find smaller changes."
    )


def _sentence(analysis: Analysis, points: list[PointRuns], metric: str, found: SweepVerdict) -> str:
    title, span, shape = analysis.metric(metric).label, found.span, found.shape
    unit = words.unit_of_change(analysis.metric(metric))
    blocked = analysis.claim_blocked(metric)
    if blocked:
        return f"{title}: not claimed ({blocked})."
    route, ends = _route(analysis, points[0], points[-1]), _ends(analysis, metric, points[0], points[-1])
    basis = _basis(analysis, metric, found, sorted({len(point.values(metric)) for point in points}))
    if shape in ("falls_at_every_step", "rises_at_every_step", "falls_overall", "rises_overall"):
        verb, more = ("fall", "less") if shape.startswith("falls") else ("rise", "more")
        resolved = f"; {sum(step.resolved for step in found.steps)} of {len(found.steps)} steps are resolved"
        every, tail = (" at every step", "") if shape.endswith("every_step") else ("", resolved)
        every = every if len(found.steps) > 1 else ""
        # If all blocks gave exactly the same change from first to last point, this change has no interval. So it is not
        # resolved, even if every step is.
        whole = f", {words.change(span, unit)} {more}" if span.resolved else ""
        return f"{title} {verb}{every} {route}: {ends}{whole}{tail} ({basis})."
    steps = [
        f"{analysis.short_label(a)} to {analysis.short_label(b)} {words.verdict(step, unit)}"
        for (a, b), step in zip(pairwise(points), found.steps, strict=True)
        if step.resolved
    ]
    if shape == "turns":
        return f"{title} do not move one way {route}: {'; '.join(steps)} ({basis})."
    if steps:
        told = f"{len(steps)} of {len(found.steps)} steps are resolved {route}"
        ends = f"from first to last {words.verdict(span, unit)}" if span.resolved else "from first to last not resolved"
        return f"{title}: {told}: {'; '.join([*steps, ends])} ({basis})."
    if shape == "identical":
        return f"{title} are identical in every run {route} (n = {span.estimate.n} a point)."
    if shape == "no_interval":
        if predicted.said(analysis):
            return f"{title} are predicted to go {ends} {route} ({predicted.NO_INTERVAL})."
        return f"{title} go {ends} {route}, but {_why_no_claim(found)}, so no difference is claimed."
    if words.change_is_unknown(span):
        runs = words.plural(span.estimate.n, "run")
        return f"{title} go {ends} {route}, but {runs} of a point scatter too much to tell a change from chance."
    overall = f"{words.signed_change(span, unit)} overall{words.could_find(span, unit)}"
    return f"{title}: no step is resolved {route} ({overall}; {basis})."


def _basis(analysis: Analysis, metric: str, found: SweepVerdict, runs: Sequence[int]) -> str:
    """Return in words the evidence for a claim: the sweep's own intervals, or the known scatter of its counts.

    `runs` are the numbers of runs of the points, the smallest first.
    """
    least_runs = f"{runs[0]} to " if runs[0] < runs[-1] else ""
    each = f"{least_runs}{words.plural(runs[-1], 'run')} a point"
    steps = [step.estimate for step in found.steps if not step.estimate.identical]
    times = [step.times for step in steps if step.times is not None]
    if not times:
        return f"95 % intervals, {each}"
    if len(times) < len(steps):
        return f"{each}; 95 % intervals, or {CLAIM_TIMES:g} times the usual difference of two runs"
    least = "the step is" if len(found.steps) == 1 else "the smallest step is"
    shown = f"{min(times):.0f}" if min(times) >= 10 else f"{min(times):.1f}"
    n = known_scatter.runs(analysis.metric(metric))
    return f"{each}; {least} {shown} times the usual difference of two runs, known from {n} earlier runs"


def _ends(analysis: Analysis, metric: str, first: PointRuns, last: PointRuns) -> str:
    fit, noun = analysis.fit(metric), analysis.metric(metric).top_unit
    assert fit is not None
    start, end = (words.cell(analysis.metric(metric), fit.mean(point.index).value) for point in (first, last))
    return f"from {start} to {end}" + (f" {noun}" if noun in ("pages", "gets", "requests") else "")


def _route(analysis: Analysis, first: PointRuns, last: PointRuns) -> str:
    """Return the change of the axis in words, as "as the buffer pool grows from 5 % (8 MiB) to 80 % (128 MiB)"."""
    sizes = [analysis.axis_bytes(point) for point in (first, last)]
    verb = "grows" if None not in sizes and analysis.axis_in_bytes else "goes"
    of = f" of {_whole(analysis)}" if analysis.short_label(last).endswith("%") else ""
    return f"as {_knob(analysis)} {verb} from {_place(analysis, first)} to {_place(analysis, last)}{of}"


def _whole(analysis: Analysis) -> str:
    """Return in words the quantity that 100 % on the axis means: "the database", or the words that the workload's
    parameter declares."""
    declared = workloads.declaration(analysis.workload) if analysis.workload in workloads.names() else None
    knob = declared.parameter(analysis.axis or "") if declared else None
    return knob.share_of if knob else "the database"


def _why_no_claim(found: SweepVerdict) -> str:
    n = found.span.estimate.n
    notes = [step.estimate.note for step in (*found.steps, found.span) if step.direction == "no_interval"]
    return "each point ran once (n = 1)" if n < 2 else f"{notes[0]} (n = {n})"


def _knob(analysis: Analysis) -> str:
    axis = (analysis.axis or "").removesuffix("_bytes")
    words_of = {name: one.said for name, one in analysis.knob_words.items()}
    return (_KNOB_WORDS | words_of).get(axis, axis.replace("_", " ") or "the setting")


def _place(analysis: Analysis, point: PointRuns) -> str:
    """Return a point's value on the axis: the requested value, then the actual one in brackets: "5 % (8.5 MiB)"."""
    asked, _, actual = analysis.tick(point).partition("\n")
    return f"{asked} ({actual})" if actual else asked


def _caveat(analysis: Analysis) -> str | None:
    names = {str(run.run.workload.get("name")) for run in analysis.runs}
    known = [workloads.declaration(name).caveat for name in sorted(names) if name in workloads.names()]
    return f"{known[0][0].upper()}{known[0][1:]}." if known else None


def _foreign_server(analysis: Analysis) -> str | None:
    """Return a sentence with the caveats on a server that bufferlab did not start; None if bufferlab started it."""
    told = [check.detail for check in analysis.checks if check.name == FOREIGN_SERVER]
    return f"On a server that bufferlab did not start: {told[0]}." if told else None


def _noise(analysis: Analysis, metric: str) -> str | None:
    fit = analysis.fit(metric)
    if fit is None:
        return None
    if any(fit.step(a, b).times is not None for a, b in fit.comparisons):
        return (
            "These runs are too few to show how much another run would differ. A step of a count is claimed if it is "
            f"more than {CLAIM_TIMES:g} times the usual difference of two runs. This difference, and the intervals of "
            f"such counts, come from {source()}, not from this sweep. --repetitions 5 measures the sweep's own scatter."
        )
    if len(fit.blocks) < 2:
        return (
            "One repetition (n = 1): how much another run would differ is not known, so no difference between points "
            "is claimed. --repetitions 5 tells it."
        )
    could = [fit.detectable(a, b) for a, b in fit.comparisons]
    sizes = [size for size in could if size is not None]
    if not sizes or fit.contrast != "ratio":
        return None
    title = _title(analysis, metric)
    if max(sizes) > words.WIDEST_FACTOR:
        return f"So few runs scatter too much to find any step of {title} (n = {len(fit.blocks)} blocks)."
    return (
        f"A step of {title} smaller than about {words.two_digits(max(sizes) - 1)} % "
        f"would be missed more often than once in five such sweeps (n = {len(fit.blocks)} blocks)."
    )


def _uneven(analysis: Analysis, metric: str) -> str | None:
    fit = analysis.fit(metric)
    if fit is None or fit.spread is None or not fit.uneven:
        return None
    point = next(point for point in analysis.points if point.index == fit.points[fit.spread.place])
    where = analysis.short_label(point)
    if analysis.axis and analysis.axis in point.swept and analysis.axis_value(point) is None:
        where = analysis.setting_label(analysis.axis, point.swept[analysis.axis])
    seen = f"Runs at {where} scatter more than the rest (p = {fit.spread.p_value:.2g})"
    return f"{seen}; each interval leans on its own runs, so those of {_title(analysis, metric)} are wider there."


def _long_window(analysis: Analysis) -> str | None:
    window_s = analysis.shortest_window_s
    if not all(run.engine.needs_long_windows for run in analysis.runs):
        return None
    if window_s is None or window_s >= LONG_WINDOW_SECONDS:
        return None
    reads = analysis.metric(analysis.per_work(analysis.reads))
    doubts = "; ".join(map(numbers_in_doubt.named, numbers_in_doubt.doubting(analysis.checks, reads)))
    told = f"need no such window, but are in doubt: {doubts}" if doubts else "need no such window"
    return (
        "Throughput and writes are not claimed, however far apart their intervals are: the shortest window is "
        f"{words.number(window_s)} s, and checkpoints need {LONG_WINDOW_SECONDS:.0f} s or more to even out (--full). "
        f"Counts of reads per transaction {told}."
    )


def _servers(analysis: Analysis) -> str | None:
    """Return the command that compares the servers of a sweep over servers and another setting; None for others."""
    servers = list(dict.fromkeys(point.swept["server"] for point in analysis.points if "server" in point.swept))
    if len(servers) < 2 or analysis.axis in (None, "server"):
        return None
    return (
        "The answer compares settings within each server. This compares two servers: bufferlab compare "
        f"{shlex.quote(str(analysis.sweep.path))} --between server={servers[0]} server={servers[-1]}"
    )


def _growing(analysis: Analysis) -> str | None:
    """Return a sentence on a database that has grown since its load and still grew in a window; None without one."""
    bases = [base for run in analysis.runs if (base := run.run.database) and base.bytes_loaded and base.bytes_end]
    grown = max(bases, key=lambda base: (base.bytes_end or 0) / base.bytes_loaded, default=None)
    if grown is None or not grown.bytes_start or not grown.bytes_end:
        return None
    if grown.bytes_start < GROWN * grown.bytes_loaded or grown.bytes_end < STILL_GROWS * grown.bytes_start:
        return None
    return (
        f"The workload makes the database grow: from {format_bytes(grown.bytes_loaded)} as loaded to "
        f"{format_bytes(grown.bytes_end)} at a window's end. Its reads have no steady state: longer windows and "
        "warm-ups give other means, so compare only sweeps whose windows and warm-ups are equally long."
    )


def _some_blocks(analysis: Analysis) -> str | None:
    """Return a sentence on the blocks that `run --blocks` chose for the sweep; None if it has all blocks."""
    if "blocks" not in analysis.sweep.plan:
        return None
    planned = len({int(run["block"]) for run in analysis.sweep.plan["runs"]})
    held = blocks.said(analysis.sweep.blocks)
    return f"Only {held} of the plan's {planned}: bufferlab merge joins them with those of other hosts."


def _hosts(analysis: Analysis) -> str:
    if not analysis.across_hosts:
        return "One host, one device, one engine build: ratios travel better than absolute numbers."
    return (
        f"{len(analysis.sweep.hosts)} hosts, each with its own blocks: what a host adds to all of its points cancels "
        "in their ratios, and not in means."
    )


def _waiting(analysis: Analysis) -> str | None:
    """Return a sentence on runs whose threads waited more than 20 % of their time for a processor; None if there are
    none."""
    shares = [(value, run) for run in analysis.runs if (value := run.values["processor_wait_share"].value) is not None]
    many = [share for share, _ in shares if share > WAITING_SHARE_WORTH_SAYING]
    if not many:
        return None
    worst, run = max(shares, key=lambda pair: pair[0])
    whose = "worker and server" if run.engine.is_server else "the worker"
    return (
        f"In {len(many)} of {words.plural(len(shares), 'run')} the threads of {whose} waited for a processor for more "
        f"than {words.share(WAITING_SHARE_WORTH_SAYING, 0)} of the time that they could have run (at most "
        f"{words.share(worst)}, {run.label}): times depend on the host's processors and on its other work."
    )


def _shares(analysis: Analysis) -> str | None:
    """Return a sentence on pools that differ in bytes only because each is a share of its point's own database."""
    pool = analysis.runs[0].engine.pool if analysis.runs else ""
    if not pool or analysis.axis == pool:
        return None
    for group in analysis.groups:
        ok = [point for point in group.points if point.ok]
        sizes = [size for point in ok if (size := point.number(pool)) is not None]
        asked = {point.settings[pool].asked for point in ok if pool in point.settings}
        if len(asked) == 1 and sizes and max(sizes) > _SAME_POOL * min(sizes):
            ran = words.listing(list(dict.fromkeys(map(format_bytes, sizes))))
            return (
                f"{readable(str(asked.pop()))} of each point's own database: the pools had {ran}. A part of each "
                f"step may be of the pool, not of the {words.lowered(str(analysis.axis).replace('_', ' '))}. A pool in "
                f"bytes (--set {pool}={format_bytes(max(sizes)).replace(' ', '')}) is the same at every point."
            )
    return None


def _settings(analysis: Analysis) -> list[str]:
    """Return the limits that follow from the settings of the runs, each a sentence."""
    found = []
    ran: dict[str, set[Value]] = {}
    for run in analysis.runs:
        for name, setting in run.settings.items():
            ran.setdefault(name, set()).add(setting.actual)
    if "off" in ran.get("synchronous", ()):
        found.append("Commits did not wait for the device (synchronous = off): commit latency is not measured.")
    found += engines.chapters(analysis.engine).limits(analysis.runs)
    if "direct" in ran.get("io_mode", ()):
        found.append("Direct I/O: with a page cache in between, the device would see fewer reads than were asked for.")
    if "buffered" in ran.get("io_mode", ()):
        found.append("Buffered I/O: the page cache may have served reads that the device did not see.")
    served = max((_served_by_log(run) for run in analysis.runs), default=0.0)
    if served > LOG_SHARE_WORTH_SAYING:
        found.append(
            f"The write-ahead log served up to {words.share(served)} of the misses: a second cache beside the pool."
        )
    return found


def _served_by_log(run: MeasuredRun) -> float:
    """Return the share of the pool's misses that reads of the database file do not account for: 1 - reads / misses.

    The write-ahead log served them. The share is 0 for servers, which have no such log.
    """
    if run.engine.is_server:
        return 0.0
    misses, reads = run.values["misses_per_transaction"].value, run.values["reads_per_transaction"].value
    return max(0.0, 1 - reads / misses) if misses and reads is not None else 0.0
