"""The chapter on several factors at once on a bare file: their effects on the mean and the scatter of reads.

A sentence names the factor with the largest effect. The intervals of all effects hold together (stats/factors.py).
"""

from __future__ import annotations

from dataclasses import replace

from bufferlab.chapter import words
from bufferlab.chapter.analysis import Analysis
from bufferlab.chapter.blocks import Column, Row, Section, Table
from bufferlab.stats.factors import Effect, Observation, effects

#: Figures told of every effect; what the sweep asks for stands first in the sentence.
SCATTER, COST = "reads_cv", "requests_per_read"
_FIGURES = ("iops", SCATTER, "requests_cv", COST, "read_amplification", "cpu_us_per_transaction")
#: The factor on which the effects of the others depend most: whether the page cache is in the way.
_SPLIT = "io_mode"
#: What a sentence says of each figure's effects, and which way it tells them: up, or down.
_ASKED = {
    SCATTER: ("makes reads erratic", 1),
    "iops": ("slows reads", -1),
    COST: ("makes a read take more requests", 1),
}
#: A sweep over kinds of devices asks what makes reads erratic.
_ASKS_FOR_SCATTER = "device"


def swept_factors(analysis: Analysis) -> dict[str, list[str]]:
    """Settings with more than one value, and their values, in the order of the plan."""
    found: dict[str, list[str]] = {}
    for point in sorted(analysis.points, key=lambda point: point.index):
        for name, value in point.swept.items():
            levels = found.setdefault(name, [])
            if value not in levels:
                levels.append(value)
    return {name: levels for name, levels in found.items() if len(levels) > 1}


def factor_effects(analysis: Analysis, metric: str, within: tuple[str, str] | None = None) -> list[Effect]:
    """Return the effects on one figure; `within` looks only at runs at one level of a factor."""
    factors = swept_factors(analysis)
    if within:
        factors = {name: levels for name, levels in factors.items() if name != within[0]}
    observations = [
        Observation(point.swept, block, value)
        for point in analysis.points
        if within is None or point.swept.get(within[0]) == within[1]
        for _, block, value in point.values(metric)
    ]
    return effects(observations, factors)


def factors(analysis: Analysis) -> Section | None:
    """Return tables of all effects, and of those within each io_mode; None where fewer than two factors were swept."""
    swept = swept_factors(analysis)
    if len(swept) < 2:
        return None
    tables = [_table(analysis, "factor-effects", "Effect of each factor, the others being equal", None)]
    if len(swept) > 2:
        tables += [
            _table(analysis, f"factor-effects-{level}", f"The same with {_SPLIT} {level}", (_SPLIT, level))
            for level in swept.get(_SPLIT, ())
        ]
    intro = (
        "Each number is a ratio: what the figure is multiplied by when the setting goes from the first value to the "
        "second and everything else stays. A factor may matter in one io_mode alone; the tables for each say so."
    )
    return Section("factors", "Which factor does what", intro, tuple(table for table in tables if table.rows))


def _table(analysis: Analysis, id: str, title: str, within: tuple[str, str] | None) -> Table:
    cells: dict[tuple[str, str, str], dict[str, Effect]] = {}
    for metric in _FIGURES:
        for effect in factor_effects(analysis, metric, within):
            cells.setdefault((effect.factor, effect.base, effect.level), {})[metric] = effect
    rows = []
    for (factor, base, level), found in cells.items():
        n = max(effect.ratio.n for effect in found.values())
        shown = (_cell(found.get(metric)) for metric in _FIGURES)
        rows.append(Row((factor.replace("_", " "), f"{base} → {level}", str(n), *shown)))
    columns = (
        Column("Factor", numeric=False),
        Column("From → to", numeric=False),
        Column("n (blocks)"),
        *(Column(words.title_of(metric), numeric=False) for metric in _FIGURES),
    )
    caption = (
        "Ratios with 95 % intervals that hold together for all effects of a column. Without an interval: one block."
    )
    brief = ("Factor", "From → to", words.title_of("iops"), words.title_of(SCATTER), words.title_of(COST))
    return Table(id, title, columns, tuple(rows), caption, brief=brief if within is None else ())


def _cell(effect: Effect | None) -> str:
    if effect is None:
        return words.NOTHING
    if effect.ratio.identical:
        return "identical"
    if words.is_unknown(effect.ratio) and not effect.resolved:
        return words.nothing_known(effect.ratio.n)
    shown = f"× {words.with_bounds(effect.ratio)}"
    return shown if effect.resolved or not effect.ratio.has_interval else f"{shown}, not resolved"


def answer(analysis: Analysis) -> list[str]:
    """Return the sentences that replace the headline's change where factors were swept on a bare file.

    They tell the effects on the figure asked for and on the rate; the section's tables have all others.
    """
    asked = asked_figure(analysis)
    if asked is None:
        return []
    return [said for metric in (asked, "iops") if (said := _sentence(metric, factor_effects(analysis, metric)))]


def asked_figure(analysis: Analysis) -> str | None:
    """Return the figure that a sweep of factors on a bare file asks for; None for any other sweep."""
    swept = swept_factors(analysis)
    if len(swept) < 2:
        return None
    return SCATTER if _ASKS_FOR_SCATTER in swept else COST


def _sentence(metric: str, found: list[Effect]) -> str:
    if not found:
        return ""
    does, way = _ASKED[metric]
    found = [_oriented(effect, way) for effect in found]
    title = words.title_of(metric)
    title = f"{title[0].lower()}{title[1:]}"
    n = min(effect.ratio.n for effect in found)
    if not any(effect.ratio.has_interval or effect.ratio.identical for effect in found):
        largest = max(found, key=lambda effect: effect.size)
        return (
            f"What {does} most is not claimed after {words.plural(n, 'block')}; seen: {_named(largest)} "
            f"(× {words.number(largest.ratio.value)}, {title})."
        )
    resolved = sorted((effect for effect in found if effect.resolved), key=lambda effect: -effect.size)
    rest = list(dict.fromkeys(effect.factor.replace("_", " ") for effect in found))
    rest = [name for name in rest if name not in {effect.factor.replace("_", " ") for effect in resolved}]
    unresolved = f"; not resolved: {words.listing(rest)}" if rest else ""
    basis = f"{title}, 95 % intervals that hold together, n = {n} blocks"
    if not resolved:
        return f"No factor was shown to be what {does} ({basis})."
    first, *more = resolved
    also = f"; then {words.listing([_told(effect) for effect in more[:3]])}" if more else ""
    return f"What {does} most is {_told(first)}{also}{unresolved} ({basis})."


def _oriented(effect: Effect, way: int) -> Effect:
    """Return the same effect in the direction in which the figure rises (way 1) or falls (-1)."""
    ratio = effect.ratio
    if (ratio.value >= 1) == (way > 0):
        return effect
    bounds = (None if bound is None else 1 / bound for bound in (ratio.ci_high, ratio.ci_low))
    low, high = bounds
    turned = replace(ratio, value=1 / ratio.value, ci_low=low, ci_high=high)
    return Effect(effect.factor, effect.level, effect.base, turned)


def _named(effect: Effect) -> str:
    return f"{effect.factor.replace('_', ' ')} from {effect.base} to {effect.level}"


def _told(effect: Effect) -> str:
    return f"{_named(effect)} (× {words.with_bounds(effect.ratio)})"
