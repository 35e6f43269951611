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
    """A point's pool and data, from which the count for a parameter's percentage may be computed."""

    frames: int
    """The number of frames that hold pages of data."""
    page_size_bytes: int
    shape: Mapping[str, Any] | None
    """The number of pages per level of every b-tree (`database.shape` in run.json); None if the engine does not report
    it."""
    edge_rows: int = 0
    """The number of rows next to each leaf of a table (in its neighbours) whose lookup by key gets this leaf too."""


@dataclass(frozen=True)
class Impossible:
    """The reason why parameters cannot be combined, although each is valid by itself."""

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
    """The version.

    Increase it when the schema, the loader's order or the transactions change, so that old data are not reused.
    """
    meaning: str
    words: str
    """The workload's name for readers."""
    parameters: tuple[Knob, ...]
    transaction_types: tuple[str, ...]
    """The names of the transaction types; () if the user's script names them."""
    headline: str
    """The name of the metric that answers a sweep's question."""
    compared: tuple[str, ...]
    """The names of the metrics that `bufferlab compare` judges, the headline first."""
    estimate_bytes: Callable[[Parameters, int], int]
    """A function that returns the loaded database's bytes, from parameters and page size, for plans before a load."""
    grows_bytes_per_transaction: float
    caveat: str
    """The caveat that reports must give with results."""
    relative_cost: float = 1.0
    """The cost of a transaction, as a multiple of one at the engine's declared rate, until a run here measures it."""
    estimate_shape: Callable[[Parameters, int], Mapping[str, Any]] | None = None
    """A function that returns the loaded database's trees, from parameters and page size, for plans before a load; or
    None."""
    resolve_share: Callable[[str, Decimal, Parameters, PoolAndData], int | Impossible] | None = None
    """A function that returns the count that a percentage stands for; None if no parameter may be a percentage."""
    impossible: Callable[[Parameters], Impossible | None] | None = None
    """A function that returns the reason why parameters cannot be combined, or None if they can."""
    too_many: Callable[[Parameters, int], Impossible | None] | None = None
    """A function that returns why that many connections cannot drive the workload, or None if they can."""
    settles_after: Callable[[Parameters], int] | None = None
    """A function that returns the number of transactions after which nearly every row that is read has been updated.

    None if no rows are updated.
    """
    only_on: tuple[OnlyOn, ...] = ()
    """The values that only some engines support. For other engines they are refused before anything starts."""
    needs_server: bool = False
    """Whether the workload is a separate process, which can drive only an engine that is a server."""
    engines: tuple[str, ...] = ()
    """The only engines on which the workload can run; if empty, all."""
    source: str = ""
    """The publication that the workload follows, as a reference; "" for none."""
    data_parameter: str = ""
    """The parameter that names another workload, whose data and data parameters this workload uses; "" for none."""

    def parameter(self, name: str) -> Knob | None:
        """Return the workload's parameter of that name; None if it has none."""
        return next((known for known in self.parameters if known.name == name), None)

    def defaults(self) -> dict[str, Setting]:
        """Return name of a parameter -> its default. A parameter that is a file has none."""
        return {knob.name: knob.parse(knob.default) for knob in self.parameters if knob.kind is not KnobKind.FILE}
