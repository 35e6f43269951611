"""The parameters of all workloads, against which the values in a stored run are checked.

The workloads' registry hands them in when it is imported. Until then no value is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from bufferlab.knob import Knob

PARAMETERS: defaultdict[str, list[Knob]] = defaultdict(list)
"""Name in run.json -> the parameters of that name: workloads may share a name, and each has words of its own for it."""


def hand_in(parameters: Iterable[Knob]) -> None:
    """Add parameters of workloads."""
    for knob in parameters:
        PARAMETERS[knob.native_name].append(knob)


def fits(name: str, told: object) -> bool:
    """Return whether some workload may have run with this value; true of a name that no workload declares."""
    knobs = PARAMETERS.get(name, ())
    return not knobs or any(knob.fits(told) for knob in knobs)
