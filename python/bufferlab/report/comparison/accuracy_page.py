"""Makes the answer of `accuracy`, which every format shows. docs/prediction.md describes the object of --json."""

from __future__ import annotations

from collections.abc import Iterator

from bufferlab.chapter import numbers_in_doubt, words
from bufferlab.chapter.elements import (
    Curve,
    Dot,
    Figure,
    Look,
    PointsPlot,
    Section,
    Series,
    Table,
)
from bufferlab.chapter.points_figure import Axis, dot, reads_better_on_a_log_axis, side_by_side
from bufferlab.registry import declared
from bufferlab.report.comparison import touched_pages, written_pages
from bufferlab.report.comparison.accuracy import Accuracy, ErrorSummary, PointAccuracy
from bufferlab.report.document import Report, stamped
from bufferlab.report.predicted import doubts, said
from bufferlab.results.check_parts import Check

_YES = {None: words.NOTHING, True: "yes", False: "no"}
_LIMIT = "The model predicts pages{} alone: {}time and throughput are not judged here."
_OF_READS, _OF_WRITES = _LIMIT.format(" read", "writes, "), _LIMIT.format(" read and written", "")
_SEEN = (
    "Seen: looked at while the models were developed, so that such a point is no test of them "
    "(development_cells.toml). Held out: not looked at."
)


def as_report(accuracy: Accuracy) -> Report:
    """Return the accuracy as the document that every output format shows."""
    a, b = accuracy.sides.a, accuracy.sides.b
    run = a.runs[0].run
    runs = sum(len(point.match.a.ok) for point in accuracy.points)
    told = tuple(map(touched_pages.table, accuracy.touched))
    report = Report(
        title="accuracy",
        question=f"How right was the model {accuracy.points[0].prediction.model} about {a.sweep.experiment}?",
        answer=answer(accuracy),
        facts=(
            f"{run.engine} {run.engine_version or ''}".strip(),
            f"measured: {a.sweep.path.name}, {words.plural(runs, 'run')}",
            f"predicted: {b.sweep.path.name}",
            str(run.started_at)[:10],
        ),
        headline=_figure(accuracy),
        steps=_errors_table(accuracy),
        limits=(
            *(_failed(check) for check in numbers_in_doubt.failed(a.checks)),
            said(b) or "",
            *doubts(b),
            *_left_out(accuracy),
            *_unlike(accuracy),
            _OF_WRITES if accuracy.writes else _OF_READS,
        ),
        sections=(
            Section("points", "Points", "", (_table(accuracy), *_written(accuracy))),
            # With a single point, a table of the mean and the largest error would be useless.
            *((Section("summary", "Errors", "", (_summary_table(accuracy),)),) if len(accuracy.points) > 1 else ()),
            *((Section("steps", "Steps", "", (_steps_table(accuracy),)),) if accuracy.steps else ()),
            *((Section("touched", "Touched pages", "", told),) if told else ()),
        ),
        data=accuracy,
    )
    return stamped(report, f"measured: {a.source}\npredicted: {b.source}")


def _failed(check: Check) -> str:
    """Return a sentence on a check of the measured runs that failed, with the numbers that it puts in doubt."""
    doubted = numbers_in_doubt.in_words([check])
    return f"A check of the measured runs failed, which puts {doubted} in doubt: {numbers_in_doubt.named(check)}."


def answer(accuracy: Accuracy) -> str:
    """Return the answer in sentences: the errors, the steps, and the pool that the model would choose."""
    if not accuracy.summaries:
        return _without_errors(accuracy)
    lines = list(_at_one_point(accuracy) if accuracy.summaries[0].n == 1 else _at_points(accuracy))
    judged = [step for step in accuracy.steps if step.right is not None]
    if judged:
        right = sum(bool(one.right) for one in judged)
        lines.append(f"The model tells the direction of {right} of {words.plural(len(judged), 'resolved step')}.")
    # If no step is resolved, noise alone decides which measured point was best.
    if accuracy.chosen and accuracy.regret is not None and (judged or not accuracy.steps):
        more = f"which reads {_share(accuracy.regret)} more than the best, {accuracy.best.label}"
        lines.append(f"It would choose {accuracy.chosen.label}, {more if accuracy.regret else 'which is the best'}.")
    lines.append(written_pages.answer(accuracy.writes, accuracy.work))
    return " ".join(filter(None, lines))


def _at_points(accuracy: Accuracy) -> Iterator[str]:
    """Yield the sentences on the errors of several points."""
    told, title = accuracy.summaries[0], declared(accuracy.metric).label
    yield (
        f"{title} that the model predicts are up to {_share(told.largest)} off the measured ones at the {told.n} "
        f"points, and {_share(told.mean)} in the mean; those of LRU are up to {_share(told.lru_largest)} off."
    )
    held = next((one for one in accuracy.summaries if one.name == "held out"), None)
    if held:
        points = words.plural(held.n, "point")
        yield f"At the {points} held out of development the model is {_share(held.mean)} off in the mean."


def _at_one_point(accuracy: Accuracy) -> Iterator[str]:
    """Yield the sentences on the only error: its size, whether the measured runs agree, and the questions left open."""
    (point,) = (one for one in accuracy.points if one.error is not None)
    title, error, lru = declared(accuracy.metric).label, point.error or 0.0, point.lru_error or 0.0
    yield (
        f"{title} at {point.label}: the model predicts {words.four_digits(point.predicted or 0.0)}, {_off(error)} the "
        f"measured {_measured(point)}; LRU predicts {words.four_digits(point.lru)}, {_off(lru)} it."
    )
    if point.inside is not None:
        yield f"The prediction lies {'in' if point.inside else 'outside'} the measured 95 % interval."
    if point.in_development:
        yield "The point was seen while the model was developed."
    if accuracy.chosen is None:
        yield "One point shows neither the error at other settings nor which setting the model would choose."


def _measured(point: PointAccuracy) -> str:
    """Return the measured mean with its interval, or with the number of runs that give none."""
    if point.measured.ci_low is None:
        return f"{words.four_digits(point.measured.value)} ({words.plural(point.measured.n, 'run')}, no interval)"
    return words.interval(point.measured)


def _off(error: float) -> str:
    """Return in words how a prediction compares with the measured value: per cent above or below, or a multiple from
    twice the value on.

    >>> _off(0.0213), _off(-0.3), _off(196.4), _off(0.0)
    ('2.1 % above', '30.0 % below', '197 times', '0.0 % above')
    """
    if error >= 1:
        return f"{words.number(1 + error)} times"
    return f"{_share(error)} {'below' if error < 0 else 'above'}"


def _without_errors(accuracy: Accuracy) -> str:
    told = [point.predicted for point in accuracy.points if point.predicted is not None]
    if not told:
        return "The model gives no prediction at any of these points: reads depend on the speed of the run."
    title = declared(accuracy.metric).label
    return f"{title}: none were measured where there is a prediction, which is {words.number(max(told))} at most."


def _errors_table(accuracy: Accuracy) -> Table:
    """Return the short table of errors, which is shown next to the figure."""
    rows = ((one.label, words.signed_share(one.error), words.signed_share(one.lru_error)) for one in accuracy.points)
    return Table.of("errors-by-point", "Errors", ("<Point", "Model's error", "LRU's error"), rows)


def _table(accuracy: Accuracy) -> Table:
    heads = ("<Point", "n", "Measured", "Model", "Error", "<In the interval", "LRU", "LRU's error", "Frames counted",
             "Frames played", "<Development")  # fmt: skip
    rows = []
    for point in accuracy.points:
        frames = "" if point.measured_frames is None else f"{point.measured_frames:,.0f}"
        model = "depends on speed" if point.predicted is None else words.four_digits(point.predicted)
        cells = (
            point.label,
            str(point.measured.n),
            words.cell(declared(accuracy.metric), point.measured),
            model,
            words.signed_share(point.error),
            _YES[point.inside],
            words.four_digits(point.lru),
            words.signed_share(point.lru_error),
            frames,
            f"{point.prediction.pool_frames:,}",
            "seen" if point.in_development else "held out",
        )
        rows.append(cells)
    caption = f"{words.axis_title(declared(accuracy.metric))}. Measured: mean with its 95 % interval. {_SEEN}"
    return Table.of("accuracy", "Point by point", heads, rows, caption, brief=True)


def _written(accuracy: Accuracy) -> tuple[Table, ...]:
    return (written_pages.table(accuracy.writes, accuracy.work),) if accuracy.writes else ()


def _summary_table(accuracy: Accuracy) -> Table:
    heads = ("<Points", "n", "Mean |error|", "Largest error", "LRU's mean |error|", "LRU's largest", "Times better")

    def cells(told: ErrorSummary) -> tuple[str, ...]:
        times = words.NOTHING if told.times_better is None else f"{told.times_better:.1f}"
        numbers = (
            _share(told.mean),
            words.signed_share(told.largest),
            _share(told.lru_mean),
            words.signed_share(told.lru_largest),
            times,
        )
        return (told.name, str(told.n), *numbers)

    return Table.of("errors", "Mean and largest error", heads, map(cells, accuracy.summaries), brief=True)


def _steps_table(accuracy: Accuracy) -> Table:
    heads = ("<Step", "<Measured", "<Model", "<Right")
    cells = ((f"{step.a} → {step.b}", step.measured, step.predicted, _YES[step.right]) for step in accuracy.steps)
    return Table.of("steps", "Step by step", heads, cells, brief=True)


def _left_out(accuracy: Accuracy) -> list[str]:
    sides = accuracy.sides
    told = [("measured", sides.only_a), ("predicted", sides.only_b)]
    return [f"Only {kind}: {', '.join(point.label for point in points)}." for kind, points in told if points]


def _unlike(accuracy: Accuracy) -> list[str]:
    """Return a sentence on the warm-ups if their lengths differ between the sides, and one on the windows likewise."""
    return [
        f"The {one.name} behind the predictions had {_between(*one.predicted)} transactions, those of the measured "
        f"runs {_between(*one.measured)}: one side may have read pages for the first time that the other had in "
        "its pool."
        for one in accuracy.stretches
        if one.differ
    ]


def _figure(accuracy: Accuracy) -> Figure | None:
    """Return the figure: measured dots with intervals, and lines of the model and LRU; a panel per group of points."""
    analysis = accuracy.sides.a
    by_index = {point.match.a.index: point for point in accuracy.points}
    axis = Axis.of(analysis, [point.match.a for point in accuracy.points])
    panels = []
    for group in analysis.groups:
        told = [by_index[point.index] for point in group.points if point.index in by_index]
        places = [axis.place(point.match.a) for point in told]
        if not told:
            continue
        ticks = [analysis.tick(point.match.a) for point in told]
        measured = tuple(
            dot(analysis, accuracy.metric, point.match.a, x, tick)
            for point, x, tick in zip(told, places, ticks, strict=True)
        )
        # The scale is chosen as in the sweep's own figure.
        y_is_log = reads_better_on_a_log_axis([height for one in measured for height in (one.mean, *one.runs)])
        found = [point.predicted for point in told]
        lines: list[tuple[str, list[float | None], Look]] = [
            ("model", found, "line"),
            ("LRU", [point.lru for point in told], "yardstick"),
        ]
        series: list[Series] = []
        curves = []
        for label, values, look in lines:
            known = zip(places, ticks, values, strict=True)
            dots = tuple(
                Dot(x, tick, (), value, None, None)
                for x, tick, value in known
                if value is not None and (value > 0 or not y_is_log)
            )
            if dots:
                xs, ys = tuple(one.x for one in dots), tuple(one.mean for one in dots)
                curves.append(Curve("", xs, ys, len(series), look if axis.is_numeric else "line"))
                series.append(Series(label, dots, joined=False))
        series.append(Series("measured", measured, joined=False))  # The last series is drawn on top.
        panels.append(
            PointsPlot(
                x_label=axis.label,
                y_label=words.axis_title(declared(accuracy.metric)),
                series=tuple(series),
                x_is_log=axis.is_log,
                y_is_log=y_is_log,
                x_in_bytes=axis.in_bytes,
                x_is_words=not axis.is_numeric,
                curves=tuple(curves) if axis.is_numeric else (),
                names_at_ends=axis.is_numeric and len(analysis.groups) == 1,
                title=group.label,
            )
        )
    if not panels:
        return None
    title = f"{declared(accuracy.metric).label}: measured and predicted"
    generated = accuracy.points[0].prediction.generated is not None
    origin = "generated page accesses" if generated else "one traced run"
    caption = (
        f"Measured: each run, and means with 95 % intervals. Lines: predicted from {origin}. LRU has the same bytes."
    )
    plot, data = side_by_side(panels, "accuracy-figure", title)
    return Figure("accuracy-figure", title, f"{title}. {answer(accuracy)}", caption, plot, data)


def _between(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _share(error: float) -> str:
    return f"{100 * abs(error):.1f} %"
