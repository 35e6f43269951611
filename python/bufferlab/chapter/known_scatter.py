"""Computes the known scatter of a sweep's counts at each point, for fits of sweeps with one or two runs per point."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from bufferlab.results.check_parts import MeasuredRun
from bufferlab.results.metrics import Metric, Rates
from bufferlab.stats.known_scatter import known_scatters, workloads

_Point = TypeVar("_Point", bound=Hashable)
#: Count per unit of work whose scatter is known -> the counter that it is computed from.
COUNTED = {"reads": "pages_read", "misses": "demand_misses", "page_gets": "page_gets", "read_bytes": "pages_read"}
#: Shares of gets -> the counter of the events in the share. Their scatter follows from that of the events and the gets.
_SHARES_OF_GETS = dict.fromkeys((Rates.hit_ratio.name, Rates.miss_ratio.name), "demand_misses")
_WORK_DONE = {"new_order": "new_orders", "transaction": "transactions"}


def deviations(points: Mapping[_Point, Sequence[MeasuredRun]], metric: Metric) -> dict[Hashable, float]:
    """Return point -> known standard deviation of one run's value, in the metric's unit.

    Return {} for metrics that are neither in COUNTED nor hit or miss ratio, for workloads without a known scatter, and
    for predicted runs. Points whose runs lack the counter or the metric are left out.
    """
    counter = _counter(metric)
    if counter is None or not all(_is_known(run) for runs in points.values() for run in runs):
        return {}
    if metric.name in _SHARES_OF_GETS:
        shares = {point: _of_share(runs, counter) for point, runs in points.items()}
        return {point: deviation for point, deviation in shares.items() if deviation is not None}
    found: dict[Hashable, float] = {}
    for point, runs in points.items():
        counted = _mean([run.window.change(counter).value for run in runs])
        value = _mean([run.values[metric.name].value for run in runs])
        if counted is not None and value is not None and (value or metric.top_unit != "bytes"):
            of_one = value / counted if counted else _of_one(runs, metric)
            found[point] = known_scatters()[counter].deviation(counted) * of_one
    return found


def runs(metric: Metric) -> int:
    """Return the number of runs from which the known scatter of a metric was computed."""
    counter = _counter(metric)
    assert counter is not None, f"{metric.name} has no known scatter"
    return known_scatters()[counter].runs


def _counter(metric: Metric) -> str | None:
    return _SHARES_OF_GETS.get(metric.name) or COUNTED.get(metric.count)


def _of_share(runs: Sequence[MeasuredRun], counter: str) -> float | None:
    """Return the standard deviation of a share of gets; None without counts.

    The formula takes events and gets as independent. A run with more gets also has more events, so that the true
    deviation is smaller.
    """
    events, gets = (_mean([run.window.change(name).value for run in runs]) for name in (counter, "page_gets"))
    if events is None or not gets:
        return None
    of_events, of_gets = known_scatters()[counter].deviation(events), known_scatters()["page_gets"].deviation(gets)
    return math.hypot(of_events / gets, events / gets * (of_gets / gets))


def _of_one(runs: Sequence[MeasuredRun], metric: Metric) -> float:
    """Return the metric's value of a single event: one divided by the work done in the window."""
    done = _mean([run.values[_WORK_DONE[metric.work or "transaction"]].value for run in runs])
    return 1 / done if done else 0.0


def _is_known(run: MeasuredRun) -> bool:
    return run.run.source == "measured" and run.run.workload.get("name") in workloads()


def _mean(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) / len(told) if told else None
