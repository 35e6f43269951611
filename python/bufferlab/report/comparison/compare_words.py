"""Puts a comparison into words: the answer in a sentence, and the cells of its tables.

The words claim no more than the intervals show.
"""

from __future__ import annotations

from collections.abc import Sequence

from bufferlab.chapter import known_scatter, numbers_in_doubt, words
from bufferlab.chapter.elements import Row, Table
from bufferlab.registry import declared
from bufferlab.report import close_runs
from bufferlab.report.comparison.compare_metrics import MetricCompared, SidesCompared
from bufferlab.results.metrics import phase_of
from bufferlab.stats.comparison import Compared
from bufferlab.stats.known_scatter import CLAIM_TIMES, source
from bufferlab.stats.verdict import Verdict

_HOW = {"paired": "paired by block", "welch": "Welch's test"}
#: The words in place of the smallest change that would have been found, if that change is too large to be useful.
_TOO_MUCH = "more than 100 times"
_JUDGED = ("different", "not_distinguishable")
_FOUND = {"rises": "higher", "falls": "lower"}


def answer(compared: SidesCompared) -> str:
    """Return the answer: the claims on the headline metric, and which other metrics differ if the headline does not."""
    figures = compared.of(compared.headline)
    outcomes = [figure.outcome for figure in compared.figures]
    if set(outcomes) == {"same"}:
        count = words.plural(len(compared.metrics), "figure")
        n = figures[0].found.n_a if figures[0].found else 0
        return f"The same: {count} compared, identical in every run ({_n_text(n, n)})."
    said = _single(compared, figures[0]) if len(figures) == 1 else _several(compared, figures)
    different = [
        metric
        for metric in compared.metrics[1:]
        if any(figure.outcome == "different" for figure in compared.of(metric))
    ]
    if different and not any(figure.outcome == "different" for figure in figures):
        sure = [title_within(metric) for metric in different if not _doubts(compared, metric)]
        doubted = [title_within(metric) for metric in different if _doubts(compared, metric)]
        said += f" What differs: {words.listing(sure)}." if sure else ""
        return said + (f" In doubt, because a check failed: {words.listing(doubted)}." if doubted else "")
    return said


def limits(compared: SidesCompared) -> list[str]:
    """Return the limits of the comparison, each in a sentence."""
    found = []
    if not compared.sides.one_sweep:
        found.append(
            "The sides ran one after the other, not in turns: what changed on the host between them counts as a "
            "difference. Two settings of one sweep (--between) do not have this doubt."
        )
    if compared.rules and any(
        check.status == "failed" for of in (compared.sides.a, compared.sides.b) for check in of.checks
    ):
        found.append(
            "Rules count numbers that a failed check puts in doubt like all others; run --strict ends with an error."
        )
    if compared.method == "welch":
        found.append("The sides do not share their seeds: what other transactions would change is in the intervals.")
    unclaimed = {figure.unclaimed for figure in compared.figures if figure.outcome == "not_claimed" and figure.found}
    found += [f"Rates and writes are not claimed: {reason}." for reason in sorted(filter(None, unclaimed))]
    if _rests_on_known(compared):
        found.append(
            "These runs are too few to show how much another run would differ. A change of a count is claimed if it is "
            f"more than {CLAIM_TIMES:g} times the usual difference of two runs, which comes from {source()}, not from "
            "these sweeps. For times and phases no such difference is known. --repetitions 5 measures the sweeps' own "
            "scatter."
        )
    sides = compared.sides
    for name, side, points in (
        (sides.name_a, sides.a, [match.a for match in sides.matched]),
        (sides.name_b, sides.b, [match.b for match in sides.matched]),
    ):
        if close := close_runs.sentence(side, compared.headline, points):
            found.append(f"{name}: {close}")
    found.append(
        f"The intervals of {title_within(compared.headline)} hold together at 95 % for all settings; so do those of "
        "the other figures that the workload names, and those of CPU and latencies beside them."
    )
    return found


def table(compared: SidesCompared) -> Table:
    """Return the table of metrics with a claim: at every matched point both values, the verdict and the change."""
    several = len(compared.sides.matched) > 1 or any(match.label for match in compared.sides.matched)
    names = (compared.sides.name_a, compared.sides.name_b)
    heads = ("<Figure", *(("<Setting",) if several else ()), *names, "n", "<Verdict", "Change (95 %)", "Detectable")
    rows: list[Row] = []
    for metric in _in_order(compared):
        rows += _rows(compared, metric) if several else [_row(figure, ()) for figure in compared.of(metric)]
    return Table.of("figures", "Figure by figure", heads, rows, _caption(compared), brief=True)


def _in_order(compared: SidesCompared) -> list[str]:
    """Return the metrics of the table: the headline, then those that differ at some point, those that are always the
    same, and last those that are not distinguishable.
    """
    silent = _silent(compared)

    def rank(metric: str) -> int:
        outcomes = {figure.outcome for figure in compared.of(metric)}
        if metric == compared.headline:
            return -1
        return 0 if "different" in outcomes else 1 if outcomes == {"same"} else 2

    return sorted((metric for metric in compared.metrics if metric not in silent), key=rank)


def _rows(compared: SidesCompared, metric: str) -> list[Row]:
    """Return a row for each setting of a metric, or one row if both sides are the same at all settings."""
    figures = compared.of(metric)
    if len(figures) > 1 and {figure.outcome for figure in figures} == {"same"}:
        ends = _of_many([found for figure in figures if (found := figure.found)], metric)
        n, same = {cells[2] for cells in map(_cells, figures)}, _OUTCOME_WORDS["same"]
        cells = (_head(metric), f"all {len(figures)}", ends, same, ", ".join(sorted(n)), same)
        return [Row((*cells, words.NOTHING, words.NOTHING))]
    return [_row(figure, (figure.setting.label,), named=not place) for place, figure in enumerate(figures)]


def _of_many(found: Sequence[Compared], metric: str) -> str:
    """Return in words the least and the greatest value, over all settings, of a metric that is the same on both
    sides."""
    values = sorted(one.value_a for one in found)
    return " to ".join(dict.fromkeys(words.cell(declared(metric), value) for value in (values[0], values[-1])))


def _head(metric: str) -> str:
    return words.with_unit(title_of(metric), declared(metric))


def _row(figure: MetricCompared, setting: tuple[str, ...], *, named: bool = True) -> Row:
    cells = (_head(figure.metric) if named else "", *setting, *_cells(figure))
    return Row(cells, "differs" if figure.outcome == "different" else "")


def _doubts(compared: SidesCompared, metric: str) -> bool:
    """Return whether a failed check of either side puts the metric in doubt."""
    sides = compared.sides
    return any(numbers_in_doubt.doubting(side.checks, declared(phase_of(metric)[1])) for side in (sides.a, sides.b))


def _caption(compared: SidesCompared) -> str:
    """Return the table's caption: the method of comparison, and the metrics without a claim, with reasons."""
    how = (
        "Paired by block: both sides did the same transactions in each block, so their effect cancels."
        if compared.method == "paired"
        else "Welch's test: the sides did different transactions, so each stands on its own runs."
    )
    reasons: dict[str, dict[str, float | None]] = {}
    for figure in compared.figures:
        if figure.outcome == "not_claimed":
            could = figure.found.verdict.detectable if figure.found else None
            of_reason = reasons.setdefault(str(figure.reason), {})
            of_reason[figure.metric] = max(filter(None, (of_reason.get(figure.metric), could)), default=None)
    left = "".join(
        f" Not claimed ({why}): {words.listing([_with_detectable(compared, *each) for each in of_reason.items()])}."
        for why, of_reason in reasons.items()
    )
    said = "Detectable, and in brackets: the change found in four such comparisons of five."
    if _rests_on_known(compared):
        usual = f"{CLAIM_TIMES:g} times the usual difference of two runs"
        said += f" With one or two runs a side, the interval of a count's change reaches {usual} to each side."
    doubted = [title_within(metric) for metric in _in_order(compared) if _doubts(compared, metric)]
    doubt = f" In doubt, because a check failed: {words.listing(doubted)}." if doubted else ""
    return f"{how} n: runs of each side. {said}{left}{doubt}"


def _with_detectable(compared: SidesCompared, metric: str, detectable: float | None) -> str:
    """Return a metric's title with the smallest change that would have been found at every setting, in brackets."""
    worst = next(
        (one.found.verdict for one in compared.of(metric) if one.found and one.found.verdict.detectable == detectable),
        None,
    )
    return (
        f"{title_within(metric)} ({_could(worst, metric) or _TOO_MUCH})"
        if worst and detectable
        else title_within(metric)
    )


def _silent(compared: SidesCompared) -> list[str]:
    """Return the metrics other than the headline that have a claim at no point."""
    return [
        metric
        for metric in compared.metrics[1:]
        if {figure.outcome for figure in compared.of(metric)} == {"not_claimed"}
    ]


def unmatched(compared: SidesCompared) -> list[str]:
    """Return in words the points of one side that the other side lacks, with the reason if their runs failed."""
    sides, found = compared.sides, []
    for name, points in ((sides.name_a, sides.only_a), (sides.name_b, sides.only_b)):
        for point in points:
            why = "" if point.ok else f" ({point.reason or 'no run ended well'})"
            found.append(f"only in {name}: {point.label}{why}")
    return found


def _single(compared: SidesCompared, figure: MetricCompared) -> str:
    title, metric, sides = title_within(figure.metric), declared(figure.metric), compared.sides
    if figure.found is None:
        return f"No claim: {title} of {sides.name_a} and {sides.name_b} cannot be compared ({figure.reason})."
    verdict, basis = figure.found.verdict, _basis(compared, [figure])
    values = f"{words.cell(metric, figure.found.value_b)} against {words.cell(metric, figure.found.value_a)}"
    if figure.outcome == "not_claimed":
        which = f"{title} of {sides.name_b} and {sides.name_a}, {values},"
        return f"No claim: {which} cannot be compared ({figure.reason})."
    unit = words.unit_of_change(metric)
    if figure.outcome == "same":
        return f"The same: {title} are identical in every run ({basis})."
    if figure.outcome == "different":
        than = f"{_FOUND[verdict.direction]} with {sides.name_b} than with {sides.name_a}"
        return f"{title[0].upper()}{title[1:]} are {words.change(verdict, unit)} {than}: {values} ({basis})."
    shown = f"{words.signed_change(verdict, unit)} from {sides.name_a} to {sides.name_b}"
    return f"Not distinguishable: {title} change by {shown}{words.could_find(verdict, unit)} ({basis})."


def _several(compared: SidesCompared, figures: Sequence[MetricCompared]) -> str:
    title, sides, count = title_within(compared.headline), compared.sides, len(figures)
    different = [figure for figure in figures if figure.outcome == "different"]
    basis, rest = _basis(compared, figures), _rest(figures)
    if not different:
        return f"{rest[0].upper()}{rest[1:]}: {title} of {sides.name_a} and {sides.name_b} ({basis})."
    steps = []
    for figure in different:
        assert figure.found is not None
        steps.append(f"{claimed(figure.found.verdict, figure.metric)} at {figure.setting.label}")
    where = f"at all {count} settings" if len(different) == count else f"at {len(different)} of {count} settings"
    said = f"{title[0].upper()}{title[1:]} differ {where}: with {sides.name_b} they are {words.listing(steps)}"
    return f"{said}{f'; {rest}' if rest else ''} ({basis})."


_OUTCOME_WORDS = {
    "different": "different",
    "same": "the same",
    "not_distinguishable": "not distinguishable",
    "not_claimed": "not claimed",
}


def _rest(figures: Sequence[MetricCompared]) -> str:
    """Return in words, for each kind of outcome without a difference, at how many settings it occurred."""
    parts = []
    for outcome in ("not_distinguishable", "same", "not_claimed"):
        found = [figure for figure in figures if figure.outcome == outcome]
        if not found:
            continue
        where = f"all {len(found)}" if len(found) == len(figures) else str(len(found))
        why = {"not_distinguishable": _largest(found), "not_claimed": found[0].reason}.get(outcome)
        settings = "settings" if len(found) > 1 else "setting"
        parts.append(f"{_OUTCOME_WORDS[outcome]} at {where} {settings}{f' ({why})' if why else ''}")
    return "; ".join(parts)


def _largest(figures: Sequence[MetricCompared]) -> str:
    """Return in words how large a change would have been found at each of these points; "" if that is unknown."""
    verdicts = [figure.found.verdict for figure in figures if figure.found and figure.found.verdict.detectable]
    if not verdicts:
        return ""
    worst = max(verdicts, key=lambda verdict: verdict.detectable or 0.0)
    if not _could(worst, figures[0].metric):
        return f"intervals too wide, n = {worst.estimate.n}"
    return words.could_find(worst, words.unit_of_change(declared(figures[0].metric))).removeprefix("; ")


def _basis(compared: SidesCompared, figures: Sequence[MetricCompared]) -> str:
    found = [figure.found for figure in figures if figure.found]
    n = _n_text(min(one.n_a for one in found), min(one.n_b for one in found)) if found else "n = 0"
    if not any(figure.outcome in _JUDGED for figure in figures):
        return n
    if by_known := _by_known(figures):
        return f"{n}; {by_known}"
    together = " that hold together" if len(figures) > 1 else ""
    return f"95 % intervals{together}, {_HOW[compared.method]}, {n}"


def _rests_on_known(compared: SidesCompared) -> bool:
    return any(figure.found.verdict.estimate.times is not None for figure in compared.figures if figure.found)


def _by_known(figures: Sequence[MetricCompared]) -> str:
    """Return the words for claims that are based on the known scatter of a count; "" if they are based on the runs' own
    scatter."""
    judged = [figure.found.verdict.estimate for figure in figures if figure.found and figure.outcome in _JUDGED]
    times = [estimate.times for estimate in judged if estimate.times is not None]
    differ = "the usual difference of two runs"
    if not times:
        return ""
    if len(times) < len(judged):
        return f"95 % intervals, or {CLAIM_TIMES:g} times {differ}"
    n = known_scatter.runs(declared(figures[0].metric))
    if len(times) == 1:
        shown = f"{times[0]:.0f}" if times[0] >= 10 else f"{times[0]:.1f}"
        return f"the change is {shown} times {differ}, known from {n} earlier runs"
    return f"claimed are changes of more than {CLAIM_TIMES:g} times {differ}, known from {n} earlier runs"


def _n_text(n_a: int, n_b: int) -> str:
    return f"n = {n_a} a side" if n_a == n_b else f"n = {n_a} and {n_b}"


def _cells(figure: MetricCompared) -> tuple[str, ...]:
    """Return a metric's cells at a point: both values, n, verdict, change, smallest change that would be found."""
    verdict = _OUTCOME_WORDS[figure.outcome]
    if figure.found is None:
        return (words.NOTHING, words.NOTHING, "0", verdict, words.NOTHING, words.NOTHING)
    found, metric = figure.found, figure.metric
    n = str(found.n_a) if found.n_a == found.n_b else f"{found.n_a}, {found.n_b}"
    change = could = words.NOTHING
    if figure.outcome == "different":
        change = claimed(found.verdict, metric)
    elif figure.outcome == "not_distinguishable":
        change = words.signed_change(found.verdict, words.unit_of_change(declared(metric)))
    if found.verdict.detectable is not None:
        could = _could(found.verdict, metric) or _TOO_MUCH
    return (
        words.cell(declared(metric), found.value_a),
        words.cell(declared(metric), found.value_b),
        n,
        verdict,
        change,
        could,
    )


def _could(verdict: Verdict, metric: str) -> str:
    """Return the change that would have been found in four comparisons of five, as "1.2 %"; "" if none is known."""
    return words.detectable(verdict, words.unit_of_change(declared(metric)))


def claimed(verdict: Verdict, metric: str) -> str:
    """Return the size and direction of a claimed change: "6.1–7.9 % higher"."""
    return f"{words.change(verdict, words.unit_of_change(declared(metric)))} {_FOUND[verdict.direction]}"


def title_of(metric: str) -> str:
    """Return the title of a metric, with its phase if it has one: "Range scan: reads per row"."""
    phase, _ = phase_of(metric)
    if not phase:
        return declared(metric).label
    said = f"{phase.replace('_', ' ')}: {words.lowered(declared(metric).label)}"
    return said[0].upper() + said[1:]


def title_within(metric: str) -> str:
    """Return the title of a metric for use within a sentence: "range scan: reads per row"."""
    return words.lowered(title_of(metric))
