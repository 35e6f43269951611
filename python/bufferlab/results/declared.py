"""The parameters of all workloads, against which the values in a stored run are checked.

The workloads' registry hands them in when it is imported. Until then no value is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bufferlab.knob import Knob

PARAMETERS: dict[str, dict[str, Knob]] = {}
"""Workload -> name in run.json -> parameter."""


def hand_in(parameters: Mapping[str, Iterable[Knob]]) -> None:
    """Add the parameters of workloads, by the workload's name."""
    PARAMETERS.update({name: {knob.native_name: knob for knob in knobs} for name, knobs in parameters.items()})
