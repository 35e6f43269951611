"""Formulas with units: an algebra that keeps, for example, pages per second and pages per minute apart.

A Quantity is a formula over a measured window. Dividing formulas divides their units; adding them checks their units.
If a number in a formula is missing, the result is missing too, for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from bufferlab.results.window import Value, Window

#: Units that equal another unit times a factor. All other units are base units ("page", "New-Order").
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
    """The error for a formula whose units do not fit each other or the declared unit: a bug, raised at import."""


@dataclass(frozen=True)
class Unit:
    """A unit: a product of powers of base units, times a scale."""

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
        """Return the factor that turns a number in this unit into a number in the other unit.

        Raises UnitMismatchError if the base units differ.
        """
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


class Term:
    """A part of a formula: a counter, which stands for its growth in the window, or a quantity."""

    __slots__ = ()

    def quantity(self) -> Quantity:
        """Return this part as a quantity."""
        raise NotImplementedError

    def __truediv__(self, other: Term) -> Quantity:
        top, bottom = self.quantity(), other.quantity()

        def divided(first: float, second: float) -> Value:
            return Value(first / second) if second else Value(None, f"{bottom.name} is zero in the measured window")

        return _of_two(top, bottom, top.unit / bottom.unit, f"{top.name} / {bottom.name}", divided)

    def __add__(self, other: Term) -> Quantity:
        first, second = self.quantity(), other.quantity()
        factor, name = second.unit.factor_to(first.unit), f"({first.name} + {second.name})"
        return _of_two(first, second, first.unit, name, lambda a, b: Value(a + factor * b))

    def __sub__(self, other: Term) -> Quantity:
        first, second = self.quantity(), other.quantity()
        factor, name = second.unit.factor_to(first.unit), f"({first.name} - {second.name})"
        return _of_two(first, second, first.unit, name, lambda a, b: Value(a - factor * b))

    def __rsub__(self, whole: Literal[1]) -> Quantity:
        """Return the formula 1 - share. Raises UnitMismatchError if this term has a unit."""
        share = self.quantity()
        factor = share.unit.factor_to(Unit(()))

        def rest(window: Window) -> Value:
            found = share.evaluate(window)
            return found if found.value is None else Value(whole - factor * found.value)

        return replace(share, unit=Unit(()), evaluate=rest, name=f"1 - {share.name}")


@dataclass(frozen=True)
class Quantity(Term):
    """A formula over a measured window, and the unit of its result."""

    unit: Unit
    evaluate: Callable[[Window], Value]
    name: str
    reads: frozenset[str]
    """The metrics whose samples the formula reads."""
    is_timed: bool = False
    """Whether the formula contains the window's length in seconds."""

    def quantity(self) -> Quantity:
        return self

    def counted_as(self, unit: str) -> Quantity:
        """Return the same number under another unit. Each counted thing must be one of that unit.

        For example, each page that was read is one read.
        """
        return replace(self, unit=Unit.parse(unit))

    def in_unit(self, unit: str) -> Quantity:
        """Return the same quantity in another unit. Raises UnitMismatchError for a unit of another kind."""
        target = Unit.parse(unit)
        factor = self.unit.factor_to(target)

        def convert(window: Window) -> Value:
            value = self.evaluate(window)
            return value if value.value is None else Value(factor * value.value)

        return replace(self, unit=target, evaluate=convert)


def _of_two(one: Quantity, other: Quantity, unit: Unit, name: str, of: Callable[[float, float], Value]) -> Quantity:
    def evaluate(window: Window) -> Value:
        first, second = one.evaluate(window), other.evaluate(window)
        if first.value is None or second.value is None:
            return Value(None, first.reason or second.reason)
        return of(first.value, second.value)

    return Quantity(unit, evaluate, name, one.reads | other.reads, one.is_timed or other.is_timed)


def elapsed() -> Quantity:
    """Return the formula of the seconds between the two edge samples of a window."""

    def seconds(window: Window) -> Value:
        if window.seconds is None:
            return Value(None, "the run has no edge samples: it ended before its measured window did")
        if window.seconds == 0:
            return Value(None, "no time passes in this window: it was predicted by a model without time")
        return Value(window.seconds)

    return Quantity(Unit.parse("s"), seconds, "the window's length", frozenset(), is_timed=True)


def checked(name: str, formula: Quantity, unit: str) -> Quantity:
    """Return the formula of the value `name` in the unit declared for it.

    Raises UnitMismatchError, which names the value, if the formula gives a unit of another kind.
    """
    try:
        return formula.in_unit(unit)
    except UnitMismatchError as error:
        raise UnitMismatchError(f"{name}: the formula gives {error}") from None
