"""Quantities that samples give by themselves: the change of a counter in a window, a gauge's level, and the seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bufferlab.results.metrics import Metric
from bufferlab.results.quantity import Quantity, Unit
from bufferlab.results.window import Value, Window


def elapsed() -> Quantity:
    """Return the seconds between the two edge samples."""

    def seconds(window: Window) -> Value:
        if window.seconds is None:
            return Value(None, "the run has no edge samples: it ended before its measured window did")
        if window.seconds == 0:
            return Value(None, "no time passes in this window: it was predicted by a model without time")
        return Value(window.seconds)

    return Quantity(Unit.parse("s"), seconds, "the window's length", frozenset())


class Sampled:
    """The quantities that samples give, in the units declared: changes of counters, levels of gauges."""

    def __init__(self, *tables: Iterable[Metric]) -> None:
        self._declared = {metric.name: metric for table in tables for metric in table}

    def counted(self, metric: str, subject: str | None = None) -> Quantity:
        """Return the change of a counter over the window."""
        declared = self._known(metric)
        if declared.kind != "counter":
            raise AssertionError(f"{metric} is a {declared.kind}: only counters go by difference")
        return Quantity(
            Unit.parse(declared.unit), lambda window: window.change(metric, subject), metric, frozenset({metric})
        )

    def mean_of(self, metric: str) -> Quantity:
        """Return the mean of a gauge over the window's time."""
        return self._level(metric, lambda window: window.time_mean(metric))

    def lowest_of(self, metric: str) -> Quantity:
        """Return the smallest sample of a gauge in the window."""
        return self._level(metric, lambda window: window.lowest(metric))

    def first_of(self, metric: str) -> Quantity:
        """Return a gauge at the window's first edge."""
        return self._level(metric, lambda window: window.first_level(metric))

    def last_of(self, metric: str) -> Quantity:
        """Return a gauge at the window's last edge."""
        return self._level(metric, lambda window: window.level(metric))

    def _level(self, metric: str, evaluate: Callable[[Window], Value]) -> Quantity:
        declared = self._known(metric)
        if declared.kind != "gauge":
            raise AssertionError(f"{metric} is a {declared.kind}: only gauges have a level")
        return Quantity(Unit.parse(declared.unit), evaluate, metric, frozenset({metric}))

    def _known(self, metric: str) -> Metric:
        if metric not in self._declared:
            raise AssertionError(f"no counter, gauge or quantity is called {metric}")
        return self._declared[metric]
