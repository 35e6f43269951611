"""The settings of the load: how transactions arrive, for every engine and workload.

By default the loop is closed: the next transaction begins when the last has ended. With a rate the loop is open:
transactions arrive whether or not the engine keeps up, as with users who do not know of each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from bufferlab.knob import UNLIMITED, Knob

LOAD_KNOBS: tuple[Knob, ...] = (
    Knob.number("rate",
                "transactions that arrive each second (open loop); unlimited: the next begins when the last ended",
                spelling="rate_per_s", unit="per_s", choices=(UNLIMITED,), default=UNLIMITED,
                minimum=Decimal("0.001"), maximum=10_000_000),
    Knob.choice("arrivals", ("poisson", "constant"),
                "with a rate: the times between arrivals are random and independent, or all equal", default="poisson"),
    Knob.duration("patience", "with a rate: an arrival that has waited longer is dropped, and counted", default="10s",
                  minimum=Decimal("0.001"), maximum=86_400),
    Knob.choice("arm", tuple("abcdefgh"),
                "a label that changes nothing: points that differ in it alone show the noise of this host",
                default="a"),
)  # fmt: skip

#: The connections that run transactions at once. It stands in [workload]; its default is the engine's.
CONNECTIONS = Knob.count("connections", "connections that run transactions at the same time; only servers take several",
                         default="8", minimum=1, maximum=1000)  # fmt: skip


def by_name() -> Mapping[str, Knob]:
    """Return the load's settings, keyed by the name that people write."""
    return {knob.name: knob for knob in LOAD_KNOBS}
