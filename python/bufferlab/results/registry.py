"""The registry: all metrics, each engine's parts of the results, and the parameters of all workloads, in one object.

It is made once, by `bufferlab.registry`, from the declarations of engines and workloads, and handed down with a sweep's
folder. It knows no engine by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from bufferlab.knob import Knob
from bufferlab.results import metrics
from bufferlab.results.check import EngineResults
from bufferlab.results.metrics import Metric


class WorkloadQuestion(Protocol):
    """The question that a workload asks of a sweep, and the workload's parameters."""

    @property
    def headline(self) -> str:
        """Return the metric that answers the question."""

    @property
    def compared(self) -> tuple[str, ...]:
        """Return the metrics whose steps are judged, the headline first."""

    @property
    def parameters(self) -> tuple[Knob, ...]:
        """Return the parameters that a user may set."""


@dataclass(frozen=True)
class Registry:
    """Everything declared of results, each by its name."""

    raw: Mapping[str, Metric]
    """The metrics that probes and engines emit."""
    derived: Mapping[str, Metric]
    """The values of a run: of its edge samples, all but those of histograms."""
    engines: Mapping[str, EngineResults]
    questions: Mapping[str, WorkloadQuestion]
    """The question that each workload asks of a sweep, by the workload's name."""
    parameters: Mapping[str, tuple[Knob, ...]]
    """The workloads' parameters, by their name in run.json: workloads may share a name, and each has its own words for
    it."""

    @classmethod
    def of(cls, engines: Mapping[str, EngineResults], questions: Mapping[str, WorkloadQuestion]) -> Registry:
        """Return the registry of these engines' results, and of the questions of workloads.

        AssertionError if a metric is declared twice, or an engine has words for one that no other engine may have.
        """
        owners = list({id(owned): owned for owned in engines.values()}.values())  # Engines of one family share theirs.
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
        """Return the declaration of one metric, raw or derived. A phase's value has the same one as the window's."""
        _, bare = metrics.phase_of(name)
        found = self.raw.get(bare) or self.derived.get(bare)
        if found is None:
            raise KeyError(f"no metric is called {name!r}")
        return found

    def everything(self) -> list[Metric]:
        """Return all metrics, raw first, in the order declared."""
        return [*self.raw.values(), *self.derived.values()]

    def of_engine(self, name: str) -> EngineResults:
        """Return the part of the results that an engine owns; for an unknown engine, the part of any database."""
        return self.engines.get(name, EngineResults(pool="pool_size"))

    def fits(self, name: str, told: object) -> bool:
        """Return whether some workload may have run with this value; true of a name that no workload declares."""
        knobs = self.parameters.get(name, ())
        return not knobs or any(knob.fits(told) for knob in knobs)

    @property
    def courses(self) -> frozenset[str]:
        """Return the counters whose course through a window any engine's values need."""
        return frozenset().union(*(owned.courses for owned in self.engines.values()))


def _told(metric: Metric, owners: list[EngineResults]) -> Metric:
    """Return a metric that every engine may have, with each engine's meaning of it."""
    said = "; ".join(owned.words[metric.name] for owned in owners if metric.name in owned.words)
    source = "; ".join(owned.source for owned in owners if owned.source)
    return replace(metric, meaning=f"{metric.meaning} ({said})" if said else metric.meaning, source=source)
