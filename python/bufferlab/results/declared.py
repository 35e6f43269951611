"""The parameters of all workloads, against which the values in a stored run are checked.

The workloads' registry hands them in when it is imported. Until then no value is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from bufferlab.knob import Knob

PARAMETERS: dict[str, Knob] = {}
"""Name in run.json -> parameter. Workloads that share a name mean the same by it."""


def hand_in(parameters: Iterable[Knob]) -> None:
    """Add parameters of workloads."""
    PARAMETERS.update({knob.native_name: knob for knob in parameters})
