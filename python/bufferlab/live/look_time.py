"""Predicts how long an observation and its evaluation take: for the user's consent, and for the progress bar.

An observation may end before its planned time, because the tier `misses` ends once it has recorded enough evictions.
All functions are pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bufferlab.live.tiers import Foretold, Stage
from bufferlab.units import format_duration

LEAST_MISSES_S = 120.0
"""The least seconds for which `misses` stays attached, because its bounds come from the scatter of time slices."""
STAGE_S = 0.7
"""The seconds that a stage takes in addition to its planned time.

A stage ends with the first sample after its planned time, and attaching, detaching and reading the record take time.
Observations of 90 and 120 s with nine stages took 96 and 128 s on MySQL 5.7.
"""
EVALUATION_S = 1.0
EVALUATED_US = 0.5
"""The evaluation time for each event in microseconds. EVALUATION_S seconds come on top, for the models and the report.

On an AMD EPYC with other work the answer took 0.6 s for 0.5 million events, and 1.6 s for 8.6 million.
"""
_SURE_S = 10.0
"""After this many seconds, the rate of evictions in the observation itself predicts its end better than the rate before
it."""


@dataclass(frozen=True)
class Pace:
    """The quantities from which an observation's time is computed."""

    pages_wanted: float
    """The number of evictions after which `misses` ends, enough for the largest size; 0 or less if it takes all of its
    time."""
    evictions_per_s: float = 0.0
    """The evictions per second before any recorder was attached."""
    events: float = 0.0
    """The predicted number of events of `full` to record and evaluate."""

    @property
    def evaluation_s(self) -> float:
        """Return the seconds of the evaluation after the observation."""
        return EVALUATION_S + EVALUATED_US * self.events / 1e6

    def stage_s(self, stage: Stage, evictions_per_s: float | None = None) -> float:
        """Return the seconds that a stage will take: `misses` ends early once it has recorded enough evictions.

        >>> Pace(30_000, 100).stage_s(Stage("misses", 590)), Pace(30_000, 100).stage_s(Stage("full", 10))
        (300.0, 10)
        """
        per_s = self.evictions_per_s if evictions_per_s is None else evictions_per_s
        if stage.tier != "misses" or self.pages_wanted <= 0 or per_s <= 0:
            return stage.seconds
        return min(stage.seconds, max(LEAST_MISSES_S, self.pages_wanted / per_s))

    def look_s(self, stages: Sequence[Stage]) -> float:
        """Return the seconds that these stages will take together."""
        return sum(self.stage_s(one) + STAGE_S for one in stages)

    def left_s(self, planned: Sequence[Stage], place: int, spent_s: float, evicted: int | None) -> float:
        """Return the seconds left, evaluation included, after `spent_s` seconds of the stage with index `place`.

        `evicted` are the evictions that `misses` has recorded in this stage; None for other stages.
        """
        if place >= len(planned):
            return self.evaluation_s
        per_s = evicted / spent_s if evicted is not None and spent_s >= _SURE_S else None
        this_s = max(0.0, self.stage_s(planned[place], per_s) + STAGE_S - spent_s)
        return this_s + self.look_s(planned[place + 1 :]) + self.evaluation_s


def pace(foretold: Sequence[Foretold], pages_wanted: float, evictions_per_s: float) -> Pace:
    """Return the `Pace` of an observation from the rates before any recorder was attached."""
    events = sum(one.events_per_s * one.seconds for one in foretold if one.tier == "full")
    return Pace(pages_wanted, evictions_per_s, events)


def sentence(planned: Sequence[Stage], found: Pace) -> str:
    """Return in words the predicted time of an observation, its evaluation included."""
    expected_s = found.look_s(planned) + found.evaluation_s
    most_s = sum(one.seconds + STAGE_S for one in planned) + found.evaluation_s
    most = f", {format_duration(most_s)} at most" if math.ceil(most_s) > 1.05 * expected_s else ""
    early = " (until enough pages were evicted)" if most else ""
    return (
        f"Until the answer it takes about {format_duration(expected_s)}{early}{most}. Ctrl-C ends it earlier, with the "
        "answer so far."
    )
