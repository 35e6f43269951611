"""The registry: one object with all metrics, each engine's part of the results, and the parameters of all workloads.

`bufferlab.registry` makes it once from the declarations of engines and workloads, and every open sweep folder refers
to it. This module names no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from bufferlab.knob import Knob
from bufferlab.results import metrics
from bufferlab.results.check_parts import EngineResults
from bufferlab.results.metrics import Metric


class WorkloadQuestion(Protocol):
    """The question that a workload asks of a sweep, and the workload's parameters."""

    @property
    def headline(self) -> str:
        """Return the metric that answers the question."""

    @property
    def compared(self) -> tuple[str, ...]:
        """Return the metrics whose steps from point to point are judged, the headline first."""

    @property
    def parameters(self) -> tuple[Knob, ...]:
        """Return the parameters that a user may set."""


@dataclass(frozen=True)
class Registry:
    """All metrics, engines, and the workloads' questions and parameters, each by its name."""

    raw: Mapping[str, Metric]
    """The metrics that probes and engines emit."""
    derived: Mapping[str, Metric]
    """The values that are computed for a run from its edge samples and latency histograms."""
    engines: Mapping[str, EngineResults]
    questions: Mapping[str, WorkloadQuestion]
    """The question that a sweep of a workload answers, by the workload's name."""
    parameters: Mapping[str, tuple[Knob, ...]]
    """The workloads' parameters by their name in run.json. Parameters of several workloads may share a name."""

    @classmethod
    def of(cls, engines: Mapping[str, EngineResults], questions: Mapping[str, WorkloadQuestion]) -> Registry:
        """Return the registry of these engines and these workloads' questions.

        Raises AssertionError if a metric is declared twice, or if an engine describes a metric that is not in the table
        `Engine`.
        """
        # Engines of a family share one `results` object.
        owners = list({id(owned): owned for owned in engines.values()}.values())
        raw = [*metrics.RAW, *(metric for owned in owners for metric in owned.raw)]
        derived = [*metrics.DERIVED, *(metric for owned in owners for metric in owned.derived)]
        names: set[str] = set()
        for metric in (*raw, *derived):
            if metric.name in names:
                raise AssertionError(f"{metric.name} is declared twice")
            names.add(metric.name)
        shared = {metric.name for metric in metrics.RAW if not metric.source}
        if unknown := {name for owned in owners for name in owned.words} - shared:
            raise AssertionError(f"words for {sorted(unknown)}, which no other engine may have")
        named: dict[str, tuple[Knob, ...]] = {}
        for knob in (knob for question in questions.values() for knob in question.parameters):
            named[knob.spelling] = (*named.get(knob.spelling, ()), knob)
        told = {metric.name: _told(metric, owners) if metric.name in shared else metric for metric in raw}
        return cls(told, {metric.name: metric for metric in derived}, engines, questions, named)

    def metric(self, name: str) -> Metric:
        """Return the declaration of a metric, raw or derived. A phase before the name, as in "scan.reads", is ignored.

        Raises KeyError for an unknown name.
        """
        _, bare = metrics.phase_of(name)
        found = self.raw.get(bare) or self.derived.get(bare)
        if found is None:
            raise KeyError(f"no metric is called {name!r}")
        return found

    def everything(self) -> list[Metric]:
        """Return all metrics in the order in which they are declared, raw metrics first."""
        return [*self.raw.values(), *self.derived.values()]

    def of_engine(self, name: str) -> EngineResults:
        """Return the declarations on an engine's results; for an unknown engine, those of any database."""
        return self.engines.get(name, EngineResults(pool="pool_size"))

    def fits(self, name: str, told: object) -> bool:
        """Return whether any workload accepts this value of a parameter; True for a name that no workload declares."""
        knobs = self.parameters.get(name, ())
        return not knobs or any(knob.fits(told) for knob in knobs)

    @property
    def courses(self) -> frozenset[str]:
        """Return the counters of all engines of which a window keeps every sample, not only the two edge samples."""
        return frozenset().union(*(owned.courses for owned in self.engines.values()))


def _told(metric: Metric, owners: list[EngineResults]) -> Metric:
    """Return a metric of the table `Engine` with each engine's meaning and source added."""
    said = "; ".join(owned.words[metric.name] for owned in owners if metric.name in owned.words)
    source = "; ".join(owned.source for owned in owners if owned.source)
    return replace(metric, meaning=f"{metric.meaning} ({said})" if said else metric.meaning, source=source)
