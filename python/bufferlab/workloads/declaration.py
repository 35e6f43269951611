"""The declaration of a workload: its parameters, transaction types and sizes. Pure data.

The core (crates/bufferlab-workload) has the logic of the transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from bufferlab.knob import Knob, KnobKind, Setting, Values

Parameters = Values
"""The values of a workload's parameters."""


@dataclass(frozen=True)
class PoolAndData:
    """The pool of a point and its data, on which the count of a percentage may depend."""

    frames: int
    """The number of frames that hold pages of data."""
    page_size_bytes: int
    shape: Mapping[str, Any] | None
    """Pages per level of every b-tree (`database.shape` in run.json); None if the engine does not report it."""
    edge_rows: int = 0
    """For each leaf of a table, the number of its neighbours' rows whose lookup by key gets this leaf as well."""


@dataclass(frozen=True)
class Impossible:
    """The reason why parameters that are right one by one cannot be combined."""

    what: str
    hint: str


@dataclass(frozen=True)
class OnlyOn:
    """A value of a workload's parameter that only some engines support, with those engines."""

    parameter: str
    value: str
    engines: tuple[str, ...]
    why: str
    """The reason, in words, why the other engines do not support the value."""


@dataclass(frozen=True)
class WorkloadDeclaration:
    """Everything that `spec`, `plan` and `report` need to know of a workload."""

    PRINTED: ClassVar = ("name", "version", "meaning", "caveat", "transaction_types", "parameters")

    name: str
    version: int
    """The version, raised when the schema, the loader's order or the transactions change: old data is not reused."""
    meaning: str
    words: str
    """The workload's name for readers."""
    parameters: tuple[Knob, ...]
    transaction_types: tuple[str, ...]
    """The names of the transaction types; empty when the user's script names them."""
    headline: str
    """The metric that answers a sweep's question."""
    compared: tuple[str, ...]
    """The metrics that `bufferlab compare` judges, the headline first."""
    estimate_bytes: Callable[[Parameters, int], int]
    """Returns the bytes of the loaded database, given the parameters and the page size; for plans before a load."""
    grows_bytes_per_transaction: float
    caveat: str
    """The caveat that reports must give with results."""
    relative_cost: float = 1.0
    """The cost of a transaction, in transactions of the engine's declared rate; used until a run here measured it."""
    estimate_shape: Callable[[Parameters, int], Mapping[str, Any]] | None = None
    """Returns the loaded database's trees, from the parameters and the page size, for plans before a load; or None."""
    resolve_share: Callable[[str, Decimal, Parameters, PoolAndData], int | Impossible] | None = None
    """Returns the count that a parameter's percentage stands for; None if no parameter may be a percentage."""
    impossible: Callable[[Parameters], Impossible | None] | None = None
    """Returns the reason why parameters cannot be combined; None if they can."""
    too_many: Callable[[Parameters, int], Impossible | None] | None = None
    """Returns the reason why that many connections cannot drive the workload; None if they can."""
    settles_after: Callable[[Parameters], int] | None = None
    """Returns the transactions after which nearly each row that is read was updated; None: no rows are updated."""
    only_on: tuple[OnlyOn, ...] = ()
    """The values that only some engines support. On the others they are refused before anything starts."""
    needs_server: bool = False
    """Whether the workload is a separate process, which can drive only an engine that is a server."""
    engines: tuple[str, ...] = ()
    """The only engines that the workload can run on; empty: any."""
    source: str = ""
    """The publication that the workload follows, as a reference; "" for none."""
    data_parameter: str = ""
    """The parameter that names the workload whose data, and parameters of data, this workload uses; "" for none."""

    def parameter(self, name: str) -> Knob | None:
        """Return the workload's parameter of that name; None if it has none."""
        return next((known for known in self.parameters if known.name == name), None)

    def defaults(self) -> dict[str, Setting]:
        """Return the default of each parameter by its name; a parameter that is a file has none."""
        return {knob.name: knob.parse(knob.default) for knob in self.parameters if knob.kind is not KnobKind.FILE}
