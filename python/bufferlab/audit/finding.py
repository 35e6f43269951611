"""The finding of a rule: the place, the fact with its numbers, why it matters, and the value that should be there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bufferlab.importers.text import Place

if TYPE_CHECKING:
    from bufferlab.audit.case import Case


@dataclass(frozen=True)
class Finding:
    """One statement of a file that does not hold."""

    rule: str
    where: Place
    what: str
    consequence: str
    corrected: str
    numbers: dict[str, object] = field(default_factory=dict)
    """The finding's numbers for programs: plain numbers, lists and texts."""


@dataclass(frozen=True)
class Rule:
    """A question that the audit asks of every case: its name, its words, and the function that answers it."""

    name: str
    question: str
    check: Callable[[Case], Iterator[Finding]]
