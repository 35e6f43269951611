"""Takes in the engines' own metrics, formulas and checks. Knows no engine by name.

The engines' registry hands them in once, when it is imported. Until then only the metrics that every engine may have
are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bufferlab.results import derive, metrics
from bufferlab.results.check import ENGINES, EngineResults
from bufferlab.results.window import COURSES


def hand_in(engines: Mapping[str, EngineResults]) -> None:
    """Add what each engine owns, by its name; what several engines share is added once."""
    owners = list({id(owned): owned for owned in engines.values()}.values())
    shared = [name for name, metric in metrics.RAW.items() if not metric.source]
    for owned in owners:
        if unknown := owned.words.keys() - set(shared):
            raise AssertionError(f"words for {sorted(unknown)}, which no other engine may have")
        metrics.declare(owned.raw, owned.derived)
        derive.add(owned.derived, owned.quantities)
        COURSES.update(owned.courses)
    source = "; ".join(owned.source for owned in owners if owned.source)
    for name in shared:
        said = "; ".join(owned.words[name] for owned in owners if name in owned.words)
        metric = metrics.RAW[name]
        meaning = f"{metric.meaning} ({said})" if said else metric.meaning
        metrics.RAW[name] = replace(metric, meaning=meaning, source=source)
    ENGINES.update(engines)
