"""Numbers with units: a small algebra in which pages per second and pages per minute cannot be confused.

A Quantity is a formula over a measured window; dividing and adding formulas divides and checks their units.
A missing number stays missing and carries its reason through every formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bufferlab.results.window import Value, Window

#: Units that are another unit times a factor. All others are base units ("page", "New-Order").
_SCALED = {
    "ns": ("s", 1e-9),
    "us": ("s", 1e-6),
    "ms": ("s", 1e-3),
    "KiB": ("byte", 1024.0),
    "MB": ("byte", 1e6),
}
_PLURALS = frozenset(
    (
        *("bytes", "pages", "gets", "reads", "writes", "requests", "transactions", "syncs", "faults", "rows"),
        *("arrivals", "frames", "loops", "scans", "splits", "merges", "statements", "waits"),
        *("checkpoints", "records", "operations", "hits", "evictions", "reuses", "rounds", "deadlocks"),
    )
)
_SINGULAR = {"batches": "batch", "searches": "search"}


class UnitMismatchError(AssertionError):
    """The error that a formula adds or declares units that do not fit: a bug, found when the module is imported."""


@dataclass(frozen=True)
class Unit:
    """A product of powers of base units, times a scale."""

    powers: tuple[tuple[str, int], ...]
    scale: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Unit:
        """Return the unit in a text like "pages/New-Order", "KiB/s" or "1".

        >>> Unit.parse("ms/request") == Unit.parse("ms") / Unit.parse("requests")
        True
        """
        top, _, bottom = text.partition("/")
        return _single(top) / _single(bottom) if bottom else _single(top)

    def __truediv__(self, other: Unit) -> Unit:
        powers = dict(self.powers)
        for name, power in other.powers:
            powers[name] = powers.get(name, 0) - power
        kept = tuple(sorted((name, power) for name, power in powers.items() if power))
        return Unit(kept, self.scale / other.scale)

    def factor_to(self, other: Unit) -> float:
        """Return the factor that turns a number in this unit into a number in the other one."""
        if self.powers != other.powers:
            raise UnitMismatchError(f"{self} is not {other}")
        return self.scale / other.scale

    def __str__(self) -> str:
        return "·".join(f"{name}^{power}" for name, power in self.powers) or "1"


def _single(name: str) -> Unit:
    if name == "1":
        return Unit(())
    name = _SINGULAR.get(name, name[:-1] if name in _PLURALS else name)
    base, scale = _SCALED.get(name, (name, 1.0))
    return Unit(((base, 1),), scale)


@dataclass(frozen=True)
class Quantity:
    """A formula over a measured window, and the unit of its result."""

    unit: Unit
    evaluate: Callable[[Window], Value]
    name: str
    reads: frozenset[str]
    """The metrics whose samples decide its value, or the reason for its absence."""

    def __truediv__(self, other: Quantity) -> Quantity:
        def divide(window: Window) -> Value:
            top, bottom = self.evaluate(window), other.evaluate(window)
            if top.value is None or bottom.value is None:
                return Value(None, top.reason or bottom.reason)
            if bottom.value == 0:
                return Value(None, f"{other.name} is zero in the measured window")
            return Value(top.value / bottom.value)

        return Quantity(self.unit / other.unit, divide, f"{self.name} / {other.name}", self.reads | other.reads)

    def __add__(self, other: Quantity) -> Quantity:
        factor = other.unit.factor_to(self.unit)

        def add(window: Window) -> Value:
            first, second = self.evaluate(window), other.evaluate(window)
            if first.value is None or second.value is None:
                return Value(None, first.reason or second.reason)
            return Value(first.value + factor * second.value)

        return Quantity(self.unit, add, f"({self.name} + {other.name})", self.reads | other.reads)

    def __sub__(self, other: Quantity) -> Quantity:
        factor = other.unit.factor_to(self.unit)

        def subtract(window: Window) -> Value:
            first, second = self.evaluate(window), other.evaluate(window)
            if first.value is None or second.value is None:
                return Value(None, first.reason or second.reason)
            return Value(first.value - factor * second.value)

        return Quantity(self.unit, subtract, f"({self.name} - {other.name})", self.reads | other.reads)

    def complement(self) -> Quantity:
        """Return one minus a share."""
        factor = self.unit.factor_to(Unit(()))

        def subtract(window: Window) -> Value:
            share = self.evaluate(window)
            return share if share.value is None else Value(1.0 - factor * share.value)

        return Quantity(Unit(()), subtract, f"1 - {self.name}", self.reads)

    def counted_as(self, unit: str) -> Quantity:
        """Return the same number under another name, where each of these is one of those (a page read is a read)."""
        return Quantity(Unit.parse(unit), self.evaluate, self.name, self.reads)

    def in_unit(self, unit: str) -> Quantity:
        """Return the same quantity in the declared unit; refuse a unit of another kind."""
        target = Unit.parse(unit)
        factor = self.unit.factor_to(target)

        def convert(window: Window) -> Value:
            value = self.evaluate(window)
            return value if value.value is None else Value(factor * value.value)

        return Quantity(target, convert, self.name, self.reads)


def checked(name: str, formula: Quantity, unit: str) -> Quantity:
    """Return a formula in the unit declared for its value; UnitMismatchError if it gives a number of another kind."""
    try:
        return formula.in_unit(unit)
    except UnitMismatchError as error:
        raise UnitMismatchError(f"{name}: the formula gives {error}") from None
