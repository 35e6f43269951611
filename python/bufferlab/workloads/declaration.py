"""What a workload says about itself: parameters, transaction types, sizes. Pure data.

The logic of the transactions is in the core (crates/bufferlab-workload), not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """One parameter of a workload: a whole number with limits."""

    name: str
    default: int
    minimum: int
    maximum: int
    unit: str
    meaning: str


@dataclass(frozen=True)
class WorkloadDeclaration:
    """Everything `spec`, `plan` and `report` need to know of a workload."""

    name: str
    version: int
    """Raised when the schema, the loader's order or the transactions change: old data is not reused."""
    meaning: str
    parameters: tuple[Parameter, ...]
    transaction_types: tuple[str, ...]
    counted_type: str
    """The type that "per New-Order" divides by."""
    counted_share: float
    """The share of that type among all transactions."""
    estimate_bytes: Callable[[Mapping[str, int], int], int]
    """Bytes of the loaded database from the parameters and the page size; for plans before a load."""
    grows_bytes_per_transaction: float
    caveat: str
    """What reports must say about results."""

    def parameter(self, name: str) -> Parameter | None:
        """The parameter of that name, if there is one."""
        return next((known for known in self.parameters if known.name == name), None)

    def defaults(self) -> dict[str, int]:
        """The parameters' defaults."""
        return {parameter.name: parameter.default for parameter in self.parameters}
