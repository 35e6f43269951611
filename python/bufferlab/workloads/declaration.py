"""What a workload says about itself: parameters, transaction types, sizes. Pure data.

The logic of the transactions is in the core (crates/bufferlab-workload), not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from bufferlab.knob import Knob, KnobKind, Native

Parameters = Mapping[str, Native]
"""Parameters as the core takes them, keyed by native name."""


@dataclass(frozen=True)
class PoolAndData:
    """What a share of a count may depend on: the pool of a point, and the data below it."""

    frames: int
    """Those that hold pages of data."""
    page_size_bytes: int
    shape: Mapping[str, Any] | None
    """Trees of the loaded database, as run.json's `database.shape` has them; None when the engine tells none."""
    edge_rows: int = 0
    """Rows beside each leaf whose lookup by key gets that leaf too."""


@dataclass(frozen=True)
class Impossible:
    """Why parameters that are right one by one cannot be together."""

    what: str
    hint: str


@dataclass(frozen=True)
class OnlyOn:
    """A parameter's value that only some engines can give."""

    parameter: str
    value: str
    engines: tuple[str, ...]
    why: str
    """Why the others cannot, in words."""


@dataclass(frozen=True)
class WorkloadDeclaration:
    """Everything `spec`, `plan` and `report` need to know of a workload."""

    name: str
    version: int
    """Raised when the schema, the loader's order or the transactions change: old data is not reused."""
    meaning: str
    parameters: tuple[Knob, ...]
    transaction_types: tuple[str, ...]
    """Empty when the user's script names them."""
    headline: str
    """The metric that answers a sweep's question."""
    compared: tuple[str, ...]
    """The metrics that `bufferlab compare` judges, the headline first."""
    estimate_bytes: Callable[[Parameters, int], int]
    """Bytes of the loaded database from the parameters and the page size; for plans before a load."""
    grows_bytes_per_transaction: float
    caveat: str
    """What reports must say about results."""
    relative_cost: float = 1.0
    """Transactions of the engine's declared rate that one of this workload takes; until a run here has told."""
    estimate_shape: Callable[[Parameters, int], Mapping[str, Any]] | None = None
    """The trees of a loaded database from the parameters and the page size; for plans before a load."""
    resolve_share: Callable[[str, Decimal, Parameters, PoolAndData], int | Impossible] | None = None
    """The count that a share of a parameter's whole is; needed where a parameter may be a share."""
    impossible: Callable[[Parameters], Impossible | None] | None = None
    """What parameters cannot be together, if anything."""
    only_on: tuple[OnlyOn, ...] = ()
    """Values that only some engines can give: refused on the others before anything starts."""
    needs_server: bool = False
    """It is a process of its own, which only an engine that is a server can be driven by."""
    engines: tuple[str, ...] = ()
    """The only engines it can be run on; empty: any."""
    data_parameter: str = ""
    """The parameter that names the workload whose data this one works on; that one's data parameters are added."""

    def parameter(self, name: str) -> Knob | None:
        """The parameter of that name, if there is one."""
        return next((known for known in self.parameters if known.name == name), None)

    def defaults(self) -> dict[str, str]:
        """The parameters' defaults in canonical text; a file has none."""
        return {knob.name: knob.parse(knob.default) for knob in self.parameters if knob.kind is not KnobKind.FILE}
