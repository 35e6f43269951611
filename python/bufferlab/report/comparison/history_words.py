"""Puts a history into words: the answer in sentences, its limits, and the cells of its tables.

The words claim no more than the intervals and the test of the whole history show.
"""

from __future__ import annotations

import numpy as np

from bufferlab.chapter import words
from bufferlab.chapter.elements import Row, Table
from bufferlab.registry import declared
from bufferlab.report.comparison.compare_words import claimed, title_of, title_within
from bufferlab.report.comparison.fail_if import RuleJudged, sentences
from bufferlab.report.comparison.history import History, HistoryEvent, HistorySeries, Step, could_find
from bufferlab.report.comparison.history_sweeps import Apart, SweepTold
from bufferlab.stats.changes import FALSE_ALARMS, FEWEST, MIN_STRETCH

_TOO_MUCH = "none"
_MOST_SETTINGS = 3


def answer(history: History) -> str:
    """Return the answer: each change in a sentence, or that no change was found."""
    sweeps, apart = words.plural(len(history.kept), "sweep"), len(history.sweeps.apart)
    beside = f" {words.plural(apart, 'sweep')} set apart." if apart else ""
    if history.is_too_short:
        return f"No claim: {sweeps}, and a change is told from chance by {FEWEST} or more.{beside}"
    if not history.events:
        return f"No change is found in {sweeps}{_would_have(history)}.{beside}"
    told = " ".join(_sentence(history, event) for event in history.events)
    return f"{words.plural(len(history.events), 'change')} in {sweeps}. {told}{beside}"


def _would_have(history: History) -> str:
    """Return in words the smallest step of the headline metric that would have been found at every setting, or ""."""
    known = [one for one in history.of(history.headline) if one.detectable is not None]
    if not known:
        return ""
    worst = max(known, key=lambda one: one.detectable or 0.0)
    said = detectable(worst)
    return f" ({said} of {title_within(worst.metric)} in the middle would have been found)" if said else ""


def _sentence(history: History, event: HistoryEvent) -> str:
    """Return a sentence on an event: its first sweep, the metric, settings, size, and how many metrics change."""
    lead, *rest = dict.fromkeys(step.metric for step in event.figures)
    steps = [step for step in event.figures if step.metric == lead]
    several = len(history.of(lead)) > 1
    parts = [
        f"{change(step)}{f' at {step.setting.label}' if several and step.setting.label else ''}"
        for step in steps[:_MOST_SETTINGS]
    ]
    more = len(steps) - _MOST_SETTINGS
    parts += [f"changed at {words.plural(more, 'more setting')}"] if more > 0 else []
    others = f"; so do {words.plural(len(rest), 'other figure')}" if rest else ""
    return f"From {place(history, event)} on, {title_within(lead)} are {words.listing(parts)}{others}."


def place(history: History, event: HistoryEvent) -> str:
    """Return the words for the first sweep of an event: "sweep 25 (3f2a91c)"."""
    return f"sweep {event.place + 1} ({history.kept[event.place].name})"


def change(step: Step) -> str:
    """Return the size of a change, "6.1–7.9 % higher"; if its interval includes "no change", the interval's ends."""
    verdict = step.found.verdict
    if verdict.resolved:
        return claimed(verdict, step.metric)
    return f"other ({words.signed_change(verdict, words.unit_of_change(declared(step.metric)))})"


def detectable(series: HistorySeries) -> str:
    """Return the step that would have been found in the middle of the history, "a step of 3.1 %"; "" if there is
    none."""
    shown = words.detectable(could_find(series), words.unit_of_change(declared(series.metric)))
    return f"a step of {shown}" if shown else ""


def limits(history: History) -> list[str]:
    """Return the limits of the history, each in a sentence."""
    percent = f"{100 * FALSE_ALARMS:g} %"
    found = [
        f"Where nothing changes, {percent} of histories tell a change, over all figures and settings together. That "
        "holds for sweeps of other seeds, or of equal ones on a deterministic engine, not for hosts that drift.",
        f"{MIN_STRETCH} sweeps must show a change: the newest alone may be an outlier. bufferlab compare judges two "
        "sweeps.",
        "The sweeps ran one after the other: what changed on the host between them counts as a change. A slow drift is "
        "told as steps.",
    ]
    reasons: dict[str, list[str]] = {}
    for one in history.series:
        if one.unclaimed:
            titles = reasons.setdefault(one.unclaimed, [])
            titles += [] if (title := title_within(one.metric)) in titles else [title]
    found += [f"Not claimed ({why}): {words.listing(titles)}." for why, titles in reasons.items()]
    found += _left_out(history)
    if any(one.steps for one in history.series):
        found.append(
            "The intervals of all changes hold together at 95 %. A change that was only just found is smaller."
        )
    return found


def _left_out(history: History) -> list[str]:
    """Return a sentence for each reason why metrics of some sweeps are left out, although other sweeps have them."""
    judged = {one.metric for one in history.series if not one.unclaimed}
    reasons: dict[str, list[str]] = {}
    for number, sweep in enumerate(history.kept, start=1):
        for why in dict.fromkeys(why for metric, why in sweep.blocked.items() if metric in judged):
            reasons.setdefault(why, []).append(f"{number} ({sweep.name})")
    return [f"Figures of sweep {words.listing(which)} are left out ({why})." for why, which in reasons.items()]


def changes_table(history: History) -> Table:
    """Return the table of all changes of all metrics, in the order of the sweeps."""
    heads = (
        "<From sweep", "<Figure", "<Setting", "Before", "Since", "n", "<Change (95 %)", "<Between sweeps",
    )  # fmt: skip
    rows = []
    for event in history.events:
        for nth, step in enumerate(event.figures):
            metric, own, found = declared(step.metric), step.change, step.found
            cells = (
                f"{event.place + 1}: {history.kept[event.place].name}" if not nth else "",
                words.with_unit(title_of(step.metric), metric),
                step.setting.label,
                words.cell(metric, found.value_a),
                words.cell(metric, found.value_b),
                f"{found.n_a}, {found.n_b}",
                change(step),
                f"{own.earliest + 1} to {own.latest + 1}" if own.latest > own.earliest else f"{own.place + 1}",
            )
            rows.append(Row(cells, "differs"))
    caption = "n: sweeps of both levels. Between sweeps: those of which one is the first that is other, at 95 %."
    return Table.of("changes", "What changes", heads, rows, caption if rows else "Nothing.", brief=True)


def beside_table(history: History) -> Table | None:
    """Return the table of other differences between a change's first sweep and the sweep before; None if there are
    none."""
    rows = [
        (place(history, event), name, before, since)
        for event in history.events
        for name, (before, since) in event.beside.items()
    ]
    heads = ("<From sweep", "<What", "<Before", "<Since")
    return Table.of("beside", "What else changes there", heads, rows) if rows else None


def series_table(history: History) -> Table:
    """Return the table of all metrics at all settings: newest level, scatter, smallest step to be found."""
    heads = ("<Figure", "<Setting", "Sweeps", "Newest level", "Scatter", "Detectable", "Changes")
    rows, last = [], ""
    for one in history.series:
        metric = declared(one.metric)
        level = one.levels()[-1][2]
        cells = (
            "" if one.metric == last else words.with_unit(title_of(one.metric), metric),
            one.setting.label,
            str(one.n),
            words.cell(metric, level),
            _scatter(one),
            words.NOTHING if one.unclaimed else detectable(one).removeprefix("a step of ") or _TOO_MUCH,
            "not claimed" if one.unclaimed else str(len(one.steps)),
        )
        rows.append(Row(cells, "differs" if one.steps else ""))
        last = one.metric
    caption = (
        "Scatter: standard deviation of a sweep about its level. Detectable: the step in the middle of the history "
        "that four of five such histories would find."
    )
    return Table.of("series", "Every figure", heads, rows, caption, folded=True)


def _scatter(series: HistorySeries) -> str:
    if series.scatter is None:
        return words.NOTHING
    if series.scale == "log":
        return f"{words.two_digits(float(np.expm1(series.scatter)))} %" if series.scatter else "none"
    unit = words.unit_of_change(declared(series.metric))
    return f"{words.number(100 * series.scatter if unit == words.POINTS else series.scatter)} {unit}".strip()


def sweeps_table(history: History) -> Table:
    """Return the table of the sweeps in their order, with their folders, failed checks and failed runs."""
    heads = ("Sweep", "<Name", "<Began (UTC)", "Runs", "<Engine", "<In doubt", "<Folder")
    rows = (_sweep_row(str(place), sweep) for place, sweep in enumerate(history.kept, start=1))
    return Table.of("sweeps", "The sweeps", heads, rows, folded=True)


def _sweep_row(number: str, sweep: SweepTold) -> Row:
    engine = sweep.like.get("engine", "")
    doubts = [*sweep.failed_checks, *([words.plural(sweep.failed_runs, "failed run")] if sweep.failed_runs else [])]
    name = f"{sweep.name} {sweep.line}".strip()
    began = f"{sweep.began_at:%Y-%m-%d %H:%M}" if sweep.began_at else words.NOTHING
    version = sweep.beside.get(engine, "")
    cells = (number, name, began, str(sweep.runs), f"{engine} {version}".strip(), "; ".join(doubts), str(sweep.path))
    return Row(cells, "failed" if doubts else "")


def apart_table(history: History) -> Table | None:
    """Return the table of the excluded sweeps, with their differences; None if there are none."""
    rows = [(one.sweep.name, one.reason, str(one.sweep.path)) for one in history.sweeps.apart]
    return Table.of("apart", "Set apart", ("<Name", "<What differs", "<Folder"), rows) if rows else None


def apart_text(apart: Apart) -> str:
    """Return a sentence on an excluded sweep, with the reason."""
    return f"{apart.sweep.name} is set apart: {apart.reason}."


def rule_lines(history: History, judged: RuleJudged) -> list[str]:
    """Return the sentences on a rule in a history (`fail_if.sentences`)."""
    return sentences(judged, history.kept[history.since_place].name if history.since_place else "", "")
