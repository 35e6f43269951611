"""The chapters that random reads of a bare file add to a report: the cost of a read, and the effect of each factor.

The chapter of costs has a column each for the bytes requested, the pages that these cover, and the expected, actual and
modelled device reads. Readers easily confuse four counts: reads, pages touched, pages missed, and requests.

The chapter of factors has their effects on the mean and the scatter of reads. A sentence names the factor with the
largest effect. The confidence intervals of all effects hold simultaneously (stats/factors.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis, PointRuns
from bufferlab.chapter.elements import Column, EffectsPlot, Figure, Ratio, Row, Section, Table
from bufferlab.chapter.engine_chapters import EngineChapters
from bufferlab.chapter.point_table import Heads, means_over_runs, point_table
from bufferlab.stats.factors import Effect, FactorRun, effects
from bufferlab.theory.random_read import pages_per_read

#: The two metrics one of which a sweep of factors examines. `_FIGURES` are the metrics whose effects the tables show.
SCATTER, COST = "reads_cv", "requests_per_read"
_FIGURES = ("iops", SCATTER, "requests_cv", COST, "read_amplification", "cpu_us_per_transaction")
#: The factor that most changes the effects of other factors: whether reads pass through the page cache.
_SPLIT = "io_mode"
#: For each metric the words for its effects, and the direction that the sweep looks for: 1 for a rise, -1 for a fall.
_ASKED = {
    SCATTER: ("makes reads erratic", 1),
    "iops": ("slows reads", -1),
    COST: ("makes a read take more requests", 1),
}
#: The setting (the kind of device) that shows, if it is swept, that the sweep examines the scatter of reads.
_ASKS_FOR_SCATTER = "device"


def swept_factors(analysis: Analysis) -> dict[str, list[str]]:
    """Return the settings with more than one value, each with its values, in the order of the plan."""
    found: dict[str, list[str]] = {}
    for point in sorted(analysis.points, key=lambda point: point.index):
        for name, value in point.swept.items():
            levels = found.setdefault(name, [])
            if value not in levels:
                levels.append(value)
    return {name: levels for name, levels in found.items() if len(levels) > 1}


def factor_effects(analysis: Analysis, metric: str, within: tuple[str, str] | None = None) -> list[Effect]:
    """Return the effects of the swept settings on one metric.

    `within` (factor, level) uses only the runs at this level of that factor.
    """
    factors = swept_factors(analysis)
    if within:
        factors = {name: levels for name, levels in factors.items() if name != within[0]}
    observations = [
        FactorRun(point.swept, block, value)
        for point in analysis.points
        if within is None or point.swept.get(within[0]) == within[1]
        for _, block, value in point.values(metric)
    ]
    return effects(observations, factors)


def factors(analysis: Analysis) -> Section | None:
    """Return the section with a figure and tables of all effects; None if fewer than two factors were swept.

    From three factors on it also has a table for the runs at each io_mode.
    """
    swept = swept_factors(analysis)
    if len(swept) < 2:
        return None
    tables = [_table(analysis, "factor-effects", "Effect of each factor, the others being equal", None)]
    if len(swept) > 2:
        tables += [
            _table(
                analysis,
                f"factor-effects-{level}",
                f"The same with {analysis.setting_label(_SPLIT, level)} reads alone",
                (_SPLIT, level),
            )
            for level in swept.get(_SPLIT, ())
        ]
    intro = (
        "Each number is a ratio: what the figure is multiplied by when the setting goes from the first value to the "
        "second and everything else stays. A factor may matter with direct or with buffered reads "
        "alone; the tables for each say so."
    )
    blocks = (_figure(analysis, swept), *(table for table in tables if table.rows))
    return Section("factors", "Which factor does what", intro, tuple(filter(None, blocks)))


def _figure(analysis: Analysis, swept: dict[str, list[str]]) -> Figure | None:
    """Return a figure of the factors' effects on the sweep's metric and on the rate of reads, with intervals.

    Return None if no effect on either can be computed.
    """
    asked = asked_figure(analysis)
    levels = swept.get(_SPLIT, []) if len(swept) > 2 else []
    names = ("all runs", *(f"{analysis.setting_label(_SPLIT, level)} alone" for level in levels))
    panels = [metric for metric in (asked, "iops") if metric and factor_effects(analysis, metric)]
    places: dict[tuple[str, str, str], dict[tuple[str, str], Effect]] = {}
    for metric in panels:
        for name, within in zip(names, (None, *((_SPLIT, level) for level in levels)), strict=True):
            for effect in factor_effects(analysis, metric, within):
                places.setdefault((effect.factor, effect.base, effect.level), {})[metric, name] = effect
    if not places:
        return None
    rows = tuple(_step(analysis, *place) for place in places)
    ratios = tuple(
        tuple(tuple(_ratio(found.get((metric, name))) for name in names) for found in places.values())
        for metric in panels
    )
    titles = tuple(analysis.metric(metric).label for metric in panels)
    plot = EffectsPlot(rows, names, titles, ratios)
    title = "The effect of each factor"
    caption = (
        "Ratios: what each setting multiplies the figure by while everything else stays. Bars are 95 % intervals that "
        "hold together; one that does not cross the line at × 1 is an effect. The axes are logarithmic."
        + (" Where an arrow stands, the interval goes on." if plot.cuts_intervals else "")
    )
    told = (
        f"{row}: {_cell(found.get((panels[0], names[0])))}" for row, found in zip(rows, places.values(), strict=True)
    )
    alt = f"{title} on {titles[0][0].lower()}{titles[0][1:]}. {'; '.join(told)}."
    return Figure("effects", title, alt, caption, plot, _effects_data(plot, title))


def _ratio(effect: Effect | None) -> Ratio | None:
    return None if effect is None else Ratio(effect.ratio.value, effect.ratio.ci_low, effect.ratio.ci_high)


def _effects_data(plot: EffectsPlot, title: str) -> Table:
    rows = []
    for metric, of_metric in zip(plot.panels, plot.ratios, strict=True):
        for effect, of_row in zip(plot.rows, of_metric, strict=True):
            for name, one in zip(plot.series, of_row, strict=True):
                if one is not None:
                    ends = (words.NOTHING if end is None else f"{end:.6g}" for end in (one.low, one.high))
                    rows.append(Row((metric, effect, name, f"{one.value:.6g}", *ends)))
    texts = tuple(Column(head, numeric=False) for head in ("Figure", "Effect", "Runs"))
    columns = (*texts, *map(Column, ("ratio", "95 % from", "to")))
    return Table("effects-data", f"Data: {title}", columns, tuple(rows), folded=True)


def _name(analysis: Analysis, factor: str) -> str:
    said = analysis.knob_words.get(factor)
    return said.said if said else factor.replace("_", " ")


def _step(analysis: Analysis, factor: str, base: str, level: str) -> str:
    """Return the change of a factor between two levels, in words: "read-ahead 128 KiB → 0 KiB"."""
    return f"{analysis.setting_label(factor, base)} → {analysis.value_label(factor, level)}"


def _table(analysis: Analysis, id: str, title: str, within: tuple[str, str] | None) -> Table:
    cells: dict[tuple[str, str, str], dict[str, Effect]] = {}
    for metric in _FIGURES:
        for effect in factor_effects(analysis, metric, within):
            cells.setdefault((effect.factor, effect.base, effect.level), {})[metric] = effect
    rows = []
    for (factor, base, level), found in cells.items():
        n = max(effect.ratio.n for effect in found.values())
        shown = (_cell(found.get(metric)) for metric in _FIGURES)
        rows.append(Row((_step(analysis, factor, base, level), str(n), *shown)))
    columns = (
        Column("From → to", numeric=False),
        Column("n (blocks)"),
        *(Column(analysis.metric(metric).label, numeric=False) for metric in _FIGURES),
    )
    caption = (
        "Ratios with 95 % intervals that hold together for all effects of a column. A ratio without an interval was "
        "told by one block only, or was the same in every block."
    )
    brief = ("From → to", analysis.metric("iops").label, analysis.metric(SCATTER).label, analysis.metric(COST).label)
    return Table(id, title, columns, tuple(rows), caption, brief=brief if within is None else ())


def _cell(effect: Effect | None) -> str:
    if effect is None:
        return words.NOTHING
    if effect.ratio.identical:
        return "identical"
    if words.is_unknown(effect.ratio) and not effect.resolved:
        return words.unsure(f"× {words.number(effect.ratio.value)}", effect.ratio)
    shown = f"× {words.ratio(effect.ratio)}"
    return shown if effect.resolved or not effect.ratio.has_interval else f"{shown}, not resolved"


def answer(analysis: Analysis) -> list[str]:
    """Return the sentences that replace the headline's change if factors were swept on a bare file.

    They give the effects on the sweep's metric and on the rate; the section's tables have all other effects.
    """
    asked = asked_figure(analysis)
    if asked is None:
        return []
    return [
        said for metric in (asked, "iops") if (said := _sentence(analysis, metric, factor_effects(analysis, metric)))
    ]


def asked_figure(analysis: Analysis) -> str | None:
    """Return the metric that a sweep of factors on a bare file examines; None for any other sweep."""
    swept = swept_factors(analysis)
    if len(swept) < 2:
        return None
    return SCATTER if _ASKS_FOR_SCATTER in swept else COST


def _sentence(analysis: Analysis, metric: str, found: list[Effect]) -> str:
    if not found:
        return ""
    does, way = _ASKED[metric]
    found = [_oriented(effect, way) for effect in found]
    title = words.lowered(analysis.metric(metric).label)
    n = min(effect.ratio.n for effect in found)
    if not any(effect.ratio.has_interval or effect.ratio.identical for effect in found):
        largest = max(found, key=lambda effect: effect.size)
        return (
            f"What {does} most is not claimed after {words.plural(n, 'block')}. {_capital(_named(analysis, largest))} "
            f"was seen to multiply {title} by {words.number(largest.ratio.value)}."
        )
    resolved = sorted((effect for effect in found if effect.resolved), key=lambda effect: -effect.size)
    rest = list(dict.fromkeys(_name(analysis, effect.factor) for effect in found))
    rest = [name for name in rest if name not in {_name(analysis, effect.factor) for effect in resolved}]
    unresolved = f"; not resolved: {words.listing(rest)}" if rest else ""
    basis = f"{title}, 95 % intervals that hold together, n = {n} blocks"
    apart = _without_ratio(analysis, metric, {effect.factor for effect in found})
    if not resolved:
        return f"No factor was shown to be what {does}, by ratios of {basis}.{apart}"
    first, *more = resolved
    also = f"; then {words.listing([_told(analysis, effect) for effect in more[:3]])}" if more else ""
    by = f"{_capital(_named(analysis, first))} {does} most: × {words.ratio(first.ratio)}"
    return f"{by}{also}{unresolved}. These are ratios of {basis}.{apart}"


def _without_ratio(analysis: Analysis, metric: str, judged: Collection[str]) -> str:
    """Return the sentence on runs whose metric was zero, and on the factors that only these runs could have shown."""
    zeros = sum(value <= 0 for point in analysis.points for _, _, value in point.values(metric))
    if not zeros:
        return ""
    left = [_name(analysis, name) for name in swept_factors(analysis) if name not in judged]
    unsaid = f", so nothing is said of {words.listing(left)}" if left else ""
    return f" {words.plural(zeros, 'run')} had none, which has no ratio{unsaid}."


def _oriented(effect: Effect, way: int) -> Effect:
    """Return the effect with its two levels swapped if needed, so that the metric rises (`way` is 1) or falls (-1)."""
    ratio = effect.ratio
    if (ratio.value >= 1) == (way > 0):
        return effect
    bounds = (None if bound is None else 1 / bound for bound in (ratio.ci_high, ratio.ci_low))
    low, high = bounds
    turned = replace(ratio, value=1 / ratio.value, ci_low=low, ci_high=high)
    return Effect(effect.factor, effect.level, effect.base, turned)


def _named(analysis: Analysis, effect: Effect) -> str:
    ends = (analysis.value_label(effect.factor, value) for value in (effect.base, effect.level))
    return f"{_name(analysis, effect.factor)} from {' to '.join(ends)}"


def _told(analysis: Analysis, effect: Effect) -> str:
    return f"{_named(analysis, effect)}: × {words.ratio(effect.ratio)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


_COSTS_ASKED = ("logical_bytes_per_read", "pages_touched_per_read")
_DONE = (
    "pages_first_touched_per_read",
    "requests_expected_per_read",
    "requests_per_read",
    "requests_over_expected",
    "device_bytes_per_read",
    "read_amplification",
)
_RATES = ("iops", "read_mb_per_s", "reads_cv", "reads_dispersion_index", "requests_cv", "cpu_us_per_transaction")
_MODEL = "Pages a read covers, by its alignment"


def random_reads(analysis: Analysis) -> Section:
    """Return the section with the counts per read of each point, and the rates of reads with their scatter."""
    intro = (
        "A read covers whole and partial pages of 4 KiB. Through the page cache without read-ahead each page that is "
        "missing is a request of its own; a direct read is one request of its own size."
    )
    return Section("random-reads", "What a read costs", intro, (_costs(analysis), _rates(analysis)))


def _costs(analysis: Analysis) -> Table:
    of_driver, of_kernel = ({words.heading(analysis.metric(name)): name for name in of} for of in (_COSTS_ASKED, _DONE))
    heads: Heads = {**of_driver, _MODEL: _modelled, **of_kernel}
    caption = (
        f"Per read. {means_over_runs(analysis)}. Pages touched are counted from the offsets that were read, "
        "beside them what size and alignment alone lead one to expect of uniformly random offsets. Pages missed "
        "and expected requests come from a replay of the same offsets over a set of cached pages; with read-ahead the "
        "kernel joins pages, and no number of requests is expected here."
    )
    brief = ("Point", "Pages touched", _MODEL, "Expected requests", "Device requests", "Amplification")
    title = "Asked for, covered, expected, done"
    return point_table(analysis, "read-costs", title, heads, caption, brief=brief)


def _rates(analysis: Analysis) -> Table:
    heads = {words.with_unit(analysis.metric(name).label, analysis.metric(name)): name for name in _RATES}
    caption = (
        "Scatter is that between neighbouring samples of a window, so that the drift of a filling cache is not counted "
        "as scatter. The dispersion index is variance over mean of the reads of one sample interval: one for "
        "independent events at a fixed rate, less for reads that wait for each other."
    )
    return point_table(analysis, "read-rates", "Rates and their scatter", heads, caption)


def _modelled(point: PointRuns) -> str:
    """Return as text the pages per read that theory/random_read.py predicts; NOTHING unless offsets are random."""
    workload = point.ok[0].run.workload
    if workload.get("offsets") != "random":
        return words.NOTHING
    size = int(workload["io_size_bytes"])
    alignment = size if workload["alignment"] == "io_size" else int(workload["alignment"])
    return f"{pages_per_read(size, alignment):.4g}"


CHAPTERS = EngineChapters(
    inside=(factors, random_reads), answer=answer, answers_in=lambda analysis: "factors", figure=asked_figure
)
